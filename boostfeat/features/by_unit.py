"""Templates of one unit at a time, in plain Python: what a program that reranks a few candidates calls.

The engine computes the same features of whole lists as arrays; for ten candidates the arrays alone take longer than the answer
may. tests/features/test_by_unit.py holds every template of this module to the engine's, bit by bit.

    s, t  words of the source and the target phrase;  a  links (i, j) between them, in the order in which they were written

A dense template gives its columns by name, where they are not 0; a sparse one the names of its features, repeats included.
"""

from __future__ import annotations

import inspect
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .resources import UNKNOWN_CLUSTER

if TYPE_CHECKING:
    from .resources import Clusters

Words = Sequence[str]
Links = Sequence[tuple[int, int]]
Dense = dict[str, float]
Names = list[str]

START, END, UNKNOWN = "<s>", "</s>", "unk"


# -- words ------------------------------------------------------------------------------------------------------------

PUNCTUATION = r"^(?:[\p{P}\p{S}]|&(?:quot|apos|amp|lt|gt|#[0-9]+);)+$"  # with the escapes of Moses' tokeniser
NUMBER = r"[0-9]"
MARKS = {  # of ``word``, as Arrow has patterns
    "digit": NUMBER,
    "punct": PUNCTUATION,
    "title": r"^\p{Lu}",
    "upper": r"^[\p{Lu}\p{N}]{2,}$",
    "hyphen": r".-.",
    "apostrophe": r"['’]",
    "foreign": r"[^\p{Latin}\p{P}\p{S}\p{N}]",
}
_PUNCTUATION = re.compile(r"(?:[!-/:-@\[-`{-~]|&(?:quot|apos|amp|lt|gt|#[0-9]+);)+")  # of ASCII, all marks are \p{P} or \p{S}
_NUMBER = re.compile(NUMBER)
_GAP = re.compile(r"\[[^\[\]]+\]")


