"""The way to decide: by the highest score or by minimum Bayes risk, with or without what references teach of lengths.

Lists that were not learned from choose. Pairs ask which hypothesis of a sentence is better; a metric of the corpus also asks how
long all choices are together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import F64, Array
from ...lists.choices import Scorer
from ...lists.mbr import expected_under
from ...lists.nbest import NBest
from ...metrics.metric import Metric, metric_of
from ...metrics.ngrams import posteriors
from ...metrics.significance import HeldOutRows
from ...model.decision import KEY, MBR, SCORE, Length, margins
from ...model.effects import within_list_sd
from ...model.model import Model
from ..boost_options import AUTO, BoostOptions
from .trials import Trial, Trials


class Way(NamedTuple):
    """A way to decide, in units of the standard deviation of scores within lists."""

    length: float  # the weight of what another length costs, times it
    scale: float  # of the posterior, over it; 0: the highest score


LENGTHS = (0.0, 0.25, 0.5, 1.0, 2.0)
SCALES = (0.0, 5.0, 3.0, 2.0)
WAYS = tuple(Way(length, scale) for length in LENGTHS for scale in SCALES)


@dataclass(frozen=True)
class Decisions:
    """Choices for S held-out sentences under each of C ways to decide, the highest score first."""

    rows: list[Array]  # [C][S, n] statistics of the choices
    margin: list[F64]  # [C][S] by how much they are ahead of the first hypotheses
    spread: float  # the standard deviation of scores within lists
    ranked: list[list[F64]]  # [C], for each trial, [H] what ranks its hypotheses


def is_to_choose(options: BoostOptions) -> bool:
    """Whether folds choose: where BLEU is wanted. Its expectation is quickly counted, that of WER gained nothing."""
    return options.decide == AUTO and options.gain == "bleu"


def decisions(
    model: Model, length: Length | None, nbest: NBest, metric_name: str, *, ways: Sequence[Way] = WAYS, threads: int = 1
) -> Decisions:
    """Return the choices of a model from lists in each of these ways."""
    scorer, metric, scores = Scorer(nbest), metric_of(metric_name, nbest), model.decision_function(nbest)
    spread = within_list_sd(nbest.hyp_ptr, scores)
    known = {0.0: scores}
    if length and len(ways) > 1:
        costs = replace(length, weight=spread).costs_in(nbest)
        known |= {weight: scores - weight * costs for weight in LENGTHS if weight}
    ways = [way for way in ways if way.length in known]
    by_risk = [way for way in ways if way.scale]
    p = [posteriors(nbest.hyp_ptr, known[way.length], scale=way.scale / (spread or 1.0)) for way in by_risk]
    expected = np.ascontiguousarray(expected_under(nbest, np.stack(p, axis=1), threads=threads).T) if p else ()
    del p
    risks = dict(zip(by_risk, expected, strict=True))
    ranked = [risks[way] if way.scale else known[way.length] for way in ways]
    found = [margins(nbest, ranks) for ranks in ranked]
    rows, margin = [scorer.rows(chosen, metric) for chosen, _, _ in found], [margin for _, _, margin in found]
    return Decisions(rows, margin, spread, [[ranks] for ranks in ranked])


def ways_of_trials(trials: Trials, fits: Sequence[tuple[Model, Length | None]], options: BoostOptions) -> Decisions:
    """Return the choices of each way by the models of the trials, and by what their sentences teach of lengths.

    Where no way is to be chosen, these are choices by the highest score.
    """
    ways = WAYS if is_to_choose(options) else WAYS[:1]
    how: dict[str, Any] = {"metric": options.metric, "ways": ways}
    parts = trials.side_by_side([partial(_ways_of_trial, model=model, length=length, **how) for model, length in fits])
    places = range(min(len(part.rows) for part in parts))
    return Decisions(
        [np.concatenate([part.rows[c] for part in parts]) for c in places],
        [np.concatenate([part.margin[c] for part in parts]) for c in places],
        float(np.mean([part.spread for part in parts])),
        [[part.ranked[c][0] for part in parts] for c in places],
    )


def _ways_of_trial(trial: Trial, model: Model, length: Length | None, metric: str, ways: Sequence[Way]) -> Decisions:
    return decisions(model, length, trial.unseen(), metric, ways=ways, threads=trial.threads)


def chosen_way(metric: Metric, found: Decisions, length: Length | None) -> tuple[int, dict[str, Any]]:
    """Return which way the model is to decide in, and why; ``length`` is what all references teach.

    It is the best way where that gains more than a standard error over the highest score, else the score.
    """
    held_out, ways = HeldOutRows(metric, found.rows), WAYS[: len(found.rows)]
    best = int(np.argmax(held_out.gains))
    gain, error = float(held_out.gains[best] - held_out.gains[0]), held_out.error(0, best)
    kept = best if gain > error and found.spread > 0 else 0
    way = ways[kept]
    why: dict[str, Any] = {
        "by": MBR if way.scale else SCORE,
        "rule": "the best way, where it gains more than a standard error over the highest score",
        "ways": [list(way) for way in ways],
        metric.name: [held_out.written(score) for score in held_out.scores],
        "error": [held_out.written(held_out.error(0, k)) for k in range(len(ways))],
    }
    if kept:
        why |= {"gain": held_out.written(gain), "gain_error": held_out.written(error)}
    if way.scale:
        why["scale"] = way.scale / found.spread
    if way.length and length:
        why["length"] = asdict(replace(length, weight=way.length * found.spread))
    return kept, {KEY: why}
