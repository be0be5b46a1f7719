"""What the kernels of fast readers leave of a list: columns of hypotheses and of units, block by block, merged in order.

A reader of a format has a kernel that fills ``Lines`` and ``ChunkUnits`` from the bytes of a block, which holds whole sentences.
Blocks are read in threads; what they hold is put together in their order, so that it does not depend on the number of threads.
"""

from __future__ import annotations

import sys
from collections import deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.arrays import I32, I64, Array, in_threads, offsets
from ..core.errors import FormatError
from ..core.files import Block, decode_line, last_line, read_blocks
from ..core.kernels import kernel
from ..core.text import split_words
from ..lists.build import Builder, HypRecord, ReadOptions
from ..lists.merging import regroup, stack
from ..lists.nbest import NBest, SparseRows, Units, strings
from .byte_kernels import (
    find_marks,
    hash_bytes,
    is_blank,
    mix,
    put_bytes,
    read_digits,
    read_number,
    same_bytes,
    skip_blanks,
    starts_with,
)

BLOCK_BYTES = 1 << 22  # of the lines that a thread reads at a time
TEXTS = ("tgt", "src", "align")
_K = np.uint64(0x9E3779B97F4A7C15)

# Hypotheses of a block; those of units stand one after the other, n_units[h] of them for hypothesis h.
Lines = namedtuple("Lines", "sent score n_units text text_ptr extra unit src_start tgt_start")

# Units of a block in order of their first use.
ChunkUnits = namedtuple("ChunkUnits", "x tgt tgt_ptr src src_ptr align align_ptr src_len tgt_len score")

# Source sentences: token t of sentence s is text[start[t]:end[t]] for t in ptr[s]:ptr[s+1].
Source = namedtuple("Source", "text ptr start end")

# Labels of a line, e.g. ("LM0=", "TM0=") with 1 and 4 values: one after the other in ``text``, label k is text[ptr[k]:ptr[k+1]].
Labels = namedtuple("Labels", "text ptr n_values")


# ``table`` is an open-addressing hash table of unit numbers (-1: free) over two independent 64-bit hashes of a unit's bytes:
# whether a unit of a block was seen before is decided by 128 bits; which units of a list are equal, by their contents.
Seen = namedtuple("Seen", "table hash hash2")


@dataclass
class Part:
    """What a block holds: hypotheses, the units that they use, and how many of its bytes and lines were understood."""

    lines: Any
    units: Any
    hashes: Array
    end: int
    n_lines: int
    is_last: bool  # what follows is not wanted
    sentences: Any = None  # of formats that have more of them than their numbers


@kernel
def find_seen(seen, h1, h2):  # type: ignore[no-untyped-def]
    """The slot of a unit with these hashes, a free one where there is none."""
    mask = np.uint64(len(seen.table) - 1)
    slot = h1 & mask
    while seen.table[slot] >= 0 and (seen.hash[seen.table[slot]] != h1 or seen.hash2[seen.table[slot]] != h2):
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def read_features(buf, i, end, labels, out):  # type: ignore[no-untyped-def]
    """Read exactly these labels with their values from buf[i:end] into OUT out; False if anything else stands there."""
    d = 0
    for k in range(len(labels.n_values)):
        if k and (i >= end or buf[i] != 32):
            return False
        i = skip_blanks(buf, i, end)
        if not starts_with(buf, i, end, labels.text, labels.ptr[k], labels.ptr[k + 1]):
            return False
        i += labels.ptr[k + 1] - labels.ptr[k]
        for _ in range(labels.n_values[k]):
            if i >= end or buf[i] != 32:
                return False
            value, i = read_number(buf, i + 1, end)
            if i < 0:
                return False
            out[d] = value
            d += 1
    return skip_blanks(buf, i, end) == end


