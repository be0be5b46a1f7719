"""BoostReranker by scikit-learn's conventions.

Of scikit-learn's own checks, those that need no data are run as they are. The others fit arrays, which mean nothing here: what they ask
that applies to lists is asked below, under their names. Tuners are no estimators but frozen options with ``fit``.
"""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks as checks
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import BoostReranker, FeaturePlan, InputError, Model, Tree, featurize, induce, read_store, write_store
from boostfeat.boosting import estimator
from boostfeat.boosting.estimator import SentenceKFold, usable_cores
from boostfeat.boosting.options import RECIPES, recipe
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Run

WITHOUT_DATA = [
    checks.check_parameters_default_constructible,
    checks.check_no_attributes_set_in_init,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_mixin_order,
    checks.check_estimators_unfitted,
]
DEV, OTHER = (synthetic_nbest(SyntheticOptions(sentences=20, hyps=10, slots=4), seed=seed) for seed in (1, 2))
SMALL = BoostReranker("paper", rounds=2, draws=200, min_occurrences=5)


@pytest.fixture(scope="module")
def fitted() -> BoostReranker:
    return clone(SMALL).fit(DEV)


@pytest.mark.parametrize("check", WITHOUT_DATA, ids=lambda check: check.__name__)
def test_checks_of_scikit_learn(check):
    check("BoostReranker", BoostReranker())


@pytest.mark.parametrize("method", ["predict", "decision_function", "score", "staged_score"])
def test_estimators_unfitted(method):
    with pytest.raises(NotFittedError):
        list(getattr(BoostReranker(), method)(DEV))  # staged_score does nothing until it is asked


def test_fit_returns_self_and_leaves_parameters_alone(fitted):
    reranker = clone(SMALL)
    before = reranker.get_params()
    assert reranker.fit(DEV) is reranker
    assert reranker.get_params() == before
    learnt = {name for name in vars(reranker) if name not in before}
    assert learnt == {"model_", "history_", "n_trees_", "n_features_in_", "feature_names_in_"}
    assert not vars(clone(reranker)).keys() - before.keys()


def test_fit_idempotent_and_fit_check_is_fitted(fitted):
    again = clone(SMALL).fit(OTHER).fit(DEV)  # nothing is left of the fit before
    assert again.model_.to_json() == fitted.model_.to_json()


def test_n_features_in(fitted):
    assert list(fitted.feature_names_in_) == list(DEV.global_names)
    assert fitted.n_features_in_ == len(DEV.global_names)


def test_dict_unchanged_and_score_takes_y(fitted):
    before = dict(vars(fitted))
    assert fitted.score(OTHER) == fitted.score(OTHER, None) == list(fitted.staged_score(OTHER))[-1]
    fitted.predict(OTHER)
    assert vars(fitted) == before


def test_methods_subset_and_sample_order_invariance(fitted):
    whole = fitted.predict(OTHER)
    order = np.random.default_rng(0).permutation(len(OTHER))
    np.testing.assert_array_equal(fitted.predict(OTHER.take(order)), whole[order])
    np.testing.assert_array_equal(np.concatenate([fitted.predict(OTHER.take([s])) for s in range(len(OTHER))]), whole)


def test_estimators_pickle_and_readonly_memmap(fitted, tmp_path):
    write_store(OTHER, tmp_path / "other.nbest")
    mapped = read_store(tmp_path / "other.nbest")  # views of the file: nothing may be written to them
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(mapped), fitted.predict(OTHER))
    assert clone(SMALL).fit(mapped).model_.to_json() == clone(SMALL).fit(OTHER).model_.to_json()


def test_data_not_lists(fitted):
    for call in (clone(SMALL).fit, fitted.predict, fitted.score):
        with pytest.raises(
            TypeError, match=r"X: expected n-best lists \(NBest\), found ndarray; open them with boostfeat.read_store"
        ):
            call(np.zeros((3, 2)))


