"""Trust in choices: a planted curve is found, the decoder is kept where that pays and not elsewhere, the model remembers."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import recipe
from boostfeat.cli import run
from boostfeat.core.errors import InputError
from boostfeat.lists.build import Builder, HypRecord
from boostfeat.lists.choices import Scorer, best_choice, first_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
from boostfeat.model.calibration import KEY, Calibration, calibrated, careful_choice, least_margin, margins
from boostfeat.model.model import Model

MODEL = Model({"f": 1.0}, config={"metric": "bleu"})


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
    found = Calibration.of(calibrated(MODEL, pairs(risky)))
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
    found = Calibration.of(calibrated(MODEL, pairs(lambda margin: np.full(len(margin), 0.8))))
    assert (found.keep_first, found.gain, found.error) == (0, 0, 0)
    assert found.confidence(np.array([0.0, 0.1, 5.0])) == pytest.approx([1, 0.8, 0.8], abs=0.07)


def test_margins_that_tell_the_wrong_way_round_are_one_number():
    found = Calibration.of(calibrated(MODEL, pairs(lambda margin: 1 - risky(margin))))
    assert found.slope == 0


def test_a_model_that_changes_nothing_is_as_it_was():
    same = Model({"f": -1.0}, config={"metric": "bleu"})
    assert calibrated(same, pairs(risky)) is same
    with pytest.raises(InputError, match="expected one that was calibrated on a held-out list"):
        Calibration.of(same)
    with pytest.raises(InputError, match="calibrated"):
        Calibration.of(replace(same, config={KEY: {"slope": "steep"}}))


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
    assert least_margin(MODEL, text) == margin


@pytest.mark.parametrize("text", ["sometimes", "-1", "nan", "inf"])
def test_other_margins_are_refused(text):
    with pytest.raises(InputError, match="--keep-first: expected auto, never or a margin of 0 or more"):
        least_margin(MODEL, text)


def test_induce_learns_it_and_rerank_uses_it(dev, select, tmp_path, capfd, monkeypatch):
    quick = recipe("paper", rounds=2, min_occurrences=20, draws=200, keep=20)
    model = boost(dev, select, quick)
    assert KEY not in boost(dev, None, quick).config
    calibration = Calibration.of(model)
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
    assert rerank("-m", path)[1] == rerank("-m", path, "--keep-first", "0")[1]
    code, _, told = rerank("--confidence")
    assert (code, "expected a model and --format text, found no model" in told) == (2, True)
    code, _, told = rerank("-m", path, "--confidence", "--format", "moses")
    assert (code, "found --format moses" in told) == (2, True)
    Model(model.weights).save(tmp_path / "plain.json")
    code, _, told = rerank("-m", tmp_path / "plain.json", "--keep-first", "auto")
    assert (code, "'induce --select LIST' does it" in told) == (2, True)
    assert json.loads(path.read_text())["signature"] == model.signature  # what a model computes is as it was