@kernel
def are_links(buf, i, end, n_src, n_tgt):  # type: ignore[no-untyped-def]
    """Whether buf[i:end] is words like 0-1, each a link between n_src source and n_tgt target words."""
    while i < end:
        if is_blank(buf[i]):
            i += 1
            continue
        src, i = read_digits(buf, i, end)
        if i < 0 or i >= end or buf[i] != 45:
            return False
        tgt, i = read_digits(buf, i + 1, end)
        if i < 0 or (i < end and not is_blank(buf[i])) or src >= n_src or tgt >= n_tgt:
            return False
    return True


@kernel
def put_words(buf, begin, end, out, at, starts):  # type: ignore[no-untyped-def]
    """Copy the words of buf[begin:end] to OUT out[at:] with single spaces, their places to OUT starts; returns their number.

    Word k is out[starts[k] : starts[k + 1] - 1].
    """
    n, i = 0, begin
    starts[0] = at
    while i < end:
        if is_blank(buf[i]):
            i += 1
            continue
        if n:
            out[at] = 32
            at += 1
        while i < end and not is_blank(buf[i]):
            out[at] = buf[i]
            at += 1
            i += 1
        n += 1
        starts[n] = at + 1
    return n


@kernel
def _hash_units(units, n, out):  # type: ignore[no-untyped-def]
    """Hashes of the first n units' contents into OUT out."""
    for u in range(n):
        h1, h2 = hash_bytes(units.tgt, units.tgt_ptr[u], units.tgt_ptr[u + 1], np.uint64(units.src_len[u]), np.uint64(0))
        h1, h2 = hash_bytes(units.src, units.src_ptr[u], units.src_ptr[u + 1], h1, h2)
        h1, h2 = hash_bytes(units.align, units.align_ptr[u], units.align_ptr[u + 1], h1, h2)
        row = units.x[u].view(np.uint64)
        for d in range(len(row)):
            h1 = mix(h1, row[d], _K)
        out[u] = h1 ^ (h2 >> np.uint64(7))


@kernel
def _same_text(a, a_ptr, k, b, b_ptr, u):  # type: ignore[no-untyped-def]
    n = a_ptr[k + 1] - a_ptr[k]
    return n == b_ptr[u + 1] - b_ptr[u] and same_bytes(a, a_ptr[k], b, b_ptr[u], n)


@kernel
def _same_unit(known, k, units, u):  # type: ignore[no-untyped-def]
    """Whether two units are equal: all but the decoder's own score, see build.assemble."""
    if known.src_len[k] != units.src_len[u] or known.tgt_len[k] != units.tgt_len[u]:
        return False
    for d in range(units.x.shape[1]):
        if known.x[k, d] != units.x[u, d]:
            return False
    return (
        _same_text(known.tgt, known.tgt_ptr, k, units.tgt, units.tgt_ptr, u)
        and _same_text(known.src, known.src_ptr, k, units.src, units.src_ptr, u)
        and _same_text(known.align, known.align_ptr, k, units.align, units.align_ptr, u)
    )


@kernel
def _merge(table, hashes, known, n, units, own_hashes, number):  # type: ignore[no-untyped-def]
    """Units among the n known ones, which get those that are new: OUT number[u]; returns how many are known then.

    ``table`` is an open-addressing hash table of unit numbers (-1: free).
    """
    mask = np.uint64(len(table) - 1)
    for u in range(len(own_hashes)):
        h = own_hashes[u]
        slot = h & mask
        while table[slot] >= 0 and not (hashes[table[slot]] == h and _same_unit(known, table[slot], units, u)):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = n
            hashes[n] = h
            for d in range(units.x.shape[1]):
                known.x[n, d] = units.x[u, d]
            known.src_len[n], known.tgt_len[n], known.score[n] = units.src_len[u], units.tgt_len[u], units.score[u]
            known.tgt_ptr[n + 1] = put_bytes(units.tgt, units.tgt_ptr[u], units.tgt_ptr[u + 1], known.tgt, known.tgt_ptr[n])
            known.src_ptr[n + 1] = put_bytes(units.src, units.src_ptr[u], units.src_ptr[u + 1], known.src, known.src_ptr[n])
            known.align_ptr[n + 1] = put_bytes(
                units.align, units.align_ptr[u], units.align_ptr[u + 1], known.align, known.align_ptr[n]
            )
            n += 1
        number[u] = table[slot]
    return n


