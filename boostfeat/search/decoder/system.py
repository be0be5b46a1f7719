"""A translation system: phrase table, reordering table and language model, without any weights; names as Moses has them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.arrays import F64, I32, I64, offsets, segment_positions
from ...core.errors import FormatError, clip
from ...core.text import split_words
from ...features.language_model import LanguageModel, isolated_scores
from ...formats.fields import score_names
from ...formats.moses.table_files import ALIGNMENT, N_REORDERING, SOURCE, TARGET, Entries, log_scores, read_entries
from ...formats.moses.table_files import REORDERING as REORDERING_TABLE
from ...lists.words import flags

UNKNOWN = "UnknownWordPenalty0"
UNKNOWN_VALUE = -100.0  # of a word that the table lacks
REORDERING = tuple(f"LexicalReordering0_{i}" for i in range(6))
DISTORTION, LM, WORD_PENALTY, PHRASE_PENALTY = "Distortion0", "LM0", "WordPenalty0", "PhrasePenalty0"
TRANSLATION = "TranslationModel0"
CONTEXT = (*REORDERING, DISTORTION, LM)  # the order of kernels

# Columns of templates (jump, orientation, previous, following, lm_per_word) that the edge itself tells: they follow CONTEXT
MOVE = ("jump.signed", "jump.log", "jump.left", "jump.far", "ori.<mono", "ori.<swap", "ori.<right", "ori.<left")
ENDS = ("prev.none", "next.none")  # whether a phrase is the first, the last
PER_WORD = f"lm.word.{LM}"
QUANTILES = ("q10", "q25", "q75", "q90")
LM_WORD = (PER_WORD, *(f"{PER_WORD}<{q}" for q in QUANTILES))
EDGE = (*CONTEXT, *MOVE, *ENDS, *LM_WORD)


LINKS = r"^([0-9]+-[0-9]+([ \t]+[0-9]+-[0-9]+)*)?$"


@dataclass(frozen=True)
class PhraseTable:
    """Phrase pairs, those of a source phrase in adjacent rows. P pairs; row 0 stands for a word that the table lacks."""

    rows: dict[str, range]  # by source phrase
    longest: int  # words of a source phrase, at most
    tgt: list[str]  # [P]
    align: list[str]  # [P] "0-0 1-1", "" where unknown
    scores: F64  # [P, T] natural logarithms, at least FLOOR
    count: F64  # [P] the pair's joint count, NaN where the table gives none
    vocab: dict[str, int]  # target words
    word_ptr: I64  # [P+1]
    words: I32
    reordering: F64 | None = None  # [P, 6] natural logarithms, 0 for pairs that the reordering table lacks, as in Moses

    def __len__(self) -> int:
        return len(self.tgt)


class _Wanted:
    """The phrases of some sentences, by length, made when the table first shows a phrase of that length."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = [[word.encode() for word in split_words(sentence)] for sentence in sentences]
        self.by_length: dict[int, set[bytes]] = {}

    def __contains__(self, phrase: bytes) -> bool:
        n = phrase.count(b" ") + 1
        if n not in self.by_length:
            spans = ((s, i) for s in self.sentences for i in range(len(s) - n + 1))
            self.by_length[n] = {b" ".join(s[i : i + n]) for s, i in spans}
        return phrase in self.by_length[n]

    def of(self, entries: Entries) -> Entries:
        """Rows whose source is one of the phrases."""
        src = entries.contents(SOURCE).dictionary_encode()
        is_wanted = np.array([phrase in self for phrase in src.dictionary.to_pylist()], bool)
        return entries.take(np.flatnonzero(is_wanted[np.asarray(src.indices)]))


