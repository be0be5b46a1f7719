"""Beam search for phrase-based translation: stacks by the number of covered source words.

Hypotheses that agree in coverage, language-model state, the last phrase's span, its forward reordering scores and what
templates ask of it later (its last word, scores of the move that follows) are recombined: nothing that follows can tell them
apart. Every way into a kept hypothesis stays as an arc of the search graph.

    n source words, O options (phrase pairs that fit a span), C columns of static features, D distinct forward scores

Coverage is the first gap and a bit for each word after it, up to WINDOW words: distortion limits keep it that near.

Kernels that run once an edge and take many arrays are inlined: handing the arrays on would cost more than what they do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.arrays import F64, I32, I64
from ...core.kernels import kernel
from ...features.language_model import Automaton, extend, extend_all
from . import search_trees as terms
from .setup import WINDOW

GAP, BITS, STATE, START, END, FORWARD, LATE, COVERED, BACK, OPTION, NEXT, CHAIN, IS_LINKED = range(13)
N_COLUMNS = 13
N_KEYS = 7  # the first columns tell hypotheses apart
SCORE, TOTAL = 0, 1  # so far; with the estimate of what remains


class Options(NamedTuple):
    """The phrase pairs that fit a sentence, by span: first word, then length."""

    span_ptr: I64  # [n · longest + 1]
    score: F64  # [O] weighted static features and static trees
    x: F64  # [O, C] static features
    word_ptr: I64  # [O+1]
    words: I32  # of the language model
    backward: F64  # [O, 3] reordering after the previous phrase: monotone, swap, discontinuous
    forward: I32  # [O] row of ``ahead``, -1 without a reordering table
    ahead: F64  # [D, 3] reordering of the phrase that comes next


class Moves(NamedTuple):
    """Scores that templates add where a phrase follows another. All is empty where none does. L kinds of what a phrase hands on.

    The four moves onto a phrase: monotone, swap, discontinuous to the right, to the left.
    """

    back: F64  # [O, 4] to a phrase by the move onto it
    late: I32  # [O] what it hands on: a row of ``ahead``; row 0 is the start of the sentence
    ahead: F64  # [L, 4] to a phrase by the move that follows, scored with the next one
    last: I32  # [L] the row of ``bigrams`` for its last word
    first: I32  # [O] the column of ``bigrams`` for its first word
    bigrams: F64  # [A, B] of the words at a boundary
    initial: F64  # [O] to a phrase that is the first
    final: F64  # [O] to one that is the last


class SearchLimits(NamedTuple):
    """Pruning. 0 hypotheses and -1 distortion mean no limit."""

    longest: int  # source words of a phrase
    stack: int
    beam: float  # hypotheses worse than the stack's best by more than this go; inf keeps all
    distortion: int


class SearchTask(NamedTuple):
    """A sentence of n words to translate."""

    n: int
    options: Options
    future: F64  # [n+1, n+1] see future_scores
    lm: Automaton
    start_state: int
    end_word: int
    weights: F64  # [23] of the context features
    trees: terms.Trees  # those that look at context
    moves: Moves
    quantiles: F64  # [4] of the language-model score per word; empty where no template asks for it
    keeps_span: bool  # whether the last phrase's span matters to templates
    limits: SearchLimits


class Searched(NamedTuple):
    """The search graph: hypothesis 0 is the start, ``goal`` the end; arcs in the order of their tails' stacks."""

    hyps: I64
    scores: F64
    arcs: I64  # [A, 3] head, tail, option
    arc_scores: F64  # [A]
    goal: int


# -- an edge and its score ------------------------------------------------------------------------------------------------


@kernel
def set_context(context, hyp, start, end, n, options):  # type: ignore[no-untyped-def]
    """OUT context of a phrase that covers start:end of n words after a hypothesis, but for the phrase's own and the language
    model's score. Returns its orientation, and the move: discontinuous ones go to the right (2) or left (3).

    Forward scores are the previous phrase's. At the beginning of a sentence only its first word is monotone.
    """
    jump = start - hyp[END]
    orientation = 0 if jump == 0 else 1 if end == hyp[START] else 2
    move = 3 if orientation == 2 and jump < 0 else orientation
    context[:] = 0.0
    if hyp[FORWARD] >= 0:
        context[3 + orientation] = options.ahead[hyp[FORWARD], orientation]
    context[terms.DISTORTION] = -abs(jump)
    context[terms.JUMP], context[terms.JUMP + 1] = jump, np.log1p(abs(jump))
    context[terms.JUMP + 2], context[terms.JUMP + 3] = max(-jump, 0), abs(jump) > terms.FAR
    context[terms.ORIENTATION + move] = 1.0
    context[terms.FIRST], context[terms.LAST] = hyp[COVERED] == 0, hyp[COVERED] + end - start == n
    return orientation, move


