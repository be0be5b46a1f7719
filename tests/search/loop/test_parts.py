"""Parts of the loop by themselves: what decoders refuse and are made from, what the graphs of a list are, what its folder holds."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from boostfeat.boosting.options import BoostOptions
from boostfeat.core.errors import InputError
from boostfeat.core.files import digest
from boostfeat.features import TEMPLATES, FeaturePlan
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest, Qualities
from boostfeat.model.model import Model
from boostfeat.search.decoder.search_options import SearchOptions
from boostfeat.search.loop.decoded_comparison import StartOnce
from boostfeat.search.loop.decoders import CommandDecoder, Corpus, GraphDecoder, Place, _last_lines, _signal_name, filled
from boostfeat.search.loop.driver import run_loop
from boostfeat.search.loop.graph_lists import GraphOptions, graphs_of, grown, only_features
from boostfeat.search.loop.learners import Task, TreeLearner, TunerLearner
from boostfeat.search.loop.loop_features import LoopFeatures, with_names, without_names
from boostfeat.search.loop.loop_folder import Folder
from boostfeat.search.loop.loop_options import LoopOptions
from boostfeat.search.loop.online import Fresh
from boostfeat.search.loop.reference_decoder import ReferenceDecoder
from boostfeat.tuners.base import Groups
from boostfeat.tuners.kbmira import Kbmira


def a_list(*sentences: str, name: str = "list") -> NBest:
    """Each word is a hypothesis of one unit, whose features are 0, 1, ... and twice as much."""
    builder = Builder(ReadOptions())
    for s, text in enumerate(sentences):
        for k, word in enumerate(text.split()):
            unit = UnitRecord({"f": float(k), "g": 2.0 * k}, tgt=(0, 1), tgt_text=word)
            builder.add(HypRecord(s, word, f"{name}:{s}.{k}", -float(k), {"h": 1.0}, [unit]))
    return attach(builder.finish(), source=None, refs=[["x"] * len(sentences)], name=name)


# -- decoders -----------------------------------------------------------------------------------------------------------


def test_what_decoders_refuse():
    graphs, reference = GraphDecoder({}), ReferenceDecoder("pt", "lm", None, SearchOptions(), ())
    assert reference.size == 100
    for decoder, message in (
        (graphs, "--graphs: expected trees of level local, found global: an edge has no values of a whole hypothesis"),
        (reference, "expected trees of level local, found global: search cannot score them; rerank lists with them"),
    ):
        for own in (decoder, StartOnce(decoder, Path("start"))):
            with pytest.raises(InputError, match=message):
                own.check_trees("global")
            own.check_trees("local")
    for own in (graphs, StartOnce(graphs, Path("start"))):
        with pytest.raises(InputError, match="--templates: expected a decoder that computes them, found --graphs"):
            own.check_templates()
    reference.check_templates()
    for command, fine in (("d {weights}", False), ("d {model}", True), ("d {ini} {model}", True)):
        decoder = CommandDecoder(command)
        for check, message in (
            (lambda decoder=decoder: decoder.check_trees("global"), "--decoder: expected a place {model}"),
            (decoder.check_templates, "--templates: expected a decoder that computes them, with a place {model}, found another"),
        ):
            if fine:
                check()
                continue
            with pytest.raises(InputError, match=message):
                check()


@pytest.mark.parametrize(
    ("places", "left"), [("{model}", []), ("{weights}", ["weights.cdec"]), ("{model} {ini}", ["weights.cdec"])]
)
def test_weights_are_written_for_those_who_take_them(tmp_path, places, left):
    """The model is there for all."""
    decoder = CommandDecoder(f"echo '0 ||| a ||| f= 1 ||| 1' {places}", weights_format="cdec")
    with pytest.raises(InputError):  # the list has the places behind it
        decoder.decode(Model({"f": 1.0}), Corpus("dev", ("x",), (("a",),)), Place(tmp_path, 0, 0, 1))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(["dev.input", "model.json", *left])


def test_what_decoders_are_made_from(tmp_path):
    """All that lists depend on, files by their digests."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    a, b, c = (str(tmp_path / name) for name in "abc")
    of_graphs = GraphDecoder({"dev": (a, b), "select": (c,)}, 7, ("x", "y")).made_from()
    assert of_graphs == {
        "command": "graphs",
        "size": 7,
        "names": ("x", "y"),
        "graphs": {"dev": [digest(a), digest(b)], "select": [digest(c)]},
    }
    search = SearchOptions(distortion_limit=3)
    assert ReferenceDecoder(a, b, None, search, ("s",), ("count.log",), 9).made_from() == {
        "command": "reference", "phrase_table": digest(a), "lm": digest(b), "reordering_table": None, **asdict(search),
        "extra": ("count.log",), "size": 9,
    }  # fmt: skip
    assert ReferenceDecoder(a, b, c, search, ()).made_from()["reordering_table"] == digest(c)
    command = CommandDecoder("d {weights}", 5, "cdec", c, "moses", 2.0)
    assert command.made_from() == {
        "command": "d {weights}",
        "size": 5,
        "weights_format": "cdec",
        "format": "moses",
        "ini": digest(c),
    }
    assert CommandDecoder("d {weights}").made_from()["ini"] is None
    once = StartOnce(command, tmp_path)
    assert once.made_from() == command.made_from()


