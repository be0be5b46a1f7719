"""Sums over segments and blocks, and work that is spread over threads."""

from __future__ import annotations

import multiprocessing
import os
from itertools import pairwise

import numpy as np
import pytest

from boostfeat.core.arrays import (
    MOST_BLOCKS,
    add_segment_sums,
    block_ptr,
    in_ranges,
    in_threads,
    scatter_segments,
    segment_argmax,
    sum_blocks,
    sum_in_order,
    unique_rows,
)

pytestmark = pytest.mark.quick


def test_a_task_may_have_tasks_of_its_own():
    """More of them than there are threads: none waits for a thread that waits for it."""
    found = in_threads(lambda k: in_threads(lambda j: 10 * k + j, range(3), 2), range(4), 2)
    assert found == [[10 * k + j for j in range(3)] for k in range(4)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes start anew here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_child_process_has_threads_of_its_own():
    assert in_threads(str, range(4), 2) == ["0", "1", "2", "3"]  # the parent's are there
    child = multiprocessing.get_context("fork").Process(target=in_threads, args=(str, range(4), 2))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_ranges_are_consecutive_and_as_many_as_threads():
    assert in_ranges(lambda some: (some.start, some.stop), 5, 3) == [(0, 1), (1, 3), (3, 5)]
    assert in_ranges(lambda some: some.stop - some.start, 1, 3) == [0, 0, 1]


def test_an_error_of_a_range_is_raised_when_all_have_ended():
    ended = []

    def task(some):
        if some.start == 0:
            raise ValueError("the first")
        ended.append(some.stop)

    with pytest.raises(ValueError, match="the first"):
        in_ranges(task, 6, 3)
    assert sorted(ended) == [4, 6]


def test_sums_over_segments_and_their_transpose():
    """Against the matrix; whole numbers have exact sums, in any parts."""
    rng = np.random.default_rng(0)
    ptr = np.array([0, 3, 3, 4, 9, 10])
    idx = rng.integers(4, size=10).astype(np.int32)
    matrix = np.stack([np.bincount(idx[a:b], minlength=4) for a, b in pairwise(ptr)])
    x, y = rng.integers(-9, 9, 4).astype(float), rng.integers(-9, 9, 5).astype(float)
    np.testing.assert_array_equal(add_segment_sums(ptr, idx, x, np.ones(5)), 1 + matrix @ x)
    np.testing.assert_array_equal(scatter_segments(ptr, idx, y, 4), matrix.T @ y)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_best_of_a_segment_is_its_first_largest(threads):
    """An empty one has none; NaN is above nothing, and nothing is above NaN."""
    values = np.array([1.0, 3.0, 3.0, -np.inf, np.nan, 5.0, 2.0, np.nan])
    assert segment_argmax(np.array([0, 3, 3, 4, 6, 8]), values, threads=threads).tolist() == [1, -1, 3, 4, 6]


def test_equal_rows_are_found_in_order_of_appearance():
    """Against a dictionary; both parts of a row count."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(3, size=(500, 2)).astype(float), rng.integers(4, size=(500, 3))
    first, inverse = unique_rows(a, b)
    number: dict[tuple[float, ...], int] = {}
    assert inverse.tolist() == [number.setdefault((*x, *y), len(number)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert [(*a[r], *b[r]) for r in first] == list(number)
    assert unique_rows(a[:0], b[:0])[0].size == 0


@pytest.mark.parametrize(
    ("n", "blocks"),
    [(0, 1), (1, 1), (63, 1), (127, 1), (128, 2), (200, 3), (64 * 64 - 1, 63), (64 * 64, 64), (10**6, MOST_BLOCKS)],
)  # by hand: at least 64 sentences a block, at most 64 blocks
def test_blocks_are_of_at_least_so_many_sentences(n, blocks):
    ptr = block_ptr(n)
    assert len(ptr) == blocks + 1
    assert (ptr[0], ptr[-1]) == (0, n)
    assert np.ptp(np.diff(ptr)) <= 1  # as equal as can be


def test_sums_are_from_left_to_right():
    """1e16 + 1 is 1e16 again: from the left the ones are lost, and sum() of Python 3.12 would keep them."""
    assert sum_in_order(np.array([x]) for x in (1e16, 1.0, 1.0)) == 1e16
    assert sum_in_order(np.array([x]) for x in (1.0, 1.0, 1e16)) == 1e16 + 2


def test_a_sum_is_that_of_its_blocks():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    ptr = block_ptr(300)
    expected = rows[: ptr[1]].sum(axis=0)
    for a, b in pairwise(ptr[1:]):
        expected = expected + rows[a:b].sum(axis=0)
    assert np.array_equal(sum_blocks(rows), expected)
