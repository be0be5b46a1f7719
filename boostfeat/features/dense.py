"""Dense templates: a few columns each, most of [TA13 2.2]'s large set. Word-based ones are in ``lexical``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, Array, Bool
from ..core.kernels import kernel
from ..core.printed_numbers import Precision
from ..lists.nbest import NBest
from ..lists.precision import precision_of
from ..lists.words import Words, positions
from .by_unit import NUMBER, PUNCTUATION
from .context import Corpus, Rows
from .lexicon import phrase_weight
from .registry import Counted, Dense, Tally, template

LANGUAGE_MODEL = re.compile(r"(?i)^(lm|languagemodel)\d*$|^lm[_.]|_lm$")
QUANTILES = {"q10": 0.1, "q25": 0.25, "q75": 0.75, "q90": 0.9}


def _number(values: Array) -> F64:
    return np.asarray(values, np.float64)


def _ratio(a: F64, b: F64) -> F64:
    """a / b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(len(a)), where=b != 0)


# -- sizes ------------------------------------------------------------------------------------------------------------


@template("length", kind="static", reads=("source phrase", "target phrase"))
def length(rows: Rows) -> Dense:
    """Source and target word counts, their difference and ratio."""
    src, tgt = _number(rows.src.counts), _number(rows.tgt.counts)
    return {
        "len.src": src,
        "len.tgt": tgt,
        "len.diff": tgt - src,
        "len.absdiff": np.abs(tgt - src),
        "len.ratio": _ratio(tgt, src),
    }


@template("size", kind="static", reads=("source phrase", "target phrase"))
def size(rows: Rows) -> Dense:
    """Indicators of 1, 2, 3 or more source words by 1, 2, 3 or more target words."""
    src, tgt = np.minimum(rows.src.counts, 3), np.minimum(rows.tgt.counts, 3)
    return {f"size.{s}x{t}": _number((src == s) & (tgt == t)) for s in (1, 2, 3) for t in (1, 2, 3)}


@template("characters", kind="static", reads=("source phrase", "target phrase"))
def characters(rows: Rows) -> Dense:
    """Characters of both phrases without blanks, and their ratio."""
    src, tgt = _characters(rows.src), _characters(rows.tgt)
    return {"chars.src": src, "chars.tgt": tgt, "chars.ratio": _ratio(tgt, src)}


def _characters(words: Words) -> F64:
    import pyarrow.compute as pc

    lengths = pc.utf8_length(words.names).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.bincount(words.owner, lengths[words.ids], minlength=len(words)).astype(np.float64)


# -- decoder features -------------------------------------------------------------------------------------------------


def _lm_names(names: Sequence[str], features: list[str] | None) -> list[str]:
    return [name for name in names if LANGUAGE_MODEL.search(name)] if features is None else features


def _lacks_lm(names: Sequence[str], options: Mapping[str, Any]) -> str | None:
    found = _lm_names(names, options.get("features"))
    if found and set(found) <= set(names):
        return None
    return (
        f"a language model among the list's features ({', '.join(names) or 'none'}); name it with features = [...] in a TOML file"
    )


def _count_lm(rows: Rows, counts: I64, *, features: list[str] | None = None) -> dict[str, Tally]:
    return {name: (_per_word(rows, name), counts) for name in _lm_names(rows.corpus.nbest.unit_names, features)}


def _choose_lm(corpus: Corpus, tallies: dict[str, Tally]) -> dict[str, Any]:
    thresholds = {}
    for name, (value, counts) in tallies.items():
        order = np.argsort(value, kind="stable")
        share = np.cumsum(counts[order]) / max(counts.sum(), 1)
        precision = _per_word_precision(corpus.nbest, name)
        quantiles = {q: float(value[order[np.searchsorted(share, p)]]) if len(value) else 0.0 for q, p in QUANTILES.items()}
        # a number that no phrase has: one that the list shows is on another side of it inside the decoder, or is not
        thresholds[name] = {q: precision.below(value, at) if len(value) else at for q, at in quantiles.items()}
    return {"features": list(tallies), "thresholds": thresholds}


def _per_word_precision(nbest: NBest, name: str) -> Precision:
    return precision_of(nbest, [name])[0].coarsest(nbest.X[:, nbest.unit_names.index(name)])


def derived_precision(nbest: NBest, made: Iterable[str]) -> dict[str, Precision]:
    """Of those features, made by templates, that are not exact since what they are made of is not."""
    per_word = {name: name.removeprefix("lm.word.") for name in made if name.startswith("lm.word.") and "<" not in name}
    return {name: _per_word_precision(nbest, of) for name, of in per_word.items()}


def _per_word(rows: Rows, name: str) -> F64:
    return _ratio(rows.feature(name), _number(rows.tgt.counts))


