"""Learn from held-out lists how far a model is to be trusted; its config keeps it.

The margin of a list is the score of the model's choice above that of the decoder's (``decoder_choice``); of a model that decides
by minimum Bayes risk, that of their expected gains. Where it is small, the decoder's choice may be the better one. How probable
it is that the choice is the best of its list is model.chance; its scale is the one of the least log-loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...core.arrays import F64, Array, Bool
from ...lists.choices import best_choice
from ...lists.nbest import NBest
from ...metrics.metric import Metric
from ...metrics.ngrams import posteriors
from ...metrics.significance import HeldOutRows
from ...model.chance import MOST, Chance, log_odds, of_text, quantiles
from ...model.decision import Calibration
from ...model.effects import within_list_sd

MARGINS = 20  # that are tried as the least one to change the decoder's choice at
SCALES = 2.0 ** np.arange(-4, 6.25, 0.5)  # of posteriors that are tried, over the standard deviation of ranks within lists
_EQUAL = 1e-9  # a difference of gains
_RIDGE = 1e-3  # on the curve: there may be one kind of outcome only


class Outcomes(NamedTuple):
    """Whether choices from S held-out lists are the best there, and what ranks say of it."""

    log_odds: F64  # [S, C] under each scale
    is_best: Bool  # [S]
    spread: float  # of ranks within lists


def outcomes(nbest: NBest, ranked: F64, metric: Metric) -> Outcomes:
    """Compare the choices from lists that the model was not learned from with the best of these."""
    spread, gains = within_list_sd(nbest.hyp_ptr, ranked) or 1.0, metric.gain(nbest)
    chosen, best = best_choice(nbest, ranked), best_choice(nbest, gains)
    some, is_own = chosen >= 0, of_text(nbest, chosen)
    odds = [log_odds(nbest, posteriors(nbest.hyp_ptr, ranked, scale=c / spread), is_own) for c in SCALES]
    return Outcomes(np.stack(odds, axis=1)[some], gains[chosen[some]] >= gains[best[some]] - _EQUAL, spread)


def chance(parts: Sequence[Outcomes]) -> tuple[Chance, F64]:
    """Return the curve of the least log-loss, and the probabilities that it gives to the choices of all parts."""
    odds, is_best = np.concatenate([part.log_odds for part in parts]), np.concatenate([part.is_best for part in parts])
    spread, found = float(np.mean([part.spread for part in parts])), list[tuple[float, Chance, F64]]()
    for c, scale in enumerate(SCALES.tolist()):
        told = np.isfinite(odds[:, c])
        curve = Chance(scale / spread, *_curve(np.minimum(odds[told, c], MOST), is_best[told]))
        p = np.clip(curve.at(odds[:, c]), 1e-12, 1 - 1e-12)
        found.append((float(-np.log(np.where(is_best, p, 1 - p)).sum()), curve, curve.at(odds[:, c])))
    _, curve, p = min(found, key=lambda each: each[0])
    return curve, p


def calibration(metric: Metric, *, ours: Array, theirs: Array, margin: F64, parts: Sequence[Outcomes]) -> Calibration:
    """Learn from margins [S] on held-out lists, statistics [S, n] of choices, and outcomes."""
    changed = margin > 0
    at = np.linspace(0, 1, MARGINS + 1)[:-1]
    levels = [0.0, *(np.unique(np.quantile(margin[changed], at))[1:].tolist() if changed.any() else ())]
    rows = HeldOutRows(metric, [np.where((margin < least)[:, None], theirs, ours) for least in levels])
    best = int(np.argmax(rows.gains))
    gain, error = float(rows.gains[best] - rows.gains[0]), rows.error(best, 0)
    pays = gain > error
    curve, p = chance(parts)
    return Calibration(
        keep_first=levels[best] if pays else 0.0,
        gain=gain if pays else 0.0,
        error=error if pays else 0.0,
        lists=len(margin),
        changed=int(changed.sum()),
        chance=curve,
        margin=quantiles(margin[changed]),
        probability=quantiles(p),
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
