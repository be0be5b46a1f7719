"""Trees as columns of a list: the same scores by weights alone, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from toy_trees import stump

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.core.errors import InputError
from boostfeat.lists.build import Builder, HypRecord, ReadOptions
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment, augmented_weights, folded
from boostfeat.trees.tree import Tree


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("level", ["local", "global"])
def test_augmented_list_has_the_models_scores(dev, level, leaves):
    model = boost(dev, None, recipe("paper", rounds=4, level=level, min_occurrences=20, draws=500, keep=50))
    wider = augment(dev, model, leaves=leaves)
    of_leaves = {f"{tree.name}.{k}": tree.weight for tree in model.trees for k in range(tree.n_leaves)}
    weights = {**model.weights, **of_leaves} if leaves else augmented_weights(model)
    linear = Model(weights).decision_function(wider)
    np.testing.assert_allclose(linear, model.decision_function(dev), rtol=0, atol=1e-6)
    assert leaves or folded(weights, model).to_json() == model.to_json()
    with pytest.raises(InputError, match=r"tree\.000"):
        augment(wider, model, leaves=leaves)


def test_weights_go_back_to_trees_by_hand():
    """A tree of leaves 0.5 + 2 x and 0.25 + 3 x; what a tuner gave no weight counts for nothing."""
    tree = stump("affine", values=(2.0, 3.0), intercepts=(0.5, 0.25), weight=7.0)
    model = Model({"lm": 1.0}, (tree,))
    whole = folded({"lm": 0.5, "tree.000": 4.0}, model)
    assert (whole.weights, whole.trees[0].weight) == ({"lm": 0.5}, 4.0)
    assert folded({"lm": 0.5}, model).trees[0].weight == 0.0


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("level", ["local", "global"])
def test_trees_of_units_need_units(level, leaves):
    builder = Builder(ReadOptions())
    for k in range(3):
        builder.add(HypRecord(0, f"w{k}", f"list:{k}", features={"own": float(k)}))
    some = builder.finish()
    nodes = [{"feature": "own", "threshold": 0.5, "left": 1, "right": 2}, {"value": 2.0}, {"value": 3.0}]
    tree = Tree.from_json({"name": "t", "weight": 1.0, "leaf": "constant", "nodes": nodes}, "test")
    model = Model({}, (tree,), level=level)
    if level == "global":
        found = augment(some, model, leaves=leaves)
        if leaves:
            assert (found.sparse_names.to_pylist(), found.global_sparse.toarray().tolist()) == (
                ["t.0", "t.1"],
                [[2, 0], [0, 3], [0, 3]],
            )
        else:
            assert found.global_column("t").tolist() == [2.0, 3.0, 3.0]
        return
    with pytest.raises(InputError, match=r"expected a list with units \(phrases\) for trees of level local, found none"):
        augment(some, model, leaves=leaves)
