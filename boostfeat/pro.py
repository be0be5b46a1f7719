"""PRO: linear weights by pairwise ranking [HM11]; also the start of boosting, F_0 [TA13 figure 3 line 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from .arrays import F64, I64, Bool
from .errors import InputError
from .losses import Loss, PairwiseLogLoss
from .nbest import NBest
from .pairs import SAMPLERS, PairOptions, Pairs, pairs_for

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CHUNK = 1 << 16  # pairs whose feature differences are held at a time
FLOOR = 1e-12  # a difference this small beside the feature's largest value is the rounding of sums


@dataclass(frozen=True)
class ProOptions:
    """PRO as a tuner."""

    pairs: PairOptions = field(default_factory=lambda: SAMPLERS["ta13"])
    l2: float = 1.0  # penalty l2/2 |λ|², λ the weights of standardised features
    max_iter: int = 1000
    tol: float = 1e-6  # on the largest entry of the gradient of the mean objective

    def __post_init__(self) -> None:
        for name, low in (("l2", 0), ("max_iter", 0), ("tol", 0)):
            if not getattr(self, name) >= low:
                raise InputError(f"pro: expected {name} of at least {low}, found {getattr(self, name)}; give a larger one")


@dataclass(frozen=True)
class LinearFit:
    """Weights in raw units: all dense features, and the sparse ones that differ in some pair."""

    weights: dict[str, float]
    loss: float  # mean log-loss of a pair, without the penalty; 0 where there are no pairs
    n_pairs: int
    n_iter: int
    converged: bool


def fit_pro(
    nbest: NBest, options: ProOptions | None = None, *, seed: int, threads: int = 1, init: Mapping[str, float] | None = None
) -> LinearFit:
    """Draw pairs and fit. The threads draw pairs; the result does not depend on their number."""
    options = options or ProOptions()
    pairs = pairs_for(nbest, options.pairs, seed=seed, threads=threads)
    return fit_linear(nbest, pairs, l2=options.l2, init=init, max_iter=options.max_iter, tol=options.tol)


def fit_linear(
    nbest: NBest,
    pairs: Pairs,
    *,
    l2: float = 1.0,
    init: Mapping[str, float] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
    l2_factors: F64 | None = None,
    frozen: Bool | None = None,
) -> LinearFit:
    """argmin_λ Σ_k log(1 + exp(-z_k)) + l2/2 |λ|²,  z = P G λ: L-BFGS in standardised space, raw weights out.

    A feature's scale is the root mean square of its non-zero differences over the pairs. Over all pairs, it would multiply an
    indicator seen in one pair of 250,000 by 500 and so free it from the penalty; this way an indicator keeps its values, and
    dense or sparse storage of a feature makes no difference. A feature that no pair tells apart has weight 0.
    ``init`` (raw weights by name) is where the search starts; the objective is convex, so only the time depends on it, except
    for features that are ``frozen`` [D + N] there. ``l2_factors`` [D + N] multiply the penalty of single features.
    """
    hyps, at = np.unique(np.stack([pairs.better, pairs.worse]), return_inverse=True)  # the hypotheses some pair uses
    better, worse = at.reshape(2, len(pairs))
    dense, dense_scale = _standardise_dense(nbest.global_rows(hyps), better, worse)
    sparse, sparse_scale = _standardise_sparse(nbest.global_sparse[hyps], better, worse)
    loss = PairwiseLogLoss(replace(pairs, better=better, worse=worse), len(hyps))
    n = max(len(pairs), 1)
    names = [*nbest.global_names, *nbest.sparse_names.to_pylist()]
    scale = np.concatenate([dense_scale, sparse_scale])
    given = np.array([init.get(name, 0.0) for name in names]) if init else np.zeros(len(names))
    start = given * scale
    penalty = np.full(len(names), l2) if l2_factors is None else l2 * l2_factors
    bounds = None  # a frozen weight is its own lower and upper bound
    if frozen is not None and frozen.any():
        bounds = np.stack([np.where(frozen, start, -np.inf), np.where(frozen, start, np.inf)], axis=1)
    options = {"maxiter": max_iter, "maxfun": 20 * (max_iter + 1), "gtol": tol, "ftol": 4 * np.finfo(float).eps}
    found = minimize(
        objective, start, (dense, sparse, loss, penalty, n), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    raw = np.divide(found.x, scale, out=np.zeros(len(names)), where=scale > 0)
    if bounds is not None:
        raw[frozen] = given[frozen]
    return LinearFit(
        weights={name: float(raw[j]) for j, name in enumerate(names) if j < dense.shape[1] or scale[j] > 0 or raw[j] != 0},
        loss=loss.value(linear_scores(found.x, dense, sparse)) / n,
        n_pairs=len(pairs),
        n_iter=int(found.get("nit", 0)),  # absent where all weights are frozen
        converged=bool(found.success),
    )


def linear_scores(w: F64, dense: F64, sparse: csr_matrix) -> F64:
    """Scores [U] of hypotheses with features [U, D] and [U, N] under weights [D + N]."""
    scores: F64 = np.einsum("hd,d->h", dense, w[: dense.shape[1]])  # not BLAS: its sums depend on its threads
    return scores + sparse @ w[dense.shape[1] :] if sparse.nnz else scores


def objective(w: F64, dense: F64, sparse: csr_matrix, loss: Loss, l2: F64, n: int) -> tuple[float, F64]:
    """(Ψ(G w) + Σ_j l2_j/2 w_j²) / n and its gradient (G' dΨ/dscores + l2 w) / n."""
    scores = linear_scores(w, dense, sparse)
    g = loss.gradient(scores)
    slope = np.concatenate([np.einsum("hd,h->d", dense, g), sparse.T @ g])
    return (loss.value(scores) + float((l2 * w) @ w) / 2) / n, (slope + l2 * w) / n


def _standardise_dense(x: F64, better: I64, worse: I64) -> tuple[F64, F64]:
    """Features [U, D] divided by their scales [D]; a column that no pair tells apart has scale 0 and becomes 0."""
    peak = np.abs(x).max(axis=0, initial=0.0)
    np.divide(x, peak, out=x, where=peak > 0)
    squares, counts = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for k in range(0, len(better), CHUNK):
        diff = x[better[k : k + CHUNK]] - x[worse[k : k + CHUNK]]
        diff[np.abs(diff) <= FLOOR] = 0.0
        squares += np.einsum("kd,kd->d", diff, diff)
        counts += np.count_nonzero(diff, axis=0)
    rms = np.sqrt(squares / np.maximum(counts, 1))
    x *= np.divide(1.0, rms, out=np.zeros_like(rms), where=rms > 0)
    return x, peak * rms


def _standardise_sparse(x: csr_matrix, better: I64, worse: I64) -> tuple[csr_matrix, F64]:
    """The same for features [U, N] in CSR; the differences are never made dense."""
    n = x.shape[1]
    if not x.nnz:
        return x, np.zeros(n)
    peak = np.zeros(n)
    np.maximum.at(peak, x.indices, np.abs(x.data))
    x.data /= np.where(peak > 0, peak, 1.0)[x.indices]
    squares, counts = np.zeros(n), np.zeros(n)
    for k in range(0, len(better), CHUNK):
        diff = x[better[k : k + CHUNK]] - x[worse[k : k + CHUNK]]
        tells = np.abs(diff.data) > FLOOR
        squares += np.bincount(diff.indices[tells], diff.data[tells] ** 2, minlength=n)
        counts += np.bincount(diff.indices[tells], minlength=n)
    rms = np.sqrt(squares / np.maximum(counts, 1))
    x.data *= np.divide(1.0, rms, out=np.zeros(n), where=rms > 0)[x.indices]
    return x, peak * rms
