"""BoostReranker by scikit-learn's conventions.

Scikit-learn's own checks are run on matrices, all rows of which are one list; those that do not apply are listed with the reason. What
they ask that applies to n-best lists is asked below, under their names. Tuners are no estimators but frozen options with ``fit``.
"""

from __future__ import annotations

import pickle
import warnings
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import estimator_checks as checks
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import BoostReranker, FeaturePlan, InputError, Model, NBest, Tree, featurize, induce, read_store, write_store
from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.estimator import SentenceKFold
from boostfeat.lists.nbest import strings
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Run

NOT_APPLICABLE = {  # checks of scikit-learn, and why
    "check_fit2d_1sample": "one row is a list of one, from which nothing can be learned; the message says so in words of lists",
    "check_array_api_input": "arrays of other libraries are not taken",
}
DEV, OTHER = (synthetic_nbest(SyntheticOptions(sentences=20, hyps=10, slots=4), seed=seed) for seed in (1, 2))
ROWS = np.random.default_rng(0).normal(size=(300, 3))
GOOD = 2 * ROWS[:, 0] - ROWS[:, 1] * (ROWS[:, 2] > 0)
SIZES = [10] * 30
FRAME = pl.DataFrame(ROWS, schema=["a", "b", "c"])
SMALL = BoostReranker("paper", rounds=2, draws=200, min_occurrences=5)


@pytest.fixture(scope="module")
def fitted() -> BoostReranker:
    return clone(SMALL).fit(DEV)


class OneList(BoostReranker):
    """All rows are one list, and predictions are scores: the sample of scikit-learn's checks is a row."""

    __init__ = BoostReranker.__init__

    def fit(self, X, y=None):  # noqa: N803
        return super().fit(X, y, None if y is None else [X.shape[0] if hasattr(X, "shape") else len(X)])

    def predict(self, X):  # noqa: N803
        return self.decision_function(X)

    def score(self, X, y=None):  # noqa: N803
        return super().score(X, y, [len(X)])


CHECKS = list(checks.estimator_checks_generator(OneList("paper", rounds=2, draws=200, min_occurrences=1)))


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[check.func.__name__ for _, check in CHECKS])
def test_checks_of_scikit_learn(estimator, check):
    if check.func.__name__ in NOT_APPLICABLE:
        pytest.skip(NOT_APPLICABLE[check.func.__name__])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tiny data
        check(estimator)


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
    assert list(fitted.feature_names_in_) == list(DEV.global_names)


def test_fit_idempotent_and_fit_check_is_fitted(fitted):
    again = clone(SMALL).fit(OTHER).fit(DEV)  # nothing is left of the fit before
    assert again.model_.to_json() == fitted.model_.to_json()


