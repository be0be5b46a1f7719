"""The passes over rows, each against a plain twin."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from boostfeat.trees.growing_kernels import grid_step, slope_sums, sums, to_grid
from boostfeat.trees.tree import descend

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("first", "last"), [(0, 60), (7, 43), (5, 5), (4000, 4200), (0, 4097), (2, 4099)])
def test_rows_walk_down_a_tree(first, last):
    """0 splits into 1 and 2, 1 into 3 and 4, 4 into 5 and 6; rows of other ranges are not touched. 4096 rows go at a time."""
    rng = np.random.default_rng(first + last)
    codes = rng.integers(-1, 3, (3, 4200)).astype(np.int16)
    slot, cut = np.array([0, 1, 0, 0, 2, 0, 0]), np.array([1, 0, 0, 0, -1, 0, 0])
    left, right = np.array([1, 3, -1, -1, 5, -1, -1], np.int32), np.array([2, 4, -1, -1, 6, -1, -1], np.int32)
    leaf_of = np.full(4200, 9, np.int32)
    descend(codes, slot, cut, left, right, first, last, leaf_of)
    a, b, d = codes
    expected = np.where(a > 1, 2, np.where(b <= 0, 3, np.where(d <= -1, 5, 6)))
    assert leaf_of[first:last].tolist() == expected[first:last].tolist()
    assert (leaf_of[:first] == 9).all()
    assert (leaf_of[last:] == 9).all()


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 30])
def test_sums_of_leaves(n):
    """In four parts, row by row; slopes are about each leaf's centre. What is there already is added to."""
    rng = np.random.default_rng(n)
    leaf_of, c, g, z = (
        rng.integers(0, 3, n).astype(np.int32),
        rng.integers(1, 5, n) / 2,
        rng.integers(-4, 5, n) / 2,
        rng.integers(-4, 5, n) / 4,
    )
    out, centre, slopes = np.ones((4, 3, 2)), np.array([0.5, 0.0, -1.0]), np.ones((3, 3))
    sums(leaf_of, c, g, out)
    slope_sums(leaf_of, c, g, z, centre, slopes)
    for node in range(3):
        for part in range(4):
            mine = (leaf_of == node) & (np.arange(n) % 4 == part)
            assert out[part, node].tolist() == [1 + c[mine].sum(), 1 + g[mine].sum()]
        mine = leaf_of == node
        d = z[mine] - centre[node]
        assert slopes[node].tolist() == [1 + (c[mine] * d).sum(), 1 + (d * g[mine]).sum(), 1 + (c[mine] * d * d).sum()]


@pytest.mark.parametrize(
    ("total", "step"), [(1.0, 2.0**-51), (0.75, 2.0**-52), (1.5, 2.0**-51), (2.0, 2.0**-50), (2.0**-30, 2.0**-81)]
)
def test_the_step_of_a_grid(total, step):
    assert grid_step(total) == step


@pytest.mark.parametrize("scale", [1.0, -0.25, 3.0])
def test_sums_on_a_grid_are_exact(scale):
    """Numbers of many sizes: on the grid they are the nearest multiples of its step, in single precision, and their sums are exact."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=200) * 2.0 ** rng.integers(-60, 1, 200)
    out = np.full(200, np.nan, np.float32)
    to_grid(values, scale, out)
    step = grid_step(np.abs(values).sum() * abs(scale))
    expected = (np.rint(values * (scale / step)) * step).astype(np.float32)
    assert out.tolist() == expected.tolist()
    forwards, backwards, exact = 0.0, 0.0, Fraction(0)
    for value in out.tolist():
        forwards, exact = forwards + value, exact + Fraction(value)
    for value in reversed(out.tolist()):
        backwards += value
    assert forwards == backwards == exact