def test_tables_that_were_read_stay_in_their_process(tmp_path):
    """Another process reads, and computes, its own."""
    decoder = ReferenceDecoder("pt", "lm", None, SearchOptions(), ("a",))
    decoder.__dict__["decoder"] = "tables"
    again = pickle.loads(pickle.dumps(decoder))
    assert "decoder" not in again.__dict__
    assert again.sentences == ("a",)
    fresh = Fresh(decoder, Corpus("dev", ("a",), (("b",),)), Model({"x": 1.0}), ids={"pt:a": 0})
    fresh.__dict__["dense"] = ("x",)
    copy = pickle.loads(pickle.dumps(fresh))
    assert "dense" not in copy.__dict__
    assert (copy.corpus, copy.start, copy.ids, copy.plan) == (fresh.corpus, fresh.start, {"pt:a": 0}, None)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("d", "--decoder: expected a place for the weights, {weights}, {ini} or {model}, found none"),
        ("d {frob} {weights}", "unknown place in --decoder '{frob}': expected one of {ini}, {weights}"),
        ("d '{weights}", "--decoder: expected a command line, found: No closing quotation; check its quotes"),
        ("", "--decoder: expected a command line, found nothing; see 'boostfeat loop --help'"),
    ],
)
def test_commands_that_are_none(command, message):
    with pytest.raises(InputError) as error:
        CommandDecoder(command)
    assert str(error.value).startswith(message)


def test_limits_of_a_command():
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=f"--timeout: expected seconds above 0, found {seconds}"):
            CommandDecoder("d {weights}", timeout=seconds)
    assert CommandDecoder("d {weights}", timeout=0.5).timeout == 0.5
    with pytest.raises(InputError, match="unknown weights format 'frob'"):
        CommandDecoder("d {weights}", weights_format="frob")
    assert filled("{{a}} {size} x{seed}", {"size": 3, "seed": 4}) == "{a} 3 x4"
    assert (_signal_name(9), _signal_name(4096)) == ("SIGKILL", "unknown")


def test_the_last_lines_of_a_log(tmp_path):
    """At most eight that are not blank, of the last 8192 bytes, 200 characters each; what steers a terminal is a blank."""
    log = tmp_path / "log"
    log.write_text("".join(f"line {k}\n\n" for k in range(20)))
    assert _last_lines(log) == [f"line {k}" for k in range(12, 20)]
    log.write_bytes(b"first\n" + b"x" * 300 + b"\n\x1b[31mred\tok\xff\n   \n")
    assert _last_lines(log) == ["first", "x" * 200, " [31mred ok�"]
    log.write_bytes(b"lost\n" + b"y\n" * 4096)
    assert _last_lines(log) == ["y"] * 8
    log.write_bytes(b"kept\n" + b"\n" * 8187)
    assert _last_lines(log) == ["kept"]
    log.write_bytes(b"lost\n" + b"\n" * 8188)
    assert _last_lines(log) == ["ost"]
    log.write_bytes(b"")
    assert _last_lines(log) == []


