"""Weights of pairs and triples of neighbouring words or classes, where phrases meet and inside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...core.arrays import F64, I32, I64, owners
from ...core.errors import InputError
from ...features.templates.helpers import UNKNOWN_CLUSTER
from ...lists.words import NONE

START, END = "<s>", "</s>"


@dataclass(frozen=True)
class Ngrams:
    """Weights of pairs and triples of neighbouring target symbols, words or their classes, as numbers. M symbols."""

    numbers: Mapping[str, int]  # of symbols
    grams: I64  # [n, 3] (earlier, before, symbol); NONE stands before a pair
    weight: F64  # [n]
    of_vocab: I64  # [target words of the table] their symbols, NONE where no weight knows one
    classes: Mapping[str, str] | None = None  # of words; None: a word is its own symbol

    @classmethod
    def of_words(cls, weights: Mapping[str, float], vocab: Iterable[str]) -> Ngrams:
        """Read the weights of ``bi``. A name that can be cut in several places stands for all these pairs, as in a list."""
        names = [(name.removeprefix("bi:"), w) for name, w in weights.items() if w and name.startswith("bi:")]
        cuts = [((text[:k], text[k + 1 :]), w) for text, w in names for k, c in enumerate(text) if c == "|"]
        return cls._of(cuts, vocab, None)

    @classmethod
    def of_classes(cls, weights: Mapping[str, float], vocab: Iterable[str], classes: Mapping[str, str]) -> Ngrams:
        """Read the weights of ``cb``."""
        if strange := next((name for name in classes.values() if "|" in name), None):
            raise InputError(f"word classes of the model: expected names without '|' in search, found {strange!r}; rename it")
        grams = [(tuple(name.removeprefix("cb:").split("|")), w) for name, w in weights.items() if w and name.startswith("cb:")]
        return cls._of([(gram, w) for gram, w in grams if len(gram) in (2, 3)], vocab, classes)  # no text has others

    @classmethod
    def _of(
        cls, grams: Sequence[tuple[tuple[str, ...], float]], vocab: Iterable[str], classes: Mapping[str, str] | None
    ) -> Ngrams:
        numbers: dict[str, int] = {}
        rows = [[NONE] * (3 - len(gram)) + [numbers.setdefault(text, len(numbers)) for text in gram] for gram, _ in grams]
        table = np.array(rows, np.int64).reshape(-1, 3)
        out = cls(numbers, table, np.array([w for _, w in grams], np.float64), np.zeros(0, np.int64), classes)
        return replace(out, of_vocab=np.array([out.symbol(word) for word in vocab], np.int64))

    def symbol(self, word: str) -> int:
        """The symbol of a word, NONE where no weight knows it."""
        return self.numbers.get(word if self.classes is None else self.classes.get(word, UNKNOWN_CLUSTER), NONE)

    @cached_property
    def has_triples(self) -> bool:
        return bool((self.grams[:, 0] >= 0).any())

    @cached_property
    def _sorted(self) -> tuple[I64, F64]:
        keys = self._keys(*self.grams.T)
        order = np.argsort(keys, kind="stable")
        return keys[order], self.weight[order]

    def _keys(self, earlier: I64, before: I64, symbol: I64) -> I64:
        m = len(self.numbers)
        return ((earlier + 1) * m + before) * m + symbol

    def lookup(self, before: I64, symbol: I64, earlier: I64 | None = None) -> F64:
        """[n] the weights of pairs, or of triples if there is an earlier one; NONE weighs nothing."""
        keys, weight = self._sorted
        if not len(keys) or (earlier is not None and not self.has_triples):
            return np.zeros(len(before))
        wanted = self._keys(np.full(len(before), NONE) if earlier is None else earlier, before, symbol)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = (before >= 0) & (symbol >= 0) & (earlier is None or np.asarray(earlier) >= 0)
        return np.where((keys[at] == wanted) & known, weight[at], 0.0)

    def inside(self, ptr: I64, symbols: I64) -> F64:
        """[n] what lies within phrases with these symbols."""
        owner = owners(ptr)
        out = np.zeros(len(ptr) - 1)
        for length in (2, 3) if self.has_triples else (2,):
            at = np.flatnonzero(owner[length - 1 :] == owner[: len(owner) - length + 1]) + length - 1
            found = self.lookup(symbols[at - 1], symbols[at], None if length == 2 else symbols[at - 2])
            out += np.bincount(owner[at], found, minlength=len(out))
        return out

    def edges(self, ptr: I64, symbols: I64) -> tuple[I64, I64]:
        """[n, 2] the last but one symbol and the last of phrases, and the first and the second; NONE where it cannot matter."""
        n = np.diff(ptr)
        last, first = np.full((2, len(n), 2), NONE)
        some, more = n > 0, (n > 1) & self.has_triples
        last[some, 1], first[some, 0] = symbols[ptr[1:][some] - 1], symbols[ptr[:-1][some]]
        last[more, 0], first[more, 1] = symbols[ptr[1:][more] - 2], symbols[ptr[:-1][more] + 1]
        return last, first

    def ending(self, last: I64) -> F64:
        """[n] what the end of the sentence adds after phrases with these last symbols [n, 2]."""
        end = np.full(len(last), self.numbers.get(END, NONE))
        return self.lookup(last[:, 1], end) + self.lookup(last[:, 1], end, last[:, 0])

    def matrix(self, last: I64, first: I64) -> tuple[F64, I64, I64]:
        """(weights [A, B], the row of each ``last`` [n, 2], the column of each ``first`` [m, 2]); equal edges share them."""
        rows, row_of = np.unique(last, axis=0, return_inverse=True)
        columns, column_of = np.unique(first, axis=0, return_inverse=True)
        out = self._scattered(NONE, rows[:, 1], NONE, columns[:, 0])
        if self.has_triples:
            out += self._scattered(rows[:, 0], rows[:, 1], NONE, columns[:, 0])
            out += self._scattered(NONE, rows[:, 1], columns[:, 0], columns[:, 1])
        return out, row_of.ravel(), column_of.ravel()

    def _scattered(self, a: I64 | int, b: I64, c: I64 | int, d: I64) -> F64:
        """[rows, columns] weights of pairs (b, d), or of triples (a, b, d) or (b, c, d), of rows (a, b) and columns (c, d)."""
        x, y, z = self.grams.T
        is_pair, m = x < 0, len(self.numbers)
        if isinstance(a, int) and isinstance(c, int):
            of, left, right = is_pair, y, z
        elif isinstance(c, int):
            of, left, right = ~is_pair, x * m + y, z
        else:
            of, left, right = ~is_pair, x, y * m + z
        rows = b if isinstance(a, int) else np.where((a < 0) | (b < 0), NONE, a * m + b)
        columns = d if isinstance(c, int) else np.where((c < 0) | (d < 0), NONE, c * m + d)
        (row_keys, row_of), (column_keys, column_of) = (np.unique(keys, return_inverse=True) for keys in (rows, columns))
        i, j = np.searchsorted(row_keys, left[of]), np.searchsorted(column_keys, right[of])
        known = (np.append(row_keys, NONE)[i] == left[of]) & (np.append(column_keys, NONE)[j] == right[of])
        table = np.zeros((len(row_keys), len(column_keys)))
        np.add.at(table, (i[known], j[known]), self.weight[of][known])
        return table[np.ix_(row_of, column_of)]


def joined(parts: Sequence[tuple[F64, I64, I64]]) -> tuple[F64, I32, I32]:
    """The sum of one or more matrices as one: (weights [A, B], rows [n], columns [m])."""
    rows, row_of = np.unique(np.stack([row for _, row, _ in parts], axis=1), axis=0, return_inverse=True)
    columns, column_of = np.unique(np.stack([column for _, _, column in parts], axis=1), axis=0, return_inverse=True)
    out = np.zeros((len(rows), len(columns)))
    for k, (matrix, _, _) in enumerate(parts):
        out += matrix[np.ix_(rows[:, k], columns[:, k])]
    return out, row_of.ravel().astype(np.int32), column_of.ravel().astype(np.int32)
