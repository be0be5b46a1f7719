"""Templates of a unit in its place: in the source sentence, between its neighbours, beside what the source says.

Features of neighbours decompose over bigrams of units: a decoder that keeps its last unit can compute them (registry.STATES).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import pairwise
from math import log, log1p
from typing import TYPE_CHECKING

from .. import teach
from ..registry import Counted, Dense, FromPairs, Names, from_bitext, template
from ..teach import morphemes
from .helpers import END, START, UNKNOWN, Links, Words, as_sets, classes, has_digit, is_punctuation
from .phrase import al

if TYPE_CHECKING:
    from ..resources import Clusters

Span = tuple[int, int, int]  # start, end, words of the sentence
Unit = tuple[Words, Words]  # source and target words
Values = Mapping[str, float]  # features by name
Quantiles = Mapping[str, Mapping[str, list[float]]]  # by feature: "cuts" into bins, each bin's "means"
Translations = Mapping[str, Mapping[str, float]]  # t(word | given), "" is the empty word

TURNS = ("mono", "swap", "right", "left")
FLOOR = 1e-4  # probability of a word that nothing explains


def turn(gap: int, swap: int) -> str:
    """Name the move between two units, by the words between them in the source and those to a swap."""
    return "mono" if gap == 0 else "swap" if swap == 0 else "right" if gap > 0 else "left"


def _orientation(move: str) -> str:
    return move if move in ("mono", "swap") else "disc"


# -- in the source sentence -------------------------------------------------------------------------------------------


@template("position", columns=("pos.tenth", "pos.first", "pos.last", "span.len"))
def position(span: Span) -> Dense:
    """Position in the source sentence: in tenths, whether at its edges, span length."""
    start, end, n = span
    return {
        "pos.tenth": min(max(5 * (start + end) // max(n, 1), 0), 9) / 10,  # coarse, so that few units are told apart
        "pos.first": float(start == 0),
        "pos.last": float(end == n),
        "span.len": float(end - start),
    }


@template("jump", columns=("jump.signed", "jump.log", "jump.left", "jump.far"))
def distance(jump: int) -> Dense:
    """Distance to the previous unit in the source, in words."""
    words = abs(jump)
    if not words:
        return {}
    left = float(words) if jump < 0 else 0.0
    return {"jump.signed": float(jump), "jump.log": log1p(words), "jump.left": left, "jump.far": float(words > 5)}


@template("orientation", columns=tuple(f"ori.{side}{move}" for side in "<>" for move in TURNS))
def orientation(turn_before: str, turn_after: str) -> Dense:
    """Monotone, swap or discontinuous to the right or left, after the previous unit (<) and before the following one (>)."""
    return {f"ori.<{turn_before}": 1.0, f"ori.>{turn_after}": 1.0}


# -- a decoder's features ---------------------------------------------------------------------------------------------


@template(
    "lm_per_word",
    learn=teach.learn_language_models,
    needs=teach.lacks_language_model,
    columns=lambda *, features, thresholds: [
        name for lm in features for name in (f"lm.word.{lm}", *(f"lm.word.{lm}<{q}" for q in thresholds[lm]))
    ],
)
def lm_per_word(target: Words, unit_features: Values, *, features: Words, thresholds: Mapping[str, Values]) -> Dense:
    """Language-model score per target word, and whether it is below quantiles of the dev list's."""
    out: Dense = {}
    for name in features:
        value = unit_features[name] / len(target) if target else 0.0
        out[f"lm.word.{name}"] = value
        out |= {f"lm.word.{name}<{q}": 1.0 for q, threshold in thresholds[name].items() if value < threshold}
    return out


