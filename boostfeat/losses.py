"""Losses: functions Ψ of the hypothesis scores [H], with their gradients, and their shape along a line.

A loss sees hypotheses only. With scores A F (METHOD section 1), its gradient in unit scores is A' g, and in linear weights
G' g; both are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numba import njit

from .arrays import F64, I64
from .errors import unknown_name
from .exponential import exp_nonpositive
from .pairs import Pairs

Ray = Callable[[float], tuple[float, float, float]]
"""ρ -> (Ψ, Ψ', Ψ'') of Ψ(scores + ρ direction)."""

HUGE = 1e150  # scores and steps are cut here: far beyond where exp saturates, and squares of it still are numbers


class Loss(Protocol):
    """What boosting and tuning need of a loss. All methods are pure, and serial: the same bits on any machine load."""

    def value(self, scores: F64) -> float:
        """Ψ at these scores [H]."""

    def gradient(self, scores: F64) -> F64:
        """dΨ/dscores [H]."""

    def ray(self, scores: F64, direction: F64) -> Ray:
        """Ψ along scores + ρ direction [H], prepared so that each call costs one pass over what moves."""


def _cut(x: F64) -> F64:
    return np.clip(x, -HUGE, HUGE)


# ---------------------------------------------------------------------------------------------------------------------
# Pairwise losses
# ---------------------------------------------------------------------------------------------------------------------


_PRODUCT = 500  # factors between 1 and 2: their product is a number, and one logarithm does for all of them


@njit(cache=True, nogil=True)
def _margin(better, worse, scores, k):  # type: ignore[no-untyped-def]
    return min(max(scores[better[k]], -HUGE), HUGE) - min(max(scores[worse[k]], -HUGE), HUGE)


@njit(cache=True, nogil=True)
def _margins(better, worse, scores, margin, out):  # type: ignore[no-untyped-def]
    """OUT margin[K], out = -|margin|."""
    for k in range(len(better)):
        margin[k] = _margin(better, worse, scores, k)
        out[k] = -abs(margin[k])


@njit(cache=True, nogil=True)
def _pair_gradient(better, worse, weight, margin, e, out):  # type: ignore[no-untyped-def]
    """OUT out[H] = -P' w σ(-margin), from e = exp(-|margin|)."""
    for k in range(len(better)):
        slope = weight[k] * (e[k] if margin[k] > 0 else 1.0) / (1.0 + e[k])
        out[better[k]] -= slope
        out[worse[k]] += slope


@njit(cache=True, nogil=True)
def _moving_margins(better, worse, weight, scores, direction, z, dz, moving):  # type: ignore[no-untyped-def]
    """OUT z, dz, moving: margins, their change and the weights of the pairs that the direction tells apart.

    Returns their number and the loss of the other pairs.
    """
    n, resting, product, factors = 0, 0.0, 1.0, 0
    for k in range(len(better)):
        change = _margin(better, worse, direction, k)
        margin = _margin(better, worse, scores, k)
        if change != 0.0:
            z[n], dz[n], moving[n] = margin, change, weight[k]
            n += 1
            continue
        e = np.exp(-abs(margin))
        resting += weight[k] * max(-margin, 0.0)
        if weight[k] == 1.0:
            product *= 1.0 + e
            factors += 1
            if factors == _PRODUCT:
                resting += np.log(product)
                product, factors = 1.0, 0
        else:
            resting += weight[k] * np.log1p(e)
    return n, resting + np.log(product)


@njit(cache=True, nogil=True)
def _moved(z, dz, rho, margin, out):  # type: ignore[no-untyped-def]
    """OUT margin = z + ρ dz, out = -|margin|."""
    for k in range(len(z)):
        margin[k] = z[k] + rho * dz[k]
        out[k] = -abs(margin[k])


@njit(cache=True, nogil=True)
def _pair_sums(margin, e, dz, weight):  # type: ignore[no-untyped-def]
    """(Ψ, Ψ', Ψ'') of Σ_k w_k log(1 + exp(-margin_k)) from e = exp(-|margin|), for any margins without overflow."""
    value = first = second = 0.0
    product, factors = 1.0, 0
    for k in range(len(margin)):
        inverse = 1.0 / (1.0 + e[k])
        sigma = e[k] * inverse if margin[k] > 0 else inverse
        slope = weight[k] * dz[k]
        first -= slope * sigma
        second += slope * dz[k] * (e[k] * inverse * inverse)
        value += weight[k] * max(-margin[k], 0.0)
        if weight[k] == 1.0:
            product *= 1.0 + e[k]
            factors += 1
            if factors == _PRODUCT:
                value += np.log(product)
                product, factors = 1.0, 0
        else:
            value += weight[k] * np.log1p(e[k])
    return value + np.log(product), first, second


class PairwiseLogLoss:
    """Ψ = Σ_k log(1 + exp(-z_k)),  z = P scores;  dΨ/dscores = -P' σ(-z)       [HM11], [TA13 section 2.3, appendix A]"""

    def __init__(self, pairs: Pairs, n_hyps: int, weight: F64 | None = None) -> None:
        self.pairs, self.n_hyps = pairs, n_hyps
        self.weight = np.ones(len(pairs)) if weight is None else weight  # [K]

    def value(self, scores: F64) -> float:
        return self.ray(scores, np.zeros(len(scores)))(0.0)[0]

    def gradient(self, scores: F64) -> F64:
        out, (margin, e) = np.zeros(self.n_hyps), np.empty((2, len(self.pairs)))
        _margins(self.pairs.better, self.pairs.worse, scores, margin, e)
        exp_nonpositive(e)
        _pair_gradient(self.pairs.better, self.pairs.worse, self.weight, margin, e, out)
        return out

    def ray(self, scores: F64, direction: F64) -> Ray:
        z, dz, weight = np.empty((3, len(self.pairs)))
        n, resting = _moving_margins(self.pairs.better, self.pairs.worse, self.weight, scores, direction, z, dz, weight)
        z, dz, weight = z[:n], dz[:n], weight[:n]  # a tree that tells few hypotheses apart moves few pairs

        margin, e = np.empty((2, n))

        def at(rho: float) -> tuple[float, float, float]:
            _moved(z, dz, min(max(rho, -HUGE), HUGE), margin, e)
            exp_nonpositive(e)
            value, first, second = _pair_sums(margin, e, dz, weight)
            return resting + value, first, second

        return at


class LambdaLoss(PairwiseLogLoss):
    """Ψ = Σ_k Δ_k log(1 + exp(-z_k)): each pair's gradient weighted by what swapping it changes in the metric.

    LambdaMART [Wu et al. 2010] weighs by the change in a measure of the whole ranking under the current scores. Only the
    first hypothesis of a list is used in translation, and there a swap changes the gain by Δ_k, whatever the scores; so the
    weights are constant and, other than LambdaMART's, the gradient is that of a (convex) loss.
    """

    def __init__(self, pairs: Pairs, n_hyps: int) -> None:
        super().__init__(pairs, n_hyps, pairs.delta)


# ---------------------------------------------------------------------------------------------------------------------
# Expected gain
# ---------------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _softmax(start, end, scores, direction, rho, p):  # type: ignore[no-untyped-def]
    """OUT p[start:end], the softmax of scores + ρ direction over one list."""
    top = -np.inf
    for h in range(start, end):
        p[h] = scores[h] + rho * direction[h]
        top = max(top, p[h])
    total = 0.0
    for h in range(start, end):
        p[h] = np.exp(p[h] - top)
        total += p[h]
    for h in range(start, end):
        p[h] /= total


@njit(cache=True, nogil=True)
def _gain_ray(hyp_ptr, gains, scores, direction, rho, p):  # type: ignore[no-untyped-def]
    value = first = second = 0.0
    for s in range(len(hyp_ptr) - 1):
        start, end = hyp_ptr[s], hyp_ptr[s + 1]
        _softmax(start, end, scores, direction, rho, p)
        gain = move = 0.0
        for h in range(start, end):
            gain += p[h] * gains[h]
            move += p[h] * direction[h]
        value -= gain
        for h in range(start, end):
            d = direction[h] - move
            first -= p[h] * (gains[h] - gain) * d
            second -= p[h] * (gains[h] - gain) * d * d
    return value, first, second


@njit(cache=True, nogil=True)
def _gain_gradient(hyp_ptr, gains, scores, zeros, out):  # type: ignore[no-untyped-def]
    for s in range(len(hyp_ptr) - 1):
        start, end = hyp_ptr[s], hyp_ptr[s + 1]
        _softmax(start, end, scores, zeros, 0.0, out)
        gain = 0.0
        for h in range(start, end):
            gain += out[h] * gains[h]
        for h in range(start, end):
            out[h] *= gain - gains[h]


class ExpectedGain:
    """Ψ = -Σ_s E[gain],  E under p = softmax(scale · scores) over each list: the negative of the risk, not convex.

    dΨ/dscore_h = -scale p_h (gain_h - E[gain]). Along a direction d, with x = scale d:
    Ψ' = -Σ_s Cov(gain, x),  Ψ'' = -Σ_s E[(gain - E gain)(x - E x)²].
    A large scale approaches the gain of the 1-best; then the loss is flat almost everywhere.
    """

    def __init__(self, hyp_ptr: I64, gains: F64, scale: float = 1.0) -> None:
        self.hyp_ptr, self.gains, self.scale = hyp_ptr, gains, scale

    def _scaled(self, x: F64) -> F64:
        return _cut(self.scale * _cut(x))

    def value(self, scores: F64) -> float:
        return self.ray(scores, np.zeros(len(scores)))(0.0)[0]

    def gradient(self, scores: F64) -> F64:
        out = np.empty(len(scores))
        _gain_gradient(self.hyp_ptr, self.gains, self._scaled(scores), np.zeros(len(scores)), out)
        return self.scale * out

    def ray(self, scores: F64, direction: F64) -> Ray:
        scores, direction, p = self._scaled(scores), self._scaled(direction), np.empty(len(scores))

        def at(rho: float) -> tuple[float, float, float]:
            value, first, second = _gain_ray(self.hyp_ptr, self.gains, scores, direction, min(max(rho, -HUGE), HUGE), p)
            return float(value), float(first), float(second)

        return at


# ---------------------------------------------------------------------------------------------------------------------
# Registry
# ---------------------------------------------------------------------------------------------------------------------

LOSSES: dict[str, Callable[[Pairs, I64, F64, float], Loss]] = {
    "log": lambda pairs, hyp_ptr, gains, scale: PairwiseLogLoss(pairs, len(gains)),
    "expected-gain": lambda pairs, hyp_ptr, gains, scale: ExpectedGain(hyp_ptr, gains, scale),
    "lambda": lambda pairs, hyp_ptr, gains, scale: LambdaLoss(pairs, len(gains)),
}


def make_loss(name: str, *, pairs: Pairs, hyp_ptr: I64, gains: F64, scale: float = 1.0) -> Loss:
    """The loss of this name; each takes what it needs of pairs, lists [S+1], gains [H] and scale."""
    if name not in LOSSES:
        raise unknown_name("loss", name, LOSSES)
    return LOSSES[name](pairs, hyp_ptr, gains, scale)
