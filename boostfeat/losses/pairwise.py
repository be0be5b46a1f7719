"""The loss of preference pairs: the log-loss of their margins [HM11], [TA13], plain or weighted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ..core.arrays import F64, HUGE, I64
from ..core.fast_exp import exp_nonpositive, log1p_unit
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
def _moving_margins(better, worse, weight, scores, direction, z, dz, moving, rest, resting):  # type: ignore[no-untyped-def]
    """OUT z, dz, moving: margins, their change and the weights of the pairs that the direction tells apart.

    OUT rest, resting: margins and weights of the other pairs. Returns the numbers of both.
    """
    n = others = 0
    for k in range(len(better)):
        change = _margin(better, worse, direction, k)
        margin = _margin(better, worse, scores, k)
        if change != 0.0:
            z[n], dz[n], moving[n] = margin, change, weight[k]
            n += 1
        else:
            rest[others], resting[others] = margin, weight[k]
            others += 1
    return n, others


@kernel
def _exp(x):  # type: ignore[no-untyped-def]
    """INOUT x: exp(x), to the last bit as models were learnt with it."""
    for k in range(len(x)):
        x[k] = np.exp(x[k])


@kernel
def _weighted_loss(margin, log, weight):  # type: ignore[no-untyped-def]
    """Σ_k w_k log(1 + exp(-margin_k)) from log = log(1 + exp(-|margin|))."""
    value = 0.0
    for k in range(len(margin)):
        value += weight[k] * (max(-margin[k], 0.0) + log[k])
    return value


@kernel
def _moved(z, dz, rho, margin, out):  # type: ignore[no-untyped-def]
    """OUT margin = z + ρ dz, out = -|margin|."""
    for k in range(len(z)):
        margin[k] = z[k] + rho * dz[k]
        out[k] = -abs(margin[k])


@kernel
def _plain_loss(margin, e):  # type: ignore[no-untyped-def]
    """Σ_k log(1 + exp(-margin_k)) from e = exp(-|margin|)."""
    value, product, factors = 0.0, 1.0, 0
    for k in range(len(margin)):
        value += max(-margin[k], 0.0)
        product *= 1.0 + e[k]
        factors += 1
        if factors == _PRODUCT:
            value += np.log(product)
            product, factors = 1.0, 0
    return value + np.log(product)


@kernel
def _pair_slopes(margin, e, dz, weight):  # type: ignore[no-untyped-def]
    """(Ψ', Ψ'') of Σ_k w_k log(1 + exp(-margin_k)) from e = exp(-|margin|), for any margins without overflow."""
    first = second = 0.0
    for k in range(len(margin)):
        inverse = 1.0 / (1.0 + e[k])
        sigma = e[k] * inverse if margin[k] > 0 else inverse
        slope = weight[k] * dz[k]
        first -= slope * sigma
        second += slope * dz[k] * (e[k] * inverse * inverse)
    return first, second


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
        self._plain = weight is None or bool((weight == 1.0).all())
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
        z, dz, weight, rest, resting = np.empty((5, len(self.pairs)))
        n, others, cuts = 0, 0, []  # of each block: its pairs that move, and the others
        better, worse = self.pairs.better, self.pairs.worse
        for a, b in zip(self.cuts[:-1].tolist(), self.cuts[1:].tolist(), strict=True):
            some = slice(a, b)
            moved, rested = _moving_margins(
                better[some],
                worse[some],
                self.weight[some],
                scores,
                direction,
                z[n:],
                dz[n:],
                weight[n:],
                rest[others:],
                resting[others:],
            )
            cuts.append((slice(n, n + moved), slice(others, others + rested)))
            n, others = n + moved, others + rested
        z, dz, weight = z[:n], dz[:n], weight[:n]  # a tree that tells few hypotheses apart moves few pairs
        rest, resting = rest[:others], resting[:others]
        margin, e = np.empty((2, n))
        still = -np.abs(rest)
        if self._plain:
            _exp(still)
        else:
            exp_nonpositive(still)
        blocks = list(
            zip([moving for moving, _ in cuts], self._losses(rest, still, resting, [own for _, own in cuts]), strict=True)
        )

        def at(rho: float) -> list[tuple[float, float, float]]:
            _moved(z, dz, min(max(rho, -HUGE), HUGE), margin, e)
            exp_nonpositive(e)
            values = self._losses(margin, e, weight, [moving for moving, _ in blocks])
            return [
                (rested + own, *_pair_slopes(margin[some], e[some], dz[some], weight[some]))
                for (some, rested), own in zip(blocks, values, strict=True)
            ]

        return at

    def _losses(self, margin: F64, e: F64, weight: F64, blocks: list[slice]) -> list[float]:
        """Σ_k w_k log(1 + exp(-margin_k)) of the pairs of each block, from e = exp(-|margin|)."""
        if self._plain:
            return [_plain_loss(margin[some], e[some]) for some in blocks]
        log = np.empty(len(e))
        log1p_unit(e, log)
        return [_weighted_loss(margin[some], log[some], weight[some]) for some in blocks]


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
