"""Features as small integers: the bins in which trees seek their thresholds.

Features are binned here and not by LightGBM. Bins that weigh a row by its occurrences make merging equal rows exact, whatever
the number of distinct values; and no border leaves fewer than ``least`` occurrences, or rows of fewer than ``least_owners``
sentences, on a side, which the hessian c x_j² of linear leaves cannot express.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .arrays import F64, I32, I64, U8, Array

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix


Owners: TypeAlias = tuple[I64, I32]
"""Of each row the sentences it occurs in: offsets [V+1] and their numbers."""


class Borders(NamedTuple):
    """Borders between a feature's bins, rising. Values up to low[k] are in bin k or below, those from high[k] on above it."""

    low: F64  # the largest value below each border
    high: F64  # the smallest above it

    def threshold(self, k: int) -> float:
        """The shortest decimal strictly between: the rule a person reads is the rule that is applied."""
        low, high = float(self.low[k]), float(self.high[k])
        for digits in range(1, 17):
            t = float(f"{low / 2 + high / 2:.{digits}g}")
            if low < t < high:
                return t
        return low


class Scale(NamedTuple):
    """z = x / scale - shift has mean square 1 over occurrences. Scale 0: no slope can be fitted on the feature."""

    scale: float = 0.0
    shift: float = 0.0


class Bins:
    """Codes of every feature: dense ones [D, V] by column, sparse ones where they are not the code of zero, which is 0."""

    def __init__(
        self,
        x: F64,
        counts: F64,
        *,
        max_bin: int,
        least: float,
        centred: bool,
        sparse: csr_matrix | None,
        threads: int,
        owners: Owners | None = None,
        least_owners: int = 0,
    ) -> None:
        n, d = x.shape
        self.codes: U8 = np.zeros((d, n), np.uint8)
        self.borders = [Borders(np.zeros(0), np.zeros(0))] * d
        self.scales = [Scale()] * d
        self.sparse: csc_matrix | None = None  # [V, len(kept)]
        self.kept = np.zeros(0, np.int64)  # the sparse features that can be split on
        self.zero: list[int] = []  # of each of those, the bin of 0

        def bin_column(f: int) -> None:
            column = np.ascontiguousarray(x[:, f], np.float64)
            order = np.argsort(column)
            column = column[order]
            starts = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
            values, mass = column[starts], np.add.reduceat(counts[order], starts)
            cuts = _cut(mass, max_bin=max_bin, least=least)
            if owners and least_owners:
                rank = np.empty(n, np.int64)
                rank[order] = np.repeat(np.arange(len(values)), np.diff(starts, append=n))
                cuts = cuts[_fewer_owners(rank, cuts, owners) >= least_owners]
            self.borders[f] = Borders(values[cuts], values[cuts + 1])
            self.scales[f] = _scale(values, mass, centred=centred)
            bin_of = np.searchsorted(cuts, np.arange(len(values))).astype(np.uint8)
            self.codes[f, order] = np.repeat(bin_of, np.diff(starts, append=n))

        if n:
            in_threads(bin_column, range(d), threads)
        if sparse is not None and sparse.nnz:
            self._bin_sparse(sparse, counts, max_bin=max_bin, least=least, owners=owners, least_owners=least_owners)

    def _bin_sparse(
        self, sparse: csr_matrix, counts: F64, *, max_bin: int, least: float, owners: Owners | None, least_owners: int
    ) -> None:
        # one side of every split holds non-zero values only, so a feature needs enough of those
        used = sparse != 0
        enough = used.T @ counts >= least
        if owners and least_owners:
            enough &= _sparse_owners(used, owners) >= least_owners
        enough = np.flatnonzero(enough)
        columns = sparse[:, enough].tocsc()
        columns.sum_duplicates()
        total, kept = counts.sum(), []
        for k in range(len(enough)):
            here = slice(columns.indptr[k], columns.indptr[k + 1])
            weight = counts[columns.indices[here]]
            values, inverse = np.unique(np.append(columns.data[here], 0.0), return_inverse=True)
            mass: F64 = np.bincount(inverse, np.append(weight, total - weight.sum())).astype(np.float64)
            cuts = _cut(mass, max_bin=max_bin, least=least)
            bin_of = np.searchsorted(cuts, inverse)
            columns.data[here] = bin_of[:-1] - bin_of[-1]
            if len(cuts):
                kept.append(k)
                self.borders.append(Borders(values[cuts], values[cuts + 1]))
                self.zero.append(int(bin_of[-1]))
        if kept:
            self.kept, self.sparse = enough[kept], columns[:, kept]

    @property
    def splittable(self) -> bool:
        return self.size > len(self.borders)

    @property
    def size(self) -> int:
        """The number of bins of all features."""
        return sum(len(borders.low) + 1 for borders in self.borders)

    def column(self, f: int) -> tuple[Array, int]:
        """Codes [V] of a feature, and the code of its lowest bin."""
        d = len(self.codes)
        if f < d:
            return self.codes[f], 0
        part = self.sparse[:, [f - d]]  # type: ignore[index]
        out = np.zeros(self.codes.shape[1], np.int16)
        out[part.indices] = part.data
        return out, -self.zero[f - d]

    def dataset(self, params: dict[str, Any]) -> Any:
        """One LightGBM dataset of the codes: dense features, then the kept sparse ones. Each code gets a bin of its own."""
        import lightgbm as lgb
        import pyarrow as pa

        parts = []
        if len(self.codes):
            # A reference that shows every code fixes the bins without a sample. Arrow columns are read where they are.
            sizes = np.array([len(borders.low) + 1 for borders in self.borders[: len(self.codes)]])
            every = np.arange(sizes.max(), dtype=np.float64)[:, None] % sizes
            table = pa.table([pa.array(codes) for codes in self.codes], names=[str(f) for f in range(len(sizes))])
            parts.append(lgb.Dataset(table, params=params, reference=lgb.Dataset(every, params=params)))
        if self.sparse is not None:
            parts.append(lgb.Dataset(self.sparse, params={**params, "bin_construct_sample_cnt": self.sparse.shape[0]}))
        for part in parts:
            part.construct()
        return parts[0] if len(parts) == 1 else parts[0].add_features_from(parts[1])


