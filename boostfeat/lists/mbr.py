"""Minimum Bayes risk [KB04]: the hypothesis of the highest expected gain, the list taken for references.

    E(h) = Σ_{h'} p(h') gain(h, h'),   p = softmax(scale · score) over the list

Exact, over all pairs of a list. For BLEU+1, what two hypotheses have in common is counted on bit sets of n-gram keys (see
``ngrams``); chrF, TER, WER and CER count every pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.arrays import F64, I64, in_threads
from ..core.errors import InputError
from ..core.kernels import kernel
from ..metrics.metric import Bleu, SentenceBleu, TextMetric, metric_of
from ..metrics.ngrams import list_keys, posteriors
from ..metrics.symbols import Texts
from .choices import best_choice
from .nbest import NBest
from .words import Words, words_of

LONGEST = 20_000  # hypotheses of a list: 200 million pairs take minutes
_RUN = 64  # sentences whose words are known at a time: those of all take several times the memory of the texts
_PAIRS, _QUADS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@kernel(inline="always")
def _ones(x):  # type: ignore[no-untyped-def]
    """Bits set in a word."""
    x -= (x >> np.uint64(1)) & _PAIRS
    x = (x & _QUADS) + ((x >> np.uint64(2)) & _QUADS)
    x = (x + (x >> np.uint64(4))) & _NIBBLES
    return (x * _BYTES) >> np.uint64(56)


@kernel
def _bit_sets(token_ptr, keys, n_keys, first, last):  # type: ignore[no-untyped-def]
    """(bits[hyps, words], word_ptr[5], shared[4]): the keys of each hypothesis, order by order in words of their own.

    A key that all hypotheses have is only counted (shared); one that a single hypothesis has matches nothing and is left out.
    """
    n, begin = last - first, token_ptr[first]
    holders = np.zeros(n_keys, np.int64)
    for i in range(len(keys)):
        for k in range(4):
            if keys[i, k] >= 0:
                holders[keys[i, k]] += 1
    place = np.full(n_keys, -1, np.int64)
    word_ptr = np.zeros(5, np.int64)
    shared = np.zeros(4, np.int64)
    for k in range(4):
        at = 64 * word_ptr[k]
        for i in range(len(keys)):
            key = keys[i, k]
            if key >= 0 and holders[key] == n:
                shared[k] += 1
                holders[key] = 0  # counted
            elif key >= 0 and holders[key] > 1 and place[key] < 0:
                place[key] = at
                at += 1
        word_ptr[k + 1] = (at + 63) // 64
    bits = np.zeros((n, word_ptr[4]), np.uint64)
    for h in range(n):
        for i in range(token_ptr[first + h] - begin, token_ptr[first + h + 1] - begin):
            for k in range(4):
                key = keys[i, k]
                if key >= 0 and place[key] >= 0:
                    bits[h, place[key] >> 6] |= np.uint64(1) << np.uint64(place[key] & 63)
    return bits, word_ptr, shared


@kernel(error_model="numpy")
def _expected_gains(hyp_ptr, token_ptr, tokens, p, totals, out):  # type: ignore[no-untyped-def]
    """IN p[H, C], totals[length]; OUT out[H, C] += Σ_h' p[h', c] BLEU+1(h, h')."""
    penalty = np.empty(len(totals))
    for s in range(len(hyp_ptr) - 1):
        first, last = hyp_ptr[s], hyp_ptr[s + 1]
        if first == last:
            continue
        keys, n_keys = list_keys(token_ptr, tokens, first, last)
        bits, word_ptr, shared = _bit_sets(token_ptr, keys, n_keys, first, last)
        shortest, longest = len(totals), 0
        for h in range(first, last):
            shortest, longest = min(shortest, token_ptr[h + 1] - token_ptr[h]), max(longest, token_ptr[h + 1] - token_ptr[h])
        for a in range(last - first):
            len_a = token_ptr[first + a + 1] - token_ptr[first + a]
            if len_a == 0:
                continue  # nothing matches: BLEU+1 is 0 both ways
            for c in range(p.shape[1]):
                out[first + a, c] += p[first + a, c]  # BLEU+1(h, h) = 1
            for n in range(max(shortest, 1), longest + 1):  # of the shorter one of two
                penalty[n] = np.exp(1 - max(n, len_a) / min(n, len_a))
            for b in range(a + 1, last - first):
                len_b, product = token_ptr[first + b + 1] - token_ptr[first + b], 1.0
                for k in range(4):
                    common = shared[k] + (k > 0)  # add-one smoothing, but of words
                    for w in range(word_ptr[k], word_ptr[k + 1]):
                        common += np.int64(_ones(bits[a, w] & bits[b, w]))
                    product *= common
                if product == 0.0:
                    continue
                # matches are the same both ways; the number of n-grams and the brevity penalty are not
                root = np.sqrt(np.sqrt(product))
                ab = root / totals[len_a] * (penalty[len_b] if len_a < len_b else 1.0)
                ba = root / totals[len_b] * (penalty[len_b] if len_b < len_a else 1.0)
                for c in range(p.shape[1]):
                    out[first + a, c] += p[first + b, c] * ab
                    out[first + b, c] += p[first + a, c] * ba


def _smoothed_totals(longest: int) -> F64:
    """[longest + 1] the root of the product of the numbers of 1- to 4-grams of n words: n, n, n - 1, n - 2, with add-one
    smoothing but of words.
    """
    n = np.arange(longest + 1.0)
    return np.sqrt(np.sqrt(n * n * np.maximum(n - 1, 1) * np.maximum(n - 2, 1)))


def _check_longest(hyp_ptr: I64) -> None:
    if (longest := int(np.diff(hyp_ptr).max(initial=0))) > LONGEST:
        raise InputError(
            f"minimum Bayes risk: expected lists of at most {LONGEST:,} hypotheses, since all pairs are compared, found one of "
            f"{longest:,}; import fewer with --size, or leave it out (featurize: without the template mbr, and with --scale)"
        )


def expected_gains(hyp_ptr: I64, words: Words, p: F64) -> F64:
    """[H, C] expected BLEU+1 of every hypothesis under each of C posteriors p [H, C]."""
    _check_longest(hyp_ptr)
    out, totals = np.zeros(p.shape), _smoothed_totals(int(words.counts.max(initial=0)))
    _expected_gains(hyp_ptr, words.ptr, words.ids, np.ascontiguousarray(p), totals, out)
    return out


def mbr_gains(nbest: NBest, scores: F64, scales: Sequence[float] = (1.0,), *, gain: str = "bleu", threads: int = 1) -> F64:
    """[H, C] expected gain under the softmax of the scores [H] at each of C scales."""
    p = np.stack([posteriors(nbest.hyp_ptr, scores, scale=scale) for scale in scales], axis=1)
    return expected_under(nbest, p, gain=gain, threads=threads)


def expected_under(nbest: NBest, p: F64, *, gain: str = "bleu", threads: int = 1) -> F64:
    """[H, C] expected gain under each of C posteriors p [H, C]; pairs are compared once for all."""
    metric = metric_of(gain, nbest)
    _check_longest(nbest.hyp_ptr)
    text, out = nbest.text, np.zeros(p.shape)
    if isinstance(metric, Bleu | SentenceBleu):

        def gains_of_run(a: int) -> None:
            ptr = nbest.hyp_ptr[a : a + _RUN + 1]
            hyps = slice(int(ptr[0]), int(ptr[-1]))
            out[hyps] = expected_gains(ptr - ptr[0], words_of(text[hyps]), p[hyps])

        in_threads(gains_of_run, range(0, len(nbest), _RUN), threads)
    elif isinstance(metric, TextMetric):

        def gains_of_list(s: int) -> None:
            """Take a list of n hypotheses for n lists of them, each with one as the reference."""
            first, last = int(nbest.hyp_ptr[s]), int(nbest.hyp_ptr[s + 1])
            n = last - first
            own = text.slice(first, n)
            rows = metric.count(Texts(np.arange(n + 1) * n, own.take(np.tile(np.arange(n), n)), np.arange(n + 1), own))
            gains = metric.higher(metric.score(rows)).reshape(n, n)  # [reference, hypothesis]
            out[first:last] = np.einsum("rh,rc->hc", gains, p[first:last])

        in_threads(gains_of_list, np.flatnonzero(np.diff(nbest.hyp_ptr)).tolist(), threads)
    else:
        raise InputError(
            f"minimum Bayes risk by {gain}: expected a metric that compares two texts (bleu, chrf, ter, wer, cer), found "
            "one that does not; leave mbr out"
        )
    return out


def mbr_choice(nbest: NBest, scores: F64, *, scale: float = 1.0, gain: str = "bleu", threads: int = 1) -> I64:
    """[S] the hypothesis of the highest expected gain, the first among equals; -1 where the list is empty."""
    return best_choice(nbest, mbr_gains(nbest, scores, (scale,), gain=gain, threads=threads)[:, 0])
