"""What show prints: of any history, of models without effects, of deep trees; and who made an augmented list's columns."""

from __future__ import annotations

import pytest
from test_model import DESIGN, lists

from boostfeat.features.groups import feature_groups, feature_kinds
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment
from boostfeat.trees.tree import DEEPEST, Tree


def test_rules_of_a_deep_tree_are_no_longer_than_its_nodes() -> None:
    depth = 3000
    nodes: list[dict[str, object]] = []
    for d in range(depth):
        nodes += [{"feature": "a", "threshold": float(d), "left": 2 * d + 1, "right": 2 * d + 2}, {"value": 1.0}]
    tree = Tree.from_json({"name": "t", "weight": 1.0, "leaf": "constant", "nodes": [*nodes, {"value": 2.0}]}, "t")
    rules = tree.rules().split("\n")
    assert len(rules) == 2 * depth + 1  # a line a test, one a leaf, the weight
    assert max(map(len, rules)) < 4 * DEEPEST + 40
    assert rules[-2].strip() == f"({depth - 1}) else: 2.0"


@pytest.mark.parametrize("level", ["local", "global"])
@pytest.mark.parametrize("leaves", [False, True])
def test_columns_of_trees_are_said_to_be_of_trees(level: str, leaves: bool) -> None:
    nbest = augment(lists(), Model.from_json({**DESIGN, "level": level}, "m"), leaves=leaves)
    groups = {group.name: group for group in feature_groups(nbest)}
    assert groups["trees"].features == (2 if leaves else 1)
    assert groups["trees"].kind == ("contextual" if level == "local" else "global")
    assert groups["decoder"].features == 3
    assert feature_kinds(nbest)["tree.000.1" if leaves else "tree.000"] == ("trees", groups["trees"].kind)
