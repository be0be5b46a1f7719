"""The fast reader of Moses search graphs: a numba kernel over bytes, for lines without sparse features.

Sentences with a line it does not understand are for the plain reader, which reads them or says what is wrong.
"""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...core.arrays import F64, I64, Bool
from ...core.files import read_chunks
from ...core.kernels import kernel
from ...core.text import split_words
from ...formats.bar_kernel import NONE, read_digits, read_number, starts_with
from .graph import Graph, GraphBuilder

_HYP, _STACK, _BACK, _SCORE, _TRANSITION, _RECOMBINED, _FORWARD, _FSCORE, _COVERED, _CORE, _OUT = (
    np.frombuffer(word, np.uint8)
    for word in (
        *(b" hyp=", b" stack=", b" back=", b" score=", b" transition=", b" recombined=", b" forward=", b" fscore=", b" covered="),
        *(b' scores="core=(', b'" out="'),
    )
)
_SPACE, _COMMA, _MINUS, _CLOSE, _BAR, _QUOTE, _RETURN, _DELETE = (ord(c) for c in ' ,-)|"\r\x7f')


class Lines(NamedTuple):
    """What lines say, a row each; rows that are not understood have ``is_read`` false."""

    sent: I64  # the row before's where there is none, -1 at the beginning
    is_read: Bool
    hyp: I64
    stack: I64
    back: I64  # -1: where the search starts
    recombined: I64  # -1: is not
    transition: F64
    start: I64
    end: I64
    core: F64  # [lines, values]
    out: I64  # [lines, 3] where the phrase pair begins, has its bar and ends


@kernel
def _after(buf, i, end, word):  # type: ignore[no-untyped-def]
    """The position after a word that stands at i, -1 if another does (or i is -1 already)."""
    return i + len(word) if i >= 0 and starts_with(buf, i, end, word, 0, len(word)) else NONE


@kernel
def _skip_to_space(buf, i, end):  # type: ignore[no-untyped-def]
    """The position of the next space or the end; -1 if nothing or no plain ASCII stands before it (or i is -1 already)."""
    if i < 0 or i >= end or buf[i] == _SPACE:
        return NONE
    while i < end and buf[i] != _SPACE:
        if not _SPACE < buf[i] < _DELETE:
            return NONE
        i += 1
    return i


@kernel
def _number_after(buf, i, end, word):  # type: ignore[no-untyped-def]
    """(whole number, position after it) behind a word; position -1 if either is missing."""
    i = _after(buf, i, end, word)
    return read_digits(buf, i, end) if i >= 0 else (np.int64(0), NONE)


@kernel
def _read_core(buf, i, end, out):  # type: ignore[no-untyped-def]
    """Numbers with commas between them up to ')' into OUT out; the position after it, -1 if they are not as many."""
    if not len(out):
        return NONE
    for k in range(len(out)):
        if i < 0:
            return NONE
        out[k], i = read_number(buf, i, end)
        if i < 0 or i >= end or buf[i] != (_COMMA if k < len(out) - 1 else _CLOSE):
            return NONE
        i += 1
    return i


@kernel
def _read_line(buf, i, end, r, lines):  # type: ignore[no-untyped-def]
    """Read what stands behind a sentence id into OUT row r of lines; whether all of it was understood."""
    while end > i and (buf[end - 1] == _SPACE or buf[end - 1] == _RETURN):
        end -= 1
    lines.hyp[r], i = _number_after(buf, i, end, _HYP)
    lines.stack[r], i = _number_after(buf, i, end, _STACK)
    is_start = _after(buf, i, end, _BACK) < 0
    lines.back[r] = lines.recombined[r] = -1
    if not is_start:
        lines.back[r], i = _number_after(buf, i, end, _BACK)
        i = _after(buf, _skip_to_space(buf, _after(buf, i, end, _SCORE), end), end, _TRANSITION)
        if i < 0:
            return False
        lines.transition[r], i = read_number(buf, i, end)
        if _after(buf, i, end, _RECOMBINED) >= 0:
            lines.recombined[r], i = _number_after(buf, i, end, _RECOMBINED)
    i = _after(buf, i, end, _FORWARD)
    if 0 <= i < end and buf[i] == _MINUS:
        i += 1
    if i < 0:
        return False
    _, i = read_digits(buf, i, end)
    i = _skip_to_space(buf, _after(buf, i, end, _FSCORE), end)
    if is_start:
        return i == end
    lines.start[r], i = _number_after(buf, i, end, _COVERED)
    if i < 0 or i >= end or buf[i] != _MINUS:
        return False
    last, i = read_digits(buf, i + 1, end)
    lines.end[r] = last + 1
    i = _read_core(buf, _after(buf, i, end, _CORE), end, lines.core[r])
    while 0 <= i < end and buf[i] == _SPACE:
        i += 1
    i = _after(buf, i, end, _OUT)
    if i < 0 or i >= end or buf[end - 1] != _QUOTE or last < lines.start[r]:
        return False
    bar = i
    while bar < end and buf[bar] != _BAR:
        bar += 1
    lines.out[r, 0], lines.out[r, 1], lines.out[r, 2] = i, bar, end - 1
    for k in range(bar + 1, end):
        if buf[k] == _BAR:
            return False
    return bar < end


