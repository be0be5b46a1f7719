"""The goal of a round of boosting: the loss of its pairs, and the hypotheses that they compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.arrays import F64, I64, block_ptr, gathered
from ..losses.line_search import minimise_ray
from ..losses.pairs import Pairs
from ..losses.pairwise import PairsAt, PairsRay, PairwiseLogLoss, step_penalty
from ..model.units import UnitSpace
from ..trees.growing import grid_step, on_grid


@dataclass(frozen=True)
class RoundLoss:
    """Ψ of a round, on the hypotheses in some pair. The others have gradient 0 and are left out."""

    loss: PairwiseLogLoss
    hyps: I64  # [L] the hypotheses that the loss compares, as it numbers them
    spread: Callable[[F64], F64]  # A' of these
    reach: float  # the most that the absolute gradients of all occurrences can sum to

    @classmethod
    def of(
        cls, space: UnitSpace, hyp_ptr: I64, pairs: Pairs, *, weight: F64 | None = None, blocks: I64 | None = None
    ) -> RoundLoss:
        """IN pairs and their weights [K]; sums are over these blocks of sentences (default: those of the whole corpus)."""
        used, better, worse = pairs.renumbered()
        pairs = replace(pairs, better=better, worse=worse)
        cuts = pairs.sent_ptr[block_ptr(len(hyp_ptr) - 1) if blocks is None else blocks]
        loss = PairwiseLogLoss(pairs, len(used), weight, cuts=cuts, threads=space.threads)
        units = (space.unit_ptr[1:] - space.unit_ptr[:-1])[used]
        reach = float(np.einsum("k,k->", loss.weight, units[better] + units[worse]))
        return cls(loss, used, space.spread_of(used), reach)

    def at(self, scores: F64) -> PairsAt:
        """Ψ at the scores [H] of all hypotheses."""
        return self.loss.at(gathered(scores, self.hyps, threads=self.loss.threads))

    def mean(self, here: PairsAt) -> float:
        """Ψ over the number of pairs."""
        return here.value() / max(1, len(self.loss.pairs))

    def target(self, here: PairsAt) -> F64:
        """y = -dΨ/dF = A' P' σ(-z) [V]   [TA13 appendix A]"""
        slope = here.gradient()  # on a grid: sums over units and leaves are exact, in any order and in any parts
        on_grid(slope, -1.0, grid_step(self.reach or 1.0), slope)
        return self.spread(slope)

    def along(self, here: PairsAt, direction: F64) -> PairsRay:
        """Ψ along the direction A h [H]: what a tree adds to every hypothesis."""
        return here.along(gathered(direction, self.hyps, threads=self.loss.threads))

    def line_search(self, here: PairsAt, direction: F64, *, l2: float) -> float:
        """ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)², s the scale of h (losses.pairwise.step_penalty)   [TA13 Figure 3]"""
        ray = self.along(here, direction)
        return minimise_ray(ray.at, l2=step_penalty(l2, ray.told_apart))


class Standing:
    """Scores F [H] and the loss of the round. Ψ(F) is computed once: the row of a round and the next tree have it in common."""

    _here: PairsAt | None = None

    @property
    def scores(self) -> F64:
        return self._scores

    @scores.setter
    def scores(self, scores: F64) -> None:
        self._scores, self._here = scores, None

    @property
    def loss(self) -> RoundLoss:
        return self._loss

    @loss.setter
    def loss(self, loss: RoundLoss) -> None:
        self._loss, self._here = loss, None

    @property
    def here(self) -> PairsAt:
        """Ψ at the scores, which change by assignment only (``scores += step`` is one)."""
        if self._here is None:
            self._here = self._loss.at(self._scores)
        return self._here
