"""The decoder's features: their names in Moses' order, and a model as search sees it.

Context features depend on what comes before a phrase; all others on the phrase pair alone (static). Besides Moses' own,
the decoder knows the static features of the templates ``length`` and ``phrase_count`` under the same names, and computes those
of the templates that a model carries (``templates``), which its lists do not show: whoever reads the list computes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.arrays import F64, Array
from ...core.errors import InputError, counted
from ...features.feature_maker import FeatureMaker, plan_of
from ...features.plan import product_name
from ...model.model import Model
from ...trees.tree import Tree
from .search_templates import NEXT, PREV, SearchTemplates, Weighed, binned
from .search_trees import N_CONTEXT, Trees, pack, tree_scores
from .searchable import Searchable
from .system import CONTEXT, EDGE, ENDS, LM_WORD, MOVE, REORDERING, TRANSLATION, UNKNOWN, UNKNOWN_VALUE, PhraseSystem

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
class UnitScorer:
    """A model over the decoder's features: what phrases in context get. Made by ``scorer``, which checks it.

    Static columns are the listed features [D], then those of templates that trees test [T], then products of static ones.
    """

    model: Model
    names: tuple[str, ...]  # [D] of unit features
    ahead: F64  # the system's
    unknown_weight: float  # of the penalty for unknown words where it is not among the names
    weighed: Weighed | None = None  # templates
    products: tuple[tuple[str, str], ...] = ()

    def column(self, name: str) -> int:
        return self.names.index(name)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """[C] the names of all static columns."""
        tested = self.weighed.tested if self.weighed else ()
        return (*self.names, *tested, *map(product_name, self.products))

    @property
    def tested(self) -> slice:
        """Columns of the templates' features that trees test."""
        return slice(len(self.names), len(self.names) + len(self.weighed.tested if self.weighed else ()))

    @cached_property
    def weights(self) -> F64:
        """[C] of listed features and products; those of templates come in sums."""
        products = set(map(product_name, self.products))
        return np.array([self.model.weights.get(n, 0.0) if n in self.names or n in products else 0.0 for n in self.columns])

    @cached_property
    def context_weights(self) -> F64:
        """[23] those of the context features, 0 where the system has none."""
        edge = EDGE if self.weighed else ()
        known = {*(name for name in CONTEXT if name in self.names), *edge[len(CONTEXT) :]}
        return np.array([self.model.weights.get(name, 0.0) if name in known else 0.0 for name in EDGE])

    @cached_property
    def quantiles(self) -> F64:
        """[4] of the language-model score per word, or none."""
        return self.weighed.templates.quantiles if self.weighed else np.zeros(0)

    @cached_property
    def keeps_span(self) -> bool:
        """Whether templates ask where the previous phrase lies."""
        tested = set().union(*(tree.features() for tree in self.trees))
        return self.weighed is not None and (
            self.weighed.has_moves or bool(self.context_weights[len(CONTEXT) :].any()) or not tested.isdisjoint((*MOVE, *ENDS))
        )

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The model's, and those that stand for the weights of a neighbour's features in context."""
        return (*self.model.trees, *(_as_tree(*one) for one in self._neighbours_in_context()))

    def _neighbours_in_context(self) -> list[tuple[str, str, float, Mapping[str, list[float]] | None]]:
        """(column that is 1 where the neighbour is missing, feature, weight, quantiles): they are known when it is placed."""
        if self.weighed is None:
            return []
        sides = (("previous", PREV, ENDS[1]), ("following", NEXT, ENDS[0]))
        found = [(end, self.weighed.neighbours(template, side)) for template, side, end in sides]
        return [(end, name, *how) for end, features in found for name, how in features.items() if name in CONTEXT]

    def beside(self, template: str, side: str, x: F64) -> F64:
        """[n] what phrases with columns x [n, C] add as the neighbours of others, by their static features."""
        out = np.zeros(len(x))
        assert self.weighed is not None
        for name, (w, quantiles) in self.weighed.neighbours(template, side).items():
            if name not in CONTEXT:
                out += w * binned(x[:, self.column(name)], quantiles)
        return out

    @cached_property
    def static_trees(self) -> Trees:
        """Trees that look at the phrase pair alone are scored once a phrase pair."""
        return self._trees(lambda names: names.isdisjoint(EDGE))

    @cached_property
    def context_trees(self) -> Trees:
        """All others: once a phrase pair and context."""
        return self._trees(lambda names: not names.isdisjoint(EDGE))

    def _trees(self, is_kind: Callable[[set[str]], bool]) -> Trees:
        trees = [tree for tree in self.trees if is_kind(tree.features())]
        is_asked = any(not tree.features().isdisjoint(LM_WORD[1:]) for tree in trees)
        return pack(trees, EDGE, self.columns, self.ahead, self.quantiles.tolist() if is_asked else ())

    def static_scores(self, x: F64, *, is_unknown: Array) -> F64:
        """[n] of phrase pairs with columns x [n, C]: the linear score and the static trees."""
        score = x @ self.weights + tree_scores(self.static_trees, np.zeros((len(x), N_CONTEXT)), x)
        return score if UNKNOWN in self.names else score + self.unknown_weight * UNKNOWN_VALUE * is_unknown

    def context_scores(self, context: F64, x: F64) -> F64:
        """[n] what context [n, 24] adds to phrase pairs with columns x [n, C]."""
        return context[:, : len(EDGE)] @ self.context_weights + tree_scores(self.context_trees, context, x)


def _as_tree(end: str, feature: str, weight: float, quantiles: Mapping[str, list[float]] | None) -> Tree:
    """weight · (the bin's mean, or the value) of a feature of a phrase that has a neighbour there, 0 where ``end`` is 1."""
    nodes: list[dict[str, object]] = [{"feature": end, "threshold": 0.5, "left": 2, "right": 1}, {"value": 0.0}]
    if quantiles is None:
        how: dict[str, object] = {"leaf": "linear", "on": feature}
        nodes.append({"value": 1.0})
    else:
        how = {"leaf": "constant"}
        for cut, mean in zip(quantiles["cuts"], quantiles["means"], strict=False):
            at = len(nodes)
            nodes += [{"feature": feature, "threshold": cut, "left": at + 1, "right": at + 2}, {"value": mean}]
        nodes.append({"value": quantiles["means"][-1]})
    return Tree.from_json({"name": f"beside.{end}.{feature}", "weight": weight, **how, "nodes": nodes}, feature)


def scorer(
    model: Model,
    system: PhraseSystem,
    extra: Sequence[str],
    *,
    unknown_weight: float,
    maker: FeatureMaker,
    templates: SearchTemplates | None,
) -> UnitScorer:
    """The model over the system's features and the extras it uses or the user asks for; one that needs others is refused.

    ``templates`` are those of a model that is still learned: they compute whatever feature comes to have a weight.
    """
    base = system.names
    if model.level == "global" and model.trees:
        raise InputError(
            "expected a model of level local, found one of level global: its trees look at whole hypotheses, which search "
            "does not have yet; rerank with it"
        )
    leaves = [(t.name, float(t.weight) * v) for t in model.trees for v in (*t.value.tolist(), *t.intercept.tolist())]
    if not max(map(abs, [0.0, *model.weights.values(), *(w for _, w in leaves)])) <= LARGEST:  # sums of scores would overflow
        name, w = next((name, w) for name, w in (*model.weights.items(), *leaves) if not abs(w) <= LARGEST)
        raise InputError(f"{name}: expected a weight of at most {LARGEST:g}, found {w:g}; scale the model down")
    plan = templates.plan if templates else plan_of(model)
    made = plan.features if plan else set()
    if both := sorted(made.intersection((*base, UNKNOWN))):
        raise InputError(f"features of the model: expected names of their own, found {both[0]!r}, which is the decoder's")
    known = {*base, *EXTRAS, UNKNOWN} - made
    used = {name for name, w in model.weights.items() if w}
    tested = {name: tree.name for tree in model.trees for name in tree.features()}
    prefixes = {entry.name for entry in templates.plan.entries} if templates else set()
    for name in sorted(n for n in {*used, *tested} - known - made if n.partition(":")[0] not in prefixes):
        raise InputError(f"the model uses the feature {name!r}, {_reason(name, base)}")
    for name in extra:
        if name in made:
            raise InputError(
                f"extra feature {name!r}: expected one that the model does not compute itself, found one; leave it out"
            )
        if name not in known:
            raise InputError(f"extra feature {name!r}: expected any of {', '.join(EXTRAS)}; 'boostfeat featurize' knows more")
    weighed: Weighed | None = None
    products: tuple[tuple[str, str], ...] = ()
    if plan is not None and (templates or not made.isdisjoint({*used, *tested})):
        Searchable(plan, maker.registry).refuse(used, tested)
        products = tuple(pair for pair in plan.products or () if product_name(pair) in {*used, *tested})
        factors = {name for pair in products for name in pair}
        templates = templates or SearchTemplates(system, plan, maker, frozenset(({*used, *tested} | factors) & made))
        columns = sorted((({*tested} | factors) & made).difference(EDGE, map(product_name, products)))
        weighed = Weighed(templates, model.weights, tuple(columns))
        if strange := sorted(factors - made - known):
            raise InputError(f"features of the model: they multiply {strange[0]!r}, {_reason(strange[0], base)}")
        used |= _read_by(weighed) | (factors - made)
        if not system.has_counts and any("phrase table" in t.reads for _, t in templates.entries.values()):
            raise InputError("template 'phrase_count' needs joint counts, and the phrase table has none in its fifth field")
        for name in sorted(_read_by(weighed) - known):
            raise InputError(f"features of the model: they read {name!r}, {_reason(name, base)}")
    wanted = {*used, *tested, *extra} | ({UNKNOWN} & model.weights.keys())
    extras = tuple(name for name in (*EXTRAS, UNKNOWN) if name in wanted and name not in made)
    if not system.has_counts and (counts := [name for name in extras if name.startswith("count.")]):
        raise InputError(f"the feature {counts[0]!r} needs joint counts, and the phrase table has none in its fifth field")
    return UnitScorer(model, (*base, *extras), system.ahead, unknown_weight, weighed, products)


def _read_by(weighed: Weighed) -> set[str]:
    """The decoder's features that templates look at in neighbours."""
    sides = (("previous", PREV), ("following", NEXT))
    return {name for template, side in sides for name in weighed.neighbours(template, side)}


def _reason(name: str, base: tuple[str, ...]) -> str:
    if name in REORDERING:
        return "which needs a reordering table; give --reordering-table"
    if name.partition("_")[0] == TRANSLATION:
        n = sum(other.startswith(TRANSLATION) for other in base)
        return f"and the phrase table has {counted(n, 'score')}; give the table of this model, or tune again"
    return (
        f"and the decoder has only {', '.join((*base, *EXTRAS))} and what a model carries templates for; "
        "rerank with this model, or learn one without it"
    )
