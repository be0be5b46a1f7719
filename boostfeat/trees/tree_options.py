"""Options of trees. Standard library only: the command line reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..core.options import Checked, option

LeafKind = Literal["constant", "linear", "affine"]
LEAF_KINDS: tuple[LeafKind, ...] = get_args(LeafKind)
TREES = "Trees"


@dataclass(frozen=True)
class TreeOptions(Checked):
    """Options of growing trees.

    ``max_leaves``: [TA13] has 2 to 8, its best models 2. ``min_occurrences`` is by default about what a unit in all hypotheses of
    one list has, so that no list makes a leaf.
    """

    leaves: LeafKind = option("constant", "constant, linear (b x) or affine (a + b x)", choices=LEAF_KINDS, group=TREES)
    max_leaves: int = option(2, "Leaves of a tree, at most", least=2, most=2**16, symbol="N", group=TREES)
    min_occurrences: int = option(200, "Minimum unit occurrences per leaf", least=1, group=TREES)
    max_bin: int = option(
        255, "Bins of a feature: thresholds are sought at their borders", least=2, most=255, group=TREES, rare=True
    )
    candidates: int = option(
        4,
        "Features of linear and affine leaves grown fully: the best of a search",
        least=1,
        group=TREES,
        rare=True,
        needs=("leaves=linear", "leaves=affine"),
    )
