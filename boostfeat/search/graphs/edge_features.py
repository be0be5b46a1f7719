"""Feature templates on the edges of a search graph: those that need no more than the edge and the source sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from ...core.arrays import offsets
from ...core.errors import InputError
from ...core.text import normal, split_words
from ...features import TEMPLATES, FeaturePlan, Template, featurize
from ...features.registry import GIVEN
from ...features.vocab import product_name
from ...lists.build import assemble
from ...lists.nbest import NBest, SparseRows, Units, strings
from .edge_neighbours import BETWEEN
from .graph import Graph


def edge_vocab(vocab: FeaturePlan, features: Iterable[str], *, registry: Mapping[str, Template] = TEMPLATES) -> FeaturePlan:
    """The part of a frozen vocab that makes these features; InputError where a template reads more than an edge holds."""
    wanted = set(features)
    products = tuple(pair for pair in vocab.products or () if product_name(pair) in wanted)
    wanted |= {name for pair in products for name in pair}
    entries = []
    for entry in vocab.entries:
        used = tuple(name for name in entry.features or () if name in wanted)
        if not used:
            continue
        if beyond := _beyond(entry.name, registry):
            fit = [e.name for e in vocab.entries if e.name in BETWEEN or not _beyond(e.name, registry)]
            raise InputError(
                f"feature {used[0]!r} (template {entry.name!r}) reads the {beyond[0]}: expected features that an edge of a graph "
                f"has of itself; rerank a list with this model, or learn one with --templates {','.join(fit) or 'none'}"
            )
        entries.append(replace(entry, features=used))
    return replace(vocab, entries=tuple(entries), products=products, n_products=len(products))


def _beyond(name: str, registry: Mapping[str, Template]) -> list[str]:
    """What a template reads beyond an edge; graphs have no links between words."""
    template = registry.get(name)
    return [*template.state, *(what for what in template.reads if what in (*GIVEN, "alignment"))] if template else []


def with_templates(graph: Graph, vocab: FeaturePlan, *, source: str = "") -> Graph:
    """The graph with the features of a vocab (see edge_vocab) on the edges that are units."""
    edges = np.flatnonzero(graph.is_unit)
    made, _ = featurize(_edge_list(graph, source), vocab)
    d = len(made.unit_names)
    matrix = made.units.sparse
    names = [*made.unit_names, *made.sparse_names.to_pylist()]
    row, column = np.nonzero(made.X)
    counts = np.bincount(row, minlength=made.n_units) + np.diff(matrix.ptr)
    ptr = offsets(counts)
    idx, val = np.empty(ptr[-1], np.int32), np.empty(ptr[-1])
    at = ptr[row] + np.arange(len(row)) - np.searchsorted(row, row)
    idx[at], val[at] = column, made.X[row, column]
    behind = np.repeat(ptr[1:] - matrix.ptr[1:], np.diff(matrix.ptr)) + np.arange(len(matrix.idx))
    idx[behind], val[behind] = matrix.idx + d, matrix.val
    of_edge = np.full(graph.n_edges, made.n_units)
    of_edge[edges] = made.unit_idx
    rows = SparseRows(np.append(ptr, ptr[-1]), idx, val).take(of_edge)  # the last, empty row is that of the other edges
    return replace(graph, features=rows, names=tuple(names))


def _edge_list(graph: Graph, source: str) -> NBest:
    """A list of one sentence in which each edge that is a unit is a hypothesis of its own."""
    edges = np.flatnonzero(graph.is_unit)
    e = len(edges)
    x = graph.features.matrix(len(graph.names))[edges].toarray() + 0.0  # -0.0 becomes 0.0
    texts = [graph.tgt[i] for i in edges]
    units = Units(
        x=x,
        sparse=SparseRows.empty(e),
        src=strings([graph.src[i] or _words(source, graph.src_start[i], graph.src_end[i]) for i in edges]),
        tgt=strings(texts),
        align=strings([""] * e),
        src_len=np.where(graph.src_start >= 0, graph.src_end - graph.src_start, -1)[edges].astype(np.int32),
        tgt_len=np.array([len(split_words(text)) for text in texts], np.int32),
        score=graph.score[edges],
    )
    return assemble(
        NBest(
            ids=np.zeros(1, np.int64),
            source=strings([normal(source)]),
            ref_ptr=np.zeros(2, np.int64),
            refs=strings([]),
            hyp_ptr=np.array([0, e], np.int64),
            text=strings(texts),
            score=graph.score[edges],
            stats=np.zeros((0, 6), np.int32),
            unit_ptr=np.arange(e + 1),
            unit_idx=np.arange(e, dtype=np.int32),
            src_start=graph.src_start[edges],
            tgt_start=np.zeros(e, np.int32),
            units=units,
            unit_names=graph.names,
            extra=np.zeros((e, 0)),
            extra_names=(),
            extra_sparse=SparseRows.empty(e),
            sparse_names=strings([]),
        )
    )


def _words(source: str, start: int, end: int) -> str:
    return " ".join(split_words(source)[start:end]) if start >= 0 else ""
