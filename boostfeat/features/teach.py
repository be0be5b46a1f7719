"""Learning from lists and references for templates: frequent names, thresholds, bins, word frequencies and translations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..core.printed_numbers import Precision
from ..core.text import split_words
from ..lists.nbest import NBest, strings
from ..lists.precision import precision_of
from ..lists.words import Words, words_of
from .groups import DECODER, feature_kinds
from .lexicon import model1
from .registry import Counted, Tally
from .resources import Resources

Tallies = Mapping[str, Tally]
SentencePairs = Sequence[tuple[str, str]]  # (source, reference) of sentences

# -- frequent names ---------------------------------------------------------------------------------------------------


def most_frequent(tally: Tally, top: int) -> list[str]:
    """Give the top names by falling count; equal counts by name, so that the order in which they were met does not matter."""
    return [name for name, n in sorted(tally.items(), key=lambda item: (-item[1], item[0]))[:top] if n]


def frequent(most: int, count: Callable[..., Mapping[str, Sequence[str]]], *names: str) -> Counted:
    """Learn the most frequent of what a function counts under these names, an option each; ``top`` says how many."""

    def choose(nbest: NBest, resources: Resources, tallies: Tallies, *, top: int = most) -> dict[str, Any]:
        return {name: most_frequent(tallies.get(name, Counter()), top) for name in names}

    return Counted(count, choose)


def choose_corpus_pairs(nbest: NBest, resources: Resources, tallies: Tallies, *, top: int = 300) -> dict[str, Any]:
    """Choose pairs by how often two words were a phrase pair in training, by the phrase table, or else in the list."""
    pairs = tallies.get("pairs", Counter())
    if known := resources.phrase_counts:
        pairs = Counter({f"{src}|{tgt}": n for (src, tgt), n in known.items() if " " not in src and " " not in tgt})
    return {"pairs": most_frequent(pairs, top)}


# -- language models among the list's features ------------------------------------------------------------------------

LANGUAGE_MODEL = re.compile(r"(?i)^(lm|languagemodel)\d*$|^lm[_.]|_lm$")
QUANTILES = {"q10": 0.1, "q25": 0.25, "q75": 0.75, "q90": 0.9}


@cache
def _language_models(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if LANGUAGE_MODEL.search(name)]


def lacks_language_model(names: Sequence[str], options: Mapping[str, Any]) -> str | None:
    found = _language_models(tuple(names)) if options.get("features") is None else options["features"]
    if found and set(found) <= set(names):
        return None
    return (
        f"a language model among the list's features ({', '.join(names) or 'none'}); name it with features = [...] in a TOML file"
    )


def learn_language_models(nbest: NBest, resources: Resources, *, features: list[str] | None = None) -> dict[str, Any]:
    """Learn quantiles of scores per target word."""
    names, thresholds = _language_models(nbest.unit_names) if features is None else features, {}
    words, times = words_of(nbest.units.tgt).counts, np.bincount(nbest.unit_idx, minlength=nbest.n_units)
    for name in names:
        x = nbest.X[:, nbest.unit_names.index(name)]
        value, n = tally(np.divide(x, words, out=np.zeros(len(x)), where=words > 0), times)
        share, precision = np.cumsum(n) / max(n.sum(), 1), per_word_precision(nbest, name)
        quantiles = {q: float(value[np.searchsorted(share, p)]) if len(value) else 0.0 for q, p in QUANTILES.items()}
        # a number that no phrase has: one that the list shows is on another side of it inside the decoder, or is not
        thresholds[name] = {q: precision.below(value, x) if len(value) else x for q, x in quantiles.items()}
    return {"features": names, "thresholds": thresholds}


def tally(x: F64, times: I64) -> tuple[F64, F64]:
    """Return the distinct numbers that occur, rising, and how often each does."""
    values, which = np.unique(x[times > 0], return_inverse=True)
    return values, np.bincount(which, times[times > 0], minlength=len(values)).astype(np.float64)


def per_word_precision(nbest: NBest, name: str) -> Precision:
    return precision_of(nbest, [name])[0].coarsest(nbest.X[:, nbest.unit_names.index(name)])


def derived_precision(nbest: NBest, made: Sequence[str]) -> dict[str, Precision]:
    """Return the precision of features, made by templates, that are not exact since what they are made of is not."""
    per_word = {name: name.removeprefix("lm.word.") for name in made if name.startswith("lm.word.") and "<" not in name}
    return {name: per_word_precision(nbest, of) for name, of in per_word.items()}


# -- bins of neighbours' features -------------------------------------------------------------------------------------

# Exact values tell apart units that differ only in their surroundings (2.6 times as many on 200-best lists); binned ones keep
# most of the redundancy that makes boosting fast.


def learn_bins(*, previous: bool) -> Callable[..., dict[str, Any]]:
    """Learn bins of the features of previous units, or of following ones."""

    def learn(nbest: NBest, resources: Resources, *, features: list[str] | None = None, bins: int = 4) -> dict[str, Any]:
        kinds = feature_kinds(nbest)
        chosen = [name for name in nbest.unit_names if kinds[name][0] == DECODER] if features is None else features
        if unknown := [name for name in chosen if name not in nbest.unit_names]:
            raise InputError(
                f"neighbours: expected features of the list ({', '.join(nbest.unit_names) or 'none'}), found {unknown[0]!r}; "
                "correct features = [...] in the TOML file"
            )
        if not isinstance(bins, int) or bins < 0:
            raise InputError(f"neighbours: expected bins of at least 0 (0: exact values), found {bins!r}; correct the TOML file")
        ptr, is_beside = nbest.unit_ptr, np.ones(nbest.n_occurrences, bool)
        edges = ptr[1:] - 1 if previous else ptr[:-1]  # no unit's previous one is the last
        is_beside[edges[np.diff(ptr) > 0]] = False
        times = np.bincount(nbest.unit_idx[is_beside], minlength=nbest.n_units)
        columns = {name: nbest.X[:, nbest.unit_names.index(name)] for name in chosen if bins}
        return {"features": list(chosen), "quantiles": {name: quantile_bins(x, times, bins) for name, x in columns.items()}}

    return learn


def quantile_bins(x: F64, times: I64, n: int) -> dict[str, list[float]]:
    """Cut numbers into at most n bins of equally many occurrences, and give each bin's mean. Bin k is cut[k-1] < x <= cut[k]."""
    x, counts = tally(x, times)
    if not len(x):
        return {"cuts": [], "means": [0.0]}
    share = np.cumsum(counts) / counts.sum()
    cuts = np.unique(x[np.minimum(np.searchsorted(share, np.arange(1, n) / n), len(x) - 1)])
    cuts = cuts[cuts < x.max()]  # no empty bin above the highest
    bin_of = np.searchsorted(cuts, x)
    means = np.bincount(bin_of, x * counts) / np.bincount(bin_of, counts)
    return {"cuts": cuts.tolist(), "means": means.tolist()}


