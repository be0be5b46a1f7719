"""n-grams as numbers: clipped matches with references, and what consensus and MBR count in the hypotheses of one list.

A *key* is an n-gram (n = 1..4) together with which of its occurrences in a hypothesis it is: the first, the second, ... A
hypothesis has a key at most once, so the clipped matches of two hypotheses are the keys that both have:

    min(count_h(w), count_h'(w)) = |{k : (w, k) in h} ∩ {k : (w, k) in h'}|
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I32, I64, Array, cut, owners, segment_argmax
from ..core.kernels import kernel
from .symbols import power_of_two

AGAIN = 0xFFFFFFFE  # as a "word": the same n-gram once more


# ---------------------------------------------------------------------------------------------------------------------
# Clipped matches with references
# ---------------------------------------------------------------------------------------------------------------------


NgramTrie = tuple[Array, I32, I32, I32, I64]
"""The n-grams of a sentence's references, a node each. Single symbols have the first nodes, by their numbers.

    keys [slots] of a hash table: (node, symbol), 0 where none is     nodes [slots] the node that the symbol leads to
    counts [nodes, R] of n-grams in each reference                    seen [nodes], touched: for work, seen is 0 between calls

No named tuple: matching takes several times as long when arrays are taken out of one.
"""


@kernel
def new_trie(most, n_refs, room):  # type: ignore[no-untyped-def]
    """A trie of at most so many nodes; ``room`` is for the n-grams of a hypothesis."""
    size = power_of_two(2 * most)
    keys, nodes, counts = np.zeros(size, np.uint64), np.empty(size, np.int32), np.zeros((most, n_refs), np.int32)
    return keys, nodes, counts, np.zeros(most, np.int32), np.empty(room, np.int64)


@kernel
def _node(parent, symbol, keys, nodes, fresh):  # type: ignore[no-untyped-def]
    """The node that a symbol leads to from its parent; where there is none, fresh becomes it, unless -1."""
    key = (np.uint64(parent) << np.uint64(32)) | np.uint64(symbol + 1)
    mask = np.uint64(len(keys) - 1)
    slot = ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    if keys[slot] == 0 and fresh >= 0:
        keys[slot], nodes[slot] = key, fresh
    return np.int64(nodes[slot]) if keys[slot] != 0 else np.int64(fresh)  # not two returns: they take four times as long


@kernel
def count_ngrams(ids, begin, end, root, order, keys, nodes, n_nodes, r, counts):  # type: ignore[no-untyped-def]
    """Count the n-grams of ids[begin:end], whose first nodes are from ``root`` on, in INOUT counts[nodes, r]; return the
    number of nodes.
    """
    for i in range(begin, end):
        node = root + np.int64(ids[i])
        counts[node, r] += 1
        for k in range(i + 1, min(end, i + order)):
            node = _node(node, ids[k], keys, nodes, n_nodes)
            n_nodes += node == n_nodes
            counts[node, r] += 1
    return n_nodes


@kernel
def clipped_trie(ref_ptr, ref_ids, n_types, order, room):  # type: ignore[no-untyped-def]
    """The trie of references that count as one: an n-gram is in it as often as in any of them."""
    n_refs = len(ref_ptr) - 1
    keys, nodes, counts, seen, touched = new_trie(order * (ref_ptr[-1] - ref_ptr[0]), n_refs, room)
    n_nodes = np.int64(n_types)
    for r in range(n_refs):
        n_nodes = count_ngrams(ref_ids, ref_ptr[r], ref_ptr[r + 1], np.int64(0), order, keys, nodes, n_nodes, r, counts)
    most = np.zeros((n_nodes, 1), np.int32)
    for node in range(n_nodes):
        for r in range(n_refs):
            most[node, 0] = max(most[node, 0], counts[node, r])
    return keys, nodes, most, seen, touched


@kernel
def match_ngrams(ids, begin, end, root, order, keys, nodes, counts, seen, touched, first, matches):  # type: ignore[no-untyped-def]
    """INOUT matches[R, orders], from order number ``first`` on: add those of ids[begin:end], clipped, with each reference."""
    n_touched, none = 0, np.int64(-1)
    for i in range(begin, end):
        node = none
        for k in range(i, min(end, i + order)):
            if ids[k] < 0:
                break
            node = root + np.int64(ids[k]) if k == i else _node(node, ids[k], keys, nodes, none)
            if node < 0:
                break  # no reference has this n-gram, so none has a longer one that starts with it
            touched[n_touched] = node
            n_touched += 1
            seen[node] += 1
            for r in range(counts.shape[1]):
                if seen[node] <= counts[node, r]:
                    matches[r, first + k - i] += 1
    for i in range(n_touched):
        seen[touched[i]] = 0


# ---------------------------------------------------------------------------------------------------------------------
# Keys
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def list_keys(token_ptr, tokens, first, last):  # type: ignore[no-untyped-def]
    """(keys[tokens of the list, 4], number of keys) of hypotheses first:last with words tokens[token_ptr[h]:token_ptr[h+1]].

    keys[i, n-1] is the key of the n-gram that ends in the i-th word, -1 where the hypothesis begins later.
    """
    begin = token_ptr[first]
    n_tokens = token_ptr[last] - begin
    size = power_of_two(8 * n_tokens)
    known, numbers = np.zeros(size, np.uint64), np.empty(size, np.int32)
    seen = np.full(4 * n_tokens, -1, np.int64)  # the last hypothesis that has a key
    keys = np.full((n_tokens, 4), -1, np.int32)
    grams = np.empty(4, np.int64)  # the n-grams that end in the word before, without regard to repetition
    n_keys = 0
    for h in range(first, last):
        for i in range(token_ptr[h], token_ptr[h + 1]):
            longest = min(4, i - token_ptr[h] + 1)
            for n in range(longest - 1, -1, -1):  # longest first: grams[n - 1] is still that of the word before
                gram = _node(grams[n - 1] if n else np.int64(-1), np.int64(tokens[i]), known, numbers, n_keys)
                grams[n] = gram
                n_keys += gram == n_keys
                while seen[gram] == h:
                    gram = _node(gram, AGAIN, known, numbers, n_keys)
                    n_keys += gram == n_keys
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
