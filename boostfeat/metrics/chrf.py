"""chrF and chrF++ [P15], [P17], from rows of n-gram counts per hypothesis.

A row is ``(hyp, ref, match)`` of each order: characters 1 to 6, and for chrF++ also words 1 and 2. Of several
references, that of the best score counts. Rows add up: the chrF of a corpus is that of their sum.

Definitions are sacrebleu's with its default arguments: β = 2, case kept, white space left out, and orders
that hypothesis or reference are too short for left out of the mean. Everything here works on the 0..1 scale.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I32, Array
from ..core.kernels import kernel
from .ngrams import count_ngrams, match_ngrams, new_trie
from .symbols import LETTERS, SEPARATED, Symbols, Texts, fill_rows, longest_part

CHAR_ORDER = 6
WORD_ORDER = 2  # of chrF++
BETA = 2  # recall weighs twice as much as precision


@kernel
def f_score(row):  # type: ignore[no-untyped-def]
    """F_β = (1 + β²) P R / (β² P + R),  P, R = means of match / hyp and match / ref over orders with both."""
    precision = recall = 0.0
    orders = 0
    for k in range(0, len(row), 3):
        if row[k] > 0 and row[k + 1] > 0:
            precision += row[k + 2] / row[k]
            recall += row[k + 2] / row[k + 1]
            orders += 1
    if precision + recall == 0:
        return 0.0
    precision /= orders
    recall /= orders
    return (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)


@kernel
def _f_scores(rows, out):  # type: ignore[no-untyped-def]
    for h in range(len(rows)):
        out[h] = f_score(rows[h])


@kernel
def _put_counts(row, at, order, n, m, matches):  # type: ignore[no-untyped-def]
    """OUT row[3 at : 3 (at + order)] of n symbols and a reference of m; if it has no n-grams, none count."""
    for k in range(order):
        n_ref = max(0, m - k)
        row[3 * (at + k)] = max(0, n - k) if n_ref else 0
        row[3 * (at + k) + 1] = n_ref
        row[3 * (at + k) + 2] = matches[at + k]


@kernel
def _fill_chrf(  # type: ignore[no-untyped-def]
    hyp_ptr, ref_ptr, c_ptr, c_ids, c_ref_ptr, c_ref, c_types, w_ptr, w_ids, w_ref_ptr, w_ref, word_order, out
):
    """IN Symbols of characters (c) and words (w); OUT out[H, 3 (6 + word_order)].

    One trie holds the n-grams of all references of a sentence.
    """
    # not literals, for which numba would compile kernels a second time
    no_root, chars = np.int64(0), np.int64(CHAR_ORDER)
    room = chars * longest_part(c_ptr)
    row = np.empty(out.shape[1])
    for s in range(len(hyp_ptr) - 1):
        r0, r1 = ref_ptr[s], ref_ptr[s + 1]
        most = chars * (c_ref_ptr[r1] - c_ref_ptr[r0]) + word_order * (w_ref_ptr[r1] - w_ref_ptr[r0])
        trie = keys, nodes, counts, _, _ = new_trie(most, r1 - r0, room)
        # nodes 0, 1, ... are characters, those behind words, those behind longer n-grams
        root = c_types[s]
        n_nodes = root
        if word_order:
            for i in range(w_ref_ptr[r0], w_ref_ptr[r1]):
                n_nodes = max(n_nodes, root + w_ref[i] + 1)
        for r in range(r1 - r0):
            begin, end = c_ref_ptr[r0 + r], c_ref_ptr[r0 + r + 1]
            n_nodes = count_ngrams(c_ref, begin, end, no_root, chars, keys, nodes, n_nodes, r, counts)
            if word_order:
                begin, end = w_ref_ptr[r0 + r], w_ref_ptr[r0 + r + 1]
                n_nodes = count_ngrams(w_ref, begin, end, root, word_order, keys, nodes, n_nodes, r, counts)
        matches = np.empty((r1 - r0, chars + word_order), np.int64)
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            for r in range(r1 - r0):
                for k in range(chars + word_order):
                    matches[r, k] = 0
            begin, end, w_begin, w_end = c_ptr[h], c_ptr[h + 1], w_ptr[h], w_ptr[h + 1]
            match_ngrams(c_ids, begin, end, no_root, chars, *trie, no_root, matches)
            if word_order:
                match_ngrams(w_ids, w_begin, w_end, root, word_order, *trie, chars, matches)
            best = -1.0
            for r in range(r1 - r0):
                length = c_ref_ptr[r0 + r + 1] - c_ref_ptr[r0 + r]
                _put_counts(row, no_root, chars, end - begin, length, matches[r])
                length = w_ref_ptr[r0 + r + 1] - w_ref_ptr[r0 + r]
                _put_counts(row, chars, word_order, w_end - w_begin, length, matches[r])
                score = f_score(row) if r1 - r0 > 1 else 0.0
                if score > best:
                    best = score
                    for k in range(len(row)):
                        out[h, k] = np.int32(row[k])


def chrf_stats(texts: Texts, *, word_order: int = 0, threads: int = 1) -> I32:
    """Rows [H, 18] of hypotheses [H] against references; [H, 24] with word_order = 2, chrF++.

    Every sentence has at least one. Equal to sacrebleu's statistics on every hypothesis, whatever the number of threads.
    """

    def fill(rows: I32, characters: Symbols, words: Symbols | None = None) -> None:
        c, w = ((x.ptr, x.ids, x.ref_sym_ptr, x.ref_ids) for x in (characters, words or characters))
        _fill_chrf(characters.hyp_ptr, characters.ref_ptr, *c, characters.n_types, *w, word_order, rows)

    out = np.zeros((len(texts.text), 3 * (CHAR_ORDER + word_order)), np.int32)
    return fill_rows(fill, out, texts, (LETTERS, SEPARATED) if word_order else (LETTERS,), threads)


def chrf(rows: Array) -> F64:
    """chrF [...] (0..1) of rows [..., 18] or chrF++ of rows [..., 24].

    Of hypotheses, or of a corpus where a row is a sum of rows. Counts may be fractional (expected counts).
    """
    rows = np.ascontiguousarray(rows, np.float64)
    out = np.empty(rows.shape[:-1])
    _f_scores(rows.reshape(-1, rows.shape[-1]), out.reshape(-1))
    return out