@pytest.mark.parametrize("state", [None, np.int64(7), np.random.default_rng(1), np.random.RandomState(1)])
def test_seeds_are_those_of_scikit_learn(state):
    assert clone(SMALL).set_params(random_state=state, rounds=0).fit(DEV).n_trees_ == 0


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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: r.fit("dev.nbest"), TypeError, r"X: expected lists \(NBest\) or a matrix, found a name; boostfeat.read_store\('dev.nbest'\) opens it"),
        (lambda r: r.fit(DEV, select="x"), TypeError, "select: expected lists"),
        (lambda r: r.fit(ROWS, GOOD, SIZES, select=ROWS), TypeError, r"select: expected an NBest or \(X, y, group\), found ndarray"),
        (lambda r: r.fit(ROWS), TypeError, "y: expected the quality of each row of X, found None"),
        (lambda r: r.fit(ROWS, GOOD), ValueError, "group: expected sizes of lists, whole numbers that add up to the 300 rows of X, found None"),
        (lambda r: r.fit(ROWS, GOOD, [10, 20]), ValueError, "found a sum of 30; searches and cross-validation take an NBest"),
        (lambda r: r.fit(ROWS, GOOD, [0.5]), ValueError, "group: expected sizes of lists"),
        (lambda r: r.fit(ROWS, GOOD[:9], SIZES), ValueError, "y: expected a finite number for each of 300 hypotheses, found 9"),
        (lambda r: r.fit(DEV, GOOD[:200].reshape(-1, 1)), ValueError, "y: expected a finite number for each of 200 hypotheses, found 200 x 1"),
        (lambda r: r.fit(DEV, np.full(200, np.nan)), ValueError, "y: expected a finite number for each of 200 hypotheses, found nan or infinity"),
        (lambda r: r.fit(DEV, group=[10] * 20), ValueError, "group: an NBest has the sizes of its lists"),
        (lambda r: r.set_params(level="local").fit(ROWS, GOOD, SIZES), ValueError, "level: rows of a matrix are whole hypotheses"),
        (lambda r: r.set_params(gain="bleu").fit(DEV, np.zeros(200)), InputError, "quality column 'bleu': expected a name that is no metric"),
        (lambda r: r.fit(ROWS, GOOD, SIZES).predict(ROWS), TypeError, "group: expected the sizes of the lists in X, found None; decision_function"),
        (lambda r: r.fit(ROWS, GOOD, SIZES).predict(ROWS[:, :2], SIZES), ValueError, "X has 2 features, but BoostReranker is expecting 3"),
        (lambda r: r.set_params(n_jobs=0).fit(DEV), ValueError, "n_jobs: 0 threads do nothing"),
        (lambda r: r.set_params(rounds="a").fit(DEV), InputError, "rounds: expected 0 or more, found 'a'"),
        (lambda r: BoostReranker(n_estimators=3), TypeError, "n_estimators is called rounds here"),
        (lambda r: BoostReranker(early_stopping_rounds=3), TypeError, "early_stopping_rounds is called patience here"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_from_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(clone(SMALL))


# -- inside scikit-learn ------------------------------------------------------------------------------------------------


def test_searches_and_cross_validation_take_lists():
    """Sentences are samples: what a search finds is what fits by hand on the same folds give."""
    folds, grid = SentenceKFold(2), {"max_leaves": [2, 3], "rounds": [0, 2]}
    search = GridSearchCV(SMALL, grid, cv=folds, n_jobs=2).fit(DEV)
    by_hand = [
        clone(SMALL).set_params(**search.best_params_).fit(DEV[train]).score(DEV[held]) for train, held in folds.split(DEV)
    ]
    assert search.best_score_ == pytest.approx(np.mean(by_hand))
    assert search.score(OTHER) == clone(SMALL).set_params(**search.best_params_).fit(DEV).score(OTHER)
    assert search.predict(OTHER).shape == (20,)
    np.testing.assert_allclose(cross_val_score(search.best_estimator_, DEV, cv=folds), by_hand)
    chance = RandomizedSearchCV(SMALL, grid, n_iter=2, cv=2, random_state=0).fit(DEV)
    assert chance.best_params_ in chance.cv_results_["params"]
    quality = np.empty(20, object)
    quality[:] = [list(own) for own in np.split(GOOD[:200], 20)]
    by_quality = cross_val_score(SMALL, DEV, quality, cv=folds)
    assert np.isfinite(by_quality).all()
    assert not np.allclose(by_quality, by_hand)


def test_pipelines_take_lists_and_frames():
    shorter = make_pipeline(FunctionTransformer(lambda lists: lists.truncate(5)), clone(SMALL)).fit(DEV)
    assert shorter.score(OTHER) == clone(SMALL).fit(DEV.truncate(5)).score(OTHER.truncate(5))
    scaler = StandardScaler().set_output(transform="polars")
    pipe = make_pipeline(scaler, BoostReranker(rounds=2)).fit(FRAME, GOOD, boostreranker__group=SIZES)
    assert list(pipe[-1].feature_names_in_) == ["a", "b", "c"]
    assert pipe.predict(FRAME, group=SIZES).shape == (30,)
    assert pipe.decision_function(FRAME).shape == (300,)
    html = pipe._repr_html_()
    assert "BoostReranker" in html


def test_a_matrix_a_frame_and_lists_of_the_same_rows_give_the_same_model():
    """Quality is 2 a - b, b where c > 0 only: a counts most, and trees see more than weights do. Rows are of no order."""
    reranker = BoostReranker(rounds=20, min_occurrences=10, decide="score")
    models = [clone(reranker).fit(x, GOOD, SIZES) for x in (ROWS, FRAME)]
    lists = NBest.bare(np.arange(31) * 10, strings([""] * 300), extra=ROWS, extra_names=("a", "b", "c"), score=np.zeros(300))
    models.append(clone(reranker).set_params(level="global").fit(lists, GOOD))
    first, *others = [r.model_.to_json()["trees"] for r in models[1:]]
    assert all(trees == first for trees in others)
    assert list(models[0].model_.weights.values()) == list(models[1].model_.weights.values())
    assert not hasattr(models[0], "feature_names_in_")
    assert [r.n_features_in_ for r in models] == [3, 3, 3]
    importances = models[1].feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert np.argsort(-importances).tolist() == [0, 1, 2]
    best = GOOD.reshape(30, 10).max(axis=1).mean()
    assert 0.9 * best < models[0].score(ROWS, GOOD, SIZES) == models[2].score(lists, GOOD) <= best
    assert models[0].model_.config["gain"] == "quality"
    by_name = clone(reranker).set_params(gain="reward").fit(ROWS, GOOD, SIZES, select=(ROWS, GOOD, SIZES))
    assert by_name.model_.config["metric"] == "reward"


def test_lists_without_references_are_learned_by_their_quality_column():
    bare = DEV.without_references()
    rewarded = bare.with_quality("reward", GOOD[:200])
    assert (
        clone(SMALL).fit(rewarded).model_.to_json()
        == clone(SMALL).set_params(gain="reward").fit(bare, GOOD[:200]).model_.to_json()
    )


def test_choices_are_explained(fitted):
    """What the parts add sums up to the difference of the scores; the command prints the same."""
    sentence = int(OTHER.ids[3])
    reasons = fitted.explain(OTHER, sentence=sentence, hyp=2, against=5)
    scores = fitted.decision_function(OTHER[3])
    assert reasons["difference"] == pytest.approx(scores[2] - scores[5])
    assert sum(part["part"] for part in reasons["features"]) == pytest.approx(reasons["difference"])
    assert sum(u["linear"] + u["trees"] for u in reasons["units"]) == pytest.approx(reasons["difference"])
    assert reasons["features"][0]["name"] in reasons._repr_html_()
    assert fitted.explain(OTHER)["sentences"] == 20
    assert fitted.model_.explain(OTHER, sentence=sentence, hyp=2, against=5) == reasons
    with pytest.raises(InputError, match="sentence 99: there is no list of this id"):
        fitted.explain(OTHER, sentence=99)


def test_callbacks_see_every_round_and_may_end_the_run():
    seen = []

    def keep(m, row, model):
        assert (row["round"], len(model.trees)) == (m, m)
        seen.append(m)

    small = clone(SMALL).set_params(rule="all")
    reranker = clone(small).set_params(rounds=9).fit(DEV, callbacks=[keep, lambda m, row, model: np.bool_(m == 3)])
    assert seen == [0, 1, 2, 3]
    assert (reranker.n_trees_, len(reranker.history_)) == (3, 4)
    assert reranker.model_.trees == clone(small).set_params(rounds=3).fit(DEV, callbacks=None).model_.trees
    chosen = clone(SMALL).set_params(rounds=9).fit(DEV, select=OTHER, callbacks=[lambda m, row, model: m == 2])
    assert [row["round"] for row in chosen.history_] == [0, 1, 2]


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
    fitted = reranker.fit(more, select=featurize(select, vocab)[0])
    weights = {name: 1.0 for name in more.global_names}
    fitted.model_ = Model(weights)
    with pytest.raises(InputError, match="X: expected the features of the model, found none of "):
        fitted.predict(select)


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
