"""A length term tuned on select: pairs of sentence BLEUs ask for short outputs, and one weight can repair that.

The weight of a feature that is a multiple of the output's length is shifted to where the metric on select is highest, by MERT's
exact line search [Och03]. Such a feature decomposes over units (WordPenalty of Moses: minus the number of target words).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.arrays import F64
from ..lists.choices import chosen_stats
from ..lists.nbest import NBest
from ..metrics.bleu import HYP_LEN, corpus_rows, sum_stats
from ..model.model import Model


def length_feature(nbest: NBest) -> str | None:
    """The first feature of units that is a multiple of the output's length in every hypothesis; None where there is none."""
    length = nbest.stats[:, HYP_LEN].astype(np.float64)
    if not length.any():
        return None
    for name in nbest.unit_names:
        column = nbest.global_column(name)
        at = int(length.argmax())
        factor = column[at] / length[at]
        if factor and np.allclose(column, factor * length, rtol=1e-4, atol=1e-9):
            return name
    return None


def tuned_length(model: Model, select: NBest, metric: str) -> Model:
    """The model with its length weight shifted to the best gain on select; config["length"] says by how much."""
    from ..tuners.mert import Corpus

    name = length_feature(select)
    if name is None or metric not in ("bleu", "bleu-sbp"):
        return model
    empty = chosen_stats(select, np.full(len(select), -1))[np.diff(select.hyp_ptr) == 0]
    rows = corpus_rows(select.stats).astype(np.int32)
    column: F64 = select.global_column(name)
    corpus = Corpus(select.hyp_ptr, column[None], np.zeros(len(column)), rows, sum_stats(empty), strict=metric == "bleu-sbp")
    scores = model.decision_function(select)
    shift, log_bleu = corpus.line_search(scores, column)
    before = corpus.log_bleu(scores)
    if not np.isfinite(shift) or log_bleu <= before:
        shift, log_bleu = 0.0, before
    length = {"feature": name, "shift": shift, "before": 100 * float(np.exp(before)), "after": 100 * float(np.exp(log_bleu))}
    weights = {**model.weights, name: model.weights.get(name, 0.0) + shift}
    return replace(model, weights=weights, config={**model.config, "tuned_length": length})
