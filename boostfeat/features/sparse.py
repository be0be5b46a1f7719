"""Sparse templates: indicators of rules, words, alignments and order. [G13 4.1], [E12 3.3], [EMR13 4.2]

A feature's name is the template's, a colon, and what it indicates: ``pt:talo|house``. Repeats within a unit count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import I64, Array, offsets, segment_positions
from ..core.strings import Strings
from ..lists.nbest import numbers, strings, take_strings
from ..lists.words import NONE, Words, concat, positions
from .context import Corpus, Rows
from .lexical import frequent, most_frequent, word_counts
from .registry import Counted, Sparse, Tally, template
from .resources import UNKNOWN_CLUSTER

START, END, UNKNOWN = "<s>", "</s>", "unk"


def indicators(row: I64, texts: Strings) -> Sparse:
    """A feature for each distinct text."""
    found = texts.dictionary_encode()
    return Sparse(row, found.dictionary, found.indices.to_numpy(zero_copy_only=False).astype(np.int64))


def word_indicators(row: I64, words: I64, names: Strings, before: str = "") -> Sparse:
    """A feature for each distinct word; NONE makes none."""
    row, words = row[words >= 0], words[words >= 0]
    distinct, idx = np.unique(words, return_inverse=True)
    return Sparse(row, concat(before, take_strings(names, distinct)), idx)


def pair_indicators(row: I64, a: I64, a_names: Strings, b: I64, b_names: Strings) -> Sparse:
    """A feature ``a|b`` for each distinct pair of words: names are made for those only."""
    width = max(len(b_names), 1)
    distinct, idx = np.unique(a * width + b, return_inverse=True)
    return Sparse(row, concat(take_strings(a_names, distinct // width), "|", take_strings(b_names, distinct % width)), idx)


def together(*parts: Sparse) -> Sparse:
    """All the features of several results."""
    shift = np.cumsum([0, *(len(p.names) for p in parts)])
    names = pa.chunked_array([p.names for p in parts], pa.large_string()).combine_chunks()
    return Sparse(np.concatenate([p.row for p in parts]), names, np.concatenate([p.idx + shift[k] for k, p in enumerate(parts)]))


# -- rules [G13] PT, [EMR13] rule id and shape ------------------------------------------------------------------------


@template("pt", kind="static", reads=("source phrase", "target phrase"))
def pt(rows: Rows) -> Sparse:
    """The phrase pair: ``pt:talo|house`` [G13 PT]."""
    return indicators(np.arange(len(rows)), concat(rows.src.joined(), "|", rows.tgt.joined()))


@template("id", kind="static", reads=("source phrase", "target phrase", "alignment"))
def rule_id(rows: Rows) -> Sparse:
    """The rule with its alignment, which tells apart rules of the same words: ``id:talo|a house|0-1`` [EMR13]."""
    links = rows.links
    order = np.lexsort((links.tgt, links.src, links.owner))  # tables and lists write the same links in different orders
    number = strings([str(k) for k in range(int(max(links.src.max(initial=0), links.tgt.max(initial=0))) + 1)])
    texts = concat(take_strings(number, links.src[order]), "-", take_strings(number, links.tgt[order]))
    align = pc.binary_join(pa.LargeListArray.from_arrays(numbers(links.ptr), texts), pa.scalar(" ", pa.large_string()))
    return indicators(np.arange(len(rows)), concat(rows.src.joined(), "|", rows.tgt.joined(), "|", align))


@template("shape", kind="static", reads=("source phrase", "target phrase"))
def shape(rows: Rows) -> Sparse:
    """Runs of words and gaps of both sides, ``shape:2|3``, or ``shape:1 X 2|X 1`` for a hierarchical rule [EMR13]."""
    return indicators(np.arange(len(rows)), concat(_runs(rows.src), "|", _runs(rows.tgt)))


def _runs(words: Words) -> Strings:
    """[n] '2' for two words, '1 X 2' for a word, a nonterminal, two words."""
    gap = words.matches(r"^\[[^\[\]]+\]$")
    starts = np.ones(len(words.ids), bool)  # of runs: a gap is always one of its own
    starts[1:] = gap[1:] | gap[:-1] | (words.owner[1:] != words.owner[:-1])
    first = np.flatnonzero(starts)
    lengths = np.diff(first, append=len(words.ids))
    names = strings([str(k) for k in range(int(lengths.max(initial=0)) + 1)] + ["X"])
    which = np.where(gap[first], len(names) - 1, lengths)
    ptr = np.searchsorted(first, words.ptr)
    return Words(ptr, which, names).joined()


# -- words inside the phrase pair [G13] AL, [E12] ---------------------------------------------------------------------


@template("al", kind="static", reads=("source phrase", "target phrase", "alignment"))
def al(rows: Rows) -> Sparse:
    """Linked words: ``al:talo|house`` [G13 AL]."""
    src, tgt = rows.link_words
    return pair_indicators(rows.links.owner, src, rows.src.names, tgt, rows.tgt.names)


@template("del", kind="static", reads=("source phrase", "target phrase", "alignment"))
def deletion(rows: Rows) -> Sparse:
    """Deleted source words: ``del:ja`` [G13 AL]."""
    gone = ~rows.src_linked
    return word_indicators(rows.src.owner[gone], rows.src.ids[gone], rows.src.names)


@template("wp", kind="static", reads=("source phrase", "target phrase"))
def word_pair(rows: Rows) -> Sparse:
    """Every source word with every target word of the phrase pair, linked or not: ``wp:talo|house`` [E12]."""
    return _cross(rows, np.arange(len(rows.tgt.ids)))


@template("ins", kind="static", reads=("source phrase", "target phrase", "alignment"))
def insertion(rows: Rows) -> Sparse:
    """An inserted target word with every source word of the phrase pair: ``ins:talo|the`` [E12]."""
    return _cross(rows, np.flatnonzero(~rows.tgt_linked))


def _cross(rows: Rows, tokens: I64) -> Sparse:
    """Target tokens with all the source words of their rows."""
    row = rows.tgt.owner[tokens]
    src = rows.src.ids[segment_positions(rows.src.ptr, row)]
    n = rows.src.counts[row]
    return pair_indicators(np.repeat(row, n), src, rows.src.names, np.repeat(rows.tgt.ids[tokens], n), rows.tgt.names)


@template(
    "un",
    kind="static",
    reads=("source phrase", "target phrase", "alignment"),
    learn=frequent(
        150,
        inserted=lambda rows, counts: word_counts(rows.tgt, counts, ~rows.tgt_linked),
        deleted=lambda rows, counts: word_counts(rows.src, counts, ~rows.src_linked),
    ),
)
def un(rows: Rows, *, inserted: list[str], deleted: list[str]) -> Sparse:
    """The words that are unaligned most often, where they are: ``un:+the`` inserted, ``un:-ja`` deleted [EMR13]."""
    parts = []
    for before, words, linked, kept in (("+", rows.tgt, rows.tgt_linked, inserted), ("-", rows.src, rows.src_linked, deleted)):
        some = ~linked & (words.find(kept) >= 0)
        parts.append(word_indicators(words.owner[some], words.ids[some], words.names, before))
    return together(*parts)


# -- context ----------------------------------------------------------------------------------------------------------


@template("bi", kind="contextual", reads=("target phrase", "previous unit", "following unit"))
def bigram(rows: Rows) -> Sparse:
    """Target bigrams, within the phrase and with the last word of the previous unit: ``bi:the|house`` [E12]."""
    tgt, prev, following = rows.tgt, rows["prev"], rows["next"]
    last_words = rows.corpus.tgt.last
    n = len(tgt.names)
    names = pa.concat_arrays([tgt.names, strings([START, END])])
    before = np.where(prev == NONE, n, last_words[prev])
    inside = np.flatnonzero(tgt.owner[1:] == tgt.owner[:-1])
    row = np.concatenate([tgt.owner[inside], np.arange(len(rows)), np.arange(len(rows))])
    first = np.concatenate([tgt.ids[inside], before, tgt.last])
    second = np.concatenate([tgt.ids[inside + 1], tgt.first, np.where(following == NONE, n + 1, NONE)])
    some = (first >= 0) & (second >= 0)  # a phrase without words joins nothing
    return pair_indicators(row[some], first[some], names, second[some], names)


@template("lo", kind="contextual", reads=("source phrase", "target phrase", "previous span", "following span"))
def reordering(rows: Rows) -> Sparse:
    """Reordering class with each edge word of the phrases: ``lo:<swap|src.first=talo`` [G13 LO].

    Eight classes: monotone, swap, discontinuous after the previous (<) and before the following unit (>); and the simpler
    monotone or not, of which the first says what ``<mono`` does. Models of release 0.1 have it; ``ro`` is the paper's.
    """
    row = np.arange(len(rows))
    classes: list[tuple[str, Array]] = []
    for side, gap, swap in (("<", rows["back"], rows["back_swap"]), (">", rows["ahead"], rows["ahead_swap"])):
        mono = gap == 0
        classes += [(f"{side}mono", mono), (f"{side}swap", ~mono & (swap == 0)), (f"{side}disc", ~mono & (swap != 0))]
    classes += [("mono", rows["back"] == 0), ("nonmono", rows["back"] != 0)]
    edges = {
        "src.first": (rows.src.first, rows.src.names),
        "src.last": (rows.src.last, rows.src.names),
        "tgt.first": (rows.tgt.first, rows.tgt.names),
        "tgt.last": (rows.tgt.last, rows.tgt.names),
    }
    parts = [
        word_indicators(row[of], words[of], names, f"{name}|{edge}=")
        for name, of in classes
        for edge, (words, names) in edges.items()
    ]
    return together(*parts)


@template("ro", kind="contextual", reads=("source phrase", "target phrase", "previous span", "following span"))
def phrase_reordering(rows: Rows) -> Sparse:
    """Reordering class with the phrase pair: ``ro:<swap|talo|house`` [G13 LO].

    Four classes after the previous (<) and four before the following unit (>): monotone, swap, discontinuous, and not monotone.
    """
    pair = concat(rows.src.joined(), "|", rows.tgt.joined())
    parts = []
    for side, gap, swap in (("<", rows["back"], rows["back_swap"]), (">", rows["ahead"], rows["ahead_swap"])):
        mono = gap == 0
        classes = {"mono": mono, "swap": ~mono & (swap == 0), "disc": ~mono & (swap != 0), "nonmono": ~mono}
        for name, of in classes.items():
            row = np.flatnonzero(of)
            parts.append(indicators(row, concat(f"{side}{name}|", take_strings(pair, row))))
    return together(*parts)


def _count_pairs(rows: Rows, counts: I64) -> Tally:
    found = al.compute(rows)
    assert isinstance(found, Sparse)
    return found.names, np.bincount(found.idx, counts[found.row], minlength=len(found.names)).astype(np.int64)


@template(
    "cx",
    kind="contextual",
    reads=("source phrase", "target phrase", "alignment", "span", "source sentence"),
    learn=frequent(300, pairs=_count_pairs),
)
def context(rows: Rows, *, pairs: list[str]) -> Sparse:
    """The most frequent linked word pairs with the source word before or after: ``cx:talo|house|-iso`` [EMR13]."""
    return _in_context(rows, pairs, others=False)


def _choose_corpus_pairs(corpus: Corpus, tallies: dict[str, Tally], *, top: int = 300) -> dict[str, Any]:
    """By how often two words were a phrase pair in training, where a phrase table says so; else as often as in the list."""
    if known := corpus.resources.phrase_counts:
        alone = {f"{src}|{tgt}": n for (src, tgt), n in known.items() if " " not in src and " " not in tgt}
        tallies = {"pairs": (strings(list(alone)), np.array(list(alone.values())))}
    return {"pairs": most_frequent(*tallies["pairs"], top)}


@template(
    "cu",
    kind="contextual",
    reads=("source phrase", "target phrase", "alignment", "span", "source sentence"),
    learn=Counted(lambda rows, counts: {"pairs": _count_pairs(rows, counts)}, _choose_corpus_pairs),
)
def context_with_unknown(rows: Rows, *, pairs: list[str]) -> Sparse:
    """The same, all other pairs and words as one: ``cu:talo|house|-iso``, ``cu:unk|+talo``, ``cu:unk|-unk`` [EMR13 4.2]."""
    return _in_context(rows, pairs, others=True)


def _in_context(rows: Rows, pairs: list[str], *, others: bool) -> Sparse:
    """Linked word pairs with their source neighbours; ``others``: what is not among the frequent ones counts as UNKNOWN."""
    found = al.compute(rows)
    assert isinstance(found, Sparse)
    frequent = positions(found.names, strings(pairs)) >= 0
    if others:
        pair_names = pa.concat_arrays([found.names.cast(pa.large_string()), strings([UNKNOWN])])
        found = Sparse(found.row, pair_names, np.where(frequent[found.idx], found.idx, len(found.names)))
        frequent = np.ones(len(pair_names), bool)
    # a unit that does not cover as many words as it has (a rule with gaps) does not say where its words are
    plain = (rows["end"] - rows["start"] == rows.src.counts)[found.row]
    kept = np.flatnonzero(frequent[found.idx] & plain)
    row, at = found.row[kept], rows["start"][found.row[kept]] + rows.links.src[kept]
    sentences = rows.sentences
    n = len(sentences.names)
    names = pa.concat_arrays([sentences.names, strings([START, END, UNKNOWN])])
    rare = np.zeros(n + 3, bool)
    if others:
        words = strings(sorted({pair.rpartition("|")[0] for pair in pairs}))
        rare[:n] = positions(sentences.names, words) < 0
    begin, end = sentences.ptr[:-1][rows["sent"][row]], sentences.ptr[1:][rows["sent"][row]]
    parts = []
    for sign, step, edge in (("|-", -1, n), ("|+", 1, n + 1)):
        place = begin + at + step
        inside = (place >= begin) & (place < end)
        word = np.where(inside, sentences.ids[np.where(inside, place, 0)] if len(sentences.ids) else 0, edge)
        word = np.where(rare[word], n + 2, word)
        distinct, idx = np.unique(found.idx[kept] * (n + 3) + word, return_inverse=True)
        texts = concat(take_strings(found.names, distinct // (n + 3)), sign, take_strings(names, distinct % (n + 3)))
        parts.append(Sparse(row, texts, idx))
    return together(*parts)


# -- word classes in place of words ------------------------------------------------------------------------------------


def _classes(rows: Rows) -> tuple[Strings, I64, I64]:
    """Names of classes, edges of texts last; and the class of every word of the source and of the target dictionary."""
    clusters = rows.resources.clusters
    sides = [
        strings([of.get(word, UNKNOWN_CLUSTER) for word in words.names.to_pylist()])
        for words, of in ((rows.corpus.src, clusters.src), (rows.corpus.tgt, clusters.tgt))
    ]
    names = pa.concat_arrays([pa.concat_arrays(sides).unique().cast(pa.large_string()), strings([START, END])])
    return names, positions(sides[0], names), positions(sides[1], names)


def _tuples(row: I64, names: Strings, *parts: I64) -> Sparse:
    """A feature ``a|b|c`` for each distinct tuple of names."""
    shape = (len(names),) * len(parts)
    distinct, idx = np.unique(np.ravel_multi_index(parts, shape), return_inverse=True)
    texts = concat(*(text for part in np.unravel_index(distinct, shape) for text in (take_strings(names, part), "|")))
    return Sparse(row, pc.utf8_slice_codeunits(texts, 0, -1), idx)


@template("cb", kind="contextual", reads=("target phrase", "previous unit", "following unit", "clusters"))
def class_ngrams(rows: Rows) -> Sparse:
    """Bigrams and trigrams of target word classes, the previous unit's last two words among them: ``cb:7|12``, ``cb:3|7|12``.

    With the end of the text a unit joins words of its own only: a decoder that knows its last unit knows all that is to come.
    """
    names, _, of = _classes(rows)
    tgt, prev, own = rows.corpus.tgt, rows["prev"], rows.tgt
    some = np.flatnonzero(own.counts > 0)  # a phrase without words joins nothing
    start, end = len(names) - 2, len(names) - 1
    before, ends = prev[some], rows["next"][some] == NONE
    length = np.where(before == NONE, 0, tgt.counts[before])
    last = tgt.ptr[1:][before] - 1
    ids = np.append(of[tgt.ids], NONE)  # the last one: no word
    one = np.where(before == NONE, start, np.where(length >= 1, ids[np.where(length >= 1, last, -1)], NONE))
    two = np.where(length >= 2, ids[np.where(length >= 2, last - 1, -1)], NONE)
    ptr = offsets(own.counts[some] + 2 + ends)
    text = np.full(ptr[-1], end)
    text[ptr[:-1]], text[ptr[:-1] + 1] = two, one
    words = own.take(some)
    text[np.arange(len(words.ids)) + (ptr[:-1] + 2 - words.ptr[:-1])[words.owner]] = of[words.ids]
    place = np.arange(len(text)) - np.repeat(ptr[:-1], np.diff(ptr))
    at = np.flatnonzero(place >= 2)
    row = some[np.repeat(np.arange(len(some)), np.diff(ptr))[at]]
    pairs = text[at - 1] >= 0
    triples = pairs & (text[at - 2] >= 0) & ((text[at] != end) | (place[at] >= 4))
    return together(
        _tuples(row[pairs], names, text[at - 1][pairs], text[at][pairs]),
        _tuples(row[triples], names, text[at - 2][triples], text[at - 1][triples], text[at][triples]),
    )


@template("co", kind="contextual", reads=("source phrase", "target phrase", "previous span", "following span", "clusters"))
def class_reordering(rows: Rows) -> Sparse:
    """Reordering class with the word class of each edge of the phrases: ``co:<swap|src.first=7``."""
    names, src, tgt = _classes(rows)
    row, parts = np.arange(len(rows)), []
    edges = {
        "src.first": (src, rows.src.first),
        "src.last": (src, rows.src.last),
        "tgt.first": (tgt, rows.tgt.first),
        "tgt.last": (tgt, rows.tgt.last),
    }
    for side, gap, swap in (("<", rows["back"], rows["back_swap"]), (">", rows["ahead"], rows["ahead_swap"])):
        mono = gap == 0
        for name, moved in (("mono", mono), ("swap", ~mono & (swap == 0)), ("disc", ~mono & (swap != 0))):
            for edge, (of, words) in edges.items():
                some = moved & (words >= 0)
                parts.append(word_indicators(row[some], of[words[some]], names, f"{side}{name}|{edge}="))
    return together(*parts)


@template(
    "cc",
    kind="contextual",
    reads=("source phrase", "target phrase", "alignment", "span", "source sentence", "clusters"),
)
def class_context(rows: Rows) -> Sparse:
    """Classes of linked words with that of the source word before or after: ``cc:7|12|-3``."""
    names, src, tgt = _classes(rows)
    links, (s, t), sentences = rows.links, rows.link_words, rows.sentences
    plain = np.flatnonzero((rows["end"] - rows["start"] == rows.src.counts)[links.owner])  # see _in_context
    row, at = links.owner[plain], (rows["start"][links.owner] + links.src)[plain]
    begin, end = sentences.ptr[:-1][rows["sent"][row]], sentences.ptr[1:][rows["sent"][row]]
    parts = []
    for sign, step, edge in (("-", -1, len(names) - 2), ("+", 1, len(names) - 1)):
        place = begin + at + step
        inside = (place >= begin) & (place < end)
        beside = np.where(inside, src[sentences.ids[np.where(inside, place, 0)]] if len(sentences.ids) else 0, edge)
        found = _tuples(row, names, src[s[plain]], tgt[t[plain]], beside)
        last = pc.replace_substring_regex(found.names, r"\|([^|]*)$", rf"|{sign}\1")
        parts.append(found._replace(names=last))
    return together(*parts)
