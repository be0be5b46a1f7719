"""Search in directed acyclic hypergraphs: the kernels under boostfeat.search.graphs.graph.

Viterbi, lazy exact k-best [HC05 algorithm 3] of derivations or of distinct strings, counts, topological order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.arrays import F64, I32, I64, _mix
from ...core.kernels import kernel


class Shape(NamedTuple):
    """What connects what, and what it says. Nodes are in topological order: an edge's tails come before its head."""

    head_ptr: I64  # [N+1] edges into node n are head_ptr[n]:head_ptr[n+1]
    tail_ptr: I64  # [E+1]
    tails: I32  # [T] nodes
    word_ptr: I64  # [E+1] the target template of edge e is words[word_ptr[e]:word_ptr[e+1]]
    words: I32  # a word of Graph.vocab, or -1 - i for what tail i yields; each tail once


@kernel
def find_best(shape, scores, best, back):  # type: ignore[no-untyped-def]
    """v(n) = max over e into n of s_e + Σ_{t in tails(e)} v(t); the first edge among equals.

    IN scores[E]; OUT best[N] (v), back[N] (the edge, -1 where a node has no derivation).
    """
    for n in range(len(back)):
        back[n], best[n] = -1, -np.inf
        for e in range(shape.head_ptr[n], shape.head_ptr[n + 1]):
            total, alive = scores[e], True
            for t in shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]:
                alive &= back[t] >= 0
                total += best[t]
            if alive and (back[n] < 0 or total > best[n]):
                back[n], best[n] = e, total


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


class _Pool(NamedTuple):
    """Derivations found, and candidates for the next ones. Record n < N is the best derivation of node n.

    A record is an edge and, for each tail, the record of a derivation of that tail. The derivations of a node are a list
    linked by ``after``, best first; its candidates a pairing heap linked by ``child`` and ``sibling``.
    """

    score: F64
    edge: I64
    part_ptr: I64  # columns have room for one more than there are records
    rank: I64  # place in the node's list
    after: I64
    child: I64
    sibling: I64
    parts: I64


@kernel
def grown(column, n):  # type: ignore[no-untyped-def]
    if n <= len(column):
        return column
    out = np.full(max(n, 2 * len(column)), -1).astype(column.dtype)
    out[: len(column)] = column
    return out


@kernel
def _with_room(pool, n_records, n_parts):  # type: ignore[no-untyped-def]
    if n_records < len(pool.score) and n_parts <= len(pool.parts):
        return pool
    n = n_records + 1
    return _Pool(
        grown(pool.score, n),
        grown(pool.edge, n),
        grown(pool.part_ptr, n),
        grown(pool.rank, n),
        grown(pool.after, n),
        grown(pool.child, n),
        grown(pool.sibling, n),
        grown(pool.parts, n_parts),
    )


@kernel
def _with_candidate(pool, size, edge, edge_score, parts, step):  # type: ignore[no-untyped-def]
    """The pool with one more record: an edge over these parts, the one at ``step`` (if any) replaced by the next of its list."""
    at = pool.part_ptr[size]
    pool = _with_room(pool, size + 1, at + len(parts))
    total = edge_score
    for i, p in enumerate(parts):
        pool.parts[at + i] = pool.after[p] if i == step else p
        total += pool.score[pool.parts[at + i]]
    pool.score[size], pool.edge[size], pool.part_ptr[size + 1] = total, edge, at + len(parts)
    return pool


@kernel
def _best_pool(shape, best, back):  # type: ignore[no-untyped-def]
    """The best derivation of every node: its parts are its tails' best derivations, whose records have the tails' numbers."""
    n = len(back)
    part_ptr = np.zeros(n + 1, np.int64)
    parts = np.empty(len(shape.tails), np.int64)
    for h in range(n):
        at = part_ptr[h]
        if back[h] >= 0:
            for t in shape.tails[shape.tail_ptr[back[h]] : shape.tail_ptr[back[h] + 1]]:
                parts[at] = t
                at += 1
        part_ptr[h + 1] = at
    none = np.full(n + 1, -1)
    return _Pool(
        np.append(best, 0.0), np.append(back, -1), part_ptr, np.zeros(n + 1, np.int64), none, none.copy(), none.copy(), parts
    )


