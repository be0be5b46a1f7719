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

    leaves: LeafKind = option("constant", "Leaves: constant, linear (b x) or affine (a + b x)", choices=LEAF_KINDS, group=TREES)
    max_leaves: int = option(2, "Maximum number of leaves of a tree", least=2, most=2**16, symbol="N", group=TREES)
    min_occurrences: int = option(200, "Minimum unit occurrences per leaf", least=1, group=TREES)
    max_bin: int = option(
        255, "Maximum bins of a feature, whose borders are thresholds", least=2, most=255, group=TREES, rare=True
    )
    candidates: int = option(
        4,
        "Features for which linear and affine trees are grown fully",
        least=1,
        group=TREES,
        rare=True,
        needs=("leaves=linear", "leaves=affine"),
    )
