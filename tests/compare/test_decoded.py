"""``compare --decode``: systems that decode for themselves, on a tiny system whose best translations are known."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_systems import START, write_known_system
from workers_here import WorkersHere

from boostfeat.compare.comparison_options import CompareOptions
from boostfeat.compare.systems import parse_systems
from boostfeat.core.errors import InputError
from boostfeat.features.feature_maker import FeatureMaker
from boostfeat.lists.build import Builder, HypRecord, attach
from boostfeat.lists.choices import Scorer, decoder_choice, texts
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.report import gather
from boostfeat.report.run_folder import load_run
from boostfeat.search.decoder.setup import SearchOptions
from boostfeat.search.loop import decoded_comparison as decoded
from boostfeat.search.loop.decoded_comparison import Decoding, _best, choice_of, compare_decoded, decoded_systems, loop_comparison
from boostfeat.search.loop.decoders import CommandDecoder, ParallelText, ReferenceDecoder
from boostfeat.search.loop.driver import LoopFolder, LoopOptions
from boostfeat.trees.tree import Tree

ROOT = Path(__file__).parents[2]
TREE = Tree.from_json({"name": "t", "weight": 1.0, "leaf": "constant", "nodes": [{"value": 1.0}]}, "test")
SYSTEMS = "decoder,base-PRO,base/mira:online:c=0.3,base/adagrad:online"
OPTIONS = CompareOptions(SYSTEMS, runs=2, trials=50, metric="bleu", seed=4)


@pytest.fixture(scope="module")
def decoding(tmp_path_factory) -> Decoding:
    system = write_known_system(tmp_path_factory.mktemp("system"))
    dev, select, test = (
        ParallelText.read(n, str(system / f"{n}.src"), [str(system / f"{n}.ref")]) for n in ("dev", "select", "test")
    )
    sentences = tuple(line for corpus in (dev, select, test) for line in corpus.source)
    search = SearchOptions(distortion_limit=2)
    used = ReferenceDecoder(str(system / "pt"), str(system / "lm.arpa"), None, search, sentences, size=20)
    limits = LoopOptions(max_iterations=2, min_weight_change=0, rescale=False)
    return Decoding((dev, select), (replace(test, name="test-1"),), used, START, limits, FeatureMaker())


@pytest.fixture(scope="module")
def run(decoding, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    compare_decoded(decoding, folder, OPTIONS, command=["dev.src"])
    return folder


def rows_of(run: Path) -> dict[str, dict]:
    return {row["name"]: row for row in json.loads((run / "results.json").read_text())}


def test_scores_are_those_of_what_each_loop_decodes(run):
    """Every number of a row is of the 1-bests in the folder of its own loop; the known translations are found."""
    found = rows_of(run)
    assert list(found) == SYSTEMS.split(",")
    for name, row in found.items():
        assert len(row["runs"]) == (1 if name == "decoder" else 2)
        for r, scores in enumerate(row["runs"]):
            folder = LoopFolder(
                run / "loops" / f"{name.replace('/', '_').replace(':', '_').replace('=', '_')}{f'.run{r}' if r else ''}"
            )
            if name == "decoder":
                nbest = read_store(run / "loops" / "start" / "test-1.nbest")
            else:
                picked = json.loads((folder.path / "results.json").read_text())["picked"]
                nbest = folder.list(picked, "test-1")
            assert scores["test"]["bleu"] == pytest.approx(Scorer(nbest).score(decoder_choice(nbest), "bleu").score)
    assert found["base/mira:online:c=0.3"]["test"]["bleu"] > found["decoder"]["test"]["bleu"] + 10
    assert found["base-PRO"]["p_value"] is None
    assert 0 < found["decoder"]["p_value"] <= 1
    assert 0 < found["base/mira:online:c=0.3"]["p_stratified"] <= 1
    assert json.loads((run / "config.json").read_text())["command"].startswith("boostfeat compare dev.src --systems decoder,")


def test_choices_are_places_in_the_list_of_all_outputs(run):
    together = read_store(run / "lists" / "test.nbest")
    for row in rows_of(run).values():
        within = np.array(json.loads((run / row["choice"]).read_text())["test"])
        scorer = Scorer(together)
        assert row["runs"][0]["test"]["bleu"] == pytest.approx(scorer.score(within + together.hyp_ptr[:-1], "bleu").score)
    start = read_store(run / "loops" / "start" / "test-1.nbest")
    one = decoded._best(start)
    assert texts(together, choice_of(together, one)) == texts(start, decoder_choice(start))


def test_nothing_is_done_twice(decoding, run, monkeypatch):
    monkeypatch.setattr(WorkersHere, "functions", functions := [])
    before = rows_of(run)
    compare_decoded(decoding, run, OPTIONS, command=["dev.src"])
    assert functions == []
    assert rows_of(run) == before
    with pytest.raises(InputError, match="found decoder made with seed '4', not '5'"):
        compare_decoded(decoding, run, replace(OPTIONS, seed=5))


def test_the_report_has_the_curves_of_online_runs(run):
    data = gather(load_run(run))
    assert [s["name"] for s in data["experiments"]["strategies"]] == SYSTEMS.split(",")[2:]
    curve = data["experiments"]["strategies"][0]
    assert all(low <= high for low, high in zip(curve["low"], curve["high"], strict=True))
    assert len(curve["at"]) == len(curve["y"]) == len(curve["band"]) > 1
    assert [s["name"] for s in data["experiments"]["spreads"]] == SYSTEMS.split(",")[2:]
    assert data["results"][2]["p_stratified"] is not None


def test_a_loop_is_a_comparison_of_its_start(run, tmp_path):
    loop = run / "loops" / "base_mira_online_c_0.3"
    loop_comparison(loop, tmp_path / "made")
    found = json.loads((loop / "results.json").read_text())
    rows = rows_of(tmp_path / "made")
    assert list(rows) == ["start", f"iteration {found['picked']}"]
    for row, key in zip(rows.values(), ("start", "picked"), strict=True):
        assert row["test"]["bleu"] == pytest.approx(found["tests"][0][key]["bleu"])
    assert rows[f"iteration {found['picked']}"]["p_value"] == pytest.approx(found["tests"][0]["p_value"], abs=0.05)
    assert gather(load_run(tmp_path / "made"))["experiments"]["strategies"][0]["name"] == f"iteration {found['picked']}"
    with pytest.raises(InputError, match="expected a finished loop, found none"):
        loop_comparison(tmp_path, tmp_path / "other")
    row = {"seconds": {"decode": 1.5}}
    for results, found in (
        ({"picked": "1"}, "found none"),
        ({"picked": 1, "rows": [{}]}, "found none"),
        ({"picked": 2, "rows": [row]}, "found 2"),
    ):
        (tmp_path / "results.json").write_text(json.dumps(results))
        with pytest.raises(InputError, match=found):
            loop_comparison(tmp_path, tmp_path / "other")


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        ("mbr", "system 'mbr': expected a tuner, boosting or decoder, found another"),
        ("base-PRO:online=true", "system 'base-PRO:online=true': expected a tuner, boosting or decoder"),
        ("boost-global", "expected trees of level local, found global"),
    ],
)
def test_what_no_loop_can_have(decoding, tmp_path, systems, message):
    with pytest.raises(InputError, match=message):
        compare_decoded(decoding, tmp_path / "run", replace(OPTIONS, systems=systems))


def test_any_decoder_by_its_command(decoding, tmp_path):
    """A script that writes the lists it was given, reordered by nothing: all systems decode the same, and say so."""
    listed = tmp_path / "listed.py"
    listed.write_text(
        "import sys\n"
        "source, out = sys.argv[1:3]\n"
        "with open(out, 'w') as stream:\n"
        "    for s, line in enumerate(open(source)):\n"
        "        for o, score in (('a', -1.0), ('b', -2.0)):\n"
        "            words = ' '.join(f't{int(w[1:])}{o}' for w in line.split())\n"
        "            stream.write(f'{s} ||| {words} ||| F0= {score} ||| {score}\\n')\n"
    )
    command = shlex.join([sys.executable, "-S", "-E", str(listed), "{input}", "{nbest}", "{weights}"])
    used = CommandDecoder(command, 20, "name-value")
    own = replace(decoding, decoder=used, start=Model({"F0": 1.0}))
    compare_decoded(own, tmp_path / "run", replace(OPTIONS, systems="decoder,base-PRO", runs=1))
    assert {row["test"]["bleu"] for row in rows_of(tmp_path / "run").values()} == {100.0}
    with pytest.raises(InputError, match="expected the reference decoder for online learning, found a command"):
        compare_decoded(own, tmp_path / "other", OPTIONS)


def test_the_command(boostfeat, tmp_path):
    """On three sentences a set, with the decoder of data/."""
    for name in ("dev", "select", "test"):
        for side in ("src", "ref"):
            lines = (ROOT / "data" / f"{name}.{side}").read_text().splitlines(keepends=True)[:3]
            (tmp_path / f"{name}.{side}").write_text("".join(lines))
    at = {name: str(tmp_path / name) for name in ("dev.src", "dev.ref", "select.src", "select.ref", "test.src", "test.ref")}
    sets = [at["dev.src"], "--ref", at["dev.ref"], "--select", at["select.src"], "--select-ref", at["select.ref"]]
    sets += ["--test", at["test.src"], "--test-ref", at["test.ref"], "--decode", ROOT / "data" / "system" / "moses.ini"]
    how = ["--systems", "decoder,base-PRO", "--max-iterations", 1, "--nbest", 5, "--trials", 10, "--threads", 1]
    code, out, err = boostfeat("compare", *sets, *how, "-o", tmp_path / "run", "-q")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["system", "decoder", "base-PRO"]
    assert (tmp_path / "run" / "table.md").exists()
    code, _, err = boostfeat("compare", "x", "--select", "y", "--test", "z", "--ref", "r", "-o", tmp_path / "other")
    assert (code, err.count("\n")) == (2, 1)
    assert "--ref does nothing without --decode; leave it out" in err


def lists_of(*texts: str) -> NBest:
    """A list for each text: its words are hypotheses of one word, with scores that rise."""
    builder = Builder()
    for s, text in enumerate(texts):
        for k, word in enumerate(text.split()):
            builder.add(HypRecord(s, word, f"list:{s}.{k}", score=float(k)))
    return attach(builder.finish(), source=None, refs=[["x"] * len(texts)], name="list")


def test_a_choice_is_the_first_of_the_same_text():
    """Of the decoder's best, the last word of each list here; an empty list has none."""
    one = _best(lists_of("a b", "", "c", "a"))
    assert (one.text.to_pylist(), one.hyp_ptr.tolist()) == (["b", "c", "a"], [0, 1, 1, 2, 3])
    together = lists_of("a b b", "a", "b c", "b a a")
    assert choice_of(together, one).tolist() == [1, -1, 5, 7]


