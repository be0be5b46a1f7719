"""Trust in choices: a planted curve is found, the decoder is kept where that pays and not elsewhere, the model remembers."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.boosting.selection.calibration import _curve, calibration
from boostfeat.cli import run
from boostfeat.core.errors import InputError
from boostfeat.formats.jsonl import write
from boostfeat.lists.build import Builder, HypRecord
from boostfeat.lists.choices import Scorer, best_choice, first_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
from boostfeat.metrics.metric import metric_of
from boostfeat.model.decision import CALIBRATION as KEY
from boostfeat.model.decision import Calibration, careful_choice, least_margin, margins, ranks
from boostfeat.model.model import Model

MODEL = Model({"f": 1.0}, config={"metric": "bleu"})


def calibrated(model: Model, select: NBest) -> Model:
    """Return the model with what a list that it was not trained on says of its margins; as it was where it changes nothing."""
    chosen, first, margin = margins(select, ranks(model.config, select, model.decision_function(select)))
    scorer = Scorer(select)
    metric = scorer.metric(str(model.config["metric"]))
    learnt = calibration(metric, ours=scorer.rows(chosen, metric), theirs=scorer.rows(first, metric), margin=margin)
    return model if learnt is None else replace(model, config={**model.config, KEY: asdict(learnt)})


def pairs(curve, seed: int = 0, n: int = 600) -> NBest:
    """Lists of two: the model prefers the second by a margin, and it is the better one with the curve's probability of it."""
    rng = np.random.default_rng(seed)
    margin = rng.exponential(size=n)
    builder = Builder()
    for s in range(n):
        builder.add(HypRecord(s, "first", "here", 0.0, {"f": 0.0}))
        builder.add(HypRecord(s, "second", "here", -1.0, {"f": float(margin[s])}))
    nbest = builder.finish()
    better = rng.random(n) < curve(margin)
    stats = np.full((2 * n, 6), 100, np.int32)
    stats[0::2, 1:4] = np.where(better, 40, 60)[:, None]
    stats[1::2, 1:4] = np.where(better, 60, 40)[:, None]
    return replace(nbest, stats=stats, ref_ptr=np.arange(n + 1), refs=nbest.text.take(list(range(0, 2 * n, 2))))


def risky(margin):
    """Small margins are worse than chance, large ones sure."""
    return 1 / (1 + np.exp(-4 * (np.log1p(margin / np.median(margin)) - 0.7)))


def test_a_planted_curve_is_found_and_the_decoder_is_kept_below_it():
    found = Calibration.of(calibrated(MODEL, pairs(risky)).config)
    assert found.lists == found.changed == 600
    assert (found.intercept, found.slope) == (pytest.approx(-2.8, abs=0.8), pytest.approx(4, abs=0.8))
    assert 0.4 < found.keep_first < 1.1  # where the curve crosses a half
    assert found.gain > found.error > 0
    unseen = pairs(risky, seed=1)
    scores, scorer = MODEL.decision_function(unseen), Scorer(unseen)
    kept, margin = careful_choice(unseen, scores, found.keep_first)
    assert scorer.score(kept, "bleu").score > scorer.score(best_choice(unseen, scores), "bleu").score + 1
    sure = found.confidence(margin)
    assert (sure[kept == first_choice(unseen)] == 1).all()
    changed = margin > 0
    better = unseen.stats[1::2, 1] > unseen.stats[0::2, 1]
    assert sure[changed].mean() == pytest.approx(better[changed].mean(), abs=0.05)  # calibrated on unseen lists


def test_a_model_that_is_right_keeps_its_choices():
    found = Calibration.of(calibrated(MODEL, pairs(lambda margin: np.full(len(margin), 0.8))).config)
    assert (found.keep_first, found.gain, found.error) == (0, 0, 0)
    assert found.confidence(np.array([0.0, 0.1, 5.0])) == pytest.approx([1, 0.8, 0.8], abs=0.07)


def test_margins_that_tell_the_wrong_way_round_are_one_number():
    found = Calibration.of(calibrated(MODEL, pairs(lambda margin: 1 - risky(margin))).config)
    assert found.slope == 0


def test_a_model_that_changes_nothing_is_as_it_was():
    same = Model({"f": -1.0}, config={"metric": "bleu"})
    assert calibrated(same, pairs(risky)) is same
    with pytest.raises(InputError, match="was not calibrated on a held-out list"):
        Calibration.of(same.config)
    with pytest.raises(InputError, match="model: calibration: slope: expected a number, found a string; make the model again"):
        Calibration.of({KEY: {"intercept": 1.0, "slope": "steep"}})


