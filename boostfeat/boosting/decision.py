"""How the model is to decide, by the highest score or by minimum Bayes risk: folds of the training list choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import F64, Array
from ..lists.choices import Scorer
from ..lists.mbr import mbr_gains
from ..lists.nbest import NBest
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import Metric, metric_of
from ..model.calibration import margins
from ..model.deciding import KEY, MBR, SCORE
from ..model.effects import within_list_sd
from ..model.model import Model
from .options import AUTO, BoostOptions

SCALES = (5.0, 3.0, 2.0)  # of posteriors, over the standard deviation of scores within lists


@dataclass(frozen=True)
class Decisions:
    """What MBR takes for S sentences that models were not trained on, at each of C scales."""

    rows: list[Array]  # [C][S, n] statistics of the choices
    margin: list[F64]  # [C][S] by how much their expected gains are ahead of those of the first hypotheses
    spread: float  # the standard deviation of scores within lists


def is_to_choose(options: BoostOptions) -> bool:
    """Whether folds choose: where BLEU is wanted. Its expectation is quickly counted, that of WER gained nothing."""
    return options.decide == AUTO and options.gain == "bleu"


def mbr_decisions(model: Model, nbest: NBest, metric_name: str) -> Decisions:
    """What a model takes from lists by MBR."""
    scorer, metric, scores = Scorer(nbest), metric_of(metric_name, nbest), model.decision_function(nbest)
    spread = float(within_list_sd(nbest.hyp_ptr, scores)[0])
    found = [margins(nbest, gains) for gains in mbr_gains(nbest, scores, [c / (spread or 1.0) for c in SCALES]).T]
    return Decisions([scorer.rows(chosen, metric) for chosen, _, _ in found], [margin for _, _, margin in found], spread)


def chosen_decision(metric: Metric, rows: Array, margin: F64, mbr: Decisions) -> tuple[Array, F64, dict[str, Any]]:
    """Statistics and margins of the choices that the model is to make, and why; IN those of the highest scores.

    It is MBR at the best scale where that gains more than a standard error over the highest score, else the score.
    """
    held_out = HeldOutRows(metric, [rows, *mbr.rows])
    best = 1 + int(np.argmax(held_out.gains[1:]))
    pays = held_out.gains[best] > held_out.gains[0] + held_out.error(0, best) and mbr.spread > 0
    why = {
        "by": MBR if pays else SCORE,
        "rule": "minimum Bayes risk at the best scale, where it gains more than a standard error over the highest score",
        "scales": list(SCALES),
        metric.name: [round(100 * float(score), 4) for score in held_out.scores],
        "error": [round(100 * held_out.error(0, k), 4) for k in range(len(held_out.rows))],
    }
    if not pays:
        return rows, margin, {KEY: why}
    gain = {
        "gain": round(100 * float(held_out.gains[best] - held_out.gains[0]), 4),
        "gain_error": round(100 * held_out.error(0, best), 4),
    }
    return mbr.rows[best - 1], mbr.margin[best - 1], {KEY: {**why, **gain, "scale": SCALES[best - 1] / mbr.spread}}