def test_a_corpus_is_read_whole(tmp_path):
    for name, lines in (("src", "a\nb\n"), ("ref0", "x\ny\n"), ("ref1", "u\nv\n"), ("short", "x\n"), ("none", "")):
        (tmp_path / name).write_text(lines)
    at = {name: str(tmp_path / name) for name in ("src", "ref0", "ref1", "short", "none")}
    assert Corpus.read("dev", at["src"], [at["ref0"], at["ref1"]]) == Corpus("dev", ("a", "b"), (("x", "y"), ("u", "v")))
    for source, refs, message in (
        (at["src"], [], f"{at['src']}: expected at least one reference (-r REF), found none; learning needs them"),
        (at["none"], [at["none"]], f"{at['none']}: expected sentences, one a line, found none; check the file"),
        (at["src"], [at["ref0"], at["short"]], f"{at['short']}: expected 2 lines, as many as {at['src']}, found 1; align them"),
    ):
        with pytest.raises(InputError) as error:
            Corpus.read("dev", source, refs)
        assert str(error.value) == message


def test_sentences_without_hypotheses_are_counted():
    """Blank ones need none."""
    nbest = a_list("a b", "", "", "c")
    bare = replace(nbest, refs=nbest.refs[:0], ref_ptr=np.zeros(5, np.int64), stats=nbest.stats[:0])
    refs = (("x",) * 4,)
    for source, found in ((("s", " ", "t", "u"), "sentence 2"), (("s", "r", "t", "u"), "sentence 1 and 1 more")):
        with pytest.raises(InputError, match=rf"^here: expected hypotheses of every sentence, found none of {found}$"):
            Corpus("dev", source, refs).attached(bare, "here")
    whole = Corpus("dev", ("s", " ", "", "u"), refs).attached(bare, "here")
    assert (len(whole), whole.has_stats) == (4, True)


def test_a_stand_in_for_moses_sees_what_moses_does(tmp_path):
    """A script that writes what it was given: words after the places are filled, sentences, and weights; its list is read."""
    script = tmp_path / "decoder.py"
    script.write_text(
        "import json, sys\n"
        "print('to stderr', file=sys.stderr)\n"
        f"json.dump([sys.argv[1:], sys.stdin.read(), open(sys.argv[1]).read()], open({str(tmp_path / 'seen.json')!r}, 'w'))\n"
        "for s in range(2):\n"
        "    for k in range(4):\n"
        "        print(f'{s} ||| w{k} ||| LM0= {-k} ||| {-k}')\n"
    )
    decoder = CommandDecoder(
        f"{sys.executable} -S {script} {{weights}} {{size}} {{iteration}} {{seed}} {{{{x}}}}", 3, "name-value"
    )
    place, corpus = Place(tmp_path / "it", 5, 8, 1), Corpus("dev", ("a b", "c"), (("w0", "w1"),))
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "dev.old.attempt").mkdir()
    nbest = decoder.decode(Model({"LM0": 2.0}), corpus, place)
    weights = str(tmp_path / "it" / "weights.txt")
    assert json.loads((tmp_path / "seen.json").read_text()) == [[weights, "3", "5", "8", "{x}"], "a b\nc\n", "LM0= 2.0\n"]
    assert nbest.text.to_pylist() == ["w0", "w1", "w2"] * 2
    assert nbest.source.to_pylist() == ["a b", "c"]
    assert sorted(path.name for path in (tmp_path / "it").iterdir()) == ["dev.input", "dev.stderr", "model.json", "weights.txt"]
    assert (tmp_path / "it" / "dev.stderr").read_text() == "to stderr\n"
    assert Model.load(tmp_path / "it" / "model.json").weights == {"LM0": 2.0}


def test_graphs_are_searched_with_the_model(monkeypatch):
    """What is asked of them, and the file that an error names."""
    nbest, asked = a_list("a b", "", "c"), list[tuple]()
    bare = replace(nbest, refs=nbest.refs[:0], ref_ptr=np.zeros(4, np.int64), stats=nbest.stats[:0])
    monkeypatch.setattr("boostfeat.search.loop.decoders.kbest_nbest", lambda *given, **how: asked.append((given, how)) or bare)
    decoder, model = GraphDecoder({"dev": ("one", "two")}, 7, ("x",)), Model({"f": 1.0})
    place = Place(Path("x"), 0, 0, 1, print)
    found = decoder.decode(model, Corpus("dev", ("s", "", "t"), (("x", "x", "x"),)), place)
    assert (found.source.to_pylist(), found.has_stats) == (["s", "", "t"], True)
    how = {"size": 7, "source": ("s", "", "t"), "names": ("x",), "threads": 1, "report": print}
    assert asked == [((("one", "two"), model), how)]
    with pytest.raises(InputError, match=r"^one: expected hypotheses of every sentence, found none of sentence 1"):
        decoder.decode(model, Corpus("dev", ("s", "r", "t"), (("x", "x", "x"),)), place)


