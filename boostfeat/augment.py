"""Tree features as columns: any tuner can weigh them, any decoder's list can carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numba import njit
from scipy import sparse

from .arrays import F64, I64
from .blocks import block_ptr
from .errors import InputError, repeated
from .model import Model, hypothesis_table, unit_table
from .nbest import NBest, SparseRows, strings
from .tree import Table, Tree


def augment(nbest: NBest, model: Model, *, leaves: bool = False) -> NBest:
    """The same lists with every tree as a named feature (its value without the weight).

    Local trees become unit features, global ones features of the hypothesis. With ``leaves``, every leaf is a feature of its own
    (``tree.000.2``, its value where a unit is in it): sparse, as a unit is in one leaf of each tree.
    """
    names = leaf_names(model) if leaves else tuple(tree.name for tree in model.trees)
    known = set(nbest.global_names) | set(nbest.sparse_names.to_pylist())
    if twice := next((name for name in names if name in known), None) or repeated(names):
        raise InputError(f"expected a list without a feature {twice!r}, found it there already; augment the original list")
    if leaves:
        return _with_leaves(nbest, model, names)
    if model.level == "global":
        table = hypothesis_table(nbest)
        return replace(nbest, extra=_beside(nbest.extra, model, table), extra_names=nbest.extra_names + names)
    _check_units(nbest, model)
    units = replace(nbest.units, x=_beside(nbest.units.x, model, unit_table(nbest)))
    return replace(nbest, units=units, unit_names=nbest.unit_names + names)


def _beside(x: F64, model: Model, table: Table) -> F64:
    out = np.empty((len(x), x.shape[1] + len(model.trees)))
    out[:, : x.shape[1]] = x
    for m, tree in enumerate(model.trees):
        out[:, x.shape[1] + m] = tree.predict(table)
    return out


def _check_units(nbest: NBest, model: Model) -> None:
    if model.trees and nbest.n_hyps and not nbest.n_occurrences:
        raise InputError("expected a list with units (phrases) for trees of level local, found none; import one that has them")


def leaf_names(model: Model) -> tuple[str, ...]:
    """Of all leaves of all trees, in the order of trees and of nodes."""
    return tuple(f"{tree.name}.{k}" for tree in model.trees for k in range(tree.n_leaves))


def _with_leaves(nbest: NBest, model: Model, names: tuple[str, ...]) -> NBest:
    """The list with a sparse feature for each leaf."""
    local = model.level == "local"
    if local:
        _check_units(nbest, model)
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


def augmented_weights(model: Model, *, leaves: bool = False) -> dict[str, float]:
    """Weights that give an augmented list the scores that the model gives the original."""
    if leaves:
        of_leaf = [tree.weight for tree in model.trees for _ in range(tree.n_leaves)]
        return {**model.weights, **dict(zip(leaf_names(model), of_leaf, strict=True))}
    return {**model.weights, **{tree.name: tree.weight for tree in model.trees}}


def folded(weights: Mapping[str, float], model: Model, *, leaves: bool = False) -> Model:
    """The model with the weights that a tuner found on the augmented list: those of trees (or leaves) go back to the trees."""
    if leaves:
        own = set(leaf_names(model))
        return replace(
            model,
            weights={name: w for name, w in weights.items() if name not in own},
            trees=tuple(_weighed_leaves(tree, weights) for tree in model.trees),
        )
    names = {tree.name for tree in model.trees}
    return replace(
        model,
        weights={name: w for name, w in weights.items() if name not in names},
        trees=tuple(replace(tree, weight=float(weights.get(tree.name, 0.0))) for tree in model.trees),
    )


def _weighed_leaves(tree: Tree, weights: Mapping[str, float]) -> Tree:
    factor = np.zeros(len(tree.feature))
    factor[tree.leaves] = [weights.get(f"{tree.name}.{k}", 0.0) for k in range(tree.n_leaves)]
    return replace(tree, weight=1.0, value=factor * tree.value, intercept=factor * tree.intercept)


def within_list_sd(hyp_ptr: I64, values: F64) -> F64:
    """Standard deviation of values [H] or [H, D] about their list's mean: how much they can move the ranking."""
    values = values[:, None] if values.ndim == 1 else values
    if not len(values):
        return np.zeros(values.shape[1])
    ptr = block_ptr(len(hyp_ptr) - 1)
    total = sum(squares_within_lists(hyp_ptr[a : b + 1] - hyp_ptr[a], values[hyp_ptr[a] : hyp_ptr[b]]) for a, b in pairwise(ptr))
    return np.asarray(np.sqrt(total / len(values)))


