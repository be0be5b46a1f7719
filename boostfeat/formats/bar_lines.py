"""Lists whose fields are separated by ``|||``, in columns: blocks of lines go through kernels, in threads.

A kernel marks the rows that it does not understand as odd. These lines are read in Python, one by one, in their place among the
others: so they are read all the same, or refused with an error that says what is wrong in which line.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..core.arrays import F64, I32, I64, Array, in_order, offsets
from ..core.files import Block, decode_line, last_line, read_blocks
from ..core.text import split_words
from ..lists.build import Builder, HypColumns, HypRecord, ReadOptions, UnitColumns
from ..lists.nbest import NBest, string_column
from . import bar_kernel as kernels
from .fields import optional_score, read_features, sentence_id, split_fields

BLOCK_BYTES = 1 << 22  # of the lines that a thread reads at a time: larger arrays cost page faults
Slices = tuple[I64, I64]  # [n] where slices of bytes begin and end


class NamedValues(NamedTuple):
    """Values of rows, one after the other, by name."""

    names: Sequence[str]
    counts: I64  # [n] values of each row
    idx: I32  # into names
    val: F64


@dataclass
class BarLines:
    """The lines of a block that are not blank, and where their fields are."""

    path: str
    block: Block
    buf: Array
    bars: I64  # where all bars are, and the end of the block
    number: I64  # [n] of the lines in the block, from 1
    line: I64  # [n, 2] where lines begin and end
    first: I64  # [n] the first field of each line
    n_fields: I64  # [n]
    begin: I64  # of all fields, without blanks around them
    end: I64
    first_bar: I64  # of all fields: the first bar from there on
    odd: Array  # [n] lines that are for Python
    n_lines: int  # of the block, blank ones and all
    room: kernels.Room
    before: int = 0  # lines of the file before the block

    @classmethod
    def of_block(cls, path: str, block: Block, *, is_first: bool = False, room: kernels.Room | None = None) -> BarLines:
        room = room or kernels.Room()
        buf = np.frombuffer(block.data, np.uint8)[: block.end]
        start = len(BOM_UTF8) if is_first and block.data.startswith(BOM_UTF8) else 0
        ends, bars = room.arrays("mark", 2, block.end + 1)
        n, n_bars, is_ascii, has_nul = kernels.find_marks(buf, ends, bars)
        ends, bars, bars[n_bars] = ends[:n], bars[: n_bars + 1], block.end  # one behind all fields
        ptr = room.array("fields", n + 1)
        begin, end, first_bar = room.arrays("field", 3, n + n_bars // 3 + 1)
        kernels.find_fields(buf, start, ends, bars[:-1], ptr, begin, end, first_bar)
        n_fields, first = np.diff(ptr), ptr[:-1]
        line = np.stack([np.append(start, ends[:-1] + 1), ends], axis=1) if n else np.zeros((0, 2), np.int64)
        odd = np.full(n, has_nul or not (is_ascii or _is_utf8(block)))
        lines = cls(path, block, buf, bars, 1 + np.arange(n), line, first, n_fields, begin, end, first_bar, odd, n, room)
        blank = (n_fields == 1) & (begin[first] == end[first])
        return lines.take(~blank) if blank.any() else lines

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: Array) -> BarLines:
        own = {name: getattr(self, name)[rows] for name in ("number", "line", "first", "n_fields", "odd")}
        return BarLines(**{**vars(self), **own})

    def where(self, row: int) -> str:
        return f"{self.path}:{self.before + self.number[row]}"

    def text(self, row: int) -> str:
        """A line as Python has it."""
        begin, end = self.line[row].tolist()
        return decode_line(bytes(memoryview(self.block.data)[begin:end]), self.path, self.before + int(self.number[row]))

    def field(self, k: int | I64) -> Slices:
        """[n] where field k (from the end if it is negative) of each line is; an empty slice where a line has none."""
        own = k if isinstance(k, int) and k >= 0 else self.n_fields + k
        has = (own >= 0) & (own < self.n_fields)
        at = np.where(has, self.first + own, self.first)
        return self.begin[at], np.where(has, self.end[at], self.begin[at])

    def first_bars(self, k: int) -> I64:
        """[n] of the bars, the first one from field k on; all lines but odd ones have it."""
        return self.first_bar[self.first + np.minimum(k, self.n_fields - 1)]

    def ids(self) -> I64:
        out = np.zeros(len(self), np.int64)
        kernels.read_ids(self.buf, *self.field(0), out, self.odd)
        return out

    def wanted(self, options: ReadOptions) -> tuple[BarLines, I64]:
        """Return the lines that a reader has to look at, and their sentences: odd ones, and the first hypotheses of each."""
        sent = self.ids()
        starts = np.flatnonzero(np.diff(sent, prepend=-1))
        rank = np.arange(len(sent)) - np.repeat(starts, np.diff(np.append(starts, len(sent))))
        wanted = self.odd | (rank < (len(sent) if options.size is None else options.size))
        return self.take(wanted), sent[wanted]

    def numbers(self, at: Slices) -> F64:
        """[n] numbers, NaN where a slice is empty."""
        out = np.zeros(len(self))
        kernels.read_numbers(self.buf, *at, out, self.odd)
        return out

    def words(self, at: Slices, buf: Array | None = None, name: str = "text") -> tuple[I64, Array, I64]:
        """(offsets, bytes, number of words) of slices, with single blanks between words; ``name`` is that of their place."""
        n, size = len(at[0]), int(np.sum(at[1] - at[0]))
        ptr, out, n_words = self.room.array(f"{name} ptr", n + 1), self.room.array(name, size, np.uint8), np.empty(n, np.int64)
        kernels.copy_words(self.buf if buf is None else buf, *at, out, ptr, n_words)
        return ptr, out, n_words

    def units(
        self, units: kernels.UnitTable, n: int, features: NamedValues, source: Array, *, text: Array, links: Array
    ) -> UnitColumns:
        """Return the n units that a kernel found, whose words and links are slices of these bytes."""
        parts = units.parts[:, :n]
        slices = {"src": (parts[kernels.SRC : kernels.LINKS], source), "tgt": (parts[: kernels.SRC], text)}
        slices["links"] = (parts[kernels.LINKS : kernels.N_SRC], links)
        columns = [string_column(*self.words((at[0], at[1]), buf, name)[:2]) for name, (at, buf) in slices.items()]
        lengths = (parts[k].astype(np.int32) for k in (kernels.N_SRC, kernels.N_TGT))
        return UnitColumns._make([*columns, *lengths, units.score[:n], *features])

    def features(self, at: Slices, odd: Array) -> NamedValues:
        """Return the labelled features of slices, of which some may turn out to be odd.

        A label with a single value is a name, else it has one for each value.
        """
        found, counts = kernels.room_for_features(self.room, self.block.end), np.empty(len(odd), np.int64)
        kernels.read_rows_of_features(self.buf, *at, found, counts, odd)
        n, n_names = int(found.n[kernels.VALUES]), int(found.n[kernels.NAMES])
        slices = zip(*(column[: found.n[kernels.LABELS]].tolist() for column in (found.begin, found.end)), strict=True)
        labels = [self.buf[a:b].tobytes().decode("utf-8", "replace") for a, b in slices]
        places = zip(found.label[:n_names].tolist(), found.place[:n_names].tolist(), strict=True)
        number: dict[str, int] = {}
        of_name = [number.setdefault(labels[k] if j < 0 else f"{labels[k]}_{j}", len(number)) for k, j in places]
        idx = found.idx[:n] if of_name == [*range(n_names)] else np.array(of_name, np.int32)[found.idx[:n]]
        kernels.find_repeats(counts, idx, len(number), odd)
        return NamedValues(list(number), counts, idx, found.val[:n])


def _is_utf8(block: Block) -> bool:
    """Tell whether a block is UTF-8; if not, Python says in which line it is not."""
    try:
        whole = [None, pa.py_buffer(np.array([0, block.end])), pa.py_buffer(block.data)]
        pa.Array.from_buffers(pa.large_string(), 1, whole).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def last_sentence(data: bytearray, end: int) -> int:
    """Return where the lines of data[:end] begin that begin as the last whole one does, 0 where all do."""
    end = last_line(data, end)
    start = last_line(data, max(0, end - 1))
    head = bytes(memoryview(data)[start:end]).split(b" ", 1)[0] + b" "
    while start and data.startswith(head, before := last_line(data, start - 1)):
        start = before
    return start


def source_tokens(sentences: Sequence[str] | None) -> kernels.SourceTokens:
    """Return source sentences as kernels have them."""
    tokens = [split_words(sentence) for sentence in sentences or ()]
    text = "".join(f"{word} " for own in tokens for word in own).encode()
    end = np.flatnonzero(np.frombuffer(text, np.uint8) == 32)
    start, ptr = np.append(0, end[:-1] + 1)[: len(end)], offsets(np.array([len(own) for own in tokens], np.int64))
    return kernels.SourceTokens(np.frombuffer(text or b" ", np.uint8), ptr, start, end)


Columns = Callable[[BarLines, I64], HypColumns]  # of lines and their sentences


def read_bar_list(
    path: str | Path, options: ReadOptions, columns_of: Columns, parse_line: Callable[[str, str], HypRecord]
) -> NBest:
    """Read a list by columns, blocks in threads ahead of their use; lines that are odd by ``parse_line`` (line, where)."""
    builder, before = Builder(options), 0
    rooms: list[kernels.Room] = []  # whose columns have been used

    def parse(item: tuple[int, Block]) -> tuple[BarLines, HypColumns]:
        room = rooms.pop() if rooms else kernels.Room()
        lines, sent = BarLines.of_block(str(path), item[1], is_first=item[0] == 0, room=room).wanted(options)
        return lines, columns_of(lines, sent)

    blocks = enumerate(read_blocks(path, BLOCK_BYTES, last_sentence))
    for lines, columns in in_order(parse, blocks, threads=options.threads, ahead=1):
        lines.before, before = before, before + lines.n_lines
        base = builder.add_units(columns.units)
        for odd, after in pairwise([-1, *np.flatnonzero(lines.odd).tolist(), len(lines)]):
            beyond = np.flatnonzero(columns.sent[odd + 1 : after] >= (sys.maxsize if options.first is None else options.first))
            last = odd + 1 + int(beyond[0]) if len(beyond) else after
            builder.add_hyps(columns, odd + 1, last, base, lines.where)
            if last < after:
                return builder.finish()
            text = lines.text(after) if after < len(lines) else ""
            if text.strip() and not builder.take([parse_line(text, lines.where(after))]):
                return builder.finish()
        rooms.append(lines.room)
    return builder.finish()


# ---------------------------------------------------------------------------------------------------------------------
# Lists of cdec, Joshua, Phrasal and Travatar
# ---------------------------------------------------------------------------------------------------------------------

#   cdec      id ||| text ||| Name=value Name=value ||| score
#   joshua    its ``output-format`` being ``%i ||| %s ||| %f ||| %c``; versions before 4 print bare values, which get the
#             names f_0, f_1, ...
#   phrasal   id ||| text ||| Name: value Name: value [||| score]; names hold colons, bars and brackets (``TM:lex(f|t)``)
#   travatar  id ||| text ||| score ||| name=value name=value
#
# What follows the score (word alignment, source, derivation) says nothing of features and is not read.


@dataclass(frozen=True)
class LineLayout:
    """A line's layout: which field of ``id ||| text ||| ...`` holds what; ``shown`` is the line as error messages give it."""

    shown: str
    least: int
    most: int | None
    features: int = 2
    score: int = 3


