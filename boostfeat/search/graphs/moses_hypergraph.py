"""Moses hypergraph files (``-output-search-graph-hypergraph``, read by kbmira's hypergraph mode): a file a sentence.

    # target ||| features ||| source-covered
    74 402                                                          (numbers of nodes and edges)
    # node 1
    1                                                               (edges into the node)
    [0] a file ||| WordPenalty0=-2.0 TranslationModel0_1=-1.0 ||| 1

``[0]`` is the yield of node 0; tails come before heads, the last node is the goal. The last field is the number of source words
covered so far, not where they are: source spans are unknown. The file carries no scores, so searching it takes weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ...core.errors import FormatError, clip
from ...core.files import read_head, read_lines
from ...core.text import is_whole, split_words
from ...formats.fields import number, split_fields
from ...lists.build import ReadOptions
from .graph import Graph, GraphBuilder, damaged

MARKERS = {"<s>", "</s>"}  # the decoder's sentence boundaries are no words of the translation
SUFFIXES = re.compile(r"(\.(gz|xz|bz2|zst|json|hg|txt))+$")


def sentence_of(path: str | Path) -> int:
    """The sentence id in a file's name, the number it ends with before its suffixes (12.gz, hg.12.json), else 0."""
    match = re.search(r"[0-9]{1,18}$", SUFFIXES.sub("", Path(path).name))
    return int(match[0]) if match else 0


def read_graphs(path: str | Path, options: ReadOptions) -> Iterator[tuple[int, int, Graph]]:
    """(first line, sentence id, graph) of the file's one graph."""
    if read_head(path, 512)[257:262] == b"ustar":
        raise FormatError(str(path), expected="a hypergraph", found="a tar archive", fix="unpack it and give the files in it")
    yield 1, sentence_of(path), _graph(str(path))


def _graph(path: str) -> Graph:
    lines = read_lines(path)
    edge_lines: list[int] = []
    builder = GraphBuilder(lambda e: f"{path}:{edge_lines[e] if edge_lines else 1}")
    n, text = _next(lines, path, 1, "the numbers of nodes and edges")
    n_nodes, n_edges = _counts(text, f"{path}:{n}", 2)
    for node in range(n_nodes):
        n, text = _next(lines, path, n, f"the number of edges into node {node}")
        for _ in range(_counts(text, f"{path}:{n}", 1)[0]):
            n, text = _next(lines, path, n, f"an edge into node {node}")
            edge_lines.append(n)
            _add_edge(builder, node, text, f"{path}:{n}")
    for n, text in lines:
        if text.strip() and not text.startswith("#"):
            raise damaged(f"{path}:{n}", f"nothing after node {n_nodes - 1}", clip(text))
    if len(edge_lines) != n_edges:
        raise damaged(f"{path}:{n}", f"{n_edges} edges", f"{len(edge_lines)}")
    return builder.finish(n_nodes, n_nodes - 1)


def _next(lines: Iterator[tuple[int, str]], path: str, n: int, what: str) -> tuple[int, str]:
    """The next line that is neither blank nor a comment: that has no bars, while an edge may start with the word #."""
    for n, text in lines:
        if text.strip() and (not text.startswith("#") or ("|||" in text and not text.startswith("# target |||"))):
            return n, text
    raise damaged(f"{path}:{n}", what, "the end of the file")


def _counts(text: str, where: str, size: int) -> list[int]:
    counts = split_words(text)
    if len(counts) != size or not all(is_whole(c, digits=9) for c in counts) or (size == 2 and counts[0] == "0"):
        expected = "the numbers of nodes and edges" if size == 2 else "the number of edges into the node"
        raise FormatError(where, expected=expected, found=clip(text), fix="is this a hypergraph that Moses wrote?")
    return [int(c) for c in counts]


def _add_edge(builder: GraphBuilder, node: int, text: str, where: str) -> None:
    target, features, *_ = split_fields(text, where, least=2, layout="target ||| features ||| source-covered")
    tails: list[int] = []
    template: list[str | int] = []
    for token in split_words(target):
        slot = re.fullmatch(r"\[([0-9]{1,9})\]", token)
        if slot:
            template.append(len(tails))
            tails.append(int(slot[1]))
        elif token not in MARKERS:
            template.append(token)
    builder.edge(node, tails, template, named_values(features, where))


def named_values(text: str, where: str) -> dict[str, float]:
    """Return the features Name=value between blanks."""
    values: dict[str, float] = {}
    for item in split_words(text):
        name, equals, value = item.rpartition("=")
        if not equals or not name or name in values:
            raise damaged(where, "features Name=value, each once", clip(item))
        values[name] = number(value, where, f"feature {name}")
    return values
