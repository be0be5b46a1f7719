"""What a loss is: a function Ψ of the hypothesis scores [H], with its gradient, and its shape along a line.

A loss sees hypotheses only. With scores A F, its gradient in unit scores is A' g, and in linear weights
G' g; both are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..core.arrays import F64

Ray = Callable[[float], tuple[float, float, float]]
"""ρ -> (Ψ, Ψ', Ψ'') of Ψ(scores + ρ direction)."""


class Smooth(Protocol):
    """What fits of linear weights need of a loss. All methods are pure, and serial: the same bits on any machine load."""

    def value(self, scores: F64) -> float:
        """Ψ at these scores [H]."""

    def gradient(self, scores: F64) -> F64:
        """dΨ/dscores [H]."""


class Loss(Smooth, Protocol):
    """What boosting needs besides."""

    def ray(self, scores: F64, direction: F64) -> Ray:
        """Ψ along scores + ρ direction [H], prepared so that each call costs one pass over what moves."""
