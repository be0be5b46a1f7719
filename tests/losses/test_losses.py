"""Losses by finite differences and naive formulas; the line search by scipy's and by hard functions."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, isfinite, log1p, nan

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import expit, softmax

from boostfeat.core.errors import InputError
from boostfeat.core.fast_exp import exp_nonpositive
from boostfeat.losses import LOSSES, OF_LISTS, ExpectedBleu, ExpectedGain, LambdaLoss, PairwiseLogLoss, make_loss
from boostfeat.losses.line_search import minimise_ray
from boostfeat.losses.pairs import PairOptions, Pairs, sample_pairs
from boostfeat.metrics.bleu import corpus_bleu, corpus_rows

HYP_PTR = np.array([0, 7, 7, 8, 20, 22])  # lists of 7, 0, 1, 12 and 2
N = int(HYP_PTR[-1])
GAINS = np.random.default_rng(0).random(N)
PAIRS = sample_pairs(HYP_PTR, GAINS, PairOptions(draws=100, keep=15), seed=0)


def random_stats(n):
    """Statistics of hypotheses of 5 to 12 words against references as long; fewer matches the longer the n-gram."""
    rng = np.random.default_rng(3)
    length, ref_len = rng.integers(5, 13, (2, n))
    matches = [rng.integers(1, np.minimum(length, ref_len) - 3)]
    for _ in range(3):
        matches.append(rng.integers(0, matches[-1] + 1))
    return np.stack([*matches, length, ref_len], axis=1).astype(np.int32)


STATS = random_stats(N)


def loss_of(name, strict=True):
    return make_loss(name, pairs=PAIRS, hyp_ptr=HYP_PTR, gains=GAINS, scale=0.7, stats=STATS, strict=strict)


def points(n=1):
    return np.random.default_rng(1).normal(size=(n, N)) * 2


every_loss = pytest.mark.parametrize("name", list(LOSSES))


# -- against naive formulas -------------------------------------------------------------------------------------------


def test_log_loss_is_the_formula_of_the_method():
    scores, p = points()[0], PAIRS.matrix(N)
    z = p @ scores
    assert PairwiseLogLoss(PAIRS, N).value(scores) == pytest.approx(np.log(1 + np.exp(-z)).sum(), rel=1e-13)
    assert PairwiseLogLoss(PAIRS, N).gradient(scores) == pytest.approx(-p.T @ expit(-z), rel=1e-13)
    assert LambdaLoss(PAIRS, N).value(scores) == pytest.approx(PAIRS.delta @ np.log(1 + np.exp(-z)), rel=1e-13)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_expected_gain_is_the_formula(scale):
    scores = points()[0]
    want = [softmax(scale * scores[a:b]) @ GAINS[a:b] for a, b in pairwise(HYP_PTR) if b > a]
    assert ExpectedGain(HYP_PTR, GAINS, scale).value(scores) == pytest.approx(-sum(want), rel=1e-13)


def test_expected_gain_of_large_scale_is_the_gain_of_the_first():
    scores = points()[0]
    best = [a + int(scores[a:b].argmax()) for a, b in pairwise(HYP_PTR) if b > a]
    assert ExpectedGain(HYP_PTR, GAINS, 1e6).value(scores) == pytest.approx(-GAINS[best].sum(), rel=1e-12)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("scale", [0.1, 1.0, 1e6])
def test_expected_bleu_is_bleu_of_expected_counts(scale, strict):
    """corpus_bleu takes fractional counts; at scale 10⁶ these are the counts of the first hypotheses."""
    scores, rows = points()[0], corpus_rows(STATS)
    sums = sum(softmax(scale * scores[a:b]) @ rows[a:b] for a, b in pairwise(HYP_PTR) if b > a)
    want = -(len(HYP_PTR) - 1) * np.log(corpus_bleu(sums, strict=strict))
    assert ExpectedBleu(HYP_PTR, STATS, scale, strict=strict).value(scores) == pytest.approx(want, rel=1e-12)


# -- derivatives ------------------------------------------------------------------------------------------------------


@every_loss
def test_gradient_by_finite_differences(name):
    loss, scores = loss_of(name), points()[0]
    numeric = approx_fprime(scores, loss.value, 1e-7)  # error about 1e-7 · |Ψ''| + 1e-16 · |Ψ| / 1e-7
    assert loss.gradient(scores) == pytest.approx(numeric, abs=2e-6)


@every_loss
@pytest.mark.parametrize("rho", [-1.3, 0.0, 0.4, 5.0])
def test_ray_by_finite_differences(name, rho):
    loss, (scores, direction) = loss_of(name), points(2)
    direction[:5] = 0.0  # some pairs do not move
    ray, h = loss.ray(scores, direction), 1e-5
    value, first, second = ray(rho)
    assert value == pytest.approx(loss.value(scores + rho * direction), rel=1e-13)
    assert first == pytest.approx(loss.gradient(scores + rho * direction) @ direction, rel=1e-10, abs=1e-12)
    assert first == pytest.approx((ray(rho + h)[0] - ray(rho - h)[0]) / (2 * h), abs=1e-7)
    assert second == pytest.approx((ray(rho + h)[1] - ray(rho - h)[1]) / (2 * h), abs=1e-7)


@pytest.mark.parametrize("strict", [True, False])
def test_gradient_of_expected_bleu_by_finite_differences(strict):
    loss, scores = loss_of("expected-bleu", strict), points()[0]
    assert loss.gradient(scores) == pytest.approx(approx_fprime(scores, loss.value, 1e-7), abs=2e-6)


@every_loss
def test_curvature(name):
    """Of pairs: the hessian, by differences of the gradient. Of lists: the Fisher information, scale² Σ_s Cov_p(B)."""
    loss, scores = loss_of(name), points()[0]
    basis = np.random.default_rng(5).normal(size=(N, 3))
    basis[:7] = basis[0]  # the first list's pairs do not move
    found = loss.curvature(scores, basis)
    if name in OF_LISTS:
        want = np.zeros((3, 3))
        for a, b in pairwise(HYP_PTR):
            if b > a:
                p = softmax(0.7 * scores[a:b])
                centred = basis[a:b] - p @ basis[a:b]
                want += 0.7**2 * centred.T @ (p[:, None] * centred)
    else:
        want = approx_jacobian(lambda w: basis.T @ loss.gradient(scores + basis @ w), 3)
    assert found == pytest.approx(want, abs=1e-6)


def approx_jacobian(f, n, h=1e-5):
    return np.stack([(f(h * e) - f(-h * e)) / (2 * h) for e in np.eye(n)], axis=1)


@pytest.mark.parametrize("name", ["log", "lambda"])
def test_unit_curvature_is_the_diagonal(name):
    """With A a matrix of counts, the second derivative in a unit's score is that of one column of A. Repeats count twice."""
    rng = np.random.default_rng(6)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, N))])
    idx = rng.integers(0, 9, ptr[-1]).astype(np.int32)
    a = np.zeros((N, 9))
    np.add.at(a, (np.repeat(np.arange(N), np.diff(ptr)), idx), 1)
    loss, scores = loss_of(name), points()[0]
    assert a.max() > 1
    assert loss.unit_curvature(scores, ptr, idx, 9) == pytest.approx(np.diag(loss.curvature(scores, a)), rel=1e-12, abs=1e-12)


