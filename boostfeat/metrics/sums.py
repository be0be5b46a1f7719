"""Metrics of sums of statistics in compiled loops: what a hypothesis would do to a corpus, line search by line search.

A metric is a weighted sum of parts, each a known function of some of the columns: its recipe. ``Metric.score`` is the same
function on arrays; learners that look at one row at a time use these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.arrays import F64, I64
from ..core.kernels import kernel
from .chrf import f_score

# What a part is of its columns:
BLEU = 0  # bleu.corpus_bleu of (c1..c4, t1..t4, hyp_len, ref_len, strict_len)
STRICT = 1  # the same with the strict brevity penalty
RATIO = 2  # first / second, 0 where the second is 0
EDITS = 3  # first / second, the first where the second is 0: edits for an empty reference
TER = 4  # first / second, 1 where the second is 0 and the first is not
CHRF = 5  # chrf.f_score of (hyp, ref, match) of each order


class Recipe(NamedTuple):
    """P parts of statistics [n]: Σ_p weight_p kind_p(statistics[start_p:stop_p]), higher is better."""

    kind: I64  # [P]
    start: I64  # [P]
    stop: I64  # [P]
    weight: F64  # [P]
    size: int  # the column that says how much a row weighs in the corpus

    @classmethod
    def of(cls, parts: list[tuple[float, int, int]], size: int) -> Recipe:
        """The recipe of parts (weight, kind, number of columns), one behind the other."""
        weight, kind, width = zip(*parts, strict=True)
        stop = np.cumsum(width, dtype=np.int64)
        return cls(np.array(kind, np.int64), stop - np.array(width, np.int64), stop, np.array(weight, np.float64), size)

    @property
    def width(self) -> int:
        return int(self.stop[-1])


@kernel
def _bleu(sums, strict):  # type: ignore[no-untyped-def]
    """bleu.corpus_bleu of statistics [11], with roots in place of logarithms."""
    matches = totals = smooth = 1.0
    some = False
    for k in range(4):
        c, t = sums[k], sums[4 + k]
        if t <= 0.0:
            return 0.0
        if c > 0.0:
            some = True
            matches *= c
        else:
            smooth *= 0.5  # the k-th zero count is taken as 1 / 2^k, as sacrebleu does
            matches *= smooth
        totals *= t
    length, ref_len = sums[10] if strict else sums[8], sums[9]
    if not some or length <= 0.0:
        return 0.0
    gain = np.sqrt(np.sqrt(matches / totals))
    return gain * np.exp(1.0 - ref_len / length) if length < ref_len else gain


@kernel
def gain_of(recipe, sums):  # type: ignore[no-untyped-def]
    """The metric of statistics [n], better when higher."""
    out = 0.0
    for p in range(len(recipe.kind)):
        kind, part = recipe.kind[p], sums[recipe.start[p] : recipe.stop[p]]
        if kind <= STRICT:
            value = _bleu(part, kind == STRICT)
        elif kind == CHRF:
            value = f_score(part)
        elif part[1] != 0:
            value = part[0] / part[1]
        elif kind == EDITS:
            value = float(part[0])
        else:
            value = 1.0 if kind == TER and part[0] > 0 else 0.0
        out += recipe.weight[p] * value
    return out


@kernel
def context_gain(recipe, row, sums, total):  # type: ignore[no-untyped-def]
    """The gain of a row [n] added to the statistics [n] of a corpus; OUT total [n], their sum."""
    for k in range(len(total)):
        total[k] = sums[k] + row[k]
    return gain_of(recipe, total)


@kernel
def add_row(row, sign, sums):  # type: ignore[no-untyped-def]
    """sums [n] += sign times a row."""
    for k in range(len(sums)):
        sums[k] += sign * row[k]
