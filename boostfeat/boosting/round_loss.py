"""What a round of boosting is fitted to: the loss of its pairs, and the hypotheses that they compare."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.arrays import F64, I64
from ..core.blocks import block_ptr
from ..losses.line_search import minimise_ray
from ..losses.pairs import Pairs
from ..losses.pairwise import PairwiseLogLoss, step_penalty
from ..model.units import UnitSpace
from ..trees.growing_kernels import grid_step, on_grid


@dataclass(frozen=True)
class RoundLoss:
    """Ψ of a round, on the hypotheses in some pair. The others have gradient 0 and are left out."""

    loss: PairwiseLogLoss
    hyps: I64  # [L] the hypotheses that the loss compares, as it numbers them
    space: UnitSpace  # of these
    reach: float  # the most that the absolute gradients of all occurrences can sum to

    @classmethod
    def of(
        cls, space: UnitSpace, hyp_ptr: I64, pairs: Pairs, *, weight: F64 | None = None, blocks: I64 | None = None
    ) -> RoundLoss:
        """IN pairs and their weights [K]; sums are over these blocks of sentences (default: those of the whole corpus)."""
        used, better, worse = pairs.renumbered(len(space))
        pairs = replace(pairs, better=better, worse=worse)
        cuts = pairs.sent_ptr[block_ptr(len(hyp_ptr) - 1) if blocks is None else blocks]
        loss = PairwiseLogLoss(pairs, len(used), weight, cuts=cuts)
        part = space.part(used)
        units = np.diff(part.unit_ptr)
        reach = float(np.einsum("k,k->", loss.weight, units[pairs.better] + units[pairs.worse]))
        return cls(loss, used, part, reach)

    def mean(self, scores: F64) -> float:
        """Ψ over the number of pairs, at the scores [H] of all hypotheses."""
        return self.loss.value(scores[self.hyps]) / max(1, len(self.loss.pairs))

    def target(self, scores: F64) -> F64:
        """y = -dΨ/dF = A' P' σ(-z) [V]   [TA13 appendix A]"""
        slope = -self.loss.gradient(scores[self.hyps])
        if self.reach:  # on a grid: sums over units and leaves are exact, in any order and in any parts
            on_grid(slope, 1.0, grid_step(self.reach), slope)
        return self.space.spread(slope)

    def line_search(self, scores: F64, direction: F64, *, l2: float) -> float:
        """ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)², s the scale of h (losses.pairwise.step_penalty)   [TA13 Figure 3]

        The direction [H] is A h, what the tree adds to every hypothesis.
        """
        direction = direction[self.hyps]
        penalty = step_penalty(l2, self.loss.told_apart(direction))
        return minimise_ray(self.loss.ray(scores[self.hyps], direction), l2=penalty)