@kernel
def _scan(buf, ends, lines):  # type: ignore[no-untyped-def]
    """IN ends[n] (of lines); OUT rows of lines."""
    pos, sent = 0, np.int64(-1)
    for r in range(len(ends)):
        own, i = read_digits(buf, pos, ends[r])
        if i >= 0 and i < ends[r] and buf[i] == _SPACE:
            sent = own
            lines.is_read[r] = _read_line(buf, i, ends[r], r, lines)
        else:  # a blank line, or one to be reported
            lines.is_read[r] = False
        lines.sent[r] = sent
        pos = ends[r] + 1


class Block(NamedTuple):
    """The lines of one sentence: rows a:b of a chunk; the first is line ``first`` of the file."""

    chunk: bytes
    ends: I64
    lines: Lines
    a: int
    b: int
    first: int

    def own_lines(self) -> Lines:
        return Lines(*(column[self.a : self.b] for column in self.lines))  # type: ignore[arg-type]

    def text_lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number, line) of all lines."""
        begin = int(self.ends[self.a - 1]) + 1 if self.a else 0
        raw = self.chunk[begin : int(self.ends[self.b - 1])]
        return enumerate(raw.split(b"\n"), self.first)


def blocks(path: str | Path) -> Iterator[Block]:
    """The sentences of a file, one chunk of lines in memory; lines of a sentence in two chunks are put together."""
    rest, first = b"", 1
    for chunk in read_chunks(path):
        chunk = rest + (chunk.removeprefix(codecs.BOM_UTF8) if first == 1 and not rest else chunk)
        ends, lines = scanned(chunk)
        starts = [0, *np.flatnonzero(np.diff(lines.sent, prepend=lines.sent[0])).tolist()]
        for a, b in pairwise(starts):
            yield Block(chunk, ends, lines, a, b, first + a)
        rest = chunk[int(ends[starts[-1] - 1]) + 1 if starts[-1] else 0 :]
        first += starts[-1]
    if rest:
        ends, lines = scanned(rest)
        yield Block(rest, ends, lines, 0, len(ends), first)


def scanned(chunk: bytes) -> tuple[I64, Lines]:
    buf = np.frombuffer(chunk, np.uint8)
    ends = np.flatnonzero(buf == ord("\n"))
    n = len(ends)
    core = re.search(rb' scores="core=\(([^()\n]*)\)', chunk)
    whole = [np.zeros(n, np.int64) for _ in range(7)]
    lines = Lines(
        sent=whole[0],
        is_read=np.zeros(n, bool),
        hyp=whole[1],
        stack=whole[2],
        back=whole[3],
        recombined=whole[4],
        transition=np.zeros(n),
        start=whole[5],
        end=whole[6],
        core=np.zeros((n, core[1].count(b",") + 1 if core else 0)),
        out=np.zeros((n, 3), np.int64),
    )
    _scan(buf, ends, lines)
    if (nul := chunk.find(b"\0")) >= 0:
        lines.is_read[np.searchsorted(ends, nul)] = False
    try:
        if not chunk.isascii():
            chunk.decode()
    except UnicodeDecodeError as error:
        lines.is_read[np.searchsorted(ends, error.start)] = False  # also where it stands in what is skipped
    return ends, lines


def nodes_of(hyp: I64, recombined: I64) -> tuple[I64, I64] | None:
    """The node of each hypothesis, that of the one it was recombined into if any; and what ``find`` needs. None: damaged."""
    order = np.argsort(hyp, kind="stable")
    known = hyp[order]
    if (known[1:] == known[:-1]).any():
        return None
    is_own = recombined < 0
    into = np.arange(len(hyp))
    at = find(recombined[~is_own], known, order)
    if (at < 0).any():
        return None
    into[~is_own] = at
    for _ in range(len(hyp).bit_length()):  # chains of recombination halve each time
        into = into[into]
    if not is_own[into].all():
        return None
    return (np.cumsum(is_own) - 1)[into], order


def find(wanted: I64, known: I64, order: I64) -> I64:
    """Positions of hypotheses, -1 where there is none."""
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, order[at], -1)


def fast_graph(block: Block, names: list[str], path: str) -> Graph | None:
    """The graph of a sentence whose lines were all understood; None where something is for the plain reader to report."""
    lines = block.own_lines()
    nodes = nodes_of(lines.hyp, lines.recombined)
    if nodes is None:
        return None
    node, order = nodes
    is_arc = lines.back >= 0
    tails = find(lines.back[is_arc], lines.hyp[order], order)
    if (tails < 0).any():
        return None
    goal = int(node.max()) + 1
    last = node[lines.stack == lines.stack.max()]
    ends = last[np.sort(np.unique(last, return_index=True)[1])]
    n, n_arcs, n_ends = len(node), len(tails), len(ends)
    builder = GraphBuilder(lambda e: f"{path}:{block.first + min(e, n - 1)}")
    texts = _texts(block.chunk, lines.out, is_arc, builder)
    if texts is None:
        return None
    src, tgt, words, n_words = texts
    blank = [""] * n_ends
    n_core = lines.core.shape[1]
    builder.edges(
        heads=np.append(node, np.full(n_ends, goal)),
        tails=np.concatenate([node[tails], ends]),
        n_tails=np.append(is_arc, np.ones(n_ends)),
        words=np.append(words, np.full(n_ends, -1)),
        n_words=np.append(n_words, np.ones(n_ends)),
        idx=np.tile([builder.name(name) for name in names], n_arcs) if n_arcs else np.zeros(0),
        val=lines.core[is_arc].ravel(),
        n_features=np.append(is_arc * n_core, np.zeros(n_ends)),
        score=np.append(np.where(is_arc, lines.transition, 0.0), np.zeros(n_ends)),
        src_start=np.append(np.where(is_arc, lines.start, -1), np.full(n_ends, -1)),
        src_end=np.append(np.where(is_arc, lines.end, -1), np.full(n_ends, -1)),
        src=[*src, *blank],
        tgt=[*tgt, *blank],
        is_unit=np.append(is_arc, np.zeros(n_ends, bool)),
    )
    return builder.finish(goal + 1, goal)


def _texts(
    chunk: bytes, out: I64, is_arc: Bool, builder: GraphBuilder
) -> tuple[list[str], list[str], array[int], array[int]] | None:
    """Source and target sides of edges, and their target templates; None if they are not UTF-8."""
    src: list[str] = []
    tgt: list[str] = []
    words, n_words = array("i"), array("q")
    pairs: dict[bytes, tuple[str, str, array[int]]] = {b"": ("", "", array("i"))}  # the empty one: of lines that are no arcs
    vocab = builder.vocab
    out = np.where(is_arc[:, None], out, 0)
    for a, bar, b in out.tolist():
        raw = chunk[a:b]
        if (pair := pairs.get(raw)) is None:
            try:
                source, target = split_words(raw[: bar - a].decode()), split_words(raw[bar - a + 1 :].decode())
            except UnicodeDecodeError:
                return None
            numbers = [vocab.setdefault(w, len(vocab)) for w in target]
            pair = " ".join(source), " ".join(target), array("i", [-1, *numbers])
            pairs[raw] = pair
        src.append(pair[0])
        tgt.append(pair[1])
        words.extend(pair[2])
        n_words.append(len(pair[2]))
    return src, tgt, words, n_words
