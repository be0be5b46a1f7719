"""PRO: linear weights by pairwise ranking [HM11]; also the start of boosting, F_0 [TA13 figure 3 line 1]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress, pairwise
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from ..core.arrays import F64, I64, Bool, block_ptr, in_ranges, in_threads, offsets, segment_positions
from ..core.feature_table import linear_scores
from ..lists.nbest import NBest, by_name
from ..losses.pairs import Pairs, split_pairs
from ..losses.pairwise import FLOOR, PairwiseLogLoss
from .sparse_sums import SparseSums

P = ParamSpec("P")
T = TypeVar("T")
CHUNK = 1 << 16  # pairs whose feature differences are held at a time


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Weights in raw units, and how they were found."""

    raw: F64 = field(repr=False)  # [D + N] of all features
    names: Sequence[str] = field(repr=False)
    has_weight: Bool = field(repr=False)  # [D + N]
    loss: float  # mean log-loss of a pair, without the penalty; 0 where there are no pairs
    n_pairs: int
    n_iter: int
    converged: bool

    @cached_property
    def weights(self) -> dict[str, float]:
        """Weights by name: all dense features, and the sparse ones that differ in some pair."""
        kept = self.has_weight
        return dict(zip(compress(self.names, kept.tolist()), self.raw[kept].tolist(), strict=True))


def linear_problem(nbest: NBest, pairs: Pairs, *, threads: int = 1, blocks: I64 | None = None) -> LinearProblem:
    """The pairs of a list, standardised, to be fitted with one penalty or several; sums are over these blocks of sentences."""
    ptr = block_ptr(len(pairs.sent_ptr) - 1) if blocks is None else blocks
    _ = nbest.global_names  # made once, not in every thread
    n = len(ptr) - 1
    parts = in_ranges(lambda some: LinearPart(nbest, pairs, ptr[some.start : some.stop + 1]), n, min(threads, n))

    def each(method: Callable[Concatenate[LinearPart, P], T], /, *arguments: P.args, **named: P.kwargs) -> list[T]:
        return in_threads(lambda part: method(part, *arguments, **named), parts, threads)

    return LinearProblem(each, nbest.feature_names, n_dense=len(nbest.global_names))


def problem_of_some(nbest: NBest, sentences: I64, pairs: Pairs, *, threads: int = 1) -> LinearProblem:
    """Return the problem of the lists of some sentences, rising, whose pairs these are, without a copy of their features."""
    hyps, counts = segment_positions(nbest.hyp_ptr, sentences), np.zeros(len(nbest), np.int64)
    counts[sentences] = np.diff(pairs.sent_ptr)
    pairs = replace(pairs, better=hyps[pairs.better], worse=hyps[pairs.worse], sent_ptr=offsets(counts))
    blocks = np.append(sentences, len(nbest))[block_ptr(len(sentences))]  # the others have no pairs
    return linear_problem(nbest, pairs, threads=threads, blocks=blocks)


class EachBlock(Protocol):
    """Results of a method of every LinearPart, in the order of their blocks, wherever they are."""

    def __call__(self, method: Callable[Concatenate[LinearPart, P], T], /, *arguments: P.args, **named: P.kwargs) -> list[T]: ...


class LinearProblem:
    """Pairs of a list over blocks of sentences, in LinearParts somewhere: standardised once, fitted with any penalties."""

    def __init__(self, each: EachBlock, names: Sequence[str], *, n_dense: int) -> None:
        self._each, self._names, self._n_dense = each, names, n_dense
        self._columns, self.n_pairs = each(LinearPart.columns), sum(each(LinearPart.n_pairs))
        self._weight = sum(chain.from_iterable(each(LinearPart.weights)))
        peak, (squares, told_apart) = np.zeros(len(names)), np.zeros((2, len(names)))
        for at, most in zip(self._columns, each(LinearPart.peak), strict=True):
            np.maximum.at(peak, at, most)
        for at, (square, count) in zip(self._columns, each(LinearPart.squares, peak), strict=True):
            np.add.at(squares, at, square)
            np.add.at(told_apart, at, count)
        rms = np.sqrt(squares / np.maximum(told_apart, 1))
        each(LinearPart.standardise, peak, rms)
        self._scale = peak * rms

    def fit(
        self,
        *,
        l2: float = 1.0,
        init: Mapping[str, float] | F64 | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        l2_factors: F64 | None = None,
        frozen: Bool | None = None,
    ) -> LinearFit:
        """argmin_λ Σ_k w_k log(1 + exp(-z_k)) + l2/2 |λ|²,  z = P G λ: L-BFGS in standardised space, raw weights out.

        The pairs' weights w are of mean 1 here, whatever their unit: penalties of weighted and plain pairs compare.

        A feature's scale is the root mean square of its non-zero differences over the pairs. Over all pairs, it would multiply an
        indicator seen in one pair of 250,000 by 500 and so free it from the penalty; this way an indicator keeps its values, and
        dense or sparse storage of a feature makes no difference. A feature that no pair tells apart has weight 0.
        ``init`` (raw weights by name, or [D + N]) is where the search starts; the objective is convex, so only the time depends
        on it, except for features that are ``frozen`` [D + N] there. ``l2_factors`` [D + N] multiply the penalty of single ones.
        Sums are over blocks of sentences, one after the other, so that threads do not change them, nor does a cluster.
        """
        names, scale, n, slope = self._names, self._scale, self._weight or 1.0, np.zeros(len(self._names))
        losses = dict[float, float]()  # by the mean with the penalty, the sum without
        given = np.zeros(len(names)) if init is None else init if isinstance(init, np.ndarray) else by_name(init, names)
        start = given * scale
        penalty = np.full(len(names), l2) if l2_factors is None else l2 * l2_factors
        penalty = penalty * (n / max(self.n_pairs, 1))
        bounds = None  # a frozen weight is its own lower and upper bound
        if frozen is not None and frozen.any():
            bounds = np.stack([np.where(frozen, start, -np.inf), np.where(frozen, start, np.inf)], axis=1)

        def objective(w: F64) -> tuple[float, F64]:
            """(Ψ(G w) + Σ_j l2_j/2 w_j²) / n and its gradient (G' dΨ/dscores + l2 w) / n."""
            value, slope[:] = 0.0, 0.0
            for at, (losses_of_blocks, gradient) in zip(self._columns, self._each(LinearPart.at, w), strict=True):
                for own in losses_of_blocks.tolist():
                    value += own
                np.add.at(slope, at, gradient)
            mean = (value + float((penalty * w) @ w) / 2) / n
            losses[mean] = value
            return mean, (slope + penalty * w) / n

        options = {"maxiter": max_iter, "maxfun": 20 * (max_iter + 1), "gtol": tol, "ftol": 4 * np.finfo(float).eps}
        with threadpool_limits(1, "blas"):  # sums of threads come in any order, and on busy cores threads wait for each other
            found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        raw = np.divide(found.x, scale, out=np.zeros(len(names)), where=scale > 0)
        if bounds is not None:
            raw[frozen] = given[frozen]
        return LinearFit(
            raw=raw,
            names=names,
            has_weight=(np.arange(len(names)) < self._n_dense) | (scale > 0) | (raw != 0),
            loss=losses.get(float(found.fun), [*losses.values()][-1]) / n,
            n_pairs=self.n_pairs,
            n_iter=int(found.get("nit", 0)),  # absent where all weights are frozen
            converged=bool(found.success),
        )


