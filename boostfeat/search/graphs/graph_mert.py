"""MERT on whole search graphs: exact line search over all their derivations [K09].

Along a line w + γ d the score of every edge is a straight line in γ. The best derivations of a node, for all γ at once, are the
upper envelope of what its edges make of the envelopes of their tails: an edge adds its own line to the sum of its tails', and
the sum of envelopes has the change points of all of them. At the goal stand the few derivations that are best somewhere on the
line, of all there are; from there on it is MERT as on lists (``mert``), with statistics of these derivations only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

from ...core.arrays import F64, I32, I64, Array, offsets
from ...core.kernels import kernel
from ...lists.build import with_stats
from ...lists.choices import all_rows
from ...lists.nbest import NBest, strings
from ...metrics.metric import Metric
from ...metrics.sums import Recipe, gain_of
from ...model.model import Model
from ...tuners.base import EpochLog, Features, Run
from ...tuners.mert import Mert, best_interval_of, climbed, envelopes
from .graph import Graph
from .kbest import Records, add_record, written_down

GRID = 2.0**20  # statistics are multiples of 1 / GRID

# ---------------------------------------------------------------------------------------------------------------------
# Envelopes
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def _n_lines(shape, first, e):  # type: ignore[no-untyped-def]
    """Count the lines of the sum of the envelopes of an edge's tails: one, and one more at every change point."""
    n = 1
    for t in shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]:
        if first[t] == first[t + 1]:
            return 0
        n += first[t + 1] - first[t] - 1
    return n


@kernel
def _upper(a, b):  # type: ignore[no-untyped-def]
    """Find the lines a + γ b [n] on their upper envelope, by rising γ; of identical lines the first."""
    winner, at, old, new = np.empty(1, np.int64), np.empty(len(a)), np.empty(len(a), np.int64), np.empty(len(a), np.int64)
    n = envelopes(np.array([0, len(a)]), a, b, winner, at, old, new)
    return np.append(winner, new[:n])


@kernel
def goal_envelope(shape, a, b, goal):  # type: ignore[no-untyped-def]
    """(a, b, token_ptr, tokens) of the derivations of the goal that are best for some γ, by rising γ.

    IN a[E], b[E]: the lines of the edges. Nodes come in topological order, so their tails' envelopes are there already.
    """
    first = np.zeros(len(shape.head_ptr), np.int64)  # the envelope of node v: records first[v]:first[v+1]
    records, slope = Records([0.0][:0], [0][:0], [0], [0][:0]), [0.0][:0]  # scores are those at γ = 0
    at = np.empty(np.diff(shape.tail_ptr).max(), np.int64)  # a record of each tail
    for v in range(goal + 1):
        edges = range(shape.head_ptr[v], shape.head_ptr[v + 1])
        n = 0
        for e in edges:
            n += _n_lines(shape, first, e)
        line_a, line_b, edge, parts = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty((n, len(at)), np.int64)
        n = 0
        for e in edges:
            tails = shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]
            for t in range(len(tails)):
                at[t] = first[tails[t]]
            for _ in range(_n_lines(shape, first, e)):
                line_a[n], line_b[n], edge[n], nearest, mover = a[e], b[e], e, np.inf, -1
                for t in range(len(tails)):
                    i = at[t]
                    line_a[n] += records.score[i]
                    line_b[n] += slope[i]
                    parts[n, t] = i
                    if i + 1 < first[tails[t] + 1]:
                        x = (records.score[i] - records.score[i + 1]) / (slope[i + 1] - slope[i])  # where the next is above
                        if mover < 0 or x < nearest:
                            nearest, mover = x, t
                if mover >= 0:
                    at[mover] += 1
                n += 1
        for i in _upper(line_a, line_b) if n else np.zeros(0, np.int64):
            add_record(records, line_a[i], edge[i], parts[i, : shape.tail_ptr[edge[i] + 1] - shape.tail_ptr[edge[i]]])
            slope.append(line_b[i])
        first[v + 1] = len(slope)
    best = np.arange(first[goal], first[goal + 1])
    line_a, _, _, _, _, token_ptr, tokens = written_down(shape, records, best)
    return line_a, np.array(slope)[best], token_ptr, tokens


# ---------------------------------------------------------------------------------------------------------------------
# The corpus
# ---------------------------------------------------------------------------------------------------------------------


class EnvelopeLines(NamedTuple):
    """Derivations of all sentences that are best somewhere on a line: as lists of few hypotheses."""

    ptr: I64  # [S+1]
    a: F64
    b: F64
    row: I64  # of the statistics


