"""The fast reader of enriched lists: a numba kernel over bytes, for lists whose blocks all list the same features.

It parses equal blocks once and stops at the first line it does not understand, which is then for the plain reader.
"""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.arrays import Array, offsets
from ...core.errors import FormatError
from ...core.kernels import kernel
from ...core.text import split_words
from ...lists.build import ROUNDING, ReadOptions, assemble
from ...lists.nbest import NBest, SparseRows, Units, strings
from ..byte_kernels import hash_bytes, put_tokens, read_digits, read_number, starts_with
from ..fields import name_values, split_fields
from .labels import block_fields, feature_groups

_TOTAL = np.frombuffer(b"total=", np.uint8)
SENTENCES = 1 << 23  # bytes of the lines that a thread reads at a time
_TEXTS = ("tgt", "src", "align")
LAYOUT = "id ||| phrase |span,wa=..,total=.., scores| ... ||| features ||| score"

# Labels of a line, e.g. ("LM0=", "TM0=") with 1 and 4 values: one after the other in ``text``, label k is text[ptr[k]:ptr[k+1]].
_Labels = namedtuple("_Labels", "text ptr n_values")

# Source sentences: token t of sentence s is text[start[t]:end[t]] for t in ptr[s]:ptr[s+1].
_Source = namedtuple("_Source", "text ptr start end")

# Units of a chunk. ``table`` is an open-addressing hash table of unit numbers (-1: free) over two independent 64-bit hashes of
# a unit's bytes: whether a block was parsed before is decided by 128 bits; which units are equal, by build.assemble.
_Seen = namedtuple("_Seen", "table hash hash2 x tgt tgt_ptr src src_ptr align align_ptr src_len tgt_len score n")

# What one chunk adds, filled by the kernel.
_Lines = namedtuple("_Lines", "sent score n_units text text_ptr extra unit src_start tgt_start")


@kernel
def _features(buf, i, end, labels, out):  # type: ignore[no-untyped-def]
    """Read exactly these labels with their values from buf[i:end] into OUT out; False if anything else stands there."""
    d = 0
    for k in range(len(labels.n_values)):
        if k and (i >= end or buf[i] != 32):
            return False
        while i < end and buf[i] == 32:
            i += 1
        if not starts_with(buf, i, end, labels.text, labels.ptr[k], labels.ptr[k + 1]):
            return False
        i += labels.ptr[k + 1] - labels.ptr[k]
        for _ in range(labels.n_values[k]):
            if i >= end or buf[i] != 32:
                return False
            i += 1
            value, i = read_number(buf, i, end)
            if i < 0:
                return False
            out[d] = value
            d += 1
    while i < end:
        if buf[i] != 32:
            return False
        i += 1
    return True


@kernel
def _block_head(buf, i, end):  # type: ignore[no-untyped-def]
    """(first source token, last, position after the comma) of a block ``0-1,...``; position -1 if it is none."""
    first, i = read_digits(buf, i, end)
    if i < 0 or i >= end or buf[i] != 45:
        return first, first, -1
    last, i = read_digits(buf, i + 1, end)
    if i < 0 or i >= end or buf[i] != 44 or first > last:
        return first, last, -1
    return first, last, i + 1


@kernel
def _block_parts(buf, i, end):  # type: ignore[no-untyped-def]
    """(end of the alignment, total, start of the features) of a block after its span; features -1 where it is irregular."""
    align_end = i
    if i + 3 <= end and buf[i] == 119 and buf[i + 1] == 97 and buf[i + 2] == 61:  # wa=
        while i < end and buf[i] != 44:
            i += 1
        align_end = i
        i += 1
    total = np.nan
    if starts_with(buf, i, end, _TOTAL, 0, len(_TOTAL)):
        total, i = read_number(buf, i + 6, end)
        if i < 0 or i >= end or buf[i] != 44:
            return align_end, total, -1
        i += 1
    return align_end, total, i


