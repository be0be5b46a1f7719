"""The sharpness of a list's posterior: p(h) = softmax(scale · score) over its hypotheses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..lists.choices import Scorer, best_choice
from ..lists.mbr import mbr_gains
from ..lists.nbest import NBest
from ..lists.quality import default_metric
from ..metrics.metric import Metric, metric_of
from ..model.model import Model
from .resources import Posterior

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def list_scores(nbest: NBest, model: Mapping[str, Any] | None) -> F64:
    """[H] scores under a model (as in its file), or the decoder's own; 0 where the decoder gave none."""
    if model is None and not nbest.has_scores:
        return np.zeros(nbest.n_hyps)
    return nbest.score if model is None else Model.from_json(model, "model of the consensus").decision_function(nbest)


def learn_posterior(nbest: NBest, given: Posterior, blocks: Sequence[I64], *, threads: int = 1) -> tuple[Posterior, F64 | None]:
    """Return the posterior with the scale at which MBR's choice has the highest BLEU (or quality), unless one is given.

    References teach it. So beside the scale that all of them teach there is one a sentence [S], for the features of the list
    itself: each block of sentences has the scale that the other blocks teach. Not BLEU-SBP, by which sharp posteriors, that say
    no more than the model's own order, are hardly worse. Without scores all hypotheses are equally probable at any scale.
    """
    if given.scale is not None:
        return given, None
    if given.model is None and not nbest.has_scores:
        return replace(given, scale=1.0), None
    if not nbest.has_stats and not nbest.quality.names:
        raise InputError("consensus: expected a list with references to choose the scale by, found none; give one with --scale")
    gains, scorer = mbr_gains(nbest, list_scores(nbest, given.model), SCALES, threads=threads), Scorer(nbest)
    metric = metric_of(default_metric(nbest), nbest)
    rows = np.stack([scorer.rows(best_choice(nbest, g), metric) for g in gains.T]).astype(np.float64)  # [K, S, n]
    total, scales = rows.sum(axis=1), np.zeros(len(nbest))
    for block in blocks:
        scales[block] = _best_scale(metric, total - rows[:, block].sum(axis=1) if len(block) < len(nbest) else total)
    return replace(given, scale=_best_scale(metric, total)), scales


def _best_scale(metric: Metric, totals: F64) -> float:
    """Return the scale whose choices have the best metric of their sums [K, n]."""
    return SCALES[int(np.argmax(metric.higher(metric.score(totals))))]
