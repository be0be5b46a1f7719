"""Words from pieces. The lines are as the tools of the four schemes print them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostfeat.lists.nbest import strings
from boostfeat.lists.pieces import has_marks, join_pieces, scheme_of_lines, words_at
from boostfeat.lists.words import words_of

JOINED = {  # scheme: pieces, words, pieces of each
    "spm": ("▁A ▁pick ing .", ["A", "picking."], [1, 3]),
    "spm, ▁ alone": ("▁ 日本 語 ▁ ▁the", ["日本語", "the"], [3, 2]),
    "spm, ▁ at the end": ("▁a ▁", ["a"], [2]),
    "spm, two words in a piece": ("▁in▁the ▁end", ["in the", "end"], [1, 1]),
    "spm, bytes": ("▁a <0xE2> <0x82> <0xAC> ▁b", ["a€", "b"], [4, 1]),
    "spm, a damaged character": ("▁a <0xE2> ▁b", ["a\ufffd", "b"], [2, 1]),
    "spm, nothing but blanks": ("▁ ▁", [""], [2]),
    "bpe": ("republi@@ kan@@ ische Strategie", ["republikanische", "Strategie"], [3, 1]),
    "bpe, cut off": ("eine republi@@", ["eine", "republi"], [1, 1]),
    "wordpiece": ("pick ##ing it ##", ["picking", "it", "##"], [2, 1, 1]),
    "bytelevel": ("The Ġna ÃŃ ve Ġone", ["The", "naíve", "one"], [1, 3, 1]),
    "bytelevel, half a character in each": ("Ġâ Ĥ ¬", ["€"], [3]),
    "none": ("▁A pick@@ ing", ["▁A", "pick@@", "ing"], [1, 1, 1]),
}


@pytest.mark.parametrize("case", JOINED)
def test_join(case: str) -> None:
    pieces, words, counts = JOINED[case]
    joined = join_pieces(words_of(strings(["", pieces, ""])), case.split(",")[0])
    assert (joined.text.to_pylist(), joined.n_pieces.tolist(), joined.ptr.tolist()) == (
        words,
        counts,
        [0, 0, len(words), len(words)],
    )
    assert joined.rows().to_pylist() == ["", " ".join(words), ""]
    assert joined.starts().tolist() == np.cumsum([0, *(len(w.split()) for w in words[:-1])]).tolist()


LOOKS = [
    ("spm", ["▁A ▁group", "▁日本 語"]),
    ("bpe", ["eine republi@@ kanische Strategie", "ja", "nein"]),
    ("wordpiece", ["he is pick ##ing", "no"]),
    ("bytelevel", ["The Ġcat Ġsat", "No Ġone"]),
    ("none", ["the house", ""]),
    ("none", []),
    ("none", ["mail me @@ home", "a@@"]),  # @@ alone, and at the end
    ("none", ["##Title of a page"]),
    ("none", ["id-dar ta ' Ġanni hija fil-belt", "Ġorġ jgħix hawn ma ' ommu"]),  # Maltese
    ("none", ["a line about ▁ in other text", "and another", "and a third"]),
]


@pytest.mark.parametrize(("scheme", "lines"), LOOKS)
def test_looks_like(scheme: str, lines: list[str]) -> None:
    assert scheme_of_lines(lines) == scheme


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["▁", "▁a", "b", "▁▁", "▁c▁", "<0xC3>", "é", "d▁e"]), max_size=6), max_size=4))
def test_spm_is_what_a_plain_join_gives(rows: list[list[str]]) -> None:
    """A naive twin: put all pieces in a row, ▁ is a blank."""
    joined = join_pieces(words_of(strings([" ".join(row) for row in rows])), "spm")
    plain = [
        "".join(row).encode().replace("▁".encode(), b" ").replace(b"<0xC3>", b"\xc3").decode("utf-8", "replace") for row in rows
    ]
    assert joined.rows().to_pylist() == [" ".join(text.split()) for text in plain]
    assert joined.n_pieces.sum() == sum(map(len, rows))


def test_characters() -> None:
    assert words_at(["the", "hou", "se", "!"], ["the", "house!"]) == [0, 1, 1, 1]
    assert words_at(["thehouse", "!"], ["the", "house", "!"]) == [0, 2]
    assert words_at(["", "a", ""], ["a"]) == [0, 0, 0]
    assert words_at([], []) == []


def test_characters_as_plain_python_finds_them() -> None:
    """The word of the character that a part begins with; what comes after the last character belongs to the last word."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        words = ["abcdefgh"[: rng.integers(0, 5)] for _ in range(rng.integers(1, 6))]
        text, parts = "".join(words), []
        while "".join(parts) != text or rng.random() < 0.3:
            at = len("".join(parts))
            parts.append(text[at : at + int(rng.integers(0, 4))])
        owner = [k for k, word in enumerate(words) for _ in word]
        starts = [len("".join(parts[:k])) for k in range(len(parts))]
        assert words_at(parts, words) == [owner[at] if at < len(owner) else len(words) - 1 for at in starts]


@pytest.mark.parametrize("mark", ["▁", "@@", "##", "Ġ"])
def test_marks_of_any_line_are_found(mark: str) -> None:
    """Not what one line ends and the next begins with, nor what is outside of a part of a column."""
    half = len(mark) // 2
    for lines in (["a", f"b{mark}"], [mark], [f"{mark} a", ""], ["", "", f"x {mark}y"]):
        assert has_marks(strings(lines))
    for lines in ([], [""], ["a", "b c"], ["é ▂ ġ # @"], [f"a{mark[:half]}", f"{mark[half:]}b"] if half else ["Ä"]):
        assert not has_marks(strings(lines))
    assert not has_marks(strings([mark, "a", "b", mark])[1:3])
