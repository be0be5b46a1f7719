"""The number of trees, none included, by what models pick from lists that they were not trained on.

Trees that gain by chance lose elsewhere. What the models pick also says how the model is to decide, how far margins are to be
trusted, and whether anything was learned that the list's own order does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays import F64, Array
from ...lists.choices import Scorer
from ...lists.nbest import NBest
from ...metrics.metric import Metric, metric_of
from ...metrics.significance import HeldOutRows
from ...model.decision import margins
from ...model.model import Model
from ...model.own_order import choice_in_order, own_order
from ..record import staged_scores

STEPS = 30  # numbers of trees that folds look at, beside none
ALL = "all"
RULES = {"best": "the best number of trees", ALL: "all trees"}


@dataclass(frozen=True)
class HeldOutChoices:
    """Choices for S sentences that models were not trained on, after each of K numbers of trees."""

    rows: list[Array]  # [K][S, n] statistics of the choices
    margin: list[F64]  # [K][S] by how much they are ahead of the first hypotheses
    first: Array  # [S, n] statistics of the first hypotheses, or what the decoder scores highest
    ordered: Array | None  # [S, n] of the list's own order, where that is a feature or all that the list has


def counts_to_try(rounds: int) -> list[int]:
    """Return 0, and up to STEPS numbers of trees that lie evenly up to all of them."""
    return [0, *np.unique(np.linspace(0, rounds, STEPS + 1).round().astype(int))[1:].tolist()] if rounds else [0]


def held_out_choices(model: Model, nbest: NBest, metric_name: str, counts: Sequence[int], n_init: int = 0) -> HeldOutChoices:
    """Return what the model chooses after so many trees of its own; a model that ended early stays as it is."""
    scorer, metric = Scorer(nbest), metric_of(metric_name, nbest)
    rows, margin = list[Array](), list[F64]()
    for scores in staged_scores(model, nbest, [n_init + n for n in counts]):
        chosen, first, ahead = margins(nbest, scores)
        rows.append(scorer.rows(chosen, metric))
        margin.append(ahead)
    order = own_order(nbest)
    theirs = None if order is None else scorer.rows(choice_in_order(nbest, order), metric)
    return HeldOutChoices(rows, margin, scorer.rows(first, metric), theirs)


def of_all_trials(parts: Sequence[HeldOutChoices]) -> HeldOutChoices:
    """Return the choices of the models of all trials, one after the other."""
    ordered = [part.ordered for part in parts if part.ordered is not None]
    return HeldOutChoices(
        [np.concatenate(rows) for rows in zip(*(part.rows for part in parts), strict=True)],
        [np.concatenate(margin) for margin in zip(*(part.margin for part in parts), strict=True)],
        np.concatenate([part.first for part in parts]),
        np.concatenate(ordered) if len(ordered) == len(parts) else None,
    )


def chosen_count(metric: Metric, rows: Sequence[Array], counts: Sequence[int], rule: str) -> tuple[int, dict[str, Any]]:
    """Return the position of the number of trees that is kept, and why.

    The best number is taken, the smallest of equal ones. On ten halves of eight lists (examples/results.md) it gave more on the
    other halves than the first or the last number within a standard error of it, and never lost more than an error.
    """
    held_out = HeldOutRows(metric, rows)
    gains, best = held_out.gains, int(np.argmax(held_out.gains))
    errors = [held_out.error(best, k) for k in range(len(counts))]
    kept = len(counts) - 1 if rule == ALL else best
    return kept, {
        "rule": RULES[rule],
        "trees": list(counts),
        metric.name: [held_out.written(score) for score in held_out.scores],
        "error": [held_out.written(e) for e in errors],
        "gain": held_out.written(gains[kept] - gains[0]),
        "gain_error": held_out.written(held_out.error(kept, 0)),
        "best": counts[best],
        "best_gain": held_out.written(gains[best] - gains[0]),
        "best_error": held_out.written(errors[0]),
    }
