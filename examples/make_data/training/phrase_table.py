"""Scores of phrase pairs and their orientations, in the text formats that Moses reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
from numba import njit

from boostfeat.core.arrays import F64, I64, Array, offsets, unique_rows
from boostfeat.core.text import split_words
from boostfeat.lists.words import Words

from .bitext import Bitext
from .extract import LONGEST, Occurrences, extract

SMOOTHING = 0.5  # of orientation counts, as Moses'


@dataclass(frozen=True)
class PhraseTable:
    """Distinct phrase pairs, [n] each, in the order of ``LC_ALL=C sort``."""

    src: list[str]
    tgt: list[str]
    scores: F64  # [n, 4] p(s|t), lex(s|t), p(t|s), lex(t|s)
    links: Array  # [n] uint64, bits 8 j + i
    counts: I64  # [n, 3] of the target, of the source, of the pair
    orientation: F64  # [n, 6] P(mono), P(swap), P(other) before the phrase, then after it

    def __len__(self) -> int:
        return len(self.src)

    def take(self, at: Array) -> PhraseTable:
        src, tgt = ([column[n] for n in at] for column in (self.src, self.tgt))
        return PhraseTable(src, tgt, self.scores[at], self.links[at], self.counts[at], self.orientation[at])

    def keep(self, sentences: Iterable[str]) -> PhraseTable:
        """Only the pairs whose source occurs in these sentences: what a decoder needs for them."""
        longest = max((phrase.count(" ") + 1 for phrase in self.src), default=0)
        wanted = {phrase for sentence in sentences for phrase in _phrases_of(split_words(sentence), longest)}
        return self.take(np.array([n for n, phrase in enumerate(self.src) if phrase in wanted], np.int64))

    def write(self, stream: IO[bytes]) -> None:
        """``source ||| target ||| p(s|t) lex(s|t) p(t|s) lex(t|s) ||| 0-0 1-1 ||| n(t) n(s) n(s,t) ||| |||``"""
        rows = zip(self.src, self.tgt, self.scores.tolist(), self.links.tolist(), self.counts.tolist(), strict=True)
        for src, tgt, scores, links, counts in rows:
            fields = (src, tgt, _format_scores(scores), link_text(links), _format_scores(counts))
            stream.write(f"{' ||| '.join(fields)} ||| |||\n".encode())

    def write_orientation(self, stream: IO[bytes]) -> None:
        """``source ||| target ||| mono swap other mono swap other`` (wbe-msd-bidirectional-fe)"""
        for src, tgt, orientation in zip(self.src, self.tgt, self.orientation.tolist(), strict=True):
            stream.write(f"{src} ||| {tgt} ||| {_format_scores(orientation)}\n".encode())


def _format_scores(values: Iterable[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def _phrases_of(words: Sequence[str], longest: int) -> Iterator[str]:
    for a in range(len(words)):
        for b in range(a + 1, min(a + longest, len(words)) + 1):
            yield " ".join(words[a:b])


def link_text(mask: int) -> str:
    """'0-0 1-2' of links as bits, in the order of target words, as Moses has it."""
    return " ".join(f"{bit % LONGEST}-{bit // LONGEST}" for bit in range(mask.bit_length()) if mask >> bit & 1)


def _texts(words: Words) -> list[str]:
    """Return each row's words in one string."""
    names, cuts = np.array(words.names.to_pylist(), object), words.ptr
    return [" ".join(names[words.ids[cuts[k] : cuts[k + 1]]]) for k in range(len(words))]


def make_phrase_table(bitext: Bitext, *, max_length: int = 7) -> PhraseTable:
    """Extract and score:  p(s|t) = n(s,t) / n(t);  of a pair's alignments the most frequent one gives the lexical weights."""
    found = extract(bitext, max_length=max_length)
    src, tgt = (_spans(side, found.sentence, span) for side, span in ((bitext.src, found.src), (bitext.tgt, found.tgt)))
    first, pair = unique_rows(src, tgt)
    counts = [np.bincount(ids)[ids[first]] for ids in (_distinct(tgt), _distinct(src), pair)] if len(found) else [pair] * 3
    n_tgt, n_src, n_pair = counts
    links = _most_frequent(pair, found.links)
    words = _words(src[first], bitext.src), _words(tgt[first], bitext.tgt)
    src_given_tgt, tgt_given_src = _lexical_weights(bitext, *words, links)
    table = PhraseTable(
        *map(_texts, words),
        np.stack([n_pair / n_tgt, src_given_tgt, n_pair / n_src, tgt_given_src], axis=1),
        links,
        np.stack(counts, axis=1),
        _orientations(found, pair, len(first)),
    )
    keys = [f"{s} ||| {t} |||".encode() for s, t in zip(table.src, table.tgt, strict=True)]
    return table.take(np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64))


