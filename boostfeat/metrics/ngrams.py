"""n-grams of the hypotheses of one list as numbers: what consensus and MBR count.

A *key* is an n-gram (n = 1..4) together with which of its occurrences in a hypothesis it is: the first, the second, ... A
hypothesis has a key at most once, so the clipped matches of two hypotheses are the keys that both have:

    min(count_h(w), count_h'(w)) = |{k : (w, k) in h} ∩ {k : (w, k) in h'}|
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I64, cut, owners, segment_argmax
from ..core.kernels import kernel

AGAIN = 0xFFFFFFFF  # as a "word": the same n-gram once more


@kernel
def _key(parent, word, table, pairs, n_keys):  # type: ignore[no-untyped-def]
    """(key of a parent key and a word, number of keys): a new one where there is none. Pairs are compared: no collisions."""
    pair = (np.uint64(parent + 1) << np.uint64(32)) | np.uint64(word)
    mask = np.uint64(len(table) - 1)
    slot = ((pair * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & mask
    while table[slot] >= 0:
        if pairs[table[slot]] == pair:
            return table[slot], n_keys
        slot = (slot + np.uint64(1)) & mask
    table[slot] = n_keys
    pairs[n_keys] = pair
    return np.int32(n_keys), n_keys + 1


@kernel
def list_keys(token_ptr, tokens, first, last):  # type: ignore[no-untyped-def]
    """(keys[tokens of the list, 4], number of keys) of hypotheses first:last with words tokens[token_ptr[h]:token_ptr[h+1]].

    keys[i, n-1] is the key of the n-gram that ends in the i-th word, -1 where the hypothesis begins later.
    """
    begin = token_ptr[first]
    n_tokens = token_ptr[last] - begin
    size = 16
    while size < 8 * n_tokens:
        size *= 2
    table = np.full(size, -1, np.int32)
    pairs = np.empty(4 * n_tokens, np.uint64)
    seen = np.full(4 * n_tokens, -1, np.int64)  # the last hypothesis that has a key
    keys = np.full((n_tokens, 4), -1, np.int32)
    grams = np.empty(4, np.int32)  # the n-grams that end in the word before, without regard to repetition
    n_keys = 0
    for h in range(first, last):
        for i in range(token_ptr[h], token_ptr[h + 1]):
            longest = min(4, i - token_ptr[h] + 1)
            for n in range(longest - 1, -1, -1):  # longest first: grams[n - 1] is still that of the word before
                gram, n_keys = _key(grams[n - 1] if n else np.int32(-1), tokens[i], table, pairs, n_keys)
                grams[n] = gram
                while seen[gram] == h:
                    gram, n_keys = _key(gram, AGAIN, table, pairs, n_keys)
                seen[gram] = h
                keys[i - begin, n] = gram
    return keys, n_keys


@kernel
def key_masses(token_ptr, keys, n_keys, first, last, posterior):  # type: ignore[no-untyped-def]
    """[n_keys] Σ of the posteriors of the hypotheses that have each key: the probability that a translation has it."""
    mass = np.zeros(n_keys)
    begin = token_ptr[first]
    for h in range(first, last):
        for i in range(token_ptr[h] - begin, token_ptr[h + 1] - begin):
            for n in range(4):
                if keys[i, n] >= 0:
                    mass[keys[i, n]] += posterior[h]
    return mass


def posteriors(hyp_ptr: I64, scores: F64, *, scale: float | F64 = 1.0) -> F64:
    """[H] p(h) = exp(scale · score(h)) / Σ_{h' of the list} exp(scale · score(h')); the scale may be a number a hypothesis."""
    scaled, lists = scale * cut(np.asarray(scores, np.float64)), owners(hyp_ptr)
    p: F64 = np.exp(scaled - scaled[segment_argmax(hyp_ptr, scaled)[lists]])
    return p / np.bincount(lists, p, minlength=len(hyp_ptr) - 1)[lists]
