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

from boostfeat.compare import decoded
from boostfeat.compare.decoded import (
    Decoding,
    _best,
    _finished,
    choice_of,
    compare_decoded,
    curve_labels,
    decoded_systems,
    first_of_grid,
    loop_comparison,
    loop_folder,
)
from boostfeat.compare.options import CompareOptions, DecodedFiles
from boostfeat.compare.runner import Folder
from boostfeat.compare.systems import parse_systems
from boostfeat.core.errors import InputError
from boostfeat.decoder.options import SearchOptions
from boostfeat.features.carried import FeatureMaker
from boostfeat.lists.build import Builder, HypRecord, attach
from boostfeat.lists.choices import Scorer, decoder_choice, texts
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.loop.decoders import CommandDecoder, Corpus
from boostfeat.loop.folder import Folder as LoopFolder
from boostfeat.loop.options import LoopOptions
from boostfeat.loop.reference import ReferenceDecoder
from boostfeat.model.model import Model
from boostfeat.report import gather
from boostfeat.report.run import load_run

ROOT = Path(__file__).parents[2]
SYSTEMS = "decoder,base-PRO,base/mira:online:c=0.3,base/adagrad:online"
OPTIONS = CompareOptions(SYSTEMS, runs=2, trials=50, metric="bleu", seed=4)


@pytest.fixture(scope="module")
def decoding(tmp_path_factory) -> Decoding:
    system = write_known_system(tmp_path_factory.mktemp("system"))
    dev, select, test = (Corpus.read(n, str(system / f"{n}.src"), [str(system / f"{n}.ref")]) for n in ("dev", "select", "test"))
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
    assert {"dev", "oracle", "prediction", "spread_mean"} <= set(data["experiments"]["strategies"][0]["history"][-1])
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
    assert gather(load_run(tmp_path / "made"))["experiments"]["strategies"][0]["name"] == "mira"
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
    assert "expected --decode INI with them, found none" in err


@pytest.mark.quick
def test_flags_say_what_was_given():
    assert DecodedFiles(ref=["a", "b"], nbest=5).flags() == ["--ref", "a", "--ref", "b", "--nbest", "5"]
    assert DecodedFiles().flags() == []


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


@pytest.mark.parametrize(
    ("picked", "rows", "is_fine"), [(0, 1, True), (1, 2, True), (1, 1, False), (-1, 1, False), (0, 0, False)]
)
def test_the_iteration_picked_is_one_of_them(tmp_path, picked, rows, is_fine):
    found = {"picked": picked, "rows": [{"seconds": {"learn": 1.0}}] * rows}
    (tmp_path / "results.json").write_text(json.dumps(found))
    if is_fine:
        assert _finished(LoopFolder(tmp_path)).picked == picked
        return
    with pytest.raises(InputError, match=f"expected the iteration picked among {rows}, found {picked}"):
        _finished(LoopFolder(tmp_path))


def test_a_loop_that_is_not_finished(tmp_path):
    with pytest.raises(InputError, match="expected a finished loop, found none; finish it with 'boostfeat loop --resume'"):
        _finished(LoopFolder(tmp_path))


def test_what_curves_are_called():
    assert curve_labels(Model({})) == {"oracle": "best gain", "prediction": "model's best"}
    assert curve_labels(Model({}, config={"oracle": "lu", "prediction": "pb"})) == {"oracle": "lu", "prediction": "pb"}


def test_names_of_sets_and_first_settings():
    """dev and select as they are called, test sets in their order; of grids the first value of each."""
    corpora = tuple(Corpus(name, ("a",), (("b",),)) for name in ("dev", "select"))
    tests = tuple(Corpus(f"test-{k}", (f"{k}",), (("b",),)) for k in range(3))
    made = Decoding(corpora, tests, None, Model({}), LoopOptions(), FeatureMaker())
    assert {name: corpus.name for name, corpus in made.sets.items()} == {
        "dev": "dev", "select": "select", "test": "test-0", "test2": "test-1", "test3": "test-2",
    }  # fmt: skip
    names = {s.name: first_of_grid(s) for s in parse_systems("decoder,kbmira,base/rm,base/rm:b=2")}
    assert names == {
        "decoder": {},
        "kbmira": {"c": 0.01},
        "base/rm": {"c": 0.01, "b": 1.0, "d": 0.01},
        "base/rm:b=2": {"c": 0.01, "d": 0.01},
    }
    folders = [loop_folder(Folder(Path("run")), parse_systems("decoder,base/rm")[1], k) for k in (0, 2)]
    assert folders == [Path("run/loops/base_rm"), Path("run/loops/base_rm.run2")]


@pytest.mark.parametrize(("systems", "names"), [("kbmira", ["kbmira"]), ("base/rm", ["decoder", "base/rm"]), ("decoder,base/rm", ["decoder", "base/rm"])])  # fmt: skip
def test_rows_with_features_stand_beside_the_decoder(systems, names):
    assert [s.name for s in decoded_systems(CompareOptions(systems), FeatureMaker())] == names
    assert [s.name for s in decoded_systems(CompareOptions(), FeatureMaker())] == ["decoder", "base-MERT", "base-PRO", "kbmira"]