@cache
def _ascii_like(sign: str) -> str:
    """A sign of ASCII that patterns treat alike: a mark, a letter, or neither. Arrow knows, whose tables the engine has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sign_of = pa.array([sign], pa.large_string())
    classes = ((r"[\p{P}\p{S}]", "!"), (r"\p{L}", "x"))
    return next((like for pattern, like in classes if pc.match_substring_regex(sign_of, pattern)[0].as_py()), " ")


def _plain(word: str) -> str:
    return word if word.isascii() else "".join(c if c.isascii() else _ascii_like(c) for c in word)


def is_punctuation(word: str) -> bool:
    return _PUNCTUATION.fullmatch(_plain(word)) is not None


def has_letter(word: str) -> bool:
    return any(c.isalpha() for c in _plain(word))


def has_digit(word: str) -> bool:
    return _NUMBER.search(word) is not None


def unlinked(words: Words, a: Links, side: int) -> list[str]:
    """The words of one side that have no link."""
    linked = {link[side] for link in a}
    return [word for i, word in enumerate(words) if i not in linked]


# -- of the phrase pair: dense ----------------------------------------------------------------------------------------


def length(s: Words, t: Words, a: Links) -> Dense:
    n, m = float(len(s)), float(len(t))
    return {"len.src": n, "len.tgt": m, "len.diff": m - n, "len.absdiff": abs(m - n), "len.ratio": m / n if n else 0.0}


def size(s: Words, t: Words, a: Links) -> Dense:
    return {f"size.{min(len(s), 3)}x{min(len(t), 3)}": 1.0} if s and t else {}


def characters(s: Words, t: Words, a: Links) -> Dense:
    n, m = float(sum(map(len, s))), float(sum(map(len, t)))
    return {"chars.src": n, "chars.tgt": m, "chars.ratio": m / n if n else 0.0}


def unaligned(s: Words, t: Words, a: Links) -> Dense:
    out: Dense = {}
    for side, words, linked in (("src", s, {i for i, _ in a}), ("tgt", t, {j for _, j in a})):
        if len(words) > len(linked):
            out[f"un.{side}"] = float(len(words) - len(linked))
            out[f"un.{side}.first"] = float(0 not in linked)
            out[f"un.{side}.last"] = float(len(words) - 1 not in linked)
    return out


def links(s: Words, t: Words, a: Links) -> Dense:
    if not a:
        return {}
    if len(a) == 1:
        return {"al.links": 1.0, "al.most.src": 1.0, "al.most.tgt": 1.0}
    src, tgt = [i for i, _ in a], [j for _, j in a]
    return {
        "al.links": float(len(a)),
        "al.cross": float(sum(i < k and j > m for i, j in a for k, m in a)),
        "al.most.src": float(max(map(src.count, src))),
        "al.most.tgt": float(max(map(tgt.count, tgt))),
    }


def punctuation(s: Words, t: Words, a: Links) -> Dense:
    src, tgt = [w for w in s if is_punctuation(w)], [w for w in t if is_punctuation(w)]
    if not src and not tgt:
        return {}
    return {
        "punct.src": float(len(src)),
        "punct.tgt": float(len(tgt)),
        "punct.diff": float(abs(len(tgt) - len(src))),
        "punct.lost": float(sum(w not in t for w in src)),
        "punct.added": float(sum(w not in s for w in tgt)),
    }


def numbers(s: Words, t: Words, a: Links) -> Dense:
    src, tgt = [w for w in s if has_digit(w)], [w for w in t if has_digit(w)]
    if not src and not tgt:
        return {}
    return {
        "num.src": float(len(src)),
        "num.tgt": float(len(tgt)),
        "num.lost": float(sum(w not in t for w in src)),
        "num.added": float(sum(w not in s for w in tgt)),
    }


def copies(s: Words, t: Words, a: Links) -> Dense:
    same = [w for w in s if w in t]
    whole = len(same) == len(s) and all(w in s for w in t) and any(map(has_letter, s))
    return {"copy.words": float(sum(map(has_letter, same))), "copy.phrase": float(whole)} if same else {}


def deleted_words(s: Words, t: Words, a: Links, *, words: Set[str]) -> Dense:
    return _counts("del.", [w for w in unlinked(s, a, 0) if w in words])


def inserted_words(s: Words, t: Words, a: Links, *, words: Set[str]) -> Dense:
    return _counts("ins.", [w for w in unlinked(t, a, 1) if w in words])


def _counts(prefix: str, words: Sequence[str]) -> Dense:
    out: Dense = {}
    for word in words:
        out[prefix + word] = out.get(prefix + word, 0.0) + 1.0
    return out


def deleted_clusters(s: Words, t: Words, a: Links, *, clusters: Clusters) -> Dense:
    return _counts("del.c", [clusters.src.get(w, UNKNOWN_CLUSTER) for w in unlinked(s, a, 0)])


def inserted_clusters(s: Words, t: Words, a: Links, *, clusters: Clusters) -> Dense:
    return _counts("ins.c", [clusters.tgt.get(w, UNKNOWN_CLUSTER) for w in unlinked(t, a, 1)])


def cluster_signature(s: Words, t: Words, a: Links, *, signatures: Set[str], clusters: Clusters) -> Dense:
    sides = ((s, clusters.src), (t, clusters.tgt))
    name = "|".join(" ".join([of.get(w, UNKNOWN_CLUSTER) for w in words]) for words, of in sides)
    return {f"cl.{name}": 1.0} if name in signatures else {}


def word(s: Words, t: Words, a: Links) -> Dense:
    letters = float(sum(map(len, t)))
    out = {"word.letters": letters, "word.short": float(letters <= 2), "word.long": float(letters >= 9)}
    for text in t:
        for name in _marks(text):
            out[name] = out.get(name, 0.0) + 1.0
    return out


_OF_ASCII = {
    "word.digit": _NUMBER,
    "word.title": re.compile("^[A-Z]"),
    "word.upper": re.compile(r"^[A-Z0-9]{2,}\Z"),
    "word.hyphen": re.compile(".-."),
    "word.apostrophe": re.compile("'"),
    "word.foreign": re.compile("[^!-~]"),
}


@lru_cache(100_000)
def _marks(text: str) -> tuple[str, ...]:
    """The columns of ``word`` that count a word."""
    if text.isascii():
        found = [name for name, pattern in _OF_ASCII.items() if pattern.search(text)]
        return (*found, "word.punct") if is_punctuation(text) else tuple(found)
    import pyarrow as pa
    import pyarrow.compute as pc

    one = pa.array([text], pa.large_string())
    return tuple(f"word.{name}" for name, pattern in MARKS.items() if pc.match_substring_regex(one, pattern)[0].as_py())


def frequency(s: Words, t: Words, a: Links, *, frequencies: Mapping[str, tuple[int, float, int]]) -> Dense:
    out: Dense = {"freq.log": 0.0}
    for text in t:
        seen, logarithm, rank = frequencies.get(text, (0, 0.0, _MOST_WORDS))
        out["freq.log"] += logarithm
        names = [f"freq.top{most}" for most in _RANKS if rank < most]
        for name in names if seen else [*names, "freq.unknown"]:
            out[name] = out.get(name, 0.0) + 1.0
    return out


_MOST_WORDS, _RANKS = 20_000, (10, 100, 1000, 10_000)  # as in word_units


# -- of the phrase pair: sparse ---------------------------------------------------------------------------------------


def pt(s: Words, t: Words, a: Links) -> Names:
    return [f"{' '.join(s)}|{' '.join(t)}"]


def rule_id(s: Words, t: Words, a: Links) -> Names:
    return [f"{' '.join(s)}|{' '.join(t)}|{' '.join([f'{i}-{j}' for i, j in sorted(a)])}"]


def shape(s: Words, t: Words, a: Links) -> Names:
    return [f"{_runs(s)}|{_runs(t)}"]


def _runs(words: Words) -> str:
    if not any(word[0] == "[" for word in words):
        return str(len(words)) if words else ""
    runs, n = [], 0
    for word in words:
        if _GAP.fullmatch(word):
            runs += [*([str(n)] if n else []), "X"]
            n = 0
        else:
            n += 1
    return " ".join([*runs, *([str(n)] if n else [])])


def al(s: Words, t: Words, a: Links) -> Names:
    return [f"{s[i]}|{t[j]}" for i, j in a]


def deletion(s: Words, t: Words, a: Links) -> Names:
    return unlinked(s, a, 0)


def word_pair(s: Words, t: Words, a: Links) -> Names:
    return [f"{u}|{v}" for v in t for u in s]


def insertion(s: Words, t: Words, a: Links) -> Names:
    return [f"{u}|{v}" for v in unlinked(t, a, 1) for u in s]


def un(s: Words, t: Words, a: Links, *, inserted: Set[str], deleted: Set[str]) -> Names:
    added = [f"+{w}" for w in unlinked(t, a, 1) if w in inserted]
    return added + [f"-{w}" for w in unlinked(s, a, 0) if w in deleted]


# -- of a unit in its place -------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A phrase pair."""

    s: Words
    t: Words
    a: Links


