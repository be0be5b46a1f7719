"""What a model is made of, with the effects of its features."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from strategies import containers, sparsely
from toy_trees import stump

from boostfeat.model.describe import describe
from boostfeat.model.effects import within_list_sd
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment

pytestmark = pytest.mark.quick


@settings(max_examples=50, deadline=None)
@given(containers().map(sparsely))
def test_effects_of_sparse_features_are_those_of_their_columns(nbest):
    names = nbest.sparse_names.to_pylist()
    weights = {name: k - 1.5 for k, name in enumerate([*names, *nbest.global_names])}
    columns = [within_list_sd(nbest.hyp_ptr, column) for column in nbest.global_sparse.toarray().T]
    told = {f["name"]: f for f in describe(Model(weights), nbest)["features"]}
    for k, name in enumerate(names):
        assert told[name]["sparse"]
        assert told[name]["effect"] == told[name]["total_effect"] == pytest.approx(abs(weights[name]) * columns[k], abs=1e-6)


def test_effects_of_trees_are_those_of_their_columns(dev):
    model = Model({"LM0": 1.0}, (stump(on="LM0", feature="LM0", threshold=-1.0, weight=2.0),))
    (told,) = describe(model, dev)["trees"]
    column = augment(dev, model).global_column("tree.000")
    assert told["effect"] == pytest.approx(2.0 * within_list_sd(dev.hyp_ptr, column))
    x = dev.units.x[dev.unit_idx][:, dev.unit_names.index("LM0")]
    assert told["fires"] == [int((x <= -1).sum()), int((x > -1).sum())]


@pytest.mark.parametrize(("features", "trees"), [(20, 3), (21, 4), (1200, 1005), (1, 0)])
def test_a_notebook_shows_twenty_features_and_three_trees(features, trees):
    """By weight, where no effect is known; and says how many there are beside them."""
    every = tuple(replace(stump("constant", None, feature="f0"), name=f"tree.{m:03d}") for m in range(trees))
    html = Model({f"f{k}": float(features - k) for k in range(features)}, every)._repr_html_()
    assert [f">f{k}<" in html for k in range(features)] == [k < 20 for k in range(features)]
    assert [f"tree.{m:03d}" in html for m in range(trees)] == [m < 3 for m in range(trees)]
    assert (f"the first 20 of {features:,} features" in html, "the first" in html) == (features > 20, features > 20)
    assert (f"and {trees - 3:,} more trees" in html, "more trees" in html) == (trees > 3, trees > 3)
