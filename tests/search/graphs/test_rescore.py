"""Search graphs under a model: against enumeration, against decision_function on the lists, against what Moses printed."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy_graphs import FI_EN_CORE, FOREST, HYPERGRAPH, OSGX, Edges, enumerate_all, fi_en_weights, hypergraphs, write
from toy_trees import naive, small, stump, trees

from boostfeat.boosting.local import first_gradient
from boostfeat.core.arrays import in_order
from boostfeat.core.errors import FormatError, InputError
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.model.model import Model
from boostfeat.search.graphs.graph import Graph, GraphBuilder
from boostfeat.search.graphs.graph_files import SentenceGraph, read_graphs
from boostfeat.search.graphs.rescoring import EdgeScorer, kbest_lists, kbest_nbest, renumbered

Run = Callable[..., tuple[int, str, str]]

# ---------------------------------------------------------------------------------------------------------------------
# Scores
# ---------------------------------------------------------------------------------------------------------------------


def with_features(edges: Edges, values: list[list[float]]) -> Graph:
    """The graph, its last node the goal, with features a, b, c of its edges; those with all zeros are no units."""
    builder = GraphBuilder(lambda e: f"test:{e}")
    for (head, tails, target, score), row in zip(edges, values, strict=True):
        builder.edge(head, tails, target, {name: v for name, v in zip("abc", row, strict=True) if v}, score=score)
    n = max(e[0] for e in edges) + 1
    return builder.finish(n, n - 1)


@given(edges=hypergraphs(), some=st.lists(trees(small), max_size=3), data=st.data())
@settings(max_examples=40, deadline=None)
def test_kbest_under_trees_equals_enumeration(edges, some, data):
    """The naive twin scores every edge by the definition in examples/formats.md and enumerates all derivations."""
    assume(enumerate_all(edges, 300))
    values = [data.draw(st.lists(st.integers(-2, 2).map(float), min_size=3, max_size=3)) for _ in edges]
    model = Model({"a": 0.5, "c": -1.0, "unknown": 3.0}, tuple(some))
    scored: Edges = []
    for (head, tails, target, _), row in zip(edges, values, strict=True):
        x = dict(zip("abc", row, strict=True))
        total = sum(model.weights.get(name, 0.0) * v for name, v in x.items())
        if any(row) or any(isinstance(w, str) for w in target):
            total += sum(tree.weight * naive(tree, x) for tree in some)
        scored.append((head, tails, target, total))
    expected = sorted((score for score, _ in enumerate_all(scored, 300)), reverse=True)
    item = SentenceGraph("test:1", 0, with_features(edges, values))
    scorer = EdgeScorer(model)
    assume(not item.graph.names or scorer.used & set(item.graph.names))
    nbest = kbest_lists([item], scorer, ReadOptions(size=len(expected) + 1, distinct=False))
    np.testing.assert_allclose(nbest.score, expected, rtol=1e-9, atol=1e-9)
    if nbest.n_occurrences or not some:
        np.testing.assert_allclose(model.decision_function(nbest), nbest.score, rtol=1e-9, atol=1e-9)


def some_model(names: list[str], *, seed: int = 0) -> Model:
    """Weights and 25 stumps of all kinds of leaves on these features."""
    rng = np.random.default_rng(seed)

    def tree(m: int):
        kind = ("constant", "linear", "affine")[m % 3]
        on = None if kind == "constant" else str(rng.choice(names))
        intercepts = tuple(rng.normal(size=2)) if kind == "affine" else (0.0, 0.0)
        made = stump(kind, on, feature=str(rng.choice(names)), threshold=-1.5, values=tuple(rng.normal(size=2)), weight=0.1)
        return replace(made, name=f"tree.{m:03}", intercept=np.array([0.0, *intercepts]))

    return Model({name: float(rng.normal()) for name in names}, tuple(tree(m) for m in range(25)))


@pytest.fixture(scope="module")
def osgx(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graphs of the first 8 sentences of fi-en devtrain."""
    return head(real / "fi-en" / "sg.devtrain500.osgx.xz", tmp_path_factory.mktemp("graphs") / "sg.osgx", 8)


