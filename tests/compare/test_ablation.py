"""compare --ablation: one ingredient at a time, on dev and select only unless a test list is given."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, write_lists

from boostfeat.boosting.boost_options import ABLATION, RECIPES
from boostfeat.compare.comparison_options import as_words
from boostfeat.compare.runner import CompareOptions, all_systems, compare
from boostfeat.compare.systems import System, ablation_systems, boost_options
from boostfeat.compare.table import markdown_table
from boostfeat.compare.tasks import write_featurized
from boostfeat.features.resources import ResourceFiles
from boostfeat.lists.choices import Scorer
from boostfeat.lists.mbr import mbr_gains
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro

SMALL = SyntheticOptions(sentences=25, hyps=10, features=4)
OPTIONS = CompareOptions(runs=2, search="none", rounds=2, trials=50, baseline="boost-local", seed=3, ablation=True)


@pytest.fixture(scope="module")
def lists(tmp_path_factory) -> dict[str, str]:
    return write_lists(tmp_path_factory.mktemp("lists"), SMALL)


@pytest.fixture(scope="module")
def run(lists, tmp_path_factory) -> Path:
    """A finished ablation of one ingredient: the others take their time, and no other path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("boostfeat.compare.runner.ablation_systems", two_rows)
        folder = tmp_path_factory.mktemp("run")
        compare({which: lists[which] for which in ("dev", "select")}, folder, OPTIONS, threads=2)
    return folder


def two_rows() -> tuple[System, ...]:
    return ablation_systems()[1], ablation_systems()[4]


# -- the rows -----------------------------------------------------------------------------------------------------------


def test_each_row_changes_what_it_says_and_nothing_else():
    first, whole, *_ = rows = ablation_systems()
    without, changed, paper = rows[2:4], rows[4:-1], rows[-1]
    assert [row.name for row in (first, whole, *without, paper)] == [
        "base-PRO", "boost-local", "base/boost-local", "linear", "boost-local:paper",
    ]  # fmt: skip
    assert [system.name for system in changed] == [f"boost-local:{name}" for name, changes in ABLATION.items() if changes]
    options = CompareOptions()
    default = _flat(boost_options(whole, options, {}))
    assert default == {**_flat(RECIPES["default"]), "level": "local", "metric": "bleu-sbp"}
    for system in changed:
        found = _flat(boost_options(system, options, {}))
        different = {name for name in found if found[name] != default[name]}
        assert different, f"{system.name} changes nothing"
        assert different == set(system.changes)
    assert _flat(boost_options(paper, options, {})) == {**_flat(RECIPES["paper"]), "level": "local", "metric": "bleu-sbp"}


def _flat(options) -> dict:
    nested = asdict(options)
    parts = [nested.pop(name) for name in ("pairs", "tree")]
    return {**nested, **parts[0], **parts[1]}


# -- without a test list ------------------------------------------------------------------------------------------------


def test_without_a_test_list_it_reports_on_select(lists, run):
    found = json.loads((run / "results.json").read_text())
    assert [row["name"] for row in found] == [system.name for system in two_rows()]
    select = read_store(lists["select"])
    scorer = Scorer(select)
    for row in found:
        assert row["test"] is None
        assert row["reported"] == "select"
        assert all(set(r) == {"seed", "dev", "select"} for r in row["runs"])
        chosen = json.loads((run / row["choice"]).read_text())
        assert set(chosen) == {"dev", "select"}
        picked = np.array(chosen["select"]) + select.hyp_ptr[:-1]
        assert row["runs"][0]["select"]["bleu-sbp"] == scorer.score(picked, "bleu-sbp").score
        np.testing.assert_array_equal(picked, Model.load(run / row["model"]).predict(select))
        assert row["sd"]["bleu-sbp"] == pytest.approx(np.std([r["select"]["bleu-sbp"] for r in row["runs"]], ddof=1))
        assert (row["p_value"] is None) == (row["name"] == "boost-local")
        low, high = row["confidence"]
        assert low < row["runs"][0]["select"]["bleu-sbp"] < high
    config = json.loads((run / "config.json").read_text())
    assert set(config["inputs"]) == {"dev", "select"}
    assert "--test" not in config["command"]
    assert config["command"].endswith(f"--ablation -o {run}")
    lines = [line for line in markdown_table(found).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "select BLEU-SBP" in lines[0]
    assert f" {found[0]['select']['bleu-sbp']:.2f} " in lines[2]


def test_named_systems_come_first():
    names = [system.name for system in all_systems(replace(OPTIONS, systems="decoder,base-PRO"))]
    assert names[:3] == ["decoder", "base-PRO", "boost-local"]
    assert len({system.slug for system in ablation_systems()}) == len(ablation_systems())
    assert not set("/: ") & set("".join(system.slug for system in ablation_systems()))


# -- the command --------------------------------------------------------------------------------------------------------


def test_the_command(boostfeat, lists, run, tmp_path, monkeypatch):
    monkeypatch.setattr("boostfeat.compare.runner.ablation_systems", two_rows)
    command = ["compare", lists["dev"], "--select", lists["select"]]
    code, out, err = boostfeat(*command, "-o", tmp_path / "none")
    assert (code, out) == (2, "")
    assert err == (
        "boostfeat: --test: expected a list to report on, found none; give one, or --ablation to look at select only\n"
    )
    flags = [flag for flag in as_words(OPTIONS) if flag not in ("--baseline", "boost-local")]  # an ablation's default
    code, out, err = boostfeat(*command, *flags, "-o", run, "-q", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["systems"] == json.loads((run / "results.json").read_text())
    code, _, err = boostfeat("report", run, "-o", tmp_path / "r.html")
    assert code == 2
    assert err.endswith("expected a comparison on a test list, found an ablation without one; compare with --test\n")


# -- list-level features ------------------------------------------------------------------------------------------------


def test_consensus_in_compare_is_under_pro_as_learnt_on_dev(lists, tmp_path):
    """The vocab keeps the model for select and test."""
    for which in ("dev", "select"):
        how = ("length+consensus", which, CompareOptions(), ResourceFiles(), 1)
        write_featurized(lists[which], str(tmp_path / f"{which}.nbest"), *how, report=print)
    kept = json.loads((tmp_path / "plan.json").read_text())["posterior"]
    dev, select = (read_store(lists[which]) for which in ("dev", "select"))
    pro = Model(Pro().fit(dev, None, Run(seed=0)).weights)
    assert kept["model"]["weights"] == pytest.approx(dict(pro.weights))
    found = read_store(tmp_path / "select.nbest")
    gains = mbr_gains(select, pro.decision_function(select), (kept["scale"],))[:, 0]
    np.testing.assert_allclose(found.extra[:, found.extra_names.index("mbr.gain")], gains)
