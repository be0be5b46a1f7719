"""All trees of a model in one set of arrays, for kernels that score one row of features after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import F64, I32, offsets
from ..core.kernels import kernel
from .tree import Tree


class Forest(NamedTuple):
    """M trees; nodes are numbered through, a feature is its place in a row of values."""

    root: I32  # [M]
    weight: F64  # [M] ρ
    on: I32  # [M] the feature of linear and affine leaves, -1 for constant ones
    feature: I32  # [nodes] tested, 0 at leaves
    threshold: F64
    left: I32  # -1 at leaves
    right: I32
    value: F64
    intercept: F64


def forest(trees: Sequence[Tree]) -> tuple[Forest, tuple[str, ...]]:
    """The trees as arrays, and the names of the features a row must hold."""
    names = sorted(set().union(*(tree.features() for tree in trees)))
    place = {name: k for k, name in enumerate(names)}
    sizes = np.array([len(tree.feature) for tree in trees], np.int64)
    root = offsets(sizes)[:-1]

    def column(name: str) -> F64:
        return np.concatenate([np.zeros(0), *(getattr(tree, name) for tree in trees)])

    left, right = (np.where(child >= 0, child + np.repeat(root, sizes), -1) for child in (column("left"), column("right")))
    compiled = Forest(
        root=root.astype(np.int32),
        weight=np.array([tree.weight for tree in trees], np.float64),
        on=np.array([-1 if tree.on is None else place[tree.on] for tree in trees], np.int32),
        feature=np.array([place.get(name, 0) for tree in trees for name in tree.feature], np.int32),
        threshold=column("threshold"),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        value=column("value"),
        intercept=column("intercept"),
    )
    return compiled, tuple(names)


@kernel
def forest_score(forest, x):  # type: ignore[no-untyped-def]
    """Σ_m ρ_m h_m(x) of one row x of values."""
    total = 0.0
    for m in range(len(forest.root)):
        node = forest.root[m]
        while forest.left[node] >= 0:
            node = forest.left[node] if x[forest.feature[node]] <= forest.threshold[node] else forest.right[node]
        h = forest.value[node]
        if forest.on[m] >= 0:
            h = forest.intercept[node] + h * x[forest.on[m]]
        total += forest.weight[m] * h
    return total