NO_WORD = -1


def _spans(words: Words, sentence: I64, span: I64) -> I64:
    """[n, longest] the words of each span, filled up with NO_WORD."""
    length = span[:, 1] - span[:, 0]
    column = np.arange(length.max(initial=1))
    at = np.minimum((words.ptr[sentence] + span[:, 0])[:, None] + column, max(len(words.ids) - 1, 0))
    return np.where(column < length[:, None], words.ids[at], NO_WORD) if len(span) else np.zeros((0, 1), np.int64)


def _words(rows: I64, like: Words) -> Words:
    is_word = rows != NO_WORD
    return Words(offsets(is_word.sum(axis=1)), rows[is_word], like.names)


def _distinct(rows: I64) -> I64:
    return unique_rows(rows, np.zeros((len(rows), 0), np.int64))[1]


def _most_frequent(pair: I64, links: Array) -> Array:
    """[pairs] the alignment that most occurrences have, the smallest number among equals."""
    both, counts = np.unique(np.stack([pair.astype(np.uint64), links], axis=1), axis=0, return_counts=True)
    order = np.lexsort((both[:, 1], -counts, both[:, 0]))
    _, best = np.unique(both[order, 0], return_index=True)
    return both[order[best], 1]


def _orientations(found: Occurrences, pair: I64, n_pairs: int) -> F64:
    """[pairs, 6] (n(orientation) + 0.5) / (n + 1.5), before and after."""
    sides = []
    for orientation in (found.before, found.after):
        counts = np.bincount(3 * pair + orientation, minlength=3 * n_pairs).reshape(-1, 3) + SMOOTHING
        sides.append(counts / counts.sum(axis=1, keepdims=True))
    return np.concatenate(sides, axis=1)


# -- lexical weights --------------------------------------------------------------------------------------------------


def _lexical_weights(bitext: Bitext, src: Words, tgt: Words, links: Array) -> tuple[F64, F64]:
    """lex(s|t) and lex(t|s) of phrase pairs:  lex(t|s) = Π_j mean of w(t_j|s_i) over the words i linked to j.

    w(t|s) = n(s, t) / n(s) over the links of the text; a word without a link is linked to the empty word.
    """
    text_src, text_tgt, at = bitext.src, bitext.tgt, bitext.links
    s, t = text_src.ptr[at.owner] + at.src, text_tgt.ptr[at.owner] + at.tgt  # tokens
    lone_s, lone_t = (np.setdiff1d(np.arange(len(w.ids)), tokens) for w, tokens in ((text_src, s), (text_tgt, t)))
    # words are numbered from 1 here, 0 is the empty word
    width = len(text_tgt.names) + 1
    left = np.concatenate([text_src.ids[s] + 1, text_src.ids[lone_s] + 1, np.zeros(len(lone_t), np.int64)])
    right = np.concatenate([text_tgt.ids[t] + 1, np.zeros(len(lone_s), np.int64), text_tgt.ids[lone_t] + 1])
    keys, n = np.unique(left * width + right, return_counts=True)
    w_src = n / np.bincount(right, minlength=width)[keys % width]  # w(s|t)
    w_tgt = n / np.bincount(left)[keys // width]
    out = np.ones((2, len(src)))
    _weigh(src.ptr, src.ids + 1, tgt.ptr, tgt.ids + 1, links, (LONGEST, 1), (width, 1), keys, w_src, out[0])
    _weigh(tgt.ptr, tgt.ids + 1, src.ptr, src.ids + 1, links, (1, LONGEST), (1, width), keys, w_tgt, out[1])
    return out[0], out[1]


@njit(cache=True)
def _weigh(ptr, words, given_ptr, given, links, bit, key, keys, weight, out):  # type: ignore[no-untyped-def]
    """IN phrases, what they are given, links as bits bit[0] i + bit[1] j, w by keys key[0] word + key[1] given; OUT lex."""
    for p in range(len(ptr) - 1):
        for j in range(ptr[p + 1] - ptr[p]):
            word = words[ptr[p] + j] * key[0]
            total, n = 0.0, 0
            for i in range(given_ptr[p + 1] - given_ptr[p]):
                if links[p] >> np.uint64(bit[0] * i + bit[1] * j) & np.uint64(1):
                    total += weight[np.searchsorted(keys, word + given[given_ptr[p] + i] * key[1])]
                    n += 1
            out[p] *= total / n if n else weight[np.searchsorted(keys, word)]
