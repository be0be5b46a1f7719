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
from boostfeat.boosting.selection.calibration import _curve, calibration, outcomes
from boostfeat.cli import run
from boostfeat.core.errors import InputError
from boostfeat.formats.jsonl import write
from boostfeat.lists.build import Builder, HypRecord
from boostfeat.lists.choices import Scorer, best_choice, first_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
from boostfeat.metrics.metric import metric_of
from boostfeat.model.chance import Chance
from boostfeat.model.decision import CALIBRATION as KEY
from boostfeat.model.decision import Calibration, careful_choice, least_margin, margins, ranks
from boostfeat.model.model import Model
from boostfeat.rerank.reranker import Reranker

MODEL = Model({"f": 1.0}, config={"metric": "bleu"})


def calibrated(model: Model, select: NBest) -> Model:
    """Return the model with what a list that it was not trained on says of its margins; as it was where it changes nothing."""
    chosen, first, margin = margins(select, ranks(model.config, select, model.decision_function(select)))
    scorer = Scorer(select)
    metric = scorer.metric(str(model.config["metric"]))
    ranked = ranks(model.config, select, model.decision_function(select))
    rows = {"ours": scorer.rows(chosen, metric), "theirs": scorer.rows(first, metric)}
    learnt = calibration(metric, **rows, margin=margin, parts=[outcomes(select, ranked, metric)])
    return replace(model, config={**model.config, KEY: asdict(learnt)})


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
    assert 0.4 < found.keep_first < 1.1  # where the curve crosses a half
    assert found.gain > found.error > 0
    unseen = pairs(risky, seed=1)
    scores, scorer = MODEL.decision_function(unseen), Scorer(unseen)
    kept, _ = careful_choice(unseen, scores, found.keep_first)
    assert scorer.score(kept, "bleu").score > scorer.score(best_choice(unseen, scores), "bleu").score + 1
    better = unseen.stats[1::2, 1] > unseen.stats[0::2, 1]
    for chosen, is_best in ((best_choice(unseen, scores), better), (first_choice(unseen), ~better)):
        check_calibrated(found.probabilities(unseen, scores, chosen), is_best)


def check_calibrated(sure: np.ndarray, is_best: np.ndarray, *, fifths: float = 0.1) -> None:
    """On lists that nothing was learned from: the mean is the share of the best, and so it is in each fifth by probability."""
    assert sure.mean() == pytest.approx(is_best.mean(), abs=0.04)
    for part in np.array_split(np.argsort(sure), 5):
        assert sure[part].mean() == pytest.approx(is_best[part].mean(), abs=fifths)


def longer(seed: int, n: int) -> tuple[NBest, np.ndarray]:
    """Lists of 2 to 12 hypotheses, the best of which is drawn with odds exp(f) that the model, 3 f, is too sure of."""
    rng = np.random.default_rng(seed)
    builder, drawn = Builder(), []
    for s in range(n):
        f = rng.normal(size=rng.integers(2, 13))
        p = np.exp(f) / np.exp(f).sum()
        drawn += [*(np.arange(len(f)) == rng.choice(len(f), p=p))]
        for k, value in enumerate(f.tolist()):
            builder.add(HypRecord(s, f"text {k}", "here", float(-k), {"f": 3 * value}))
    lists, best = builder.finish(), np.array(drawn)
    return lists.with_quality("r", best.astype(float)), best


def test_probabilities_are_calibrated_on_other_lists_and_add_up_to_one_in_each():
    """The best is drawn with odds exp(f), so the scale of scores 3 f is 1/3; every candidate's probability is that of its draw."""
    model = Model({"f": 1.0}, config={"metric": "r"})
    found = Calibration.of(calibrated(model, longer(0, 1500)[0]).config)
    unseen, best = longer(1, 1500)
    scores = model.decision_function(unseen)
    chosen = best_choice(unseen, scores)
    sure = found.probabilities(unseen, scores, chosen)
    check_calibrated(sure, best[chosen])
    assert sure.std() > 0.1
    p = np.exp(scores / 3)
    expected = p / np.bincount(unseen.sent_of_hyp, p)[unseen.sent_of_hyp]
    assert np.abs(sure - expected[chosen]).mean() < 0.05
    sizes, total = np.diff(unseen.hyp_ptr), np.zeros(len(unseen))
    for k in range(12):
        some = found.probabilities(unseen, scores, unseen.hyp_ptr[:-1] + np.minimum(k, sizes - 1))
        total += np.where(k < sizes, some, 0.0)
    np.testing.assert_allclose(total, 1, atol=1e-12)
    assert found.probability is not None
    assert found.probability["0.5"] == pytest.approx(np.median(sure), abs=0.05)