@template("lm_per_word", kind="contextual", reads=("target phrase", "features"), learn=Counted(_count_lm, _choose_lm, _lacks_lm))
def lm_per_word(rows: Rows, *, features: list[str], thresholds: dict[str, dict[str, float]]) -> Dense:
    """Language-model score per target word, and whether it is below quantiles of the dev list's."""
    out: Dense = {}
    for name in features:
        value = _per_word(rows, name)
        out[f"lm.word.{name}"] = value
        out |= {f"lm.word.{name}<{q}": _number(value < at) for q, at in thresholds[name].items()}
    return out


# -- place and order --------------------------------------------------------------------------------------------------


@template("position", kind="contextual", reads=("span",))
def position(rows: Rows) -> Dense:
    """Where in the source sentence: in tenths, whether at its edges, span length."""
    start, end, n = rows["start"], rows["end"], np.maximum(rows["n_src"], 1)
    return {
        "pos.tenth": _number(np.clip(5 * (start + end) // n, 0, 9)) / 10,  # coarse, so that few units are told apart
        "pos.first": _number(start == 0),
        "pos.last": _number(end == rows["n_src"]),
        "span.len": _number(end - start),
    }


@template("jump", kind="contextual", reads=("previous span",))
def jump(rows: Rows) -> Dense:
    """Distance to the previous unit in the source, in words."""
    back = rows["back"]
    distance = np.abs(back)
    return {
        "jump.signed": _number(back),
        "jump.log": np.log1p(distance),
        "jump.left": _number(np.where(back < 0, distance, 0)),
        "jump.far": _number(distance > 5),
    }


@template("orientation", kind="contextual", reads=("previous span", "following span"))
def orientation(rows: Rows) -> Dense:
    """Monotone, swap or discontinuous to the right or left, after the previous unit (<) and before the following one (>)."""
    out: Dense = {}
    for side, gap, swap in (("<", "back", "back_swap"), (">", "ahead", "ahead_swap")):
        is_mono, is_swap = rows[gap] == 0, rows[swap] == 0
        other = ~is_mono & ~is_swap
        out |= {f"ori.{side}mono": _number(is_mono), f"ori.{side}swap": _number(is_swap & ~is_mono)}
        out |= {f"ori.{side}right": _number(other & (rows[gap] > 0)), f"ori.{side}left": _number(other & (rows[gap] < 0))}
    return out


# -- alignment --------------------------------------------------------------------------------------------------------


@template("unaligned", kind="static", reads=("source phrase", "target phrase", "alignment"))
def unaligned(rows: Rows) -> Dense:
    """Unaligned words of both sides, in all and at the phrases' edges."""
    out: Dense = {}
    for side, words, linked in (("src", rows.src, rows.src_linked), ("tgt", rows.tgt, rows.tgt_linked)):
        some = words.counts > 0
        first, last = np.zeros((2, len(rows)))
        first[some] = ~linked[words.ptr[:-1][some]]
        last[some] = ~linked[words.ptr[1:][some] - 1]
        out |= {f"un.{side}": words.per_row(~linked), f"un.{side}.first": first, f"un.{side}.last": last}
    return out


@template("links", kind="static", reads=("source phrase", "target phrase", "alignment"))
def links(rows: Rows) -> Dense:
    """Links, their crossings, and the largest number of links of one word."""
    at = rows.links
    most = []
    for words, place in ((rows.src, at.src), (rows.tgt, at.tgt)):
        fertility = np.bincount(words.ptr[at.owner] + place, minlength=len(words.ids))
        largest = np.zeros(len(rows))
        np.maximum.at(largest, words.owner, fertility)
        most.append(largest)
    crossings = np.zeros(len(rows))
    _crossings(at.ptr, at.src, at.tgt, crossings)
    return {"al.links": _number(np.diff(at.ptr)), "al.cross": crossings, "al.most.src": most[0], "al.most.tgt": most[1]}


@kernel
def _crossings(ptr, src, tgt, out):  # type: ignore[no-untyped-def]
    """OUT the number of pairs of links (i, j), (i', j') with i < i' and j > j'."""
    for r in range(len(ptr) - 1):
        for a in range(ptr[r], ptr[r + 1]):
            for b in range(ptr[r], ptr[r + 1]):
                if src[a] < src[b] and tgt[a] > tgt[b]:
                    out[r] += 1


# -- agreement --------------------------------------------------------------------------------------------------------


@template("punctuation", kind="static", reads=("source phrase", "target phrase"))
def punctuation(rows: Rows) -> Dense:
    """Punctuation of both sides, and how much they disagree."""
    src, tgt = rows.src.matches(PUNCTUATION), rows.tgt.matches(PUNCTUATION)
    n_src, n_tgt = rows.src.per_row(src), rows.tgt.per_row(tgt)
    lost, added = _agreement(rows)
    return {
        "punct.src": n_src,
        "punct.tgt": n_tgt,
        "punct.diff": np.abs(n_tgt - n_src),
        "punct.lost": rows.src.per_row(src & lost),
        "punct.added": rows.tgt.per_row(tgt & added),
    }


@template("numbers", kind="static", reads=("source phrase", "target phrase"))
def numbers(rows: Rows) -> Dense:
    """Words with digits, and those that the other side lacks."""
    src, tgt = rows.src.matches(NUMBER), rows.tgt.matches(NUMBER)
    lost, added = _agreement(rows)
    return {
        "num.src": rows.src.per_row(src),
        "num.tgt": rows.tgt.per_row(tgt),
        "num.lost": rows.src.per_row(src & lost),
        "num.added": rows.tgt.per_row(tgt & added),
    }


@template("copies", kind="static", reads=("source phrase", "target phrase"))
def copies(rows: Rows) -> Dense:
    """Words with letters that both sides have, and whether the whole phrase is copied."""
    letters = rows.src.matches(r"\p{L}")
    lost, added = _agreement(rows)
    whole = (rows.src.per_row(lost) == 0) & (rows.tgt.per_row(added) == 0) & (rows.src.per_row(letters) > 0)
    return {"copy.words": rows.src.per_row(letters & ~lost), "copy.phrase": _number(whole)}


def _agreement(rows: Rows) -> tuple[Bool, Bool]:
    """[source tokens] that the target phrase lacks, and [target tokens] that the source phrase lacks."""
    same = positions(rows.src.names, rows.tgt.names)[rows.src.ids]  # source words as target words
    lost, added = np.ones(len(rows.src.ids), bool), np.ones(len(rows.tgt.ids), bool)
    _unmatched(rows.src.ptr, same, rows.tgt.ptr, rows.tgt.ids, lost, added)
    return lost, added


@kernel
def _unmatched(src_ptr, src, tgt_ptr, tgt, lost, added):  # type: ignore[no-untyped-def]
    """OUT lost, added: False where the same word is on the other side of the row."""
    for r in range(len(src_ptr) - 1):
        for i in range(src_ptr[r], src_ptr[r + 1]):
            for j in range(tgt_ptr[r], tgt_ptr[r + 1]):
                if src[i] == tgt[j]:
                    lost[i] = added[j] = False


# -- what the user gives ----------------------------------------------------------------------------------------------


@template("phrase_count", kind="static", reads=("source phrase", "target phrase", "phrase table"))
def phrase_count(rows: Rows) -> Dense:
    """Joint count of the phrase pair in the given phrase table: its logarithm, and whether it is 0 or 1."""
    table = rows.resources.phrase_counts or {}
    pairs = zip(rows.src.joined().to_pylist(), rows.tgt.joined().to_pylist(), strict=True)
    return count_features(np.array([table.get(pair, 0.0) for pair in pairs]))


def count_features(n: F64) -> Dense:
    """Of joint counts [n], wherever they come from."""
    return {"count.log": np.log1p(n), "count.0": _number(n == 0), "count.1": _number(n == 1)}


@template("lexical_weight", kind="static", reads=("source phrase", "target phrase", "bitext"))
def lexical_weight(rows: Rows) -> Dense:
    """Model 1 log-probability of each phrase given the other, from the given parallel text."""
    assert rows.resources.bitext is not None  # checked by Template.lacks
    lexicon = rows.resources.bitext.lexicon
    return {
        "lex.tgt|src": phrase_weight(lexicon.tgt_given_src, rows.src, rows.tgt),
        "lex.src|tgt": phrase_weight(lexicon.src_given_tgt, rows.tgt, rows.src),
    }


# -- whole hypotheses -------------------------------------------------------------------------------------------------


@template("hypothesis", kind="global", reads=("hypothesis", "source sentence"))
def hypothesis(rows: Rows) -> Dense:
    """Length beside the source's, words repeated at once, brackets that do not match: no unit can carry these."""
    hyps = rows.hyps
    n_src = _number(rows.sentences.counts[rows["sent"]])
    n = _number(hyps.counts)
    repeated = np.zeros(len(hyps.ids), bool)
    repeated[1:] = (hyps.ids[1:] == hyps.ids[:-1]) & (hyps.owner[1:] == hyps.owner[:-1])
    brackets = hyps.per_row(hyps.matches(r"^[(\[{]$")) - hyps.per_row(hyps.matches(r"^[)\]}]$"))
    return {
        "hyp.length": np.abs(np.log(np.maximum(n, 1) / np.maximum(n_src, 1))),
        "hyp.repeats": hyps.per_row(repeated),
        "hyp.brackets": np.abs(brackets),
    }
