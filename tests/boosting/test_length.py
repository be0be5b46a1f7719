"""The length term: which feature is one, and where its weight is best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.length import length_feature, tuned_length
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.merging import concat
from boostfeat.lists.nbest import NBest, strings
from boostfeat.metrics.bleu import HYP_LEN, REF_LEN
from boostfeat.model.model import Model


@pytest.fixture(scope="module")
def dev() -> NBest:
    return synthetic_nbest(SyntheticOptions(sentences=25, hyps=20, features=5), seed=1)


def with_length(nbest: NBest, *factors: float) -> NBest:
    """Hypotheses of uneven lengths, a word a unit, and every other reference of half its length, so that BLEU and BLEU-SBP differ;
    features Length0, ... of units that are multiples of the length.
    """
    units = replace(nbest.units, x=np.column_stack([nbest.units.x, np.tile(factors, (nbest.n_units, 1))]))
    kept = np.random.default_rng(0).random(nbest.n_occurrences) < 0.7
    kept[nbest.unit_ptr[:-1]] = True
    unit_ptr = np.concatenate([[0], np.cumsum(np.add.reduceat(kept, nbest.unit_ptr[:-1]))])
    stats = nbest.stats.copy()
    stats[:, HYP_LEN] = np.diff(unit_ptr)
    stats[nbest.sent_of_hyp % 2 == 0, REF_LEN] //= 2
    stats[:, :4] = np.minimum(stats[:, :4], stats[:, [HYP_LEN]] - np.arange(4)).clip(0)
    return replace(
        nbest,
        units=units,
        unit_names=(*nbest.unit_names, *(f"Length{k}" for k in range(len(factors)))),
        unit_idx=nbest.unit_idx[kept],
        src_start=nbest.src_start[kept],
        tgt_start=nbest.tgt_start[kept],
        unit_ptr=unit_ptr,
        stats=stats,
    )


def test_what_is_a_length(dev):
    assert length_feature(dev) is None
    assert length_feature(with_length(dev, -2.5)) == "Length0"
    assert length_feature(with_length(dev, 1.0, 2.0)) == "Length0"
    assert length_feature(with_length(dev, 0.0)) is None
    assert length_feature(replace(with_length(dev, 1.0), stats=np.zeros_like(dev.stats))) is None
    nearly = with_length(dev, 1.0)
    x = nearly.units.x.copy()
    x[0, -1] += 0.01
    assert length_feature(replace(nearly, units=replace(nearly.units, x=x))) is None


def test_length_stays_where_nothing_is_gained(dev):
    nbest, model = with_length(dev, -1.0), Model({"LexWeight": 0.5, "Length0": 0.25})
    assert tuned_length(model, nbest, "chrf") is model
    assert tuned_length(model, dev, "bleu") is model
    nothing = replace(nbest, stats=nbest.stats * np.array([0, 0, 0, 0, 1, 1], np.int32))  # BLEU is 0 along the whole line
    still = tuned_length(model, nothing, "bleu")
    assert still.weights == model.weights
    assert still.config["tuned_length"] == {"feature": "Length0", "shift": 0.0, "before": 0.0, "after": 0.0}


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp"])
@pytest.mark.parametrize("start", [{}, {"Length0": 0.25}])
def test_length_is_tuned_on_select(dev, metric, start):
    """The best shift is no worse than any of a grid; before and after are the metric's on the list, an empty one included."""
    nbest = concat([with_length(dev, -1.0), with_length(dev, -1.0).take(np.arange(2))])
    nbest = replace(nbest, hyp_ptr=np.concatenate([nbest.hyp_ptr, nbest.hyp_ptr[-1:]]), ids=np.arange(len(nbest) + 1),
                    source=strings([*nbest.source.to_pylist(), ""]), refs=strings([*nbest.refs.to_pylist(), "a b c d"]),
                    ref_ptr=np.concatenate([nbest.ref_ptr, nbest.ref_ptr[-1:] + 1]))  # fmt: skip
    model = Model({"LexWeight": 0.5, **start})
    tuned = tuned_length(model, nbest, metric)
    about, scorer = tuned.config["tuned_length"], Scorer(nbest)

    def gain(shift: float) -> float:
        weights = {**model.weights, "Length0": model.weights.get("Length0", 0.0) + shift}
        return scorer.score(best_choice(nbest, Model(weights).decision_function(nbest)), metric).score

    assert tuned.weights == {"LexWeight": 0.5, "Length0": start.get("Length0", 0.0) + about["shift"]}
    assert about["shift"] != 0
    assert gain(about["shift"]) == pytest.approx(about["after"], abs=1e-9)
    assert gain(0.0) == pytest.approx(about["before"], abs=1e-9)
    assert about["after"] >= max(gain(s) for s in np.linspace(-2, 2, 81)) - 1e-9