@kernel
def _are_links(buf, i, end, n_src, n_tgt):  # type: ignore[no-untyped-def]
    """Whether buf[i:end] is words like 0-1, each a link between n_src source and n_tgt target words."""
    while i < end:
        if buf[i] == 32 or buf[i] == 9:
            i += 1
            continue
        src, i = read_digits(buf, i, end)
        if i < 0 or i >= end or buf[i] != 45:
            return False
        tgt, i = read_digits(buf, i + 1, end)
        if i < 0 or (i < end and buf[i] != 32 and buf[i] != 9) or src >= n_src or tgt >= n_tgt:
            return False
    return True


@kernel
def _scan(buf, ends, bars, limit, last_id, n_last, block_labels, total_labels, to_column, source, seen, lines):  # type: ignore[no-untyped-def]
    """Read lines into OUT seen and lines; stops before the first one it does not understand.

    Line l ends at ``ends[l]``; ``bars`` are the positions of all ``|``. ``to_column[t]`` is the unit feature that total t is
    the sum of, or -1 - e for extra feature e. At most ``limit`` hypotheses a sentence; ``last_id`` and ``n_last`` are the
    sentence of the line before and its hypotheses so far. Returns (position, hypotheses, occurrences, last_id, n_last).
    """
    n_features = seen.x.shape[1]
    totals = np.empty(len(to_column))
    sums, sizes = np.empty(n_features), np.empty(n_features)
    mask = np.uint64(len(seen.table) - 1)
    n_hyps, n_occ, bar, pos = 0, 0, 0, 0
    for line in range(len(ends)):
        stop = ends[line]
        if stop > pos and buf[stop - 1] == 13:  # what Windows adds
            stop -= 1
        first_bar = bar
        while bar < len(bars) and bars[bar] < stop:
            bar += 1
        n_bars = bar - first_bar
        b = bars[first_bar:bar]
        i = pos
        while i < stop and buf[i] == 32:
            i += 1
        if i == stop:  # a blank line
            pos = ends[line] + 1
            continue
        start = i
        sent = np.int64(0)
        while i < stop and 48 <= buf[i] <= 57 and i - start < 18:
            sent = sent * 10 + (buf[i] - 48)
            i += 1
        if i == start or sent < last_id:
            break
        while i < stop and buf[i] == 32:
            i += 1
        if n_bars < 9 or i != b[0] or b[1] != i + 1 or b[2] != i + 2:
            break
        n_of_sent = n_last if sent == last_id else 0
        if n_of_sent >= limit:
            pos = ends[line] + 1
            continue
        i += 3
        k = 3
        at = lines.text_ptr[n_hyps]
        n_tokens, n_units, fine = 0, 0, True
        sums[:] = 0.0
        sizes[:] = 0.0
        known = sent < len(source.ptr) - 1
        while True:  # phrase, block, phrase, block, ..., the three bars that end the field
            while i < b[k] and buf[i] == 32:
                i += 1
            if k + 2 >= n_bars:
                fine = False
                break
            if b[k + 1] == b[k] + 1:
                fine = i == b[k] and b[k + 2] == b[k] + 2 and buf[b[k] - 1] != 124  # of four bars the plain reader decides
                break
            phrase, phrase_end, block_end = i, b[k], b[k + 1]
            first, last, align = _block_head(buf, phrase_end + 1, block_end)
            if align < 0:
                fine = False
                break
            align_end, total, features = _block_parts(buf, align, block_end)
            src_a = src_b = np.int64(0)
            if known:
                if source.ptr[sent] + last >= source.ptr[sent + 1]:
                    fine = False  # beyond the source sentence: the plain reader says so
                    break
                src_a, src_b = source.start[source.ptr[sent] + first], source.end[source.ptr[sent] + last]
            if features < 0:
                fine = False
                break
            n_src = last - first + 1
            h1, h2 = hash_bytes(buf, phrase, phrase_end, np.uint64(n_src), np.uint64(0))
            h1, h2 = hash_bytes(buf, align, align_end, h1, h2)
            h1, h2 = hash_bytes(buf, features, block_end, h1, h2)
            h1, h2 = hash_bytes(source.text, src_a, src_b, h1, h2)
            slot = h1 & mask
            while seen.table[slot] >= 0 and (seen.hash[seen.table[slot]] != h1 or seen.hash2[seen.table[slot]] != h2):
                slot = (slot + np.uint64(1)) & mask
            u = seen.table[slot]
            if u < 0:
                u = seen.n[0]
                if seen.src_ptr[u] + src_b - src_a > len(seen.src):
                    fine = False  # no room for such long phrases: the plain reader has it
                    break
                if not _features(buf, features, block_end, block_labels, seen.x[u]):
                    fine = False
                    break
                seen.tgt_ptr[u + 1], seen.tgt_len[u] = put_tokens(buf, phrase, phrase_end, seen.tgt, seen.tgt_ptr[u])
                links = min(align + 3, align_end) if seen.tgt_len[u] else align_end  # none of a phrase without words
                if not _are_links(buf, links, align_end, n_src, seen.tgt_len[u]):
                    fine = False
                    break
                seen.src_ptr[u + 1], _ = put_tokens(source.text, src_a, src_b, seen.src, seen.src_ptr[u])
                seen.align_ptr[u + 1], _ = put_tokens(buf, links, align_end, seen.align, seen.align_ptr[u])
                seen.src_len[u], seen.score[u] = n_src, total
                seen.hash[u], seen.hash2[u] = h1, h2
                seen.table[slot] = u
                seen.n[0] += 1
            if n_tokens and seen.tgt_len[u]:
                lines.text[at] = 32
                at += 1
            for j in range(seen.tgt_ptr[u], seen.tgt_ptr[u + 1]):
                lines.text[at] = seen.tgt[j]
                at += 1
            lines.unit[n_occ + n_units] = u
            lines.src_start[n_occ + n_units] = first
            lines.tgt_start[n_occ + n_units] = n_tokens
            n_tokens += seen.tgt_len[u]
            n_units += 1
            row = seen.x[u]
            for d in range(n_features):
                sums[d] += row[d]
                sizes[d] += abs(row[d])
            i = block_end + 1
            k += 2
        if not fine or k + 5 >= n_bars or b[k + 5] != b[k + 3] + 2:
            break
        if not _features(buf, b[k + 2] + 1, b[k + 3], total_labels, totals):
            break
        i = b[k + 5] + 1
        while i < stop and buf[i] == 32:
            i += 1
        score, i = read_number(buf, i, stop)
        if i < 0 or (i < stop and buf[i] != 32):
            break
        for t in range(len(to_column)):
            d = to_column[t]
            if d < 0:
                lines.extra[n_hyps, -1 - d] = totals[t]
            elif abs(sums[d] - totals[t]) > ROUNDING * (sizes[d] + abs(totals[t])) + 1e-6:
                fine = False
        if not fine:
            break
        lines.sent[n_hyps] = sent
        lines.score[n_hyps] = score
        lines.n_units[n_hyps] = n_units
        n_hyps += 1
        lines.text_ptr[n_hyps] = at
        n_occ += n_units
        last_id, n_last = sent, n_of_sent + 1
        pos = ends[line] + 1
    return pos, n_hyps, n_occ, last_id, n_last