@kernel
def _fill_table(hashes, table):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    for k in range(len(hashes)):
        slot = hashes[k] & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = k


class _Known:
    """The distinct units of all parts so far, in order of first use."""

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.table, self.hashes = np.full(1 << 10, -1, np.int32), np.empty(0, np.uint64)
        empty = {name: np.empty(0, np.uint8) for name in TEXTS} | {name + "_ptr": np.zeros(1, np.int64) for name in TEXTS}
        lengths = {name: np.empty(0, np.int32) for name in ("src_len", "tgt_len")}
        self.units = ChunkUnits(x=np.empty((0, n_features)), score=np.empty(0), **empty, **lengths)

    def merge(self, units: Any, hashes: Array) -> I32:
        """The numbers of a part's units."""
        v = self.n + len(hashes)
        if 2 * v > len(self.table):
            self.table = np.full(1 << (4 * v).bit_length(), -1, np.int32)
            _fill_table(self.hashes[: self.n], self.table)
        self.hashes = _with_room(self.hashes, self.n, v)
        rows = {name: self.n for name in ("x", "src_len", "tgt_len", "score")} | {name + "_ptr": self.n + 1 for name in TEXTS}
        more = dict.fromkeys(rows, len(hashes)) | {name: int(getattr(units, name + "_ptr")[-1]) for name in TEXTS}
        rows |= {name: int(getattr(self.units, name + "_ptr")[self.n]) for name in TEXTS}
        self.units = ChunkUnits(
            **{name: _with_room(column, rows[name], rows[name] + more[name]) for name, column in self.units._asdict().items()}
        )
        number = np.empty(len(hashes), np.int32)
        self.n = int(_merge(self.table, self.hashes, self.units, self.n, units, hashes, number))
        return number

    def finish(self) -> Units:
        known, n = self.units, self.n
        texts = {name: string_column(getattr(known, name + "_ptr")[: n + 1], getattr(known, name)) for name in TEXTS}
        numbers = {name: getattr(known, name)[:n] for name in ("x", "src_len", "tgt_len", "score")}
        return Units(sparse=SparseRows.empty(n), **texts, **numbers)


def _with_room(column: Array, n: int, most: int) -> Array:
    """A column for so many rows, with its first n."""
    if len(column) >= most:
        return column
    out = np.empty((max(most, 2 * len(column)), *column.shape[1:]), column.dtype)
    out[:n] = column[:n]
    return out


def string_column(ptr: Array, data: Array) -> pa.LargeStringArray:
    """Strings data[ptr[k]:ptr[k+1]]."""
    return pa.LargeStringArray.from_buffers(len(ptr) - 1, pa.py_buffer(ptr), pa.py_buffer(data[: int(ptr[-1])]))


