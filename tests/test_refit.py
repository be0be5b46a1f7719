"""Refits: gradients by finite differences, optima by scipy, a loss that never rises; leaves as features; the length term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize

from boostfeat.augment import augment, augmented_weights, folded, leaf_names
from boostfeat.bleu import HYP_LEN
from boostfeat.boost import BoostOptions, Space, Training, boost
from boostfeat.errors import InputError
from boostfeat.gains import context_gains, pair_weights
from boostfeat.grow import Grower, TreeOptions
from boostfeat.length import length_feature, tuned_length
from boostfeat.losses import ExpectedBleu, PairwiseLogLoss
from boostfeat.metrics import Scorer, best_choice, first_choice
from boostfeat.model import Model
from boostfeat.nbest import NBest, SparseRows, strings
from boostfeat.pairs import PairOptions, pairs_for
from boostfeat.refit import REFITS, Terms, leaf_columns, leaf_values, refit_leaves, refit_weights
from boostfeat.synthetic import SyntheticOptions, synthetic_nbest

PAIRS = PairOptions(draws=300, keep=30)


@pytest.fixture(scope="module")
def dev() -> NBest:
    """With dense and sparse features of units and of hypotheses, one of each known to both."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=25, hyps=20, features=5), seed=1)
    rng = np.random.default_rng(0)
    matrices = [sparse.random(n, 3, 0.2, "csr", random_state=rng) for n in (nbest.n_units, nbest.n_hyps)]
    return replace(
        nbest,
        units=replace(nbest.units, sparse=SparseRows.from_matrix(matrices[0])),
        extra=rng.normal(size=(nbest.n_hyps, 2)),
        extra_names=("LM0", "Own"),
        extra_sparse=SparseRows.from_matrix(matrices[1]),
        sparse_names=strings(["s0", "s1", "s2"]),
    )


def with_trees(dev: NBest, leaves: str = "constant", level: str = "local") -> Model:
    tree = TreeOptions(leaves=leaves, max_leaves=3, min_occurrences=20)
    return boost(dev, None, BoostOptions(level=level, rounds=3, tree=tree, pairs=PAIRS))


def losses(dev: NBest) -> dict[str, object]:
    pairs = pairs_for(dev, PAIRS, seed=3)
    return {"log": PairwiseLogLoss(pairs, dev.n_hyps), "bleu": ExpectedBleu(dev.hyp_ptr, dev.stats, 2.0)}


@pytest.mark.parametrize("level", ["local", "global"])
@pytest.mark.parametrize("leaves", ["constant", "linear", "affine"])
@pytest.mark.parametrize("kind", REFITS)
def test_terms(dev, kind, leaves, level):
    """θ of a model gives the model's scores; θ back in gives the model; the gradient is that of finite differences."""
    model = with_trees(dev, leaves, level)
    terms = Terms(dev, Space.of(dev, level), model.trees, kind)
    theta = terms.start(model)
    np.testing.assert_allclose(terms.scores(theta), model.decision_function(dev), rtol=0, atol=1e-9)
    np.testing.assert_allclose(terms.fitted(theta, model).decision_function(dev), model.decision_function(dev), rtol=0, atol=1e-9)
    assert len(terms.spreads()) == len(theta)
    other = theta + 0.1 * np.random.default_rng(1).normal(size=len(theta))
    np.testing.assert_allclose(terms.fitted(other, model).decision_function(dev), terms.scores(other), rtol=0, atol=1e-9)
    loss = losses(dev)["log"]
    numeric = approx_fprime(other, lambda t: loss.value(terms.scores(t)), 1e-7)
    scale = 1 + np.abs(numeric).max()  # forward differences: error about 1e-7 |Ψ''|
    np.testing.assert_allclose(terms.gradient(loss.gradient(terms.scores(other))) / scale, numeric / scale, atol=3e-5)


