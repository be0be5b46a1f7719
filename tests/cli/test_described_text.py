"""``boostfeat show``: a model as a person reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_trees import stump

from boostfeat.cli.text import described_text
from boostfeat.model.describe import describe
from boostfeat.model.model import Model

pytestmark = pytest.mark.quick


def test_weights_beyond_the_first_are_counted():
    text = described_text(describe(Model({f"f{k}": float(k + 1) for k in range(5)}), None), top=2, most_trees=0)
    assert "f4" in text
    assert "f3" in text
    assert "f2" not in text
    assert "... and 3 more (--top N)" in text


def test_trees_beyond_the_largest_are_counted():
    model = Model({"a": 1.0}, tuple(replace(stump(), name=f"tree.{k:03d}") for k in range(3)))
    text = described_text(describe(model, None), top=2, most_trees=1)
    assert [f"tree.{k:03d}" in text for k in range(3)] == [True, False, False]
    assert text.endswith("... and 2 trees of smaller effect (--trees 0 shows all)")
