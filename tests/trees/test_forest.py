"""All trees of a model in one set of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_trees import naive, small, stump, trees

from boostfeat.trees.forest import forest, forest_score

pytestmark = pytest.mark.quick


@given(st.lists(trees(small), max_size=4), st.lists(small, min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_forest_equals_the_naive_walk(some, row):
    compiled, names = forest(some)
    by_name = dict(zip("abc", row, strict=True))
    x = np.array([by_name.get(name, 0.0) for name in names])
    expected = sum(tree.weight * naive(tree, by_name) for tree in some)
    assert forest_score(compiled, x) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("row", "expected"),  # (count, lex, z); the first tree is 3 (0.5 + 2 lex) or 3 (0.25 + lex), the second -1 (5 or 7)
    [((2.0, 10.0, 0.0), 3 * 20.5 - 5), ((2.5, 10.0, 0.0), 3 * 10.25 - 5), ((2.0, 10.0, 1.0), 3 * 20.5 - 7)],
)
def test_two_trees_by_hand(row, expected):
    first = stump("affine", intercepts=(0.5, 0.25), weight=3.0)
    second = stump("constant", None, feature="z", threshold=0.5, values=(5.0, 7.0), weight=-1.0)
    compiled, names = forest([first, second])
    assert names == ("count", "lex", "z")
    assert forest_score(compiled, np.array(row)) == expected
    assert (compiled.root.tolist(), compiled.left.tolist(), compiled.right.tolist()) == (
        [0, 3],
        [1, -1, -1, 4, -1, -1],
        [2, -1, -1, 5, -1, -1],
    )
    assert (compiled.on.tolist(), compiled.feature.tolist()) == ([1, -1], [0, 0, 0, 2, 0, 0])


def test_no_trees():
    compiled, names = forest([])
    assert names == ()
    assert forest_score(compiled, np.zeros(0)) == 0.0
