"""Growing: against LightGBM's own prediction, a naive twin, least squares by NumPy, planted truth, and one row per occurrence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import boostfeat.trees.growing
from boostfeat.core.feature_table import FeatureTable
from boostfeat.trees.growing import Grower, TreeOptions, grid_step, to_grid
from boostfeat.trees.slope_search import SlopeSearch
from boostfeat.trees.tree import descend

KINDS = ["constant", "linear", "affine"]


def make(n=400, d=4, *, levels=12, seed=0):
    """Features with few distinct values of both signs, counts 1..5, and a gradient with some structure in every feature."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-levels // 3, levels, (n, d)) / 4
    c = rng.integers(1, 6, n).astype(float)
    y = 0.3 * (x[:, 0] > 1) * x[:, 1] - 0.2 * (x[:, -1] <= 0) + rng.normal(size=n) / 4
    return x, c, c * y


def names(d):
    return [f"f:{j}|a b=ä" for j in range(d)]  # characters that LightGBM does not take in names


def grower(x, c, sparse=None, **options):
    return Grower(table_of(x, sparse), c, TreeOptions(**{"min_occurrences": 1, **options}))


def table_of(x, sparse=None):
    return FeatureTable(names(x.shape[1]), x, sparse, [f"s{k}" for k in range(0 if sparse is None else sparse.shape[1])])


def check(grown, x, c, g, *, least=1, sparse=None):
    """What must hold of every grown tree."""
    table = table_of(x, sparse)
    np.testing.assert_array_equal(grown.tree.leaf_of(table), grown.leaf_of)
    np.testing.assert_array_equal(grown.tree.predict(table), grown.h)  # bit for bit
    assert grown.gain == pytest.approx((2 * g * grown.h - c * grown.h**2).sum(), rel=1e-9)
    occurrences = np.bincount(grown.leaf_of, c, len(grown.tree.feature))[grown.tree.leaves]
    assert occurrences.min() >= least
    return occurrences


# -- oracles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_leaves", [2, 3, 5, 8])
def test_constant_leaves_equal_lightgbm(n_leaves):
    """LightGBM with its own objective, bins and leaf values; every value has a bin, so both see the same splits."""
    import lightgbm as lgb

    x, c, g = make()
    params = {"objective": "l2", "learning_rate": 1.0, "num_leaves": n_leaves, "min_sum_hessian_in_leaf": 20,
              "min_data_in_leaf": 1, "min_data_in_bin": 1, "boost_from_average": False, "verbosity": -1,
              "num_threads": 1}  # fmt: skip
    booster = lgb.train(params, lgb.Dataset(x, g / c, weight=c, params=params), num_boost_round=1)
    grown = grower(x, c, max_leaves=n_leaves, min_occurrences=20).grow(g)
    np.testing.assert_allclose(grown.h, booster.predict(x), rtol=0, atol=1e-6)  # its gradients are float32
    assert grown.tree.n_leaves == n_leaves
    check(grown, x, c, g, least=20)


def best_split(x, c, z, g, rows, least):
    """(improvement, left rows) of the best split of these rows: every feature, every value."""

    def gain(part):
        return (z[part] @ g[part]) ** 2 / max((c * z * z)[part].sum(), 1e-300)

    best = (0.0, None)
    for f in range(x.shape[1]):
        for t in np.unique(x[rows, f])[:-1]:
            left, right = rows[x[rows, f] <= t], rows[x[rows, f] > t]
            if min(c[left].sum(), c[right].sum()) >= least:
                best = max(best, (gain(left) + gain(right) - gain(rows), left), key=lambda b: b[0])
    return best


