"""Rows with options, several test lists, times, and what else tables of the papers need of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden import check_golden
from synthetic import SyntheticOptions, synthetic_nbest, write_lists

from boostfeat.compare.comparison_options import PRESETS, as_words
from boostfeat.compare.runner import CompareOptions, compare
from boostfeat.compare.systems import fit, parse_systems, stages
from boostfeat.compare.table import table_rows
from boostfeat.core.errors import InputError
from boostfeat.lists.choices import Scorer
from boostfeat.lists.store import read_store, write_store
from boostfeat.metrics.significance import approximate_randomisation, exact_sums
from boostfeat.report.run_folder import load_run
from boostfeat.tuners.base import decoder_weights

SMALL = SyntheticOptions(sentences=25, hyps=10, features=4)
SYSTEMS = "base-PRO,base/mira:lu-pb:epochs=2,base/mira:max-bleu-pb:epochs=2,bi/adagrad:epochs=1:l1=0"
OPTIONS = CompareOptions(SYSTEMS, search="none", trials=60, metric="bleu", seed=3)


def row_of(name: str):
    return parse_systems(f"base-PRO,{name}")[1]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("base-MERT:paper", {"restarts": 20, "rounds": 1, "pick": "train", "init": "decoder"}),
        ("base/mira:lu-mc", {"oracle": "lu", "prediction": "mc"}),
        ("sparse/rm:paper:d=0.1:shards=3", {**PRESETS["rm"]["paper"], "d": 0.1, "shards": 3}),
        ("base/adagrad:paper", PRESETS["adagrad"]["paper"]),
        ("large/boost-local:max-leaves=8:pairs=300", {"max_leaves": 8, "keep": 300}),
        ("kbmira:init=decoder", {"init": "decoder"}),
        ("base/mbr:l2=3", {"l2": 3.0}),
    ],
)
def test_a_row_says_its_options(name, changes):
    system = row_of(name)
    assert (system.name, dict(system.changes)) == (name, changes)
    assert not {option for stage in stages(system) for option in stage.grid} & set(changes)  # what is said is not searched


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("base/mira:soup", "expected one of paper, lu-pb, lu-mc"),
        (
            "base/mira:frob=1",
            ".* or NAME=VALUE of c, k, oracle, prediction, epochs.*pick, init, online, graphs after ':', found 'frob=1'",
        ),
        ("base/mira:c=-1", "c: expected a number above 0, found -1"),
        ("base/mira:c=much", "c: expected a number above 0, found 'much'"),
        ("base/mira:oracle=soup", "unknown oracle 'soup': expected one of lu, hope, max-bleu"),
        ("base/mira:pick=best", "unknown pick 'best': expected one of auto, train, last"),
        ("boost-local:rounds=-1", "rounds: expected 0 or more, found -1"),
        ("decoder:paper", "expected nothing after ':', found 'paper'"),
    ],
)
def test_what_a_row_cannot_say(name, message):
    with pytest.raises(InputError, match=f"system '{name}': {message}"):
        row_of(name)


def test_presets_are_options_of_their_methods(tmp_path):
    """Every preset fits, and says in the model what it set."""
    dev, select = (synthetic_nbest(replace(SMALL, sentences=8), seed=s) for s in (0, 1))
    for method, presets in PRESETS.items():
        for name in ("paper",) if "paper" in presets else presets:
            few = {"mert": ":restarts=1"}.get(method, ":epochs=1")
            system = row_of(f"base/{method}:{name}{few}")
            params = {k: v[0] for stage in stages(system) for k, v in stage.grid.items()}
            config = fit(system, dev, select, params, CompareOptions(search="none")).config
            for key, value in system.changes.items():
                assert key == "init" or config[key] == value


def test_the_start_of_a_row_is_the_decoders_weights():
    """With steps too small to matter, the weights are where they began."""
    dev, select = (synthetic_nbest(SMALL, seed=s) for s in (0, 1))
    (found, _), options = decoder_weights(dev), CompareOptions(search="none")
    model = fit(row_of("base/mira:init=decoder:c=1e-12:epochs=1"), dev, select, {}, options)
    assert dict(model.weights) == pytest.approx(found, abs=1e-6)
    assert not any(abs(w) > 1e-6 for w in fit(row_of("base/mira:c=1e-12:epochs=1"), dev, select, {}, options).weights.values())


def test_mert_of_the_papers_takes_the_best_on_dev():
    dev, select = (synthetic_nbest(SMALL, seed=s) for s in (0, 1))
    paper = fit(row_of("base-MERT:paper:epochs=4:init=zero"), dev, select, {}, CompareOptions(search="none"))
    ours = fit(row_of("base-MERT:restarts=20:epochs=4"), dev, select, {}, CompareOptions(search="none"))
    assert [row["dev"] for row in paper.history] == [row["dev"] for row in ours.history]  # the same search
    assert paper.config["epoch"] == int(np.argmax([row["dev"] for row in paper.history]))
    assert ours.config["epoch"] == int(np.argmax([row["select"] for row in ours.history]))


# -- several test lists -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lists(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("lists")
    found = write_lists(folder, SMALL)
    write_store(synthetic_nbest(replace(SMALL, sentences=15), seed=77), folder / "more.nbest")
    return {**found, "test2": str(folder / "more.nbest")}


@pytest.fixture(scope="module")
def run(lists, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    compare(lists, folder, OPTIONS, threads=2)
    return folder


def test_each_test_list_has_its_scores_and_p_values(lists, run):
    found = json.loads((run / "results.json").read_text())
    for row in found:
        chosen, base = (json.loads((run / r["choice"]).read_text()) for r in (row, found[0]))
        assert list(chosen) == ["test", "test2", "dev", "select"]
        for which in ("test", "test2"):
            scorer = Scorer(nbest := read_store(lists[which]))
            picked, other = (np.array(c[which]) + nbest.hyp_ptr[:-1] for c in (chosen, base))
            assert row["tests"][which]["bleu"] == scorer.score(picked, "bleu").score
            assert row["tests"][which]["precision"] * row["tests"][which]["brevity"] == pytest.approx(row["tests"][which]["bleu"])
            if row is not found[0]:
                rows = [exact_sums(scorer.rows(c, "bleu")) for c in (other, picked)]
                p = approximate_randomisation(*rows, metric=scorer.metric("bleu"), trials=OPTIONS.trials)
                assert row["tests"][which]["p_value"] == p
        assert row["mean"]["bleu"] == pytest.approx((row["tests"]["test"]["bleu"] + row["tests"]["test2"]["bleu"]) / 2)
        assert {k: row["tests"]["test"][k] for k in row["test"]} == row["test"]
        assert row["seconds"] <= row["search_seconds"]
    header, rows = table_rows(found)
    assert header[-6:] == ["test2", "test2 p", "mean", "seconds", "search", "MB"]
    assert rows[1][-6] == f"{found[1]['tests']['test2']['bleu']:.2f}"
    assert load_run(run).systems[0].row.name == "base-PRO"


def test_whole_rows(run):
    """All of results.json but times, memory and names of files; where its numbers come from is asked above and in test_compare.py."""
    found = json.loads((run / "results.json").read_text())
    measured = ("seconds", "search_seconds", "peak_mb", "model", "choice")
    rows = {row["name"]: {k: v for k, v in row.items() if k not in measured} for row in found}
    check_golden(rows, Path(__file__).parent / "rows.json", rel=1e-3)


def test_the_command_takes_several_test_lists_and_goes_on(boostfeat, lists, run):
    tests = [part for which in ("test", "test2") for part in ("--test", lists[which])]
    code, out, err = boostfeat(
        "compare", lists["dev"], "--select", lists["select"], *tests, *as_words(OPTIONS), "-o", run, "-q", "--json"
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["systems"] == json.loads((run / "results.json").read_text())
    assert f"--test {lists['test']} --test {lists['test2']} " in json.loads((run / "config.json").read_text())["command"]
