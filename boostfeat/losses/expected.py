"""The gain to expect of a list under the model's posterior: a smooth stand-in for the gain of its best hypothesis [R10]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import F64, I64, owners
from ..metrics.ngrams import posteriors


class ExpectedGain:
    """Ψ = -Σ_s n_s E_s,  E_s = Σ_h p(h) g(h),  p = softmax(scale · score);   dΨ/dscore(h) = -scale n_s p(h) (g(h) - E_s)"""

    def __init__(self, hyp_ptr: I64, gains: F64, size: F64, *, scale: float) -> None:
        self.hyp_ptr, self.gains, self.size, self.scale = hyp_ptr, gains, size, scale  # g [H], n [S]
        self._lists = owners(hyp_ptr)

    def at(self, scores: F64) -> ExpectedAt:
        p = posteriors(self.hyp_ptr, scores, scale=self.scale)
        expected: F64 = np.bincount(self._lists, p * self.gains, minlength=len(self.size)).astype(np.float64, copy=False)
        return ExpectedAt(self, p, expected)


@dataclass(frozen=True)
class ExpectedAt:
    """Ψ at some scores."""

    loss: ExpectedGain
    p: F64  # [H]
    expected: F64  # E [S]

    def value(self) -> float:
        return -float(np.einsum("s,s->", self.loss.size, self.expected))

    def gradient(self) -> F64:
        loss, own = self.loss, self.loss._lists
        return -loss.scale * loss.size[own] * self.p * (loss.gains - self.expected[own])
