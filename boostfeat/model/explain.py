"""Why a model chose as it did: what every feature, tree and unit adds to one hypothesis over another.

A tree is a column like any other (tree_columns.augment), so a score is linear in all of them, and a difference of scores is the
sum of its parts:  s(c) - s(d) = Σ_j w_j (f_j(c) - f_j(d)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import F64, I64
from ..lists.joining import with_features
from ..lists.nbest import NBest, by_name
from .decision import Decision
from .model import Model
from .tree_columns import augment, augmented_weights

_SIDES = ("chosen", "other", "both")
LENGTH = "(length)"  # what it costs, as a feature


def with_length(model: Model, nbest: NBest) -> tuple[Model, NBest]:
    """Return both with what lengths cost as a feature like any other, for those who ask what a choice is made of."""
    length = Decision.of(model.config).length
    if length is None:
        return model, nbest
    return replace(model, weights={**model.weights, LENGTH: -1.0}), with_features(nbest, {LENGTH: length.costs_in(nbest)})


@dataclass(frozen=True)
class ChangedChoices:
    """The n sentences where two choices differ, as lists of these two hypotheses only; the first ones are at 0, 2, 4, ..."""

    sentences: I64  # [n] positions in the whole list
    pairs: NBest  # [2n] hypotheses with the trees as features
    weights: dict[str, float]
    trees: tuple[str, ...]

    @classmethod
    def of(cls, model: Model, nbest: NBest, chosen: I64, other: I64) -> ChangedChoices:
        """IN the model's choices [S] and others [S], -1 where a list is empty."""
        differ = np.flatnonzero((chosen >= 0) & (other >= 0) & (chosen != other))
        hyps = np.stack([chosen[differ], other[differ]], axis=1).ravel()
        pairs = nbest.take_hyps(hyps, 2 * np.arange(len(differ) + 1), differ).compact()
        names = tuple(tree.name for tree in model.trees)
        return cls(differ, augment(pairs, model), augmented_weights(model), names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.pairs.feature_names)

    @cached_property
    def parts(self) -> sparse.csr_matrix:
        """[n, names] what each feature and tree adds to the first over the second; only what is not 0."""
        of_all = by_name(self.weights, self.names)
        n_dense = len(self.pairs.global_names)
        dense = self.pairs.global_features
        left = sparse.csr_matrix((dense[0::2] - dense[1::2]) * of_all[:n_dense])
        own = self.pairs.global_sparse
        right = (own[0::2] - own[1::2]).multiply(of_all[n_dense:])
        out = sparse.csr_matrix(sparse.hstack([left, right]))
        out.eliminate_zeros()
        return out

    @cached_property
    def totals(self) -> F64:
        """[n] s(c) - s(d)."""
        return np.asarray(self.parts.sum(axis=1)).ravel()

    def features(self, k: int) -> list[tuple[str, float]]:
        """(name, part) of pair k, the largest first."""
        row = self.parts[k]
        found = zip((self.names[j] for j in row.indices), row.data.tolist(), strict=True)
        return sorted(found, key=lambda item: (-abs(item[1]), item[0]))

    def units(self, k: int) -> list[dict[str, Any]]:
        """Return what units that only one of the two has add: {"in", "src", "tgt", "linear", "trees"}; "in": chosen, other, both.

        A phrase pair that both have in another context (other neighbours, another order) is one row. So are the features of
        whole hypotheses, without phrases. The rows sum to the difference.
        """
        tree_weights = {name: self.weights[name] for name in self.trees}
        plain = {name: w for name, w in self.weights.items() if name not in tree_weights}
        linear, own_linear = self.pairs.weigh(plain)
        trees, own_trees = self.pairs.weigh(tree_weights)
        one, two = self._units_of(2 * k), self._units_of(2 * k + 1)
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for side, only, sign in (("chosen", one - two, 1.0), ("other", two - one, -1.0)):
            for unit, count in only.items():
                src, tgt = self.pairs.units.src[unit].as_py(), self.pairs.units.tgt[unit].as_py()
                row = rows.setdefault((src, tgt), {"in": side, "src": src, "tgt": tgt, "linear": 0.0, "trees": 0.0})
                row["in"] = side if row["in"] == side else "both"
                row["linear"] += sign * count * float(linear[unit])
                row["trees"] += sign * count * float(trees[unit])
        rest = [float(v[2 * k] - v[2 * k + 1]) for v in (own_linear, own_trees)]
        if any(rest):
            rows["", ""] = {"in": "both", "src": None, "tgt": None, "linear": rest[0], "trees": rest[1]}
        return sorted(rows.values(), key=lambda row: _SIDES.index(row["in"]))

    def _units_of(self, h: int) -> Counter[int]:
        ptr = self.pairs.unit_ptr
        return Counter(self.pairs.unit_idx[ptr[h] : ptr[h + 1]].tolist())

    def movers(self, gains: F64) -> list[dict[str, Any]]:
        """For each feature and tree, the choices that it decided: without it the other hypothesis would be ahead.

        IN how much better [n] the chosen hypotheses are. Those that decided most come first.
        """
        return self._deciders(self.parts, self.names, gains)

    def group_movers(self, groups: Mapping[str, str], gains: F64) -> list[dict[str, Any]]:
        """Return the choices that groups of features decided, their parts taken together; IN the group of each name."""
        of = [groups[name] for name in self.names]
        number = {name: k for k, name in enumerate(dict.fromkeys(of))}
        one = np.ones(len(of)), (np.arange(len(of)), np.array([number[name] for name in of], np.int64))
        parts = self.parts @ sparse.csr_matrix(one, shape=(len(of), len(number)))
        sizes = Counter(of)
        return [{"features": sizes[row["name"]], **row} for row in self._deciders(parts, tuple(number), gains)]

    def _deciders(self, parts: sparse.csr_matrix, names: Sequence[str], gains: F64) -> list[dict[str, Any]]:
        ahead = parts.tocoo()
        total = self.totals[ahead.row]
        decided = (total > 0) & (total - ahead.data <= 0)
        row, column = ahead.row[decided], ahead.col[decided]
        gain = gains[row]
        n = len(names)
        counts = np.bincount(column, minlength=n)
        better, worse = (np.bincount(column[side], minlength=n) for side in (gain > 0, gain < 0))
        summed = np.bincount(column, gain, minlength=n)
        order = [int(j) for j in np.lexsort((np.arange(n), -counts)) if counts[j]]
        return [
            {
                "name": names[j],
                "decided": int(counts[j]),
                "better": int(better[j]),
                "worse": int(worse[j]),
                "gain": float(summed[j] / counts[j]),
            }
            for j in order
        ]
