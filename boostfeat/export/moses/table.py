"""Phrase tables in Moses' text format, read in chunks: memory does not depend on the table's size.

    source ||| target ||| scores ||| alignment ||| counts ||| sparse features ||| {{properties}}

The fields after the scores may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numba import njit

from ...core.arrays import F64, I64, U8, offsets
from ...core.errors import FormatError, clip
from ...core.files import decode, read_chunks, read_head
from ...core.strings import Strings, string_buffers
from ...formats.byte_kernels import read_number

SOURCE, TARGET, SCORES, ALIGNMENT, COUNTS, SPARSE = range(6)
LAYOUT = "'source ||| target ||| scores ||| ...'"
CHUNK = 1 << 20
FLOOR = -100.0  # of logarithms in Moses
_BAR = np.frombuffer(b" |||", np.uint8)


@dataclass(frozen=True)
class Entries:
    """Lines of a table, and where their fields are."""

    where: str  # the table's name
    first: int  # number of the first line, from 1
    text: U8  # whole lines
    line: I64  # [n+1] where lines begin
    begin: I64  # [n, 6] of the fields' contents, without blanks around them; the line's end where it has no such field
    end: I64  # [n, 6]
    n_fields: I64  # [n]
    n_scores: int

    def __len__(self) -> int:
        return len(self.begin)

    def place(self, row: int) -> str:
        return f"{self.where}:{self.first + row}"

    def raw(self, row: int, field: int) -> bytes:
        return self.text[self.begin[row, field] : self.end[row, field]].tobytes()

    def texts(self, field: int) -> Strings:
        """[n] contents of a field, "" where a line has none."""
        ptr = offsets(self.end[:, field] - self.begin[:, field])
        data = np.empty(ptr[-1], np.uint8)
        _copy_slices(self.text, self.begin[:, field], ptr, data)
        column = pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(ptr), pa.py_buffer(data))
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            for row in range(len(self)):
                decode(self.raw(row, field), self.place(row))  # raises, and names the line
        return column

    def words(self, field: int) -> F64:
        """[n] how many words a field has."""
        out = np.zeros(len(self))
        _count_words(self.text, self.begin[:, field], self.end[:, field], out)
        return out

    @cached_property
    def scores(self) -> F64:
        """[n, k] as they are written."""
        scores = self._numbers(SCORES, self.n_scores, "scores", whole=True)
        if not (scores >= 0).all():
            row = int(np.argmin((scores >= 0).all(axis=1)))
            raise _error(self.place(row), "probabilities", self.raw(row, SCORES))
        return scores

    def logs(self) -> F64:
        """[n, k] ln of the scores as Moses has them: in single precision, and not below -100."""
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.scores.astype(np.float32)), np.float32(FLOOR)).astype(np.float64)

    def joint_counts(self) -> F64:
        """[n] n(s,t), the third count."""
        return self._numbers(COUNTS, 3, "counts, n(t) n(s) n(s,t),", whole=False)[:, 2]

    def _numbers(self, field: int, n: int, what: str, *, whole: bool) -> F64:
        """[rows, n] the first numbers of a field, or all there are (``whole``)."""
        out = np.zeros((len(self), n))
        begin, end = self.begin[:, field], self.end[:, field]
        # the kernel stops at numbers that are not exact in one rounding; Python reads these few
        row = _read_numbers(self.text, begin, end, out, 0, whole)
        while row < len(self):
            out[row] = _python_numbers(self.raw(row, field), n, what, self.place(row), whole=whole)
            row = _read_numbers(self.text, begin, end, out, row + 1, whole)
        return out


def read_entries(path: str | Path) -> Iterator[Entries]:
    """A table's lines in chunks; every line has as many scores as the first."""
    first, n_scores = 1, count_scores(path)
    for chunk in read_chunks(path, CHUNK):
        text = np.frombuffer(chunk, np.uint8)
        line = np.concatenate([[0], np.flatnonzero(text == ord("\n")) + 1])
        (begin, end), n_fields = np.empty((2, len(line) - 1, 6), np.int64), np.empty(len(line) - 1, np.int64)
        _find_fields(text, line, begin, end, n_fields)
        if (n_fields < 3).any():
            row = int(np.argmax(n_fields < 3))
            found = chunk[line[row] : line[row + 1] - 1]
            raise _error(f"{path}:{first + row}", LAYOUT, found)
        yield Entries(str(path), first, text, line, begin, end, n_fields, n_scores)
        first += len(begin)


def count_scores(path: str | Path) -> int:
    """How many scores a table's first line has."""
    head = read_head(path)
    if not head:
        raise FormatError(str(path), expected="a phrase table", found="an empty file", fix="check what wrote it")
    line = head.split(b"\n", 1)[0]
    fields = line.split(b"|||")
    if len(fields) <= SCORES or not fields[SCORES].split():
        raise _error(f"{path}:1", LAYOUT, line)
    return len(fields[SCORES].split())


