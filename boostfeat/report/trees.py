"""Tree cards: the drawn tree, its rule, how often each leaf fires on the test list, and real phrases that reach it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import F64, I64, owners
from ..lists.nbest import NBest, take_strings
from ..model.units import UnitSpace
from ..trees.tree import Remembered, Table, Tree
from .run import Run

N_EXAMPLES = 3
NODE, LEAF, ROW, STEP = (166, 40), (104, 44), 54, 218  # sizes of boxes; distance of leaves and of levels


def tree_panels(run: Run) -> list[dict[str, Any]]:
    """For each system with trees, a card a tree."""
    panels = []
    for s in run.boosted:
        assert s.model is not None
        space = UnitSpace.of(s.nbest, s.model.level)
        table, counts = Remembered(space.table), space.counts()
        told = {tree["name"]: tree for tree in s.told["trees"]}
        rng = np.random.default_rng(0)
        cards = [_card(tree, told[tree.name], table, counts, s.nbest, s.model.level, rng) for tree in s.model.trees]
        panels.append({"system": s.name, "level": s.model.level, "cards": cards})
    return panels


def _card(
    tree: Tree, told: dict[str, Any], table: Table, counts: F64, nbest: NBest, level: str, rng: np.random.Generator
) -> dict[str, Any]:
    leaf_of = tree.leaf_of(table)
    total = max(1, sum(told["fires"]))
    shares = {int(node): fires / total for node, fires in zip(tree.leaves, told["fires"], strict=True)}
    names = sorted(tree.features())
    fires = dict(zip(tree.leaves.tolist(), told["fires"], strict=True))
    leaves = [
        {
            "node": node,
            "output": leaf_output(tree, node),
            "share": shares[node],
            "fires": fires[node],
            "examples": _examples(np.flatnonzero(leaf_of == node), table, counts, nbest, level, names, rng),
        }
        for node in leaves_in_order(tree)
    ]
    return {"name": tree.name, "weight": tree.weight, "effect": told["effect"], "rules": told["rules"], "leaves": leaves,
            "on": tree.on, "drawing": drawing(tree, shares)}  # fmt: skip


def leaf_output(tree: Tree, node: int, name: str | None = None) -> str:
    """What a leaf adds to the score, with the tree's weight in it; ``name`` stands for the feature of its slope."""
    a, b = tree.weight * float(tree.intercept[node]), tree.weight * float(tree.value[node])
    if tree.on is None:
        return f"{b:+.3g}".replace("-", "−")
    slope = f"{b:+.3g}".replace("-", "−") + f" × {name or tree.on}"
    return f"{a:+.3g} ".replace("-", "−") + slope if tree.leaf == "affine" else slope


def leaves_in_order(tree: Tree) -> list[int]:
    """The leaves (node indices) from top to bottom of the drawing: a walk that goes left first."""
    out, todo = [], [0]
    while todo:
        node = todo.pop()
        if tree.left[node] < 0:
            out.append(node)
        else:
            todo += [int(tree.right[node]), int(tree.left[node])]
    return out


def _examples(
    rows: I64, table: Table, counts: F64, nbest: NBest, level: str, names: list[str], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Phrases of a leaf, drawn by how often they occur (Gumbel's trick: the largest of log c + noise), each text once."""
    if not len(rows):
        return []
    with np.errstate(divide="ignore"):
        keys = -np.log(counts[rows]) - rng.gumbel(size=len(rows))
    smallest = np.argpartition(keys, min(8 * N_EXAMPLES, len(rows) - 1))[: 8 * N_EXAMPLES]
    likely = rows[smallest[np.argsort(keys[smallest], kind="stable")]]
    if level == "global":
        of = owners(nbest.hyp_ptr)[likely]
        pairs = zip(take_strings(nbest.source, of).to_pylist(), take_strings(nbest.text, likely).to_pylist(), strict=True)
    else:
        pairs = zip(
            take_strings(nbest.units.src, likely).to_pylist(), take_strings(nbest.units.tgt, likely).to_pylist(), strict=True
        )
    seen: dict[tuple[str, str], int] = {}
    for v, pair in zip(likely, pairs, strict=True):
        if len(seen) < N_EXAMPLES:
            seen.setdefault(pair, int(v))
    columns = {name: table.column(name) for name in names}
    return [
        {"src": src, "tgt": tgt, "x": [[name, f"{columns[name][v]:.3g}"] for name in names]} for (src, tgt), v in seen.items()
    ]


def drawing(tree: Tree, shares: dict[int, float]) -> dict[str, Any]:
    """Boxes and edges of the tree from left to right: positions and words; the template draws them."""
    share, depth = dict(shares), np.zeros(len(tree.feature), int)
    for node in range(len(tree.feature)):
        for child in (tree.left[node], tree.right[node]):
            if child >= 0:
                depth[child] = depth[node] + 1
    y = {node: (k + 0.5) * ROW for k, node in enumerate(leaves_in_order(tree))}
    for node in range(len(tree.feature) - 1, -1, -1):  # children come after their parents
        if tree.left[node] >= 0:
            children = (int(tree.left[node]), int(tree.right[node]))
            y[node] = sum(y[c] for c in children) / 2
            share[node] = sum(share[c] for c in children)
    nodes, edges = [], []
    for node in range(len(tree.feature)):
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
                              "width": round(1 + 7 * share[child], 2)})  # fmt: skip
        else:
            output = leaf_output(tree, node, "x")
            sign = np.sign(tree.weight * tree.value[node])
            nodes.append({**box, "title": clipped(output, 20), "full": leaf_output(tree, node),
                          "text": f"{100 * share[node]:.1f}%", "sign": int(sign)})  # fmt: skip
    return {"nodes": nodes, "edges": edges, "width": int(depth.max()) * STEP + LEAF[0] + 4,
            "height": tree.n_leaves * ROW}  # fmt: skip


def clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
