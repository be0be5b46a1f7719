"""BLEU from sufficient statistics: one row of six integers per hypothesis.

A row is ``(c1, c2, c3, c4, hyp_len, ref_len)``: clipped n-gram matches, the number of tokens, and the closest
reference's length (the shorter of two equally close ones). The number of n-grams of a hypothesis is
``max(0, hyp_len - n + 1)`` and needs no column. Rows add up: corpus scores, bootstrap and tuning reuse them.

Definitions are sacrebleu's with tokenisation ``none``. Everything here works on the 0..1 scale.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I32, I64, Array, Bool, in_ranges
from ..core.kernels import kernel
from ..core.text import Strings, string_buffers

ORDER = 4
N_STATS = ORDER + 2
HYP_LEN, REF_LEN = ORDER, ORDER + 1
_ROWS = 1 << 16  # whose scores are computed at a time
MAX_REF_TYPES = 65_534  # distinct reference tokens of one sentence: an n-gram is four 16-bit ids in one word


# ---------------------------------------------------------------------------------------------------------------------
# From text to statistics
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def space_width(text, i, end):  # type: ignore[no-untyped-def]
    """Bytes of the white space character at i, 0 if there is none: exactly what ``str.split`` splits on."""
    c = text[i]
    if c == 32 or (9 <= c <= 13) or (28 <= c <= 31):
        return 1
    if c < 0xC2:
        return 0
    if c == 0xC2 and i + 1 < end:
        return 2 if text[i + 1] == 0x85 or text[i + 1] == 0xA0 else 0
    if i + 2 < end:
        d, e = text[i + 1], text[i + 2]
        if c == 0xE1:
            return 3 if d == 0x9A and e == 0x80 else 0
        if c == 0xE2:
            if d == 0x80:
                return 3 if (0x80 <= e <= 0x8A) or e == 0xA8 or e == 0xA9 or e == 0xAF else 0
            return 3 if d == 0x81 and e == 0x9F else 0
        if c == 0xE3:
            return 3 if d == 0x80 and e == 0x80 else 0
    return 0


@kernel
def split_tokens(text, begin, end, starts, ends, hashes):  # type: ignore[no-untyped-def]
    """Token boundaries and hashes (FNV-1a) of text[begin:end] into OUT starts, ends, hashes; returns their number."""
    n, i = 0, begin
    while i < end:
        width = space_width(text, i, end)
        if width:
            i += width
            continue
        starts[n] = i
        h = np.uint64(14695981039346656037)
        while i < end:
            c = text[i]
            if (c <= 32 or c >= 0xC2) and space_width(text, i, end):
                break
            h = (h ^ np.uint64(c)) * np.uint64(1099511628211)
            i += 1
        ends[n] = i
        hashes[n] = h
        n += 1
    return n


@kernel
def token_id(text, begin, end, h, ref, table, type_start, type_end, n_types):  # type: ignore[no-untyped-def]
    """(id, slot) of a token among the sentence's reference tokens, id -1 if it is none: equal hashes are compared by bytes."""
    mask = np.uint64(len(table) - 1)
    slot = (h ^ (h >> np.uint64(29))) & mask
    while table[slot] >= 0:
        t = table[slot]
        if type_end[t] - type_start[t] == end - begin:
            i, j = begin, type_start[t]
            while i < end and ref[j] == text[i]:
                i += 1
                j += 1
            if i == end:
                return np.int64(t), slot
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1), slot


@kernel
def _ngram_slot(key, keys, insert):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(keys) - 1)
    slot = ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != 0:
        if keys[slot] == key:
            return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    if insert:
        keys[slot] = key
        return np.int64(slot)
    return np.int64(-1)


@kernel
def power_of_two(n):  # type: ignore[no-untyped-def]
    size = 8
    while size < n:
        size *= 2
    return size


