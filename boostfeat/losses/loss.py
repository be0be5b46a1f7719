"""Losses: a loss is a function Ψ of the hypothesis scores [H], with its gradient, and its shape along a line.

A loss sees hypotheses only. With scores A F, its gradient in unit scores is A' g, and in linear weights
G' g; both are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..core.arrays import F64

Ray = Callable[[float], tuple[float, float, float]]
"""ρ -> (Ψ, Ψ', Ψ'') of Ψ(scores + ρ direction)."""


class Loss(Protocol):
    """The interface of a loss for boosting and tuning. All methods are pure: the same bits for any number of threads."""

    def at(self, scores: F64) -> AtScores:
        """Ψ at these scores [H]."""

    def ray(self, scores: F64, direction: F64) -> Ray:
        """Ψ along scores + ρ direction [H], prepared so that each call costs one pass over what moves."""


class AtScores(Protocol):
    """A loss at some scores: what its value and its gradient have in common is computed once."""

    def value(self) -> float:
        """Ψ"""

    def gradient(self) -> F64:
        """dΨ/dscores [H]"""