class LinearPart:
    """The objective's parts of the pairs of some blocks of sentences, over the features they have."""

    def __init__(self, nbest: NBest, pairs: Pairs, ptr: I64) -> None:
        """Take the pairs of the blocks of sentences ptr [B+1]."""
        [pairs] = split_pairs(pairs, ptr[[0, -1]])
        hyps, self._better, self._worse = pairs.renumbered()
        self._hyp_cuts = np.searchsorted(hyps, nbest.hyp_ptr[ptr])
        self._dense, self._sparse = nbest.global_rows(hyps), SparseSums(nbest, hyps, self._hyp_cuts)
        self._d, n = self._dense.shape[1], len(ptr) - 1
        self._columns = np.concatenate([np.tile(np.arange(self._d), n), self._d + self._sparse.columns])
        pairs, cuts = replace(pairs, better=self._better, worse=self._worse), pairs.sent_ptr[ptr - ptr[0]]
        self._loss = PairwiseLogLoss(pairs, len(hyps), pairs.weight, cuts=cuts)

    def columns(self) -> I64:
        """The features that what follows is about: for each block all dense ones, then the sparse ones of each block."""
        return self._columns

    def n_pairs(self) -> int:
        return len(self._better)

    def weights(self) -> list[float]:
        """Σ_k w_k of each block."""
        return [float(self._loss.weight[a:b].sum()) for a, b in pairwise(self._loss.cuts.tolist())]

    def peak(self) -> F64:
        """The largest absolute value of each feature: of dense ones in a hypothesis, of sparse ones in a unit."""
        dense = np.abs(self._dense).max(axis=0, initial=0.0)
        return np.concatenate([np.tile(dense, len(self._hyp_cuts) - 1), self._sparse.peak()])

    def squares(self, peak: F64) -> tuple[F64, F64]:
        """Return each feature's sum of squared differences, divided by its peak of all [D + N], and how many are not 0."""
        own = _or_one(peak)
        self._dense /= own[: self._d]
        squares, counts = np.zeros((2, len(self._hyp_cuts) - 1, self._d))
        for b, (first, last) in enumerate(pairwise(self._loss.cuts.tolist())):
            for k in range(first, last, CHUNK):
                some = slice(k, min(k + CHUNK, last))
                diff = self._dense[self._better[some]] - self._dense[self._worse[some]]
                diff[np.abs(diff) <= FLOOR] = 0.0
                squares[b] += np.einsum("kd,kd->d", diff, diff)
                counts[b] += np.count_nonzero(diff, axis=0)
        sparse_peak = own[self._columns[squares.size :]]
        of_sparse = self._sparse.squares(self._better, self._worse, self._loss.cuts, sparse_peak)
        return np.append(squares, of_sparse[0]), np.append(counts, of_sparse[1])

    def standardise(self, peak: F64, rms: F64) -> None:
        """Divide by the root mean square of all; a feature that no pair tells apart becomes 0."""
        own = np.where(rms > 0, rms, np.inf)
        self._dense /= own[: self._d]  # which were divided by their peaks already
        self._scale = (_or_one(peak) * own)[self._d + self._sparse.columns]

    def at(self, w: F64) -> tuple[F64, F64]:
        """Ψ [B] at the weights w [D + N] of standardised features, and its gradient in those of its columns."""
        scores = linear_scores(self._dense, None, w[: self._d])
        losses, g, slope = self._sparse.log_loss(w[self._d :], self._scale, scores, self._loss)
        blocks = [slice(a, b) for a, b in pairwise(self._hyp_cuts.tolist())]
        return losses, np.concatenate([*(np.einsum("hd,h->d", self._dense[some], g[some]) for some in blocks), slope])


def _or_one(peak: F64) -> F64:
    return np.where(peak > 0, peak, 1.0)