def test_equal_texts_share_a_probability():
    """Of two hypotheses with one text each is the best; a list with one text alone, or with none, is sure."""
    builder = Builder()
    for s, own in enumerate((["a", "b", "a"], ["a", "a"], ["b"])):
        for text, f in zip(own, (1.0, 0.0, 0.5), strict=False):
            builder.add(HypRecord(s, text, "here", 0.0, {"f": f}))
    lists, chance = builder.finish(), Chance(scale=2.0, intercept=0.25, slope=0.5)
    scores = MODEL.decision_function(lists)
    odds = (np.exp(2) + np.exp(1)) / np.exp(0)
    sure = 1 / (1 + np.exp(-0.25) / odds**0.5)
    for first, expected in ((0, sure), (1, 1 - sure), (2, sure)):
        assert chance.of_choices(lists, scores, np.array([first, 3, 5])) == pytest.approx([expected, 1, 1])


def test_a_model_that_is_right_keeps_its_choices():
    found = Calibration.of(calibrated(MODEL, pairs(lambda margin: np.full(len(margin), 0.8))).config)
    assert (found.keep_first, found.gain, found.error) == (0, 0, 0)
    assert found.chance is not None
    assert found.chance.at(np.array([0.1, 1.0, 5.0, np.inf])) == pytest.approx([0.8, 0.8, 0.8, 1], abs=0.07)


def test_margins_that_tell_the_wrong_way_round_are_one_number():
    found = Calibration.of(calibrated(MODEL, pairs(lambda margin: 1 - risky(margin))).config)
    assert found.chance is not None
    assert found.chance.slope == 0


def test_models_that_were_not_calibrated_and_those_of_earlier_releases():
    same = Model({"f": -1.0}, config={"metric": "bleu"})
    found = Calibration.of(calibrated(same, pairs(risky)).config)
    assert (found.changed, found.keep_first, found.margin) == (0, 0, None)
    with pytest.raises(InputError, match="was not calibrated on a held-out list"):
        Calibration.of(same.config)
    with pytest.raises(
        InputError, match="model: calibration: keep_first: expected a number, found a string; make the model again"
    ):
        Calibration.of({KEY: {"keep_first": "far"}})
    old = {
        KEY: {"intercept": 1.0, "slope": 1.0, "scale": 1.0, "keep_first": 0.5, "gain": 1, "error": 1, "lists": 9, "changed": 5}
    }
    assert least_margin(old, "auto") == 0.5
    lists, model = pairs(risky, n=3), replace(MODEL, config=old)
    with pytest.raises(
        InputError, match="of an earlier release, does not know how probably a choice is the best; learn it again"
    ):
        Calibration.of(old).probabilities(lists, np.zeros(6), first_choice(lists))
    choice = Reranker(model).decide([("a", {"f": 1.0}), ("b", {"f": 2.0})])
    assert (choice.index, choice.probability) == (1, None)


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
    shares = calibration.probabilities(select, model.decision_function(select), chosen)
    expected = [[f"{sure:.4f}", select.text[int(h)].as_py()] for sure, h in zip(shares, chosen, strict=True)]
    assert [line.split("\t") for line in lines] == expected
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
    found = calibration(metric, ours=ours, theirs=theirs, margin=margin, parts=[outcomes(nbest, np.zeros(120), metric)])
    changed = margin > 0
    assert (found.lists, found.changed, found.margin["0.5"]) == (60, changed.sum(), pytest.approx(np.median(margin[changed])))

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


def test_the_decoder_is_kept_below_a_margin_not_at_it():
    nbest = pairs(risky, n=3)
    scores = np.array([0.0, 1.0, 0.0, 2.0, 0.0, -1.0])
    chosen, margin = careful_choice(nbest, scores, 2.0)
    assert (chosen.tolist(), margin.tolist()) == ([0, 3, 4], [0.0, 2.0, 0.0])
    assert least_margin({KEY: {**asdict(SURE), "keep_first": 0.75}}, "auto") == 0.75


SURE = Calibration(keep_first=1.0, gain=0.5, error=0.25, lists=6, changed=4)
