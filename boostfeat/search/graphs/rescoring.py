"""Search graphs under a full model: local trees decompose over edges, so best paths and exact k-best lists are found in the
whole packed space and not among what some list holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

import numpy as np

from ...core.arrays import F64, in_order
from ...core.errors import InputError, counted
from ...core.feature_table import FeatureTable
from ...features import FeaturePlan, featurize
from ...lists.build import Builder, ListRecord, ReadOptions, attach
from ...lists.nbest import NBest
from ...model.model import Model, tree_scores
from .edge_features import Neighbours, between, edge_plan, with_templates
from .graph import DEFAULT_SIZE, Graph, kbest_record
from .graph_files import SentenceGraph, read_graphs


class EdgeScorer:
    """A model's scores of the edges of graphs; without a model, those the decoder wrote.

    ``plan`` (frozen, of featurize) makes the template features that the model uses, as far as an edge alone has them;
    ``source`` holds the sentences by id for templates that read them.
    """

    def __init__(self, model: Model | None, *, plan: FeaturePlan | None = None, source: Sequence[str] | None = None) -> None:
        if model is not None and model.level == "global" and model.trees:
            raise InputError(
                f"model: expected level local, found {counted(len(model.trees), 'tree')} of level global: these test sums over "
                "whole hypotheses, which do not decompose over edges; rerank lists with this model, or induce with --level local"
            )
        self.model, self.plan, self.source = model, plan, source
        self.tested = set().union(*(tree.features() for tree in model.trees)) if model else set[str]()
        weighed = {name for name, w in model.weights.items() if w != 0} if model else set()
        self.used = weighed | self.tested  # feature names that matter
        self.seen: set[str] = set()  # those that some graph has
        self._names = (set(model.weights) if model else set()) | self.used

    def named(self, item: SentenceGraph) -> SentenceGraph:
        """The sentence's graph with features numbered as in the model; see renumbered."""
        if self.model is None or (names := renumbered(item.graph.names, self._names)) == item.graph.names:
            return item
        return item._replace(graph=replace(item.graph, names=names))

    def search(self, item: SentenceGraph) -> tuple[Graph, F64]:
        """The graph to search and the scores [E] of its edges: with late keys where the model has features of neighbours."""
        found = self._neighbours
        scores = self._edges(item, found.weights if found else {})
        if found is None:
            return item.graph, scores
        self.seen.update(found.weights)
        return found.expanded(item.graph, scores, self._source(item.sent), item.where)

    @cached_property
    def _neighbours(self) -> Neighbours | None:
        """The scorer of features of neighbours that no tree tests."""
        if self.model is None or self.plan is None:
            return None
        factors = {name for pair in self.plan.products or () for name in pair}
        entries, names = between(self.plan, self.used.difference(self.tested, factors))
        return Neighbours(self.plan, entries, {name: self.model.weights[name] for name in names}) if names else None

    def _source(self, sent: int) -> str:
        return self.source[sent] if self.source is not None and sent < len(self.source) else ""

    def __call__(self, item: SentenceGraph) -> F64:
        """[E] scores of a sentence's edges, of which each has all that the model sees."""
        return self._edges(item, {})

    def _edges(self, item: SentenceGraph, apart: Collection[str]) -> F64:
        """[E] scores of a sentence's edges without features that are scored apart."""
        graph = item.graph
        if self.model is None:
            if np.isnan(graph.score).any():
                raise InputError(
                    f"{item.where}: expected weights to search with, found none and no scores in the graph; give --weights"
                )
            return graph.score
        if self.plan is not None:
            lacking = edge_plan(self.plan, self.used.difference(graph.names, apart))
            graph = with_templates(graph, lacking, source=self._source(item.sent))
        if graph.names and self.used and self.used.isdisjoint(graph.names):
            known_names = ", ".join(graph.names[:4])
            raise InputError(
                f"{item.where}: expected features of the model, found none of them ({known_names}, ...); "
                "check the names, for osgx give them with --names"
            )
        self.seen.update(self.used.intersection(graph.names))
        return self.scores(graph)

    def scores(self, graph: Graph) -> F64:
        """F(e) = Σ_l λ_l x_el + Σ_m ρ_m h_m(x_e) [E], from the features the graph has; edges that are no units have no trees."""
        assert self.model is not None
        out, units = graph.edge_scores(self.model.weights), np.flatnonzero(graph.is_unit)
        if self.model.trees:
            rows = graph.features.matrix(len(graph.names))[units]
            out[units] += tree_scores(self.model.trees, FeatureTable((), np.zeros((len(units), 0)), rows, graph.names))
        return out

    def missing(self) -> list[str]:
        """Features of the model that no graph so far had (they count as 0)."""
        return sorted(self.used - self.seen)


