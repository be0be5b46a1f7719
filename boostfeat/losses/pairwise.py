"""The loss of preference pairs: the log-loss of their margins [HM11], [TA13], plain or weighted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.arrays import F64, HUGE, I64, in_ranges, sum_in_order
from ..core.kernels import kernel
from .fast_exp import exp_nonpositive, log1p_unit
from .pairs import Pairs

FLOOR = 1e-12  # a difference this small beside the largest value of a feature is the rounding of sums
_PRODUCT = 500  # factors between 1 and 2: their product is a number, and one logarithm does for all of them
_CHUNK = _PRODUCT  # pairs at a time: what is known of them stays in the cache


@kernel
def _cut(x):  # type: ignore[no-untyped-def]
    return min(max(x, -HUGE), HUGE)


@kernel
def pairs_at(better, worse, weight, plain, scores, cuts, margin, e, still, losses):  # type: ignore[no-untyped-def]
    """OUT margin[K] = P scores, e[K] = exp(-|margin|), losses[B] = Σ_k w_k log(1 + exp(-margin_k)) of each block of pairs.

    OUT still[K]: log(1 + e), unless pairs are plain: one logarithm does for many of them.
    """
    room = np.empty(_CHUNK)
    for b in range(len(cuts) - 1):
        value = 0.0
        for first in range(cuts[b], cuts[b + 1], _CHUNK):
            some = slice(first, min(first + _CHUNK, cuts[b + 1]))
            i, j, w, m, x = better[some], worse[some], weight[some], margin[some], e[some]
            n = len(m)
            for k in range(n):
                m[k] = _cut(scores[i[k]]) - _cut(scores[j[k]])
                x[k] = -abs(m[k])
            exp_nonpositive(x, room[:n])
            if plain:
                product = 1.0
                for k in range(n):
                    value += max(-m[k], 0.0)
                    product *= 1.0 + x[k]
                value += np.log(product)
            else:
                s = still[some]
                log1p_unit(x, s)
                for k in range(n):
                    value += w[k] * (max(-m[k], 0.0) + s[k])
        losses[b] = value


@kernel(error_model="numpy")
def pairs_gradient(better, worse, weight, margin, e, out):  # type: ignore[no-untyped-def]
    """OUT out[H] = -P' w σ(-margin)."""
    for k in range(len(better)):
        slope = weight[k] * (e[k] if margin[k] > 0 else 1.0) / (1.0 + e[k])
        out[better[k]] -= slope
        out[worse[k]] += slope


@kernel(error_model="numpy")
def _add_pairs(margin, e, log, change, weight, plain, room, sums):  # type: ignore[no-untyped-def]
    """INOUT sums[3] += (Ψ, Ψ', Ψ'') of Σ_k w_k log(1 + exp(-margin_k)), margins changing by change[k].

    IN e = exp(-|margin|), and unless pairs are plain log = log(1 + e), which are written over, as is room.
    """
    value, first, second = sums[0], sums[1], sums[2]
    if plain:
        product = 1.0
        for k in range(len(margin)):
            value += max(-margin[k], 0.0)
            product *= 1.0 + e[k]
        value += np.log(product)
    for k in range(len(margin)):
        inverse = 1.0 / (1.0 + e[k])
        sigma = e[k] * inverse if margin[k] > 0 else inverse
        slope = weight[k] * change[k]
        room[k], log[k] = slope * sigma, weight[k] * (max(-margin[k], 0.0) + log[k])
        e[k] = slope * change[k] * (e[k] * inverse * inverse)
    for k in range(len(margin)):  # one after the other
        first -= room[k]
        second += e[k]
    if not plain:
        for k in range(len(margin)):
            value += log[k]
    sums[0], sums[1], sums[2] = value, first, second


