"""Features as small integers: the bins in which trees seek their thresholds.

Features are binned here and not by LightGBM. Bins that weigh a row by its occurrences make merging equal rows exact, whatever
the number of distinct values; and no border leaves fewer than ``least`` occurrences on a side, which the hessian c x_j² of
linear leaves cannot express.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..core.arrays import F64, I64, U8, Array, in_threads
from ..core.printed_numbers import EXACT, Precision
from .tree_options import TreeOptions

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix


_NUMBERS = 1 << 27  # of x that are held at a time, while it is read column by column: 1 GB


class Borders(NamedTuple):
    """Borders between a feature's bins, rising. Values up to low[k] are in bin k or below, those from high[k] on above it."""

    low: F64  # the largest value below each border
    high: F64  # the smallest above it
    precision: Precision = EXACT  # of the values

    def threshold(self, k: int) -> float:
        """A short decimal about midway: the rule a person reads is the rule that is applied."""
        return self.precision.between(float(self.low[k]), float(self.high[k]))


class Scale(NamedTuple):
    """z = x / scale - shift has mean square 1 over occurrences. Scale 0: no slope can be fitted on the feature."""

    scale: float = 0.0
    shift: float = 0.0


class Bins:
    """Codes of every feature: dense ones [D, V] by column, sparse ones where they are not the code of zero, which is 0.

    x may be larger than memory: it is read some columns at a time, and the codes are an eighth of it.
    """

    def __init__(
        self,
        x: F64,
        counts: F64,
        options: TreeOptions,
        *,
        sparse: csr_matrix | None,
        threads: int,
        given: Sequence[Borders] | None = None,
        precision: Sequence[Precision] | None = None,
    ) -> None:
        """Borders and scales of the dense features [D] are found here, by their precision; ``given``: borders alone."""
        n, d = x.shape
        self.codes: U8 = np.zeros((d, n), np.uint8)
        self.borders = [Borders(np.zeros(0), np.zeros(0))] * d
        self.scales = [Scale()] * d
        self.sparse: csc_matrix | None = None  # [V, len(kept)]
        self.kept = np.zeros(0, np.int64)  # the sparse features that can be split on
        self.zero: list[int] = []  # of each of those, the bin of 0

        def bin_column(f: int) -> None:
            column = block[f - first]
            values, which, mass = value_masses(column, counts)
            if given is not None:
                self.borders[f] = given[f]
            else:
                self.borders[f] = borders_of(values, mass, options, precision[f] if precision else EXACT)
                self.scales[f] = scale_of(values, mass, centred=options.leaves == "affine")
            self.codes[f] = np.searchsorted(self.borders[f].low, values)[which]  # the number of borders below each value

        if n:
            for first in range(0, d, width := max(threads, _NUMBERS // n)):
                some = range(first, min(first + width, d))
                block = np.ascontiguousarray(x[:, some.start : some.stop].T)
                in_threads(bin_column, some, threads)
        if sparse is not None and sparse.nnz:
            self._bin_sparse(sparse, counts, options)

    def _bin_sparse(self, sparse: csr_matrix, counts: F64, options: TreeOptions) -> None:
        # one side of every split holds non-zero values only, so a feature needs enough of those
        enough = np.flatnonzero((sparse != 0).T @ counts >= options.min_occurrences)
        columns = sparse[:, enough].tocsc()
        columns.sum_duplicates()
        total, kept = counts.sum(), []
        for k in range(len(enough)):
            here = slice(columns.indptr[k], columns.indptr[k + 1])
            weight = counts[columns.indices[here]]
            values, inverse = np.unique(np.append(columns.data[here], 0.0), return_inverse=True)
            mass: F64 = np.bincount(inverse, np.append(weight, total - weight.sum())).astype(np.float64)
            cuts = _cut(mass, options)
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

    def dataset(self, params: dict[str, Any], again: I64 | None = None, *, mirrored: bool = False) -> Any:
        """One LightGBM dataset of the codes: dense features, then the kept sparse ones. Each code gets a bin of its own.

        The rows ``again`` are in it once more, at its end; without sparse features only. With ``mirrored``, the dense features
        are followed by themselves with their codes in reverse order.
        """
        import lightgbm as lgb

        parts = []
        if len(self.codes):
            # A reference that shows every code fixes the bins without a sample. Arrow columns are read where they are.
            sizes = np.array([len(borders.low) + 1 for borders in self.borders[: len(self.codes)]])
            every = np.arange(sizes.max(), dtype=np.float64)[:, None] % sizes
            rows = [*self.codes] if again is None else [np.append(codes, codes[again]) for codes in self.codes]
            if mirrored:
                rows += [(size - 1 - codes).astype(codes.dtype) for size, codes in zip(sizes, rows, strict=True)]
                sizes, every = np.tile(sizes, 2), np.concatenate([every, sizes - 1 - every], axis=1)
            table = pa.table([pa.array(codes) for codes in rows], names=[str(f) for f in range(len(sizes))])
            parts.append(lgb.Dataset(table, params=params, reference=lgb.Dataset(every, params=params)))
        if self.sparse is not None:
            parts.append(lgb.Dataset(self.sparse, params={**params, "bin_construct_sample_cnt": self.sparse.shape[0]}))
        for part in parts:
            part.construct()
        return parts[0] if len(parts) == 1 else parts[0].add_features_from(parts[1])


def value_masses(column: F64, counts: F64) -> tuple[F64, I64, F64]:
    """The distinct values of a column [V], rising, which of them each row has [V], and the occurrences of each."""
    values, which = np.unique(column, return_inverse=True)
    return values, which.astype(np.int64), np.bincount(which, counts).astype(np.float64)


def borders_of(values: F64, mass: F64, options: TreeOptions, precision: Precision = EXACT) -> Borders:
    """Borders of at most max_bin bins over rising values of this mass; no side has less than min_occurrences.

    Values so near that they may be copies of one number are one value: no border lies between them.
    """
    last = np.arange(len(values))  # of the values that are one, the last
    if precision != EXACT:
        larger = np.where(np.abs(values[1:]) > np.abs(values[:-1]), values[1:], values[:-1])
        last = np.append(np.flatnonzero(np.diff(values) > precision.near(larger)), len(values) - 1)
        mass = np.add.reduceat(mass, np.append(0, last[:-1] + 1))  # no segment is empty
    cuts = last[_cut(mass, options)]
    return Borders(values[cuts], values[cuts + 1], precision)


def _cut(mass: F64, options: TreeOptions) -> I64:
    """Borders of bins over distinct rising values of this mass: positions i such that value i is the last of its bin.

    Every value its own bin where that is possible. Else bins of equal mass, where one value counts for no more than a bin: so
    a very frequent one (0, say) does not use up the bins of the others.
    """
    cuts = np.arange(len(mass) - 1)
    total, max_bin, least = mass.sum(), options.max_bin, options.min_occurrences
    if len(mass) > max_bin:
        capped = np.minimum(mass, total / max_bin)
        middle = np.cumsum(capped) - capped / 2
        bin_of = np.minimum((middle * (max_bin / capped.sum())).astype(np.int64), max_bin - 1)
        cuts = np.flatnonzero(np.diff(bin_of))
    left = np.cumsum(mass)[cuts]
    return np.asarray(cuts[(left >= least) & (total - left >= least)])


def scale_of(values: F64, mass: F64, *, centred: bool) -> Scale:
    """The scale of a feature, about its mean where asked; safe for values near the ends of float64."""
    largest, total = float(np.abs(values).max()), mass.sum()
    if largest == 0 or total == 0:
        return Scale()
    unit, share = values / largest, mass / total
    mean = float(unit @ share) if centred else 0.0
    spread = float(np.sqrt((unit - mean) ** 2 @ share))
    # a smaller spread is rounding error of a constant feature, a smaller scale would make slopes overflow
    return Scale(spread * largest, mean / spread) if spread > 1e-9 and spread * largest > 1e-290 else Scale()
