"""The model file: exact round trips, refusals that name their place, scores by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from boostfeat.core.errors import FormatError, InputError
from boostfeat.lists.build import Builder, HypRecord, UnitRecord
from boostfeat.model.model import Model
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

DESIGN = {  # the example of the contract
    "boostfeat": "model/1",
    "level": "local",
    "weights": {"LM0": 0.21},
    "trees": [
        {
            "name": "tree.000",
            "weight": 0.8,
            "leaf": "linear",
            "on": "TranslationModel0_1",
            "nodes": [{"feature": "PhraseCount", "threshold": 2.0, "left": 1, "right": 2}, {"value": 2.0}, {"value": 1.0}],
        }
    ],
    "config": {},
    "history": [],
}


def lists():
    builder = Builder()
    for words, counts in (("a b", (1, 3)), ("a c", (1, 2)), ("b", (3,))):
        units = [
            UnitRecord({"PhraseCount": c, "TranslationModel0_1": -1.5, "LM0": -2.0}, src=(i, i + 1), tgt=(i, i + 1))
            for i, c in enumerate(counts)
        ]
        builder.add(HypRecord(0, words, "x", -1.0, {"LM0": 0.5}, units))
    return builder.finish()


def test_scores_of_the_contracts_example_by_hand():
    """-4 or -2 (+ .5) times .21, plus .8 times 2 or 1 times -1.5 for counts up to 2 or above."""
    scores = Model.from_json(DESIGN, "m").decision_function(lists())
    expected = [0.21 * -3.5 + 0.8 * (-3 - 1.5), 0.21 * -3.5 + 0.8 * (-3 - 3), 0.21 * -1.5 + 0.8 * -1.5]
    np.testing.assert_allclose(scores, expected, rtol=1e-15)
    assert Model.from_json(DESIGN, "m").predict(lists()).tolist() == [2]


def test_global_trees_see_the_sums():
    scores = Model.from_json({**DESIGN, "level": "global"}, "m").decision_function(lists())
    expected = [0.21 * -3.5 + 0.8 * 1 * -3, 0.21 * -3.5 + 0.8 * 1 * -3, 0.21 * -1.5 + 0.8 * 1 * -1.5]  # counts 4, 3, 3
    np.testing.assert_allclose(scores, expected, rtol=1e-15)


def test_figure_1():
    """[TA13] Figure 1: local values sum to the printed global ones; h1 is Figure 2's tree, h2 a constant one over the count."""
    x = {"f0": (-1.2, -0.8), "f1": (-5.3, -1.3), "f2": (1.0, 3.0), "f3": (-7.6, -10.2)}
    builder = Builder()
    units = [UnitRecord({name: values[p] for name, values in x.items()}, src=(p, p + 1), tgt=(p, p + 1)) for p in (0, 1)]
    builder.add(HypRecord(0, "the-conference-center in-Bulgaria", "x", units=units))
    nbest = builder.finish()
    np.testing.assert_allclose(nbest.global_features[0], [-2.0, -6.6, 4.0, -17.8], rtol=1e-15)
    split = [{"feature": "f2", "threshold": 2.0, "left": 1, "right": 2}]
    h1 = Tree.from_json(
        {"name": "h1", "weight": 1, "leaf": "linear", "on": "f1", "nodes": [*split, {"value": 2}, {"value": 1}]}, "h1"
    )
    h2 = Tree.from_json({"name": "h2", "weight": 1, "leaf": "constant", "nodes": [*split, {"value": 0.5}, {"value": 0.8}]}, "h2")
    for tree, expected in ((h1, -11.9), (h2, 1.3)):
        assert Model({}, (tree,)).decision_function(nbest)[0] == pytest.approx(expected, rel=1e-15)


def test_round_trip_is_exact(tmp_path):
    model = Model(
        {"a": 0.1, "b|c=": -1e-308, "ü": 1 / 3}, (Tree.from_json(DESIGN["trees"][0], "t"),), "global", {"x": [1]}, ({"r": 1},)
    )
    model.save(tmp_path / "m.json.gz")
    again = Model.load(tmp_path / "m.json.gz")
    assert again == model
    assert again.signature == model.signature
    again.save(tmp_path / "n.json")
    again.save(tmp_path / "o.json")
    assert (tmp_path / "n.json").read_bytes() == (tmp_path / "o.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boostfeat": "nbest/1"}, "expected a model file"),
        ({"boostfeat": "model/\u0661"}, "expected a model file"),
        ({"boostfeat": "model/4"}, "expected format version 3 or lower, found 4; upgrade boostfeat"),
        ({"level": "universal"}, "universal"),
        ({"weights": {"a": "b"}}, "weights[...]: expected a number, found a string"),
        (
            {"weights": []},
            "weights: expected an object, found a list; correct it, or write the model again with 'boostfeat induce'",
        ),
        ({"trees": {}}, "trees: expected a list"),
        ({"trees": [{**DESIGN["trees"][0], "weight": "x"}]}, "trees[0].weight: expected a number"),
        (
            {"trees": [{**DESIGN["trees"][0], "nodes": [{"feature": "a", "threshold": 1, "left": 0, "right": 0}]}]},
            "trees[0].nodes[0].left",
        ),
        ({"colour": "red"}, "only keys that boostfeat knows, found 'colour'"),
    ],
)
def test_malformed_models_name_their_place(tmp_path, change, message):
    (tmp_path / "m.json").write_text(json.dumps({**DESIGN, **change}))
    with pytest.raises(FormatError) as error:
        Model.load(tmp_path / "m.json")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boostfeat": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "\x00\x01"])
