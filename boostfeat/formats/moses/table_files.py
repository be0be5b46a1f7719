"""Moses' phrase tables and reordering tables, read in chunks: memory does not depend on the table's size.

    source ||| target ||| scores ||| alignment ||| counts ||| sparse features ||| {{properties}}
    source ||| target ||| orientation scores

The fields after the scores may be missing; blank lines are no entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from ...core.arrays import F64, I64, U8, Array
from ...core.errors import FormatError, clip
from ...core.files import decode, read_chunks, read_head
from ...core.kernels import kernel
from ...core.text import Strings, string_buffers
from ..bar_kernel import copy_slices, copy_words, find_fields, is_blank, put_bytes, read_number

SOURCE, TARGET, SCORES, ALIGNMENT, COUNTS, SPARSE = range(6)
N_FIELDS = 6  # that are told apart; what follows stays with the last
CHUNK = 1 << 20
FLOOR = -100.0  # Moses' smallest logarithm
LARGEST = float(np.finfo(np.float32).max)
N_REORDERING = 6  # monotone, swap, discontinuous: of the phrase after the previous one, and of the next after the phrase
LAYOUT = "'source ||| target ||| scores [||| alignment [||| counts]]'"
COUNTED = "'source ||| target ||| scores ||| alignment ||| n(t) n(s) n(s,t)'"
_BAR = np.frombuffer(b" |||", np.uint8)


@dataclass(frozen=True)
class Kind:
    """Requirements for the lines of a table."""

    layout: str
    most: int  # fields, at most
    scores: str  # what is expected of the scores
    n_scores: int = 0  # 0: as many as the first line has


PHRASES = Kind(LAYOUT, N_FIELDS, "scores as in the first line")
REORDERING = Kind("'source ||| target ||| six probabilities'", 3, "probabilities (msd-bidirectional-fe)", N_REORDERING)


def log_scores(scores: F64, dtype: type[np.floating] = np.float64) -> F64:
    """ln of scores, not below FLOOR; Moses has them in single precision (``np.float32``)."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(scores.astype(dtype)), dtype(FLOOR)).astype(np.float64) + 0.0


