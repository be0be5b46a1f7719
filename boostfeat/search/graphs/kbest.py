"""Search in directed acyclic hypergraphs: the kernels under boostfeat.search.graphs.graph.

Viterbi, lazy exact k-best [HC05 algorithm 3] of derivations or of distinct strings, counts.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from ...core.arrays import I32, I64
from ...core.kernels import kernel

_PRIMES = (2147483629, 2147483587)  # products of two numbers below them fit
_BASES = (1103515245, 1597334677)


class Shape(NamedTuple):
    """Edges between nodes, and their words. Nodes are in topological order: an edge's tails come before its head."""

    head_ptr: I64  # [N+1] edges into node n are head_ptr[n]:head_ptr[n+1]
    tail_ptr: I64  # [E+1]
    tails: I32  # [T] nodes
    word_ptr: I64  # [E+1] the target template of edge e is words[word_ptr[e]:word_ptr[e+1]]
    words: I32  # a word of Graph.vocab, or -1 - i for what tail i yields; each tail once


@kernel
def find_best(shape, scores):  # type: ignore[no-untyped-def]
    """v(n) = max over e into n of s_e + Σ_{t in tails(e)} v(t); the first edge among equals.

    IN scores[E]; returns best[N] (v), back[N] (the edge, -1 where a node has no derivation).
    """
    best, back = np.empty(len(shape.head_ptr) - 1), np.empty(len(shape.head_ptr) - 1, np.int64)
    for n in range(len(back)):
        back[n], best[n] = -1, -np.inf
        for e in range(shape.head_ptr[n], shape.head_ptr[n + 1]):
            total, alive = scores[e], True
            for t in shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]:
                alive &= back[t] >= 0
                total += best[t]
            if alive and (back[n] < 0 or total > best[n]):
                back[n], best[n] = e, total
    return best, back


@kernel
def log_counts(shape, out):  # type: ignore[no-untyped-def]
    """OUT out[N]: ln of the number of derivations, c(n) = Σ_{e into n} Π_{t in tails(e)} c(t)."""
    for n in range(len(out)):
        total = -np.inf
        for e in range(shape.head_ptr[n], shape.head_ptr[n + 1]):
            product, alive = 0.0, True
            for t in shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]:
                alive &= out[t] > -np.inf
                product += out[t]
            if alive:
                total = np.logaddexp(total, product)
        out[n] = total


# Lists in tuples grow where they are. No comprehension may stand in a kernel that sets their items: it makes numba look for
# dead code, and it takes such assignments for some.


class Records(NamedTuple):
    """Derivations found: a record is an edge and, for each of its tails, the record of a derivation of that tail."""

    score: list[float]
    edge: list[int]
    part_ptr: list[int]  # one more than there are records
    parts: list[int]


@kernel
def add_record(records, score, edge, parts):  # type: ignore[no-untyped-def]
    records.score.append(score)
    records.edge.append(edge)
    for part in parts:
        records.parts.append(part)
    records.part_ptr.append(len(records.parts))


@kernel
def _walk(shape, records, record, edges, start, end, tokens):  # type: ignore[no-untyped-def]
    """Write a derivation down. OUT, at their ends: edges with their target spans, and words."""
    first = len(tokens)
    stack, place, low, high = [record], [shape.word_ptr[records.edge[record]]], [-1], [-1]
    while stack:
        e = records.edge[stack[-1]]
        if place[-1] == shape.word_ptr[e + 1]:
            n = len(tokens) - first
            edges.append(e)
            start.append(low[-1] if low[-1] >= 0 else n)  # where it has no words of its own, an empty span
            end.append(high[-1] if low[-1] >= 0 else n)
            stack.pop()
            place.pop()
            low.pop()
            high.pop()
            continue
        word = shape.words[place[-1]]
        place[-1] += 1
        if word < 0:
            part = records.parts[records.part_ptr[stack[-1]] - 1 - word]
            stack.append(part)
            place.append(shape.word_ptr[records.edge[part]])
            low.append(-1)
            high.append(-1)
            continue
        if low[-1] < 0:
            low[-1] = len(tokens) - first
        tokens.append(word)
        high[-1] = len(tokens) - first


