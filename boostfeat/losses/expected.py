"""The gain to expect of a list under the model's posterior: a smooth stand-in for the gain of its best hypothesis [R10]."""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I64, owners
from ..metrics.ngrams import posteriors


class ExpectedGain:
    """Ψ = -Σ_s n_s E_s,  E_s = Σ_h p(h) g(h),  p = softmax(scale · score);   dΨ/dscore(h) = -scale n_s p(h) (g(h) - E_s)"""

    def __init__(self, hyp_ptr: I64, gains: F64, size: F64, *, scale: float) -> None:
        self.hyp_ptr, self.gains, self.size, self.scale = hyp_ptr, gains, size, scale  # g [H], n [S]
        self._lists = owners(hyp_ptr)

    def _expected(self, scores: F64) -> tuple[F64, F64]:
        """p [H] and E [S]."""
        p = posteriors(self.hyp_ptr, scores, scale=self.scale)
        return p, np.bincount(self._lists, p * self.gains, minlength=len(self.size)).astype(np.float64)

    def value(self, scores: F64) -> float:
        return -float(np.einsum("s,s->", self.size, self._expected(scores)[1]))

    def gradient(self, scores: F64) -> F64:
        p, expected = self._expected(scores)
        return -self.scale * self.size[self._lists] * p * (self.gains - expected[self._lists])
