"""Moses search graphs, ``-output-search-graph-extended`` (osgx): a hypothesis of the search a line.

    0 hyp=0 stack=0 forward=3 fscore=-1.713
    0 hyp=30 stack=1 back=0 score=-1.0 transition=-1.0 forward=42 fscore=-1.2 covered=0-0 scores="core=(0.000,..) " out="src|tgt"

A line is an arc from hypothesis ``back`` to ``hyp``; with ``recombined=h`` it is one more arc into hypothesis h instead.
``stack`` is the number of source words covered: hypotheses of the last stack are complete. Numbers have 3 decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from ...core.errors import FormatError, InputError, clip, counted
from ...core.files import read_lines
from ...core.text import normal, split_words
from ...formats.fields import number, sentence_id
from ...lists.build import ReadOptions
from .graph import Graph, GraphBuilder, damaged
from .moses_hypergraph import named_values

LAYOUT = 'id hyp=.. stack=.. back=.. score=.. transition=.. forward=.. fscore=.. covered=s-e scores="core=(..)" out="src|tgt"'
LINE = re.compile(
    r"(?P<sent>\d{1,18}) hyp=(?P<hyp>\d{1,18}) stack=(?P<stack>\d{1,9})"
    r"(?: back=(?P<back>\d{1,18}) score=\S+ transition=(?P<transition>\S+)(?: recombined=(?P<recombined>\d{1,18}))?)?"
    r" forward=-?\d+ fscore=\S+"
    r'(?: covered=(?P<start>\d{1,9})-(?P<end>\d{1,9}) scores="core=\((?P<core>[^()]*)\)(?P<sparse>.*?)" out="(?P<out>.*)")? *',
    re.ASCII,
)


class Arc(NamedTuple):
    """The values of one line."""

    line: int
    hyp: int
    stack: int
    back: int | None = None  # None: where the search starts
    recombined: int | None = None
    transition: float = 0.0
    span: tuple[int, int] = (-1, -1)
    core: Sequence[float] = ()
    sparse: dict[str, float] = {}  # noqa: RUF012 (never changed)
    out: str = ""


def read_graphs(path: str | Path, options: ReadOptions) -> Iterator[tuple[int, int, Graph]]:
    """(first line, sentence id, graph) of every sentence. Edge scores are the decoder's transitions."""
    lines = ((n, line) for n, line in read_lines(path) if line and not line.isspace())
    group = None
    for name, group in groupby(lines, key=lambda item: item[1].partition(" ")[0]):
        first = next(group)
        sent = sentence_id(name, f"{path}:{first[0]}")
        arcs = [_arc(line, f"{path}:{n}", n) for n, line in (first, *group)]
        yield first[0], sent, _graph(arcs, str(path), options)
    if group is None:
        raise FormatError(str(path), expected="a search graph", found="an empty file", fix="check what wrote it")


def _arc(line: str, where: str, n: int) -> Arc:
    match = LINE.fullmatch(line)
    if match is None or (match["back"] is None) != (match["core"] is None):
        fix = "write the graph whole, with -output-search-graph-extended"
        raise FormatError(where, expected=f"an arc ({LAYOUT})", found=clip(line), fix=fix)
    _, hyp, stack, back, transition, recombined, first, last, core, sparse, out = match.groups()
    if back is None:
        return Arc(n, int(hyp), int(stack))
    start, end = int(first), int(last) + 1
    if end <= start:
        raise damaged(where, "a span covered=first-last", f"{start}-{end - 1}")
    same_as = None if recombined is None else int(recombined)
    score, values = number(transition, where, "transition"), _values(core, where)
    features = {} if sparse in ("", " ") else named_values(sparse, where)
    return Arc(n, int(hyp), int(stack), int(back), same_as, score, (start, end), values, features, out)


def _values(text: str, where: str) -> list[float]:
    values = text.split(",")
    try:
        core = list(map(float, values))
    except ValueError:
        core = []
    if not core or "_" in text or not isfinite(sum(core)):
        return [number(value, where, f"value {i} of core=(...)") for i, value in enumerate(values)]  # says which one
    return core


