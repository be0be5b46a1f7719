"""``boostfeat compare``: its folder, what it reports, how it goes on, and what it refuses."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_here import search
from synthetic import SyntheticOptions, synthetic_nbest, write_lists
from workers_here import WorkersHere

from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.estimator import BoostReranker
from boostfeat.boosting.induce import induce
from boostfeat.compare import tasks
from boostfeat.compare.comparison_options import as_words
from boostfeat.compare.runner import CompareOptions, compare
from boostfeat.compare.systems import fit, parse_systems
from boostfeat.compare.tasks import METRICS, KeptFits, write_featurized
from boostfeat.core.errors import InputError
from boostfeat.core.files import only_writer
from boostfeat.core.processes import peak_mb
from boostfeat.features.feature_maker import FeatureMaker
from boostfeat.features.resources import ResourceFiles
from boostfeat.lists.choices import Scorer, decoder_choice, oracle_choice
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.search.loop.graph_lists import only_features
from boostfeat.tuners import tuner_class

ROOT = Path(__file__).parents[2]
SMALL = SyntheticOptions(sentences=40, hyps=12, features=5)
# base/pro is base-PRO by another name: identical systems
OPTIONS = CompareOptions("decoder,base-PRO,base/pro,boost-local", runs=2, search="none", rounds=3, trials=200, seed=5)
PART = replace(OPTIONS, systems="decoder,base-PRO", rounds=None)


@pytest.fixture(scope="module")
def lists(tmp_path_factory) -> dict[str, str]:
    return write_lists(tmp_path_factory.mktemp("lists"), SMALL)


@pytest.fixture(scope="module")
def whole(lists, tmp_path_factory) -> Path:
    """A finished comparison."""
    run = tmp_path_factory.mktemp("whole")
    compare(lists, run, OPTIONS, threads=2)
    return run


def results(run: Path) -> dict[str, dict]:
    return {r["name"]: r for r in json.loads((run / "results.json").read_text())}


# -- what it reports ----------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_saved_models(lists, whole):
    found = results(whole)
    assert list(found) == ["decoder", "base-PRO", "base/pro", "boost-local"]
    for name, row in found.items():
        choices = json.loads((whole / row["choice"]).read_text())
        for which, path in lists.items():
            nbest = read_store(path)
            scorer = Scorer(nbest)
            model = Model.load(whole / row["model"]) if row["model"] else None
            chosen = model.predict(FeatureMaker().for_model(nbest, model)) if model else decoder_choice(nbest)
            assert choices[which] == (chosen - nbest.hyp_ptr[:-1]).tolist()
            first = row["runs"][0][which]
            for metric in METRICS:
                assert first[metric] == scorer.score(chosen, metric).score
            sums = scorer.rows(chosen, "bleu").sum(axis=0)
            assert first["length_ratio"] == sums[8] / sums[9]
            decoder, oracle = (scorer.score(c, "bleu-sbp").score for c in (decoder_choice(nbest), oracle_choice(nbest)))
            assert first["oracle_gap"] == pytest.approx((first["bleu-sbp"] - decoder) / (oracle - decoder))
            for metric in METRICS:
                assert row[which][metric] == pytest.approx(np.mean([r[which][metric] for r in row["runs"]]))
        assert row["confidence"][0] < row["runs"][0]["test"]["bleu-sbp"] < row["confidence"][1]
        assert row["peak_mb"] == (64.3 if row["model"] else pytest.approx(peak_mb(), rel=0.5))  # as the workers say, or here
        assert row["features"] == (5 if name != "boost-local" else sum(map(bool, model.weights.values())) + row["trees"])
    assert found["boost-local"]["level"] == "local"
    assert found["decoder"]["test"]["oracle_gap"] == 0


def test_runs_have_seeds_of_their_own(lists, whole):
    row = results(whole)["base-PRO"]
    assert [r["seed"] for r in row["runs"]] == [5, 6]
    assert row["sd"]["bleu-sbp"] == pytest.approx(np.std([r["test"]["bleu-sbp"] for r in row["runs"]], ddof=1))
    assert Model.load(whole / "models/base-PRO.run1.json").config["seed"] == 6
    again = tuner_class("pro")(alpha=1.0, keep=100, l2=1.0)
    dev, select = read_store(lists["dev"]), read_store(lists["select"])
    options = CompareOptions(search="none", seed=6)
    assert dict(fit(parse_systems("base-PRO")[0], dev, select, row["chosen"], options).weights) == dict(
        Model.load(whole / "models/base-PRO.run1.json").weights
    )
    assert row["chosen"] == {k: getattr(again, k) for k in ("alpha", "keep", "l2")}


def test_significance_against_the_baseline(whole):
    found = results(whole)
    assert [found["base-PRO"][k] for k in ("p_value", "p_bootstrap", "p_stratified")] == [None] * 3
    same = found["base/pro"]
    assert same["test"] == found["base-PRO"]["test"]
    assert (same["p_value"], same["p_bootstrap"], same["p_stratified"]) == (1.0, 1.0, 1.0)
    assert same["p_values"]["bleu"]["randomisation"] == 1.0
    for name in ("decoder", "boost-local"):
        row = found[name]
        assert row["p_values"]["bleu-sbp"]["randomisation"] == row["p_value"]
        assert all(1 / 201 <= row[k] <= 1 for k in ("p_value", "p_bootstrap", "p_stratified"))


# -- how it goes on -----------------------------------------------------------------------------------------------------


def without_measurements(run: Path) -> list[dict]:
    rows = json.loads((run / "results.json").read_text())
    return [{k: v for k, v in row.items() if k not in ("seconds", "search_seconds", "peak_mb")} for row in rows]


@pytest.mark.usefixtures("_workers_elsewhere")
def test_killed_after_the_first_system_it_goes_on(lists, whole, tmp_path, monkeypatch):
    command = [sys.executable, "-m", "boostfeat", "compare", lists["dev"], "--select", lists["select"], "--test", lists["test"],
               *as_words(PART), "-o", str(tmp_path / "run"), "--threads", "2"]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT)
    kept = tmp_path / "run/systems/decoder.json"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None and not kept.exists():
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert kept.exists()
    assert not (tmp_path / "run/results.json").exists()
    assert "scores" not in json.loads(kept.read_text())  # nothing of test before all choices are final
    before = json.loads(kept.read_text())
    notes: list[str] = []
    monkeypatch.setenv("PYTHONHASHSEED", "7")  # of the processes that do the work
    compare(lists, tmp_path / "run", PART, report=notes.append)
    assert "decoder: finished already" in notes
    assert "base-PRO: finished already" not in notes
    after = json.loads(kept.read_text())
    assert {name: after[name] for name in before} == before
    # an uninterrupted run, with other threads and hash seed and with more systems, gives these the same results
    assert without_measurements(tmp_path / "run") == without_measurements(whole)[:2]


def test_nothing_is_done_twice(lists, whole):
    notes: list[str] = []
    before = (whole / "results.json").read_bytes()
    compare(lists, whole, OPTIONS, report=notes.append)
    assert notes == [*(f"{name}: finished already" for name in results(whole)), "significance"]
    assert (whole / "results.json").read_bytes() == before


def test_another_comparison_is_refused(lists, whole, tmp_path):
    write_store(synthetic_nbest(SMALL, seed=9), other := str(tmp_path / "other.nbest"))
    with pytest.raises(
        InputError, match="found decoder made with another dev list; choose another -o, or replace it with --force"
    ):
        compare({**lists, "dev": other}, whole, OPTIONS)
    with pytest.raises(InputError, match="found decoder made with seed '5', not '6'"):
        compare(lists, whole, replace(OPTIONS, seed=6))


@pytest.fixture
def fits(monkeypatch) -> Callable[[], int]:
    """How many fits there were since it was last asked."""
    monkeypatch.setattr(WorkersHere, "functions", functions := [])

    def since() -> int:
        count = functions.count("fit_in_worker")
        functions.clear()
        return count

    return since


def test_what_systems_share_is_fitted_once(lists, fits, tmp_path):
    """MBR and the paper's boosting choose α, K and L2 by PRO's fits; rows that are one run are fitted once."""
    few = CompareOptions("base-PRO,base/pro,mbr,boost-local:paper:constant:max_leaves=2", rounds=2, trials=20)
    compare(lists, tmp_path / "run", few)
    assert fits() == 8 + 5 + 1  # of PRO, of MBR's scales, of boosting
    tried = {name: len(row["tried"]) for name, row in results(tmp_path / "run").items()}
    assert list(tried.values()) == [8, 8, 13, 9]


def test_a_killed_search_goes_on_from_its_fits(lists, fits, tmp_path, monkeypatch):
    options = CompareOptions("base-PRO", trials=20)
    keep, kept = KeptFits.keep, []

    def until_five(self, *args):
        keep(self, *args)
        kept.append(args)
        if len(kept) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeptFits, "keep", until_five)
        with pytest.raises(KeyboardInterrupt):
            compare(lists, tmp_path / "run", options)
    assert fits() == 5
    compare(lists, tmp_path / "run", options)
    assert fits() == 3
    compare(lists, tmp_path / "again", options)  # a folder beside it
    assert fits() == 0
    assert without_measurements(tmp_path / "run") == without_measurements(tmp_path / "again")
    compare(lists, tmp_path / "other", replace(options, seed=1))
    assert fits() == 8
    some = next((tmp_path / "run" / "fits").iterdir())
    some.write_bytes(some.read_bytes()[:100])  # half a file is none
    compare(lists, tmp_path / "elsewhere" / "run", options)
    assert fits() == 8


def test_lists_with_features_are_taken_over_from_a_run_beside(lists, tmp_path, monkeypatch):
    options = CompareOptions("large/pro", search="none", trials=20)
    compare(lists, tmp_path / "run", options)
    first, again = (tmp_path / run / "features" / "large" for run in ("run", "again"))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "write_featurized", lambda source, path, *how, report: pytest.fail(f"{path} is made anew"))
        compare(lists, tmp_path / "again", options)
        assert {p.name: p.read_bytes() for p in first.iterdir()} == {p.name: p.read_bytes() for p in again.iterdir()}
        for run in (first, again):
            mark = json.loads((run / "dev.json").read_text())
            (run / "dev.json").write_text(json.dumps({**mark, "code": "of another commit"}))
        with pytest.raises(pytest.fail.Exception, match="made anew"):
            compare(lists, tmp_path / "third", options)


@pytest.mark.usefixtures("_workers_elsewhere")
def test_results_do_not_depend_on_the_number_of_workers(lists, whole, tmp_path):
    (tmp_path / "folder").mkdir()  # nothing is beside it
    compare(lists, tmp_path / "folder" / "run", OPTIONS, threads=1)
    assert without_measurements(tmp_path / "folder" / "run") == without_measurements(whole)


@pytest.mark.parametrize(
    ("name", "flags"), [("boost-local", []), ("boost-global", ["--level", "global"]), ("linear", ["--rounds", 0])]
)
def test_rows_are_what_induce_learns(boostfeat, lists, tmp_path, name, flags):
    """The command, the function, the estimator and the row learn the same bytes, templates, decision and all."""
    rounds = [] if "--rounds" in flags else ["--rounds", 4]
    command = ["induce", lists["dev"], "--select", lists["select"], "--seed", 7, *flags, *rounds]
    assert boostfeat(*command, "-o", tmp_path / "m.json", "-q")[0] == 0
    expected = Model.load(tmp_path / "m.json")
    changes = {"level": "global" if name == "boost-global" else "local", "rounds": 0 if name == "linear" else 4}
    dev, select = read_store(lists["dev"]), read_store(lists["select"])
    compare(lists, tmp_path / "run", CompareOptions(name, rounds=None if name == "linear" else 4, trials=9, seed=7))
    row = Model.load(tmp_path / "run" / "models" / f"{name}.json")
    function = induce(dev, select, recipe("default", **changes), seed=7)
    estimator = BoostReranker(random_state=7, **changes).fit(dev, select=select).model_
    assert expected.plan is not None
    for found in (row, function, estimator):
        assert found.to_json() == expected.to_json()


# -- systems and hyper-parameters ---------------------------------------------------------------------------------------


def test_folds_choose_the_settings_of_pairs(lists):
    """[TA13 footnote 1]: a point's score is the mean over three folds of dev, each scored by the model of the two others."""
    dev, select = read_store(lists["dev"]), read_store(lists["select"])
    found = search(parse_systems("base-PRO")[0], dev, select, CompareOptions(search="folds", seed=2))
    assert [t.get("folds") for t in found.tried] == [3] * 8 + [None]
    assert found.params == max(found.tried[:8], key=lambda t: t["select"])["params"]
    scores = []
    for train, held_out in dev.split_sentences(3, seed=2):
        model = fit(parse_systems("base-PRO")[0], dev.take(train), select, found.tried[3]["params"], CompareOptions(seed=2))
        part = dev.take(held_out)
        scores.append(Scorer(part).score(model.predict(part), "bleu-sbp").score)
    assert found.tried[3]["select"] == pytest.approx(np.mean(scores))
    assert (
        Scorer(select).score(found.runs[0].model.predict(select), "bleu-sbp").score
        == found.runs[0].select
        == found.tried[8]["select"]
    )


