"""Numbers that can be learned from: features whose values are beyond all measure are left out, and named.

What is there and cannot be learned from, since no feature has it, is named too: the decoder's own ranking.

Readers refuse NaN and infinities. What is left may still be 1e308, whose square is not finite, or 1e-310, whose inverse is not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.arrays import F64, block_ptr
from .nbest import NBest, SparseRows

UNEXPLAINED = 0.1  # of the variance of its differences within lists, that the best weighted sum of features may leave
SMALLEST, LARGEST = 1e-60, 1e60  # of a feature's largest value: fourth powers of such numbers, and their inverses, are finite


def out_of_range(nbest: NBest) -> dict[str, float]:
    """Features that cannot be learned from, with their largest absolute values (NaN where one is NaN)."""
    largest: dict[str, float] = {}
    for columns, sizes in nbest.largest_values:
        wrong = np.flatnonzero((sizes != 0) & ~((sizes >= SMALLEST) & (sizes <= LARGEST)))  # also NaN
        for j in wrong.tolist():
            largest[columns[j]] = float(np.maximum(largest.get(columns[j], 0.0), sizes[j]))
    return largest


def learnable(nbest: NBest, names: Collection[str] | None = None) -> NBest:
    """Return the lists with features that cannot be learned from set to 0: these, or those that are found."""
    names = out_of_range(nbest) if names is None else names
    if not names:
        return nbest
    sparse = np.array([name in names for name in nbest.sparse_names.to_pylist()], bool)

    def dense_part(x: F64, columns: tuple[str, ...]) -> F64:
        return np.where(np.array([name in names for name in columns], bool), 0.0, x)

    def sparse_part(rows: SparseRows) -> SparseRows:
        return replace(rows, val=np.where(sparse[rows.idx], 0.0, rows.val)) if len(rows.idx) else rows

    units = replace(nbest.units, x=dense_part(nbest.X, nbest.unit_names), sparse=sparse_part(nbest.units.sparse))
    extra, extra_sparse = dense_part(nbest.extra, nbest.extra_names), sparse_part(nbest.extra_sparse)
    return replace(nbest, units=units, extra=extra, extra_sparse=extra_sparse)


def ranges(nbest: NBest, names: Collection[str]) -> dict[str, list[float]]:
    """Return the least and the largest value that hypotheses have of each of these features."""
    known = [name for name in nbest.global_names if name in names]
    found = [part for part in nbest.in_parts(partial(_ranges, names=known)) if part]
    return {name: [min(part[name][0] for part in found), max(part[name][1] for part in found)] for name in known if found}


def _ranges(nbest: NBest, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    columns = ((name, nbest.global_column(name)) for name in names if nbest.n_hyps)
    return {name: (float(values.min()), float(values.max())) for name, values in columns}


def range_warnings(nbest: NBest, said: Collection[str] = ()) -> dict[str, str]:
    """A line for each feature that is left out, by name; not for those that were said already."""
    return {
        name: f"feature {name} has values up to {size:g}, outside {SMALLEST:g} to {LARGEST:g}: it is left out, its weight is 0"
        for name, size in out_of_range(nbest).items()
        if name not in said
    }


def lost_ranking(nbest: NBest) -> str | None:
    """A line where the decoder's scores are far from any weighted sum of the dense features, so that no learner has them.

    Scores count within lists: what all hypotheses of a list share (Moses' penalty for unknown words) is no loss.
    """
    if len(nbest.sparse_names):
        return None
    return nbest.in_parts(_lost_ranking, int(block_ptr(len(nbest))[1]))[0]


def _lost_ranking(nbest: NBest) -> str | None:
    part = learnable(nbest)
    if not part.n_hyps or not part.has_scores:
        return None
    columns = np.column_stack([part.score, part.global_features])
    counts = np.diff(part.hyp_ptr)
    sums = np.zeros((len(part), columns.shape[1]))
    np.add.at(sums, part.sent_of_hyp, columns)
    apart = columns - (sums / np.maximum(counts, 1)[:, None])[part.sent_of_hyp]
    apart /= np.maximum(np.abs(apart).max(axis=0), SMALLEST)
    y, x = apart[:, 0], apart[:, 1:]
    total = float(y @ y)
    left = total and float(np.square(y - x @ np.linalg.lstsq(x, y, rcond=None)[0]).sum())
    if left <= UNEXPLAINED * total:
        return None
    return (
        f"the decoder's score is no feature, and no weighted sum of features is near it ({1 - left / total:.0%} of its variance "
        "within lists): learning begins without the list's own ranking; give hypotheses the score among their features"
    )
