"""Search graphs: exact k-best against enumeration, the readers against what Moses printed, damaged files."""

from __future__ import annotations

import lzma
import math
import re
from collections import Counter
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy_graphs import FI_EN_CORE, FOREST, HYPERGRAPH, OSGX, Edges, build, enumerate_all, fi_en_weights, hypergraphs, write

from boostfeat.core.errors import FormatError, InputError
from boostfeat.formats import read
from boostfeat.formats.sniffers import SNIFFERS
from boostfeat.lists.build import Builder, ReadOptions
from boostfeat.search.graphs import graph as graph_module
from boostfeat.search.graphs import moses_hypergraph
from boostfeat.search.graphs import moses_search_graph as moses_osgx

# ---------------------------------------------------------------------------------------------------------------------
# Search against enumeration
# ---------------------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(edges=hypergraphs(), data=st.data())
def test_numbering_of_nodes_does_not_matter(edges: Edges, data: st.DataObject) -> None:
    every = enumerate_all(edges, 500)
    assume(every)
    order = data.draw(st.permutations(range(max(e[0] for e in edges) + 1)))
    graph, scores = build(edges, order)
    found = graph.kbest(scores, len(every), distinct=False)
    assert Counter((found.score[i], graph.text(found, i)) for i in range(len(found))) == Counter(every)


class Found(NamedTuple):
    """A derivation: its edges in post-order with the spans of their own words, and its words."""

    score: float
    edges: list[tuple[int, int, int]]
    words: list[str]


def in_order(edges: Edges, *, distinct: bool) -> list[Found]:
    """All derivations of the last node: by score, then by the edge, then by the places of the parts in the lists of their nodes."""
    lists: dict[int, list[Found]] = {}
    for head in range(max(e[0] for e in edges) + 1):
        every = []
        for e, (own, tails, target, score) in enumerate(edges):
            if own == head:
                for ranks in product(*(range(len(lists[t])) for t in tails)):
                    parts = [lists[t][r] for t, r in zip(tails, ranks, strict=True)]
                    made = _put_together(e, target, parts)._replace(score=score + sum(part.score for part in parts))
                    every.append((-made.score, e, ranks, made))
        lists[head], seen = [], set()
        for *_, made in sorted(every, key=lambda row: row[:3]):
            if not (distinct and tuple(made.words) in seen):
                lists[head].append(made)
            seen.add(tuple(made.words))
        assume(len(lists[head]) < 400)
    return lists[head]


def _put_together(e: int, target: list[str | int], parts: list[Found]) -> Found:
    edges: list[tuple[int, int, int]] = []
    words: list[str] = []
    own: list[int] = []
    for x in target:
        if isinstance(x, int):
            edges += [(f, a + len(words), b + len(words)) for f, a, b in parts[x].edges]
            words += parts[x].words
        else:
            own.append(len(words))
            words.append(x)
    return Found(0.0, [*edges, (e, own[0], own[-1] + 1) if own else (e, len(words), len(words))], words)


@pytest.mark.parametrize("distinct", [True, False])
@settings(max_examples=80, deadline=None)
@given(edges=hypergraphs(), k=st.integers(1, 40))
def test_order_edges_and_spans_are_those_of_plain_python(distinct: bool, edges: Edges, k: int) -> None:
    """Ties, of which whole numbers make many, have one order."""
    every = in_order(edges, distinct=distinct)
    assume(every)
    graph, scores = build(edges)
    with patch.object(graph_module, "EXAMINED_PER_STRING", 10_000):
        found = graph.kbest(scores, k, distinct=distinct)
    assert found.score.tolist() == [one.score for one in every[:k]]
    for i, one in enumerate(every[:k]):
        own = slice(found.edge_ptr[i], found.edge_ptr[i + 1])
        spans = (found.edges[own].tolist(), found.tgt_start[own].tolist(), found.tgt_end[own].tolist())
        assert list(zip(*spans, strict=True)) == one.edges
        assert graph.text(found, i) == " ".join(one.words)
    assert (found.edge_ptr[0], found.edge_ptr[-1], found.token_ptr[-1]) == (0, len(found.edges), len(found.tokens))
    assert graph.best(scores).edges.tolist() == found.edges[: found.edge_ptr[1]].tolist()
    assert distinct or graph.log10_derivations() == pytest.approx(math.log10(len(every)), abs=1e-9)