@dataclass
class _Part:
    """What a chunk holds: hypotheses, the units that they use, and how many of its bytes and lines were understood."""

    lines: _Lines
    units: _Seen
    end: int
    n_lines: int


class FastReader:
    """Chunks of a list through the kernel, in threads, and the columns they leave. A chunk holds whole sentences."""

    def __init__(self, block: list[tuple[str, int]], total: list[tuple[str, int]], options: ReadOptions) -> None:
        self.block_labels, self.unit_names = _labels(block)
        self.total_labels, total_names = _labels(total)
        column = {name: d for d, name in enumerate(self.unit_names)}
        self.extra_names = tuple(name for name in total_names if name not in column)
        extra = {name: -1 - e for e, name in enumerate(self.extra_names)}
        self.to_column = np.array([column.get(name, extra.get(name, 0)) for name in total_names], np.int64)
        self.limit = options.size if options.size is not None else 1 << 60
        self.source = _source_tokens(list(options.source or ()))
        self.longest_source = max((len(sentence.encode()) for sentence in options.source or ()), default=0)
        self.threads = options.threads
        self.last_id = 0
        self.has_stopped = False  # the plain reader has taken over
        self.parts: list[_Part] = []
        self._rooms: list[_Room] = []  # of threads that are done with a chunk: memory that is used again costs no page faults

    @classmethod
    def for_list(cls, chunk: bytes, options: ReadOptions) -> FastReader | None:
        """A reader for lists like the first line of this chunk; None where its features are not regular."""
        if options.size is not None and options.size < 1:
            return None
        try:
            first = next(line for line in chunk.decode().split("\n") if line.strip())
            parts = split_fields(first, "", least=3, layout=LAYOUT)
            blocks = [block_fields(block)[3] for block in parts[1].split("|")[1::2]]
            groups = [[(n, len(v)) for n, v in feature_groups(text, "")] for text in (*blocks, parts[2])]
            for text in (*blocks, parts[2]):
                name_values(feature_groups(text, ""), "")  # repeated names and the like are the plain reader's to report
        except (FormatError, UnicodeDecodeError, StopIteration):
            return None
        if not blocks or any(g != groups[0] for g in groups[:-1]) or ":" in "".join(split_words(parts[2])[:1]):
            return None
        return cls(groups[0], groups[-1], options)

    def parse(self, chunks: Iterable[bytes]) -> Iterator[tuple[bytes, _Part | None]]:
        """Each chunk with what is in it, in order; those ahead are parsed in threads meanwhile."""
        if self.threads == 1:
            yield from ((chunk, self._parse(chunk)) for chunk in chunks)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            ahead: deque[tuple[bytes, Future[_Part | None]]] = deque()
            for chunk in chunks:
                ahead.append((chunk, pool.submit(self._parse, chunk)))
                if len(ahead) > self.threads:
                    chunk, part = ahead.popleft()
                    yield chunk, part.result()
            yield from ((chunk, part.result()) for chunk, part in ahead)

    def take(self, part: _Part) -> int:
        """Take in the next part; returns how many bytes of its chunk were understood: none where sentences go back."""
        sent = part.lines.sent
        if not len(sent):
            return part.end
        if self.parts and sent[0] <= self.last_id:
            return 0
        self.parts.append(part)
        self.last_id = int(sent[-1])
        return part.end

    def _parse(self, chunk: bytes) -> _Part | None:
        if self.has_stopped:
            return None
        chunk = _valid_lines(chunk)
        buf = np.frombuffer(chunk, np.uint8)
        room = self._rooms.pop() if self._rooms else _Room()
        ends, bars = (np.flatnonzero(np.equal(buf, sign, out=room.array(str(sign), len(buf), bool))) for sign in (10, 124))
        seen, lines = room.for_units(self, len(bars) // 2 + 1, len(chunk)), room.for_lines(self, len(ends), len(bars), len(chunk))
        end, n, r, _, _ = _scan(
            buf, ends, bars, self.limit, 0, 0, self.block_labels, self.total_labels, self.to_column, self.source, seen, lines
        )
        v = int(seen.n[0])
        sizes = {"text": int(lines.text_ptr[n]), "text_ptr": n + 1, "unit": r, "src_start": r, "tgt_start": r}
        unit_sizes = {name: int(getattr(seen, name + "_ptr")[v]) for name in _TEXTS}
        unit_sizes |= {name + "_ptr": v + 1 for name in _TEXTS} | dict.fromkeys(("table", "hash", "hash2"), 0)
        part = _Part(_cut(lines, sizes, n), _cut(seen, unit_sizes, v), int(end), int(np.searchsorted(ends, end)))
        self._rooms.append(room)
        return part

    def finish(self) -> NBest:
        first = offsets(np.array([len(part.units.score) for part in self.parts], np.int64))  # the first unit of each part
        for part, start in zip(self.parts, first, strict=False):
            part.lines.unit[:] += np.int32(start)
        units = Units(
            x=self._joined("units", "x", (0, len(self.unit_names))),
            sparse=SparseRows.empty(int(first[-1])),
            src=self._text("units", "src"),
            tgt=self._text("units", "tgt"),
            align=self._text("units", "align"),
            src_len=self._joined("units", "src_len", 0, np.int32),
            tgt_len=self._joined("units", "tgt_len", 0, np.int32),
            score=self._joined("units", "score"),
        )
        sent = self._joined("lines", "sent", 0, np.int64)
        starts = np.flatnonzero(np.diff(sent, prepend=-1) != 0)
        s, h = len(starts), len(sent)
        return assemble(
            NBest(
                ids=sent[starts],
                source=strings([""] * s),
                ref_ptr=np.zeros(s + 1, np.int64),
                refs=strings([]),
                hyp_ptr=np.append(starts, h).astype(np.int64) if s else np.zeros(1, np.int64),
                text=self._text("lines", "text"),
                score=self._joined("lines", "score"),
                stats=np.zeros((0, 6), np.int32),
                unit_ptr=offsets(self._joined("lines", "n_units", 0, np.int64)),
                unit_idx=self._joined("lines", "unit", 0, np.int32),
                src_start=self._joined("lines", "src_start", 0, np.int32),
                tgt_start=self._joined("lines", "tgt_start", 0, np.int32),
                units=units,
                unit_names=self.unit_names,
                extra=self._joined("lines", "extra", (0, len(self.extra_names))),
                extra_names=self.extra_names,
                extra_sparse=SparseRows.empty(h),
                sparse_names=strings([]),
            )
        )

    def _joined(self, side: str, name: str, empty: int | tuple[int, int] = 0, dtype: type = np.float64) -> Array:
        """One column of all parts; the parts' own are let go, so that the peak is one column."""
        columns: list[Array] = [np.zeros(empty, dtype)]
        for part in self.parts:
            columns.append(getattr(getattr(part, side), name))
            setattr(part, side, getattr(part, side)._replace(**{name: None}))
        return np.concatenate(columns)

    def _text(self, side: str, name: str) -> pa.LargeStringArray:
        counts = [np.diff(getattr(getattr(part, side), name + "_ptr")) for part in self.parts]
        ptr = offsets(np.concatenate([np.zeros(0, np.int64), *counts]))
        data = self._joined(side, name, 0, np.uint8)
        return pa.LargeStringArray.from_buffers(len(ptr) - 1, pa.py_buffer(ptr), pa.py_buffer(data))


class _Room:
    """Arrays for one chunk at a time, which the next one uses again."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def array(self, name: str, n: int, dtype: type = np.float64, width: int | None = None) -> Array:
        """[n] or [n, width] with whatever it held before."""
        if len(self._arrays.get(name, ())) < n or name not in self._arrays:
            self._arrays[name] = np.empty(n + n // 4 if width is None else (n + n // 4, width), dtype)
        return self._arrays[name][:n]

    def for_units(self, reader: FastReader, n: int, n_bytes: int) -> _Seen:
        """An empty table for at most n units, whose texts come from so many bytes."""
        size = 1 << 14
        while size < 2 * n:
            size *= 2
        source_bytes = n * min(reader.longest_source, 4096)
        table = self.array("table", size, np.int64)
        table[:] = -1
        columns = {name: self.array(name, n, np.uint64) for name in ("hash", "hash2")}
        columns |= {name: self.array(name, source_bytes if name == "src" else n_bytes, np.uint8) for name in _TEXTS}
        columns |= {name + "_ptr": self.array(name + "_ptr", n + 1, np.int64) for name in _TEXTS}
        columns |= {name: self.array(name, n, np.int32) for name in ("src_len", "tgt_len")}
        for name in _TEXTS:
            columns[name + "_ptr"][0] = 0
        x, score = self.array("x", n, width=len(reader.unit_names)), self.array("unit score", n)
        return _Seen(table=table, x=x, score=score, n=np.zeros(1, np.int64), **columns)

    def for_lines(self, reader: FastReader, n: int, n_bars: int, n_bytes: int) -> _Lines:
        n_occurrences = n_bars // 2 + 1
        text_ptr = self.array("text_ptr", n + 1, np.int64)
        text_ptr[0] = 0
        return _Lines(
            sent=self.array("sent", n, np.int64),
            score=self.array("score", n),
            n_units=self.array("n_units", n, np.int64),
            text=self.array("text", n_bytes, np.uint8),
            text_ptr=text_ptr,
            extra=self.array("extra", n, width=len(reader.extra_names)),
            **{name: self.array(name, n_occurrences, np.int32) for name in ("unit", "src_start", "tgt_start")},
        )


def _cut(columns: Any, sizes: dict[str, int], n: int) -> Any:
    """Copies of what was filled: n rows, or as many as sizes say."""
    return columns._replace(**{name: c[: sizes.get(name, n)].copy() for name, c in columns._asdict().items()})


def by_sentence(chunks: Iterable[bytes], size: int = SENTENCES) -> Iterator[bytes]:
    """Chunks of at least ``size`` bytes (but the last) that end where a sentence does."""
    held: list[bytes] = []
    for chunk in chunks:
        held.append(chunk)
        if sum(map(len, held)) < size:
            continue
        whole = b"".join(held) if len(held) > 1 else chunk
        if cut := _last_sentence(whole):
            yield whole[:cut]
            whole = whole[cut:]
        held = [whole]
    if rest := b"".join(held):
        yield rest


def _last_sentence(chunk: bytes) -> int:
    """Where the lines that begin as the last one does begin, 0 where all do."""
    start = chunk.rfind(b"\n", 0, len(chunk) - 1) + 1
    head = chunk[start:].split(b" ", 1)[0] + b" "
    while start and chunk.startswith(head, before := chunk.rfind(b"\n", 0, start - 1) + 1):
        start = before
    return start


def _valid_lines(chunk: bytes) -> bytes:
    """The lines before the first one that is not UTF-8 or has a NUL: all of them, as a rule."""
    if (nul := chunk.find(b"\0")) >= 0:
        chunk = chunk[: chunk.rfind(b"\n", 0, nul) + 1]
    if chunk.isascii():
        return chunk
    whole = pa.LargeStringArray.from_buffers(1, pa.py_buffer(np.array([0, len(chunk)])), pa.py_buffer(chunk))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        try:
            chunk.decode()
        except UnicodeDecodeError as error:
            return chunk[: chunk.rfind(b"\n", 0, error.start) + 1]
    return chunk


def _labels(groups: list[tuple[str, int]]) -> tuple[_Labels, tuple[str, ...]]:
    text = [(name + "=").encode() for name, _ in groups]
    names = [n for name, k in groups for n in ([name] if k == 1 else [f"{name}_{i}" for i in range(k)])]
    labels = _Labels(
        np.frombuffer(b"".join(text), np.uint8),
        offsets(np.array([len(t) for t in text])),
        np.array([k for _, k in groups], np.int64),
    )
    return labels, tuple(names)


def _source_tokens(sentences: list[str]) -> _Source:
    tokens = [split_words(sentence) for sentence in sentences]
    text = "".join(f"{word} " for own in tokens for word in own).encode()
    data = np.frombuffer(text or b" ", np.uint8)
    end = np.flatnonzero(np.frombuffer(text, np.uint8) == 32)
    start = np.append(0, end[:-1] + 1)[: len(end)]
    return _Source(data, offsets(np.array([len(own) for own in tokens], np.int64)), start, end)