# -- invariances and limits -------------------------------------------------------------------------------------------


@every_loss
def test_a_constant_added_to_a_list_changes_nothing(name):
    loss, scores = loss_of(name), points()[0]
    shifted = scores + np.repeat([3.0, 0.0, -50.0, 1e3, 0.25], np.diff(HYP_PTR))
    assert loss.value(shifted) == pytest.approx(loss.value(scores), rel=1e-12)
    assert loss.gradient(shifted) == pytest.approx(loss.gradient(scores), rel=1e-10, abs=1e-13)
    for a, b in pairwise(HYP_PTR):
        assert loss.gradient(scores)[a:b].sum() == pytest.approx(0, abs=1e-12)


@every_loss
@pytest.mark.parametrize("size", [0.0, 1e-308, 750.0, 1e16, 1e200, 1e308])
def test_no_overflow(name, size):
    loss, (scores, direction) = loss_of(name), np.sign(points(2)) * size
    assert isfinite(loss.value(scores))
    assert np.isfinite(loss.gradient(scores)).all()
    for rho in (0.0, 1.0, -1e10, 1e308):
        assert np.isfinite(loss.ray(scores, direction)(rho)).all()
    assert isfinite(minimise_ray(loss.ray(scores, direction), l2=1.0))


@pytest.mark.parametrize("rest", [True, False])
def test_more_pairs_than_the_product_of_their_factors_can_hold(rest):
    """2000 pairs of margin 0 are 2000 log 2, whether the direction moves them or not; their factors' product is 2^2000."""
    order = np.arange(2000)
    pairs = Pairs(better=2 * order, worse=2 * order + 1, delta=np.ones(2000), sent_ptr=np.array([0, 2000]))
    value, first, second = PairwiseLogLoss(pairs, 4000).ray(np.zeros(4000), np.tile([0.0 if rest else 1.0, 0.0], 2000))(0.0)
    assert value == pytest.approx(2000 * np.log(2), rel=1e-13)
    assert (first, second) == ((0, 0) if rest else pytest.approx((-1000, 500)))


