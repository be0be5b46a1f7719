"""Boosting in scikit-learn's conventions: X is a list of lists (an NBest), a sample is a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import F64, I64
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..model.model import Model
from ..model.units import Space
from .boost import boost
from .options import BoostOptions, recipe
from .record import score_of
from .stopping import tree_scores

_FIELDS = {"n_rounds": "rounds", "n_draws": "draws", "n_pairs": "keep"}  # scikit-learn's names for counts
_NOT_FIELDS = ("recipe", "more", "random_state", "n_jobs")


class BoostReranker(BaseEstimator):
    """Linear weights and gradient-boosted tree features for reranking [TA13].

    An estimator by scikit-learn's conventions, but for its input: ``X`` is an NBest, whose references are the ``y``.

    ``recipe`` sets all options; those given (not None) change it. Parameters are fields of BoostOptions, PairOptions and
    TreeOptions, the ones that are not parameters go into ``more`` by name. After ``fit``, ``model_`` is the model,
    ``history_`` what happened in each round, and ``feature_names_in_`` what the lists had.

    >>> reranker = BoostReranker(max_leaves=8, n_rounds=40).fit(dev, select=select)   # doctest: +SKIP
    >>> reranker.score(test)                                                          # doctest: +SKIP
    """

    def __init__(
        self,
        recipe: str = "default",
        level: str | None = None,
        leaves: str | None = None,
        max_leaves: int | None = None,
        n_rounds: int | None = None,
        shrinkage: float | None = None,
        l2: float | None = None,
        patience: int | None = None,
        metric: str | None = None,
        resample_pairs: int | None = None,
        sampler: str | None = None,
        n_draws: int | None = None,
        threshold: float | None = None,
        n_pairs: int | None = None,
        alpha: float | None = None,
        min_occurrences: int | None = None,
        more: Mapping[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.recipe = recipe
        self.level = level
        self.leaves = leaves
        self.max_leaves = max_leaves
        self.n_rounds = n_rounds
        self.shrinkage = shrinkage
        self.l2 = l2
        self.patience = patience
        self.metric = metric
        self.resample_pairs = resample_pairs
        self.sampler = sampler
        self.n_draws = n_draws
        self.threshold = threshold
        self.n_pairs = n_pairs
        self.alpha = alpha
        self.min_occurrences = min_occurrences
        self.more = more
        self.random_state = random_state
        self.n_jobs = n_jobs

    def options(self) -> BoostOptions:
        """The parameters as the options of boost()."""
        params = self.get_params(deep=False)
        given = {_FIELDS.get(k, k): v for k, v in params.items() if v is not None and k not in _NOT_FIELDS}
        return recipe(self.recipe, **{**given, **(self.more or {})})

    def fit(self, X: NBest, y: None = None, *, select: NBest | None = None, init: Model | None = None) -> BoostReranker:  # noqa: N803
        """Learn on lists with references; ``select`` chooses the number of trees."""
        _check_lists(X)
        self.model_ = boost(X, select, self.options(), seed=self.random_state, threads=self.n_jobs, init=init)
        self.history_ = list(self.model_.history)
        self.n_trees_ = len(self.model_.trees)
        self.feature_names_in_ = np.array(X.feature_names, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def decision_function(self, X: NBest) -> F64:  # noqa: N803
        """[H] the score of every hypothesis. Features that the lists lack count as 0, others are ignored."""
        check_is_fitted(self)
        _check_lists(X)
        return self.model_.decision_function(X)

    def predict(self, X: NBest) -> I64:  # noqa: N803
        """[S] for each sentence the chosen hypothesis, counted within its list; -1 where the list is empty."""
        chosen = best_choice(X, self.decision_function(X))
        return np.where(chosen >= 0, chosen - X.hyp_ptr[:-1], -1)

    def score(self, X: NBest, y: None = None) -> float:  # noqa: N803
        """The metric (0..100) of the chosen hypotheses."""
        scores = self.decision_function(X)
        return Scorer(X).gain(best_choice(X, scores), self.options().metric)

    def staged_score(self, X: NBest) -> Iterator[float]:  # noqa: N803
        """The metric after 0, 1, 2, ... trees at their final weights, without scoring anything twice."""
        check_is_fitted(self)
        _check_lists(X)
        model, scorer, metric = self.model_, Scorer(X), self.options().metric
        space = Space.of(X, model.level)
        scores = model.truncated(0).decision_function(X)
        yield score_of(scorer, scores, metric)
        for tree in model.trees:
            scores += tree_scores(tree, space)
            yield score_of(scorer, scores, metric)


def _check_lists(X: Any) -> None:  # noqa: N803
    if not hasattr(X, "hyp_ptr"):
        raise TypeError(f"X: expected n-best lists (NBest), found {type(X).__name__}; open them with boostfeat.read_store")


class SentenceKFold:
    """KFold over sentences: ``split(nbest)`` yields (train, held-out) sentence positions for ``nbest.take``."""

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        self.n_splits, self.random_state = n_splits, random_state

    def split(self, X: NBest, y: Any = None, groups: Any = None) -> Iterator[tuple[I64, I64]]:  # noqa: N803
        yield from X.split_sentences(self.n_splits, seed=self.random_state)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        return self.n_splits
