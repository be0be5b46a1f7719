"""Templates that read a whole hypothesis or list, for a few candidates at a time: the engine's, without its kernels.

As ``by_unit``: tests/features/test_by_unit.py holds every template of this module to the engine's, bit by bit.

    H hypotheses, R occurrences of units
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from math import exp, log
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core.arrays import F64, I64
from ..core.arrays import cut as cut_off
from .by_unit import FLOOR, Translations, stems

STEP = 1 / 64  # as in consensus
LONGEST = 2_000  # words of a hypothesis that are aligned, as in word_units

Dense = dict[str, F64]


@dataclass(frozen=True)
class Candidates:
    """The candidates of one sentence."""

    texts: Sequence[Sequence[str]]  # [H] words
    score: F64  # [H] the decoder's
    scale: float
    source: Sequence[str]
    first: I64  # [R] where each occurrence begins in its text
    length: I64  # [R] its words
    hyp: I64  # [R]

    @cached_property
    def counts(self) -> I64:
        """[H] words."""
        return np.array([len(words) for words in self.texts], np.int64)

    @cached_property
    def posterior(self) -> F64:
        """[H] p = softmax(scale · score)."""
        scaled = self.scale * cut_off(self.score)
        p: F64 = np.exp(scaled - scaled.max())
        return p / np.bincount(np.zeros(len(p), np.int64), p)[0]

    @cached_property
    def ids(self) -> list[list[int]]:
        """Words as numbers, by first use."""
        number: dict[str, int] = {}
        return [[number.setdefault(word, len(number)) for word in words] for words in self.texts]

    @cached_property
    def units(self) -> list[list[tuple[int, int, int]]]:
        """[H] (occurrence, first word, words) of each hypothesis; ValueError where units overlap or are not in order."""
        out: list[list[tuple[int, int, int]]] = [[] for _ in self.texts]
        end = [0] * len(self.texts)
        for r, (h, a, n) in enumerate(zip(self.hyp.tolist(), self.first.tolist(), self.length.tolist(), strict=True)):
            if a < end[h] or a + n > len(self.texts[h]):
                raise ValueError("units that overlap")
            end[h] = a + n
            out[h].append((r, a, n))
        return out

    @cached_property
    def last(self) -> I64:
        """[R] the last word of each occurrence among the words of all texts, 0 where it has none; checks the units, too."""
        _ = self.units
        begin = np.cumsum(self.counts) - self.counts
        return np.where(self.length > 0, begin[self.hyp] + self.first + self.length - 1, 0)

    @cached_property
    def longer(self) -> list[tuple[int, int, int]]:
        """(occurrence, first word, words) of those of several words, the first among the words of all texts."""
        some = np.flatnonzero(self.length > 1)
        return list(
            zip(some.tolist(), (self.last[some] - self.length[some] + 1).tolist(), self.length[some].tolist(), strict=True)
        )

    def of_last(self, words: F64) -> F64:
        """[R, ...] values of each occurrence's last word, 0 where it has none."""
        out = words[self.last] if len(words) else np.zeros((len(self.last), *words.shape[1:]))
        out[self.length == 0] = 0.0
        return out

    @cached_property
    def keys(self) -> list[list[tuple[int, ...]]]:
        """[H][words] keys (metrics.ngrams) of the 1- to 4-grams that end in each word."""
        number: dict[tuple[int, int], int] = {}
        out = []
        for words in self.ids:
            seen: set[int] = set()
            grams: list[int] = []
            mine = []
            for word in words:
                grams = [number.setdefault((before, word), len(number)) for before in (-1, *grams[:3])]
                own = []
                for gram in grams:
                    while gram in seen:
                        gram = number.setdefault((gram, -2), len(number))  # once more
                    seen.add(gram)
                    own.append(gram)
                mine.append(tuple(own))
            out.append(mine)
        return out