def test_spans_hold_own_words() -> None:
    edges: Edges = [(0, [], ["x"], 0.0), (1, [], ["y", "z"], 0.0), (2, [0, 1], ["a", 1, "b", 0], 0.0), (3, [2], [0], 0.0)]
    graph, scores = build(edges)
    found = graph.best(scores)
    assert graph.text(found, 0) == "a y z b x"
    spans = list(zip(found.edges.tolist(), found.tgt_start.tolist(), found.tgt_end.tolist(), strict=True))
    assert spans == [(1, 1, 3), (0, 4, 5), (2, 0, 4), (3, 5, 5)]  # post-order; without own words: empty, at its end


def test_distinct_search_ends() -> None:
    ladder: Edges = [(0, [], [], 0.0)] + [(n, [n - 1], [0, "a"], s) for n in range(1, 3000) for s in (0.0, -1.0)]
    graph, scores = build(ladder)
    assert graph.log10_derivations() == pytest.approx(2999 * math.log10(2))
    assert len(graph.kbest(scores, 50)) == 1  # 2^2999 derivations of one string
    assert len(graph.kbest(scores, 50, distinct=False)) == 50
    bound = graph_module.EXAMINED_PER_STRING
    star: Edges = [(0, [], ["a"], -float(i)) for i in range(2 * bound)] + [(0, [], ["b"], -1e6)]
    graph, scores = build(star)
    assert len(graph.kbest(scores, 2)) == 1  # the other string is past the stated bound of 2 x EXAMINED_PER_STRING
    assert len(graph.kbest(scores, 3)) == 2


def test_scores_that_cannot_be_searched() -> None:
    graph, scores = build([(0, [], ["a"], 0.0)])
    for bad in (np.nan, np.inf, -np.inf, 1e301):
        with pytest.raises(InputError, match="check the weights"):
            graph.best(scores + bad)
    with pytest.raises(ValueError, match="one for each of 1 edges"):
        graph.best(np.zeros(2))
    with pytest.raises(ValueError, match="at least 1"):
        graph.kbest(scores, 0)


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        pytest.param([(0, [1], [0], 0.0), (1, [0], [0], 0.0)], "without cycles", id="cycle"),
        pytest.param([(0, [0], [0], 0.0)], "without cycles", id="loop"),
        pytest.param([(0, [], [], 0.0), (1, [7], [0], 0.0)], "nodes from 0 to 1, found 7", id="unknown tail"),
        pytest.param([(0, [], ["a"], 0.0), *((n, [n - 1] * 2, [0, 1], 0.0) for n in range(1, 99))], "at most", id="2^98 edges"),
    ],
)
def test_graphs_that_are_none(edges: Edges, expected: str) -> None:
    with pytest.raises(FormatError, match=expected):
        build(edges)


# ---------------------------------------------------------------------------------------------------------------------
# Moses search graphs
# ---------------------------------------------------------------------------------------------------------------------