@pytest.mark.parametrize("method", TUNERS)
def test_tuners_are_options_with_fit(method):
    """Equal options are equal, cannot change under way, and make another with ``replace``; fitting leaves no trace in them."""
    tuner = tuner_class(method)()
    name = fields(tuner)[0].name
    assert replace(tuner) == tuner
    assert repr(tuner).startswith(f"{type(tuner).__name__}({name}=")
    with pytest.raises(FrozenInstanceError):
        setattr(tuner, name, 0)
    if method in ("pro", "kbmira"):  # the quick ones
        assert tuner.fit(DEV, None, Run()).to_json() == tuner.fit(DEV, None, Run()).to_json()
        assert tuner == tuner_class(method)()


# -- what it learns -----------------------------------------------------------------------------------------------------


def test_estimator_takes_a_recipe():
    options = BoostReranker("fast", rounds=3, pairs=9, candidates=2).options()
    assert options == recipe("fast", rounds=3, keep=9, candidates=2)
    assert BoostReranker().options() == RECIPES["default"]


def test_reranker(dev, select):
    reranker = BoostReranker("paper", max_leaves=3, rounds=3, min_occurrences=20, draws=500)
    again = clone(reranker).set_params(rounds=2)
    assert (reranker.get_params()["rounds"], again.rounds) == (3, 2)
    assert reranker.fit(dev, select=select) is reranker
    chosen = reranker.predict(select)
    best = reranker.decision_function(select)[select.hyp_ptr[:-1] + chosen]
    assert (best == np.maximum.reduceat(reranker.decision_function(select), select.hyp_ptr[:-1])).all()
    gains = [row["select"] for row in reranker.history_]
    assert reranker.score(select) == pytest.approx(max(gains))
    staged = list(reranker.staged_score(select))
    np.testing.assert_allclose(staged, gains[: len(staged)])


def test_folds_over_sentences(dev):
    assert (SentenceKFold().get_n_splits(), SentenceKFold().random_state) == (5, 0)  # scikit-learn's numbers
    folds = list(SentenceKFold(4, random_state=1).split(dev))
    assert sorted(np.concatenate([held for _, held in folds])) == list(range(len(dev)))
    for train, held in folds:
        assert not set(train) & set(held)
        assert len(dev.take(train)) + len(dev.take(held)) == len(dev)
    train, held = folds[0]
    reranker = BoostReranker("fast", rounds=1, min_occurrences=20, draws=500).fit(dev.take(train))
    assert 0 < reranker.score(dev.take(held)) < 100


@pytest.mark.parametrize("n_splits", [1, 0, "a", 2.5])
def test_folds_that_are_none(n_splits, dev):
    with pytest.raises(ValueError, match="n_splits: expected a whole number, 2 or more"):
        SentenceKFold(n_splits)
    with pytest.raises(ValueError, match=f"n_splits: expected at most {len(dev)}"):
        list(SentenceKFold(len(dev) + 1).split(dev))
    with pytest.raises(TypeError, match="X: expected n-best lists"):
        list(SentenceKFold(2).split([1, 2]))


@pytest.mark.parametrize(
    ("params", "message"),
    [({"rounds": "a"}, "rounds: expected 0 or more, found 'a'"), ({"max_leaves": 3.5}, "max_leaves: expected a whole number")],
)
def test_numbers_of_another_kind_are_refused(params, message, dev):
    with pytest.raises(InputError, match=message):
        BoostReranker(**params).fit(dev)


def test_what_a_person_types_shows_itself_in_a_line(fitted, dev):
    """A model of thousands of numbers, its trees and plans are told by their sizes."""
    model = fitted.model_
    assert repr(model) == f"Model(local, {len(model.weights)} weights, {len(model.trees)} trees)"
    assert repr(replace(model, plan={})) == repr(model)[:-1] + ", carries its features)"
    tree = Tree.from_json({"name": "t", "weight": 0.5, "leaf": "constant", "nodes": [{"value": 1.0}]}, "here")
    assert repr(tree) == "Tree('t', 1 leaf over nothing, weight 0.5)"
    assert repr(FeaturePlan.of("length,size")) == "FeaturePlan(length, size)"
    assert repr(SentenceKFold(3)) == "SentenceKFold(3, random_state=0)"
    for wrong, message in (
        ((dev, "large"), "plan: expected a FeaturePlan, found str"),
        (("dev", None), "nbest: expected a NBest"),
    ):
        with pytest.raises(TypeError, match=message):
            featurize(*wrong)


