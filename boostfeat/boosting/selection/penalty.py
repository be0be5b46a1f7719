"""The penalty on weights of sparse features, chosen by lists that were not learned from, before trees are.

Thousands of indicators tell few sentences apart, or hold the words that matter: which of the two, the list must say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import F64, I64, Array, Bool, offsets
from ...lists.choices import Scorer, best_choice
from ...lists.nbest import NBest
from ...losses.corpus_weights import weighed_by_size
from ...losses.pairs import Pairs, pairs_for
from ...metrics.metric import Metric, metric_of
from ...metrics.significance import HeldOutRows
from ...tuners.linear import linear_problem
from ..boost_options import AUTO, NOTHING_TO_CHOOSE, BoostOptions
from .trials import Trial, Trials

WITHOUT = 1e6  # weights so small that the list's own features decide
Grid = tuple[float | None, ...]
GRID = (WITHOUT, 10000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0)  # the strongest first: their fits are quick
THINNED = 4  # one pair of so many takes part, under a penalty as much smaller
TOLERANCE = 3e-4  # of the fits of trials: their rankings are near those of exact fits, in a fifth of the steps


@dataclass(frozen=True)
class Penalty:
    """The penalty that was chosen, and the first weights of each trial under it."""

    sparse_l2: float | None
    rows: Array  # [S, n] statistics of what the weights pick from lists that they were not fitted to
    weights: list[F64]  # [D + N] of each trial, to start from
    why: dict[str, Any]


def chosen_penalty(trials: Trials, options: BoostOptions) -> Penalty:
    """Choose that sparse_l2 of GRID whose first weights do best on lists that they were not fitted to.

    With r_s the statistics of the hypothesis that the weights choose for sentence s, a penalty's score is the metric of Σ_s r_s.
    The strongest penalty is taken whose score is within half a standard error of the best one's: a whole one gives away more than
    chance does, since neighbours on the grid differ by little. A penalty that is given, or is of no feature, is tried alone.
    """
    metric = metric_of(options.metric, trials.dev)
    is_open = options.sparse_l2 == AUTO and len(trials.dev.sparse_names) > 0
    grid: Grid = GRID if is_open else (_given(options),)
    fits = penalty_fits(trials, options, grid)
    rows = [np.concatenate([fit.rows for fit in of_trials]) for of_trials in fits]
    held_out = HeldOutRows(metric, rows)
    gains, best = held_out.gains, int(np.argmax(held_out.gains))
    errors = [held_out.error(best, k) for k in range(len(grid))]
    k = next((k for k in range(len(grid)) if gains[k] >= gains[best] - errors[k] / 2), best)  # best: where scores are no numbers
    why = {
        "rule": "the strongest penalty on sparse features within half a standard error of the best",
        "by": trials.by,
        "sparse_l2": list(grid),
        options.metric: [held_out.written(score) for score in held_out.scores],
        "error": [held_out.written(e) for e in errors],
    }
    weights = [fit.weights for fit in fits[k]]
    return Penalty(grid[k], rows[k], weights, {"penalties": why} if is_open else {})


def _given(options: BoostOptions) -> float | None:
    return NOTHING_TO_CHOOSE if options.sparse_l2 == AUTO else None if options.sparse_l2 is None else float(options.sparse_l2)


class PenaltyFit(NamedTuple):
    """First weights under a penalty, and what they pick from lists that they were not fitted to."""

    weights: F64  # [D + N]
    rows: Array  # [S, n] statistics


def penalty_fits(trials: Trials, options: BoostOptions, grid: Grid) -> list[tuple[PenaltyFit, ...]]:
    """Return for each penalty the fits of all trials.

    Each fit starts from the last, the first from the weights of dense features alone: in a quarter of the steps from nothing.
    Weak penalties take most of the time. Once a trial has two in succession that are worse than its best one, the second
    clearly, weaker ones are not fitted there, and count as the last of them: they would be worse still.
    """
    dev = trials.dev
    pairs = pairs_for(dev, options.pairs, gain=options.gain, seed=trials.seed, threads=trials.threads)
    if options.context:
        pairs = weighed_by_size(pairs, dev, metric_of(options.context_metric, dev).fixed(options.pairs.alpha))
    some = [thinned(pairs, trial.train) for trial in trials]
    tasks = [partial(_fits_of_trial, pairs=own, options=options, grid=grid) for own in some]
    loads = partial(import_module, "lightgbm")  # which takes a while: forks that grow trees have it already
    fits = trials.side_by_side(tasks, "penalty of sparse features", len(grid), beside=loads)
    return list(zip(*fits, strict=True))


def _fits_of_trial(trial: Trial, pairs: Pairs, options: BoostOptions, grid: Grid) -> list[PenaltyFit]:
    """Return for each penalty the weights fitted to the trial's pairs, and what they pick from its unseen lists."""
    dev, unseen, fits, metric = trial.dev, trial.unseen(all_units=True), list[PenaltyFit](), metric_of(options.metric, trial.dev)
    scorer, place = Scorer(unseen), _places(unseen, dev)
    near, n_dense = np.zeros(len(dev.feature_names)), len(dev.global_names)
    if n_dense:
        dense = linear_problem(dev.without_sparse(), pairs, threads=trial.threads)
        near[:n_dense] = dense.fit(l2=options.l2 / THINNED, tol=TOLERANCE).raw
    problem = linear_problem(dev, pairs, threads=trial.threads)
    for sparse_l2 in grid:
        if are_worse(metric, [fit.rows for fit in fits]):
            fits.append(fits[-1])
        else:
            penalty = np.array(replace(options, sparse_l2=sparse_l2).penalties(n_dense, len(dev.sparse_names)))
            near = problem.fit(init=near, l2_factors=penalty / THINNED, tol=TOLERANCE).raw
            with np.errstate(over="ignore", invalid="ignore"):  # enormous features: the fits themselves say so
                scores = unseen.sum_units(*unseen.weigh(np.append(near, 0.0)[place]))
            fits.append(PenaltyFit(near, scorer.rows(best_choice(unseen, scores), metric)))
        trial.step()
    return fits


