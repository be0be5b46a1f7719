"""ARPA n-gram models as an automaton: a state is the longest suffix of the history that the model knows, one integer.

    p(w | s) = p(s w) if the model has s w, else backoff(s) · p(w | the longest known proper suffix of s)

ARPA files are text:

    \\data\\
    ngram 1=16977
    ...
    \\1-grams:
    -2.5715346	this	-0.48288426
    ...
    \\end\\

Nodes are n-grams, found by (node of all but the last word, last word) in one hash table; node 0 is the empty one, node
w + 1 the unigram of word w. Probabilities are natural logarithms, as in Moses' features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64, I32, I64, offsets
from ..core.errors import FormatError, clip, counted
from ..core.files import decode, read_chunks
from ..core.kernels import kernel
from ..formats.fields import floats

UNKNOWN_LOG10 = -100.0  # of <unk> where the model has none, as KenLM does
_SHIFT, _MIX = np.uint64(29), np.uint64(0xBF58476D1CE4E5B9)


class Automaton(NamedTuple):
    """A language model as kernels take it. N nodes, M hash slots."""

    n_words: int
    keys: I64  # [M] node · n_words + word, -1 where free
    nodes: I32  # [M]
    logp: F64  # [N]
    backoff: F64  # [N]
    suffix: I32  # [N] the node of the longest known proper suffix
    state: I32  # [N] the longest suffix that can matter for what follows


@kernel
def _slot(lm, key):  # type: ignore[no-untyped-def]
    """Return the slot of a key in the hash table, or the free slot where it would go."""
    mask = np.uint64(len(lm.keys) - 1)
    h = np.uint64(key) * _MIX
    slot = (h ^ (h >> _SHIFT)) & mask
    while lm.keys[slot] >= 0 and lm.keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _child(lm, node, word):  # type: ignore[no-untyped-def]
    if node == 0:
        return word + 1
    slot = _slot(lm, np.int64(node) * lm.n_words + word)
    return lm.nodes[slot] if lm.keys[slot] >= 0 else -1


@kernel
def step(lm, state, word):  # type: ignore[no-untyped-def]
    """(ln p(word | state), the node of the longest n-gram that ends in the word)."""
    total = 0.0
    node = _child(lm, state, word)
    while node < 0:
        total += lm.backoff[state]
        state = lm.suffix[state]
        node = _child(lm, state, word)
    return total + lm.logp[node], node


@kernel
def extend(lm, state, word):  # type: ignore[no-untyped-def]
    """(ln p(word | state), the state after it)."""
    p, node = step(lm, state, word)
    return p, lm.state[node]


@kernel(inline="always")
def extend_all(lm, state, words):  # type: ignore[no-untyped-def]
    """(ln p(words | state), the state after them)."""
    total = 0.0
    for word in words:
        p, state = extend(lm, state, word)
        total += p
    return total, state


@kernel
def isolated_scores(lm, word_ptr, words, out):  # type: ignore[no-untyped-def]
    """OUT out[n]: ln p of each row of words without a history, what Moses estimates the phrase's score with."""
    for r in range(len(out)):
        out[r] = extend_all(lm, 0, words[word_ptr[r] : word_ptr[r + 1]])[0]


@kernel
def _score_words(lm, start, end, first, words, logp, orders):  # type: ignore[no-untyped-def]
    """OUT logp[n]: ln p of each word after those before it; orders[n] of the n-grams matched. Returns ln p of </s>."""
    state = start
    for i in range(len(words)):
        p, node = step(lm, state, words[i])
        logp[i], orders[i] = p, np.searchsorted(first, node, side="right")
        state = lm.state[node]
    return step(lm, state, end)[0]


@kernel
def _add_ngrams(lm, ngrams, first):  # type: ignore[no-untyped-def]
    """Number the n-grams [m, n] from node ``first`` on, after all shorter ones. Returns the row that cannot be, or -1."""
    n = ngrams.shape[1]
    for r in range(len(ngrams)):
        parent = ngrams[r, 0] + 1
        for i in range(1, n - 1):
            parent = _child(lm, parent, ngrams[r, i])
            if parent < 0:
                return r
        slot = _slot(lm, np.int64(parent) * lm.n_words + ngrams[r, n - 1])
        if lm.keys[slot] >= 0:
            return r
        lm.keys[slot], lm.nodes[slot] = np.int64(parent) * lm.n_words + ngrams[r, n - 1], first + r
        shorter, node = lm.suffix[parent], -1
        while node < 0:
            node = _child(lm, shorter, ngrams[r, n - 1])
            if node < 0:
                shorter = lm.suffix[shorter]
        lm.suffix[first + r] = node
        lm.state[parent] = parent  # something follows it
    return -1


@kernel
def _reduce_states(lm):  # type: ignore[no-untyped-def]
    """A node that nothing follows and that costs nothing to leave is as good as its suffix."""
    for node in range(1, len(lm.state)):
        if lm.state[node] != node:
            lm.state[node] = node if lm.backoff[node] != 0.0 else lm.state[lm.suffix[node]]


