"""Effects of features and trees: standard deviations within lists of what they add to the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from sys import float_info
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import F64, I64, block_ptr, frozen, in_ranges, in_threads, sum_in_order
from ..core.kernels import kernel
from ..lists.nbest import NBest
from ..trees.tree import Tree

OfTrees = dict[str, tuple[float | None, list[int] | None]]  # by name: effect, how often each leaf fires; None where unknown


def within_list_sd(hyp_ptr: I64, values: F64, *, threads: int = 1) -> float:
    """Standard deviation of values [H] about their list's mean: how much they can move the ranking."""
    squares = squares_within_lists(hyp_ptr, values, block_ptr(len(hyp_ptr) - 1), threads=threads)
    return sqrt(sum_in_order(squares) / max(1, len(values)))


def squares_within_lists(hyp_ptr: I64, values: F64, blocks: I64, *, threads: int = 1) -> list[float]:
    """[B] the sums of squares of values [H] about their list's mean, over the sentences of each block [B+1]."""
    out, column = np.empty(len(blocks) - 1), np.ascontiguousarray(values)

    def part(some: slice) -> None:
        _block_squares(frozen(hyp_ptr), frozen(blocks[some.start : some.stop + 1]), frozen(column), out[some])

    in_ranges(part, len(out), threads)
    squares: list[float] = out.tolist()
    return squares


@kernel
def _block_squares(hyp_ptr, blocks, values, out):  # type: ignore[no-untyped-def]
    for b in range(len(out)):
        out[b] = _squares(hyp_ptr[blocks[b] : blocks[b + 1] + 1], values)


@kernel(fastmath={"reassoc"})  # sums in the order of the machine's vectors: the same for any number of threads
def _squares(hyp_ptr, values):  # type: ignore[no-untyped-def]
    """Σ of the squared distances of values[H] from their list's mean."""
    squares = 0.0
    for s in range(len(hyp_ptr) - 1):
        own = values[hyp_ptr[s] : hyp_ptr[s + 1]]
        total = 0.0
        for h in range(len(own)):
            total += own[h]
        mean = total / max(len(own), 1)
        for h in range(len(own)):
            squares += (own[h] - mean) ** 2
    return squares


def sparse_within_list_sd(nbest: NBest) -> F64:
    """Return [N] the spread within lists of the sparse features, of units and of hypotheses."""
    squares = np.zeros(len(nbest.sparse_names))
    for a, b in pairwise(block_ptr(len(nbest)).tolist()):  # all at once are many times the entries of A and X
        part = nbest[a:b]
        values, sizes = part.global_sparse.tocsc(), np.maximum(np.diff(part.hyp_ptr), 1)
        of_lists = sparse.csr_matrix((np.ones(part.n_hyps), np.arange(part.n_hyps), part.hyp_ptr), (len(part), part.n_hyps))
        sums = of_lists @ values
        sums.data **= 2
        squares += values.power(2).sum(axis=0).A1 - (1 / sizes) @ sums
    return np.sqrt(np.maximum(squares, 0.0) / max(1, nbest.n_hyps))


def linear_effects(nbest: NBest, weights: Mapping[str, float], *, threads: int = 1) -> dict[str, float]:
    """For each dense feature how much its weighted value varies within lists (standard deviation)."""

    def effect(name: str) -> float:  # of one column at a time: all of them may be gigabytes
        weight = abs(weights.get(name, 0.0))
        return weight and weight * within_list_sd(nbest.hyp_ptr, nbest.global_column(name))

    return dict(zip(nbest.global_names, in_threads(effect, nbest.global_names, threads), strict=True))


def remembered_effects(trees: Sequence[Tree], history: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], OfTrees]:
    """(effects of features, (effect, how often leaves fire) of trees) of the history, which may hold anything."""
    rows = {row["tree"]: row for row in history if isinstance(row.get("tree"), str)}
    first = history[0].get("effects") if history else None
    effects = {name: float(e) for name, e in first.items() if _is_number(e)} if isinstance(first, dict) else {}
    per_tree: OfTrees = {}
    for tree in trees:
        effect, fires = (rows.get(tree.name, {}).get(key) for key in ("effect", "fires"))
        counted = isinstance(fires, list) and len(fires) == tree.n_leaves and all(_is_number(k) and k >= 0 for k in fires)
        per_tree[tree.name] = (float(effect or 0.0) if _is_number(effect) else None, fires if counted else None)
    return effects, per_tree


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max


def total_effects(
    weights: Mapping[str, float], trees: Sequence[Tree], effects: Mapping[str, float], of_trees: OfTrees
) -> dict[str, float]:
    """Features by total effect, the largest first: that of the weight plus an equal share of every tree that uses it."""
    total = {name: effects.get(name, 0.0) for name in weights}
    for tree in trees:
        names = tree.features()
        for name in names:
            total[name] = total.get(name, 0.0) + (of_trees[tree.name][0] or 0.0) / len(names)
    order = sorted(total, key=lambda name: (-total[name], -abs(weights.get(name, 0.0)), name))
    return {name: total[name] for name in order}