class Room:
    """Arrays for one block at a time, which the next one uses again: memory that is used again costs no page faults."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def array(self, name: str, n: int, dtype: type = np.float64, width: int | None = None) -> Array:
        """[n] or [n, width] with whatever it held before."""
        if len(self._arrays.get(name, ())) < n or name not in self._arrays:
            self._arrays[name] = np.empty(n + n // 4 if width is None else (n + n // 4, width), dtype)
        return self._arrays[name][:n]

    def units(self, n: int, n_features: int, n_bytes: int, source_bytes: int) -> ChunkUnits:
        """Of at most n units, whose texts come from so many bytes."""
        columns = {name: self.array(name, source_bytes if name == "src" else n_bytes, np.uint8) for name in TEXTS}
        columns |= {name + "_ptr": self.array(name + "_ptr", n + 1, np.int64) for name in TEXTS}
        columns |= {name: self.array(name, n, np.int32) for name in ("src_len", "tgt_len")}
        for name in TEXTS:
            columns[name + "_ptr"][0] = 0
        return ChunkUnits(x=self.array("x", n, width=n_features), score=self.array("unit score", n), **columns)

    def seen(self, n: int) -> Seen:
        """An empty table for at most n units."""
        table = self.array("table", 1 << max(14, (2 * n - 1).bit_length()), np.int32)
        table[:] = -1
        return Seen(table, *(self.array(name, n, np.uint64) for name in ("hash", "hash2")))

    def sentences(self, kind: Any, n: int, n_bytes: int) -> Any:
        """Of at most n sentences."""
        columns = {name: self.array("sentence " + name, n, np.int64) for name in ("id", "n_hyps", "n_refs")}
        for name in ("source", "ref"):
            columns[name] = self.array("sentence " + name, n_bytes, np.uint8)
            columns[name + "_ptr"] = self.array(f"sentence {name}_ptr", n_bytes // 2 + n + 2, np.int64)
            columns[name + "_ptr"][0] = 0
        return kind(**columns)

    def lines(self, n: int, n_extra: int, n_occurrences: int, n_bytes: int) -> Lines:
        """Of at most n hypotheses."""
        text_ptr = self.array("text_ptr", n + 1, np.int64)
        text_ptr[0] = 0
        return Lines(
            sent=self.array("sent", n, np.int64),
            score=self.array("score", n),
            n_units=self.array("n_units", n, np.int64),
            text=self.array("text", n_bytes, np.uint8),
            text_ptr=text_ptr,
            extra=self.array("extra", n, width=n_extra),
            **{name: self.array(name, n_occurrences, np.int32) for name in ("unit", "src_start", "tgt_start")},
        )


def _cut(columns: Any, sizes: dict[str, int], n: int) -> Any:
    """Copies of what was filled: n rows, or as many as sizes say."""
    return columns._replace(**{name: c[: sizes.get(name, n)].copy() for name, c in columns._asdict().items()})


def filled_part(lines: Lines, units: ChunkUnits, ends: I64, end: int, n: int, r: int, v: int, is_last: bool) -> Part:
    """The first n hypotheses with r units, v of them distinct, as columns of their own; lines end at ``ends``, all at end."""
    sizes = {"text": int(lines.text_ptr[n]), "text_ptr": n + 1, "unit": r, "src_start": r, "tgt_start": r}
    unit_sizes = {name: int(getattr(units, name + "_ptr")[v]) for name in TEXTS} | {name + "_ptr": v + 1 for name in TEXTS}
    own, hashes = _cut(units, unit_sizes, v), np.empty(v, np.uint64)
    _hash_units(own, v, hashes)
    n_lines = int(np.searchsorted(ends, end))
    return Part(_cut(lines, sizes, n), own, hashes, end=int(end), n_lines=n_lines, is_last=bool(is_last))


class ColumnReader:
    """Blocks of a list through a kernel, in threads, and the columns they leave."""

    def __init__(self, unit_names: Sequence[str], extra_names: Sequence[str], options: ReadOptions) -> None:
        self.unit_names, self.extra_names = tuple(unit_names), tuple(extra_names)
        self.limit = options.size if options.size is not None else sys.maxsize
        self.first = options.first if options.first is not None else sys.maxsize
        self.source = source_tokens(list(options.source or ()))
        self.longest_source = max((len(sentence.encode()) for sentence in options.source or ()), default=0)
        self.threads = options.threads
        self.last_id = 0
        self.has_stopped = False  # the plain reader has taken over
        self._known = _Known(len(self.unit_names))
        self._lines: list[Any] = []
        self._rooms: list[Room] = []  # of threads that are done with a block

    def parse_block(self, block: Block, room: Room) -> Part:
        """What the kernel makes of a block."""
        raise NotImplementedError

    def parse(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, Part | None]]:
        """Each block with what is in it, in order; those ahead are parsed in threads meanwhile."""
        if self.threads == 1:
            yield from ((block, self._parse(block)) for block in blocks)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            ahead: deque[tuple[Block, Future[Part | None]]] = deque()
            for block in blocks:
                ahead.append((block, pool.submit(self._parse, block)))
                if len(ahead) > self.threads:
                    block, part = ahead.popleft()
                    yield block, part.result()
            yield from ((block, part.result()) for block, part in ahead)

    def _parse(self, block: Block) -> Part | None:
        if self.has_stopped:
            return None
        room = self._rooms.pop() if self._rooms else Room()
        part = self.parse_block(block, room)
        self._rooms.append(room)
        return part

    def take(self, part: Part) -> int:
        """Take in the next part; returns how many bytes of its block were understood: none where sentences go back."""
        sent = part.lines.sent
        if not len(sent):
            return part.end
        if self._lines and sent[0] <= self.last_id:
            return 0
        number = self._known.merge(part.units, part.hashes)
        self._lines.append(part.lines._replace(unit=number[part.lines.unit]))
        self.last_id = int(sent[-1])
        return part.end

    def finish(self) -> NBest:
        """The lists so far. Units are distinct and in order of first use already, as build.assemble would have them."""
        joined = self._joined()
        sent, text_ptr = joined["sent"], offsets(joined["text_ptr"])
        starts = np.flatnonzero(np.diff(sent, prepend=-1) != 0)
        s, h = len(starts), len(sent)
        return NBest(
            ids=sent[starts],
            source=strings([""] * s),
            ref_ptr=np.zeros(s + 1, np.int64),
            refs=strings([]),
            hyp_ptr=np.append(starts, h).astype(np.int64) if s else np.zeros(1, np.int64),
            text=string_column(text_ptr, joined["text"]),
            score=joined["score"],
            stats=np.zeros((0, 6), np.int32),
            unit_ptr=offsets(joined["n_units"]),
            unit_idx=joined["unit"],
            src_start=joined["src_start"],
            tgt_start=joined["tgt_start"],
            units=self._known.finish(),
            unit_names=self.unit_names,
            extra=joined["extra"],
            extra_names=self.extra_names,
            extra_sparse=SparseRows.empty(h),
            sparse_names=strings([]),
        )

    def _joined(self) -> dict[str, Array]:
        """The columns of all parts, with lengths of texts in place of where they end, the largest first.

        The parts' own are let go: beside what is made there is one column for each thread.
        """
        empty = Room().lines(0, len(self.extra_names), 0, 0)
        columns = {name: [getattr(part, name) for part in self._lines] for name in Lines._fields}
        self._lines.clear()
        columns["text_ptr"] = [np.diff(ptr) for ptr in columns["text_ptr"]]

        def join(name: str) -> Array:
            return np.concatenate([getattr(empty, name)[:0], *columns.pop(name)])

        names = sorted(columns, key=lambda name: -sum(column.nbytes for column in columns[name]))
        return dict(zip(names, in_threads(join, names, self.threads), strict=True))


def read_lines_twice(
    path: str | Path,
    options: ReadOptions,
    fast_for: Callable[[bytes, ReadOptions], ColumnReader | None],
    parse_line: Callable[[str, str], HypRecord],
) -> NBest:
    """A list of lines by two readers of the same language: a kernel's, and from the first line on that it does not understand
    the plain one, which makes every error. ``fast_for`` gets the first block.
    """
    spare: list[bytearray] = []
    blocks = read_blocks(path, BLOCK_BYTES, last_sentence, spare)
    head = list(islice(blocks, 1))
    fast = fast_for(head[0].text(), options) if head else None
    slow, n_lines, has_more = None, 0, False
    parsed = fast.parse(chain(head, blocks)) if fast else ((block, None) for block in chain(head, blocks))
    for block, part in parsed:
        start = fast.take(part) if fast and part and slow is None else 0
        n_lines += part.n_lines if part and start else 0
        if has_more := bool(part and part.is_last and start == part.end and slow is None):
            break
        if slow is None and start < block.end:
            slow = Builder(options, first_id=fast.last_id if fast else 0)
            if fast:
                fast.has_stopped = True
        if slow is not None and (has_more := not slow.take(_records(block.text(start), path, n_lines, parse_line))):
            break
        n_lines += block.data.count(b"\n", start, block.end) if slow is not None else 0
        spare.append(block.data)
    parts = [fast.finish()] if fast else []
    if slow is not None:
        parts.append(slow.finish(*parts))
    if not has_more and not sum(part.n_hyps for part in parts):
        raise FormatError(str(path), expected="an n-best list", found="an empty file", fix="check what wrote it")
    both = regroup(stack(parts))
    return both.truncate(options.size) if len(parts) == 2 and options.size is not None else both


def _records(lines: bytes, path: str | Path, before: int, parse_line: Callable[[str, str], HypRecord]) -> Iterator[HypRecord]:
    """Hypotheses of lines, after so many others."""
    return (parse_line(line, where) for where, line in plain_lines(lines, path, before))


def plain_lines(lines: bytes, path: str | Path, before: int) -> Iterator[tuple[str, str]]:
    """(``file:line``, line) of every line that is not blank, after so many others."""
    for number, raw in enumerate(lines[:-1].split(b"\n"), before + 1):
        line = decode_line(raw, path, number)
        if line and not line.isspace():
            yield f"{path}:{number}", line


def marks(block: Block, room: Room) -> tuple[Array, Array, Array]:
    """(bytes, ends of lines, places of bars) of a block up to the first line that is not UTF-8 or has a NUL: all, as a rule."""
    buf = np.frombuffer(block.data, np.uint8)[: block.end]
    ends, bars = (room.array(name, block.end, np.int64) for name in ("ends", "bars"))
    n_ends, n_bars, nul, is_ascii = find_marks(buf, buf[: block.end // 8 * 8].view(np.uint64), ends, bars)
    ends, bars = ends[:n_ends], bars[:n_bars]
    valid = min(nul if nul >= 0 else block.end, block.end if is_ascii else valid_utf8(block))
    if valid < block.end:
        ends = ends[: np.searchsorted(ends, valid)]
        bars = bars[: np.searchsorted(bars, ends[-1] if len(ends) else 0)]
    return buf, ends, bars


def valid_utf8(block: Block) -> int:
    """Where a block has its first byte that is not UTF-8, else its end."""
    ptr, data = pa.py_buffer(np.array([0, block.end])), pa.py_buffer(memoryview(block.data))
    try:
        pa.LargeStringArray.from_buffers(1, ptr, data).validate(full=True)
    except pa.ArrowInvalid:
        try:
            block.text().decode()
        except UnicodeDecodeError as error:
            return error.start
    return block.end


def last_sentence(data: bytearray, end: int) -> int:
    """Where the lines of data[:end] begin that begin as the last whole one does, 0 where all do."""
    end = last_line(data, end)
    start = last_line(data, max(0, end - 1))
    head = bytes(memoryview(data)[start:end]).split(b" ", 1)[0] + b" "
    while start and data.startswith(head, before := last_line(data, start - 1)):
        start = before
    return start


def labels_of(groups: Sequence[tuple[str, int]], sign: str = "=") -> tuple[Labels, tuple[str, ...]]:
    """Labels with so many values each, for a kernel, and the names of all values; ``sign`` ends a label."""
    text = [(name + sign).encode() for name, _ in groups]
    names = [n for name, k in groups for n in ([name] if k == 1 else [f"{name}_{i}" for i in range(k)])]
    labels = Labels(
        np.frombuffer(b"".join(text) or b" ", np.uint8),
        offsets(np.array([len(t) for t in text], np.int64)),
        np.array([k for _, k in groups], np.int64),
    )
    return labels, tuple(names)


def source_tokens(sentences: Sequence[str]) -> Source:
    tokens = [split_words(sentence) for sentence in sentences]
    text = "".join(f"{word} " for own in tokens for word in own).encode()
    data = np.frombuffer(text or b" ", np.uint8)
    end = np.flatnonzero(np.frombuffer(text, np.uint8) == 32)
    start = np.append(0, end[:-1] + 1)[: len(end)]
    return Source(data, offsets(np.array([len(own) for own in tokens], np.int64)), start, end)
