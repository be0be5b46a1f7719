"""Trees, drawn: boxes for nodes, edges for children, nothing outside the frame."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toy_trees import stump

from boostfeat.trees.drawing import LEAF, NODE, ROW, STEP, leaf_output, leaves_in_order, tree_svg
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

STUMP = stump("constant", None, feature="f", threshold=0.5, values=(1.0, -3.0), weight=2.0)
# 0 -> (1, 2), 1 -> (3, 4): leaves from top to bottom are 3, 4, 2
DEEPER = Tree("t", 1.0, "constant", None, ("f", "g", "", "", ""), np.array([1e-35, -2.0, 0, 0, 0]),
              np.array([1, 3, -1, -1, -1], np.int32), np.array([2, 4, -1, -1, -1], np.int32),
              np.array([0.0, 0.0, 0.0, 1.0, -1.0]))  # fmt: skip


def drawn(tree: Tree, shares: dict[int, float] | None = None) -> tuple[list[Any], list[Any], list[str], list[str]]:
    """Boxes (x, y of the middle, size), edges (curve, width), classes and words of the drawing."""
    svg = tree_svg(tree, shares)
    boxes = [tuple(map(float, m)) for m in re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', svg)]
    edges = [(m[0], float(m[1])) for m in re.findall(r'd="M([^"]+)" stroke-width="([^"]+)"', svg)]
    return (
        [(x, y + h / 2, (w, h)) for x, y, w, h in boxes],
        edges,
        re.findall(r'<g class="([^"]+)">', svg),
        re.findall(r'<text class="(?:name|small)"[^>]*>([^<]*)<', svg),
    )


def test_a_box_a_node_and_an_edge_a_child():
    _, edges, kinds, words = drawn(STUMP, {1: 0.25, 2: 0.75})
    assert words == ["f", "≤ 0.5 ?", "+2", "25.0%", "−6", "75.0%"]
    assert kinds == ["test", "leaf up", "leaf down"]
    assert [width for _, width in edges] == [2.75, 6.25]  # 1 + 7 · share


def test_places_by_hand():
    """Leaves a row apart, a parent between its children, levels a step apart; a test at 1e-35 is one at 0."""
    boxes, edges, kinds, words = drawn(DEEPER)
    assert leaves_in_order(DEEPER) == [3, 4, 2]
    places = zip((0, 1, 1, 2, 2), (1.75, 1.0, 2.5, 0.5, 1.5), (NODE, NODE, LEAF, LEAF, LEAF), strict=True)
    assert boxes == [(2 + level * STEP, ROW * y, size) for level, y, size in places]
    assert f'viewBox="0 0 {2 * STEP + LEAF[0] + 4} {3 * ROW}"' in tree_svg(DEEPER)
    assert words == ["f", "≤ 0 ?", "g", "≤ -2 ?", "+0", "", "+1", "", "−1", ""]
    assert kinds == ["test", "test", "leaf", "leaf up", "leaf down"]
    for (curve, width), (parent, child) in zip(edges, [(0, 1), (0, 2), (1, 3), (1, 4)], strict=True):
        assert curve.startswith(f"{boxes[parent][0] + NODE[0]:.0f} {boxes[parent][1]} C")
        assert curve.endswith(f" {boxes[child][0]:.0f} {boxes[child][1]}")
        assert width == 1


def test_shares_add_up_on_the_way_to_the_root():
    assert [width for _, width in drawn(DEEPER, {2: 0.5, 3: 0.125, 4: 0.375})[1]] == [4.5, 4.5, 1.88, 3.62]


def test_what_a_leaf_adds():
    assert leaf_output(STUMP, 2) == "−6"
    linear = replace(STUMP, leaf="linear", on="g")
    assert leaf_output(linear, 2) == "−6 × g"
    assert leaf_output(linear, 2, "x") == "−6 × x"
    affine = replace(STUMP, leaf="affine", on="g", intercept=np.array([0, 0.5, -0.25]))
    assert leaf_output(affine, 1) == "+1 +2 × g"
    assert leaf_output(affine, 2) == "−0.5 −6 × g"


def test_long_names_are_clipped_and_told_in_full():
    svg = tree_svg(replace(STUMP, feature=("a" * 24, "", "")))
    assert f">{'a' * 22}…</text>" in svg
    assert f"<title>{'a' * 24} ≤ 0.5 ?</title>" in svg
    assert f">{'a' * 23}</text>" in tree_svg(replace(STUMP, feature=("a" * 23, "", "")))
