"""Numbers of distinct units over runs of sentences: which of a run's units are new, and which came up runs ago."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..core.arrays import I32, I64, Array, Bool, _mix
from ..core.kernels import kernel
from .nbest import NBest, Units

SEEDS = np.array([1469598103934665603, 11400714819323198485], np.uint64)
FULL = 0.6  # share of a table's places that may be taken


def in_several_runs(nbest: NBest, runs: Iterable[tuple[int, int]]) -> Bool:
    """[V] units that more than one run (first, last) of sentences has."""
    last_run, several = np.full(nbest.n_units, -1, np.int32), np.zeros(nbest.n_units, bool)
    for r, (first, last) in enumerate(runs):
        start, end = nbest.unit_ptr[nbest.hyp_ptr[[first, last]]]
        idx = nbest.unit_idx[start:end]
        several[idx[(last_run[idx] >= 0) & (last_run[idx] < r)]] = True
        last_run[idx] = r
    return several


class UnitNumbers:
    """Gives the units of runs, one run after the other, the numbers that they would have in one list: by first use.

    Units that are distinct within a run may equal those of an earlier one, but only where they were one unit before they were
    given more features (``several``: those of more than one run). Of these, hashes of 128 bits are kept and not the features.
    """

    def __init__(self, several: Bool) -> None:
        self.several, self.n = several, 0
        self._table = np.zeros((1 << 10, 3), np.uint64)  # hash, hash, number + 1; 0: an empty place
        self._taken = 0

    def number(self, units: Units, before: I64) -> tuple[I64, I32]:
        """Return which units [n] of the next run are new, and the numbers of all; ``before`` [n] are the units that they were."""
        numbers = np.full(len(units), -1, np.int64)
        again = np.flatnonzero(self.several[before])
        hashes = row_hashes(units, before, again)
        known = np.full(len(again), -1, np.int64)
        _visit(self._table, hashes, known)
        numbers[again] = known
        fresh = np.flatnonzero(numbers < 0)
        numbers[fresh] = self.n + np.arange(len(fresh))
        self.n += len(fresh)
        self._grow(len(again))
        _visit(self._table, hashes, numbers[again])
        self._taken += int((known < 0).sum())
        return fresh, numbers.astype(np.int32)

    def _grow(self, more: int) -> None:
        """Grow the table for so many more units."""
        size = len(self._table)
        while self._taken + more > FULL * size:
            size *= 2
        if size > len(self._table):
            old = self._table[self._table[:, 2] > 0]
            self._table = np.zeros((size, 3), np.uint64)
            _visit(self._table, np.ascontiguousarray(old[:, :2]), old[:, 2].astype(np.int64) - 1)


def row_hashes(units: Units, before: I64, rows: I64) -> Array:
    """[len(rows), 2] of some units: of all their features, and of the units that they were."""
    out = np.empty((len(rows), 2), np.uint64)
    own = units.sparse
    x, val = np.ascontiguousarray(units.x).view(np.uint64), own.val.view(np.uint64)
    _hash_rows(x, own.ptr, own.idx, val, before, rows, SEEDS, out)
    return out


@kernel
def _hash_rows(x, ptr, idx, val, before, rows, seeds, out):  # type: ignore[no-untyped-def]
    """IN x[V, D], val (words of 8 bytes), sparse rows, before[V]; OUT out[n, 2]."""
    for k in range(len(rows)):
        r = rows[k]
        for side in range(2):
            h = _mix(seeds[side], np.uint64(before[r]))
            for j in range(x.shape[1]):
                h = _mix(h, x[r, j])
            for i in range(ptr[r], ptr[r + 1]):
                h = _mix(_mix(h, np.uint64(idx[i])), val[i])
            out[k, side] = h


@kernel
def _visit(table, hashes, numbers):  # type: ignore[no-untyped-def]
    """IN/OUT table[size, 3], numbers[n]: -1 becomes the number that the table has, if it has one; others are put in."""
    mask = np.uint64(len(table) - 1)
    for k in range(len(hashes)):
        at = (hashes[k, 0] ^ (hashes[k, 0] >> np.uint64(32))) & mask
        while table[at, 2] and (table[at, 0] != hashes[k, 0] or table[at, 1] != hashes[k, 1]):
            at = (at + np.uint64(1)) & mask
        if table[at, 2]:
            numbers[k] = np.int64(table[at, 2]) - 1
        elif numbers[k] >= 0:
            table[at, 0], table[at, 1], table[at, 2] = hashes[k, 0], hashes[k, 1], np.uint64(numbers[k] + 1)
