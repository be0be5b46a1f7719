"""Oracle paths by word errors: exact, against the enumeration of all paths, and what the commands say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import quick

from boostfeat.core.errors import InputError
from boostfeat.search.graphs.graph import Graph, GraphBuilder
from boostfeat.search.graphs.graph_files import read_graphs
from boostfeat.search.graphs.oracle_path import nearest_path


def naive_edits(a: list[str], b: list[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y)))
        row = new
    return row[-1]


def lattice(arcs: list[tuple[int, int, list[str]]], n: int) -> Graph:
    """Arcs (from, ahead, words) over n + 1 nodes, and one from each node to the next, so that there is a path."""
    builder = GraphBuilder(lambda e: "graph")
    builder.edge(0, [], [], score=0.0, is_unit=False)
    for start, ahead, said in [*arcs, *((k, 1, ["a"]) for k in range(n))]:
        if start < n:
            builder.edge(min(start + ahead, n), [start], [0, *said], score=-1.0)
    return builder.finish(n + 1, n)


def paths(graph: Graph) -> list[list[str]]:
    found = graph.kbest(graph.score, 5000, distinct=False)
    return [graph.text(found, i).split() for i in range(len(found))]


words = st.sampled_from("abc")
arc = st.tuples(st.integers(0, 4), st.integers(1, 3), st.lists(words, max_size=3))


@quick
@given(st.lists(arc, max_size=8), st.integers(1, 5), st.lists(st.sampled_from("abcx"), max_size=6))
def test_the_nearest_path_is_that_of_all(arcs: list[tuple[int, int, list[str]]], n: int, ref: list[str]) -> None:
    graph = lattice(arcs, n)
    edits, found = nearest_path(graph, ref)
    every = paths(graph)
    assert edits == min(naive_edits(path, ref) for path in every)
    assert naive_edits(found, ref) == edits
    assert found in every


def test_hypergraphs_are_told_to_use_bleu() -> None:
    builder = GraphBuilder(lambda e: "graph")
    builder.edge(0, [], ["a"])
    builder.edge(1, [0], ["b", 0])
    with pytest.raises(InputError, match="graph: expected a lattice for oracle WER, found a hypergraph; give --metric bleu"):
        nearest_path(builder.finish(2, 1), ["a"])


PLF = """((('a', -1, 1),('b', -0.5, 1),),(('c', -0.1, 1),('d', -2, 1),),)
((('x', -1, 1),('y', -0.5, 1),),)
"""


def test_commands(boostfeat, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Best paths: b c, y. Against a d e and y x: 3 + 1 edits of 5 words; the nearest paths a d and x or y have 1 + 1."""
    (tmp_path / "in.plf").write_text(PLF)
    (tmp_path / "ref").write_text("a d e\ny x\n")
    code, out, _ = boostfeat("rescore", tmp_path / "in.plf", "--oracle", "-r", tmp_path / "ref", "--json")
    scores = {name: found["score"] for name, found in json.loads(out)["wer"].items()}
    assert (code, scores) == (0, {"best path": 80.0, "oracle path": 40.0})
    code, out, err = boostfeat("rescore", tmp_path / "in.plf", "--oracle", "-r", tmp_path / "ref")
    assert (code, out.split("\n")[0]) == (0, "a d")
    assert "WER of the best path: 80.00" in err
    assert "WER of the oracle path: 40.00" in err
    code, out, err = boostfeat("rescore", tmp_path / "in.plf", "-r", tmp_path / "ref")
    assert (code, out) == (0, "b c\ny\n")
    assert "WER of the best path: 80.00" in err
    code, out, err = boostfeat("rescore", tmp_path / "in.plf", "--oracle", "-r", tmp_path / "ref", "--metric", "bleu")
    assert code == 0
    assert "BLEU of the oracle path" in err
    for arguments, message in {
        ("info", tmp_path / "in.plf", "--metric", "wer"): "--metric: it is for lists",
        ("rescore", tmp_path / "in.plf", "-r", tmp_path / "ref", "--metric", "ter"): "unknown metric 'ter'",
    }.items():
        code, _, err = boostfeat(*arguments)
        assert code == 2
        assert message in err


def test_real_lattices_by_enumeration(real: Path) -> None:
    """Of the first 150 lattices those of at most 2,000 paths: against the recogniser's neighbours' sentences."""
    checked = 0
    rng = np.random.default_rng(0)
    for item in read_graphs([real / "lattices" / "callhome_evltest.plf.es.xz"]):
        if item.sent == 150:
            break
        if item.graph.log10_derivations() > 3.3 or not item.graph.vocab:
            continue
        every = paths(item.graph)
        ref = [w for w in every[rng.integers(len(every))] if rng.random() < 0.8] + ["nada"]
        edits, found = nearest_path(item.graph, ref)
        assert edits == min(naive_edits(path, ref) for path in every[:5000])
        assert naive_edits(found, ref) == edits
        checked += 1
    assert checked > 50