def checked_bins(*, features: Words, quantiles: Quantiles) -> dict[str, Words | Quantiles]:
    """Refuse bins that no list teaches: those that look values up would take them for different ones, and "1.5" for no number."""
    largest = {float: 1e300, int: 2**53}  # arrays of larger whole numbers are none of floats
    for bins in quantiles.values():
        cuts, means = bins["cuts"], bins["means"]
        are_lists = isinstance(cuts, list) and isinstance(means, list)  # "" is as long as []
        are_numbers = all(type(x) in largest and abs(x) < largest[type(x)] for x in (*cuts, *means))
        rise = all(a < b for a, b in pairwise(cuts)) if are_numbers else False
        if not are_lists or not rise or len(means) != len(cuts) + 1:
            raise ValueError("cuts and means that do not fit")
    return {"features": features, "quantiles": quantiles}


@template(
    "previous",
    learn=teach.learn_bins(previous=True),
    columns=lambda *, features: ["prev.none", *(f"prev.{name}" for name in features)],
    ready=checked_bins,
)
def previous(previous_features: Values | None, *, features: Words, quantiles: Quantiles) -> Dense:
    """The previous unit's decoder features, or those given; each in quarters of the dev list's (bins = 0: exact)."""
    return _binned("prev", previous_features, features, quantiles)


@template(
    "following",
    learn=teach.learn_bins(previous=False),
    columns=lambda *, features: ["next.none", *(f"next.{name}" for name in features)],
    ready=checked_bins,
)
def following(following_features: Values | None, *, features: Words, quantiles: Quantiles) -> Dense:
    """The following unit's decoder features, or those given; each in quarters of the dev list's (bins = 0: exact)."""
    return _binned("next", following_features, features, quantiles)


def _binned(side: str, values: Values | None, features: Words, quantiles: Quantiles) -> Dense:
    if values is None:
        return {f"{side}.none": 1.0}
    out: Dense = {}
    for name in features:
        bins = quantiles.get(name)
        out[f"{side}.{name}"] = values[name] if bins is None else bins["means"][bisect_left(bins["cuts"], values[name])]
    return out


# -- neighbours -------------------------------------------------------------------------------------------------------


@template("neighbour_sizes", columns=("prev.len.src", "prev.len.tgt", "next.len.src", "next.len.tgt"))
def neighbour_sizes(previous: Unit | None, following: Unit | None) -> Dense:
    """Source and target words of the previous and the following unit, up to 4."""
    out: Dense = {}
    for side, unit in (("prev", previous), ("next", following)):
        if unit is not None:
            out[f"{side}.len.src"], out[f"{side}.len.tgt"] = (float(min(len(words), 4)) for words in unit)
    return out


@template(
    "around", columns=tuple(f"around.{s}.{what}" for s in ("prev", "next") for what in ("letters", "punct", "digit", "none"))
)
def around(previous: Unit | None, following: Unit | None) -> Dense:
    """The words beside a unit: their characters, whether they are punctuation or have digits, and whether there is none."""
    out: Dense = {}
    for side, words in (("prev", previous[1][-1:] if previous else ()), ("next", following[1][:1] if following else ())):
        for word in words:
            out[f"around.{side}.letters"] = float(len(word))
            out[f"around.{side}.punct"] = float(is_punctuation(word))
            out[f"around.{side}.digit"] = float(has_digit(word))
        if not words:
            out[f"around.{side}.none"] = 1.0
    return out


@template("bi")
def bigram(target: Words, words_before: Words | None, is_last: bool) -> Names:
    """Target bigrams, within the phrase and with the last word of the previous unit: ``bi:the|house`` [E12]."""
    if not target:
        return []  # a phrase without words joins nothing
    words = [*((START,) if words_before is None else words_before[-1:]), *target, *([END] if is_last else [])]
    return [f"{words[i]}|{words[i + 1]}" for i in range(len(words) - 1)]


@template("lo")
def reordering(source: Words, target: Words, turn_before: str, turn_after: str) -> Names:
    """Reordering class with each edge word of the phrases: ``lo:<swap|src.first=talo`` [G13 LO].

    Eight classes: monotone, swap, discontinuous after the previous (<) and before the following unit (>); and the simpler
    monotone or not, of which the first says what ``<mono`` does. Models of release 0.1 have it; ``ro`` is the paper's.
    """
    simple = "mono" if turn_before == "mono" else "nonmono"
    return [f"{move}{edge}" for move in (*_moves(turn_before, turn_after), simple) for edge in _edges(source, target)]


