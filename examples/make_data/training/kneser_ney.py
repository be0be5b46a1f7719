"""N-gram language models: interpolated modified Kneser-Ney, written in ARPA's back-off form.

    p(w|h) = max(a(hw) − D(a(hw)), 0) / Σ_w a(hw)  +  γ(h) p(w|h')        h' is h without its first word
    γ(h)   = Σ_w D(a(hw)) / Σ_w a(hw)                                     [CG98]

a(hw) is the count for the highest order and for n-grams that begin a sentence, otherwise the number of different words before hw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from boostfeat.core.arrays import F64, I64
from boostfeat.core.text import split_words
from boostfeat.lists.nbest import strings
from boostfeat.lists.words import words_of

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
FALLBACK = (0.5, 1.0, 1.5)  # discounts where the text is too small to estimate them


@dataclass(frozen=True)
class Order:
    """The n-grams of one order, [m] each."""

    context: I64  # n-gram of the order below without the last word
    suffix: I64  # and without the first
    word: I64  # the last word
    prob: F64
    backoff: F64  # γ as the context of the order above, 1 if it is none


@dataclass(frozen=True)
class NGrams:
    words: list[str]  # the vocabulary; BEGIN, END and UNKNOWN come first
    orders: tuple[Order, ...]


def estimate(lines: Sequence[str], *, order: int = 3) -> NGrams:
    """A model of the lines' words. Deviation: n-grams are never pruned; UNKNOWN gets what the unigrams' discounts leave to it."""
    text = words_of(strings([" ".join([BEGIN, END, UNKNOWN]), *(" ".join([BEGIN, *split_words(line), END]) for line in lines)]))
    word, place = text.ids[3:], (np.arange(len(text.ids)) - text.ptr[text.owner])[3:]
    names = text.names.to_pylist()
    grams = [_Grams.unigrams(word, len(names))]
    for n in range(2, order + 1):
        grams.append(grams[-1].longer(word, place, n, len(names)))
    lower = np.full(1, 1.0 / (len(names) - 1))  # uniform over all words but BEGIN
    orders: list[Order] = []
    for n, gram in enumerate(grams, start=1):
        adjusted = gram.count if n == order else _left_neighbours(gram, grams[n], place, n)
        if n == 1:
            adjusted[names.index(BEGIN)] = 0  # a context only
        discount = _discounts(adjusted)[np.minimum(adjusted, 3)]
        total = np.bincount(gram.context, adjusted, minlength=len(lower))
        left = np.bincount(gram.context, discount, minlength=len(lower))
        gamma = np.divide(left, total, out=np.ones(len(lower)), where=total > 0)
        prob = (adjusted - discount) / total[gram.context] + gamma[gram.context] * lower[gram.suffix]
        if n > 1:
            orders[-1] = replace(orders[-1], backoff=gamma)
        orders.append(Order(gram.context, gram.suffix, gram.word, prob, np.ones(len(prob))))
        lower = prob
    return NGrams(names, tuple(orders))


@dataclass(frozen=True)
class _Grams:
    """Distinct n-grams of one order, and the one that ends at each token (-1: none does)."""

    at: I64  # [tokens]
    last: I64  # [m] a token where each ends
    context: I64
    suffix: I64
    word: I64
    count: I64

    @classmethod
    def unigrams(cls, word: I64, n_words: int) -> _Grams:
        zero, every = np.zeros(n_words, np.int64), np.arange(n_words)
        last = np.full(n_words, -1)
        last[word] = np.arange(len(word))
        return cls(word, last, zero, zero, every, np.bincount(word, minlength=n_words))

    def longer(self, word: I64, place: I64, n: int, n_words: int) -> _Grams:
        """The n-grams one word longer, ordered by context, then word."""
        ends = np.flatnonzero(place >= n - 1)
        keys, first, inverse, count = np.unique(
            self.at[ends - 1] * n_words + word[ends], return_index=True, return_inverse=True, return_counts=True
        )
        at = np.full(len(word), -1)
        at[ends] = inverse
        last = ends[first]
        return _Grams(at, last, keys // n_words, self.at[last], keys % n_words, count)


def _left_neighbours(gram: _Grams, longer: _Grams, place: I64, n: int) -> I64:
    """[m] the number of different words before each n-gram; the count of those that begin a sentence."""
    neighbours = np.bincount(longer.suffix, minlength=len(gram.count))
    begins = (gram.last >= 0) & (place[gram.last] == n - 1)
    return np.where(begins, gram.count, neighbours)


def _discounts(adjusted: I64) -> F64:
    """[4] of a = 0, 1, 2, 3 or more:  D(k) = k − (k+1) Y n_{k+1} / n_k,  Y = n_1 / (n_1 + 2 n_2),  n_k n-grams having a = k."""
    n = np.bincount(adjusted[adjusted < 5], minlength=5)
    if not n[1:].all():
        return np.array([0.0, *FALLBACK])
    y = n[1] / (n[1] + 2 * n[2])
    found = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
    usable = all(0 < d <= k for k, d in enumerate(found, start=1))
    return np.array([0.0, *(found if usable else FALLBACK)])


def write_arpa(model: NGrams, stream: IO[bytes]) -> None:
    """Base-10 logarithms with six digits, as language-model tools read them."""
    text = [*model.words]
    stream.write(b"\\data\\\n")
    for n, order in enumerate(model.orders, start=1):
        stream.write(f"ngram {n}={len(order.prob)}\n".encode())
    for n, order in enumerate(model.orders, start=1):
        if n > 1:
            text = [f"{text[c]} {model.words[w]}" for c, w in zip(order.context.tolist(), order.word.tolist(), strict=True)]
        stream.write(f"\n\\{n}-grams:\n".encode())
        for gram, prob, backoff in zip(text, order.prob.tolist(), order.backoff.tolist(), strict=True):
            tail = f"\t{_log10(backoff)}" if n < len(model.orders) else ""
            stream.write(f"{'-99' if gram == BEGIN else _log10(prob)}\t{gram}{tail}\n".encode())
    stream.write(b"\n\\end\\\n")


def _log10(value: float) -> str:
    return f"{math.log10(value):.6g}"
