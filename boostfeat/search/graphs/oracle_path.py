"""Oracle paths: derivations of a search graph with the highest BLEU, approximately.

Corpus BLEU does not decompose over edges, and even the best path by sentence BLEU is NP-hard to find in a graph. So: start
from the best of a k-best list; linearise BLEU+1 there, a gain for each clipped n-gram match and a price for each word; find
the path of the highest linear gain by a search that keeps a few partial translations at each node, whose matches are counted
exactly; go on from the best found. At last choose among all candidates of all sentences by corpus BLEU, one sentence after
the other, starting from the oracle of the k-best lists: the result is never below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...core.arrays import F64, I32, I64, Array, in_order, offsets
from ...core.errors import InputError
from ...core.kernels import kernel
from ...core.text import split_words
from ...lists.build import Builder, HypRecord, ListRecord, ReadOptions, attach
from ...lists.choices import Score, Scorer, first_choice, oracle_choice
from ...lists.nbest import NBest
from ...metrics.bleu import HYP_LEN, N_STATS, ORDER, REF_LEN, context_bleu, corpus_rows, fill_row, ngram_totals
from ...metrics.metric import Bleu
from ...metrics.ngrams import NgramTrie, clipped_trie
from .graph import Derivations, Graph, kbest_record
from .graph_files import SentenceGraph
from .kbest import Records, add_record, written_down
from .rescoring import EdgeScorer

BLEU = Bleu("bleu")  # what paths are near to the references by: other metrics are not sums over edges
MAX_YIELDS = 50_000_000  # words of all partial translations kept: of a huge graph, fewer a node
_MIX = np.uint64(0x9E3779B97F4A7C15)  # keys of texts begin with it, far from the numbers of words
SWEEPS = 10  # over the corpus at most; two or three change nothing any more


SIZE, BEAM, ROUNDS = 100, 8, 3  # of the k-best list to start from, of what a node keeps; how often to linearise anew


# ---------------------------------------------------------------------------------------------------------------------
# The references of a sentence
# ---------------------------------------------------------------------------------------------------------------------


class Matcher(NamedTuple):
    """The n-grams of references, as in BLEU, and the offsets of these."""

    trie: NgramTrie
    ptr: I64  # [references + 1]


def matcher(refs: Sequence[str], longest: int) -> tuple[Matcher, dict[str, int]]:
    """The n-grams of references, to match strings of at most so many words with, and the numbers of their words."""
    words: dict[str, int] = {}
    tokens = [[words.setdefault(w, len(words)) for w in split_words(ref)] for ref in refs]
    ptr, ids = offsets(np.array(list(map(len, tokens)), np.int64)), np.array(list(chain(*tokens)), np.int32)
    return Matcher(clipped_trie(ptr, ids, len(words), ORDER, ORDER * longest), ptr), words


@kernel
def _fill_stats(m, ptr, tokens, out):  # type: ignore[no-untyped-def]
    """BLEU statistics of strings of reference words (-1: of none): OUT out[K, 6]; see boostfeat.metrics.bleu."""
    matches = np.empty((1, ORDER), np.int64)
    for k in range(len(out)):
        fill_row(m.trie, m.ptr, tokens, ptr[k], ptr[k + 1], matches, out[k])


# ---------------------------------------------------------------------------------------------------------------------
# Search
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def _write_yield(shape, types, e, token_ptr, tokens, parts, out):  # type: ignore[no-untyped-def]
    """OUT out: the reference words (-1: none) of an edge over these records, whose words are ``tokens``; returns their number."""
    n = 0
    for word in shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]]:
        if word >= 0:
            out[n] = types[word]
            n += 1
            continue
        part = parts[-1 - word]
        for i in range(token_ptr[part], token_ptr[part + 1]):
            out[n] = tokens[i]
            n += 1
    return n


@kernel
def _next_ranks(ranks, sizes, beam):  # type: ignore[no-untyped-def]
    """The next combination of ranks [tails] below sizes with Π (r_i + 1) <= beam, the first fastest; False after the last."""
    for i in range(len(ranks)):
        ranks[i] += 1
        product = 1
        for r in ranks:
            product *= r + 1
        if ranks[i] < sizes[i] and product <= beam:
            return True
        ranks[i] = 0
    return False


@kernel
def _in_derivations(shape, goal):  # type: ignore[no-untyped-def]
    """[N] which nodes are in derivations of the goal: only what they yield is no longer than the longest of these."""
    has_some, is_in = np.zeros(len(shape.head_ptr) - 1, np.bool_), np.zeros(len(shape.head_ptr) - 1, np.bool_)
    for h in range(goal):
        for e in range(shape.head_ptr[h], shape.head_ptr[h + 1]):
            has_some[h] |= has_some[shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]].all()
    is_in[goal] = True
    for h in range(goal, -1, -1):  # tails come before their heads
        if is_in[h]:
            for e in range(shape.head_ptr[h], shape.head_ptr[h + 1]):
                tails = shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]
                if has_some[tails].all():
                    is_in[tails] = True
    return is_in


@kernel
def find_oracles(shape, goal, longest, types, m, theta, beam):  # type: ignore[no-untyped-def]
    """Partial translations of the highest linear gain Σ_n θ_n c_n + θ_5 |y|: of every node the best ``beam``, distinct.

    Gains are exact, matches across edges and clipping included; what is approximate is that a node keeps few, and that of an
    edge over several tails only the best combinations are tried. Returns the columns of Derivations of the goal's.
    """
    is_in = _in_derivations(shape, goal)
    first = np.zeros(goal + 2, np.int64)  # of node h: records first[h]:first[h+1]
    records = Records([0.0][:0], [0][:0], [0], [0][:0])
    token_ptr, tokens = [0], [np.int32(0)][:0]
    row, matches, text = np.zeros(N_STATS, np.int64), np.empty((1, ORDER), np.int64), np.empty(longest, np.int32)
    for h in range(goal + 1):
        tried, keys = Records([0.0][:0], [0][:0], [0], [0][:0]), [np.uint64(0)][:0]  # candidates, and hashes of their words
        for e in range(shape.head_ptr[h], shape.head_ptr[h + 1]) if is_in[h] else range(0):
            tails = shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]
            sizes = first[tails + 1] - first[tails]
            ranks = np.zeros(len(tails), np.int64)
            going = (sizes > 0).all()
            while going:
                parts = first[tails] + ranks
                n = _write_yield(shape, types, e, token_ptr, tokens, parts, text)
                fill_row(m.trie, m.ptr, text, np.int64(0), n, matches, row)
                gain, key = theta[ORDER] * n, _MIX
                for k in range(ORDER):
                    gain += theta[k] * row[k]
                for i in range(n):
                    key = (key ^ np.uint64(text[i] + 2)) * _MIX
                    key ^= key >> np.uint64(29)
                add_record(tried, gain, e, parts)
                keys.append(key)
                going = _next_ranks(ranks, sizes, beam)
        kept = [np.uint64(0)][:0]
        if keys:
            for c in np.argsort(-np.array(tried.score), kind="mergesort"):
                if len(kept) == beam:
                    break
                if keys[c] in kept:
                    continue
                kept.append(keys[c])
                parts_kept = tried.parts[tried.part_ptr[c] : tried.part_ptr[c + 1]]
                n = _write_yield(shape, types, tried.edge[c], token_ptr, tokens, parts_kept, text)
                add_record(records, tried.score[c], tried.edge[c], parts_kept)
                for i in range(n):
                    tokens.append(text[i])
                token_ptr.append(len(tokens))
        first[h + 1] = len(records.edge)
    return written_down(shape, records, np.arange(first[goal], first[goal + 1]))


def linear_gains(stats: Array) -> F64:
    """θ [2, 5]: the gradient of ln BLEU+1 at statistics [6] in (c_1..c_4, length), without and with the brevity penalty.

    ln BLEU+1 = 1/4 [ln c_1/t_1 + Σ_{n>1} ln (c_n + 1)/(t_n + 1)] + min(0, 1 - r/|y|): it has a corner at |y| = r, so that both
    sides are tried wherever it is. [LO04]; linear BLEU as in [T08].
    """
    c, t = stats[:ORDER].astype(np.float64), ngram_totals(stats[HYP_LEN]).astype(np.float64)
    add = np.array([0.0, 1.0, 1.0, 1.0])
    theta = np.empty((2, ORDER + 1))
    theta[:, :ORDER] = 1 / (ORDER * np.maximum(c + add, 0.5))
    theta[:, ORDER] = -(1 / (ORDER * np.maximum(t + add, 1.0))).sum()
    theta[1, ORDER] += stats[REF_LEN] / max(float(stats[HYP_LEN]), 1.0) ** 2
    return theta


def oracle_candidates(
    graph: Graph, refs: Sequence[str], start: Derivations, *, beam: int = BEAM, rounds: int = ROUNDS
) -> list[Derivations]:
    """``start`` and, after it, derivations found that match the references better."""
    m, words = matcher(refs, graph.longest)
    types = np.array([words.get(w, -1) for w in graph.vocab] or [-1], np.int32)
    beam = max(1, min(beam, MAX_YIELDS // max(1, graph.n_nodes * graph.longest)))

    def stats_of(found: Derivations) -> I32:
        out = np.zeros((len(found), N_STATS), np.int32)
        _fill_stats(m, found.token_ptr, types[found.tokens], out)
        return out

    every, stats, best = [start], stats_of(start), -1.0
    for _ in range(rounds):
        gains = BLEU.gain_of(stats)
        if gains.max() <= best:
            break
        best = float(gains.max())
        for theta in linear_gains(stats[np.argmax(gains)]):
            every.append(Derivations(*find_oracles(graph.shape, graph.goal, graph.longest, types, m, theta, beam)))
            stats = np.concatenate([stats, stats_of(every[-1])])
    return every


# ---------------------------------------------------------------------------------------------------------------------
# Of a corpus
# ---------------------------------------------------------------------------------------------------------------------


def oracle_paths(
    graphs: Iterable[SentenceGraph],
    scorer: EdgeScorer,
    refs: Sequence[Sequence[str]],
    *,
    size: int = SIZE,
    source: Sequence[str] | None = None,
    threads: int = 1,
) -> tuple[NBest, dict[str, Score]]:
    """Lists of one hypothesis, the oracle; corpus BLEU of the model's best path, of the oracle of the k-best lists, and of it.

    References are by sentence id, one sequence of lines per reference file.
    """

    def search(item: SentenceGraph) -> list[ListRecord]:
        item = scorer.named(item)
        scores = scorer(item)
        start = item.graph.kbest(scores, size)
        parts = (found.rescored(scores) for found in oracle_candidates(item.graph, _refs_of(item, refs), start))
        return [kbest_record(item.graph, scores, found, sent=item.sent, where=item.where) for found in parts]

    builder, n_kbest = Builder(ReadOptions(source=source)), []
    for records in in_order(search, graphs, threads=threads):
        for record in records:
            builder.add_list(record)
        n_kbest.append(len(records[0].texts))
    nbest = attach(builder.finish(), source=source, refs=refs, name="graphs", threads=threads)
    counts = np.zeros(len(nbest), np.int64)
    counts[np.diff(nbest.hyp_ptr) > 0] = n_kbest
    lists = nbest.truncate(counts)
    chosen = corpus_oracle(lists, oracle_choice(lists))
    of_lists, every = Scorer(lists), Scorer(nbest)
    final = corpus_oracle(nbest, np.where(chosen >= 0, chosen - lists.hyp_ptr[:-1] + nbest.hyp_ptr[:-1], -1))
    found = {
        "best path": of_lists.score(first_choice(lists), "bleu"),
        f"oracle of the {size}-best": of_lists.score(chosen, "bleu"),
        "oracle path": every.score(final, "bleu"),
    }
    return nbest.take_hyps(final[final >= 0], offsets(final >= 0)).compact(), found


def _refs_of(item: SentenceGraph, refs: Sequence[Sequence[str]]) -> list[str]:
    if item.sent >= min(map(len, refs)):
        raise InputError(f"{item.where}: expected a reference of sentence {item.sent}, found none; give those of the graphs")
    return [lines[item.sent] for lines in refs]


def corpus_oracle(nbest: NBest, chosen: I64) -> I64:
    """Choices [S] changed one sentence at a time, each to the hypothesis with which corpus BLEU is highest: it only rises."""
    chosen = chosen.copy()
    total = Scorer(nbest).rows(chosen, "bleu").sum(axis=0)
    for _ in range(SWEEPS):
        before = chosen.copy()
        for s in np.flatnonzero(np.diff(nbest.hyp_ptr)):
            hyps = slice(nbest.hyp_ptr[s], nbest.hyp_ptr[s + 1])
            background = total - corpus_rows(nbest.stats[chosen[s]])
            gains = context_bleu(nbest.stats[hyps], background)
            best = int(np.argmax(gains))
            if gains[best] > gains[chosen[s] - hyps.start]:
                chosen[s] = hyps.start + best
                total = background + corpus_rows(nbest.stats[chosen[s]])
        if (chosen == before).all():
            break
    return chosen


FAR = np.int32(2**30)  # of a node that no path reaches


@kernel
def _fill_paths(shape, types, ref, out, edge, begin):  # type: ignore[no-untyped-def]
    """OUT out[N, m+1]: the fewest edits between a path to a node and ref[:j]; edge: the path's last, the first of equals;
    begin: where it begins in the reference, the latest of equals. Nodes come after those that they follow.
    """
    row, start = np.empty((2, len(ref) + 1), np.int32), np.empty((2, len(ref) + 1), np.int32)  # before a word, after it
    for h in range(len(shape.head_ptr) - 1):
        out[h] = FAR
        for e in range(shape.head_ptr[h], shape.head_ptr[h + 1]):
            now, first = 0, shape.tail_ptr[e]
            for j in range(len(ref) + 1):
                row[0, j] = out[shape.tails[first], j] if first < shape.tail_ptr[e + 1] else j
                start[0, j] = j
            for word in shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]]:
                if word < 0:
                    continue  # the tail's
                old, now = now, 1 - now
                for j in range(len(ref) + 1):
                    row[now, j], start[now, j] = row[old, j] + 1, start[old, j]
                    for before in range(2 if j else 0):  # a word of the reference is taken or changed, or left out
                        edits = row[before, j - 1] + (1 if before == now or types[word] != ref[j - 1] else 0)
                        place = start[before, j - 1]
                        if edits < row[now, j] or (edits == row[now, j] and place > start[now, j]):
                            row[now, j], start[now, j] = edits, place
            for j in range(len(ref) + 1):
                if row[now, j] < out[h, j]:
                    out[h, j], edge[h, j], begin[h, j] = row[now, j], e, start[now, j]


def _check_paths(graph: Graph, where: str) -> None:
    """Raise where derivations are no paths: more than one tail, or words before what an edge continues."""
    shape = graph.shape
    tails, has_tail = np.diff(shape.tail_ptr), np.diff(shape.tail_ptr) == 1
    if (tails > 1).any() or (shape.words[shape.word_ptr[:-1][has_tail]] >= 0).any():
        raise InputError(f"{where}: expected a lattice for oracle WER, found a hypergraph; give --metric bleu")


def nearest_path(graph: Graph, ref: Sequence[str], where: str = "graph") -> tuple[int, list[str]]:
    """(edits, words) of a path with the fewest edits to a reference."""
    _check_paths(graph, where)
    numbers = {word: k for k, word in enumerate(dict.fromkeys(ref))}
    types = np.array([numbers.get(word, -1) for word in graph.vocab] or [-1], np.int32)
    edits, edge, begin = np.empty((3, graph.n_nodes, len(ref) + 1), np.int32)
    _fill_paths(graph.shape, types, np.array([numbers[word] for word in ref], np.int32), edits, edge, begin)
    shape, node, j, words = graph.shape, graph.goal, len(ref), list[str]()
    while node >= 0:  # from the end
        e = edge[node, j]
        own = shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]].tolist()
        words += [graph.vocab[w] for w in reversed(own) if w >= 0]
        tails = shape.tails[shape.tail_ptr[e] : shape.tail_ptr[e + 1]]
        node, j = int(tails[0]) if len(tails) else -1, int(begin[node, j])
    return int(edits[graph.goal, -1]), words[::-1]


def edit_oracle_lists(
    graphs: Iterable[SentenceGraph],
    scorer: EdgeScorer,
    refs: Sequence[Sequence[str]],
    *,
    source: Sequence[str] | None = None,
    threads: int = 1,
) -> tuple[NBest, dict[str, Score]]:
    """Lists of one hypothesis, the nearest path; WER of it and of the scorer's best path.

    Of several references, that of the lowest rate counts, as in metrics.edits.
    """

    def search(item: SentenceGraph) -> list[HypRecord]:
        item = scorer.named(item)
        best = item.graph.text(item.graph.best(scorer(item)), 0)
        lines = [split_words(line) for line in _refs_of(item, refs)]
        found = [(nearest_path(item.graph, ref, item.where), max(1, len(ref))) for ref in lines]
        (_, words), _ = min(found, key=lambda one: one[0][0] / one[1])
        return [HypRecord(item.sent, text, item.where) for text in (" ".join(words), best)]

    builder = Builder(ReadOptions(source=source))
    for records in in_order(search, graphs, threads=threads):
        for record in records:
            builder.add(record)
    nbest = attach(builder.finish(), source=source, refs=refs, name="graphs", threads=threads)
    of_lists, some = Scorer(nbest), np.diff(nbest.hyp_ptr) > 0
    nearest, best = (np.where(some, nbest.hyp_ptr[:-1] + k, -1) for k in (0, 1))
    scores = {"best path": of_lists.score(best, "wer"), "oracle path": of_lists.score(nearest, "wer")}
    return nbest.take_hyps(nearest[some], offsets(some)), scores
