"""Templates for units that are words: of neural translation, speech recognition and language models.

Their lists have target texts and places, and often no source phrases: these templates read the words and the hypothesis. A unit
of several words has sums, or the least or last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log1p
from typing import TYPE_CHECKING, Any
from unicodedata import category

from ...core.errors import InputError
from ..registry import Columns, Dense, FromPairs, Names, template
from ..teach import MOST_WORDS, learn_frequencies, learn_language_model
from .helpers import Words, has_digit, is_punctuation

if TYPE_CHECKING:
    from ..language_model import LanguageModel

Spans = Sequence[tuple[int, int]]  # where the words of units begin and end

RANKS = (10, 100, 1000, 10_000)
MOST_RUNS = 8  # of a word's shape

# -- the word itself --------------------------------------------------------------------------------------------------

# Letters of Unicode's script Latin
_LATIN = re.compile(
    "[A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02b8\u02e0-\u02e4\u1d00-\u1d25\u1d2c-\u1d5c\u1d62-\u1d65\u1d6b-\u1d77"
    "\u1d79-\u1dbe\u1e00-\u1eff\u2071\u207f\u2090-\u209c\u212a\u212b\u2132\u214e\u2160-\u2188\u2c60-\u2c7f\ua722-\ua787"
    "\ua78b-\ua7ca\ua7d0\ua7d1\ua7d3\ua7d5-\ua7d9\ua7f2-\ua7ff\uab30-\uab5a\uab5c-\uab64\uab66-\uab69\ufb00-\ufb06"
    "\uff21-\uff3a\uff41-\uff5a\U00010780-\U00010785\U00010787-\U000107b0\U000107b2-\U000107ba\U0001df00-\U0001df1e"
    "\U0001df25-\U0001df2a]"
)


def is_foreign(sign: str) -> bool:
    """Whether a sign is neither of the script Latin nor punctuation, a symbol or a number."""
    return category(sign)[0] not in "PSN" and not _LATIN.match(sign)


@lru_cache(100_000)
def _marks(word: str) -> tuple[str, ...]:
    """Name the columns of ``word`` that count a word."""
    kinds = [category(sign) for sign in word]
    marks = {
        "digit": has_digit(word),
        "punct": is_punctuation(word),
        "title": kinds[0] == "Lu",
        "upper": len(word) > 1 and all(kind == "Lu" or kind[0] == "N" for kind in kinds),
        "hyphen": "-" in word[1:-1],
        "apostrophe": "'" in word or "’" in word,
        "foreign": any(map(is_foreign, word)),
    }
    return tuple(f"word.{name}" for name, is_so in marks.items() if is_so)


_MARKS = ("letters", "short", "long", "digit", "punct", "title", "upper", "hyphen", "apostrophe", "foreign")


@template("word", columns=tuple(f"word.{name}" for name in _MARKS))
def word(target: Words) -> Dense:
    """Characters, digits, capitals, punctuation and other marks of a word."""
    letters = float(sum(map(len, target)))
    out = {"word.letters": letters, "word.short": float(letters <= 2), "word.long": float(letters >= 9)}
    for text in target:
        for name in _marks(text):
            out[name] = out.get(name, 0.0) + 1.0
    return out


def _ranked(*, frequencies: Mapping[str, int]) -> dict[str, Any]:
    """Return the count of each word, ln(1 + count), and its rank."""
    if set(map(type, frequencies.values())) - {int} or min(frequencies.values(), default=0) < 0:
        raise TypeError("frequencies: expected numbers of words")
    return {"frequencies": {text: (n, log1p(n), rank) for rank, (text, n) in enumerate(frequencies.items())}}


@template(
    "frequency",
    learn=FromPairs(learn_frequencies),
    columns=("freq.log", "freq.unknown", *(f"freq.top{most}" for most in RANKS)),
    ready=_ranked,
)
def frequency(target: Words, *, frequencies: Mapping[str, tuple[int, float, int]]) -> Dense:
    """Frequency of a word in references, and indicators of its rank; words they lack are unknown."""
    out: Dense = {"freq.log": 0.0}
    for text in target:
        seen, logarithm, rank = frequencies.get(text, (0, 0.0, MOST_WORDS))
        out["freq.log"] += logarithm
        names = [f"freq.top{most}" for most in RANKS if rank < most]
        for name in names if seen else [*names, "freq.unknown"]:
            out[name] = out.get(name, 0.0) + 1.0
    return out


@template("w")
def identity(target: Words) -> Names:
    """The word: ``w:house``."""
    return list(target)


@template("ws")
def word_shape(target: Words) -> Names:
    """The word's shape, runs as one: ``ws:Xx`` for House, ``ws:0-x`` for 12-year."""
    return [shape_of(text) for text in target]