@kernel
def _before(pool, a, b):  # type: ignore[no-untyped-def]
    """The order of candidates of a node: by score; of equals the earlier edge, then the lower ranks of the parts."""
    if pool.score[a] != pool.score[b]:
        return pool.score[a] > pool.score[b]
    if pool.edge[a] != pool.edge[b]:
        return pool.edge[a] < pool.edge[b]
    for i in range(pool.part_ptr[a + 1] - pool.part_ptr[a]):
        p, q = pool.rank[pool.parts[pool.part_ptr[a] + i]], pool.rank[pool.parts[pool.part_ptr[b] + i]]
        if p != q:
            return p < q
    return False


@kernel
def _meld(pool, a, b):  # type: ignore[no-untyped-def]
    """The root of two heaps put together; -1 is an empty heap."""
    if a < 0 or b < 0:
        return max(a, b)
    if _before(pool, b, a):
        a, b = b, a
    pool.sibling[b] = pool.child[a]
    pool.child[a] = b
    return a


@kernel
def _without_root(pool, root):  # type: ignore[no-untyped-def]
    """The root of a heap whose root is taken out: its children melded in pairs, then into one."""
    pairs, c = -1, pool.child[root]
    while c >= 0:
        d = pool.sibling[c]
        rest = pool.sibling[d] if d >= 0 else -1
        pair = _meld(pool, c, d)
        pool.sibling[pair] = pairs
        pairs, c = pair, rest
    root = -1
    while pairs >= 0:
        rest = pool.sibling[pairs]
        root = _meld(pool, root, pairs)
        pairs = rest
    return root


class _Walk(NamedTuple):
    """Room to write a derivation down: its edges with their target spans and its words; and the stack for it."""

    edges: I32
    start: I32
    end: I32
    tokens: I32
    record: I64
    at: I64
    low: I64
    high: I64


@kernel
def _room_to_walk(n):  # type: ignore[no-untyped-def]
    a, b, c, d = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    return _Walk(a, b, c, d, np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))


@kernel
def _walk(shape, pool, record, w):  # type: ignore[no-untyped-def]
    """Write a derivation down in w; returns its numbers of edges and of words."""
    n_edges, n_tokens, depth = 0, 0, 1
    w.record[0], w.at[0], w.low[0] = record, shape.word_ptr[pool.edge[record]], -1
    while depth:
        top = depth - 1
        e = pool.edge[w.record[top]]
        if w.at[top] == shape.word_ptr[e + 1]:
            if w.low[top] < 0:  # no words of its own
                w.low[top] = w.high[top] = n_tokens
            w.edges[n_edges], w.start[n_edges], w.end[n_edges] = e, w.low[top], w.high[top]
            n_edges += 1
            depth -= 1
            continue
        word = shape.words[w.at[top]]
        w.at[top] += 1
        if word < 0:
            part = pool.parts[pool.part_ptr[w.record[top]] - 1 - word]
            w.record[depth], w.at[depth], w.low[depth] = part, shape.word_ptr[pool.edge[part]], -1
            depth += 1
            continue
        w.tokens[n_tokens] = word
        w.low[top] = n_tokens if w.low[top] < 0 else w.low[top]
        n_tokens += 1
        w.high[top] = n_tokens
    return n_edges, n_tokens


class _Seen(NamedTuple):
    """A hash table of the strings in the lists of the nodes, each by its record."""

    record: I64  # -1 where free
    node: I64
    key: I64


