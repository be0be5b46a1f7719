"""Growing a tree on the negative gradient by least squares, with LightGBM [TA13 Figure 3 line 4, METHOD section 2].

    h = argmin Σ_v c_v (g_v / c_v - h(x_v))²        g = A' P' σ(-z), c_v occurrences of unit v

LightGBM grows the structure on one binned dataset made once: constant leaves from grad = -g, hess = c, leaves linear in x_j
from grad = -x_j g, hess = c x_j². Its gradients are float32, so the numbers in the leaves are fitted here, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from .arrays import F64, I32, I64, Array
from .bins import Bins
from .errors import unknown_name
from .slopes import SlopeSearch
from .tree import LEAF_KINDS, LeafKind, Tree, leaf_outputs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_LEAST_ENERGY = 1e-3  # of a linear leaf, Σ c x_j² with x_j scaled to a mean square of 1: the slope is defined
_CACHED_BINS = 8192  # 16 bytes each
_TREES_A_BOOSTER = 256  # LightGBM keeps its trees; taking one back costs as much as a third of growing it


@dataclass(frozen=True)
class TreeOptions:
    """How trees are grown."""

    leaves: LeafKind = "constant"  # constant, linear (b x_j) or affine (a + b x_j)
    max_leaves: int = 2  # N, at most so many leaves [TA13: 2 to 8; its best models have 2]
    min_occurrences: int = 200  # in every leaf: about what a unit in all hypotheses of one list has, so that no list makes a leaf
    max_bin: int = 255  # bins of a feature: thresholds are sought at their borders
    candidates: int = 4  # features j of linear and affine leaves that are grown fully: the best of a search over all
    leaf_l2: float = 0.0  # L2 penalty on leaf values, in occurrences; features are scaled to a mean square of 1 for it

    def __post_init__(self) -> None:
        if self.leaves not in LEAF_KINDS:
            raise unknown_name("kind of leaves", self.leaves, LEAF_KINDS)
        for name, least, most in (
            ("max_leaves", 2, 2**16),
            ("min_occurrences", 1, float("inf")),
            ("max_bin", 2, 255),
            ("candidates", 1, float("inf")),
            ("leaf_l2", 0, float("inf")),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise ValueError(f"{name}: expected a number from {least} to {most}, found {value}")


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree (weight 1) and what it gives on the rows it was grown on."""

    tree: Tree
    gain: float  # the drop of the squared error from that of h = 0
    leaf_of: I32  # [V] node of each row
    h: F64  # [V] the tree's prediction, bit for bit


# ---------------------------------------------------------------------------------------------------------------------
# Kernels
# ---------------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _abs_sum(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for v in range(len(values)):
        total += abs(values[v])
    return total


@njit(cache=True, nogil=True)
def _to_grid(values, scale, out):  # type: ignore[no-untyped-def]
    """OUT out[V] (float32) = scale values, on a grid of 2⁻⁵² of their absolute sum.

    Sums of such numbers in float64 are exact, so LightGBM's histograms do not depend on the order its threads add in. Only
    numbers below 2⁻²⁹ of the sum lose anything to the grid that float32 would have kept.
    """
    step = 2.0 ** (math.frexp(_abs_sum(values) * abs(scale))[1] - 52)
    per_step = scale / step
    for v in range(len(values)):
        out[v] = np.rint(values[v] * per_step) * step


@njit(cache=True, nogil=True)
def _divide(leaf_of, node, codes, cut, left, right, c):  # type: ignore[no-untyped-def]
    """INOUT leaf_of[V]: rows of a node go to left (code <= cut) or right. Returns the occurrences on either side."""
    n_left = n_right = 0.0
    for v in range(len(leaf_of)):
        if leaf_of[v] == node:
            goes_left = codes[v] <= cut
            leaf_of[v] = left if goes_left else right
            n_left += c[v] if goes_left else 0.0
            n_right += 0.0 if goes_left else c[v]
    return n_left, n_right


@njit(cache=True, nogil=True)
def _descend(codes, slot, cut, left, right, leaf_of):  # type: ignore[no-untyped-def]
    """OUT leaf_of[V]: the leaf of each row by its codes[k, V]; node n tests row slot[n] of them."""
    for v in range(len(leaf_of)):
        node = 0
        while left[node] >= 0:
            node = left[node] if codes[slot[node], v] <= cut[node] else right[node]
        leaf_of[v] = node