def test_the_decoders_choice_is_its_best_scored_one():
    """As explain has it: the same lists with hypotheses in another order have the same margins and the same curve."""
    lists = pairs(risky)
    order = np.arange(lists.n_hyps).reshape(-1, 2)[:, ::-1].ravel()
    turned = lists.take_hyps(order, lists.hyp_ptr)
    for found in (margins(one, MODEL.decision_function(one)) for one in (lists, turned)):
        assert found[2].tolist() == lists.extra[1::2, 0].tolist()  # feature f of the second, which the decoder likes less
    assert calibrated(MODEL, turned).config == calibrated(MODEL, lists).config


@pytest.mark.parametrize(("text", "margin"), [("never", 0.0), ("0.5", 0.5), ("0", 0.0)])
def test_margins_by_name(text, margin):
    assert least_margin(MODEL.config, text) == margin


@pytest.mark.parametrize("text", ["sometimes", "-1", "nan", "inf"])
def test_other_margins_are_refused(text):
    with pytest.raises(InputError, match="--keep-first: expected auto, never or a margin of 0 or more"):
        least_margin(MODEL.config, text)


def test_induce_learns_it_and_rerank_uses_it(dev, select, tmp_path, capfd, monkeypatch):
    quick = recipe("paper", rounds=2, min_occurrences=20, draws=200, keep=20)
    model = induce(dev, select, quick, templates="none")
    assert KEY not in boost(dev, None, quick).config
    calibration = Calibration.of(model.config)
    path = tmp_path / "m.json"
    replace(model, config={**model.config, KEY: {**model.config[KEY], "keep_first": 0.5}}).save(path)
    write_store(select, tmp_path / "s.nbest")

    def rerank(*flags: object) -> tuple[int, list[str], str]:
        monkeypatch.setattr(sys, "argv", ["boostfeat", "rerank", str(tmp_path / "s.nbest"), *map(str, flags)])
        code = run()
        told = capfd.readouterr()
        return code, told.out.splitlines(), told.err

    code, lines, told = rerank("-m", path, "--keep-first", "auto", "--confidence")
    assert code == 0
    chosen, margin = careful_choice(select, model.decision_function(select), 0.5)
    assert [line.split("\t") for line in lines] == [
        [f"{sure:.4f}", select.text[int(h)].as_py()] for sure, h in zip(calibration.confidence(margin), chosen, strict=True)
    ]
    assert f"{(margin > 0).sum()} of {len(select)} choices are not the decoder's" in told
    stream = io.BytesIO()
    write(select, stream)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stream.getvalue())))
    monkeypatch.setattr(
        sys, "argv", ["boostfeat", "rerank", "-", "--stream", "-m", str(path), "--keep-first", "auto", "--confidence"]
    )
    assert run() == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [[f"{a['confidence']:.4f}", a["text"]] for a in answers] == [line.split("\t") for line in lines]
    assert rerank("-m", path)[1] == rerank("-m", path, "--keep-first", "0")[1]
    code, _, told = rerank("--confidence")
    assert (code, "--confidence does nothing without --model" in told) == (2, True)
    code, _, told = rerank("-m", path, "--confidence", "--format", "moses")
    assert (code, "does not go with --format moses" in told) == (2, True)
    Model(model.weights).save(tmp_path / "plain.json")
    code, _, told = rerank("-m", tmp_path / "plain.json", "--keep-first", "auto")
    assert (code, "learn it with 'induce --select LIST'" in told) == (2, True)
    text = path.read_text()
    assert json.loads(text)["signature"] != model.signature  # the other margin takes other hypotheses
    path.write_text(text.replace('"keep_first": 0.5', '"keep_first": 0.6'))
    code, _, told = rerank("-m", path, "--keep-first", "auto")
    assert (code, "expected the signature of its content" in told) == (2, True)


