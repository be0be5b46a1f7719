"""Linear leaves for runtimes that only add up leaf values: a leaf gives a vector, and a dot product with (1, x) is the score.

Column 0 holds the intercept (or the constant), column 1 + k the slope of the k-th feature that is multiplied, all times
the tree's weight. Summed over trees they give score = out[0] + Σ_k out[1 + k] x[on_k].
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from ..core.arrays import F64
from ..core.errors import InputError
from ..trees.tree import Tree


def leaf_columns(tree: Tree, slopes: Sequence[str]) -> list[tuple[int, F64]]:
    """(column, weighted values by node) of each column that the leaves of a tree fill; ``slopes`` are the features multiplied."""
    if tree.on is None:
        return [(0, tree.weight * tree.value)]
    slope = (1 + slopes.index(tree.on), tree.weight * tree.value)
    return [(0, tree.weight * tree.intercept), slope] if tree.leaf == "affine" else [slope]


def package(name: str, *, target: str) -> Any:
    """An optional package, or the line that says how to get it."""
    top = name.partition(".")[0]
    try:
        importlib.import_module(top)
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"--to {target}: expected the package {top}, found none; pip install 'boostfeat[export]'") from None
