"""Refits: gradients by finite differences, optima by scipy, a loss that never rises; leaves as features; the length term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize

from boostfeat import gains
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
from boostfeat.tree import Tree

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


def test_context_gains_in_parts(dev, monkeypatch):
    """Hypotheses are taken so many at a time: where the parts end changes nothing."""
    whole = context_gains(dev, first_choice(dev), strict=True)
    monkeypatch.setattr(gains, "_ROWS", 7)
    assert (context_gains(dev, first_choice(dev), strict=True) == whole).all()


def test_pair_weights_are_1_where_the_context_has_no_say(dev):
    pairs, scores = pairs_for(dev, PAIRS, seed=0), np.zeros(dev.n_hyps)
    delta = pair_weights(dev, pairs, scores, strict=True)
    wrong = replace(pairs, better=pairs.worse[delta > 0], worse=pairs.better[delta > 0], delta=pairs.delta[delta > 0])
    assert (pair_weights(dev, wrong, scores, strict=True) == np.ones(len(wrong))).all()
    none = replace(pairs, better=pairs.better[:0], worse=pairs.worse[:0], delta=pairs.delta[:0])
    assert pair_weights(dev, none, scores, strict=True).shape == (0,)


def with_length(nbest: NBest, *factors: float) -> NBest:
    """Hypotheses of uneven lengths, a word a unit; features Length0, ... of units that are multiples of it."""
    units = replace(nbest.units, x=np.column_stack([nbest.units.x, np.tile(factors, (nbest.n_units, 1))]))
    kept = np.random.default_rng(0).random(nbest.n_occurrences) < 0.7
    kept[nbest.unit_ptr[:-1]] = True
    unit_ptr = np.concatenate([[0], np.cumsum(np.add.reduceat(kept, nbest.unit_ptr[:-1]))])
    stats = nbest.stats.copy()
    stats[:, HYP_LEN] = np.diff(unit_ptr)
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
    nbest = NBest.concat([with_length(dev, -1.0), with_length(dev, -1.0).take(np.arange(2))])
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