@kernel
def _along(  # type: ignore[no-untyped-def]
    better, worse, weight, plain, direction, cuts, margin, e, still, z, dz, moving, ends, rest, told, start
):
    """The pairs that a direction tells apart. Of each block, from its first place on:

    OUT z, dz, moving [K]: their margins, how these change, and their weights; ends[B]: where they end.
    OUT rest[B]: the loss of the other pairs.
    OUT told[B, 2]: Σ d² and the number of the differences d that are not the rounding of sums.
    OUT start[B, 3] = (Ψ, Ψ', Ψ'') where the line begins: its exponentials are known.
    """
    most = 0
    for b in range(len(cuts) - 1):
        most = max(most, cuts[b + 1] - cuts[b])
    own_e, own_still, room = np.empty(most), np.empty(most), np.empty(_CHUNK)
    for b in range(len(cuts) - 1):
        some = slice(cuts[b], cuts[b + 1])
        i, j, w, m, s, change = better[some], worse[some], weight[some], margin[some], still[some], dz[some]
        own_z, own_weight, known = z[some], moving[some], e[some]
        peak = 0.0
        for k in range(len(m)):
            one, other = direction[i[k]], direction[j[k]]
            peak = max(peak, abs(one), abs(other))
            change[k] = _cut(one) - _cut(other)
        value, product, factors = 0.0, 1.0, 0
        for k in range(len(m)):  # pairs that move add 0 or multiply by 1: a branch would be a guess
            rests = 1.0 if change[k] == 0.0 else 0.0
            hinge = max(-m[k], 0.0)
            if plain:
                value += rests * hinge
                product *= 1.0 + rests * s[k]
                factors += change[k] == 0.0
                if factors == _PRODUCT:
                    value += np.log(product)
                    product, factors = 1.0, 0
            else:
                value += rests * (w[k] * (hinge + s[k]))
        n = np.uint64(0)
        for k in range(len(m)):
            d = change[k]
            own_z[n], change[n], own_weight[n], own_e[n], own_still[n] = m[k], d, w[k], known[k], s[k]
            n += np.uint64(d != 0.0)
        squares, apart = 0.0, 0
        for k in range(n):
            is_told = abs(change[k]) > FLOOR * peak
            squares += change[k] * change[k] if is_told else 0.0
            apart += is_told
        ends[b], rest[b] = cuts[b] + np.int64(n), value + np.log(product)
        told[b, 0], told[b, 1] = squares, apart
        start[b] = 0.0
        for first in range(0, np.int64(n), _CHUNK):
            part = slice(first, min(first + _CHUNK, np.int64(n)))
            columns = own_z[part], own_e[part], own_still[part], change[part], own_weight[part]
            _add_pairs(*columns, plain, room[: len(columns[0])], start[b])
        start[b, 0] += rest[b]


@kernel
def _moved(z, dz, weight, plain, rho, cuts, ends, rest, out):  # type: ignore[no-untyped-def]
    """OUT out[B, 3] = (Ψ, Ψ', Ψ'') of Σ_k w_k log(1 + exp(-(z + ρ dz)_k)) and of the pairs at rest, without overflow."""
    margin, e, log, room = np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK)
    for b in range(len(ends)):
        out[b] = 0.0
        for start in range(cuts[b], ends[b], _CHUNK):
            some = slice(start, min(start + _CHUNK, ends[b]))
            own, change, w = z[some], dz[some], weight[some]
            n = len(own)
            for k in range(n):
                margin[k] = own[k] + rho * change[k]
                e[k] = -abs(margin[k])
            exp_nonpositive(e[:n], room[:n])
            if not plain:
                log1p_unit(e[:n], log[:n])
            _add_pairs(margin[:n], e[:n], log[:n], change, w, plain, room[:n], out[b])
        out[b, 0] += rest[b]


