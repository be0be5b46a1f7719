"""Lists larger than memory: features are read where they are, and the model is that of a list in memory."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.core.arrays import add_segment_sums, offsets, scatter_segments
from boostfeat.core.feature_table import FeatureTable
from boostfeat.lists.store import read_store
from boostfeat.metrics import bleu
from boostfeat.model.units import UnitSpace
from boostfeat.trees import binning as bins
from boostfeat.trees.binning import Bins
from boostfeat.trees.tree_options import TreeOptions

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from beyond_memory import own_memory, watched
from generate import Sizes, generate

OPTIONS = recipe("paper", rounds=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """About 40,000 distinct units of 200 features: 65 MB."""
    path = tmp_path_factory.mktemp("scale") / "distinct.nbest"
    generate(path, Sizes(sentences=50, hyps=100, features=200, distinct=True))
    return path


@pytest.fixture(scope="module")
def in_memory(store):
    """The model of a list whose features are in memory. All kernels are compiled after it."""
    dev = read_store(store)
    return boost(replace(dev, units=replace(dev.units, x=dev.X.copy())), None, OPTIONS)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from Linux' /proc")
@pytest.mark.parametrize("spoilt", [False, True])
def test_features_are_never_copied_and_the_trees_are_the_same(store, in_memory, monkeypatch, spoilt):
    """Codes are an eighth of the features, their copy by rows and LightGBM's bins are as large. Spoilt: a copy would be seen."""
    dev = read_store(store)
    monkeypatch.setattr(bins, "_NUMBERS", 1 << 20)
    if spoilt:
        plain = bins.Bins.__init__
        monkeypatch.setattr(bins.Bins, "__init__", lambda self, x, *rest, **how: plain(self, np.array(x), *rest, **how))
    before = own_memory()["RssAnon"]
    tracemalloc.start()  # numpy's arrays, exactly; what LightGBM and the kernels take is seen by looking often
    try:
        found, peak = watched(lambda: boost(dev, None, OPTIONS), every=0.005)
        arrays = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.signature, found.history) == (in_memory.signature, in_memory.history)
    assert (arrays > 0.6 * dev.X.nbytes) == spoilt
    assert spoilt or peak["RssAnon"] - before < 0.6 * dev.X.nbytes


def test_blocks_of_columns_give_the_same_bins(monkeypatch):
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=5000), rng.integers(-2, 3, 5000) * 0.5, np.zeros(5000), rng.normal(size=5000).round(1)], axis=1)
    counts = rng.integers(1, 5, 5000).astype(float)
    how = {"options": TreeOptions(leaves="affine", min_occurrences=20), "sparse": None}
    whole = Bins(x, counts, threads=1, **how)
    monkeypatch.setattr(bins, "_NUMBERS", 1)
    parts = Bins(x, counts, threads=2, **how)
    again = Bins(x, counts, threads=1, given=whole.borders, **how)
    assert parts.scales == whole.scales
    for other in (parts, again):
        np.testing.assert_array_equal(other.codes, whole.codes)
        for a, b in zip(other.borders, whole.borders, strict=True):
            np.testing.assert_array_equal(np.stack([a.low, a.high]), np.stack([b.low, b.high]))
            assert a.precision == b.precision
    assert [len(b.low) for b in whole.borders][1:3] == [4, 0]


def test_sums_do_not_depend_on_threads_nor_scores_on_how_many_rows_are_scored_at_a_time(monkeypatch):
    rng = np.random.default_rng(2)
    ptr, values = offsets(rng.integers(0, 4, 101)), rng.normal(size=50)  # some segments are empty
    idx = rng.integers(0, 50, ptr[-1]).astype(np.int32)
    one = add_segment_sums(ptr, idx, values, np.zeros(101))
    np.testing.assert_allclose(one, [values[idx[a:b]].sum() for a, b in itertools.pairwise(ptr)], rtol=1e-13)
    for n in (1, 2, 7, 200):
        space = UnitSpace(ptr, idx, FeatureTable([], np.zeros((50, 0))), n)
        np.testing.assert_array_equal(space.sum(values), one)
        np.testing.assert_array_equal(
            space.spread_of(np.arange(101))(np.arange(101.0)), scatter_segments(ptr, idx, np.arange(101.0), 50)
        )
    stats = rng.integers(0, 9, (50, 6)).astype(np.int32)
    whole = bleu.sentence_bleu(stats, alpha=0.5)
    monkeypatch.setattr(bleu, "_ROWS", 7)
    np.testing.assert_array_equal(bleu.sentence_bleu(stats, alpha=0.5), whole)
