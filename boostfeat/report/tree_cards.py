"""Tree cards: the drawn tree, its rule, how often each leaf fires on the test list, and real phrases that reach it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import F64, I64, owners
from ..lists.nbest import NBest, take_strings
from ..model.model import tree_scores
from ..model.units import UnitSpace
from ..trees.drawing import leaf_output, leaves_in_order, tree_svg
from ..trees.tree import Remembered, Table, Tree
from .run_folder import Run, System

N_EXAMPLES = 3


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
        panels.append({"system": s.name, "level": s.model.level, "cards": cards, "known": _known(run, s)})
    return panels


def _known(run: Run, system: System) -> dict[str, Any]:
    """Return the share of what trees add that sums of features tell already, and with the trees of a global system."""
    assert system.model is not None
    added = _added(system)
    sums = system.nbest.global_features
    other = next((s for s in run.boosted if s.model is not None and s.model.level == "global" != system.model.level), None)
    out: dict[str, Any] = {"sums": told_share(system.nbest.hyp_ptr, added, sums)}
    if other is not None:
        out |= {"other": other.name, "both": told_share(system.nbest.hyp_ptr, added, np.column_stack([sums, _added(other)]))}
    return out


def _added(system: System) -> F64:
    """[H] what the trees of a system add to the score."""
    assert system.model is not None
    space = UnitSpace.of(system.nbest, system.model.level)
    return space.sum(tree_scores(system.model.trees, space.table))


def told_share(hyp_ptr: I64, values: F64, columns: F64) -> float:
    """R² within lists of values [H] on columns [H, D]: 1 where a linear function of the columns ranks as the values do."""
    lists, n = owners(hyp_ptr), np.maximum(np.diff(hyp_ptr), 1)

    def centred(x: F64) -> F64:
        return x - (np.bincount(lists, x, minlength=len(n)) / n)[lists]

    y, x = centred(values), np.empty(columns.shape)
    for k, column in enumerate(columns.T):
        x[:, k] = centred(column)
    if not (total := float(y @ y)):
        return 1.0
    spread = np.sqrt(np.einsum("hd,hd->d", x, x))
    x = x[:, spread > 0] / spread[spread > 0]
    weights = np.linalg.lstsq(x.T @ x, x.T @ y, rcond=1e-10)[0]
    rest = y - x @ weights
    return 1 - float(rest @ rest) / total


def _card(
    tree: Tree, told: dict[str, Any], table: Table, counts: F64, nbest: NBest, level: str, rng: np.random.Generator
) -> dict[str, Any]:
    leaf_of = tree.leaf_of(table)
    fires = dict(zip(tree.leaves.tolist(), told["fires"], strict=True))
    shares = {node: n / max(1, sum(fires.values())) for node, n in fires.items()}
    names = sorted(tree.features())
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
            "on": tree.on, "drawing": tree_svg(tree, shares)}  # fmt: skip


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
