"""Losses of whole lists: the gain, or the corpus BLEU, to be expected under a softmax of the scores. They are not convex."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..core.arrays import F64, HUGE, I32, I64, cut
from ..metrics.bleu import HYP_LEN, ORDER, REF_LEN
from .loss import Ray, mirrored


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


@njit(cache=True, nogil=True)
def _softmax_curvature(hyp_ptr, scores, zeros, p, columns, out):  # type: ignore[no-untyped-def]
    """OUT out[n, n] = Σ_s Cov_p(columns): the Fisher information of p in the weights of the columns [H, n]."""
    n = columns.shape[1]
    mean = np.empty(n)
    for s in range(len(hyp_ptr) - 1):
        start, end = hyp_ptr[s], hyp_ptr[s + 1]
        _softmax(start, end, scores, zeros, 0.0, p)
        mean[:] = 0.0
        for h in range(start, end):
            for j in range(n):
                mean[j] += p[h] * columns[h, j]
        for h in range(start, end):
            for i in range(n):
                for j in range(i + 1):
                    out[i, j] += p[h] * (columns[h, i] - mean[i]) * (columns[h, j] - mean[j])


class _Softmax:
    """What the losses under p = softmax(scale · scores) share."""

    hyp_ptr: I64
    scale: float

    def _scaled(self, x: F64) -> F64:
        return cut(self.scale * cut(x))

    def value(self, scores: F64) -> float:
        return self.ray(scores, np.zeros(len(scores)))(0.0)[0]

    def ray(self, scores: F64, direction: F64) -> Ray:
        raise NotImplementedError

    def curvature(self, scores: F64, columns: F64) -> F64:
        """The Fisher information of p: positive, where the loss itself is not convex."""
        out, p, zeros = np.zeros((columns.shape[1], columns.shape[1])), np.empty(len(scores)), np.zeros(len(scores))
        _softmax_curvature(self.hyp_ptr, self._scaled(scores), zeros, p, columns, out)
        return self.scale**2 * mirrored(out)


class ExpectedGain(_Softmax):
    """Ψ = -Σ_s E[gain],  E under p = softmax(scale · scores) over each list: the negative of the risk, not convex.

    dΨ/dscore_h = -scale p_h (gain_h - E[gain]). Along a direction d, with x = scale d:
    Ψ' = -Σ_s Cov(gain, x),  Ψ'' = -Σ_s E[(gain - E gain)(x - E x)²].
    A large scale approaches the gain of the 1-best; then the loss is flat almost everywhere.
    """

    def __init__(self, hyp_ptr: I64, gains: F64, scale: float = 1.0) -> None:
        self.hyp_ptr, self.gains, self.scale = hyp_ptr, gains, scale

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
# Expected BLEU
# ---------------------------------------------------------------------------------------------------------------------


_ADDITIVE = 10  # c1..c4, t1..t4, length in the brevity penalty, reference length
_FEW = 1e-9  # stands for no match at all of an order, and no length


@njit(cache=True, nogil=True)
def _additive(stats, strict, row):  # type: ignore[no-untyped-def]
    """OUT row[10]: what a hypothesis with these statistics [6] adds to those of the corpus."""
    length, ref_len = stats[HYP_LEN], stats[REF_LEN]
    for n in range(ORDER):
        row[n] = stats[n]
        row[ORDER + n] = max(length - n, 0)
    row[8] = min(length, ref_len) if strict else length
    row[9] = ref_len


@njit(cache=True, nogil=True)
def _expected_statistics(hyp_ptr, stats, strict, scores, direction, rho, p, out):  # type: ignore[no-untyped-def]
    """OUT p[H]; out[3, 10] = Σ_s E[r], its first and its second derivative in ρ."""
    row, mean = np.empty(_ADDITIVE), np.empty(_ADDITIVE)
    for s in range(len(hyp_ptr) - 1):
        start, end = hyp_ptr[s], hyp_ptr[s + 1]
        _softmax(start, end, scores, direction, rho, p)
        move = spread = 0.0
        for h in range(start, end):
            move += p[h] * direction[h]
        mean[:] = 0.0
        for h in range(start, end):
            d = direction[h] - move
            spread += p[h] * d * d
            _additive(stats[h], strict, row)
            for j in range(_ADDITIVE):
                mean[j] += p[h] * row[j]
                out[1, j] += p[h] * d * row[j]
                out[2, j] += p[h] * d * d * row[j]
        for j in range(_ADDITIVE):
            out[0, j] += mean[j]
            out[2, j] -= spread * mean[j]


@njit(cache=True, nogil=True)
def _bleu_gradient(hyp_ptr, stats, strict, slope, p, out):  # type: ignore[no-untyped-def]
    """OUT out[H] = -p (u - E[u]), u = slope · r the gain of a hypothesis at the margin."""
    row = np.empty(_ADDITIVE)
    for s in range(len(hyp_ptr) - 1):
        mean = 0.0
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            _additive(stats[h], strict, row)
            out[h] = 0.0
            for j in range(_ADDITIVE):
                out[h] += slope[j] * row[j]
            mean += p[h] * out[h]
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            out[h] = p[h] * (mean - out[h])


def log_bleu(sums: F64) -> tuple[float, F64, F64]:
    """ln BLEU of additive statistics [10], its gradient [10] and the diagonal and corner (length, reference) of its hessian [11].

    ln BLEU = 1/4 Σ_n (ln c_n - ln t_n) + min(0, 1 - ref_len / len)
    """
    t = np.maximum(sums, _FEW)
    sign = np.repeat([0.25, -0.25], ORDER)
    slope, curve = np.zeros(_ADDITIVE), np.zeros(_ADDITIVE + 1)
    value = float(sign @ np.log(t[:8]))
    slope[:8], curve[:8] = sign / t[:8], -sign / t[:8] ** 2
    length, ref_len = t[8], sums[9]
    if length < ref_len:
        value += 1 - ref_len / length
        slope[8:] = ref_len / length**2, -1 / length
        curve[8], curve[10] = -2 * ref_len / length**3, 1 / length**2
    return value, slope, curve


class ExpectedBleu(_Softmax):
    """Ψ = -S ln BLEU(Σ_s E[statistics]),  E under p = softmax(scale · scores): corpus BLEU itself, made smooth.

    BLEU of expected counts [Rosti et al. 2010], here also with the brevity penalty of BLEU-SBP [C08], whose length
    min(hyp_len, ref_len) is additive too. Not convex. A sentence counts by its length, a short output costs what it
    costs the corpus: no pair of sentence BLEUs knows either. dΨ/dscore_h = -S scale p_h (u_h - E[u]), u = ∇ln BLEU · r_h.
    """

    def __init__(self, hyp_ptr: I64, stats: I32, scale: float = 1.0, *, strict: bool = True) -> None:
        self.hyp_ptr, self.stats, self.scale, self.strict = hyp_ptr, stats, scale, strict

    def gradient(self, scores: F64) -> F64:
        p, expected = self.expected(scores)
        return self.margins(log_bleu(expected)[1], p, n=len(self.hyp_ptr) - 1)

    def expected(self, scores: F64) -> tuple[F64, F64]:
        """p [H], and the statistics [10] to be expected under it."""
        p, sums = np.empty(len(scores)), np.zeros((3, _ADDITIVE))
        _expected_statistics(self.hyp_ptr, self.stats, self.strict, self._scaled(scores), np.zeros(len(scores)), 0.0, p, sums)
        return p, sums[0]

    def margins(self, slope: F64, p: F64, *, n: int) -> F64:
        """dΨ/dscores [H] in a corpus of n sentences, by the slope of ln BLEU in its expected statistics."""
        out = np.empty(len(p))
        _bleu_gradient(self.hyp_ptr, self.stats, self.strict, slope, p, out)
        return n * self.scale * out

    def ray(self, scores: F64, direction: F64) -> Ray:
        scores, direction, p = self._scaled(scores), self._scaled(direction), np.empty(len(scores))
        n = len(self.hyp_ptr) - 1

        def at(rho: float) -> tuple[float, float, float]:
            sums = np.zeros((3, _ADDITIVE))
            rho = min(max(rho, -HUGE), HUGE)
            _expected_statistics(self.hyp_ptr, self.stats, self.strict, scores, direction, rho, p, sums)
            value, slope, curve = log_bleu(sums[0])
            first, second = sums[1], sums[2]
            bend = curve[:_ADDITIVE] @ first**2 + 2 * curve[_ADDITIVE] * first[8] * first[9]
            return -n * value, -n * float(slope @ first), -n * float(slope @ second + bend)

        return at