def _python_numbers(text: bytes, n: int, what: str, where: str, *, whole: bool) -> list[float]:
    try:
        values = [float(token) for token in text.split()]
    except ValueError:
        values = []
    if len(values) < n or (whole and len(values) > n) or not np.isfinite(values).all():
        raise _error(where, f"{n} {what} as in the first line" if whole else what, text)
    return values[:n]


def _error(where: str, expected: str, found: bytes) -> FormatError:
    return FormatError(where, expected=expected, found=clip(found), fix="give a phrase table in Moses' text format")


# -- kernels ----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _find_fields(text, line, begin, end, n_fields):  # type: ignore[no-untyped-def]
    """IN lines; OUT begin[n, 6], end[n, 6] of contents without blanks, n_fields[n] (up to 6; more are not counted)."""
    for r in range(len(line) - 1):
        stop = line[r + 1] - 1
        i, f = line[r], 0
        while f < 6:
            j = i
            while j + 2 < stop and not (text[j] == 124 and text[j + 1] == 124 and text[j + 2] == 124):
                j += 1
            more = j + 2 < stop
            last = j if more else stop
            while i < last and _is_blank(text[i]):
                i += 1
            while last > i and _is_blank(text[last - 1]):
                last -= 1
            begin[r, f], end[r, f] = i, last
            f += 1
            if not more:
                break
            i = j + 3
        n_fields[r] = f
        begin[r, f:] = end[r, f:] = stop


@njit(cache=True, nogil=True)
def _is_blank(c):  # type: ignore[no-untyped-def]
    return c == 32 or c == 9 or c == 13


@njit(cache=True, nogil=True)
def _read_numbers(text, begin, end, out, row, whole):  # type: ignore[no-untyped-def]
    """OUT out[row:, n] numbers of slices. Gives the first row that it cannot read, or their number."""
    for r in range(row, len(begin)):
        i, stop = begin[r], end[r]
        for k in range(out.shape[1]):
            out[r, k], i = read_number(text, i, stop)
            if i < 0 or (i < stop and not _is_blank(text[i])):
                return r
            while i < stop and _is_blank(text[i]):
                i += 1
        if whole and i < stop:
            return r
    return len(begin)


@njit(cache=True, nogil=True)
def _count_words(text, begin, end, out):  # type: ignore[no-untyped-def]
    for r in range(len(begin)):
        inside = False
        for i in range(begin[r], end[r]):
            blank = _is_blank(text[i])
            if not blank and not inside:
                out[r] += 1
            inside = not blank


@njit(cache=True, nogil=True)
def _copy_slices(text, begin, ptr, out):  # type: ignore[no-untyped-def]
    """OUT out[ptr[r]:ptr[r + 1]] the bytes from begin[r] on."""
    for r in range(len(begin)):
        for k in range(ptr[r + 1] - ptr[r]):
            out[ptr[r] + k] = text[begin[r] + k]


# -- writing ----------------------------------------------------------------------------------------------------------


def spliced(entries: Entries, field: int, added: Strings) -> bytes:
    """The lines with a text [n] behind the content of a field; all else stays as it is. Fields up to it are made if missing."""
    ptr, data = string_buffers(added)
    n_bars = np.maximum(field + 1 - entries.n_fields, 0)
    at = np.where(n_bars > 0, entries.end[np.arange(len(entries)), entries.n_fields - 1], entries.end[:, field])
    out = np.empty(len(entries.text) + int(ptr[-1] - ptr[0]) + int(np.sum(4 * n_bars + 8)), np.uint8)
    size = _splice(entries.text, entries.line, at, n_bars, ptr, data, out)
    return out[:size].tobytes()


@njit(cache=True, nogil=True)
def _splice(text, line, at, n_bars, ptr, added, out):  # type: ignore[no-untyped-def]
    """OUT line[:at], ' |||' n_bars times, the added text, the rest of the line; gives the number of bytes."""
    o = 0
    for r in range(len(at)):
        o = _put(text, line[r], at[r], out, o)
        for _ in range(n_bars[r]):
            o = _put(_BAR, 0, 4, out, o)
        if out[o - 1] != 32:  # an empty field has a blank already
            o = _put(_BAR, 0, 1, out, o)
        o = _put(added, ptr[r], ptr[r + 1], out, o)
        i = at[r]
        while i < line[r + 1] - 1 and _is_blank(text[i]):
            i += 1
        if i < line[r + 1] - 1:
            o = _put(_BAR, 0, 1, out, o)
        elif n_bars[r]:
            o = _put(_BAR, 0, 4, out, o)
        o = _put(text, i, line[r + 1], out, o)
    return o


@njit(cache=True, nogil=True)
def _put(text, a, b, out, o):  # type: ignore[no-untyped-def]
    """OUT out[o:]: text[a:b]; gives the position after it."""
    out[o : o + b - a] = text[a:b]
    return o + b - a