def head(path: Path, out: Path, n: int) -> Path:
    """A file with the lines of the first n sentences, whose number each line begins with."""
    with lzma.open(path, "rb") as lines, open(out, "wb") as some:
        some.writelines(takewhile(lambda line: int(line.split(b" ", 1)[0]) < n, lines))
    return out


def test_scores_equal_decision_function_on_the_written_list(osgx: Path, real: Path, tmp_path: Path, boostfeat: Run) -> None:
    model = some_model(FI_EN_CORE)
    model.save(tmp_path / "model.json")
    command = ("rescore", osgx, "-m", tmp_path / "model.json", "--names", ",".join(FI_EN_CORE))
    assert boostfeat(*command, "--nbest", 200, "--format", "jsonl", "-o", tmp_path / "list.jsonl", "-q") == (0, "", "")
    nbest = read(tmp_path / "list.jsonl", ReadOptions())
    assert len(nbest) == 8
    assert np.abs(model.decision_function(nbest) - nbest.score).max() < 1e-6
    assert all((np.diff(nbest.score[a:b]) <= 0).all() for a, b in zip(nbest.hyp_ptr[:-1], nbest.hyp_ptr[1:], strict=True))
    code, out, _ = boostfeat(*command[:4], "--names", real / "fi-en" / "moses.ini")  # which has the functions in this order
    assert (code, out.splitlines()) == (0, [nbest.text[int(h)].as_py() for h in nbest.hyp_ptr[:-1]])
    # any list of the same graphs, here that of the decoder's own scores, has nothing better than the best path
    other = kbest_nbest([osgx], None, names=FI_EN_CORE, size=500)
    best = np.maximum.reduceat(model.decision_function(other), other.hyp_ptr[:-1])
    assert (nbest.score[nbest.hyp_ptr[:-1]] >= best - 1e-9).all()
    assert (nbest.score[nbest.hyp_ptr[:-1]] > best + 1e-6).any()


def test_threads_do_not_matter(osgx: Path) -> None:
    model = some_model(FI_EN_CORE)
    one, three = (kbest_nbest([osgx], model, names=FI_EN_CORE, size=30, threads=threads) for threads in (1, 3))
    assert one == three
    assert one.n_hyps == 240


def test_items_are_read_only_a_little_ahead() -> None:
    taken: list[int] = []
    results = in_order(lambda i: i * i, (taken.append(i) or i for i in range(100)), threads=2)
    assert next(results) == 0
    assert len(taken) <= 10
    assert list(results) == [i * i for i in range(1, 100)]

    def fails(i: int) -> int:
        raise InputError(f"item {i}")

    with pytest.raises(InputError, match="item 0"):
        list(in_order(fails, range(9), threads=3))


# ---------------------------------------------------------------------------------------------------------------------
# What decoders printed
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "files"), [("denseonly", ["dense.weights"]), ("sparse", ["dense.weights", "sparse.weights"])])
def test_best_path_is_that_of_hgdecode(real: Path, boostfeat: Run, case: str, files: list[str]) -> None:
    """Oracle: truth.txt of Moses' regression test, the words and every feature value (6 significant digits)."""
    folder = real / "moses-tests" / f"hgdecode-{case}"
    printed = [line.partition("=")[2] for line in (folder / "truth.txt").read_text(encoding="utf-8").splitlines() if "=" in line]
    words = [w for w in printed[0].split() if w not in ("<s>", "</s>")]
    truth = {name: float(value) for name, _, value in (item.rpartition("=") for item in printed[1:]) if name}
    weights = [arg for f in files for arg in ("--weights", folder / f)]
    code, out, _ = boostfeat("rescore", folder / "hg.gz", *weights, "--json")
    header, sentence = (json.loads(line) for line in out.splitlines())
    assert (code, sentence["hyps"][0]["text"].split()) == (0, words)
    total: dict[str, float] = {}
    for unit in sentence["hyps"][0]["units"]:
        dense = dict(zip(header["unit_features"], unit["x"], strict=True))
        for name, value in {**dense, **unit.get("sparse", {})}.items():
            total[name] = total.get(name, 0.0) + value
    assert {name: v for name, v in total.items() if v} == pytest.approx(truth, rel=5e-6)


