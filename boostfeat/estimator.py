"""Boosting in scikit-learn's conventions: X is a list of lists (an NBest), a sample is a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .arrays import F64, I64
from .boost import BoostOptions, Space, boost
from .grow import TreeOptions
from .metrics import Scorer, best_choice
from .model import Model
from .nbest import NBest
from .pairs import PairOptions


class BoostReranker(BaseEstimator):
    """Linear weights and gradient-boosted tree features for reranking [TA13].

    Parameters are those of BoostOptions, PairOptions and TreeOptions. After ``fit``, ``model_`` is the model and ``history_``
    what happened in each round.

    >>> reranker = BoostReranker(max_leaves=4, n_rounds=40).fit(dev, select=select)   # doctest: +SKIP
    >>> reranker.score(test)                                                          # doctest: +SKIP
    """

    def __init__(
        self,
        level: str = "local",
        leaves: str = "constant",
        max_leaves: int = 2,
        n_rounds: int = 25,
        shrinkage: float = 1.0,
        l2: float = 1.0,
        patience: int = 10,
        metric: str = "bleu-sbp",
        loss: str = "log",
        scale: float = 1.0,
        resample_pairs: int = 0,
        sampler: str = "ta13",
        n_draws: int = 10_000,
        threshold: float = 0.04,
        n_pairs: int = 100,
        alpha: float = 1.0,
        min_occurrences: int = 200,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.level = level
        self.leaves = leaves
        self.max_leaves = max_leaves
        self.n_rounds = n_rounds
        self.shrinkage = shrinkage
        self.l2 = l2
        self.patience = patience
        self.metric = metric
        self.loss = loss
        self.scale = scale
        self.resample_pairs = resample_pairs
        self.sampler = sampler
        self.n_draws = n_draws
        self.threshold = threshold
        self.n_pairs = n_pairs
        self.alpha = alpha
        self.min_occurrences = min_occurrences
        self.random_state = random_state
        self.n_jobs = n_jobs

    def options(self) -> BoostOptions:
        """The parameters as the options of boost()."""
        return BoostOptions(
            level=self.level,  # type: ignore[arg-type]
            rounds=self.n_rounds,
            shrinkage=self.shrinkage,
            l2=self.l2,
            patience=self.patience,
            metric=self.metric,
            loss=self.loss,
            scale=self.scale,
            resample_pairs=self.resample_pairs,
            pairs=PairOptions(self.sampler, self.n_draws, self.threshold, self.n_pairs, self.alpha),
            tree=TreeOptions(self.leaves, self.max_leaves, self.min_occurrences),  # type: ignore[arg-type]
        )

    def fit(self, X: NBest, y: None = None, *, select: NBest | None = None, init: Model | None = None) -> BoostReranker:  # noqa: N803
        """Learn on lists with references; ``select`` chooses the number of trees."""
        self.model_ = boost(X, select, self.options(), seed=self.random_state, threads=self.n_jobs, init=init)
        self.history_ = list(self.model_.history)
        self.n_trees_ = len(self.model_.trees)
        return self

    def decision_function(self, X: NBest) -> F64:  # noqa: N803
        """[H] the score of every hypothesis."""
        check_is_fitted(self)
        return self.model_.decision_function(X)

    def predict(self, X: NBest) -> I64:  # noqa: N803
        """[S] for each sentence the chosen hypothesis, counted within its list; -1 where the list is empty."""
        chosen = best_choice(X, self.decision_function(X))
        return np.where(chosen >= 0, chosen - X.hyp_ptr[:-1], -1)

    def score(self, X: NBest, y: None = None) -> float:  # noqa: N803
        """The metric (0..100) of the chosen hypotheses."""
        return Scorer(X).score(best_choice(X, self.decision_function(X)), self.metric).score

    def staged_score(self, X: NBest) -> Iterator[float]:  # noqa: N803
        """The metric after 0, 1, 2, ... trees, without scoring anything twice."""
        check_is_fitted(self)
        model, scorer = self.model_, Scorer(X)
        space = Space.of(X, model.level)
        scores = model.truncated(0).decision_function(X)
        yield scorer.score(best_choice(X, scores), self.metric).score
        for tree in model.trees:
            scores += tree.weight * space.sum(tree.predict(space.table))
            yield scorer.score(best_choice(X, scores), self.metric).score


class SentenceKFold:
    """KFold over sentences: ``split(nbest)`` yields (train, held-out) sentence positions for ``nbest.take``."""

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        self.n_splits, self.random_state = n_splits, random_state

    def split(self, X: NBest, y: Any = None, groups: Any = None) -> Iterator[tuple[I64, I64]]:  # noqa: N803
        yield from X.split_sentences(self.n_splits, seed=self.random_state)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        return self.n_splits