def test_osgx_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path, "g.osgx", OSGX)
    nbest = read(path, ReadOptions(size=10))
    # recombination: two arcs into hypothesis 1, two into 3; hyp 5 translates all at once into nothing. Sentence 7 is empty.
    assert nbest.ids.tolist() == [4, 7]
    assert nbest.text.to_pylist() == ["the house", "that house", "", ""]
    assert nbest.score.tolist() == [-2.0, -2.5, -9.0, 0.0]
    assert nbest.unit_names == ("core_0", "core_1", "d_a")
    assert nbest.global_features.tolist() == [[-2, 2, 1], [-2.5, 2.5, 0], [-9, 0, 0], [0, 0, 0]]
    units = nbest.units.take(nbest.unit_idx)
    assert units.src.to_pylist() == ["das", "haus", "das", "haus", "das haus"]
    assert units.tgt.to_pylist() == ["the", "house", "that", "house", ""]
    assert units.score.tolist() == [-1.0, -1.0, -1.5, -1.0, -9.0]
    assert nbest.src_start.tolist() == [0, 1, 0, 1, 0]
    assert units.src_len.tolist() == [1, 1, 1, 1, 2]
    assert nbest.tgt_start.tolist() == [0, 1, 0, 1, 0]
    assert units.tgt_len.tolist() == [1, 1, 1, 1, 0]
    every = read(path, ReadOptions(size=10, distinct=False))
    assert every.score[:5].tolist() == [-2.0, -2.25, -2.5, -2.75, -9.0]
    named = read(path, ReadOptions(size=1, names=["lm", "tm"], weights={"tm": 1.0, "other": 5.0}))
    assert named.text.to_pylist() == ["that house", ""]
    assert named.score.tolist() == [3.5, 0.0]  # -1.500,2.500 and -1.250,1.000 under tm alone
    with pytest.raises(InputError, match=r"names for the 2 values of core=\(\.\.\.\), found 1"):
        read(path, ReadOptions(names=["lm"]))
    with pytest.raises(InputError, match=r"features of the model, found none of them \(core_0"):
        read(path, ReadOptions(weights={"lm": 1.0}))


def enriched(path: Path, n_sentences: int) -> dict[int, list[tuple[str, tuple[tuple[int, int], ...], dict[str, float], float]]]:
    """(text, source spans, features, score) of the lists of the first sentences."""
    lists: dict[int, list[tuple[str, tuple[tuple[int, int], ...], dict[str, float], float]]] = {}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            sent, target, features, score, *_ = line.split(" ||| ")
            if int(sent) >= n_sentences:
                break
            phrases = re.findall(r"(.*?) ?\|(\d+)-(\d+),wa=.*?\|", target)
            groups = re.findall(r"(\S+)= ((?:[-+.e\d]+ ?)+)", features)
            values = {
                name if " " not in v.strip() else f"{name}_{i}": float(x) for name, v in groups for i, x in enumerate(v.split())
            }
            spans = tuple((int(a), int(b) + 1) for _, a, b in phrases)
            lists.setdefault(int(sent), []).append(
                (" ".join(" ".join(p[0] for p in phrases).split()), spans, values, float(score))
            )
    return lists


def test_osgx_holds_the_nbest_list_of_the_same_search(real: Path) -> None:
    """Oracle: the 100-best list Moses wrote in the same run. Numbers in the graph have 3 decimals."""
    n = 12
    lists = enriched(real / "fi-en" / "sg.test300.nbest100.enriched.xz", n)
    weights = fi_en_weights(real / "fi-en" / "moses.ini")
    options = ReadOptions(names=FI_EN_CORE)
    compared = 0
    for _, sent, graph in islice(moses_osgx.read_graphs(real / "fi-en" / "sg.test300.osgx.xz", options), n):
        text, _, _, score = lists[sent][0]
        best = graph.best(graph.score)
        assert graph.text(best, 0) == text
        rounding = 0.0005 * len(best.edges) + 5e-6 * abs(score)
        assert best.score[0] == pytest.approx(score, abs=rounding)
        scores = graph.edge_scores(weights)
        slack = 0.0005 * sum(map(abs, weights.values())) * len(best.edges) + 5e-6 * abs(score)
        assert graph.best(scores).score[0] == pytest.approx(score, abs=slack)
        found = graph.kbest(graph.score, 1500, distinct=False)
        paths: dict[tuple[str, tuple[tuple[int, int], ...]], dict[str, float]] = {}
        for i in range(len(found)):
            edges = [e for e in found.edges[found.edge_ptr[i] : found.edge_ptr[i + 1]] if graph.is_unit[e]]
            total: Counter[str] = Counter()
            for e in edges:
                total.update(graph.edge_features(e))
            paths.setdefault((graph.text(found, i), tuple((graph.src_start[e], graph.src_end[e]) for e in edges)), total)
        for text, spans, features, _ in lists[sent]:
            mine = paths[text, spans]
            assert {name: mine[name] for name in features} == pytest.approx(features, abs=0.006, rel=5e-6)
            compared += 1
    assert compared == sum(map(len, lists.values()))