@pytest.mark.parametrize("n", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_lists_of_the_same_search(real: Path, tmp_path: Path, n: int) -> None:
    """Oracle: Moses' distinct 100-best of the same searches. The graph's numbers have 3 decimals, so that a path's score is
    known to 0.0005 an edge; the i-th largest of scores that are so near is as near, whatever the order among near ones."""
    graphs, lists = (head(real / "fi-en" / f"sg.test300.{x}.xz", tmp_path / x, n) for x in ("osgx", "nbest100.enriched"))
    theirs = read(lists, ReadOptions())
    mine = kbest_nbest([graphs], None, size=150, names=FI_EN_CORE, threads=2)
    assert mine.ids.tolist() == theirs.ids.tolist() == list(range(n))
    slack = 0.0005 * np.diff(mine.unit_ptr).max() + 5e-6 * np.abs(theirs.score).max()
    my_text, their_text = mine.text.to_pylist(), theirs.text.to_pylist()
    for s in range(n):
        a, b, c = mine.hyp_ptr[s], theirs.hyp_ptr[s], theirs.hyp_ptr[s + 1]
        found = dict(zip(my_text[a : mine.hyp_ptr[s + 1]], mine.score[a : mine.hyp_ptr[s + 1]], strict=True))
        assert set(their_text[b:c]) <= set(found)
        assert max(abs(found[t] - x) for t, x in zip(their_text[b:c], theirs.score[b:c], strict=True)) <= slack
        assert np.abs(mine.score[a : a + c - b] - theirs.score[b:c]).max() <= slack
    weights = fi_en_weights(real / "fi-en" / "moses.ini")
    best = kbest_nbest([graphs], Model(weights), size=1, names=FI_EN_CORE)
    rounding = 0.0005 * sum(map(abs, weights.values())) * np.diff(best.unit_ptr).max() + 5e-6 * np.abs(theirs.score).max()
    assert np.abs(best.score - theirs.score[theirs.hyp_ptr[:-1]]).max() <= rounding


def test_a_folder_of_hypergraphs(real: Path, tmp_path: Path, boostfeat: Run) -> None:
    """Oracle: the decoder's 1-best of the same sentences. A model learned on lists counts values from 0, the files from 1."""
    with pytest.raises(FormatError, match="found a tar archive"):
        list(read_graphs([real / "fi-en" / "hg.test10.tgz"]))
    with tarfile.open(real / "fi-en" / "hg.test10.tgz") as tar:
        tar.extractall(tmp_path, filter="data")
    shutil.copy(tmp_path / "hg.test" / "3.gz", tmp_path / "hg.test" / "11.gz")  # after 9, before a shell's 2
    theirs = read(real / "fi-en" / "sg.test300.nbest100.enriched.xz", ReadOptions(size=1))
    expected = theirs.text.to_pylist()[:10]
    code, out, err = boostfeat("rescore", tmp_path / "hg.test", "--weights", tmp_path / "hg.test" / "weights")
    assert (code, out.splitlines(), err) == (0, [*expected, expected[3]], "")
    Model(fi_en_weights(real / "fi-en" / "moses.ini")).save(tmp_path / "model.json")
    code, out, err = boostfeat("rescore", tmp_path / "hg.test", "-m", tmp_path / "model.json")
    assert (code, out.splitlines(), err) == (0, [*expected, expected[3]], "")


def test_cdec_forests(real: Path, tmp_path: Path, boostfeat: Run) -> None:
    """The list that import makes of the same forest under the same weights; references are the forests' own."""
    folder = real / "cdec-forests"
    weights = write(tmp_path, "weights", "PhraseModel_0 -0.3\nPhraseModel_1 -0.3\nPhraseModel_2 -0.2\nLanguageModel -1\n")
    forests = [folder / "1.json.gz", folder / "0.json.gz"]
    code, _, err = boostfeat(
        "rescore", *forests, "--weights", weights, "--nbest", 50, "--format", "jsonl", "-o", tmp_path / "list", "-q"
    )
    assert (code, err) == (0, "")
    nbest = read(tmp_path / "list", ReadOptions())
    model = Model({"PhraseModel_0": -0.3, "PhraseModel_1": -0.3, "PhraseModel_2": -0.2, "LanguageModel": -1.0})
    imported = read(folder / "0.json.gz", ReadOptions(weights=model.weights, size=50))
    assert nbest.text.to_pylist()[:50] == imported.text.to_pylist()  # the first, though it was named last
    assert len(nbest) == 2
    np.testing.assert_allclose(model.decision_function(nbest), nbest.score, atol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Names, templates
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "model", "expected"),
    [
        (["TM_1", "TM_2", "LM"], ["TM_0", "TM_1"], ["TM_0", "TM_1", "LM"]),
        (["TM_0", "TM_1"], ["TM_1", "TM_2"], ["TM_1", "TM_2"]),
        (["TM_1", "TM_2"], ["TM_1", "TM_2"], ["TM_1", "TM_2"]),
        (["TM_1", "TM_2", "TM_3"], ["TM_0", "TM_1"], ["TM_1", "TM_2", "TM_3"]),  # not the same number: who knows
        (["TM_2", "TM_3"], ["TM_1", "TM_2"], ["TM_2", "TM_3"]),  # no way of counting
        (["TM_1"], ["TM_0"], ["TM_1"]),  # a name with a number in it, as far as one can tell
        (["a_b_1", "a_b_2", "a_01"], ["a_b_0", "a_b_1", "a_00"], ["a_b_0", "a_b_1", "a_01"]),
    ],
)
def test_values_are_counted_as_in_the_model(graph: list[str], model: list[str], expected: list[str]) -> None:
    assert renumbered(tuple(graph), model) == tuple(expected)
    item = SentenceGraph("test:1", 0, replace(with_features([(0, (), ("w",), 0.0)], [[1.0, 0.0, 0.0]]), names=tuple(graph)))
    assert EdgeScorer(Model(dict.fromkeys(model, 1.0))).named(item).graph.names == tuple(expected)


