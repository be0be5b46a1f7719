"""The penalty on weights of sparse features, chosen by folds of the training list before anything else is learnt.

Thousands of indicators tell few sentences apart, or hold the words that matter: which of the two, the list must say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import I64, Array, Bool, offsets
from ..core.machine import give_back
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..losses.corpus_weights import weighed_by_size
from ..losses.pairs import Pairs, pairs_for
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import Metric, metric_of
from ..model.model import Model
from ..tuners.linear import linear_problem
from .options import AUTO, NOTHING_TO_CHOOSE, BoostOptions

WITHOUT = 1e6  # weights so small that the list's own features decide
GRID = (WITHOUT, 10000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0)  # the strongest first: their fits are quick
FOLDS = 3
NO_REASONS: Mapping[str, Any] = {}
THINNED = 4  # one pair of so many takes part, under a penalty as much smaller
TOLERANCE = 3e-4  # of the fits of folds: their rankings are near those of exact fits, in a fifth of the steps

Tell = Callable[[str, int, int], None]  # what is chosen, the fits or rounds done, of how many
Why = Mapping[str, Any]  # what a model's config says of choices


def with_penalties(
    dev: NBest,
    options: BoostOptions,
    *,
    seed: int,
    threads: int = 1,
    init: Model | None = None,
    so_far: Model | None = None,
    tell: Tell | None = None,
) -> tuple[BoostOptions, Why]:
    """The options of a run without ``auto``, and why; a run so far has its own, and one from a model fits no first weights."""
    if options.sparse_l2 != AUTO:
        return options, NO_REASONS
    if so_far is not None:
        return replace(options, sparse_l2=so_far.config.get("sparse_l2")), kept_reasons(so_far, "penalties")
    if init is not None or not len(dev.sparse_names) or len(dev) < 2 * FOLDS:
        return replace(options, sparse_l2=NOTHING_TO_CHOOSE), NO_REASONS
    return chosen_penalty(dev, options, seed=seed, threads=threads, tell=tell)


def chosen_penalty(
    dev: NBest, options: BoostOptions, *, seed: int, threads: int = 1, tell: Tell | None = None
) -> tuple[BoostOptions, Why]:
    """The options with that sparse_l2 of GRID whose first weights do best on held-out folds.

    With r_s the statistics of the hypothesis that the weights of the other folds choose for sentence s, a penalty's score is
    the metric of Σ_s r_s. The strongest penalty is taken whose score is within half a standard error of the best one's: a whole
    one gives away more than chance does, since neighbours on the grid differ by little.
    """
    metric = metric_of(options.metric, dev)
    held_out = HeldOutRows(metric, held_out_rows(dev, options, metric, seed=seed, threads=threads, tell=tell))
    gains, best = held_out.gains, int(np.argmax(held_out.gains))
    errors = [held_out.error(best, k) for k in range(len(GRID))]
    k = next((k for k in range(len(GRID)) if gains[k] >= gains[best] - errors[k] / 2), best)  # best: where scores are no numbers
    why = {
        "rule": "the strongest penalty on sparse features within half a standard error of the best",
        "folds": FOLDS,
        "sparse_l2": list(GRID),
        options.metric: [round(100 * float(score), 4) for score in held_out.scores],
        "error": [round(100 * e, 4) for e in errors],
    }
    return replace(options, sparse_l2=GRID[k]), {"penalties": why}


def held_out_rows(
    dev: NBest, options: BoostOptions, metric: Metric, *, seed: int, threads: int = 1, tell: Tell | None = None
) -> list[Array]:
    """For each penalty of GRID the statistics [S, n] of what it chooses, every sentence in the fold that did not train on it.

    Each fit starts from the last, the first from the weights of dense features alone: in a quarter of the steps from nothing.
    Weak penalties take most of the time. Once a fold has two in succession that are worse than its best one, the second
    clearly, weaker ones are not fitted there, and count as the last of them: they would be worse still.
    """
    pairs = pairs_for(dev, options.pairs, gain=options.gain, seed=seed, threads=threads)
    if options.context:
        pairs = weighed_by_size(pairs, dev, metric_of(options.context_metric, dev).fixed(options.pairs.alpha))
    found: list[list[Array]] = [[] for _ in GRID]  # folds are runs of neighbours: one after the other they are all sentences
    for fold, (train, held_out) in enumerate(dev.blocks_of_sentences(FOLDS)):
        for k, rows in enumerate(_rows_of_fold(dev, thinned(pairs, train), held_out, options, metric, threads=threads)):
            found[k].append(rows)
            if tell:
                tell("penalty of sparse features", fold * len(GRID) + k + 1, FOLDS * len(GRID))
        give_back()
    return [np.concatenate(own) for own in found]


def _rows_of_fold(
    dev: NBest, pairs: Pairs, held_out: I64, options: BoostOptions, metric: Metric, *, threads: int
) -> Iterator[Array]:
    """For each penalty of GRID the statistics of what weights fitted to these pairs choose for the held-out sentences."""
    unseen, rows, near = dev.neighbours(held_out), list[Array](), np.zeros(len(dev.feature_names))
    if n_dense := len(dev.global_names):
        dense = linear_problem(dev.without_sparse(), pairs, threads=threads)
        near[:n_dense] = dense.fit(l2=options.l2 / THINNED, tol=TOLERANCE).raw
    problem, scorer = linear_problem(dev, pairs, threads=threads), Scorer(unseen)
    for sparse_l2 in GRID:
        if not are_worse(metric, rows):
            penalty = np.array(replace(options, sparse_l2=sparse_l2).penalties(n_dense, len(dev.sparse_names)))
            fit = problem.fit(init=near, l2_factors=penalty / THINNED, tol=TOLERANCE)
            with np.errstate(over="ignore", invalid="ignore"):  # enormous features: the fits of folds say so
                scores = unseen.sum_units(*unseen.weigh(fit.raw))
            rows.append(scorer.rows(best_choice(unseen, scores), metric))
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


def kept_reasons(model: Model, *choices: str) -> Why:
    """What the config of a model says of these choices."""
    return {choice: model.config[choice] for choice in choices if choice in model.config}


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
