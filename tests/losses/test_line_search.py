"""The line search by scipy's, by hard functions, and on a loss that is not convex."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, isfinite, log1p, nan

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from boostfeat.losses.line_search import minimise_ray
from boostfeat.losses.pairs import PairOptions, sample_pairs
from boostfeat.losses.pairwise import PairwiseLogLoss

pytestmark = pytest.mark.quick

HYP_PTR = np.array([0, 7, 7, 8, 20, 22])  # lists of 7, 0, 1, 12 and 2
N = int(HYP_PTR[-1])
GAINS = np.random.default_rng(0).random(N)
LOSS = PairwiseLogLoss(sample_pairs(HYP_PTR, GAINS, PairOptions(draws=100, keep=15), seed=0), N)
SCORES, DIRECTION = np.random.default_rng(1).normal(size=(2, N)) * 2


def log_loss(scores, direction):
    return LOSS.at(scores).along(direction).at


def expected_gain(scores, direction):
    """Ψ = -Σ_s E[gain], E under a softmax over each list; Ψ' = -Σ Cov(gain, d), Ψ'' = -Σ E[(gain - E gain)(d - E d)²]"""

    def at(rho):
        sums = np.zeros(3)
        for a, b in pairwise(HYP_PTR):
            if b > a:
                p, gain, d = softmax(scores[a:b] + rho * direction[a:b]), GAINS[a:b], direction[a:b]
                above, apart = gain - p @ gain, d - p @ d
                sums -= [p @ gain, p @ (above * apart), p @ (above * apart * apart)]
        return tuple(sums.tolist())

    return at


def counted(ray):
    def at(rho):
        at.calls += 1
        return ray(rho)

    at.calls = 0
    return at


@pytest.mark.parametrize("l2", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("start", [0.0, -40.0, 1e6])
def test_finds_the_minimum_of_a_convex_loss(l2, start):
    """scipy's Brent compares values, so it is good to √eps only; the slope at our answer says the rest."""
    ray = counted(log_loss(SCORES, DIRECTION))
    rho = minimise_ray(ray, l2=l2, start=start)
    assert ray.calls < 60
    assert rho == pytest.approx(minimize_scalar(lambda r: ray(r)[0] + l2 / 2 * r * r).x, rel=1e-5, abs=1e-7)
    _, first, second = ray(rho)
    assert abs(first + l2 * rho) < 1e-6 * (second + l2)


@pytest.mark.parametrize("ray_of", [log_loss, expected_gain], ids=["convex", "not convex"])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_the_scale_of_the_direction_does_not_matter(ray_of, size):
    want = minimise_ray(ray_of(SCORES, DIRECTION), l2=0.1)
    ray = counted(ray_of(SCORES, DIRECTION * size))
    assert minimise_ray(ray, l2=0.1 * size**2) * size == pytest.approx(want, rel=1e-6)
    assert ray.calls < 40


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_is_not_convex(seed):
    rng = np.random.default_rng(seed)
    scores, direction = rng.normal(size=(2, N)) * 5
    ray = counted(expected_gain(3 * scores, 3 * direction))
    rho = minimise_ray(ray, l2=1e-3)
    assert ray.calls <= 101
    value, first, second = ray(rho)
    assert value + 5e-4 * rho**2 <= ray(0.0)[0]
    assert abs(first + 1e-3 * rho) < 1e-6
    assert second + 1e-3 > 0


HARD = {
    "constant": lambda r: (1.0, 0.0, 0.0),
    "falls for ever": lambda r: (-r, -1.0, 0.0),
    "separable": lambda r: (
        log1p(exp(-r)) if r > -700 else -r,
        -1 / (1 + exp(min(r, 700))),
        exp(-abs(r)) / (1 + exp(-abs(r))) ** 2,
    ),
    "kink at 3": lambda r: (abs(r - 3), 1.0 if r > 3 else -1.0, 0.0),
    "quartic at 2": lambda r: ((r - 2) ** 4, 4 * (r - 2) ** 3, 12 * (r - 2) ** 2),
    "wrong curvature": lambda r: ((r - 5) ** 2, 2 * (r - 5), 1e-9),
    "too much curvature": lambda r: ((r - 5) ** 2, 2 * (r - 5), 2e3),
    "wall at 1": lambda r: ((r - 9) ** 2, 2 * (r - 9), 2.0) if r < 1 else (nan, nan, nan),
    "infinite beyond 1": lambda r: ((r - 9) ** 2, 2 * (r - 9), 2.0) if r < 1 else (inf, inf, 0.0),
    "cosine": lambda r: (-np.cos(r - 1), np.sin(r - 1), np.cos(r - 1)),
    "nan": lambda r: (nan, nan, nan),
}
ANSWERS = {"constant": 0, "kink at 3": 3, "quartic at 2": 2, "wrong curvature": 5, "too much curvature": 5}
ANSWERS |= {"wall at 1": 1, "infinite beyond 1": 1}


@pytest.mark.parametrize("name", list(HARD))
def test_always_ends(name):
    ray = counted(HARD[name])
    rho = minimise_ray(ray, l2=0.0)
    assert ray.calls <= 101
    assert isfinite(rho)
    if name in ANSWERS:
        assert rho == pytest.approx(ANSWERS[name], abs=1e-3 if "quartic" in name else 1e-6)


@pytest.mark.parametrize("size", [2.0**-40, 2.0**40])
def test_a_multiple_of_the_loss_gives_the_same(size):
    """Bit by bit, and it ends as early: a power of two only shifts exponents."""
    ray = log_loss(SCORES, DIRECTION)
    seen, again = [], []
    minimise_ray(lambda r: (seen.append(r), ray(r))[1], l2=0.5)
    minimise_ray(lambda r: (again.append(r), tuple(size * v for v in ray(r)))[1], l2=0.5 * size)
    assert again == seen


@pytest.mark.parametrize("start", np.linspace(-2, 6, 40))
def test_is_more_exact_than_the_values_are(start):
    """Values near 1e6 with the rounding of a long sum, here a wave, tell points 1e-4 apart at best; slopes do better."""
    ray = counted(lambda r: (1e6 * (1 + 3e-15 * np.sin(1e9 * r)) + exp(r - 2) - r, exp(r - 2) - 1, exp(r - 2)))
    assert minimise_ray(ray, l2=0.0, start=start, tol=1e-12) == pytest.approx(2, abs=1e-8)
    assert ray.calls < 30


@pytest.mark.parametrize(("curve", "first"), [(-2.0, 0.5), (2.0, 0.5), (0.0, 1.0), (-0.25, 4.0)])
def test_the_first_step_is_newtons_also_where_the_loss_bends_down(curve, first):
    """|slope / curve| downhill, 1 where there is no curve: of a slope of -1 at 0."""
    asked = []

    def ray(rho):
        asked.append(rho)
        return -rho, -1.0, curve

    minimise_ray(ray, l2=0.0, max_iter=1)
    assert asked == [0.0, first]
