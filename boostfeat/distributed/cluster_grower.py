"""Growing a tree on a cluster: LightGBM's network finds the splits, the driver adds up what blocks give for the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import F64, I64, offsets, unique_rows
from ..core.errors import InputError
from ..core.printed_numbers import Precision
from ..trees.binning import Borders, borders_of
from ..trees.growing import Split, fit_leaves, grid_step
from ..trees.tree import Tree
from ..trees.tree_options import TreeOptions
from .block_range import BlockRange
from .worker_data import WorkerData
from .workers import Workers

_NUMBERS = 1 << 27  # values of rows that workers hold beside the store at a time: 1 GB in all


class Grown(NamedTuple):
    """A tree, the drop of the squared error, and the occurrences in each of its leaves."""

    tree: Tree
    gain: float
    fires: F64


class ClusterGrower:
    """Grower of constant leaves over the rows of the workers' parts; what it says of trees holds here."""

    def __init__(self, workers: Workers, options: TreeOptions, features: tuple[str, ...], *, seed: int) -> None:
        self.workers, self.options, self.seed = workers, options, seed
        counts = workers.each(BlockRange.settle, *self._shared())
        workers.later_each(BlockRange.complete_counts, self._completed(*zip(*counts, strict=True))[0])
        names, sizes = zip(*workers.shards(WorkerData.prepare_rows, features), strict=True)
        self.names: list[str] = names[0]
        self.n_rows, n = sum(sizes), len(workers.holders)
        given = None if n == 1 else self._features()
        self.borders = workers.shards(WorkerData.code_rows, given, seed, n)[0]
        self.splittable = any(len(borders.low) for borders in self.borders)
        if n > 1:
            workers.connect()

    def _shared(self) -> tuple[list[I64], list[I64]]:
        """Return units of each part that others have, too: whose row is here, and whose is that of an earlier part."""
        hashes = self.workers.each(BlockRange.hashes, self.workers.n_parts)
        ids, ptr = np.concatenate(hashes), offsets(np.array([len(own) for own in hashes]))
        first, unit = unique_rows(ids[:, :1], ids[:, 1:])
        is_first = first[unit] == np.arange(len(ids))
        hosts, guests = np.flatnonzero(is_first & (np.bincount(unit) > 1)[unit]), np.flatnonzero(~is_first)
        self._row_of, self._cuts = np.searchsorted(hosts, first[unit[guests]]), np.searchsorted(hosts, ptr[1:-1])
        parts = np.split(hosts, self._cuts), np.split(guests, np.searchsorted(guests, ptr[1:-1]))
        hosted, guest = ([own - start for own, start in zip(side, ptr[:-1], strict=True)] for side in parts)
        return hosted, guest

    def _completed(self, guests: Sequence[F64], rows: Sequence[F64]) -> tuple[list[F64], F64]:
        """Add up what shared units have, by host and as one, from what parts have of their guests and of such rows."""
        whole = np.concatenate(rows)
        np.add.at(whole, self._row_of, np.concatenate(guests))
        return np.split(whole, self._cuts), whole

    def _features(self) -> list[Borders]:
        """Borders from the values of all workers."""
        width = max(1, _NUMBERS // max(1, self.n_rows))
        precision = self.workers.shards(WorkerData.precision)[0]
        return [
            self._borders([masses[k] for masses in parts], precision[first + k])
            for first in range(0, len(self.names), width)
            for parts in [self.workers.shards(WorkerData.masses, first, min(first + width, len(self.names)))]
            for k in range(len(parts[0]))
        ]

    def _borders(self, parts: list[tuple[F64, F64]], precision: Precision) -> Borders:
        """Borders of a feature from its values and their occurrences: those of the corpus on one machine."""
        values, place = np.unique(np.concatenate([values for values, _ in parts]), return_inverse=True)
        mass = np.bincount(place, np.concatenate([mass for _, mass in parts]), minlength=len(values)).astype(np.float64)
        return borders_of(values, mass, self.options, precision) if len(values) else Borders(np.zeros(0), np.zeros(0))

    def grow(self, targets: list[tuple[F64, F64, float, float]]) -> Grown | None:
        """The tree that fits the targets, of which parts have given these."""
        guests, rows, most, sizes = zip(*targets, strict=True)
        by_host, whole = self._completed(guests, rows)
        size = np.abs(whole)
        largest, total = max(*most, float(size.max(initial=0.0))), sum(sizes) + float(size.sum())
        if largest == 0 or not self.splittable:
            return None
        self.workers.later(WorkerData.complete, by_host)
        splits, sums = self._agreed(-1 / largest, grid_step(total / largest))
        if not splits:
            return None
        c, g = np.sum(sums, axis=0).T
        gain, value, _ = fit_leaves(c, g, None, np.zeros(len(c)), leaves="constant")
        tree = self._tree(splits, value)
        return Grown(tree, gain, c[tree.leaves]) if gain > 0 else None

    def _agreed(self, scale: float, step: float) -> tuple[list[Split], list[F64]]:
        """The splits that all workers have found, and the sums of each over their leaves."""
        answers = self.workers.shards(WorkerData.grow, scale, step)
        splits: list[Split] = answers[0][0]
        for address, (other, _) in zip(self.workers.holders, answers, strict=True):
            if other != splits:
                raise InputError(
                    f"--engine dask: expected the same tree on all workers, found {splits} on {self.workers.holders[0]} and "
                    f"{other} on {address}; are all of them the same kind of machine?"
                )
        return splits, [sums for _, sums in answers]

    def _tree(self, splits: list[Split], value: F64) -> Tree:
        """The splits as a tree with these numbers in its leaves, its nodes as Grower numbers them."""
        n = 2 * len(splits) + 1
        feature, threshold = [""] * n, np.zeros(n)
        left, right = np.full((2, n), -1, np.int32)
        node_of = {0: 0}
        for k, (f, code, left_split, right_split) in enumerate(splits):
            node, child = node_of[k], 2 * k + 1
            feature[node], threshold[node] = self.names[f], self.borders[f].threshold(code)
            left[node], right[node] = child, child + 1
            node_of |= {left_split: child, right_split: child + 1}
        return Tree("tree", 1.0, "constant", None, tuple(feature), threshold, left, right, np.where(left < 0, value, 0.0))
