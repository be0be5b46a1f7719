"""Rows of words as numbers, and links between them; by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.lists.nbest import strings
from boostfeat.lists.words import NONE, checked_links, concat, positions, words_of

pytestmark = pytest.mark.quick
TEXTS = ["a B a", "", "c", "a  c "]  # two blanks are one


def test_rows_of_words():
    words = words_of(strings(TEXTS))
    names = words.names.to_pylist()
    assert len(words) == 4
    assert [names[i] for i in words.ids] == ["a", "B", "a", "c", "a", "c"]
    assert (words.ptr.tolist(), words.counts.tolist(), words.owner.tolist()) == (
        [0, 3, 3, 4, 6],
        [3, 0, 1, 2],
        [0, 0, 0, 2, 3, 3],
    )


def test_what_is_asked_of_words():
    words = words_of(strings(TEXTS))
    capital = words.matches("^[A-Z]")
    assert capital.tolist() == [False, True, False, False, False, False]
    assert words.per_row(capital).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert words.per_row(~capital).tolist() == [2.0, 0.0, 1.0, 2.0]
    taken = words.take(np.array([3, 1, 0, 3]))
    assert rows(taken) == [["a", "c"], [], ["a", "B", "a"], ["a", "c"]]


def rows(words):
    names = words.names.to_pylist()
    return [[names[i] for i in words.ids[a:b]] for a, b in pairwise(words.ptr)]


def test_words_of_texts():
    assert rows(words_of(strings(["x y", "", "y"]))) == [["x", "y"], [], ["y"]]
    assert words_of(strings([])).ptr.tolist() == [0]


def test_names_among_others_and_joined():
    assert positions(strings(["b", "q", "a"]), strings(["a", "b"])).tolist() == [1, NONE, 0]
    assert concat(strings(["a", "b"]), "|", strings(["c", ""])).to_pylist() == ["a|c", "b|"]


def test_links():
    assert [checked_links(align) for align in ("0-0 1-2", "", "3-1")] == [((0, 0), (1, 2)), (), ((3, 1),)]


@pytest.mark.parametrize("text", ["0", "a-b", "0-0-0", "0-99999999999"])
def test_other_links_are_refused(text):
    with pytest.raises(InputError, match=f"alignment '{text}': expected links like '0-0 1-2', found others"):
        checked_links(text)
