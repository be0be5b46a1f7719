"""ARPA files: n-gram probabilities as text.

    \\data\\
    ngram 1=16977
    ...
    \\1-grams:
    -2.5715346	this	-0.48288426
    ...
    \\end\\
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64, I32, offsets
from ..core.errors import FormatError, clip, counted
from ..core.files import read_chunks
from ..core.text import may_be_number

MAX_LOG10 = 1e30  # sums over a sentence stay finite


@dataclass
class _Section:
    """N-grams of one order, as pieces of the file come."""

    order: int
    ids: list[I32] = field(default_factory=list)  # [m, n] numbers of words
    logp: list[F64] = field(default_factory=list)  # [m] log10
    backoff: list[F64] = field(default_factory=list)  # [m] log10
    size: int = 0


def _pieces(path: str) -> Iterator[tuple[int, list[bytes], bytes]]:
    """(number of the first line, lines, the mark after them): marks start with a backslash, b"" is none."""
    number = 1
    for chunk in read_chunks(path):
        lines = chunk[:-1].split(b"\n")
        start = 0
        for at in [i for i, line in enumerate(lines) if line.startswith(b"\\")]:
            yield number + start, lines[start:at], lines[at].strip()
            start = at + 1
        yield number + start, lines[start:], b""
        number += len(lines)


def read_arpa(path: str, vocab: dict[str, int]) -> tuple[list[I32], list[F64], list[F64]]:
    """Word numbers [m, n], log10 p [m] and log10 backoff [m] of every order; OUT vocab, in the order of the unigrams."""
    counts: list[int] = []
    sections: list[_Section] = []
    has_head, number = False, 1

    def bad(
        at: int, expected: str, found: object, fix: str = "the file is cut short or damaged: write or copy it again"
    ) -> FormatError:
        return FormatError(
            f"{path}:{at}", expected=expected, found=clip(found) if isinstance(found, bytes) else str(found), fix=fix
        )

    def check_size() -> None:
        if sections and sections[-1].size != counts[len(sections) - 1]:
            expected = f"{counts[len(sections) - 1]} n-grams of order {len(sections)}, as the head says"
            raise bad(number, expected, sections[-1].size)

    for first, lines, mark in _pieces(path):
        number = first + len(lines)
        if sections:
            _read_ngrams(lines, first, bad, vocab, sections[-1])
        elif has_head:
            counts += _read_counts(lines, first, bad, len(counts))
        elif filled := [line for line in lines if line.strip()]:
            raise bad(first, "\\data\\ at the start", filled[0], "give an ARPA file: KenLM's binary ones cannot be read")
        if not mark:
            continue
        if has_head and not counts:
            raise bad(number, "ngram 1=COUNT after \\data\\", mark)
        check_size()
        is_all = has_head and len(sections) == len(counts)
        expected = "\\end\\" if is_all else f"\\{len(sections) + 1}-grams:" if has_head else "\\data\\"
        if mark != expected.encode():
            raise bad(number, expected, mark)
        if is_all:
            ids, logp, backoff = ([np.concatenate(getattr(s, name)) for s in sections] for name in ("ids", "logp", "backoff"))
            return ids, logp, backoff
        if has_head:
            empty = np.zeros(0)
            sections.append(_Section(len(sections) + 1, [np.zeros((0, len(sections) + 1), np.int32)], [empty], [empty]))
        has_head = True
    check_size()
    raise bad(number, "\\end\\ after the last n-gram" if has_head else "\\data\\ at the start", "the end of the file")


def _read_counts(lines: list[bytes], first: int, bad: Callable[..., FormatError], n_known: int) -> list[int]:
    """The numbers of ``ngram 1=16977`` and so on."""
    counts: list[int] = []
    for at, line in enumerate(lines, first):
        if line.strip():
            order, _, size = line.strip().removeprefix(b"ngram ").partition(b"=")
            if not (size.strip().isdigit() and len(size) < 20 and order.strip() == b"%d" % (n_known + len(counts) + 1)):
                raise bad(at, f"ngram {n_known + len(counts) + 1}=COUNT", line)
            counts.append(int(size))
    return counts


def _read_ngrams(lines: list[bytes], first: int, bad: Callable[..., FormatError], vocab: dict[str, int], out: _Section) -> None:
    """Read lines ``log10 p, n words, perhaps log10 backoff`` to OUT out; unigrams join the vocab."""
    n = out.order
    at = np.array([i for i, line in enumerate(lines) if line.strip()], np.int64)
    try:
        text = pa.array([lines[i] for i in at], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        wrong = next(i for i in at if not _is_utf8(lines[i]))
        raise bad(first + wrong, "UTF-8 text", lines[wrong], "convert the file with iconv") from None
    fields = pc.ascii_split_whitespace(pc.ascii_trim_whitespace(text))
    ptr = offsets(fields.value_lengths().to_numpy(zero_copy_only=False))
    size, values = np.diff(ptr), fields.flatten()
    layout = f"log10 of a probability, {counted(n, 'word')} and perhaps a backoff"
    if (wrong := (size <= n) | (size > n + 2)).any():
        raise bad(first + (k := at[np.argmax(wrong)]), layout, lines[k])  # the first
    logp, backoff = np.empty(len(at)), np.zeros(len(at))
    has_backoff = size == n + 2
    for column, rows, places in (
        (logp, np.arange(len(at)), ptr[:-1]),
        (backoff, np.flatnonzero(has_backoff), ptr[1:][has_backoff] - 1),
    ):
        column[rows] = _numbers(values.take(pa.array(places)))
    if (wrong := ~(np.abs(logp) < MAX_LOG10) | (logp > 0) | ~(np.abs(backoff) < MAX_LOG10)).any():  # also NaN
        raise bad(first + (k := at[np.argmax(wrong)]), layout, lines[k])
    words = values.take(pa.array((ptr[:-1, None] + np.arange(1, n + 1)).ravel()))
    if n == 1:
        for i, word in enumerate(words.to_pylist()):
            if vocab.setdefault(word, number := len(vocab)) != number:
                raise bad(first + at[i], "each unigram once", lines[at[i]])
    ids = pc.fill_null(pc.index_in(words, value_set=pa.array(list(vocab), pa.string())), -1).to_numpy(zero_copy_only=False)
    ids = ids.astype(np.int32).reshape(-1, n)
    if (wrong := (ids < 0).any(axis=1)).any():
        raise bad(first + (k := at[np.argmax(wrong)]), "words that are unigrams of the model", lines[k])
    out.ids.append(ids)
    out.logp.append(logp)
    out.backoff.append(backoff)
    out.size += len(at)


def _is_utf8(line: bytes) -> bool:
    try:
        return bool(line.decode() or True)
    except UnicodeDecodeError:
        return False


def _numbers(text: Any) -> F64:
    """[m] the numbers of strings, NaN where one is none."""
    try:
        return text.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.array([_number(value) for value in text.to_pylist()])


def _number(text: str) -> float:
    try:
        return float(text) if may_be_number(text) else nan
    except ValueError:
        return nan
