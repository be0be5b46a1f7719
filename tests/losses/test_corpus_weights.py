"""Gains in the context of a corpus: corpus BLEU with one choice replaced, and what it makes of pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostfeat.lists.choices import Scorer, best_choice, first_choice
from boostfeat.lists.store import read_store
from boostfeat.losses import corpus_weights as gains
from boostfeat.losses.corpus_weights import context_gains, pair_weights, weighed_by_size
from boostfeat.losses.pairs import PairOptions, pairs_for, split_pairs
from boostfeat.metrics.metric import metric_of

PAIRS = PairOptions(draws=300, keep=30)
STRICT = metric_of("bleu-sbp")


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp", "bleu+1", "ter", "wer", "chrf", "bleu-ter"])
def test_context_gains_are_differences_of_corpus_scores(dev, metric):
    """By replacing one choice at a time and scoring the corpus again."""
    chosen, scorer = first_choice(dev), Scorer(dev)
    gains = context_gains(scorer, chosen, scorer.metric(metric))
    for h in range(0, dev.n_hyps, 37):
        other = chosen.copy()
        other[dev.sent_of_hyp[h]] = h
        change = (scorer.gain(other, metric) - scorer.gain(chosen, metric)) / 100
        assert gains[h] == pytest.approx(len(dev) * change, abs=1e-9)
    assert (gains[chosen] == pytest.approx(0, abs=1e-9)) is True


def test_pair_weights_follow_the_context(dev):
    pairs, scores = pairs_for(dev, PAIRS, seed=0), np.zeros(dev.n_hyps)
    weight = pair_weights(Scorer(dev), pairs, scores, STRICT)
    gains = context_gains(Scorer(dev), best_choice(dev, scores), STRICT)
    delta = gains[pairs.better] - gains[pairs.worse]
    assert weight.mean() == pytest.approx(1)
    assert ((weight == 0) == (delta <= 0)).all()
    np.testing.assert_allclose(weight[delta > 0] / delta[delta > 0], (weight / delta)[delta > 0][0])


def test_context_gains_in_parts(dev, monkeypatch):
    """Hypotheses are taken so many at a time: where the parts end changes nothing."""
    whole = context_gains(Scorer(dev), first_choice(dev), STRICT)
    monkeypatch.setattr(gains, "_ROWS", 7)
    assert (context_gains(Scorer(dev), first_choice(dev), STRICT) == whole).all()


def test_pair_weights_are_1_where_the_context_has_no_say(dev):
    pairs, scores = pairs_for(dev, PAIRS, seed=0), np.zeros(dev.n_hyps)
    delta = pair_weights(Scorer(dev), pairs, scores, STRICT)
    wrong = replace(pairs, better=pairs.worse[delta > 0], worse=pairs.better[delta > 0], delta=pairs.delta[delta > 0])
    assert (pair_weights(Scorer(dev), wrong, scores, STRICT) == np.ones(len(wrong))).all()
    none = replace(pairs, better=pairs.better[:0], worse=pairs.worse[:0], delta=pairs.delta[:0])
    assert pair_weights(Scorer(dev), none, scores, STRICT).shape == (0,)


def test_pairs_weigh_their_difference_times_the_words_of_the_reference(data_stores):
    nbest = read_store(data_stores / "dev.nbest")[:20]
    pairs = pairs_for(nbest, PairOptions(draws=50, keep=5), seed=0)
    weighed = weighed_by_size(pairs, nbest, metric_of("bleu-sbp", nbest))
    words = np.array([len(text.split()) for text in nbest.refs.to_pylist()])
    assert (np.diff(nbest.ref_ptr) == 1).all()
    expected = pairs.delta * words[np.repeat(np.arange(20), np.diff(pairs.sent_ptr))]
    assert weighed.weight == pytest.approx(expected, rel=1e-15)
    halves = split_pairs(weighed, np.array([0, 7, 20]))
    assert np.array_equal(np.concatenate([half.weight for half in halves]), weighed.weight)
