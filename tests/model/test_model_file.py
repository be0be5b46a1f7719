"""What a model file says is what was signed: edited and damaged files, other layouts, files of earlier versions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.core.strict_json import indented
from boostfeat.model.model import Model
from boostfeat.model.model_file import pack
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

TREE = Tree("tree.000", 0.5, "constant", None, ("LM0", "", ""), np.array([1e-7, 0, 0]), np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([0, 1.0, -2.5]))  # fmt: skip
PLAN = {"boostfeat": "vocab/1", "templates": [{"name": "pt", "features": ["pt:ä|b", 'pt:"|"']}], "numbers": [1, 2.5, 1e-300]}
WEIGHTS = {"LM0": 0.1, "pt:zz": -1e-05, "pt:ä|b": 3e22, "a b": 1.0, "a": 2.0, "a!": -0.0, "日本|…": 5e-324, 'pt:"|\\': 0.25}
DECISION = {"by": "mbr", "scale": 0.8, "length": {"shared": [0.5, 1.0, 0.1], "stems": {"ä": 1.0}, "weight": 2.0}, "rule": "x"}
PLAN_MODEL = Model(WEIGHTS, (TREE,), plan=PLAN)
DECIDING = Model(WEIGHTS, plan=PLAN, config={"decision": DECISION, "calibration": {"keep_first": 0.5}})


def read(path: Path) -> object:
    """Return what Model.load makes of a file: the model as JSON, or a message."""
    try:
        return Model.load(path).to_json()
    except InputError as error:
        return str(error)


def edited(model: Model, before: str, after: str, path: Path) -> object:
    model.save(path)
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    return read(path)


@pytest.mark.parametrize(
    "model", [Model({}, (TREE,)), PLAN_MODEL, DECIDING, Model({"😀": 1.0, "\x01": 2.0, '": ': 1.0, "ä\\x": 1.0})]
)
@pytest.mark.parametrize("layout", [{}, {"indent": 4}, {"indent": 1, "ensure_ascii": False}, {"separators": (",", ":")}])
def test_any_layout_of_the_same_content_is_read(layout, model, tmp_path):
    obj = model.to_json()
    model.save(tmp_path / "m.json")
    assert read(tmp_path / "m.json") == obj
    for swapped in (obj, dict(reversed(obj.items())), {**obj, "weights": dict(reversed(obj["weights"].items()))}):
        (tmp_path / "m.json").write_text(json.dumps(swapped, **layout))
        assert read(tmp_path / "m.json") == obj


OTHER_PLAN = pack({**PLAN, "numbers": [1, 2.5, 2e-300]})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"LM0": 0.1', '"LM0": 0.2', "expected the signature of its content"),
        ('"LM0": 0.1', '"LM0": 0.10', None),  # the same number
        ('"LM0": 0.1', '"LM0": 1e999', "1e999 where a finite number is expected"),
        ('"LM0": 0.1', '"LM0": NaN', "NaN where a finite number is expected"),
        ('"LM0": 0.1', '"LM0": "0.1"', "weights.*: expected a number"),
        ('"LM0": 0.1', '"LM0": 0.1,\n  "LM0": 0.1', "key 'LM0' twice"),
        ('"level"', '"level": "local",\n "level"', "key 'level' twice"),
        ('"level": "local"', '"level": "global"', "expected the signature of its content"),
        ('"threshold": 1e-07', '"threshold": 1e-06', "expected the signature of its content"),
        (pack(PLAN), OTHER_PLAN, "expected the signature of its content"),
        (pack(PLAN), pack(PLAN)[:-4], "features: expected the plan of its features"),
        ('"config"', '"note": 1,\n "config"', "only keys that boostfeat knows, found 'note'"),
        ("model/3", "model/4", "expected format version 3 or lower"),
        ("{\n", "\ufeff{\n", "Unexpected UTF-8 BOM"),
    ],
)
def test_what_somebody_has_edited(before, after, message, tmp_path):
    told = edited(PLAN_MODEL, before, after, tmp_path / "m.json")
    assert told == PLAN_MODEL.to_json() if message is None else re.search(message, told)


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ('"scale": 0.8', '"scale": 0.9', True),
        ('"by": "mbr"', '"by": "score"', True),
        ('"decision": {', '"undecided": {', True),
        ('"weight": 2.0', '"weight": 0.0', True),
        ('"ä": 1.0', '"ö": 1.0', True),
        ('"keep_first": 0.5', '"keep_first": 0', True),
        ('"rule": "x"', '"rule": "y"', False),  # why it decides so
        ("model/3", "model/2", True),  # it does not pass for one of an earlier version
    ],
)
def test_what_decides_is_signed(before, after, refused, tmp_path):
    told = edited(DECIDING, before, after, tmp_path / "m.json")
    assert ("expected the signature of its content" in told) is refused


def test_what_decides_is_signed_where_it_was_not_there(tmp_path):
    more = '"config": {"decision": ' + json.dumps(DECISION)
    assert "expected the signature of its content" in edited(PLAN_MODEL, '"config": {', more, tmp_path / "m.json")


@pytest.mark.parametrize("kind", ["model/1", "model/2"])
@pytest.mark.parametrize("model", [PLAN_MODEL, DECIDING])
def test_files_of_earlier_versions_are_read(kind, model, tmp_path):
    """Those of 0.2.0 and before, whose signature is that of the same model without a config."""
    earlier = {**model.to_json(), "boostfeat": kind, "signature": replace(model, config={}).signature}
    (tmp_path / "m.json").write_text(indented(earlier) + "\n")
    assert read(tmp_path / "m.json") == model.to_json()
    (tmp_path / "m.json").write_text(indented({**earlier, "weights": {"LM0": 0.2}}) + "\n")
    assert "expected the signature of its content" in read(tmp_path / "m.json")
