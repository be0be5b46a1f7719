"""Pieces of commands by themselves: what they make of their flags, and the lines that they say, by hand."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from boostfeat.boosting.options import recipe
from boostfeat.cli import explain, export, graphs, induce, lists, loop, replicate, tune
from boostfeat.compare.papers import PAPERS, bitext_options, paper_of, paper_options
from boostfeat.core import machine as clock_module
from boostfeat.core.errors import InputError
from boostfeat.core.files import digest_lines
from boostfeat.core.text_table import table
from boostfeat.export import Check
from boostfeat.features.carried import FeatureMaker
from boostfeat.features.options import ResourceFiles
from boostfeat.lists.build import Builder, HypRecord, ReadOptions
from boostfeat.lists.nbest import NBest
from boostfeat.model.calibration import KEY
from boostfeat.model.model import Model
from boostfeat.search.loop.decoders import Corpus, GraphDecoder
from boostfeat.search.loop.learners import TreeLearner, TunerLearner
from boostfeat.search.loop.loop_options import GraphOptions, LoopOptions
from boostfeat.search.loop.online import OnlineLearner
from boostfeat.tuners.base import Run

INI = """[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=pt
KENLM name=LM0 path=lm
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=rt
Distortion

[distortion-limit]
4

[weight]
TranslationModel0= 0.25 0.75
LM0= 0.5
Distortion0= 0.3
LexicalReordering0= 0 0 0 0 0 0
"""


def a_list(*sentences: str) -> NBest:
    builder = Builder(ReadOptions())
    for s, text in enumerate(sentences):
        for k, word in enumerate(text.split()):
            builder.add(HypRecord(s, word, f"list:{s}.{k}", -float(k), {"f": float(k)}))
    return builder.finish()


# -- loop ---------------------------------------------------------------------------------------------------------------


def test_test_sets_have_as_many_references_each(tmp_path):
    for name, text in (("a", "1\n"), ("b", "2\n"), ("r0", "w\n"), ("r1", "x\n"), ("r2", "y\n"), ("r3", "z\n")):
        (tmp_path / name).write_text(text)
    a, b, *refs = (str(tmp_path / name) for name in ("a", "b", "r0", "r1", "r2", "r3"))
    first, second = loop._tests([a, b], refs)
    assert (first.name, second.name) == tuple(f"test-{digest_lines([text])[:8]}" for text in "12")
    assert (first.source, first.refs) == (("1",), (("w",), ("x",)))
    assert (second.source, second.refs) == (("2",), (("y",), ("z",)))
    assert loop._tests([], []) == []
    for inputs, given, said in (([a, b], refs[:3], "2 test sets, the same number of each, found 3 files"), ([a], [], "1 test set, the same number of each, found 0 files"), ([], refs[:1], "0 test sets, the same number of each, found 1 file")):  # fmt: skip
        with pytest.raises(InputError) as error:
            loop._tests(inputs, given)
        assert str(error.value) == f"--test-ref: expected references of {said}"


def test_the_decoder_of_an_ini(tmp_path, monkeypatch):
    """Its files and its limit; a flag is stronger, and templates count in the phrase table."""
    monkeypatch.chdir(tmp_path)
    for name in ("pt", "lm", "rt"):
        (tmp_path / name).touch()
    (tmp_path / "moses.ini").write_text(INI)
    corpora = [Corpus("dev", ("a", "b"), (("x", "y"),)), Corpus("test", ("c",), (("z",),))]
    found = loop.reference_decoder("moses.ini", 7, corpora, ResourceFiles(clusters_src="c"), seed=3)
    assert [Path(path).name for path in (found.phrase_table, found.lm, found.reordering_table)] == ["pt", "lm", "rt"]
    assert (found.size, found.sentences, found.search.distortion_limit, found.extra) == (7, ("a", "b", "c"), 4, ())
    assert (found.maker.seed, found.maker.files) == (3, ResourceFiles(clusters_src="c", phrase_table=found.phrase_table))
    tables = {"phrase_table": "own", "lm": None, "reordering_table": None}
    other = loop._reference(tables, "moses.ini", {"distortion_limit": 2}, ("count.log",), 5, corpora, FeatureMaker())
    assert (other.phrase_table, Path(other.lm).name, other.search.distortion_limit) == ("own", "lm", 2)
    assert (other.extra, other.maker.files.phrase_table) == (("count.log",), "own")
    for lacking in ("phrase_table", "lm"):
        given = {"phrase_table": "own", "lm": "own", "reordering_table": None, lacking: None}
        with pytest.raises(InputError, match="expected a decoder, found none; give --decoder COMMAND, --graphs FILE"):
            loop._reference(given, None, {}, (), 5, corpora, FeatureMaker())
    start = loop.start_weights("moses.ini", reference=True).weights
    assert (start["UnknownWordPenalty0"], start["TranslationModel0_1"], start["LM0"]) == (1.0, 0.75, 0.5)
    assert "UnknownWordPenalty0" not in loop.start_weights("moses.ini", reference=False).weights
    (tmp_path / "moses.ini").write_text(INI.replace("LM0= 0.5", "LM0= 0.5\nUnknownWordPenalty0= 0.125"))
    assert loop.start_weights("moses.ini", reference=True).weights["UnknownWordPenalty0"] == 0.125


def test_graphs_in_place_of_a_decoder():
    dev, select = (Corpus(name, ("a",), (("b",),)) for name in ("dev", "select"))
    assert loop._graph_decoder([dev], ["g"], None, 9, "x,y") == GraphDecoder({"dev": ("g",)}, 9, ("x", "y"))
    both = loop._graph_decoder([dev, select], ["g", "h"], ["s"], 9, None)
    assert both == GraphDecoder({"dev": ("g", "h"), "select": ("s",)}, 9, None)
    with pytest.raises(InputError, match="--select-graphs: expected the search graphs of --select-input, found none; give them"):
        loop._graph_decoder([dev, select], ["g"], None, 9, None)


def test_what_learns_in_a_loop(tmp_path):
    (tmp_path / "groups.toml").write_text('[[group]]\nmatch = "LM*"\nfreeze = true\n')
    groups, limits = str(tmp_path / "groups.toml"), LoopOptions(gain="chrf", metric="ter")
    found = loop._learner("kbmira", ["c=0.5"], "fast", groups, limits, reweigh=True, static_only=False)
    assert isinstance(found, TunerLearner)
    assert (found.method, found.tuner.c, found.metric, found.gain, len(found.groups.rules)) == ("kbmira", 0.5, "ter", "chrf", 1)
    trees = loop._learner("induce", ["rounds=3"], "paper", None, limits, reweigh=False, static_only=True)
    assert trees == TreeLearner(recipe("paper", gain="chrf", metric="ter", rounds=3), False, True)
    for how, message in (
        (("induce", [], "fast", groups), "--groups: expected a tuner, found --method induce; it has no groups"),
        (("frob", [], "fast", None), "unknown method 'frob': expected one of pro, mert"),
    ):
        with pytest.raises(InputError, match=message):
            loop._learner(*how, limits, reweigh=True, static_only=False)
    with pytest.raises(InputError, match="--static-only: expected --method induce, found a tuner; leave it out"):
        loop._learner("pro", [], "fast", None, limits, reweigh=True, static_only=True)


def test_what_learns_online():
    from boostfeat.search.decoder.search_options import SearchOptions
    from boostfeat.search.loop.reference_decoder import ReferenceDecoder

    decoder, corpus = ReferenceDecoder("pt", "lm", None, SearchOptions(), ("a",)), Corpus("dev", ("a",), (("b",),))
    found = loop._online("rm", ["b=2"], None, decoder, corpus, Model({}), "chrf", None)
    assert isinstance(found, OnlineLearner)
    assert (found.method, found.tuner.b, found.gain, found.corpus) == ("rm", 2.0, "chrf", corpus)
    for how, message in (
        (("pro", (), None, decoder), "unknown online method 'pro': expected one of mira, rm, adagrad"),
        (("mira", (), None, GraphDecoder({})), "--online: expected the reference decoder, found another"),
        (("mira", ("c=1", "epochs=3"), None, decoder), "--set epochs: an iteration is an epoch here; give --max-iterations"),
    ):
        with pytest.raises(InputError, match=message):
            loop._online(*how, corpus, Model({}), "bleu", None)


def test_what_a_loop_prints(capsys, monkeypatch):
    row = {"iteration": 0, "dev": {"bleu": 10.0}, "weight_change": None, "new": 5, "hypotheses": 5, "trees": 0, "seconds": {"learn": 0.0, "decode": 1.0}}  # fmt: skip
    tests = ({"name": "test-1", "start": {"bleu": 1.0}, "picked": {"bleu": 2.0}, "p_value": 0.5},)
    model = Model({"a": 1.0})
    result = SimpleNamespace(rows=(row,), picked=0, reason="3 iterations", model=model, tests=tests)
    monkeypatch.setattr(time, "monotonic", lambda: 12.5)
    loop._show(result, "run", 10.0, "bleu", quiet=False, as_json=False)
    out, err = capsys.readouterr()
    assert out.splitlines()[-2:] == ["", "test-1 BLEU: 1.00 at the start, 2.00 now, p 0.5000"]
    assert err == "boostfeat: ended: 3 iterations; iteration 0 -> run/model.json in 2.5 s\n"
    loop._show(result, "run", 10.0, "bleu", quiet=True, as_json=True)
    told = {"output": "run", "rows": [row], "picked": 0, "reason": "3 iterations", "signature": model.signature}
    assert json.loads(capsys.readouterr().out) == {**told, "tests": list(tests)}
    result.tests = ()
    loop._show(result, "run", 10.0, "bleu", quiet=True, as_json=True)
    assert json.loads(capsys.readouterr().out) == told


# -- graphs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "more"), [(3, ""), (2, "; 1 sentence without any, taken for empty lines")])
def test_graphs_of_all_sentences_or_of_some(capsys, monkeypatch, n, more):
    found = {s: SimpleNamespace(n_edges=1000 * (s + 1)) for s in range(n)}
    monkeypatch.setattr("boostfeat.search.loop.graph_lists.graphs_of", lambda dev, options: found)
    seen = []
    monkeypatch.setattr("boostfeat.search.graphs.graph_mert.fit_graphs", lambda *how: seen.append(how))
    nbest = a_list("a", "b", "c")
    fit = graphs.fit_on_graphs(nbest, GraphOptions(), quiet=False)
    edges = {3: "6,000", 2: "3,000"}[n]
    assert capsys.readouterr().err == f"boostfeat: envelopes over {n} graphs, {edges} edges{more}\n"
    fit("tuner", "list", "held out", "run")
    assert seen == [("tuner", "list", found, "held out", "run")]


def test_tuning_goes_on_from_what_was_found_on_graphs(monkeypatch):
    """Seeds rise by one, weights are those of the fit before."""
    nbest, seen = a_list("a b"), list[tuple]()

    class Tuner:
        def fit(self, nbest, select, run):
            seen.append((run.seed, run.init, select))
            return Model({"f": float(len(seen))})

    def grown(dev, fit, options, *, threads, report):
        first = fit(dev, None, 0)
        return "grown", fit(dev, first, 1)

    monkeypatch.setattr("boostfeat.search.loop.graph_lists.grown", grown)
    found, run = graphs.tuned_on_graphs(Tuner(), nbest, "select", Run(seed=5, init={"f": 9.0}), GraphOptions(), quiet=True)
    assert seen == [(5, {"f": 9.0}, "select"), (6, {"f": 1.0}, "select")]
    assert (found, run.init, run.seed) == ("grown", {"f": 2.0}, 5)


def test_what_is_said_of_graphs(capsys, monkeypatch, tmp_path):
    """41 features: the 40 that are on most edges, in their order, and how many more there are."""
    features = [{"name": f"f{k}", "mean": float(k), "nonzero": 1.0 - k / 100} for k in range(41)]
    whole = {
        "sentences": 1234, "nodes": 2000, "edges": 5000, "edges_per_sentence": {"mean": 1234.56, "most": 2000},
        "log10_paths": {"mean": 3.25}, "features": features, "scores": True,
    }  # fmt: skip
    monkeypatch.setattr("boostfeat.search.graphs.graph.summarise", lambda graphs: dict(whole))
    monkeypatch.setattr("boostfeat.search.graphs.graph_files.read_graphs", lambda paths, options: iter(()))
    monkeypatch.setattr(graphs, "_graph_oracle", lambda *how: {"metric": "wer", "oracle": {"best path": 20.126, "oracle path": 5.0}, "signature": "s"})  # fmt: skip
    how = {"metric": None, "quiet": True}
    graphs.show_graphs("g", **how, oracle=False, refs=[], as_json=False)
    out = capsys.readouterr().out
    lines = [["sentences", "1,234"], ["nodes", "2,000"], ["edges", "5,000"], ["edges a sentence, mean", "1,234.6"], ["edges a sentence, most", "2,000"], ["log10 of paths, mean", "3.2"], ["features", "41"], ["decoder's scores", "yes"]]  # fmt: skip
    rows = [[f"f{k}", f"{k}", f"{100 - k}.0%"] for k in range(40)]
    head = ["feature", "mean an edge", "non-zero"]
    assert out == table(lines) + "\n\n" + table(rows, header=head) + "\n... and 1 more\n"
    whole |= {"features": features[:40], "scores": False}
    graphs.show_graphs("g", **how, oracle=True, refs=["r"], as_json=False)
    out = capsys.readouterr().out
    more = [["features", "40"], ["decoder's scores", "no: give weights to search"], ["wer, best path", "20.13"], ["wer, oracle path", "5.00"]]  # fmt: skip
    assert out == table([*lines[:-2], *more]) + "\n\n" + table(rows, header=head) + "\n"
    for oracle, refs, flag in ((True, [], "--oracle"), (False, ["r"], "-r")):
        with pytest.raises(
            InputError, match=rf"^{flag}: expected --oracle and references \(-r\) of the graphs, found one of them"
        ):
            graphs.show_graphs("g", **how, oracle=oracle, refs=refs, as_json=False)


# -- export, lists --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (None, "not verified (--verify LIST.nbest does)"),
        (
            Check(1234, "distinct units", 1.23456e-9, 1e-6),
            "verified on 1,234 distinct units: largest difference 1.23e-09\n  0 of them as near to a threshold as the list's rounding",
        ),
        (
            Check(2, "hypotheses", 0.0, 1e-6, "a; b", 1500),
            "verified on 2 hypotheses: largest difference 0\n  1,500 of them as near to a threshold as the list's rounding\n  a\n  b",
        ),
    ],
)
def test_what_verification_found(check, said, capsys):
    assert export._found(check) == said
    export._warn("beware", quiet=False)
    export._warn("beware", quiet=True)
    assert capsys.readouterr().err == "boostfeat: warning: beware\n"


def test_weights_of_graphs_are_those_of_a_model_or_of_files(tmp_path, capsys):
    from toy_trees import stump

    tree = stump("constant", None, feature="f")
    for name, trees in (("m", ()), ("t", (tree, replace(tree, name="t2")))):
        Model({"a": 2.0}, trees).save(tmp_path / name)
    (tmp_path / "w").write_text("b= 3\n")
    (tmp_path / "v").write_text("c= 4\n")
    m, t, w, v = (str(tmp_path / name) for name in "mtwv")
    assert dict(lists._graph_weights([m], quiet=False)) == {"a": 2.0}
    assert dict(lists._graph_weights([w, v], quiet=False)) == {"b": 3.0, "c": 4.0}
    assert capsys.readouterr().err == ""
    assert dict(lists._graph_weights([t], quiet=False)) == {"a": 2.0}
    assert capsys.readouterr().err == f"boostfeat: warning: {t}: its weights rank the paths, its 2 trees not\n"


def test_careful_choices(tmp_path, capsys):
    """By hand: margins of 1, 3 and 0 over the decoder's first; of two and more one is left. σ(log 3) is 0.75 and σ(0) 0.5."""
    nbest = a_list("a b", "c d", "e f", "")
    config = {KEY: {"intercept": -float(np.log(4 / 3)), "slope": 1.0, "scale": 1.0, "keep_first": 2.0, "gain": 0.1, "error": 0.1, "lists": 3, "changed": 2}}  # fmt: skip
    Model({"f": 1.0}, config=config).save(tmp_path / "m")
    scores = np.array([0.0, 1.0, 0.0, 3.0, 5.0, 4.0])
    how = {"model": str(tmp_path / "m"), "quiet": False}
    for confidence, keep_first, lines, said in (
        (False, "never", ["b", "d", "e"], 2),
        (False, "2", ["a", "d", "e"], 1),
        (False, "auto", ["a", "d", "e"], 1),
        (True, "never", ["0.6000\tb", "0.7500\td", "1.0000\te"], 2),
        (True, "3", ["1.0000\ta", "0.7500\td", "1.0000\te"], 1),
    ):
        found = list(lists._careful(nbest, scores, how["model"], confidence=confidence, keep_first=keep_first, quiet=False))
        assert found == lines
        assert capsys.readouterr().err == f"boostfeat: {said} of 3 choices are not the decoder's\n"


# -- explain ------------------------------------------------------------------------------------------------------------


class Parts:
    """What Differences.of gives, by hand."""

    sentences = np.array([1])
    trees = ("t0",)
    totals = np.array([1.5])

    def features(self, k):
        return [("a", 2.0), ("t0", -0.75), ("b", 0.25)]

    def units(self, k):
        return [
            {"in": "chosen", "src": "s" * 25, "tgt": "t", "linear": 2.25, "trees": -0.75},
            {"in": "both", "src": None, "tgt": None, "linear": 0.0, "trees": 0.0},
        ]


@pytest.mark.parametrize(
    ("top", "gain", "expected", "rival", "total"),
    [(20, None, None, "decoder", 1.5), (1, 3.26, [30.126, 20.0], "other", -1.5), (2, -3.26, None, "decoder", 0.0)],
)
def test_why_a_hypothesis_was_chosen(capsys, top, gain, expected, rival, total):
    nbest, found = a_list("x", "y z"), Parts()
    found.totals = np.array([total])
    one = nbest.take(np.array([1]))
    gains = None if gain is None else np.array([gain])
    how = {"expected": expected, "rival": rival}
    explain._show_one(found, one, np.array([1]), np.array([0]), gains, top, **how, as_json=False)
    parts = [["a", "+2.0000"], ["t0", "-0.7500"], ["b", "+0.2500"]][:top]
    parts += {20: [], 1: [["2 more", "-0.5000"]], 2: [["1 more", "+0.2500"]]}[top]
    side = "behind" if total < 0 else "ahead"
    better = "" if gain is None else f"; by the metric {gain:+.1f} points"
    lines = ["chosen:  z", f"{rival + ':':8} y", f"score: {side} by {abs(total):.4f}{better}"]
    lines += ["minimum Bayes risk decides: BLEU+1 that the model expects, 30.13 and 20.00"] if expected else []
    units = [["chosen", "s" * 21 + "...", "t", "+2.2500", "-0.7500"], ["both", "(hypothesis)", "", "+0.0000", "+0.0000"]]
    lines += ["", table(units, header=["in", "source", "target", "linear", "trees"], right=(3, 4)), ""]
    lines += [table([*parts, ["together", f"{total:+.4f}"]], header=["feature or tree", "adds"], right=(1,))]
    assert capsys.readouterr().out == "\n".join(lines) + "\n"
    explain._show_one(found, one, np.array([1]), np.array([0]), gains, top, **how, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "id": 1, "source": "", "chosen": "z", rival: "y", "expected": expected, "difference": total, "gain": gain,
        "units": found.units(0), "features": [{"name": n, "part": p, "tree": n == "t0"} for n, p in found.features(0)],
    }  # fmt: skip
    found.sentences = np.zeros(0, np.int64)
    explain._show_one(found, one, np.array([1]), np.array([1]), gains, top, **how, as_json=False)
    assert capsys.readouterr().out == "both are the same hypothesis: z\n"


# -- replicate ----------------------------------------------------------------------------------------------------------


def test_a_paper_on_lists_of_mine(boostfeat, monkeypatch):
    """Its rows on dev, and on each list of bitext in a folder of its own; then the page of all."""
    asked, pages, clock = [], [], iter((2.0, 9.25))
    flags = ("--phrase-table", "pt", "--threads", "1", "--seed", "4", "--allow-missing", "--force")

    def compared(paths, output, options, **how):
        asked.append((paths, output, options, how))
        return [f"rows of {output}"]

    def write_page(folder, job, results, more):
        pages.append((folder.path, job.title, results, {name: (own.path, rows) for name, (own, rows) in more.items()}))
        return {"tables": [{"title": "One", "header": ["a", "b"], "rows": [["1", "2"]]}, {"title": "Two", "header": ["c"], "rows": [["3"]]}]}  # fmt: skip

    monkeypatch.setattr(replicate, "compared", compared)
    monkeypatch.setattr("boostfeat.compare.paper_page.write_page", write_page)
    for module in (replicate, clock_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    tests = ("--select", "s", "--test", "t", "--test", "u")
    code, out, err = boostfeat("replicate", "g13", "d", *tests, "--tune-on", "b1", "--tune-on", "b2", *flags, "-o", "run")
    assert code == 0
    lists = {"dev": "d", "select": "s", "test": "t", "test2": "u"}
    assert [(paths, output) for paths, output, *_ in asked] == [
        (lists, "run"),
        ({**lists, "dev": "b1"}, "run/bitext"),
        ({**lists, "dev": "b2"}, "run/bitext2"),
    ]
    whole = paper_options(PAPERS["g13"], seed=4)
    assert [options for _, _, options, _ in asked] == [whole, *[bitext_options(PAPERS["g13"], whole)] * 2]
    how = {"files": ResourceFiles(phrase_table="pt"), "threads": 1, "force": True, "allow_missing": True, "quiet": False}
    assert all(own == how for *_, own in asked)
    more = {name: (Path(f"run/{name}"), [f"rows of run/{name}"]) for name in ("bitext", "bitext2")}
    assert pages == [(Path("run"), PAPERS["g13"].title, ["rows of run"], more)]
    assert out == f"One\n{table([['1', '2']], header=['a', 'b'])}\n\nTwo\n{table([['3']], header=['c'])}\n"
    assert err == "boostfeat: run/paper.md in 7.2 s; 'boostfeat report run' draws it\n"
    asked.clear()
    for module in (replicate, clock_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    code, out, _ = boostfeat("replicate", "e12", "d", *tests, "--quick", "--json", "-q", "-o", "run")
    assert (code, json.loads(out)["output"], len(json.loads(out)["tables"])) == (0, "run", 2)
    [(_, _, options, own)] = asked
    assert options == paper_options(paper_of("e12", quick=True), seed=0)
    assert (own["force"], own["allow_missing"], own["quiet"]) == (False, False, True)


# -- clusters -----------------------------------------------------------------------------------------------------------


def test_what_a_cluster_says_is_said_to_the_quiet_too(monkeypatch, capsys):
    """That workers are lost: a quiet run would seem to hang."""
    where, asked = SimpleNamespace(is_dask=True), list[tuple]()

    def on(*given, say, **how):
        say("a worker is lost")
        asked.append((given, how))
        return "model"

    for module, name in (("boosting", "boost_on"), ("tuning", "tune_on")):
        monkeypatch.setattr(f"boostfeat.distributed.{module}.{name}", on)
    monkeypatch.setattr("boostfeat.distributed.cluster.check_options", lambda options, dev: None)
    for module in (induce, tune):
        monkeypatch.setattr(module, "source_of", lambda store: f"source of {store}", raising=False)
        monkeypatch.setattr(module, "cluster_of", lambda where, *, threads, quiet: nullcontext(("cluster", threads, quiet)))
    job = SimpleNamespace(where=where, options="options", dev="dev", select="select", store="store", threads=3, quiet=True)
    assert induce._Fit._boost(job, seed=4) == "model"
    assert asked == [((("cluster", 3, True), "source of store", "dev", "select", "options"), {"seed": 4})]
    with tune._fitting("source", where, threads=2, quiet=True) as fit:
        assert fit("tuner", "dev", "select", "run") == "model"
    assert asked[1:] == [((("cluster", 2, True), "source", "tuner", "dev", "select", "run"), {})]
    assert capsys.readouterr().err == "boostfeat: a worker is lost\n" * 2
    with tune._fitting(None, where, threads=2, quiet=True) as fit:
        assert fit is tune._fit_here
