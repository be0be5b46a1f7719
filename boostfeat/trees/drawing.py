"""A tree as a drawing: boxes and edges from left to right, in SVG with a style sheet, legible without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..core.html import shown

Tree = Any  # a trees.tree.Tree, which draws itself with this module
NODE, LEAF, ROW, STEP = (166, 40), (104, 44), 54, 218  # sizes of boxes; distance of leaves and of levels


def leaf_output(tree: Tree, node: int, name: str | None = None) -> str:
    """Write what a leaf adds to the score, with the tree's weight in it; ``name`` stands for the feature of its slope."""
    a, b = (f"{tree.weight * float(x[node]):+.3g}".replace("-", "−") for x in (tree.intercept, tree.value))
    if tree.on is None:
        return b
    slope = f"{b} × {name or tree.on}"
    return f"{a} {slope}" if tree.leaf == "affine" else slope


def leaves_in_order(tree: Tree) -> list[int]:
    """Return the leaves (node indices) from top to bottom of the drawing: a walk that goes left first."""
    out, todo = [], [0]
    while todo:
        node = todo.pop()
        if tree.left[node] < 0:
            out.append(node)
        else:
            todo += [int(tree.right[node]), int(tree.left[node])]
    return out


def places(tree: Tree) -> tuple[I64, F64, dict[int, tuple[int, int]]]:
    """Return the left side and the middle height of each node's box, and the children of nodes that have any."""
    x, y = np.full(len(tree.feature), 2), np.zeros(len(tree.feature))
    leaves = leaves_in_order(tree)
    y[leaves] = (np.arange(len(leaves)) + 0.5) * ROW
    children = {n: (int(tree.left[n]), int(tree.right[n])) for n in range(len(x)) if tree.left[n] >= 0}
    for node, below in children.items():
        x[[*below]] = x[node] + STEP
    for node, below in reversed(children.items()):  # children come after their parents
        y[node] = y[[*below]].mean()
    return x, y, children


def split_test(tree: Tree, node: int) -> str:
    threshold = float(tree.threshold[node])
    return f"≤ {0.0 if abs(threshold) < 1e-30 else threshold:.4g} ?"


def tree_svg(tree: Tree, shares: Mapping[int, float] | None = None) -> str:
    """Draw the tree; ``shares`` of rows by leaf make edges thick.

    Colours come from the style sheet's classes; the attributes do where a viewer drops style sheets.
    """
    x, y, children = places(tree)
    share = {node: 0.0 for node in range(len(x))} | dict(shares or {})
    for node, below in reversed(children.items()):
        share[node] = sum(share[c] for c in below)
    edges, boxes = [], []
    for node in range(len(x)):
        if node in children:
            name = tree.feature[node]
            boxes.append(_box("test", NODE, x[node], y[node], clipped(name, 23), name, split_test(tree, node)))
            for child, word in zip(children[node], ("yes", "no"), strict=True):
                width = round(1 + 7 * share[child], 2)
                edges.append(_edge(x[node] + NODE[0], y[node], x[child], y[child], word, width))
        else:
            kind = ("leaf", "leaf up", "leaf down")[int(np.sign(tree.weight * tree.value[node]))]
            words = clipped(leaf_output(tree, node, "x"), 20), leaf_output(tree, node)
            boxes.append(_box(kind, LEAF, x[node], y[node], *words, f"{100 * share[node]:.1f}%" if shares else ""))
    width, height = int(x.max()) + LEAF[0] + 2, (len(x) - len(children)) * ROW
    size = f'viewBox="0 0 {width} {height}" style="width:{width}px;min-width:{round(0.72 * width)}px"'
    parts = "".join((*edges, *boxes))
    return f'<svg class="tree" {size} role="img" aria-label="{shown(tree.name)} as a drawing">\n{parts}</svg>'


def clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _edge(x1: int, y1: float, x2: int, y2: float, word: str, width: float) -> str:
    middle = (x1 + x2) / 2
    curve = f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
    path = f'<path class="edge {word}" d="{curve}" stroke-width="{width}" fill="none" stroke="#a9b2c0"/>'
    return f"{path}{_text('word', word, middle + 8, y2 + (14 if word == 'no' else -7))}\n"


def _box(kind: str, size: tuple[int, int], x: int, y: float, title: str, full: str, text: str) -> str:
    width, height = size
    rect = f'<rect x="{x}" y="{y - height / 2}" width="{width}" height="{height}" rx="9" fill="#ffffff" stroke="#667083"/>'
    words = f"{_text('name', title, x + width / 2, y - 4)}{_text('small', text, x + width / 2, y + 12)}"
    return f'<g class="{kind}"><title>{shown(full)} {shown(text)}</title>{rect}{words}</g>\n'


def _text(kind: str, text: str, x: float, y: float) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" font-size="12" text-anchor="middle">{shown(text)}</text>'
