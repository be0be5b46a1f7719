"""The gradient at the PRO solution, from its definition."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.boosting.first_gradient import first_gradient
from boostfeat.losses.pairs import pairs_for
from boostfeat.model.model import Model
from boostfeat.tuners.linear import linear_problem

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("gain", [None, "bleu", "ter"])
def test_it_is_the_definition(gain):
    """g = A' P' σ(-z), by sparse matrices; BLEU where nothing is said. It does not depend on threads."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=4))
    pairs = pairs_for(nbest, BoostOptions().pairs, gain=gain or "bleu", seed=3)
    scores = Model(linear_problem(nbest, pairs).fit(l2=BoostOptions().l2).weights).decision_function(nbest)
    z = scores[pairs.better] - scores[pairs.worse]
    by_hyp = np.zeros(nbest.n_hyps)
    np.add.at(by_hyp, pairs.better, 1 / (1 + np.exp(z)))
    np.add.at(by_hyp, pairs.worse, -1 / (1 + np.exp(z)))
    found, counts = first_gradient(nbest, gain=gain, seed=3)
    assert found == pytest.approx(nbest.A.T @ by_hyp, abs=1e-9)
    assert counts.tolist() == np.bincount(nbest.unit_idx, minlength=nbest.n_units).tolist()
    again, _ = first_gradient(nbest, gain=gain, seed=3, threads=2)
    assert np.array_equal(found, again)
