"""JSON from elsewhere: what could not be written again is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boostfeat.core.strict_json import indented, parse_json, read_json, write_json

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'"\ud800"', "half of a character"),
        (r'"\uDC00 x"', "half of a character"),
        (r'"\ud83d\ude00 \ud83d"', "half of a character"),
        (r'"a\u0000"', r"\\u0000, which no text has"),
        ("[" * 200_000, "nested too deeply"),
        ("[1, -" + "1" * 400 + "]", "a whole number of 401 digits where a finite number is expected"),
        ("[1e999]", "1e999 where a finite number is expected"),
        ("[NaN]", "NaN where a finite number is expected"),
        (r'"\\\u0000"', r"\\u0000, which no text has"),
        ('[{"a": 1, "b": {"a": 1}, "a": 2}]', "key 'a' twice in one object"),
        ("{", "Expecting"),
        (" \n", "no text"),
    ],
)
@pytest.mark.parametrize("kind", [str, str.encode])
def test_refused(text, message, kind):
    with pytest.raises(ValueError, match=message):
        parse_json(kind(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\\u0000"', r"\u0000"),
        ("1" * 299, int("1" * 299)),
        (b'{"a": 1}', {"a": 1}),
    ],
)
def test_taken(text, value):
    assert parse_json(text) == value


def test_files(tmp_path):
    path = tmp_path / "a.json"
    assert read_json(path) is None
    write_json(path, {"ä": [1.5]})
    assert path.read_bytes() == '{\n "ä": [\n  1.5\n ]\n}\n'.encode()
    assert read_json(path) == {"ä": [1.5]}
    for other in ("[1]", "{"):
        path.write_text(other)
        assert read_json(path) is None


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
keys = st.text() | st.integers() | st.booleans()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.tuples(inner, inner)))
def test_indented_text_is_that_of_python(value):
    assert indented(value) == json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, [[{"a": [1.0, -float("inf")]}]]])
def test_no_text_for_what_is_no_number(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        indented(value)
