"""AROW: a Gaussian over the weights, whose variances are the step sizes; linearised [G13] or exact [C12]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import I64
from ..core.kernels import kernel
from ..lists.nbest import NBest
from ..model.model import Model
from .adaptive import OnlineRanker, append_difference
from .base import EpochLog, Features, Run, step_factors
from .margin import KernelLists, best_of, room_for_difference
from .tuner_options import ArowOptions


@kernel
def _exact_pass(lists, order, gains, floor, unit, c, r, w, raw, sigma, x_idx, x_val):  # type: ignore[no-untyped-def]
    """One epoch. IN order (of sentences); INOUT w, raw (= w / unit), sigma [D+N]; x_idx, x_val: room for a difference."""
    total = 0.0
    updates = 0
    for s in order:
        hope, fear = best_of(lists, raw, gains, 1, s), best_of(lists, raw, gains, -1, s)
        n = append_difference(lists, floor, unit, hope, fear, x_idx, x_val, 0)
        margin = variance = 0.0
        for i in range(n):
            margin += w[x_idx[i]] * x_val[i]
            variance += sigma[x_idx[i]] * x_val[i] ** 2
        loss = gains[hope] - gains[fear] - margin
        if not loss > 0.0 or variance == 0.0:  # a list without differences, or with frozen ones only, teaches nothing
            continue
        total += loss
        updates += 1
        step = min(c, loss / variance)
        for i in range(n):
            j, x = x_idx[i], x_val[i]
            w[j] += step * sigma[j] * x
            raw[j] = w[j] / unit[j]
            sigma[j] /= 1.0 + sigma[j] * x * x / r
    return total, updates


@dataclass(frozen=True)
class Arow(ArowOptions, OnlineRanker):
    """Weights ~ N(w, Σ), Σ diagonal: stay close to what was, lower the loss, grow surer of what was seen [G13 eq. 7].

    linear: the loss replaced by its tangent; pairs, mini-batches and L1 as in AdaGrad       [G13 eq. 10-11, β² = 1/r]
        Σ_j⁻¹ = 1/variance + Σ g_j²/r,   w_j ← w_j - η Σ_j g_j
    exact: the minimum for the hinge loss of hope y⁺ and fear y⁻, a sentence at a time       [C12], [G13 eq. 8-10]
        y⁺ = argmax w·f + gain,   y⁻ = argmax w·f - gain,   x = f(y⁺) - f(y⁻),   gain = BLEU+1
        ℓ = gain⁺ - gain⁻ - w·x;   if ℓ > 0:   w ← w + min(C, ℓ / x'Σx) Σx,   Σ_j⁻¹ ← Σ_j⁻¹ + x_j²/r

    The exact variant has the option ``c`` to itself, and no use for ``eta``, ``l1``, ``batch``, ``loss`` and ``workers``.
    A feature group's ``c`` multiplies the learning rate (linear) or the variance to start with (exact).
    Deviation: [C12] takes several hypotheses a side and measures BLEU in the context of recent ones; here it is one, and BLEU+1.
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        if self.variant == "linear":
            log = self.learn(nbest, select, run, root=False, prior=self.r / self.variance, r=self.r)
        else:
            log = self._learn_exactly(nbest, select, run)
        return log.model(self, "arow")

    def _learn_exactly(self, nbest: NBest, select: NBest | None, run: Run) -> EpochLog:
        run.groups.check("arow --variant exact", "c")
        features = Features.of(nbest)
        log = EpochLog(features, nbest, select, run)
        rng = np.random.default_rng(run.seed)
        gains = run.gains(nbest)
        differences = self.differences(features, nbest, gains, rng, run)
        sigma = self.variance * step_factors(features, run)
        raw = features.start(run.init)
        w = raw * differences.unit
        lists = KernelLists.of(nbest, features)
        room = room_for_difference(lists)
        longer: I64 = np.flatnonzero(np.diff(nbest.hyp_ptr) > 1)
        for epoch in range(1, self.epochs + 1):
            settings = (differences.floor, differences.unit, self.c, self.r)
            total, updates = _exact_pass(lists, rng.permutation(longer), gains, *settings, w, raw, sigma, *room)
            log.record(epoch, raw, loss=total / max(len(longer), 1), updates=updates)
        return log
