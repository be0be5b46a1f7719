"""Search graphs: directed acyclic hypergraphs as columns, and exact search in them.

    N nodes, E edges, T tails; K derivations of R edges in all

A node stands for partial translations that the decoder treats alike; an edge makes one of its head from one of each of its
tails. The graph of a phrase-based decoder is the case of one tail: its derivations are paths.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from math import nan
from typing import Any

import numpy as np

from ...core.arrays import F64, I32, I64, Bool, add_segment_sums, offsets, owners, segment_positions
from ...core.errors import FormatError, InputError, clip
from ...lists.build import ListRecord, UnitRecord
from ...lists.nbest import SparseRows
from .kbest import Shape, find_best, find_kbest, log_counts

DEFAULT_SIZE = 100  # the k of k-best when none is given
EXAMINED_PER_STRING = 100  # for k distinct strings at most so many times k derivations of a node are examined
MAX_DERIVATION = 50_000  # edges and words of one derivation: a hypergraph of n nodes can hold derivations of 2^n edges
MAX_SCORE = 1e300  # of an edge: sums over a derivation stay finite


# ---------------------------------------------------------------------------------------------------------------------
# The container
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Derivations:
    """Some derivations of a graph, best first.

    The edges of a derivation are in post-order of their target sides, for phrase-based graphs that is target order. The
    target span of an edge is the smallest one that holds its own words, an empty one where it ends if it has none.
    """

    score: F64  # [K]
    edge_ptr: I64  # [K+1]
    edges: I32  # [R]
    tgt_start: I32  # [R]
    tgt_end: I32  # [R]
    token_ptr: I64  # [K+1]
    tokens: I32  # target words, into Graph.vocab

    def __len__(self) -> int:
        return len(self.score)

    def rescored(self, scores: F64) -> Derivations:
        """Replace scores by sums of these edge scores [E]."""
        return replace(self, score=add_segment_sums(self.edge_ptr, self.edges, scores, np.zeros(len(self))))


@dataclass(frozen=True)
class Graph:
    """One sentence's search graph; made by GraphBuilder, which checks it. Every derivation of the goal is a translation."""

    shape: Shape
    goal: int  # a node
    longest: int  # edges and words of the largest derivation
    vocab: tuple[str, ...]
    features: SparseRows  # [E]
    names: tuple[str, ...]
    score: F64  # [E] what the decoder gave it, NaN where unknown
    src_start: I32  # [E] the source span of its own words, -1 where unknown
    src_end: I32  # [E]
    src: tuple[str, ...]  # [E] source side of the phrase or rule, "" where unknown
    tgt: tuple[str, ...]  # [E] target side
    is_unit: Bool  # [E] whether it translates something or carries features

    @property
    def n_nodes(self) -> int:
        return len(self.shape.head_ptr) - 1

    @property
    def n_edges(self) -> int:
        return len(self.score)

    def log10_derivations(self) -> float:
        """log10 of the number of derivations of the goal."""
        out = np.empty(self.n_nodes)
        log_counts(self.shape, out)
        return float(out[self.goal] / np.log(10))

    def edge_scores(self, weights: Mapping[str, float]) -> F64:
        """[E] linear scores under named weights; a feature without a weight weighs 0."""
        w = np.array([weights.get(name, 0.0) for name in self.names])
        return np.asarray(self.features.matrix(len(w)) @ w, np.float64)

    def best(self, scores: F64) -> Derivations:
        """The best derivation under edge scores [E]; the first edge among equals, at every node."""
        return self.kbest(scores, 1, distinct=False)

    def kbest(self, scores: F64, k: int, *, distinct: bool = True) -> Derivations:
        """The k best derivations under edge scores [E], best first; fewer if the graph has fewer [HC05].

        With ``distinct``, the k best different strings, each by its best derivation. To be sure to end, a node then gives no
        more after EXAMINED_PER_STRING · k of its derivations were examined. Ties have a fixed order.
        """
        if k < 1:
            raise ValueError(f"k: expected at least 1, found {k}")
        scores = np.ascontiguousarray(scores, np.float64)
        if scores.shape != (self.n_edges,):
            raise ValueError(f"scores: expected one for each of {self.n_edges} edges, found shape {scores.shape}")
        if self.n_edges and not np.abs(scores).max() <= MAX_SCORE:  # also NaN
            raise InputError(f"scores: expected numbers of at most {MAX_SCORE:g} for every edge, found others; check the weights")
        k = min(k, 2**40)  # no more fit in memory
        limit = EXAMINED_PER_STRING * k if distinct else 0
        return Derivations(*find_kbest(self.shape, scores, self.goal, k, limit))

    def text(self, found: Derivations, i: int) -> str:
        return " ".join([self.vocab[w] for w in found.tokens[found.token_ptr[i] : found.token_ptr[i + 1]]])

    def edge_features(self, e: int) -> dict[str, float]:
        row = slice(self.features.ptr[e], self.features.ptr[e + 1])
        return {self.names[j]: v for j, v in zip(self.features.idx[row], self.features.val[row].tolist(), strict=True)}


