"""Boosting in scikit-learn's conventions: X is a list of lists (an NBest), a sample is a sentence."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..core.options import named, options_of
from ..core.processes import usable_cores
from ..features.feature_maker import FeatureMaker
from ..lists.agreement import check_agreement, lacking, shared_sentences, shown
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..model.decision import ranks
from ..model.model import Model
from ..model.units import UnitSpace
from .induce import induce
from .options import BoostOptions, recipe
from .record import score_of
from .stopping import tree_scores

_PARAMETERS = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)] + [
    inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
    for name, default in {
        "recipe": "default",
        "templates": None,
        **{o.name: None for o in options_of(BoostOptions)},
        "random_state": 0,
        "n_jobs": 1,
    }.items()
]


class BoostReranker(BaseEstimator):
    """Linear weights and gradient-boosted tree features for reranking [TA13].

    An estimator by scikit-learn's conventions, but for its input: ``X`` is an NBest, whose references are the ``y``.

    ``templates`` names features to compute (as ``boostfeat induce --templates``), which the model then carries: lists stay raw.
    By default those that pay are taken; "none" leaves the lists' own features alone. The command learns the very same model.
    ``recipe`` sets all options; those given (not None) change it. The parameters are the options of BoostOptions, PairOptions and
    TreeOptions, by the names of the flags of ``boostfeat induce``. After ``fit``, ``model_`` is the model, ``history_`` what
    happened in each round, and ``feature_names_in_`` what the lists had.

    >>> reranker = BoostReranker(max_leaves=8, rounds=40).fit(dev, select=select)     # doctest: +SKIP
    >>> reranker.score(test)                                                          # doctest: +SKIP
    """

    def __init__(self, *args: Any, **params: Any) -> None:
        given = inspect.Signature(_PARAMETERS).bind(self, *args, **params)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name != "self":
                setattr(self, name, value)

    __init__.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]  # what scikit-learn reads

    def options(self) -> BoostOptions:
        """The parameters as the options of boost()."""
        params = self.get_params(deep=False)
        return recipe(params.pop("recipe"), **{k: v for k, v in params.items() if v is not None and k in named(BoostOptions)})

    def fit(
        self,
        X: NBest,  # noqa: N803
        y: None = None,
        *,
        select: NBest | None = None,
        init: Model | None = None,
        allow_missing: bool = False,
    ) -> BoostReranker:
        """Learn on lists with references; ``select``, or folds where there is none, chooses and is never learned from.

        A select list has to have the features, templates and tokenisation of X; with ``allow_missing`` what it lacks counts as 0.
        """
        _check_lists(X)
        if select is not None:
            _check_lists(select, "select")
        seed, threads, options = _seed(self.random_state), _threads(self.n_jobs), self.options()
        if select is not None:
            both = {"X": X, "select": select}
            for line in (*check_agreement(both, allow_missing=allow_missing), *shared_sentences(both)):
                warnings.warn(str(line), stacklevel=2)
        self.model_ = induce(X, select, options, templates=self.templates, init=init, seed=seed, threads=threads)
        self.history_ = list(self.model_.history)
        self.n_trees_ = len(self.model_.trees)
        self.feature_names_in_ = np.array(X.feature_names, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def decision_function(self, X: NBest) -> F64:  # noqa: N803
        """[H] the score of every hypothesis. Lists without features that the model needs are refused.

        Sparse features come with the words of a list: those that it lacks count as 0.
        """
        check_is_fitted(self)
        return self.model_.decision_function(self._featurized(X))

    def _featurized(self, X: NBest) -> NBest:  # noqa: N803
        """The lists with the features that the model carries; raises where they lack others that it needs."""
        _check_lists(X)
        X = FeatureMaker().for_model(X, self.model_)  # noqa: N806
        if wrong := lacking(self.model_.missing_features(X), X):
            raise InputError(
                f"X: expected the features of the model, found none of {shown(wrong)}; featurize it as the list that the model "
                "learnt from, or use model_.decision_function: they count as 0 there"
            )
        return X

    def predict(self, X: NBest) -> I64:  # noqa: N803
        """[S] for each sentence the chosen hypothesis, counted within its list; -1 where the list is empty."""
        chosen = self._chosen(X)
        return np.where(chosen >= 0, chosen - X.hyp_ptr[:-1], -1)

    def score(self, X: NBest, y: None = None) -> float:  # noqa: N803
        """The metric (0..100) of the chosen hypotheses, better when higher: negative where it is an error rate."""
        return Scorer(X).gain(self._chosen(X), self.options().metric)

    def _chosen(self, X: NBest) -> I64:  # noqa: N803
        scores = self.decision_function(X)
        return best_choice(X, ranks(self.model_.config, X, scores))

    def staged_score(self, X: NBest) -> Iterator[float]:  # noqa: N803
        """The metric after 0, 1, 2, ... trees at their final weights, by the highest score, without scoring anything twice."""
        check_is_fitted(self)
        X = self._featurized(X)  # noqa: N806
        model, scorer, metric = self.model_, Scorer(X), self.options().metric
        space = UnitSpace.of(X, model.level)
        scores = model.truncated(0).decision_function(X)
        yield score_of(scorer, scores, metric)
        for tree in model.trees:
            scores += tree_scores(tree, space)
            yield score_of(scorer, scores, metric)


def _seed(random_state: Any) -> int:
    """Return a seed, as scikit-learn understands it: a number is itself, None is another one each time, a generator is asked."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    known = np.random.default_rng() if random_state is None else random_state
    draw = known.integers if isinstance(known, np.random.Generator) else check_random_state(known).randint
    return int(draw(np.iinfo(np.int32).max))


def _threads(n_jobs: int | None) -> int:
    """Return the number of threads, as joblib understands it: None is 1, -1 all cores, -2 all but one."""
    if n_jobs == 0:
        raise ValueError("n_jobs: 0 threads do nothing; give None, 1 or more, or -1 for all cores")
    wanted = 1 if n_jobs is None else n_jobs if n_jobs > 0 else usable_cores() + 1 + n_jobs
    return max(1, min(wanted, usable_cores()))


def _check_lists(X: Any, name: str = "X") -> None:  # noqa: N803
    if not hasattr(X, "hyp_ptr"):
        raise TypeError(f"{name}: expected n-best lists (NBest), found {type(X).__name__}; open them with boostfeat.read_store")


class SentenceKFold:
    """KFold over sentences: ``split(nbest)`` yields (train, held-out) sentence positions for ``nbest.take``."""

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        if not isinstance(n_splits, int) or n_splits < 2:
            raise ValueError(f"n_splits: expected a whole number, 2 or more, found {n_splits!r}")
        self.n_splits, self.random_state = n_splits, random_state

    def __repr__(self) -> str:
        return f"SentenceKFold({self.n_splits}, random_state={self.random_state})"

    def split(self, X: NBest, y: Any = None, groups: Any = None) -> Iterator[tuple[I64, I64]]:  # noqa: N803
        """(train, held-out) positions of each fold."""
        _check_lists(X)
        if len(X) < self.n_splits:
            raise ValueError(f"n_splits: expected at most {len(X)}, a sentence a fold, found {self.n_splits}")
        yield from X.split_sentences(self.n_splits, seed=self.random_state)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """The number of folds, as scikit-learn asks for it."""
        return self.n_splits
