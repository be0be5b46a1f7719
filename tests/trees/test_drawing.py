"""Trees, drawn: boxes for nodes, edges for children, nothing outside the frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_trees import stump

from boostfeat.trees.drawing import LEAF, NODE, ROW, STEP, clipped, drawing, leaf_output, leaves_in_order, tree_svg
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

STUMP = stump("constant", None, feature="f", threshold=0.5, values=(1.0, -3.0), weight=2.0)
# 0 -> (1, 2), 1 -> (3, 4): leaves from top to bottom are 3, 4, 2
DEEPER = Tree("t", 1.0, "constant", None, ("f", "g", "", "", ""), np.array([1e-35, -2.0, 0, 0, 0]),
              np.array([1, 3, -1, -1, -1], np.int32), np.array([2, 4, -1, -1, -1], np.int32),
              np.array([0.0, 0.0, 0.0, 1.0, -1.0]))  # fmt: skip


def test_a_box_a_node_and_an_edge_a_child():
    drawn = drawing(STUMP, {1: 0.25, 2: 0.75})
    assert [n["title"] for n in drawn["nodes"]] == ["f", "+2", "−6"]
    assert [n["text"] for n in drawn["nodes"]] == ["≤ 0.5 ?", "25.0%", "75.0%"]
    assert [n.get("sign") for n in drawn["nodes"]] == [None, 1, -1]
    assert [(e["word"], e["width"]) for e in drawn["edges"]] == [("yes", 2.75), ("no", 6.25)]  # 1 + 7 · share


def test_places_by_hand():
    """Leaves a row apart, a parent between its children, levels a step apart; a test at 1e-35 is one at 0."""
    drawn = drawing(DEEPER)
    assert leaves_in_order(DEEPER) == [3, 4, 2]
    middle = [n["y"] + n["h"] / 2 for n in drawn["nodes"]]
    assert middle == [ROW * y for y in (1.75, 1.0, 2.5, 0.5, 1.5)]
    assert [n["x"] for n in drawn["nodes"]] == [2, STEP + 2, STEP + 2, 2 * STEP + 2, 2 * STEP + 2]
    assert [(n["w"], n["h"]) for n in drawn["nodes"]] == [NODE, NODE, LEAF, LEAF, LEAF]
    assert (drawn["width"], drawn["height"]) == (2 * STEP + LEAF[0] + 4, 3 * ROW)
    assert [n["text"] for n in drawn["nodes"]] == ["≤ 0 ?", "≤ -2 ?", "", "", ""]
    assert [n.get("sign") for n in drawn["nodes"]] == [None, None, 0, 1, -1]
    for edge, (parent, child) in zip(drawn["edges"], [(0, 1), (0, 2), (1, 3), (1, 4)], strict=True):
        assert (edge["x1"], edge["y1"]) == (drawn["nodes"][parent]["x"] + NODE[0], middle[parent])
        assert (edge["x2"], edge["y2"]) == (drawn["nodes"][child]["x"], middle[child])
        assert edge["width"] == 1


def test_shares_add_up_on_the_way_to_the_root():
    drawn = drawing(DEEPER, {2: 0.5, 3: 0.125, 4: 0.375})
    assert [e["width"] for e in drawn["edges"]] == [4.5, 4.5, 1.88, 3.62]


def test_what_a_leaf_adds():
    assert leaf_output(STUMP, 2) == "−6"
    linear = replace(STUMP, leaf="linear", on="g")
    assert leaf_output(linear, 2) == "−6 × g"
    assert leaf_output(linear, 2, "x") == "−6 × x"
    affine = replace(STUMP, leaf="affine", on="g", intercept=np.array([0, 0.5, -0.25]))
    assert leaf_output(affine, 1) == "+1 +2 × g"
    assert leaf_output(affine, 2) == "−0.5 −6 × g"


def test_long_names_are_clipped_and_told_in_full():
    name = "a" * 24
    drawn = drawing(replace(STUMP, feature=(name, "", "")))["nodes"][0]
    assert (drawn["title"], drawn["full"]) == ("a" * 22 + "…", name)
    assert clipped("a" * 23, 23) == "a" * 23


def test_svg():
    svg = tree_svg(STUMP, {1: 0.25, 2: 0.75})
    assert svg.count("<rect ") == 3
    assert svg.count("<path ") == 2
    assert [kind in svg for kind in ('class="test"', 'class="leaf up"', 'class="leaf down"')] == [True] * 3
    assert 'class="leaf"' in tree_svg(DEEPER)
    assert "<title>+2 25.0%</title>" in svg
    assert 'viewBox="0 0 326 108" style="width:326px;min-width:235px"' in svg
