"""Effects, beside a naive twin: the standard deviation of what is added to the score, about the mean of each list."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.arrays import block_ptr
from boostfeat.model.effects import (
    linear_effects,
    remembered_effects,
    squares_within_lists,
    total_effects,
    within_list_sd,
)
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick


def naive_sd(hyp_ptr: np.ndarray, values: np.ndarray) -> float:
    centred = [values[a:b] - values[a:b].mean() for a, b in pairwise(hyp_ptr) if b > a]
    return float(np.sqrt((np.concatenate(centred) ** 2).mean()))


def test_spread_within_lists_is_the_naive_one():
    """Lists of 0 to 4, in several blocks."""
    rng = np.random.default_rng(0)
    hyp_ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 200))])
    values = rng.normal([0.0, 100.0], size=(hyp_ptr[-1], 2))
    assert len(block_ptr(200)) > 2
    expected = [naive_sd(hyp_ptr, column) for column in values.T]
    assert [within_list_sd(hyp_ptr, column) for column in values.T] == pytest.approx(expected, rel=1e-9)
    blocks = np.array([0, 1, 1, 3])  # 1 + 1, none, and 0 + 4 + 4
    squares = squares_within_lists(np.array([0, 2, 3, 5]), np.array([1.0, 3.0, 9.0, 2.0, 6.0]), blocks)
    assert squares == [2.0, 0.0, 8.0]
    assert within_list_sd(np.array([0]), np.zeros(0)) == 0.0


def test_linear_effects_are_weights_by_spread():
    nbest = synthetic_nbest(SyntheticOptions(sentences=8, hyps=6, features=3))
    first, second, *rest = nbest.global_names
    found = linear_effects(nbest, {first: -2.0, second: 0.5}, threads=2)
    assert list(found) == list(nbest.global_names)
    for name, weight in ((first, 2.0), (second, 0.5)):
        assert found[name] == pytest.approx(weight * naive_sd(nbest.hyp_ptr, nbest.global_column(name)), rel=1e-9)
    assert [found[name] for name in rest] == [0.0] * len(rest)


def stump(name: str, *features: str) -> Tree:
    """Tests the first feature; leaves are slopes on the second, if there is one."""
    minus = np.array([1, -1, -1], np.int32)
    on = features[1] if len(features) > 1 else None
    return Tree(name, 1.0, "linear" if on else "constant", on, (features[0], "", ""), np.zeros(3), minus,
                np.array([2, -1, -1], np.int32), np.array([0.0, 1.0, -1.0]))  # fmt: skip


def test_a_feature_has_its_share_of_trees():
    """By hand: a 0.5 + 0.3 / 2 + 0.1, b 0.2 + 0.3 / 2, c, which has no weight, nothing known of its tree; largest first."""
    trees = [stump("t1", "a", "b"), stump("t2", "a"), stump("t3", "c")]
    of_trees = {"t1": (0.3, None), "t2": (0.1, None), "t3": (None, None)}
    found = total_effects({"d": 3.0, "e": -4.0, "b": 1.0, "a": 1.0}, trees, {"a": 0.5, "b": 0.2}, of_trees)
    assert found == pytest.approx({"a": 0.75, "b": 0.35, "e": 0.0, "d": 0.0, "c": 0.0})
    assert list(found) == ["a", "b", "e", "d", "c"]  # where effects are equal, by weight


def test_what_a_history_remembers():
    trees = [stump("t1", "a"), stump("t2", "a"), stump("t3", "a"), stump("t4", "a")]
    history = [
        {"round": 0, "effects": {"a": 0.5, "b": "much", "c": True}},
        {"tree": "t1", "effect": 0.25, "fires": [3, 0]},
        {"tree": "t2", "effect": None, "fires": [3]},  # of other leaves than the tree has
        {"tree": "t3", "effect": float("inf"), "fires": [-1, 2]},
        {"tree": 4},
    ]
    effects, of_trees = remembered_effects(trees, history)
    assert effects == {"a": 0.5}
    assert of_trees == {"t1": (0.25, [3, 0]), "t2": (None, None), "t3": (None, None), "t4": (None, None)}
    assert remembered_effects([], []) == ({}, {})
    assert remembered_effects([], [{"effects": 3}]) == ({}, {})