@dataclass(frozen=True)
class Entries:
    """Lines of a table, and where their fields are."""

    where: str  # the table's name
    kind: Kind
    n_scores: int
    text: U8  # whole lines
    number: I64  # [n] of the lines, from 1
    line: I64  # [n, 2] where lines begin, and where the next ones do
    begin: I64  # [n, 6] of the fields' contents, without blanks around them; the line's end where it has no such field
    end: I64  # [n, 6]
    n_fields: I64  # [n]

    def __len__(self) -> int:
        return len(self.begin)

    def take(self, rows: Array) -> Entries:
        return replace(
            self,
            number=self.number[rows],
            line=self.line[rows],
            begin=self.begin[rows],
            end=self.end[rows],
            n_fields=self.n_fields[rows],
        )

    def place(self, row: int) -> str:
        return f"{self.where}:{self.number[row]}"

    def raw(self, row: int, field: int) -> bytes:
        return self.text[self.begin[row, field] : self.end[row, field]].tobytes()

    def contents(self, field: int) -> pa.LargeBinaryArray:
        """[n] bytes of a field, b"" where a line has none."""
        begin, end = self.begin[:, field], self.end[:, field]
        ptr, data = np.empty(len(self) + 1, np.int64), np.empty(int(np.sum(end - begin)), np.uint8)
        copy_slices(self.text, begin, end, data, ptr)
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), [None, pa.py_buffer(ptr), pa.py_buffer(data)])

    def texts(self, field: int) -> Strings:
        """[n] contents of a field, "" where a line has none."""
        column = self.contents(field).view(pa.large_string())
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            for row in range(len(self)):
                decode(self.raw(row, field), self.place(row))  # raises, and names the line
        return column

    def words(self, field: int) -> F64:
        """[n] how many words a field has."""
        begin, end = self.begin[:, field], self.end[:, field]
        ptr, out = np.empty(len(self) + 1, np.int64), np.empty(len(self))
        copy_words(self.text, begin, end, np.empty(int(np.sum(end - begin)), np.uint8), ptr, out)
        return out

    @cached_property
    def scores(self) -> F64:
        """[n, k] as they are written."""
        return self._numbers(SCORES, self.n_scores, f"{self.n_scores} {self.kind.scores}", whole=True)

    def logs(self, dtype: type[np.floating] = np.float64) -> F64:
        """[n, k] ln of the scores."""
        return log_scores(self.scores, dtype)

    def joint_counts(self, *, needed: bool = True) -> F64:
        """[n] n(s,t), the third count; without ``needed`` NaN where a line has fewer."""
        if needed:
            return self._numbers(COUNTS, 3, COUNTED)[:, 2]
        out, given = np.full(len(self), np.nan), np.minimum(self.words(COUNTS), 3).astype(np.int64)
        for n in set(given.tolist()) - {0}:
            rows = np.flatnonzero(given == n)
            counts = self.take(rows)._numbers(COUNTS, n, COUNTED)  # read even if not used: what is no number is an error
            if n == 3:
                out[rows] = counts[:, 2]
        return out

    def _numbers(self, field: int, n: int, expected: str, *, whole: bool = False) -> F64:
        """[rows, n] the first numbers of a field, or all there are (``whole``); none is negative."""
        out = np.zeros((len(self), n))
        begin, end = self.begin[:, field], self.end[:, field]
        # the kernel stops at numbers that are not exact in one rounding; Python reads these few
        row = _read_numbers(self.text, begin, end, out, 0, whole)
        while row < len(self):
            out[row] = _python_numbers(self.raw(row, field), n, expected, self.place(row), whole=whole)
            row = _read_numbers(self.text, begin, end, out, row + 1, whole)
        for wrong, expected in ((out < 0, NUMBERS), (out > LARGEST, "numbers that fit Moses' single precision")):
            if wrong.any():
                row = int(np.argmax(wrong.any(axis=1)))
                raise _error(self.place(row), expected, self.raw(row, field))
        return out


NUMBERS = "probabilities or counts, none negative"


def read_entries(path: str | Path, kind: Kind = PHRASES) -> Iterator[Entries]:
    """A table's lines in chunks; every line has as many scores as the kind says, or the first line has."""
    first, n_scores = 1, kind.n_scores or count_scores(path)
    for chunk in read_chunks(path, CHUNK):
        text = np.frombuffer(chunk, np.uint8)
        ends, bars = (np.flatnonzero(text == ord(sign)) for sign in "\n|")
        line = np.stack([np.append(0, ends[:-1] + 1), ends + 1], axis=1)
        begin, end, n_fields = _fields(text, ends, bars)
        number = first + np.arange(len(line))
        entries = Entries(str(path), kind, n_scores, text, number, line, begin, end, n_fields)
        first += len(line)
        blank = (n_fields == 1) & (begin[:, SOURCE] == end[:, SOURCE])
        entries = entries.take(np.flatnonzero(~blank)) if blank.any() else entries
        _check_fields(entries, chunk)
        yield entries


