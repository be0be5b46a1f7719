"""MERT on graphs against every derivation written out, and against MERT on lists."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_graphs import Edges, enumerate_all, hypergraphs

from boostfeat.lists.build import Builder, ReadOptions, attach
from boostfeat.lists.nbest import NBest
from boostfeat.metrics.metric import metric_of
from boostfeat.search.graphs.graph import Graph, GraphBuilder, kbest_record
from boostfeat.search.graphs.graph_mert import GraphCorpus, fit_graphs, goal_envelope
from boostfeat.tuners.base import Features, Run
from boostfeat.tuners.mert import LineSearchLists, Mert, statistics

pytestmark = pytest.mark.quick
NAMES = ("f", "g", "h")


def build(edges: Edges, values: np.ndarray) -> Graph:
    """The graph whose edges have these features [E, 3]; the last node is the goal."""
    builder = GraphBuilder(lambda e: f"test:{e}")
    for name in NAMES:
        builder.name(name)
    for (head, tails, target, score), x in zip(edges, values, strict=True):
        builder.edge(head, tails, target, core=([0, 1, 2], x.tolist()), score=score)
    n = max(e[0] for e in edges) + 1
    return builder.finish(n, n - 1)


def whole_list(graphs: list[Graph], refs: list[str]) -> NBest:
    """Every derivation of the graphs as a hypothesis of its own, with references."""
    builder = Builder(ReadOptions(distinct=False))
    for s, graph in enumerate(graphs):
        scores = graph.edge_scores({"f": 1.0})
        found = graph.kbest(scores, 10_000, distinct=False)
        builder.add_list(kbest_record(graph, scores, found, sent=s, where="test"))
    return attach(builder.finish(), source=[""] * len(graphs), refs=[refs], name="test")


def test_derivations_of_any_depth_and_length():
    """Rules within rules 200 deep, of two words each: more than the room that lines of the envelope begin with."""
    edges: Edges = [(0, [], ["x"], 0.0)]
    for n in range(1, 201):
        edges.append((n, [n - 1], ["<", 0, ">"], -1.0))
    builder = GraphBuilder(lambda e: f"test:{e}")
    for head, tails, target, score in edges:
        builder.edge(head, tails, target, score=score)
    graph = builder.finish(201, 200)
    a, b, ptr, tokens = goal_envelope(graph.shape, graph.score, np.zeros(len(edges)), graph.goal)
    assert (a.tolist(), b.tolist(), ptr.tolist()) == ([-200.0], [0.0], [0, 401])
    assert [graph.vocab[w] for w in tokens] == ["<"] * 200 + ["x"] + [">"] * 200


def test_envelopes_of_any_number_of_lines():
    """Lines -k² + 2 k γ touch γ² at γ = k: all 300 of the first node are best somewhere, and so are all 300 of the goal."""
    builder = GraphBuilder(lambda e: f"test:{e}")
    for k in range(300):
        builder.edge(0, [], [f"w{k}"], score=-float(k * k))
    builder.edge(1, [0], ["<", 0], score=0.0)
    graph = builder.finish(2, 1)
    slopes = np.array([*(2.0 * k for k in range(300)), 0.0])
    a, b, ptr, tokens = goal_envelope(graph.shape, graph.score, slopes, graph.goal)
    assert (a.tolist(), b.tolist()) == ([-float(k * k) for k in range(300)], [2.0 * k for k in range(300)])
    assert ptr.tolist() == [*range(0, 601, 2)]
    assert [graph.vocab[w] for w in tokens] == [word for k in range(300) for word in ("<", f"w{k}")]


def lattice(rng: np.random.Generator, nodes: int = 5, width: int = 3) -> Graph:
    """A chain of nodes with several edges between neighbours, some of them over two."""
    edges: Edges = [(0, [], ["<"], 0.0)]
    for n in range(1, nodes):
        for _ in range(width):
            back = int(rng.integers(1, min(n, 2) + 1))
            edges.append((n, [n - back], [0, *("abcd"[k] for k in rng.integers(4, size=2))], 0.0))
    return build(edges, np.round(rng.normal(size=(len(edges), 3)), 3))


@given(hypergraphs(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_envelope_of_the_goal_is_that_of_all_derivations(edges, seed):
    """For any γ: the best score of all derivations, by their lines and by the envelope; and its string is one of the best."""
    rng = np.random.default_rng(seed)
    all_ways = enumerate_all(edges, limit=200)
    if not all_ways:
        return
    slopes = rng.integers(-3, 4, len(edges)).astype(float)
    with_slopes = [(head, tails, target, slope) for (head, tails, target, _), slope in zip(edges, slopes, strict=True)]
    lines = [(a, b, text) for (a, text), (b, _) in zip(all_ways, enumerate_all(with_slopes, limit=200), strict=True)]
    builder = GraphBuilder(lambda e: f"test:{e}")
    for k, (head, tails, target, score) in enumerate(edges):
        builder.edge(head, tails, target, {"s": slopes[k]}, score=score)
    n = max(e[0] for e in edges) + 1
    graph = builder.finish(n, n - 1)
    found_a, found_b, ptr, tokens = goal_envelope(graph.shape, graph.score, graph.edge_scores({"s": 1.0}), graph.goal)
    texts = [" ".join(graph.vocab[w] for w in tokens[i:j]) for i, j in pairwise(ptr.tolist())]
    assert all(x < y for x, y in pairwise(found_b.tolist()))
    for gamma in (-1e6, *rng.normal(size=12) * 2, 1e6):
        best = max(a + gamma * b for a, b, _ in lines)
        at = int(np.argmax(found_a + gamma * found_b))
        assert found_a[at] + gamma * found_b[at] == pytest.approx(best, abs=1e-7)
        assert texts[at] in {text for a, b, text in lines if a + gamma * b >= best - 1e-7}


@pytest.mark.parametrize("seed", range(12))
def test_an_edge_over_several_tails_has_the_envelope_of_all_their_combinations(seed):
    """Up to four tails of up to five lines each; every line found is the best one between its crossings, and no other is above."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, rng.integers(1, 5)).tolist()
    builder = GraphBuilder(lambda e: f"test:{e}")
    a, b = [rng.integers(-4, 5, n).astype(float) for n in sizes], [rng.integers(-4, 5, n).astype(float) for n in sizes]
    for t, n in enumerate(sizes):
        for k in range(n):
            builder.edge(t, [], [f"{t}.{k}"], score=a[t][k])
    builder.edge(len(sizes), list(range(len(sizes))), ["<", *range(len(sizes)), ">"], score=0.5)
    graph = builder.finish(len(sizes) + 1, len(sizes))
    found_a, found_b, ptr, tokens = goal_envelope(graph.shape, graph.score, np.append(np.concatenate(b), 0.25), graph.goal)
    ways = list(product(*(range(n) for n in sizes)))
    lines = {
        " ".join(["<", *(f"{t}.{k}" for t, k in enumerate(way)), ">"]):
        (0.5 + sum(a[t][k] for t, k in enumerate(way)), 0.25 + sum(b[t][k] for t, k in enumerate(way))) for way in ways
    }  # fmt: skip
    texts = [" ".join(graph.vocab[w] for w in tokens[i:j]) for i, j in pairwise(ptr.tolist())]
    assert [lines[text] for text in texts] == list(zip(found_a.tolist(), found_b.tolist(), strict=True))
    crossings = [(a0 - a1) / (b1 - b0) for (a0, b0), (a1, b1) in pairwise(lines[text] for text in texts)]
    assert all(x < y for x, y in pairwise(crossings))
    ends = [-100.0, *crossings, 100.0]
    for text, (low, high) in zip(texts, pairwise(ends), strict=True):
        for gamma in (low, (low + high) / 2, high):
            best = max(a + gamma * b for a, b in lines.values())
            assert lines[text][0] + gamma * lines[text][1] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("name", ["bleu", "bleu-sbp", "ter"])
