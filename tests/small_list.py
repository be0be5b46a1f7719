"""A list by hand that several whole results are made of: lists of 0 to 5 hypotheses of different lengths, and trees of one split."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from boostfeat import formats
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.nbest import NBest
from boostfeat.trees.tree import Tree

PHRASES = (("the", "a", "this one"), ("old house", "house", "house <b>"), ("stands there", "is", "stands"))
LM = ((-1.0, -1.5, -3.0), (-2.5, -1.0, -4.0), (-2.0, -0.5, -1.0))
HYPS = ((), ((0, 0, 0),), ((0, 1, 1), (1, 0, 2)), ((0, 0, 0), (1, 1, 1), (2, 2, 2)), ((1, 2, 0), (0, 0, 2), (0, 1, 0), (2, 1, 2)),
        ((1, 1, 2), (0, 0, 1), (0, 0, 0), (2, 0, 0), (1, 2, 1)))  # fmt: skip
SOURCE = ["das alte haus" + " dort" * (4 * s) for s in range(len(HYPS))]
REFS = ["", "the old house stands there", "a house is", "the house stands there", "a house stands", "the old house is there"]


def the_list(folder: Path) -> NBest:
    """An enriched list: hypothesis (i, j, k) takes phrase i of the first slot, j of the second, k of the third."""
    lines = []
    for s, hyps in enumerate(HYPS):
        for n, taken in enumerate(hyps):
            blocks = [f"{PHRASES[p][o]} |{p}-{p},wa=0-0 ,total=-1, LM0= {LM[p][o]} TM0= {-o} {p}|" for p, o in enumerate(taken)]
            totals = f"LM0= {sum(LM[p][o] for p, o in enumerate(taken))} TM0= {-sum(taken)} 3"
            lines.append(f"{s} ||| {' '.join(blocks)}  ||| {totals} ||| {-1.0 - n * (-1) ** s} ||| \n")
    (folder / "list").write_text("".join(lines))
    nbest = formats.read(folder / "list", ReadOptions(source=SOURCE), format="moses-enriched")
    return attach(nbest, source=SOURCE, refs=[REFS], name="list")


def stump(feature: str, threshold: float, low: float, high: float, name: str = "t", on: str | None = None) -> Tree:
    leaf = "constant" if on is None else "linear"
    return Tree(name, 0.5, leaf, on, (feature, "", ""), np.array([threshold, 0, 0]), np.array([1, -1, -1], np.int32),
                np.array([2, -1, -1], np.int32), np.array([0.0, low, high]))  # fmt: skip