def squares_within_lists(hyp_ptr: I64, values: F64) -> F64:
    """[D] the sum of squares of values [H, D] about their list's mean."""
    squares = np.empty(values.shape)
    _squares(hyp_ptr, values, squares)
    return np.asarray(squares.sum(axis=0))


@njit(cache=True, nogil=True)
def _squares(hyp_ptr, values, out):  # type: ignore[no-untyped-def]
    """OUT out[H, D]: the squared distance of values[H, D] from their list's mean."""
    for s in range(len(hyp_ptr) - 1):
        start, end = hyp_ptr[s], hyp_ptr[s + 1]
        for d in range(values.shape[1]):
            total = 0.0
            for h in range(start, end):
                total += values[h, d]
            mean = total / max(end - start, 1)
            for h in range(start, end):
                out[h, d] = (values[h, d] - mean) ** 2


def sparse_within_list_sd(nbest: NBest) -> F64:
    """[N] the same of the sparse features, of units and of hypotheses."""
    squares = np.zeros(len(nbest.sparse_names))
    rows = [column for part in (nbest.units.sparse, nbest.extra_sparse) for column in (part.ptr, part.idx, part.val)]
    _sparse_squares(nbest.hyp_ptr, nbest.unit_ptr, nbest.unit_idx, *rows, squares)
    return np.asarray(np.sqrt(squares / max(1, nbest.n_hyps)))


@njit(cache=True, nogil=True)
def _sparse_squares(hyp_ptr, unit_ptr, unit_idx, u_ptr, u_idx, u_val, h_ptr, h_idx, h_val, out):  # type: ignore[no-untyped-def]
    """OUT out[N] += squared distances from the list's mean. Of a list only the features that occur in it are touched."""
    n = len(out)
    value, total, squares = np.zeros(n), np.zeros(n), np.zeros(n)  # of a hypothesis, of a list so far
    in_hyp, in_list = np.full(n, -1, np.int64), np.full(n, -1, np.int64)  # the last hypothesis and list that has it
    of_hyp, of_list = np.empty(n, np.int64), np.empty(n, np.int64)
    for s in range(len(hyp_ptr) - 1):
        n_list = 0
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            n_hyp = 0
            for r in range(unit_ptr[h], unit_ptr[h + 1] + 1):  # its units, then the hypothesis itself
                own = r == unit_ptr[h + 1]
                ptr, idx, val, row = (h_ptr, h_idx, h_val, h) if own else (u_ptr, u_idx, u_val, np.int64(unit_idx[r]))
                for k in range(ptr[row], ptr[row + 1]):
                    j = idx[k]
                    if in_hyp[j] != h:
                        in_hyp[j], value[j], of_hyp[n_hyp] = h, 0.0, j
                        n_hyp += 1
                    value[j] += val[k]
            for j in of_hyp[:n_hyp]:
                if in_list[j] != s:
                    in_list[j], total[j], squares[j], of_list[n_list] = s, 0.0, 0.0, j
                    n_list += 1
                total[j] += value[j]
                squares[j] += value[j] ** 2
        for j in of_list[:n_list]:
            out[j] += max(0.0, squares[j] - total[j] ** 2 / (hyp_ptr[s + 1] - hyp_ptr[s]))
