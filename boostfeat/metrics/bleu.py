"""BLEU from sufficient statistics: one row of six integers per hypothesis.

A row is ``(c1, c2, c3, c4, hyp_len, ref_len)``: clipped n-gram matches, the number of tokens, and the closest
reference's length (the shorter of two equally close ones). The number of n-grams of a hypothesis is
``max(0, hyp_len - n + 1)`` and needs no column. Rows add up: corpus scores, bootstrap and tuning reuse them.

Definitions are sacrebleu's with tokenisation ``none``. Everything here works on the 0..1 scale.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I32, I64, Array, Bool
from ..core.kernels import kernel
from .ngrams import clipped_trie, match_ngrams
from .symbols import WORDS, Texts, fill_rows, longest_part

ORDER = 4
N_STATS = ORDER + 2
HYP_LEN, REF_LEN = ORDER, ORDER + 1
HYP_SUM, REF_SUM = 2 * ORDER, 2 * ORDER + 1  # the same columns of corpus statistics
_ROWS = 1 << 16  # whose scores are computed at a time
ZERO, MOST = np.int64(0), np.int64(ORDER)  # literals would have kernels compiled a second time


# ---------------------------------------------------------------------------------------------------------------------
# From text to statistics
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def fill_row(trie, ref_ptr, ids, begin, end, matches, row):  # type: ignore[no-untyped-def]
    """OUT row[6] of ids[begin:end] against references of these offsets; ``matches`` [1, 4] is for work."""
    for k in range(ORDER):  # as a slice it would take longer to compile
        matches[0, k] = 0
    match_ngrams(ids, begin, end, ZERO, MOST, *trie, ZERO, matches)
    for k in range(ORDER):
        row[k] = matches[0, k]
    n, closest = end - begin, ref_ptr[1] - ref_ptr[0]
    for r in range(1, len(ref_ptr) - 1):
        length = ref_ptr[r + 1] - ref_ptr[r]
        d, best = abs(length - n), abs(closest - n)
        if d < best or (d == best and length < closest):
            closest = length
    row[HYP_LEN], row[REF_LEN] = n, closest


@kernel
def _fill_stats(hyp_ptr, ptr, ids, ref_ptr, ref_sym_ptr, ref_ids, n_types, out):  # type: ignore[no-untyped-def]
    """IN Symbols; OUT out[H, 6]."""
    room, matches = MOST * longest_part(ptr), np.empty((1, ORDER), np.int64)
    for s in range(len(hyp_ptr) - 1):
        own_ptr = ref_sym_ptr[ref_ptr[s] : ref_ptr[s + 1] + 1]
        trie = clipped_trie(own_ptr, ref_ids, n_types[s], MOST, room)
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            fill_row(trie, own_ptr, ids, ptr[h], ptr[h + 1], matches, out[h])


def bleu_stats(texts: Texts, *, threads: int = 1) -> I32:
    """Statistics [H, 6] of every hypothesis of every list against the sentence's references.

    Every sentence has at least one reference. Equal to sacrebleu's statistics on every hypothesis; the result does not depend
    on the number of threads.
    """
    out = np.zeros((len(texts.text), N_STATS), np.int32)
    return fill_rows(lambda rows, symbols: _fill_stats(*symbols, rows), out, texts, (WORDS,), threads)


# ---------------------------------------------------------------------------------------------------------------------
# From statistics to scores
# ---------------------------------------------------------------------------------------------------------------------


def ngram_totals(hyp_len: Array) -> Array:
    """Numbers of 1- to 4-grams of hypotheses with these lengths: [..., 4]."""
    return np.maximum(np.asarray(hyp_len)[..., None] - np.arange(ORDER), 0)


def strict_lengths(stats: Array) -> Array:
    """Return the length in the brevity penalty of BLEU-SBP: min(hyp_len, ref_len) [C08]."""
    return np.minimum(stats[..., HYP_LEN], stats[..., REF_LEN])


def corpus_rows(stats: Array) -> I64:
    """The additive form [..., 11] of statistics [..., 6], of which sums over sentences are corpus statistics.

    ``(c1..c4, t1..t4, hyp_len, ref_len, strict_len)``: the n-gram totals and the strict length do not follow from the
    summed row, so they get columns of their own.
    """
    stats = np.asarray(stats)
    rows = np.empty((*stats.shape[:-1], 11), np.int64)
    rows[..., :4] = stats[..., :ORDER]
    rows[..., 4:8] = ngram_totals(stats[..., HYP_LEN])
    rows[..., 8:10] = stats[..., HYP_LEN:]
    rows[..., 10] = strict_lengths(stats)
    return rows


def corpus_bleu(sums: Array, *, strict: bool = False) -> F64:
    """BLEU (0..1) of corpus statistics [..., 11], as sacrebleu computes it (zero matches smoothed by ``exp``).

    BLEU = BP · exp(1/4 Σ_n ln(c_n / t_n)),  BP = min(1, exp(1 - ref_len / hyp_len))
    With ``strict``, BLEU-SBP [C08]: hyp_len in BP is the sum of min(hyp_len, ref_len) over sentences.
    Statistics may be fractional (expected counts).
    """
    sums = np.asarray(sums, np.float64)
    c, t = sums[..., :4], sums[..., 4:8]
    length, ref_len = sums[..., 10 if strict else 8], sums[..., 9]
    some, room = c > 0, t > 0
    all_match = some.all()  # as in most corpora: there is nothing to smooth
    matches: F64 = c if all_match else np.where(some, c, 0.5 ** np.cumsum(~some & room, axis=-1))  # 1 / 2^n, the n-th zero
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(room, matches / t, 0.0)
        brevity = np.where(length < ref_len, np.exp(1 - ref_len / length), 1.0)
        log = np.log(precision)
        bleu = brevity * np.exp((log[..., 0] + log[..., 1] + log[..., 2] + log[..., 3]) / ORDER)
    alive: Bool = room.all(axis=-1) & some.any(axis=-1) & (length > 0)
    return np.where(alive, bleu, 0.0)


def brevity_penalty(sums: Array, *, strict: bool = False) -> float:
    """BP of corpus statistics [11]: BLEU is this times its precision."""
    length, ref_len = float(sums[10 if strict else 8]), float(sums[9])
    return 1.0 if length >= ref_len else float(np.exp(1 - ref_len / length)) if length else 0.0


def sentence_bleu(stats: Array, *, alpha: float = 1.0) -> F64:
    """Smoothed sentence BLEU [...] (0..1) of statistics [..., 6]: BLEU+1 for alpha = 1 [LO04], BLEU+alpha else.

    p_1 = c_1 / t_1,  p_n = (c_n + α) / (t_n + α) for n > 1; 0 where no word matches.
    [TA13 footnote 1] does not say which orders are smoothed; as in [LO04], the first is not, so that alpha = 1 is BLEU+1.
    alpha = 0 is unsmoothed BLEU.
    """
    stats = np.asarray(stats)
    if len(stats) > _ROWS:  # as 64-bit numbers, the rows of a large list would be gigabytes
        return np.concatenate([sentence_bleu(stats[k : k + _ROWS], alpha=alpha) for k in range(0, len(stats), _ROWS)])
    stats = stats.astype(np.float64)
    c, t = stats[..., :ORDER], ngram_totals(stats[..., HYP_LEN])
    length, ref_len = stats[..., HYP_LEN], stats[..., REF_LEN]
    add = np.array([0.0, alpha, alpha, alpha])
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(t + add > 0, (c + add) / (t + add), 0.0)
        brevity = np.where(length < ref_len, np.exp(1 - ref_len / length), 1.0)
        bleu = brevity * np.exp(np.log(precision).mean(axis=-1))
    return np.where(length > 0, bleu, 0.0)


def context_bleu(stats: Array, background: Array, *, strict: bool = False) -> F64:
    """Corpus BLEU [...] of each hypothesis [..., 6] added to the statistics [..., 11] of a pseudo-corpus."""
    return corpus_bleu(corpus_rows(stats) + background, strict=strict)