# -- graphs -------------------------------------------------------------------------------------------------------------


def hypergraph(folder: Path, sent: int, names: tuple[str, ...] = ("f", "g")) -> str:
    """A graph of two edges, one after the other."""
    values = " ".join(f"{name}=1" for name in names)
    lines = ["# target ||| features ||| source-covered", "3 3", "# node 0", "1", " |||  ||| 0"]
    lines += ["# node 1", "1", f"[0] a ||| {values} ||| 1", "# node 2", "1", f"[1] b ||| {values} ||| 2"]
    (folder / f"{sent}.txt").write_text("\n".join(lines) + "\n")
    return str(folder / f"{sent}.txt")


def test_the_graphs_of_a_list(tmp_path):
    """By position in the list; every feature of the list has to be on some edge."""
    nbest = a_list("a b", "c d", "e")
    nbest = only_features(replace(nbest, ids=np.array([4, 7, 9])), {"f", "g"})
    paths = (hypergraph(tmp_path, 9), hypergraph(tmp_path, 4))
    found = graphs_of(nbest, GraphOptions(paths))
    assert sorted(found) == [0, 2]
    assert all(set(graph.names) == {"f", "g"} for graph in found.values())
    with pytest.raises(InputError, match="expected graphs of the list's sentences, found sentence 5; give those of the list"):
        graphs_of(nbest, GraphOptions((*paths, hypergraph(tmp_path, 5))))
    for given, where in (
        ((hypergraph(tmp_path, 4, ("f",)),), "4.txt: "),
        ((paths[1], hypergraph(tmp_path, 9, ("f",))), "4.txt, ...: "),
    ):
        with pytest.raises(InputError, match=f"{where}expected edges with the list's feature 'g', found none"):
            graphs_of(nbest, GraphOptions(given))
    both = (hypergraph(tmp_path, 4, ("f",)), hypergraph(tmp_path, 9, ("g",)))
    assert sorted(graphs_of(nbest, GraphOptions(both))) == [0, 2]


def test_lists_with_quality_columns_do_not_grow():
    nbest = a_list("a b")
    scored = replace(
        nbest, quality=Qualities().with_column("comet", np.ones(2), np.ones(2)).with_column("judge", np.ones(2), np.ones(2))
    )
    with pytest.raises(
        InputError, match="--graphs: expected a list without quality columns, found comet, judge; nobody has scored"
    ):
        grown(scored, lambda *how: pytest.fail("fitted"), GraphOptions(("x",)))


def test_some_features_of_a_list():
    nbest = a_list("a b", "c")
    found = only_features(nbest, {"g", "h"})
    assert (found.unit_names, found.extra_names) == (("g",), ("h",))
    assert found.X.tolist() == [[0.0], [2.0], [0.0]]
    assert only_features(nbest, set(nbest.feature_names)) == nbest


# -- the folder, and what a run is made from ------------------------------------------------------------------------------


def test_the_folder_of_a_run(tmp_path):
    folder = Folder(tmp_path / "run")
    assert [folder.iteration(k).name for k in (0, 7, 12, 123)] == [
        "iteration-00",
        "iteration-07",
        "iteration-12",
        "iteration-123",
    ]
    (tmp_path / "run").mkdir()
    folder.open({"a": (1, 2)}, resume=False, force=False)
    folder.open({"a": [1, 2]}, resume=False, force=False)  # nothing was decoded yet
    folder.iteration(1).mkdir()
    folder.open({"a": [1, 2]}, resume=True, force=False)
    for other, name, was, now in (({"a": [1, 3]}, "a", r"\[1, 2\]", r"\[1, 3\]"), ({"a": [1, 2], "b": 1}, "b", "null", "1")):
        with pytest.raises(
            InputError, match=f"expected the run's own {name} '{was}', found '{now}'; give the same, or choose another -o"
        ):
            folder.open(other, resume=True, force=False)
    assert (folder.has_model(1), folder.has_list(1, "dev"), folder.state(1)) == (False, False, None)
    Model({"a": 1.0}).save(folder.iteration(1) / "model.json")
    kept = folder.keep_list(1, "dev", a_list("a b"))
    assert (folder.has_model(1), folder.has_list(1, "dev"), folder.has_list(1, "select")) == (True, True, False)
    assert folder.model(1).weights == {"a": 1.0}
    assert kept == folder.list(1, "dev") == a_list("a b")
    (tmp_path / "run" / "config.json").write_text('{"boostfeat": "loop/2"}')
    with pytest.raises(InputError, match="expected format version 1 or lower, found 2; upgrade boostfeat"):
        folder.open({"a": [1, 2]}, resume=True, force=False)


