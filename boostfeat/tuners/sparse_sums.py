"""Sparse features of hypotheses as sums over their units, never multiplied out: A (X w), not (A X) w.

Hypotheses of a list share most of their units: on a 200-best list A X has several times the entries of A and X together.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..core import arrays as kernels
from ..core.arrays import F64, I32, I64, Array, first_use_order, frozen, offsets, segment_positions, unsigned
from ..core.kernels import kernel
from ..lists.nbest import NBest, SparseRows
from ..losses.pairwise import FLOOR, PairwiseLogLoss, pairs_at, pairs_gradient


class SparseSums:
    """U hypotheses of a list, in blocks: their units, and after these, as if it were one more unit, what is their own.

    A feature is a column, numbered within its block; a row holds the sparse features of a unit. All that is kept is what the
    hypotheses of a block have: it stays in the cache.
    """

    def __init__(self, nbest: NBest, hyps: I64, cuts: I64) -> None:
        """Hold hypotheses [U] of blocks cuts [B+1]."""
        parts = [*zip(*(_block_of(nbest, hyps[a:b]) for a, b in pairwise(cuts.tolist())), strict=True)]
        sizes = [offsets(np.array(list(map(len, parts[k])))) for k in (2, 5)]  # of rows, columns
        # the first is let go of before the next is put together: there is never a second copy of all
        in_hyps, idx, in_rows, column, value, columns = (np.concatenate(parts.pop(0)) for _ in range(len(parts)))
        self._ptr, self._idx = frozen(offsets(in_hyps)), unsigned(idx)
        self._row_ptr, self._column, self._value = frozen(offsets(in_rows)), frozen(column), frozen(value)
        self._cuts = cuts, *sizes  # of hyps, rows, columns
        self._most_rows, self._most_columns = (int(np.diff(cuts).max()) for cuts in sizes)  # of a block
        self.columns: I64 = columns  # [C] of the list's N sparse features, those of the first block, then of the second, ...

    def __len__(self) -> int:
        return len(self._ptr) - 1

    def peak(self) -> F64:
        """[C] the largest absolute value of each column in a row."""
        peak, (_, rows, columns) = np.zeros(len(self.columns)), self._cuts
        for (a, b), (first, last) in zip(pairwise(self._row_ptr[rows].tolist()), pairwise(columns.tolist()), strict=True):
            column, value = self._column[a:b].astype(np.intp), np.abs(self._value[a:b], dtype=np.float64)
            np.maximum.at(peak[first:last], column, value)  # of other types it takes twenty times as long
        return peak

    def squares(self, better: I64, worse: I64, cuts: I64, peak: F64) -> tuple[F64, F64]:
        """[C] the sum of squared differences over pairs in blocks, divided by the peaks [C], and how many are not 0."""
        squares, counts = np.zeros((2, len(self.columns)))
        times = np.zeros(self._most_rows, np.int64)
        _pair_squares(better, worse, cuts, self._arrays, peak, times, squares, counts)
        return squares, counts

    def log_loss(self, w: F64, scale: F64, scores: F64, loss: PairwiseLogLoss) -> tuple[F64, F64, F64]:
        """Ψ [B] at scores [U] + A (X w / scale), w [N], its gradient g [U] in the scores, and that in w [C], scale [C]."""
        g, slope, losses, pairs = np.zeros(len(scores)), np.zeros(len(scale)), np.empty(len(loss.cuts) - 1), loss.pairs
        of_pairs = pairs.better, pairs.worse, loss.weight, loss.plain, loss.cuts
        room = (*np.empty((3, int(np.diff(loss.cuts).max()))), np.empty(self._most_rows), np.empty(self._most_columns))
        _log_loss(self._arrays, self.columns, w, scale, of_pairs, room, scores, g, slope, losses)
        return losses, g, slope

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return *self._cuts, self._ptr, self._idx, self._row_ptr, self._column, self._value


def _block_of(nbest: NBest, hyps: I64) -> tuple[Array, ...]:
    """Rows of each hypothesis [U]: how many, which; entries of each row: how many, their columns and values; the columns."""
    n, idx, rows = _units_of(nbest, hyps)
    own = nbest.extra_sparse.take(hyps)
    has_own = np.diff(own.ptr) > 0
    ptr = offsets(n + has_own)
    all_idx, last = np.empty(ptr[-1], np.int32), np.zeros(ptr[-1], bool)
    last[ptr[1:][has_own] - 1] = True
    all_idx[~last], all_idx[last] = idx, len(rows) + np.arange(has_own.sum())
    column = np.concatenate([rows.idx, own.idx])
    place = np.zeros(len(nbest.sparse_names), np.int32)
    place[column] = 1
    columns = np.flatnonzero(place)
    place[columns] = np.arange(len(columns))
    in_rows = np.concatenate([np.diff(rows.ptr), np.diff(own.ptr)[has_own]])
    number = np.uint16 if len(columns) < 1 << 16 else np.uint32
    return n + has_own, all_idx, in_rows, place[column].astype(number), _narrow(np.concatenate([rows.val, own.val])), columns


def _narrow(values: F64) -> Array:
    """Return numbers as bytes where all are small counts: kernels read every one in each step of a fit."""
    with np.errstate(invalid="ignore"):
        counts = values.astype(np.uint8)
    return counts if (counts == values).all() else values


def _units_of(nbest: NBest, hyps: I64) -> tuple[I64, I32, SparseRows]:
    """Return the units with sparse features of hypotheses [U]: how many each has [U], which, and their rows by first use."""
    if not len(nbest.units.sparse.idx):
        return np.zeros(len(hyps), np.int64), np.zeros(0, np.int32), SparseRows.empty(0)
    ptr = offsets(nbest.unit_ptr[1:][hyps] - nbest.unit_ptr[:-1][hyps])
    used, idx = first_use_order(nbest.unit_idx[segment_positions(nbest.unit_ptr, hyps)])
    sizes = nbest.units.sparse.ptr[1:][used] - nbest.units.sparse.ptr[:-1][used]
    some = sizes > 0
    kept, number = some[idx], np.cumsum(some, dtype=np.int32) - np.int32(1)
    return np.diff(offsets(kept)[ptr]), number[idx[kept]], nbest.units.sparse.take(used[some])


@kernel
def _log_loss(arrays, columns, w, scale, of_pairs, room, scores, g, slope, losses):  # type: ignore[no-untyped-def]
    """INOUT scores[U] += A (X w / scale); OUT g[U] = dΨ/dscores, slope[C] = X' (A' g) / scale, both 0 before; losses[B] = Ψ.

    One kernel for all blocks, so that fits in other threads wait for the interpreter's lock once and not for every block.
    """
    hyp_cuts, row_cuts, column_cuts, ptr, idx, row_ptr, column, value = arrays
    better, worse, weight, plain, cuts = of_pairs
    all_margin, all_e, all_still, all_rows, all_own = room
    ends = np.zeros(2, np.int64)  # of the pairs of a block
    for b in range(len(cuts) - 1):
        hyps, pairs = slice(hyp_cuts[b], hyp_cuts[b + 1]), slice(cuts[b], cuts[b + 1])
        first, n_rows, n_pairs = row_cuts[b], row_cuts[b + 1] - row_cuts[b], cuts[b + 1] - cuts[b]
        start, n_columns = column_cuts[b], column_cuts[b + 1] - column_cuts[b]
        rows, own, block_ptr = all_rows[:n_rows], all_own[:n_columns], ptr[hyp_cuts[b] : hyp_cuts[b + 1] + 1]
        margin, e = all_margin[:n_pairs], all_e[:n_pairs]
        still = e if plain else all_still[:n_pairs]
        for c in range(n_columns):
            own[c] = w[columns[start + c]] / scale[start + c]
        for u in range(n_rows):
            total = 0.0
            for k in range(row_ptr[first + u], row_ptr[first + u + 1]):
                total += value[k] * own[column[k]]
            rows[u] = total
        kernels.segment_sum(block_ptr, idx, rows, scores[hyps])
        columns_of_pairs = better[pairs], worse[pairs], weight[pairs]
        ends[1] = n_pairs
        pairs_at(*columns_of_pairs, plain, scores, ends, margin, e, still, losses[b : b + 1])
        pairs_gradient(*columns_of_pairs, margin, e, g)
        for u in range(n_rows):
            rows[u] = 0.0
        kernels.segment_scatter(block_ptr, idx, g[hyps], rows)
        for u in range(n_rows):
            if rows[u] != 0.0:
                for k in range(row_ptr[first + u], row_ptr[first + u + 1]):
                    slope[start + column[k]] += value[k] * rows[u]
        for c in range(start, start + n_columns):
            slope[c] /= scale[c]


@kernel
def _pair_squares(better, worse, cuts, arrays, peak, times, squares, counts):  # type: ignore[no-untyped-def]
    """INOUT squares[C], counts[C]. Units that both hypotheses have cancel, so few rows are read.

    times[rows]: how much more often the better one has each unit of a block, 0 before and after each pair.
    """
    _, row_cuts, column_cuts, ptr, idx, row_ptr, column, values = arrays
    value, pair_of, told = np.empty(len(peak)), np.full(len(peak), -1), np.empty(len(peak), np.int64)
    for b in range(len(cuts) - 1):
        first, start = row_cuts[b], column_cuts[b]
        for k in range(cuts[b], cuts[b + 1]):
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
                        for r in range(row_ptr[first + u], row_ptr[first + u + 1]):
                            j = start + column[r]
                            if pair_of[j] != k:
                                pair_of[j], value[j], told[n] = k, 0.0, j
                                n += 1
                            value[j] += more * values[r]
            for j in told[:n]:
                if abs(value[j]) > FLOOR * peak[j]:
                    squares[j] += (value[j] / peak[j]) ** 2
                    counts[j] += 1.0
