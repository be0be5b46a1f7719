"""Kernels of readers look at their own slice of bytes: what stands behind its end does not count, and nothing is read there.

Each reads a text cut at every place: as an array that ends there, and with bytes behind it that would go on. Run as Python, an array
that is left says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from interpreting import interpreted

from boostfeat.formats import byte_kernels, columns, jsonl_fast, marian_fast
from boostfeat.formats.columns import labels_of
from boostfeat.formats.moses import enriched_fast, nbest_fast, phrase_table
from boostfeat.search.graphs import moses_search_graph_fast as search_graph_fast

pytestmark = pytest.mark.quick

LABELS = labels_of([("LM0", 1), ("TM0", 2)])[0]
NAMES = labels_of([('"n"', 1), ('"mä"', 1)], "")[0]


@pytest.fixture(autouse=True)
def _as_python():
    with interpreted():
        yield


def filled(kernel: Any, *shape: int, more: tuple[Any, ...] = (), dtype: type = np.float64) -> Callable[..., Any]:
    """A kernel (buf, i, end, ..., out) with what it has filled beside what it gives."""

    def call(buf, i, end):
        out = np.full(shape, 7, dtype)
        return kernel.py_func(buf, i, end, *more, out), out.tolist()

    return call


def with_string(kernel: Any) -> Callable[..., Any]:
    def call(buf, i, end):
        out = np.full(60, 7, np.uint8)
        return kernel.py_func(buf, i, end, out, 2), out.tolist()

    return call


def segments(buf, i, end):
    spans = np.full((20, 5), -7)
    n = nbest_fast._segments(buf, i, end, 4, spans)
    return n, spans[: max(0, n)].tolist()


def points(buf, i, end):
    spans, found = np.array([[0, 2, 0, 1, 0], [2, 3, 1, 4, 0]]), np.full((20, 3), -7)
    n = nbest_fast._points(buf, i, end, spans, 2, 4, np.empty(4, np.int64), found)
    return n, found[: max(0, n)].tolist()


CASES: list[tuple[str, Callable[..., Any], list[str]]] = [
    ("read_number", byte_kernels.read_number, ["-12.5e-3 ", "+.5", "7e", "1E+22x"]),
    ("read_digits", byte_kernels.read_digits, ["1234567890", "x"]),
    ("skip_blanks", byte_kernels.skip_blanks, ["   x", "x "]),
    ("starts_with", lambda buf, i, end: byte_kernels.starts_with(buf, i, end, np.frombuffer(b"total=012", np.uint8), 0, 9), ["total=012x"]),
    ("_skip", jsonl_fast._skip, [" \t\r x", "x", "\n"]),
    ("_sign", lambda buf, i, end: jsonl_fast._sign(buf, i, end, 58), [" : x", ":", "x:"]),
    ("_key", jsonl_fast._key, ['"id": 1', ' "src_text" :x', '"src" 1', '"nothing": 1', '"hyps":', "id"]),
    ("_is_null", jsonl_fast._is_null, ["null", "nulk"]),
    ("_number", jsonl_fast._number, ["-0.5e3,", "01", "1.", "-", "00", "1.e5"]),
    ("_whole", jsonl_fast._whole, ["123456789]", "1234567890", "1.5", "1e5", "01", "0", "2E1"]),
    ("_span", jsonl_fast._span, ["[1, 12]", "[ 3 , 3 ] x", "[2,1]", "[1]", "1,2]"]),
    ("_hex", jsonl_fast._hex, ["00fF", "00g0"]),
    ("_string", with_string(jsonl_fast._string), ['"ab\\"\\\\\\/c" ,', '"\\u00e4\\ud83d\\ude00x"', '"\\ud83dx"', '"a\\nb"', '"\\ud83d\\u0041"', "x", '"\\udc00"']),
    ("_next", lambda buf, i, end: jsonl_fast._next(buf, i, end, 93), [" , 1", " ] x", "x", ","]),
    ("_numbers", filled(jsonl_fast._numbers, 2), ["[1, -2.5] x", "[1]", "[1, 2, 3]", "[ 1 , 2 ]", "[1 2]"]),
    ("_numbers of none", filled(jsonl_fast._numbers, 0), ["[] x", "[1]", "x"]),
    ("_named_numbers", filled(jsonl_fast._named_numbers, 2, more=(NAMES,)), ['{"n": 1, "mä": 2} x', '{"n" :1}', '{"mä": 1, "n": 2}', '{"n": 1, "mä": 2, "o": 3}']),
    ("_named_numbers of none", filled(jsonl_fast._named_numbers, 0, more=(NAMES,)), ["{ } x", '{"n": 1}']),
    ("read_features", filled(columns.read_features, 3, more=(LABELS,)), ["LM0= -1 TM0= 2  ", "LM0= -1 TM0= 2 3  ", " LM0= -1  TM0= 2 3", "LM0= -1TM0= 2 3", "LM0= -1 TM0= 2 3 4"]),
    ("are_links", lambda buf, i, end: bool(columns.are_links(buf, i, end, 12, 2)), ["0-1 11-0\t", "12-0", "0-2", "0 -1", "1-"]),
    ("put_words", filled(columns.put_words, 8, more=(np.full(30, 7, np.uint8), 1), dtype=np.int64), [" a\tbc  d", ""]),
    ("put_tokens", with_string(byte_kernels.put_tokens), [" a\tbc  d", ""]),
    ("_span of Moses", nbest_fast._span, ["2", "2-13=", "3-2", "2-x"]),
    ("_segments", segments, ["0=0 1-2=1-3 ", "0=0 1=0 2=1-3", "0=4", "0", "0=0=0", "0=1-0"]),
    ("_points", points, ["0-0 1-0  2-3", "2-0", "0-4", "0=0", "0-0x"]),
    ("_block_head", enriched_fast._block_head, ["0-12,w", "1-0,", "1,", "0-1"]),
    ("_block_parts", lambda buf, i, end: repr(enriched_fast._block_parts(buf, i, end)), ["wa=0-0 ,total=-0.5, L", "wa=,L", "total=1,L", "total=x,", "L", "wax"]),
    ("_skip_to_space", search_graph_fast._skip_to_space, ["ab-1 c", " a", "a\x7fb ", "aéb "]),
    ("_number_after", lambda buf, i, end: search_graph_fast._number_after(buf, i, end, search_graph_fast._HYP), [" hyp=12 ", " hyp=x", "hyp=1"]),
    ("_read_core", filled(search_graph_fast._read_core, 2), ["-1.5,2)x", "1)", "1,2,3)", "1;2)"]),
    ("_read_core of none", filled(search_graph_fast._read_core, 0), [")", ""]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text"), [pytest.param(call, text, id=f"{name} {text}") for name, call, texts in CASES for text in texts]
)
def test_nothing_behind_the_end_is_looked_at(call, text):
    call, data = getattr(call, "py_func", call), text.encode()
    for end in range(len(data) + 1):
        own = np.frombuffer(b"<" + data[:end] + b"?", np.uint8)[:-1]  # never empty; the last byte is not in it
        expected = call(own, 1, end + 1)
        for behind in (data[end:], b'"', b"9" * 9, b" ", b"-1", b"]", b"}", b",", b":1", b"null", b"=0 "):
            found = call(np.frombuffer(b"<" + data[:end] + behind + b"?", np.uint8), 1, end + 1)
            assert found == expected, (end, behind)


@pytest.mark.parametrize("has_space", [True, False])
def test_scores_of_tokens(has_space):
    """Cut at every place, as above; their number, and what is left of the room for them."""
    data = b" WordScores= -0.5  1 2.25" + b" " * has_space
    for end in range(len(data) + 1):
        out = np.full(8, 7.0)
        n = marian_fast._read_scores(np.frombuffer(b"<" + data[:end] + b"?", np.uint8)[:-1], 1, 1 + end, out, 2)
        words = data[:end].split()
        numbers = []
        if data[:end].startswith(b" WordScores= ") and words[1:]:
            numbers = [float(word) for word in words[1:]] if words[-1] not in (b"-",) else []
        assert n == (2 + len(numbers) if numbers else -1)
        if n >= 0:
            assert out.tolist() == [7.0, 7.0, *numbers, *[7.0] * (6 - len(numbers))]


# -- what small kernels make of their slice, against Python's own reader --------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['"a"', '""', '"\\u00e4"', '"\\u20AC"', '"\\ud83d\\ude00"', '"\\"\\\\\\/"', '"é€😀"', '"\\u0020"', '"\\ud7ff\\ue000"', '"\\uD83D\\uDE00x"',
     '"\\udbff\\udfff"', '"\\ud800\\udc00"', '"\x7f"'],
)  # fmt: skip
def test_strings_are_pythons(text):
    out, data = np.zeros(40, np.uint8), text.encode()
    end, at = jsonl_fast._string(np.frombuffer(data + b" ,", np.uint8), 0, len(data) + 2, out, 3)
    assert (end, out[3:at].tobytes().decode()) == (len(data) + 1, json.loads(text))
    assert (out[at:] == 0).all()


@pytest.mark.parametrize(
    "text",
    ['"\\n"', '"\\u001f"', '"\x1f"', '"\\ud800"', '"\\udc00"', '"\\udfff"', '"\\ud800\\u0041"', '"\\ud800\\ud800"', '"\\ud800x"', '"\\x"', '"', '"\\',
     '"\\u12"', '"\\ud83d\\ude0"', "a", '"\\ud83d\\ue000"'],
)  # fmt: skip
def test_strings_that_are_left_to_python(text):
    out, data = np.zeros(40, np.uint8), text.encode()
    assert jsonl_fast._string(np.frombuffer(data, np.uint8), 0, len(data), out, 0)[0] == -1


@pytest.mark.parametrize("key", jsonl_fast._NAMES)
def test_every_key_is_known(key):
    for text, expected in (
        (f' "{key}" : x', True),
        (f'"{key}":x', True),
        (f'"{key}x":x', False),
        (f'"{key[:-1]}":x', False),
        (f'"{key}" x', False),
    ):
        data = text.encode()
        found, at = jsonl_fast._key(np.frombuffer(data, np.uint8), 0, len(data))
        assert (found, at) == ((jsonl_fast._NAMES.index(key), len(data) - 1) if expected else (found, -1))


@pytest.mark.parametrize(
    ("fields", "n", "whole", "row"),
    [
        (["1 2", "3  4", "5\t6 ", "7 8\r"], 2, True, 4),
        (["1 2", "3 4 5"], 2, True, 1),
        (["1 2", "3 4 5"], 2, False, 2),
        (["1 2", "3"], 2, False, 1),
        (["1 2x"], 2, True, 0),
        (["1 2x"], 1, False, 1),
        (["1,2"], 1, False, 0),
        (["", "1"], 1, True, 0),
        ([""], 0, True, 1),
        (["1"], 0, True, 0),
    ],
)
def test_numbers_of_a_table(fields, n, whole, row):
    """How far the kernel comes by itself; what it cannot read is for Python."""
    data = b"|".join(text.encode() for text in fields) + b"9"
    size = np.array([len(text) for text in fields])
    begin = np.cumsum(size + 1) - size - 1
    out = np.full((len(fields), n), 7.0)
    assert phrase_table._read_numbers(np.frombuffer(data, np.uint8), begin, begin + size, out, 0, whole) == row
    expected = [[float(word) for word in text.split()[:n]] for text in fields[:row]]
    assert out[:row].tolist() == expected


def test_rows_before_are_left_alone():
    text, out = np.frombuffer(b"1 2 3", np.uint8), np.full((3, 1), 7.0)
    assert phrase_table._read_numbers(text, np.array([0, 2, 4]), np.array([1, 3, 5]), out, 1, True) == 3
    assert out.ravel().tolist() == [7.0, 2.0, 3.0]


@pytest.mark.parametrize("value", [0, 9, 10, 99, 100, 12345, 999_999_999])
def test_digits_are_written(value):
    out = np.zeros(14, np.uint8)
    end = nbest_fast._put_digits(value, out, 3)
    assert out[3:end].tobytes() == str(value).encode()
    assert (out[:3] == 0).all()
    assert (out[end:] == 0).all()