@every_loss
def test_no_pairs_no_hypotheses(name):
    ptr, gains = np.array([0, 0]), np.zeros(0)
    loss = make_loss(name, pairs=sample_pairs(ptr, gains, PairOptions(), seed=0), hyp_ptr=ptr, gains=gains, stats=STATS[:0])
    assert loss.value(gains) == 0
    assert loss.gradient(gains).shape == (0,)
    assert minimise_ray(loss.ray(gains, gains), l2=1.0) == 0


@pytest.mark.parametrize("name", ["", "bleu", "hinge", "zero"])  # before, between and after the known ones
def test_unknown_loss_lists_the_known(name):
    with pytest.raises(InputError, match=f"unknown loss '{name}': expected one of log, lambda, expected-gain, expected-bleu"):
        make_loss(name, pairs=PAIRS, hyp_ptr=HYP_PTR, gains=GAINS, stats=STATS)


@pytest.mark.parametrize(
    ("name", "what"),
    [("expected-bleu", "the statistics of lists"), ("log", "the pairs of lists"), ("lambda", "the pairs of lists")],
)
def test_a_loss_says_what_it_lacks(name, what):
    pairs = PAIRS if name == "expected-bleu" else None
    with pytest.raises(InputError, match=f"loss {name}: expected {what} with references, found none; import them with -r REF"):
        make_loss(name, pairs=pairs, hyp_ptr=HYP_PTR, gains=GAINS)


def test_losses_take_the_weights_and_the_scale_they_are_given():
    weight, scores = np.linspace(0.5, 2, len(PAIRS)), points()[0]
    plain = np.log(1 + np.exp(-(PAIRS.matrix(N) @ scores)))
    for name in ("log", "lambda"):
        loss = make_loss(name, pairs=PAIRS, hyp_ptr=HYP_PTR, gains=GAINS, weight=weight)
        assert loss.value(scores) == pytest.approx(weight @ plain, rel=1e-13)
    default = make_loss("expected-gain", pairs=None, hyp_ptr=HYP_PTR, gains=GAINS)
    assert default.value(scores) == ExpectedGain(HYP_PTR, GAINS, 1.0).value(scores)
    default = make_loss("expected-bleu", pairs=None, hyp_ptr=HYP_PTR, gains=GAINS, stats=STATS)
    strict, plain = (ExpectedBleu(HYP_PTR, STATS, 1.0, strict=s).value(scores) for s in (True, False))
    assert default.value(scores) == strict != plain
    assert ExpectedGain(HYP_PTR, GAINS).scale == ExpectedBleu(HYP_PTR, STATS).scale == 1.0


# -- line search ------------------------------------------------------------------------------------------------------


def counted(ray):
    def at(rho):
        at.calls += 1
        return ray(rho)

    at.calls = 0
    return at


