"""Moses' phrase table and msd reordering table as columns, streamed and filtered to the input's phrases.

source ||| target ||| p(s|t) lex(s|t) p(t|s) lex(t|s) ||| 0-0 1-1 ||| n(t) n(s) n(s,t) |||
source ||| target ||| backward m s d, forward m s d
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..core.arrays import F64, I32, I64, offsets, segment_positions
from ..core.errors import FormatError, clip
from ..core.files import decode, read_chunks

FLOOR = -100.0  # Moses' smallest log-score
N_REORDERING = 6  # monotone, swap, discontinuous: of the phrase after the previous one, and of the next after the phrase
LAYOUT = "'source ||| target ||| scores [||| alignment [||| counts]]'"


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
        self.sentences = [[word.encode() for word in sentence.split()] for sentence in sentences]
        self.by_length: dict[int, set[bytes]] = {}

    def __contains__(self, phrase: bytes) -> bool:
        n = phrase.count(b" ") + 1
        if n not in self.by_length:
            spans = ((s, i) for s in self.sentences for i in range(len(s) - n + 1))
            self.by_length[n] = {b" ".join(s[i : i + n]) for s, i in spans}
        return phrase in self.by_length[n]


def read_phrase_table(path: str | Path, only: Iterable[str] | None = None) -> PhraseTable:
    """Read a table; with ``only``, the pairs whose source is in one of these sentences."""
    wanted = None if only is None else _Wanted(only)
    number, n_scores = 0, 0
    phrases: dict[bytes, int] = {b"": 0}
    vocab: dict[bytes, int] = {b"": 0}
    of_phrase, words, n_words, scores, count = array("i", [0]), array("i", [0]), array("i", [1]), array("d"), array("d", [0.0])
    tgt, align = [""], ["0-0"]
    for chunk in read_chunks(path):
        for line in chunk[:-1].split(b"\n"):
            number += 1
            cut = line.find(b" |||")
            src = line[:cut].strip()
            if cut < 0 or not src:
                if line.strip():
                    raise _bad(path, number, LAYOUT, line)
                continue
            if n_scores and wanted is not None and src not in wanted:
                continue
            fields = line[cut + 4 :].split(b"|||")
            if len(fields) < 2:
                raise _bad(path, number, LAYOUT, line)
            values = _numbers(fields[1], path, number)
            n_scores = n_scores or len(values)
            if not values or len(values) != n_scores:
                raise _bad(path, number, f"{n_scores or 'some'} scores, as on the lines before", fields[1].strip())
            if wanted is not None and src not in wanted:
                continue
            counts = _numbers(fields[3], path, number) if len(fields) > 3 else []
            tokens = fields[0].split()
            of_phrase.append(phrases.setdefault(src, len(phrases)))
            tgt.append(decode(b" ".join(tokens), f"{path}:{number}"))
            align.append(b" ".join(fields[2].split()).decode("ascii", "replace") if len(fields) > 2 else "")
            scores.extend(values)
            count.append(counts[2] if len(counts) > 2 else np.nan)
            words.extend([vocab.setdefault(word, len(vocab)) for word in tokens])
            n_words.append(len(tokens))
    if not n_scores:
        raise FormatError(str(path), expected="a phrase table", found="an empty file", fix="check what wrote it")
    order = np.argsort(np.array(of_phrase, np.int64), kind="stable")  # a table need not be sorted
    ptr = offsets(np.bincount(np.array(of_phrase, np.int64)))
    word_ptr = offsets(np.array(n_words, np.int64))
    probabilities = np.vstack([np.ones((1, n_scores)), np.array(scores, np.float64).reshape(-1, n_scores)])
    return PhraseTable(
        rows={decode(p, str(path)): range(ptr[i], ptr[i + 1]) for p, i in phrases.items() if p},
        longest=max(p.count(b" ") + 1 for p in phrases),
        tgt=[tgt[r] for r in order],
        align=[align[r] for r in order],
        scores=_logs(probabilities[order]),
        count=np.array(count, np.float64)[order],
        vocab={decode(word, str(path)): i for word, i in vocab.items()},
        word_ptr=offsets(np.diff(word_ptr)[order]),
        words=np.array(words, np.int32)[segment_positions(word_ptr, order)],
    )


def with_reordering(table: PhraseTable, path: str | Path) -> PhraseTable:
    """The table with the orientation scores of its pairs."""
    # of a pair that the table has twice, the last
    row_of = {(src.encode(), table.tgt[r].encode()): r for src, rows in table.rows.items() for r in rows}
    scores, n_found, number = np.ones((len(table), N_REORDERING)), 0, 0
    for chunk in read_chunks(path):
        for line in chunk[:-1].split(b"\n"):
            number += 1
            fields = line.split(b"|||")
            if len(fields) != 3:
                if line.strip():
                    raise _bad(path, number, "'source ||| target ||| six probabilities'", line)
                continue
            r = row_of.get((fields[0].strip(), fields[1].strip()))
            if r is not None:
                values = _numbers(fields[2], path, number)
                if len(values) != N_REORDERING:
                    raise _bad(path, number, f"{N_REORDERING} probabilities (msd-bidirectional-fe)", fields[2].strip())
                scores[r] = values
                n_found += 1
    if row_of and not n_found:
        raise FormatError(
            str(path),
            expected="pairs of the phrase table",
            found=f"none of its {len(row_of)}",
            fix="give the reordering table of this system",
        )
    return replace(table, reordering=_logs(scores))


def _logs(probabilities: F64) -> F64:
    return np.log(np.maximum(probabilities, np.exp(FLOOR))) + 0.0


def _numbers(field: bytes, path: str | Path, number: int) -> list[float]:
    try:
        values = [float(x) for x in field.split()]
    except ValueError:
        values = [-1.0]
    if not all(0 <= v < np.inf for v in values):
        raise _bad(path, number, "probabilities or counts, none negative", field.strip())
    return values


def _bad(path: str | Path, number: int, expected: str, found: bytes) -> FormatError:
    return FormatError(f"{path}:{number}", expected=expected, found=clip(found), fix="give a table in Moses' text format")