@dataclass
class GraphCorpus:
    """Graphs for ``mert.Mert``, as ``mert.Corpus`` is lists: edges stand for hypotheses.

    Statistics are counted once for each string of a sentence, when it first comes to be best. Graphs stay in memory.
    """

    graphs: Sequence[Graph | None]  # [S] None: nothing is known of the sentence, an empty line is its translation
    x: csr_matrix  # [E, D] features of all edges that may move
    base: F64  # [E] the score of the others
    edge_ptr: I64  # [S+1]
    nbest: NBest  # references
    metric: Metric
    recipe: Recipe
    empty: F64  # [n] statistics of the sentences without a graph
    rows: F64  # [U, n] of the strings so far
    known: dict[tuple[int, bytes], int] = field(default_factory=dict)  # (sentence, tokens) -> row
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(
        cls,
        graphs: Mapping[int, Graph],
        nbest: NBest,
        names: Sequence[str],
        scale: F64,
        fixed: Mapping[str, float],
        metric: Metric,
    ) -> GraphCorpus:
        """IN graphs by position of their sentence, the features that may move and their scales, the weights of others."""
        found = [graphs.get(s) for s in range(len(nbest))]
        parts, base, sizes = [csr_matrix((0, len(names)))], [np.zeros(0)], []
        for graph in found:
            sizes.append(graph.n_edges if graph else 0)
            if graph is not None:
                parts.append(_columns(graph, names))
                base.append(graph.edge_scores(fixed))
        x = csr_matrix(vstack(parts))
        x.data /= scale[x.indices]
        none = [metric.empty_row(nbest, s) for s, graph in enumerate(found) if graph is None]
        rows = np.zeros((0, metric.width))
        empty = on_grid(np.array(none, np.float64).reshape(-1, metric.width)).sum(axis=0)
        return cls(found, x, np.concatenate(base), offsets(np.array(sizes)), nbest, metric, metric.recipe(nbest), empty, rows)

    def slopes(self, d: F64) -> F64:
        return np.asarray(self.x @ d, np.float64)

    def scores(self, w: F64) -> F64:
        """[E] the score of every edge."""
        return self.base + self.slopes(w)

    def value(self, scores: F64) -> float:
        """Return the gain of the best derivations, which is climbed."""
        lines = self.lines(scores, np.zeros(len(scores)))
        return float(gain_of(self.recipe, self._sums(lines.row)))

    def line_search(self, a: F64, b: F64, *, reach: float = 1.0, narrow: float = 0.0) -> tuple[float, float]:
        """(γ, value) of the best point of the line, over all derivations."""
        lines = self.lines(a, b)
        rows = self.rows[lines.row]
        return best_interval_of(lines.ptr, lines.a, lines.b, rows, self.empty, self.recipe, reach=reach, narrow=narrow)

    def lines(self, a: F64, b: F64) -> EnvelopeLines:
        """Find the derivations of every sentence that are best for some γ of a + γ b [E]."""
        counts, found_a, found_b, texts = [], [], [], []
        for s, graph in enumerate(self.graphs):
            if graph is None:
                counts.append(0)
                continue
            own = slice(self.edge_ptr[s], self.edge_ptr[s + 1])
            line_a, line_b, ptr, tokens = goal_envelope(graph.shape, a[own], b[own], graph.goal)
            counts.append(len(line_a))
            found_a.append(line_a)
            found_b.append(line_b)
            texts += [(s, tokens[ptr[k] : ptr[k + 1]]) for k in range(len(line_a))]
        with self.lock:  # several starts climb at once
            self._count(texts)
            row = np.array([self.known[s, t.tobytes()] for s, t in texts], np.int64)
        return EnvelopeLines(offsets(np.array(counts, np.int64)), _joined(found_a), _joined(found_b), row)

    def _count(self, texts: Sequence[tuple[int, I32]]) -> None:
        """Statistics of strings that were not best before."""
        new = {key: (s, tokens) for s, tokens in texts if (key := (s, tokens.tobytes())) not in self.known}
        if not new:
            return
        for key in new:  # sentences come in order
            self.known[key] = len(self.known)
        lines = [" ".join([self._graph(s).vocab[w] for w in tokens]) for s, tokens in new.values()]
        sents = np.array([s for s, _ in new.values()])
        nb, hyp_ptr = self.nbest, offsets(np.bincount(sents, minlength=len(self.nbest)))
        lists = NBest.bare(hyp_ptr, strings(lines), ids=nb.ids, source=nb.source, ref_ptr=nb.ref_ptr, refs=nb.refs)
        rows = all_rows(with_stats(lists), self.metric)
        self.rows = np.concatenate([self.rows, on_grid(rows)])

    def _graph(self, s: int) -> Graph:
        graph = self.graphs[s]
        assert graph is not None
        return graph

    def _sums(self, row: I64) -> Array:
        return np.asarray(self.rows[row].sum(axis=0) + self.empty)


def on_grid(rows: Array) -> F64:
    """Statistics whose sums are exact in any order: whole numbers as they are, others to some six digits."""
    return np.round(np.asarray(rows, np.float64) * GRID) / GRID


def _joined(parts: Sequence[F64]) -> F64:
    return np.concatenate(parts) if parts else np.zeros(0)


def _columns(graph: Graph, names: Sequence[str]) -> csr_matrix:
    """[E, D] these features of a graph's edges; one that no edge has is 0."""
    matrix = graph.features.matrix(len(graph.names)).tocsc()
    at = {name: j for j, name in enumerate(graph.names)}
    none = csr_matrix((graph.n_edges, 1)).tocsc()
    return csr_matrix(hstack([matrix[:, [at[name]]] if name in at else none for name in names]))


# ---------------------------------------------------------------------------------------------------------------------
# The tuner
# ---------------------------------------------------------------------------------------------------------------------


def fit_graphs(tuner: Mert, nbest: NBest, graphs: Mapping[int, Graph], select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
    """MERT over all derivations of search graphs, by position of their sentence in the list.

    The list has references, and tells the scale of features. In the history, ``graphs`` is the metric of the best derivations
    on the graphs and ``dev`` that on the list. Without select, the last round is kept: the best on the graphs.
    """
    metric = climbed(nbest, run)
    metric.check_learnable(nbest)
    features = Features.of(nbest)
    log = EpochLog(features, nbest, select, run)
    init = features.start(run.init)
    moves, scale, _ = tuner.prepare(features, nbest, init, run, metric)
    still = init.copy()
    still[moves] = 0.0
    names, fixed = [features.names[j] for j in moves], dict(zip(features.names, still.tolist(), strict=True))
    return tuner.search(log, GraphCorpus.of(graphs, nbest, names, scale, fixed, metric), init, moves, scale)