@pytest.mark.parametrize(("systems", "names"), [("kbmira", ["kbmira"]), ("base/rm", ["decoder", "base/rm"]), ("decoder,base/rm", ["decoder", "base/rm"])])  # fmt: skip
def test_rows_with_features_stand_beside_the_decoder(systems, names):
    assert [s.name for s in decoded_systems(CompareOptions(systems), FeatureMaker())] == names
    assert [s.name for s in decoded_systems(CompareOptions(), FeatureMaker())] == ["decoder", "base-MERT", "base-PRO", "kbmira"]


@pytest.mark.parametrize(
    ("sets", "reported", "rows"),
    [
        (("dev",), {"dev": "dev", "select": "dev", "test": "dev"}, ["start", "iteration 1", "iteration 2"]),
        (("dev", "select"), {"dev": "dev", "select": "select", "test": "select"}, ["start", "iteration 1", "iteration 2"]),
        (
            ("dev", "select", "test-b", "test-a"),
            {"dev": "dev", "select": "select", "test": "test-b", "test2": "test-a"},
            ["start", "iteration 1"],
        ),
    ],
)
def test_a_loop_by_hand_as_a_comparison(tmp_path, sets, reported, rows):
    """Of three iterations the second is picked. Test sets stand in the order in which they were given; without one the last
    iteration is a row too, on select or dev. Iteration k says x in k + 1 of four sentences, which is the reference of all.
    """
    source = LoopFolder(tmp_path / "loop")
    trees = (replace(TREE, name="t0"), replace(TREE, name="t1"))
    for k in range(3):
        source.iteration(k).mkdir(parents=True)
        history = [{"epoch": 1, "dev": 1.0, "oracle": 2.0}] if k == 2 else []
        model = Model({"a": 1.0, "b": 0.0, "c": float(k)}, trees[:k], config={"oracle": "hope"}, history=history)
        model.save(source.iteration(k) / "model.json")
        for n, name in enumerate(sets):
            source.keep_list(k, name, lists_of(*["y x"] * (k + 1), *["x y"] * (3 - k), *["y z"] * n))
    told = {"picked": 1, "rows": [{"seconds": {"learn": 1.0, "decode": 0.25463}}, {"seconds": {"learn": 2.0}}, {"seconds": {"learn": 9.0}}]}  # fmt: skip
    tests = [{"name": name} for name in sets[2:]]
    (source.path / "results.json").write_text(json.dumps({**told, **({"tests": tests} if tests else {})}))
    made_from = {"learner method": "induce", "learner level": "global", "loop metric": "ter"}
    (source.path / "config.json").write_text(json.dumps({"made_from": made_from}))
    loop_comparison(source.path, tmp_path / "made")
    found = rows_of(tmp_path / "made")
    assert list(found) == rows
    assert {which: found["start"][which] is None for which in ("dev", "select", "test")} == dict.fromkeys(
        ("dev", "select", "test"), False
    )
    config = json.loads((tmp_path / "made" / "config.json").read_text())
    assert config["command"] == f"boostfeat loop ... -o {source.path}"
    assert {which: given["sentences"] - 4 for which, given in config["inputs"].items()} == {
        which: sets.index(name) for which, name in reported.items()
    }
    for k, row in enumerate(found.values()):
        methods = ("decoder", "boost-global", "boost-global")
        about = [row[name] for name in ("method", "features", "trees", "epochs", "seconds", "search_seconds", "peak_mb", "chosen", "tried")]  # fmt: skip
        seconds = (1.255, 3.255, 12.255)[k]
        assert about == [methods[k], (1, 3, 4)[k], k, k, seconds, seconds, None, {"iteration": k}, []]
        assert (row["metric"], row["model"]) == ("ter", f"models/{k}.json")
        for which, name in reported.items():
            of = row["tests"][which] if "test2" in reported and which.startswith("test") else row[which]
            wrong = 3 - k + sets.index(name)  # of the sentences, an edit each
            assert of["ter"] == pytest.approx(100 * wrong / (4 + sets.index(name)))
        assert (row["p_value"] is None) == (k == 0)
    histories = [Model.load(tmp_path / "made" / row["model"]).history for row in found.values()]
    assert histories == [(), *[({"epoch": 1, "dev": 1.0, "oracle": 2.0},)] * (len(rows) - 1)]