# ---------------------------------------------------------------------------------------------------------------------
# Moses hypergraphs
# ---------------------------------------------------------------------------------------------------------------------


def test_hypergraph_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path, "12", HYPERGRAPH)
    nbest = read(path, ReadOptions(weights={"WordPenalty0": 1.0, "WT_das~that": 3.0}))
    assert nbest.ids.tolist() == [12]
    assert nbest.text.to_pylist() == ["# that house", "the house"]
    assert nbest.score.tolist() == [0.0, -2.0]
    units = nbest.units.take(nbest.unit_idx)
    assert units.tgt.to_pylist() == ["# that", "house", "the", "house"]
    assert nbest.tgt_start.tolist() == [0, 2, 0, 1]
    assert set(nbest.src_start) == {-1}  # the file says how many source words are covered, not which
    with pytest.raises(InputError, match="give --weights"):
        read(path, ReadOptions())


def test_a_node_that_nothing_leads_to(tmp_path: Path) -> None:
    """Nothing goes on from it either; a graph of no nodes is none."""
    more = HYPERGRAPH.replace("4 5", "5 5").replace("# node 2\n1\n", "# node 2\n0\n# node 3\n1\n").replace("[2] </s>", "[3] </s>")
    options = ReadOptions(weights={"WordPenalty0": 1.0})
    found = [read(write(tmp_path, "12", text), options) for text in (HYPERGRAPH, more)]
    assert found[0] == found[1]
    with pytest.raises(FormatError, match="expected the numbers of nodes and edges, found"):
        read(write(tmp_path, "12", HYPERGRAPH.replace("4 5", "0 0")), options)


@pytest.mark.parametrize(
    ("name", "sent"), [("0.gz", 0), ("12.gz", 12), ("hg.3.json.gz", 3), ("sent07", 7), ("hg.gz", 0), ("run2.hg.xz", 2), ("-", 0)]
)
def test_sentence_number_is_in_the_file_name(name: str, sent: int) -> None:
    assert moses_hypergraph.sentence_of(f"some/99/{name}") == sent


# ---------------------------------------------------------------------------------------------------------------------
# cdec forests
# ---------------------------------------------------------------------------------------------------------------------

CDEC_WEIGHTS = dict(
    zip(["PhraseModel_0", "PhraseModel_1", "PhraseModel_2", "LanguageModel"], [-0.3, -0.3, -0.2, -1.0], strict=True)
)


def test_forest_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path, "3.json", FOREST)
    nbest = read(path, ReadOptions(weights={"P": 1.0, "Own": 4.0}))
    assert nbest.ids.tolist() == [3]
    assert nbest.text.to_pylist() == ["the house that /", "the house the /"]
    assert nbest.score.tolist() == [-0.5, -1.5]
    units = nbest.units.take(nbest.unit_idx[:3])
    assert units.tgt.to_pylist() == ["the", "that", "[2] house [1] /"]  # in target order; the rule without words is no unit
    assert units.src.to_pylist() == ["das", "das", "[X,1] haus [X,2]"]
    assert nbest.src_start[:3].tolist() == [2, 0, 1]
    assert nbest.tgt_start[:3].tolist() == [0, 2, 1]
    assert units.tgt_len.tolist() == [1, 1, 3]  # from its first word to its last, over the gap
    with pytest.raises(InputError, match="give --weights"):
        read(path, ReadOptions())