def place(given: Candidates) -> Dense:
    before, n = given.first, given.counts[given.hyp]
    after = n - before - given.length
    fifth = np.minimum(5 * before // np.maximum(n, 1), 4)
    out = {"place.first": before == 0, "place.last": after == 0, "place.start": before < 3, "place.end": after < 3}
    return {name: x.astype(np.float64) for name, x in (out | {f"place.fifth{k + 1}": fifth == k for k in range(5)}).items()}


def repeat(given: Candidates) -> Dense:
    about: list[tuple[float, float, float, float]] = []
    for words in given.ids:
        count: dict[int, int] = {}
        bigrams: set[tuple[int, int]] = set()
        before = -1
        for word in words:
            times, pair = count.get(word, 0), (before, word)
            about.append((before == word, times > 0, pair in bigrams, times))
            count[word] = times + 1
            bigrams.add(pair)
            before = word
    table = np.array(about, np.float64).reshape(-1, 4)
    out = given.of_last(table)
    for r, a, n in given.longer:
        out[r] = table[a : a + n].max(axis=0)
    return {name: out[:, k] for k, name in enumerate(("repeat.at_once", "repeat.before", "repeat.bigram", "repeat.times"))}


# -- slots ------------------------------------------------------------------------------------------------------------


def slot(given: Candidates) -> Dense:
    slots: dict[int, dict[int, list[int]]] = {}  # words, among those of all texts
    p: list[float] = np.repeat(given.posterior, given.counts).tolist()
    at = 0
    for own, ids in zip(_slots(given.ids), given.ids, strict=True):
        for s, word in zip(own, ids, strict=True):
            slots.setdefault(s, {}).setdefault(word, []).append(at)
            at += 1
    about: list[tuple[float, ...]] = [()] * at
    for words in slots.values():
        entropy, best, said = 0.0, 0.0, 0.0
        masses = {}
        for word in sorted(words):
            mass = 0.0
            for i in words[word]:
                mass += p[i]
            masses[word] = mass = min(mass, 1.0)
            if mass > 0:
                entropy -= mass * log(mass)
            best, said = max(best, mass), said + mass
        silent = max(0.0, 1.0 - said)
        if silent > 1e-12:
            entropy -= silent * log(silent)
        best, alternatives = max(best, silent), len(words)
        for word, places in words.items():
            row = (masses[word], entropy, best, alternatives)
            for i in places:
                about[i] = row
    last = given.of_last(np.array(about, np.float64).reshape(-1, 4))
    posterior, entropies, leads, others = (np.round(column / STEP) * STEP for column in last.T)
    return {
        "slot.p": posterior,
        "slot.entropy": entropies,
        "slot.behind": leads - posterior,
        "slot.best": (posterior >= leads).astype(np.float64),
        "slot.alternatives": np.minimum(others, 10),
    }


def _slots(ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """For each hypothesis the slots of its words: 2 i + 1 is word i of the first one, 2 i the gap before it."""
    first = np.array(ids[0][:LONGEST], np.int64)
    n, m = len(first), min(max(map(len, ids)), LONGEST)
    words = np.full((len(ids), m), -1, np.int64)
    for h, own in enumerate(ids):
        words[h, : min(len(own), m)] = own[:m]
    steps = np.arange(m + 1)
    cost = np.empty((n + 1, len(ids), m + 1), np.int64)
    cost[0] = steps
    for i in range(1, n + 1):
        row = cost[i]
        row[:, 0] = i
        row[:, 1:] = np.minimum(cost[i - 1, :, :-1] + (words != first[i - 1]), cost[i - 1, :, 1:] + 1)
        row -= steps  # min over k <= j of row[k] + j - k
        np.minimum.accumulate(row, axis=1, out=row)
        row += steps
    a = first.tolist()
    for h, own in enumerate(ids):
        table = cost[:, h].tolist()
        k = min(len(own), m)
        out = [2 * n] * len(own)  # behind what is aligned
        i, j = n, k
        while j > 0:
            here = table[i][j]
            if i > 0 and here == table[i - 1][j - 1] + (a[i - 1] != own[j - 1]):
                i, j = i - 1, j - 1
                out[j] = 2 * i + 1
            elif here == table[i][j - 1] + 1:
                j -= 1
                out[j] = 2 * i
            else:
                i -= 1
        yield out


# -- n-grams ----------------------------------------------------------------------------------------------------------


def agreement(given: Candidates) -> Dense:
    none = (-1, -1, -1, -1)
    keys = np.array([(*own, *none[len(own) :]) for mine in given.keys for own in mine], np.int64).reshape(-1, 4)
    flat, p = keys.ravel(), np.repeat(given.posterior, 4 * given.counts)
    mass = np.append(np.bincount(flat[flat >= 0], p[flat >= 0]), 0.0)  # the last, -1, is of no n-gram
    sums = mass[keys]
    lows = np.minimum(np.where(keys >= 0, sums, 1.0), 1.0)
    total, least = given.of_last(sums), given.of_last(lows)
    least[given.length == 0] = 1.0
    for r, a, n in given.longer:
        total[r] = np.add.accumulate(sums[a : a + n])[-1]
        least[r] = lows[a : a + n].min(axis=0)
    total, least = np.round(total / STEP) * STEP, np.round(least / STEP) * STEP
    return {f"agree.{n}": total[:, n - 1] for n in range(1, 5)} | {f"agree.least.{n}": least[:, n - 1] for n in (1, 2)}


def mbr(given: Candidates) -> Dense:
    n, p, lengths = len(given.texts), given.posterior.tolist(), given.counts.tolist()
    with np.errstate(divide="ignore"):
        logs = np.log(np.arange(max(lengths) + 2, dtype=np.float64)).tolist()
    sets = [[{keys[k] for keys in mine[k:]} for k in range(4)] for mine in given.keys]
    totals = [logs[size] + logs[size] + logs[max(size - 2, 0) + 1] + logs[max(size - 3, 0) + 1] for size in lengths]
    gain = [0.0] * n
    for a in range(n):
        if lengths[a]:
            gain[a] += p[a]
        for b in range(a + 1, n):
            common = [len(one & other) for one, other in zip(sets[a], sets[b], strict=True)]
            if not common[0]:
                continue
            top = logs[common[0]] + logs[common[1] + 1] + logs[common[2] + 1] + logs[common[3] + 1]
            gain[a] += p[b] * exp((top - totals[a]) / 4 + min(0.0, 1 - lengths[b] / lengths[a]))
            gain[b] += p[a] * exp((top - totals[b]) / 4 + min(0.0, 1 - lengths[a] / lengths[b]))
    gains, words = np.array(gain), given.counts.astype(np.float64)
    expected = np.bincount(np.zeros(n, np.int64), given.posterior * words)[0]
    return {
        "mbr.gain": gains,
        "mbr.log": np.log(np.maximum(gains, 1e-3)),
        "mbr.words": gains * words,
        "list.longer": np.maximum(words - expected, 0.0),
        "list.shorter": np.maximum(expected - words, 0.0),
    }


def hypothesis(given: Candidates) -> Dense:
    n = given.counts.astype(np.float64)
    opening, closing = ([sum(w in signs for w in words) for words in given.texts] for signs in (("(", "[", "{"), (")", "]", "}")))
    repeats = [sum(a == b for a, b in pairwise(words)) for words in given.texts]
    return {
        "hyp.length": np.abs(np.log(np.maximum(n, 1) / max(len(given.source), 1))),
        "hyp.repeats": np.array(repeats, np.float64),
        "hyp.brackets": np.abs(np.array(opening, np.float64) - np.array(closing, np.float64)),
    }


def model1_inverse(given: Candidates, *, cut: int, table: Translations) -> Dense:
    source = stems(given.source, cut)
    rows: dict[str, F64] = {}
    out = []
    for words in given.texts:
        total = np.array([table.get("", {}).get(stem, 0.0) for stem in source], np.float64)
        for word in words:
            if word in table:
                if word not in rows:
                    rows[word] = np.array([table[word].get(stem, 0.0) for stem in source], np.float64)
                total += rows[word]
        own = 0.0
        for p in total.tolist():
            own += log(max(p / (len(words) + 1), FLOOR))
        out.append(own)
    return {"m1.src": np.array(out)}


class ByList(NamedTuple):
    """``compute`` of the candidates, with the template's options, gives columns of their occurrences or of themselves."""

    compute: Callable[..., Dense]
    of: Literal["occurrence", "hypothesis"]
    reads: tuple[str, ...]  # as the engine's template


BY_LIST: dict[str, ByList] = {
    "place": ByList(place, "occurrence", ("target span", "words around")),
    "repeat": ByList(repeat, "occurrence", ("target span", "words before")),
    "slot": ByList(slot, "occurrence", ("target span", "list")),
    "agreement": ByList(agreement, "occurrence", ("target span", "list")),
    "mbr": ByList(mbr, "hypothesis", ("hypothesis", "list")),
    "hypothesis": ByList(hypothesis, "hypothesis", ("hypothesis", "source sentence")),
    "model1_inverse": ByList(model1_inverse, "hypothesis", ("hypothesis", "source sentence")),
}


def bound(name: str, learnt: Mapping[str, Any]) -> Callable[[Candidates], Dense]:
    """A template with what its plan holds of it; TypeError or KeyError where that is not what a list has taught."""
    compute = BY_LIST[name].compute
    taken = [p.name for p in inspect.signature(compute).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return partial(compute, **{option: learnt[option] for option in taken}) if taken else compute
