"""Gains of hypotheses in the context of a corpus: what each would do to corpus BLEU, were it chosen.

PRO compares sentence BLEUs. Corpus BLEU counts n-grams over all sentences, so that a long sentence weighs more than a short one,
and its brevity penalty is one for all: pairs that look alike by sentence BLEU are worth very different amounts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.arrays import F64, I64, sum_blocks
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..metrics.metric import Metric
from .pairs import Pairs

_ROWS = 1 << 16  # hypotheses at a time: their statistics as 64-bit rows are three times what the list holds


def context_gains(scorer: Scorer, chosen: I64, metric: Metric, hyps: I64 | None = None) -> F64:
    """[H] S · (score with the hypothesis in place of its sentence's chosen one - score of the chosen [S]), higher is better.

    Of all hypotheses or of these. In units of a sentence: over a corpus of S sentences the mean of such differences is about the
    change of the metric.
    """
    nbest, rows = scorer.nbest, scorer.rows(chosen, metric)
    total, hyps = sum_blocks(rows), np.arange(nbest.n_hyps) if hyps is None else hyps
    gains = np.empty(len(hyps))
    for a in range(0, len(hyps), _ROWS):
        part = hyps[a : a + _ROWS]
        gains[a : a + _ROWS] = metric.context_gain(scorer.rows_of(part, metric), total - rows[nbest.sent_of_hyp[part]])
    return len(nbest) * (gains - float(metric.higher(metric.score(total))))


def weighed_by_size(pairs: Pairs, nbest: NBest, metric: Metric) -> Pairs:
    """The pairs with weights Δ_k n_k: the difference in gain, and how much its sentence weighs in the corpus (for BLEU the words
    of its reference). This is about what the pair is worth to the corpus, whatever is chosen for other sentences.
    """
    return replace(pairs, weight=pairs.delta * np.abs(metric.rows(nbest, pairs.better)[:, metric.size]))


def pair_weights(scorer: Scorer, pairs: Pairs, scores: F64, metric: Metric) -> F64:
    """[K] max(0, Δ gain in the context of the 1-best under scores [H]), of mean 1; 0 where the corpus prefers the other one.

    1 for all where no pair's order agrees with the context.
    """
    hyps, better, worse = pairs.renumbered()
    gains = context_gains(scorer, best_choice(scorer.nbest, scores), metric, hyps)
    weight = np.maximum(gains[better] - gains[worse], 0.0)
    mean = float(weight.mean()) if len(weight) else 0.0
    return weight / mean if mean > 0 else np.ones(len(pairs))