@pytest.mark.parametrize("name", ["log", "lambda"])
@pytest.mark.parametrize("l2", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("start", [0.0, -40.0, 1e6])
def test_line_search_finds_the_minimum_of_convex_losses(name, l2, start):
    """scipy's Brent compares values, so it is good to √eps only; the slope at our answer says the rest."""
    scores, direction = points(2)
    ray = counted(loss_of(name).ray(scores, direction))
    rho = minimise_ray(ray, l2=l2, start=start)
    assert ray.calls < 60
    assert rho == pytest.approx(minimize_scalar(lambda r: ray(r)[0] + l2 / 2 * r * r).x, rel=1e-5, abs=1e-7)
    _, first, second = ray(rho)
    assert abs(first + l2 * rho) < 1e-6 * (second + l2)


@pytest.mark.parametrize("name", ["log", "lambda", "expected-gain"])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_line_search_does_not_depend_on_the_scale_of_the_direction(name, size):
    scores, direction = points(2)
    loss = loss_of(name)
    want = minimise_ray(loss.ray(scores, direction), l2=0.1)
    ray = counted(loss.ray(scores, direction * size))
    assert minimise_ray(ray, l2=0.1 * size**2) * size == pytest.approx(want, rel=1e-6)
    assert ray.calls < 40


@pytest.mark.parametrize("seed", range(20))
def test_line_search_on_a_loss_that_is_not_convex(seed):
    rng = np.random.default_rng(seed)
    scores, direction = rng.normal(size=(2, N)) * 5
    ray = counted(ExpectedGain(HYP_PTR, GAINS, 3.0).ray(scores, direction))
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
def test_line_search_always_ends(name):
    ray = counted(HARD[name])
    rho = minimise_ray(ray, l2=0.0)
    assert ray.calls <= 101
    assert isfinite(rho)
    if name in ANSWERS:
        assert rho == pytest.approx(ANSWERS[name], abs=1e-3 if "quartic" in name else 1e-6)


@pytest.mark.parametrize("size", [2.0**-40, 2.0**40])
def test_line_search_of_a_multiple_of_the_loss_is_the_same(size):
    """Bit by bit, and it ends as early: a power of two only shifts exponents."""
    scores, direction = points(2)
    ray = loss_of("log").ray(scores, direction)
    seen, again = [], []
    minimise_ray(lambda r: (seen.append(r), ray(r))[1], l2=0.5)
    minimise_ray(lambda r: (again.append(r), tuple(size * v for v in ray(r)))[1], l2=0.5 * size)
    assert again == seen


def test_line_search_doubles_its_steps_and_then_halves_the_bracket():
    """|r - 3| says nothing of where its minimum is: steps of 1, 2, 4 until it rises, then middles of the bracket."""
    seen = []
    minimise_ray(lambda r: (seen.append(r), HARD["kink at 3"](r))[1], l2=0.0)
    assert seen[:4] == [0, 1, 3, 7]
    assert seen[4:10] == [3 + 4 / 2**k for k in range(1, 7)]


@pytest.mark.parametrize("start", np.linspace(-2, 6, 40))
def test_line_search_is_more_exact_than_the_values_are(start):
    """Values near 1e6 with the rounding of a long sum, here a wave, tell points 1e-4 apart at best; slopes do better."""
    ray = counted(lambda r: (1e6 * (1 + 3e-15 * np.sin(1e9 * r)) + exp(r - 2) - r, exp(r - 2) - 1, exp(r - 2)))
    assert minimise_ray(ray, l2=0.0, start=start, tol=1e-12) == pytest.approx(2, abs=1e-8)
    assert ray.calls < 30


def test_exp_nonpositive_is_exact_to_the_last_place():
    """Against numpy's, over all magnitudes; below -700 it stays tiny and finite."""
    x = -np.concatenate(
        [[0.0, 700.0], np.logspace(-320, np.log10(699), 20_000), np.random.default_rng(0).uniform(0, 700, 50_000)]
    )
    expected = np.exp(x)
    assert (np.abs(exp_nonpositive(x.copy()) - expected) <= np.spacing(expected)).all()
    assert (exp_nonpositive(np.array([-701.0, -1e308, -np.inf])) == np.exp(-700.0)).all()
    assert len(exp_nonpositive(np.zeros(0))) == 0
