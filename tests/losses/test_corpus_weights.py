"""Gains in the context of a corpus: corpus BLEU with one choice replaced, and what it makes of pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostfeat.lists.choices import Scorer, best_choice, first_choice
from boostfeat.losses import corpus_weights as gains
from boostfeat.losses.corpus_weights import context_gains, pair_weights
from boostfeat.losses.pairs import PairOptions, pairs_for
from boostfeat.metrics.metric import METRICS

PAIRS = PairOptions(draws=300, keep=30)
SBP = METRICS["bleu-sbp"]


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp", "chrf", "ter"])
def test_context_gains_are_differences_of_the_corpus_score(dev, metric):
    """By replacing one choice at a time and scoring the corpus again."""
    chosen, scorer, sign = first_choice(dev), Scorer(dev), -1 if METRICS[metric].lower_is_better else 1
    gains = context_gains(dev, chosen, METRICS[metric])
    for h in range(0, dev.n_hyps, 37):
        other = chosen.copy()
        other[dev.sent_of_hyp[h]] = h
        change = (scorer.score(other, metric).score - scorer.score(chosen, metric).score) / 100
        assert gains[h] == pytest.approx(sign * len(dev) * change, abs=1e-9)
    assert (gains[chosen] == pytest.approx(0, abs=1e-9)) is True


def test_pair_weights_follow_the_context(dev):
    pairs, scores = pairs_for(dev, PAIRS, seed=0), np.zeros(dev.n_hyps)
    weight = pair_weights(dev, pairs, scores, SBP)
    gains = context_gains(dev, best_choice(dev, scores), SBP)
    delta = gains[pairs.better] - gains[pairs.worse]
    assert weight.mean() == pytest.approx(1)
    assert ((weight == 0) == (delta <= 0)).all()
    np.testing.assert_allclose(weight[delta > 0] / delta[delta > 0], (weight / delta)[delta > 0][0])


def test_context_gains_in_parts(dev, monkeypatch):
    """Hypotheses are taken so many at a time: where the parts end changes nothing."""
    whole = context_gains(dev, first_choice(dev), SBP)
    monkeypatch.setattr(gains, "_ROWS", 7)
    assert (context_gains(dev, first_choice(dev), SBP) == whole).all()


def test_pair_weights_are_1_where_the_context_has_no_say(dev):
    pairs, scores = pairs_for(dev, PAIRS, seed=0), np.zeros(dev.n_hyps)
    delta = pair_weights(dev, pairs, scores, SBP)
    wrong = replace(pairs, better=pairs.worse[delta > 0], worse=pairs.better[delta > 0], delta=pairs.delta[delta > 0])
    assert (pair_weights(dev, wrong, scores, SBP) == np.ones(len(wrong))).all()
    none = replace(pairs, better=pairs.better[:0], worse=pairs.worse[:0], delta=pairs.delta[:0])
    assert pair_weights(dev, none, scores, SBP).shape == (0,)
