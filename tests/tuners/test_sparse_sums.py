"""Sums over units against the matrix A X that they are a factored form of. Drawn values are multiples of 1/4: sums are exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import containers, quick

from boostfeat.losses.pairs import Pairs
from boostfeat.losses.pairwise import PairwiseLogLoss
from boostfeat.tuners.sparse_sums import SparseSums

pytestmark = pytest.mark.quick


@quick
@given(nbest=containers(min_sentences=1), data=st.data())
def test_equal_to_the_product_of_matrices(nbest, data):
    hyps = np.array(sorted(data.draw(st.sets(st.integers(0, nbest.n_hyps - 1)))), np.int64)
    sums, whole = SparseSums(nbest, hyps, np.array([0, len(hyps)])), nbest.global_sparse.toarray()[hyps]
    assert len(sums) == len(hyps)
    assert not np.delete(whole, sums.columns, axis=1).any()
    matrix = whole[:, sums.columns]
    rng = np.random.default_rng(0)
    if len(hyps):
        better, worse = rng.integers(0, len(hyps), (2, 20))
        w, scores = rng.integers(-9, 9, whole.shape[1]) / 4, rng.integers(-9, 9, len(hyps)) / 4
        loss = PairwiseLogLoss(Pairs(better, worse, np.ones(20), np.array([0, 20])), len(hyps))
        here = loss.at(scores + whole @ w)
        losses, g, slope = sums.log_loss(w, np.ones(len(sums.columns)), scores, loss)
        assert losses.tolist() == [here.value()]
        np.testing.assert_array_equal(g, here.gradient())
        np.testing.assert_allclose(slope, matrix.T @ g, rtol=1e-12, atol=1e-12)
        peak = np.where(sums.peak() > 0, sums.peak(), 1.0)
        squares, counts = sums.squares(better, worse, loss.cuts, peak)
        apart = (matrix[better] - matrix[worse]) / peak
        np.testing.assert_allclose(squares, (apart**2).sum(axis=0), rtol=1e-14)
        np.testing.assert_array_equal(counts, (apart != 0).sum(axis=0))


@quick
@given(nbest=containers(min_sentences=1))
def test_the_peak_is_the_largest_value_of_a_row(nbest):
    sums = SparseSums(nbest, np.arange(nbest.n_hyps), np.array([0, nbest.n_hyps]))
    used = np.unique(nbest.unit_idx)
    rows = np.vstack([nbest.X_sparse.toarray()[used], nbest.extra_sparse.matrix(len(nbest.sparse_names)).toarray()])
    np.testing.assert_array_equal(sums.peak(), np.abs(rows).max(axis=0, initial=0.0)[sums.columns])