def shape_of(word: str) -> str:
    """X for capitals, x for other letters, 0 for digits, all else as it stands; equal neighbours once, at most MOST_RUNS."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds), flags=re.DOTALL)[:MOST_RUNS]


# -- its place in the hypothesis --------------------------------------------------------------------------------------


@template("place", columns=("place.first", "place.last", "place.start", "place.end", *(f"place.fifth{k}" for k in range(1, 6))))
def place_in_text(place: tuple[int, int, int]) -> Dense:
    """Position of a word: first, last, among the first or last three, and in which fifth of the hypothesis."""
    start, end, n = place
    return {
        "place.first": float(start == 0),
        "place.last": float(end == n),
        "place.start": float(start < 3),
        "place.end": float(n - end < 3),
        f"place.fifth{min(5 * start // max(n, 1), 4) + 1}": 1.0,
    }


@template("repeat", columns=("repeat.at_once", "repeat.before", "repeat.bigram", "repeat.times"))
def repeat(text: Words, units: Spans) -> Columns:
    """Whether a word repeats the one before it, any before it, with the word before, and how often it came before."""
    seen: dict[str, int] = {}
    bigrams: set[tuple[str, str]] = set()
    rows, last = [], ""  # no word is empty
    for word in text:
        times, pair = seen.get(word, 0), (last, word)
        rows.append((float(last == word), float(times > 0), float(pair in bigrams), float(times)))
        seen[word] = times + 1
        bigrams.add(pair)
        last = word
    found = [rows[a] if b - a == 1 else tuple(map(max, zip(*rows[a:b], strict=True))) or (0.0,) * 4 for a, b in units]
    names = ("repeat.at_once", "repeat.before", "repeat.bigram", "repeat.times")
    return {name: [row[k] for row in found] for k, name in enumerate(names)}


# -- a language model -------------------------------------------------------------------------------------------------


@template("lm", learn=learn_language_model)
def language_model(text: Words, units: Spans, language_model: LanguageModel, *, model: str) -> Columns:
    """N-gram model: ln p of the unit's words and of each alone, the least order matched, unknown words, neighbours, </s>.

    Σ lm.logp + Σ lm.end over the units of a hypothesis is ln p of the sentence, where its units hold all its words.
    """
    lm = language_model
    if lm.signature != model:
        fix = f"give the language model of the dev list ({model})"
        raise InputError(f"--lm: expected the language model of the plan, found another ({lm.signature}); {fix}")
    logp, orders, alone, unknown, end = lm.words(text)
    beside = [*logp, 0.0, 0.0]  # before the first word and behind the last one
    last = len(units) - 1
    return {
        "lm.logp": [_sum(logp[a:b]) for a, b in units],
        "lm.unigram": [_sum(alone[a:b]) for a, b in units],
        "lm.order": [min(orders[a:b], default=0.0) for a, b in units],
        "lm.unknown": [_sum(unknown[a:b]) for a, b in units],
        "lm.prev": [beside[a - 1] for a, _ in units],
        "lm.next": [beside[b] for _, b in units],
        "lm.end": [end if k == last else 0.0 for k in range(len(units))],
    }


def _sum(terms: Sequence[float]) -> float:
    """Add up one after the other; sum() of newer Pythons is more exact."""
    total = 0.0
    for term in terms:
        total += term
    return total
