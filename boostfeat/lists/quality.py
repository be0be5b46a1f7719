"""Quality columns: numbers from elsewhere that say how good hypotheses are, put beside a list by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..metrics.metric import METRICS, Metric, metric_of
from .joining import check_numbers
from .nbest import NBest, quality_unit
from .tables import Numbers, name_and_file, read_numbers, split_spec

QUALITY = "quality"  # name of a column that was given without one
LOWER = {*(name for name, metric in METRICS.items() if metric.lower_is_better), "loss", "nll", "ppl", "perplexity", "error"}
LOWER |= {"errors", "edits", "distance", "cost"}
_NAME = re.compile(r"[^\s,=*]+")


def join_quality(nbest: NBest, name: str, numbers: Numbers, path: str, *, lower: bool = False) -> NBest:
    """The list with a quality column: a number a hypothesis, in its order. A file that shows its texts must show these."""
    check_name(name)
    check_numbers(nbest, numbers, path)
    weight = np.ones(len(numbers)) if numbers.denominators is None else numbers.denominators
    if not isfinite(quality_unit(numbers.values, weight, nbest.hyp_ptr)):
        with np.errstate(over="ignore"):
            k = int(np.argmax(~np.isfinite(numbers.values / np.where(weight > 0, weight, 1.0))))  # the first
        raise InputError(
            f"{path}: row {k + 1}: expected a numerator and a denominator of a finite ratio, found {numbers.values[k]:g} and "
            f"{weight[k]:g}; repair the file"
        )
    return nbest.with_quality(name, numbers.values, weight, lower_is_better=lower)


def join_qualities(nbest: NBest, specs: Iterable[str], lower: Collection[str] = ()) -> NBest:
    """The list with the columns of NAME=FILE[:COLUMN] each; those named in ``lower`` are better when lower."""
    columns = [name_and_file(f"--quality {spec}", spec) for spec in specs]
    names = [name for name, _ in columns]
    if twice := next((name for k, name in enumerate(names) if name.lower() in map(str.lower, names[:k])), None):
        raise InputError(f"--quality {twice}: expected each name once, found it twice; choose another")
    known = (*names, *nbest.quality.names)
    if unknown := next((name for name in lower if name not in known), None):
        names_known = ", ".join(known) or "none is given"
        raise InputError(f"--lower-is-better {unknown}: expected a quality column ({names_known}), found none of that name")
    for name, spec in columns:
        nbest = join_quality(nbest, name, read_numbers(spec), split_spec(spec)[0], lower=name in lower)
    own = nbest.quality
    turned = tuple(low or name in lower for name, low in zip(own.names, own.lower, strict=True))
    for name, low in zip(own.names, turned, strict=True):
        if not low and LOWER & {*re.split(r"[\W_\d]+", name.lower())}:
            raise InputError(
                f"quality column {clip(name)} sounds as if lower were better; give --lower-is-better {name}, or another name"
            )
    return nbest if turned == own.lower else replace(nbest, quality=replace(own, lower=turned))


def quality_values(values: Any, nbest: NBest, where: str) -> F64:
    """Check the quality of hypotheses: a number for each, or a sequence of numbers for each list."""
    nested = len(values) == len(nbest) and len(values) > 0 and all(np.ndim(own) == 1 for own in values)
    flat = np.concatenate([np.asarray(own, np.float64) for own in values]) if nested else np.asarray(values, np.float64)
    fits = [len(own) for own in values] == np.diff(nbest.hyp_ptr).tolist() if nested else flat.shape == (nbest.n_hyps,)
    if not fits or not np.isfinite(flat).all():
        found = "nan or infinity" if fits else "lists of other sizes" if nested else " x ".join(map(str, flat.shape))
        raise ValueError(f"{where}: expected a finite number for each of {nbest.n_hyps} hypotheses, found {found}")
    return flat


def default_metric(nbest: NBest) -> str:
    """Return what a list is judged by where nothing is said: BLEU, or without references its first quality column."""
    if not nbest.has_stats and not nbest.quality.names:
        raise InputError("expected a list with references or a quality column, found neither; import it with -r or --quality")
    return "bleu" if nbest.has_stats else nbest.quality.names[0]


def choosing_metric(select: NBest, name: str) -> Metric:
    """The metric that chooses on a held-out list: raises where the list lacks it, or where it cannot tell hypotheses apart."""
    try:
        metric = metric_of(name, select)
        metric.check_learnable(select)
    except InputError as error:
        raise InputError(f"select: {error}") from None
    return metric


def check_name(name: str) -> None:
    """Raise for a name that means something else where metrics are named, in whatever case."""
    if name.lower() in METRICS or re.fullmatch(r"bleu\+[\d.]+", name.lower()) or not _NAME.fullmatch(name):
        raise InputError(
            f"quality column {clip(name)}: expected a name that is no metric, without blanks, ',', '=' and '*'; choose another"
        )
