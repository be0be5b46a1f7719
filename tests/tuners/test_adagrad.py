"""AdaGrad against an eager NumPy twin of [G13], its schedules, invariances, and degenerate lists."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from boostfeat.core.arrays import offsets
from boostfeat.core.errors import InputError
from boostfeat.lists.build import Builder, HypRecord
from boostfeat.lists.nbest import NBest, SparseRows, strings
from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.tuners.adaptive import Adagrad, Differences, Weights, minibatches
from boostfeat.tuners.base import Features, Groups, Run

PAPER = Adagrad(dense_eta=0.02, standardise=False, draws=60, batch=3, epochs=3)  # [G13], on small lists


# -- lists to train on --------------------------------------------------------------------------------------------------


def lists(counts, dense, indicators, gain) -> NBest:
    """Lists of these lengths; hypothesis h has round(20 gain[h]) of its 20 words in the reference, in one run."""
    builder = Builder()
    for h in range(len(dense)):
        builder.add(HypRecord(0, f"h{h}", "here"))
    matches = np.rint(20 * np.asarray(gain))[:, None]
    return replace(
        builder.finish(),
        ids=np.arange(len(counts)),
        source=strings([""] * len(counts)),
        ref_ptr=np.arange(len(counts) + 1),
        refs=strings([" ".join("w" * 20)] * len(counts)),
        hyp_ptr=offsets(np.array(counts)),
        stats=np.hstack([np.maximum(matches - np.arange(4), 0), np.full((len(dense), 2), 20)]).astype(np.int32),
        extra=np.ascontiguousarray(dense, float),
        extra_names=tuple(f"d{j}" for j in range(dense.shape[1])),
        extra_sparse=SparseRows.from_matrix(sparse.csr_matrix(indicators)),
        sparse_names=strings([f"s{j}" for j in range(indicators.shape[1])]),
    )


def random_lists(seed=0, counts=(6, 1, 5, 0, 7, 4, 6, 2, 5, 5), n_dense=3, n_sparse=60) -> NBest:
    rng = np.random.default_rng(seed)
    n = sum(counts)
    indicators = sparse.random(n, n_sparse, 0.04, rng=rng, data_rvs=lambda k: rng.integers(1, 4, k))
    return lists(counts, rng.normal(size=(n, n_dense)), indicators, rng.random(n))


def planted(truth, n_lists=60, size=12, scale=1.0, seed=1) -> NBest:
    """Gains that rise with truth·f, noisily; ``scale`` multiplies each dense feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_lists * size, len(truth)))
    gain = 1 / (1 + np.exp(-(x @ truth) - 0.3 * rng.normal(size=len(x))))
    return lists([size] * n_lists, x * scale, sparse.csr_matrix((len(x), 0)), gain)


def vector(model, nbest):
    return Features.of(nbest).vector(model.weights)


# -- the twin -----------------------------------------------------------------------------------------------------------


def soft(w, threshold):
    return np.where(np.abs(w) > threshold, np.copysign(np.abs(w) - threshold, w), 0.0)


def eager(tuner, nbest, init, seed=0, root=True, prior=0.0, r=1.0):
    """[G13] Algorithm 1 and, for several workers, 2: every weight of a dense vector shrunk after every batch."""
    x = np.hstack([nbest.global_features, nbest.global_sparse.toarray()])
    eta = np.repeat([tuner.dense_eta, tuner.eta], [len(nbest.global_names), len(nbest.sparse_names)])
    gains = sentence_bleu(nbest.stats)
    rng = np.random.default_rng(seed)
    w, squares = init.copy(), np.zeros(len(init))
    for _ in range(tuner.epochs):
        past = [w]  # weights after each step of the epoch
        pairs = tuner.draw(nbest, gains, rng, Run())
        for t, (better, worse) in enumerate(minibatches(pairs, tuner.batch, rng), start=1):
            old, g = past[max(0, t - tuner.workers)], np.zeros(len(w))
            for k in range(len(better)):
                d = x[better[k]] - x[worse[k]]
                z = np.add.accumulate(old * d)[-1]  # in order, as the kernel adds
                slope = float(z < 1) if tuner.loss == "hinge" else 1 / (1 + exp(z))
                g -= slope * d
            squares += g * g
            seen = squares > 0  # a feature without a gradient has no step size
            scale = np.sqrt(squares[seen]) if root else prior + squares[seen]
            w = w.copy()
            w[seen] = soft(w[seen] - r * eta[seen] * g[seen] / scale, r * eta[seen] * tuner.l1 / scale)
            past.append(w)
    return w


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("l1", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_lazy_fit_equals_the_eager_twin(loss, l1, workers):
    nbest = random_lists(seed=workers)
    init = np.random.default_rng(7).normal(0, 0.1, len(Features.of(nbest)))
    tuner = replace(PAPER, loss=loss, l1=l1, workers=workers)
    got = vector(tuner.fit(nbest, run=Run(init=dict(zip(Features.of(nbest).names, init, strict=True)))), nbest)
    want = eager(tuner, nbest, init)
    assert l1 < 5 or 0 < np.count_nonzero(got) < len(got)
    if loss == "hinge":  # sums and products only: the same bits
        np.testing.assert_array_equal(got, want)
    else:  # exp differs in the last bit between libraries
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7))), max_size=60),
    st.sampled_from([0.0, 1e-17, 0.01, 0.3, 5.0]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_lazy_shrinkage_has_the_bits_of_the_eager_one(steps, l1, root, seed):
    """Any features active, any others read in between, any gradients, those of 0 among them."""
    rng = np.random.default_rng(seed)
    w, eta, prior = rng.normal(size=8), rng.random(8), 0.0 if root else 3.0
    squares, lazy = np.zeros(8), Weights(w, rate=eta, l1=np.full(8, l1), root=root, prior=prior)
    for active, looked_at in steps:
        at = np.array(sorted(active), np.int64)
        g = rng.normal(size=len(at)) * rng.choice([0.0, 1e-3, 1.0, 1e3], len(at))
        lazy.step(at, g)
        w, full = w.copy(), np.zeros(8)
        full[at] = g
        squares += full * full
        seen = squares > 0
        scale = np.sqrt(squares[seen]) if root else prior + squares[seen]
        w[seen] = soft(w[seen] - eta[seen] * full[seen] / scale, eta[seen] * l1 / scale)
        some = np.array(sorted(looked_at), np.int64)
        np.testing.assert_array_equal(lazy.read(some), w[some])
    np.testing.assert_array_equal(lazy.settled(), w)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_gradient_is_the_derivative_of_the_loss(loss):
    nbest = random_lists(3)
    batch = Differences.of(Features.of(nbest)).batch(np.array([0, 3, 8]), np.array([1, 2, 9]))
    w = np.random.default_rng(0).normal(size=len(batch.active))
    gradient, _ = batch.gradient(w, loss=loss)
    h = 1e-6 * np.eye(len(w))
    numeric = [(batch.gradient(w + e, loss=loss)[1] - batch.gradient(w - e, loss=loss)[1]) / 2e-6 for e in h]
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)  # central differences: error h² and rounding 1e-16 / h