def test_lists_that_do_not_go_together_are_refused(dev, select):
    """D3 in Python: the features that a select list lacks would count as 0 in choosing the round."""
    more, vocab = featurize(dev, FeaturePlan.of("orientation"))
    reranker = BoostReranker("paper", rounds=1)
    with pytest.raises(InputError, match="select: expected the features of X, found none of "):
        reranker.fit(more, select=select)
    with pytest.warns(UserWarning, match="select lacks .* of X, which count as 0"):
        reranker.fit(more, select=select, allow_missing=True)
    with pytest.raises(TypeError, match="select: expected n-best lists"):
        reranker.fit(more, select="select.nbest")
    fitted = reranker.fit(more, select=featurize(select, vocab)[0])
    weights = {name: 1.0 for name in more.global_names}
    fitted.model_ = Model(weights)
    with pytest.raises(InputError, match="X: expected the features of the model, found none of "):
        fitted.predict(select)


def test_sentences_that_are_learnt_from_and_chosen_by_are_named(dev):
    with pytest.warns(UserWarning, match="X and select share 40 sentences"):
        BoostReranker("paper", rounds=0).fit(dev, select=dev)


def test_the_command_the_function_and_the_estimator_learn_the_same_bytes(boostfeat, dev, select, tmp_path):
    """Weights, trees and choices, with a select list and without, of both recipes; compare's row learns the same, too."""
    changes = {"rounds": 3, "min_occurrences": 20, "draws": 200, "pairs": 20}
    flags = ["--rounds", 3, "--set", "min_occurrences=20", "--set", "draws=200", "--pairs", 20, "--seed", 4]
    for name, nbest in (("dev", dev), ("select", select)):
        write_store(nbest, tmp_path / name)
    for name, given in (("default", None), ("paper", None), ("paper", select), ("default", select)):
        more = [] if given is None else ["--select", tmp_path / "select"]
        output = ("--recipe", name, "-o", tmp_path / "m.json", "-q")
        assert boostfeat("induce", tmp_path / "dev", *more, *flags, *output)[0] == 0
        command = Model.load(tmp_path / "m.json").to_json()
        assert induce(dev, given, recipe(name, **changes), seed=4).to_json() == command
        assert BoostReranker(name, random_state=4, **changes).fit(dev, select=given).model_.to_json() == command
    row = "boost-local:rounds=3:min_occurrences=20:draws=200:pairs=20"
    write_store(select, tmp_path / "test")
    lists = (tmp_path / "dev", "--select", tmp_path / "select", "--test", tmp_path / "test", "--force")
    assert boostfeat("compare", *lists, "--systems", row, "--seed", 4, "-o", tmp_path / "run", "-q")[0] == 0
    compared = Model.load(next((tmp_path / "run" / "models").glob("*.json"))).to_json()
    assert {k: compared[k] for k in ("weights", "trees")} == {k: command[k] for k in ("weights", "trees")}


def test_seeds_and_jobs_are_those_of_scikit_learn_and_joblib():
    for state in (None, 7, np.int64(7), np.random.default_rng(1), np.random.RandomState(1)):
        assert 0 <= estimator._seed(state) < 2**31
    assert estimator._seed(7) == estimator._seed(np.int64(7)) == 7
    assert [estimator._threads(n) for n in (None, 1, -1)] == [1, 1, usable_cores()]
    with pytest.raises(ValueError, match="n_jobs: 0 threads do nothing"):
        estimator._threads(0)
