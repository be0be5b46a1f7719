"""Blocks: fixed by the number of sentences, whole, and summed from left to right."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from boostfeat.core.blocks import MOST, block_ptr, sum_blocks, sum_in_order

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("n", "blocks"),
    [(0, 1), (1, 1), (63, 1), (127, 1), (128, 2), (200, 3), (64 * 64 - 1, 63), (64 * 64, 64), (10**6, MOST)],
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
