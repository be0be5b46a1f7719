"""The round that is kept is the best on a held-out list."""

from __future__ import annotations

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.stopping import best_round, staged_scores

QUICK = {"rounds": 12, "min_occurrences": 20, "draws": 300, "keep": 30}


@pytest.mark.parametrize(
    ("gains", "best"), [([1.0], 0), ([1, 2, 3], 2), ([1, 5, 4, 5], 1), ([3, 3], 0), ([0] * 30 + [5] + [2] * 30, 30)]
)
def test_the_best_round_is_the_first_of_the_highest_gain(gains, best):
    assert best_round([{"round": m, "select": g} for m, g in enumerate(gains)]) == best


def test_without_a_held_out_list_the_last_round_is_kept():
    assert best_round([{"round": 0}, {"round": 1}]) == 1


@pytest.mark.parametrize("counts", [range(5), range(2, 5), [0, 3, 6, 9]])
def test_staged_scores_are_those_of_the_shorter_models(dev, select, counts):
    """Of four trees; after more than there are, scores stay as they are."""
    model = boost(dev, None, recipe("fast", **{**QUICK, "rounds": 4}, sparse_l2=1.0))
    for m, scores in zip(counts, staged_scores(model, select, counts), strict=True):
        np.testing.assert_allclose(scores, model.truncated(m).decision_function(select), rtol=0, atol=1e-9)