@kernel
def _seen_table(size):  # type: ignore[no-untyped-def]
    return _Seen(np.full(size, -1), np.empty(size, np.int64), np.empty(size, np.int64))


@kernel
def _enlarged(seen):  # type: ignore[no-untyped-def]
    out = _seen_table(2 * len(seen.record))
    mask = len(out.record) - 1
    for i in range(len(seen.record)):
        if seen.record[i] >= 0:
            slot = seen.key[i] & mask
            while out.record[slot] >= 0:
                slot = (slot + 1) & mask
            out.record[slot], out.node[slot], out.key[slot] = seen.record[i], seen.node[i], seen.key[i]
    return out


@kernel
def _is_new(shape, pool, seen, node, record, w, v):  # type: ignore[no-untyped-def]
    """Whether no derivation in the node's list has the string of this one, which is then noted; equal keys are compared."""
    n = _walk(shape, pool, record, w)[1]
    h = np.uint64(node)
    for i in range(n):
        h = _mix(h, np.uint64(w.tokens[i]))
    key = np.int64(h >> np.uint64(1))
    mask = len(seen.record) - 1
    slot = key & mask
    while seen.record[slot] >= 0:
        if seen.key[slot] == key and seen.node[slot] == node:
            same = _walk(shape, pool, seen.record[slot], v)[1] == n
            i = 0
            while same and i < n:
                same = v.tokens[i] == w.tokens[i]
                i += 1
            if same:
                return False
        slot = (slot + 1) & mask
    seen.record[slot], seen.node[slot], seen.key[slot] = record, node, key
    return True


@kernel
def find_kbest(shape, scores, best, back, goal, k, limit, longest):  # type: ignore[no-untyped-def]
    """Lazy k-best [HC05, algorithm 3]: the pool, and how many derivations the goal's list has (at most k).

    The next derivation of a node is the best of its candidates, after the last one's neighbours have joined them: the same
    edge with one part replaced by the next derivation of that tail. Neighbours take their step at or after the last part
    that is not its tail's best, so every combination is reached once, from one that is no worse.

    With limit > 0, strings are distinct in every node's list. That is exact at the goal: the best derivation of a string is
    made of the best derivations of its parts' strings. A node of which ``limit`` candidates were examined gives no more.
    Deviation: the recursion into the tails is a stack of nodes; the first derivations come from the Viterbi pass.
    """
    n = len(back)
    pool = _best_pool(shape, best, back)
    size = n  # records in use
    last = np.arange(n)  # the last derivation of each node's list
    taken = np.arange(n)  # the last candidate taken: the same, or one whose string is in the list
    step = np.zeros(n, np.int64)  # the part of it that the next neighbour changes
    examined = np.zeros(n, np.int64)
    root = np.full(n, -1)
    is_done = np.zeros(n, np.bool_)
    stack = np.empty(n, np.int64)
    w, v, seen, n_seen = _room_to_walk(longest), _room_to_walk(longest), _seen_table(1024), 0
    found = 1
    while found < k and not is_done[goal]:
        stack[0], depth = goal, 1
        while depth:
            node = stack[depth - 1]
            if 2 * n_seen >= len(seen.record):
                seen = _enlarged(seen)
            if examined[node] == 0:  # the first visit: the best derivations of its other edges are candidates
                examined[node] = 1
                if limit:
                    n_seen += _is_new(shape, pool, seen, node, node, w, v)
                for e in range(shape.head_ptr[node], shape.head_ptr[node + 1]):
                    tails = shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]
                    alive = e != back[node]
                    for t in tails:
                        alive &= back[t] >= 0
                    if not alive:
                        continue
                    pool = _with_candidate(pool, size, e, scores[e], tails, len(tails))
                    root[node] = _meld(pool, root[node], size)
                    size += 1
            d = taken[node]
            e = pool.edge[d]
            parts = pool.parts[pool.part_ptr[d] : pool.part_ptr[d + 1]]
            waits = False
            while step[node] < len(parts):
                i = step[node]
                tail = shape.tails[shape.tail_ptr[e] + i]
                if pool.after[parts[i]] < 0 and not is_done[tail]:
                    stack[depth] = tail
                    depth += 1
                    waits = True
                    break
                step[node] += 1
                if pool.after[parts[i]] < 0:
                    continue
                pool = _with_candidate(pool, size, e, scores[e], parts, i)
                root[node] = _meld(pool, root[node], size)
                size += 1
            if waits:
                continue
            c = root[node]
            if c < 0 or examined[node] == limit:
                is_done[node] = True
                depth -= 1
                continue
            root[node] = _without_root(pool, c)
            taken[node], step[node] = c, 0
            examined[node] += 1
            for i in range(pool.part_ptr[c + 1] - pool.part_ptr[c]):
                if pool.rank[pool.parts[pool.part_ptr[c] + i]] > 0:
                    step[node] = i
            if limit:
                if not _is_new(shape, pool, seen, node, c, w, v):
                    continue
                n_seen += 1
            d = last[node]
            pool.after[d], pool.after[c], pool.rank[c] = c, -1, pool.rank[d] + 1
            last[node] = c
            depth -= 1
        if not is_done[goal]:
            found += 1
    return pool, found


