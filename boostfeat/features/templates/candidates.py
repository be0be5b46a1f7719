"""Templates of a whole hypothesis, and of a whole list: how much of a model's probability agrees with a unit or a hypothesis.

    p(h) = softmax(scale · score) over the list;   P(k) = Σ_{h has k} p(h) for an n-gram key k (see ``boostfeat.metrics.ngrams``)

Σ P(k) over a hypothesis' keys of order n is its expected number of n-gram matches with a translation drawn from p, clipped as
BLEU does; linear models of these are the linearised MBR of [T08]. They depend on the whole list: no decoder can
compute them while it searches, and a model that uses them can only rerank.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from math import exp, log

import numpy as np

from ...core.arrays import F64, I64, owners
from ...core.errors import InputError
from ...core.kernels import kernel
from ...lists import mbr as kernels
from ...lists.words import Words as WordRows
from ...metrics.ngrams import key_masses, list_keys
from ...model.decision import expected_words
from ..expected_length import learn_lengths
from ..registry import Columns, Dense, FromPairs, template
from ..teach import learn_translations
from .helpers import STEP, Words, rounded
from .place import FLOOR, Translations, stems

LONGEST = 2_000  # words of a hypothesis that are aligned with others of its list
LEAST_GAIN = 1e-3  # below which logarithms of expected gains do not go

Keys = Sequence[Sequence[tuple[Words, int]]]  # by word of a text, those of the n-grams that end in it, n = 1, 2, ...


@dataclass(frozen=True)
class Candidates:
    """The hypotheses of a list."""

    texts: Sequence[Words]
    p: Sequence[float]  # posteriors
    units: Sequence[Sequence[tuple[int, ...]]]  # by hypothesis, where the words of units begin and end
    phrases: Sequence[Sequence[tuple[int, int, Hashable]]]  # where they begin and end in the source, and the phrase pair


@dataclass(frozen=True)
class ManyLists:
    """The hypotheses of many lists as arrays, for the templates that have a kernel beside their function."""

    hyp_ptr: I64  # [S+1]
    words: WordRows  # [H]
    p: F64  # [H]
    unit_ptr: I64  # [H+1]
    target_spans: I64  # [R, 2]


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
    return abs(log(n / m))


@template("expected_length", learn=FromPairs(learn_lengths, bitext=True), columns=("length.over", "length.under"))
def expected_length(hypothesis: Words, sentence: Words, *, shared: Sequence[float], of_stems: Mapping[str, float]) -> Dense:
    """Words beyond, and below, the number that references and a bitext let expect: squared, by that number."""
    expected = expected_words(sentence, shared, of_stems)
    off = len(hypothesis) - expected
    return {"length.over" if off > 0 else "length.under": off * off / expected}


@template("model1_inverse", learn=FromPairs(learn_translations(inverse=True)), columns=("m1.src",))
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


def ngram_keys(words: Words) -> Keys:
    """Give the keys of a text: an n-gram and which of its occurrences it is, so that a text has each once."""
    seen: dict[Words, int] = {}
    rows = []
    for end in range(1, len(words) + 1):
        row = []
        for n in range(1, min(4, end) + 1):
            gram = tuple(words[end - n : end])
            seen[gram] = seen.get(gram, -1) + 1
            row.append((gram, seen[gram]))
        rows.append(row)
    return rows


def expected_gains(texts: Sequence[Words], p: Sequence[float]) -> list[float]:
    """Give E(h) = Σ_{h'} p(h') BLEU+1(h, h') of each text [KB04]; ``lists.mbr`` has it for many lists."""
    number: dict[tuple[Words, int], int] = {}
    masks = []  # of a text, whole numbers whose bits are its n-grams of each order
    for words in texts:
        mask = [0, 0, 0, 0]
        for row in ngram_keys(words):
            for n, key in enumerate(row):
                mask[n] |= 1 << number.setdefault(key, len(number))
        masks.append(mask)
    out = [share if words else 0.0 for words, share in zip(texts, p, strict=True)]
    for a, b in combinations(range(len(texts)), 2):
        common = [(mine & theirs).bit_count() for mine, theirs in zip(masks[a], masks[b], strict=True)]
        if common[0]:  # else nothing matches
            top = log(common[0]) + log(common[1] + 1) + log(common[2] + 1) + log(common[3] + 1)
            n, m = len(texts[a]), len(texts[b])
            out[a] += p[b] * exp((top - _log_totals(n)) / 4 + min(0.0, 1 - m / n))
            out[b] += p[a] * exp((top - _log_totals(m)) / 4 + min(0.0, 1 - n / m))
    return out


@cache
def _log_totals(n: int) -> float:
    """Give ln of the product of the smoothed numbers of 1- to 4-grams."""
    return log(n) + log(n) + log(max(n - 2, 0) + 1) + log(max(n - 3, 0) + 1)


# Kernels do for many lists what takes 34 s (mbr) and 4.5 s (agreement) in Python for 1,000 lists of 200 hypotheses.


def mbr_of_lists(lists: ManyLists) -> Columns:
    """Compute the template ``mbr`` on many lists."""
    gains, lengths = kernels.expected_gains(lists.hyp_ptr, lists.words, lists.p[:, None])[:, 0], lists.words.counts
    list_of = owners(lists.hyp_ptr)
    expected = np.bincount(list_of, lists.p * lengths, minlength=len(lists.hyp_ptr) - 1)[list_of]
    return {
        "mbr.gain": gains,
        "mbr.log": [log(max(gain, LEAST_GAIN)) for gain in gains.tolist()],
        "mbr.words": gains * lengths,
        "list.longer": np.maximum(lengths - expected, 0.0),
        "list.shorter": np.maximum(expected - lengths, 0.0),
    }


@template("mbr", reads=("hypothesis", "list"), many=mbr_of_lists)
def mbr(candidates: Candidates) -> Columns:
    """A hypothesis's expected BLEU+1, its logarithm, times its words; words beyond or below the expected number."""
    gains, lengths = expected_gains(candidates.texts, candidates.p), [len(words) for words in candidates.texts]
    expected = 0.0
    for share, n in zip(candidates.p, lengths, strict=True):
        expected += share * n
    return {
        "mbr.gain": gains,
        "mbr.log": [log(max(gain, LEAST_GAIN)) for gain in gains],
        "mbr.words": [gain * n for gain, n in zip(gains, lengths, strict=True)],
        "list.longer": [max(n - expected, 0.0) for n in lengths],
        "list.shorter": [max(expected - n, 0.0) for n in lengths],
    }


def agreement_of_lists(lists: ManyLists) -> Columns:
    """Compute the template ``agreement`` on many lists."""
    spans = lists.target_spans
    if (spans[:, 1] > np.repeat(lists.words.counts, np.diff(lists.unit_ptr))).any():
        raise InputError("agreement: expected target spans inside the text, found one beyond its end; import the list again")
    total, least = np.zeros((len(spans), 4)), np.ones((len(spans), 4))
    _unit_agreement(lists.hyp_ptr, lists.words.ptr, lists.words.ids, lists.unit_ptr, spans, lists.p, total, least)
    total, least = np.round(total / STEP) * STEP, np.round(least / STEP) * STEP
    return {f"agree.{n + 1}": total[:, n] for n in range(4)} | {f"agree.least.{n + 1}": least[:, n] for n in range(2)}


@kernel
def _unit_agreement(hyp_ptr, token_ptr, tokens, unit_ptr, spans, p, total, least):  # type: ignore[no-untyped-def]
    """OUT total[R, 4] Σ P(k), least[R, 4] min P(k) over the n-grams that end in each unit's words; 1 where there are none."""
    for s in range(len(hyp_ptr) - 1):
        first, last = hyp_ptr[s], hyp_ptr[s + 1]
        keys, n_keys = list_keys(token_ptr, tokens, first, last)
        mass = key_masses(token_ptr, keys, n_keys, first, last, p)
        for h in range(first, last):
            begin = token_ptr[h] - token_ptr[first]
            for r in range(unit_ptr[h], unit_ptr[h + 1]):
                for i in range(begin + spans[r, 0], begin + spans[r, 1]):
                    for n in range(4):
                        if keys[i, n] >= 0:
                            total[r, n] += mass[keys[i, n]]
                            least[r, n] = min(least[r, n], mass[keys[i, n]])


@template("agreement", reads=("target span", "list"), many=agreement_of_lists)
def agreement(candidates: Candidates) -> Columns:
    """Expected matches of the n-grams that end in a unit (with the words before it), and the least probable one."""
    keys = [ngram_keys(words) for words in candidates.texts]
    mass: dict[tuple[Words, int], float] = {}
    for rows, p in zip(keys, candidates.p, strict=True):
        for row in rows:
            for key in row:
                mass[key] = mass.get(key, 0.0) + p
    names = (*(f"agree.{n}" for n in (1, 2, 3, 4)), *(f"agree.least.{n}" for n in (1, 2)))
    columns: dict[str, list[float]] = {name: [] for name in names}
    for rows, units in zip(keys, candidates.units, strict=True):
        for start, end in units:
            for n in (1, 2, 3, 4):
                found = [mass[row[n - 1]] for row in rows[start:end] if n <= len(row)]
                total = 0.0
                for each in found:
                    total += each
                columns[f"agree.{n}"].append(rounded(total))
                if n <= 2:
                    columns[f"agree.least.{n}"].append(rounded(min(1.0, *found)) if found else 1.0)
    return columns


# -- units ------------------------------------------------------------------------------------------------------------


@template("support", reads=("source phrase", "target phrase", "span", "list"))
def support(candidates: Candidates) -> Columns:
    """Probability of translations that have this phrase pair in this place, and that cut the source there."""
    mass: dict[tuple[Hashable, ...], float] = {}
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
    texts, shares = candidates.texts, candidates.p
    number: dict[str, int] = {}  # of words by first use
    for words in texts:
        for word in words:
            number.setdefault(word, len(number))
    slots: dict[int, dict[str, list[tuple[int, int]]]] = {}  # the words that stand in it, and where they do
    for h, words in enumerate(texts):
        for i, (s, word) in enumerate(zip(slots_of(words, texts[0]), words, strict=True)):
            slots.setdefault(s, {}).setdefault(word, []).append((h, i))
    none = (0.0, 0.0, 0.0, 0)  # of a unit without words, such as the end of a sentence
    rows = [[none] * len(words) for words in texts]
    for found in slots.values():
        masses: dict[str, float] = {}
        entropy, best, said = 0.0, 0.0, 0.0
        for word in sorted(found, key=number.__getitem__) if len(found) > 1 else found:
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
    last = [of_text[b - 1] if a < b else none for of_text, units in zip(rows, candidates.units, strict=True) for a, b in units]
    return {
        "slot.p": [p for p, _, _, _ in last],
        "slot.entropy": [entropy for _, entropy, _, _ in last],
        "slot.behind": [lead - p for p, _, lead, _ in last],
        "slot.best": [float(p >= lead) for p, _, lead, _ in last],
        "slot.alternatives": [float(n) for _, _, _, n in last],
    }


def slots_of(words: Words, first: Words) -> list[int]:
    """Give the slots of the words of a text that is aligned with the first one: 2 i + 1 is its word i, 2 i the gap before it.

    The fewest edits decide, of equal ones the last substitution, then insertion. A column of costs is a few whole numbers, a bit
    a word [H03: Hyyrö's form of Myers' bit vectors].
    """
    first, n = first[:LONGEST], min(len(first), LONGEST)
    if words == first:
        return list(range(1, 2 * n, 2))
    places: dict[str, int] = {}
    for i, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << i
    every = (1 << n) - 1
    rises, falls = every, 0  # whether costs rise or fall from a word of the first text to the next
    columns = []
    for word in words[:LONGEST]:
        same = places.get(word, 0)
        free = ((same & rises) + rises ^ rises) | same | falls  # costs as much as without both words
        dearer = (falls | ~(free | rises)) & every  # costs one more than without this word
        columns.append((same | ~free, dearer))
        cheaper, dearer = (rises & free) << 1, dearer << 1 | 1
        rises, falls = (cheaper | ~(free | dearer)) & every, dearer & free & every
    out = [2 * n] * len(words)  # behind what is aligned
    i = n
    for j in range(len(columns) - 1, -1, -1):
        substituted, inserted = columns[j]
        while i > 0 and not (substituted | inserted) >> (i - 1) & 1:
            i -= 1
        if i > 0 and substituted >> (i - 1) & 1:
            i -= 1
            out[j] = 2 * i + 1
        else:
            out[j] = 2 * i
    return out
