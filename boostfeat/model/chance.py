"""Give the probability that a choice is the best of its list, as lists that the model has not seen taught it.

    p(h) = softmax(scale · rank(h)) over the list;   odds = Σ p of the choice's text / Σ p of all other texts
    P(the choice is the best) = σ(intercept + slope · ln odds)

Other hypotheses share what is left in proportion to p, so that the texts of a list add up to 1. Of equal texts, and of equally
good ones, each is the best. ``rerank.plain`` has the same for a single list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from ..core.arrays import F64, I64, Array, Bool
from ..lists.choices import best_choice
from ..lists.nbest import NBest
from ..metrics.ngrams import posteriors

MOST = 30.0  # of the logarithm of odds
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Chance:
    """P(best), as above."""

    scale: float
    intercept: float
    slope: float

    def at(self, log_odds: F64) -> F64:
        """Return probabilities; 1 where there is no other text (inf)."""
        z = self.intercept + self.slope * np.minimum(log_odds, MOST)
        return np.where(np.isinf(log_odds), 1.0, 1 / (1 + np.exp(-z)))

    def of_choices(self, nbest: NBest, ranked: F64, chosen: I64) -> F64:
        """Return [S] the probability of hypotheses [S] to be the best of lists that are ranked so; 1 where a list is empty."""
        p, top = posteriors(nbest.hyp_ptr, ranked, scale=self.scale), best_choice(nbest, ranked)
        is_top, has_text = of_text(nbest, top), of_text(nbest, chosen)
        sure, mine, others = self.at(log_odds(nbest, p, is_top)), *(sums_of_lists(nbest, p * of) for of in (has_text, ~is_top))
        is_other = sums_of_lists(nbest, has_text & ~is_top) > 0
        return np.where(is_other, (1 - sure) * mine / np.where(others > 0, others, 1.0), sure)


def of_text(nbest: NBest, chosen: I64) -> Bool:
    """Return [H] which hypotheses have the text that is chosen from their list; those without a text are equal to no others."""
    own, is_text = chosen[nbest.sent_of_hyp], np.asarray(pc.binary_length(nbest.text)) > 0
    texts: Array = nbest.text.dictionary_encode().indices.to_numpy()
    return (texts == texts[own]) & is_text | (own == np.arange(nbest.n_hyps))


def sums_of_lists(nbest: NBest, values: Array) -> F64:
    """Return [S] the sums of values [H] over lists."""
    return np.bincount(nbest.sent_of_hyp, values, len(nbest)).astype(np.float64)


def log_odds(nbest: NBest, p: F64, is_own: Bool) -> F64:
    """Return [S] the logarithm of Σ p of some hypotheses by that of the others; inf where there are no others."""
    own, others = sums_of_lists(nbest, p * is_own), sums_of_lists(nbest, p * ~is_own)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(others > 0, np.log(own) - np.log(others), np.inf)


def quantiles(values: Array) -> dict[str, float] | None:
    """Return quantiles by name; None of no values."""
    return {str(q): float(np.quantile(values, q)) for q in QUANTILES} if len(values) else None