@kernel
def set_lm(context, lm, n_words, quantiles):  # type: ignore[no-untyped-def]
    """OUT context: the language-model score of a phrase of so many words, and what templates make of it."""
    context[terms.LM] = lm
    context[terms.INVERSE] = 1.0 / n_words if n_words else 0.0
    context[terms.PER_WORD] = lm / n_words if n_words else 0.0
    for i in range(len(quantiles)):
        context[terms.PER_WORD + 1 + i] = context[terms.PER_WORD] < quantiles[i]


@kernel(inline="always")
def phrase_lm(lm, state, options, o, end_word):  # type: ignore[no-untyped-def]
    """(ln p of an option's words after a state, the state after them); with the sentence's end unless ``end_word`` < 0."""
    p, state = extend_all(lm, state, options.words[options.word_ptr[o] : options.word_ptr[o + 1]])
    if end_word >= 0:
        p += extend(lm, state, end_word)[0]
        state = 0
    return p, state


@kernel
def context_rows(lm, options, moves, quantiles, hyps, tails, chosen, starts, ends, n, end_word, out, added):  # type: ignore[no-untyped-def]
    """OUT out[R, 24]: the context features of the edges that put option chosen[r] after hypothesis tails[r]; added[R]: what
    templates add to them for the move."""
    for r in range(len(out)):
        hyp, o = hyps[tails[r]], chosen[r]
        start, end = starts[o], ends[o]
        orientation, move = set_context(out[r], hyp, start, end, n, options)
        if options.forward[o] >= 0:
            out[r, orientation] = options.backward[o, orientation]
        is_last = hyp[COVERED] + end - start == n
        score = phrase_lm(lm, hyp[STATE], options, o, end_word if is_last else -1)[0]
        set_lm(out[r], score, options.word_ptr[o + 1] - options.word_ptr[o], quantiles)
        added[r] = 0.0
        if len(moves.back):
            late = hyp[LATE]
            added[r] = moves.ahead[late, move] + moves.back[o, move] + moves.bigrams[moves.last[late], moves.first[o]]
            if hyp[COVERED] == 0:
                added[r] += moves.initial[o]
            if is_last:
                added[r] += moves.final[o]


# -- coverage -------------------------------------------------------------------------------------------------------------


@kernel
def _is_covered(gap, bits, i):  # type: ignore[no-untyped-def]
    return 0 < i - gap <= WINDOW and (bits >> (i - gap - 1)) & 1


@kernel
def _covered(gap, bits, start, end):  # type: ignore[no-untyped-def]
    """(gap, bits) with start:end covered too."""
    if start > gap:
        return gap, bits | (((1 << (end - start)) - 1) << (start - gap - 1))
    bits = bits >> min(end - gap - 1, WINDOW + 1)
    gap = end
    while bits & 1:
        bits >>= 1
        gap += 1
    return gap, bits >> 1


@kernel
def _remaining(gap, bits, future, n):  # type: ignore[no-untyped-def]
    """The estimate of all that is not covered: Σ future[i, j] over its runs i:j."""
    total, run, i = 0.0, gap, gap + 1
    while bits:
        if bits & 1:
            if run >= 0:
                total += future[run, i]
            run = -1
        elif run < 0:
            run = i
        bits >>= 1
        i += 1
    if run < 0:
        run = i
    return total + future[run, n] if run < n else total


# -- hypotheses in stacks -------------------------------------------------------------------------------------------------