@kernel
def written_down(shape, records, chosen):  # type: ignore[no-untyped-def]
    """The columns of Derivations, for some records."""
    edges, start, end, tokens = [np.int64(0)][:0], [np.int64(0)][:0], [np.int64(0)][:0], [np.int32(0)][:0]
    score, edge_ptr, token_ptr = np.empty(len(chosen)), np.zeros(len(chosen) + 1, np.int64), np.zeros(len(chosen) + 1, np.int64)
    for k, record in enumerate(chosen):
        _walk(shape, records, record, edges, start, end, tokens)
        score[k], edge_ptr[k + 1], token_ptr[k + 1] = records.score[record], len(edges), len(tokens)
    i32 = np.int32
    return score, edge_ptr, np.array(edges, i32), np.array(start, i32), np.array(end, i32), token_ptr, np.array(tokens, i32)


class _RecordLinks(NamedTuple):
    """Places of records in the list of their node, best first, and what tells their strings apart.

    The hash of a derivation's words is Σ_i w_i B^(n-i) mod P for two P: that of two strings one after the other follows from
    theirs and from the powers B^n.
    """

    rank: list[int]  # place in the node's list
    after: list[int]  # the next of the list
    hash: list[tuple[int, int]]
    power: list[tuple[int, int]]


@kernel
def _add_links(shape, records, links):  # type: ignore[no-untyped-def]
    """Make the links of the last record, which is in no list yet."""
    record = len(links.rank)
    e = records.edge[record]
    h, g, p, q = np.int64(0), np.int64(0), np.int64(1), np.int64(1)
    for word in shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]] if e >= 0 else shape.words[:0]:
        if word >= 0:
            hashes, powers = (np.int64(word + 1), np.int64(word + 1)), _BASES
        else:
            part = records.parts[records.part_ptr[record] - 1 - word]
            hashes, powers = links.hash[part], links.power[part]
        h, p = (h * powers[0] + hashes[0]) % _PRIMES[0], p * powers[0] % _PRIMES[0]
        g, q = (g * powers[1] + hashes[1]) % _PRIMES[1], q * powers[1] % _PRIMES[1]
    links.hash.append((h, g))
    links.power.append((p, q))
    links.rank.append(0)
    links.after.append(-1)


@kernel
def _add_candidate(shape, records, links, heap, edge, edge_score, parts, step):  # type: ignore[no-untyped-def]
    """Add a record of an edge over these parts, the one at ``step`` (if any) replaced by the next of its list.

    INOUT heap of a node's candidates: by score; of equals the earlier edge, then the lower ranks of the parts.
    """
    total, ranks, bits = edge_score, np.int64(0), 62 // max(1, len(parts))
    for i in range(len(parts)):
        if i == step:
            parts[i] = links.after[parts[i]]
        total += records.score[parts[i]]
        ranks = (ranks << bits) | min(np.int64(links.rank[parts[i]]), (np.int64(1) << bits) - 1)
    heappush(heap, (-total, np.int64(edge), ranks, np.int64(len(records.edge))))
    add_record(records, total, edge, parts)
    _add_links(shape, records, links)


@kernel
def _add_first(shape, scores, back, records, links, heap, node):  # type: ignore[no-untyped-def]
    """Add the first candidates of a node: the best derivations of its edges but for that of the very best."""
    for e in range(shape.head_ptr[node], shape.head_ptr[node + 1]):
        tails = shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]].astype(np.int64)
        alive = e != back[node]
        for t in tails:
            alive &= back[t] >= 0
        if alive:
            _add_candidate(shape, records, links, heap, e, scores[e], tails, -1)


