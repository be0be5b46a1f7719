"""AROW: the linearised update against the eager twin of AdaGrad's tests, the exact one against its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from test_adagrad import eager, lists, planted, random_lists, vector

from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.tuners.arow import Arow
from boostfeat.tuners.base import Features, Groups, Run

EXACT = Arow(variant="exact", standardise=False, epochs=3)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_linear_fit_equals_the_eager_twin(loss, workers):
    nbest = random_lists(5)
    names = Features.of(nbest).names
    init = np.random.default_rng(7).normal(0, 0.1, len(names))
    tuner = Arow(loss=loss, workers=workers, standardise=False, draws=60, batch=3, epochs=3, variance=0.5, r=7.0)
    got = vector(tuner.fit(nbest, run=Run(init=dict(zip(names, init, strict=True)))), nbest)
    want = eager(tuner, nbest, init, root=False, prior=7.0 / 0.5, r=7.0)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def naive_exact(tuner, nbest, init, seed=0):
    """[G13 eq. 8-10] with hope and fear, in NumPy; also the losses that led to updates, epoch by epoch."""
    x = np.hstack([nbest.global_features, nbest.global_sparse.toarray()])
    gains, rng = sentence_bleu(nbest.stats), np.random.default_rng(seed)
    w, precision, losses = init.copy(), np.full(len(init), 1 / tuner.variance), []
    sizes = np.diff(nbest.hyp_ptr)
    for _ in range(tuner.epochs):
        losses.append([])
        for s in rng.permutation(np.flatnonzero(sizes > 1)):
            f, gain = x[nbest.hyp_ptr[s] : nbest.hyp_ptr[s + 1]], gains[nbest.hyp_ptr[s] : nbest.hyp_ptr[s + 1]]
            hope, fear = np.argmax(f @ w + gain), np.argmax(f @ w - gain)
            d = f[hope] - f[fear]
            loss = gain[hope] - gain[fear] - w @ d
            if loss > 0 and d.any():
                w = w + min(tuner.c, loss / (d**2 @ (1 / precision))) * d / precision
                precision = precision + d**2 / tuner.r
                losses[-1].append(loss)
    return w, losses


@pytest.mark.parametrize("options", [{}, {"c": 0.001}, {"c": 10.0, "r": 0.5, "epochs": 1}, {"variance": 0.01, "r": 3.0}])
def test_exact_fit_equals_its_twin(options):
    """A step below C leaves hope and fear level, and on the list's next turn which of them is taken is a matter of rounding."""
    nbest = random_lists(6, counts=(9, 1, 5, 0, 30, 12, 2, 8))
    names = Features.of(nbest).names
    init = np.random.default_rng(7).normal(0, 0.1, len(names))
    tuner = replace(EXACT, **options)
    model = tuner.fit(nbest, run=Run(init=dict(zip(names, init, strict=True))))
    want, losses = naive_exact(tuner, nbest, init)
    np.testing.assert_allclose(vector(model, nbest), want, rtol=1e-12, atol=1e-14)
    assert [row["updates"] for row in model.history[-tuner.epochs :]] == list(map(len, losses))
    n = np.count_nonzero(np.diff(nbest.hyp_ptr) > 1)
    assert [row["loss"] for row in model.history[-tuner.epochs :]] == pytest.approx([sum(part) / n for part in losses], rel=1e-9)
    assert losses[0]


@pytest.mark.parametrize("c", [0.05, 10.0])
def test_an_exact_step_minimises_the_objective(c):
    """One list of two: w = argmin 1/2C (w - w₀)' Σ⁻¹ (w - w₀) + ℓ(w), here found by a general solver on the ray and off it."""
    dense = np.array([[1.0, -0.5], [0.2, 0.7]])
    nbest = lists([2], dense, sparse.csr_matrix((2, 0)), [0.9, 0.3])
    gain = sentence_bleu(nbest.stats)
    x, variance = dense[0] - dense[1], 0.4
    model = replace(EXACT, c=c, variance=variance, epochs=1).fit(nbest)

    def objective(w):
        return w @ w / variance / (2 * c) + max(0.0, gain[0] - gain[1] - w @ x)

    got = vector(model, nbest)
    found = minimize(objective, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5000})
    assert objective(got) <= found.fun + 1e-12
    np.testing.assert_allclose(got, found.x, atol=1e-6)


@pytest.mark.parametrize("variant", ["linear", "exact"])
def test_planted_weights_are_found_from_zero_at_any_scale(variant):
    truth, scale = np.array([2.0, -1.0, 0.5, 0.0]), np.array([1e-6, 1.0, 1e4, 1.0])
    nbest = planted(truth, n_lists=150, scale=scale)
    model = Arow(variant=variant, draws=500, epochs=20).fit(nbest)
    w = vector(model, nbest) * scale
    assert w @ truth / np.linalg.norm(w) / np.linalg.norm(truth) > 0.95  # steps of 1/t are slow


@pytest.mark.parametrize("variant", ["linear", "exact"])
def test_seed_groups_and_lists_without_choice(variant):
    nbest = random_lists(8, counts=(6, 1, 5, 0, 7, 4))
    tuner = Arow(variant=variant, draws=60, epochs=4)
    groups = Groups((("d0", {"freeze": True}), ("s*", {"freeze": True})))
    run = Run(groups=groups, init={"d0": 0.1, "s3": -0.7}, seed=3)
    model = tuner.fit(nbest, run=run)
    assert tuner.fit(nbest, run=replace(run, threads=2)).to_json() == model.to_json()
    assert tuner.fit(nbest, run=replace(run, seed=4)).weights != model.weights
    assert (model.weights["d0"], model.weights["s3"]) == (0.1, -0.7)
    assert model.weights["d1"] != 0
    assert {name for name in model.weights if name[0] == "s"} == {"s3"}

    bare = lists([1, 0, 3], np.ones((4, 2)), sparse.csr_matrix((4, 0)), [0.2, 0.5, 0.1, 0.9])
    assert tuner.fit(bare, run=Run(init={"d1": 0.5})).weights == {"d0": 0.0, "d1": 0.5}


def test_a_group_can_be_more_certain_than_the_others():
    """``c`` multiplies the variance: with next to none, a weight stays next to where it was."""
    nbest = random_lists(8)
    moved = [abs(EXACT.fit(nbest, run=Run(groups=Groups((("d0", {"c": c}),)))).weights["d0"]) for c in (0.0, 1e-6, 1.0)]
    assert moved[0] == 0 < moved[1] < 1e-5 < moved[2]
