"""First weights refitted on expected gain: the loss by finite differences, what the refit does, what folds choose and record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.expected import KEY, expected_gain, refitted, with_expected
from boostfeat.boosting.options import recipe
from boostfeat.boosting.penalties import WITHOUT
from boostfeat.lists.nbest import NBest
from boostfeat.losses.expected import ExpectedGain
from boostfeat.losses.pairs import pairs_for
from boostfeat.model.model import Model
from boostfeat.tuners.linear import linear_problem

OPTIONS = recipe("default", rounds=0, draws=200, keep=30, sparse_l2=1000.0)


@pytest.fixture(scope="module")
def dev() -> NBest:
    return synthetic_nbest(SyntheticOptions(sentences=40, hyps=15, features=5, slots=4), seed=3)


def fitted(dev: NBest, l2: float = 1.0):
    problem = linear_problem(dev, pairs_for(dev, OPTIONS.pairs, seed=0))
    return problem.fit(l2=l2).weights, problem.scale


def test_gradient_by_finite_differences():
    """Lists of one, of none, of equal gains; the error of a central difference is of order step²."""
    rng = np.random.default_rng(0)
    ptr = np.array([0, 5, 5, 6, 10])
    gains, scores = rng.random(10), rng.standard_normal(10)
    gains[6:] = 0.5
    loss = ExpectedGain(ptr, gains, np.array([1.0, 2.0, 3.0, 0.5]), scale=1.7)
    found, step = loss.at(scores).gradient(), 1e-5
    for h in range(10):
        up, down = scores.copy(), scores.copy()
        up[h] += step
        down[h] -= step
        assert found[h] == pytest.approx((loss.at(up).value() - loss.at(down).value()) / (2 * step), abs=1e-9)
    assert loss.at(1e9 * scores).value() == pytest.approx(
        -(gains[np.argmax(scores[:5])] + 3 * gains[5] + 0.25)
    )  # sharp: the best's


def test_a_refit_raises_the_expected_gain_and_stays_near(dev):
    weights, scale = fitted(dev, l2=3000.0)
    again = refitted(dev, weights, OPTIONS, scale)
    loss = expected_gain(dev, Model(weights).decision_function(dev), OPTIONS)
    before, after = (loss.at(Model(w).decision_function(dev)).value() for w in (weights, again))
    assert after < before
    assert again.keys() == weights.keys()
    held = refitted(dev, weights, replace(OPTIONS, l2=1e12), scale)
    assert all(held[name] == pytest.approx(weights[name], rel=1e-6, abs=1e-9) for name in weights)


def test_features_that_no_pair_tells_apart_stay(dev):
    weights, scale = fitted(dev)
    scale = scale.copy()
    scale[1] = 0.0
    name = dev.feature_names[1]
    assert refitted(dev, weights, OPTIONS, scale)[name] == weights[name]


def test_folds_choose_by_a_standard_error_and_the_model_says_so(dev):
    options, reasons = with_expected(dev, OPTIONS, seed=0)
    why = reasons[KEY]
    gained = why["bleu-sbp"][1] > why["bleu-sbp"][0] + why["error"]
    assert options.expected == ("always" if gained else "never")
    model = boost(dev, None, OPTIONS)
    assert (model.config["expected"], model.config[KEY]) == (options.expected, why)
    assert (model == boost(dev, None, options)) is False  # which has no reasons
    assert model.weights == boost(dev, None, options).weights


def test_always_and_never(dev):
    """Weights held down by a strong penalty are far from what the metric wants: the refit is another model."""
    always, never = (boost(dev, None, replace(OPTIONS, expected=e, l2=WITHOUT)) for e in ("always", "never"))
    assert always.weights != never.weights
    assert boost(dev, None, replace(OPTIONS, expected="always", l2=WITHOUT), threads=2).weights == always.weights


def test_other_gains_are_as_they_were(dev):
    options, reasons = with_expected(dev, replace(OPTIONS, gain="chrf", metric="chrf"), seed=0)
    assert (options.expected, reasons) == ("never", {})
    assert with_expected(dev, OPTIONS, seed=0, init=Model({}))[0].expected == "never"
    assert with_expected(dev, replace(OPTIONS, rule="best"), seed=0)[0].expected == "never"
    so_far = Model({}, config={"expected": "always", KEY: {"error": 1.0}})
    options, reasons = with_expected(dev, OPTIONS, seed=0, so_far=so_far)
    assert (options.expected, reasons) == ("always", {KEY: {"error": 1.0}})
