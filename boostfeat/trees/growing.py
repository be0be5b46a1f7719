"""Growing a tree on the negative gradient by least squares, with LightGBM [TA13 Figure 3 line 4].

    h = argmin Σ_v c_v (g_v / c_v - h(x_v))²        g = A' P' σ(-z), c_v occurrences of unit v

LightGBM grows the structure on one binned dataset made once: constant leaves from grad = -g, hess = c, leaves linear in x_j
from grad = -x_j g, hess = c x_j². Its gradients are float32, so the numbers in the leaves are fitted here, in float64.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I32, I64, Array, in_ranges
from ..core.feature_table import FeatureTable
from ..core.kernels import kernel
from ..core.printed_numbers import Precision
from .binning import Bins
from .slope_search import SlopeSearch
from .tree import Tree, descend, leaf_outputs
from .tree_options import LeafKind, TreeOptions

LEAST_ENERGY = 1e-3  # of a linear leaf, Σ c x_j² with x_j scaled to a mean square of 1: the slope is defined
_CACHED_BINS = 16_384  # 16 bytes each
_COPIED_CODES = 1 << 28  # bytes
_PARTS = 12  # of rows: sums of each, then of all
_MIRRORED = 100  # occurrences in a leaf, at least, below which LightGBM gets every dense feature a second time, in reverse
Split = tuple[int, int, int, int]  # feature, code up to which rows go left, splits of the left and right child or -1
_SILENT = logging.Logger("lightgbm", logging.CRITICAL)  # it prints even with verbosity -1, and nothing that is for our users
_TREES_A_BOOSTER = 256  # LightGBM keeps its trees; taking one back costs as much as a third of growing it


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree (weight 1) and what it gives on the rows it was grown on."""

    tree: Tree
    gain: float  # the drop of the squared error from that of h = 0
    leaf_of: I32  # [V] node of each row
    h: F64  # [V] the tree's prediction, bit for bit
    fires: F64  # of each leaf, in their order: the occurrences of its rows


class _Structure(NamedTuple):
    """A grown tree without numbers in its leaves."""

    feature: list[int]  # of each node, -1 at leaves
    cut: list[int]  # border of that feature
    left: list[int]
    right: list[int]
    leaf_of: I32  # [V]


class _Candidate(NamedTuple):
    """A structure with numbers in its leaves."""

    gain: float
    value: F64  # in terms of z
    intercept: F64
    on: int  # -1 for constant leaves
    structure: _Structure
    counts: F64  # of each node, in leaves