def _fields(text: U8, ends: I64, bars: I64) -> tuple[I64, I64, I64]:
    """Return where the fields of lines begin and end [n, 6] (at the line's end where it has fewer), and how many these are."""
    ptr = np.empty(len(ends) + 1, np.int64)
    begin, end, _ = places = np.empty((3, len(ends) + len(bars) // 3 + 1), np.int64)
    find_fields(text, 0, ends, bars, ptr, *places)
    n_fields, k = np.minimum(np.diff(ptr), N_FIELDS), np.arange(N_FIELDS)
    at = np.minimum(ptr[:-1, None] + k, ptr[1:, None] - 1)
    has = k < n_fields[:, None]
    return np.where(has, begin[at], ends[:, None]), np.where(has, end[at], ends[:, None]), n_fields


def _check_fields(entries: Entries, chunk: bytes) -> None:
    """Every line has a source and the kind's number of fields, and none a NUL, which no text has."""
    wrong = (entries.n_fields < 3) | (entries.n_fields > entries.kind.most) | (entries.begin[:, SOURCE] == entries.end[:, SOURCE])
    if wrong.any():
        row = int(np.argmax(wrong))
        a, b = entries.line[row].tolist()
        raise _error(entries.place(row), entries.kind.layout, chunk[a : b - 1])
    if (at := chunk.find(b"\0")) >= 0:
        row = int(np.searchsorted(entries.line[:, 1], at, side="right"))
        raise _error(entries.place(row), "text", b"a byte 0")


def count_scores(path: str | Path) -> int:
    """Count the scores of a table's first line."""
    head = read_head(path)
    for number, line in enumerate(head.split(b"\n"), 1):
        if line.strip():
            fields = line.split(b"|||")
            if len(fields) <= SCORES or not fields[SCORES].split():
                raise _error(f"{path}:{number}", LAYOUT, line)
            return len(fields[SCORES].split())
    raise FormatError(str(path), expected="a phrase table", found="an empty file", fix="check what wrote it")


def _python_numbers(text: bytes, n: int, expected: str, where: str, *, whole: bool) -> list[float]:
    tokens = text.split()
    try:
        values = [float(token) for token in tokens]
    except ValueError:
        raise _error(where, NUMBERS, text) from None
    if len(values) < n or (whole and len(values) > n):
        raise _error(where, expected, text)
    if not np.isfinite(values).all() or b"_" in text:
        raise _error(where, NUMBERS, text)
    return values[:n]


def _error(where: str, expected: str, found: bytes) -> FormatError:
    return FormatError(where, expected=expected, found=clip(found), fix="give a table in Moses' text format")


# -- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def _is_blank(c):  # type: ignore[no-untyped-def]
    return is_blank(c) or c == 13


@kernel
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


# -- writing ----------------------------------------------------------------------------------------------------------


def write_entry(stream: IO[bytes], src: str, tgt: str, scores: Iterable[float], *more: str) -> None:
    """Write a line; ``more`` are alignment and counts, behind which sparse features and properties stay empty."""
    line = " ||| ".join([src, tgt, format_scores(scores), *more])
    stream.write(f"{line}{' ||| |||' if more else ''}\n".encode())


def format_scores(values: Iterable[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def spliced(entries: Entries, field: int, added: Strings) -> bytes:
    """The lines with a text [n] behind the content of a field; all else stays as it is. Fields up to it are made if missing."""
    ptr, data = string_buffers(added)
    n_bars = np.maximum(field + 1 - entries.n_fields, 0)
    at = np.where(n_bars > 0, entries.end[np.arange(len(entries)), entries.n_fields - 1], entries.end[:, field])
    out = np.empty(len(entries.text) + int(ptr[-1] - ptr[0]) + int(np.sum(4 * n_bars + 8)), np.uint8)
    size = _splice(entries.text, entries.line, at, n_bars, ptr, data, out)
    return out[:size].tobytes()


@kernel
def _splice(text, line, at, n_bars, ptr, added, out):  # type: ignore[no-untyped-def]
    """OUT line[:at], ' |||' n_bars times, the added text, the rest of the line; gives the number of bytes."""
    o = 0
    for r in range(len(at)):
        o = put_bytes(text, line[r, 0], at[r], out, o)
        for _ in range(n_bars[r]):
            o = put_bytes(_BAR, 0, 4, out, o)
        if out[o - 1] != 32:  # an empty field has a blank already
            o = put_bytes(_BAR, 0, 1, out, o)
        o = put_bytes(added, ptr[r], ptr[r + 1], out, o)
        i = at[r]
        while i < line[r, 1] - 1 and _is_blank(text[i]):
            i += 1
        if i < line[r, 1] - 1:
            o = put_bytes(_BAR, 0, 1, out, o)
        elif n_bars[r]:
            o = put_bytes(_BAR, 0, 4, out, o)
        o = put_bytes(text, i, line[r, 1], out, o)
    return o
