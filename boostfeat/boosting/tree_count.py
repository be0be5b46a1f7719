"""The number of trees, none included, chosen by folds of the training list before the model is learnt.

A select list alone is small, and trees that gain on it by chance lose elsewhere. Folds hold out every sentence once; what their
models choose also says how far margins are to be trusted, and whether anything was learnt that the list's ranking does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..core.arrays import F64, Array
from ..core.memory import give_back
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import metric_of
from ..model.calibration import KEY, calibration, margins
from ..model.model import Model
from .options import BoostOptions
from .stopping import ranking_of, staged_scores

FOLDS = 3  # fits of two thirds of the sentences each: with the last fit, at most three times its time
STEPS = 30  # numbers of trees that are looked at, beside none

Fit = Callable[[NBest, BoostOptions], Model]


@dataclass(frozen=True)
class HeldOutChoices:
    """What models choose for S sentences that they were not trained on, after each of K numbers of trees."""

    rows: list[Array]  # [K][S, n] statistics of the choices
    margin: list[F64]  # [K][S] by how much they are ahead of the first hypotheses
    first: Array  # [S, n] statistics of the first hypotheses
    ranked: Array | None  # [S, n] of the best by the list's own ranking, where that is a feature


def chosen_tree_count(
    dev: NBest, select: NBest | None, options: BoostOptions, fit: Fit
) -> tuple[BoostOptions, Mapping[str, Any]]:
    """The options with that number of rounds which does best on held-out sentences, and why.

    Trees must gain more than a standard error over the first weights, or there are none. Else it is the last number within a
    standard error of the best: steps are small, curves are flat, and more trees average out what each took from chance.
    """
    counts = [0, *np.unique(np.linspace(0, options.rounds, STEPS + 1).round().astype(int))[1:].tolist()]
    choices = held_out_choices(dev, select, options, counts, fit)
    metric = metric_of(options.metric, dev)
    held_out = HeldOutRows(metric, choices.rows)
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
    if choices.ranked is not None and metric.higher(metric.score(choices.ranked.sum(axis=0))) > gains[kept]:
        why["worse_than"] = ranking_of(dev)
    found = {}
    if select is None and (of := calibration(metric, ours=choices.rows[kept], theirs=choices.first, margin=choices.margin[kept])):
        found = {KEY: asdict(of)}
    return replace(options, rounds=counts[kept]), {"tree_count": why, **found}


def held_out_choices(dev: NBest, select: NBest | None, options: BoostOptions, counts: list[int], fit: Fit) -> HeldOutChoices:
    """For each number of trees what is chosen for dev's sentences by the model of the other folds.

    Those of select, which no fold trains on, are means over the folds' models.
    """
    alone, parts, places = replace(options, rule="best"), [], []
    for train, held_out in dev.blocks_of_sentences(FOLDS):
        model = fit(dev.take(train), alone)
        give_back()
        parts.append(staged_choices(model, dev.take(held_out), options.metric, counts))
        places.append(held_out)
        if select is not None:
            parts.append(staged_choices(model, select, options.metric, counts))
            places.append(len(dev) + np.arange(len(select)))
    n = len(dev) + (0 if select is None else len(select))
    share = np.where(np.arange(n) < len(dev), 1.0, 1 / FOLDS)

    def together(columns: list[Array]) -> Array:
        out = np.zeros((n, *columns[0].shape[1:]))
        for place, column in zip(places, columns, strict=True):
            out[place] += (column.T * share[place]).T
        return out

    ranked = [part.ranked for part in parts if part.ranked is not None]
    return HeldOutChoices(
        [together([part.rows[k] for part in parts]) for k in range(len(counts))],
        [together([part.margin[k] for part in parts]) for k in range(len(counts))],
        together([part.first for part in parts]),
        together(ranked) if len(ranked) == len(parts) else None,
    )


def staged_choices(model: Model, nbest: NBest, metric_name: str, counts: list[int]) -> HeldOutChoices:
    """What the model chooses after so many trees; a model that ended early stays as it is."""
    scorer, metric, own = Scorer(nbest), metric_of(metric_name, nbest), ranking_of(nbest)
    wanted, found = set(counts), []
    for m, scores in enumerate(staged_scores(model, nbest)):
        if m in wanted or m == len(model.trees):
            chosen, first, margin = margins(nbest, scores)
            found.append((scorer.rows(chosen, metric), margin))
    found = [*found, *(found[-1] for _ in range(len(counts) - len(found)))][: len(counts)]
    ranked = None if own is None else scorer.rows(best_choice(nbest, nbest.global_column(own)), metric)
    return HeldOutChoices([rows for rows, _ in found], [margin for _, margin in found], scorer.rows(first, metric), ranked)
