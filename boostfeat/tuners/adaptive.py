"""Shared parts of the adaptive online learners: differences of pairs, weights with a step size each, and the loop of [G13].

A mini-batch touches only the features that are active in it, those that tell the hypotheses of some pair apart; all work and
memory of a batch is proportional to their number. Dense and sparse features are the same here: entries of a row of differences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.arrays import F64, I32, I64, segment_positions
from ..core.errors import InputError
from ..core.kernels import kernel
from ..lists.nbest import NBest, SparseRows
from ..losses.pairs import PairOptions, Pairs, sample_pairs
from ..model.model import Model
from .base import EpochLog, Features, Run, step_factors
from .margin import difference
from .tuner_options import OnlineOptions

Hyps = Iterator[tuple[I64, I64]]
"""(better, worse) hypotheses of the pairs of each mini-batch."""

ROUNDING = 1e-12  # a difference this small beside the feature's largest value is the rounding of sums: not a difference


# ---------------------------------------------------------------------------------------------------------------------
# Differences of hypotheses
# ---------------------------------------------------------------------------------------------------------------------


class FeatureColumns(NamedTuple):
    """Features as kernels take them; named as in KernelLists."""

    dense: F64
    sp_ptr: I64
    sp_idx: I32
    sp_val: F64


@kernel
def append_difference(x, floor, unit, a, b, idx, val, n):  # type: ignore[no-untyped-def]
    """OUT idx, val from n on: the entries of (f(a) - f(b)) / unit above the floor, by rising column. Returns where they end.

    IN x (FeatureColumns or KernelLists), floor[D+N], unit[D+N].
    """
    for i in range(n, difference(x, a, b, idx, val, n)):
        j, d = idx[i], val[i]
        if abs(d) > floor[j]:
            idx[n], val[n] = j, d / unit[j]
            n += 1
    return n


@kernel
def _differences(x, floor, unit, better, worse, out_ptr, out_idx, out_val):  # type: ignore[no-untyped-def]
    n = 0
    for k in range(len(better)):
        n = append_difference(x, floor, unit, better[k], worse[k], out_idx, out_val, n)
        out_ptr[k + 1] = n
    return n


@kernel
def _gradient(ptr, idx, val, w, hinge, out):  # type: ignore[no-untyped-def]
    """OUT out[A] += the gradient of the loss summed over rows; returns the loss."""
    total = 0.0
    for k in range(len(ptr) - 1):
        z = 0.0
        for i in range(ptr[k], ptr[k + 1]):
            z += w[idx[i]] * val[i]
        if hinge:
            total += max(0.0, 1.0 - z)
            slope = 1.0 if z < 1.0 else 0.0
        else:
            e = np.exp(-abs(z))
            total += max(-z, 0.0) + np.log1p(e)
            slope = (e if z > 0.0 else 1.0) / (1.0 + e)
        if slope != 0.0:
            for i in range(ptr[k], ptr[k + 1]):
                out[idx[i]] -= slope * val[i]
    return total


@dataclass(frozen=True)
class Batch:
    """Rows of differences over the features that are active in them."""

    active: I64  # [A] columns of Features, rising
    rows: SparseRows  # [K] with idx into active

    def gradient(self, w: F64, *, loss: str) -> tuple[F64, float]:
        """Gradient [A] at w [A] and value of the loss, summed over the pairs x of the batch [G13 eq. 12]:

        logistic Σ log(1 + exp(-w·x)),  hinge Σ max(0, 1 - w·x)
        """
        out = np.zeros(len(self.active))
        value = _gradient(self.rows.ptr, self.rows.idx, self.rows.val, w, loss == "hinge", out)
        return out, float(value)


@dataclass(frozen=True)
class Differences:
    """Differences of hypotheses' features, each in a unit of its own."""

    features: Features
    floor: F64  # [D+N] differences up to this are 0
    unit: F64  # [D+N] powers of two, so that weights in other units are the same weights to the last bit

    @classmethod
    def of(cls, features: Features) -> Differences:
        peak = np.zeros(len(features))
        d = features.n_dense
        peak[:d] = np.abs(features.dense).max(axis=0, initial=0.0)
        np.maximum.at(peak[d:], features.sparse.idx, np.abs(features.sparse.val))
        return cls(features, ROUNDING * peak, np.ones(len(features)))

    def scaled(self, pairs: Pairs) -> Differences:
        """Return differences in units of a dense feature's root mean square where it is not 0, to the next power of two."""
        d = self.features.n_dense
        apart = self.features.dense[pairs.better] - self.features.dense[pairs.worse]
        apart[np.abs(apart) <= self.floor[:d]] = 0.0
        rms = np.sqrt(np.einsum("kd,kd->d", apart, apart) / np.maximum(np.count_nonzero(apart, axis=0), 1))
        unit = self.unit.copy()
        unit[:d] = np.ldexp(1.0, np.rint(np.log2(np.where(rms > 0, rms, 1.0))).astype(np.int64))
        return Differences(self.features, self.floor, unit)

    def batch(self, better: I64, worse: I64) -> Batch:
        widths = np.diff(self.features.sparse.ptr)
        room = len(better) * self.features.n_dense + int(widths[better].sum() + widths[worse].sum())
        ptr, idx, val = np.zeros(len(better) + 1, np.int64), np.empty(room, np.int64), np.empty(room)
        sparse = self.features.sparse
        x = FeatureColumns(self.features.dense, sparse.ptr, sparse.idx, sparse.val)
        n = _differences(x, self.floor, self.unit, better, worse, ptr, idx, val)
        active, at = np.unique(idx[:n], return_inverse=True)
        return Batch(active, SparseRows(ptr, at.astype(np.int32), val[:n]))


