"""Templates of a whole hypothesis, and of a whole list: how much of a model's probability agrees with a unit or a hypothesis.

    p(h) = softmax(scale · score) over the list;   P(k) = Σ_{h has k} p(h) for an n-gram key k (see ``boostfeat.metrics.ngrams``)

Σ P(k) over a hypothesis' keys of order n is its expected number of n-gram matches with a translation drawn from p, clipped as
BLEU does; linear models of these are the linearised MBR of [T08]. They depend on the whole list: no decoder can
compute them while it searches, and a model that uses them can only rerank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import exp, log
from typing import NamedTuple

import numpy as np

from ..list_kernels import batch_agreement, batch_gains
from ..registry import Columns, Crossed, Dense, template
from ..teach import learn_translations
from .helpers import Words, rounded
from .place import FLOOR, Translations, stems

LONGEST = 2_000  # words of a hypothesis that are aligned with others of its list


class Candidates(NamedTuple):
    """The hypotheses of a list."""

    texts: Sequence[Words]
    p: Sequence[float]  # posteriors
    units: Sequence[Sequence[tuple[int, int]]]  # of each hypothesis: where the words of units begin and end
    phrases: Sequence[Sequence[tuple[int, int, int]]]  # where they begin and end in the source, and the number of the phrase pair


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


# -- expected BLEU+1 ----------------------------------------------------------------------------------------------------


def ngram_keys(texts: Sequence[Words]) -> list[list[tuple[int, ...]]]:
    """Give the keys (metrics.ngrams) of the 1- to 4-grams that end in each word of each text."""
    number: dict[tuple[object, object], int] = {}
    out = []
    for words in texts:
        seen: set[int] = set()
        grams: list[int] = []
        of_text = []
        for word in words:
            grams = [number.setdefault((before, word), len(number)) for before in (-1, *grams[:3])]
            keys = []
            for gram in grams:
                while gram in seen:
                    gram = number.setdefault((gram, None), len(number))  # once more
                seen.add(gram)
                keys.append(gram)
            of_text.append(tuple(keys))
        out.append(of_text)
    return out


def expected_bleu(texts: Sequence[Words], p: Sequence[float]) -> list[float]:
    """Σ_h' p(h') BLEU+1(h, h') of each text h."""
    keys, lengths, gain = ngram_keys(texts), [len(words) for words in texts], [0.0] * len(texts)
    with np.errstate(divide="ignore"):
        logs = np.log(np.arange(max(lengths) + 2, dtype=np.float64)).tolist()
    sets = [[{own[k] for own in of_text[k:]} for k in range(4)] for of_text in keys]
    totals = [logs[n] + logs[n] + logs[max(n - 2, 0) + 1] + logs[max(n - 3, 0) + 1] for n in lengths]
    for a in range(len(texts)):
        if lengths[a]:
            gain[a] += p[a]
        for b in range(a + 1, len(texts)):
            common = [len(one & other) for one, other in zip(sets[a], sets[b], strict=True)]
            if not common[0]:
                continue
            top = logs[common[0]] + logs[common[1] + 1] + logs[common[2] + 1] + logs[common[3] + 1]
            gain[a] += p[b] * exp((top - totals[a]) / 4 + min(0.0, 1 - lengths[b] / lengths[a]))
            gain[b] += p[a] * exp((top - totals[b]) / 4 + min(0.0, 1 - lengths[a] / lengths[b]))
    return gain


def _mbr_columns(gains: Sequence[float], lengths: Sequence[int], p: Sequence[float]) -> Columns:
    expected = 0.0
    for share, n in zip(p, lengths, strict=True):
        expected += share * n
    return {
        "mbr.gain": gains,
        "mbr.log": np.log(np.maximum(gains, 1e-3)).tolist(),
        "mbr.words": [gain * n for gain, n in zip(gains, lengths, strict=True)],
        "list.longer": [max(n - expected, 0.0) for n in lengths],
        "list.shorter": [max(expected - n, 0.0) for n in lengths],
    }


# The function takes 34 s for 1,000 lists of 200 hypotheses, all of featurize with the kernel 1.1 s.
@template("mbr", reads=("hypothesis", "list"), batch=batch_gains(_mbr_columns))
def mbr(candidates: Candidates) -> Columns:
    """Of a hypothesis: expected BLEU+1, its logarithm, times its words; words beyond or below the expected number."""
    gains = expected_bleu(candidates.texts, candidates.p)
    return _mbr_columns(gains, [len(words) for words in candidates.texts], candidates.p)


# -- n-grams ----------------------------------------------------------------------------------------------------------


# The function takes 4.5 s for 1,000 lists of 200 hypotheses, all of featurize with the kernel 0.8 s.
@template("agreement", reads=("target span", "list"), batch=batch_agreement)
def agreement(candidates: Candidates) -> Columns:
    """Expected matches of the n-grams that end in a unit (with the words before it), and the least probable one."""
    keys, mass = ngram_keys(candidates.texts), dict[int, float]()
    for of_text, share in zip(keys, candidates.p, strict=True):
        for own in of_text:
            for key in own:
                mass[key] = mass.get(key, 0.0) + share
    total: list[list[float]] = [[] for _ in range(4)]
    least: list[list[float]] = [[] for _ in range(2)]
    for of_text, spans in zip(keys, candidates.units, strict=True):
        for start, end in spans:
            for n in range(4):
                found = [mass[own[n]] for own in of_text[start:end] if len(own) > n]
                sum_p = 0.0
                for p in found:
                    sum_p += p
                total[n].append(rounded(sum_p))
                if n < 2:
                    least[n].append(rounded(min([1.0, *found])))
    return {f"agree.{n + 1}": total[n] for n in range(4)} | {f"agree.least.{n + 1}": least[n] for n in range(2)}


# -- units ------------------------------------------------------------------------------------------------------------


@template("support", reads=("source phrase", "target phrase", "span", "list"))
def support(candidates: Candidates) -> Columns:
    """Probability of translations that have this phrase pair in this place, and that cut the source there."""
    mass: dict[tuple[int, ...], float] = {}
    for units, p in zip(candidates.phrases, candidates.p, strict=True):
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
                mass += candidates.p[h]
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