# -- what it learns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("scale", [1.0, np.array([1e-6, 1.0, 1e4, 1.0])])
def test_planted_weights_are_found_from_zero_at_any_scale(loss, scale):
    truth = np.array([2.0, -1.0, 0.5, 0.0])
    nbest = planted(truth, n_lists=150, scale=scale)
    model = Adagrad(loss=loss, draws=500, epochs=20).fit(nbest)
    w = vector(model, nbest) * scale
    assert w @ truth / np.linalg.norm(w) / np.linalg.norm(truth) > 0.97
    assert model.history[-1]["dev"] > model.history[0]["dev"] - 1


def test_units_of_a_feature_make_no_difference():
    """In other units by powers of two, each weight is the same weight in the inverse unit, to the last bit."""
    scale = 2.0 ** np.array([-50, 0, 17])
    truth = np.array([2.0, -1.0, 0.5])
    plain, other = planted(truth), planted(truth, scale=scale)
    tuner = Adagrad(draws=100, epochs=3)
    a, b = tuner.fit(plain), tuner.fit(other)
    np.testing.assert_array_equal(vector(a, plain), vector(b, other) * scale)
    assert a.history == b.history


def test_l1_selects_features():
    nbest = random_lists(counts=(8,) * 12)
    kept = [Adagrad(l1=l1, draws=60).fit(nbest).history[-1]["nonzero"] for l1 in (0.0, 5.0, 30.0)]
    assert kept[0] > kept[1] > kept[2] > 0


def test_groups_freeze_weights_and_set_factors():
    nbest = random_lists(counts=(8,) * 12)
    free = vector(Adagrad(l1=0.0, draws=60).fit(nbest), nbest)
    groups = Groups((("s*", {"l1": 0.0}), ("d0", {"freeze": True}), ("d1", {"c": 0.0}), ("d2", {"c": 0.5})))
    model = Adagrad(l1=5.0, draws=60).fit(nbest, run=Run(groups=groups, init={"d0": 0.1, "d1": 0.3}))
    assert (model.weights["d0"], model.weights["d1"]) == (0.1, 0.3)
    assert [w != 0 for w in vector(model, nbest)[3:]] == [w != 0 for w in free[3:]]
    # the first step of AdaGrad is η long whatever the gradient
    one = Adagrad(l1=0.0, draws=60, batch=100, epochs=1, standardise=False).fit(nbest, run=Run(groups=groups))
    np.testing.assert_allclose(np.abs(vector(one, nbest)[:3]), [0, 0, 0.5])


# -- degenerate lists -----------------------------------------------------------------------------------------------------


def test_lists_without_pairs_teach_nothing():
    """No hypothesis, one, equal gains: the weights stay; and beside other lists, such lists change nothing."""
    bare = lists([1, 0, 3], np.eye(4), sparse.eye(4), [0.2, 0.5, 0.5, 0.5])
    init = {"d0": 0.25, "s2": -1.5}
    model = Adagrad(epochs=2).fit(bare, run=Run(init=init))
    assert {n: w for n, w in model.weights.items() if w} == init
    assert model.history[-1]["pairs"] == 0


def test_features_that_never_differ_keep_their_weights():
    """Also where sums differ by rounding only: AdaGrad's steps would be as long for 1e-17 as for 1."""
    rng = np.random.default_rng(0)
    dense = np.stack([rng.normal(size=40), np.where(np.arange(40) % 2, 0.1 + 0.2, 0.3), np.zeros(40)], axis=1)
    nbest = lists([8] * 5, dense, sparse.csr_matrix((40, 1)), rng.random(40))
    init = {"d1": 0.7, "d2": -0.3, "s0": 2.0}
    weights = Adagrad(draws=50).fit(nbest, run=Run(init=init)).weights
    assert {n: weights[n] for n in init} == init
    assert weights["d0"] != 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dense_eta": 1e308, "standardise": False}, "weights have blown up"),
        ({"l1": 1e9}, "found all weights 0 with 1000000000.0; lower it"),
    ],
)
def test_blow_up_and_collapse_are_said(options, message):
    with pytest.raises(InputError, match=message):
        Adagrad(draws=50, **options).fit(random_lists())