def test_what_a_loop_learns_with(tmp_path):
    """By its config: the tuner, the one that learns online, boosting by its level, and PRO where nothing is said."""
    source = LoopFolder(tmp_path / "loop")
    for k in range(2):
        source.iteration(k).mkdir(parents=True)
        Model({"a": 1.0}).save(source.iteration(k) / "model.json")
        source.keep_list(k, "dev", lists_of("x y"))
    (source.path / "results.json").write_text(json.dumps({"picked": 1, "rows": [{"seconds": {}}] * 2}))
    for made_from, method in (
        ({"learner method": "mert"}, "mert"),
        ({"learner method": "arow"}, "arow"),
        ({"learner online": "rm"}, "rm"),
        ({"learner method": "induce"}, "boost-local"),
        ({}, "pro"),
    ):
        (source.path / "config.json").write_text(json.dumps({"made_from": made_from}))
        loop_comparison(source.path, tmp_path / "made")
        found = rows_of(tmp_path / "made")
        assert {name: (row["method"], row["metric"]) for name, row in found.items()} == {
            "start": ("decoder", "bleu-sbp"),
            "iteration 1": (method, "bleu-sbp"),
        }


def test_what_is_kept_of_loops(run):
    """Of both runs of PRO: the iterations picked, and times of a loop and of all; against the folders of the loops."""
    state = json.loads((run / "systems" / "base-PRO.json").read_text())
    loops = [json.loads((run / "loops" / name / "results.json").read_text()) for name in ("base-PRO", "base-PRO.run1")]
    assert state["picked"] == [loop["picked"] for loop in loops]
    assert state["models"] == ["models/base-PRO.json", "models/base-PRO.run1.json"]
    assert state["chosen"] == {"alpha": 1.0, "keep": 100, "l2": 1.0, "iteration": loops[0]["picked"]}
    model = Model.load(run / state["models"][0])
    assert (state["features"], state["trees"], state["tried"]) == (sum(w != 0 for w in model.weights.values()), 0, [])
    assert (state["epochs"], state["peak_mb"]) == (len(loops[0]["rows"]) - 1, 64.3)
    seconds = [sum(sum(row["seconds"].values()) for row in loop["rows"]) for loop in loops]
    assert state["search_seconds"] == pytest.approx(sum(seconds), abs=2e-3)
    assert state["seconds"] == pytest.approx(sum(seconds) / 2, abs=2e-3)
    seeds = [json.loads((run / "loops" / name / "config.json").read_text())["made_from"]["loop seed"] for name in ("base-PRO", "base-PRO.run1")]  # fmt: skip
    assert seeds == [4, 5]
    nothing = json.loads((run / "systems" / "decoder.json").read_text())
    kept = ("picked", "models", "chosen", "tried", "features", "trees", "epochs", "seconds", "search_seconds", "peak_mb")
    assert [nothing[name] for name in kept] == [[], [], {}, [], 5, 0, 0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("feature_set", "templates"), [("base", None), ("al", "al"), ("pt+bi", "pt,bi")])