class PairwiseLogLoss:
    """Ψ = Σ_k log(1 + exp(-z_k)),  z = P scores;  dΨ/dscores = -P' σ(-z)       [HM11], [TA13 section 2.3, appendix A]

    Sums are sums over blocks of pairs, which have no hypothesis in common; threads take some blocks each.
    """

    def __init__(
        self, pairs: Pairs, n_hyps: int, weight: F64 | None = None, *, cuts: I64 | None = None, threads: int = 1
    ) -> None:
        self.pairs, self.n_hyps, self.threads = pairs, n_hyps, threads
        self.weight = np.ones(len(pairs)) if weight is None else weight  # [K]
        self.plain = weight is None or bool((weight == 1.0).all())
        self.cuts = np.array([0, len(pairs)]) if cuts is None else cuts  # [B + 1] of the blocks

    def at(self, scores: F64) -> PairsAt:
        return PairsAt(self, scores)

    def in_parts(self, work: Callable[[slice, I64], None]) -> None:
        """Do the work on some blocks in each thread. It gets which, and their cuts."""
        in_ranges(lambda some: work(some, self.cuts[some.start : some.stop + 1]), len(self.cuts) - 1, self.threads)


class PairsAt:
    """The loss at some scores [H]: its margins and their exponentials, which its value, gradient and rays have in common."""

    def __init__(self, loss: PairwiseLogLoss, scores: F64) -> None:
        self.loss, pairs = loss, loss.pairs
        self.margin, self.e = np.empty((2, len(pairs)))
        self.still = self.e if loss.plain else np.empty(len(pairs))  # what a pair at rest adds, beside its hinge (see _along)
        self.losses = np.empty(len(loss.cuts) - 1)  # [B] of each block
        loss.in_parts(
            lambda some, cuts: pairs_at(
                pairs.better, pairs.worse, loss.weight, loss.plain, scores, cuts,
                self.margin, self.e, self.still, self.losses[some],
            )
        )  # fmt: skip

    def value(self) -> float:
        """Ψ"""
        return sum_in_order(self.losses.tolist())

    def gradient(self) -> F64:
        """dΨ/dscores [H]"""
        out, loss = np.zeros(self.loss.n_hyps), self.loss
        columns = (loss.pairs.better, loss.pairs.worse, loss.weight, self.margin, self.e)
        loss.in_parts(lambda _, cuts: pairs_gradient(*(column[cuts[0] : cuts[-1]] for column in columns), out))
        return out

    def along(self, direction: F64) -> PairsRay:
        """Ψ along scores + ρ direction [H]."""
        return PairsRay(self, direction)


class PairsRay:
    """The loss along a line, of the pairs that its direction tells apart: a tree that moves few hypotheses moves few pairs."""

    def __init__(self, here: PairsAt, direction: F64) -> None:
        self.loss, loss = here.loss, here.loss
        n, pairs = len(loss.cuts) - 1, loss.pairs
        self.z, self.dz, self.weight = np.empty((3, len(pairs)))
        self.ends, self.rest, told, self._start = np.empty(n, np.int64), np.empty(n), np.empty((n, 2)), np.empty((n, 3))
        loss.in_parts(
            lambda some, cuts: _along(
                pairs.better, pairs.worse, loss.weight, loss.plain, direction, cuts, here.margin, here.e, here.still,
                self.z, self.dz, self.weight, self.ends[some], self.rest[some], told[some], self._start[some],
            )
        )  # fmt: skip
        self.told_apart = [(squares, int(count)) for squares, count in told.tolist()]  # [B] see step_penalty

    def blocks(self, rho: float) -> list[tuple[float, float, float]]:
        """(Ψ, Ψ', Ψ'') of each block."""
        loss, out, rho = self.loss, self._start if rho == 0 else np.empty((len(self.ends), 3)), min(max(rho, -HUGE), HUGE)
        if rho != 0:
            loss.in_parts(
                lambda some, cuts: _moved(
                    self.z, self.dz, self.weight, loss.plain, rho, cuts, self.ends[some], self.rest[some], out[some]
                )
            )
        return [(value, first, second) for value, first, second in out.tolist()]

    def at(self, rho: float) -> tuple[float, float, float]:
        """(Ψ, Ψ', Ψ'')"""
        return add_up(self.blocks(rho))


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