@pytest.mark.parametrize("sent", [0, 1])
def test_forests_of_cdec(real: Path, sent: int) -> None:
    """Invariants that cdec's own numbers satisfy: WordPenalty is log10(e) a word; all hypotheses translate one source."""
    nbest = read(real / "cdec-forests" / f"{sent}.json.gz", ReadOptions(weights=CDEC_WEIGHTS, size=300))
    assert nbest.ids.tolist() == [sent]
    assert nbest.n_hyps == len(set(nbest.text.to_pylist())) == 300
    assert (np.diff(nbest.score) <= 0).all()
    column = dict(zip(nbest.global_names, nbest.global_features.T, strict=True))
    lengths = np.array([len(text.split()) for text in nbest.text.to_pylist()])
    assert column["WordPenalty"] == pytest.approx(lengths * math.log10(math.e), abs=1e-4)
    assert nbest.score == pytest.approx(sum(w * column[name] for name, w in CDEC_WEIGHTS.items()), abs=1e-9)
    units = nbest.units.take(nbest.unit_idx)
    source: dict[int, str] = {}
    for start, length, src in zip(nbest.src_start, units.src_len, units.src.to_pylist(), strict=True):
        words = re.sub(r"^(\[X,\d\] ?)+|( ?\[X,\d\])+$", "", src).split()
        if start >= 0 and length == len(words) and "[X," not in " ".join(words):  # else there is a gap inside
            for at, word in enumerate(words, start):
                assert source.setdefault(at, word) == word
    assert sorted(source) == list(range(len(source)))


# ---------------------------------------------------------------------------------------------------------------------
# Sniffing, and damaged files
# ---------------------------------------------------------------------------------------------------------------------

READERS = {"moses-osgx": OSGX, "moses-hypergraph": HYPERGRAPH, "cdec-forest": FOREST}


