"""Words and characters as numbers, against plain Python."""

from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
import pytest
from metric_lists import columns

from boostfeat.metrics.symbols import (
    CHARACTERS,
    LETTERS,
    SEPARATED,
    WORDS,
    _hash,
    _is_punctuation,
    _width,
    fill_rows,
    lower,
    number_symbols,
)

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:overflow encountered")]  # of hashes, run as Python

LISTS = [
    (["a b  a", " Hello, (world)! ", ""], ["a b c", "b d."]),
    ([], ["x"]),
    (
        ["\u00e4\u20ac\U0001f600 \u3000\u00a0x\t", "...", "(a", "a)", "(a)", "é!", "!", "¿a"],
        ["\u00e4 \u20ac\U0001f600x x ...", "", "( a ) é !"],
    ),
]


def separated(word: str) -> list[str]:
    """As chrF++ does: a mark at the end of a word, or else at its beginning, is a word."""
    if len(word) < 2:
        return [word]
    if word[-1] in string.punctuation:
        return [word[:-1], word[-1]]
    return [word[0], word[1:]] if word[0] in string.punctuation else [word]


SPLIT = {
    WORDS: str.split,
    SEPARATED: lambda text: [part for word in text.split() for part in separated(word)],
    CHARACTERS: lambda text: list(text.strip()),
    LETTERS: lambda text: [c for c in text if not c.isspace()],
}


@pytest.mark.parametrize("kind", SPLIT)
def test_symbols_are_numbered_by_the_references(kind):
    """In order of first appearance, sentence by sentence; -1 is in none of them."""
    found = number_symbols(**columns(LISTS), kind=kind)
    h = r = 0
    for s, (hyps, refs) in enumerate(LISTS):
        types: dict[str, int] = {}
        for ref in refs:
            expected = [types.setdefault(symbol, len(types)) for symbol in SPLIT[kind](ref)]
            assert found.ref_ids[found.ref_sym_ptr[r] : found.ref_sym_ptr[r + 1]].tolist() == expected
            r += 1
        for hyp in hyps:
            expected = [types.get(symbol, -1) for symbol in SPLIT[kind](hyp)]
            assert found.ids[found.ptr[h] : found.ptr[h + 1]].tolist() == expected
            h += 1
        assert found.n_types[s] == len(types)
    assert (found.ptr[0], found.ref_sym_ptr[0]) == (0, 0)


def test_bytes():
    """FNV-1a's published values of "", "a" and "foobar"; punctuation as Python has it; UTF-8 by its first byte."""
    text = np.frombuffer(b"-foobara", np.uint8)
    assert [int(_hash(text, a, b)) for a, b in ((1, 1), (7, 8), (1, 7))] == [
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    ]
    assert [chr(c) for c in range(256) if _is_punctuation(np.uint8(c))] == sorted(string.punctuation)
    for c in "\0\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff":
        assert _width(np.uint8(c.encode()[0])) == len(c.encode())


@pytest.mark.parametrize("texts", [["Ab C", ""], [], ["İ ΑΣ Σ", "ÄB"], ["~\x7fZ"]])
def test_lower_case_is_that_of_python(texts):
    column = pa.array(["ÄÖ", *texts], pa.large_string())[1:]
    assert lower(column).to_pylist() == [text.lower() for text in texts]


@pytest.mark.parametrize("n", [1, 63, 200])
def test_rows_are_filled_block_by_block(n):
    """Each hypothesis gets the numbers of its own sentence, whatever block and thread it is in."""
    lists = [([f"w{s} x", "x"][: s % 3], [f"w{s}", "y"][: 1 + s % 2]) for s in range(n)]

    def fill(rows, words, letters):
        rows[:, 0] = np.diff(words.ptr)
        rows[:, 1] = np.diff(letters.ptr)
        rows[:, 2] = np.repeat(words.n_types, np.diff(words.hyp_ptr))

    expected = [[len(hyp.split()), len(hyp.replace(" ", "")), len(refs)] for hyps, refs in lists for hyp in hyps]
    for threads in (1, 3):
        out = np.zeros((len(expected), 3), np.int64)
        assert fill_rows(fill, out, **columns(lists), kinds=(WORDS, LETTERS), threads=threads).tolist() == expected
    lists[n // 2] = (lists[n // 2][0], [])
    with pytest.raises(ValueError, match=f"^sentence {n // 2}: expected at least one reference, found none$"):
        fill_rows(fill, out, **columns(lists), kinds=(WORDS, LETTERS))
