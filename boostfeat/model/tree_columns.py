"""Tree features as columns: any tuner can weigh them, any decoder's list can carry them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import sparse

from ..core.arrays import F64
from ..core.errors import InputError, repeated
from ..lists.nbest import NBest, SparseRows, strings
from ..trees.tree import TreeInput
from .model import Model, check_units, hypothesis_table, unit_table


def augment(nbest: NBest, model: Model, *, leaves: bool = False) -> NBest:
    """Return the lists with every tree as a named feature (its value without the weight).

    Local trees become unit features, global ones features of the hypothesis. With ``leaves``, every leaf is a feature of its own
    (``tree.000.2``, its value where a unit is in it): sparse, as a unit is in one leaf of each tree.
    """
    names = leaf_names(model) if leaves else tuple(tree.name for tree in model.trees)
    known = set(nbest.global_names) | set(nbest.sparse_names.to_pylist())
    if twice := next((name for name in names if name in known), None) or repeated(names):
        raise InputError(f"expected a list without a feature {twice!r}, found it there already; augment the original list")
    nbest = replace(nbest, meta=_told(nbest, model, names))
    if leaves:
        return _with_leaves(nbest, model, names)
    if model.level == "global":
        table = hypothesis_table(nbest)
        return replace(nbest, extra=_beside(nbest.extra, model, table), extra_names=nbest.extra_names + names)
    if model.trees:
        check_units(nbest)
    units = replace(nbest.units, x=_beside(nbest.units.x, model, unit_table(nbest)))
    return replace(nbest, units=units, unit_names=nbest.unit_names + names)


def _told(nbest: NBest, model: Model, names: tuple[str, ...]) -> dict[str, str]:
    """The list's meta, and that trees made these features: see features.groups."""
    groups = json.loads(nbest.meta.get("templates", "[]"))
    kind = "global" if model.level == "global" else "contextual"
    groups.append({"template": "trees", "kind": kind, "reads": ["features"], "state": [], "features": list(names)})
    return {**nbest.meta, "templates": json.dumps(groups, ensure_ascii=False)}


def _beside(x: F64, model: Model, table: TreeInput) -> F64:
    out = np.empty((len(x), x.shape[1] + len(model.trees)))
    out[:, : x.shape[1]] = x
    for m, tree in enumerate(model.trees):
        out[:, x.shape[1] + m] = tree.predict(table)
    return out


def leaf_names(model: Model) -> tuple[str, ...]:
    """Return the names of all leaves of all trees, in the order of trees and of nodes."""
    return tuple(f"{tree.name}.{k}" for tree in model.trees for k in range(tree.n_leaves))


def _with_leaves(nbest: NBest, model: Model, names: tuple[str, ...]) -> NBest:
    """The list with a sparse feature for each leaf."""
    local = model.level == "local"
    if local and model.trees:
        check_units(nbest)
    table, rows = (unit_table(nbest), nbest.units.sparse) if local else (hypothesis_table(nbest), nbest.extra_sparse)
    n, first = len(table), len(nbest.sparse_names)
    column, value = np.empty((n, len(model.trees)), np.int64), np.empty((n, len(model.trees)))
    for m, tree in enumerate(model.trees):
        number = np.zeros(len(tree.feature), np.int64)
        number[tree.leaves] = first + np.arange(tree.n_leaves)
        column[:, m], value[:, m] = number[tree.leaf_of(table)], tree.predict(table)
        first += tree.n_leaves
    ptr = np.arange(n + 1) * len(model.trees)
    own = sparse.csr_matrix((value.ravel(), column.ravel(), ptr), shape=(n, first))
    wider = SparseRows.from_matrix(rows.matrix(first) + own)
    all_names = strings([*nbest.sparse_names.to_pylist(), *names])
    if not local:
        return replace(nbest, extra_sparse=wider, sparse_names=all_names)
    return replace(nbest, units=replace(nbest.units, sparse=wider), sparse_names=all_names)


def augmented_weights(model: Model) -> dict[str, float]:
    """Weights that give an augmented list the scores that the model gives the original."""
    return {**model.weights, **{tree.name: tree.weight for tree in model.trees}}


def folded(weights: Mapping[str, float], model: Model) -> Model:
    """The model with the weights that a tuner found on the augmented list: those of trees go back to the trees."""
    names = {tree.name for tree in model.trees}
    trees = tuple(replace(tree, weight=float(weights.get(tree.name, 0.0))) for tree in model.trees)
    return replace(model, weights={name: w for name, w in weights.items() if name not in names}, trees=trees)
