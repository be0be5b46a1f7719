"""Every learner learns any quality: built-in metrics and columns of numbers, with and without references."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.core.errors import InputError
from boostfeat.core.options import named
from boostfeat.lists.choices import Scorer, best_choice, mean_score
from boostfeat.lists.nbest import NBest
from boostfeat.lists.quality import join_qualities
from boostfeat.lists.store import write_store
from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.model.model import Model
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Run

SMALL = SyntheticOptions(sentences=24, hyps=14, features=5)
QUICK: dict[str, dict[str, Any]] = {
    "pro": {},
    "mert": {"restarts": 1, "rounds": 2, "directions": 2},
    "mira": {"epochs": 5},
    "kbmira": {"epochs": 3},
    "rm": {"epochs": 5},
    "adagrad": {"epochs": 2, "draws": 300},
    "rampion": {"epochs": 2, "eta": 0.01},
    "arow": {"epochs": 2, "draws": 300},
}
BOOSTING = {"induce": "default", "paper": "paper"}
LEARNERS = [*QUICK, *BOOSTING]
START = {"RelFreq": 0.1, "LM0": -0.2}
GAINS = ["bleu", "ter", "wer", "chrf", "bleu-ter", "comet", "metricx"]

boosted = partial(induce, templates="none")


def with_shares(nbest: NBest, value: np.ndarray) -> NBest:
    """The list with a column ``file`` that is taken as it is, as sentence BLEU is."""
    nbest = nbest.with_quality("file", value)
    return replace(nbest, quality=replace(nbest.quality, unit=(*nbest.quality.unit[:-1], 1.0)))


def judged(seed: int) -> NBest:
    """A list with two columns that follow what it is made by: one of shares, one of errors up to 25 with lengths."""
    nbest = synthetic_nbest(SMALL, seed=seed)
    nbest = replace(nbest, units=replace(nbest.units, x=nbest.X / nbest.X.std(axis=0)))  # one step size for all features
    bleu, rng = sentence_bleu(nbest.stats), np.random.default_rng(seed)
    nbest = nbest.with_quality("comet", np.round(bleu + 0.02 * rng.standard_normal(nbest.n_hyps), 6))
    length = nbest.stats[:, 4].astype(float)
    return nbest.with_quality("metricx", np.round(25 * (1 - bleu) * length, 3), length, lower_is_better=True)


def without_references(nbest: NBest) -> NBest:
    bare = nbest.refs.slice(0, 0)
    return replace(nbest, stats=np.zeros((0, 6), np.int32), refs=bare, ref_ptr=np.zeros(len(nbest) + 1, np.int64))


@pytest.fixture(scope="module")
def dev() -> NBest:
    return judged(1)


@pytest.fixture(scope="module")
def select() -> NBest:
    return judged(2)


def learn(learner: str, dev: NBest, select: NBest | None, gain: str, *, metric: str | None = None, threads: int = 1) -> Model:
    if learner in BOOSTING:
        changes = {"rounds": 3, "draws": 300, "keep": 30, "min_occurrences": 5, "alpha": 1.0, "metric": metric or gain}
        return boosted(dev, select, recipe(BOOSTING[learner], gain=gain, **changes), seed=3, threads=threads)
    run = Run(seed=3, threads=threads, gain=gain, metric=metric or "", init=START)
    model: Model = tuner_class(learner)(**QUICK[learner]).fit(dev, select, run)
    return model


def told(model: Model, *, without: tuple[str, ...] = ()) -> str:
    """All of a model but its options and signature, and some numbers of its history."""
    history = [{key: value for key, value in row.items() if key not in without} for row in model.history]
    return json.dumps({**model.to_json(), "config": None, "signature": None, "history": history})


def test_every_tuner_is_among_the_learners() -> None:
    assert set(QUICK) == set(TUNERS)


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_learns_every_gain(dev, select, learner, gain):
    """On the list itself it beats its start and a random choice, by the very metric that was learned."""
    model = learn(learner, dev, select, gain)
    assert model.config["gain"] == model.config["metric"] == gain
    scorer = Scorer(dev)
    reached = scorer.gain(best_choice(dev, model.decision_function(dev)), gain)
    start = best_choice(dev, Model(START).decision_function(dev))
    assert reached > max(scorer.metric(gain).sign * mean_score(dev, gain), scorer.gain(start, gain))
    assert all(np.isfinite(row["dev"]) for row in model.history)


@pytest.mark.parametrize("learner", ["pro", "adagrad", "arow", "paper"])
def test_the_gain_of_bleu_is_bleu_plus_alpha(dev, select, learner):
    """Where corpus BLEU has no say, learning BLEU is learning BLEU+α."""
    mine = learn(learner, dev, select, "bleu", metric="bleu")
    column = with_shares(dev, sentence_bleu(dev.stats))
    assert told(learn(learner, column, select, "file", metric="bleu")) == told(mine)


def test_alpha_reaches_the_context(dev, select):
    """bleu+alpha is smoothed by the α of the pairs where pairs are drawn and where they are weighed."""
    how = {"rounds": 2, "draws": 300, "keep": 30, "min_occurrences": 5, "metric": "bleu", "alpha": 0.1}
    mine = boosted(dev, select, recipe("default", gain="bleu+alpha", **how), seed=1)
    column = with_shares(dev, sentence_bleu(dev.stats, alpha=0.1))
    assert told(boosted(column, select, recipe("default", gain="file", **how), seed=1)) == told(mine)


@pytest.mark.parametrize("learner", LEARNERS)
def test_any_scale_of_a_column_gives_the_same_model(dev, select, learner):
    """Rewards in other units are the same rewards: weights agree to rounding, and so do trees."""

    def learned(factor: float) -> Model:
        lists = (n.with_quality("reward", factor * (0.1 * n.quality.value[:, 0] + 7)) for n in (dev, select))
        return learn(learner, *lists, "reward")

    mine = learned(1.0)

    @settings(max_examples=4, deadline=None)
    @given(st.floats(-12, 12).map(lambda k: 10.0**k))
    def check(factor: float) -> None:
        other = learned(factor)
        assert other.weights == pytest.approx(mine.weights, rel=1e-6, abs=1e-9)
        assert [tree.rules() for tree in other.trees] == [tree.rules() for tree in mine.trees]
        assert [row["dev"] for row in other.history] == pytest.approx(
            [factor * row["dev"] for row in mine.history], rel=1e-6, abs=0
        )

    check()


@pytest.mark.parametrize("column", ["comet", "metricx"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_other_sign_and_direction_change_nothing(dev, select, learner, column):
    def turned(nbest: NBest) -> NBest:
        k = nbest.quality.names.index(column)
        value, weight = -nbest.quality.value[:, k], nbest.quality.weight[:, k]
        return nbest.with_quality(column, value, weight, lower_is_better=not nbest.quality.lower[k])

    mine, other = (learn(learner, *lists, column, metric="bleu") for lists in ((dev, select), (turned(dev), turned(select))))
    by_gain = ("oracle", "prediction")  # what updates were made with, scored by the gain: the other sign
    assert told(other, without=by_gain) == told(mine, without=by_gain)
    chosen = learn(learner, dev, select, column)  # by the column itself: scores have the other sign
    again = learn(learner, turned(dev), turned(select), column)
    assert dict(again.weights) == dict(chosen.weights)
    assert [-row["select"] for row in again.history] == [row["select"] for row in chosen.history]


# Numbers that are apart by more than rounding, or equal; lengths that divide them
numbers = st.integers(-40, 40).map(lambda k: k / 8)
lengths = st.integers(1, 9).map(float)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(LEARNERS), st.data())
def test_the_other_sign_of_any_column_changes_nothing(dev, learner, data):
    """q, higher is better, and -q, lower is better, are the same quality, whatever q is; both may be refused."""
    value = data.draw(arrays.arrays(np.float64, dev.n_hyps, elements=numbers, fill=numbers))
    weight = data.draw(arrays.arrays(np.float64, dev.n_hyps, elements=lengths, fill=lengths))

    def outcome(sign: float) -> str:
        own = dev.with_quality("any", sign * value, weight, lower_is_better=sign < 0)
        try:
            return told(learn(learner, own, None, "any", metric="bleu"), without=("oracle", "prediction"))
        except InputError as error:
            return str(error)

    assert outcome(-1) == outcome(1)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("value", ["all", "lists"])
def test_a_constant_column_is_refused(dev, select, learner, value):
    """Of all hypotheses, or of those of each list: nothing tells them apart."""
    numbers = np.full(dev.n_hyps, 0.5) if value == "all" else dev.sent_of_hyp / len(dev)
    with pytest.raises(InputError, match="flat: expected a quality column that tells hypotheses of a list apart, found the same"):
        learn(learner, dev.with_quality("flat", numbers), select, "flat", metric="bleu")


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_held_out_list_has_to_be_able_to_choose(dev, select, learner):
    """A constant column there would take the first epoch whatever is learned; one that is missing is said to be missing there."""
    flat = dev.with_quality("flat", np.arange(dev.n_hyps) / dev.n_hyps)
    with pytest.raises(InputError, match=r"^select: flat: expected a quality column that tells hypotheses of a list apart"):
        learn(learner, flat, select.with_quality("flat", np.ones(select.n_hyps)), "flat")
    with pytest.raises(InputError, match=r"^select: unknown metric 'flat': expected one of bleu, .*, comet, metricx$"):
        learn(learner, flat, select, "flat")


@pytest.mark.parametrize("learner", LEARNERS)
def test_threads_do_not_matter(dev, select, learner):
    assert told(learn(learner, dev, select, "metricx", threads=3)) == told(learn(learner, dev, select, "metricx"))


@pytest.mark.parametrize("learner", LEARNERS)
def test_lists_with_a_column_need_no_references(dev, select, learner):
    bare = learn(learner, without_references(dev), without_references(select), "comet")
    assert told(bare) == told(learn(learner, dev, select, "comet"))
    if learner in BOOSTING:  # learns from the first column then
        assert learn(learner, without_references(dev), None, "bleu").config["gain"] == "comet"
        return
    with pytest.raises(
        InputError, match=r"bleu: expected a list with references, found one without; import it with -r, or take "
    ):
        learn(learner, without_references(dev), None, "bleu")


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare_stores(dev, select, tmp_path_factory) -> dict[str, str]:
    """Lists without references, with columns."""
    folder = tmp_path_factory.mktemp("stores")
    for name, nbest in (("dev", dev), ("select", select), ("test", judged(3))):
        write_store(without_references(nbest), folder / f"{name}.nbest")
    return {name: str(folder / f"{name}.nbest") for name in ("dev", "select", "test")}


def command(learner: str, store: Path, *words: object) -> tuple[object, ...]:
    settings = {"rounds": 3, "min_occurrences": 5}
    if learner in QUICK:
        settings = {named(tuner_class(learner))[field].name: value for field, value in QUICK[learner].items()}
    how = [f"{name}={value}" for name, value in settings.items()]
    first = ("induce", store) if learner in BOOSTING else ("tune", store, "--method", learner)
    recipe_ = ("--recipe", BOOSTING[learner]) if learner in BOOSTING else ()
    return (*first, *recipe_, *(word for setting in how for word in ("--set", setting)), *words, "-q")


@pytest.fixture(scope="module")
def filed(dev, tmp_path_factory) -> Path:
    """The store of a list with BLEU+1 in a column that was read from a file of text, and a constant one."""
    folder = tmp_path_factory.mktemp("filed")
    (folder / "file.txt").write_text("".join(f"{x!r}\n" for x in sentence_bleu(dev.stats).tolist()))
    (folder / "flat.txt").write_text("0.5\n" * dev.n_hyps)
    nbest = join_qualities(dev, [f"{name}={folder / name}.txt" for name in ("flat", "file")])
    write_store(replace(nbest, quality=replace(nbest.quality, unit=(*nbest.quality.unit[:-1], 1.0))), folder / "dev.nbest")
    return folder / "dev.nbest"


@pytest.mark.parametrize("learner", LEARNERS)
def test_model_files_differ_in_the_name_of_the_gain_and_nothing_else(boostfeat, filed, tmp_path, learner):
    for gain in ("bleu+1", "file"):
        code, _, err = boostfeat(*command(learner, filed, "--gain", gain, "--metric", "bleu", "-o", tmp_path / f"{gain}.json"))
        assert code == 0, err
    texts = ((tmp_path / f"{gain}.json").read_text().splitlines() for gain in ("bleu+1", "file"))
    by_gain = ('"oracle"', '"prediction"')  # scored by the gain: points, or the units of the column
    mine, other = ([line for line in text if not line.strip().startswith(by_gain)] for text in texts)
    differ = [pair for pair in zip(mine, other, strict=True) if pair[0] != pair[1]]
    assert [tuple(line.strip(" ,") for line in pair) for pair in differ] == [('"gain": "bleu+1"', '"gain": "file"')]
    code, out, err = boostfeat(*command(learner, filed, "--gain", "flat", "--metric", "bleu", "-o", tmp_path / "flat.json"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "flat: expected a quality column that tells hypotheses of a list apart, found the same number for all of each" in err


def test_commands_on_lists_without_references(boostfeat, bare_stores, tmp_path):
    dev, select, test = (bare_stores[name] for name in ("dev", "select", "test"))
    model = tmp_path / "model.json"
    code, out, _ = boostfeat("info", dev, "--json")
    assert code == 0
    assert json.loads(out)["oracle"] > json.loads(out)["first"] > 0
    assert json.loads(out)["quality"] == {"comet": False, "metricx": True}
    code, out, _ = boostfeat("info", dev, "--metric", "metricx", "--json")
    assert json.loads(out)["oracle"] < json.loads(out)["mean"]
    assert boostfeat("tune", dev, "--select", select, "--gain", "metricx", "--runs", 2, "-o", model, "-q")[0] == 0
    how = ("--gain", "comet", "--recipe", "fast", "--rounds", 2, "--min-occurrences", 5, "-o", model, "-q")
    assert boostfeat("induce", dev, "--select", select, *how)[0] == 0
    assert Model.load(model).config["metric"] == "comet"
    code, out, _ = boostfeat("score", test, "-m", model, "--json")
    scored = json.loads(out)["metrics"]
    assert list(scored) == ["comet", "metricx"]
    assert scored["metricx"]["signature"].startswith("column:metricx|lower-is-better|")
    low, high = scored["comet"]["confidence"]
    assert low < scored["comet"]["score"] < high
    code, _, err = boostfeat("score", test, "-m", model, "--metric", "bleu")
    assert code == 2
    assert "bleu: expected a list with references, found one without" in err
    code, _, err = boostfeat("induce", dev, "-o", model, "-q", "--gain", "bleu")
    assert code == 2
    assert "or take its quality column (comet, metricx) as --gain and --metric" in err


def test_compare_and_report_without_references(boostfeat, bare_stores, tmp_path):
    run = tmp_path / "run"
    lists = (bare_stores["dev"], "--select", bare_stores["select"], "--test", bare_stores["test"])
    how = ("--gain", "metricx", "--systems", "decoder,base-PRO,base-MERT,boost-local:fast", "--search", "none", "--rounds", 2)
    code, out, err = boostfeat("compare", *lists, *how, "--trials", 200, "-o", run, "-q", "--force")
    assert code == 0, err
    assert "metricx" in out.split("\n")[0]
    assert "BLEU" not in out.split("\n")[0]
    rows = json.loads((run / "results.json").read_text())
    assert all(set(row["test"]) == {"metricx", "comet", "length_ratio", "oracle_gap"} for row in rows)
    by_name = {row["name"]: row for row in rows}
    tuned, decoder = by_name["base-MERT"], by_name["decoder"]
    assert tuned["dev"]["metricx"] < decoder["dev"]["metricx"]
    assert 0 < tuned["dev"]["oracle_gap"] < 1
    assert decoder["test"]["oracle_gap"] == 0
    assert tuned["p_value"] == tuned["p_values"]["metricx"]["randomisation"]
    assert tuned["confidence"] == tuned["confidences"]["metricx"]
    pytest.importorskip("plotly")
    assert boostfeat("report", run, "-o", tmp_path / "report.html")[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert "Test metricx" in page
    assert "BLEU-SBP" not in page.split("<script")[0]


def test_compare_names_the_list_that_lacks_a_column(boostfeat, bare_stores, filed, tmp_path):
    lists = (bare_stores["dev"], "--select", filed, "--test", bare_stores["test"])
    code, out, err = boostfeat("compare", bare_stores["dev"], *lists[1:], "--gain", "comte", "-o", tmp_path / "run", "-q")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{bare_stores['dev']}: unknown metric 'comte': expected one of " in err
    code, _, err = boostfeat("compare", filed, *lists[3:], "--select", filed, "--gain", "file", "-o", tmp_path / "run", "-q")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{bare_stores['test']}: unknown metric 'file': expected one of " in err


def test_compare_reports_what_is_asked_and_scores_again_for_more(boostfeat, dev, select, tmp_path):
    for name, nbest in (("dev", dev), ("select", select)):
        write_store(nbest, tmp_path / f"{name}.nbest")
    lists = (tmp_path / "dev.nbest", "--select", tmp_path / "select.nbest", "--test", tmp_path / "select.nbest")
    how = (
        *("--systems", "decoder,base-PRO", "--search", "none", "--trials", 100, "-q"),
        *("--force", "-o", tmp_path / "run"),
    )
    several = {"wer,cer": {"cer"}, "wer,chrf++,ter": {"chrf++", "ter"}, "wer": {"chrf", "ter", "comet", "metricx"}}
    for metrics, expected in several.items():
        assert boostfeat("compare", *lists, *how, "--metric", metrics)[0] == 0
        row = json.loads((tmp_path / "run" / "results.json").read_text())[0]
        always = {"bleu", "bleu-sbp", "wer", "length_ratio", "oracle_gap"}
        assert set(row["test"]) >= always | expected
        assert set(row["p_values"]) == always - {"length_ratio", "oracle_gap"} | expected
