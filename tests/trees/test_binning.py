"""Bins of features: against numpy, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from boostfeat.core.printed_numbers import EXACT, Precision
from boostfeat.trees.binning import Bins, Borders, Scale, borders_of, scale_of
from boostfeat.trees.tree_options import TreeOptions


def test_copies_of_a_number_are_one_value():
    """Of two decimals: 1.00 and 1.01 are different numbers; of a step of 0.05 they are one, and so is -1 with what is near it."""
    values, mass = np.array([-1.01, -1.0, 1.0, 1.01, 2.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    exact = borders_of(values, mass, TreeOptions(max_bin=9, min_occurrences=1), EXACT)
    assert (exact.low.tolist(), exact.high.tolist()) == ([-1.01, -1.0, 1.0, 1.01], [-1.0, 1.0, 1.01, 2.0])
    merged = borders_of(values, mass, TreeOptions(max_bin=9, min_occurrences=4), Precision(0.05))
    assert (merged.low.tolist(), merged.high.tolist()) == ([1.01], [2.0])  # the three of -1 are too few
    merged = borders_of(values, mass, TreeOptions(max_bin=9, min_occurrences=3), Precision(0.05))
    assert (merged.low.tolist(), merged.high.tolist(), merged.precision) == ([-1.0, 1.01], [1.0, 2.0], Precision(0.05))


def test_scales_by_hand():
    values, mass = np.array([-2.0, 0.0, 4.0]), np.array([2.0, 1.0, 1.0])
    assert scale_of(values, mass, centred=False) == (pytest.approx(np.sqrt((8 + 16) / 4)), 0.0)
    spread = np.sqrt(6.0)  # about the mean, 0
    assert scale_of(values, mass, centred=True) == (pytest.approx(spread), pytest.approx(0.0))
    shifted = scale_of(values + 3, mass, centred=True)
    assert shifted == (pytest.approx(spread), pytest.approx(3 / spread))
    assert scale_of(np.zeros(1), np.ones(1), centred=False) == Scale()
    assert scale_of(np.array([5.0]), np.ones(1), centred=True) == Scale()
    assert scale_of(np.array([5.0]), np.ones(1), centred=False) == (5.0, 0.0)
    assert scale_of(np.array([1.0, 2.0]), np.zeros(2), centred=False) == Scale()
    assert scale_of(np.array([1e-295, -1e-295]), np.ones(2), centred=False) == Scale()
    assert scale_of(np.array([1e300, -1e300]), np.ones(2), centred=False) == (1e300, 0.0)


def test_bins_of_dense_and_sparse_features():
    """The sparse ones keep their sign around the bin of 0; what too few rows have is left out."""
    x = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [1.0, 0.0]])
    s = sparse.csr_matrix(np.array([[0, -1, 5.0], [0, 2, 0], [1, 2, 0], [0, 0, 0]], float))
    bins = Bins(x, np.array([1.0, 2.0, 3.0, 4.0]), TreeOptions(max_bin=9, min_occurrences=2), sparse=s, threads=1)
    assert bins.codes.tolist() == [[0, 1, 2, 0], [0, 0, 0, 0]]
    assert [b.low.tolist() for b in bins.borders] == [[1.0, 2.0], [], [0.0], [0.0]]
    assert bins.kept.tolist() == [0, 1]  # the last has one row of count 1; of the second, -1 is below 0 in one row only
    assert bins.zero == [0, 0]
    assert [(codes.tolist(), low) for codes, low in (bins.column(f) for f in range(4))] == [
        ([0, 1, 2, 0], 0), ([0, 0, 0, 0], 0), ([0, 0, 1, 0], 0), ([0, 1, 1, 0], 0)]  # fmt: skip
    assert (bins.size, bins.splittable) == (3 + 1 + 2 + 2, True)
    none = Bins(x[:, 1:], np.ones(4), TreeOptions(max_bin=9, min_occurrences=1), sparse=None, threads=1)
    assert (none.size, none.splittable) == (1, False)
    given = Bins(x, np.ones(4), TreeOptions(max_bin=9, min_occurrences=1), sparse=None, threads=1,
                 given=[Borders(np.array([2.5]), np.array([3.0]))] * 2)  # fmt: skip
    assert given.codes.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