class GraphBuilder:
    """Takes edges in any order, nodes numbered at will from 0, and makes a graph; ``where(e)`` is the place of edge e."""

    def __init__(self, where: Callable[[int], str]) -> None:
        self.where = where
        self.vocab: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.heads, self.tails, self.words, self.idx = array("q"), array("q"), array("i"), array("i")
        self.n_tails, self.n_words, self.n_features = array("q"), array("q"), array("q")
        self.val, self.score = array("d"), array("d")
        self.src_start, self.src_end = array("i"), array("i")
        self.src: list[str] = []
        self.tgt: list[str] = []
        self.is_unit: list[bool] = []

    def name(self, name: str) -> int:
        """The number of a feature."""
        return self.names.setdefault(name, len(self.names))

    def edge(
        self,
        head: int,
        tails: Sequence[int],
        target: Sequence[str | int],
        features: Mapping[str, float] | None = None,
        *,
        core: tuple[Sequence[int], Sequence[float]] = ((), ()),
        score: float = nan,
        span: tuple[int, int] = (-1, -1),
        src: str = "",
        tgt: str | None = None,
        is_unit: bool | None = None,
    ) -> None:
        """Add an edge. ``target`` holds words, and i where the yield of tail i goes, each tail once.

        ``core`` has more features, as numbers of ``name`` and values. An edge is a unit that has words or features.
        """
        features = features or {}
        words = [w for w in target if isinstance(w, str)]
        self.heads.append(head)
        self.tails.extend(tails)
        self.n_tails.append(len(tails))
        self.words.extend([-1 - w if isinstance(w, int) else self.vocab.setdefault(w, len(self.vocab)) for w in target])
        self.n_words.append(len(target))
        self.idx.extend([*core[0], *map(self.name, features)])
        self.val.extend([*core[1], *features.values()])
        self.n_features.append(len(core[0]) + len(features))
        self.score.append(score)
        self.src_start.append(span[0])
        self.src_end.append(span[1])
        self.src.append(src)
        self.tgt.append(" ".join(words) if tgt is None else tgt)
        self.is_unit.append(bool(words or core[0] or features) if is_unit is None else is_unit)

    def error(self, edge: int, expected: str, found: str) -> FormatError:
        return damaged(self.where(edge), expected, found)

    def finish(self, n_nodes: int, goal: int) -> Graph:
        """Check everything, put nodes in topological order and edges by head (in the order given within a node)."""
        heads, tails = np.array(self.heads, np.int64), np.array(self.tails, np.int64)
        tail_ptr = offsets(np.array(self.n_tails, np.int64))
        self._check_nodes(heads, tails, tail_ptr, n_nodes)
        order = np.arange(n_nodes)
        if (tails >= np.repeat(heads, np.diff(tail_ptr))).any():
            order = self._topological_order(heads.tolist(), np.split(tails, tail_ptr[1:-1]), n_nodes)
        number = np.empty(n_nodes, np.int64)
        number[order] = np.arange(n_nodes)
        by_head = np.argsort(number[heads], kind="stable")
        word_ptr = offsets(np.array(self.n_words, np.int64))
        shape = Shape(
            head_ptr=offsets(np.bincount(number[heads], minlength=n_nodes)),
            tail_ptr=offsets(np.diff(tail_ptr)[by_head]),
            tails=number[tails[segment_positions(tail_ptr, by_head)]].astype(np.int32),
            word_ptr=offsets(np.diff(word_ptr)[by_head]),
            words=np.array(self.words, np.int32)[segment_positions(word_ptr, by_head)],
        )
        return Graph(
            shape=shape,
            goal=int(number[goal]),
            longest=self._longest(shape, int(number[goal])),
            vocab=tuple(self.vocab),
            features=self._features().take(by_head),
            names=tuple(self.names),
            score=np.array(self.score, np.float64)[by_head],
            src_start=np.array(self.src_start, np.int32)[by_head],
            src_end=np.array(self.src_end, np.int32)[by_head],
            src=tuple(self.src[e] for e in by_head),
            tgt=tuple(self.tgt[e] for e in by_head),
            is_unit=np.array(self.is_unit, bool)[by_head],
        )

    def _topological_order(self, heads: list[int], tails: Sequence[I64], n_nodes: int) -> I64:
        """[N] nodes, tails before heads; otherwise as near to their numbers as can be."""
        sorter = TopologicalSorter[int](dict.fromkeys(range(n_nodes), ()))
        for head, own in zip(heads, tails, strict=True):
            sorter.add(head, *own.tolist())
        try:
            return np.array([*sorter.static_order()])
        except CycleError as error:
            edge = next(e for e, head in enumerate(heads) if head in error.args[1])
            raise self.error(edge, "a graph without cycles", "a cycle through this edge's node") from None

    def _longest(self, shape: Shape, goal: int) -> int:
        """Edges and words of the goal's largest derivation: the best under scores that count them."""
        longest, back = find_best(shape, 1.0 + np.diff(shape.word_ptr))
        last = len(self.heads) - 1
        if back[goal] < 0:
            raise self.error(last, "a path to the goal", "none")
        if longest[goal] > MAX_DERIVATION:
            raise self.error(last, f"derivations of at most {MAX_DERIVATION} edges and words", f"one of {longest[goal]:g}")
        return int(longest[goal])

    def _check_nodes(self, heads: I64, tails: I64, tail_ptr: I64, n_nodes: int) -> None:
        for nodes, edges in ((heads, np.arange(len(heads))), (tails, owners(tail_ptr))):
            wrong = (nodes < 0) | (nodes >= n_nodes)
            if wrong.any():
                k = np.argmax(wrong)  # the first
                raise self.error(int(edges[k]), f"nodes from 0 to {n_nodes - 1}", str(nodes[k]))

    def _features(self) -> SparseRows:
        ptr = offsets(np.array(self.n_features, np.int64))
        idx, val = np.array(self.idx, np.int32), np.array(self.val, np.float64)
        row = owners(ptr)
        names = list(self.names)
        wrong = ~np.isfinite(val)
        if wrong.any():
            k = np.argmax(wrong)
            raise self.error(int(row[k]), f"a finite number for feature {clip(names[idx[k]])}", str(val[k]))
        if ((idx[1:] <= idx[:-1]) & (row[1:] == row[:-1])).any():
            by_name = np.lexsort((idx, row))
            idx, val = idx[by_name], val[by_name]
        twice = (idx[1:] == idx[:-1]) & (row[1:] == row[:-1])
        if twice.any():
            k = np.argmax(twice)
            raise self.error(int(row[k]), "distinct feature names", f"{clip(names[idx[k]])} twice")
        return SparseRows(ptr, idx, val)