@kernel
def listed(score, edge, part_ptr, parts, first, n):  # type: ignore[no-untyped-def]
    """A pool of records found in another way, of which n from ``first`` on are a list."""
    none = np.full(len(part_ptr), -1)
    after = none.copy()
    after[first : first + n - 1] = np.arange(first + 1, first + n)
    return _Pool(score, edge, part_ptr, none, after, none, none, parts)


@kernel
def unfold(shape, pool, goal, found, longest):  # type: ignore[no-untyped-def]
    """The columns of Derivations for the goal's list."""
    score, edge_ptr, token_ptr = np.empty(found), np.zeros(found + 1, np.int64), np.zeros(found + 1, np.int64)
    out = _room_to_walk(1024)
    edges, start, end, tokens = out.edges, out.start, out.end, out.tokens
    w = _room_to_walk(longest)
    d, a, b = goal, 0, 0
    for k in range(found):
        n, m = _walk(shape, pool, d, w)
        edges, start, end, tokens = grown(edges, a + n), grown(start, a + n), grown(end, a + n), grown(tokens, b + m)
        edges[a : a + n], start[a : a + n], end[a : a + n] = w.edges[:n], w.start[:n], w.end[:n]
        tokens[b : b + m] = w.tokens[:m]
        a, b = a + n, b + m
        score[k], edge_ptr[k + 1], token_ptr[k + 1] = pool.score[d], a, b
        d = pool.after[d]
    return score, edge_ptr, edges[:a], start[:a], end[:a], token_ptr, tokens[:b]


@kernel
def topological_order(heads, tail_ptr, tails, order):  # type: ignore[no-untyped-def]
    """OUT order[N]: nodes, tails before heads. Returns how many: fewer than N if there is a cycle."""
    n = len(order)
    waits = np.zeros(n, np.int64)
    out_ptr = np.zeros(n + 1, np.int64)
    for t in tails:
        out_ptr[t + 1] += 1
    out_ptr = np.cumsum(out_ptr)
    fill, out = out_ptr[:-1].copy(), np.empty(len(tails), np.int64)
    for e in range(len(heads)):
        for t in tails[tail_ptr[e] : tail_ptr[e + 1]]:
            waits[heads[e]] += 1
            out[fill[t]] = heads[e]
            fill[t] += 1
    size = 0
    for v in range(n):
        if waits[v] == 0:
            order[size] = v
            size += 1
    at = 0
    while at < size:
        for h in out[out_ptr[order[at]] : out_ptr[order[at] + 1]]:
            waits[h] -= 1
            if waits[h] == 0:
                order[size] = h
                size += 1
        at += 1
    return size
