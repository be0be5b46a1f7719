"""How many threads there is room for, and work that is spread over them."""

from __future__ import annotations

import multiprocessing
import os
from itertools import pairwise

import numpy as np
import pytest

from boostfeat.core.arrays import add_segment_sums, in_ranges, in_threads, scatter_segments
from boostfeat.core.machine import usable_cores

pytestmark = pytest.mark.quick


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("count", "expected"), [(8, 8), (None, 1)])
def test_where_a_system_does_not_say_it_is_all_or_one(monkeypatch, count, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_cores() == expected


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