def _moves(turn_before: str, turn_after: str) -> tuple[str, str]:
    return f"<{_orientation(turn_before)}", f">{_orientation(turn_after)}"


def _edges(source: Words, target: Words) -> Names:
    """Name the first and last words of both sides."""
    edges = [f"|src.first={source[0]}", f"|src.last={source[-1]}"] if source else []
    return [*edges, f"|tgt.first={target[0]}", f"|tgt.last={target[-1]}"] if target else edges


@template("ro")
def phrase_reordering(source: Words, target: Words, turn_before: str, turn_after: str) -> Names:
    """Reordering class with the phrase pair: ``ro:<swap|talo|house`` [G13 LO].

    Four classes after the previous (<) and four before the following unit (>): monotone, swap, discontinuous, and not monotone.
    """
    pair, (before, after) = f"|{' '.join(source)}|{' '.join(target)}", _moves(turn_before, turn_after)
    moves = [before, after, *(f"{move[0]}nonmono" for move in (before, after) if move[1:] != "mono")]
    return [move + pair for move in moves]


# -- the source words around links ------------------------------------------------------------------------------------


def _linked_pairs(source: Words, target: Words, links: Links) -> Mapping[str, Sequence[str]]:
    return {"pairs": al.compute(source, target, links)}


@template("cx", learn=teach.frequent(300, _linked_pairs, "pairs"), ready=as_sets)
def context(source: Words, target: Words, links: Links, span: Span, sentence: Words, *, pairs: Set[str]) -> Names:
    """The most frequent linked word pairs with the source word before or after: ``cx:talo|house|-iso`` [EMR13]."""
    found = _in_context(source, target, links, span, sentence)
    return [name for pair, *beside in found if pair in pairs for name in _beside(pair, *beside)]


@template("cu", learn=Counted(_linked_pairs, teach.choose_corpus_pairs), ready=as_sets)
def context_with_unknown(source: Words, target: Words, links: Links, span: Span, sentence: Words, *, pairs: Set[str]) -> Names:
    """``cx`` with all others as ``unk``: ``cu:talo|house|-iso``, ``cu:unk|+talo``, ``cu:unk|-unk`` [EMR13 4.2]."""
    known, out = frequent_sources(frozenset(pairs)), []
    for pair, *beside in _in_context(source, target, links, span, sentence):
        out += _beside(pair if pair in pairs else UNKNOWN, *(word if word in known else UNKNOWN for word in beside))
    return out


@cache
def frequent_sources(pairs: frozenset[str]) -> Set[str]:
    """Give the source words of frequent pairs, and the edges of a sentence."""
    return {START, END, *(pair.rpartition("|")[0] for pair in pairs)}


def _in_context(source: Words, target: Words, links: Links, span: Span, sentence: Words) -> Iterator[tuple[str, str, str]]:
    """Linked word pairs, with the source words before and after."""
    start, end, _ = span
    if end - start != len(source):
        return  # a unit that does not cover as many words as it has (a rule with gaps) does not say where its words are
    n = len(sentence)
    for i, j in links:
        before, after = start + i - 1, start + i + 1
        yield (
            f"{source[i]}|{target[j]}",
            sentence[before] if 0 <= before < n else START,
            sentence[after] if after < n else END,
        )


def _beside(pair: str, before: str, after: str) -> Names:
    return [f"{pair}|-{before}", f"{pair}|+{after}"]


# -- word classes in place of words -----------------------------------------------------------------------------------


