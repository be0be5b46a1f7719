"""Boosting in scikit-learn's conventions: X is a list of lists (an NBest), a sample is a sentence; or a matrix with groups."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.arrays import F64, I64, offsets
from ..core.errors import InputError
from ..core.options import named, options_of
from ..core.processes import usable_cores
from ..features.feature_maker import FeatureMaker
from ..lists.agreement import check_agreement, lacking, shared_sentences, shown
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest, by_name, empty_strings
from ..lists.quality import QUALITY, check_name, quality_values
from ..model.decision import ranks
from ..model.model import Model
from ..rerank.explanation import Explanation, explain, list_of
from .boost_options import BoostOptions, recipe
from .induce import induce
from .record import score_of, staged_scores

RoundCallback = Callable[[int, Mapping[str, Any], Model], Any]


class Shaped(Protocol):
    """A matrix, a frame or an NBest."""

    @property
    def shape(self) -> tuple[int, ...]: ...


AnyLists = Shaped | Sequence[Sequence[float]]
ELSEWHERE = {  # what other boosters call our parameters
    "n_estimators": "rounds",
    "learning_rate": "shrinkage",
    "num_leaves": "max_leaves",
    "early_stopping_rounds": "patience",
    "seed": "random_state",
}

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
    """Linear weights and gradient-boosted tree features for reranking [TA13], by scikit-learn's conventions.

    Samples are lists. ``X`` is an NBest; or a matrix or frame of the features of hypotheses, with their quality as ``y`` and the
    sizes of the lists as ``group``.

    ``templates`` names features to compute (as ``boostfeat induce --templates``), which the model then carries: lists stay raw.
    By default those that pay are taken; "none" leaves the lists' own features alone. The command learns the very same model.
    ``recipe`` sets all options; those given (not None) change it. The parameters are the options of BoostOptions, PairOptions and
    TreeOptions, by the names of the flags of ``boostfeat induce``. After ``fit``, ``model_`` is the model, ``history_`` what
    happened in each round, and ``feature_names_in_`` what the lists had.

    >>> reranker = BoostReranker(max_leaves=8, rounds=40).fit(dev, select=select)     # doctest: +SKIP
    >>> reranker.score(test)                                                          # doctest: +SKIP
    """

    def __init__(self, *args: Any, **params: Any) -> None:
        for name in params.keys() & ELSEWHERE.keys():
            raise TypeError(f"{name} is called {ELSEWHERE[name]} here")
        bound = inspect.Signature(_PARAMETERS).bind(self, *args, **params)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name != "self":
                setattr(self, name, value)

    __init__.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]  # what scikit-learn reads

    def options(self, **changes: Any) -> BoostOptions:
        """Return the parameters as the options of boost(), with changes."""
        params = self.get_params(deep=False)
        set_ones = {k: v for k, v in params.items() if v is not None and k in named(BoostOptions)}
        return recipe(params["recipe"], **{**set_ones, **changes})

    def fit(
        self,
        X: AnyLists,  # noqa: N803
        y: Any = None,
        group: Sequence[int] | None = None,
        select: Any = None,
        callbacks: Sequence[RoundCallback] | None = (),
        *,
        init: Model | None = None,
        allow_missing: bool = False,
    ) -> BoostReranker:
        """Learn from lists; ``select``, or folds where there is none, chooses and is never learned from.

        ``y`` is the quality of hypotheses [H], or S sequences of numbers; without it an NBest is learned by its references, else
        by its first quality column. ``select`` is an NBest or (X, y, group). It has to have the features, templates and
        tokenisation of X; with ``allow_missing`` what it lacks counts as 0. After each round callbacks are called with its
        number, its row of the history and the model so far; the run ends where one of them returns True.
        """
        changes: dict[str, Any] = {}
        for name, one in (("X", X), ("select", select)):
            if isinstance(one, str | Path):
                raise TypeError(
                    f"{name}: expected lists (NBest) or a matrix, found a name; boostfeat.read_store({one!r}) opens it"
                )
        if not isinstance(X, NBest):
            if y is None:
                raise TypeError(f"y: expected the quality of each row of X, found None; X is no NBest but {type(X).__name__}")
            if self.level == "local":
                raise ValueError("level: rows of a matrix are whole hypotheses; leave it out, or give an NBest with units")
            changes |= {"level": "global"}
        if y is not None:
            check_name(quality := self.gain or QUALITY)
            changes |= {"gain": quality}
        dev = self._lists(X, y, group, reset=True)
        if select is not None and not isinstance(select, tuple | NBest):
            raise TypeError(f"select: expected an NBest or (X, y, group), found {type(select).__name__}")
        held_out = self._lists(*(select if isinstance(select, tuple) else (select,)), where="select")
        if held_out is not None:
            both = {"X": dev, "select": held_out}
            for line in (*check_agreement(both, allow_missing=allow_missing), *shared_sentences(both)):
                warnings.warn(str(line), stacklevel=2)

        def after_round(row: Mapping[str, Any], model: Model) -> bool:
            results = [callback(row["round"], row, model) for callback in callbacks or ()]
            return any(isinstance(result, bool | np.bool_) and result for result in results)

        self.model_ = induce(
            dev,
            held_out,
            self.options(**changes),
            templates=self.templates,
            init=init,
            seed=_seed(self.random_state),
            threads=_threads(self.n_jobs),
            callback=after_round,
        )
        self.history_ = list(self.model_.history)
        self.n_trees_ = len(self.model_.trees)
        return self

    def _lists(self, X: Any, y: Any = None, group: Any = None, *, where: str = "X", reset: bool = False) -> Any:  # noqa: N803
        """Return lists with ``y`` as a quality column; those of a matrix or frame have no texts, and no order of their own."""
        if X is None and where == "select":
            return None
        if isinstance(X, NBest):
            if group is not None:
                raise ValueError("group: an NBest has the sizes of its lists; leave it out")
            nbest = X
            if reset:
                self.feature_names_in_ = np.array(X.feature_names, dtype=object)
                self.n_features_in_ = len(self.feature_names_in_)
        else:
            rows = validate_data(self, X, reset=reset, dtype=np.float64, order="C")
            names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(rows.shape[1])])
            sizes = np.full(len(rows), 1) if group is None and y is None else _sizes(group, len(rows))
            texts, no_order = empty_strings(len(rows)), np.zeros(len(rows))
            nbest = NBest.bare(offsets(sizes), texts, extra=rows, extra_names=tuple(map(str, names)), score=no_order)
        return nbest if y is None else nbest.with_quality(self.gain or QUALITY, quality_values(y, nbest, "y"))

    def decision_function(self, X: AnyLists) -> F64:  # noqa: N803
        """[H] the score of every hypothesis. Lists without features that the model needs are refused.

        Sparse features come with the words of a list: those that it lacks count as 0.
        """
        check_is_fitted(self)
        return self.model_.decision_function(self._featurized(self._lists(X)))

    def _featurized(self, nbest: NBest) -> NBest:
        """Return the lists with the features that the model carries; raises where they lack others that it needs."""
        nbest = FeatureMaker().for_model(nbest, self.model_)
        if wrong := lacking(self.model_.missing_features(nbest), nbest):
            raise InputError(
                f"X: expected the features of the model, found none of {shown(wrong)}; featurize it as the list that the model "
                "learned from, or use model_.decision_function: they count as 0 there"
            )
        return nbest

    def predict(self, X: AnyLists, group: Sequence[int] | None = None) -> I64:  # noqa: N803
        """[S] for each list the chosen hypothesis, counted within it; -1 where the list is empty."""
        nbest = self._fitted_lists(X, group)
        chosen = self._chosen(nbest)
        return np.where(chosen >= 0, chosen - nbest.hyp_ptr[:-1], -1)

    def score(self, X: AnyLists, y: Any = None, group: Sequence[int] | None = None) -> float:  # noqa: N803
        """Return the metric of the chosen hypotheses, better when higher: negative where it is an error rate."""
        nbest = self._fitted_lists(X, group, y)
        return Scorer(nbest).gain(self._chosen(nbest), self.model_.config["metric"])

    def _fitted_lists(self, X: Any, group: Any, y: Any = None) -> NBest:  # noqa: N803
        check_is_fitted(self)
        if not isinstance(X, NBest) and group is None:
            raise TypeError("group: expected the sizes of the lists in X, found None; decision_function scores rows without it")
        return self._lists(X, y, group)

    def _chosen(self, nbest: NBest) -> I64:
        scores = self.model_.decision_function(self._featurized(nbest))
        return best_choice(nbest, ranks(self.model_.config, nbest, scores))

    def staged_score(self, X: NBest) -> Iterator[float]:  # noqa: N803
        """The metric after 0, 1, 2, ... trees at their final weights, by the highest score, without scoring anything twice."""
        check_is_fitted(self)
        X = self._featurized(self._lists(X))  # noqa: N806
        scorer, metric = Scorer(X), self.model_.config["metric"]
        for scores in staged_scores(self.model_, X, range(len(self.model_.trees) + 1)):
            yield score_of(scorer, scores, metric)

    def explain(self, X: NBest, *, sentence: int | None = None, **how: Any) -> Explanation:  # noqa: N803
        """Say why the model chose as it did from all lists, or part by part from that of a sentence, by its id.

        Of a sentence, ``hyp`` and ``against`` name other hypotheses than the model's and the decoder's choice.
        """
        check_is_fitted(self)
        lists = X if sentence is None else list_of(X, sentence)
        return explain(self.model_, self._featurized(lists), one=sentence is not None, **how)

    @property
    def feature_importances_(self) -> F64:
        """[n_features_in_] the share of each feature of the lists in what moves the ranking; Model.effects has computed ones."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        effects = by_name(self.model_.effects, names)
        return effects / (effects.sum() or 1.0)


def _sizes(group: Any, n: int) -> I64:
    """Check the sizes of lists in a matrix of n rows."""
    sizes = np.asarray([] if group is None else group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any() or sizes.sum() != n:
        told = "None" if group is None else f"a sum of {sizes.sum()}" if sizes.dtype.kind in "iu" else "others"
        raise ValueError(
            f"group: expected sizes of lists, whole numbers that add up to the {n} rows of X, found {told}; searches and "
            "cross-validation take an NBest (NBest.from_frame), whose samples are lists"
        )
    return sizes.astype(np.int64)


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
        if not isinstance(X, NBest):
            raise TypeError(f"X: expected n-best lists (NBest), found {type(X).__name__}; boostfeat.read_store opens a file")
        if len(X) < self.n_splits:
            raise ValueError(f"n_splits: expected at most {len(X)}, a sentence a fold, found {self.n_splits}")
        yield from X.split_sentences(self.n_splits, seed=self.random_state)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """The number of folds, as scikit-learn asks for it."""
        return self.n_splits
