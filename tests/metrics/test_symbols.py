"""Words and characters as numbers, against plain Python."""

from __future__ import annotations

import string

import pyarrow as pa
import pytest
from metric_lists import columns

from boostfeat.metrics.symbols import CHARACTERS, LETTERS, SEPARATED, WORDS, lower, number_symbols

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
    found = number_symbols(columns(LISTS), kind=kind)
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


@pytest.mark.parametrize("texts", [["Ab C", ""], [], ["İ ΑΣ Σ", "ÄB"], ["~\x7fZ"]])
def test_lower_case_is_that_of_python(texts):
    column = pa.array(["ÄÖ", *texts], pa.large_string())[1:]
    assert lower(column).to_pylist() == [text.lower() for text in texts]