def twin(x, c, z, g, n_leaves, least):
    """Greedy best-first growth in plain NumPy; h = b z in each leaf (z = 1 for constant leaves). Returns h."""
    leaves = [np.arange(len(x))]
    while len(leaves) < n_leaves:
        options = [best_split(x, c, z, g, rows, least) for rows in leaves]
        k = max(range(len(leaves)), key=lambda i: options[i][0])
        if options[k][1] is None:
            break
        rows, left = leaves.pop(k), options[k][1]
        leaves += [left, np.setdiff1d(rows, left)]
    h = np.empty(len(x))
    for rows in leaves:
        h[rows] = z[rows] * (z[rows] @ g[rows]) / max((c * z * z)[rows].sum(), 1e-300)
    return h


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("leaves", "n_leaves", "least"), [("constant", 2, 30), ("constant", 5, 30), ("linear", 2, 30), ("linear", 4, 1)]
)
def test_equals_greedy_growth_by_numpy(leaves, n_leaves, least, seed):
    x, c, g = make(150, 3, seed=seed)
    grown = grower(x, c, leaves=leaves, max_leaves=n_leaves, min_occurrences=least, candidates=99).grow(g)
    columns = [np.ones(len(x))] if leaves == "constant" else list(x.T)
    twins = [twin(x, c, z, g, n_leaves, least) for z in columns]
    gains = [(2 * g * h - c * h * h).sum() for h in twins]
    np.testing.assert_allclose(grown.h, twins[int(np.argmax(gains))], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_leaves", [2, 4, 8])
@pytest.mark.parametrize("seed", range(6))
def test_small_leaves_are_those_of_greedy_growth(seed, n_leaves):
    """Counts whose shares LightGBM rounds up, bin by bin: it would stop before the lowest values."""
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(120, 3)), np.where(rng.random(120) < 0.9, 6.0, 40.0)
    g = rng.normal(size=120) * np.sqrt(c) * np.where(x.min(axis=1) < -1.8, 9.0, 1.0)
    grown = grower(x, c, max_leaves=n_leaves, min_occurrences=1).grow(g)
    np.testing.assert_allclose(grown.h, twin(x, c, np.ones(120), g, n_leaves, 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("leaves", KINDS)
def test_leaves_are_least_squares(leaves):
    x, c, g = make(seed=3)
    x = x + 1000 * (leaves == "affine")  # far from 0: sums of squares would lose the spread
    grown = grower(x, c, leaves=leaves, max_leaves=4).grow(g)
    check(grown, x, c, g)
    z = np.ones(len(x)) if leaves == "constant" else x[:, names(4).index(grown.tree.on)]
    for leaf in grown.tree.leaves:
        rows = grown.leaf_of == leaf
        design = np.stack([np.ones(rows.sum()), z[rows]], axis=1) if leaves == "affine" else z[rows, None]
        root = np.sqrt(c[rows])
        fit = np.linalg.lstsq(design * root[:, None], (g / c)[rows] * root, rcond=None)[0]
        np.testing.assert_allclose(grown.h[rows], design @ fit, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("max_bin", [255, 16])
@pytest.mark.parametrize("leaves", KINDS)
def test_merging_equal_rows_is_exact(leaves, max_bin):
    """More distinct values than bins: the bins, too, must not see how rows are merged."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(700, 3)).round(3)
    c = rng.integers(1, 5, 700).astype(float)
    g = c * np.round(16 * ((x[:, 0] > 0.3) * x[:, 1] + rng.normal(size=700) / 4)) / 16  # dyadic: sums are exact
    options = {"leaves": leaves, "max_leaves": 4, "max_bin": max_bin, "min_occurrences": 25}
    merged = grower(x, c, **options).grow(g)
    each = np.repeat(np.arange(700), c.astype(int))
    single = grower(x[each], np.ones(len(each)), **options).grow((g / c)[each])
    assert single.tree.to_json()["nodes"][0] == merged.tree.to_json()["nodes"][0]
    assert (single.tree.feature, single.tree.on) == (merged.tree.feature, merged.tree.on)
    np.testing.assert_array_equal(single.tree.threshold, merged.tree.threshold)
    np.testing.assert_allclose(single.h, merged.h[each], rtol=1e-9, atol=1e-12)
    assert single.gain == pytest.approx(merged.gain, rel=1e-9)


# -- planted truth -------------------------------------------------------------------------------------------------------


def planted(n=3000, d=8, *, seed=0, noise=0.2):
    """[TA13 Figure 2]: if count <= 2: 2 lex else 1 lex, beside features that do not matter."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 0] = rng.integers(1, 7, n)
    c = rng.integers(1, 9, n).astype(float)
    return x, c, c * (np.where(x[:, 0] <= 2, 2.0, 1.0) * x[:, 1] + noise * rng.normal(size=n))


def test_planted_linear_tree_is_found():
    x, c, g = planted()
    tree = grower(x, c, leaves="linear", min_occurrences=50).grow(g).tree
    assert (tree.feature[0], tree.on) == (names(8)[0], names(8)[1])
    assert 2 < tree.threshold[0] < 3
    np.testing.assert_allclose(tree.value[[1, 2]], [2, 1], atol=0.02)  # noise 0.2 over about 1000 rows a leaf
    assert tree.rules().startswith(f"if {names(8)[0]!r} <= 2.5: ")


def test_planted_affine_tree_is_found():
    x, c, _ = planted()
    grown = grower(x, c, leaves="affine", min_occurrences=50).grow(c * np.where(x[:, 0] <= 2, 3 + 2 * x[:, 1], -1 + x[:, 1]))
    np.testing.assert_allclose(grown.tree.value[1:], [2, 1], rtol=1e-9)
    np.testing.assert_allclose(grown.tree.intercept[1:], [3, -1], rtol=1e-9)


@pytest.mark.parametrize("width", [0, 3])
def test_sparse_indicators_are_split_on(width):
    """The planted indicator among 300; also one with values on both sides of 0, and one too rare for a leaf."""
    rng = np.random.default_rng(1)
    n = 4000
    x, c = rng.normal(size=(n, width)), rng.integers(1, 4, n).astype(float)
    s = sparse.random(n, 300, density=0.02, format="csr", random_state=2, data_rvs=np.ones).tolil()
    s[:, 7] = rng.choice([-2.0, -1.0, 0.0, 1.0], size=(n, 1), p=[0.1, 0.1, 0.7, 0.1])
    s[:10, 11] = 1.0
    s[10:, 11] = 0.0
    s = sparse.csr_matrix(s)
    at = s[:, 200].toarray().ravel() > 0
    g = c * (at + rng.normal(size=n) / 10)
    grown = grower(x, c, s, min_occurrences=30).grow(g)
    assert grown.tree.feature[0] == "s200"
    assert grown.tree.threshold[0] == 0.5
    np.testing.assert_allclose(grown.tree.value[1:], [0, 1], atol=0.02)
    check(grown, x, c, g, sparse=s, least=30)
    low = s[:, 7].toarray().ravel() < -1
    g = c * (low + 0.5 * at)
    grown = grower(x, c, s, min_occurrences=30, max_leaves=3).grow(g)
    assert {f for f in grown.tree.feature if f} == {"s7", "s200"}
    assert grown.tree.threshold[grown.tree.feature.index("s7")] == -1.5
    check(grown, x, c, g, sparse=s, least=30)
    rare = grower(x, c, s, min_occurrences=30).grow(c * (np.arange(n) < 10))
    assert rare is None or "s11" not in rare.tree.features()


@pytest.mark.parametrize("leaves", ["linear", "affine"])
def test_bounded_search_against_the_exhaustive_one(leaves):
    """More rows than the sample. Planted slopes of a fifth of the noise: the same j, or one that is nearly as good."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 12))
    x[:, 5] = x[:, 4] + rng.normal(size=20_000) / 2  # a rival of feature 4
    c = rng.integers(1, 30, 20_000).astype(float)
    search, whole = (grower(x, c, leaves=leaves, min_occurrences=50, candidates=n) for n in (3, 12))
    assert search._search.sample < len(x)
    shares, same = [], 0
    for j in range(6):
        g = c * (0.2 * (x[:, 11 - j] > 0.5) * x[:, j] + rng.normal(size=len(x)))
        bounded, exhaustive = search.grow(g), whole.grow(g)
        shares.append(bounded.gain / exhaustive.gain)
        same += bounded.tree.on == exhaustive.tree.on
        sampled = search._search.gains(g)
        search._search.sample, some = len(x), search._search.sample
        exact = search._search.gains(g)
        search._search.sample = some
        np.testing.assert_allclose(sampled[j], exact[j], rtol=0.3)  # the planted one; the sample's standard error is 0.05
    assert max(shares) <= 1 + 1e-12
    assert min(shares) > 0.9
    assert same >= 5


# -- limits and invariances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", KINDS)
@pytest.mark.parametrize("n_leaves", [2, 8])
def test_every_leaf_has_enough_occurrences(leaves, n_leaves):
    """A few rows with extreme features and gradients tempt every kind; without the limit they get leaves of their own."""
    rng = np.random.default_rng(2)
    x, c = rng.standard_t(1.5, size=(2000, 5)), rng.integers(1, 9, 2000).astype(float)
    g = c * (x[:, 0] * (x[:, 1] > 0) + 20 * (np.abs(x[:, 2]) > 8) * np.sign(x[:, 3]) * x[:, 4])
    free = grower(x, c, leaves=leaves, max_leaves=n_leaves).grow(g)
    assert check(free, x, c, g).min() < 150
    limited = grower(x, c, leaves=leaves, max_leaves=n_leaves, min_occurrences=150).grow(g)
    check(limited, x, c, g, least=150)
    assert limited.tree.n_leaves >= min(n_leaves, 4)


PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_growing import every_kind
print(json.dumps(every_kind(threads=2)))
"""


def every_kind(threads):
    x, c, g = planted(6_000, 10)
    s = sparse.random(6_000, 50, density=0.05, format="csr", random_state=2)
    out = []
    for leaves in KINDS:
        options = TreeOptions(leaves=leaves, max_leaves=5, min_occurrences=50)
        one = Grower(table_of(x, s), c, options, threads=threads)
        for _ in range(2):
            grown = one.grow(g)
            out.append([grown.gain, grown.tree.to_json()])
    return out


def test_result_does_not_depend_on_threads_or_hash_seed():
    one = every_kind(threads=1)
    assert one[0] == one[1]  # nothing is left from the tree before
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": "7", "OMP_WAIT_POLICY": "passive"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
    )
    assert json.loads(run.stdout) == one
    assert run.stderr == b""  # LightGBM is silent


@pytest.mark.parametrize("leaves", KINDS)
def test_histograms_by_row_and_by_column_are_the_same(leaves, monkeypatch):
    """LightGBM adds in another order; on our grid sums are exact, so its gains agree to the last digit it prints."""
    x, c, g = planted(5000, seed=1)
    dumps = []
    for limit in (0, 10**9):
        monkeypatch.setattr(boostfeat.trees.growing, "_CACHED_BINS", limit)
        one = grower(x, c, leaves=leaves, max_leaves=8)
        one.grow(g)
        dumps.append([booster.dump_model()["tree_info"] for booster in one._boosters.values()])
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("leaves", KINDS)
def test_the_scale_of_features_and_gradient_does_not_matter(leaves):
    x, c, g = make()
    a = grower(x, c, leaves=leaves, max_leaves=4).grow(g)
    b = grower(x * 2.0**40, c, leaves=leaves, max_leaves=4).grow(g * 2.0**-30)  # powers of two: exact
    np.testing.assert_array_equal(b.leaf_of, a.leaf_of)
    np.testing.assert_allclose(b.h, a.h * 2.0**-30, rtol=1e-12)


@pytest.mark.parametrize("leaves", KINDS)
@pytest.mark.parametrize(
    ("x", "g"),
    [
        (np.zeros((0, 2)), []),
        (np.zeros((1, 2)), [1.0]),
        (np.zeros((3, 0)), [1.0, -1.0, 1.0]),
        (np.ones((3, 2)), [1.0, -1.0, 1.0]),
        (np.arange(6.0).reshape(3, 2), [0.0, 0.0, 0.0]),
    ],
    ids=["no rows", "one row", "no features", "constant features", "no gradient"],
)
def test_nothing_to_split_gives_none(leaves, x, g):
    assert grower(x, np.ones(len(x)), leaves=leaves).grow(np.array(g)) is None


@pytest.mark.parametrize("leaves", KINDS)
def test_limit_above_half_of_all_gives_none_and_growing_goes_on(leaves):
    x, c, g = make()
    assert grower(x, c, leaves=leaves, min_occurrences=int(c.sum()) // 2 + 1).grow(g) is None
    one = grower(x, c, leaves=leaves)
    expected = one.grow(g).tree
    two = grower(x, c, leaves=leaves)
    assert two.grow(np.zeros(len(g))) is None
    two.grow(1e-30 * c)  # as good as nothing to split: LightGBM may stop
    assert two.grow(g).tree == expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("leaves", KINDS)
def test_extreme_values_give_finite_trees(leaves):
    rng = np.random.default_rng(4)
    x = rng.choice([-1.7e308, -1.0, -5e-324, 0.0, 5e-324, 1e-310, 1e-35, 1.0, 1.7e308], size=(300, 4))
    x[:, 1] = rng.choice([0.0, 5e-324], 300)
    x[:, 2] = rng.choice([-1.7e308, 1.7e308], 300)
    for scale in (1e-140, 1.0, 1e140):
        g = rng.normal(size=300) * scale
        grown = grower(x, np.ones(300), leaves=leaves, max_leaves=4).grow(g)
        assert np.isfinite(grown.h).all()
        np.testing.assert_array_equal(grown.tree.leaf_of(FeatureTable(names(4), x)), grown.leaf_of)


def test_a_gradient_of_no_numbers_is_refused():
    x, c, g = make()
    with pytest.raises(ValueError, match="gradient: expected finite numbers, found nan"):
        grower(x, c).grow(g * np.nan)


# -- the search for slopes, on few rows -----------------------------------------------------------------------------------


def naive_gains(search: SlopeSearch, x, c, g) -> list[float]:
    """Of the best split for leaves in each feature j, straight from the definition: least squares of g / c on (1,) z_j on both sides."""
    at, weight = np.arange(len(g)), np.ones(len(g))
    if search.sample < len(g):
        share = np.abs(g) / np.abs(g).sum() / 2 + c / c.sum() / 2
        drawn = [(k + search._offset) / search.sample * share.sum() for k in range(search.sample)]
        at = np.array([next(i for i in range(len(g)) if share[: i + 1].sum() >= p or i == len(g) - 1) for p in drawn])
        weight = np.array([1 / (search.sample * share[i]) for i in at])
    best = []
    for j in search.features.tolist():
        scale, shift = search._bins.scales[j]
        z, wc, wg = x[at, j] / scale - shift, weight * c[at], weight * g[at] / np.abs(g).max()
        found = [0.0]
        for codes in search._bins.codes:
            for border in range(int(codes.max())):
                sides = [side for side in (codes[at] <= border, codes[at] > border)]
                found.append(sum(side_gain(z[s], wc[s], wg[s], (z * z * wc).sum(), search._affine) for s in sides))
        best.append(max(found))
    return best


def side_gain(z, c, g, total: float, affine: bool) -> float:
    if affine and c.sum() <= 0:
        return 0.0
    mean = (
        (g.sum() ** 2 / c.sum(), (c * z).sum() * g.sum() / c.sum(), (c * z).sum() ** 2 / c.sum()) if affine else (0.0, 0.0, 0.0)
    )
    xg, xx = (z * g).sum() - mean[1], (c * z * z).sum() - mean[2]
    return mean[0] + (xg**2 / xx if xx > 1e-6 * total else 0.0)


@pytest.mark.parametrize(("sample", "offset"), [(60, 0.5), (25, 0.5), (25, 0.0), (25, 1 + 1e-9)])
@pytest.mark.parametrize("leaves", ["linear", "affine"])
def test_gains_of_slopes_are_those_of_a_naive_twin(leaves, sample, offset):
    """With all rows and with a sample of them; sums are in single precision. The last draw may lie past the end by rounding."""
    rng = np.random.default_rng(4)
    x, c = rng.integers(-3, 4, (60, 4)).astype(float), rng.integers(1, 5, 60).astype(float)
    x[:, 3] = 2.0  # beside an intercept it carries no slope
    g = c * (x[:, 0] * (x[:, 1] > 0) + rng.normal(size=60))
    search = grower(x, c, leaves=leaves)._search
    search.sample, search._offset = sample, offset
    assert search.features.tolist() == ([0, 1, 2] if leaves == "affine" else [0, 1, 2, 3])
    np.testing.assert_allclose(search.gains(g), naive_gains(search, x, c, g), rtol=1e-4)


def leaf_counts(x, g, **options):
    grown = grower(x, np.ones(len(x)), leaves="linear", candidates=99, **options).grow(g)
    return None if grown is None else sorted(check(grown, x, np.ones(len(x)), g).tolist())


def test_a_leaf_may_have_as_few_occurrences_as_the_limit():
    x = np.stack([np.arange(20) >= 10, np.ones(20)], axis=1).astype(float)
    g = np.where(x[:, 0] > 0, 1.0, -1.0)
    assert leaf_counts(x, g, max_leaves=2, min_occurrences=10) == [10, 10]
    assert leaf_counts(x, g, max_leaves=2, min_occurrences=11) is None


def test_where_a_split_is_dropped_the_next_best_one_is_taken():
    """20 rows of gradient 10 beside 20 of -10; two of the first have 50, too few for a leaf, though what tells them is 1 in four
    of the others too; half of the others differ by 6.

    Squared errors fall by 5760, 2880 and 180 in this order, and the second split is not allowed.
    """
    rows = np.arange(40)
    told = (rows < 2) | ((rows >= 20) & (rows < 24))
    x = np.stack([rows >= 20, told, rows >= 30, np.ones(40)], axis=1).astype(float)
    g = np.where(rows < 20, 10.0, -10.0) + 40.0 * (rows < 2) + np.where(rows < 20, 0.0, np.where(rows < 30, 3.0, -3.0))
    assert leaf_counts(x, g, max_leaves=3, min_occurrences=5) == [10, 10, 20]
    assert leaf_counts(x, g, max_leaves=3, min_occurrences=2) == [2, 18, 20]
    assert leaf_counts(x, g, max_leaves=2, min_occurrences=5) == [20, 20]


def test_without_a_split_there_is_no_tree():
    """The gradient is the feature itself, which is 1 or -1: a slope fits it, and no split of linear leaves gains anything."""
    x = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)[:, None]
    one = grower(x, np.ones(20), leaves="linear", min_occurrences=1)
    assert one.grow(x[:, 0]) is None
    assert one.grow(np.ones(20)) is not None


# -- passes over rows, each against a plain twin --------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [(0, 60), (7, 43), (5, 5), (4000, 4200), (0, 4097), (2, 4099)])
def test_rows_walk_down_a_tree(first, last):
    """0 splits into 1 and 2, 1 into 3 and 4, 4 into 5 and 6; rows of other ranges are not touched. 4096 rows go at a time."""
    rng = np.random.default_rng(first + last)
    codes = rng.integers(-1, 3, (3, 4200)).astype(np.int16)
    slot, cut = np.array([0, 1, 0, 0, 2, 0, 0]), np.array([1, 0, 0, 0, -1, 0, 0])
    left, right = np.array([1, 3, -1, -1, 5, -1, -1], np.int32), np.array([2, 4, -1, -1, 6, -1, -1], np.int32)
    leaf_of = np.full(4200, 9, np.int32)
    descend(codes, slot, cut, left, right, first, last, leaf_of)
    a, b, d = codes
    expected = np.where(a > 1, 2, np.where(b <= 0, 3, np.where(d <= -1, 5, 6)))
    assert leaf_of[first:last].tolist() == expected[first:last].tolist()
    assert (leaf_of[:first] == 9).all()
    assert (leaf_of[last:] == 9).all()


@pytest.mark.parametrize("scale", [1.0, -0.25, 3.0])
def test_sums_on_a_grid_are_exact(scale):
    """Numbers of many sizes: on the grid they are the nearest multiples of its step, in single precision, and their sums are exact."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=200) * 2.0 ** rng.integers(-60, 1, 200)
    out = np.full(200, np.nan, np.float32)
    to_grid(values, scale, out)
    step = grid_step(np.abs(values).sum() * abs(scale))
    expected = (np.rint(values * (scale / step)) * step).astype(np.float32)
    assert out.tolist() == expected.tolist()
    forwards, backwards, exact = 0.0, 0.0, Fraction(0)
    for value in out.tolist():
        forwards, exact = forwards + value, exact + Fraction(value)
    for value in reversed(out.tolist()):
        backwards += value
    assert forwards == backwards == exact
