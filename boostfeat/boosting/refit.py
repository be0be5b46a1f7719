"""Corrective refits: weights that were found one after the other, fitted anew together.

    leaves of one tree      b = argmin Ψ(F + Σ_l b_l A 1_l) + l2/2 |b|²                        Newton
    all weights of a model  θ = argmin Ψ(A X λ + Σ_m ρ_m A h_m) + l2/2 |s (θ - θ_0)|²          L-BFGS, s the spread within lists

The penalty of the second is on the step: with l2 = ∞ nothing moves. Ψ never rises, whatever the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numba import njit
from scipy.optimize import minimize

from ..core.arrays import F64, I32, Array, scatter_segments
from ..lists.nbest import NBest
from ..losses import Loss
from ..model.effects import within_list_sd
from ..model.model import Model
from ..model.units import Space
from ..trees.growing import Grown
from ..trees.tree import Tree, leaf_outputs
from .round_loss import Training

RefitKind = Literal["linear", "ensemble", "trees", "leaves"]
REFITS: tuple[RefitKind, ...] = get_args(RefitKind)
NO_SPREAD = 1e-9  # beside a column's largest value: it tells no two hypotheses of a list apart

# ---------------------------------------------------------------------------------------------------------------------
# The leaves of one tree
# ---------------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _leaf_columns(unit_ptr, unit_idx, number, x, out):  # type: ignore[no-untyped-def]
    """OUT out[H, n]: sums of x over the units of each hypothesis in leaf number[v]."""
    for h in range(len(unit_ptr) - 1):
        for i in range(unit_ptr[h], unit_ptr[h + 1]):
            v = unit_idx[i]
            out[h, number[v]] += x[v]


def leaf_columns(space: Space, tree: Tree, leaf_of: I32) -> F64:
    """[H, n] what a hypothesis gets for 1 in each leaf: b of all leaves, then a of affine ones."""
    number = np.zeros(len(tree.feature), np.int32)
    number[tree.leaves] = np.arange(tree.n_leaves)
    ones = np.ones(len(leaf_of))
    values = [ones if tree.on is None else space.table.column(tree.on), ones]
    parts = []
    for x in values[: 2 if tree.leaf == "affine" else 1]:
        parts.append(np.zeros((len(space.unit_ptr) - 1, tree.n_leaves)))
        _leaf_columns(space.unit_ptr, space.unit_idx, number[leaf_of], x, parts[-1])
    return np.hstack(parts)


def with_leaves(tree: Tree, values: F64) -> Tree:
    """The tree with b (and a) of its leaves, in their order."""
    value, intercept = tree.value.copy(), tree.intercept.copy()
    value[tree.leaves] = values[: tree.n_leaves]
    if tree.leaf == "affine":
        intercept[tree.leaves] = values[tree.n_leaves :]
    return replace(tree, value=value, intercept=intercept)


def leaf_values(tree: Tree) -> F64:
    """b (and a) of the leaves, in their order."""
    parts = [tree.value[tree.leaves], tree.intercept[tree.leaves]]
    return np.concatenate(parts[: 2 if tree.leaf == "affine" else 1])


def refit_leaves(training: Training, scores: F64, grown: Grown, *, l2: float) -> Grown:
    """The same structure with leaf values that minimise the loss itself together, ρ being 1."""
    tree = grown.tree
    values = training.newton(scores, lambda space: leaf_columns(space, tree, grown.leaf_of), l2=l2)
    tree = with_leaves(tree, values)
    x = None if tree.on is None else training.space.table.column(tree.on)
    return replace(grown, tree=tree, h=leaf_outputs(grown.leaf_of, value=tree.value, intercept=tree.intercept, x=x))


# ---------------------------------------------------------------------------------------------------------------------
# All weights of a model
# ---------------------------------------------------------------------------------------------------------------------


class Terms:
    """What a model is linear in, as one map: weights θ -> scores [H], and dΨ/dscores [H] -> dΨ/dθ.

    θ is the weights of the list's dense features, then of its sparse ones, then of trees: none (linear), one factor for all of
    them (ensemble), one each (trees) or the values of their leaves (leaves). Trees are kept as leaf numbers, a byte a row.
    """

    def __init__(self, nbest: NBest, space: Space, trees: Sequence[Tree], kind: RefitKind) -> None:
        self.nbest, self.space, self.kind, self.trees = nbest, space, kind, tuple(trees)
        self.names = [*nbest.global_names, *nbest.sparse_names.to_pylist()]
        self._dense = len(nbest.global_names)
        self._extra = np.array([nbest.global_names.index(name) for name in nbest.extra_names], np.int64)
        small = np.uint8 if all(len(tree.feature) <= 256 for tree in trees) else np.int32
        self._leaf_of = [tree.leaf_of(space.table).astype(small) for tree in trees]
        self._fixed = self._tree_scores(self.trees) if kind == "linear" else np.zeros(len(space.x))
        self._sum = self._tree_scores(self.trees) if kind == "ensemble" else np.zeros(0)

    def start(self, model: Model) -> F64:
        """θ of the model."""
        own: list[F64] = []
        if self.kind == "ensemble" and self.trees:
            own = [np.ones(1)]
        elif self.kind == "trees":
            own = [np.array([tree.weight for tree in model.trees])]
        elif self.kind == "leaves":
            own = [tree.weight * leaf_values(tree) for tree in model.trees]
        return np.concatenate([np.array([model.weights.get(name, 0.0) for name in self.names]), *own])

    def fitted(self, theta: F64, model: Model) -> Model:
        """The model with these weights."""
        n = len(self.names)
        known = dict(zip(self.names, theta[:n].tolist(), strict=True))
        weights = {name: w for name, w in known.items() if w != 0 or name in model.weights or name in self.nbest.global_names}
        return replace(model, weights={**model.weights, **weights}, trees=self._with(theta[n:]))

    def _with(self, own: F64) -> tuple[Tree, ...]:
        if self.kind == "linear" or not self.trees:
            return self.trees
        if self.kind == "ensemble":
            return tuple(replace(tree, weight=float(own[0]) * tree.weight) for tree in self.trees)
        if self.kind == "trees":
            return tuple(replace(tree, weight=float(w)) for tree, w in zip(self.trees, own, strict=True))
        ends = np.cumsum([len(leaf_values(tree)) for tree in self.trees])[:-1]
        parts = np.split(own, ends)
        return tuple(with_leaves(replace(tree, weight=1.0), part) for tree, part in zip(self.trees, parts, strict=True))

    def scores(self, theta: F64) -> F64:
        """[H]"""
        n = len(self.names)
        nbest, sparse = self.nbest, theta[self._dense : n]
        unit_scores = np.einsum("vd,d->v", nbest.X, theta[: len(nbest.unit_names)])
        own = np.einsum("he,e->h", nbest.extra, theta[self._extra])
        if len(sparse):
            unit_scores, own = unit_scores + nbest.X_sparse @ sparse, own + nbest.extra_sparse.matrix(len(sparse)) @ sparse
        out = nbest.sum_units(unit_scores, own)
        if self.kind == "linear":
            trees = self._fixed
        elif self.kind == "ensemble":
            trees = theta[n] * self._sum if self.trees else self._fixed
        else:
            trees = self._tree_scores(self._with(theta[n:]))
        return out + self.space.sum(trees) if self.trees else out

    def gradient(self, slope: F64) -> F64:
        """dΨ/dθ of dΨ/dscores [H]."""
        nbest = self.nbest
        g = scatter_segments(nbest.unit_ptr, nbest.unit_idx, slope, nbest.n_units)
        dense = np.zeros(self._dense)
        dense[: len(nbest.unit_names)] = np.einsum("vd,v->d", nbest.X, g)
        dense[self._extra] += np.einsum("he,h->e", nbest.extra, slope)
        n_sparse = len(self.names) - self._dense
        sparse = nbest.X_sparse.T @ g + nbest.extra_sparse.matrix(n_sparse).T @ slope if n_sparse else np.zeros(0)
        return np.concatenate([dense, sparse, self._tree_gradient(self.space.spread(slope))])

    def spreads(self) -> F64:
        """[n] standard deviation of each term within lists; 0 where it tells no two hypotheses apart."""
        nbest = self.nbest
        out = [_spread(nbest, nbest.global_column(name)) for name in nbest.global_names]  # all at once may be gigabytes
        if len(self.names) > self._dense:
            out += _sparse_spreads(nbest).tolist()
        if self.trees and self.kind == "ensemble":
            out.append(_spread(nbest, self.space.sum(self._sum)))
        for tree, leaf_of in zip(self.trees, self._leaf_of, strict=True):
            if self.kind == "trees":
                out.append(_spread(nbest, self.space.sum(self._outputs(tree, leaf_of))))
            elif self.kind == "leaves":
                out += [_spread(nbest, column) for column in leaf_columns(self.space, tree, leaf_of.astype(np.int32)).T]
        return np.array(out)

    def _outputs(self, tree: Tree, leaf_of: Array) -> F64:
        x = None if tree.on is None else self.space.table.column(tree.on)
        return leaf_outputs(leaf_of, value=tree.value, intercept=tree.intercept, x=x)

    def _tree_scores(self, trees: Sequence[Tree]) -> F64:
        """[V] Σ_m ρ_m h_m(x)."""
        out = np.zeros(len(self.space.x))
        for tree, leaf_of in zip(trees, self._leaf_of, strict=True):
            out += tree.weight * self._outputs(tree, leaf_of)
        return out

    def _tree_gradient(self, g: F64) -> F64:
        if self.kind == "linear" or not self.trees:
            return np.zeros(0)
        if self.kind == "ensemble":
            return np.array([self._sum @ g])
        if self.kind == "trees":
            return np.array([self._outputs(t, leaf_of) @ g for t, leaf_of in zip(self.trees, self._leaf_of, strict=True)])
        parts = []
        for tree, leaf_of in zip(self.trees, self._leaf_of, strict=True):
            n, leaves = len(tree.feature), tree.leaves
            x = 1.0 if tree.on is None else self.space.table.column(tree.on)
            parts.append(np.bincount(leaf_of, g * x, minlength=n)[leaves])
            if tree.leaf == "affine":
                parts.append(np.bincount(leaf_of, g, minlength=n)[leaves])
        return np.concatenate(parts)


def _spread(nbest: NBest, column: F64) -> float:
    sd = float(within_list_sd(nbest.hyp_ptr, column)[0])
    return sd if sd > NO_SPREAD * float(np.abs(column).max(initial=0.0)) else 0.0


def _sparse_spreads(nbest: NBest) -> F64:
    """[N] root mean square of the sparse features about 0: within lists they are 0 almost everywhere."""
    square = nbest.global_sparse.power(2).sum(axis=0)
    return np.asarray(np.sqrt(np.asarray(square).ravel() / max(1, nbest.n_hyps)))


def refit_weights(
    model: Model,
    nbest: NBest,
    loss: Loss,
    *,
    kind: RefitKind = "trees",
    l2: float = 1.0,
    max_iter: int = 50,
    space: Space | None = None,
) -> Model:
    """The model with all its weights refitted together on a loss of the whole list [H]; history and config stay."""
    terms = Terms(nbest, space or Space.of(nbest, model.level), model.trees, kind)
    spread, theta = terms.spreads(), terms.start(model)
    moves = spread > 0
    n = max(1, len(nbest))

    def at(u: F64) -> F64:
        out = theta.copy()
        out[moves] += u / spread[moves]
        return out

    def objective(u: F64) -> tuple[float, F64]:
        scores = terms.scores(at(u))
        slope = terms.gradient(loss.gradient(scores))[moves] / spread[moves]
        return (loss.value(scores) + l2 / 2 * float(u @ u)) / n, (slope + l2 * u) / n

    start = np.zeros(int(moves.sum()))
    if not len(start):
        return model
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter, "maxfun": 2 * max_iter})
    return terms.fitted(at(found.x), model)