# -- words ------------------------------------------------------------------------------------------------------------

MOST_WORDS = 20_000  # whose frequencies are kept: the others are rare


def learn_frequencies(bitext: SentencePairs) -> dict[str, Any]:
    """Count the words of references, the most frequent ones first."""
    seen = Counter(token for _, ref in bitext for token in split_words(ref))
    return {"frequencies": dict(sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS])}


def learn_language_model(nbest: NBest, resources: Resources) -> dict[str, Any]:
    return {"model": resources.lm.signature if resources.lm else ""}


# -- translations by Model 1 --------------------------------------------------------------------------------------------

# A table that has seen a sentence's reference knows it too well. So the list that teaches has its features by tables of other
# sentences: blocks of neighbours, each by what the other blocks teach (registry.FromPairs).

PROBABLE = 0.001  # translations of less probability are forgotten: a model carries its table
CUT = 5  # letters of a source word


def learn_translations(*, inverse: bool) -> Callable[..., dict[str, Any]]:
    """Learn t(word | stem of a source word), or the other way round."""

    def learn(bitext: SentencePairs, *, cut: int = CUT) -> dict[str, Any]:
        f = words_of(strings([" ".join(word[:cut] for word in split_words(source)) for source, _ in bitext]))
        e = words_of(strings([ref for _, ref in bitext]))
        return {"cut": cut, "table": _translations(e, f) if inverse else _translations(f, e)}

    return learn


def learn_morphemes(bitext: SentencePairs, *, cut: int = CUT) -> dict[str, Any]:
    """Learn t(morpheme | morpheme) both ways."""
    f, e = (words_of(strings([" ".join(morphemes(split_words(pair[k]), cut)) for pair in bitext])) for k in (0, 1))
    return {"cut": cut, "table": _translations(f, e), "inverse": _translations(e, f)}


def morphemes(words: Sequence[str], cut: int) -> list[str]:
    """Give the first letters of words as stems, and what follows as suffixes: talo +issa."""
    return [part for word in words for part in (word[:cut], word[cut:] and f"+{word[cut:]}") if part]


def _translations(f: Words, e: Words) -> dict[str, dict[str, float]]:
    """Return the t(e | f) that are worth keeping, by f; "" is the empty word."""
    table = model1(f, e)
    given, words, some = ["", *table.given.to_pylist()], table.words.to_pylist(), table.prob >= PROBABLE
    out: dict[str, dict[str, float]] = {}
    for key, p in zip(table.keys[some].tolist(), table.prob[some].tolist(), strict=True):
        out.setdefault(given[key // len(words)], {})[words[key % len(words)]] = float(f"{p:.4g}")
    return out