def damaged(where: str, expected: str, found: str) -> FormatError:
    return FormatError(where, expected=expected, found=found, fix="the graph is damaged: write it again")


def summarise(graphs: Iterable[Graph]) -> dict[str, Any]:
    """Sizes of graphs, how many paths they pack, and their features; the mean of a feature is over edges that are units."""
    sizes, paths, scored = [], [], True
    total: dict[str, float] = {}
    nonzero: dict[str, int] = {}
    for graph in graphs:
        sizes.append((graph.n_nodes, graph.n_edges, int(graph.is_unit.sum())))
        paths.append(graph.log10_derivations())
        scored &= not np.isnan(graph.score).any()
        rows, n = graph.features, len(graph.names)
        sums, counts = np.bincount(rows.idx, rows.val, minlength=n), np.bincount(rows.idx, rows.val != 0, minlength=n)
        for name, value, count in zip(graph.names, sums.tolist(), counts.tolist(), strict=True):
            total[name] = total.get(name, 0.0) + value
            nonzero[name] = nonzero.get(name, 0) + int(count)
    nodes, edges, units = np.array(sizes, np.int64).T
    each = max(1, int(units.sum()))
    return {
        "sentences": len(sizes),
        "nodes": int(nodes.sum()),
        "edges": int(edges.sum()),
        "edges_per_sentence": {"mean": float(edges.mean()), "max": int(edges.max())},
        "log10_paths": {"mean": float(np.mean(paths)), "max": float(np.max(paths))},
        "scores": scored,
        "features": [{"name": name, "mean": total[name] / each, "nonzero": nonzero[name] / each} for name in total],
    }


# ---------------------------------------------------------------------------------------------------------------------
# Graphs to n-best lists
# ---------------------------------------------------------------------------------------------------------------------


def kbest_record(graph: Graph, scores: F64, found: Derivations, *, sent: int, where: str) -> ListRecord:
    """Derivations found under these edge scores as a list; units are the edges that translate something or carry features."""
    kept = graph.is_unit[found.edges]
    edges, start, end = found.edges[kept], found.tgt_start[kept], found.tgt_end[kept]
    # a rule with gaps is another unit for each length of what fills them
    uses = edges.astype(np.int64) * (graph.longest + 1) + (end - start)
    _, first, which = np.unique(uses, return_index=True, return_inverse=True)
    by_use = np.argsort(first)
    number = np.empty(len(first), np.int64)
    number[by_use] = np.arange(len(first))
    return ListRecord(
        sent=sent,
        where=where,
        texts=[graph.text(found, k) for k in range(len(found))],
        score=found.score,
        units=[_unit(graph, scores, int(edges[r]), (int(start[r]), int(end[r]))) for r in first[by_use]],
        unit_ptr=offsets(kept)[found.edge_ptr],
        unit_idx=number[which],
        tgt_start=start,
    )


def _unit(graph: Graph, scores: F64, e: int, tgt: tuple[int, int]) -> UnitRecord:
    src = (int(graph.src_start[e]), int(graph.src_end[e])) if graph.src_start[e] >= 0 else None
    return UnitRecord(graph.edge_features(e), src, tgt, graph.src[e] or None, graph.tgt[e], score=float(scores[e]))