# ---------------------------------------------------------------------------------------------------------------------
# Weights with a step size each
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def _shrink(w, threshold, times):  # type: ignore[no-untyped-def]
    """sign(w) max(0, |w| - threshold), so many times: each is a subtraction that rounds, so no product can replace the loop."""
    for _ in range(times):
        size = abs(w) - threshold
        if size <= 0.0:
            return 0.0
        shrunk = np.copysign(size, w)
        if shrunk == w:  # the threshold is lost in the rounding, and will be every time
            return w
        w = shrunk
    return w


@kernel
def _catch_up(active, t, w, squares, last, rate, l1, prior, root):  # type: ignore[no-untyped-def]
    """Bring w of the active features to step t: while one rests its G, and so its threshold, does not change."""
    for j in active:
        if last[j] < t:
            if w[j] != 0.0 and squares[j] > 0.0:
                g = prior + squares[j]
                w[j] = _shrink(w[j], rate[j] * l1[j] / (np.sqrt(g) if root else g), t - last[j])
            last[j] = t


@kernel
def _step(active, gradient, w, squares, rate, l1, prior, root):  # type: ignore[no-untyped-def]
    for a in range(len(active)):
        j = active[a]
        squares[j] += gradient[a] * gradient[a]
        if squares[j] > 0.0:
            g = prior + squares[j]
            scale = np.sqrt(g) if root else g
            w[j] = _shrink(w[j] - rate[j] * gradient[a] / scale, rate[j] * l1[j] / scale, 1)


class Weights:
    """Weights under FOBOS with a step size each; the shrinkage of features that rest is put off until they are read.

    G_j = G_0 + Σ g_j²,  s_j = √G_j (AdaGrad) or G_j (linearised AROW)              [G13 eq. 3; eq. 10]
    w_j ← w_j - η_j g_j / s_j                                                       [G13 eq. 2; eq. 11]
    w_j ← sign(w_j) max(0, |w_j| - η_j λ_j / s_j)                                   [G13 eq. 15]

    When the last line applies: [G13 3.2] regularise *every* weight at *every* update, and note that "lazy updates on just the
    active dimensions" do so "without any approximations". So what a feature has missed is made up for, step by step, before
    its weight is next used: the same subtractions, hence the same bits, as shrinking all weights after every batch.
    A feature that has had no gradient yet has no step size (η/0) and keeps its initial weight.
    """

    def __init__(self, w: F64, *, rate: F64, l1: F64, root: bool, prior: float = 0.0) -> None:
        self.w = w.copy()
        self.squares = np.zeros(len(w))  # Σ g²
        self.last = np.zeros(len(w), np.int64)  # the step that each weight has been brought to
        self.t = 0
        self.rate, self.l1, self.root, self.prior = rate, l1, root, prior

    def read(self, active: I64) -> F64:
        """The weights of these features now; a copy."""
        _catch_up(active, self.t, self.w, self.squares, self.last, self.rate, self.l1, self.prior, self.root)
        return self.w[active]

    def step(self, active: I64, gradient: F64) -> None:
        self.read(active)  # others may have stepped since the gradient was taken
        self.t += 1
        _step(active, gradient, self.w, self.squares, self.rate, self.l1, self.prior, self.root)
        self.last[active] = self.t

    def grow(self, *, rate: F64, l1: F64) -> None:
        """Make room for features that are new, at weight 0; rate and l1 are those of all."""
        more = len(rate) - len(self.w)
        self.w, self.squares = np.append(self.w, np.zeros(more)), np.append(self.squares, np.zeros(more))
        self.last = np.append(self.last, np.full(more, self.t))
        self.rate, self.l1 = rate, l1

    def settled(self) -> F64:
        """All weights now; a copy."""
        return self.read(np.arange(len(self.w)))


