"""Write what the decoder found: n-best lists in memory or in Moses' enriched format, and search graphs (osgx)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import IO

import numpy as np

from ...core.arrays import F64
from ...core.errors import InputError, clip
from ...formats.fields import format_number
from ...formats.moses import enriched as moses_enriched
from ...lists.build import Builder, HypRecord, ReadOptions
from ...lists.nbest import NBest
from . import search as kernel
from .decoder import Decoded
from .lattice import Lattice
from .system import DISTORTION, LM, PHRASE_PENALTY, REORDERING, TRANSLATION, UNKNOWN, UNKNOWN_VALUE, WORD_PENALTY

BATCH = 64  # sentences whose lists are in memory while a file is written


def collect(results: Iterable[Decoded], size: int, *, distinct: bool = True, first_id: int = 0) -> NBest:
    """The n-best lists of consecutive sentences, as if they had been written and imported (build.attach adds references)."""
    builder: Builder | None = None
    for sent, result in enumerate(results, first_id):
        names = result.names
        builder = builder or Builder(ReadOptions(), declared_dense=names)
        for found in result.nbest(size, distinct=distinct):
            builder.add(HypRecord(sent, found.text, f"sentence {sent}", found.score, units=found.units))
    return (builder or Builder()).finish()


def write_nbest(stream: IO[bytes], results: Iterable[Decoded], size: int, *, distinct: bool = True, first_id: int = 0) -> None:
    """Write the lists of consecutive sentences in Moses' enriched format, with all digits."""
    results = iter(results)
    while batch := list(islice(results, BATCH)):
        for sent, result in enumerate(batch, first_id):
            check_bars(result.lattice.tokens, f"sentence {sent}")
        moses_enriched.write(collect(batch, size, distinct=distinct, first_id=first_id), stream)
        first_id += len(batch)


def graph_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The values of core=(...) in a search graph, in the order of Moses' ini: what ``import --names`` is given."""
    translation = (name for name in names if name.startswith(TRANSLATION))
    context = (name for name in (*REORDERING, DISTORTION, LM) if name in names)
    return (UNKNOWN, WORD_PENALTY, PHRASE_PENALTY, *translation, *context)


def write_search_graph(stream: IO[bytes], result: Decoded, sent: int) -> None:
    """Write the graph of a sentence as osgx: a line for each way into a hypothesis, extras as name=value after the core.

    Deviation: Moses prints three decimals, we all digits.
    """
    if result.found is None:
        stream.write(f"{sent} hyp=0 stack=0 forward=-1 fscore=0\n".encode())
        return
    check_bars(result.lattice.tokens, f"sentence {sent}")
    found, lattice, names = result.found, result.lattice, result.names
    nodes, used = result.graph
    number = np.full(len(found.hyps), -1)
    number[nodes] = np.arange(len(nodes))
    heads, tails, chosen = found.arcs[used].T
    x, _ = lattice.edges(found.hyps, tails, chosen)
    if UNKNOWN not in names:
        names, x = (*names, UNKNOWN), np.column_stack([x, UNKNOWN_VALUE * (lattice.row[chosen] == 0) + 0.0])
    core = [names.index(name) for name in graph_names(names)]
    sparse = [j for j in range(len(names)) if j not in core]
    scores, so_far = found.arc_scores[used], found.scores[:, kernel.SCORE]
    rest, onward = np.full(len(nodes), -np.inf), np.full(len(nodes), -1)
    rest[-1] = 0.0
    for a in range(len(used) - 1, -1, -1):  # heads before tails
        h, t = number[heads[a]], number[tails[a]]
        if scores[a] + rest[h] > rest[t]:
            rest[t], onward[t] = scores[a] + rest[h], h
    lines = [f"{sent} hyp=0 stack=0 forward={onward[0]} fscore={format_number(rest[0])}\n"]
    extra, seen = len(nodes), 0
    head, tail = number[heads], number[tails]
    total = so_far[tails] + scores
    is_best = (total == so_far[heads]).tolist()
    stack, forward = found.hyps[heads, kernel.COVERED].tolist(), onward[head].tolist()
    shown, moves, fscores = (_number_texts(column) for column in (total, scores, total + rest[head]))
    values = list(map(",".join, zip(*(_number_texts(x[:, j]) for j in core), strict=True)))
    others = [[f"{names[j]}={value} " for value in _number_texts(x[:, j])] for j in sparse]
    pairs = {o: _pair(lattice, o) for o in np.unique(chosen).tolist()}
    for a, (h, t, o) in enumerate(zip(head.tolist(), tail.tolist(), chosen.tolist(), strict=True)):
        is_first = h > seen and is_best[a]
        seen = h if is_first else seen
        name, recombined = (h, "") if is_first else (extra, f" recombined={h}")
        extra += not is_first
        covered, out = pairs[o]
        lines.append(
            f"{sent} hyp={name} stack={stack[a]} back={t} score={shown[a]} transition={moves[a]}{recombined} "
            f"forward={forward[a]} fscore={fscores[a]} {covered} "
            f'scores="core=({values[a]}) {"".join(column[a] for column in others)}" {out}\n'
        )
    stream.write("".join(lines).encode())


def _number_texts(column: F64) -> list[str]:
    """format_number of each; few values are different."""
    distinct, at = np.unique(column + 0.0, return_inverse=True)
    texts = [format_number(value) for value in distinct.tolist()]
    return [texts[i] for i in at.tolist()]


def _pair(lattice: Lattice, o: int) -> tuple[str, str]:
    start, end = lattice.start[o], lattice.end[o]
    return f"covered={start}-{end - 1}", f'out="{" ".join(lattice.tokens[start:end])}|{lattice.text(o)}"'


def check_bars(words: Iterable[str], where: str) -> None:
    """Moses' formats separate with bars."""
    for word in words:
        if "|" in word:
            raise InputError(f"{where}: expected words without '|', found {clip(word)}; write it as &#124;")