def test_what_learners_are_made_from():
    """Folders of release 0.1 do not say what was usual then: it is left out still."""
    tuner = Kbmira(epochs=3)
    assert TunerLearner("kbmira", tuner).made_from() == {"method": "kbmira", **asdict(tuner), "groups": (), "metric": "bleu"}
    groups = Groups((("a*", {"freeze": True}),))
    assert TunerLearner("kbmira", tuner, groups, "ter", "chrf", "last").made_from() == {
        "method": "kbmira", **asdict(tuner), "groups": groups.rules, "metric": "ter", "gain": "chrf", "pick": "last",
    }  # fmt: skip
    options = BoostOptions(level="global", gain="chrf")
    plain = {name: value for name, value in asdict(options).items() if name != "gain"}
    assert TreeLearner(options).made_from() == {"method": "induce", **plain, "reweigh": True, "gain": "chrf"}
    other = TreeLearner(replace(options, gain="bleu"), reweigh=False, static_only=True)
    assert other.made_from() == {"method": "induce", **plain, "reweigh": False, "static_only": True}
    assert (TreeLearner(options).level, TunerLearner("kbmira", tuner).level) == ("global", None)
    limits = LoopOptions(max_iterations=3, patience=2, pick="dev", min_weight_change=0.5, seed=4, accumulate=2)
    assert limits.made_from() == {"accumulate": 2, "metric": "bleu-sbp", "rescale": True, "seed": 4}
    assert LoopOptions(gain="chrf").made_from()["metric"] == "chrf"


def test_a_tuner_in_the_loop_is_told_of_epochs():
    """Twin: the tuner from the weights before, of the features that the list has; ticks have the number of its epochs."""
    nbest, ticks, named = a_list("x y z", "y x"), list[tuple[int, int]](), list[NBest]()
    task = Task(2, Model({"f": 0.5, "gone": 3.0}), nbest, None, 7, 1, Path("x"), lambda *tick: ticks.append(tick), named.append)
    found = TunerLearner("kbmira", Kbmira(epochs=3), gain="chrf", metric="ter", pick="last").learn(task)
    assert ticks == [(row["epoch"], 3) for row in found.history]
    assert len(ticks) >= 3
    assert named == [nbest]
    assert found.weights["gone"] == 3.0
    assert (found.config["gain"], found.config["metric"], found.config["seed"]) == ("chrf", "ter", 7)


def test_names_of_sparse_features_in_plans():
    maker = FeatureMaker()
    plan = maker.plan("length,pt,bi")
    taught = replace(
        plan,
        entries=tuple(
            replace(e, features=tuple(f"{e.name}{'.' if e.name == 'length' else ':'}{k}" for k in "ab")) for e in plan.entries
        ),
    )
    bare = {e.name: e.features for e in without_names(taught, maker).entries}
    assert bare == {"length": ("length.a", "length.b"), "pt": (), "bi": ()}
    named = {e.name: e.features for e in with_names(taught, ["pt:z", "bi:q", "pt:c"]).entries}
    assert named == {"length": ("length.a", "length.b"), "pt": ("pt:c", "pt:z"), "bi": ("bi:q",)}


