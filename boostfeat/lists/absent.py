"""Features that some hypotheses lack while nearly all have them: absent is not zero, which is the best log-probability.

Readers mark a dense value of a hypothesis that its list does not give by -0.0, which every sum takes for 0; a zero that is
given is 0.0. Features of units are absent where a hypothesis with words has no units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from ..core.arrays import F64, I64, Array, Bool
from ..core.errors import InputError, counted
from .agreement import shown
from .nbest import NBest

FEW = 0.1  # of the hypotheses, which lack a feature that nearly all have; or one of them
WAYS = ("refuse", "zero", "worst")
HELP = "Features that few hypotheses lack: refuse, zero, or worst of a list (default: zero, with a warning)"


def are_few(n: Array, of: int) -> Bool:
    """Tell whether so many hypotheses are few enough to be mistakes."""
    return np.asarray((n > 0) & (n < of) & (n <= max(1.0, FEW * of)))


def is_absent(x: F64) -> Bool:
    """Tell which values are marked as absent."""
    return np.asarray((x == 0) & np.signbit(x))


def absent_features(nbest: NBest) -> dict[str, I64]:
    """Return by feature the hypotheses that lack it while nearly all have it."""
    lacks = is_absent(nbest.extra)
    found = {name: np.flatnonzero(lacks[:, j]) for j, name in enumerate(nbest.extra_names) if lacks[:, j].any()}
    bare = np.flatnonzero((np.diff(nbest.unit_ptr) == 0) & (np.asarray(pc.binary_length(nbest.text)) > 0))
    if are_few(np.array(len(bare)), nbest.n_hyps):
        found |= {name: bare for name in nbest.unit_names if name not in nbest.extra_names}
    return found


def with_absent(nbest: NBest, missing: str | None, where: str, warn: Callable[[str], None]) -> NBest:
    """Return the list with values that are absent as ``missing`` says (WAYS); None: they count as 0, and are told."""
    absent = absent_features(nbest)
    if not absent or missing == "zero":
        return nbest
    if missing == "worst":
        return _with_worst(nbest, absent)
    lacking = np.unique(np.concatenate(list(absent.values())))
    sent = int(nbest.sent_of_hyp[lacking[0]])
    place = f"first in sentence {nbest.ids[sent]}, hypothesis {lacking[0] - nbest.hyp_ptr[sent] + 1}"
    line = f"{where}: {counted(len(lacking), 'hypothesis')} of {nbest.n_hyps:,} without {shown(list(absent))}, {place}"
    if missing == "refuse":
        raise InputError(f"{line}; repair the list, or give --missing worst or zero")
    warn(f"warning: {line}; what is absent counts as 0, which may be the best value: --missing worst takes the lowest of a list")
    return nbest


def _with_worst(nbest: NBest, absent: dict[str, I64]) -> NBest:
    """Return the list with the lowest value that the others of a list have, or all lists where they have none."""
    names = tuple(dict.fromkeys([*nbest.extra_names, *absent]))
    extra = np.zeros((nbest.n_hyps, len(names)))
    extra[:, : len(nbest.extra_names)] = nbest.extra
    for name, hyps in absent.items():
        values = nbest.global_column(name)
        values[hyps] = np.inf
        lowest = np.full(len(nbest), np.inf)
        np.minimum.at(lowest, nbest.sent_of_hyp, values)
        lowest[lowest == np.inf] = values.min()
        extra[hyps, names.index(name)] = lowest[nbest.sent_of_hyp[hyps]]
    return replace(nbest, extra=extra, extra_names=names)
