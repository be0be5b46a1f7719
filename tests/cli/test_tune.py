"""``boostfeat tune``: every method from the command line, its options, groups, runs, grids, and tree features."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest, write_lists
from typer.main import get_command

from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import BoostOptions
from boostfeat.cli import app
from boostfeat.cli.tune import _curve, _decoder_start, _gains, _grid, _summary, sparkline
from boostfeat.core.errors import InputError
from boostfeat.core.options import options_of
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment
from boostfeat.trees.growing import TreeOptions
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Features, Groups, Run, feature_warnings
from boostfeat.tuners.linear import fit_pro
from boostfeat.tuners.tuner_options import TUNER_OPTIONS

SMALL = SyntheticOptions(sentences=30, hyps=20, features=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    write_lists(folder, SMALL, ("dev", "select"))
    return folder


def test_every_option_of_every_method_is_a_flag():
    """A new option of a tuner cannot be forgotten: the flags are the options of all dataclasses, by their names."""
    flags = {flag for parameter in get_command(app).commands["tune"].params for flag in parameter.opts}
    for method in TUNERS:
        assert TUNER_OPTIONS[method] in tuner_class(method).__mro__
        assert [f.name for f in fields(tuner_class(method))] == [o.field for o in options_of(tuner_class(method))]
        assert {f"--{o.name.replace('_', '-')}" for o in options_of(tuner_class(method))} <= flags


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
    assert Model.load(tmp_path / "m.json").weights == fit_pro(read_store(folder / "dev.nbest"), seed=3).weights


def test_runs_give_mean_and_sd(boostfeat, folder, tmp_path):
    _, out, _ = boostfeat(
        "tune", folder / "dev.nbest", "--method", "adagrad", "--epochs", 2, "--runs", 3, "-o", tmp_path / "m.json", "--json"
    )
    found = json.loads(out)
    values = found["gains"]["dev"]
    assert len(values) == 3
    assert (found["mean"]["dev"], found["sd"]["dev"]) == (pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=1)))


def test_strategy_grid_prints_the_table_and_the_curves(boostfeat, folder):
    code, out, _ = boostfeat("tune", folder / "dev.nbest", "--method", "mira", "--strategy-grid", "--epochs", 2)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["lu", "hope", "max-bleu"]
    assert out.count("  prediction ") == 9


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
    _, out, _ = boostfeat("score", folder / "dev.nbest", "-m", tmp_path / "n.json", "--metrics", "bleu", "--json")
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
        code, _, err = boostfeat(
            "tune",
            folder / "dev.nbest",
            "--method",
            method,
            "--init",
            tmp_path / "i.json",
            "--groups",
            tmp_path / "f.toml",
            "-o",
            tmp_path / "m.json",
        )
        assert code == 0, err
        weights = Model.load(tmp_path / "m.json").weights
        assert weights["LexWeight"] / weights["LM0"] == pytest.approx(0.1 / 0.7)
        assert weights["RelFreq"] != 0


@pytest.mark.parametrize(
    "text",
    ["", "x = 1", "[[group]]", '[[group]]\nmatch = 3', '[[group]]\nmatch = "a"\nfreeze = "yes"', '[[group]]\nmatch = "a"\nl1 = -1', '[[group]]\nmatch = "a"\ncolour = 1', "[["],
)  # fmt: skip
def test_bad_group_files(tmp_path, text):
    (tmp_path / "g.toml").write_text(text)
    with pytest.raises(InputError, match=r"g\.toml"):
        Groups.load(tmp_path / "g.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "magic"], "unknown method 'magic': expected one of pro, mert, mira"),
        (["--method", "mert", "--eta", "1"], "--eta: mert has no such option; it has --restarts"),
        (["--method", "mira", "--oracle", "delphi"], "delphi"),
        (["--method", "kbmira", "--c", "-1"], "c"),
        (["--method", "pro", "--pick", "best"], "--pick: expected auto, select, train or last, found 'best'"),
        (["--method", "pro", "--pick", "select"], "give --select"),
        (["--method", "pro", "--strategy-grid"], "--strategy-grid: expected --method mira, found pro"),
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


def test_an_unknown_initial_feature_is_named(boostfeat, folder, tmp_path):
    Model({"Colour": 1.0}).save(tmp_path / "i.json")
    code, _, err = boostfeat("tune", folder / "dev.nbest", "--init", tmp_path / "i.json", "-o", tmp_path / "m.json")
    assert (code, "initial weight of 'Colour'" in err) == (2, True)


def test_features_that_make_tuning_go_wrong_are_named():
    nbest = synthetic_nbest(SMALL)
    x = nbest.units.x.copy()
    x[:, 0] = 0.0  # all zero
    x[:, 1] = 1.0  # the same for all hypotheses of a list
    x[:, 4] = 3e6 * x[:, 3]  # a multiple, and far larger
    values = {f: getattr(nbest, f) for f in nbest.__dataclass_fields__}
    bad = NBest(**{**values, "units": type(nbest.units)(**{**nbest.units.__dict__, "x": x})})
    features = Features.of(bad)
    said = "\n".join(feature_warnings(features, bad, np.zeros(len(features))))
    for part in (
        "RelFreq is all zero",
        "LexWeight is the same for all hypotheses",
        "LM0 and Noise_0 are multiples",
        "Noise_0 varies",
        "all initial weights are zero",
    ):
        assert part in said
    assert feature_warnings(Features.of(nbest), nbest, np.ones(5)) == []


def test_same_seed_same_bytes_for_any_threads_and_hash_seed(folder, tmp_path):
    outputs = []
    for method in ("mira", "adagrad", "mert"):
        for k, (threads, hash_seed) in enumerate((("1", "0"), ("2", "7"))):
            path = tmp_path / f"{method}{k}.json"
            command = [
                sys.executable,
                "-m",
                "boostfeat",
                "tune",
                str(folder / "dev.nbest"),
                "--method",
                method,
                "--threads",
                threads,
                "-q",
                "-o",
                str(path),
            ]
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
            outputs.append(path.read_bytes())
        assert outputs[-1] == outputs[-2]


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


def test_a_curve_is_a_table_of_numbers():
    """Below 1 three digits that count, else two after the point; what a row lacks is empty; the chosen epoch has a star."""
    rows = [
        {"epoch": 1, "dev": 20.126, "loss": 0.99999, "nonzero": 3, "note": "not shown"},
        {"epoch": 2, "dev": -1.0, "select": -0.0004567, "loss": 1.0},
    ]
    assert _curve(learnt(*rows, epoch=2)).splitlines() == [
        "epoch    dev     select  nonzero  loss",
        "    1  20.13                   3     1",
        "    2  -1.00  -0.000457           1.00  *",
    ]


@pytest.mark.parametrize(
    ("n", "chosen", "shown"),
    [
        (30, 29, [*range(30)]),
        (31, 7, [*range(0, 31, 2), 7]),
        (61, 7, [*range(0, 61, 3), 7]),
        (62, 6, [*range(0, 62, 3), 61]),
    ],
)
def test_a_long_curve_is_thinned(n, chosen, shown):
    """To 30 lines, and the chosen and the last epoch."""
    lines = _curve(learnt(*({"epoch": k, "dev": 2.0} for k in range(n)), epoch=chosen)).splitlines()[1:]
    assert [int(line.split()[0]) for line in lines] == sorted(shown)
    assert [int(line.split()[0]) for line in lines if line.endswith("*")] == [chosen]


@pytest.mark.parametrize(("sign", "best"), [(1.0, 1), (-1.0, 2)])
def test_the_best_of_several_runs_on_select_is_kept(sign, best):
    """Standard deviations by hand: of 10, 11, 12 it is 1, of 5, 9, 1 it is 4."""
    models = [
        learnt({"epoch": 1, "dev": 0.0}, {"epoch": 2, "dev": d, "select": s}, epoch=2, a=s)
        for d, s in ((10.0, 5.0), (11.0, 9.0), (12.0, 1.0))
    ]
    result, text, model = _summary(models, "ter", sign)
    assert model is models[best]
    assert result == {
        "method": "mert", "metric": "ter", "epoch": 2, "gains": {"dev": [10.0, 11.0, 12.0], "select": [5.0, 9.0, 1.0]},
        "mean": {"dev": 11.0, "select": 5.0}, "sd": {"dev": 1.0, "select": 4.0}, "history": list(model.history),
    }  # fmt: skip
    assert text.splitlines()[-2:] == ["ter, dev: 11.00 +- 1.00 over 3 runs", "ter, select: 5.00 +- 4.00 over 3 runs"]
    assert text.splitlines()[:3] == _curve(model).splitlines()


def test_one_run_of_one_epoch_is_a_line():
    result, text, model = _summary([learnt({"epoch": 0, "dev": 12.345}, epoch=0)], "bleu", 1.0)
    assert (text, result["sd"], result["gains"], model.weights) == ("bleu, dev: 12.35", {"dev": None}, {"dev": [12.345]}, {})


@pytest.mark.parametrize(
    ("values", "line"),
    [([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "▁▂▃▄▅▆▇█"), ([3.0, 3.0], "▁▁"), ([-1.0, 6.0, 2.4, 2.6], "▁█▄▄")],
)
def test_a_curve_in_one_line(values, line):
    assert sparkline(values) == line


@pytest.mark.parametrize(("row", "note"), [({"dev": 1.256}, "dev 1.26"), ({"dev": 1, "select": 2.0}, "dev 1.00  select 2.00")])
def test_what_a_bar_says_of_an_epoch(row, note):
    assert _gains(row) == note


@pytest.mark.parametrize(
    ("found", "start", "said"),
    [
        (({"a": 1.0}, 0.5), {"a": 1.0}, "starts from the decoder's weights, which explain 50% of its scores (--init zero: from 0)"),
        (({"a": 1.0}, 0.98764), {"a": 1.0}, "starts from the decoder's weights, which explain 98.76% of its scores (--init zero: from 0)"),
        (({"a": 1.0}, 0.49), None, ""),
        (None, None, ""),
    ],
)  # fmt: skip
def test_weights_that_explain_half_of_the_decoders_scores_are_its_own(capsys, monkeypatch, found, start, said):
    monkeypatch.setattr("boostfeat.tuners.base.decoder_weights", lambda nbest: found)
    assert _decoder_start(NBest, quiet=False) == start
    assert capsys.readouterr().err == (f"boostfeat: {said}\n" if said else "")


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        (["kbmira", "--epochs", "1"], 1),
        (["kbmira", "--epochs", "1", "--init", "zero"], 0),
        (["pro"], 0),
        (["pro", "--init", "zero"], 0),
    ],
)
def test_who_starts_from_the_decoders_weights(boostfeat, folder, tmp_path, monkeypatch, flags, asked):
    """Those that search from a start, unless one is given; PRO's minimum is the same from anywhere."""
    starts = []
    monkeypatch.setattr("boostfeat.cli.tune._decoder_start", lambda nbest, quiet: starts.append(len(nbest)))
    assert boostfeat("tune", folder / "dev.nbest", "--method", *flags, "-o", tmp_path / "m.json")[0] == 0
    assert len(starts) == asked


