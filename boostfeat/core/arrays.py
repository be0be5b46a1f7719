"""Array types, and what everything shares: kernels over offset arrays, threads, blocks of sentences."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from threading import current_thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .kernels import kernel

T = TypeVar("T")
U = TypeVar("U")
Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]
Sum = TypeVar("Sum", float, Array)
FACTOR = np.uint64(0xFF51AFD7ED558CCD)  # of hashes: odd, with bits all over


def offsets(counts: Array) -> I64:
    """Offsets [n+1] of segments with these lengths [n]."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def owners(ptr: I64) -> I64:
    """For each element, which segment holds it: the inverse of offsets."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def segment_positions(ptr: I64, segments: Array) -> I64:
    """Positions of all elements of the given segments, in their order."""
    starts = ptr[:-1][segments]
    counts = ptr[1:][segments] - starts
    total = int(counts.sum())
    return np.arange(total) - np.repeat(offsets(counts)[:-1] - starts, counts)


def frozen(x: Array) -> Array:
    """A view that cannot be written: a kernel that reads it is compiled once, for arrays that are mapped and for others."""
    view = x.view()
    view.flags.writeable = False
    return view


def unsigned(idx: I32) -> Array:
    """Positions as unsigned numbers, not to be written: numba need not look for negative ones."""
    return frozen(idx.view(np.uint32))


@kernel
def segment_sum(ptr, idx, values, out):  # type: ignore[no-untyped-def]
    """INOUT out[h] += Σ values[idx[i]] over segment h."""
    for h in range(len(ptr) - 1):
        total = 0.0
        for i in range(ptr[h], ptr[h + 1]):
            total += values[idx[i]]
        out[h] += total


def add_segment_sums(ptr: I64, idx: I32, values: F64, out: F64) -> F64:
    """out[h] += Σ values[idx[i]] over segment h (A F). Empty segments add 0, unlike ``np.add.reduceat``."""
    segment_sum(frozen(ptr), unsigned(idx), frozen(values), out)
    return out


@kernel
def segment_scatter(ptr, idx, values, out):  # type: ignore[no-untyped-def]
    """INOUT out[idx[i]] += values[h] over segment h."""
    for h in range(len(ptr) - 1):
        v = values[h]
        if v != 0.0:
            for i in range(ptr[h], ptr[h + 1]):
                out[idx[i]] += v


def scatter_segments(ptr: I64, idx: I32, values: F64, n: int) -> F64:
    """Σ values[h] over the segments h that hold each of n elements (A' g): the transpose of add_segment_sums."""
    out = np.zeros(n)
    segment_scatter(frozen(ptr), unsigned(idx), frozen(values), out)
    return out


@kernel
def _segment_rows(ptr, idx, matrix, out):  # type: ignore[no-untyped-def]
    for h in range(len(ptr) - 1):
        for i in range(ptr[h], ptr[h + 1]):
            row = matrix[idx[i]]
            for d in range(matrix.shape[1]):
                out[h, d] += row[d]


def add_segment_rows(ptr: I64, idx: I32, matrix: F64, out: F64) -> F64:
    """A X: out[h, :D] += the rows ``matrix[idx[i]]`` [D] over segment h."""
    _segment_rows(frozen(ptr), unsigned(idx), frozen(matrix), out)
    return out


@kernel
def _segment_argmax(ptr, values, out):  # type: ignore[no-untyped-def]
    for s in range(len(ptr) - 1):
        best = ptr[s]
        for k in range(ptr[s] + 1, ptr[s + 1]):
            if values[k] > values[best]:
                best = k
        out[s] = best if ptr[s] < ptr[s + 1] else -1


def segment_argmax(ptr: I64, values: F64, *, threads: int = 1) -> I64:
    """Position of the largest value of each segment, the first among equals, -1 where it is empty."""
    out = np.empty(len(ptr) - 1, np.int64)
    in_ranges(lambda some: _segment_argmax(frozen(ptr[some.start : some.stop + 1]), frozen(values), out[some]), len(out), threads)
    return out


@kernel(inline="always")
def mix(h, word, factor):  # type: ignore[no-untyped-def]
    """Continue a hash of 64 bits with eight more bytes."""
    h = (h ^ word) * factor
    return h ^ (h >> np.uint64(32))


@kernel
def _is_row(a, i, j):  # type: ignore[no-untyped-def]
    for k in range(a.shape[1]):
        if a[i, k] != a[j, k]:
            return False
    return True


@kernel
def _number_rows(a, b, table, first, inverse):  # type: ignore[no-untyped-def]
    """OUT inverse[r]: the number of row r of [a | b]; first[k]: the first row of number k. Returns how many there are."""
    n, mask = 0, np.uint64(len(table) - 1)
    for r in range(len(inverse)):
        h = np.uint64(0)
        for k in range(a.shape[1]):
            h = mix(h, a[r, k], FACTOR)
        for k in range(b.shape[1]):
            h = mix(h, b[r, k], FACTOR)
        slot = h & mask
        while table[slot] >= 0 and not (_is_row(a, first[table[slot]], r) and _is_row(b, first[table[slot]], r)):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot], first[n] = n, r
            n += 1
        inverse[r] = table[slot]
    return n