class Frontier(NamedTuple):
    """All hypotheses and arcs so far. A stack is a list linked by NEXT; equal keys are found by a hash table, linked by CHAIN."""

    hyps: I64  # [room, 13]
    scores: F64  # [room, 2]
    arcs: I64  # [room, 3]
    arc_scores: F64  # [room, 1]
    chains: I64  # [slots] the first hypothesis
    used: I64  # hypotheses, arcs
    first: I64  # [n+1] of each stack
    size: I64  # [n+1]
    best: F64  # [n+1] the best total
    bound: F64  # [n+1] what is worse has no place in the stack


@kernel
def _start(n, state, total):  # type: ignore[no-untyped-def]
    """The space that holds hypothesis 0, which covers nothing."""
    hyps, scores = np.full((1024, N_COLUMNS), -1), np.zeros((1024, 2))
    hyps[0, GAP] = hyps[0, BITS] = hyps[0, END] = hyps[0, COVERED] = hyps[0, LATE] = 0
    hyps[0, STATE], scores[0, TOTAL] = state, total
    first, worst = np.full(n + 1, -1), np.full(n + 1, -np.inf)
    size = np.zeros(n + 1, np.int64)
    first[0], size[0] = 0, 1
    arcs, chains = np.empty((4096, 3), np.int64), np.full(4096, -1)
    return Frontier(hyps, scores, arcs, np.empty((4096, 1)), chains, np.array([1, 0]), first, size, worst, worst.copy())


@kernel
def _larger(table, room):  # type: ignore[no-untyped-def]
    out = np.empty((room, table.shape[1]), table.dtype)
    for r in range(len(table)):  # element by element: numba takes seconds to compile the assignment of a slice
        for c in range(table.shape[1]):
            out[r, c] = table[r, c]
    return out


@kernel
def _with_room(space, more):  # type: ignore[no-untyped-def]
    """The space with room for so many more hypotheses and arcs."""
    n_hyps, n_arcs = space.used[0] + more, space.used[1] + more
    hyps, scores, arcs, arc_scores, chains = space.hyps, space.scores, space.arcs, space.arc_scores, space.chains
    if n_hyps <= len(hyps) and n_arcs <= len(arcs):
        return space
    if n_hyps > len(hyps):
        hyps, scores = _larger(hyps, 2 * n_hyps), _larger(scores, 2 * n_hyps)
    if n_arcs > len(arcs):
        arcs, arc_scores = _larger(arcs, 2 * n_arcs), _larger(arc_scores, 2 * n_arcs)
    if n_hyps > len(chains):
        chains = np.full(4 * len(chains), -1)
        for h in range(1, space.used[0]):
            slot = _hash(hyps[h]) & (len(chains) - 1)
            hyps[h, CHAIN], chains[slot] = chains[slot], h
    return Frontier(hyps, scores, arcs, arc_scores, chains, space.used, space.first, space.size, space.best, space.bound)


@kernel
def _hash(key):  # type: ignore[no-untyped-def]
    h = np.uint64(1469598103934665603)
    for i in range(N_KEYS):
        h = (h ^ np.uint64(key[i])) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    return np.int64(h >> np.uint64(1))


@kernel
def _find(space, key, covered):  # type: ignore[no-untyped-def]
    """The hypothesis with this key: nothing that follows can tell it from another. If there is none, a new one."""
    slot = _hash(key) & (len(space.chains) - 1)
    h = space.chains[slot]
    while h >= 0:
        i = 0
        while i < N_KEYS and space.hyps[h, i] == key[i]:
            i += 1
        if i == N_KEYS:
            return h
        h = space.hyps[h, CHAIN]
    h = space.used[0]
    space.used[0] += 1
    for i in range(N_KEYS):
        space.hyps[h, i] = key[i]
    space.hyps[h, COVERED], space.hyps[h, IS_LINKED] = covered, 0
    space.hyps[h, CHAIN], space.chains[slot] = space.chains[slot], h
    space.scores[h, SCORE] = -np.inf
    return h


@kernel
def _link(space, stack, h):  # type: ignore[no-untyped-def]
    space.hyps[h, NEXT], space.hyps[h, IS_LINKED], space.first[stack] = space.first[stack], 1, h
    space.size[stack] += 1