def test_templates_on_edges(osgx: Path, tmp_path: Path, boostfeat: Run, real: Path) -> None:
    """Features of featurize, dense, sparse and products, computed on edges give the scores that the featurized list gets."""
    source = (real / "fi-en" / "sg.devtrain500.fi").read_text(encoding="utf-8").splitlines()[:8]
    refs = (real / "fi-en" / "devtrain.en").read_text(encoding="utf-8").splitlines()[:8]
    plain = kbest_nbest([osgx], None, names=FI_EN_CORE, size=50, source=source, refs=[refs])
    plan = FeaturePlan.of("length,lm_per_word,position,punctuation,shape,neighbour_sizes", TEMPLATES, min_count=1, products=3)
    made, vocab = featurize(plain, plan, gradient_of=partial(first_gradient, seed=0))
    beside = {name for name in made.global_names if "prev.len" in name or "next.len" in name}
    used = [name for name in made.global_names if name not in beside and name not in plain.global_names]
    rng = np.random.default_rng(3)
    weights = {name: float(rng.normal()) for name in [*FI_EN_CORE, *used, *made.sparse_names.to_pylist()]}
    model = replace(some_model(["LM0", *used]), weights=weights)
    assert any("*" in name for name in weights)
    assert any(name.startswith("shape:") for name in weights)
    fresh = kbest_nbest([osgx], model, names=FI_EN_CORE, size=50, source=source, refs=[refs], plan=vocab, threads=2)
    assert {*fresh.global_names} == {*made.global_names}
    np.testing.assert_allclose(model.decision_function(fresh), fresh.score, atol=1e-9)
    vocab.save(tmp_path / "vocab.json")
    model.save(tmp_path / "model.json")
    write(tmp_path, "source", "".join(line + "\n" for line in source))
    command = ("rescore", osgx, "-m", tmp_path / "model.json", "--names", ",".join(FI_EN_CORE), "-s", tmp_path / "source")
    code, out, err = boostfeat(*command, "--plan", tmp_path / "vocab.json")
    assert (code, out.splitlines(), err) == (0, [fresh.text[int(h)].as_py() for h in fresh.hyp_ptr[:-1]], "")
    code, _, err = boostfeat(*command)
    assert (code, f"{osgx}: expected the features of the model, found none of " in err) == (2, True)
    assert "or those that featurize made with --plan, or give --allow-missing" in err
    code, _, err = boostfeat(*command, "--allow-missing")
    assert (code, err.startswith(f"boostfeat: {osgx} lacks features of the model, which count as 0: ")) == (0, True)
    size = "prev.len.src"
    replace(model, weights={**weights, size: 1.0}).save(tmp_path / "model.json")
    code, _, err = boostfeat(*command, "--plan", tmp_path / "vocab.json")
    assert code == 2
    assert f"feature {size!r} (template 'neighbour_sizes') reads the previous unit: expected features that an edge" in err