# -- the command --------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_table_and_json(boostfeat, lists, whole):
    sets = [lists["dev"], "--select", lists["select"], "--test", lists["test"]]
    command = ["compare", *sets, *as_words(OPTIONS), "-o", str(whole)]
    code, out, err = boostfeat(*command, "-q")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["system", *results(whole)]
    assert f" {results(whole)['boost-local']['test']['bleu-sbp']:.2f} " in lines[-1]
    _, out, _ = boostfeat(*command, "-q", "--json")
    assert json.loads(out)["systems"] == list(results(whole).values())


# -- what goes wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--systems", "frob"], "unknown system 'frob': expected one of decoder, base-MERT"),
        (["--systems", "base/frob"], "unknown method of 'base/frob' 'frob': expected one of pro, mert"),
        (["--systems", "base/pro:linear"], "system 'base/pro:linear': expected one of hm11 or NAME=VALUE of"),
        (["--systems", "base/boost-local:round"], "system 'base/boost-local:round': expected one of constant, linear"),
        (["--systems", "huge/pro"], "unknown features of 'huge/pro' 'huge': expected one of base, large"),
        (["--systems", ","], "--systems: expected names separated by commas, found none"),
        (["--search", "luck"], "unknown search 'luck': expected one of grid, halving, folds, none"),
        (["--metric", "meteor"], "unknown metric 'meteor': expected one of bleu, bleu-sbp"),
        (["--systems", "decoder", "--baseline", "x"], "--baseline: expected one of the compared systems (decoder), found 'x'"),
        (["--runs", "0"], "--runs"),
        (["--frob"], "No such option: --frob"),
        (["--select", "{tmp}/none"], "none: expected a file, found none"),
        (["--select", "-"], "expected files, found '-'"),
        (["--select", "{tmp}/unreferenced"], "unreferenced: bleu: expected a list with references, found one without; import it with -r"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line_and_exit_code_2(boostfeat, lists, tmp_path, arguments, message):
    nbest = read_store(lists["dev"])
    write_store(replace(nbest, stats=np.zeros((0, 6), np.int32)), tmp_path / "unreferenced")
    given = dict(zip(["--select", "--test", "-o"], [lists["select"], lists["test"], str(tmp_path / "run")], strict=True))
    options = [a.format(tmp=tmp_path) for a in arguments]
    if options[0] in given:
        del given[options[0]]
    code, out, err = boostfeat("compare", lists["dev"], *(part for pair in given.items() for part in pair), *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_lists_of_the_same_sentences_need_force(lists, tmp_path):
    same = {**lists, "test": lists["select"]}
    one = replace(OPTIONS, systems="decoder", trials=5)
    with pytest.raises(InputError, match="select and test: expected lists of different sentences, found the same 40 in both"):
        compare(same, tmp_path / "run", one)
    assert not (tmp_path / "run").exists()
    warnings: list[str] = []
    compare(same, tmp_path / "run", one, force=True, warn=warnings.append)
    assert warnings == [
        "select and test share 40 sentences (100% of test): what is learned or chosen on them looks too good there"
    ]
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_folder_at_work_is_left_alone(lists, whole):
    with only_writer(whole), pytest.raises(InputError, match="found one at work, process"):
        compare(lists, whole, OPTIONS)


def test_lists_of_other_features_are_refused(lists, tmp_path):
    nbest = read_store(lists["test"])
    write_store(replace(nbest, unit_names=("other", *nbest.unit_names[1:])), tmp_path / "other.nbest")
    other = {**lists, "test": str(tmp_path / "other.nbest")}
    with pytest.raises(InputError, match=f"test: expected the features of dev, found none of {nbest.unit_names[0]}"):
        compare(other, tmp_path / "run", OPTIONS)
    warnings: list[str] = []
    compare(other, tmp_path / "run", replace(OPTIONS, systems="decoder", trials=5), allow_missing=True, warn=warnings.append)
    assert warnings[0].startswith(f"test lacks {nbest.unit_names[0]} of dev, which count as 0")


def test_wide_shows_all_columns(boostfeat, lists, whole, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    sets = [lists["dev"], "--select", lists["select"], "--test", lists["test"]]
    command = ["compare", *sets, *as_words(OPTIONS), "-o", str(whole)]
    _, out, err = boostfeat(*command, "--wide")
    assert {"MB", "length", "TER"} <= set(out.splitlines()[0].split())
    assert "do not fit" not in err
    assert re.search(r"-> \S+ in \d+\.\d s\n$", err)


# -- files that templates read ------------------------------------------------------------------------------------------


@pytest.fixture
def raw_lists(data_stores, tmp_path) -> dict[str, Path]:
    """Short lists of data/ as a stock Moses writes them."""
    out = {name: tmp_path / f"{name}.nbest" for name in ("dev", "select", "test")}
    for name, path in out.items():
        raw = read_store(data_stores / f"{name}.nbest")[:15]
        write_store(only_features(raw, set(raw.feature_names) - {"count.log"}), path)
    return out


@pytest.fixture
def resources(tmp_path) -> ResourceFiles:
    for name in ("src", "ref"):
        (tmp_path / name).write_text("".join((ROOT / "data" / f"dev.{name}").read_text().splitlines(keepends=True)[:40]))
    table = str(ROOT / "data" / "system" / "phrase-table.xz")
    return ResourceFiles(phrase_table=table, bitext=(str(tmp_path / "src"), str(tmp_path / "ref")))


COUNTED = "phrase_count+lexical_weight+length"


def test_rows_with_features_have_counts_and_lexical_weights(raw_lists, resources, tmp_path):
    """As a set ``large`` takes them up where their files are given."""
    assert {e.name for e in FeatureMaker(resources).plan("large").entries} >= {"phrase_count", "lexical_weight"}
    for which in ("dev", "select"):
        made = str(tmp_path / "made" / f"{which}.nbest")
        Path(made).parent.mkdir(exist_ok=True)
        write_featurized(str(raw_lists[which]), made, COUNTED, which, CompareOptions(), resources, 1, report=print)
        assert {"count.1", "lex.tgt|src", "len.src"} <= set(read_store(made).unit_names)


def test_files_that_no_row_reads_are_refused(raw_lists, resources, tmp_path):
    with pytest.raises(InputError, match="--phrase-table: expected systems with features, as large/pro, found none"):
        compare(raw_lists, tmp_path / "run", PART, files=resources)


@pytest.mark.slow
def test_a_run_keeps_to_its_files(boostfeat, raw_lists, resources, tmp_path):
    lists = [raw_lists["dev"], "--select", raw_lists["select"], "--test", raw_lists["test"]]
    words = ["compare", *lists, "--search", "none", "--trials", 100, "--systems", f"decoder,{COUNTED}/pro", "-q"]
    code, _, err = boostfeat(*words, *as_words(resources), "-o", tmp_path / "run")
    assert code == 0, err
    weights = Model.load(tmp_path / "run" / results(tmp_path / "run")[f"{COUNTED}/pro"]["model"]).weights
    assert {"count.1", "lex.tgt|src", "len.src"} <= set(weights)
    assert str(resources.phrase_table) in json.loads((tmp_path / "run" / "config.json").read_text())["command"]
    code, _, err = boostfeat(*words, "-o", tmp_path / "run")
    assert (code, "resources" in err, err.count("\n")) == (2, True, 1)
