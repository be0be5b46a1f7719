"""Is a difference real? Paired bootstrap, approximate randomisation, and its form that knows optimisers vary.

All work on statistics rows of the chosen hypotheses, [S, n] (see ``metric``; 11 for BLEU): a trial is a sum of rows, so
thousands of trials are one product of a matrix of counts [T, S] with the rows. Sums are of whole numbers below 2^53, or of
numbers on a grid (``exact_sums``): exact in any order, so the same on any number of threads. Draws and formulas are sacrebleu's:
with its seed, BLEU's p-values are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.arrays import F64, Array
from .metric import Metric, metric_of

TRIALS = 10_000
SEED = 12345  # sacrebleu's default
BATCH = 1 << 22  # draws held at a time
ROUNDING = 1e-12  # two differences (0..1) this close are one: the same shuffle computed twice


def p_value(trials: F64, observed: float) -> float:
    """(1 + #{trials ≥ observed}) / (1 + T): two-sided where trials [T] and observed are absolute differences.

    Deviation: sacrebleu and multeval count only trials > observed, which gives two identical systems p = 1 / (1 + T); counting
    equal ones gives them p = 1. Elsewhere ties are rare and the two agree.
    """
    return (1 + int(np.count_nonzero(trials >= observed - ROUNDING))) / (1 + len(trials))


def bootstrap_p(sums_a: F64, sums_b: F64, *, a: Array, b: Array, metric: str | Metric) -> float:
    """The p-value of the difference between systems with rows a and b [S, 11], by the sums [T, 11] of the same resamples of both.

    It is the share of differences d_t = |a_t - b_t| with d_t - mean(d) ≥ |a - b|   [K04], with sacrebleu's centring.
    """
    difference = np.abs(_score(sums_a, metric) - _score(sums_b, metric))
    return p_value(difference - difference.mean(), _difference(a, b, metric))


def approximate_randomisation(
    a: Array, b: Array, *, metric: str | Metric = "bleu-sbp", trials: int = TRIALS, seed: int = SEED
) -> float:
    """p-value of the difference between systems with rows a and b [S, 11]: of shuffles that swap each sentence's two outputs
    with probability 1/2, those that differ by at least as much   [RM05]
    """
    _check(a, b)
    one, other = shuffle_sums(a, b, trials=trials, seed=seed)
    return shuffle_p(one, other, a=a, b=b, metric=metric)


def stratified_randomisation(
    a: Array, b: Array, *, metric: str | Metric = "bleu-sbp", trials: int = TRIALS, seed: int = SEED
) -> float:
    """Return the p-value of systems with several optimiser runs, rows a [Q, S, 11] and b [R, S, 11]: a trial deals the Q + R
    outputs of each sentence anew; a system's score is that of its runs' summed statistics [C11].

    A difference that other seeds would undo is then not significant, however much two single runs differ.
    Deviation: multeval's text says that outputs are exchanged between systems and runs, which is what this does; its code swaps
    the outputs of a sentence and run only, and then pairs each sum with one that is not its complement.
    """
    _check(a[0], b[0])
    one, other = stratified_sums(a, b, trials=trials, seed=seed)
    return shuffle_p(one, other, a=a, b=b, metric=metric)


def shuffle_p(one: F64, other: F64, *, a: Array, b: Array, metric: str | Metric) -> float:
    """The p-value of shuffled sums [T, 11] of two pseudo-systems; rows a, b [..., 11] are those of the true ones."""
    return p_value(np.abs(_score(one, metric) - _score(other, metric)), _difference(a, b, metric))


def confidence_interval(sums: F64, metric: str | Metric = "bleu-sbp", *, level: float = 0.95) -> tuple[float, float]:
    """(low, high) in the metric's points: the middle 95 % of the scores of bootstrap sums [T, 11], cut as sacrebleu cuts them."""
    found = metric_of(metric) if isinstance(metric, str) else metric
    scores = np.sort(found.points * found.score(sums))
    cut = int(len(scores) * (1 - level) / 2 + ROUNDING)
    return float(scores[cut]), float(scores[len(scores) - cut - 1])


# ---------------------------------------------------------------------------------------------------------------------
# Trials as sums of rows
# ---------------------------------------------------------------------------------------------------------------------


def bootstrap_sums(rows: Array, *, trials: int = TRIALS, seed: int = SEED) -> F64:
    """Sums [T, 11] of resamples of the rows [S, 11] with replacement; the same resamples for all systems of a seed."""
    rng, n = np.random.default_rng(seed), len(rows)
    out = np.empty((trials, rows.shape[1]))
    values = rows.astype(np.float64)
    for first, last in batches(trials, n):
        drawn = rng.choice(n, size=(last - first, n), replace=True)
        drawn += np.arange(last - first)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        out[first:last] = counts.astype(np.float64) @ values
    return out


def shuffle_sums(a: Array, b: Array, *, trials: int = TRIALS, seed: int = SEED) -> tuple[F64, F64]:
    """Sums [T, 11] of two pseudo-systems: each sentence's rows of a and b [S, 11] are swapped with probability 1/2."""
    rng, n = np.random.default_rng(seed), len(a)
    one = np.empty((trials, a.shape[1]))
    gained = (np.asarray(a) - b).astype(np.float64)
    for first, last in batches(trials, n):
        one[first:last] = rng.integers(2, size=(last - first, n), dtype=bool).astype(np.float64) @ gained
    one += np.sum(b, axis=0)
    return one, np.sum(a, axis=0) + np.sum(b, axis=0) - one


def stratified_sums(a: Array, b: Array, *, trials: int = TRIALS, seed: int = SEED) -> tuple[F64, F64]:
    """Sums over runs [T, 11] of two pseudo-systems: of each sentence's Q + R rows, any Q go to the first, equally likely."""
    pool = np.concatenate([a, b]).astype(np.float64)  # [Q + R, S, 11]
    runs, n = len(pool), pool.shape[1]
    rng = np.random.default_rng(seed)
    one = np.zeros((trials, pool.shape[2]))
    for first, last in batches(trials, n):
        needed = np.full((last - first, n), len(a), np.uint16)
        for r, rows in enumerate(pool):  # row r is taken with probability needed / left: every subset is as likely
            taken = rng.integers(runs - r, size=needed.shape, dtype=np.uint16) < needed
            needed -= taken
            one[first:last] += taken.astype(np.float64) @ rows
    return one, pool.sum(axis=(0, 1)) - one


def batches(trials: int, n: int) -> Iterator[tuple[int, int]]:
    """Batches of at most about BATCH draws. 32 trials at a time: numpy takes 32 coins from a word and forgets the rest at the end
    of a call, so batches of a multiple draw what one call for all trials would.
    """
    size = max(1, BATCH // (32 * n)) * 32
    for first in range(0, trials, size):
        yield first, min(first + size, trials)


def _score(sums: F64, metric: str | Metric) -> F64:
    return (metric_of(metric) if isinstance(metric, str) else metric).score(sums)


def exact_sums(rows: Array) -> Array:
    """Rows [..., n] whose sums are exact in any order: whole numbers as they are, other columns on a grid of 2⁻ᵏ each."""
    rows = np.asarray(rows)
    if rows.dtype.kind in "iu":
        return rows
    axes = tuple(range(rows.ndim - 1))
    largest = np.abs(rows).max(axis=axes, initial=0.0) * max(1, rows[..., 0].size)
    step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - 52)
    return np.round(rows / step) * step


def _difference(a: Array, b: Array, metric: str | Metric) -> float:
    one, other = (np.reshape(rows, (-1, rows.shape[-1])).sum(axis=0) for rows in (a, b))
    return abs(float(_score(one, metric)) - float(_score(other, metric)))


def _check(a: Array, b: Array) -> None:
    if a.shape != b.shape or not len(a):
        raise ValueError(f"expected rows of the same sentences, at least one, found {a.shape} and {b.shape}")


# ---------------------------------------------------------------------------------------------------------------------
# Choices for sentences that were not trained on, and the errors of their differences
# ---------------------------------------------------------------------------------------------------------------------


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