def unique_rows(a: Array, b: Array) -> tuple[I64, I64]:
    """Distinct rows of [a | b] in order of first appearance: (first [m], inverse [n]).

    Rows are compared bit by bit in 8-byte words; callers turn -0.0 into 0.0 beforehand.
    """
    words = [frozen(np.ascontiguousarray(part).view(np.uint64).reshape(part.shape)) for part in (a, b)]
    first, inverse = np.empty((2, len(a)), np.int64)
    table = np.full(1 << (2 * len(a)).bit_length(), -1, np.int32)
    return first[: _number_rows(*words, table, first, inverse)].copy(), inverse


def in_threads(task: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """Results of the task in the order of the items."""
    if threads == 1 or len(items) < 2:
        return [task(item) for item in items]
    return list(_pool(threads, current_thread().name).map(task, items))


def in_order(work: Callable[[T], U], items: Iterable[T], *, threads: int, ahead: int = 4) -> Iterator[U]:
    """``map`` in threads, in order, that reads only some items ahead, so many for each thread."""
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[U]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > ahead * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def in_ranges(task: Callable[[slice], T], n: int, threads: int) -> list[T]:
    """Results of the task on 0:n cut into a range for each thread, in their order. Who asks does the first range itself."""
    first, *others = (slice(n * k // threads, n * (k + 1) // threads) for k in range(threads))
    if not others:
        return [task(first)]
    pool = _pool(threads, current_thread().name)
    futures = [pool.submit(task, some) for some in others]
    try:
        return [task(first), *(future.result() for future in futures)]
    finally:
        wait(futures)


@lru_cache
def _pool(threads: int, owner: str) -> ThreadPoolExecutor:
    """Return threads that are kept: to start them takes longer than many a task of a boosting round.

    Each thread that asks has its own: a task of a task that waits for a thread of its own pool might wait for ever.
    """
    return ThreadPoolExecutor(threads, f"boostfeat, {owner}")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def gathered(values: F64, at: I64, *, threads: int = 1) -> F64:
    """values[at]"""
    out = np.empty(len(at))
    in_ranges(lambda some: np.take(values, at[some], out=out[some], mode="clip"), len(at), threads)  # to raise, it would copy
    return out


HUGE = 1e150  # scores and steps are cut here: far beyond where exp saturates, and squares of it still are numbers


def cut(x: F64) -> F64:
    """Values [n] within the numbers that squares of are finite."""
    return np.clip(x, -HUGE, HUGE)


@kernel
def _number_by_use(idx, number, order, out):  # type: ignore[no-untyped-def]
    """INOUT number[u]: its place among those in use, -1 before its first one. Returns how many are in use."""
    n = 0
    for r in range(len(idx)):
        if number[idx[r]] < 0:
            number[idx[r]], order[n] = n, idx[r]
            n += 1
        out[r] = number[idx[r]]
    return n


def first_use_order(unit_idx: Array) -> tuple[I64, I32]:
    """Units in order of first use, and the occurrences renumbered accordingly; unused ones are left out."""
    idx, n = frozen(np.asarray(unit_idx, np.int32)), int(unit_idx.max(initial=-1)) + 1
    number, order, out = np.full(n, -1, np.int32), np.empty(n, np.int64), np.empty(len(idx), np.int32)
    return order[: _number_by_use(idx, number, order, out)].copy(), out


# ---------------------------------------------------------------------------------------------------------------------
# Fixed blocks of sentences: sums over a corpus are sums over its blocks, in their order. Blocks depend on the number of
# sentences alone: where they are computed, in threads or on the machines of a cluster, does not change a bit of what comes out.
# ---------------------------------------------------------------------------------------------------------------------

MOST_BLOCKS = 64
_SENTENCES = 64  # in a block, at least: the work of a block should dwarf the cost of calling it


def block_ptr(n: int) -> I64:
    """Offsets [B+1] of the blocks of n sentences."""
    blocks = max(1, min(MOST_BLOCKS, n // _SENTENCES))
    return np.arange(blocks + 1) * n // blocks


def sum_in_order(parts: Iterable[Sum]) -> Sum:
    """Their sum, from left to right: from Python 3.12 on, sum() rounds in another way."""
    first, *others = parts
    return reduce(add, others, first)


def sum_blocks(rows: Array) -> Array:
    """Σ of rows [S, n], block by block: to the last bit what blocks give that are elsewhere."""
    ptr = block_ptr(len(rows))
    return sum_in_order(rows[a:b].sum(axis=0) for a, b in pairwise(ptr.tolist()))