def test_files_that_are_no_models(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(FormatError):
        Model.load(tmp_path / "m.json")


def test_numbers_must_be_finite():
    with pytest.raises(ValueError, match="weight of a"):
        Model({"a": float("nan")})
    with pytest.raises(FormatError):
        Model.from_json({**DESIGN, "weights": {"a": 10**400}}, "m")


def test_local_trees_need_units():
    builder = Builder()
    builder.add(HypRecord(0, "a", "x", -1.0, {"LM0": 1.0}))
    with pytest.raises(InputError, match="units"):
        Model.from_json(DESIGN, "m").decision_function(builder.finish())


def test_missing_features_are_named():
    assert Model.from_json({**DESIGN, "weights": {"LM9": 1.0, "zero": 0.0, "LM8": -1.0}}, "m").missing_features(lists()) == [
        "LM8",
        "LM9",
    ]


def test_a_model_whose_signature_is_not_that_of_its_content_is_refused(tmp_path):
    model = Model.from_json(DESIGN, "m")
    model.save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    (tmp_path / "m.json").write_text(text.replace("0.21", "0.22"))
    with pytest.raises(FormatError, match=r"m\.json: expected the signature of its content, sha256:\w+, found .* --allow-edited"):
        Model.load(tmp_path / "m.json")
    assert Model.load(tmp_path / "m.json", allow_edited=True).weights == {"LM0": 0.22}
    with pytest.raises(FormatError, match="signature"):
        Model.from_json({**model.to_json(), "signature": 3}, "m")
    assert Model.from_json({**model.to_json(), "config": {"note": "edited"}}, "m") is not None  # it does not score


def test_trees_of_one_name_are_refused():
    with pytest.raises(FormatError, match=r"m: trees: expected distinct names, found 'tree.000' twice"):
        Model.from_json({**DESIGN, "trees": DESIGN["trees"] * 2}, "m")


@pytest.mark.parametrize(
    ("changes", "who"),
    [
        ({"weights": {"LM0": 1e308}}, "the model has weights or leaves of enormous values"),
        ({"trees": [{**DESIGN["trees"][0], "nodes": [{"value": -1e308}]}]}, "the model has weights or leaves of enormous values"),
        (  # neither the leaf nor the weight alone
            {"trees": [{**DESIGN["trees"][0], "weight": 1e250, "nodes": [{"value": 1e99}]}]},
            "the model has weights or leaves of enormous values",
        ),
    ],
)
def test_scores_that_overflow_are_blamed_on_the_model(changes, who, recwarn):
    with pytest.raises(InputError, match=who):
        Model.from_json({**DESIGN, **changes}, "m").decision_function(lists())
    assert not recwarn.list  # of numpy


def test_scores_that_overflow_are_blamed_on_the_list(recwarn):
    builder = Builder()
    builder.add(HypRecord(0, "a", "x", -1.0, {"LM0": 1.7e308, "b": 1.7e308}))
    with pytest.raises(InputError, match="the list has features of enormous values"):
        Model({"LM0": 1.0, "b": 1.0}).decision_function(builder.finish())
    assert not recwarn.list


@pytest.mark.parametrize("part", [{"config": {"c": float("inf")}}, {"history": [{"epoch": 1, "dev": float("nan")}]}])
def test_what_is_no_number_is_no_part_of_a_model(part):
    """JSON reads 1e999 as an infinity, which no JSON could be written of again."""
    with pytest.raises(FormatError, match=r"^m: expected a valid model, found .*; make it again"):
        Model.from_json({**Model({}).to_json(), **part}, "m", allow_edited=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0 ||| a ||| f= 1 ||| 1\n", "a list"),
        ('{"boostfeat": "nbest/1"}\n{"id": 0}\n', "a list"),
        ("plain words\n", "text"),
        ("", "an empty file"),
        ('{"boostfeat": "model/1", }', "Expecting property name"),  # where it is damaged
        (' {"weights": {"a": }}', "Expecting value: line 1 column 20"),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path, text, found):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(FormatError, match=f"m.json: expected a model file in JSON, found {found}"):
        Model.load(tmp_path / "m.json")
