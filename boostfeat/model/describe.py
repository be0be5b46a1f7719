"""A model in words: features by total effect, trees as rules, how often each leaf fires."""

from __future__ import annotations

from sys import float_info
from typing import Any

import numpy as np

from ..lists.nbest import NBest
from ..trees.tree import Remembered, Tree
from .effects import linear_effects, sparse_within_list_sd, within_list_sd
from .model import Model
from .units import UnitSpace


def describe(model: Model, nbest: NBest | None = None) -> dict[str, Any]:
    """What a model does, on a list or, without one, on the list it was learnt on (as its history tells).

    Effects are standard deviations within lists of what a feature or tree adds to the score; a feature's total effect is
    that of its weight plus an equal share of the effect of every tree that uses it.
    """
    effects, per_tree = _remembered(model)
    sparse: frozenset[str] | None = None
    if nbest is not None:
        spread = dict(zip(nbest.sparse_names.to_pylist(), sparse_within_list_sd(nbest).tolist(), strict=True))
        sparse = frozenset(spread)
        effects = linear_effects(nbest, model.weights)
        effects |= {name: abs(weight) * spread[name] for name, weight in model.weights.items() if name in sparse}
        space = UnitSpace.of(nbest, model.level) if model.trees else None
        counts, table = (space.counts(), Remembered(space.table)) if space else (np.zeros(0), None)
        for tree in model.trees:
            assert space is not None
            assert table is not None
            fires = np.bincount(tree.leaf_of(table), counts, minlength=len(tree.feature))[tree.leaves]
            effect = within_list_sd(nbest.hyp_ptr, tree.weight * space.sum(tree.predict(table)))[0]
            per_tree[tree.name] = (float(effect), fires.astype(int).tolist())
    total = {name: effects.get(name, 0.0) for name in model.weights}
    for tree in model.trees:
        names = tree.features()
        for name in names:
            total[name] = total.get(name, 0.0) + (per_tree[tree.name][0] or 0.0) / len(names)
    features = [
        {
            "name": name,
            "weight": model.weights.get(name),
            "effect": effects.get(name),
            "total_effect": total[name],
            "sparse": None if sparse is None else name in sparse,  # None: there is no list to tell
        }
        for name in sorted(total, key=lambda n: (-total[n], -abs(model.weights.get(n, 0.0)), n))
    ]
    return {
        "signature": model.signature,
        "level": model.level,
        "features": features,
        "trees": [_tree(tree, *per_tree[tree.name]) for tree in model.trees],
    }


def _remembered(model: Model) -> tuple[dict[str, float], dict[str, tuple[float | None, list[int] | None]]]:
    """(effects of features, (effect, how often leaves fire) of trees) of the history, which may hold anything."""
    rows = {row["tree"]: row for row in model.history if isinstance(row.get("tree"), str)}
    first = model.history[0].get("effects") if model.history else None
    effects = {name: float(e) for name, e in first.items() if _is_number(e)} if isinstance(first, dict) else {}
    per_tree: dict[str, tuple[float | None, list[int] | None]] = {}
    for tree in model.trees:
        effect, fires = (rows.get(tree.name, {}).get(key) for key in ("effect", "fires"))
        counted = isinstance(fires, list) and len(fires) == tree.n_leaves and all(_is_number(k) and k >= 0 for k in fires)
        per_tree[tree.name] = (float(effect or 0.0) if _is_number(effect) else None, fires if counted else None)
    return effects, per_tree


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max


def _tree(tree: Tree, effect: float | None, fires: list[int] | None) -> dict[str, Any]:
    """``fires``: how often each leaf fires, in the order of the tree's nodes, and as shares behind the leaves in the rules."""
    n = max(1, sum(fires or []))
    notes = {int(node): f"{100 * k / n:.1f}%" for node, k in zip(tree.leaves, fires or [], strict=False)}
    return {"name": tree.name, "weight": tree.weight, "rules": tree.rules(notes), "effect": effect, "fires": fires}
