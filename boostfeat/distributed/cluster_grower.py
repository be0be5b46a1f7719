"""Growing a tree on a cluster: LightGBM's network finds the splits, the driver adds up what blocks give for the leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..core.printed_numbers import Precision
from ..trees.binning import Borders, Scale, borders_of, scale_of
from ..trees.growing import LEAST_ENERGY, Split, fit_leaves, kept_splits
from ..trees.growing_kernels import grid_step
from ..trees.slope_search import SlopeSearch, sample_size
from ..trees.tree import Tree
from ..trees.tree_options import TreeOptions
from .block_range import BlockRange, in_order
from .worker_data import WorkerData
from .workers import Workers, flat

_NUMBERS = 1 << 27  # values of rows that workers hold beside the store at a time: 1 GB in all
_Task: TypeAlias = tuple[int, float, float, float, float]
"""What LightGBM splits by: the feature of linear leaves or -1, scale and step of gradients, step of hessians, least hessian."""


class Grown(NamedTuple):
    """A tree, the drop of the squared error, the occurrences in each of its leaves, and what workers know it by."""

    tree: Tree
    gain: float
    fires: F64
    splits: list[Split]
    on: int


class ClusterGrower:
    """Grower over the rows of the workers' parts; what it says of trees holds here."""

    def __init__(self, workers: Workers, options: TreeOptions, features: tuple[str, ...], *, seed: int) -> None:
        self.workers, self.options, self.seed = workers, options, seed
        self._exchange()
        names, sizes, counts = zip(*workers.shards(WorkerData.prepare_rows, features), strict=True)
        self.names: list[str] = names[0]
        self.n_rows, self._total, n = sum(sizes), sum(counts), len(workers.members)
        given = None if n == 1 else self._features()
        found = workers.shards(WorkerData.code_rows, given, seed, n)[0]
        self.borders, self.scales = [borders for borders, _ in found], [scale for _, scale in found]
        self.splittable = any(len(borders.low) for borders in self.borders)
        if n > 1:
            workers.connect()

    def _exchange(self) -> None:
        """Find out which part sends which units to which: of a unit of several, the first has the row."""
        each = self.workers.each
        self.workers.later(WorkerData.settle)
        guests = each(BlockRange.guests)
        hosts, units = (np.concatenate(side) for side in zip(*guests, strict=True))
        shared, self._row_of = np.unique(np.stack([hosts, units]), axis=1, return_inverse=True)  # by host, then unit
        self._cuts = np.searchsorted(shared[0], np.arange(1, len(guests)))
        counts = each(BlockRange.adopt, np.split(shared[1], self._cuts))
        self.workers.later_each(BlockRange.complete_counts, self._completed(*zip(*counts, strict=True))[0])

    def _completed(self, guests: Sequence[F64], rows: Sequence[F64]) -> tuple[list[F64], F64]:
        """Add up what shared units have, by host and as one, from what parts have of their guests and of such rows."""
        whole = np.concatenate(rows)
        np.add.at(whole, self._row_of.ravel(), np.concatenate(guests))
        return np.split(whole, self._cuts), whole

    def _features(self) -> list[tuple[Borders, Scale]]:
        """Borders and scales from the values of all workers."""
        width = max(1, _NUMBERS // max(1, self.n_rows))
        precision = self.workers.shards(WorkerData.precision)[0]
        return [
            self._feature([masses[k] for masses in parts], precision[first + k])
            for first in range(0, len(self.names), width)
            for parts in [self.workers.shards(WorkerData.masses, first, min(first + width, len(self.names)))]
            for k in range(len(parts[0]))
        ]

    def _feature(self, parts: list[tuple[F64, F64]], precision: Precision) -> tuple[Borders, Scale]:
        """Borders and scale of a feature from its values and their occurrences: those of the corpus on one machine."""
        options = self.options
        values, mass = parts[0]
        if len(parts) > 1:
            values, at = np.unique(np.concatenate([v for v, _ in parts]), return_inverse=True)
            mass = np.bincount(at, np.concatenate([m for _, m in parts]), minlength=len(values)).astype(np.float64)
        if not len(values):
            return Borders(np.zeros(0), np.zeros(0)), Scale()
        return borders_of(values, mass, options, precision), scale_of(values, mass, centred=options.leaves == "affine")

    def grow(self, targets: list[tuple[F64, F64, float, float]]) -> Grown | None:
        """The tree that fits the targets, of which parts have given these."""
        guests, rows, most, sizes = zip(*targets, strict=True)
        by_host, whole = self._completed(guests, rows)
        size = np.abs(whole)
        largest, total = max(*most, float(size.max(initial=0.0))), sum(sizes) + float(size.sum())
        if largest == 0 or not self.splittable:
            return None
        self.workers.later(WorkerData.complete, by_host)
        if self.options.leaves == "constant":  # LightGBM keeps enough in every leaf
            splits, sums = self._agreed(WorkerData.constant, *self._constant(largest, total), self.options.max_leaves)
            return self._best([self._fit(splits, -1, sums)] if splits else [])
        plain = self._structure(self._constant(largest, total)) if self.options.leaves == "affine" else []
        features = sorted(self._candidates().tolist())  # of equal gains the first wins
        found = [(structure, j) for j in features for structure in (self._structure(self._sloped(j, largest)), plain)]
        return self._best([self._fit(structure, j) for structure, j in found if structure])

    def _best(self, fits: list[Grown]) -> Grown | None:
        best = max(fits, key=lambda fit: fit.gain, default=None)
        return best if best is not None and best.gain > 0 else None

    # -- structure -----------------------------------------------------------------------------------------------------

    def _constant(self, largest: float, total: float) -> _Task:
        scale = -1 / largest
        return -1, scale, grid_step(total * abs(scale)), 0.0, self.options.min_occurrences * (1 - 1e-6)

    def _sloped(self, j: int, largest: float) -> _Task:
        total, energy = (
            float(np.concatenate(side).sum()) for side in zip(*self.workers.shards(WorkerData.energy, j), strict=True)
        )
        scale = -1 / largest
        # Deviation: Grower allows leaves of less; LightGBM's network fails where a leaf has a share of less than a row
        least = max(LEAST_ENERGY, 2 * self._total / self.n_rows)
        return j, scale, grid_step(total * abs(scale)), grid_step(energy), least

    def _structure(self, task: _Task) -> list[Split]:
        """Splits that leave enough on both sides, up to max_leaves; see Grower on what is dropped."""
        most = self.options.max_leaves
        kept, dropped = self._kept(task, most)
        if dropped and len(kept) < most - 1:
            kept, _ = self._kept(task, 4 * most)
        return kept

    def _agreed(self, method: Callable[..., Any], *arguments: Any) -> tuple[list[Split], list[Any]]:
        """The splits that all workers have found, and what each says of them."""
        found = self.workers.shards(method, *arguments)
        splits: list[Split] = found[0][0]
        for address, (other, _) in zip(self.workers.members, found, strict=True):
            if other != splits:
                first = next(iter(self.workers.members))
                raise InputError(
                    f"--engine dask: expected the same tree on all workers, found {splits} on {first} and {other} on {address}; "
                    "are all of them the same kind of machine?"
                )
        return splits, [about for _, about in found]

    def _kept(self, task: _Task, most: int) -> tuple[list[Split], bool]:
        splits, below = self._agreed(WorkerData.sequence, *task, most)
        return kept_splits(splits, sum(below), self.options)

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _fit(self, splits: list[Split], j: int, known: Sequence[F64] = ()) -> Grown:
        """Least squares in each leaf, from sums of workers; those of constant leaves may be known."""
        options = self.options
        tree = self._tree(splits, j)
        scale, shift = self.scales[j] if j >= 0 else (1.0, 0.0)
        n = len(tree.feature)
        centre, slopes = np.zeros(n), None
        if j < 0:
            c, g = np.sum(known or self.workers.shards(WorkerData.leaf_sums, splits), axis=0).T
        else:
            c, g, slopes = self._slopes(splits, j, centre)
            if options.leaves == "affine":
                centre = np.divide(slopes[:, 0], c, out=centre, where=c > 0)
                c, g, slopes = self._slopes(splits, j, centre)
        gain, value, intercept = fit_leaves(c, g, slopes, centre, leaves=options.leaves)
        if j >= 0:
            value, intercept = value / scale, intercept - value * shift
        if options.leaves != "affine":
            intercept = np.zeros(n)
        leaves = tree.left < 0
        value, intercept = np.where(leaves, value, 0.0), np.where(leaves, intercept, 0.0)
        made = Tree("tree", 1.0, tree.leaf, tree.on, tree.feature, tree.threshold, tree.left, tree.right, value, intercept)
        return Grown(made, gain, c[tree.leaves], splits, j)

    def _slopes(self, splits: list[Split], j: int, centre: F64) -> tuple[F64, F64, F64]:
        """Σ c, Σ g and Σ (c z, z g, c z²) of leaves."""
        sums, slopes = zip(*self.workers.shards(WorkerData.slope_sums, splits, j, centre), strict=True)
        c, g = np.sum(sums, axis=0).T
        return c, g, in_order(flat(slopes))

    def _tree(self, splits: list[Split], j: int) -> Tree:
        """The splits as a tree without numbers in its leaves, its nodes as Grower numbers them."""
        n = 2 * len(splits) + 1
        feature, threshold = [""] * n, np.zeros(n)
        left, right = np.full((2, n), -1, np.int32)
        node_of = {0: 0}
        for k, (f, code, left_split, right_split) in enumerate(splits):
            node, child = node_of[k], 2 * k + 1
            feature[node], threshold[node] = self.names[f], self.borders[f].threshold(code)
            left[node], right[node] = child, child + 1
            node_of |= {left_split: child, right_split: child + 1}
        on = self.names[j] if j >= 0 else None
        return Tree("tree", 1.0, self.options.leaves, on, tuple(feature), threshold, left, right, np.zeros(n))

    # -- which feature leaves are linear in ----------------------------------------------------------------------------

    def _candidates(self) -> I64:
        """Rank features as SlopeSearch.rank, on rows that the blocks send."""
        features = np.flatnonzero([s.scale > 0 for s in self.scales])
        if len(features) <= self.options.candidates:
            return features
        shares = [block for parts in self.workers.shards(WorkerData.shares) for block in parts]
        g_total, c_total = (sum(side) for side in zip(*shares, strict=True))
        size = sample_size(self.n_rows, len(self.names))
        ends = np.cumsum([g / (2 * g_total) + c / (2 * c_total) for g, c in shares])
        points: list[Any] = [None] * len(shares)
        if self.n_rows > size:
            every = (np.arange(size) + np.random.default_rng(self.seed).random()) * (ends[-1] / size)
            block = np.minimum(np.searchsorted(ends, every), len(ends) - 1)
            points = [every[block == k] - (ends[k - 1] if k else 0.0) for k in range(len(ends))]
        found = [rows for part in self.workers.shards(WorkerData.sample, points, g_total, c_total) for rows in part]
        x, codes, c, g, share = (
            np.concatenate(column, axis=axis) for column, axis in zip(zip(*found, strict=True), (0, 1, 0, 0, 0), strict=True)
        )
        weight = 1 / (size * share) if self.n_rows > size else np.ones(len(g))
        bins: Any = SimpleNamespace(codes=codes, borders=self.borders, scales=self.scales)
        affine = self.options.leaves == "affine"
        search = SlopeSearch(x, weight * c, bins, affine=affine, threads=1, seed=self.seed)
        search.sample = len(x)
        return search.rank(weight * g, self.options.candidates)
