"""A list's own ranking is a feature that learning starts from, and is never lost without a word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from strategies import build

from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.formats import read
from boostfeat.lists.build import HypRecord, ReadOptions
from boostfeat.lists.choices import Scorer, best_choice, first_choice
from boostfeat.lists.feature_range import lost_ranking
from boostfeat.lists.joining import with_features
from boostfeat.lists.nbest import NBest, strings
from boostfeat.tuners.base import Features, Run
from boostfeat.tuners.pro import Pro

MARIAN = "\n".join(
    f"{s} ||| ▁a ▁b{k} ||| WordScores= -0.1 -0.{k + 1} -0.05 ||| F0= -0.{k + 2}5 ||| {-(k + 1) / 7:.4f}"
    for s in range(3)
    for k in range(3)
)


@pytest.fixture
def marian(tmp_path) -> NBest:
    (tmp_path / "list").write_text(MARIAN + "\n")
    return read(tmp_path / "list", ReadOptions())


def test_tuners_start_from_it(marian, dev):
    features = Features.of(marian)
    start = features.start(None)
    assert features.named(start)["DecoderScore"] == 1.0
    assert np.count_nonzero(start) == 1
    assert best_choice(marian, features.scores(start)).tolist() == first_choice(marian).tolist()
    assert not features.start({}).any()
    assert not Features.of(dev).start(None).any()  # lists of phrases start where they did
    ranked = with_features(dev, {"First": np.isin(np.arange(dev.n_hyps), first_choice(dev)).astype(float)})
    assert Features.of(ranked).start(None)[-1] == 1.0


def test_tuning_begins_with_it(dev):
    """A search that takes every point for the best ends where it began."""
    ranked = with_features(dev, {"DecoderScore": dev.score})
    model = Pro(tol=1e9).fit(ranked, None, Run())
    assert model.predict(ranked).tolist() == best_choice(dev, dev.score).tolist()


def test_boosting_keeps_it(dev, select):
    """Gains turned round teach what is worst: the ranking is kept."""
    options = recipe("fast", rounds=2, draws=200, keep=20, gain="bad", metric="bleu", min_occurrences=20)

    def listed(nbest: NBest) -> NBest:
        gains = Scorer(nbest).metric("bleu").gain(nbest)
        quality = nbest.quality.with_column("bad", -gains, np.ones(nbest.n_hyps), hyp_ptr=nbest.hyp_ptr)
        return replace(with_features(nbest, {"DecoderScore": gains}), quality=quality)

    model = induce(listed(dev), listed(select), options, templates="none")
    assert (model.weights, model.trees, model.config["kept"]) == ({"DecoderScore": 1.0}, (), "DecoderScore")


def test_a_score_that_no_feature_has_is_said(dev, marian):
    assert lost_ranking(marian) is None
    weighed = replace(dev, score=dev.global_features @ np.arange(1.0, 1 + len(dev.global_names)) + 100.0 * dev.sent_of_hyp)
    assert lost_ranking(weighed) is None  # a constant of each list is no loss
    random = replace(dev, score=np.random.default_rng(0).normal(size=dev.n_hyps))
    assert "the decoder's score is no feature" in (lost_ranking(random) or "")
    assert lost_ranking(replace(dev, score=np.full(dev.n_hyps, np.nan))) is None
    assert lost_ranking(dev[:0]) is None
    assert lost_ranking(random.truncate(1)) is None  # one hypothesis has no ranking


def noisy(noise: float, lists: int = 2) -> NBest:
    """A score that is its feature f, a constant of the list and noise that has nothing in common with f: 1 part of 1 + noise²."""
    f, g = (1.0, -1.0, 1.0, -1.0), (1.0, 1.0, -1.0, -1.0)
    return build(
        [
            HypRecord(s, f"{s} {k}", "here", f[k] + noise * g[k] + 1000.0 * s, {"f": f[k] + 7.0 * s, "same": 3.0})
            for s in range(lists)
            for k in range(4)
        ]
    )


def test_how_much_of_a_score_features_have() -> None:
    """By hand: f explains 1 / (1 + noise²) of the variance within lists; 90% is enough."""
    assert lost_ranking(noisy(0.33)) is None  # 1 / 1.1089 = 90.2%
    assert lost_ranking(noisy(0.34)) == (  # 1 / 1.1156 = 89.6%
        "the decoder's score is no feature, and no weighted sum of features is near it (90% of its variance within lists): "
        "learning begins without the list's own ranking; give hypotheses the score among their features"
    )
    assert "(20% of its variance" in (lost_ranking(noisy(2.0)) or "")
    gap = replace(
        noisy(2.0), hyp_ptr=np.array([0, 4, 4, 8]), ids=np.arange(3), source=strings([""] * 3), ref_ptr=np.zeros(4, int)
    )
    assert "(20% of its variance" in (lost_ranking(gap) or "")  # a list of none is no trouble
    assert lost_ranking(replace(noisy(2.0), sparse_names=strings(["x"]))) is None
    late, early = noisy(0.0, 300), noisy(0.0, 300)  # of 75 lists to a block
    for nbest, k in ((late, 75), (early, 74)):
        score = nbest.score.copy()
        score[4 * k : 4 * k + 4] = 9.0, -5.0, 7.0, 1e6
        object.__setattr__(nbest, "score", score)
    assert lost_ranking(late) is None  # the first block tells
    assert "(0% of its variance" in (lost_ranking(early) or "")