@pytest.mark.parametrize("kind", REFITS)
@pytest.mark.parametrize("name", ["log", "bleu"])
def test_a_refit_never_raises_the_loss(dev, name, kind):
    model, loss = with_trees(dev), losses(dev)[name]
    before = loss.value(model.decision_function(dev))
    after = [loss.value(refit_weights(model, dev, loss, kind=kind, l2=l2).decision_function(dev)) for l2 in (1.0, 1e3, 1e12)]
    assert after[0] < before
    assert after[0] <= after[1] <= before
    assert after[2] == pytest.approx(before, rel=1e-6)  # a penalty on the step this large lets nothing move


def test_a_refit_of_linear_weights_is_the_penalised_optimum(dev):
    """Against scipy on dense global features, standardised by their standard deviation within lists."""
    names, x = dev.global_names, dev.global_features
    loss = losses(dev)["log"]
    means = np.add.reduceat(x, dev.hyp_ptr[:-1]) / np.diff(dev.hyp_ptr)[:, None]
    sd = np.sqrt(np.mean((x - np.repeat(means, np.diff(dev.hyp_ptr), axis=0)) ** 2, axis=0))
    plain = replace(
        dev,
        sparse_names=strings([]),
        units=replace(dev.units, sparse=SparseRows.empty(dev.n_units)),
        extra_sparse=SparseRows.empty(dev.n_hyps),
    )
    start = np.linspace(-0.2, 0.3, len(names))
    want = minimize(lambda u: loss.value(x @ (start + u / sd)) + 5 * u @ u, np.zeros(len(names)), tol=1e-10).x
    found = refit_weights(Model(dict(zip(names, start, strict=True))), plain, loss, kind="linear", l2=10.0)
    np.testing.assert_allclose([found.weights[n] for n in names], start + want / sd, rtol=0, atol=1e-3)


# -- leaves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log", "lambda", "expected-bleu"])
@pytest.mark.parametrize("leaves", ["constant", "linear", "affine"])
def test_refitted_leaves(dev, leaves, loss):
    """Pairs: no other values have a lower penalised loss (the gradient is 0). Lists: the loss is lower than with the old ones."""
    options = BoostOptions(loss=loss, pairs=PAIRS, tree=TreeOptions(leaves=leaves, max_leaves=3, min_occurrences=20))
    space, pairs = Space.of(dev, "local"), pairs_for(dev, PAIRS, seed=3)
    training = Training.of(space, dev.hyp_ptr, pairs, np.zeros(dev.n_hyps), options, stats=dev.stats)
    scores = np.random.default_rng(2).normal(size=dev.n_hyps)
    grower = Grower(space.names, space.x, space.counts(), options.tree)
    grown = grower.grow(training.target(scores))
    again = refit_leaves(training, scores, grown, l2=0.5)
    assert (again.h == again.tree.predict(space.table)).all()
    basis = leaf_columns(space, again.tree, again.leaf_of)
    np.testing.assert_allclose(basis @ leaf_values(again.tree), space.sum(again.h), rtol=0, atol=1e-9)

    def objective(values: np.ndarray) -> float:
        return training.n * training.mean_loss(scores + basis @ values) + 0.25 * values @ values

    found = leaf_values(again.tree)
    assert objective(found) < objective(np.zeros(len(found)))
    if loss != "expected-bleu":
        best = minimize(objective, found, tol=1e-12)
        assert objective(found) <= best.fun + 1e-5 * abs(best.fun)


@pytest.mark.parametrize("level", ["local", "global"])
@pytest.mark.parametrize("leaves", ["constant", "affine"])
def test_leaves_as_features_equal_the_trees(dev, leaves, level):
    model = with_trees(dev, leaves, level)
    wider = augment(dev, model, leaves=True)
    weights = augmented_weights(model, leaves=True)
    assert set(leaf_names(model)) <= set(wider.sparse_names.to_pylist())
    np.testing.assert_allclose(Model(weights).decision_function(wider), model.decision_function(dev), rtol=0, atol=1e-9)
    rng = np.random.default_rng(3)
    changed = {name: w + rng.normal() for name, w in weights.items()}
    tuned = folded(changed, model, leaves=True)
    np.testing.assert_allclose(tuned.decision_function(dev), Model(changed).decision_function(wider), rtol=0, atol=1e-9)
    with pytest.raises(InputError, match=r"tree\.000\.0"):
        augment(wider, model, leaves=True)


