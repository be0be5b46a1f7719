"""``boostfeat show``: a model as a person reads it."""

from __future__ import annotations

import pytest

from boostfeat.cli.model_commands import described_text
from boostfeat.model.describe import describe
from boostfeat.model.model import Model

pytestmark = pytest.mark.quick


def test_what_each_part_is_worth():
    """Steps as ``induce`` keeps them, on the lists that chose; a model without them says nothing."""
    steps = [
        {"stage": "first choice", "score": 20.0, "gain": 0.0, "error": 0.0},
        {"stage": "+ trees", "score": 21.5, "gain": 1.5, "error": 0.25},
    ]
    model = Model({"a": 1.0}, config={"waterfall": {"by": "folds", "metric": "bleu", "steps": steps}})
    shown = described_text(describe(model, None), top=2, most_trees=0).splitlines()[-3:]
    assert shown == ["bleu by folds  score          gain", "first choice   20.00", "+ trees        21.50  +1.50 ± 0.25"]
    assert "by folds" not in described_text(describe(Model({"a": 1.0}), None), top=2, most_trees=0)


def feature(name: str, weight: float | None, effect: float | None, *, sparse: bool = False) -> dict[str, object]:
    return {"name": name, "weight": weight, "sparse": sparse, "effect": effect, "total_effect": effect and 2 * effect}


def test_a_description_whole():
    """Dense features with an effect come first, all of them; then those with a weight that are sparse or have no effect, ``top``."""
    features = [
        feature("dense", 0.5, 0.125),
        feature("zero", 0.0, 0.0),
        feature("of a tree", None, 0.25),
        feature("sparse", 1.23456, 0.5, sparse=True),
        feature("unseen", -2.0, None),
        feature("lost", 0.0, 0.75, sparse=True),
        feature("third", 3.0, None),
    ]
    trees = [{"name": name, "effect": effect, "rules": "if\nelse"} for name, effect in (("a", 0.5), ("b", None), ("c", 0.75))]
    what = {"signature": "signed", "decides": None, "features": features, "trees": trees}
    assert described_text({**what, "decides": "chance decides"}, top=2, most_trees=2).startswith(
        "signed\nchance decides\n\nfeature"
    )
    assert described_text(what, top=2, most_trees=2).split("\n") == [
        "signed",
        "",
        "feature    weight  total effect",
        "dense         0.5          0.25",
        "zero            0             0",
        "of a tree                   0.5",
        "sparse      1.235             1",
        "unseen         -2",
        "... and 1 more (--top N)",
        "",
        "a  (effect 0.5)",
        "  if",
        "  else",
        "",
        "c  (effect 0.75)",
        "  if",
        "  else",
        "",
        "... and 1 trees of smaller effect (--trees 0 shows all)",
    ]
    whole = described_text(what, top=3, most_trees=0).split("\n")
    assert whole[8:12] == ["third           3", "", "a  (effect 0.5)", "  if"]
    assert whole[-7:] == ["b", "  if", "  else", "", "c  (effect 0.75)", "  if", "  else"]
    assert "..." not in "".join(whole)
