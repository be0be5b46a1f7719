"""The decoder's features: their names in Moses' order, and a model as search sees it.

Context features depend on what comes before a phrase; all others on the phrase pair alone (static). Besides Moses' own,
the decoder knows the static features of the templates ``length`` and ``phrase_count`` under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from ..arrays import F64, Array, offsets
from ..errors import InputError
from ..model import Model, tree_scores
from ..tree import DenseTable, Tree
from .search import N_CONTEXT, Trees

UNKNOWN = "UnknownWordPenalty0"
UNKNOWN_VALUE = -100.0  # of a word that the table lacks
REORDERING = tuple(f"LexicalReordering0_{i}" for i in range(6))
DISTORTION, LM, WORD_PENALTY, PHRASE_PENALTY = "Distortion0", "LM0", "WordPenalty0", "PhrasePenalty0"
TRANSLATION = "TranslationModel0"
CONTEXT = (*REORDERING, DISTORTION, LM)  # the order of kernels
BACKWARD = frozenset(REORDERING[:3])  # after the previous phrase; the others are the previous phrase's own

# name -> value of phrase pairs with these numbers of source words, target words and joint counts
EXTRAS: dict[str, Callable[[F64, F64, F64], F64]] = {
    "count.log": lambda src, tgt, n: np.log1p(n),
    "count.0": lambda src, tgt, n: (n == 0).astype(np.float64),
    "count.1": lambda src, tgt, n: (n == 1).astype(np.float64),
    "len.src": lambda src, tgt, n: src,
    "len.tgt": lambda src, tgt, n: tgt,
    "len.diff": lambda src, tgt, n: tgt - src,
    "len.absdiff": lambda src, tgt, n: np.abs(tgt - src),
    "len.ratio": lambda src, tgt, n: tgt / src,
}


def base_names(n_scores: int, *, has_reordering: bool) -> tuple[str, ...]:
    """Names in the order of Moses' n-best lists."""
    translation = (TRANSLATION,) if n_scores == 1 else tuple(f"{TRANSLATION}_{i}" for i in range(n_scores))
    return (*(REORDERING if has_reordering else ()), DISTORTION, LM, WORD_PENALTY, PHRASE_PENALTY, *translation)


