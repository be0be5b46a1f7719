"""Learn on a held-out list how far a model is to be trusted where it disagrees with the decoder; its config keeps it.

The margin of a list is the score of the model's choice above that of the decoder's (``decoder_choice``); of a model that decides
by minimum Bayes risk, that of their expected gains.
"""

from __future__ import annotations

import numpy as np

from ...core.arrays import F64, Array, Bool
from ...metrics.held_out import HeldOutRows
from ...metrics.metric import Metric
from ...model.decision import Calibration

MARGINS = 20  # that are tried as the least one to change the decoder's choice at
_RIDGE = 1e-3  # on the curve: there may be one kind of outcome only


def calibration(metric: Metric, *, ours: Array, theirs: Array, margin: F64) -> Calibration | None:
    """Learn from margins [S] on held-out lists, and statistics [S, n] of choices; None if the two always agree."""
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
        gain=gain if pays else 0.0,
        error=error if pays else 0.0,
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