def test_templates_of_a_loop():
    """By name, or those that the start carries; not both, and none where there are none."""
    maker, plan = FeatureMaker(), FeaturePlan.of("length", TEMPLATES)
    start = with_plan(Model({"LM0": 1.0}), replace(plan, entries=tuple(replace(e, features=("len.src",)) for e in plan.entries)))
    bare = Model({"LM0": 1.0})
    assert LoopFeatures.of(maker, None, bare) is None
    assert LoopFeatures.of(maker, "none", bare) is None
    found = LoopFeatures.of(maker, "length", bare, "chrf")
    assert (found.what, found.gain) == ("length", "chrf")
    assert found.made_from() == {"templates": "length", "plan": found.first.signature}
    of_start = LoopFeatures.of(maker, None, start)
    assert (of_start.what, of_start.made_from()) == (None, {})
    assert LoopFeatures.of(maker, "none", start).what is None
    with pytest.raises(InputError, match="--templates length: expected none with an --init that carries its own, found both"):
        LoopFeatures.of(maker, "length", start)


def test_what_a_loop_asks_of_decoder_and_learner(tmp_path, monkeypatch):
    """Iteration k learns with seed + k from where it was before scaling, and decodes at the scale of the start: weights that are
    four times as large are taken down to a quarter.
    """
    decoded, tasks, now = list[tuple](), list[Task](), [1000.0]
    for module in ("core.machine", "search.loop.driver"):  # decoding takes 2 seconds, learning 5.25
        monkeypatch.setattr(f"boostfeat.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))

    class Decoder:
        def check_trees(self, level): ...

        def made_from(self):
            return {}

        def decode(self, model, corpus, place):
            now[0] += 2.0
            decoded.append((place.iteration, corpus.name, dict(model.weights), place.seed, place.threads, place.folder.name))
            return corpus.attached(bare(f"x y{place.iteration}", "z"), corpus.name)

    class Learner:
        online = False
        level = None

        def made_from(self):
            return {}

        def learn(self, task):
            tasks.append(task)
            now[0] += 5.25
            return Model({"f": 4.0 + task.iteration, "g": -4.0})

    def bare(*texts):
        nbest = a_list(*texts)
        return replace(nbest, refs=nbest.refs[:0], ref_ptr=np.zeros(len(nbest) + 1, np.int64), stats=nbest.stats[:0])

    corpora = [Corpus(name, ("a", "b"), (("x", "z"),) * n) for name, n in (("dev", 1), ("select", 2))]
    start, ticks, notes, warnings = Model({"f": 1.0, "g": -1.0}), list[tuple](), list[str](), list[str]()
    limits = LoopOptions(max_iterations=2, min_weight_change=0, seed=5, metric="bleu")
    result = run_loop(corpora, Decoder(), Learner(), start, tmp_path / "run", limits, threads=3, tick=lambda *tick: ticks.append(tick), report=notes.append, warn=warnings.append)  # fmt: skip
    weights = [{"f": 1.0, "g": -1.0}, {"f": 1.25, "g": -1.0}, {"f": 1.5, "g": -1.0}]
    assert decoded == [(k, name, weights[k], 5 + k, 3, f"iteration-{k:02d}") for k in range(3) for name in ("dev", "select")]
    assert [(t.iteration, dict(t.start.weights), t.seed, t.threads, t.folder.name) for t in tasks] == [
        (1, {"f": 1.0, "g": -1.0}, 6, 3, "iteration-01"),
        (2, {"f": 5.0, "g": -4.0}, 7, 3, "iteration-02"),
    ]
    assert [(t.dev.n_hyps, t.select.n_hyps, t.tree_features) for t in tasks] == [(3, 3, ()), (4, 4, ())]
    kept = [Model.load(tmp_path / "run" / f"iteration-{k:02d}" / "model.json").config["loop"] for k in range(3)]
    assert kept == [{"iteration": k, "scale": 0.25 if k else 1.0} for k in range(3)]
    counted = ("iteration", "new", "hypotheses", "trees", "seconds")
    assert [tuple(row[name] for name in counted) for row in result.rows] == [
        (0, 3, 3, 0, {"learn": 0.0, "decode": 4.0}),
        (1, 1, 4, 0, {"learn": 5.25, "decode": 4.0}),
        (2, 1, 5, 0, {"learn": 5.25, "decode": 4.0}),
    ]
    assert warnings == ["references a sentence: dev has 1, select has 2"]  # of the first lists, once
    assert [note for note in notes if "learning" in note] == [
        "iteration 1: learning from 3 hypotheses",
        "iteration 2: learning from 4 hypotheses",
    ]