@pytest.mark.parametrize("seed", range(4))
def test_the_curve_is_the_best_one(seed):
    """Against scipy's minimiser of the same penalised loss, -log P(outcomes) + ridge / 2 |w|²."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=40)
    better = rng.random(40) < 1 / (1 + np.exp(1 - 2 * x))

    def loss(w: np.ndarray) -> float:
        z = w[0] + w[1] * x
        return float(np.logaddexp(0, np.where(better, -z, z)).sum() + 0.5e-3 * (w @ w))

    expected = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}).x
    assert expected[1] > 0
    assert _curve(x, better) == pytest.approx(expected, abs=1e-5)


def test_curves_of_one_outcome_or_none():
    """Where larger margins are worse, the share of better choices, (2 + 1/2) of (5 + 1): the log of 5/7. Without outcomes, a half."""
    x, better = np.array([0.1, 0.2, 1.0, 2.0, 3.0]), np.array([True, True, False, False, False])
    assert _curve(x, better) == (pytest.approx(np.log(5 / 7)), 0.0)
    assert _curve(np.zeros(0), np.zeros(0, bool)) == (0.0, 0.0)
    sure, slope = _curve(np.array([0.0, 0.0]), np.array([True, True]))  # the penalty alone keeps it finite
    assert 2 / (1 + np.exp(sure)) == pytest.approx(1e-3 * sure, rel=1e-9)
    assert slope == 0


@pytest.mark.parametrize(("name", "seed", "pays"), [("bleu", 4, True), ("bleu", 0, False), ("ter", 0, True)])
def test_a_calibration_whole(name, seed, pays):
    """Against its definition, number by number: the margin is kept that the summed statistics of all lists are best at."""
    nbest = pairs(risky, seed=2, n=60)
    rng = np.random.default_rng(seed)
    metric = metric_of(name, nbest)
    margin = np.where(rng.random(60) < 0.2, 0.0, rng.exponential(size=60))
    theirs, ours = rng.integers(5, 40, (2, 60, metric.width))
    ours[margin == 0] = theirs[margin == 0]
    for rows in (ours, theirs):
        rows[:, 4 if name == "bleu" else 1 :] = 40  # totals and lengths
    found = calibration(metric, ours=ours, theirs=theirs, margin=margin)
    assert found is not None
    changed = margin > 0
    assert (found.lists, found.changed, found.scale) == (60, changed.sum(), pytest.approx(np.median(margin[changed])))

    def gain(least: float) -> float:
        rows = np.where((margin < least)[:, None], theirs, ours)
        return float(metric.higher(metric.score(rows.sum(axis=0, dtype=float)[None]))[0])

    tried = sorted({float(np.quantile(margin[changed], k / 20)) for k in range(1, 20)})
    gains = {least: gain(least) for least in (0.0, *tried)}
    best = max(gains, key=lambda least: gains[least])
    apart = np.where((margin < best)[:, None], theirs, ours) - ours
    slope = metric.slope(np.where((margin < best)[:, None], theirs, ours).sum(axis=0).astype(float))
    error = float(np.sqrt(60) * np.std(apart @ slope))
    kept = (best, 100 * (gains[best] - gains[0.0]), 100 * error) if pays else (0.0, 0.0, 0.0)
    assert (gains[best] - gains[0.0] > error) == pays
    assert (found.keep_first, found.gain, found.error) == pytest.approx(kept)
    worth = metric.sign * ((ours - theirs) @ metric.slope(ours.sum(axis=0).astype(float)))
    seen = changed & (worth != 0)
    assert (found.intercept, found.slope) == pytest.approx(_curve(np.log1p(margin / found.scale)[seen], worth[seen] > 0))


def test_the_decoder_is_kept_below_a_margin_not_at_it():
    nbest = pairs(risky, n=3)
    scores = np.array([0.0, 1.0, 0.0, 2.0, 0.0, -1.0])
    chosen, margin = careful_choice(nbest, scores, 2.0)
    assert (chosen.tolist(), margin.tolist()) == ([0, 3, 4], [0.0, 2.0, 0.0])
    assert least_margin({KEY: {**asdict(SURE), "keep_first": 0.75}}, "auto") == 0.75


SURE = Calibration(intercept=0.25, slope=0.5, scale=2.0, keep_first=1.0, gain=0.5, error=0.25, lists=6, changed=4)


def test_confidence_by_hand():
    """σ(1/4 + 1/2 log(1 + margin / 2)); 1 where the choice is the decoder's."""
    found = SURE.confidence(np.array([0.0, 2.0, 6.0]))
    assert found == pytest.approx([1.0, 1 / (1 + np.exp(-0.25) / 2**0.5), 1 / (1 + np.exp(-0.25) / 2)])
