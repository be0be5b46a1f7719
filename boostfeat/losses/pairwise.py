"""The loss of preference pairs: the log-loss of their margins [HM11], [TA13], plain or weighted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ..core.arrays import F64, HUGE, I64
from ..core.fast_exp import exp_nonpositive
from ..core.kernels import kernel
from .loss import Ray
from .pairs import Pairs

FLOOR = 1e-12  # a difference this small beside the largest value of a feature is the rounding of sums
_PRODUCT = 500  # factors between 1 and 2: their product is a number, and one logarithm does for all of them


@kernel
def _margin(better, worse, scores, k):  # type: ignore[no-untyped-def]
    return min(max(scores[better[k]], -HUGE), HUGE) - min(max(scores[worse[k]], -HUGE), HUGE)


@kernel
def _margins(better, worse, scores, margin, out):  # type: ignore[no-untyped-def]
    """OUT margin[K], out = -|margin|."""
    for k in range(len(better)):
        margin[k] = _margin(better, worse, scores, k)
        out[k] = -abs(margin[k])


@kernel
def _pair_gradient(better, worse, weight, margin, e, out):  # type: ignore[no-untyped-def]
    """OUT out[H] = -P' w σ(-margin), from e = exp(-|margin|)."""
    for k in range(len(better)):
        slope = weight[k] * (e[k] if margin[k] > 0 else 1.0) / (1.0 + e[k])
        out[better[k]] -= slope
        out[worse[k]] += slope


@kernel
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


@kernel
def _moved(z, dz, rho, margin, out):  # type: ignore[no-untyped-def]
    """OUT margin = z + ρ dz, out = -|margin|."""
    for k in range(len(z)):
        margin[k] = z[k] + rho * dz[k]
        out[k] = -abs(margin[k])


@kernel
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


@kernel
def _told_apart(better, worse, direction):  # type: ignore[no-untyped-def]
    """(Σ d_k², how many) of the differences d = P direction of the pairs that the direction tells apart."""
    peak = 0.0
    for k in range(len(better)):
        peak = max(peak, abs(direction[better[k]]), abs(direction[worse[k]]))
    squares, n = 0.0, 0
    for k in range(len(better)):
        change = _margin(better, worse, direction, k)
        if abs(change) > FLOOR * peak:
            squares += change * change
            n += 1
    return squares, n


class PairwiseLogLoss:
    """Ψ = Σ_k log(1 + exp(-z_k)),  z = P scores;  dΨ/dscores = -P' σ(-z)       [HM11], [TA13 section 2.3, appendix A]"""

    def __init__(self, pairs: Pairs, n_hyps: int, weight: F64 | None = None, *, cuts: I64 | None = None) -> None:
        self.pairs, self.n_hyps = pairs, n_hyps
        self.weight = np.ones(len(pairs)) if weight is None else weight  # [K]
        self.cuts = np.array([0, len(pairs)]) if cuts is None else cuts  # blocks of pairs: sums are sums over these

    def value(self, scores: F64) -> float:
        return self.ray(scores, np.zeros(len(scores)))(0.0)[0]

    def gradient(self, scores: F64) -> F64:
        out, (margin, e) = np.zeros(self.n_hyps), np.empty((2, len(self.pairs)))
        _margins(self.pairs.better, self.pairs.worse, scores, margin, e)
        exp_nonpositive(e)
        _pair_gradient(self.pairs.better, self.pairs.worse, self.weight, margin, e, out)
        return out

    def told_apart(self, direction: F64) -> list[tuple[float, int]]:
        """Of the pairs of each block that the direction [H] tells apart: the sum of squared differences, and their number."""
        better, worse, cuts = self.pairs.better, self.pairs.worse, self.cuts.tolist()
        return [_told_apart(better[a:b], worse[a:b], direction) for a, b in pairwise(cuts)]

    def ray(self, scores: F64, direction: F64) -> Ray:
        blocks = self.block_rays(scores, direction)
        return lambda rho: add_up(blocks(rho))

    def block_rays(self, scores: F64, direction: F64) -> Callable[[float], list[tuple[float, float, float]]]:
        """The ray of the pairs of each block."""
        z, dz, weight = np.empty((3, len(self.pairs)))
        n, blocks = 0, []  # of each block: its pairs that move, and the loss of the others
        better, worse = self.pairs.better, self.pairs.worse
        for a, b in zip(self.cuts[:-1].tolist(), self.cuts[1:].tolist(), strict=True):
            some = slice(a, b)
            moving, resting = _moving_margins(
                better[some], worse[some], self.weight[some], scores, direction, z[n:], dz[n:], weight[n:]
            )
            blocks.append((slice(n, n + moving), resting))
            n += moving
        z, dz, weight = z[:n], dz[:n], weight[:n]  # a tree that tells few hypotheses apart moves few pairs

        margin, e = np.empty((2, n))

        def at(rho: float) -> list[tuple[float, float, float]]:
            _moved(z, dz, min(max(rho, -HUGE), HUGE), margin, e)
            exp_nonpositive(e)
            out = []
            for some, resting in blocks:
                own, slope, curve = _pair_sums(margin[some], e[some], dz[some], weight[some])
                out.append((resting + own, slope, curve))
            return out

        return at


def step_penalty(l2: float, blocks: Sequence[tuple[float, int]]) -> float:
    """l2 s²: the penalty on ρ that is l2 on the scale of standardised features, from ``told_apart`` of every block.

    s is the root mean square of the differences of h over the pairs it tells apart, the scale by which the linear fit
    standardises a feature (tuners.linear): one l2 means the same for a weight, for trees of phrases and of hypotheses, and for
    leaves of any kind, whatever units h is in.
    """
    squares, n = 0.0, 0
    for own, count in blocks:
        squares, n = squares + own, n + count
    return l2 * squares / n if n else l2


def add_up(blocks: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The ray of all blocks, in their order. Not by sum(), which rounds in another way from Python 3.12 on."""
    value = first = second = 0.0
    for own, slope, curve in blocks:
        value, first, second = value + own, first + slope, second + curve
    return value, first, second
