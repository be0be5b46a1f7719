"""Weights of neighbouring target words inside search, against dictionaries: every pair and triple, in and between phrases."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from boostfeat.core.arrays import offsets
from boostfeat.core.errors import InputError
from boostfeat.lists.words import NONE
from boostfeat.search.decoder.search_ngrams import Ngrams, joined

pytestmark = pytest.mark.quick

WORDS = ["a", "b", "c", "|", "new"]
CLASSES = {"a": "1", "b": "2", "|": "2"}  # the others are of class 0
PAIRS = {
    "bi:a|b": 1.0,
    "bi:b|c": 2.0,
    "bi:<s>|a": 4.0,
    "bi:c|</s>": 8.0,
    "bi:|||": 16.0,
    "bi:a|a": 0.0,
    "cb:1|2": 99.0,
    "b|a": 99.0,
}
TRIPLES = {"cb:1|2": 1.0, "cb:2|0": 2.0, "cb:<s>|1": 4.0, "cb:2|</s>": 8.0, "cb:1|2|0": 16.0, "cb:2|0|</s>": 32.0, "cb:0|0|0": 64.0,
           "cb:0|2": 0.0, "bi:a|b": 99.0}  # fmt: skip
PHRASES = ["a", "a b", "b c new", "", "a b c", "| |", "new new new new", "c"]


def of(kind: str, weights: dict[str, float] | None = None) -> Ngrams:
    if kind == "bi":
        return Ngrams.of_words(PAIRS if weights is None else weights, WORDS)
    return Ngrams.of_classes(TRIPLES if weights is None else weights, WORDS, CLASSES)


def symbols_of(kind: str, phrase: str) -> list[str]:
    return [word if kind == "bi" else CLASSES.get(word, "0") for word in phrase.split()]


def weight(kind: str, *symbols: str) -> float:
    """Of a pair or triple, by its name."""
    return (PAIRS if kind == "bi" else TRIPLES).get(f"{kind}:{'|'.join(symbols)}", 0.0)


def arrays(ngrams: Ngrams) -> tuple[np.ndarray, np.ndarray]:
    words = [phrase.split() for phrase in PHRASES]
    return offsets(np.array(list(map(len, words)))), np.array([ngrams.symbol(word) for own in words for word in own], np.int64)


@pytest.mark.parametrize("kind", ["bi", "cb"])
def test_every_pair_and_triple_is_looked_up(kind: str) -> None:
    ngrams = of(kind)
    names = {number: text for text, number in ngrams.numbers.items()}
    numbers = [NONE, *names]
    assert ngrams.of_vocab.tolist() == [ngrams.symbol(word) for word in WORDS]
    assert ngrams.has_triples == (kind == "cb")
    for earlier, before, symbol in product(numbers, repeat=3):
        known = before != NONE and symbol != NONE
        pair = weight(kind, names[before], names[symbol]) if known else 0.0
        is_triple = known and earlier != NONE and kind == "cb"
        triple = weight(kind, names[earlier], names[before], names[symbol]) if is_triple else 0.0
        one = [np.array([number]) for number in (before, symbol, earlier)]
        assert ngrams.lookup(*one[:2]).tolist() == [pair]
        assert ngrams.lookup(*one).tolist() == [triple]


@pytest.mark.parametrize("kind", ["bi", "cb"])
def test_what_lies_within_phrases_and_behind_the_last(kind: str) -> None:
    ngrams = of(kind)
    expected, ends = [], []
    for phrase in PHRASES:
        s = symbols_of(kind, phrase)
        expected.append(sum(weight(kind, *s[k : k + n]) for n in (2, 3) for k in range(len(s) - n + 1)))
        ends.append(sum(weight(kind, *s[-n:], "</s>") for n in (1, 2) if len(s) >= n))
    ptr, symbols = arrays(ngrams)
    assert ngrams.inside(ptr, symbols).tolist() == expected
    assert ngrams.ending(ngrams.edges(ptr, symbols)[0]).tolist() == ends
    assert (max(expected), max(ends)) == ((128, 32) if kind == "cb" else (16, 8))


@pytest.mark.parametrize("kind", ["bi", "cb"])
def test_what_lies_between_phrases(kind: str) -> None:
    """Of the last symbols of one and the first of another: the pair over the edge, and of classes both triples over it."""
    ngrams = of(kind)
    last, first = ngrams.edges(*arrays(ngrams))
    found, rows, columns = ngrams.matrix(last, first)
    for i, one in enumerate(PHRASES):
        for j, other in enumerate(PHRASES):
            a, b = symbols_of(kind, one), symbols_of(kind, other)
            expected = 0.0
            if a and b:
                expected += weight(kind, a[-1], b[0])
                expected += weight(kind, *a[-2:], b[0]) if len(a) > 1 else 0.0
                expected += weight(kind, a[-1], *b[:2]) if len(b) > 1 else 0.0
            assert found[rows[i], columns[j]] == expected, (one, other)
    both, row, column = joined([(found, rows, columns), (10 * found, rows[::-1], columns)])
    for i, j in product(range(len(PHRASES)), repeat=2):
        assert both[row[i], column[j]] == found[rows[i], columns[j]] + 10 * found[rows[::-1][i], columns[j]]
    assert (row.dtype, column.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize("kind", ["bi", "cb"])
def test_no_weights_weigh_nothing(kind: str) -> None:
    ngrams = of(kind, {})
    ptr, symbols = arrays(ngrams)
    assert not ngrams.inside(ptr, symbols).any()
    last, first = ngrams.edges(ptr, symbols)
    assert not ngrams.ending(last).any()
    assert not ngrams.matrix(last, first)[0].any()


def test_classes_with_bars_are_refused() -> None:
    with pytest.raises(InputError) as error:
        Ngrams.of_classes({}, WORDS, {"a": "1|2"})
    assert str(error.value) == "word classes of the model: expected names without '|' in search, found '1|2'; rename it"