class Grower:
    """Grows trees on one training set: features x [V, D] and counts [V] stay, the gradient changes.

    Constant leaves are what LightGBM grows. For linear leaves ``options.candidates`` features j are grown fully, and the one with
    the smallest squared error wins. These are the best by the gain of a single split over all pairs (j, split feature) of dense
    features at 64 bins, estimated on a sample of rows (see SlopeSearch). So it may miss a j that pays off only from
    the second split on, only by a split on a sparse feature, or by less than the error of the sample; of features that are
    multiples of each other one is grown. As many candidates as features miss nothing; the share of their gain over rounds on
    Finnish-English lists is 99% for 2 linear leaves, 93% for 4 and 8; 100% and 93% for 2 and 4 affine ones.
    Affine leaves: two structures for each j, that of constant leaves and that of slopes about the mean, fitted by least squares.
    j is a dense feature: a linear leaf on an indicator is a constant leaf under a split on it, which constant leaves offer.

    Every leaf holds at least ``min_occurrences``. The bins see to it for the first split of any tree, LightGBM itself for all
    splits of constant leaves. Otherwise LightGBM's splits are replayed in its
    order; one that leaves too few is dropped with all below it, and those after it move up. (Its second-best is not tried.)

    The result is the same for any number of threads.
    """

    _again: I64 | None = None  # rows that LightGBM is given several times

    def __init__(
        self,
        table: FeatureTable,
        counts: F64,
        options: TreeOptions,
        *,
        threads: int = 1,
        seed: int = 0,
        precision: Sequence[Precision] | None = None,
    ) -> None:
        x, self.options, self.threads, self.seed = table.x, options, threads, seed
        self._x, self._c = x, np.ascontiguousarray(counts, np.float64)
        self._bins = Bins(x, self._c, options, sparse=table.sparse, threads=threads, precision=precision)
        self._names = [*table.names, *(str(table.sparse_names[int(k)]) for k in self._bins.kept)]
        self._dataset = self._make_dataset() if self._bins.splittable else None
        self._boosters: dict[tuple[float, int], Any] = {}
        self._grad, self._hess, self._counts = np.empty((3, len(x)), np.float32)  # LightGBM reads them; counts are a hessian
        to_grid(self._c, 1.0, self._counts)
        self._search = SlopeSearch(x, self._c, self._bins, affine=options.leaves == "affine", threads=threads, seed=seed)

    def grow(self, g: F64) -> GrownTree | None:
        """Return the tree that fits -dΨ/dF = g [V]; None where no split lowers the squared error."""
        if self._dataset is None:  # no rows, or none that a split could part
            return None
        largest = float(max(g.max(), -g.min()))
        if not np.isfinite(largest):
            raise ValueError(f"gradient: expected finite numbers, found {largest}")
        if largest == 0:
            return None
        g = np.ascontiguousarray(g, np.float64)
        shared = None
        if self.options.leaves != "linear":  # what LightGBM grows: the hessian is the count, so that its own limit keeps enough
            to_grid(g, -1 / largest, self._grad)  # occurrences in every leaf
            splits = self._split_sequence(self._counts, self.options.min_occurrences * (1 - 1e-6), self.options.max_leaves)
            shared = self._descended(splits) if splits else None
        if self.options.leaves == "constant":
            fits = [self._fit(g, shared, -1, np.zeros(0))] if shared else []
        else:
            fits = self._slope_fits(g, largest, shared)
        best = max(fits, key=lambda fit: (fit.gain, -fit.on), default=None)
        return self._finish(best) if best is not None and best.gain > 0 else None

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _slope_fits(self, g: F64, largest: float, shared: _Structure | None) -> list[_Candidate]:
        fits = []
        for j in self._search.rank(g, self.options.candidates).tolist():
            scale, shift = self._bins.scales[j]
            z = self._x[:, j] / scale - shift
            to_grid(z * g, -1 / largest, self._grad)
            to_grid(self._c * z * z, 1.0, self._hess)
            own = self._structure(self._hess, least_hessian=max(LEAST_ENERGY, 1e-9 * float(self._c.sum())))
            fits += [self._fit(g, structure, j, z) for structure in (own, shared) if structure]
        return fits

    def _fit(self, g: F64, structure: _Structure, j: int, z: F64) -> _Candidate:
        """Least squares in each leaf: b = Σg / Σc, or b = Σxg / Σcx² (about the leaf's mean of x for affine leaves)."""
        n = len(structure.feature)
        slopes, centre = np.zeros((n, 3)), np.zeros(n)
        c, sum_g = self._leaf_sums(g, structure.leaf_of, n)
        if j < 0:
            return _Candidate(*fit_leaves(c, sum_g, None, centre, leaves=self.options.leaves), j, structure, c)
        slope_sums(structure.leaf_of, self._c, g, z, centre, slopes)
        if self.options.leaves == "affine":
            centre = _ratio(slopes[:, 0], c)
            slopes[:] = 0.0  # a second pass: differences of large sums would lose the spread of a narrow leaf
            slope_sums(structure.leaf_of, self._c, g, z, centre, slopes)
        return _Candidate(*fit_leaves(c, sum_g, slopes, centre, leaves=self.options.leaves), j, structure, c)

    def _leaf_sums(self, g: F64, leaf_of: I32, n: int) -> F64:
        """[2, n] Σ (c, g) over the rows of each of n nodes: sums of the same parts in any number of threads."""
        cuts = [len(g) * k // _PARTS for k in range(_PARTS + 1)]
        out = np.zeros((_PARTS, 4, n, 2))

        def add(some: slice) -> None:
            for k in range(some.start, some.stop):
                rows = slice(cuts[k], cuts[k + 1])
                sums(leaf_of[rows], self._c[rows], g[rows], out[k])

        in_ranges(add, _PARTS, self.threads)
        return out.sum(axis=(0, 1)).T

    def _finish(self, fit: _Candidate) -> GrownTree:
        """From codes and z to thresholds and x, from numbers to names."""
        s, bins = fit.structure, self._bins
        value, intercept, x = fit.value, fit.intercept, None
        if fit.on >= 0:
            scale, shift = bins.scales[fit.on]
            value, intercept = value / scale, intercept - value * shift
            x = np.ascontiguousarray(self._x[:, fit.on], np.float64)
        tree = Tree(
            name="tree",
            weight=1.0,
            leaf=self.options.leaves,
            on=self._names[fit.on] if fit.on >= 0 else None,
            feature=tuple(self._names[f] if f >= 0 else "" for f in s.feature),
            threshold=np.array([bins.borders[f].threshold(k) if f >= 0 else 0.0 for f, k in zip(s.feature, s.cut, strict=True)]),
            left=np.array(s.left, np.int32),
            right=np.array(s.right, np.int32),
            value=value,
            intercept=intercept if self.options.leaves == "affine" else np.zeros(len(value)),
        )
        h = leaf_outputs(s.leaf_of, value=tree.value, intercept=tree.intercept, x=x, threads=self.threads)
        return GrownTree(tree, fit.gain, s.leaf_of, h, fit.counts[tree.leaves])

    # -- structure ---------------------------------------------------------------------------------------------------

    def _make_dataset(self) -> Any:
        import lightgbm as lgb

        lgb.register_logger(_SILENT)
        return self._bins.dataset(self._params(), self._again, mirrored=self._is_mirrored)

    @property
    def _is_mirrored(self) -> bool:
        """Whether LightGBM sees dense features from both ends, as it has to where leaves may be small.

        From the highest bin on it adds up the rows of bins, each rounded, and stops where they are more than there are: it may
        not see the splits of the lowest values. Rounding at most doubles the rows, so these splits are seen from the other end.
        """
        return self.options.min_occurrences < _MIRRORED

    def _params(self, **more: Any) -> dict[str, Any]:
        # by rows is faster while the histograms fit the cache; but it takes another copy of all codes
        by_rows = self._bins.size <= _CACHED_BINS and self._bins.codes.nbytes <= _COPIED_CODES
        return {
            "objective": "none",
            "min_data_in_leaf": 0,  # LightGBM counts rows by their share of the hessian
            "min_data_in_bin": 1,
            "enable_bundle": False,  # bundles may lose a few rows of rare features
            "deterministic": True,
            # how histograms are made: the sums are the same. Left to itself, LightGBM would try both ways, by the clock
            "force_row_wise": by_rows,
            "force_col_wise": not by_rows,
            "num_threads": self.threads,
            "verbosity": -1,
            **more,
        }

    def _structure(self, hess: Array, *, least_hessian: float) -> _Structure | None:
        """Greedy best-first growth. Where splits had to be dropped, LightGBM is asked once more for a longer sequence."""
        most = self.options.max_leaves
        kept, dropped = self._kept_splits(self._split_sequence(hess, least_hessian, most))
        if dropped and len(kept) < most - 1:
            kept, _ = self._kept_splits(self._split_sequence(hess, least_hessian, 4 * most))
        return self._descended(kept) if kept else None

    def _kept_splits(self, splits: list[Split]) -> tuple[list[Split], bool]:
        """Return the splits that leave enough occurrences on both sides, up to max_leaves, and whether any did not.

        What is below a split that is dropped is dropped with it; those after it move up.
        """
        kept, place, dropped = list[Split](), {0: (-1, 0)}, False  # of a split: which of those kept it is below, on what side
        for k, ((f, code, left, right), below) in enumerate(zip(splits, self.below(splits), strict=True)):
            if len(kept) >= self.options.max_leaves - 1 or k not in place:
                continue
            if below.min() < self.options.min_occurrences:
                dropped = True
                continue
            parent, side = place[k]
            if parent >= 0:
                above = list(kept[parent])
                above[side] = len(kept)
                kept[parent] = tuple(above)  # type: ignore[assignment]
            place |= {left: (len(kept), 2), right: (len(kept), 3)}
            kept.append((f, code, -1, -1))
        return kept, dropped

    def below(self, splits: list[Split]) -> F64:
        """[k, 2] occurrences to the left and to the right of each split."""
        tree = self._descended(splits)
        counts = np.bincount(tree.leaf_of, self._c, len(tree.feature)).astype(np.float64)
        for node in reversed(range(len(counts))):  # children come after their parents
            if tree.left[node] >= 0:
                counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
        return counts[1:].reshape(-1, 2)  # split k makes the nodes 2 k + 1 and 2 k + 2

    def _split_sequence(self, hess: Array, least_hessian: float, max_leaves: int) -> list[Split]:
        """LightGBM's splits in the order it made them: (feature, code, split of the left child or -1, of the right child)."""
        key = (least_hessian, max_leaves)
        booster = self._boosters.get(key)
        if booster is None or booster.num_trees() >= _TREES_A_BOOSTER:
            import lightgbm as lgb  # takes a second: tuners and weights have no trees

            params = self._params(min_sum_hessian_in_leaf=least_hessian, num_leaves=max_leaves)
            booster = self._boosters[key] = lgb.Booster(params, self._dataset)
        if booster.update(fobj=lambda *_: (self._grad, hess)):
            return []  # it could not split
        dump = booster.dump_model(start_iteration=booster.num_trees() - 1, num_iteration=1)
        found = {}
        todo = [dump["tree_info"][0]["tree_structure"]]
        while todo:
            node = todo.pop()
            children = [node["left_child"], node["right_child"]]
            below = [child.get("split_index", -1) for child in children]
            found[node["split_index"]] = self._as_seen(node["split_feature"], int(np.floor(node["threshold"])), *below)
            todo += [child for child in children if "split_index" in child]
        return [found[k] for k in range(len(found))]

    def _as_seen(self, f: int, code: int, left: int, right: int) -> Split:
        """Return a split on a mirrored feature as one on the feature itself."""
        n = len(self._bins.codes) if self._is_mirrored else 0
        if f < n or not n:
            return f, code, left, right
        if f >= 2 * n:
            return f - n, code, left, right
        return f - n, len(self._bins.borders[f - n].low) - 1 - code, right, left

    def _descended(self, splits: list[Split]) -> _Structure:
        """Build the tree of all splits; rows walk down it once."""
        feature, cut, left, right, code_of, slots = ([blank] for blank in (-1, 0, -1, -1, 0, 0))
        node_of, rows = {0: 0}, list[Array]()
        for k, (f, code, left_split, right_split) in enumerate(splits):
            node, n = node_of[k], len(feature)
            codes, first = self._bins.column(f)
            feature[node], cut[node], left[node], right[node] = f, code - first, n, n + 1
            code_of[node], slots[node] = code, len(rows)
            for column, blank in zip((feature, cut, left, right, code_of, slots), (-1, 0, -1, -1, 0, 0), strict=True):
                column += [blank, blank]
            rows.append(codes)
            node_of |= {left_split: n, right_split: n + 1}
        tree = _Structure(feature, cut, left, right, np.zeros(len(self._c), np.int32))
        if rows:
            columns = np.stack(rows), *(np.array(a) for a in (slots, code_of, left, right))
            in_ranges(lambda some: descend(*columns, some.start, some.stop, tree.leaf_of), len(self._c), self.threads)
        return tree


def fit_leaves(c: F64, g: F64, slopes: F64 | None, centre: F64, *, leaves: LeafKind) -> tuple[float, F64, F64]:
    """Gain, b and a of leaves: b = Σg / Σc from these sums, or slopes from Σ (c z, z g, c z²) about the leaves' centres."""
    mean = _ratio(g, c) if leaves != "linear" else np.zeros(len(c))
    gain = 2 * mean * g - mean**2 * c
    if slopes is None:
        return float(gain.sum()), mean, np.zeros(len(c))
    _, xg, xx = slopes.T
    slope = _ratio(xg, np.where(xx > 1e-12 * c, xx, 0.0))
    gain += 2 * slope * xg - slope**2 * xx
    return float(gain.sum()), slope, mean - slope * centre


def _ratio(a: F64, b: F64) -> F64:
    """a / b, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros(len(a)), where=b > 0)


# ---------------------------------------------------------------------------------------------------------------------
# Passes over rows
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def grid_step(total):  # type: ignore[no-untyped-def]
    """The step of a grid on which numbers of this absolute sum have exact sums in float64: a power of two."""
    return 2.0 ** (frexp(total)[1] - 52)


@kernel
def to_grid(values, scale, out):  # type: ignore[no-untyped-def]
    """OUT out[V] (float32) = scale values, on a grid of 2⁻⁵² of their absolute sum.

    Sums of such numbers in float64 are exact, so LightGBM's histograms do not depend on the order its threads add in. Only
    numbers below 2⁻²⁹ of the sum lose anything to the grid that float32 would have kept.
    """
    on_grid(values, scale, grid_step(np.abs(values).sum() * abs(scale)), out)


@kernel
def on_grid(values, scale, step, out):  # type: ignore[no-untyped-def]
    """OUT out[V] = scale values, as multiples of step (a power of two)."""
    per_step = scale / step
    for v in range(len(values)):
        out[v] = np.rint(values[v] * per_step) * step


@kernel
def sums(leaf_of, c, g, out):  # type: ignore[no-untyped-def]
    """OUT out[4, n_nodes, 2] = Σ (c, g) over the rows of each leaf; four parts, so that no addition waits for the last."""
    for v in range(len(leaf_of)):
        cell = out[v & 3, leaf_of[v]]
        cell[0] += c[v]
        cell[1] += g[v]


@kernel
def slope_sums(leaf_of, c, g, z, centre, out):  # type: ignore[no-untyped-def]
    """OUT out[n_nodes, 3] = Σ (c z, z g, c z²) over the rows of each leaf, z taken about the leaf's centre."""
    for v in range(len(leaf_of)):
        d = z[v] - centre[leaf_of[v]]
        out[leaf_of[v], 0] += c[v] * d
        out[leaf_of[v], 1] += d * g[v]
        out[leaf_of[v], 2] += c[v] * d * d
