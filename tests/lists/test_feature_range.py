"""Features of values beyond all measure: found in units and hypotheses, dense and sparse, and set to 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from strategies import build

from boostfeat.lists.build import HypRecord, UnitRecord
from boostfeat.lists.feature_range import LARGEST, SMALLEST, learnable, out_of_range, range_warnings

pytestmark = pytest.mark.quick


def lists(**features: float):
    """A feature of each name, given by a unit and, twice as large, by the hypothesis itself."""
    unit = UnitRecord({**features, "fine": 1.0})
    return build([HypRecord(0, "a", "h", -1.0, {name: 2 * value for name, value in features.items()}, [unit])])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LARGEST / 2, None),
        (SMALLEST, None),
        (0.0, None),
        (-LARGEST, 2 * LARGEST),  # as a unit's it is just within
        (1e200, 2e200),
        (-1e-70, 2e-70),
        (SMALLEST / 2, SMALLEST / 2),  # the hypothesis' own is just within: of what is wrong the largest
    ],
)
def test_bounds(value, expected):
    found = out_of_range(lists(wild=value))
    assert found == ({} if expected is None else {"wild": expected})


def test_what_is_no_number_is_out_of_range():
    nbest = lists(wild=1.0)
    for value in (np.nan, np.inf):
        found = out_of_range(replace(nbest, extra=np.where(np.array(nbest.extra_names) == "wild", value, nbest.extra)))
        assert list(found) == ["wild"]
        np.testing.assert_equal(found["wild"], value)


def test_what_is_left_out_is_0_and_said_once():
    nbest = lists(wild=1e300, tiny=1e-300)
    kept = learnable(nbest)
    assert kept.global_column("wild").tolist() == kept.global_column("tiny").tolist() == [0.0]
    assert kept.global_column("fine").tolist() == nbest.global_column("fine").tolist()
    assert learnable(kept) is kept
    assert list(range_warnings(nbest, ["tiny"])) == ["wild"]
    assert (
        range_warnings(nbest)["tiny"]
        == "feature tiny has values up to 2e-300, outside 1e-60 to 1e+60: it is left out, its weight is 0"
    )
    assert np.isfinite(kept.X).all()
