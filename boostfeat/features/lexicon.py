"""An alternative lexical weight: word translation probabilities estimated on parallel text (IBM Model 1)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..core.arrays import F64, I64, offsets, segment_positions
from ..core.errors import InputError, counted
from ..core.files import read_lines
from ..core.kernels import kernel
from ..core.text import Strings, normal
from ..lists.nbest import strings
from ..lists.words import Words, words_of

ITERATIONS = 5
BLOCK = 1 << 14  # sentence pairs whose word pairs are listed at a time


@dataclass(frozen=True)
class TranslationTable:
    """t(e|f) of the word pairs that occur in some sentence pair; f = 0 is the empty word."""

    given: Strings  # names of f = 1, 2, ...
    words: Strings  # names of e
    keys: I64  # [n] f * len(words) + e, rising
    prob: F64  # [n]

    @cached_property
    def _given(self) -> dict[str, int]:
        return {"": 0, **{name: k for k, name in enumerate(self.given.to_pylist(), 1)}}

    @cached_property
    def _words(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.words.to_pylist())}

    @cached_property
    def _found(self) -> dict[tuple[str, str], float]:
        return {}

    def t(self, word: str, given: str) -> float:
        """t(word | given), 0 for a pair that occurs nowhere; "" is the empty word."""
        p = self._found.get((word, given))
        if p is None:
            key = self._given.get(given, -1) * len(self.words) + self._words.get(word, -1)
            known = given in self._given and word in self._words
            place = int(np.searchsorted(self.keys, key)) if known else len(self.keys)
            p = float(self.prob[place]) if place < len(self.keys) and self.keys[place] == key else 0.0
            self._found[word, given] = p
        return p


@dataclass(frozen=True)
class Lexicon:
    """Both directions."""

    tgt_given_src: TranslationTable
    src_given_tgt: TranslationTable


@dataclass(frozen=True)
class Bitext:
    """Parallel sentences (source, target)."""

    pairs: Sequence[tuple[str, str]]

    @classmethod
    def read(cls, source: str | Path, target: str | Path) -> Bitext:
        """Two files, a sentence a line."""
        lines = [[normal(line) for _, line in read_lines(path)] for path in (source, target)]
        if len(lines[0]) != len(lines[1]):
            raise InputError(
                f"{source}, {target}: expected parallel text, found {len(lines[0])} and {counted(len(lines[1]), 'line')}; give "
                "aligned files"
            )
        return cls(list(zip(*lines, strict=True)))

    @cached_property
    def lexicon(self) -> Lexicon:
        """Both directions, estimated once."""
        src, tgt = (words_of(strings([pair[side] for pair in self.pairs])) for side in (0, 1))
        return Lexicon(model1(src, tgt), model1(tgt, src))

    def without(self, own: Set[tuple[str, str]]) -> Bitext:
        """Return the text without the pairs of a list: what teaches it must not know its references."""
        return Bitext([pair for pair in self.pairs if pair not in own]) if not own.isdisjoint(self.pairs) else self


def model1(f: Words, e: Words, iterations: int = ITERATIONS) -> TranslationTable:
    """t(e|f) by EM from a uniform start:  t(e|f) ∝ Σ over sentence pairs of  n(e, f) t(e|f) / Σ_{f'} t(e|f')."""
    # every sentence has the empty word, number 0, at its front; the others are numbered from 1
    with_empty = np.zeros(len(f.ids) + len(f), np.int64)
    with_empty[np.arange(len(f.ids)) + f.owner + 1] = f.ids + 1
    ids = Words(f.ptr + np.arange(len(f) + 1), with_empty, f.names)
    width = max(len(e.names), 1)
    blocks = [np.zeros(0, np.int64)]
    for a in range(0, len(f), BLOCK):
        part_f, part_e = ids.take(np.arange(a, min(a + BLOCK, len(f)))), e.take(np.arange(a, min(a + BLOCK, len(f))))
        at = segment_positions(part_e.ptr, part_f.owner)
        blocks.append(np.unique(np.repeat(part_f.ids, part_e.counts[part_f.owner]) * width + part_e.ids[at]))
    keys = np.unique(np.concatenate(blocks))
    given, word = keys // width, keys % width
    row = offsets(np.bincount(given, minlength=len(f.names) + 1))
    prob = np.ones(len(keys))
    for _ in range(iterations):
        expected = np.zeros(len(keys))
        _expect(ids.ptr, ids.ids, e.ptr, e.ids, row, word, prob, expected)
        total = np.bincount(given, expected, minlength=len(row) - 1)[given]
        prob = np.divide(expected, total, out=np.zeros(len(keys)), where=total > 0)
    return TranslationTable(f.names, e.names, keys, prob)


@kernel
def _expect(f_ptr, f, e_ptr, e, row, column, prob, expected):  # type: ignore[no-untyped-def]
    """IN sentences f and e, t as rows of f with rising columns e; OUT expected counts, added."""
    at = np.empty(1024, np.int64)
    for s in range(len(f_ptr) - 1):
        n = f_ptr[s + 1] - f_ptr[s]
        if n > len(at):
            at = np.empty(2 * n, np.int64)
        for j in range(e_ptr[s], e_ptr[s + 1]):
            total = 0.0
            for i in range(n):
                low, high = row[f[f_ptr[s] + i]], row[f[f_ptr[s] + i] + 1]
                while high - low > 1:
                    middle = (low + high) // 2
                    if column[middle] <= e[j]:
                        low = middle
                    else:
                        high = middle
                at[i] = low
                total += prob[low]
            if total > 0.0:
                for i in range(n):
                    expected[at[i]] += prob[at[i]] / total