@pytest.mark.parametrize("name", READERS)
def test_formats_are_told_apart(name: str) -> None:
    is_format = SNIFFERS[name]
    for other, sample in READERS.items():
        assert is_format(sample) == (name == other)
    for text in ("", "0 ||| the house ||| LM0= -1 ||| -1\n", '{"boostfeat": "nbest/1"}\n', "hyp=0\n", "# node\n"):
        assert not is_format(text)


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("moses-osgx", "back=1 ", "back=99 ", r":4: expected back= a hypothesis of this sentence, found back=99"),
        ("moses-osgx", "recombined=1 ", "recombined=99 ", r":3: expected recombined= .* found recombined=99"),
        ("moses-osgx", "recombined=3", "recombined=4", r":6: expected recombination without cycles"),
        ("moses-osgx", "hyp=1 stack=1 back=0", "hyp=1 stack=1 back=3", r":2: expected a graph without cycles"),
        ("moses-osgx", "hyp=5", "hyp=3", r":5: expected each hypothesis once"),
        ("moses-osgx", "(-1.000,2.000)", "(-1.000,nan)", r":2: expected a finite number for value 1 of core"),
        ("moses-osgx", "(-1.000,2.000)", "(-1.000,1_0)", r":2: expected a finite number for value 1 of core"),
        ("moses-osgx", "(-1.000,2.000)", "(-1.000)", r":2: expected 2 values in core"),
        ("moses-osgx", "d_a=1", "d_a", r":2: expected features Name=value, each once, found .d_a."),
        ("moses-osgx", "d_a=1", "core_1=1", r":2: expected distinct feature names, found 'core_1' twice"),
        ("moses-osgx", "transition=-9.000", "transition=inf", r":5: expected a finite number for transition"),
        ("moses-osgx", "covered=0-1", "covered=1-0", r":5: expected a span"),
        ("moses-osgx", "das haus|", "das|N haus|N", r":5: expected out=.*factored"),
        ("moses-osgx", ' scores="core=(-9.000,0.000) " out="das haus|"', " out=", r":5: expected an arc .*extended"),
        ("moses-osgx", "4 hyp=0 stack=0 forward=1 fscore=-2.000\n", "", r":1: expected back= a hypothesis"),
        ("moses-osgx", OSGX[OSGX.index("4 hyp=3") :], "4 hy", r":4: expected an arc"),
        ("moses-osgx", OSGX, "\n", r"found an empty file"),
        ("moses-osgx", "7 hyp=0", "3 hyp=0", r":7: expected sentence id 5 or higher"),
        ("moses-hypergraph", "4 5", "4 6", r":15: expected 6 edges, found 5"),
        ("moses-hypergraph", "4 5", "3 5", r":14: expected nothing after node 2"),
        ("moses-hypergraph", "4 5", "999999999 5", r":15: expected the number of edges into node 4, found the end"),
        ("moses-hypergraph", "4 5", "0 0", r":2: expected the numbers of nodes and edges"),
        ("moses-hypergraph", "4 5", "4 1" + "0" * 30, r":2: expected the numbers"),
        ("moses-hypergraph", "\n2\n", "\n3\n", r"expected"),
        ("moses-hypergraph", "[1] house", "[7] house", r":12: expected nodes from 0 to 3, found 7"),
        ("moses-hypergraph", "[1] house", "[3] house", r":\d+: expected a graph without cycles"),
        ("moses-hypergraph", "[0] the", "[1] the", r":8: expected a graph without cycles"),
        ("moses-hypergraph", "TM_1=0.5 ", "TM_1=NaN ", r":8: expected a finite number for feature TM_1"),
        ("moses-hypergraph", "TM_1=0.5 ", "TM_1=0.5 TM_1=0.5 ", r":8: expected features Name=value, each once"),
        ("moses-hypergraph", "TM_1=0.5 ", "TM_1 ", r":8: expected features"),
        ("moses-hypergraph", "[0] the ||| ", "[0] the ", r":8: expected|:9: expected"),
        ("moses-hypergraph", "[2] </s> |||  ||| 2\n", "", r":14: expected an edge into node 3, found the end of the file"),
        ("cdec-forest", "}}\n", "}", r":1: expected JSON"),
        ("cdec-forest", FOREST, "[1]", r":1: expected a JSON object"),
        ("cdec-forest", FOREST, "[" * 100_000, r":1: expected JSON"),
        ("cdec-forest", FOREST, "{}", r":1: expected a JSON object with edges and nodes"),
        ("cdec-forest", '"tail":[0,1]', '"tail":[0]', r":1: edge 3: expected 2 tails"),
        ("cdec-forest", '"tail":[0,1]', '"tail":[0,9]', r":1: edge 3: expected nodes from 0 to 3, found 9"),
        ("cdec-forest", '"tail":[0,1]', '"tail":[0,2]', r":1: edge \d: expected a graph without cycles"),
        (
            "cdec-forest",
            '"tail":[0,1]',
            '"tail":[0,true]',
            r":1: edge 3: tail\[1\]: expected a whole number, found true or false",
        ),
        ("cdec-forest", "[0,-2.5]", "[0,NaN]", r":1: expected JSON, found NaN where a finite number is expected"),
        ("cdec-forest", "[0,-2.5]", "[0,1e999]", r":1: expected JSON, found 1e999 where"),
        ("cdec-forest", "[0,-2.5]", "[5,-2.5]", r":1: edge 3: expected feats: features by number or name"),
        ("cdec-forest", "[0,-2.5]", "[0]", r":1: edge 3: expected feats"),
        ("cdec-forest", '"rule":2', '"rule":9', r":1: edge 3: expected the number of a rule"),
        ("cdec-forest", '"rule":2', '"rule":[]', r":1: edge 3: rule: expected a whole number or a string, found a list"),
        ("cdec-forest", "[2] house [1]", "[2] house [2]", r":1: rule 2: expected the 2 gaps"),
        ("cdec-forest", '"in_edges":[3]', '"in_edges":[30]', r":1: node 2: expected in_edges that came before"),
        ("cdec-forest", '"in_edges":[3]', '"in_edges":[2]', r":1: node 2: expected in_edges that came before"),
        ("cdec-forest", '"in_edges":[4]', '"in_edges":[]', r":1: edge 3: expected a path to the goal"),
        ("cdec-forest", '"Glue"]', '"Glue"],"surprise":1', r":1: expected the keys rules"),
        ("cdec-forest", '3,"[S] ||| [X,1] ||| [1]"]', "3]", r":1: rules: expected distinct numbers and rules in turn"),
        ("cdec-forest", '3,"[S] |||', '2,"[S] |||', r":1: rules: expected distinct numbers and rules in turn"),
        ("cdec-forest", '3,"[S] |||', '3.5,"[S] |||', r":1: rules: \[4\]: expected a whole number or a string, found a number"),
        ("cdec-forest", '3,"[S] ||| [X,1] ||| [1]"', '3,"[S]"', r":1: rule 3: expected \[LHS\] \|\|\| source"),
        ("cdec-forest", '"node":{"in_edges":[4],"cat":"Goal"}', '"node":[4]', r":1: node 3: expected an object"),
        (
            "cdec-forest",
            '"tail":[0,1]',
            '"tail":[0,2147483648]',
            r":1: edge 3: tail\[1\]: expected a whole number <= 2147483647",
        ),
        ("cdec-forest", '"tail":[0,1]', '"tail":[-1,1]', r":1: edge 3: tail\[0\]: expected a whole number >= 0"),
    ],
)
def test_malformed_input(tmp_path: Path, name: str, old: str, new: str, expected: str) -> None:
    sample = READERS[name]
    assert old in sample
    path = write(tmp_path, "bad", sample.replace(old, new, 1))
    weights = None if name == "moses-osgx" else {"P": 1.0, "TM_1": 1.0}
    with pytest.raises(FormatError, match=expected) as caught:
        read(path, ReadOptions(weights=weights), format=name)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_names_of_core_values_are_distinct(tmp_path: Path) -> None:
    path = write(tmp_path, "g", OSGX)
    with pytest.raises(InputError, match="names: expected distinct ones, found one twice among LM, LM"):
        read(path, ReadOptions(names=("LM", "LM")))


