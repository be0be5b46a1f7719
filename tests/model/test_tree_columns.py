"""Trees as columns of a list: the same scores by weights alone, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import recipe
from boostfeat.core.errors import InputError
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment, augmented_weights, folded


@pytest.mark.parametrize("level", ["local", "global"])
def test_augmented_list_has_the_models_scores(dev, level):
    model = boost(dev, None, recipe("paper", rounds=4, level=level, min_occurrences=20, draws=500, keep=50))
    wider = augment(dev, model)
    linear = Model(augmented_weights(model)).decision_function(wider)
    np.testing.assert_allclose(linear, model.decision_function(dev), rtol=0, atol=1e-6)
    assert folded(augmented_weights(model), model).to_json() == model.to_json()
    with pytest.raises(InputError, match=r"tree\.000"):
        augment(wider, model)