@kernel
def _add_link(links, last, node, c):  # type: ignore[no-untyped-def]
    """Put a record at the end of its node's list."""
    d = last[node]
    links.after[d], links.after[c], links.rank[c] = c, -1, links.rank[d] + 1
    last[node] = c


@kernel
def _last_step(records, links, c):  # type: ignore[no-untyped-def]
    """The last part of a record that is not its tail's best, else the first: where its neighbours begin."""
    step = 0
    for i in range(records.part_ptr[c + 1] - records.part_ptr[c]):
        if links.rank[records.parts[records.part_ptr[c] + i]] > 0:
            step = i
    return step


@kernel
def find_kbest(shape, scores, goal, k, limit):  # type: ignore[no-untyped-def]
    """Lazy k-best [HC05, algorithm 3]: the columns of Derivations of the goal's list, which has at most k.

    The next derivation of a node is the best of its candidates, after the last one's neighbours have joined them: the same
    edge with one part replaced by the next derivation of that tail. Neighbours take their step at or after the last part
    that is not its tail's best, so every combination is reached once, from one that is no worse.

    With limit > 0, strings are distinct in every node's list. That is exact at the goal: the best derivation of a string is
    made of the best derivations of its parts' strings. A node of which ``limit`` candidates were examined gives no more.
    Deviation: the recursion into the tails is a stack of nodes; the first derivations come from the Viterbi pass.
    """
    best, back = find_best(shape, scores)
    n = len(back)
    records = Records([0.0][:0], [0][:0], [0], [0][:0])
    links = _RecordLinks([0][:0], [0][:0], [(0, 0)][:0], [(0, 0)][:0])
    heaps = [[(0.0, 0, 0, 0)][:0]][:0]
    for h in range(n):  # the best derivation of each node has its number
        e = back[h]  # -1 where a node has no derivation
        add_record(records, best[h], e, shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]] if e >= 0 else shape.tails[:0])
        _add_links(shape, records, links)
        heaps.append([(0.0, 0, 0, 0)][:0])
    last = np.arange(n)  # the last derivation of each node's list
    taken = np.arange(n)  # the last candidate taken: the same, or one whose string is in the list
    step = np.zeros(n, np.int64)  # the part of it that the next neighbour changes
    examined = np.zeros(n, np.int64)
    is_done = np.zeros(n, np.bool_)
    seen = {(np.int64(goal), links.hash[goal])}  # nodes with the strings in their lists
    found = [goal]
    while len(found) < k and not is_done[goal]:
        stack = [goal]
        while stack:
            node = stack[-1]
            if examined[node] == 0:
                examined[node] = 1
                seen.add((node, links.hash[node]))
                _add_first(shape, scores, back, records, links, heaps[node], node)
            d = taken[node]
            e = records.edge[d]
            waits = False
            while step[node] < records.part_ptr[d + 1] - records.part_ptr[d]:
                i = step[node]
                part, tail = records.parts[records.part_ptr[d] + i], shape.tails[shape.tail_ptr[e] + i]
                if links.after[part] < 0 and not is_done[tail]:
                    stack.append(np.int64(tail))
                    waits = True
                    break
                step[node] += 1
                if links.after[part] >= 0:
                    parts = np.array(records.parts[records.part_ptr[d] : records.part_ptr[d + 1]])
                    _add_candidate(shape, records, links, heaps[node], e, scores[e], parts, i)
            if waits:
                continue
            if not heaps[node] or examined[node] == limit:
                is_done[node] = True
                stack.pop()
                continue
            c = heappop(heaps[node])[3]
            taken[node], step[node] = c, _last_step(records, links, c)
            examined[node] += 1
            if limit:
                if (node, links.hash[c]) in seen:
                    continue
                seen.add((node, links.hash[c]))
            _add_link(links, last, node, c)
            stack.pop()
        if not is_done[goal]:
            found.append(last[goal])
    return written_down(shape, records, found)
