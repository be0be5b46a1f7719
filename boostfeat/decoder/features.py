"""The decoder's features: their names in Moses' order, and a model as search sees it.

Context features depend on what comes before a phrase; all others on the phrase pair alone (static). Besides Moses' own,
the decoder knows the static features of the templates ``length`` and ``phrase_count`` under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.arrays import F64, Array
from ..core.errors import InputError
from ..model.model import Model
from .names import CONTEXT, REORDERING, TRANSLATION, UNKNOWN, UNKNOWN_VALUE
from .system import System
from .trees import N_CONTEXT, Trees, pack, tree_scores

LARGEST = 1e100  # weight

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


@dataclass(frozen=True)
class Scorer:
    """A model over the decoder's features: what phrases in context get. Made by ``scorer``, which checks it."""

    model: Model
    names: tuple[str, ...]  # [D] of unit features
    ahead: F64  # the system's
    unknown_weight: float  # of the penalty for unknown words where it is not among the names

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

    @cached_property
    def static_trees(self) -> Trees:
        """Those that look at the phrase pair alone: once a phrase pair."""
        return self._trees(lambda names: names.isdisjoint(CONTEXT))

    @cached_property
    def context_trees(self) -> Trees:
        """All others: once a phrase pair and context."""
        return self._trees(lambda names: not names.isdisjoint(CONTEXT))

    def _trees(self, is_kind: Callable[[set[str]], bool]) -> Trees:
        return pack([tree for tree in self.model.trees if is_kind(tree.features())], CONTEXT, self.names, self.ahead)

    def static_scores(self, x: F64, *, is_unknown: Array) -> F64:
        """[n] of phrase pairs with features x [n, D]: the linear score and the static trees."""
        score = x @ self.weights + tree_scores(self.static_trees, np.zeros((len(x), N_CONTEXT)), x)
        return score if UNKNOWN in self.names else score + self.unknown_weight * UNKNOWN_VALUE * is_unknown

    def context_scores(self, context: F64, x: F64) -> F64:
        """[n] what context [n, 8] adds to phrase pairs with features x [n, D]."""
        return context @ self.context_weights + tree_scores(self.context_trees, context, x)


def scorer(model: Model, system: System, extra: Sequence[str], *, unknown_weight: float = 0.0) -> Scorer:
    """The model over the system's features and the extras it uses or the user asks for; one that needs others is refused."""
    base = system.names
    if model.level == "global" and model.trees:
        raise InputError(
            "expected a model of level local, found one of level global: its trees look at whole hypotheses, which search "
            "does not have yet; rerank with it"
        )
    for name, w in [*model.weights.items(), *((t.name, t.weight * v) for t in model.trees for v in (*t.value, *t.intercept))]:
        if not abs(w) <= LARGEST:  # sums of scores would overflow
            raise InputError(f"{name}: expected a weight of at most {LARGEST:g}, found {w:g}; scale the model down")
    known = {*base, *EXTRAS, UNKNOWN}
    used = {name for name, w in model.weights.items() if w != 0}.union(*(tree.features() for tree in model.trees))
    for name in sorted(used - known):
        raise InputError(f"the model uses the feature {name!r}, {_reason(name, base)}")
    for name in extra:
        if name not in known:
            raise InputError(f"extra feature {name!r}: expected any of {', '.join(EXTRAS)}; 'boostfeat featurize' knows more")
    wanted = used.union(extra, {UNKNOWN} & model.weights.keys())
    extras = tuple(name for name in (*EXTRAS, UNKNOWN) if name in wanted)
    if not system.has_counts and (counts := [name for name in extras if name.startswith("count.")]):
        raise InputError(f"the feature {counts[0]!r} needs joint counts, and the phrase table has none in its fifth field")
    return Scorer(model, (*base, *extras), system.ahead, unknown_weight)


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
