"""The log-loss of pairs by naive formulas and finite differences, its invariances and limits."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit

from boostfeat.losses.line_search import minimise_ray
from boostfeat.losses.pairs import PairOptions, Pairs, sample_pairs
from boostfeat.losses.pairwise import PairwiseLogLoss, add_up, step_penalty

pytestmark = pytest.mark.quick

HYP_PTR = np.array([0, 7, 7, 8, 20, 22])  # lists of 7, 0, 1, 12 and 2
N = int(HYP_PTR[-1])
GAINS = np.random.default_rng(0).random(N)
PAIRS = sample_pairs(HYP_PTR, GAINS, PairOptions(draws=100, keep=15), seed=0)
WEIGHT = np.linspace(0.5, 2, len(PAIRS))  # one of them 1 as without weights: it is added up in another way
WEIGHT[3] = 1.0
SCORES, DIRECTION = np.random.default_rng(1).normal(size=(2, N)) * 2
P = np.eye(N)[PAIRS.better] - np.eye(N)[PAIRS.worse]
LOSSES = {"plain": PairwiseLogLoss(PAIRS, N), "weighted": PairwiseLogLoss(PAIRS, N, WEIGHT)}


def told_apart(loss, direction):
    return loss.at(SCORES).along(direction).told_apart


both = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@both
def test_the_formula_of_the_method(loss):
    """Ψ = Σ w log(1 + exp(-z)), dΨ/dscores = -P' w σ(-z), z = P scores"""
    z = P @ SCORES
    assert loss.at(SCORES).value() == pytest.approx(loss.weight @ np.log(1 + np.exp(-z)), rel=1e-13)
    assert loss.at(SCORES).gradient() == pytest.approx(-P.T @ (loss.weight * expit(-z)), rel=1e-13)


@both
def test_gradient_by_finite_differences(loss):
    numeric = approx_fprime(SCORES, lambda scores: loss.at(scores).value(), 1e-7)  # error about 1e-7 · |Ψ''| + 1e-16 · |Ψ| / 1e-7
    assert loss.at(SCORES).gradient() == pytest.approx(numeric, abs=2e-6)


@both
@pytest.mark.parametrize("rho", [-1.3, 0.0, 0.4, 5.0])
def test_ray_by_finite_differences(loss, rho):
    direction = np.where(np.arange(N) < 5, 0.0, DIRECTION)  # some pairs do not move
    ray, h = loss.at(SCORES).along(direction).at, 1e-5
    value, first, second = ray(rho)
    assert value == pytest.approx(loss.at(SCORES + rho * direction).value(), rel=1e-13)
    assert first == pytest.approx(loss.at(SCORES + rho * direction).gradient() @ direction, rel=1e-10, abs=1e-12)
    assert first == pytest.approx((ray(rho + h)[0] - ray(rho - h)[0]) / (2 * h), abs=1e-7)
    assert second == pytest.approx((ray(rho + h)[1] - ray(rho - h)[1]) / (2 * h), abs=1e-7)


@both
@pytest.mark.parametrize("cuts", [[0, 5, 5, 20], [0, 1, 2]])
def test_blocks_add_up_to_the_whole(loss, cuts):
    """Each block is the loss of its own pairs; the sum, in their order, is the ray of all."""
    cuts = np.array([*cuts, len(PAIRS)])
    cut = PairwiseLogLoss(PAIRS, N, loss.weight, cuts=cuts)
    found = cut.at(SCORES).along(DIRECTION).blocks(0.7)
    assert (
        add_up(found)
        == cut.at(SCORES).along(DIRECTION).at(0.7)
        == pytest.approx(loss.at(SCORES).along(DIRECTION).at(0.7), rel=1e-13)
    )
    for (a, b), own in zip(pairwise(cuts), found, strict=True):
        part = Pairs(PAIRS.better[a:b], PAIRS.worse[a:b], PAIRS.delta[a:b], np.array([0, b - a]))
        assert own == pytest.approx(PairwiseLogLoss(part, N, loss.weight[a:b]).at(SCORES).along(DIRECTION).at(0.7), rel=1e-13)


@both
def test_the_same_bits_in_any_number_of_threads(loss):
    """Cuts are those of sentences: threads have no hypothesis in common."""
    found = []
    for threads in (1, 2, 7):
        here = PairwiseLogLoss(PAIRS, N, loss.weight, cuts=PAIRS.sent_ptr, threads=threads).at(SCORES)
        ray = here.along(DIRECTION)
        found.append((here.value(), here.gradient().tolist(), ray.at(0.7), ray.told_apart))
    assert found[0] == found[1] == found[2]


# -- invariances and limits -------------------------------------------------------------------------------------------