def test_rows_with_features_need_a_decoder_that_computes_them(decoding, monkeypatch, feature_set, templates):
    (_, system) = parse_systems(f"decoder,{feature_set}/pro")
    other = replace(decoding, decoder=CommandDecoder("d {weights}"))
    if templates:
        with pytest.raises(InputError, match="--templates: expected a decoder that computes them"):
            decoded.check_decodable(system, other)
    else:
        decoded.check_decodable(system, other)
    decoded.check_decodable(system, decoding)
    monkeypatch.setattr(decoded.LoopFeatures, "of", lambda maker, what, start, gain: (what, start, gain))
    learner, features = decoded.learner_of(system, decoding, replace(OPTIONS, gain="chrf"))
    assert features == ((templates, START, "chrf") if templates else None)
    assert (learner.method, learner.metric, learner.gain, learner.pick) == ("pro", "bleu", "chrf", "auto")


def test_a_loop_of_one_iteration(tmp_path):
    """The start alone: it is the iteration picked, and the last."""
    source = LoopFolder(tmp_path / "loop")
    source.iteration(0).mkdir(parents=True)
    Model({"a": 1.0}).save(source.iteration(0) / "model.json")
    source.keep_list(0, "dev", lists_of("x y"))
    source.keep_list(0, "select", lists_of("x y", "y x"))
    (source.path / "results.json").write_text(json.dumps({"picked": 0, "rows": [{"seconds": {}}]}))
    loop_comparison(source.path, tmp_path / "made")
    assert list(rows_of(tmp_path / "made")) == ["start", "iteration 0"]
    inputs = json.loads((tmp_path / "made" / "config.json").read_text())["inputs"]
    assert {which: given["sentences"] for which, given in inputs.items()} == {"dev": 1, "select": 2, "test": 2}
