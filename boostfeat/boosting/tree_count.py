"""The number of trees, none included, chosen by folds of the training list before the model is learnt.

A select list alone is small, and trees that gain on it by chance lose elsewhere. Folds hold out every sentence once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.memory import give_back
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import metric_of
from ..model.model import Model
from .options import BoostOptions
from .stopping import staged_scores

FOLDS = 3  # fits of two thirds of the sentences each: with the last fit, at most three times its time
STEPS = 30  # numbers of trees that are looked at, beside none

Fit = Callable[[NBest, BoostOptions], Model]


def chosen_tree_count(
    dev: NBest, select: NBest | None, options: BoostOptions, fit: Fit, *, seed: int
) -> tuple[BoostOptions, Mapping[str, Any]]:
    """The options with that number of rounds which does best on held-out sentences, and why.

    Trees must gain more than a standard error over the first weights, or there are none. Else it is the last number within a
    standard error of the best: steps are small, curves are flat, and more trees average out what each took from chance.
    """
    counts = [0, *np.unique(np.linspace(0, options.rounds, STEPS + 1).round().astype(int))[1:].tolist()]
    held_out = HeldOutRows(metric_of(options.metric, dev), held_out_rows(dev, select, options, counts, fit, seed=seed))
    gains, best = held_out.gains, int(np.argmax(held_out.gains))
    errors = [held_out.error(best, k) for k in range(len(counts))]
    kept = held_out.last_within_error(best) if gains[best] > gains[0] + errors[0] else 0
    why = {
        "rule": "the last number of trees within a standard error of the best; none, where the best gains less than that",
        "folds": FOLDS,
        "trees": counts,
        options.metric: [round(100 * float(score), 4) for score in held_out.scores],
        "error": [round(100 * e, 4) for e in errors],
        "gain": round(100 * float(gains[kept] - gains[0]), 4),
        "gain_error": round(100 * held_out.error(kept, 0), 4),
    }
    return replace(options, rounds=counts[kept]), {"tree_count": why}


def held_out_rows(
    dev: NBest, select: NBest | None, options: BoostOptions, counts: list[int], fit: Fit, *, seed: int
) -> list[Array]:
    """For each number of trees the statistics [S, n] of what it chooses: dev's sentences by the model of the other folds.

    Those of select, which no fold trains on, are means over the folds' models.
    """
    found: list[Array] = []
    alone = replace(options, rule="best")
    for train, held_out in dev.split_sentences(FOLDS, seed=seed):
        model = fit(dev.take(train), alone)
        give_back()
        own = staged_rows(model, dev.take(held_out), options.metric, counts)
        if not found:
            n = len(dev) + (len(select) if select is not None else 0)
            found = [np.zeros((n, own[0].shape[1])) for _ in counts]
        for rows, chosen in zip(found, own, strict=True):
            rows[held_out] = chosen
        if select is not None:
            for rows, chosen in zip(found, staged_rows(model, select, options.metric, counts), strict=True):
                rows[len(dev) :] += chosen / FOLDS
    return found


def staged_rows(model: Model, nbest: NBest, metric_name: str, counts: list[int]) -> list[Array]:
    """The statistics [S, n] of what the model chooses after so many trees; a model that ended early stays as it is."""
    scorer, metric = Scorer(nbest), metric_of(metric_name, nbest)
    wanted, out = set(counts), []
    for m, scores in enumerate(staged_scores(model, nbest)):
        if m in wanted or m == len(model.trees):
            out.append(scorer.rows(best_choice(nbest, scores), metric))
    return [*out, *(out[-1] for _ in range(len(counts) - len(out)))][: len(counts)]
