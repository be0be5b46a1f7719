"""Search graphs of files and folders, whatever decoder wrote them; one graph in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...core.errors import FormatError, InputError, unknown_name
from ...core.files import by_numbers
from ...formats import COUNTED, GRAPHS, detect, reader_module
from ...lists.build import ReadOptions
from .graph import Graph
from .moses_hypergraph import sentence_of

ONE_A_FILE = ("moses-hypergraph", "cdec-forest")  # the sentence's number is in the file's name
WEIGHTS = "weights"  # the file that Moses puts beside the hypergraphs of a folder


class SentenceGraph(NamedTuple):
    """A sentence's graph, and where it stands for error messages, ``file:line``."""

    where: str
    sent: int
    graph: Graph
    format: str = ""


def is_graph(path: str | Path) -> bool:
    """Whether a path holds search graphs: a file that looks like one, or a folder of some."""
    if os.path.isdir(path):
        return any(map(is_graph, _files_in(path)))
    try:
        return detect(path) in GRAPHS
    except FormatError:
        return False


def read_graphs(
    paths: Sequence[str | Path], options: ReadOptions | None = None, *, format: str = "auto"
) -> Iterator[SentenceGraph]:
    """The graphs of all files, by rising sentence id. Of a folder, all files but hidden ones and ``weights``.

    Files of one graph each come in the order of the numbers in their names, as a shell's ``*.gz`` does not give them. Lattices of
    recognisers are numbered as they come.
    """
    if format != "auto" and format not in GRAPHS:
        raise unknown_name("format of graphs", format, ("auto", *GRAPHS))
    files = [file for path in paths for file in (_files_in(path) if os.path.isdir(path) else [str(path)])]
    if not files:
        raise InputError(f"{', '.join(map(str, paths))}: expected graphs, found an empty folder; name the files")
    kinds = [format if format != "auto" else _graph_format(file) for file in files]
    if set(kinds) <= set(ONE_A_FILE):
        order = sorted(range(len(files)), key=lambda i: sentence_of(files[i]))
        files, kinds = [files[i] for i in order], [kinds[i] for i in order]
    last = -1
    for file, kind in zip(files, kinds, strict=True):
        reader: Callable[..., Iterator[tuple[int, int, Graph]]] = reader_module(kind).read_graphs
        first = last + 1 if kind in COUNTED else 0
        for line, sent, graph in reader(file, options or ReadOptions()):
            where, sent = f"{file}:{line}", first + sent
            if sent <= last:
                fix = "give each sentence once, in order"
                raise FormatError(where, expected=f"sentence id {last + 1} or higher", found=str(sent), fix=fix)
            last = sent
            yield SentenceGraph(where, sent, graph, kind)


def _files_in(folder: str | Path) -> list[str]:
    names = sorted((name for name in os.listdir(folder) if not name.startswith(".") and name != WEIGHTS), key=by_numbers)
    return [os.path.join(folder, name) for name in names]


def _graph_format(path: str) -> str:
    fix = f"have the decoder write one of {', '.join(GRAPHS)}; lists are for rerank"
    try:
        kind = detect(path)
    except FormatError as error:  # which speaks of lists
        raise FormatError(path, expected="a search graph", found=error.found, fix=fix) from None
    if kind not in GRAPHS:
        raise FormatError(path, expected="a search graph", found=f"a list ({kind})", fix=fix)
    return kind