@kernel
def _members(space, stack):  # type: ignore[no-untyped-def]
    """The hypotheses of a stack, the best first; of equals the one that came last."""
    members, h = np.empty(space.size[stack], np.int64), space.first[stack]
    losses = np.empty(len(members))
    for i in range(len(members)):
        members[i], losses[i], h = h, -space.scores[h, TOTAL], space.hyps[h, NEXT]
    return members[np.argsort(losses, kind="mergesort")]


@kernel
def _cut(space, stack, size):  # type: ignore[no-untyped-def]
    """Leave the best in a stack: so many, or more if the last are equal. What is worse than these is not taken in again."""
    members = _members(space, stack)
    space.bound[stack] = max(space.bound[stack], space.scores[members[size - 1], TOTAL])
    space.first[stack], space.size[stack] = -1, 0
    for h in members[::-1]:
        space.hyps[h, IS_LINKED] = 0
        if space.scores[h, TOTAL] >= space.bound[stack]:
            _link(space, stack, h)


@kernel
def _put(space, key, stack, tail, option, edge, total, limits):  # type: ignore[no-untyped-def]
    """Take in the arc from a hypothesis by an option, of score ``edge``, to the hypothesis of this key."""
    h, score = _find(space, key, stack), space.scores[tail, SCORE] + edge
    if score > space.scores[h, SCORE]:
        space.scores[h, SCORE], space.scores[h, TOTAL] = score, total
        space.hyps[h, BACK], space.hyps[h, OPTION] = tail, option
        if not space.hyps[h, IS_LINKED]:
            _link(space, stack, h)
        if total > space.best[stack]:
            space.best[stack] = total
            space.bound[stack] = max(space.bound[stack], total - limits.beam)
    a = space.used[1]
    space.used[1] += 1
    space.arcs[a, 0], space.arcs[a, 1], space.arcs[a, 2], space.arc_scores[a, 0] = h, tail, option, edge
    if limits.stack and space.size[stack] > 2 * limits.stack:
        _cut(space, stack, limits.stack)


# -- the search -----------------------------------------------------------------------------------------------------------


@kernel
def search(task):  # type: ignore[no-untyped-def]
    """Search a sentence. Returns the columns of Searched.

    Distortion as in Moses: a phrase that leaves the first gap open must end near enough to come back.
    """
    n, limits = task.n, task.limits
    space, cache = _start(n, task.start_state, task.future[0, n]), terms.new_cache(task.trees)
    context, key = np.zeros(terms.N_CONTEXT), np.empty(N_KEYS, np.int64)
    limit = limits.distortion if limits.distortion >= 0 else n
    for stack in range(n):
        members = _members(space, stack)
        for tail in members[: limits.stack] if limits.stack else members:
            if space.scores[tail, TOTAL] < space.bound[stack]:
                break
            gap, bits, after = space.hyps[tail, GAP], space.hyps[tail, BITS], space.hyps[tail, END]
            for start in range(max(gap, after - limit), min(n, after + limit + 1)):
                if _is_covered(gap, bits, start):
                    continue
                for end in range(start + 1, min(n, start + limits.longest) + 1):
                    if _is_covered(gap, bits, end - 1) or (start > gap and end - gap > limit):
                        break
                    span = start * limits.longest + end - start - 1
                    first, last = task.options.span_ptr[span], task.options.span_ptr[span + 1]
                    if first < last:
                        space = _with_room(space, last - first)
                        key[GAP], key[BITS] = _covered(gap, bits, start, end)
                        key[START], key[END] = start, end
                        _extend(task, space, cache, tail, first, last, context, key)
    n_hyps, n_arcs = space.used
    return space.hyps[:n_hyps], space.scores[:n_hyps], space.arcs[:n_arcs], space.arc_scores[:n_arcs, 0], space.first[n]


