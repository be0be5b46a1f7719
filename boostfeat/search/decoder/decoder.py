"""The reference decoder: phrase-based beam search whose model may have trees, scored per edge inside search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf, log
from typing import Any

import numpy as np

from ...core.arrays import I64, in_order, offsets, segment_positions
from ...core.errors import InputError
from ...core.text import split_words
from ...features.feature_maker import FeatureMaker
from ...model.model import Model
from ..graphs.graph import EXAMINED_PER_STRING
from ..graphs.kbest import Shape, find_kbest
from . import search as kernel
from .decoder_features import UnitScorer, scorer
from .lattice import Derivation, Lattice
from .search_templates import SearchTemplates
from .setup import WINDOW, SearchOptions
from .system import PhraseSystem


@dataclass(frozen=True)
class Decoder:
    """A system with a model: ``decode`` translates a sentence. ``extra`` names static features to list besides the model's.

    ``unknown_weight`` is that of the penalty for unknown words where the model does not name it. With 0, scores are the model's
    own (``Model.decision_function`` of the list); Moses' totals hold it with weight 1, without listing it.
    """

    system: PhraseSystem
    model: Model
    options: SearchOptions = SearchOptions()  # noqa: RUF009 (frozen)
    extra: tuple[str, ...] = ()
    unknown_weight: float = 0.0
    maker: FeatureMaker = field(default_factory=FeatureMaker)  # has the files that the model's templates read
    templates: SearchTemplates | None = None  # of a model that is still learned: whatever feature comes to have a weight

    def __post_init__(self) -> None:
        _ = self.scorer  # a model that cannot be searched with is refused now

    @cached_property
    def scorer(self) -> UnitScorer:
        how: dict[str, Any] = {"unknown_weight": self.unknown_weight, "maker": self.maker, "templates": self.templates}
        return scorer(self.model, self.system, self.extra, **how)

    @property
    def names(self) -> tuple[str, ...]:
        """The unit features: the system's, then the extras."""
        return self.scorer.names

    def with_model(self, model: Model) -> Decoder:
        """Replace weights and trees."""
        return replace(self, model=model)

    def decode(self, sentence: str) -> Decoded:
        """Translate a sentence."""
        tokens, table = split_words(sentence), self.system.table
        n = len(tokens)
        lattice = Lattice.of(self.system, self.scorer, tokens, table_limit=self.options.table_limit)
        if not n:
            return Decoded(lattice, None)
        if self.options.distortion_limit < 0 and n > WINDOW:
            raise InputError(f"expected at most {WINDOW} words where distortion has no limit, found {n}; give a limit")
        future = np.empty((n + 1, n + 1))
        kernel.future_scores(n, table.longest, lattice.options.span_ptr, lattice.estimate, future)
        beam = -log(self.options.beam) if self.options.beam else inf
        task = kernel.SearchTask(
            n=n,
            options=lattice.options,
            future=future,
            lm=self.system.lm.automaton,
            start_state=self.system.lm.start,
            end_word=self.system.lm.end,
            weights=self.scorer.context_weights,
            trees=self.scorer.context_trees,
            moves=lattice.moves,
            quantiles=self.scorer.quantiles,
            keeps_span=self.scorer.keeps_span,
            limits=kernel.SearchLimits(table.longest, self.options.stack, beam, self.options.distortion_limit),
        )
        return Decoded(lattice, kernel.Searched(*kernel.search(task)))

    def decode_all(self, sentences: Iterable[str], threads: int = 1) -> Iterator[Decoded]:
        """Translations in the order of the sentences; the number of threads changes nothing but the time."""
        if (weighed := self.scorer.weighed) is not None:
            _ = weighed.sums, weighed.columns  # now, and not in every thread
        yield from in_order(self.decode, sentences, threads=threads)


@dataclass(frozen=True)
class Decoded:
    """The search graph of a sentence: its best translation, and its k-best."""

    lattice: Lattice
    found: kernel.Searched | None  # None: a sentence without words

    @property
    def names(self) -> tuple[str, ...]:
        return self.lattice.scorer.names

    @cached_property
    def best(self) -> Derivation:
        """The translation of the highest score."""
        if self.found is None:
            return Derivation("", 0.0, ())
        path, h = [], self.found.goal
        while h:
            path.append(self.found.hyps[h, [kernel.BACK, kernel.OPTION]])
            h = path[-1][0]
        tails, chosen = np.array(path[::-1], np.int64).T
        return self.lattice.derivation(chosen, *self.lattice.edges(self.found.hyps, tails, chosen))

    @cached_property
    def graph(self) -> tuple[I64, I64]:
        """(nodes, arcs): the hypotheses that lead to the goal, tails before heads, and the arcs between them, by head."""
        assert self.found is not None
        hyps, arcs = self.found.hyps, self.found.arcs
        is_used = np.zeros(len(hyps), bool)
        kernel.reachable(arcs, self.found.goal, is_used)
        nodes = np.flatnonzero(is_used)
        nodes = nodes[np.argsort(hyps[nodes, kernel.COVERED], kind="stable")]
        number = np.full(len(hyps), -1)
        number[nodes] = np.arange(len(nodes))
        used = np.flatnonzero(is_used[arcs[:, 0]])
        return nodes, used[np.argsort(number[arcs[used, 0]], kind="stable")]

    def nbest(self, k: int, distinct: bool = True) -> list[Derivation]:
        """The k best translations of the graph, or derivations, best first; fewer if it has fewer [HC05]."""
        if self.found is None:
            return [self.best]
        nodes, used = self.graph
        arcs = self.found.arcs[used]
        shape = _shape(nodes, arcs, self.lattice)
        scores, goal = np.append(0.0, self.found.arc_scores[used]), len(nodes) - 1
        limit = EXAMINED_PER_STRING * k if distinct else 0
        _, edge_ptr, edges, *_ = find_kbest(shape, scores, goal, k, limit)
        edges, edge_ptr = edges[edges > 0] - 1, edge_ptr - np.arange(len(edge_ptr))  # without the start
        seen, which = np.unique(edges, return_inverse=True)
        x, edge_scores = self.lattice.edges(self.found.hyps, arcs[seen, 1], arcs[seen, 2])
        paths = (which[a:b] for a, b in pairwise(edge_ptr))
        return [self.lattice.derivation(arcs[seen[path], 2], x[path], edge_scores[path]) for path in paths]


def _shape(nodes: I64, arcs: I64, lattice: Lattice) -> Shape:
    """The graph as kbest takes it. Edge 0 makes the start of nothing; an arc says what its tail says, then its own words."""
    number = np.empty(nodes.max() + 1, np.int64)
    number[nodes] = np.arange(len(nodes))
    options = lattice.options
    word_ptr = offsets(np.append(0, np.diff(options.word_ptr)[arcs[:, 2]] + 1))
    words = np.full(word_ptr[-1], -1, np.int32)  # -1: the tail's
    is_own = np.ones(len(words), bool)
    is_own[word_ptr[1:-1]] = False
    words[is_own] = lattice.words[segment_positions(options.word_ptr, arcs[:, 2])]
    return Shape(
        head_ptr=offsets(np.append(1, np.bincount(number[arcs[:, 0]], minlength=len(nodes))[1:])),
        tail_ptr=offsets(np.append(0, np.ones(len(arcs), np.int64))),
        tails=number[arcs[:, 1]].astype(np.int32),
        word_ptr=word_ptr,
        words=words,
    )
