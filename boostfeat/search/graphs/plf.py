"""PLF, Python lattice format, which Moses reads as input and recognisers write: a lattice a line.

    ((('sí', 0, 1),),(('para', -0.148, 1),('pasa', -1.98, 2),),(('eso', 0, 1),),)

A node holds its outgoing arcs (word, scores, how many nodes ahead the arc ends); the last node ends all paths and is not written.
One score is the feature ``lattice`` and the lattice's own score; of several, ``lattice_0``, ``lattice_1``, ..., the best path
asks for weights. ``*EPS*`` is no word. A blank line, or (), is the lattice of no words.

Scores of recognisers are often posteriors within a node, so that the best path is the most probable one: it is the recogniser's
first choice as far as that is, ties and pruning apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import nan
from pathlib import Path

from ...core.errors import clip
from ...core.files import read_lines
from ...core.text import is_whole, split_words
from ...formats.fields import number
from ...lists.build import ReadOptions
from .graph import Graph, GraphBuilder, damaged

NULLS = ("*EPS*", "<eps>", "NULL")  # words of arcs that say nothing
FEATURE = "lattice"
ARC = re.compile(r"""\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*,([^()'"]*)\)\s*,?\s*""")
OPEN, CLOSE = re.compile(r"\s*\(\s*"), re.compile(r"\)\s*,?\s*")
MAX_AHEAD = 10**9


def read_graphs(path: str | Path, options: ReadOptions) -> Iterator[tuple[int, int, Graph]]:
    """(line, sentence, lattice) of every line."""
    for n, line in read_lines(path):
        yield n, n - 1, _lattice(line, f"{path}:{n}")


def _lattice(line: str, where: str) -> Graph:
    nodes = _nodes(line, where)
    builder = GraphBuilder(lambda e: where)
    builder.edge(0, [], [], score=0.0)  # where all paths start
    n_scores = -1
    for start, arcs in enumerate(nodes):
        for word, scores, ahead in arcs:
            if n_scores not in (-1, len(scores)):
                raise damaged(where, f"{n_scores} scores on every arc", f"{len(scores)} on one of node {start}")
            n_scores = len(scores)
            names = [FEATURE] if n_scores == 1 else [f"{FEATURE}_{k}" for k in range(n_scores)]
            words = [] if word in NULLS else split_words(word)
            score = scores[0] if n_scores == 1 else nan if n_scores else 0.0
            builder.edge(start + ahead, [start], [0, *words], dict(zip(names, scores, strict=True)), score=score, is_unit=True)
    return builder.finish(len(nodes) + 1, len(nodes))


Arc = tuple[str, list[float], int]


def _nodes(line: str, where: str) -> list[list[Arc]]:
    """The arcs (word, scores, nodes ahead) of each node but the last."""
    if not line.strip():
        return []
    at, nodes = _past(OPEN, line, 0, where, "("), list[list[Arc]]()
    while opened := OPEN.match(line, at):
        at, arcs = opened.end(), list[Arc]()
        while found := ARC.match(line, at):
            arcs.append(_arc(found, where))
            at = found.end()
        at = _past(CLOSE, line, at, where, "('word', score, 1) or )")
        nodes.append(arcs)
    at = _past(CLOSE, line, at, where, "a node or )")
    if line[at:].strip():
        raise damaged(where, "the end of the line after the lattice", clip(line[at:]))
    return nodes


def _arc(found: re.Match[str], where: str) -> Arc:
    word = found[1] if found[1] is not None else found[2]
    *scores, ahead = [value.strip() for value in found[3].split(",")]
    if not (is_whole(ahead, digits=9) and 0 < int(ahead) < MAX_AHEAD):
        raise damaged(where, "a number of nodes ahead (1, 2, ...) at the end of an arc", clip(found[0]))
    text = re.sub(r"\\(.)", r"\1", word) if "\\" in word else word
    return text, [number(value, where, "the score of an arc") for value in scores], int(ahead)


def _past(pattern: re.Pattern[str], line: str, at: int, where: str, expected: str) -> int:
    found = pattern.match(line, at)
    if not found:
        raise damaged(f"{where}: column {at + 1}", expected, clip(line[at:]) if line[at:] else "the end of the line")
    return found.end()
