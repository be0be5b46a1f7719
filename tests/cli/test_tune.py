"""``boostfeat tune``: every method from the command line, its options, groups, runs, grids, and tree features."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest, write_lists

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.core.errors import InputError
from boostfeat.lists.choices import Scorer
from boostfeat.lists.joining import with_features
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment
from boostfeat.trees.growing import TreeOptions
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Groups, Run
from boostfeat.tuners.pro import Pro

SMALL = SyntheticOptions(sentences=30, hyps=20, features=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    write_lists(folder, SMALL, ("dev", "select"))
    return folder


@pytest.mark.parametrize("method", TUNERS)
def test_every_method_writes_a_model_that_beats_none(boostfeat, folder, tmp_path, method):
    code, out, err = boostfeat(
        "tune", folder / "dev.nbest", "--method", method, "--select", folder / "select.nbest", "-o", tmp_path / "m.json", "--json"
    )
    assert code == 0, err
    found, model = json.loads(out), Model.load(tmp_path / "m.json")
    assert model.config["method"] == method
    assert found["signature"] == model.signature
    assert any(model.weights.values())
    best = max(row["select"] for row in model.history)
    assert found["gains"]["select"] == [best]  # the epoch is chosen on the held-out list
    chosen = next(row for row in model.history if row["epoch"] == model.config["epoch"])
    assert chosen["select"] == best


def test_pro_is_the_initialiser(boostfeat, folder, tmp_path):
    boostfeat("tune", folder / "dev.nbest", "--method", "pro", "--seed", 3, "-o", tmp_path / "m.json")
    assert Model.load(tmp_path / "m.json").weights == Pro().fit(read_store(folder / "dev.nbest"), None, Run(seed=3)).weights


def test_runs_give_mean_and_sd(boostfeat, folder, tmp_path):
    _, out, _ = boostfeat(
        "tune", folder / "dev.nbest", "--method", "adagrad", "--epochs", 2, "--runs", 3, "-o", tmp_path / "m.json", "--json"
    )
    found = json.loads(out)
    values = found["gains"]["dev"]
    assert len(values) == 3
    assert found["kept"] == values.index(max(values))
    assert Model.load(tmp_path / "m.json").history[-1]["epoch"] == 2
    assert (found["mean"]["dev"], found["sd"]["dev"]) == (pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=1)))


def test_tree_features_are_tuned_and_go_back_to_the_trees(boostfeat, folder, tmp_path):
    dev = read_store(folder / "dev.nbest")
    model = boost(dev, None, BoostOptions(rounds=3, tree=TreeOptions(min_occurrences=20)))
    model.save(tmp_path / "m.json")
    write_store(augment(dev, model), tmp_path / "more.nbest")
    code, _, err = boostfeat(
        "tune", tmp_path / "more.nbest", "--method", "mert", "--init", tmp_path / "m.json", "-o", tmp_path / "n.json"
    )
    assert code == 0, err
    tuned = Model.load(tmp_path / "n.json")
    assert [t.name for t in tuned.trees] == [t.name for t in model.trees]
    assert not set(tuned.weights) & {t.name for t in model.trees}
    chosen = next(row for row in tuned.history if row["epoch"] == tuned.config["epoch"])
    _, out, _ = boostfeat("score", folder / "dev.nbest", "-m", tmp_path / "n.json", "--metric", "bleu", "--json")
    assert json.loads(out)["metrics"]["bleu"]["score"] == pytest.approx(chosen["dev"])  # the same on the original list


GROUPS = '[[group]]\nmatch = "L*"\nfreeze = true\n\n[[group]]\nmatch = "Noise*"\nl1 = 2.0\nc = 0.5\n'


def test_groups_freeze_and_scale_by_pattern(boostfeat, folder, tmp_path):
    (tmp_path / "g.toml").write_text(GROUPS)
    groups = Groups.load(tmp_path / "g.toml")
    names = ("LM0", "LexWeight", "Noise_0", "RelFreq")
    assert groups.frozen(names).tolist() == [True, True, False, False]
    assert groups.factors(names, "l1").tolist() == [1, 1, 2, 1]
    (tmp_path / "f.toml").write_text('[[group]]\nmatch = "L*"\nfreeze = true\n')
    Model({"LM0": 0.7, "LexWeight": 0.1}).save(tmp_path / "i.json")
    for method in ("kbmira", "mert", "adagrad", "pro"):
        how = ("--method", method, "--init", tmp_path / "i.json", "--set", f"groups={tmp_path / 'f.toml'}")
        code, _, err = boostfeat("tune", folder / "dev.nbest", *how, "-o", tmp_path / "m.json")
        assert code == 0, err
        weights = Model.load(tmp_path / "m.json").weights
        assert weights["LexWeight"] / weights["LM0"] == pytest.approx(0.1 / 0.7)
        assert weights["RelFreq"] != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "magic"], "unknown method 'magic': expected one of pro, mert, mira"),
        (["--method", "mert", "--eta", "1"], "--eta: mert has no such option; it has --restarts"),
        (["--method", "mira", "--set", "oracle=delphi"], "delphi"),
        (["--method", "kbmira", "--c", "-1"], "c"),
        (["--method", "pro", "--set", "pick=best"], "unknown pick 'best': expected one of auto, select, dev, last"),
        (["--method", "pro", "--set", "pick=select"], "--set pick=select: it needs --select LIST"),
        (["--method", "pro", "--metric", "comet"], "unknown metric 'comet'"),
        (["--method", "pro", "--init", "{folder}/none.json"], "none.json: expected a file, found none"),
    ],
)
def test_bad_usage(boostfeat, folder, tmp_path, arguments, message):
    code, out, err = boostfeat(
        "tune", folder / "dev.nbest", "-o", tmp_path / "m.json", "-q", *(a.format(folder=folder) for a in arguments)
    )
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("method", "known"),
    [("pro", "freeze, l2"), ("mert", "freeze"), ("mira", "freeze, c"), ("kbmira", "freeze, c"), ("rm", "freeze, c"),
     ("adagrad", "freeze, l1, c"), ("rampion", "freeze, c, l2"), ("arow", "freeze, l1, c")],
)  # fmt: skip
def test_a_group_setting_that_the_method_has_no_use_for_is_an_error(method, known):
    unused = next(key for key in ("l1", "l2", "c") if key not in known)
    run = Run(groups=Groups((("L*", {"match": "L*", unused: 2.0}),)))
    with pytest.raises(InputError, match=f"expected only {known} for {method}, found {unused}"):
        tuner_class(method)().fit(synthetic_nbest(SMALL), None, run)


def learnt(*rows: dict[str, object], epoch: int, **weights: float) -> Model:
    return Model(weights, config={"method": "mert", "epoch": epoch}, history=rows)


@pytest.mark.parametrize(("epochs", "when"), [(1, "epoch 1"), (3, "epoch 1 and 2 more of 3")])
def test_what_all_epochs_have_in_common_is_one_line(boostfeat, tmp_path, epochs, when):
    """The first hypothesis is the best already, and far ahead: no epoch has anything to do."""
    (tmp_path / "list").write_text("0 ||| a b ||| f= 9 ||| 9\n0 ||| c d ||| f= 0 ||| 0\n")
    (tmp_path / "ref").write_text("a b\n")
    assert boostfeat("import", tmp_path / "list", "-r", tmp_path / "ref", "-o", tmp_path / "l.nbest")[0] == 0
    code, _, err = boostfeat("tune", tmp_path / "l.nbest", "--method", "kbmira", "--epochs", epochs, "-o", tmp_path / "k.json")
    assert code == 0
    assert [line for line in err.splitlines() if "asked" in line] == [f"boostfeat: warning: {when}: no list asked for a step"]
    assert "warning" not in boostfeat("tune", tmp_path / "l.nbest", "--method", "kbmira", "-q", "-o", tmp_path / "k.json")[2]


def test_weights_that_are_worse_than_the_lists_own_order_give_way_to_it(boostfeat, tmp_path):
    """Where the order is a feature; of phrase lists with scores, weights for a decoder are wanted, and stay."""
    dev = synthetic_nbest(SMALL)
    gains = Scorer(dev).metric("bleu").gain(dev)
    quality = dev.with_quality("bad", -gains).quality
    ranked = replace(with_features(dev, {"DecoderScore": gains}), quality=quality)
    for nbest, kept in ((ranked, True), (replace(dev, quality=quality), False)):
        write_store(nbest, tmp_path / "l.nbest")
        flags = ["--gain", "bad", "--metric", "bleu", "--set", "draws=200", "--set", "pairs=20", "-o", tmp_path / "m.json"]
        code, _, err = boostfeat("tune", tmp_path / "l.nbest", *flags)
        assert code == 0, err
        assert ("worse on the list itself than the list's own order: the model is DecoderScore alone" in err) is kept
        assert (Model.load(tmp_path / "m.json").weights == {"DecoderScore": 1.0}) is kept
