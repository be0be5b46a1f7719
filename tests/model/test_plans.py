"""The plan of features as text in a model file, and the signature over it."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib

import pytest

from boostfeat.core.errors import FormatError
from boostfeat.model.model import Model
from boostfeat.model.model_file import pack, plan_digest, unpack

pytestmark = pytest.mark.quick
PLAN = {"b": [1, 2.5], "a": "é"}
BYTES = '{"a":"é","b":[1,2.5]}'.encode()


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_the_same_plan_is_the_same_text():
    assert zlib.decompress(base64.b64decode(pack(PLAN))) == BYTES
    assert pack(dict(reversed(PLAN.items()))) == pack(PLAN)
    assert unpack(pack(PLAN), "m") == PLAN
    assert plan_digest(PLAN) == hashlib.sha256(BYTES).hexdigest()[:12]


def test_signatures_are_hashes_of_what_is_computed():
    computed = ["local", [["a", 1.0], ["b", 2.0]], []]
    for plan in (None, PLAN):
        digest = hashlib.sha256(json.dumps(computed + [plan_digest(PLAN)] * bool(plan)).encode()).hexdigest()[:12]
        found = Model({"b": 2.0, "a": 1.0}, plan=plan).signature
        assert Model({}, plan=plan).to_json()["boostfeat"] == "model/3"
        assert found == f"boostfeat|level:local|weights:2|trees:0|sha256:{digest}"


@pytest.mark.parametrize("size", [900_000, 1_000_000])
def test_a_plan_may_be_repetitive(size):
    assert len(unpack(packed(b'{"a": "' + b"x" * size + b'"}'), "m")["a"]) == size


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (packed(b"[1]"), "'list'"),
        ("%", "'Only base64"),
        (packed(b'{"a": 1}')[:8], "'"),
        (packed(b'{"a": NaN}'), "'"),
        (packed(b'{"a": 1e999}'), "'"),
        (packed(b"\xff"), '"'),
        ("%" + packed(b'{"a": 1}'), "'"),
        (packed(b'{"a": "' + b"x" * 4_000_000 + b'"}'), "'it is cut off, or far too large'"),
        (base64.b64encode(zlib.compress(BYTES)[:-4]).decode(), "'it is cut off, or far too large'"),
    ],
)
def test_other_texts_are_refused(text, found):
    with pytest.raises(FormatError, match=f"^m: expected the plan of its features, .* found {found}.*; make the model again$"):
        unpack(text, "m")
