"""What must not matter: the order of sentences, hypotheses and features, merged units, scales, and a constant in all scores.

Values and weights are multiples of 1/4 and factors are powers of 2, so that sums are exact in any order and results equal to the bit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import NAMES, containers
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.nbest import NBest
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment, augmented_weights
from boostfeat.trees.tree import Tree
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro

few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
quarters = st.integers(-12, 12).map(lambda k: k / 4)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A stump over the names that containers draw from."""
    leaf = draw(st.sampled_from(["constant", "linear", "affine"]))
    a, b, c, d = draw(st.tuples(quarters, quarters, quarters, quarters))
    return Tree(
        name="tree.000",
        weight=draw(quarters),
        leaf=leaf,
        on=None if leaf == "constant" else draw(st.sampled_from(NAMES)),
        feature=(draw(st.sampled_from(NAMES)), "", ""),
        threshold=np.array([draw(quarters), 0, 0]),
        left=np.array([1, -1, -1], np.int32),
        right=np.array([2, -1, -1], np.int32),
        value=np.array([0, a, b]),
        intercept=np.array([0, c, d]) if leaf == "affine" else np.zeros(3),
    )


models = st.builds(
    lambda weights, tree, level: Model(weights, (tree,), level),
    st.dictionaries(st.sampled_from([*NAMES, "rare:1", "rare:2"]), quarters, max_size=5),
    trees(),
    st.sampled_from(["local", "global"]),
)
lists = containers(n_refs=1, min_sentences=2).filter(lambda nbest: nbest.n_hyps > 2 and nbest.n_occurrences > 0)


def unmerged(nbest: NBest) -> NBest:
    """Every occurrence of a unit as a unit of its own."""
    return replace(nbest, units=nbest.units.take(nbest.unit_idx), unit_idx=np.arange(nbest.n_occurrences, dtype=np.int32))


@few
@given(lists, models, st.integers(0, 99))
def test_order_of_sentences_and_hypotheses(nbest, model, seed):
    rng, scores = np.random.default_rng(seed), model.decision_function(nbest)
    sentences = rng.permutation(len(nbest))
    hyps = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(nbest.hyp_ptr)])
    np.testing.assert_array_equal(model.decision_function(nbest.take_hyps(hyps, nbest.hyp_ptr)), scores[hyps])
    taken = np.concatenate([np.arange(nbest.hyp_ptr[s], nbest.hyp_ptr[s + 1]) for s in sentences])
    np.testing.assert_array_equal(model.decision_function(nbest.take(sentences)), scores[taken])


@few
@given(lists, models)
def test_order_of_features(nbest, model):
    turned = replace(
        nbest,
        units=replace(nbest.units, x=np.ascontiguousarray(nbest.units.x[:, ::-1])),
        unit_names=nbest.unit_names[::-1],
        extra=np.ascontiguousarray(nbest.extra[:, ::-1]),
        extra_names=nbest.extra_names[::-1],
    )
    np.testing.assert_array_equal(model.decision_function(turned), model.decision_function(nbest))


@few
@given(lists, models)
def test_merged_units(nbest, model):
    np.testing.assert_array_equal(model.decision_function(unmerged(nbest)), model.decision_function(nbest))


@few
@given(lists, models.filter(lambda model: model.level == "local"))
def test_a_tree_is_the_feature_it_becomes(nbest, model):
    augmented = Model(augmented_weights(model)).decision_function(augment(nbest, model))
    np.testing.assert_array_equal(augmented, model.decision_function(nbest))


@few
@given(lists, models, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scale_of_features(nbest, model, scale):
    """All features times 2^k, weights and slopes by 2^-k, thresholds times 2^k."""
    larger = replace(
        nbest,
        units=replace(
            nbest.units, x=nbest.units.x * scale, sparse=replace(nbest.units.sparse, val=nbest.units.sparse.val * scale)
        ),
        extra=nbest.extra * scale,
        extra_sparse=replace(nbest.extra_sparse, val=nbest.extra_sparse.val * scale),
    )
    tree = model.trees[0]
    slope = 1.0 if tree.leaf == "constant" else 1 / scale
    same = replace(
        model,
        weights={name: weight / scale for name, weight in model.weights.items()},
        trees=(replace(tree, threshold=tree.threshold * scale, value=tree.value * slope),),
    )
    np.testing.assert_array_equal(same.decision_function(larger), model.decision_function(nbest))


@few
@given(lists, models, quarters, st.sampled_from([0.5, 4.0]))
def test_a_constant_and_a_scale_of_all_scores(nbest, model, constant, scale):
    """Neither what is chosen nor its metrics."""
    scores = model.decision_function(nbest)
    chosen = best_choice(nbest, scores)
    np.testing.assert_array_equal(best_choice(nbest, scale * scores + constant), chosen)
    scorer = Scorer(nbest)
    assert scorer.score(best_choice(nbest, scores + constant), "bleu-sbp") == scorer.score(chosen, "bleu-sbp")


# -- learning -----------------------------------------------------------------------------------------------------------------

DEV = synthetic_nbest(SyntheticOptions(sentences=20, hyps=10, slots=4), seed=3)


def with_column(nbest: NBest, name: str, values: np.ndarray) -> NBest:
    return replace(nbest, extra=np.column_stack([nbest.extra, values]), extra_names=(*nbest.extra_names, name))


def test_learning_does_not_see_what_a_list_has_in_common():
    """A constant in all scores of a list cancels in every pair: PRO gives its feature no weight, and the others theirs."""
    per_list = np.random.default_rng(0).integers(-8, 8, len(DEV)) / 4
    plain, more = (
        Pro().fit(nbest, None, Run(seed=0)).weights for nbest in (DEV, with_column(DEV, "of the list", per_list[DEV.sent_of_hyp]))
    )
    assert more.pop("of the list") == 0
    assert more == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize("method", TUNERS)
def test_learning_does_not_see_how_units_are_stored(method):
    few = {"mert": {"restarts": 1}, "pro": {}}.get(method, {"epochs": 2})
    merged, apart = (tuner_class(method)(**few).fit(nbest, None, Run(seed=1)).weights for nbest in (DEV, unmerged(DEV)))
    assert apart == pytest.approx(merged, rel=1e-6, abs=1e-9)
