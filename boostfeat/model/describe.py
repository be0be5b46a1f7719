"""A model in words: features by total effect, trees as rules, how often each leaf fires."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..lists.nbest import NBest
from ..trees.tree import Remembered, Tree
from .decision import ways_to_decide
from .effects import linear_effects, remembered_effects, sparse_within_list_sd, total_effects, within_list_sd
from .model import Model
from .units import UnitSpace


def describe(model: Model, nbest: NBest | None = None) -> dict[str, Any]:
    """Describe what a model does, on a list or, without one, on the list it was learned on (as its history tells).

    Effects are standard deviations within lists of what a feature or tree adds to the score; a feature's total effect is
    that of its weight plus an equal share of the effect of every tree that uses it.
    """
    effects, per_tree = remembered_effects(model.trees, model.history)
    sparse: frozenset[str] | None = None
    if nbest is not None:
        spread = dict(zip(nbest.sparse_names.to_pylist(), sparse_within_list_sd(nbest).tolist(), strict=True))
        sparse = frozenset(spread)
        effects = linear_effects(nbest, model.weights)
        effects |= {name: abs(weight) * spread[name] for name, weight in model.weights.items() if name in sparse}
        if model.trees:
            per_tree = _effects_of_trees(model, nbest)
    total = total_effects(model.weights, model.trees, effects, per_tree)
    features = [
        {
            "name": name,
            "weight": model.weights.get(name),
            "effect": effects.get(name),
            "total_effect": total[name],
            "sparse": None if sparse is None else name in sparse,  # None: there is no list to tell
        }
        for name in total
    ]
    return {
        "signature": model.signature,
        "level": model.level,
        "decides": ways_to_decide(model.config) or None,  # beside the highest score
        "waterfall": model.config.get("waterfall"),  # what each part is worth on lists that chose
        "features": features,
        "trees": [_tree(tree, *per_tree[tree.name]) for tree in model.trees],
    }


def _effects_of_trees(model: Model, nbest: NBest) -> dict[str, tuple[float | None, list[int] | None]]:
    """(effect, how often each leaf fires) of each tree on a list."""
    space = UnitSpace.of(nbest, model.level)
    out: dict[str, tuple[float | None, list[int] | None]] = {}
    counts, table = space.counts(), Remembered(space.table)
    for tree in model.trees:
        fires = np.bincount(tree.leaf_of(table), counts, minlength=len(tree.feature))[tree.leaves]
        effect = within_list_sd(nbest.hyp_ptr, tree.weight * space.sum(tree.predict(table)))
        out[tree.name] = (effect, fires.astype(int).tolist())
    return out


def _tree(tree: Tree, effect: float | None, fires: list[int] | None) -> dict[str, Any]:
    """``fires``: how often each leaf fires, in the order of the tree's nodes, and as shares behind the leaves in the rules."""
    n = max(1, sum(fires or []))
    notes = {int(node): f"{100 * k / n:.1f}%" for node, k in zip(tree.leaves, fires or [], strict=False)}
    return {"name": tree.name, "weight": tree.weight, "rules": tree.rules(notes), "effect": effect, "fires": fires}
