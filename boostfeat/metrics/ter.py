"""TER, translation edit rate [S06], from rows of two numbers: edits, mean reference length.

    TER = Σ edits / Σ reference length,   edits = min over references of (shifts + edit distance after them)

Definitions are those of sacrebleu's TER with its default arguments, which follow Tercom: shifts are found
greedily, edit distances are those of a beam around the diagonal. Everything here works on the 0..1 scale
(lower is better).

A shift leaves the words before it, so the distance after it follows from their row of the matrix; and it is only
computed where the distance without a beam, which is quickly found, leaves hope.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import F64, Array
from ..core.kernels import kernel
from .edits import EDITS, N_STATS, REF_LEN, edit_distance, symbol_places
from .symbols import WORDS, Texts, fill_rows, longest_part, lower

BEAM = 25  # cells on both sides of the diagonal
LONGEST_SHIFT = 10  # words
FARTHEST_SHIFT = 50  # between the positions of the words in hypothesis and reference
MOST_SHIFTS = 1000  # tried for a hypothesis and a reference; then the search ends
_SHORT = 256  # words of a reference up to which bits are faster than a beam
_FAR = 1 << 28  # the distance of a cell outside the beam


# -----------------------------------------------------------------------------------------------------------
# Edit distance in a beam. Cell (i, j): i words of the hypothesis have become j words of the reference; row i
# holds cells low[i]:high[i], kept from i * stride on.
# -----------------------------------------------------------------------------------------------------------


@kernel
def _set_beam(n, m, low, high):  # type: ignore[no-untyped-def]
    """OUT low[n+1], high[n+1], of n > 0 words and a reference of m; returns the stride.

    Around i m / n ± 25, or more where m > 50 n; the last row reaches the end.
    """
    ratio = m / n
    beam = np.int64(np.ceil(ratio / 2 + BEAM)) if ratio / 2 > BEAM else BEAM
    for i in range(1, n + 1):
        diagonal = np.int64(np.floor(i * ratio))
        low[i] = max(0, diagonal - beam)
        high[i] = min(m + 1, diagonal + beam)
    high[n] = m + 1
    low[0], high[0] = max(0, low[1] - 1), high[1]  # all that the next row looks at
    return min(m + 1, 2 * beam + 2)


@kernel
def _fill_forward(hyp, ref, first, last, low, high, stride, cells):  # type: ignore[no-untyped-def]
    """Distances from the beginning in rows first..last, first > 0, of INOUT cells; row first - 1 is right."""
    for i in range(first, last + 1):
        word, begin, bound = hyp[i - 1], low[i], high[i - 1]
        here, up = i * stride - begin, (i - 1) * stride - low[i - 1]
        diagonal = cells[up + begin - 1] if begin > low[i - 1] else _FAR
        left = _FAR
        if begin == 0:
            diagonal = cells[up]
            cells[here] = left = diagonal + 1
            begin = 1
        for j in range(begin, high[i]):
            above = cells[up + j] if j < bound else _FAR
            left = min(diagonal + (word != ref[j - 1]), min(above, left) + 1)
            cells[here + j] = left
            diagonal = above


@kernel
def _align(hyp, n, ref, m, low, high, stride, forward, align, hyp_wrong, ref_wrong):  # type: ignore[no-untyped-def]
    """OUT align[m]: the word of the hypothesis at or before each of the reference, or -1; wrong: edits.

    Of equally good paths, that which prefers a match or substitution to a deletion, and that to an insertion.
    """
    i, j = n, m
    while i or j:
        value = forward[i * stride + j - low[i]] if i else j
        if i and low[i - 1] <= j - 1 < high[i - 1]:
            wrong = hyp[i - 1] != ref[j - 1]
            if forward[(i - 1) * stride + j - 1 - low[i - 1]] + wrong == value:
                align[j - 1] = i - 1
                hyp_wrong[i - 1] = ref_wrong[j - 1] = wrong
                i -= 1
                j -= 1
                continue
        if i and low[i - 1] <= j < high[i - 1] and forward[(i - 1) * stride + j - low[i - 1]] + 1 == value:
            hyp_wrong[i - 1] = True
            i -= 1
        else:
            align[j - 1] = i - 1
            ref_wrong[j - 1] = True
            j -= 1


# -----------------------------------------------------------------------------------------------------------
# Shifts
# -----------------------------------------------------------------------------------------------------------


@kernel
def _shift(hyp, n, start, length, target, moved):  # type: ignore[no-untyped-def]
    """OUT moved[first:last]: what changes as hyp[start:start+length] moves to target; returns (first, last).

    A target among the moved words themselves, or right behind, counts from the end of the move.
    """
    if target < start:
        first, last = target, start + length
        at = target
    else:
        first, last = start, target if target > start + length else min(n, target + length)
        at = last - length
    for k in range(length):
        moved[at + k] = hyp[start + k]
    for k in range(first, last):
        if k < at:
            moved[k] = hyp[k + length]
        elif k >= at + length:
            moved[k] = hyp[k - length]
    return first, last


@kernel
def _distance(moved, first, n, ref, m, low, high, stride, forward, cells):  # type: ignore[no-untyped-def]
    """Edit distance of moved[n], a hypothesis that is the other one up to its word ``first``; cells are for work."""
    for k in range(first * stride, first * stride + high[first] - low[first]):
        cells[k] = forward[k]
    _fill_forward(moved, ref, first + 1, n, low, high, stride, cells)
    return cells[n * stride + m - low[n]]


@kernel
def _edits(hyp, n, ref, m, head, after, equal, room):  # type: ignore[no-untyped-def]
    """Edits of INOUT hyp[n], which is shifted, and ref[m], whose words stand at head[word], after[that], ...

    IN equal: the same as symbol_places gives it, where m is at most 256.

    Of shifts, that is made which reduces the distance most; among equals the
    longest, then the one from farthest left, then the one to farthest left; until none reduces it.
    """
    if n == 0 or m == 0:
        return n + m
    low, high, forward, cells, moved, align, hyp_wrong, ref_wrong, plus, minus = room
    zero: Any = np.int64(0)  # not the literal, for which numba would compile kernels a second time
    stride = _set_beam(n, m, low, high)
    for j in range(low[0], high[0]):
        forward[j - low[0]] = j
    first, tried, shifts = zero, zero, zero  # what comes from hyp[first] on is new
    while True:
        _fill_forward(hyp, ref, first + 1, n, low, high, stride, forward)
        distance = forward[n * stride + m - low[n]]
        if distance == 0:
            return shifts
        _align(hyp, n, ref, m, low, high, stride, forward, align, hyp_wrong, ref_wrong)
        for i in range(n):
            moved[i] = hyp[i]
        best, best_length, best_start, best_target = distance, zero, zero, zero
        for start in range(n):
            place = head[hyp[start]] if hyp[start] >= 0 else -1
            while place >= 0 and place <= start + FARTHEST_SHIFT:
                most = min(LONGEST_SHIFT, min(n - start, m - place)) if place >= start - FARTHEST_SHIFT else 0
                wrong_here = wrong_there = False
                length = zero
                while length < most and hyp[start + length] == ref[place + length]:
                    wrong_here |= hyp_wrong[start + length]
                    wrong_there |= ref_wrong[place + length]
                    length += 1
                    if not (wrong_here and wrong_there) or start <= align[place] < start + length:
                        continue
                    before = zero - 1
                    for k in range(place - 1, place + length):
                        target = align[k] + 1 if k >= 0 else zero
                        if target == before:
                            continue
                        before = target
                        tried += 1
                        a, b = _shift(hyp, n, start, length, target, moved)
                        # in the beam, the distance is no less than this, which is quickly edits
                        edits = edit_distance(moved, zero, n, m, equal, plus, minus) if m <= _SHORT else zero
                        if edits <= best and edits < distance:
                            edits = _distance(moved, a, n, ref, m, low, high, stride, forward, cells)
                        for i in range(a, b):
                            moved[i] = hyp[i]
                        if edits > best or edits == distance:
                            continue
                        better = edits < best or length > best_length
                        if not better and length == best_length:
                            better = start < best_start or (start == best_start and target < best_target)
                        if better:
                            best, best_length, best_start, best_target = edits, length, start, target
                    if tried >= MOST_SHIFTS:
                        return shifts + distance
                place = after[place]
        if best == distance:
            return shifts + distance
        first, last = _shift(hyp, n, best_start, best_length, best_target, moved)
        for i in range(first, last):
            hyp[i] = moved[i]
        shifts += 1


@kernel
def _fill_ter(hyp_ptr, ptr, ids, ref_ptr, ref_sym_ptr, ref_ids, n_types, out):  # type: ignore[no-untyped-def]
    """IN Symbols; OUT out[H, 2]."""
    n_max, m_max = longest_part(ptr), longest_part(ref_sym_ptr)
    hyp, moved = np.empty(n_max, np.int32), np.empty(n_max, np.int32)
    low, high = np.empty(n_max + 1, np.int64), np.empty(n_max + 1, np.int64)
    # (n + 1) strides: 52 each, or at most m / n + 54 where m > 50 n
    size = 54 * (n_max + 1) + 2 * m_max
    forward, cells = np.empty(size, np.int64), np.empty(size, np.int64)
    after, align = np.empty(m_max, np.int64), np.empty(m_max, np.int64)
    hyp_wrong, ref_wrong = np.empty(n_max, np.bool_), np.empty(m_max, np.bool_)
    plus, minus = np.empty(m_max // 64 + 1, np.uint64), np.empty(m_max // 64 + 1, np.uint64)
    room = low, high, forward, cells, moved, align, hyp_wrong, ref_wrong, plus, minus
    for s in range(len(hyp_ptr) - 1):
        total = 0
        for r in range(ref_ptr[s], ref_ptr[s + 1]):
            ref = ref_ids[ref_sym_ptr[r] : ref_sym_ptr[r + 1]]
            m = len(ref)
            total += m
            equal = symbol_places(ref_ids, ref_sym_ptr[r], m if m <= _SHORT else 0, n_types[s])
            head = np.full(n_types[s], -1, np.int64)
            for j in range(m - 1, -1, -1):
                after[j] = head[ref[j]]
                head[ref[j]] = j
            for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
                n = ptr[h + 1] - ptr[h]
                for i in range(n):
                    hyp[i] = ids[ptr[h] + i]
                edits = _edits(hyp, n, ref, m, head, after, equal, room)
                if r == ref_ptr[s] or edits < out[h, 0]:
                    out[h, 0] = edits
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            out[h, 1] = total / (ref_ptr[s + 1] - ref_ptr[s])


def ter_stats(texts: Texts, *, threads: int = 1) -> F64:
    """Rows [H, 2] (fewest edits, mean reference length) of hypotheses [H] against references, lowercased.

    Every sentence has at least one. Equal to sacrebleu's statistics on every hypothesis, whatever the number of threads.
    """
    out, texts = np.zeros((len(texts.text), N_STATS)), texts._replace(text=lower(texts.text), refs=lower(texts.refs))
    return fill_rows(lambda rows, words: _fill_ter(*words, rows), out, texts, (WORDS,), threads)


def ter(rows: Array) -> F64:
    """TER [...] (0..1, or more) of rows [..., 2] or of their sums; of empty references, 1 if any edits."""
    rows = np.asarray(rows, np.float64)
    edits, ref_len = rows[..., EDITS], rows[..., REF_LEN]
    return np.where(ref_len > 0, edits / np.where(ref_len > 0, ref_len, 1), (edits > 0).astype(np.float64))
