"""Oracle paths by word errors: the path of a lattice with the fewest edits to a reference, exactly.

    D(h, j) = min over links e: g -> h with word w of  min { D(g, j) + 1,  D(g, j - 1) + [w ≠ r_j],  D(h via e, j - 1) + 1 }

is the edit distance between the nearest partial path to node h and the first j words of the reference: the product of the lattice
and the edit transducer, node by node. D(goal, m) / m is the oracle WER of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...core.arrays import I32, I64, offsets
from ...core.errors import InputError
from ...core.kernels import kernel
from ...core.text import split_words
from ...lists.build import Builder, HypRecord, ReadOptions, attach
from ...lists.choices import Score, Scorer
from ...lists.nbest import NBest
from .graph import Graph
from .graph_files import SentenceGraph
from .rescoring import EdgeScorer, in_order

FAR = np.int32(2**30)  # of a node that no path reaches


@kernel
def _apply_words(words, types, ref, row, other):  # type: ignore[no-untyped-def]
    """The row [m+1] of distances after more words of a path; row and other are for work. Words below 0 are places of tails."""
    for word in words:
        if word < 0:
            continue
        other[0] = row[0] + 1
        for j in range(1, len(row)):
            change = row[j - 1] + (0 if types[word] == ref[j - 1] else 1)
            other[j] = min(change, row[j] + 1, other[j - 1] + 1)
        row, other = other, row
    return row


@kernel
def _fill_distances(shape, types, ref, out):  # type: ignore[no-untyped-def]
    """OUT out[N, m+1]: D above; nodes come after those that they follow."""
    a, b = np.empty(len(ref) + 1, np.int32), np.empty(len(ref) + 1, np.int32)
    for h in range(len(shape.head_ptr) - 1):
        out[h] = FAR
        for e in range(shape.head_ptr[h], shape.head_ptr[h + 1]):
            if shape.tail_ptr[e] == shape.tail_ptr[e + 1]:
                for j in range(len(a)):
                    a[j] = j
            else:
                a[:] = out[shape.tails[shape.tail_ptr[e]]]
                if a[0] >= FAR:
                    continue
            row = _apply_words(shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]], types, ref, a, b)
            for j in range(len(row)):
                out[h, j] = min(out[h, j], row[j])


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
    words = np.array([numbers[word] for word in ref], np.int32)
    distance = np.empty((graph.n_nodes, len(words) + 1), np.int32)
    _fill_distances(graph.shape, types, words, distance)
    return int(distance[graph.goal, -1]), _trace(graph, types, words, distance)


def _trace(graph: Graph, types: I32, ref: I32, distance: I32) -> list[str]:
    """The words of a path that has the distance of the goal, from its end."""
    shape, node, j, out = graph.shape, graph.goal, len(ref), list[str]()
    while True:
        e, before = _last_edge(graph, types, ref, distance, node, j)
        own = [w for w in shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]].tolist() if w >= 0]
        out += [graph.vocab[w] for w in reversed(own)]
        if shape.tail_ptr[e] == shape.tail_ptr[e + 1]:
            return out[::-1]
        node, j = int(shape.tails[shape.tail_ptr[e]]), before


def _last_edge(graph: Graph, types: I32, ref: I32, distance: I32, node: int, j: int) -> tuple[int, int]:
    """An edge into the node by which it has its distance at j, and the place of the reference where the edge begins."""
    shape = graph.shape
    for e in range(shape.head_ptr[node], shape.head_ptr[node + 1]):
        own = [int(types[w]) for w in shape.words[shape.word_ptr[e] : shape.word_ptr[e + 1]].tolist() if w >= 0]
        cost = _suffix_costs(own, ref[:j].tolist())
        has_tail = shape.tail_ptr[e] < shape.tail_ptr[e + 1]
        row = distance[shape.tails[shape.tail_ptr[e]], : j + 1] if has_tail else np.arange(j + 1)
        total = row + cost
        best = int(np.argmin(total[::-1]))  # the latest among equals
        if total[j - best] == distance[node, j]:
            return e, j - best
    raise AssertionError("a distance without an edge")


def _suffix_costs(words: Sequence[int], ref: Sequence[int]) -> I64:
    """[j+1] edits between words and ref[i:] for every i."""
    row = np.arange(len(ref), -1, -1)
    for word in reversed(words):
        new = row + 1
        for i in range(len(ref) - 1, -1, -1):
            new[i] = min(row[i] + 1, row[i + 1] + (word != ref[i]), new[i + 1] + 1)
        row = new
    return row


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
        if item.sent >= min(map(len, refs)):
            raise InputError(f"{item.where}: expected a reference of sentence {item.sent}, found none; give those of the graphs")
        item = scorer.named(item)
        best = item.graph.text(item.graph.best(scorer(item)), 0)
        lines = [split_words(file[item.sent]) for file in refs]
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