@pytest.mark.parametrize(("metric", "best"), [("bleu", 3), ("ter", 0)])
def test_the_whole_grid_of_strategies(monkeypatch, metric, best):
    """Two oracles by two predictions of two epochs, the chosen one is the first; the last two strategies are one run."""
    pairs = [("lu", "model"), ("lu", "fear"), ("hope", "model"), ("hope", "fear")]
    strategies = []
    for k, (oracle, prediction) in enumerate(pairs):
        rows = [
            {"epoch": e, "dev": 10.0 + k + e, "select": 20.0 + k - e, "oracle": 30.0 + e, "prediction": 5.0 + k} for e in (1, 2)
        ]
        strategies.append(SimpleNamespace(oracle=oracle, prediction=prediction, model=learnt(*rows, epoch=1, a=float(min(k, 2)))))
    told: list[tuple] = []

    def strategy_grid(nbest, held_out, tuner, run):
        for name, epoch in (("lu/model", 1), ("lu/model", 2), ("lu/fear", 1)):
            run.callback({"strategy": name, "epoch": epoch, "dev": 1.0})
        return strategies

    monkeypatch.setattr("boostfeat.tuners.mira.strategy_grid", strategy_grid)
    monkeypatch.setattr("boostfeat.cli.common.Bar.update", lambda bar, *what: told.append((bar.what, *what)))
    nbest = synthetic_nbest(SMALL)
    result, text, model = _grid(SimpleNamespace(epochs=2), nbest, nbest, Run(metric=metric), quiet=False)
    assert told == [
        ("strategies", 0.5, 9, "lu/model  dev 1.00"),
        ("strategies", 1.0, 9, "lu/model  dev 1.00"),
        ("strategies", 1.5, 9, "lu/fear  dev 1.00"),
    ]
    assert model is strategies[best].model
    assert [(row["oracle"], row["prediction"], row["history"]) for row in result["strategies"]] == [
        (s.oracle, s.prediction, list(s.model.history)) for s in strategies
    ]
    lines = text.splitlines()
    assert lines[:8] == [
        f"{metric} on select, chosen epoch / last epoch",
        "oracle \\ prediction          model           fear",
        "lu                   19.00 / 18.00  20.00 / 19.00",
        "hope                 21.00 / 20.00  22.00 / 21.00",
        "",
        "hope/fear and hope/model are one run: no list has more than k hypotheses",
        "curves: dev per epoch, between the prediction's and the oracle's, all under the weights of that epoch",
        "",
    ]
    assert lines[8:13] == [
        "lu / model   ▁█",
        "  oracle      31.00  32.00",
        "  dev         11.00  12.00",
        "  prediction   5.00   5.00",
        "  select      19.00  18.00",
    ]
    _, text, model = _grid(SimpleNamespace(epochs=2), nbest, None, Run(metric=metric), quiet=True)
    assert (text.splitlines()[2], model is strategies[best].model) == ("lu                   11.00 / 12.00  12.00 / 13.00", True)
    assert "  select " not in text


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
