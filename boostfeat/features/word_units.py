"""Templates for units that are words: of neural translation, speech recognition and language models.

Their lists have target texts and places, and often no source phrases: these templates read the words, the hypothesis, the list
and a language model. R occurrences of units, S sentences, H hypotheses. A unit of several words has sums, or the least or last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ..core.arrays import F64, I64, Array, offsets
from ..core.errors import InputError
from ..core.kernels import kernel
from ..core.text import split_words
from ..lists.nbest import strings, take_strings
from ..lists.words import NONE, Words, flags
from .by_unit import MARKS, NUMBER, PUNCTUATION
from .consensus import STEP
from .context import Rows
from .dense import _characters
from .language_model import step
from .registry import Crossed, Dense, Sparse, template
from .sparse import indicators, word_indicators

MOST_WORDS = 20_000  # whose frequencies are kept: the others are rare
RANKS = (10, 100, 1000, 10_000)
LONGEST = 2_000  # words of a hypothesis that are aligned with others of its list
MOST_RUNS = 8  # of a word's shape


def _number(values: Array) -> F64:
    return np.asarray(values, np.float64)


# -- the word itself --------------------------------------------------------------------------------------------------


@template("word", kind="static", reads=("target phrase",))
def word(rows: Rows) -> Dense:
    """Characters, digits, capitals, punctuation and other marks of a word."""
    tgt = rows.tgt
    letters = _characters(tgt)
    out = {"word.letters": letters, "word.short": _number(letters <= 2), "word.long": _number(letters >= 9)}
    return out | {f"word.{name}": tgt.per_row(tgt.matches(pattern)) for name, pattern in MARKS.items()}


def _learn_frequencies(bitext: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Count the words of references, the most frequent ones first."""
    seen = Counter(token for _, ref in bitext for token in split_words(ref))
    return {"frequencies": dict(sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS])}


@template("frequency", kind="static", reads=("target phrase",), learn=Crossed(_learn_frequencies))
def frequency(rows: Rows, *, frequencies: dict[str, int]) -> Dense:
    """How often references have a word, and indicators of its rank; words they lack are unknown."""
    rank = {name: k for k, name in enumerate(frequencies)}
    names = rows.tgt.names.to_pylist()
    seen = np.array([frequencies.get(name, 0) for name in names], np.float64)
    place = np.array([rank.get(name, MOST_WORDS) for name in names])
    ids, per_row = rows.tgt.ids, rows.tgt.per_row
    logs = np.bincount(rows.tgt.owner, np.log1p(seen)[ids], minlength=len(rows)).astype(np.float64)
    out = {"freq.log": logs, "freq.unknown": per_row((seen == 0)[ids])}
    return out | {f"freq.top{most}": per_row((place < most)[ids]) for most in RANKS}


@template("w", kind="static", reads=("target phrase",))
def identity(rows: Rows) -> Sparse:
    """The word: ``w:house``."""
    return word_indicators(rows.tgt.owner, rows.tgt.ids, rows.tgt.names)


@template("ws", kind="static", reads=("target phrase",))
def word_shape(rows: Rows) -> Sparse:
    """The word's shape, runs as one: ``ws:Xx`` for House, ``ws:0-x`` for 12-year."""
    shapes = strings([shape_of(name) for name in rows.tgt.names.to_pylist()])
    return indicators(rows.tgt.owner, take_strings(shapes, rows.tgt.ids))