# ---------------------------------------------------------------------------------------------------------------------
# The loop
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnlineRanker(OnlineOptions):
    """The loop of [G13] Algorithms 1 and 2. ``Adagrad`` and ``Arow`` are its kinds.

    Deviation: a step of η moves any weight by about η, whatever the feature's scale, so raw dense features (a distance in
    words beside a log-probability) each need an η of their own, and [G13]'s 0.02 for indicators is ten times too small for the
    14 of a Moses system. Dense features therefore are taken in units of their typical difference, with their own rate.
    ``dense_eta=0.02, standardise=False`` is the paper's.
    """

    def draw(self, nbest: NBest, gains: F64, rng: np.random.Generator, run: Run) -> Pairs:
        """Pairs of every sentence by the sampler of [HM11]."""
        how = PairOptions("hm11", draws=self.draws, threshold=self.threshold, keep=self.pairs)
        return sample_pairs(nbest.hyp_ptr, gains, how, seed=int(rng.integers(2**63)), threads=run.threads)

    def differences(self, features: Features, nbest: NBest, gains: F64, rng: np.random.Generator, run: Run) -> Differences:
        """Differences in raw units, or in those of a first draw of pairs."""
        raw = Differences.of(features)
        return raw.scaled(self.draw(nbest, gains, rng, run)) if self.standardise else raw

    def learn(self, nbest: NBest, select: NBest | None, run: Run, *, root: bool, prior: float = 0.0, r: float = 1.0) -> EpochLog:
        """[G13] Algorithm 1: sample pairs, take the gradient of a mini-batch, update, regularise.

        ``root`` and ``prior`` (G_0) are those of ``Weights``; ``r`` multiplies the learning rates.
        """
        run.groups.check(type(self).__name__.lower(), "l1", "c")
        features = Features.of(nbest)
        log = EpochLog(features, nbest, select, run)
        gains = run.gains(nbest)
        rng = np.random.default_rng(run.seed)
        differences = self.differences(features, nbest, gains, rng, run)
        start = features.start(run.init) * differences.unit
        weights = self.weights(features, start, run, root=root, prior=prior, r=r)
        for epoch in range(1, self.epochs + 1):
            pairs = self.draw(nbest, gains, rng, run)
            batches = minibatches(pairs, self.batch, rng)
            loss = self.one_pass(batches, differences, weights)
            if not np.isfinite(weights.squares).all():  # the steps are 0 from here on, and nothing else would show it
                raise InputError(f"epoch {epoch}: the gradients have blown up; rescale the features")
            log.record(epoch, weights.settled() / differences.unit, loss=loss / max(len(pairs), 1), pairs=len(pairs))
        log.settle()
        if self.l1 > 0 and weights.t and log.best is not None and len(log.best) and not log.best.any():
            raise InputError(f"l1: expected a penalty that leaves some weights, found all weights 0 with {self.l1}; lower it")
        return log

    def weights(self, features: Features, w: F64, run: Run, *, root: bool, prior: float = 0.0, r: float = 1.0) -> Weights:
        """Weights that start from w, in the units of differences."""
        eta = np.where(np.arange(len(features)) < features.n_dense, self.dense_eta, self.eta)
        rate = r * eta * step_factors(features, run)
        return Weights(w, rate=rate, l1=self.l1 * run.groups.factors(features.names, "l1"), prior=prior, root=root)

    def one_pass(self, batches: Hyps, differences: Differences, weights: Weights) -> float:
        """[G13] Algorithm 2 on a fixed schedule: the gradient of batch t is taken at the weights of step t - workers.

        With one worker this is Algorithm 1. An epoch starts with no gradient under way and ends when all are applied.
        Returns the loss of all batches, each at the weights its gradient was taken at.
        """
        under_way: deque[tuple[I64, F64]] = deque()
        total = 0.0
        for better, worse in batches:
            batch = differences.batch(better, worse)
            if len(under_way) == self.workers:
                weights.step(*under_way.popleft())
            gradient, value = batch.gradient(weights.read(batch.active), loss=self.loss)
            under_way.append((batch.active, gradient))
            total += value
        while under_way:
            weights.step(*under_way.popleft())
        return total


def minibatches(pairs: Pairs, size: int, rng: np.random.Generator) -> Hyps:
    """(better, worse) of the pairs of so many sentences at a time, in random order; sentences without pairs are left out."""
    sentences = rng.permutation(np.flatnonzero(np.diff(pairs.sent_ptr)))
    for start in range(0, len(sentences), size):
        at = segment_positions(pairs.sent_ptr, sentences[start : start + size])
        yield pairs.better[at], pairs.worse[at]


@dataclass(frozen=True)
class Adagrad(OnlineRanker):
    """min Σ_pairs log(1 + exp(-w·(f(y⁺) - f(y⁻)))) + λ|w|₁ online: ``OnlineRanker`` with the steps η / √(Σ g²) of ``Weights``."""

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        return self.learn(nbest, select, run, root=True).model(self, "adagrad")
