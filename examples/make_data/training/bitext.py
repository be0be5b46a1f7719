"""Parallel text with word alignments, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from boostfeat.core.arrays import I64, offsets, owners
from boostfeat.core.errors import FormatError, InputError, clip, counted
from boostfeat.core.files import read_lines
from boostfeat.core.text import normal, split_words
from boostfeat.lists.nbest import strings
from boostfeat.lists.words import Words, checked_links, words_of

RESERVED = {"<s>", "</s>", "<unk>", "NULL"}  # words of language models and lexicons


@dataclass(frozen=True)
class Links:
    """Word alignments of sentences: each link joins a source position with a target position."""

    ptr: I64  # [S+1]
    src: I64  # [links]
    tgt: I64

    @property
    def owner(self) -> I64:
        return owners(self.ptr)


@dataclass(frozen=True)
class Bitext:
    """Sentence pairs; a link joins a source word with a target word."""

    src: Words
    tgt: Words
    links: Links  # in rising order of source, then target position

    def __len__(self) -> int:
        return len(self.src)


def make_bitext(source: Sequence[str], target: Sequence[str], alignments: Sequence[str]) -> Bitext:
    """From lines of text and alignments like '0-0 1-2'."""
    src, tgt = (words_of(strings([normal(line) for line in lines])) for lines in (source, target))
    parsed = [np.array(checked_links(line), np.int64).reshape(-1, 2) for line in alignments]
    joined = np.concatenate([np.zeros((0, 2), np.int64), *parsed])
    links = Links(offsets(np.array([len(pairs) for pairs in parsed], np.int64)), joined[:, 0], joined[:, 1])
    if not len(src) == len(tgt) == len(links.ptr) - 1:
        raise InputError(
            f"bitext: expected as many sources, targets and alignments, found {len(src)}, {len(tgt)} and {len(links.ptr) - 1}; "
            "give files of the same text"
        )
    outside = (links.src >= src.counts[links.owner]) | (links.tgt >= tgt.counts[links.owner])
    if outside.any():
        at = int(links.owner[np.argmax(outside)])
        raise FormatError(
            f"alignment of line {at + 1}",
            expected=f"links between {src.counts[at]} and {counted(tgt.counts[at], 'word')}",
            found=clip(alignments[at]),
            fix="give the alignments of this text",
        )
    order = np.lexsort((links.tgt, links.src, links.owner))
    return Bitext(src, tgt, Links(links.ptr, links.src[order], links.tgt[order]))


def read_bitext(source: str | Path, target: str | Path) -> tuple[list[str], list[str]]:
    """Lines of two parallel files, tokenised already: words stand between blanks."""
    sides = []
    for path in (source, target):
        lines = []
        for number, line in read_lines(path):
            if "|" in line or not RESERVED.isdisjoint(split_words(line)):
                raise FormatError(
                    f"{path}:{number}",
                    expected=f"words without '|', other than {', '.join(sorted(RESERVED))}",
                    found=clip(line),
                    fix="escape them, as Moses' tokeniser does (&#124;)",
                )
            lines.append(line)
        sides.append(lines)
    if len(sides[0]) != len(sides[1]):
        raise InputError(
            f"{source}, {target}: expected parallel text, found {len(sides[0])} and {counted(len(sides[1]), 'line')}; give "
            "aligned files"
        )
    return sides[0], sides[1]