def test_graphs_are_summed_up() -> None:
    """By hand: two graphs of three edges, two of which are units; a feature of 0 is there and does not count."""
    builder = graph_module.GraphBuilder(lambda edge: f"edge {edge}")
    builder.edge(0, [], ["a"], {"f": -1.0, "g": 0.0})
    builder.edge(1, [0], [0, "b"], {"f": 3.0})
    builder.edge(1, [0], [0])
    graph = builder.finish(2, 1)
    expected = {
        "sentences": 2,
        "nodes": 4,
        "edges": 6,
        "edges_per_sentence": {"mean": 3.0, "max": 3},
        "log10_paths": {"mean": pytest.approx(np.log10(2)), "max": pytest.approx(np.log10(2))},
        "scores": False,
        "features": [{"name": "f", "mean": 1.0, "nonzero": 1.0}, {"name": "g", "mean": 0.0, "nonzero": 0.0}],
    }
    assert graph_module.summarise([graph, graph]) == expected
    assert graph_module.summarise([replace(graph, score=np.zeros(3))])["scores"] is True
    no_units = replace(graph, is_unit=np.zeros(3, bool))
    assert graph_module.summarise([no_units])["features"][0] == {"name": "f", "mean": 2.0, "nonzero": 2.0}


def test_what_is_wrong_with_an_edge_is_told_of_the_first() -> None:
    """Its place, the feature's name and value."""
    f, g = 0, 1

    def graph(*features: tuple[list[int], list[float]]) -> graph_module.Graph:
        own = graph_module.GraphBuilder(lambda edge: f"edge {edge}")
        own.names |= {"f": f, "g": g, "h": 2, "i": 3, "j": 4}
        for idx, val in features:
            own.edge(0, [], ["a"], core=(idx, val))
        return own.finish(1, 0)

    with pytest.raises(FormatError, match=r"^edge 1: expected a finite number for feature 'g', found nan;"):
        graph(([f], [1.0]), ([f, g], [1.0, np.nan]), ([f], [np.inf]))
    with pytest.raises(FormatError, match=r"^edge 1: expected distinct feature names, found 'g' twice;"):
        graph(([f, g], [1.0, 2.0]), ([g, f, g], [1.0, 2.0, 3.0]), ([f, f], [1.0, 1.0]))
    found = graph(([g, f], [1.0, 2.0]), ([g], [3.0]), ([2, f], [0.5, 0.25]))
    assert [found.edge_features(e) for e in range(3)] == [{"f": 2.0, "g": 1.0}, {"g": 3.0}, {"f": 0.25, "h": 0.5}]
    assert found.edge_scores({"g": 2.0, "h": 4.0, "other": 9.0}).tolist() == [2.0, 6.0, 2.0]