@njit(cache=True, nogil=True)
def _sums(leaf_of, c, g, out):  # type: ignore[no-untyped-def]
    """OUT out[4, n_nodes, 2] = Σ (c, g) over the rows of each leaf; four parts, so that no addition waits for the last."""
    for v in range(len(leaf_of)):
        cell = out[v & 3, leaf_of[v]]
        cell[0] += c[v]
        cell[1] += g[v]


@njit(cache=True, nogil=True)
def _slope_sums(leaf_of, c, g, z, centre, out):  # type: ignore[no-untyped-def]
    """OUT out[n_nodes, 3] = Σ (c z, z g, c z²) over the rows of each leaf, z taken about the leaf's centre."""
    for v in range(len(leaf_of)):
        d = z[v] - centre[leaf_of[v]]
        out[leaf_of[v], 0] += c[v] * d
        out[leaf_of[v], 1] += d * g[v]
        out[leaf_of[v], 2] += c[v] * d * d


# ---------------------------------------------------------------------------------------------------------------------
# Growing
# ---------------------------------------------------------------------------------------------------------------------


class _Structure(NamedTuple):
    """A grown tree without numbers in its leaves."""

    feature: list[int]  # of each node, -1 at leaves
    cut: list[int]  # border of that feature
    left: list[int]
    right: list[int]
    leaf_of: I32  # [V]


class _Fit(NamedTuple):
    gain: float
    on: int  # -1 for constant leaves
    structure: _Structure
    value: F64  # in terms of z
    intercept: F64


