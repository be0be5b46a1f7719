"""Trees inside search: what they add to an edge, once for each distinct (phrase pair, context).

Trees see context through their thresholds alone, so that contexts between the same thresholds are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...core.arrays import F64, I64, offsets
from ...core.kernels import kernel
from ...trees.tree import Tree
from .setup import WINDOW
from .system import EDGE, MOVE

DISTORTION, LM = 6, 7  # columns of context features; 0-5 are reordering
JUMP, ORIENTATION, FIRST, LAST, PER_WORD, N_EDGE = 8, 12, 16, 17, 18, 23  # names.EDGE
N_QUANTILES = N_EDGE - PER_WORD - 1
INVERSE, N_CONTEXT = 23, 24  # one over the number of target words, 0 for none
FAR = 5  # words: a longer jump is far
N_SLOTS = 1 << 15  # of the cache: what does not fit is computed again

COLUMN, THRESHOLD, LEFT, RIGHT, A, B, N_COLUMNS = range(7)  # of nodes
ROOT, ON = 0, 1  # of trees
NUMBER, OPTION, FIXED, FREE_A, FREE_B = range(5)  # of slots


class Trees(NamedTuple):
    """M trees, their N nodes one after the other: few tables, since kernels pay for every array they hand on.

    A leaf gives a + b · x[on], weight included. Columns below N_CONTEXT of an edge are context, N_CONTEXT + c is static column c.
    """

    nodes: F64  # [N, 6] LEFT is -1 at leaves
    fixed: I64  # [.., 2] trees that do not ask for the language-model score; ON is -1 for constant leaves
    free: I64  # [.., 2] those that do
    jump_kind: I64  # [2 WINDOW + 1] jumps from -WINDOW on; those that no tree tells apart have one number
    forward_kind: I64  # [D+1, 3] the same for forward reordering scores; the last row is for none
    n_kinds: int  # of jump and forward score together
    lm_cuts: F64  # [L] thresholds of the language-model score
    word_cuts: F64  # those of the language-model score per word


def pack(
    trees: Sequence[Tree], context: Sequence[str], static: Sequence[str], ahead: F64, quantiles: Sequence[float] = ()
) -> Trees:
    """Trees as columns, over the names of context [23] and static features [C]; ahead [D, 3] has all forward scores there are.

    ``quantiles`` are those of the language-model score per word that features tell apart.
    """
    column = {name: N_CONTEXT + j for j, name in enumerate(static)} | {name: i for i, name in enumerate(context)}

    def cuts(name: str) -> F64:
        tests = (zip(tree.feature, tree.threshold.tolist(), strict=True) for tree in trees)
        return np.unique([threshold for test in tests for feature, threshold in test if feature == name])

    def kinds(name: str, values: F64) -> I64:
        if any(tree.on == name for tree in trees):  # leaves multiply it: every value is of its own kind
            return np.unique(values, return_inverse=True)[1].ravel()
        return np.searchsorted(cuts(name), values)

    jumps = move_columns(np.arange(-WINDOW, WINDOW + 1))
    of_jump = [kinds(name, jumps[name]) for name in context if name in jumps]
    jump_kind = np.unique(np.stack(of_jump, axis=1), axis=0, return_inverse=True)[1].ravel()
    forward_kind = np.stack([kinds(context[3 + i], np.append(ahead[:, i], 0.0)) for i in range(3)], axis=1)
    n_forward = int(forward_kind.max()) + 1
    root = offsets(np.array([len(tree.feature) for tree in trees], np.int64))[:-1]
    on = np.array([-1 if tree.on is None else column[tree.on] for tree in trees], np.int64)
    of_lm = {context[LM], *context[PER_WORD:]}
    is_free = np.array([not of_lm.isdisjoint(tree.features()) for tree in trees], bool)
    nodes = [_nodes(tree, column, first) for tree, first in zip(trees, root.tolist(), strict=True)]
    return Trees(
        nodes=np.concatenate([np.zeros((0, N_COLUMNS)), *nodes]),
        fixed=np.stack([root, on], axis=1)[~is_free],
        free=np.stack([root, on], axis=1)[is_free],
        jump_kind=jump_kind * n_forward,
        forward_kind=forward_kind,
        n_kinds=int(jump_kind.max() + 1) * n_forward,
        lm_cuts=cuts(context[LM]),
        word_cuts=np.unique(np.append(cuts(context[PER_WORD]), np.nextafter(np.array(quantiles, np.float64), -np.inf))),
    )


def move_columns(jump: I64) -> dict[str, F64]:
    """The columns that the jump alone tells, of jumps [n]; what is neither monotone nor a swap goes to the right or left."""
    size = np.abs(jump).astype(np.float64)
    right, left = (jump > 0).astype(np.float64), (jump < 0).astype(np.float64)
    moved = (jump.astype(np.float64), np.log1p(size), size * left, (size > FAR).astype(np.float64))
    return {EDGE[DISTORTION]: -size, **dict(zip(MOVE, moved, strict=False)), MOVE[-2]: right, MOVE[-1]: left}


def _nodes(tree: Tree, column: Mapping[str, int], first: int) -> F64:
    """[n, 6] the nodes of a tree, numbered from ``first`` on."""
    nodes = np.zeros((len(tree.feature), N_COLUMNS))
    nodes[:, COLUMN] = [column.get(name, -1) for name in tree.feature]
    nodes[:, THRESHOLD] = tree.threshold
    nodes[:, LEFT], nodes[:, RIGHT] = (np.where(side < 0, -1, side + first) for side in (tree.left, tree.right))
    nodes[:, A] = tree.weight * (tree.value if tree.on is None else tree.intercept)
    nodes[:, B] = 0.0 if tree.on is None else tree.weight * tree.value
    return nodes


@kernel
def tree_terms(trees, nodes, context, x):  # type: ignore[no-untyped-def]
    """(a, b): trees add a + b · LM0 to an edge with context [24] and static features x [C]."""
    a, b = 0.0, 0.0
    for m in range(len(trees)):
        node, on = trees[m, ROOT], trees[m, ON]
        while nodes[node, LEFT] >= 0:
            c = int(nodes[node, COLUMN])
            v = context[c] if c < N_CONTEXT else x[c - N_CONTEXT]
            node = int(nodes[node, LEFT] if v <= nodes[node, THRESHOLD] else nodes[node, RIGHT])
        a += nodes[node, A]
        if on == LM:
            b += nodes[node, B]
        elif on == PER_WORD:
            b += nodes[node, B] * context[INVERSE]
        elif on >= 0:
            a += nodes[node, B] * (context[on] if on < N_CONTEXT else x[on - N_CONTEXT])
    return a, b


@kernel
def _add_scores(trees, nodes, context, x, out):  # type: ignore[no-untyped-def]
    for r in range(len(out)):
        a, b = tree_terms(trees, nodes, context[r], x[r])
        out[r] += a + b * context[r, LM]


def tree_scores(trees: Trees, context: F64, x: F64) -> F64:
    """[R] what trees add to edges with context [R, 24] and static features x [R, C]."""
    out = np.zeros(len(x))
    for some in (trees.fixed, trees.free):
        if len(some):
            _add_scores(some, trees.nodes, context, x, out)
    return out


# -- the cache ------------------------------------------------------------------------------------------------------------


@kernel
def new_cache(trees):  # type: ignore[no-untyped-def]
    """[slots, 5] terms of the edges of a sentence, each in the one slot that its context and option fall into."""
    return np.full((N_SLOTS if len(trees.nodes) else 1, 5), -1.0)


@kernel
def context_number(trees, forward, jump, place, orientation):  # type: ignore[no-untyped-def]
    """The first of the numbers of a context: there is one for each that the language-model score can be, see number_with_lm.

    ``place`` is 1 for the first phrase, 2 for the last, 3 for one that is both.
    """
    kind = trees.jump_kind[jump + WINDOW] + trees.forward_kind[forward, orientation]
    return ((place * 3 + orientation) * trees.n_kinds + kind) * (len(trees.lm_cuts) + 1) * (len(trees.word_cuts) + 1)


@kernel
def number_with_lm(number, lm_cuts, word_cuts, lm, per_word):  # type: ignore[no-untyped-def]
    """The number of that context with a language-model score. Cuts are few: searchsorted takes longer."""
    for cut in lm_cuts:
        if lm <= cut:
            break
        number += 1
    for cut in word_cuts:
        if per_word <= cut:
            break
        number += len(lm_cuts) + 1
    return number


@kernel
def find_slot(cache, number, o):  # type: ignore[no-untyped-def]
    """(the slot of option o in a context, whether its terms are there)."""
    h = np.uint64(number) * np.uint64(0xBF58476D1CE4E5B9)
    slot = (np.int64(h >> np.uint64(40)) + o) & (N_SLOTS - 1)  # options of a span are neighbours
    return slot, cache[slot, NUMBER] == number and cache[slot, OPTION] == o


@kernel
def fill_slot(cache, slot, number, o, trees, context, x):  # type: ignore[no-untyped-def]
    """OUT cache[slot]: FIXED, what the fixed trees add, and FREE_A and FREE_B, the terms of the others."""
    cache[slot, NUMBER], cache[slot, OPTION] = number, o
    cache[slot, FIXED] = tree_terms(trees.fixed, trees.nodes, context, x)[0]
    cache[slot, FREE_A], cache[slot, FREE_B] = tree_terms(trees.free, trees.nodes, context, x)
