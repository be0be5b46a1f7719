"""Growing a tree on a cluster: LightGBM's network finds the splits, the driver adds up what blocks give for the leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import F64, I64
from ..bins import Borders, Scale, borders_of, scale_of
from ..errors import InputError
from ..grow import LEAST_ENERGY, TreeOptions, fit_leaves
from ..grow_kernels import grid_step
from ..slopes import SlopeSearch, sample_size
from ..tree import Tree
from .fleet import Fleet
from .shard import Split


class Grown(NamedTuple):
    """A tree, the drop of the squared error, and the occurrences in each of its leaves."""

    tree: Tree
    gain: float
    fires: F64


class ClusterGrower:
    """Grower over the rows of a fleet's blocks; what it says of trees holds here."""

    def __init__(self, fleet: Fleet, options: TreeOptions, features: tuple[str, ...], *, seed: int) -> None:
        self.fleet, self.options, self.seed = fleet, options, seed
        self._exchange()
        names, sizes = zip(*fleet.shards("prepare_rows", features), strict=True)
        self.names: list[str] = names[0]
        self.n_rows = sum(sizes)
        given = [self._feature(f) for f in range(len(self.names))]
        self.borders, self.scales = [borders for borders, _ in given], [scale for _, scale in given]
        self.splittable = any(len(borders.low) for borders in self.borders)
        fleet.shards("code_rows", given, seed)
        fleet.connect()
        self._total = float(sum(fleet.each("n_occurrences")))

    def _exchange(self) -> None:
        """Find out which block sends which units to which."""
        each = self.fleet.each
        self.fleet.shards("settle")
        hosts, units = (np.concatenate(side) for side in zip(*each("guests"), strict=True))
        self._order = np.argsort(hosts, kind="stable")
        self._cuts = np.searchsorted(hosts[self._order], np.arange(1, len(each("n_occurrences"))))
        each("adopt_counts", self._sent(each("adopt", self._sent([units]))))

    def _sent(self, values: list[Any]) -> list[Any]:
        """What blocks have of their guests, by host."""
        return np.split(np.concatenate(values)[self._order], self._cuts)

    def _feature(self, f: int) -> tuple[Borders, Scale]:
        """Borders and scale of a feature from the values of all workers: those of the corpus on one machine."""
        options = self.options
        parts = self.fleet.shards("masses", f)
        values, mass = parts[0]
        if len(parts) > 1:
            values, at = np.unique(np.concatenate([v for v, _ in parts]), return_inverse=True)
            mass = np.bincount(at, np.concatenate([m for _, m in parts]), minlength=len(values))
        if not len(values):
            return Borders(np.zeros(0), np.zeros(0)), Scale()
        borders = borders_of(values, mass, max_bin=options.max_bin, least=options.min_occurrences)
        if options.min_sentences and len(borders.low):
            pairs = [pair for found in self.fleet.shards("ranges", f) for pair in found]
            lowest, highest = (np.sort(np.concatenate(side)) for side in zip(*pairs, strict=True))
            left = np.searchsorted(lowest, borders.low, side="right")
            right = len(highest) - np.searchsorted(highest, borders.low, side="right")
            enough = np.minimum(left, right) >= options.min_sentences
            borders = Borders(borders.low[enough], borders.high[enough])
        return borders, scale_of(values, mass, centred=options.leaves == "affine")

    def grow(self, targets: list[F64], *, draw: int) -> Grown | None:
        """The tree that fits the targets of the blocks, whose parts for guests these are."""
        sizes = self.fleet.each("adopt_target", self._sent(targets))
        largest, total = max(most for most, _ in sizes), sum(size for _, size in sizes)
        if largest == 0 or not self.splittable:
            return None
        plain = self._constant(largest, total, draw) if self.options.leaves != "linear" else []
        if self.options.leaves == "constant":
            fits = [self._fit(plain, -1)] if plain else []
        else:
            features = sorted(self._candidates().tolist())  # of equal gains the first wins
            found = [(structure, j) for j in features for structure in (self._sloped(j, largest, draw), plain)]
            fits = [self._fit(structure, j) for structure, j in found if structure]
        best = max(fits, key=lambda fit: fit.gain, default=None)
        return best if best is not None and best.gain > 0 else None

    # -- structure -----------------------------------------------------------------------------------------------------

    def _constant(self, largest: float, total: float, draw: int) -> list[Split]:
        scale = -1 / largest
        least = self.options.min_occurrences * (1 - 1e-6)
        return self._structure(-1, scale, grid_step(total * abs(scale)), 0.0, least, draw)

    def _sloped(self, j: int, largest: float, draw: int) -> list[Split]:
        total, energy = (float(np.concatenate(side).sum()) for side in zip(*self.fleet.shards("energy", j), strict=True))
        scale = -1 / largest
        # Deviation: Grower allows leaves of less; LightGBM's network fails where a leaf has a share of less than a row
        least = max(LEAST_ENERGY, 2 * self._total / self.n_rows)
        return self._structure(j, scale, grid_step(total * abs(scale)), grid_step(energy), least, draw)

    def _structure(self, on: int, scale: float, step: float, hess_step: float, least: float, draw: int) -> list[Split]:
        """Splits that leave enough on both sides, up to max_leaves; see Grower on what is dropped."""
        most = self.options.max_leaves
        kept, dropped = self._kept(on, scale, step, hess_step, least, most, draw)
        if dropped and len(kept) < most - 1:
            kept, _ = self._kept(on, scale, step, hess_step, least, 4 * most, draw)
        return kept

    def _kept(
        self, on: int, scale: float, step: float, hess_step: float, least: float, most: int, draw: int
    ) -> tuple[list[Split], bool]:
        found = self.fleet.shards("sequence", on, scale, step, hess_step, least, most, draw)
        splits: list[Split] = found[0][0]
        for address, (other, _, _) in zip(self.fleet.members, found, strict=True):
            if other != splits:
                first = next(iter(self.fleet.members))
                raise InputError(
                    f"--engine dask: expected the same tree on all workers, found {splits} on {first} and {other} on {address}; "
                    "are all of them the same kind of machine?"
                )
        counts: F64 = sum(c for _, c, _ in found)
        sentences: I64 = sum(s for _, _, s in found)
        kept: list[Split] = []
        place: dict[int, tuple[int, int]] = {0: (-1, 0)}  # of a split: which of those kept it is below, and on what side
        dropped = False
        for k, (f, code, left, right) in enumerate(splits):
            if len(kept) >= self.options.max_leaves - 1 or k not in place:
                continue
            few = counts[k].min() < self.options.min_occurrences
            if few or (self.options.min_sentences and sentences[k].min() < self.options.min_sentences):
                dropped = True
                continue
            parent, side = place[k]
            if parent >= 0:
                row = list(kept[parent])
                row[side] = len(kept)
                kept[parent] = tuple(row)  # type: ignore[assignment]
            place |= {left: (len(kept), 2), right: (len(kept), 3)}
            kept.append((f, code, -1, -1))
        return kept, dropped

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _fit(self, splits: list[Split], j: int) -> Grown:
        """Least squares in each leaf, from sums over blocks."""
        options = self.options
        tree = self._tree(splits, j)
        scale, shift = self.scales[j] if j >= 0 else (1.0, 0.0)
        n = len(tree.feature)
        centre = np.zeros(n) if j >= 0 else None
        found: F64 = sum(self.fleet.each("leaf_sums", tree, scale, shift, centre))
        c, g = found[:, 0], found[:, 1]
        if j >= 0 and options.leaves == "affine":
            centre = np.divide(found[:, 2], c, out=np.zeros(n), where=c > 0)
            found = sum(self.fleet.each("leaf_sums", tree, scale, shift, centre))
        slopes = found[:, 2:] if j >= 0 else None
        gain, value, intercept = fit_leaves(
            c, g, slopes, centre if centre is not None else np.zeros(n), leaves=options.leaves, l2=options.leaf_l2
        )
        if j >= 0:
            value, intercept = value / scale, intercept - value * shift
        if options.leaves != "affine":
            intercept = np.zeros(n)
        leaves = tree.left < 0
        value, intercept = np.where(leaves, value, 0.0), np.where(leaves, intercept, 0.0)
        made = Tree("tree", 1.0, tree.leaf, tree.on, tree.feature, tree.threshold, tree.left, tree.right, value, intercept)
        return Grown(made, gain, c[tree.leaves])

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
        """As SlopeSearch.rank, on rows that the blocks send."""
        features = np.flatnonzero([s.scale > 0 for s in self.scales])
        if len(features) <= self.options.candidates:
            return features
        shares = [block for parts in self.fleet.shards("shares") for block in parts]
        g_total, c_total = (sum(side) for side in zip(*shares, strict=True))
        size = sample_size(self.n_rows, len(self.names))
        ends = np.cumsum([g / (2 * g_total) + c / (2 * c_total) for g, c in shares])
        points: list[Any] = [None] * len(shares)
        if self.n_rows > size:
            every = (np.arange(size) + np.random.default_rng(self.seed).random()) * (ends[-1] / size)
            block = np.minimum(np.searchsorted(ends, every), len(ends) - 1)
            points = [every[block == k] - (ends[k - 1] if k else 0.0) for k in range(len(ends))]
        found = [rows for part in self.fleet.shards("sample", points, g_total, c_total) for rows in part]
        x, codes, c, g, share = (
            np.concatenate(column, axis=axis) for column, axis in zip(zip(*found, strict=True), (0, 1, 0, 0, 0), strict=True)
        )
        weight = 1 / (size * share) if self.n_rows > size else np.ones(len(g))
        bins: Any = SimpleNamespace(codes=codes, borders=self.borders, scales=self.scales)
        affine = self.options.leaves == "affine"
        search = SlopeSearch(x, weight * c, bins, affine=affine, leaf_l2=self.options.leaf_l2, threads=1, seed=self.seed)
        search.sample = len(x)
        return search.rank(weight * g, self.options.candidates)
