"""Phrase pairs that agree with a word alignment, where they occur, and how they follow their neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from boostfeat.core.arrays import I64, Array

from .bitext import Bitext

LONGEST = 8  # words of a phrase: the links of 8 x 8 words are the bits of one number
MONOTONE, SWAP, OTHER = 0, 1, 2


@dataclass(frozen=True)
class Occurrences:
    """[n] each: half-open spans in a sentence pair, links inside as bits 8 j + i, orientations to the neighbours."""

    sentence: I64
    src: I64  # [n, 2]
    tgt: I64  # [n, 2]
    links: Array  # uint64
    before: I64  # MONOTONE, SWAP or OTHER after the previous target word
    after: I64  # and before the next one

    def __len__(self) -> int:
        return len(self.sentence)


def extract(bitext: Bitext, *, max_length: int = 7) -> Occurrences:
    """All pairs of spans of at most max_length words with a link between them and no link from inside to outside.

    Orientations as Moses' wbe-msd: what is linked diagonally at the corner before (after) the phrase decides.
    """
    if not 1 <= max_length <= LONGEST:
        raise ValueError(f"max_length: expected 1 to {LONGEST}, found {max_length}")
    places = (bitext.src.ptr, bitext.tgt.ptr, bitext.links.ptr, bitext.links.src, bitext.links.tgt)
    n = _extract(*places, max_length, np.empty((0, 7), np.int64), np.empty(0, np.uint64))
    rows, links = np.empty((n, 7), np.int64), np.empty(n, np.uint64)
    _extract(*places, max_length, rows, links)
    return Occurrences(rows[:, 0], rows[:, 1:3], rows[:, 3:5], links, rows[:, 5], rows[:, 6])


@njit(cache=True)
def _is_linked(linked, i, j):  # type: ignore[no-untyped-def]
    """Whether words i and j are linked; the places before the first and after the last words are."""
    n_src, n_tgt = linked.shape
    if (i == -1 and j == -1) or (i == n_src and j == n_tgt):
        return True
    return 0 <= i < n_src and 0 <= j < n_tgt and linked[i, j]


@njit(cache=True)
def _orientation(linked, same_side, other_side, j):  # type: ignore[no-untyped-def]
    mono, swap = _is_linked(linked, same_side, j), _is_linked(linked, other_side, j)
    if mono and not swap:
        return MONOTONE
    return SWAP if swap and not mono else OTHER


@njit(cache=True)
def _extract(src_ptr, tgt_ptr, link_ptr, link_src, link_tgt, max_length, rows, masks):  # type: ignore[no-untyped-def]
    """IN aligned sentences; OUT rows[n, 7], masks[n] unless they are empty. Returns n."""
    n = 0
    for s in range(len(src_ptr) - 1):
        n_src, n_tgt = src_ptr[s + 1] - src_ptr[s], tgt_ptr[s + 1] - tgt_ptr[s]
        linked = np.zeros((n_src, n_tgt), np.bool_)
        low, high = np.full(n_tgt, n_src), np.full(n_tgt, -1)  # source positions linked to each target word
        for k in range(link_ptr[s], link_ptr[s + 1]):
            i, j = link_src[k], link_tgt[k]
            linked[i, j] = True
            low[j], high[j] = min(low[j], i), max(high[j], i)
        for a in range(n_src):
            first, last = n_tgt, -1
            for b in range(a, min(a + max_length, n_src)):
                for j in range(n_tgt):
                    if linked[b, j]:
                        first, last = min(first, j), max(last, j)
                if last < 0 or last - first >= max_length:
                    continue
                consistent = True
                for j in range(first, last + 1):
                    if high[j] >= 0 and (low[j] < a or high[j] > b):
                        consistent = False
                        break
                if not consistent:
                    continue
                c = first  # words without a link join at both ends
                while True:
                    d = last
                    while d - c < max_length:
                        if len(masks):
                            mask = np.uint64(0)
                            for i in range(a, b + 1):
                                for j in range(c, d + 1):
                                    if linked[i, j]:
                                        mask |= np.uint64(1) << np.uint64(LONGEST * (j - c) + i - a)
                            masks[n] = mask
                            rows[n, 0], rows[n, 1], rows[n, 2], rows[n, 3], rows[n, 4] = s, a, b + 1, c, d + 1
                            rows[n, 5] = _orientation(linked, a - 1, b + 1, c - 1)
                            rows[n, 6] = _orientation(linked, b + 1, a - 1, d + 1)
                        n += 1
                        d += 1
                        if d >= n_tgt or high[d] >= 0:
                            break
                    c -= 1
                    if c < 0 or high[c] >= 0 or last - c >= max_length:
                        break
    return n
