"""Products of pairs of features: the alternative to trees that [TA13]'s conclusion asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..lists.nbest import NBest
from .plan import product_name

ALIKE = 0.99  # two products whose cosine is above this are one
SUPPORT = 200  # a product must be non-zero in so many (unit, sentence) pairs: rare ones fit the gradient by chance
BLOCK = 1 << 15

Gradient = Callable[[NBest], tuple[F64, F64]]  # of a list: y = -dΨ/dF [V] at the PRO solution, and occurrences c [V]


def choose_products(nbest: NBest, k: int, gradient_of: Gradient) -> tuple[tuple[str, str], ...]:
    """The k products x_i x_j that fit the negative functional gradient best, at the PRO solution on the given features.

    y = g_v / c_v is the target of boosting's first round; β x_i x_j lowers the squared error by (Σ g x_i x_j)² / Σ c (x_i x_j)².
    Of products that are alike up to a factor, only the best is taken.
    """
    if not nbest.has_stats and not nbest.quality.names:
        raise InputError("products: expected a list with references to choose them by, found one without; import it with -r")
    gradient, counts = gradient_of(nbest)
    x, n = nbest.X, max(nbest.n_units, 1)
    first, second = np.triu_indices(x.shape[1])
    # in how many sentences' lists each unit occurs: hypotheses of a list repeat its units, and tell little more
    keys = np.unique(np.repeat(nbest.sent_of_hyp, np.diff(nbest.unit_ptr)) * n + nbest.unit_idx)
    sentences = np.bincount(keys % n, minlength=nbest.n_units).astype(np.float64)
    drop = _drops(x, gradient, counts, sentences)[first, second]
    chosen: list[tuple[int, int]] = []
    columns: list[F64] = []
    for p in np.argsort(-drop, kind="stable"):
        if len(chosen) == k or drop[p] <= 0:
            break
        i, j = int(first[p]), int(second[p])
        column = x[:, i] * x[:, j] * np.sqrt(counts)
        column /= np.linalg.norm(column)
        if all(abs(np.einsum("v,v->", column, other)) < ALIKE for other in columns):
            chosen.append((i, j))
            columns.append(column)
    return tuple((nbest.unit_names[i], nbest.unit_names[j]) for i, j in chosen)


def _drops(x: F64, gradient: F64, counts: F64, sentences: F64) -> F64:
    """[D, D] (Σ_v g x_i x_j)² / Σ_v c (x_i x_j)²; 0 where the product is 0 but in few places."""
    d = x.shape[1]
    slope, square, support = np.zeros((3, d, d))
    with threadpool_limits(1):  # sums of threads come in any order
        for a in range(0, len(x), BLOCK):
            part = x[a : a + BLOCK]
            slope += part.T @ (part * gradient[a : a + BLOCK, None])
            part = part**2
            square += part.T @ (part * counts[a : a + BLOCK, None])
            part = np.sign(part)
            support += part.T @ (part * sentences[a : a + BLOCK, None])
    return np.divide(slope**2, square, out=np.zeros((d, d)), where=support >= SUPPORT)


def add_products(nbest: NBest, pairs: Sequence[tuple[str, str]]) -> NBest:
    """The list with products of its unit features after them."""
    if not pairs:
        return nbest
    column = {name: k for k, name in enumerate(nbest.unit_names)}
    for name in (name for pair in pairs for name in pair):
        if name not in column:
            raise InputError(f"products: expected a list with feature {name!r}, found none; featurize it as the dev list was")
    at: I64 = np.array([[column[a], column[b]] for a, b in pairs])
    d = len(nbest.unit_names)
    x = np.empty((nbest.n_units, d + len(pairs)))
    x[:, :d] = nbest.X
    for k, (i, j) in enumerate(at):
        np.multiply(x[:, i], x[:, j], out=x[:, d + k])
    x[:, d:] += 0.0  # -0.0 becomes 0.0
    return replace(nbest, units=replace(nbest.units, x=x), unit_names=(*nbest.unit_names, *map(product_name, pairs)))
