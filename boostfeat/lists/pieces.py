"""Words from the pieces that neural decoders print: SentencePiece, BPE, WordPiece, byte-level BPE.

spm        ▁A ▁group ▁of ▁pick ing      a piece that starts a word has ▁; bytes outside the vocabulary are <0xE2>
bpe        republi@@ kanische           a piece that the next one continues ends in @@
wordpiece  pick ##ing                   a piece that continues the one before starts with ##
bytelevel  A Ġgroup Ġof                 characters stand for bytes, Ġ for a blank (GPT-2)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import I64, Bool, offsets
from ..core.errors import unknown_name
from ..core.text import Strings, string_buffers
from .nbest import strings, take_strings
from .words import Words, words_of

SUBWORDS = ("auto", "spm", "bpe", "wordpiece", "bytelevel", "none")
MARKS = {"spm": "▁", "bpe": "@@", "wordpiece": "##", "bytelevel": "Ġ"}
_MARKED = {"spm": "▁", "bpe": r".@@$", "wordpiece": r"^##."}  # tokens with these marks in their places
LEAST_ROWS = 0.5  # of the texts have a ▁; Japanese has one a sentence
LEAST_TOKENS = 0.3  # of the tokens after the first start with Ġ, which is a letter of Maltese as well
MOST_OUT_OF_PLACE = 0.1  # of tokens with @@ end a text, or of those with ## begin one
_BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


# ---------------------------------------------------------------------------------------------------------------------
# Which pieces
# ---------------------------------------------------------------------------------------------------------------------


def scheme_of(tokens: Words) -> str:
    """The kind of pieces that rows of tokens are in, by all of them; 'none' for words."""
    some = tokens.counts > 0
    if not some.any():
        return "none"
    first, last = np.zeros((2, len(tokens.ids)), bool)
    first[tokens.ptr[:-1][some]] = last[tokens.ptr[1:][some] - 1] = True
    if _n_marked(tokens, "spm") >= LEAST_ROWS * some.sum():
        return "spm"
    for scheme, place in (("bpe", last), ("wordpiece", first)):
        marked = tokens.matches(_MARKED[scheme])
        if marked.any() and (marked & place).sum() <= MOST_OUT_OF_PLACE * marked.sum():
            return scheme
    later = ~first
    blank = tokens.matches("^Ġ") & later
    return "bytelevel" if later.any() and blank.sum() >= LEAST_TOKENS * later.sum() else "none"


def has_marks(lines: Strings) -> bool:
    """Whether any line has any scheme's mark: most have none, and need not be split into words to know."""
    ptr, data = string_buffers(lines)
    text = data[ptr[0] : ptr[-1]].tobytes()
    some = [mark for mark in map(str.encode, MARKS.values()) if mark[:1] in text and mark in text]  # one byte is found sooner
    return any(pc.any(pc.match_substring(lines, mark)).as_py() for mark in some)


def scheme_of_lines(lines: Sequence[str]) -> str:
    """Return the kind of pieces that lines of text are in."""
    return scheme_of(words_of(strings(lines)))


def marked_rows(tokens: Words) -> dict[str, int]:
    """Count the rows that have a token with each scheme's mark, where some have: for a warning."""
    return {scheme: n for scheme in _MARKED if (n := _n_marked(tokens, scheme))}


def _n_marked(tokens: Words, scheme: str) -> int:
    """Count the rows that have a token with the mark of a scheme."""
    return int((tokens.per_row(tokens.matches(_MARKED[scheme])) > 0).sum())


# ---------------------------------------------------------------------------------------------------------------------
# Joining
# ---------------------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """The bytes of a piece, and whether a word begins with it or ends with it whatever is beside it."""

    text: bytes
    opens: bool
    closes: bool


def _spm(name: str) -> _Piece:
    text = name.replace("▁", " ")
    raw = text.encode()
    raw = _BYTE.sub(lambda found: bytes([int(found[1], 16)]), raw) if b"<0x" in raw else raw
    return _Piece(raw, text[:1] == " ", text[-1:] == " ")


def _bpe(name: str) -> _Piece:
    glued = name.endswith("@@")
    return _Piece((name[:-2] if glued else name).encode(), False, not glued)


def _wordpiece(name: str) -> _Piece:
    glued = name.startswith("##") and len(name) > 2
    return _Piece((name[2:] if glued else name).encode(), not glued, False)


def _byte_letters() -> dict[str, bytes]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the others are numbered from U+0100."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): bytes([b]) for b in plain} | {chr(256 + k): bytes([b]) for k, b in enumerate(rest)}


