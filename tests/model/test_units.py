"""Units and what hypotheses have of them: A F, A' g, and the features that trees may see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_matrix
from strategies import containers, quick

from boostfeat.core.errors import InputError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.model.model import hypothesis_table
from boostfeat.model.units import UnitSpace

pytestmark = pytest.mark.quick

# three hypotheses: units 0 1 0, none, and 2
DENSE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
TABLE = FeatureTable(["a", "b"], DENSE, csr_matrix(np.diag([7.0, 8.0, 9.0])), ["s", "t", "u"])
SPACE = UnitSpace(np.array([0, 3, 3, 4]), np.array([0, 1, 0, 2], np.int32), TABLE, 1)


def test_sums_and_their_transpose():
    assert SPACE.sum(np.array([1.0, 10.0, 100.0])).tolist() == [12.0, 0.0, 100.0]
    assert SPACE.spread_of(np.arange(3))(np.array([1.0, 10.0, 100.0])).tolist() == [2.0, 1.0, 100.0]
    assert SPACE.spread_of(np.array([1, 2]))(np.array([10.0, 100.0])).tolist() == [0.0, 0.0, 100.0]
    assert SPACE.counts().tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("names", "dense", "sparse"),
    [([], ["a", "b"], []), (["b"], ["b"], []), (["u", "a"], ["a"], ["u"]), (["t", "s"], [], ["s", "t"])],
)
def test_features_that_trees_see(names, dense, sparse):
    found = SPACE.for_trees(names)
    assert (list(found.names), list(found.sparse_names)) == (dense, sparse)
    for name in (*dense, *sparse):
        assert found.column(name).tolist() == TABLE.column(name).tolist()


def test_sparse_features_are_seen_where_there_are_no_others():
    table = FeatureTable([], np.zeros((3, 0)), TABLE.sparse, TABLE.sparse_names)
    found = UnitSpace(SPACE.unit_ptr, SPACE.unit_idx, table, 1).for_trees([])
    assert (list(found.names), found.sparse_names) == ([], list(TABLE.sparse_names))
    assert (found.sparse != TABLE.sparse).nnz == 0


@quick
@given(containers())
def test_sparse_features_of_hypotheses_are_summed_column_by_column(nbest):
    """They are, to the last bit, those of A X + E multiplied out."""
    table, whole = hypothesis_table(nbest), nbest.global_sparse.toarray()
    for j, name in enumerate(table.sparse_names):
        assert table.column(name).tolist() == whole[:, j].tolist()
    if len(table.sparse_names):
        assert table.sparse[:, [-1, 0]].toarray().tolist() == whole[:, [-1, 0]].tolist()


def test_unknown_features_are_refused():
    with pytest.raises(InputError, match="tree features: expected features of the list, found 'x'; see 'boostfeat info'"):
        SPACE.for_trees(["a", "y", "x"])


def test_units_of_a_level(dev):
    """Global is local with A = I."""
    whole, units = UnitSpace.of(dev, "global"), UnitSpace.of(dev, "local")
    assert whole.unit_ptr.tolist() == list(range(dev.n_hyps + 1))
    assert whole.unit_idx.tolist() == list(range(dev.n_hyps))
    assert np.array_equal(whole.table.column("LM0"), dev.global_column("LM0"))
    assert whole.sum(np.arange(dev.n_hyps) / 3).tolist() == (np.arange(dev.n_hyps) / 3).tolist()
    assert whole.spread_of(np.array([1, 4]))(np.array([-2.0, -0.0])).tolist() == [0.0, -2.0, *[0.0] * (dev.n_hyps - 2)]
    assert (len(units.table), len(units.unit_idx)) == (dev.n_units, dev.n_occurrences)
    assert units.sum(units.table.column("LM0")) == pytest.approx(whole.table.column("LM0"), abs=1e-9)