_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]{0,5})")


def renumbered(names: tuple[str, ...], model_names: Collection[str]) -> tuple[str, ...]:
    """Names of a graph's features, numbered as in the model where that counts the values of a feature from another number.

    Moses counts them from 0 in its lists and from 1 in its hypergraphs: TM_1 is the second value here, the first there.
    """
    mine, theirs = _numbers(names), _numbers(model_names)
    shift = {
        base: theirs[base][0] - own[0]
        for base, own in mine.items()
        if len(own) > 1 and len(own) == len(theirs.get(base, ())) and {own[0], theirs[base][0]} == {0, 1}
    }

    def renamed(name: str) -> str:
        match = _NUMBERED.fullmatch(name)
        return f"{match[1]}_{int(match[2]) + shift[match[1]]}" if match and match[1] in shift else name

    return tuple(map(renamed, names)) if shift else names


def _numbers(names: Collection[str]) -> dict[str, list[int]]:
    """The numbers of Name_0, Name_1, ... by name, where none is left out."""
    out: dict[str, list[int]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            out.setdefault(match[1], []).append(int(match[2]))
    return {base: sorted(found) for base, found in out.items() if max(found) - min(found) == len(found) - 1}


def kbest_lists(
    graphs: Iterable[SentenceGraph],
    scorer: EdgeScorer,
    options: ReadOptions,
    *,
    report: Callable[[int], None] = lambda done: None,
) -> NBest:
    """The k best of each graph (``options.size``) under the scorer, in order, whatever the number of threads.

    ``report`` is called with the number of sentences done.
    """
    size = DEFAULT_SIZE if options.size is None else max(1, options.size)

    def search(item: SentenceGraph) -> ListRecord:
        item = scorer.named(item)
        graph, scores = scorer.search(item)
        found = graph.kbest(scores, size, distinct=options.distinct and size > 1)
        return kbest_record(graph, scores, found, sent=item.sent, where=item.where)

    builder = Builder(options)
    for n, record in enumerate(in_order(search, graphs, threads=options.threads), 1):
        builder.add_list(record)
        report(n)
    return builder.finish()


def read_lists(paths: Sequence[str | Path], options: ReadOptions, *, format: str) -> NBest:
    """Read the k-best lists of the graphs of files, under the weights given or the decoder's own scores."""
    graphs, first = read_graphs(paths, options, format=format), options.first
    wanted = graphs if first is None else takewhile(lambda item: item.sent < first, graphs)
    model = None if options.weights is None else Model(dict(options.weights))
    return kbest_lists(wanted, EdgeScorer(model), options)


def kbest_nbest(
    paths: Sequence[str | Path],
    model: Model | None,
    *,
    size: int = DEFAULT_SIZE,
    distinct: bool = True,
    source: Sequence[str] | None = None,
    refs: Sequence[Sequence[str]] = (),
    names: Sequence[str] | None = None,
    plan: FeaturePlan | None = None,
    whole: bool = True,
    threads: int = 1,
    report: Callable[[int], None] = lambda done: None,
) -> NBest:
    """Fresh lists: the exact k-best of search graphs under a model, with source, references and statistics where given.

    With a frozen ``plan`` the lists get all its features, as ``featurize`` gives them. ``names`` are those of the values of
    an osgx. Unless graphs are ``whole``, the last lines of the source may be without one. For ``report`` see kbest_lists.
    """
    options = ReadOptions(source=source, size=size, distinct=distinct, names=names, threads=threads)
    scorer = EdgeScorer(model, plan=plan, source=source)
    nbest = kbest_lists(read_graphs(paths, options), scorer, options, report=report)
    if source is not None and not whole:
        source = source[: int(nbest.ids.max(initial=-1)) + 1]
    nbest = attach(nbest, source=source, refs=refs, name=", ".join(map(str, paths)), threads=threads)
    return nbest if plan is None else featurize(nbest, plan, threads=threads)[0]