_LETTERS = _byte_letters()


def _bytelevel(name: str) -> _Piece:
    raw = b"".join(_LETTERS.get(c) or c.encode() for c in name)
    return _Piece(raw, raw[:1].isspace(), raw[-1:].isspace())


_READ: dict[str, Callable[[str], _Piece]] = {
    "spm": _spm,
    "bpe": _bpe,
    "wordpiece": _wordpiece,
    "bytelevel": _bytelevel,
    "none": lambda name: _Piece(name.encode(), True, True),
}


@dataclass(frozen=True)
class Joined:
    """Rows of words with the pieces each is made of. A "word" is what blanks cannot divide, or one piece that holds several."""

    ptr: I64  # [n+1] words of each row
    text: Strings  # [W] with single blanks
    n_words: I64  # [W] how many words the text is; 0 only in a row without text
    first: I64  # [W] the first piece of each, in all pieces of all rows
    n_pieces: I64  # [W]

    def rows(self) -> Strings:
        """[n] the texts."""
        return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(self.ptr), self.text), pa.scalar(" ", pa.large_string()))

    def starts(self) -> I64:
        """[W] the first word of each in its row."""
        before = offsets(self.n_words)
        return before[:-1] - np.repeat(before[self.ptr[:-1]], np.diff(self.ptr))


def join_pieces(pieces: Words, scheme: str) -> Joined:
    """Words of rows of pieces; pieces without text of their own (▁ alone) belong to the next word, else to the one before."""
    if scheme not in _READ:
        raise unknown_name("kind of subwords", scheme, SUBWORDS)
    known = [_READ[scheme](name) for name in pieces.names.to_pylist()]
    opens = np.array([p.opens for p in known], bool)[pieces.ids]
    closes = np.array([p.closes for p in known], bool)[pieces.ids]
    has_text = np.array([bool(p.text.strip()) for p in known], bool)[pieces.ids]
    start = opens.copy()
    start[1:] |= closes[:-1]
    start[pieces.ptr[:-1][pieces.counts > 0]] = True
    start = _without_empty(start, has_text, pieces)
    first = np.flatnonzero(start)
    n_pieces = np.diff(np.append(first, len(start)))
    raw = pa.array([p.text for p in known], pa.large_binary()).take(pa.array(pieces.ids))
    groups = pa.LargeListArray.from_arrays(pa.array(np.append(first, len(start))), raw)
    text, n_words = _decoded(pc.binary_join(groups, pa.scalar(b"", pa.large_binary())))
    ptr = offsets(np.bincount(pieces.owner[first], minlength=len(pieces)))
    return Joined(ptr, text, n_words, first, n_pieces)


def _without_empty(start: Bool, has_text: Bool, pieces: Words) -> Bool:
    """Return which pieces start a word, if words without text join the next one of their row, the last one that before."""
    first = np.flatnonzero(start)
    if not len(first):
        return start
    row, is_full = pieces.owner[first], np.logical_or.reduceat(has_text, first)
    full_before, full_rows = offsets(is_full), offsets(np.bincount(row[is_full], minlength=len(pieces)))
    is_next = np.append(True, (row[1:] != row[:-1]) | is_full[:-1] & (full_before[1:-1] < full_rows[row[1:] + 1]))
    out = np.zeros(len(start), bool)
    out[first[is_next]] = True
    return out


def _decoded(raw: pa.LargeBinaryArray) -> tuple[Strings, I64]:
    """Texts with single blanks of UTF-8 bytes, which may be damaged, and their numbers of words. Each distinct one once."""
    encoded = raw.dictionary_encode()
    # as bytes: Unicode's other blanks are parts of words
    words = [[word.decode("utf-8", "replace") for word in text.split()] for text in encoded.dictionary.to_pylist()]
    idx = np.asarray(encoded.indices).astype(np.int64)
    counts = np.array([len(w) for w in words], np.int64)
    return take_strings(strings([" ".join(w) for w in words]), idx), counts[idx] if len(idx) else np.zeros(0, np.int64)


# ---------------------------------------------------------------------------------------------------------------------
# Other segmentations of the same characters
# ---------------------------------------------------------------------------------------------------------------------


def words_at(parts: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the word that each part of a text belongs to: that in which its first character is.

    Parts and words have the same characters. They may be pieces of another vocabulary, and words of a detokenised text.
    """
    ends = [*accumulate(map(len, words[:-1]))]
    return [bisect_right(ends, start) for start in accumulate(map(len, parts[:-1]), initial=0)] if parts else []
