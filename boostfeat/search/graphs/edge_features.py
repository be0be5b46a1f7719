"""Feature templates on the edges of a search graph, and on pairs of edges that follow each other.

Such a feature looks at a unit and the one before it, or the one after it. So what two neighbours add to a path is a function of
the two, and a node that says what its last unit was makes it one of edges:

    Σ_i f(u_i, u_{i-1}, u_{i+1}) = Σ_i A(u_i, u_{i-1}) + Σ_i B(u_i, u_{i+1})

A node of the graph becomes one for each *late key* of the edges that enter it, which is all that a following edge can see of
them: span, last words, and B by the move that follows. The best paths of the larger graph are exactly those of the list that has
all paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_matrix, hstack

from ...core.arrays import F64, I64, Array, offsets, segment_positions
from ...core.errors import InputError
from ...core.text import normal, split_words
from ...export.phrase_pairs import as_list
from ...features import TEMPLATES, featurize
from ...features.plan import Entry, FeaturePlan, full_name, product_name
from ...features.registry import GIVEN
from ...features.resources import Clusters
from ...features.templates.place import TURNS, turn
from ...lists.build import assemble
from ...lists.nbest import NBest, SparseRows, strings
from .graph import Graph
from .kbest import Shape

BETWEEN = ("bi", "lo", "ro", "cb", "co", "orientation", "jump")
MOST = 3_000_000  # edges of one graph with late keys: about two gigabytes

# What a following edge sees of the last unit: its span, its last words, B by move, B at the end of the sentence
LateKey: TypeAlias = tuple[int, int, tuple[str, ...], tuple[float, ...], float]
START: LateKey = (-1, 0, (), (0.0, 0.0, 0.0, 0.0), 0.0)


def between(plan: FeaturePlan, wanted: Iterable[str]) -> tuple[list[Entry], set[str]]:
    """The templates of neighbours that make some of these features, and those features."""
    wanted = set(wanted)
    entries = [entry for entry in plan.entries if entry.name in BETWEEN and not wanted.isdisjoint(entry.features or ())]
    return entries, {name for entry in entries for name in wanted.intersection(entry.features or ())}


Place = dict[str, Any]  # a unit between two others: the arguments of templates, by name

# Beside a unit in no place yet: nothing is asked of its neighbours
NOWHERE: Place = {"words_before": (), "is_last": False, "jump": 1, "turn_before": "right", "turn_after": "right"}


@dataclass(frozen=True)
class Neighbours:
    """The linear scores of templates of neighbours."""

    plan: FeaturePlan
    entries: Sequence[Entry]
    weights: Mapping[str, float]  # of their features

    def expanded(self, graph: Graph, scores: F64, source: str, where: str) -> tuple[Graph, F64]:
        """The graph whose nodes have late keys, and scores [E'] of its edges, from those [E] of the graph's own."""
        if (np.diff(graph.shape.tail_ptr) > 1).any():
            raise InputError(
                f"{where}: expected a graph of phrases, whose edges have one tail each, for the feature "
                f"{min(self.weights)!r} of neighbours, found a hypergraph; rerank a list with this model"
            )
        if (graph.src_start[graph.is_unit] < 0).any():
            raise InputError(f"{where}: expected source spans of all edges for {min(self.weights)!r}, found none; rerank a list")
        words = split_words(source)
        n_src = len(words) or int(graph.src_end.max(initial=0))
        unit_of, places = self._units(graph, words, n_src)
        late = [self._late(at) for at in places]
        known: dict[tuple[object, ...], float] = {}
        base, head_ptr = scores.tolist(), graph.shape.head_ptr.tolist()
        tail_of = np.full(graph.n_edges, -1, np.int64)
        tail_of[np.diff(graph.shape.tail_ptr) > 0] = graph.shape.tails
        tails = tail_of.tolist()
        keys_of: list[dict[LateKey, int]] = []  # of each old node: new nodes by late key
        old_edge, new_tail, new_score = [], [], []
        counts: list[int] = []  # edges of each new node
        for node in range(graph.n_nodes):
            entering: dict[LateKey, list[tuple[int, int, float]]] = {}
            for e in range(head_ptr[node], head_ptr[node + 1]):
                before = keys_of[tails[e]].items() if tails[e] >= 0 else ((START, -1),)
                u = unit_of[e]
                for key, tail in before:
                    if u < 0:
                        entering.setdefault(key, []).append((e, tail, base[e]))
                    else:
                        moved = base[e] + self._between(u, places[u], key, known)
                        entering.setdefault(late[u], []).append((e, tail, moved))
            keys_of.append({})
            for key, edges in entering.items():
                keys_of[node][key] = len(counts)
                counts.append(len(edges))
                for e, tail, score in edges:
                    old_edge.append(e)
                    new_tail.append(tail)
                    new_score.append(score)
            if len(old_edge) > MOST:
                raise InputError(
                    f"{where}: expected a graph that has at most {MOST:,} edges where nodes know their last phrase (feature "
                    f"{min(self.weights)!r}), found more; have the decoder prune it, or rerank a list with this model"
                )
        ends = list(keys_of[graph.goal].items())  # one more edge for each, to the new goal
        old_edge += [graph.n_edges] * len(ends)
        new_tail += [node for _, node in ends]
        new_score += [key[4] for key, _ in ends]
        counts.append(len(ends))
        return _with_edges(graph, np.array(old_edge), np.array(new_tail), offsets(np.array(counts))), np.array(new_score)

    def _units(self, graph: Graph, words: Sequence[str], n_src: int) -> tuple[list[int], list[Place]]:
        """The distinct unit of each edge [E], -1 for none, and the units in no place yet."""
        number: dict[tuple[str, str, int, int], int] = {}
        unit_of: list[int] = []
        places: list[Place] = []
        spans = zip(graph.src_start.tolist(), graph.src_end.tolist(), strict=True)
        for (start, end), src, tgt, is_unit in zip(spans, graph.src, graph.tgt, graph.is_unit.tolist(), strict=True):
            if not is_unit:
                unit_of.append(-1)
                continue
            source = split_words(src) if src else words[start:end]
            u = number.setdefault((" ".join(source), tgt, start, end), len(places))
            if u == len(places):
                places.append({**NOWHERE, "span": (start, end, n_src), "source": source, "target": split_words(tgt)})
            unit_of.append(u)
        return unit_of, places

    def _late(self, at: Place) -> LateKey:
        own, (start, end, n) = self._sum(at), at["span"]
        moves = tuple(self._sum({**at, "turn_after": move}) - own for move in TURNS)
        final = self._sum({**at, "is_last": True, "turn_after": turn(n - end, start - n - 1)}) - own
        n_words = 2 if any(entry.name == "cb" for entry in self.entries) else 1  # the last ones of a unit that count
        return start, end, tuple(at["target"][-n_words:]), moves, final

    def _between(self, u: int, at: Place, key: LateKey, known: dict[tuple[object, ...], float]) -> float:
        """A(u, last) + B(last, u)."""
        start, end, words, moves, _ = key
        is_first = start < 0
        move = turn(at["span"][0] - end, (0 if is_first else start) - at["span"][1])
        asked = (u, at["span"][0] - end, move, words, is_first)
        if asked not in known:
            before = {"words_before": None if is_first else words, "jump": at["span"][0] - end, "turn_before": move}
            known[asked] = self._sum({**at, **before})
        return known[asked] if is_first else known[asked] + moves[TURNS.index(move)]

    def _sum(self, at: Place) -> float:
        """Σ of weights times features of a unit in its place."""
        total, weights = 0.0, self.weights
        for entry, call in self._calls:
            found = call(at)
            if isinstance(found, dict):
                total += sum(weights.get(name, 0.0) * value for name, value in found.items())
            else:
                total += sum(weights.get(full_name(entry.name, text, entry.hash_bits), 0.0) for text in found)
        return total

    @cached_property
    def _calls(self) -> list[tuple[Entry, Callable[[Place], Any]]]:
        shared = {"clusters": self.plan.clusters or Clusters()}
        return [(entry, TEMPLATES[entry.name].caller(entry.options, shared)) for entry in self.entries]


def _with_edges(graph: Graph, old: I64, tails: I64, head_ptr: I64) -> Graph:
    """The graph of copies ``old`` [E'] of its edges with other tails; the copy of an edge behind the last leads to the goal."""
    shape, rows, is_end = graph.shape, graph.features, old == graph.n_edges
    own = np.where(is_end, 0, old)
    n_words = np.where(is_end, 1, np.diff(shape.word_ptr)[own])
    words = np.full(int(n_words.sum()), -1, np.int32)  # -1: the words of the tail
    words[: int(n_words[~is_end].sum())] = shape.words[segment_positions(shape.word_ptr, old[~is_end])]

    def column(values: Array, other: float) -> Array:
        return np.where(is_end, np.array(other, values.dtype), values[own])

    known = tails[tails >= 0].astype(np.int32)
    return replace(
        graph,
        shape=Shape(head_ptr=head_ptr, tail_ptr=offsets(tails >= 0), tails=known, word_ptr=offsets(n_words), words=words),
        goal=len(head_ptr) - 2,
        longest=graph.longest + 2,
        features=SparseRows(np.append(rows.ptr, rows.ptr[-1]), rows.idx, rows.val).take(old),
        score=column(graph.score, 0.0),
        src_start=column(graph.src_start, -1),
        src_end=column(graph.src_end, -1),
        src=tuple(("" if end else graph.src[e]) for e, end in zip(own.tolist(), is_end.tolist(), strict=True)),
        tgt=tuple(("" if end else graph.tgt[e]) for e, end in zip(own.tolist(), is_end.tolist(), strict=True)),
        is_unit=column(graph.is_unit, False),
    )


def edge_plan(plan: FeaturePlan, features: Iterable[str]) -> FeaturePlan:
    """The part of a frozen plan that makes these features; InputError where a template reads more than an edge holds."""
    wanted = set(features)
    products = tuple(pair for pair in plan.products or () if product_name(pair) in wanted)
    wanted |= {name for pair in products for name in pair}
    entries = []
    for entry in plan.entries:
        used = tuple(name for name in entry.features or () if name in wanted)
        if not used:
            continue
        if beyond := _beyond(entry.name):
            fit = [e.name for e in plan.entries if e.name in BETWEEN or not _beyond(e.name)]
            raise InputError(
                f"feature {used[0]!r} (template {entry.name!r}) reads the {beyond[0]}: expected features that an edge of a graph "
                f"has of itself; rerank a list with this model, or learn one with --templates {','.join(fit) or 'none'}"
            )
        entries.append(replace(entry, features=used))
    return replace(plan, entries=tuple(entries), products=products, n_products=len(products))


def _beyond(name: str) -> list[str]:
    """Name what a template reads beyond an edge; graphs have no links between words."""
    template = TEMPLATES.get(name)
    return [*template.state, *(what for what in template.reads if what in (*GIVEN, "alignment"))] if template else []


def with_templates(graph: Graph, plan: FeaturePlan, *, source: str = "") -> Graph:
    """The graph with the features of a plan (see edge_plan) on the edges that are units."""
    edges = np.flatnonzero(graph.is_unit)
    made, _ = featurize(_edge_list(graph, source), plan)
    rows = SparseRows.from_matrix(hstack([csr_matrix(made.X), made.X_sparse], "csr"))
    of_edge = np.full(graph.n_edges, made.n_units)
    of_edge[edges] = made.unit_idx
    rows = SparseRows(np.append(rows.ptr, rows.ptr[-1]), rows.idx, rows.val).take(of_edge)  # the last, empty one: other edges
    return replace(graph, features=rows, names=(*made.unit_names, *made.sparse_names.to_pylist()))


def _edge_list(graph: Graph, source: str) -> NBest:
    """A list of one hypothesis, whose units are the edges that are units."""
    edges = np.flatnonzero(graph.is_unit)
    start, end, texts = graph.src_start[edges], graph.src_end[edges], [graph.tgt[e] for e in edges]
    pairs = as_list(
        graph.features.matrix(len(graph.names))[edges].toarray() + 0.0,  # -0.0 becomes 0.0
        graph.names,
        src=strings([graph.src[e] or _words(source, graph.src_start[e], graph.src_end[e]) for e in edges]),
        tgt=strings(texts),
        align=strings([""] * len(edges)),
    )
    src_len = np.where(start >= 0, end - start, -1).astype(np.int32)
    tgt_len = np.array([len(split_words(text)) for text in texts], np.int32)
    units = replace(pairs.units, src_len=src_len, tgt_len=tgt_len, score=graph.score[edges])
    return assemble(replace(pairs, units=units, source=strings([normal(source)]), src_start=start))


def _words(source: str, start: int, end: int) -> str:
    return " ".join(split_words(source)[start:end]) if start >= 0 else ""