@dataclass(frozen=True)
class Scorer:
    """A model over the decoder's features: what phrases in context get. Made by ``scorer``, which checks it."""

    model: Model
    names: tuple[str, ...]  # [D] of unit features
    unknown_weight: float = 0.0  # of the penalty for unknown words where it is not among the names

    def column(self, name: str) -> int:
        return self.names.index(name)

    @cached_property
    def context_columns(self) -> list[tuple[int, int]]:
        """(place among names, place in kernels) of the context features."""
        return [(j, CONTEXT.index(name)) for j, name in enumerate(self.names) if name in CONTEXT]

    @cached_property
    def weights(self) -> F64:
        """[D]"""
        return np.array([self.model.weights.get(name, 0.0) for name in self.names])

    @cached_property
    def context_weights(self) -> F64:
        """[8] those of the context features, 0 where the system has none."""
        return np.array([self.model.weights.get(name, 0.0) if name in self.names else 0.0 for name in CONTEXT])

    # Trees by what they look at, so that each is evaluated once for each distinct context:

    @cached_property
    def static_trees(self) -> tuple[Tree, ...]:
        """Once a phrase pair."""
        return self._trees(lambda context, static: not context)

    @cached_property
    def oriented_trees(self) -> tuple[Tree, ...]:
        """Once a phrase pair and orientation: of context, they see the phrase's own reordering scores only."""
        return self._trees(lambda context, static: bool(context) and context <= BACKWARD)

    @cached_property
    def span_trees(self) -> tuple[Tree, ...]:
        """Once a hypothesis and the span that comes next, for all its phrases: distortion and the last phrase's reordering."""
        return self._trees(lambda context, static: bool(context) and context.isdisjoint({*BACKWARD, LM}) and not static)

    @cached_property
    def edge_trees(self) -> tuple[Tree, ...]:
        """All others: once an edge."""
        others = (*self.static_trees, *self.oriented_trees, *self.span_trees)
        return tuple(tree for tree in self.model.trees if not any(tree is other for other in others))

    def _trees(self, is_kind: Callable[[set[str], set[str]], bool]) -> tuple[Tree, ...]:
        seen = ((tree, tree.features()) for tree in self.model.trees)
        return tuple(tree for tree, names in seen if is_kind(names & set(CONTEXT), names - set(CONTEXT)))

    def kernel_trees(self, trees: tuple[Tree, ...]) -> Trees:
        """Trees as columns; kernels read static features as column 8 + j."""
        column = {name: N_CONTEXT + j for j, name in enumerate(self.names)} | {name: i for i, name in enumerate(CONTEXT)}

        def nodes(values: Callable[[Tree], Iterable[float]], dtype: type) -> Array:
            return np.array([value for tree in trees for value in values(tree)], dtype)

        return Trees(
            ptr=offsets(np.array([len(tree.feature) for tree in trees], np.int64)),
            column=nodes(lambda tree: [column.get(name, 0) for name in tree.feature], np.int32),
            threshold=nodes(lambda tree: tree.threshold, np.float64),
            left=nodes(lambda tree: tree.left, np.int32),
            right=nodes(lambda tree: tree.right, np.int32),
            value=nodes(lambda tree: tree.value, np.float64),
            intercept=nodes(lambda tree: tree.intercept, np.float64),
            on=np.array([-1 if tree.on is None else column[tree.on] for tree in trees], np.int32),
            weight=np.array([tree.weight for tree in trees], np.float64),
        )

    @cached_property
    def search_trees(self) -> tuple[Trees, Trees]:
        """The span trees and the edge trees, for kernels."""
        return self.kernel_trees(self.span_trees), self.kernel_trees(self.edge_trees)

    def static_scores(self, x: F64, *, is_unknown: Array) -> F64:
        """[n] of phrase pairs with features x [n, D]: the linear score and the static trees."""
        linear = x @ self.weights + tree_scores(self.static_trees, DenseTable(self.names, x))
        return linear if UNKNOWN in self.names else linear + self.unknown_weight * UNKNOWN_VALUE * is_unknown

    def oriented_scores(self, x: F64, backward: F64) -> F64:
        """[n, 3] what phrase pairs with features x [n, D] and reordering scores [n, 3] get for each orientation."""
        out = backward * self.context_weights[:3]
        if self.oriented_trees:
            for i, name in enumerate(REORDERING[:3]):
                seen = x.copy()
                seen[:, self.column(name)] = backward[:, i]
                out[:, i] += tree_scores(self.oriented_trees, DenseTable(self.names, seen))
        return out

    def edge_tree_bounds(self, x: F64) -> tuple[F64, float]:
        """(most [n], slope): the edge trees add at most ``most + slope · LM0`` to phrase pairs with static features x [n, D].

        LM0 is never above 0, so a leaf b · LM0 gives at most what the lowest b of its tree does. Inf where nothing is known.
        """
        most, slope = np.zeros(len(x)), 0.0
        for tree in self.edge_trees:
            a, b = tree.weight * tree.intercept[tree.leaves], tree.weight * tree.value[tree.leaves]
            if tree.on is None:
                most += b.max()
            elif tree.on == LM:
                most, slope = most + a.max(), slope + float(b.min())
            elif tree.on in CONTEXT:
                most += inf
            else:
                most += (a + b * x[:, [self.column(tree.on)]]).max(axis=1)
        return most, slope

    def context_tree_scores(self, x: F64) -> F64:
        """[n] all trees but the static ones, of units with all features x [n, D]."""
        return tree_scores((*self.oriented_trees, *self.span_trees, *self.edge_trees), DenseTable(self.names, x))


def scorer(model: Model, base: tuple[str, ...], extra: Sequence[str], *, has_counts: bool) -> Scorer:
    """The model over the base features and the extras it uses or the user asks for; one that needs others is refused."""
    if model.level == "global" and model.trees:
        raise InputError(
            "expected a model of level local, found one of level global: its trees look at whole hypotheses, which search "
            "does not have yet; rerank with it"
        )
    known = {*base, *EXTRAS, UNKNOWN}
    used = {name for name, w in model.weights.items() if w != 0}.union(*(tree.features() for tree in model.trees))
    for name in sorted(used - known):
        raise InputError(f"the model uses the feature {name!r}, {_reason(name, base)}")
    for name in extra:
        if name not in known:
            raise InputError(f"extra feature {name!r}: expected any of {', '.join(EXTRAS)}; 'boostfeat featurize' knows more")
    wanted = used.union(extra, {UNKNOWN} & model.weights.keys())
    extras = tuple(name for name in (*EXTRAS, UNKNOWN) if name in wanted)
    if not has_counts and (counts := [name for name in extras if name.startswith("count.")]):
        raise InputError(f"the feature {counts[0]!r} needs joint counts, and the phrase table has none in its fifth field")
    return Scorer(model, (*base, *extras))


def _reason(name: str, base: tuple[str, ...]) -> str:
    if name in REORDERING:
        return "which needs a reordering table; give --reordering-table"
    if name.partition("_")[0] == TRANSLATION:
        n = sum(other.startswith(TRANSLATION) for other in base)
        return f"and the phrase table has {n} scores; give the table of this model, or tune again"
    return (
        f"and the decoder has only {', '.join((*base, *EXTRAS))} (nothing sparse, nothing of neighbours or whole sentences); "
        "rerank with this model, or learn one without it"
    )