class Place(NamedTuple):
    """An occurrence of a unit: its pair and features, its span, and what stands before and after it."""

    pair: Pair
    x: Mapping[str, float]  # the features of the list that a template of the plan reads
    start: int
    end: int
    prev: Pair | None
    next: Pair | None
    prev_x: Mapping[str, float] | None
    next_x: Mapping[str, float] | None
    back: int
    back_swap: int
    ahead: int
    ahead_swap: int
    source: Words
    n_src: int

    @property
    def says_where(self) -> bool:
        """Whether it covers as many words as it has; a rule with gaps does not, and its words may be anywhere."""
        return self.end - self.start == len(self.pair.s)


def position(at: Place) -> Dense:
    start, end, n = at.start, at.end, max(at.n_src, 1)
    return {
        "pos.tenth": min(max(5 * (start + end) // n, 0), 9) / 10,
        "pos.first": float(start == 0),
        "pos.last": float(end == at.n_src),
        "span.len": float(end - start),
    }


def jump(at: Place) -> Dense:
    distance = abs(at.back)
    if not distance:
        return {}
    left = float(distance) if at.back < 0 else 0.0
    return {"jump.signed": float(at.back), "jump.log": _log1p(distance), "jump.left": left, "jump.far": float(distance > 5)}


@cache
def _log1p(x: int) -> float:
    import numpy as np

    return float(np.log1p(x))  # math's differs in the last bit


def orientation(at: Place) -> Dense:
    out: Dense = {}
    for side, gap, swap in (("<", at.back, at.back_swap), (">", at.ahead, at.ahead_swap)):
        out["ori." + side + ("mono" if gap == 0 else "swap" if swap == 0 else "right" if gap > 0 else "left")] = 1.0
    return out


def lm_per_word(at: Place, *, features: Words, thresholds: Mapping[str, Mapping[str, float]]) -> Dense:
    out: Dense = {}
    n = len(at.pair.t)
    for name in features:
        value = at.x[name] / n if n else 0.0
        out[f"lm.word.{name}"] = value
        for q, below in thresholds[name].items():
            if value < below:
                out[f"lm.word.{name}<{q}"] = 1.0
    return out


Quantiles = Mapping[str, Mapping[str, list[float]]]  # by feature: "cuts" into bins, each bin's "means"


def check_bins(quantiles: Quantiles) -> None:
    """What is not as a list teaches it would be another bin for each of those that look it up, and "1.5" no number for some."""
    for found in quantiles.values():
        cuts, means = found["cuts"], found["means"]
        are_lists = isinstance(cuts, list) and isinstance(means, list)  # "" is as long as []
        are_numbers = all(type(x) in _LARGEST and abs(x) < _LARGEST[type(x)] for x in (*cuts, *means))
        if not are_lists or not are_numbers or len(means) != len(cuts) + 1 or not all(a < b for a, b in pairwise(cuts)):
            raise ValueError("cuts and means that do not fit")


_LARGEST = {float: 1e300, int: 2**53}  # arrays of larger whole numbers are none of floats


def previous(at: Place, *, features: Words, quantiles: Quantiles) -> Dense:
    return _neighbour("prev", at.prev_x, features, quantiles)


def following(at: Place, *, features: Words, quantiles: Quantiles) -> Dense:
    return _neighbour("next", at.next_x, features, quantiles)


def _neighbour(side: str, x: Mapping[str, float] | None, features: Words, quantiles: Quantiles) -> Dense:
    if x is None:
        return {f"{side}.none": 1.0}
    out: Dense = {}
    for name in features:
        bins = quantiles.get(name)
        out[f"{side}.{name}"] = x[name] if bins is None else bins["means"][bisect_left(bins["cuts"], x[name])]
    return out


def source_words(at: Place) -> Dense:
    copied = [text in at.source for text in at.pair.t]
    digits = list(map(has_digit, at.pair.t))
    return {
        "source.copy": float(sum(copied)),
        "source.number": float(sum(c and d for c, d in zip(copied, digits, strict=True))),
        "source.new_number": float(sum(d and not c for c, d in zip(copied, digits, strict=True))),
    }


FLOOR = 1e-4  # probability of a word that nothing explains

Translations = Mapping[str, Mapping[str, float]]  # t(word | given), "" is the empty word


def stems(words: Iterable[str], cut: int) -> list[str]:
    return [word[:cut] for word in words]


def model1(at: Place, *, cut: int, table: Translations) -> Dense:
    """Σ_j log max(1/(l+1) Σ_{i=0..l} t(e_j|f_i), FLOOR), the empty word first."""
    rows = [table[name] for name in ("", *stems(at.source, cut)) if name in table]
    total = 0.0
    for word in at.pair.t:
        p = 0.0
        for row in rows:
            if word in row:
                p += row[word]
        total += log(max(p / (len(at.source) + 1), FLOOR))
    return {"m1.tgt": total}


def neighbour_sizes(at: Place) -> Dense:
    out: Dense = {}
    for side, pair in (("prev", at.prev), ("next", at.next)):
        if pair is not None:
            out[f"{side}.len.src"], out[f"{side}.len.tgt"] = float(min(len(pair.s), 4)), float(min(len(pair.t), 4))
    return out


def bigram(at: Place) -> Names:
    t, before = at.pair.t, at.prev
    words = [START, *t] if before is None else [*before.t[-1:], *t]
    if at.next is None:
        words = [*words, END]
    return [f"{words[i]}|{words[i + 1]}" for i in range(len(words) - 1)] if t else []


def _class(gap: int, swap: int) -> str:
    return "mono" if gap == 0 else "swap" if swap == 0 else "disc"


def reordering(at: Place) -> Names:
    classes = ("<" + _class(at.back, at.back_swap), ">" + _class(at.ahead, at.ahead_swap), "nonmono" if at.back else "mono")
    s, t = at.pair.s, at.pair.t
    edges = [f"|src.first={s[0]}", f"|src.last={s[-1]}"] if s else []
    if t:
        edges += [f"|tgt.first={t[0]}", f"|tgt.last={t[-1]}"]
    return [name + edge for name in classes for edge in edges]


def phrase_reordering(at: Place) -> Names:
    pair = f"|{' '.join(at.pair.s)}|{' '.join(at.pair.t)}"
    out = []
    for side, gap, swap in (("<", at.back, at.back_swap), (">", at.ahead, at.ahead_swap)):
        out.append(f"{side}{_class(gap, swap)}{pair}")
        if gap:
            out.append(f"{side}nonmono{pair}")
    return out


def context(at: Place, *, pairs: Set[str]) -> Names:
    return context_of(at.pair, at.start, at.source, pairs) if at.says_where else []


def context_of(pair: Pair, start: int, source: Words, pairs: Set[str]) -> Names:
    """``context`` of a phrase pair whose words stand in the sentence from ``start`` on."""
    found = _in_context(pair, start, source)
    return [name for words, *beside in found if words in pairs for name in _beside(words, *beside)]


def context_with_unknown(at: Place, *, pairs: Set[str]) -> Names:
    known = _sources(frozenset(pairs)) | {START, END}
    out = []
    for pair, *beside in _in_context(at.pair, at.start, at.source) if at.says_where else ():
        name = pair if pair in pairs else UNKNOWN
        out += _beside(name, *(word if word in known else UNKNOWN for word in beside))
    return out


def _beside(pair: str, before: str, after: str) -> Names:
    return [f"{pair}|-{before}", f"{pair}|+{after}"]


@cache
def _sources(pairs: frozenset[str]) -> Set[str]:
    """The source words of frequent pairs."""
    return {pair.rpartition("|")[0] for pair in pairs}


def _in_context(pair: Pair, start: int, source: Words) -> Iterator[tuple[str, str, str]]:
    """Linked word pairs, with the source words before and after."""
    s, t, a = pair
    n = len(source)
    for i, j in a:
        before, after = start + i - 1, start + i + 1
        yield (
            f"{s[i]}|{t[j]}",
            source[before] if 0 <= before < n else START,
            source[after] if after < n else END,
        )


def class_ngrams(at: Place, *, clusters: Clusters) -> Names:
    if not at.pair.t:
        return []
    before, own = [START] if at.prev is None else _classes(at.prev.t[-2:], clusters.tgt), _classes(at.pair.t, clusters.tgt)
    text = [*before, *own]
    out = ["|".join(text[k - n : k + 1]) for k in range(len(before), len(text)) for n in (1, 2) if k >= n]
    return out + (["|".join((*own[-n:], END)) for n in (1, 2) if len(own) >= n] if at.next is None else [])


def class_reordering(at: Place, *, clusters: Clusters) -> Names:
    s, t = _classes(at.pair.s, clusters.src), _classes(at.pair.t, clusters.tgt)
    edges = [f"|{side}.{end}={words[k]}" for side, words in (("src", s), ("tgt", t)) if words for end, k in _ENDS]
    sides = (f"<{_class(at.back, at.back_swap)}", f">{_class(at.ahead, at.ahead_swap)}")
    return [side + edge for side in sides for edge in edges]


def class_context(at: Place, *, clusters: Clusters) -> Names:
    if not at.says_where:
        return []
    pair = Pair(_classes(at.pair.s, clusters.src), _classes(at.pair.t, clusters.tgt), at.pair.a)
    found = _in_context(pair, at.start, _classes(at.source, clusters.src))
    return [name for words, *beside in found for name in _beside(words, *beside)]


_ENDS = (("first", 0), ("last", -1))


def _classes(words: Words, clusters: Mapping[str, str]) -> list[str]:
    return [clusters.get(word, UNKNOWN_CLUSTER) for word in words]


# -- the registry -----------------------------------------------------------------------------------------------------


class ByUnit(NamedTuple):
    """``compute`` of (s, t, a), or of a Place, with the template's options."""

    compute: Callable[..., Any]
    of: Literal["pair", "place"]
    is_sparse: bool
    reads: tuple[str, ...]  # as the engine's template


_SRC, _TGT, _ALIGN = "source phrase", "target phrase", "alignment"
_BOTH, _ALIGNED = (_SRC, _TGT), (_SRC, _TGT, _ALIGN)
_SPANS = ("previous span", "following span")
_IN_SENTENCE = (*_ALIGNED, "span", "source sentence")

BY_UNIT: dict[str, ByUnit] = {
    "length": ByUnit(length, "pair", False, _BOTH),
    "size": ByUnit(size, "pair", False, _BOTH),
    "characters": ByUnit(characters, "pair", False, _BOTH),
    "unaligned": ByUnit(unaligned, "pair", False, _ALIGNED),
    "links": ByUnit(links, "pair", False, _ALIGNED),
    "punctuation": ByUnit(punctuation, "pair", False, _BOTH),
    "numbers": ByUnit(numbers, "pair", False, _BOTH),
    "copies": ByUnit(copies, "pair", False, _BOTH),
    "deleted_words": ByUnit(deleted_words, "pair", False, _ALIGNED),
    "inserted_words": ByUnit(inserted_words, "pair", False, _ALIGNED),
    "deleted_clusters": ByUnit(deleted_clusters, "pair", False, (*_ALIGNED, "clusters")),
    "inserted_clusters": ByUnit(inserted_clusters, "pair", False, (*_ALIGNED, "clusters")),
    "cluster_signature": ByUnit(cluster_signature, "pair", False, (*_BOTH, "clusters")),
    "word": ByUnit(word, "pair", False, (_TGT,)),
    "frequency": ByUnit(frequency, "pair", False, (_TGT,)),
    "source_words": ByUnit(source_words, "place", False, (_TGT, "source sentence")),
    "model1": ByUnit(model1, "place", False, (_TGT, "source sentence")),
    "pt": ByUnit(pt, "pair", True, _BOTH),
    "id": ByUnit(rule_id, "pair", True, _ALIGNED),
    "shape": ByUnit(shape, "pair", True, _BOTH),
    "al": ByUnit(al, "pair", True, _ALIGNED),
    "del": ByUnit(deletion, "pair", True, _ALIGNED),
    "wp": ByUnit(word_pair, "pair", True, _BOTH),
    "ins": ByUnit(insertion, "pair", True, _ALIGNED),
    "un": ByUnit(un, "pair", True, _ALIGNED),
    "lm_per_word": ByUnit(lm_per_word, "place", False, (_TGT, "features")),
    "position": ByUnit(position, "place", False, ("span",)),
    "jump": ByUnit(jump, "place", False, ("previous span",)),
    "orientation": ByUnit(orientation, "place", False, _SPANS),
    "previous": ByUnit(previous, "place", False, ("previous features",)),
    "following": ByUnit(following, "place", False, ("following features",)),
    "neighbour_sizes": ByUnit(neighbour_sizes, "place", False, ("previous unit", "following unit")),
    "bi": ByUnit(bigram, "place", True, (_TGT, "previous unit", "following unit")),
    "lo": ByUnit(reordering, "place", True, (*_BOTH, *_SPANS)),
    "ro": ByUnit(phrase_reordering, "place", True, (*_BOTH, *_SPANS)),
    "cx": ByUnit(context, "place", True, _IN_SENTENCE),
    "cu": ByUnit(context_with_unknown, "place", True, _IN_SENTENCE),
    "cb": ByUnit(class_ngrams, "place", True, (_TGT, "previous unit", "following unit", "clusters")),
    "co": ByUnit(class_reordering, "place", True, (*_BOTH, *_SPANS, "clusters")),
    "cc": ByUnit(class_context, "place", True, (*_IN_SENTENCE, "clusters")),
}


_LIKE_SETS = ("words", "inserted", "deleted", "pairs", "signatures")  # options that templates only look words up in


def bound(name: str, learnt: Mapping[str, Any], clusters: Clusters | None) -> Callable[..., Any]:
    """A template with what its plan holds of it; TypeError, ValueError or KeyError where that is not what a list has taught."""
    compute = BY_UNIT[name].compute
    taken = [p.name for p in inspect.signature(compute).parameters.values() if p.kind is p.KEYWORD_ONLY]
    given = {**learnt, "clusters": clusters}
    for texts in (given[option] for option in taken if option in _LIKE_SETS):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len({*texts}) < len(texts):
            raise TypeError(f"template {name!r}: expected lists of distinct words")
    if "clusters" in taken and (clusters is None or set(map(type, (*clusters.src.values(), *clusters.tgt.values()))) - {str}):
        raise TypeError(f"template {name!r}: expected names of clusters")
    if "quantiles" in taken:
        check_bins(given["quantiles"])
    if "frequencies" in taken:
        given["frequencies"] = _ranked(given["frequencies"])
    options = {option: frozenset(given[option]) if option in _LIKE_SETS else given[option] for option in taken}
    return partial(compute, **options) if options else compute


def _ranked(frequencies: Mapping[str, int]) -> dict[str, tuple[int, float, int]]:
    """How often each word was seen, ln(1 + that), and its rank."""
    import numpy as np

    if set(map(type, frequencies.values())) - {int} or min(frequencies.values(), default=0) < 0:
        raise TypeError("template 'frequency': expected numbers of words")
    logs = np.log1p(np.array(list(frequencies.values()), np.float64)).tolist()
    return {text: (n, logs[k], k) for k, (text, n) in enumerate(frequencies.items())}