LAYOUTS = {
    "cdec": LineLayout("id ||| text ||| Name=value ... ||| score", least=4, most=4),
    "joshua": LineLayout("id ||| text ||| name=value ... ||| score", least=4, most=None),
    "phrasal": LineLayout("id ||| text ||| Name: value ...", least=3, most=None),
    "travatar": LineLayout("id ||| text ||| score ||| name=value ...", least=4, most=4, features=3, score=2),
}


def read_labelled(path: str | Path, options: ReadOptions, *, layout: LineLayout) -> NBest:
    """A list whose hypotheses have features of their own and no units."""

    def record(line: str, where: str) -> HypRecord:
        parts = split_fields(line, where, least=layout.least, most=layout.most, layout=layout.shown)
        sent, features = sentence_id(parts[0], where), read_features(parts[layout.features], where)
        score = optional_score(parts[layout.score], where) if layout.score < len(parts) else nan
        return HypRecord(sent, parts[1], where, score, features)

    return read_bar_list(path, options, partial(_columns, layout=layout), record)


def _columns(lines: BarLines, sent: I64, layout: LineLayout) -> HypColumns:
    lines.odd |= (lines.n_fields < layout.least) | (lines.n_fields > (layout.most or lines.n_fields))
    text_ptr, text, _ = lines.words(lines.field(1))
    features, score = lines.features(lines.field(layout.features), lines.odd), lines.numbers(lines.field(layout.score))
    none, no_units = np.zeros(0, np.int32), np.zeros(len(lines), np.int64)
    return HypColumns(sent, string_column(text_ptr, text), score, *features, no_units, none, none, none, UnitColumns.none())