def shape_of(word: str) -> str:
    """X for capitals, x for other letters, 0 for digits, all else as it stands; equal neighbours once, at most MOST_RUNS."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds), flags=re.DOTALL)[:MOST_RUNS]


# -- its place in the hypothesis --------------------------------------------------------------------------------------


def _tokens(rows: Rows) -> tuple[I64, I64, I64]:
    """[R] the first word of each occurrence among all words of hypotheses, its words, and its hypothesis."""
    nbest = rows.corpus.nbest
    hyp = np.repeat(np.arange(nbest.n_hyps), np.diff(nbest.unit_ptr))
    start = nbest.tgt_start.astype(np.int64)
    return rows.corpus.hyps.ptr[:-1][hyp] + start, nbest.units.tgt_len[nbest.unit_idx].astype(np.int64), hyp


@template("place", kind="contextual", reads=("target span", "words around"))
def place(rows: Rows) -> Dense:
    """Where a word stands: first, last, among the first or last three, and in which fifth of the hypothesis."""
    first, length, hyp = _tokens(rows)
    words = rows.corpus.hyps
    before = first - words.ptr[:-1][hyp]
    after = words.counts[hyp] - before - length
    fifth = np.minimum(5 * before // np.maximum(words.counts[hyp], 1), 4)
    out = {
        "place.first": _number(before == 0),
        "place.last": _number(after == 0),
        "place.start": _number(before < 3),
        "place.end": _number(after < 3),
    }
    return out | {f"place.fifth{k + 1}": _number(fifth == k) for k in range(5)}


@kernel
def _repeats(ptr, ids, first, length, hyp, n_words, out):  # type: ignore[no-untyped-def]
    """OUT out[R, 4]: is the last word of a unit the one before it, one of the hypothesis before it, its bigram too; how often."""
    last_seen = np.full(n_words, -1, np.int64)  # hypothesis that had the word last, up to here
    count = np.zeros(n_words, np.int64)
    current = -1
    at = 0
    for r in range(len(first)):
        h = hyp[r]
        if h != current:
            current, at = h, ptr[h]
        while at < first[r]:  # words of the hypothesis that are in no unit
            w = ids[at]
            count[w] = count[w] + 1 if last_seen[w] == h else 1
            last_seen[w] = h
            at += 1
        for i in range(first[r], first[r] + length[r]):
            w = ids[i]
            known = last_seen[w] == h
            out[r, 0] = max(out[r, 0], 1.0 if i > ptr[h] and ids[i - 1] == w else 0.0)
            out[r, 1] = max(out[r, 1], 1.0 if known else 0.0)
            if known and i > ptr[h]:
                for j in range(ptr[h] + 1, i):
                    if ids[j] == w and ids[j - 1] == ids[i - 1]:
                        out[r, 2] = 1.0
                        break
            out[r, 3] = max(out[r, 3], np.float64(count[w]) if known else 0.0)
            count[w] = count[w] + 1 if known else 1
            last_seen[w] = h
        at = max(at, first[r] + length[r])


@template("repeat", kind="contextual", reads=("target span", "words before"))
def repeat(rows: Rows) -> Dense:
    """Whether a word repeats the one before it, any before it, with the word before, and how often it came before."""
    first, length, hyp = _tokens(rows)
    words = rows.corpus.hyps
    out = np.zeros((len(rows), 4))
    _repeats(words.ptr, words.ids, first, length, hyp, len(words.names), out)
    names = ("repeat.at_once", "repeat.before", "repeat.bigram", "repeat.times")
    return {name: out[:, k] for k, name in enumerate(names)}


@template("around", kind="contextual", reads=("previous unit", "following unit"))
def around(rows: Rows) -> Dense:
    """The words beside a unit: their characters, whether they are punctuation or have digits, and whether there is none."""
    words = rows.corpus.tgt
    out: Dense = {}
    for side, of_pair in (("prev", words.last), ("next", words.first)):
        pair = rows[side]
        word = np.where(pair == NONE, NONE, of_pair[pair] if len(of_pair) else NONE)
        out |= {f"around.{side}.{name}": np.append(values, 0.0)[word] for name, values in _marks(words).items()}
        out[f"around.{side}.none"] = _number(word == NONE)
    return out


def _marks(words: Words) -> Dense:
    """[names] of every word of a dictionary."""
    names = words.names
    found = {name: _number(flags(pc.match_substring_regex(names, p))) for name, p in (("punct", PUNCTUATION), ("digit", NUMBER))}
    return {"letters": pc.utf8_length(names).to_numpy(zero_copy_only=False).astype(np.float64), **found}


# -- a language model -------------------------------------------------------------------------------------------------


@kernel
def _score_words(lm, start, end, first, ptr, ids, out, ends):  # type: ignore[no-untyped-def]
    """OUT out[words, 2]: ln p of each word after those before it, and the order of the n-gram matched; ends[H]: ln p of </s>."""
    for h in range(len(ptr) - 1):
        state = start
        for i in range(ptr[h], ptr[h + 1]):
            p, node = step(lm, state, ids[i])
            out[i, 0], out[i, 1] = p, np.searchsorted(first, node, side="right")
            state = lm.state[node]
        ends[h] = step(lm, state, end)[0]


def _learn_language_model(rows: Rows, counts: I64) -> dict[str, Any]:
    model = rows.resources.lm
    return {"model": model.signature if model else ""}


@template("lm", kind="contextual", reads=("target span", "words before", "language model"), learn=_learn_language_model)
def language_model(rows: Rows, *, model: str) -> Dense:
    """Of an n-gram model: ln p of the unit's words and of each alone, the least order matched, unknown words, neighbours, </s>.

    Σ lm.logp + Σ lm.end over the units of a hypothesis is ln p of the sentence, where its units hold all its words.
    """
    lm, words = rows.resources.lm, rows.corpus.hyps
    assert lm is not None
    if lm.signature != model:
        fix = f"give the language model of the dev list ({model})"
        raise InputError(f"--lm: expected the language model of the vocab, found another ({lm.signature}); {fix}")
    ids = lm.ids(words.names.to_pylist())[words.ids].astype(np.int64)
    about, ends = np.zeros((len(ids), 2)), np.zeros(len(words))
    _score_words(lm.automaton, lm.start, lm.end, lm.first, words.ptr, ids, about, ends)
    first, length, hyp = _tokens(rows)
    unit = np.repeat(np.arange(len(rows)), length)  # of each word of a unit
    word = np.repeat(first - offsets(length)[:-1], length) + np.arange(len(unit))

    def summed(values: F64) -> F64:
        return np.bincount(unit, values[word], minlength=len(rows)).astype(np.float64)

    order = np.where(length > 0, float(lm.order), 0.0)
    np.minimum.at(order, unit, about[word, 1])
    beside, none = np.append(about[:, 0], 0.0), len(ids)
    is_last = np.append(hyp[1:] != hyp[:-1], [True])[: len(hyp)]
    return {
        "lm.logp": summed(about[:, 0]),
        "lm.unigram": summed(lm.automaton.logp[ids + 1]),
        "lm.order": order,
        "lm.unknown": summed(_number(ids == lm.vocab["<unk>"])),
        "lm.prev": beside[np.where(first > words.ptr[:-1][hyp], first - 1, none)],
        "lm.next": beside[np.where(first + length < words.ptr[1:][hyp], first + length, none)],
        "lm.end": np.where(is_last, ends[hyp], 0.0),
    }


# -- its slot in the list ---------------------------------------------------------------------------------------------


@kernel
def _align(a, b, cost, slot):  # type: ignore[no-untyped-def]
    """OUT slot[len(b)]: the word of a that each word of b stands for in the best alignment, or -1 - i behind word i - 1 of a."""
    n, m = len(a), len(b)
    for j in range(m + 1):
        cost[0, j] = j
    for i in range(1, n + 1):
        cost[i, 0] = i
        for j in range(1, m + 1):
            best = cost[i - 1, j - 1] + (0 if a[i - 1] == b[j - 1] else 1)
            best = min(best, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
            cost[i, j] = best
    i, j = n, m
    while j > 0:
        if i > 0 and cost[i, j] == cost[i - 1, j - 1] + (0 if a[i - 1] == b[j - 1] else 1):
            i, j = i - 1, j - 1
            slot[j] = i
        elif cost[i, j] == cost[i, j - 1] + 1:
            j -= 1
            slot[j] = -1 - i
        else:
            i -= 1


@kernel
def _slots(hyp_ptr, ptr, ids, p, out):  # type: ignore[no-untyped-def]
    """OUT out[words, 4]: posterior of each word in its slot, entropy of the slot, posterior of its best word, alternatives.

    Slots are the words of the list's first hypothesis and the places between them; the others are aligned with it word by word.
    """
    for s in range(len(hyp_ptr) - 1):
        begin, end = hyp_ptr[s], hyp_ptr[s + 1]
        if begin == end:
            continue
        first = ids[ptr[begin] : ptr[begin + 1]]
        n = min(len(first), LONGEST)
        total = 0
        for h in range(begin, end):
            total += ptr[h + 1] - ptr[h]
        slot = np.empty(total, np.int64)
        word = np.empty(total, np.int64)
        mass = np.empty(total)
        longest = 0
        for h in range(begin, end):
            longest = max(longest, ptr[h + 1] - ptr[h])
        longest = min(longest, LONGEST)
        cost = np.empty((n + 1, longest + 1), np.int32)
        at = 0
        for h in range(begin, end):
            m = ptr[h + 1] - ptr[h]
            own = slot[at : at + m]
            k = min(m, LONGEST)
            _align(first[:n], ids[ptr[h] : ptr[h] + k], cost, own[:k])
            for j in range(k, m):
                own[j] = -1 - n
            for j in range(m):
                word[at + j] = ids[ptr[h] + j]
                mass[at + j] = p[h]
                own[j] = 2 * own[j] + 1 if own[j] >= 0 else 2 * (-1 - own[j])  # gaps and words in their order
            at += m
        order = np.argsort(slot * (word.max() + 1) + word, kind="mergesort") if total else np.zeros(0, np.int64)
        k = 0
        while k < total:
            stop = k
            while stop < total and slot[order[stop]] == slot[order[k]]:
                stop += 1
            entropy, best, alternatives, said = 0.0, 0.0, 0, 0.0
            i = k
            while i < stop:
                j, sum_p = i, 0.0
                while j < stop and word[order[j]] == word[order[i]]:
                    sum_p += mass[order[j]]
                    j += 1
                sum_p = min(sum_p, 1.0)
                for x in range(i, j):
                    out[ptr[begin] + order[x], 0] = sum_p
                if sum_p > 0:
                    entropy -= sum_p * np.log(sum_p)
                best, said, alternatives, i = max(best, sum_p), said + sum_p, alternatives + 1, j
            silent = max(0.0, 1.0 - said)  # hypotheses that have nothing there
            if silent > 1e-12:
                entropy -= silent * np.log(silent)
            for x in range(k, stop):
                out[ptr[begin] + order[x], 1] = entropy
                out[ptr[begin] + order[x], 2] = max(best, silent)
                out[ptr[begin] + order[x], 3] = alternatives
            k = stop


@template("slot", kind="list", reads=("target span", "list"))
def slot(rows: Rows) -> Dense:
    """A word's slot in the list's confusion network: its posterior there, the entropy, the best word's lead, alternatives."""
    nbest, words = rows.corpus.nbest, rows.corpus.hyps
    about = np.zeros((len(words.ids), 4))
    _slots(nbest.hyp_ptr, words.ptr, words.ids, rows.corpus.posterior, about)
    first, length, _ = _tokens(rows)
    last = np.minimum(first + np.maximum(length, 1) - 1, max(0, len(about) - 1))
    own = about[last] if len(about) else np.zeros((len(rows), 4))
    own[length == 0] = 0.0  # a unit without words, such as the end of a sentence
    posterior, entropy, best, alternatives = (np.round(column / STEP) * STEP for column in own.T)
    return {
        "slot.p": posterior,
        "slot.entropy": entropy,
        "slot.behind": best - posterior,
        "slot.best": _number(posterior >= best),
        "slot.alternatives": np.minimum(alternatives, 10),
    }


# -- the source -------------------------------------------------------------------------------------------------------


@template("source_words", kind="contextual", reads=("target phrase", "source sentence"))
def source_words(rows: Rows) -> Dense:
    """Whether the source sentence has a word as it stands, and whether a number does."""
    sentences = rows.sentences
    source, target = sentences.names.to_pylist(), rows.tgt.names.to_pylist()
    number_of = {name: k for k, name in enumerate(source)}
    known = np.array([number_of.get(name, -1) for name in target])[rows.tgt.ids]
    sent = np.asarray(rows["sent"])[rows.tgt.owner]
    keys = np.unique(sentences.owner * len(source) + sentences.ids)
    copied = (known >= 0) & np.isin(sent * len(source) + known, keys)
    digits = rows.tgt.matches(NUMBER)
    per_row = rows.tgt.per_row
    return {
        "source.copy": per_row(copied),
        "source.number": per_row(copied & digits),
        "source.new_number": per_row(~copied & digits),
    }
