"""Templates of a whole hypothesis, and of a whole list: how much of a model's probability agrees with a unit or a hypothesis.

    p(h) = softmax(scale · score) over the list;   P(k) = Σ_{h has k} p(h) for an n-gram key k (see ``boostfeat.metrics.ngrams``)

Σ P(k) over a hypothesis' keys of order n is its expected number of n-gram matches with a translation drawn from p, clipped as
BLEU does; linear models of these are the linearised MBR of [T08]. They depend on the whole list: no decoder can
compute them while it searches, and a model that uses them can only rerank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from ...core.arrays import F64, I64
from ...core.errors import InputError
from ...core.kernels import kernel
from ...lists.mbr import expected_gains
from ...lists.words import Words as WordRows
from ...metrics.ngrams import key_masses, list_keys
from ..registry import Columns, Crossed, Dense, template
from ..teach import learn_translations
from .helpers import STEP, Words, rounded
from .place import FLOOR, Translations, stems

LONGEST = 2_000  # words of a hypothesis that are aligned with others of its list


@dataclass(frozen=True)
class Candidates:
    """The hypotheses of a list."""

    words: WordRows  # [H] as numbers
    names: Sequence[str]  # of words by number
    p: F64  # [H] posteriors
    unit_ptr: I64  # [H+1]
    target_spans: I64  # [R, 2] where the words of units begin and end
    sources: I64  # [R, 3] where they begin and end in the source, and the number of the phrase pair

    @cached_property
    def texts(self) -> list[list[str]]:
        """Words of each hypothesis."""
        return [[self.names[k] for k in own] for own in _cut(self.words.ids, self.words.ptr)]

    @cached_property
    def units(self) -> list[list[Sequence[int]]]:
        """Where the words of units begin and end, by hypothesis."""
        return _cut(self.target_spans, self.unit_ptr)

    @cached_property
    def phrases(self) -> list[list[Sequence[int]]]:
        """Where units begin and end in the source, and the number of the phrase pair, by hypothesis."""
        return _cut(self.sources, self.unit_ptr)


def _cut(rows: I64, ptr: I64) -> list[Any]:
    every = rows.tolist()
    return [every[a:b] for a, b in pairwise(ptr.tolist())]


# -- hypotheses -------------------------------------------------------------------------------------------------------


@template("hypothesis", columns=("hyp.length", "hyp.repeats", "hyp.brackets"))
def whole_hypothesis(hypothesis: Words, sentence: Words) -> Dense:
    """Length beside the source's, words repeated at once, brackets that do not match: no unit can carry these."""
    brackets = sum(word in ("(", "[", "{") for word in hypothesis) - sum(word in (")", "]", "}") for word in hypothesis)
    return {
        "hyp.length": _log_ratio(max(len(hypothesis), 1), max(len(sentence), 1)),
        "hyp.repeats": float(sum(one == other for one, other in pairwise(hypothesis))),
        "hyp.brackets": float(abs(brackets)),
    }


@cache
def _log_ratio(n: int, m: int) -> float:
    return float(abs(np.log(n / m)))  # numpy's: see helpers.log1p


@template("model1_inverse", learn=Crossed(learn_translations(inverse=True)), columns=("m1.src",))
def model1_inverse(hypothesis: Words, sentence: Words, *, cut: int, table: Translations) -> Dense:
    """Model 1 log-probability of the source's stems given the hypothesis, as references taught it: what is left out costs.

    Σ_i log max(1/(n+1) Σ_{j=0..n} t(f_i|e_j), FLOOR), the empty word first.
    """
    source = stems(sentence, cut)
    p = [0.0] * len(source)
    for word in ("", *hypothesis):
        if word in table:
            row = table[word]
            for i, stem in enumerate(source):
                if stem in row:
                    p[i] += row[stem]
    total = 0.0
    for each in p:
        total += log(max(each / (len(hypothesis) + 1), FLOOR))
    return {"m1.src": total}


# -- n-grams ----------------------------------------------------------------------------------------------------------

# Kernels do what would take 34 s and 4.5 s in Python for 1,000 lists of 200 hypotheses.


@template("mbr", reads=("hypothesis", "list"))
def mbr(candidates: Candidates) -> Columns:
    """Of a hypothesis: expected BLEU+1, its logarithm, times its words; words beyond or below the expected number."""
    words, p = candidates.words, candidates.p
    gains, lengths = expected_gains(np.array([0, len(words)]), words, p[:, None])[:, 0], words.counts
    expected = 0.0
    for share, n in zip(p.tolist(), lengths.tolist(), strict=True):
        expected += share * n
    return {
        "mbr.gain": gains,
        "mbr.log": np.log(np.maximum(gains, 1e-3)),
        "mbr.words": gains * lengths,
        "list.longer": np.maximum(lengths - expected, 0.0),
        "list.shorter": np.maximum(expected - lengths, 0.0),
    }


@template("agreement", reads=("target span", "list"))
def agreement(candidates: Candidates) -> Columns:
    """Expected matches of the n-grams that end in a unit (with the words before it), and the least probable one."""
    words, unit_ptr, spans = candidates.words, candidates.unit_ptr, candidates.target_spans
    if (spans[:, 1] > np.repeat(words.counts, np.diff(unit_ptr))).any():
        raise InputError("agreement: expected target spans inside the text, found one beyond its end; import the list again")
    total, least = np.zeros((len(spans), 4)), np.ones((len(spans), 4))
    _unit_agreement(words.ptr, words.ids, unit_ptr, spans, candidates.p, total, least)
    total, least = np.round(total / STEP) * STEP, np.round(least / STEP) * STEP
    return {f"agree.{n + 1}": total[:, n] for n in range(4)} | {f"agree.least.{n + 1}": least[:, n] for n in range(2)}