@both
def test_a_constant_added_to_a_list_changes_nothing(loss):
    shifted = SCORES + np.repeat([3.0, 0.0, -50.0, 1e3, 0.25], np.diff(HYP_PTR))
    assert loss.at(shifted).value() == pytest.approx(loss.at(SCORES).value(), rel=1e-12)
    assert loss.at(shifted).gradient() == pytest.approx(loss.at(SCORES).gradient(), rel=1e-10, abs=1e-13)
    for a, b in pairwise(HYP_PTR):
        assert loss.at(SCORES).gradient()[a:b].sum() == pytest.approx(0, abs=1e-12)


def test_the_scale_of_a_direction_is_its_root_mean_square_over_the_pairs_it_tells_apart():
    direction = np.where(np.arange(N) % 3 == 0, DIRECTION, 7.0)  # equal on many pairs
    apart = P @ direction
    cuts = np.array([0, 4, 4, len(PAIRS)])
    for loss in (LOSSES["plain"], PairwiseLogLoss(PAIRS, N, WEIGHT, cuts=cuts)):
        assert step_penalty(3.0, told_apart(loss, direction)) == pytest.approx(3 * np.mean(apart[apart != 0] ** 2), rel=1e-13)
    rounded = direction + 1e-14 * DIRECTION
    assert (P @ rounded)[apart == 0].any()  # the rounding of sums tells nothing apart
    scales = [step_penalty(3.0, told_apart(LOSSES["plain"], d)) for d in (rounded, direction)]
    assert scales[0] == pytest.approx(scales[1], rel=1e-12)
    assert step_penalty(3.0, told_apart(LOSSES["plain"], np.ones(N))) == 3.0  # nothing is told apart: nothing to scale


@both
@pytest.mark.parametrize("size", [2.0**-80, 2.0**80])
def test_what_a_direction_tells_apart_does_not_depend_on_its_units(loss, size):
    """Powers of two: the very bits. What is rounding is so beside the largest value, in whatever units."""
    direction = np.where(np.arange(N) % 3 == 0, DIRECTION, 7.0 + 1e-14 * DIRECTION)
    cut = PairwiseLogLoss(PAIRS, N, loss.weight, cuts=np.array([0, 4, 4, len(PAIRS)]))
    expected = [(squares * size * size, n) for squares, n in told_apart(cut, direction)]
    assert told_apart(cut, size * direction) == expected
    assert 0 < sum(n for _, n in expected) < np.count_nonzero(P @ direction)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_penalised_step_does_not_depend_on_the_units_of_its_direction(size):
    loss = LOSSES["plain"]

    def step(direction):
        return minimise_ray(loss.at(SCORES).along(direction).at, l2=step_penalty(5.0, told_apart(loss, direction))) * direction

    np.testing.assert_allclose(step(size * DIRECTION), step(DIRECTION), rtol=1e-7)


@both
@pytest.mark.parametrize("size", [0.0, 1e-308, 750.0, 1e16, 1e200, 1e308])
def test_no_overflow(loss, size):
    scores, direction = np.sign(SCORES) * size, np.sign(DIRECTION) * size
    assert isfinite(loss.at(scores).value())
    assert np.isfinite(loss.at(scores).gradient()).all()
    for rho in (0.0, 1.0, -1e10, 1e308):
        assert np.isfinite(loss.at(scores).along(direction).at(rho)).all()
    assert isfinite(minimise_ray(loss.at(scores).along(direction).at, l2=1.0))


@pytest.mark.parametrize("rest", [True, False])
def test_more_pairs_than_the_product_of_their_factors_can_hold(rest):
    """2000 pairs of margin 0 are 2000 log 2, whether the direction moves them or not; their factors' product is 2^2000."""
    order = np.arange(2000)
    pairs = Pairs(better=2 * order, worse=2 * order + 1, delta=np.ones(2000), sent_ptr=np.array([0, 2000]))
    value, first, second = (
        PairwiseLogLoss(pairs, 4000).at(np.zeros(4000)).along(np.tile([0.0 if rest else 1.0, 0.0], 2000)).at(0.0)
    )
    assert value == pytest.approx(2000 * np.log(2), rel=1e-15)  # few logarithms: a sum of 2000 is off by 4e-14
    assert (first, second) == ((0, 0) if rest else pytest.approx((-1000, 500)))


def test_no_pairs_no_hypotheses():
    none = np.zeros(0)
    loss = PairwiseLogLoss(sample_pairs(np.array([0, 0]), none, PairOptions(), seed=0), 0)
    assert loss.at(none).value() == 0
    assert loss.at(none).gradient().shape == (0,)
    assert minimise_ray(loss.at(none).along(none).at, l2=1.0) == 0
