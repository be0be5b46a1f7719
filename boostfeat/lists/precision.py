"""The printed precision of a list's features: found when a list is read, and kept with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf

import numpy as np

from ..core.arrays import F64, I64
from ..core.printed_numbers import EXACT, Precision
from .nbest import NBest

KEY = "precision"  # in the list's meta
CHUNK = 1024  # hypotheses whose sums are held at a time
SAMPLE = 50_000  # units, and hypotheses, that are looked at: the last digit of numbers shows soon
FEW = 100  # numbers that are looked at before the others
DIGITS = (5, 8)  # significant ones: fewer are numbers that happen to be short, more are all that single precision has
SINGLE = float(np.finfo(np.float32).max)
DECIMALS = (2, 7)  # the same of numbers with a fixed number of decimals; whole numbers are exact


def with_precision(nbest: NBest) -> NBest:
    """The list with what its unit features tell about themselves."""
    return replace(nbest, meta={**nbest.meta, KEY: json.dumps(_found(nbest))})


def precision_of(nbest: NBest, names: Sequence[str]) -> list[Precision]:
    """Return the precision of these features; a list that says nothing is looked at. Unknown features are exact."""
    told = json.loads(nbest.meta[KEY]) if KEY in nbest.meta else _found(nbest)
    return [Precision(float(told[name][0]), int(told[name][1])) if name in told else EXACT for name in names]


def with_derived(nbest: NBest, derived: dict[str, Precision]) -> dict[str, str]:
    """The meta of a list with more features that are not exact."""
    inexact = {name: list(p) for name, p in derived.items() if p != EXACT}
    if not inexact:
        return nbest.meta
    told = json.loads(nbest.meta[KEY]) if KEY in nbest.meta else _found(nbest)
    return {**nbest.meta, KEY: json.dumps({**told, **inexact})}


def _found(nbest: NBest) -> dict[str, tuple[float, int]]:
    """Return the precision of the unit features that no template made, where they are not exact."""
    made = {name for group in json.loads(nbest.meta.get("templates", "[]")) for name in group.get("features", ())}
    units = _some(nbest.n_units)
    if not len(units):
        return {}
    sums = cache(lambda: _largest(nbest, _some(nbest.n_hyps)))
    x = nbest.units.x  # a column at a time: features may fill most of the memory
    own = [(k, name) for k, name in enumerate(nbest.unit_names) if name not in made]
    found = {name: printed_precision(x[units, k], partial(lambda k: float(sums()[k]), k)) for k, name in own}
    return {name: (p.step, p.digits) for name, p in found.items() if p != EXACT}


def _largest(nbest: NBest, hyps: I64) -> F64:
    """[len(global_names)] the largest sum, without its sign, of each feature over these hypotheses."""
    largest = np.zeros(len(nbest.global_names))
    with np.errstate(over="ignore", invalid="ignore"):  # enormous sums are no single precision
        for a in range(0, len(hyps), CHUNK):
            largest = np.maximum(largest, np.abs(nbest.global_rows(hyps[a : a + CHUNK])).max(axis=0))
    return largest


def _some(n: int) -> I64:
    """Positions, evenly over all n; all of them if they are few."""
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))


def printed_precision(values: F64, largest: Callable[[], float]) -> Precision:
    """Return the precision of printed finite numbers; ``largest`` gives the largest sum of which they are differences.

    It is asked for only where numbers have so many significant digits, since sums take longer than all else.
    """
    some = np.unique(values[values != 0])
    if not len(some):
        return EXACT
    exponent = np.floor(np.log10(np.abs(some)))
    fixed = _fewest(some, np.zeros(len(some)), DECIMALS[1])
    digits = _fewest(some, -1 - exponent, DIGITS[1])
    # numbers of so many digits have more decimals the smaller they are
    if fixed >= DECIMALS[0] and fixed < digits - 1 - exponent.min():
        return Precision(10.0**-fixed) if fixed <= DECIMALS[1] else EXACT
    if not DIGITS[0] <= digits <= DIGITS[1] or not (most := largest()) < SINGLE:
        return EXACT
    return Precision(float(np.spacing(np.float32(most))), int(digits))


def _fewest(x: F64, shift: F64, most: int) -> float:
    """The fewest decimals, beyond those that each number is shifted by, that all of x have; infinity if more than ``most``."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):  # of enormous and tiny numbers: no match
        for n in range(most + 1):
            if _have_decimals(x[:FEW], n + shift[:FEW]) and _have_decimals(x, n + shift):  # a few of them tell soon
                return n
    return inf


def _have_decimals(x: F64, n: F64) -> bool:
    """Tell whether each number of x [m] has no more than so many decimals n [m]."""
    scale = 10.0**n
    return bool((np.abs(np.rint(x * scale) / scale - x) <= 1e-12 * np.abs(x)).all())
