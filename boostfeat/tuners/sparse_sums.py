"""Sparse features of hypotheses as sums over their units, never multiplied out: A (X w), not (A X) w.

Hypotheses of a list share most of their units: on a 200-best list A X has several times the entries of A and X together.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import (
    F64,
    I32,
    I64,
    first_use_order,
    frozen,
    offsets,
    segment_positions,
    segment_scatter,
    segment_sum,
    unsigned,
)  # fmt: skip
from ..core.kernels import kernel
from ..lists.nbest import NBest, SparseRows
from ..losses.pairwise import FLOOR, PairwiseLogLoss, pairs_at, pairs_gradient


class SparseSums:
    """U hypotheses of a list: their units, and after these, as if it were one more unit, what is their own.

    A feature is a column; a row holds the sparse features of a unit. All that is kept is what these hypotheses have.
    """

    def __init__(self, nbest: NBest, hyps: I64) -> None:
        n, idx, rows = _units_of(nbest, hyps)
        own = nbest.extra_sparse.take(hyps)
        has_own = np.diff(own.ptr) > 0
        self._ptr = offsets(n + has_own)
        self._idx = np.empty(self._ptr[-1], np.int32)
        last = np.zeros(len(self._idx), bool)
        last[self._ptr[1:][has_own] - 1] = True
        self._idx[~last], self._idx[last] = idx, len(rows) + np.arange(has_own.sum())
        self._row_ptr = offsets(np.concatenate([np.diff(rows.ptr), np.diff(own.ptr)[has_own]]))
        self._value = np.concatenate([rows.val, own.val])
        column = np.concatenate([rows.idx, own.idx])
        place = np.zeros(len(nbest.sparse_names), np.int32)
        place[column] = 1
        self.columns: I64 = np.flatnonzero(place)  # [C] of the list's N sparse features, those that are here
        place[self.columns] = np.arange(len(self.columns))
        self._column = place[column]

    def __len__(self) -> int:
        return len(self._ptr) - 1

    def peak(self) -> F64:
        """[C] the largest absolute value of each column in a row."""
        peak = np.zeros(len(self.columns))
        np.maximum.at(peak, self._column, np.abs(self._value))
        return peak

    def squares(self, better: I64, worse: I64, peak: F64) -> tuple[F64, F64]:
        """[C] the sum of squared differences over pairs, divided by the peaks [C], and how many are not 0."""
        squares, counts = np.zeros((2, len(self.columns)))
        rows = (self._row_ptr, self._column, self._value)
        _pair_squares(better, worse, self._ptr, self._idx, *rows, peak, squares, counts)
        return squares, counts

    def log_loss(self, w: F64, scores: F64, loss: PairwiseLogLoss) -> tuple[float, F64, F64]:
        """Ψ at scores [U] + A (X w), w [C], its gradient g [U] in the scores, and X' (A' g) [C]."""
        g, slope, pairs = np.zeros(len(scores)), np.zeros(len(w)), loss.pairs
        rows = frozen(self._ptr), unsigned(self._idx), frozen(self._row_ptr), unsigned(self._column), frozen(self._value)
        value = _log_loss(*rows, w, pairs.better, pairs.worse, loss.weight, loss.plain, scores, g, slope)
        return value, g, slope


def _units_of(nbest: NBest, hyps: I64) -> tuple[I64, I32, SparseRows]:
    """Return the units with sparse features of hypotheses [U]: how many each has [U], which, and their rows by first use."""
    if not len(nbest.units.sparse.idx):
        return np.zeros(len(hyps), np.int64), np.zeros(0, np.int32), SparseRows.empty(0)
    ptr = offsets(nbest.unit_ptr[1:][hyps] - nbest.unit_ptr[:-1][hyps])
    used, idx = first_use_order(nbest.unit_idx[segment_positions(nbest.unit_ptr, hyps)], nbest.n_units)
    sizes = nbest.units.sparse.ptr[1:][used] - nbest.units.sparse.ptr[:-1][used]
    some = sizes > 0
    kept, number = some[idx], np.cumsum(some, dtype=np.int32) - np.int32(1)
    return np.diff(offsets(kept)[ptr]), number[idx[kept]], nbest.units.sparse.take(used[some])


@kernel
def _log_loss(  # type: ignore[no-untyped-def]
    ptr, idx, row_ptr, column, value, w, better, worse, weight, plain, scores, g, slope
):
    """INOUT scores[U] += A (X w); OUT g[U] = dΨ/dscores, slope[C] = X' (A' g), both 0 before. Returns Ψ.

    One kernel, so that fits in other threads wait for the interpreter's lock once and not ten times a block.
    """
    rows = np.empty(len(row_ptr) - 1)
    for u in range(len(rows)):
        total = 0.0
        for k in range(row_ptr[u], row_ptr[u + 1]):
            total += value[k] * w[column[k]]
        rows[u] = total
    segment_sum(ptr, idx, rows, scores)
    margin, e = np.empty(len(better)), np.empty(len(better))
    still, losses = e if plain else np.empty(len(better)), np.empty(1)
    pairs_at(better, worse, weight, plain, scores, np.array([0, len(better)]), margin, e, still, losses)
    pairs_gradient(better, worse, weight, margin, e, g)
    rows[:] = 0.0
    segment_scatter(ptr, idx, g, rows)
    for u in range(len(rows)):
        if rows[u] != 0.0:
            for k in range(row_ptr[u], row_ptr[u + 1]):
                slope[column[k]] += value[k] * rows[u]
    return losses[0]


@kernel
def _pair_squares(  # type: ignore[no-untyped-def]
    better, worse, ptr, idx, row_ptr, column, values, peak, squares, counts
):
    """INOUT squares[C], counts[C]. Units that both hypotheses have cancel, so few rows are read."""
    times = np.zeros(len(row_ptr) - 1, np.int64)  # how much more often the better one has each unit; 0 again after each pair
    value, pair_of, told = np.empty(len(peak)), np.full(len(peak), -1), np.empty(len(peak), np.int64)
    for k in range(len(better)):
        for i in range(ptr[better[k]], ptr[better[k] + 1]):
            times[idx[i]] += 1
        for i in range(ptr[worse[k]], ptr[worse[k] + 1]):
            times[idx[i]] -= 1
        n = 0
        for h in (better[k], worse[k]):
            for i in range(ptr[h], ptr[h + 1]):
                u = idx[i]
                more = times[u]
                times[u] = 0
                if more:
                    for r in range(row_ptr[u], row_ptr[u + 1]):
                        j = column[r]
                        if pair_of[j] != k:
                            pair_of[j], value[j], told[n] = k, 0.0, j
                            n += 1
                        value[j] += more * values[r]
        for j in told[:n]:
            if abs(value[j]) > FLOOR * peak[j]:
                squares[j] += (value[j] / peak[j]) ** 2
                counts[j] += 1.0
