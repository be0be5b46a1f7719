"""Choices of several candidates for sentences that none of them was trained on, and the errors of their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.arrays import F64, Array
from .metric import Metric


@dataclass(frozen=True)
class HeldOutRows:
    """For each candidate the statistics [S, n] of the hypotheses it chooses; its score is the metric of their sum."""

    metric: Metric
    rows: Sequence[Array]

    @cached_property
    def totals(self) -> F64:
        """[K, n]"""
        return np.array([rows.sum(axis=0) for rows in self.rows], np.float64)

    @cached_property
    def scores(self) -> F64:
        """[K] as people read them."""
        return self.metric.points * self.metric.score(self.totals)

    @cached_property
    def gains(self) -> F64:
        """[K] higher is better."""
        return self.metric.higher(self.scores)

    def error(self, a: int, b: int) -> float:
        """Return the standard error of the difference between two candidates' scores.

        They differ in few choices, so it is far smaller than the error of either. By the delta method, with r_s the
        statistics of a sentence and ∇ that of the metric: se² = S Var_s(∇ · (r_s of a - r_s of b)).
        """
        apart = (self.rows[a] - self.rows[b]) @ self.metric.slope(self.totals[a])
        return self.metric.points * float(np.sqrt(len(apart) * apart.var()))

    def written(self, value: float) -> float:
        """Return a score, gain or error as models keep it: four decimals of points, six digits of a column's own unit."""
        return round(float(value), 4) if self.metric.points == 100 else float(f"{value:.6g}")
