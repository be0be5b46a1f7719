"""Tree features as columns: any tuner can weigh them, any decoder's list can carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .arrays import F64, I64
from .errors import InputError
from .model import Model, hypothesis_table, unit_table
from .nbest import NBest
from .tree import Table


def augment(nbest: NBest, model: Model) -> NBest:
    """The same lists with every tree as a named feature (its value without the weight).

    Local trees become unit features, global ones features of the hypothesis.
    """
    names = tuple(tree.name for tree in model.trees)
    known = set(nbest.global_names) | set(nbest.sparse_names.to_pylist())
    if repeated := [name for name in names if name in known] or [n for n in names if names.count(n) > 1]:
        raise InputError(f"expected a list without a feature {repeated[0]!r}, found it there already; augment the original list")
    if model.level == "global":
        table = hypothesis_table(nbest)
        return replace(nbest, extra=_beside(nbest.extra, model, table), extra_names=nbest.extra_names + names)
    if nbest.n_hyps and not nbest.n_occurrences and names:
        raise InputError("expected a list with units (phrases) for trees of level local, found none; import one that has them")
    units = replace(nbest.units, x=_beside(nbest.units.x, model, unit_table(nbest)))
    return replace(nbest, units=units, unit_names=nbest.unit_names + names)


def _beside(x: F64, model: Model, table: Table) -> F64:
    out = np.empty((len(x), x.shape[1] + len(model.trees)))
    out[:, : x.shape[1]] = x
    for m, tree in enumerate(model.trees):
        out[:, x.shape[1] + m] = tree.predict(table)
    return out


def augmented_weights(model: Model) -> dict[str, float]:
    """Weights that give an augmented list the scores that the model gives the original."""
    return {**model.weights, **{tree.name: tree.weight for tree in model.trees}}


def folded(weights: Mapping[str, float], model: Model) -> Model:
    """The model with the weights that a tuner found on the augmented list: those of trees go back to the trees."""
    names = {tree.name for tree in model.trees}
    return replace(
        model,
        weights={name: w for name, w in weights.items() if name not in names},
        trees=tuple(replace(tree, weight=float(weights.get(tree.name, 0.0))) for tree in model.trees),
    )


def within_list_sd(hyp_ptr: I64, values: F64) -> F64:
    """Standard deviation of values [H] or [H, D] about their list's mean: how much they can move the ranking."""
    values = values.reshape(len(values), -1)
    counts = np.diff(hyp_ptr)
    if not len(values):
        return np.zeros(values.shape[1])
    lists = np.repeat(np.arange(len(counts)), counts)
    sums = np.stack([np.bincount(lists, column, minlength=len(counts)) for column in values.T], axis=1)
    means = sums / np.maximum(counts, 1)[:, None]
    return np.sqrt(np.mean((values - means[lists]) ** 2, axis=0))