@kernel(inline="always")
def _extend(task, space, cache, tail, first, last, context, key):  # type: ignore[no-untyped-def]
    """Put the options first:last of a span after a hypothesis; ``key`` has the coverage that this gives, and the span.

    No language-model score is above 0: options that have no hope even then are not looked at further. IN OUT space, cache.
    """
    options, weights, moves, quantiles = task.options, task.weights, task.moves, task.quantiles
    lm_cuts, word_cuts = task.trees.lm_cuts, task.trees.word_cuts
    has_trees, has_moves, per_word, most, rest = len(task.trees.nodes) > 0, len(moves.back) > 0, 0.0, 0.0, 0.0
    start, end = key[START], key[END]
    is_first, into = space.hyps[tail, COVERED] == 0, space.hyps[tail, COVERED] + end - start
    is_last = into == task.n
    if is_last:  # nothing follows: all are one
        key[START], key[END] = -1, task.n
    elif options.forward[first] < 0 and not task.keeps_span:
        key[START] = -1  # nobody asks for it
    orientation, move = set_context(context, space.hyps[tail], start, end, task.n, options)
    so_far = space.scores[tail, SCORE] + _remaining(key[GAP], key[BITS], task.future, task.n)
    before = weights[3 + orientation] * context[3 + orientation] + weights[terms.DISTORTION] * context[terms.DISTORTION]
    if task.keeps_span:
        for c in range(terms.JUMP, terms.PER_WORD):
            before += weights[c] * context[c]
    for i in range(len(quantiles)):
        most += max(weights[terms.PER_WORD + 1 + i], 0.0)
    late = row = np.int64(0)
    if has_moves:
        late = space.hyps[tail, LATE]
        row = moves.last[late]
        before += moves.ahead[late, move]
    place = 2 * is_last + is_first
    number = terms.context_number(task.trees, space.hyps[tail, FORWARD], int(context[terms.JUMP]), place, orientation)
    for o in range(first, last):
        context[orientation] = options.backward[o, orientation]
        edge = before + options.score[o] + weights[orientation] * context[orientation]
        if has_moves:
            edge += moves.back[o, move] + moves.bigrams[row, moves.first[o]]
            if is_first:
                edge += moves.initial[o]
            if is_last:
                edge += moves.final[o]
        if len(quantiles):
            set_lm(context, 0.0, options.word_ptr[o + 1] - options.word_ptr[o], quantiles)
            per_word = weights[terms.PER_WORD] * context[terms.INVERSE]
        if not has_trees and weights[terms.LM] + per_word >= 0 and so_far + edge + most < space.bound[into]:
            continue
        lm, key[STATE] = phrase_lm(task.lm, space.hyps[tail, STATE], options, o, task.end_word if is_last else -1)
        set_lm(context, lm, options.word_ptr[o + 1] - options.word_ptr[o], quantiles)
        if has_trees:
            known = terms.number_with_lm(number, lm_cuts, word_cuts, lm, context[terms.PER_WORD])
            slot, is_there = terms.find_slot(cache, known, o)
            if not is_there:
                terms.fill_slot(cache, slot, known, o, task.trees, context, options.x[o])
            edge += cache[slot, terms.FIXED]
            rest = cache[slot, terms.FREE_A] + cache[slot, terms.FREE_B] * lm
        edge += weights[terms.LM] * lm
        if len(quantiles):
            for c in range(terms.PER_WORD, terms.PER_WORD + 1 + terms.N_QUANTILES):
                edge += weights[c] * context[c]
        if has_trees:
            edge += rest
        if so_far + edge < space.bound[into]:
            continue
        key[FORWARD] = -1 if is_last else options.forward[o]
        key[LATE] = moves.late[o] if has_moves and not is_last else 0
        _put(space, key, into, tail, o, edge, so_far + edge, task.limits)


@kernel
def reachable(arcs, goal, out):  # type: ignore[no-untyped-def]
    """OUT out[hypotheses]: whether the goal is reached from each. Arcs into a hypothesis come before those out of it."""
    out[goal] = True
    for a in range(len(arcs) - 1, -1, -1):
        if out[arcs[a, 0]]:
            out[arcs[a, 1]] = True


@kernel
def future_scores(n, longest, span_ptr, estimate, out):  # type: ignore[no-untyped-def]
    """OUT out[n+1, n+1]: the best sum of estimates that covers i:j, whatever the order."""
    out[:] = -np.inf
    for i in range(n):
        for length in range(1, min(longest, n - i) + 1):
            span = i * longest + length - 1
            for o in range(span_ptr[span], span_ptr[span + 1]):
                out[i, i + length] = max(out[i, i + length], estimate[o])
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            for k in range(i + 1, i + length):
                out[i, i + length] = max(out[i, i + length], out[i, k] + out[k, i + length])
