"""What the references of a dev list teach: word translations, by Model 1.

A table that has seen a sentence's reference knows it too well. So the list that teaches these templates has its features by
tables of other sentences: blocks of neighbours, each by what the other blocks teach (``registry.Crossed``).

Source words count by their first letters: what follows is mostly inflection, and a dev list has most words but once.

    t(e|f) the probability that f is translated as e
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, offsets
from ..core.kernels import kernel
from ..core.text import split_words
from ..lists.nbest import strings
from ..lists.words import NONE, Words, words_of
from .by_unit import FLOOR, Translations, stems
from .context import Rows
from .lexicon import model1 as estimate
from .registry import Crossed, Dense, template

PROBABLE = 0.001  # translations of less probability are forgotten: a model carries its table
CUT = 5  # letters of a source word
KEPT = 4  # tables as arrays


def _estimated(bitext: Sequence[tuple[str, str]], cut: int, *, inverse: bool) -> dict[str, dict[str, float]]:
    """t(word | stem of a source word), or the other way round, from (source, reference) of sentences."""
    f = words_of(strings([" ".join(stems(split_words(source), cut)) for source, _ in bitext]))
    e = words_of(strings([ref for _, ref in bitext]))
    table = estimate(e, f) if inverse else estimate(f, e)
    given, words, some = ["", *table.given.to_pylist()], table.words.to_pylist(), table.prob >= PROBABLE
    out: dict[str, dict[str, float]] = {}
    for key, p in zip(table.keys[some].tolist(), table.prob[some].tolist(), strict=True):
        out.setdefault(given[key // len(words)], {})[words[key % len(words)]] = float(f"{p:.4g}")
    return out


def _learn_forward(bitext: Sequence[tuple[str, str]], *, cut: int = CUT) -> dict[str, Any]:
    return {"cut": cut, "table": _estimated(bitext, cut, inverse=False)}


def _learn_inverse(bitext: Sequence[tuple[str, str]], *, cut: int = CUT) -> dict[str, Any]:
    return {"cut": cut, "table": _estimated(bitext, cut, inverse=True)}


@kernel
def _t(row_ptr, column, prob, row, wanted):  # type: ignore[no-untyped-def]
    """t(wanted | row) of rows with rising columns; 0 where the table lacks the pair, or either (-1)."""
    if row < 0 or wanted < 0:
        return 0.0
    low, high = row_ptr[row], row_ptr[row + 1]
    while low < high:
        middle = (low + high) // 2
        if column[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return prob[low] if low < row_ptr[row + 1] and column[low] == wanted else 0.0


@kernel
def _words_explained(ptr, words, given_of, given_ptr, given, row_ptr, column, prob, floor, out):  # type: ignore[no-untyped-def]
    """OUT out[n]: Σ_j log max(1/(l+1) Σ_{i=0..l} t(e_j|f_i), floor) of the words e of a row, given the l words f of another."""
    for r in range(len(out)):
        a, b = given_ptr[given_of[r]], given_ptr[given_of[r] + 1]
        for j in range(ptr[r], ptr[r + 1]):
            p = _t(row_ptr, column, prob, 0, words[j])
            for i in range(a, b):
                p += _t(row_ptr, column, prob, given[i], words[j])
            out[r] += log(max(p / (b - a + 1), floor))


@kernel
def _sources_explained(sent, src_ptr, src, ptr, words, row_ptr, column, prob, floor, out):  # type: ignore[no-untyped-def]
    """OUT out[H]: Σ_i log max(1/(n+1) Σ_{j=0..n} t(f_i|e_j), floor) of the source words f of each hypothesis' sentence.

    Hypotheses of a sentence stand together and share their words, so that each is looked up once a sentence.
    """
    place, stamp = np.zeros(len(row_ptr), np.int64), np.full(len(row_ptr), -1, np.int64)
    last, visit, known = np.int64(-1), np.int64(-1), 0
    of_word = np.empty((64, 1))
    for h in range(len(out)):
        a, length = src_ptr[sent[h]], src_ptr[sent[h] + 1] - src_ptr[sent[h]]
        if sent[h] != last:
            last, visit, known = sent[h], np.int64(h), 0
            of_word = np.empty((len(of_word), length))
        total = np.empty(length)
        for i in range(length):
            total[i] = _t(row_ptr, column, prob, 0, src[a + i])
        for j in range(ptr[h], ptr[h + 1]):
            w = words[j]
            if w < 0:
                continue
            if stamp[w] != visit:
                if known == len(of_word):
                    more = np.empty((2 * known, length))
                    more[:known] = of_word
                    of_word = more
                stamp[w], place[w] = visit, known
                for i in range(length):
                    of_word[known, i] = _t(row_ptr, column, prob, w, src[a + i])
                known += 1
            for i in range(length):
                total[i] += of_word[place[w], i]
        for i in range(length):
            out[h] += log(max(total[i] / (ptr[h + 1] - ptr[h] + 1), floor))


@dataclass(frozen=True)
class _Table:
    """t(e|f): rows of f with rising columns e, row 0 that of the empty word."""

    rows: dict[str, int]
    columns: dict[str, int]
    arrays: tuple[I64, I64, F64]  # offsets of rows, columns, probabilities

    @classmethod
    def of(cls, table: Translations) -> _Table:
        """That of a plan; a decoder asks for the same one with every sentence, so the last few are kept."""
        found = _kept.get(id(table))
        if found is None or found[0] is not table:
            if len(_kept) >= KEPT:
                _kept.clear()
            found = _kept[id(table)] = table, cls._made(table)
        return found[1]

    @classmethod
    def _made(cls, table: Translations) -> _Table:
        rows = {name: k for k, name in enumerate(dict.fromkeys(["", *table]))}
        names = [*chain.from_iterable(table.values())]
        columns = {name: k for k, name in enumerate(dict.fromkeys(names))}
        row = np.repeat([rows[given] for given in table], [len(own) for own in table.values()]).astype(np.int64)
        column = np.fromiter(map(columns.__getitem__, names), np.int64, len(names))
        prob = np.fromiter(map(float, chain.from_iterable(own.values() for own in table.values())), np.float64, len(names))
        order = np.lexsort((column, row))
        return cls(rows, columns, (offsets(np.bincount(row, minlength=len(rows))), column[order], prob[order]))

    def given(self, words: Words, names: Sequence[str]) -> I64:
        """[tokens] rows; names are those of the dictionary, as the table has them."""
        return np.array([self.rows.get(name, NONE) for name in names], np.int64)[words.ids]

    def wanted(self, words: Words, names: Sequence[str]) -> I64:
        """[tokens] columns."""
        return np.array([self.columns.get(name, NONE) for name in names], np.int64)[words.ids]


_kept: dict[int, tuple[Translations, _Table]] = {}  # by identity


@template("model1", kind="contextual", reads=("target phrase", "source sentence"), learn=Crossed(_learn_forward))
def model1(rows: Rows, *, cut: int, table: Translations) -> Dense:
    """Model 1 log-probability of the target words given the source sentence's stems, as references taught it."""
    known, tgt, src = _Table.of(table), rows.tgt, rows.sentences
    given, wanted = known.given(src, stems(src.names.to_pylist(), cut)), known.wanted(tgt, tgt.names.to_pylist())
    out = np.zeros(len(rows))
    _words_explained(tgt.ptr, wanted, rows["sent"], src.ptr, given, *known.arrays, FLOOR, out)
    return {"m1.tgt": out}


@template("model1_inverse", kind="global", reads=("hypothesis", "source sentence"), learn=Crossed(_learn_inverse))
def model1_inverse(rows: Rows, *, cut: int, table: Translations) -> Dense:
    """Model 1 log-probability of the source's stems given the hypothesis, as references taught it: what is left out costs."""
    known, hyps, src = _Table.of(table), rows.hyps.take(rows["hyp"]), rows.sentences
    given, wanted = known.given(hyps, hyps.names.to_pylist()), known.wanted(src, stems(src.names.to_pylist(), cut))
    out = np.zeros(len(rows))
    _sources_explained(rows["sent"], src.ptr, wanted, hyps.ptr, given, *known.arrays, FLOOR, out)
    return {"m1.src": out}
