"""Named features of rows, dense and sparse side by side: of units, of hypotheses, of whatever trees and weights look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import F64

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Rows of named features: dense ones x [n, D] and, beside them, sparse ones [n, N]; no name occurs twice."""

    names: Sequence[str]
    x: F64
    sparse: Any = None  # any scipy.sparse matrix [n, N]
    sparse_names: Sequence[str] = ()

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: j for j, name in enumerate((*self.names, *self.sparse_names))}

    @cached_property
    def _by_column(self) -> csc_matrix:
        return self.sparse.tocsc()

    def __len__(self) -> int:
        return len(self.x)

    def column(self, name: str) -> F64:
        j, d = self._position.get(name, -1), self.x.shape[1]
        if 0 <= j < d:
            return np.ascontiguousarray(self.x[:, j], np.float64)
        if j < 0:
            return np.zeros(len(self))
        return np.asarray(self._by_column[:, [j - d]].toarray().ravel(), np.float64)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The dense names, then the sparse ones."""
        return (*self.names, *self.sparse_names)


def linear_scores(dense: F64, sparse: Any, w: F64) -> F64:
    """[n] dense [n, D] and sparse [n, N] (or None) features by weights [D + N]. Not by BLAS: its sums depend on its threads."""
    d = dense.shape[1]
    scores: F64 = np.einsum("nd,d->n", dense, w[:d])
    return scores if sparse is None or not sparse.nnz else scores + sparse @ w[d:]
