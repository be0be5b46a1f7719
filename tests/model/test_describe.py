"""What a model is made of, with the effects of its features."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from strategies import containers, sparsely

from boostfeat.model.describe import describe
from boostfeat.model.effects import within_list_sd
from boostfeat.model.model import Model

pytestmark = pytest.mark.quick


@settings(max_examples=50, deadline=None)
@given(containers().map(sparsely))
def test_effects_of_sparse_features_are_those_of_their_columns(nbest):
    names = nbest.sparse_names.to_pylist()
    weights = {name: k - 1.5 for k, name in enumerate([*names, *nbest.global_names])}
    columns = within_list_sd(nbest.hyp_ptr, nbest.global_sparse.toarray())
    told = {f["name"]: f for f in describe(Model(weights), nbest)["features"]}
    for k, name in enumerate(names):
        assert told[name]["sparse"]
        assert told[name]["effect"] == told[name]["total_effect"] == pytest.approx(abs(weights[name]) * columns[k], abs=1e-6)
