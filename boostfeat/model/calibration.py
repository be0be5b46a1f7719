"""How far a model is to be trusted where it disagrees with the decoder: learnt on a held-out list, kept in the model's config.

The margin of a list is the score of the model's choice above that of the decoder's (``decoder_choice``); of a model that decides
by minimum Bayes risk, that of their expected gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf

import numpy as np

from ..core.arrays import F64, I64, Array, Bool
from ..core.errors import InputError
from ..lists.choices import Scorer, best_choice, decoder_choice
from ..lists.nbest import NBest
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import Metric
from .deciding import CALIBRATION, ranks
from .model import Model

KEY = CALIBRATION
MARGINS = 20  # that are tried as the least one to change the decoder's choice at
_RIDGE = 1e-3  # on the curve: there may be one kind of outcome only


@dataclass(frozen=True)
class Calibration:
    """P(the choice is better than the decoder's | margin) = σ(intercept + slope log(1 + margin / scale)), where they differ."""

    intercept: float
    slope: float
    scale: float
    keep_first: float  # margin below which the decoder's choice is kept; 0: never
    gain: float  # of keeping it, in points of the metric on the held-out list
    error: float  # of that gain
    lists: int  # that it was learnt on, and those of them where choices differ
    changed: int

    def confidence(self, margin: F64) -> F64:
        """[S] of each choice; 1 where it is the decoder's."""
        z = self.intercept + self.slope * np.log1p(np.maximum(margin, 0.0) / self.scale)
        return np.where(margin > 0, 1 / (1 + np.exp(-z)), 1.0)

    @classmethod
    def of(cls, model: Model) -> Calibration:
        """What a model carries."""
        found = model.config.get(KEY)
        if not isinstance(found, Mapping) or not all(
            isinstance(found.get(name), int | float) for name in cls.__dataclass_fields__
        ):
            raise InputError(
                "model: expected one that was calibrated on a held-out list, found none; 'induce --select LIST' does it"
            )
        return cls(**{name: found[name] for name in cls.__dataclass_fields__})


def margins(nbest: NBest, scores: F64) -> tuple[I64, I64, F64]:
    """[S] each: the model's choice, the decoder's, and the margin between them; 0 for an empty list."""
    chosen, first = best_choice(nbest, scores), decoder_choice(nbest)
    some = chosen >= 0
    margin = np.zeros(len(chosen))
    margin[some] = scores[chosen[some]] - scores[first[some]]
    return chosen, first, margin


def careful_choice(nbest: NBest, scores: F64, least: float) -> tuple[I64, F64]:
    """[S] the model's choice where its margin is ``least`` or more, else the decoder's; and the margin of what is chosen."""
    chosen, first, margin = margins(nbest, scores)
    keeps = margin < least
    return np.where(keeps, first, chosen), np.where(keeps, 0.0, margin)


def calibrated(model: Model, select: NBest) -> Model:
    """The model with what a list that it was not trained on says of its margins; as it was where it changes nothing there."""
    chosen, first, margin = margins(select, ranks(model.config, select, model.decision_function(select)))
    scorer = Scorer(select)
    metric = scorer.metric(str(model.config["metric"]))
    found = calibration(metric, ours=scorer.rows(chosen, metric), theirs=scorer.rows(first, metric), margin=margin)
    return model if found is None else replace(model, config={**model.config, KEY: asdict(found)})


def calibration(metric: Metric, *, ours: Array, theirs: Array, margin: F64) -> Calibration | None:
    """What held-out lists say of margins [S]: statistics [S, n] of a model's choices and the decoder's; None if they agree."""
    changed = margin > 0
    if not changed.any():
        return None
    scale = float(np.median(margin[changed]))
    worth = metric.sign * ((ours - theirs) @ metric.slope(ours.sum(axis=0).astype(np.float64)))
    intercept, slope = _curve(np.log1p(margin / scale)[changed & (worth != 0)], (worth > 0)[changed & (worth != 0)])
    tried = np.unique(np.quantile(margin[changed], np.linspace(0, 1, MARGINS + 1)[:-1]))[1:]
    levels = [0.0, *tried.tolist()]
    rows = HeldOutRows(metric, [np.where((margin < least)[:, None], theirs, ours) for least in levels])
    best = int(np.argmax(rows.gains))
    gain, error = float(rows.gains[best] - rows.gains[0]), rows.error(best, 0)
    pays = gain > error
    return Calibration(
        intercept=intercept,
        slope=slope,
        scale=scale,
        keep_first=levels[best] if pays else 0.0,
        gain=100 * gain if pays else 0.0,
        error=100 * error if pays else 0.0,
        lists=len(margin),
        changed=int(changed.sum()),
    )


def _curve(x: F64, better: Bool) -> tuple[float, float]:
    """(a, b) of P(better) = σ(a + b x), b >= 0: Newton's method; without any outcome it is a half everywhere."""
    design = np.stack([np.ones(len(x)), x], axis=1)
    w = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ w))
        slope = design.T @ (better - p) - _RIDGE * w
        step = np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design + _RIDGE * np.eye(2), slope)
        w += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-10:
            break
    if w[1] >= 0:
        return float(w[0]), float(w[1])
    share = (float(better.sum()) + 0.5) / (len(x) + 1)  # larger margins are no safer here: one number for all
    return float(np.log(share / (1 - share))), 0.0


def least_margin(model: Model, keep_first: str) -> float:
    """The margin that ``auto`` (the model's own), ``never`` or a number stands for."""
    if keep_first == "auto":
        return Calibration.of(model).keep_first
    if keep_first == "never":
        return 0.0
    try:
        value = float(keep_first)
    except ValueError:
        value = -inf
    if not 0 <= value < inf:
        raise InputError(f"--keep-first: expected auto, never or a margin of 0 or more, found {keep_first!r}")
    return value
