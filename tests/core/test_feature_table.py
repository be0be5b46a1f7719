"""Rows of named features, dense and sparse side by side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from boostfeat.core.feature_table import FeatureTable, linear_scores

pytestmark = pytest.mark.quick

DENSE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
SPARSE = csr_matrix([[0.0, 7.0, 0.0], [8.0, 0.0, 0.0], [0.0, 0.0, 9.0]])


def test_columns_by_name():
    table = FeatureTable(["a", "b"], DENSE, SPARSE, ["s", "t", "u"])
    assert len(table) == 3
    assert table.all_names == ("a", "b", "s", "t", "u")
    for name, column in {
        "a": [1, 3, 5],
        "b": [2, 4, 6],
        "s": [0, 8, 0],
        "t": [7, 0, 0],
        "u": [0, 0, 9],
        "none": [0, 0, 0],
    }.items():
        assert table.column(name).tolist() == column
        assert table.column(name).flags.c_contiguous
    for names, dense in (([], DENSE[:, :0]), (["a"], DENSE[:, :1])):  # the first sparse column is the first of all, or the second
        table = FeatureTable(names, dense, SPARSE, ["s", "t", "u"])
        assert [table.column(name).tolist() for name in "stu"] == SPARSE.toarray().T.tolist()
    plain = FeatureTable(["a", "b"], DENSE)
    assert plain.column("b").tolist() == [2, 4, 6]
    assert plain.column("s").tolist() == [0, 0, 0]


def test_scores_are_sums_of_products():
    w = np.array([1.0, -1.0, 2.0, 3.0, 4.0])
    expected = np.hstack([DENSE, SPARSE.toarray()]) @ w
    assert linear_scores(DENSE, SPARSE, w).tolist() == expected.tolist()
    assert linear_scores(DENSE, None, w[:2]).tolist() == [-1, -1, -1]
    assert linear_scores(DENSE, csr_matrix((3, 3)), w).tolist() == [-1, -1, -1]