def test_line_searches_equal_those_of_the_written_out_list(name):
    rng = np.random.default_rng(3)
    graphs = [lattice(rng) for _ in range(6)]
    nbest = whole_list(graphs, ["< a b a c d a", "< b b c", "< a d d a", "< c a b", "< d a c b", "< a b c d a b"])
    metric = metric_of(name, nbest)
    features = Features.of(nbest)
    order = [features.names.index(name) for name in NAMES]
    lists = LineSearchLists(
        nbest.hyp_ptr, np.ascontiguousarray(features.dense[:, order].T), np.zeros(nbest.n_hyps), **statistics(nbest, metric)
    )
    ours = GraphCorpus.of(dict(enumerate(graphs)), nbest, NAMES, np.ones(3), {}, metric)
    for _ in range(20):
        w, d = rng.normal(size=(2, 3))
        assert ours.value(ours.scores(w)) == pytest.approx(lists.value(lists.scores(w)))
        got = ours.line_search(ours.scores(w), ours.slopes(d), reach=2.0)
        want = lists.line_search(lists.scores(w), lists.slopes(d), reach=2.0)
        assert got == pytest.approx(want, abs=1e-6)
    assert len(ours.known) == len(ours.rows) < nbest.n_hyps  # most derivations are never the best


def test_the_tuner_finds_what_it_finds_on_the_written_out_list():
    rng = np.random.default_rng(5)
    graphs = [lattice(rng) for _ in range(8)]
    nbest = whole_list(graphs, ["< a b a c d a", "< b b c a", "< a d d a", "< c a b"] * 2)
    run = Run(init={"f": 1.0, "g": 0.1, "h": -0.1}, seed=2)
    tuner = Mert(restarts=2, rounds=2)
    lists, ours = tuner.fit(nbest, None, run), fit_graphs(tuner, nbest, dict(enumerate(graphs)), None, run)
    assert ours.history[-1]["graphs"] == pytest.approx(lists.history[-1]["dev"], abs=1e-9)
    assert ours.history[-1]["dev"] == pytest.approx(ours.history[-1]["graphs"])  # the list has every derivation
    assert dict(ours.weights) == pytest.approx(dict(lists.weights), abs=1e-6)
    two = fit_graphs(tuner, nbest, dict(enumerate(graphs)), None, Run(init=run.init, seed=2, threads=3))
    assert dict(two.weights) == dict(ours.weights)


def test_a_sentence_without_a_graph_is_an_empty_line():
    rng = np.random.default_rng(1)
    graphs = [lattice(rng), lattice(rng)]
    nbest = whole_list(graphs, ["< a b", "< c d"])
    metric = metric_of("bleu", nbest)
    both, one = (GraphCorpus.of(g, nbest, NAMES, np.ones(3), {}, metric) for g in (dict(enumerate(graphs)), {0: graphs[0]}))
    assert one.empty[9] == 3  # its reference's length still counts
    assert both.empty.sum() == 0
    assert list(one.lines(one.scores(np.ones(3)), one.slopes(np.ones(3))).ptr) == [0, 2, 2]  # the best, and for γ < -1 the worst