@kernel
def _unit_agreement(token_ptr, tokens, unit_ptr, spans, p, total, least):  # type: ignore[no-untyped-def]
    """OUT total[R, 4] Σ P(k), least[R, 4] min P(k) over the n-grams that end in each unit's words; 1 where there are none."""
    keys, n_keys = list_keys(token_ptr, tokens, 0, len(p))
    mass = key_masses(token_ptr, keys, n_keys, 0, len(p), p)
    for h in range(len(p)):
        for r in range(unit_ptr[h], unit_ptr[h + 1]):
            for i in range(token_ptr[h] + spans[r, 0], token_ptr[h] + spans[r, 1]):
                for n in range(4):
                    if keys[i, n] >= 0:
                        total[r, n] += mass[keys[i, n]]
                        least[r, n] = min(least[r, n], mass[keys[i, n]])


# -- units ------------------------------------------------------------------------------------------------------------


@template("support", reads=("source phrase", "target phrase", "span", "list"))
def support(candidates: Candidates) -> Columns:
    """Probability of translations that have this phrase pair in this place, and that cut the source there."""
    mass: dict[tuple[int, ...], float] = {}
    for units, p in zip(candidates.phrases, candidates.p.tolist(), strict=True):
        for key in {*((start, pair) for start, _, pair in units), *((start, end, -1) for start, end, _ in units)}:
            mass[key] = mass.get(key, 0.0) + p
    pairs, cuts, ratios = [], [], []
    for units in candidates.phrases:
        for start, end, pair in units:
            of_pair, of_cut = mass[start, pair], mass[start, end, -1]
            pairs.append(rounded(of_pair))
            cuts.append(rounded(of_cut))
            ratios.append(rounded(of_pair / of_cut if of_cut > 0 else 0.0))
    return {"support.pair": pairs, "support.span": cuts, "support.ratio": ratios}


# -- slots ------------------------------------------------------------------------------------------------------------


@template("slot", reads=("target span", "list"))
def slot(candidates: Candidates) -> Columns:
    """A word's slot in the list's confusion network: its posterior there, the entropy, the best word's lead, alternatives."""
    shares = candidates.p.tolist()
    slots: dict[int, dict[str, list[tuple[int, int]]]] = {}  # the words that stand in it, and where they do
    number: dict[str, int] = {}  # by first use
    for h, (of_text, words) in enumerate(zip(_slots(candidates.texts, number), candidates.texts, strict=True)):
        for i, (s, word) in enumerate(zip(of_text, words, strict=True)):
            slots.setdefault(s, {}).setdefault(word, []).append((h, i))
    rows: list[list[tuple[float, float, float, int]]] = [[(0.0, 0.0, 0.0, 0)] * len(words) for words in candidates.texts]
    for found in slots.values():
        masses: dict[str, float] = {}
        entropy, best, said = 0.0, 0.0, 0.0
        for word in sorted(found, key=number.__getitem__):
            mass = 0.0
            for h, _ in found[word]:
                mass += shares[h]
            masses[word] = mass = min(mass, 1.0)
            if mass > 0:
                entropy -= mass * log(mass)
            best, said = max(best, mass), said + mass
        silent = max(0.0, 1.0 - said)  # hypotheses that have nothing there
        if silent > 1e-12:
            entropy -= silent * log(silent)
        lead, entropy = rounded(max(best, silent)), rounded(entropy)
        for word, places in found.items():
            row = (rounded(masses[word]), entropy, lead, min(len(found), 10))
            for h, i in places:
                rows[h][i] = row
    none = (0.0, 0.0, 0.0, 0)  # a unit without words, such as the end of a sentence
    last = [of_text[b - 1] if a < b else none for of_text, units in zip(rows, candidates.units, strict=True) for a, b in units]
    return {
        "slot.p": [p for p, _, _, _ in last],
        "slot.entropy": [entropy for _, entropy, _, _ in last],
        "slot.behind": [lead - p for p, _, lead, _ in last],
        "slot.best": [float(p >= lead) for p, _, lead, _ in last],
        "slot.alternatives": [float(n) for _, _, _, n in last],
    }


def _slots(texts: Sequence[Words], number: dict[str, int]) -> Iterator[list[int]]:
    """Give the slots of the words of each text: 2 i + 1 is word i of the first one, 2 i the gap before it.

    Those of the others are aligned with the first one, word by word. OUT number: words by first use.
    """
    ids = [[number.setdefault(word, len(number)) for word in words] for words in texts]
    first = ids[0][:LONGEST]
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
    for h, own in enumerate(ids):
        table = cost[:, h].tolist()
        out = [2 * n] * len(own)  # behind what is aligned
        i, j = n, min(len(own), m)
        while j > 0:
            here = table[i][j]
            if i > 0 and here == table[i - 1][j - 1] + (first[i - 1] != own[j - 1]):
                i, j = i - 1, j - 1
                out[j] = 2 * i + 1
            elif here == table[i][j - 1] + 1:
                j -= 1
                out[j] = 2 * i
            else:
                i -= 1
        yield out
