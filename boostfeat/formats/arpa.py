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

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64, I32, offsets
from ..core.errors import FormatError, clip, counted
from ..core.files import decode, read_chunks
from .fields import floats

MAX_LOG10 = 1e30  # sums over a sentence stay finite
DAMAGED = "the file is cut short or damaged: write or copy it again"
Ngrams = tuple[I32, F64, F64]  # numbers of words [m, n], log10 p [m], log10 backoff [m]


def _pieces(path: str) -> Iterator[tuple[int, list[bytes], bytes]]:
    """Yield (number of the first line, lines, the mark after them): marks start with a backslash, b"" is none."""
    number = 1
    for chunk in read_chunks(path):
        lines = chunk[:-1].split(b"\n")
        start = 0
        for at in [i for i, line in enumerate(lines) if line.startswith(b"\\")]:
            yield number + start, lines[start:at], lines[at].strip()
            start = at + 1
        yield number + start, lines[start:], b""
        number += len(lines)


def _bad(path: str, number: int, expected: str, found: bytes | str, fix: str = DAMAGED) -> FormatError:
    return FormatError(f"{path}:{number}", expected=expected, found=clip(found) if isinstance(found, bytes) else found, fix=fix)


def read_arpa(path: str, vocab: dict[str, int]) -> tuple[list[I32], list[F64], list[F64]]:
    """Return the n-grams of every order, as Ngrams; OUT vocab, in the order of the unigrams."""
    counts: list[int] = []
    orders: list[list[Ngrams]] = []  # by order, pieces of the file
    n_marks, number = 0, 1  # marks that were met: \\data\\, \\1-grams:, ...

    def check_size() -> None:
        if orders and (size := sum(len(logp) for _, logp, _ in orders[-1])) != counts[len(orders) - 1]:
            expected = f"{counts[len(orders) - 1]} n-grams of order {len(orders)}, as the head says"
            raise _bad(path, number, expected, str(size))

    for first, lines, mark in _pieces(path):
        number = first + len(lines)
        if n_marks == 1:
            counts += _read_counts(path, lines, first, len(counts))
        elif orders:
            orders[-1].append(_read_ngrams(path, lines, first, vocab, len(orders)))
        elif filled := [line for line in lines if line.strip()]:
            fix = "give an ARPA file: KenLM's binary ones cannot be read"
            raise _bad(path, first, "\\data\\ at the start", filled[0], fix)
        if not mark:
            continue
        if n_marks == 1 and not counts:
            raise _bad(path, number, "ngram 1=COUNT after \\data\\", mark)
        check_size()
        is_all = n_marks > len(counts)
        expected = "\\data\\" if not n_marks else "\\end\\" if is_all else f"\\{n_marks}-grams:"
        if mark != expected.encode():
            raise _bad(path, number, expected, mark)
        if n_marks and is_all:
            ids, logp, backoff = zip(*(map(np.concatenate, zip(*pieces, strict=True)) for pieces in orders), strict=True)
            return [*ids], [*logp], [*backoff]
        orders += [[]] if n_marks else []
        n_marks += 1
    check_size()
    raise _bad(path, number, "\\end\\ after the last n-gram" if n_marks else "\\data\\ at the start", "the end of the file")


def _read_counts(path: str, lines: list[bytes], first: int, n_before: int) -> list[int]:
    """Return the numbers of ``ngram 1=16977`` and so on."""
    counts: list[int] = []
    for number, line in enumerate(lines, first):
        if line.strip():
            order, _, size = line.strip().removeprefix(b"ngram ").partition(b"=")
            following = n_before + len(counts) + 1
            if not (size.strip().isdigit() and len(size) < 20 and order.strip() == b"%d" % following):
                raise _bad(path, number, f"ngram {following}=COUNT", line)
            counts.append(int(size))
    return counts


def _read_ngrams(path: str, lines: list[bytes], first: int, vocab: dict[str, int], n: int) -> Ngrams:
    """Read lines ``log10 p, n words, perhaps log10 backoff``; unigrams join the vocab."""
    at = np.array([i for i, line in enumerate(lines) if line.strip()], np.int64)
    layout = f"log10 of a probability, {counted(n, 'word')} and perhaps a backoff"

    def refuse(wrong: np.ndarray, expected: str) -> None:
        if wrong.any():
            k = at[np.argmax(wrong)]  # the first
            raise _bad(path, first + k, expected, lines[k])

    try:
        text = pa.array([lines[i] for i in at], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        for i in at:
            decode(lines[i], f"{path}:{first + i}")  # raises, and names the line
        raise
    words = pc.ascii_split_whitespace(pc.ascii_trim_whitespace(text))
    ptr = offsets(words.value_lengths().to_numpy(zero_copy_only=False))
    size, values = np.diff(ptr), words.flatten()
    refuse((size <= n) | (size > n + 2), layout)
    has_backoff = size == n + 2
    logp, backoff = floats(values.take(pa.array(ptr[:-1]))), np.zeros(len(at))
    backoff[has_backoff] = floats(values.take(pa.array(ptr[1:][has_backoff] - 1)))
    refuse(~(np.abs(logp) < MAX_LOG10) | (logp > 0) | ~(np.abs(backoff) < MAX_LOG10), layout)  # also NaN
    names = values.take(pa.array((ptr[:-1, None] + np.arange(1, n + 1)).ravel()))
    if n == 1:
        n_before = len(vocab)
        numbers = np.array([vocab.setdefault(name, len(vocab)) for name in names.to_pylist()], np.int64)
        refuse(numbers != n_before + np.arange(len(at)), "each unigram once")
    ids = pc.fill_null(pc.index_in(names, value_set=pa.array(list(vocab), pa.string())), -1).to_numpy(zero_copy_only=False)
    ids = ids.astype(np.int32).reshape(-1, n)
    refuse((ids < 0).any(axis=1), "words that are unigrams of the model")
    return ids, logp, backoff
