"""Sums by common beginnings, to the last bit against the plain loops over all segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import quick

from boostfeat.core.arrays import add_segment_sums, offsets, scatter_segments
from boostfeat.core.prefixes import Prefixes

pytestmark = pytest.mark.quick

# few elements, so that segments repeat, begin alike, hold an element twice, and are empty; groups of none and of one, too
GROUPS = st.lists(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=9), max_size=6)
VALUES = np.array([0.1, -1e9, 1e-7, 3.0])  # sums depend on their order


def arrays(groups: list[list[list[int]]]) -> tuple[Any, Any, Any]:
    segments = [segment for group in groups for segment in group]
    flat = np.array([element for segment in segments for element in segment], np.int32)
    return offsets(np.array(list(map(len, groups)), int)), offsets(np.array(list(map(len, segments)), int)), flat


@quick
@given(GROUPS, st.sampled_from([1, 2, 3, 7]))
def test_sums_have_the_bits_of_the_plain_loop(groups, threads):
    group_ptr, ptr, idx = arrays(groups)
    found = Prefixes.of(group_ptr, ptr, idx, threads=threads).sum(VALUES, threads=threads)
    assert found.tobytes() == add_segment_sums(ptr, idx, VALUES, np.zeros(len(ptr) - 1)).tobytes()


@quick
@given(GROUPS, st.sampled_from([1, 2, 3, 7]), st.randoms(use_true_random=False))
def test_so_has_their_transpose_on_a_grid(groups, threads, random):
    """Of any choice of segments. Values of empty ones, however large, take no part in any sum."""
    group_ptr, ptr, idx = arrays(groups)
    some = np.array([h for h in range(len(ptr) - 1) if random.random() < 0.6], np.int64)
    values = np.array([random.randint(-(2**48), 2**48) for _ in some], float)
    values[np.diff(ptr)[some] == 0] = 1e300
    every = np.zeros(len(ptr) - 1)
    every[some] = values
    found = Prefixes.of(group_ptr, ptr, idx, threads=threads).some(some, threads=threads).spread(values, 4, threads=threads)
    assert found.tobytes() == scatter_segments(ptr, idx, every, 4).tobytes()


def test_a_node_is_a_beginning():
    """Of 0 1, 0 2, 0 1, none and 0: 0, then 0 1 and 0 2. The empty segment has the last place, one that others continue the one after them."""
    found = Prefixes.of(*arrays([[[0, 1], [0, 2], [0, 1], [], [0]]]))
    assert (found.parent.tolist(), found.idx.tolist(), found.node_ptr.tolist()) == ([0, 1, 1], [0, 1, 2], [0, 3])
    assert found.end.tolist() == [2, 3, 2, 0, 1]
    assert (found.first.tolist(), found.last.tolist(), found.place.tolist()) == ([0, 0, 2], [4, 2, 3], [0, 2, 1, 4, 3])
    assert found.parent.dtype == np.uint16


def test_more_nodes_than_16_bits_count():
    """One group of 300 segments of 300 elements that no other has, and one of 70,000 segments of the same element."""
    idx = np.concatenate([np.arange(90_000), np.zeros(70_000)]).astype(np.int32)
    group_ptr, ptr = np.array([0, 300, 70_300]), offsets(np.concatenate([np.full(300, 300), np.ones(70_000, int)]))
    found, values = Prefixes.of(group_ptr, ptr, idx), np.random.default_rng(0).normal(size=90_000)
    assert (found.node_ptr.tolist(), found.parent.dtype, found.place.max()) == ([0, 90_000, 90_001], np.uint32, 69_999)
    assert found.sum(values).tobytes() == add_segment_sums(ptr, idx, values, np.zeros(70_300)).tobytes()
    ones = np.ones(70_300)
    assert found.some(np.arange(70_300)).spread(ones, 90_000).tolist() == scatter_segments(ptr, idx, ones, 90_000).tolist()