# ---------------------------------------------------------------------------------------------------------------------
# The command
# ---------------------------------------------------------------------------------------------------------------------


def test_by_hand(tmp_path: Path, boostfeat: Run) -> None:
    """OSGX: paths 'the house' -2, 'that house' -2.5, '' -9 of sentence 4, and an empty one of sentence 7."""
    graph = write(tmp_path, "g.osgx", OSGX)
    assert boostfeat("rescore", graph) == (0, "the house\n\n", "")
    _, out, _ = boostfeat("rescore", graph, "--nbest", 2)
    assert [line.split(" ||| ")[:2] for line in out.splitlines()] == [["4", "the house"], ["4", "that house"], ["7", ""]]
    _, out, _ = boostfeat("rescore", graph, "--nbest", 9, "--derivations", "--format", "jsonl")
    hyps = [json.loads(line)["hyps"] for line in out.splitlines()[1:]]
    assert [[h["score"] for h in sentence] for sentence in hyps] == [[-2.0, -2.25, -2.5, -2.75, -9.0], [0.0]]
    Model({"tm": 1.0}).save(tmp_path / "model.json")
    assert boostfeat("rescore", graph, "-m", tmp_path / "model.json", "--names", "lm,tm") == (0, "that house\n\n", "")
    # a constant tree counts units: the path of one edge wins, and arcs to the goal are none
    Model({"lm": 0.01}, (stump("constant", None, feature="lm", threshold=0.0, values=(-1.0, -1.0)),)).save(
        tmp_path / "trees.json"
    )
    _, out, _ = boostfeat("rescore", graph, "-m", tmp_path / "trees.json", "--names", "lm,tm", "--json")
    assert [json.loads(line)["hyps"][0]["score"] for line in out.splitlines()[1:]] == pytest.approx([-1.09, 0.0])
    refs = write(tmp_path, "refs", "\n" * 4 + "that house\n" + "\n" * 2 + "x\n")
    _, out, err = boostfeat("rescore", graph, "-r", refs, "--nbest", 2, "-o", tmp_path / "out", "--json")
    found = json.loads(out)
    assert (found["sentences"], found["hypotheses"], found["missing"], sorted(found["bleu"])) == (
        *(8, 3, []),
        ["best path", "oracle of the 2-best"],
    )
    assert err.startswith("boostfeat: BLEU of the best path: ")
    _, _, err = boostfeat("rescore", graph, "-r", refs, "-o", tmp_path / "text")
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("boostfeat: BLEU of the best path: ")  # of one there is no oracle
    assert lines[1].startswith(f"boostfeat: 8 sentences, 2 paths, text -> {tmp_path / 'text'} in ")