@dataclass(frozen=True)
class LanguageModel:
    """An n-gram model: words by name, and the automaton over their numbers."""

    order: int
    vocab: dict[str, int]
    automaton: Automaton
    first: I64  # [order] the first node of each order: n-grams of one follow those of the shorter ones

    @cached_property
    def signature(self) -> str:
        """A digest of words and numbers, which tells models apart."""
        parts = (repr(list(self.vocab)).encode(), self.automaton.logp, self.automaton.backoff, self.automaton.suffix)
        return hashlib.sha256(b"".join(map(bytes, parts))).hexdigest()[:12]

    @property
    def start(self) -> int:
        """The state at the beginning of a sentence."""
        return int(self.automaton.state[self.vocab["<s>"] + 1])

    @property
    def end(self) -> int:
        """The word that ends a sentence."""
        return self.vocab["</s>"]

    def ids(self, words: Sequence[str]) -> I32:
        """Numbers of words; those that the model does not know are <unk>."""
        unknown = self.vocab["<unk>"]
        return np.array([self.vocab.get(word, unknown) for word in words], np.int32)

    def words(self, words: Sequence[str]) -> tuple[list[float], list[float], list[float], list[float], float]:
        """Return each word's ln p after those before it, order matched, ln p alone, 1 if unknown; and ln p of </s>."""
        ids = self.ids(words).astype(np.int64)
        logp, orders = np.zeros((2, len(ids)))
        end = _score_words(self.automaton, self.start, self.end, self.first, ids, logp, orders)
        alone, unknown = self.automaton.logp[ids + 1], (ids == self.vocab["<unk>"]).astype(np.float64)
        return logp.tolist(), orders.tolist(), alone.tolist(), unknown.tolist(), end

    @classmethod
    def load(cls, path: str | Path) -> LanguageModel:
        """Read an ARPA file."""
        vocab: dict[str, int] = {}
        ngrams, logp, backoff = read_arpa(str(path), vocab)
        backoff[-1][:] = 0.0  # nothing is longer, whatever the file says
        for word in ("<s>", "</s>"):
            if word not in vocab:
                fix = "train the model on sentences with their ends"
                raise FormatError(str(path), expected=f"a unigram {word}", found="none", fix=fix)
        if "<unk>" not in vocab:
            vocab["<unk>"] = len(vocab)
            ngrams[0] = np.append(ngrams[0], [[vocab["<unk>"]]], axis=0)
            logp[0], backoff[0] = np.append(logp[0], UNKNOWN_LOG10), np.append(backoff[0], 0.0)
        n, higher = 1 + sum(map(len, logp)), sum(map(len, logp[1:]))
        size = 1 << max(4, (2 * higher).bit_length())  # at most half full
        zero = np.zeros(1)
        lm = Automaton(
            n_words=len(vocab),
            keys=np.full(size, -1, np.int64),
            nodes=np.zeros(size, np.int32),
            logp=np.concatenate([zero, *logp]) * log(10),
            backoff=np.concatenate([zero, *backoff]) * log(10),
            suffix=np.zeros(n, np.int32),
            state=np.zeros(n, np.int32),
        )
        first = 1 + len(vocab)
        sizes = [1, *map(len, logp)]
        for k, rows in enumerate(ngrams[1:], 2):
            if (bad := _add_ngrams(lm, rows, first)) >= 0:
                words, expected = list(vocab), "an n-gram given once, whose words but the last are one too"
                found = clip(" ".join(words[w] for w in rows[bad]))
                fix = "the model is damaged or was pruned wrongly: write it again"
                raise FormatError(f"{path}: {k}-gram {bad + 1}", expected=expected, found=found, fix=fix)
            first += len(rows)
        _reduce_states(lm)
        return cls(order=len(logp), vocab=vocab, automaton=lm, first=np.cumsum(sizes[:-1], dtype=np.int64))


# ---------------------------------------------------------------------------------------------------------------------
# ARPA files
# ---------------------------------------------------------------------------------------------------------------------

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
        if orders and (n := sum(len(logp) for _, logp, _ in orders[-1])) != counts[len(orders) - 1]:
            expected = f"{counts[len(orders) - 1]} n-grams of order {len(orders)}, as the head says"
            raise _bad(path, number, expected, str(n))

    for first, lines, mark in _pieces(path):
        number = first + len(lines)
        if n_marks == 1:
            for at, line in enumerate(lines, first):
                if line.strip():
                    order, _, size = line.strip().removeprefix(b"ngram ").partition(b"=")
                    if not (size.strip().isdigit() and len(size) < 20 and order.strip() == b"%d" % (len(counts) + 1)):
                        raise _bad(path, at, f"ngram {len(counts) + 1}=COUNT", line)
                    counts.append(int(size))
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