def _graph(arcs: list[Arc], path: str, options: ReadOptions) -> Graph:
    """Add an edge for each arc, and one to the goal from each hypothesis that covers all words."""
    builder = GraphBuilder(lambda e: f"{path}:{arcs[min(e, len(arcs) - 1)].line}")
    node_of = _nodes(arcs, path)
    n_core = max(len(arc.core) for arc in arcs)
    core = [builder.name(name) for name in _core_names(n_core, options, f"{path}:{arcs[0].line}")]
    pairs: dict[str, tuple[str, list[str]]] = {}
    for arc in arcs:
        head = node_of[arc.hyp]
        if arc.back is None:
            builder.edge(head, [], [], score=0.0)
            continue
        if arc.back not in node_of:
            raise _unknown(path, arc, "back", arc.back)
        if len(arc.core) != n_core:
            raise damaged(f"{path}:{arc.line}", f"{n_core} values in core=(...)", str(len(arc.core)))
        if (pair := pairs.get(arc.out)) is None:
            pair = pairs[arc.out] = _pair(arc, path)
        src, words = pair
        tails, values = [node_of[arc.back]], (core, arc.core)
        builder.edge(head, tails, [0, *words], arc.sparse, core=values, score=arc.transition, span=arc.span, src=src)
    goal = max(node_of.values()) + 1
    last = max(arc.stack for arc in arcs)
    for node in dict.fromkeys(node_of[arc.hyp] for arc in arcs if arc.stack == last):
        builder.edge(goal, [node], [0], score=0.0)
    return builder.finish(goal + 1, goal)


def _pair(arc: Arc, path: str) -> tuple[str, list[str]]:
    """Split what an arc translates into its source and the words of its target."""
    src, bar, tgt = arc.out.partition("|")
    if not bar or "|" in tgt:
        fix = "graphs of factored models are not supported; a bar in a word is written &#124;"
        expected = 'out="source|target" with one bar'
        raise FormatError(f"{path}:{arc.line}", expected=expected, found=clip(arc.out), fix=fix)
    return normal(src), split_words(tgt)


def _core_names(n_core: int, options: ReadOptions, where: str) -> list[str]:
    names = [f"core_{i}" for i in range(n_core)] if options.names is None else list(options.names)
    if n_core and len(names) != n_core:
        raise InputError(
            f"{where}: expected names for the {n_core} values of core=(...), found {counted(len(names), 'name')}; name them all"
        )
    if len(set(names)) < len(names):
        raise InputError(f"names: expected distinct ones, found one twice among {', '.join(names)}")
    return names


def _nodes(arcs: list[Arc], path: str) -> dict[int, int]:
    """The node of each hypothesis: that of the one it was recombined into, if any."""
    arc_of: dict[int, Arc] = {}
    for arc in arcs:
        if arc.hyp in arc_of:
            raise damaged(f"{path}:{arc.line}", "each hypothesis once a sentence", f"hyp={arc.hyp} again")
        arc_of[arc.hyp] = arc
    node_of = {hyp: i for i, hyp in enumerate(arc.hyp for arc in arcs if arc.recombined is None)}
    for arc in arcs:
        last, steps = arc, 0
        while last.recombined is not None:
            if last.recombined not in arc_of:
                raise _unknown(path, last, "recombined", last.recombined)
            if steps > len(arcs):
                raise damaged(f"{path}:{arc.line}", "recombination without cycles", f"hyp={arc.hyp} recombined into itself")
            last, steps = arc_of[last.recombined], steps + 1
        node_of[arc.hyp] = node_of[last.hyp]
    return node_of


def _unknown(path: str, arc: Arc, what: str, hyp: int) -> FormatError:
    return damaged(f"{path}:{arc.line}", f"{what}= a hypothesis of this sentence", f"{what}={hyp}")