def _cut(mass: F64, *, max_bin: int, least: float) -> I64:
    """Borders of bins over distinct rising values of this mass: positions i such that value i is the last of its bin.

    Every value its own bin where that is possible. Else bins of equal mass, where one value counts for no more than a bin: so
    a very frequent one (0, say) does not use up the bins of the others.
    """
    cuts = np.arange(len(mass) - 1)
    total = mass.sum()
    if len(mass) > max_bin:
        capped = np.minimum(mass, total / max_bin)
        middle = np.cumsum(capped) - capped / 2
        bin_of = np.minimum((middle * (max_bin / capped.sum())).astype(np.int64), max_bin - 1)
        cuts = np.flatnonzero(np.diff(bin_of))
    left = np.cumsum(mass)[cuts]
    return np.asarray(cuts[(left >= least) & (total - left >= least)])


def _fewer_owners(rank: I64, cuts: I64, owners: Owners) -> I64:
    """For each cut the owners of rows on the side that has fewer of them: rank [V] of the rows' values, cut after a rank."""
    ptr, idx = owners
    n, of_row = int(idx.max(initial=-1)) + 1, np.repeat(rank, np.diff(ptr))
    lowest, highest = np.full(n, np.iinfo(np.int64).max), np.full(n, -1)
    np.minimum.at(lowest, idx, of_row)
    np.maximum.at(highest, idx, of_row)
    left = np.searchsorted(np.sort(lowest), cuts, side="right")
    right = n - np.searchsorted(np.sort(highest), cuts, side="right")
    return np.asarray(np.minimum(left, right))


def _sparse_owners(used: csr_matrix, owners: Owners) -> I64:
    """For each sparse feature the owners of the rows that have it."""
    from scipy.sparse import csr_matrix

    ptr, idx = owners
    rows = csr_matrix((np.ones(len(idx)), idx, ptr), shape=(len(ptr) - 1, int(idx.max(initial=-1)) + 1))
    return np.diff((rows.T @ used).tocsc().indptr)


def _scale(values: F64, mass: F64, *, centred: bool) -> Scale:
    """The scale of a feature, about its mean where asked; safe for values near the ends of float64."""
    largest, total = float(np.abs(values).max()), mass.sum()
    if largest == 0 or total == 0:
        return Scale()
    unit, share = values / largest, mass / total
    mean = float(unit @ share) if centred else 0.0
    spread = float(np.sqrt((unit - mean) ** 2 @ share))
    # a smaller spread is rounding error of a constant feature, a smaller scale would make slopes overflow
    return Scale(spread * largest, mean / spread) if spread > 1e-9 and spread * largest > 1e-290 else Scale()


def in_threads(task: Callable[[int], Any], items: Sequence[int], threads: int) -> list[Any]:
    """Results of the task in the order of the items."""
    if threads == 1 or len(items) < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(task, items))