# -- gains in context, and length -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
def test_context_gains_are_differences_of_corpus_bleu(dev, strict):
    """By replacing one choice at a time and scoring the corpus again."""
    chosen, scorer, metric = first_choice(dev), Scorer(dev), "bleu-sbp" if strict else "bleu"
    gains = context_gains(dev, chosen, strict=strict)
    for h in range(0, dev.n_hyps, 37):
        other = chosen.copy()
        other[dev.sent_of_hyp[h]] = h
        change = (scorer.score(other, metric).score - scorer.score(chosen, metric).score) / 100
        assert gains[h] == pytest.approx(len(dev) * change, abs=1e-9)
    assert (gains[chosen] == pytest.approx(0, abs=1e-9)) is True


def test_pair_weights_follow_the_context(dev):
    pairs, scores = pairs_for(dev, PAIRS, seed=0), np.zeros(dev.n_hyps)
    weight = pair_weights(dev, pairs, scores, strict=True)
    gains = context_gains(dev, best_choice(dev, scores), strict=True)
    delta = gains[pairs.better] - gains[pairs.worse]
    assert weight.mean() == pytest.approx(1)
    assert ((weight == 0) == (delta <= 0)).all()
    np.testing.assert_allclose(weight[delta > 0] / delta[delta > 0], (weight / delta)[delta > 0][0])


def test_length_is_tuned_on_select(dev):
    """A feature that is minus the length is found; its best shift is no worse than any of a grid, and ends at a shorter output."""
    rng = np.random.default_rng(0)
    stats = dev.stats.copy()
    stats[:, HYP_LEN] = rng.integers(6, 12, dev.n_hyps)
    nbest = replace(dev, stats=stats)
    assert length_feature(nbest) is None
    assert tuned_length(Model({"LM0": 1.0}), nbest, "bleu-sbp").config == {}
    # one word a unit: minus their number
    units = replace(dev.units, x=np.column_stack([dev.units.x, -np.ones(dev.n_units)]))
    lengths = np.diff(dev.unit_ptr)
    uneven = rng.random(dev.n_occurrences) < 0.7
    uneven[dev.unit_ptr[:-1]] = True
    kept = np.concatenate([[0], np.cumsum(np.add.reduceat(uneven, dev.unit_ptr[:-1]))])
    assert (lengths > 1).all()
    stats[:, HYP_LEN] = np.diff(kept)
    stats[:, :4] = np.minimum(stats[:, :4], stats[:, [HYP_LEN]] - np.arange(4)).clip(0)
    nbest = replace(
        dev,
        units=units,
        unit_names=(*dev.unit_names, "WordPenalty0"),
        unit_idx=dev.unit_idx[uneven],
        src_start=dev.src_start[uneven],
        tgt_start=dev.tgt_start[uneven],
        unit_ptr=kept,
        stats=stats,
    )
    assert length_feature(nbest) == "WordPenalty0"
    model = Model({"LexWeight": 0.5})
    tuned = tuned_length(model, nbest, "bleu-sbp")
    about, scorer = tuned.config["tuned_length"], Scorer(nbest)

    def gain(shift: float) -> float:
        weights = {**model.weights, "WordPenalty0": shift}
        return scorer.score(best_choice(nbest, Model(weights).decision_function(nbest)), "bleu-sbp").score

    assert tuned.weights["WordPenalty0"] == about["shift"] != 0
    assert gain(about["shift"]) == pytest.approx(about["after"], abs=1e-9)
    assert gain(0.0) == pytest.approx(about["before"], abs=1e-9)
    assert about["after"] >= max(gain(s) for s in np.linspace(-2, 2, 81)) - 1e-9
