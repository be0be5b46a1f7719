"""Template features of the edges of a graph, by hand: that of toy_graphs, whose edges are das|the, das|that, haus|house, das haus|."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy_graphs import OSGX, write

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.search.graphs.edge_features import _edge_list, _words, edge_vocab, with_templates
from boostfeat.search.graphs.graph_files import read_graphs

pytestmark = pytest.mark.quick


@pytest.fixture
def graph(tmp_path):
    return next(iter(read_graphs([write(tmp_path, "g.osgx", OSGX)]))).graph


def test_edges_as_a_list(graph):
    """Each that has a phrase is a hypothesis of its own; those that only close the graph are not there."""
    found = _edge_list(graph, "das  haus")
    edges = np.flatnonzero(graph.is_unit)
    tgt = [graph.tgt[e] for e in edges]
    assert sorted(tgt) == ["", "house", "house", "that", "the"]
    assert (found.ids.tolist(), found.source.to_pylist(), found.hyp_ptr.tolist()) == ([0], ["das haus"], [0, 5])
    assert (found.text.to_pylist(), found.unit_ptr.tolist()) == (tgt, [0, 1, 2, 3, 4, 5])
    of = found.unit_idx
    spans = {"the": (0, 1, "das"), "that": (0, 1, "das"), "house": (1, 1, "haus"), "": (0, 2, "das haus")}
    units = found.units
    assert [units.tgt[int(u)].as_py() for u in of] == tgt
    assert [(int(s), int(units.src_len[u]), units.src[int(u)].as_py()) for s, u in zip(found.src_start, of, strict=True)] == [
        spans[text] for text in tgt
    ]
    assert units.tgt_len[of].tolist() == [len(text.split()) for text in tgt]
    assert (found.unit_names, found.tgt_start.tolist()) == (graph.names, [0] * 5)
    assert found.score.tolist() == graph.score[edges].tolist()
    own = {"the": [-1.0, 2.0, 1.0], "that": [-1.5, 2.5, 0.0], "": [-9.0, 0.0, 0.0]}
    for u, text in zip(of, tgt, strict=True):
        assert text == "house" or units.x[u].tolist() == own[text]


def test_edges_without_spans_or_words(graph):
    """Words of the source stand in for a phrase that an edge does not name; where its span is not known either, it has none."""
    nameless = replace(graph, src=[""] * len(graph.src))
    assert set(_edge_list(nameless, "x y z").units.src.to_pylist()) == {"x", "y", "x y"}
    nowhere = replace(nameless, src_start=np.full_like(graph.src_start, -1), src_end=np.full_like(graph.src_end, -1))
    units = _edge_list(nowhere, "x y z").units
    assert set(units.src.to_pylist()) == {""}
    assert set(units.src_len.tolist()) == {-1}
    assert [_words("a b c", *span) for span in ((0, 1), (1, 3), (-1, 2))] == ["a", "b c", ""]


def test_edges_have_what_a_list_of_them_has(graph):
    """Dense and sparse features of every edge, and those that it had; an edge without a phrase has none."""
    _, plan = featurize(_edge_list(graph, "das haus"), FeaturePlan.of("length,pt", TEMPLATES, min_count=1))
    wanted = edge_vocab(plan, {"len.src", "len.tgt", "pt:das|the", "pt:haus|house", "other"})
    assert [entry.features for entry in wanted.entries] == [("len.src", "len.tgt"), ("pt:das|the", "pt:haus|house")]
    found = with_templates(graph, wanted, source="das haus")
    assert found.names == (*graph.names, "len.src", "len.tgt", "pt:das|the", "pt:haus|house")
    rows = found.features.matrix(len(found.names)).toarray()
    before = graph.features.matrix(len(graph.names)).toarray()
    for e in range(graph.n_edges):
        own = dict(zip(found.names, rows[e].tolist(), strict=True))
        if not graph.is_unit[e]:
            assert not rows[e].any()
            continue
        src, tgt = graph.src[e], graph.tgt[e]
        assert rows[e, : len(graph.names)].tolist() == before[e].tolist()
        assert (own["len.src"], own["len.tgt"]) == (len(src.split()), len(tgt.split()))
        assert (own["pt:das|the"], own["pt:haus|house"]) == (
            float((src, tgt) == ("das", "the")),
            float((src, tgt) == ("haus", "house")),
        )


def test_what_reads_beyond_an_edge_is_refused(graph):
    _, plan = featurize(_edge_list(graph, "das haus"), FeaturePlan.of("length,jump", TEMPLATES, min_count=1))
    jump = next(entry.features[0] for entry in plan.entries if entry.name == "jump")
    with pytest.raises(InputError, match=r"\(template 'jump'\) reads the previous span: .* or learn one with --templates length"):
        edge_vocab(plan, {jump})
    assert [entry.name for entry in edge_vocab(plan, {"len.src"}).entries] == ["length"]
    both = replace(plan, products=(("len.src", "len.tgt"), ("len.src", "len.diff")), n_products=2)
    wanted = edge_vocab(both, {"len.src*len.tgt"})
    assert (wanted.products, wanted.n_products) == ((("len.src", "len.tgt"),), 1)
    assert [entry.features for entry in wanted.entries] == [("len.src", "len.tgt")]
