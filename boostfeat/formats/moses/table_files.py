"""Moses' phrase tables and reordering tables, read in chunks: memory does not depend on the table's size.

    source ||| target ||| scores ||| alignment ||| counts ||| sparse features ||| {{properties}}
    source ||| target ||| orientation scores

The fields after the scores may be missing; blank lines are no entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.arrays import F64, I64, Array, offsets, owners
from ...core.errors import FormatError, clip
from ...core.files import decode, read_blocks, read_head
from ...core.text import Strings
from ...lists.nbest import Units
from ..bar_kernel import copy_slices
from ..bar_lines import BarLines
from ..fields import floats

SOURCE, TARGET, SCORES, ALIGNMENT, COUNTS = range(5)
CHUNK = 1 << 20
FLOOR = -100.0  # Moses' smallest logarithm
LARGEST = float(np.finfo(np.float32).max)
N_REORDERING = 6  # monotone, swap, discontinuous: of the phrase after the previous one, and of the next after the phrase
LAYOUT = "'source ||| target ||| scores [||| alignment [||| counts]]'"
COUNTED = "'source ||| target ||| scores ||| alignment ||| n(t) n(s) n(s,t)'"


@dataclass(frozen=True)
class TableKind:
    """Requirements for the lines of a table."""

    layout: str
    most: int | None  # fields, at most
    scores: str  # what is expected of the scores
    n_scores: int = 0  # 0: as many as the first line has


PHRASES = TableKind(LAYOUT, None, "scores as in the first line")
REORDERING = TableKind("'source ||| target ||| six probabilities'", 3, "probabilities (msd-bidirectional-fe)", N_REORDERING)


def log_scores(scores: F64, dtype: type[np.floating] = np.float64) -> F64:
    """ln of scores, not below FLOOR; Moses has them in single precision (``np.float32``)."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(scores.astype(dtype)), dtype(FLOOR)).astype(np.float64) + 0.0


@dataclass(frozen=True)
class Entries:
    """Lines of a table; what follows the sixth field stays unread."""

    kind: TableKind
    n_scores: int
    lines: BarLines

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: Array) -> Entries:
        return replace(self, lines=self.lines.take(rows))

    def place(self, row: int) -> str:
        return self.lines.where(row)

    def raw(self, row: int, field: int) -> bytes:
        begin, end = self.lines.field(field)
        return self.lines.buf[begin[row] : end[row]].tobytes()

    def contents(self, field: int) -> pa.LargeBinaryArray:
        """[n] bytes of a field, b"" where a line has none."""
        begin, end = self.lines.field(field)
        ptr, data = np.empty(len(self) + 1, np.int64), np.empty(int(np.sum(end - begin)), np.uint8)
        copy_slices(self.lines.buf, begin, end, data, ptr)
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), [None, pa.py_buffer(ptr), pa.py_buffer(data)])

    def texts(self, field: int) -> Strings:
        """[n] contents of a field, "" where a line has none."""
        contents = self.contents(field)
        for row, raw in enumerate(contents.to_pylist() if self.lines.odd.any() else ()):
            decode(raw, self.place(row))  # raises where it is no text
        return contents.view(pa.large_string())

    def words(self, field: int) -> tuple[I64, Strings]:
        """(offsets [n+1], words) of a field."""
        words = pc.ascii_split_whitespace(pc.ascii_trim_whitespace(self.contents(field).view(pa.large_string())))
        sizes = words.value_lengths().to_numpy(zero_copy_only=False)
        empty = np.equal(*self.lines.field(field))  # of which the split makes an empty word
        return offsets(np.where(empty, 0, sizes)), words.filter(pa.array(~empty)).flatten()

    @cached_property
    def scores(self) -> F64:
        """[n, k] as they are written."""
        ptr, values = self._numbers(SCORES)
        self._refuse(np.not_equal(np.diff(ptr), self.n_scores), SCORES, f"{self.n_scores} {self.kind.scores}")
        return values.reshape(-1, self.n_scores)

    def logs(self, dtype: type[np.floating] = np.float64) -> F64:
        """[n, k] ln of the scores."""
        return log_scores(self.scores, dtype)

    def joint_counts(self, *, needed: bool = True) -> F64:
        """[n] n(s,t), the third count; without ``needed`` NaN where a line has fewer."""
        ptr, values = self._numbers(COUNTS)
        out, has = np.full(len(self), np.nan), np.diff(ptr) >= 3
        if needed:
            self._refuse(~has, COUNTS, COUNTED)
        out[has] = values[ptr[:-1][has] + 2]
        return out

    def _numbers(self, field: int) -> tuple[I64, F64]:
        """(offsets [n+1], numbers) of a field."""
        ptr, words = self.words(field)
        values = floats(words)
        wrong = ~((values >= 0) & (values <= LARGEST))
        self._refuse(np.bincount(owners(ptr), wrong, len(self)) > 0, field, NUMBERS)
        return ptr, values

    def _refuse(self, wrong: Array, field: int, expected: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            raise _error(self.place(row), expected, self.raw(row, field))


NUMBERS = "probabilities or counts, none negative, that fit Moses' single precision"


def read_entries(path: str | Path, kind: TableKind = PHRASES) -> Iterator[Entries]:
    """Yield a table's lines in chunks; every line has as many scores as the kind says, or the first line has."""
    before, n_scores = 0, kind.n_scores or count_scores(path)
    for block in read_blocks(path, CHUNK):
        lines = BarLines.of_block(str(path), block)
        lines.before, before = before, before + lines.n_lines
        wrong = (lines.n_fields < 3) | (lines.n_fields > (kind.most or lines.n_fields)) | np.equal(*lines.field(SOURCE))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise _error(lines.where(row), kind.layout, block.text()[slice(*lines.line[row].tolist())])
        yield Entries(kind, n_scores, lines)


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


def _error(where: str, expected: str, found: bytes) -> FormatError:
    return FormatError(where, expected=expected, found=clip(found), fix="give a table in Moses' text format")


def spliced(entries: Entries, added: Strings) -> bytes:
    """Return the lines with a text [n] behind their scores; all else stays as it is."""
    text, out = entries.lines.buf.tobytes(), []
    columns = (*entries.lines.line.T, entries.lines.field(SCORES)[1])
    for begin, end, at, more in zip(*(column.tolist() for column in columns), added.to_pylist(), strict=True):
        head, rest = text[begin:at], text[at:end].lstrip(b" \t\r")
        blank = b"" if head.endswith(b" ") else b" "  # an empty field has one already
        out.append(head + blank + more.encode() + (b" " if rest else b"") + rest + b"\n")
    return b"".join(out)


def read_phrase_counts(path: str | Path, units: Units) -> dict[tuple[str, str], float]:
    """Counts of the phrase pairs that occur in a list: ``source ||| target ||| scores ||| alignment ||| n(t) n(s) n(s,t) |||``.

    The table is streamed; only lines of pairs that occur are parsed.
    """
    units_of = zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True)
    wanted = {(src.encode(), tgt.encode()): (src, tgt) for src, tgt in units_of}
    out: dict[tuple[str, str], float] = {}
    for entries in read_entries(path):
        pairs = list(zip(entries.contents(SOURCE).to_pylist(), entries.contents(TARGET).to_pylist(), strict=True))
        rows = [row for row, pair in enumerate(pairs) if pair in wanted]
        counts = entries.take(np.array(rows, np.int64)).joint_counts()
        out |= {wanted[pairs[row]]: count for row, count in zip(rows, counts.tolist(), strict=True)}
    return out
