"""Refits: gradients by finite differences, optima by scipy, a loss that never rises; leaves as features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import BoostOptions, Space, Training, boost
from boostfeat.boosting.refit import REFITS, Terms, leaf_columns, leaf_values, refit_leaves, refit_weights
from boostfeat.core.errors import InputError
from boostfeat.lists.nbest import NBest, SparseRows, strings
from boostfeat.losses import ExpectedBleu, PairwiseLogLoss
from boostfeat.losses.pairs import PairOptions, pairs_for
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment, augmented_weights, folded, leaf_names
from boostfeat.trees.growing import Grower, TreeOptions
from boostfeat.trees.tree import Tree

PAIRS = PairOptions(draws=300, keep=30)


@pytest.fixture(scope="module")
def dev() -> NBest:
    """With dense and sparse features of units and of hypotheses, one of each known to both."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=12, hyps=10, features=5), seed=1)
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
    tree = TreeOptions(leaves=leaves, max_leaves=3, min_occurrences=10)
    model = boost(dev, None, BoostOptions(level=level, rounds=3, tree=tree, pairs=PAIRS))
    assert [tree.n_leaves for tree in model.trees] == [3, 3, 3]
    return model


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


def test_the_objective_of_a_refit_has_its_gradient(dev, monkeypatch):
    """Penalty included, and both a sentence: else the search still ends, but takes steps that do not fit."""
    seen = []
    monkeypatch.setattr(
        "boostfeat.boosting.refit.minimize", lambda f, start, **options: minimize(seen.append((f, start)) or f, start, **options)
    )
    refit_weights(with_trees(dev), dev, losses(dev)["log"], kind="trees", l2=30.0)
    ((f, start),) = seen
    u = np.random.default_rng(0).normal(size=len(start))
    np.testing.assert_allclose(f(u)[1], approx_fprime(u, lambda u: f(u)[0], 1e-7), rtol=1e-4, atol=1e-4)


def test_what_no_refit_moves(dev):
    """No spread within lists: the model itself. A tree that adds the same everywhere keeps its weight."""
    flat = replace(dev, units=replace(dev.units, x=np.zeros_like(dev.units.x)), extra=np.zeros_like(dev.extra))
    plain = replace(flat, sparse_names=strings([]), extra_sparse=SparseRows.empty(dev.n_hyps),
                    units=replace(flat.units, sparse=SparseRows.empty(dev.n_units)))  # fmt: skip
    model, loss = Model({"LM0": 1.0}), losses(dev)["log"]
    assert refit_weights(model, plain, loss, kind="linear") is model
    trees = with_trees(dev, level="global")
    single = [replace(t, feature=("",), left=t.left[-1:], right=t.right[-1:], threshold=t.threshold[-1:], value=np.ones(1),
                      intercept=np.zeros(1)) for t in trees.trees[:1]]  # fmt: skip
    constant = replace(trees, trees=tuple(single))
    for kind in ("trees", "ensemble"):
        again = refit_weights(constant, dev, loss, kind=kind)
        assert again.trees[0].weight == constant.trees[0].weight
        assert again.weights != constant.weights


@pytest.mark.parametrize("kind", REFITS)
def test_terms_without_trees_are_the_weights(dev, kind):
    """And of the sparse features that the model does not know, those are named whose weight is not 0."""
    model = Model({"LM0": 0.5, "s1": 0.0, "elsewhere": 3.0})
    terms = Terms(dev, Space.of(dev, "local"), (), kind)
    theta = terms.start(model)
    assert theta.tolist() == [{"LM0": 0.5}.get(name, 0.0) for name in terms.names]
    np.testing.assert_allclose(terms.scores(theta), Model({"LM0": 0.5}).decision_function(dev), rtol=0, atol=1e-12)
    assert len(terms.gradient(np.ones(dev.n_hyps))) == len(terms.spreads()) == len(theta)
    theta[terms.names.index("s2")] = -1.0
    assert terms.fitted(theta, model).weights == {**dict.fromkeys(dev.global_names, 0.0), **model.weights, "s2": -1.0}


def test_spreads_are_standard_deviations_within_lists(dev):
    model = with_trees(dev)
    columns = {name: dev.global_column(name) for name in dev.global_names}
    trees = [tree.predict(Space.of(dev, "local").table) for tree in model.trees]
    space = Space.of(dev, "local")

    def within(column: np.ndarray) -> float:
        parts = np.split(column, dev.hyp_ptr[1:-1])
        return float(np.sqrt(np.mean(np.concatenate([part - part.mean() for part in parts]) ** 2)))

    dense = [within(column) for column in columns.values()]
    sparse_part = np.sqrt(dev.global_sparse.toarray() ** 2).T
    rms = [float(np.sqrt(np.mean(column**2))) for column in sparse_part]
    for kind, own in (
        ("linear", []),
        ("ensemble", [within(space.sum(sum(t.weight * h for t, h in zip(model.trees, trees, strict=True))))]),
        ("trees", [within(space.sum(h)) for h in trees]),
        ("leaves", [within(c) for t in model.trees for c in leaf_columns(space, t, t.leaf_of(space.table)).T]),
    ):
        found = Terms(dev, space, model.trees, kind).spreads()
        np.testing.assert_allclose(found, [*dense, *rms, *own], rtol=1e-9)


def test_a_tree_of_more_nodes_than_a_byte_counts(dev):
    """Leaf numbers are kept in a byte a row where they fit; 259 nodes do not."""
    n = 259
    left, right = np.full((2, n), -1, np.int32)
    left[: n // 2], right[: n // 2] = np.arange(1, n, 2), np.arange(2, n, 2)
    inner = left >= 0
    tree = Tree("big", 0.5, "constant", None, tuple("LexWeight" if i else "" for i in inner),
                np.where(inner, np.linspace(-3, 0, n), 0.0), left, right, np.where(inner, 0.0, np.arange(n) / 100))  # fmt: skip
    model = Model({"LM0": 1.0}, (tree,))
    terms = Terms(dev, Space.of(dev, "local"), model.trees, "leaves")
    np.testing.assert_allclose(terms.scores(terms.start(model)), model.decision_function(dev), rtol=0, atol=1e-9)


# -- leaves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log", "lambda", "expected-bleu"])
@pytest.mark.parametrize("leaves", ["constant", "linear", "affine"])
def test_refitted_leaves(dev, leaves, loss):
    """Pairs: no other values have a lower penalised loss (the gradient is 0). Lists: the loss is lower than with the old ones."""
    options = BoostOptions(loss=loss, pairs=PAIRS, tree=TreeOptions(leaves=leaves, max_leaves=3, min_occurrences=10))
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
