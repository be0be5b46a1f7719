"""The penalty on weights of sparse features, chosen by lists that were not learned from, before trees are.

Thousands of indicators tell few sentences apart, or hold the words that matter: which of the two, the list must say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.arrays import I64, Array, Bool, offsets
from ...lists.choices import Scorer, best_choice
from ...lists.nbest import NBest
from ...losses.corpus_weights import weighed_by_size
from ...losses.pairs import Pairs, pairs_for
from ...metrics.held_out import HeldOutRows
from ...metrics.metric import Metric, metric_of
from ...model.model import Model
from ...tuners.linear import linear_problem
from ..options import AUTO, NOTHING_TO_CHOOSE, BoostOptions
from .trials import Tell, Trial, Trials

WITHOUT = 1e6  # weights so small that the list's own features decide
GRID = (WITHOUT, 10000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0)  # the strongest first: their fits are quick
THINNED = 4  # one pair of so many takes part, under a penalty as much smaller
TOLERANCE = 3e-4  # of the fits of trials: their rankings are near those of exact fits, in a fifth of the steps


@dataclass(frozen=True)
class Penalty:
    """The penalty that was chosen, and what its first weights pick from lists that they were not fitted to."""

    options: BoostOptions  # with it
    rows: Array  # [S, n] statistics of what is picked
    why: dict[str, Any]


def chosen_penalty(trials: Trials, options: BoostOptions, *, seed: int, threads: int = 1, tell: Tell | None = None) -> Penalty:
    """Choose that sparse_l2 of GRID whose first weights do best on lists that they were not fitted to.

    With r_s the statistics of the hypothesis that the weights choose for sentence s, a penalty's score is the metric of Σ_s r_s.
    The strongest penalty is taken whose score is within half a standard error of the best one's: a whole one gives away more than
    chance does, since neighbours on the grid differ by little. A penalty that is given, or is of no feature, is tried alone.
    """
    metric = metric_of(options.metric, trials.dev)
    is_open = options.sparse_l2 == AUTO and len(trials.dev.sparse_names) > 0
    grid: tuple[float | None, ...] = GRID if is_open else (_given(options),)
    rows = held_out_rows(trials, options, metric, grid, seed=seed, threads=threads, tell=tell)
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
    return Penalty(replace(options, sparse_l2=grid[k]), rows[k], {"penalties": why} if is_open else {})


def _given(options: BoostOptions) -> float | None:
    return NOTHING_TO_CHOOSE if options.sparse_l2 == AUTO else None if options.sparse_l2 is None else float(options.sparse_l2)


def held_out_rows(
    trials: Trials,
    options: BoostOptions,
    metric: Metric,
    grid: tuple[float | None, ...],
    *,
    seed: int,
    threads: int = 1,
    tell: Tell | None = None,
) -> list[Array]:
    """Return for each penalty the statistics [S, n] of what it picks from the lists of the trials, one trial after the other.

    Each fit starts from the last, the first from the weights of dense features alone: in a quarter of the steps from nothing.
    Weak penalties take most of the time. Once a trial has two in succession that are worse than its best one, the second
    clearly, weaker ones are not fitted there, and count as the last of them: they would be worse still.
    """
    dev = trials.dev
    pairs = pairs_for(dev, options.pairs, gain=options.gain, seed=seed, threads=threads)
    if options.context:
        pairs = weighed_by_size(pairs, dev, metric_of(options.context_metric, dev).fixed(options.pairs.alpha))

    def rows_of(_: int, trial: Trial, threads: int, step: Callable[[], None]) -> list[Array]:
        rows = []
        for chosen in _rows_of_trial(dev, pairs, trial, options, metric, grid, threads=threads):
            rows.append(chosen)
            step()
        return rows

    found = trials.side_by_side(rows_of, threads, told=("penalty of sparse features", len(grid), tell))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _rows_of_trial(
    dev: NBest,
    pairs: Pairs,
    trial: Trial,
    options: BoostOptions,
    metric: Metric,
    grid: tuple[float | None, ...],
    *,
    threads: int,
) -> Iterator[Array]:
    """Yield for each penalty the statistics of what weights fitted to the trial's pairs pick from its unseen lists."""
    some, scorer, rows = thinned(pairs, trial.train), Scorer(trial.unseen), list[Array]()
    near, n_dense = np.zeros(len(dev.feature_names)), len(dev.global_names)
    if n_dense:
        dense = linear_problem(dev.without_sparse(), some, threads=threads)
        near[:n_dense] = dense.fit(l2=options.l2 / THINNED, tol=TOLERANCE).raw
    problem = linear_problem(dev, some, threads=threads)
    for sparse_l2 in grid:
        if not are_worse(metric, rows):
            penalty = np.array(replace(options, sparse_l2=sparse_l2).penalties(n_dense, len(dev.sparse_names)))
            fit = problem.fit(init=near, l2_factors=penalty / THINNED, tol=TOLERANCE)
            with np.errstate(over="ignore", invalid="ignore"):  # enormous features: the fits themselves say so
                scores = Model(fit.weights).decision_function(trial.unseen)
            rows.append(scorer.rows(best_choice(trial.unseen, scores), metric))
            near = fit.raw
        yield rows[-1]


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