def _places(nbest: NBest, other: NBest) -> I64 | slice:
    """Return the place of each feature of a list among those of another, -1 where it is not."""
    if nbest.global_names == other.global_names and nbest.sparse_names.equals(other.sparse_names):
        return slice(len(other.feature_names))
    place = {name: k for k, name in enumerate(other.feature_names)}
    return np.array([place.get(name, -1) for name in nbest.feature_names], np.int64)


def are_worse(metric: Metric, rows: list[Array]) -> bool:
    """Whether the last of several candidates is more than two standard errors below the best, and the one before below it."""
    if not rows:
        return False
    held_out = HeldOutRows(metric, rows)
    best, last = int(np.argmax(held_out.gains)), len(rows) - 1
    clearly = held_out.gains[last] < held_out.gains[best] - 2 * held_out.error(best, last)
    return bool(clearly and held_out.gains[last - 1] < held_out.gains[best])


def thinned(pairs: Pairs, sentences: I64) -> Pairs:
    """Every THINNED-th pair of these sentences, and none of the others."""
    counts = np.diff(pairs.sent_ptr)
    place = np.arange(len(pairs)) - np.repeat(pairs.sent_ptr[:-1], counts)
    inside = np.zeros(len(counts), bool)
    inside[sentences] = True
    keep: Bool = np.repeat(inside, counts) & (place % THINNED == 0)
    sent = np.repeat(np.arange(len(counts)), counts)[keep]
    weight = None if pairs.weight is None else pairs.weight[keep]
    ptr = offsets(np.bincount(sent, minlength=len(counts)))
    return Pairs(pairs.better[keep], pairs.worse[keep], pairs.delta[keep], ptr, weight)