class Grower:
    """Grows trees on one training set: x [V, D] and counts [V] stay, the gradient changes.

    Constant leaves are what LightGBM grows. For linear leaves ``options.candidates`` features j are grown fully, and the one with
    the smallest squared error wins. These are the best by the gain of a single split over all pairs (j, split feature) of dense
    features at 64 bins, estimated on a sample of rows (see SlopeSearch). So it may miss a j that pays off only from
    the second split on, only by a split on a sparse feature, or by less than the error of the sample; of features that are
    multiples of each other one is grown. grow_exhaustive misses nothing; the share of its gain over rounds on Finnish-English
    lists is 99% for 2 linear leaves, 93% for 4 and 8; 100% and 93% for 2 and 4 affine ones.
    Affine leaves: two structures for each j, that of constant leaves and that of slopes about the mean, fitted by least squares.
    j is a dense feature: a linear leaf on an indicator is a constant leaf under a split on it, which constant leaves offer.

    Every leaf holds at least ``min_occurrences``. The bins see to it for the first split of any tree, LightGBM for all splits of
    constant leaves. For others LightGBM's splits are replayed in its order; one that leaves too few is dropped with all below it,
    and those after it move up. (The second-best split of that leaf is not tried.)

    The result is the same for any number of threads.
    """

    def __init__(
        self,
        names: Sequence[str],
        x: F64,
        counts: F64,
        options: TreeOptions,
        *,
        sparse: csr_matrix | None = None,
        sparse_names: Sequence[str] = (),
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        self.options, self.threads = options, threads
        self._x, self._c = x, np.ascontiguousarray(counts, np.float64)
        width = 0 if sparse is None else sparse.shape[1]
        for what, found, expected in (
            ("names", len(names), x.shape[1]),
            ("counts", len(counts), len(x)),
            ("sparse names", len(sparse_names), width),
            ("rows of sparse", len(x) if sparse is None else sparse.shape[0], len(x)),
        ):
            if found != expected:
                raise ValueError(f"{what}: expected {expected}, found {found}")
        self._bins = Bins(
            x,
            self._c,
            max_bin=options.max_bin,
            least=options.min_occurrences,
            centred=options.leaves == "affine",
            sparse=sparse,
            threads=threads,
        )
        self._names = [*names, *(str(sparse_names[int(k)]) for k in self._bins.kept)]
        if len(set(self._names)) != len(self._names):
            raise ValueError("names: expected every feature once, among dense and sparse ones")
        self._dataset = self._make_dataset() if self._bins.splittable else None
        self._boosters: dict[tuple[float, int], Any] = {}
        self._grad, self._hess, self._counts = np.empty((3, len(x)), np.float32)  # what LightGBM is given
        _to_grid(self._c, 1.0, self._counts)
        self._search = SlopeSearch(
            x, self._c, self._bins, affine=options.leaves == "affine", leaf_l2=options.leaf_l2, threads=threads, seed=seed
        )

    def grow(self, g: F64) -> Grown | None:
        """The tree that fits -dΨ/dF = g [V]; None where no split lowers the squared error."""
        return self._grow(g, lambda g: self._search.rank(g, self.options.candidates))

    def grow_exhaustive(self, g: F64) -> Grown | None:
        """As grow, with every feature j grown fully: the oracle of the search, about D times the cost."""
        return self._grow(g, lambda _: self._search.features)

    def _grow(self, g: F64, choose: Callable[[F64], I64]) -> Grown | None:
        if len(g) != len(self._c):
            raise ValueError(f"gradient: expected {len(self._c)} numbers, found {len(g)}")
        largest = float(max(g.max(), -g.min())) if len(g) else 0.0
        if not np.isfinite(largest):
            raise ValueError(f"gradient: expected finite numbers, found {largest}")
        if largest == 0 or self._dataset is None:
            return None
        g = np.ascontiguousarray(g, np.float64)
        fits = self._constant_fits(g, largest) if self.options.leaves == "constant" else self._slope_fits(g, largest, choose(g))
        best = max(fits, key=lambda fit: (fit.gain, -fit.on), default=None)
        return self._finish(best) if best is not None and best.gain > 0 else None

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _constant_fits(self, g: F64, largest: float) -> list[_Fit]:
        structure = self._constant_structure(g, largest)
        return [self._fit(g, structure, -1, np.zeros(0))] if structure else []

    def _slope_fits(self, g: F64, largest: float, features: I64) -> list[_Fit]:
        fits = []
        shared = self._constant_structure(g, largest) if self.options.leaves == "affine" and len(features) else None
        for j in features.tolist():
            scale, shift = self._bins.scales[j]
            z = self._x[:, j] / scale - shift
            _to_grid(z * g, -1 / largest, self._grad)
            _to_grid(self._c * z * z, 1.0, self._hess)
            own = self._structure(self._hess, least_hessian=max(_LEAST_ENERGY, 1e-9 * float(self._c.sum())))
            fits += [self._fit(g, structure, j, z) for structure in (own, shared) if structure]
        return fits

    def _fit(self, g: F64, structure: _Structure, j: int, z: F64) -> _Fit:
        """Least squares in each leaf: b = Σg / Σc, or b = Σxg / Σcx² (about the leaf's mean of x for affine leaves)."""
        n, l2 = len(structure.feature), self.options.leaf_l2
        sums, slopes, centre = np.zeros((4, n, 2)), np.zeros((n, 3)), np.zeros(n)
        _sums(structure.leaf_of, self._c, g, sums)
        c, sum_g = sums.sum(axis=0).T
        mean = _ratio(sum_g, c + l2) if self.options.leaves != "linear" else np.zeros(n)
        gain = 2 * mean * sum_g - mean**2 * c
        if j < 0:
            return _Fit(float(gain.sum()), j, structure, value=mean, intercept=np.zeros(n))
        _slope_sums(structure.leaf_of, self._c, g, z, centre, slopes)
        if self.options.leaves == "affine":
            centre = _ratio(slopes[:, 0], c)
            slopes[:] = 0.0  # a second pass: differences of large sums would lose the spread of a narrow leaf
            _slope_sums(structure.leaf_of, self._c, g, z, centre, slopes)
        _, xg, xx = slopes.T
        slope = _ratio(xg, np.where(xx > 1e-12 * c, xx + l2, 0.0))
        gain += 2 * slope * xg - slope**2 * xx
        return _Fit(float(gain.sum()), j, structure, value=slope, intercept=mean - slope * centre)

    def _finish(self, fit: _Fit) -> Grown:
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
        return Grown(tree, fit.gain, s.leaf_of, leaf_outputs(s.leaf_of, value=tree.value, intercept=tree.intercept, x=x))

    # -- structure ---------------------------------------------------------------------------------------------------

    def _make_dataset(self) -> Any:
        import lightgbm as lgb

        lgb.register_logger(_Silence())
        return self._bins.dataset(self._params())

    def _params(self, **more: Any) -> dict[str, Any]:
        return {
            "objective": "none",
            "boosting": "gbdt",
            "learning_rate": 1.0,
            "boost_from_average": False,
            "lambda_l2": self.options.leaf_l2,
            "max_depth": -1,
            "min_gain_to_split": 0.0,
            "min_data_in_leaf": 0,  # LightGBM counts rows by their share of the hessian
            "min_data_in_bin": 1,
            "max_bin": 255,
            "feature_pre_filter": False,
            "use_missing": False,
            "enable_bundle": False,  # bundles may lose a few rows of rare features
            "deterministic": True,
            # the faster way to make histograms: by rows while they fit the cache; else LightGBM would try both, by the clock
            "force_row_wise": self._bins.size <= _CACHED_BINS,
            "force_col_wise": self._bins.size > _CACHED_BINS,
            "num_threads": self.threads,
            "verbosity": -1,
            **more,
        }

    def _constant_structure(self, g: F64, largest: float) -> _Structure | None:
        """What LightGBM grows: the hessian is the count, so its own limit keeps enough occurrences in every leaf."""
        _to_grid(g, -1 / largest, self._grad)
        splits = self._split_sequence(self._counts, self.options.min_occurrences * (1 - 1e-6), self.options.max_leaves)
        return self._descended(splits) if splits else None

    def _structure(self, hess: Array, *, least_hessian: float) -> _Structure | None:
        """Greedy best-first growth. Where splits had to be dropped, LightGBM is asked once more for a longer sequence."""
        n = self.options.max_leaves
        structure, dropped = self._replay(self._split_sequence(hess, least_hessian, n))
        if dropped and len(structure.feature) < 2 * n - 1:
            structure, _ = self._replay(self._split_sequence(hess, least_hessian, 4 * n))
        return structure if len(structure.feature) > 1 else None

    def _split_sequence(self, hess: Array, least_hessian: float, max_leaves: int) -> list[tuple[int, int, int, int]]:
        """LightGBM's splits in the order it made them: (feature, code, split of the left child or -1, of the right child)."""
        import lightgbm as lgb

        key = (least_hessian, max_leaves)
        booster = self._boosters.get(key)
        if booster is None or booster.num_trees() >= _TREES_A_BOOSTER:
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
            found[node["split_index"]] = (node["split_feature"], int(np.floor(node["threshold"])), *below)
            todo += [child for child in children if "split_index" in child]
        return [found[k] for k in range(len(found))]

    def _descended(self, splits: list[tuple[int, int, int, int]]) -> _Structure:
        """The tree of all splits, numbered as _replay numbers them; rows walk down it once."""
        tree = _Structure([-1], [0], [-1], [-1], np.zeros(len(self._c), np.int32))
        node_of = {0: 0}
        rows: list[Array] = []
        cuts, slots = [0], [0]
        for k, (f, code, left_split, right_split) in enumerate(splits):
            node, n = node_of[k], len(tree.feature)
            codes, first = self._bins.column(f)
            tree.feature[node], tree.cut[node], tree.left[node], tree.right[node] = f, code - first, n, n + 1
            for column, blank in zip((*tree[:4], cuts, slots), (-1, 0, -1, -1, 0, 0), strict=True):
                column += [blank, blank]
            cuts[node], slots[node] = code, len(rows)
            rows.append(codes)
            node_of |= {left_split: n, right_split: n + 1}
        _descend(np.stack(rows), *(np.array(a) for a in (slots, cuts, tree.left, tree.right)), tree.leaf_of)
        return tree

    def _replay(self, splits: list[tuple[int, int, int, int]]) -> tuple[_Structure, bool]:
        """The splits that leave enough occurrences on both sides, up to max_leaves, and whether any did not."""
        tree = _Structure([-1], [0], [-1], [-1], np.zeros(len(self._c), np.int32))
        node_of, dropped = {0: 0}, False
        for k, (f, code, left_split, right_split) in enumerate(splits):
            n = len(tree.feature)
            if n >= 2 * self.options.max_leaves - 1 or k not in node_of:
                continue
            node = node_of[k]
            codes, first = self._bins.column(f)
            sides = _divide(tree.leaf_of, node, codes, code, n, n + 1, self._c)
            if min(sides) < self.options.min_occurrences:
                tree.leaf_of[tree.leaf_of >= n] = node
                dropped = True
                continue
            tree.feature[node], tree.cut[node], tree.left[node], tree.right[node] = f, code - first, n, n + 1
            for column, blank in zip(tree[:4], (-1, 0, -1, -1), strict=True):
                column += [blank, blank]
            node_of |= {left_split: n, right_split: n + 1}
        return tree, dropped


class _Silence:
    """LightGBM prints from some paths even with verbosity -1; nothing it says is for our users."""

    def info(self, _: str) -> None: ...

    def warning(self, _: str) -> None: ...


def _ratio(a: F64, b: F64) -> F64:
    """a / b, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros(len(a)), where=b > 0)
