"""What a round of boosting is fitted to: a loss, and the hypotheses it compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..core.arrays import F64, I32, I64, Bool
from ..core.blocks import block_ptr
from ..losses import OF_LISTS, Loss, PairwiseLogLoss, make_loss
from ..losses.line_search import minimise_ray
from ..losses.pairs import Pairs
from ..model.units import Space
from ..trees.growing_kernels import grid_step, on_grid


class LossOptions(Protocol):
    """What a loss is made by; BoostOptions has it."""

    @property
    def loss(self) -> str: ...
    @property
    def scale(self) -> float: ...
    @property
    def metric(self) -> str: ...


@dataclass(frozen=True)
class Training:
    """The loss of a round and the hypotheses it depends on: those in some pair. The others have gradient 0 and are left out."""

    loss: Loss
    hyps: I64  # [L] the hypotheses that the loss compares, as it numbers them
    space: Space  # of these
    n: int  # pairs, or lists: what the mean loss is over
    reach: float = 0.0  # the most that the absolute gradients of all occurrences can sum to, where that is known

    @classmethod
    def of(
        cls,
        space: Space,
        hyp_ptr: I64,
        pairs: Pairs,
        gains: F64,
        options: LossOptions,
        *,
        weight: F64 | None = None,
        stats: I32 | None = None,
        blocks: I64 | None = None,
    ) -> Training:
        """IN pairs and their weights [K], gains [H]; statistics [H, 6] where the loss is expected-bleu; blocks of sentences."""
        of_lists = options.loss in OF_LISTS
        used = np.arange(len(gains))
        if not of_lists:
            used, number = np.unique(np.stack([pairs.better, pairs.worse]), return_inverse=True)
            better, worse = number.reshape(2, len(pairs))
            pairs = replace(pairs, better=better, worse=worse)
        loss = make_loss(
            options.loss,
            pairs=pairs,
            hyp_ptr=hyp_ptr,
            gains=gains[used],
            scale=options.scale,
            weight=weight,
            stats=stats,
            strict=options.metric != "bleu",
            cuts=pairs.sent_ptr[block_ptr(len(hyp_ptr) - 1) if blocks is None else blocks],
        )
        n = len(hyp_ptr) - 1 if of_lists else len(pairs)
        own = space if of_lists else space.part(used)
        reach = 0.0
        if isinstance(loss, PairwiseLogLoss):
            units = np.diff(own.unit_ptr)
            reach = float(np.einsum("k,k->", loss.weight, units[pairs.better] + units[pairs.worse]))
        return cls(loss, used, own, max(1, n), reach)

    def mean_loss(self, scores: F64) -> float:
        """Ψ / n at the scores [H] of all hypotheses."""
        return self.loss.value(scores[self.hyps]) / self.n

    def target(self, scores: F64, among: Bool | None = None) -> F64:
        """y = -dΨ/dF = A' P' σ(-z) [V]   [TA13 appendix A]; of these hypotheses [H] only, where given."""
        slope = -self.loss.gradient(scores[self.hyps])
        if self.reach:  # on a grid: sums over units and leaves are exact, in any order and in any parts
            on_grid(slope, 1.0, grid_step(self.reach), slope)
        return self.space.spread(slope if among is None else np.where(among[self.hyps], slope, 0.0))

    def curvature(self, scores: F64) -> F64 | None:
        """d²Ψ/dF² [V], its diagonal, for the losses of pairs; None for others, which are not convex."""
        if not isinstance(self.loss, PairwiseLogLoss):
            return None
        return self.loss.unit_curvature(scores[self.hyps], self.space.unit_ptr, self.space.unit_idx, len(self.space.x))

    def line_search(self, scores: F64, h: F64, *, l2: float) -> float:
        """ρ = argmin Ψ(F + ρ h) + l2/2 ρ²"""
        return minimise_ray(self.loss.ray(scores[self.hyps], self.space.sum(h)), l2=l2)

    def newton(self, scores: F64, columns: Callable[[Space], F64], *, l2: float, steps: int = 8, tol: float = 1e-6) -> F64:
        """b [n] = argmin Ψ(scores + B b) + l2/2 |b|², B [L, n] the columns: Newton's method with a line search."""
        basis, base = columns(self.space), scores[self.hyps]
        found = np.zeros(basis.shape[1])
        for _ in range(steps):
            at = base + weighted(basis, found)
            slope = np.einsum("hn,h->n", basis, self.loss.gradient(at)) + l2 * found
            step = np.linalg.lstsq(self.loss.curvature(at, basis) + l2 * np.eye(len(found)), -slope, rcond=None)[0]
            if -(step @ slope) <= tol * self.n:
                break
            ray, toward = self.loss.ray(at, weighted(basis, step)), l2 * float(found @ step)
            square = l2 * float(step @ step)

            def penalised(rho: float, ray=ray, toward=toward, square=square) -> tuple[float, float, float]:  # type: ignore[no-untyped-def]
                value, first, second = ray(rho)
                return value + rho * toward + rho * rho * square / 2, first + toward + rho * square, second + square

            found = found + minimise_ray(penalised, l2=0.0) * step
        return found


def weighted(columns: F64, weights: F64) -> F64:
    """[H] the sum of columns [H, n] by weights [n]. Not by BLAS: its sums depend on its threads."""
    return np.asarray(np.einsum("hn,n->h", columns, weights))