def test_info_of_graphs(tmp_path: Path, boostfeat: Run) -> None:
    graph = write(tmp_path, "g.osgx", OSGX)
    code, out, _ = boostfeat("info", graph, "--json")
    found = json.loads(out)
    # OSGX has hypotheses 0, 1 and 3 of sentence 4 and 5 of it, 0 of sentence 7, and a goal for each; 2 and 4 are recombined
    assert (found["sentences"], found["nodes"], found["edges"], found["scores"]) == (2, 7, 10, True)
    assert found["log10_paths"]["max"] == pytest.approx(np.log10(5))  # as --derivations lists them
    assert found["features"][2] == {"name": "d_a", "mean": 0.2, "nonzero": 0.2}
    code, out, _ = boostfeat("info", graph)
    assert code == 0
    assert "log10 of paths, max" in out
    code, out, _ = boostfeat("info", write(tmp_path, "3", HYPERGRAPH))
    assert "no: give weights to search" in out
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder", "0", HYPERGRAPH)
    write(tmp_path / "folder", "weights", "TM_1= 1\n")  # Moses puts it there: no graph
    assert json.loads(boostfeat("info", tmp_path / "folder", "--json")[1])["edges"] == 5
    write(tmp_path / "folder", "a.note", "some other file\n")
    code, out, err = boostfeat("info", tmp_path / "folder")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a.note" in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["g.osgx", "-m", "global.json"], "expected level local, found 1 tree of level global: these test sums over whole"),
        (["g.osgx", "-m", "other.json"], r"g.osgx:1: expected features of the model, found none of them \(core_0, core_1, d_a"),
        (["g.osgx", "-m", "other.json", "--weights", "w"], "--weights does not go with --model"),
        (["g.osgx", "--nbest", "3", "--format", "text"], "--format text: expected --nbest 1, found 3; choose moses"),
        (["g.osgx", "--format", "xml"], "unknown format 'xml': expected one of text, moses, moses-enriched, jsonl"),
        (["g.osgx", "--oracle"], "--oracle does nothing without --ref; leave it out"),
        (["g.osgx", "--oracle", "-r", "short"], "g.osgx:1: expected a reference of sentence 4, found none"),
        (["g.osgx", "g.osgx"], r"g.osgx:1: expected sentence id 8 or higher, found 4; give each sentence once"),
        (["g.osgx", "--names", "a"], r"expected names for the 2 values of core=\(\.\.\.\), found 1 name"),
        (["3.json"], "3.json:1: expected weights to search with, found none and no scores in the graph; give --weights"),
        (["list"], r"list: expected a search graph, found a list \(moses\); have the decoder write one of"),
        (["other.json"], "other.json: expected a search graph, found '{'; have the decoder write one of"),
        (["list", "--graph-format", "moses"], "unknown format of graphs 'moses': expected one of auto, moses-osgx"),
        (["folder"], "folder: expected graphs, found an empty folder"),
        (["nothing"], "nothing: expected a file, found none"),
        (["-", "-r", "-"], "'-': expected one input from standard input, found more"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, boostfeat: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "g.osgx", OSGX)
    write(tmp_path, "3.json", FOREST)
    write(tmp_path, "list", "0 ||| the house ||| LM0= -1 ||| -1\n")
    write(tmp_path, "short", "the house\n")
    write(tmp_path, "w", "LM0= 1\n")
    (tmp_path / "folder").mkdir()
    Model({"LM0": 1.0}).save("other.json")
    Model({"core_0": 1.0}, (stump(),), level="global").save("global.json")
    code, out, err = boostfeat("rescore", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(expected, err)


def test_global_weights_alone_decompose(tmp_path: Path, boostfeat: Run) -> None:
    Model({"core_1": 1.0}, level="global").save(tmp_path / "model.json")
    assert boostfeat("rescore", write(tmp_path, "g", OSGX), "-m", tmp_path / "model.json") == (0, "that house\n\n", "")


def test_source_and_references_give_every_line_a_list(osgx: Path) -> None:
    lines = [f"reference {i}" for i in range(8)]
    nbest = kbest_nbest([osgx], None, size=2, refs=[lines])
    assert nbest.has_stats
    assert nbest == attach(kbest_nbest([osgx], None, size=2), source=None, refs=[lines], name="")
    with pytest.raises(InputError, match="expected sentence ids up to 6"):
        kbest_nbest([osgx], None, size=2, refs=[lines[:7]])
