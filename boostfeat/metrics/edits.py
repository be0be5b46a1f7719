"""Word and character error rates (WER, CER), from rows of two integers: edits, reference length.

    rate = Σ edits / Σ reference length,   edits = substitutions + insertions + deletions

Of several references, that of the lowest rate counts, the first among equals. Rates are jiwer's, on the 0..1
scale (lower is better).

Deviation: words are what str.split gives. jiwer divides at blanks only, so that a single tab or no-break
space stays within a word.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I32, Array
from ..core.kernels import kernel
from .symbols import CHARACTERS, WORDS, Texts, fill_rows, longest_part

EDITS, REF_LEN = 0, 1
N_STATS = 2


@kernel
def edit_distance(ids, begin, end, m, equal, plus, minus):  # type: ignore[no-untyped-def]
    """Edit distance of ids[begin:end] and a reference of m > 0 symbols, 64 at once [M99], [H03].

    IN equal[types, W] (see symbol_places). plus[W], minus[W] are for work: where a column of the matrix of
    distances rises by one from a place to the next, and where it falls.
    """
    one, blocks = np.uint64(1), (m + 63) // 64
    top = np.uint64((m - 1) & 63)
    for w in range(blocks):
        plus[w], minus[w] = ~np.uint64(0), np.uint64(0)
    distance = m
    for i in range(begin, end):
        # what the row above the block does between this column and the next; the first rises
        rises, falls = one, np.uint64(0)
        for w in range(blocks):
            eq = equal[ids[i], w] if ids[i] >= 0 else np.uint64(0)
            up, down = plus[w], minus[w]
            vertical = eq | down
            eq |= falls
            horizontal = (((eq & up) + up) ^ up) | eq
            right_up = down | ~(horizontal | up)
            right_down = up & horizontal
            if w == blocks - 1:
                distance += np.int64((right_up >> top) & one) - np.int64((right_down >> top) & one)
            carry_up, carry_down = right_up >> np.uint64(63), right_down >> np.uint64(63)
            right_up = (right_up << one) | rises
            right_down = (right_down << one) | falls
            plus[w] = right_down | ~(vertical | right_up)
            minus[w] = right_up & vertical
            rises, falls = carry_up, carry_down
    return distance


@kernel
def symbol_places(ref_ids, begin, m, n_types):  # type: ignore[no-untyped-def]
    """equal[types, W] of ref_ids[begin:begin+m]: bit j of a symbol is set where the reference has it at j."""
    equal = np.zeros((n_types, (m + 63) // 64), np.uint64)
    for j in range(m):
        equal[ref_ids[begin + j], j >> 6] |= np.uint64(1) << np.uint64(j & 63)
    return equal


@kernel
def _fill_edits(hyp_ptr, ptr, ids, ref_ptr, ref_sym_ptr, ref_ids, n_types, out):  # type: ignore[no-untyped-def]
    """IN Symbols; OUT out[H, 2]."""
    blocks = (longest_part(ref_sym_ptr) + 63) // 64
    plus, minus = np.empty(blocks, np.uint64), np.empty(blocks, np.uint64)
    for s in range(len(hyp_ptr) - 1):
        for r in range(ref_ptr[s], ref_ptr[s + 1]):
            begin, m = ref_sym_ptr[r], ref_sym_ptr[r + 1] - ref_sym_ptr[r]
            equal = symbol_places(ref_ids, begin, m, n_types[s])
            for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
                edits = ptr[h + 1] - ptr[h]
                if m:
                    edits = edit_distance(ids, ptr[h], ptr[h + 1], m, equal, plus, minus)
                if r == ref_ptr[s] or edits * max(1, out[h, 1]) < out[h, 0] * max(1, m):
                    out[h, 0], out[h, 1] = edits, m


def edit_stats(texts: Texts, *, characters: bool = False, threads: int = 1) -> I32:
    """Rows [H, 2] (edits, reference length), in words or characters, of hypotheses [H] against references.

    Every sentence has at least one. Case counts; white space at both ends does not. The number of threads does not matter.
    """
    out = np.zeros((len(texts.text), N_STATS), np.int32)
    kind = CHARACTERS if characters else WORDS
    return fill_rows(lambda rows, symbols: _fill_edits(*symbols, rows), out, texts, (kind,), threads)


def error_rate(rows: Array) -> F64:
    """WER or CER [...] (0..1, or more) of rows [..., 2] or of their sums; of empty references, the edits."""
    rows = np.asarray(rows, np.float64)
    return rows[..., EDITS] / np.maximum(rows[..., REF_LEN], 1)
