"""Template features of the edges of a graph, by hand: that of toy_graphs, whose edges are das|the, das|that, haus|house, das haus|."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_graphs import OSGX, write

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.search.graphs.edge_features import _edge_list, edge_plan, with_templates
from boostfeat.search.graphs.graph_files import read_graphs

pytestmark = pytest.mark.quick


@pytest.fixture
def graph(tmp_path):
    return next(iter(read_graphs([write(tmp_path, "g.osgx", OSGX)]))).graph


def test_edges_have_what_a_list_of_them_has(graph):
    """Dense and sparse features of every edge, and those that it had; an edge without a phrase has none."""
    _, plan = featurize(_edge_list(graph, "das haus"), FeaturePlan.of("length,pt", TEMPLATES, min_count=1))
    wanted = edge_plan(plan, {"len.src", "len.tgt", "pt:das|the", "pt:haus|house", "other"})
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
        edge_plan(plan, {jump})
    assert [entry.name for entry in edge_plan(plan, {"len.src"}).entries] == ["length"]
    both = replace(plan, products=(("len.src", "len.tgt"), ("len.src", "len.diff")), n_products=2)
    wanted = edge_plan(both, {"len.src*len.tgt"})
    assert (wanted.products, wanted.n_products) == ((("len.src", "len.tgt"),), 1)
    assert [entry.features for entry in wanted.entries] == [("len.src", "len.tgt")]