def test_lists_of_graphs_by_hand() -> None:
    """A rule with a gap is another unit for each length of what fills it; edges that are no units are left out."""
    builder = graph_module.GraphBuilder(lambda edge: f"edge {edge}")
    builder.edge(0, [], ["a"], {"f": 1.0}, score=-1.0, span=(0, 1), src="A")
    builder.edge(0, [], ["b", "c"], {"f": 2.0}, score=-2.0, span=(0, 2))
    builder.edge(1, [0], ["x", 0, "y"], score=-0.5, src="X [1] Y", tgt="x [1] y")
    builder.edge(2, [1], [0], score=0.0, is_unit=False)
    graph = builder.finish(3, 2)
    lists = Builder(ReadOptions(source=["", "", "", "A B"]))
    found = graph.kbest(graph.score, 9)
    lists.add_list(graph_module.kbest_record(graph, graph.score, found, sent=3, where="file"))
    nbest = lists.finish()
    assert (nbest.ids.tolist(), nbest.text.to_pylist(), nbest.score.tolist()) == ([3], ["x a y", "x b c y"], [-1.5, -2.5])
    assert nbest.unit_ptr.tolist() == [0, 2, 4]
    units = nbest.units.take(nbest.unit_idx)
    assert units.tgt.to_pylist() == ["a", "x [1] y", "b c", "x [1] y"]
    assert units.src.to_pylist() == ["A", "X [1] Y", "A B", "X [1] Y"]
    assert (units.tgt_len.tolist(), units.src_len.tolist()) == ([1, 3, 2, 4], [1, -1, 2, -1])
    assert (nbest.tgt_start.tolist(), nbest.src_start.tolist()) == ([1, 0, 1, 0], [0, -1, 0, -1])
    assert (units.score.tolist(), units.x[:, 0].tolist()) == ([-1.0, -0.5, -2.0, -0.5], [1.0, 0.0, 2.0, 0.0])


def test_how_many_of_which_graphs_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path, "g.osgx", OSGX)
    assert [len(read(path, ReadOptions(first=n, size=1))) for n in (4, 7, 8)] == [0, 1, 2]
    assert not read(path, ReadOptions(size=0, first=9)).n_hyps
    lattice = "((" + "".join(f"('w{k}', -{k}, 1)," for k in range(101)) + "),)\n"
    assert read(write(tmp_path, "one.plf", lattice), ReadOptions()).n_hyps == 100  # where no size is given