def read_phrase_table(path: str | Path, only: Iterable[str] | None = None) -> PhraseTable:
    """Read a table; with ``only``, the pairs whose source is in one of these sentences."""
    wanted = None if only is None else _Wanted(only)
    phrases: dict[str, int] = {}  # numbered from 1 on; 0 is the unknown word
    vocab: dict[bytes, int] = {b"": 0}
    of_phrase, words, n_words = array("i", [0]), array("i", [0]), array("i", [1])
    tgt, align, scores, count = [""], ["0-0"], [], [np.zeros(1)]
    for entries in read_entries(path):
        if wanted is not None:
            entries = wanted.of(entries)
        scores.append(entries.scores)
        count.append(entries.joint_counts(needed=False))
        of_phrase.extend([phrases.setdefault(src, len(phrases) + 1) for src in entries.texts(SOURCE).to_pylist()])
        align += [" ".join(links.split()) for links in _links(entries)]
        for text in entries.texts(TARGET).view(pa.large_binary()).to_pylist():
            tokens = text.split()  # as bytes: Unicode's other blanks are parts of words
            tgt.append(b" ".join(tokens).decode())
            words.extend([vocab.setdefault(word, len(vocab)) for word in tokens])
            n_words.append(len(tokens))
    order = np.argsort(np.array(of_phrase, np.int64), kind="stable")  # a table need not be sorted
    ptr = offsets(np.bincount(np.array(of_phrase, np.int64)))
    word_ptr = offsets(np.array(n_words, np.int64))
    probabilities = np.concatenate([np.ones((1, scores[0].shape[1])), *scores])
    return PhraseTable(
        rows={phrase: range(ptr[i], ptr[i + 1]) for phrase, i in phrases.items()},
        longest=max((phrase.count(" ") + 1 for phrase in phrases), default=1),
        tgt=[tgt[r] for r in order],
        align=[align[r] for r in order],
        scores=log_scores(probabilities[order]),
        count=np.concatenate(count)[order],
        vocab={word.decode(): i for word, i in vocab.items()},
        word_ptr=offsets(np.diff(word_ptr)[order]),
        words=np.array(words, np.int32)[segment_positions(word_ptr, order)],
    )


def _links(entries: Entries) -> list[str]:
    """[n] the alignments, "" where a line has none."""
    texts = entries.texts(ALIGNMENT)
    is_good = flags(pc.match_substring_regex(texts, LINKS))
    if not is_good.all():
        row = int(np.argmin(is_good))
        expected, fix = "an alignment like 0-0 1-1 in the fourth field", "give a table in Moses' text format"
        raise FormatError(entries.place(row), expected=expected, found=clip(texts[row].as_py()), fix=fix)
    return texts.to_pylist()


def with_reordering(table: PhraseTable, path: str | Path) -> PhraseTable:
    """The table with the orientation scores of its pairs."""
    # of a pair that the table has twice, the last
    row_of = {(src.encode(), table.tgt[r].encode()): r for src, rows in table.rows.items() for r in rows}
    scores, n_found = np.ones((len(table), N_REORDERING)), 0
    for entries in read_entries(path, REORDERING_TABLE):
        pairs = zip(entries.contents(SOURCE).to_pylist(), entries.contents(TARGET).to_pylist(), strict=True)
        at = np.array([row_of.get(pair, -1) for pair in pairs], np.int64)
        found = np.flatnonzero(at >= 0)
        for row, values in zip(at[found].tolist(), entries.take(found).scores, strict=True):
            scores[row] = values
        n_found += len(found)
    if row_of and not n_found:
        expected, fix = "pairs of the phrase table", "give the reordering table of this system"
        raise FormatError(str(path), expected=expected, found=f"none of its {len(row_of)}", fix=fix)
    return replace(table, reordering=log_scores(scores))


@dataclass(frozen=True)
class PhraseSystem:
    """Tables and language model: all that a decoder needs besides a model. P phrase pairs, D distinct forward scores."""

    table: PhraseTable
    lm: LanguageModel
    lm_ids: I32  # [target words of the table]
    isolated: F64  # [P] ln p of each target phrase without a history
    forward: I32  # [P] row of ``ahead``, -1 without a reordering table
    ahead: F64  # [D, 3] forward reordering scores: equal ones need not be told apart in search

    @classmethod
    def load(
        cls,
        *,
        phrase_table: str | Path,
        lm: str | Path,
        reordering_table: str | Path | None = None,
        only: Iterable[str] | None = None,
    ) -> PhraseSystem:
        """Read the files of a system; with ``only``, what these sentences need."""
        table = read_phrase_table(phrase_table, only)
        return cls.of(table if reordering_table is None else with_reordering(table, reordering_table), LanguageModel.load(lm))

    @classmethod
    def of(cls, table: PhraseTable, lm: LanguageModel) -> PhraseSystem:
        ids, isolated = lm.ids(list(table.vocab)), np.empty(len(table))
        isolated_scores(lm.automaton, table.word_ptr, ids[table.words], isolated)
        if table.reordering is None:
            return cls(table, lm, ids, isolated, np.full(len(table), -1, np.int32), np.zeros((1, 3)))
        ahead, forward = np.unique(table.reordering[:, 3:], axis=0, return_inverse=True)
        return cls(table, lm, ids, isolated, forward.ravel().astype(np.int32), ahead)

    @property
    def names(self) -> tuple[str, ...]:
        """The features of Moses' n-best lists, in their order."""
        reordering = () if self.table.reordering is None else REORDERING
        translation = score_names(TRANSLATION, self.table.scores.shape[1])
        return (*reordering, DISTORTION, LM, WORD_PENALTY, PHRASE_PENALTY, *translation)

    @property
    def has_counts(self) -> bool:
        return not np.isnan(self.table.count).any()