@kernel
def _fill_stats(hyp_ptr, text_ptr, text, ref_ptr, ref_text_ptr, ref, first, last, out):  # type: ignore[no-untyped-def]
    """IN hyp_ptr[S+1], text_ptr[H+1], text, ref_ptr[S+1], ref_text_ptr[N+1], ref; OUT out[H, 6]. Sentences first:last.

    Returns -1, or the first sentence with more than MAX_REF_TYPES distinct reference tokens.
    """
    for s in range(first, last):
        r0, r1 = ref_ptr[s], ref_ptr[s + 1]
        n_ref_bytes = ref_text_ptr[r1] - ref_text_ptr[r0]
        n_hyp_bytes = 0
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            n_hyp_bytes = max(n_hyp_bytes, text_ptr[h + 1] - text_ptr[h])
        longest = max(n_ref_bytes, n_hyp_bytes) // 2 + 1
        starts, ends, hashes = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.uint64)
        # a reference of b bytes has at most b // 2 + 1 tokens, and these are fewer n-grams of each order
        n_max = n_ref_bytes // 2 + (r1 - r0)
        table = np.full(power_of_two(2 * n_max), -1, np.int32)
        type_start, type_end = np.empty(n_max, np.int64), np.empty(n_max, np.int64)
        # counts of unigrams stand at their ids, those of longer n-grams behind them at n_max + their slot in keys
        keys = np.zeros(power_of_two(2 * 3 * n_max), np.uint64)
        most = np.zeros(n_max + len(keys), np.int32)
        count = np.zeros(n_max + len(keys), np.int32)
        touched = np.empty(4 * longest, np.int64)
        ids = np.empty(longest, np.int64)
        ref_lens = np.empty(r1 - r0, np.int64)
        n_types = 0
        for r in range(r0, r1):
            n = split_tokens(ref, ref_text_ptr[r], ref_text_ptr[r + 1], starts, ends, hashes)
            ref_lens[r - r0] = n
            for i in range(n):
                t, slot = token_id(ref, starts[i], ends[i], hashes[i], ref, table, type_start, type_end, n_types)
                if t < 0:
                    if n_types == MAX_REF_TYPES:
                        return s
                    t = np.int64(n_types)
                    table[slot] = t
                    type_start[t], type_end[t] = starts[i], ends[i]
                    n_types += 1
                ids[i] = t
            n_touched = 0
            for i in range(n):
                key = np.uint64(0)
                for k in range(min(4, n - i)):
                    key |= np.uint64(ids[i + k] + 1) << np.uint64(16 * k)
                    slot = n_max + _ngram_slot(key, keys, True) if k else ids[i]
                    if count[slot] == 0:
                        touched[n_touched] = slot
                        n_touched += 1
                    count[slot] += 1
            for i in range(n_touched):
                slot = touched[i]
                most[slot] = max(most[slot], count[slot])
                count[slot] = 0
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            n = split_tokens(text, text_ptr[h], text_ptr[h + 1], starts, ends, hashes)
            for i in range(n):
                ids[i], _ = token_id(text, starts[i], ends[i], hashes[i], ref, table, type_start, type_end, n_types)
            row = out[h]
            row[0] = row[1] = row[2] = row[3] = 0
            n_touched = 0
            for i in range(n):
                key = np.uint64(0)
                for k in range(min(4, n - i)):
                    if ids[i + k] < 0:
                        break
                    key |= np.uint64(ids[i + k] + 1) << np.uint64(16 * k)
                    slot = n_max + _ngram_slot(key, keys, False) if k else ids[i]
                    if slot < n_max and k:
                        break  # no reference has this n-gram, so none has a longer one that starts with it
                    if count[slot] == 0:
                        touched[n_touched] = slot
                        n_touched += 1
                    count[slot] += 1
                    if count[slot] <= most[slot]:
                        row[k] += 1
            for i in range(n_touched):
                count[touched[i]] = 0
            row[4] = n
            closest = ref_lens[0]
            for r in range(1, r1 - r0):
                d, best = abs(ref_lens[r] - n), abs(closest - n)
                if d < best or (d == best and ref_lens[r] < closest):
                    closest = ref_lens[r]
            row[5] = closest
    return -1


def bleu_stats(hyp_ptr: I64, texts: Strings, ref_ptr: I64, refs: Strings, *, threads: int = 1) -> I32:
    """Statistics [H, 6] of every hypothesis of every list against the sentence's references.

    Hypotheses of sentence s are ``texts[hyp_ptr[s]:hyp_ptr[s+1]]``, and likewise its references, of which every sentence has
    one at least. Equal to sacrebleu's statistics on every hypothesis; the result does not depend on the number of threads.
    """
    (text_ptr, text), (ref_text_ptr, ref) = string_buffers(texts), string_buffers(refs)
    if (np.diff(ref_ptr) < 1).any():
        raise ValueError(f"sentence {int(np.argmin(np.diff(ref_ptr)))}: expected at least one reference, found none")
    out = np.zeros((len(text_ptr) - 1, N_STATS), np.int32)

    def work(some: slice) -> int:
        return int(_fill_stats(hyp_ptr, text_ptr, text, ref_ptr, ref_text_ptr, ref, some.start, some.stop, out))

    for s in in_ranges(work, len(hyp_ptr) - 1, threads):
        if s >= 0:
            raise ValueError(f"sentence {s} has more than {MAX_REF_TYPES} distinct reference tokens: the limit")
    return out


# ---------------------------------------------------------------------------------------------------------------------
# From statistics to scores
# ---------------------------------------------------------------------------------------------------------------------


def ngram_totals(hyp_len: Array) -> Array:
    """Numbers of 1- to 4-grams of hypotheses with these lengths: [..., 4]."""
    return np.maximum(np.asarray(hyp_len)[..., None] - np.arange(ORDER), 0)


def strict_lengths(stats: Array) -> Array:
    """Return the length in the brevity penalty of BLEU-SBP: min(hyp_len, ref_len) [C08]."""
    return np.minimum(stats[..., HYP_LEN], stats[..., REF_LEN])


def sum_stats(stats: Array) -> I64:
    """Corpus statistics [11] of one hypothesis per sentence [S, 6].

    ``(c1..c4, t1..t4, hyp_len, ref_len, strict_len)``: the n-gram totals and the strict length do not follow from the
    summed row, so they get columns of their own.
    """
    return corpus_rows(stats).sum(axis=tuple(range(stats.ndim - 1)), dtype=np.int64)


def corpus_rows(stats: Array) -> I64:
    """The additive form [..., 11] of statistics [..., 6]; see sum_stats."""
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