@template("cb")
def class_ngrams(target: Words, words_before: Words | None, is_last: bool, clusters: Clusters) -> Names:
    """Bigrams and trigrams of target word classes, the previous unit's last two words among them: ``cb:7|12``, ``cb:3|7|12``.

    With the end of the text a unit joins words of its own only: a decoder that knows its last unit knows all that is to come.
    """
    if not target:
        return []
    before = [START] if words_before is None else classes(words_before, clusters.tgt)
    own = classes(target, clusters.tgt)
    text = [*before, *own]
    out = ["|".join(text[k - n : k + 1]) for k in range(len(before), len(text)) for n in (1, 2) if k >= n]
    return out + (["|".join((*own[-n:], END)) for n in (1, 2) if len(own) >= n] if is_last else [])


@template("co")
def class_reordering(source: Words, target: Words, turn_before: str, turn_after: str, clusters: Clusters) -> Names:
    """Reordering class with the word class of each edge of the phrases: ``co:<swap|src.first=7``."""
    edges = _edges(classes(source, clusters.src), classes(target, clusters.tgt))
    return [move + edge for move in _moves(turn_before, turn_after) for edge in edges]


@template("cc")
def class_context(source: Words, target: Words, links: Links, span: Span, sentence: Words, clusters: Clusters) -> Names:
    """Classes of linked words with that of the source word before or after: ``cc:7|12|-3``."""
    src, tgt, around = classes(source, clusters.src), classes(target, clusters.tgt), classes(sentence, clusters.src)
    return [name for words in _in_context(src, tgt, links, span, around) for name in _beside(*words)]


# -- what the source says ---------------------------------------------------------------------------------------------


@template("source_words", columns=("source.copy", "source.number", "source.new_number"))
def source_words(target: Words, sentence: Words) -> Dense:
    """Whether the source sentence has a word as it stands, and whether a number does."""
    out: Dense = {}
    for word in target:
        copied, is_number = word in sentence, has_digit(word)
        for name, is_so in (("copy", copied), ("number", copied and is_number), ("new_number", is_number and not copied)):
            if is_so:
                out[f"source.{name}"] = out.get(f"source.{name}", 0.0) + 1.0
    return out


def stems(words: Words, cut: int) -> list[str]:
    """Give the first letters of words: what follows is mostly inflection, and a dev list has most words but once."""
    return [word[:cut] for word in words]


@template("model1", learn=FromPairs(teach.learn_translations(inverse=False)), columns=("m1.tgt",))
def model1(target: Words, sentence: Words, *, cut: int, table: Translations) -> Dense:
    """Model 1 log-probability of the target words given the source sentence's stems, as references taught it."""
    return {"m1.tgt": log_translated(target, stems(sentence, cut), table)}


@template("model1_bitext", learn=from_bitext(teach.learn_translations(inverse=False)), columns=("m1.bitext",))
def model1_bitext(target: Words, sentence: Words, *, cut: int, table: Translations) -> Dense:
    """Model 1 log-probability as a bitext taught it (``--bitext``)."""
    return {"m1.bitext": log_translated(target, stems(sentence, cut), table)}


@template("morpheme_weight", learn=from_bitext(teach.learn_morphemes), columns=("morph.tgt|src", "morph.src|tgt"))
def morpheme_weight(source: Words, target: Words, *, cut: int, table: Translations, inverse: Translations) -> Dense:
    """Model 1 log-probability of each phrase's stems and suffixes given the other's, from a bitext [TA13 2.2]."""
    f, e = morphemes(source, cut), morphemes(target, cut)
    return {"morph.tgt|src": log_translated(e, f, table), "morph.src|tgt": log_translated(f, e, inverse)}


def log_translated(target: Words, given: Words, table: Translations) -> float:
    """Σ_j log max(1/(l+1) Σ_{i=0..l} t(e_j|f_i), FLOOR), the empty word first."""
    rows = [table[word] for word in ("", *given) if word in table]
    total = 0.0
    for word in target:
        p = 0.0
        for row in rows:
            if word in row:
                p += row[word]
        total += log(max(p / (len(given) + 1), FLOOR))
    return total
