"""A tree as a drawing: boxes and edges from left to right, in SVG with a style sheet, legible without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..core.arrays import F64, I32
from ..core.html import shown

NODE, LEAF, ROW, STEP = (166, 40), (104, 44), 54, 218  # sizes of boxes; distance of leaves and of levels


class Drawable(Protocol):
    """What is drawn of a ``Tree``, which draws itself with this module."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def leaf(self) -> str: ...
    @property
    def on(self) -> str | None: ...
    @property
    def feature(self) -> tuple[str, ...]: ...
    @property
    def threshold(self) -> F64: ...
    @property
    def left(self) -> I32: ...
    @property
    def right(self) -> I32: ...
    @property
    def value(self) -> F64: ...
    @property
    def intercept(self) -> F64: ...


def leaf_output(tree: Drawable, node: int, name: str | None = None) -> str:
    """What a leaf adds to the score, with the tree's weight in it; ``name`` stands for the feature of its slope."""
    a, b = tree.weight * float(tree.intercept[node]), tree.weight * float(tree.value[node])
    if tree.on is None:
        return f"{b:+.3g}".replace("-", "−")
    slope = f"{b:+.3g}".replace("-", "−") + f" × {name or tree.on}"
    return f"{a:+.3g} ".replace("-", "−") + slope if tree.leaf == "affine" else slope


def leaves_in_order(tree: Drawable) -> list[int]:
    """The leaves (node indices) from top to bottom of the drawing: a walk that goes left first."""
    out, todo = [], [0]
    while todo:
        node = todo.pop()
        if tree.left[node] < 0:
            out.append(node)
        else:
            todo += [int(tree.right[node]), int(tree.left[node])]
    return out


def drawing(tree: Drawable, shares: Mapping[int, float] | None = None) -> dict[str, Any]:
    """Boxes and edges of the tree from left to right: positions and words. ``shares`` of rows by leaf make edges thick."""
    n, order = len(tree.feature), leaves_in_order(tree)
    depth, share = np.zeros(n, int), dict(shares or {})
    for node in range(n):
        for child in (tree.left[node], tree.right[node]):
            if child >= 0:
                depth[child] = depth[node] + 1
    y = {node: (k + 0.5) * ROW for k, node in enumerate(order)}
    for node in range(n - 1, -1, -1):  # children come after their parents
        if tree.left[node] >= 0:
            children = (int(tree.left[node]), int(tree.right[node]))
            y[node] = sum(y[c] for c in children) / 2
            share[node] = sum(share.get(c, 0.0) for c in children)
    nodes, edges = [], []
    for node in range(n):
        inner = bool(tree.left[node] >= 0)
        width, height = NODE if inner else LEAF
        box = {"x": int(depth[node]) * STEP + 2, "y": y[node] - height / 2, "w": width, "h": height, "leaf": not inner}
        if inner:
            threshold = float(tree.threshold[node])
            nodes.append({**box, "title": clipped(tree.feature[node], 23), "full": tree.feature[node],
                          "text": f"≤ {0.0 if abs(threshold) < 1e-30 else threshold:.4g} ?"})  # fmt: skip
            for child, word in ((int(tree.left[node]), "yes"), (int(tree.right[node]), "no")):
                x1, x2 = box["x"] + NODE[0], int(depth[child]) * STEP + 2
                edges.append({"x1": x1, "y1": y[node], "x2": x2, "y2": y[child], "mid": (x1 + x2) / 2, "word": word,
                              "width": round(1 + 7 * share.get(child, 0.0), 2)})  # fmt: skip
        else:
            output = leaf_output(tree, node, "x")
            sign = np.sign(tree.weight * tree.value[node])
            nodes.append({**box, "title": clipped(output, 20), "full": leaf_output(tree, node),
                          "text": f"{100 * share[node]:.1f}%" if shares else "", "sign": int(sign)})  # fmt: skip
    return {"nodes": nodes, "edges": edges, "width": int(depth.max()) * STEP + LEAF[0] + 4, "height": len(order) * ROW}


def clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def tree_svg(tree: Drawable, shares: Mapping[int, float] | None = None) -> str:
    """The drawing as SVG. Colours come from the style sheet's classes; the attributes do where a viewer drops style sheets."""
    d = drawing(tree, shares)
    parts = [*map(_edge, d["edges"]), *map(_box, d["nodes"])]
    size = f'viewBox="0 0 {d["width"]} {d["height"]}" style="width:{d["width"]}px;min-width:{round(0.72 * d["width"])}px"'
    return f'<svg class="tree" {size} role="img" aria-label="{shown(tree.name)} as a drawing">\n{"".join(parts)}</svg>'


def _edge(e: Mapping[str, Any]) -> str:
    curve = f"M{e['x1']} {e['y1']} C{e['mid']} {e['y1']} {e['mid']} {e['y2']} {e['x2']} {e['y2']}"
    path = f'<path class="edge {e["word"]}" d="{curve}" stroke-width="{e["width"]}" fill="none" stroke="#a9b2c0"/>'
    return f"{path}{_text('word', e['word'], e['mid'] + 8, e['y2'] + (14 if e['word'] == 'no' else -7))}\n"


def _box(n: Mapping[str, Any]) -> str:
    kind = "test" if not n["leaf"] else "leaf up" if n["sign"] > 0 else "leaf down" if n["sign"] < 0 else "leaf"
    x, y = n["x"] + n["w"] / 2, n["y"] + n["h"] / 2
    rect = f'<rect x="{n["x"]}" y="{n["y"]}" width="{n["w"]}" height="{n["h"]}" rx="9" fill="#ffffff" stroke="#667083"/>'
    words = f"{_text('name', n['title'], x, y - 4)}{_text('small', n['text'], x, y + 12)}"
    return f'<g class="{kind}"><title>{shown(n["full"])} {shown(n["text"])}</title>{rect}{words}</g>\n'


def _text(kind: str, text: str, x: float, y: float) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" font-size="12" text-anchor="middle">{shown(text)}</text>'
