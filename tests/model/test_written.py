"""Model files as this program writes them are read by a faster parser: what comes out is what the plain reader gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.core.strict_json import indented
from boostfeat.model import model as plain
from boostfeat.model.carried import pack
from boostfeat.model.model import Model
from boostfeat.model.written import read_written
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

TREE = Tree("tree.000", 0.5, "constant", None, ("LM0", "", ""), np.array([1e-7, 0, 0]), np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([0, 1.0, -2.5]))  # fmt: skip
PLAN = {"boostfeat": "vocab/1", "templates": [{"name": "pt", "features": ["pt:ä|b", 'pt:"|"']}], "numbers": [1, 2.5, 1e-300]}
WEIGHTS = {"LM0": 0.1, "pt:zz": -1e-05, "pt:ä|b": 3e22, "a b": 1.0, "a": 2.0, "a!": -0.0, "日本|…": 5e-324, 'pt:"|\\': 0.25}
DECISION = {"by": "mbr", "scale": 0.8, "length": {"shared": [0.5, 1.0, 0.1], "stems": {"ä": 1.0}, "weight": 2.0}, "rule": "x"}
MODELS = {
    "weights": Model(WEIGHTS),
    "trees": Model(WEIGHTS, (TREE,), config={"note": "ü"}, history=({"loss": 0.5},)),
    "plan": Model(WEIGHTS, (TREE,), plan=PLAN),
    "control": Model({"\x01": 1.0}),
    "one weight": Model({"LM0": 1.0}, plan=PLAN),
    "global": Model(WEIGHTS, (TREE,), level="global"),
    "decision": Model(WEIGHTS, plan=PLAN, config={"decision": DECISION, "calibration": {"keep_first": 0.5}}),
}
NOT_WRITTEN = {  # for the plain reader
    "no weights": Model({}, (TREE,)),
    "astral": Model({"😀": 1.0}),  # as two halves in ASCII
    "colon": Model({'": ': 1.0}),
    "hexadecimal": Model({"ä\\x": 1.0}),
}


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What Model.load makes of a file with the faster parser and without: a model as JSON, or a message."""
    found: list[object] = []
    for reader in (read_written, lambda data: None):
        monkeypatch.setattr(plain, "read_written", reader)
        try:
            found.append(json.dumps(Model.load(path).to_json()))
        except InputError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("name", [*MODELS, *NOT_WRITTEN])
def test_what_is_written_is_read_the_same_way(name, tmp_path, monkeypatch):
    model = (MODELS | NOT_WRITTEN)[name]
    model.save(tmp_path / "m.json")
    found, expected = both(tmp_path / "m.json", monkeypatch)
    assert found == expected == json.dumps(model.to_json())
    assert (read_written((tmp_path / "m.json").read_bytes()) is not None) is (name in MODELS)


@pytest.mark.parametrize("layout", [{}, {"indent": 4}, {"indent": 1, "ensure_ascii": False}, {"separators": (",", ":")}])
def test_another_layout_of_the_same_content_is_accepted(layout, tmp_path, monkeypatch):
    obj = MODELS["plan"].to_json()
    for swapped in (obj, dict(reversed(obj.items())), {**obj, "weights": dict(reversed(obj["weights"].items()))}):
        (tmp_path / "m.json").write_text(json.dumps(swapped, **layout))
        found, expected = both(tmp_path / "m.json", monkeypatch)
        assert found == expected
        assert json.loads(found) == obj


OTHER_PLAN = pack({**PLAN, "numbers": [1, 2.5, 2e-300]})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"LM0": 0.1', '"LM0": 0.2', "expected the signature of its content"),
        ('"LM0": 0.1', '"LM0": 0.10', None),  # the same number
        ('"LM0": 0.1', '"LM0": 1e999', "expected a finite number, found inf"),
        ('"LM0": 0.1', '"LM0": NaN', "NaN where a finite number is expected"),
        ('"LM0": 0.1', '"LM0": "0.1"', r"weights\['LM0'\]: expected a number"),
        ('"LM0": 0.1', '"LM0": 0.1,\n  "LM0": 0.1', "key 'LM0' twice"),
        ('"level"', '"level": "local",\n "level"', "key 'level' twice"),
        ('"level": "local"', '"level": "global"', "expected the signature of its content"),
        ('"threshold": 1e-07', '"threshold": 1e-06', "expected the signature of its content"),
        (pack(PLAN), OTHER_PLAN, "expected the signature of its content"),
        (pack(PLAN), pack(PLAN)[:-4], "features: expected the plan of its features"),
        ('"config"', '"note": 1,\n "config"', "expected only the keys"),
        ("model/3", "model/4", "expected format version 3 or lower"),
        ("{\n", "\ufeff{\n", "Unexpected UTF-8 BOM"),
    ],
)
def test_what_somebody_has_edited(before, after, message, tmp_path, monkeypatch):
    MODELS["plan"].save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "m.json").write_text(text.replace(before, after, 1), encoding="utf-8")
    found, expected = both(tmp_path / "m.json", monkeypatch)
    assert found == expected
    if message is None:
        assert found == json.dumps(MODELS["plan"].to_json())
    else:
        with pytest.raises(InputError, match=message):
            Model.load(tmp_path / "m.json")


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
def test_what_decides_is_signed(before, after, refused, tmp_path, monkeypatch):
    MODELS["decision"].save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "m.json").write_text(text.replace(before, after, 1), encoding="utf-8")
    found, expected = both(tmp_path / "m.json", monkeypatch)
    assert found == expected
    assert ("expected the signature of its content" in found) is refused


def test_what_decides_is_signed_where_it_was_not_there(tmp_path, monkeypatch):
    MODELS["plan"].save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text(encoding="utf-8")
    (tmp_path / "m.json").write_text(text.replace('"config": {', '"config": {"decision": ' + json.dumps(DECISION), 1))
    found, expected = both(tmp_path / "m.json", monkeypatch)
    assert found == expected
    assert "expected the signature of its content" in found


@pytest.mark.parametrize("kind", ["model/1", "model/2"])
@pytest.mark.parametrize("name", ["decision", "plan"])
def test_files_of_earlier_versions_are_read(kind, name, tmp_path, monkeypatch):
    """Those of 0.2.0 and before, whose signature is that of the same model without a config."""
    model = MODELS[name]
    earlier = {**model.to_json(), "boostfeat": kind, "signature": replace(model, config={}).signature}
    (tmp_path / "m.json").write_text(indented(earlier) + "\n")
    found, expected = both(tmp_path / "m.json", monkeypatch)
    assert found == expected == json.dumps(model.to_json())
    assert read_written((tmp_path / "m.json").read_bytes()) is not None
    (tmp_path / "m.json").write_text(indented({**earlier, "weights": {"LM0": 0.2}}) + "\n")
    assert "expected the signature of its content" in both(tmp_path / "m.json", monkeypatch)[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_file_is_what_the_plain_reader_says(seed, tmp_path, monkeypatch):
    """A byte replaced, taken out or repeated, anywhere in a file of 1 kB."""
    MODELS["plan"].save(tmp_path / "m.json")
    data, rng = (tmp_path / "m.json").read_bytes(), np.random.default_rng(seed)
    for at in rng.integers(0, len(data), 150).tolist():
        new = [bytes(rng.choice(list(b'0 ",:{}[]\n\\e\xc3'), 1).astype(np.uint8)), b"", data[at : at + 1] * 2][rng.integers(3)]
        (tmp_path / "m.json").write_bytes(data[:at] + new + data[at + 1 :])
        found, expected = both(tmp_path / "m.json", monkeypatch)
        assert found == expected
