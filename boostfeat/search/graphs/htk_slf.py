"""HTK's standard lattice format (SLF), as HTK, SRILM, pocketsphinx and converters of Kaldi's lattices write it.

    VERSION=1.0
    UTTERANCE=u1 lmscale=12.0 wdpenalty=-2.0 base=2.718282        (the header: any number of lines)
    N=3 L=3
    I=0 t=0.00                                                    (nodes; W= here is the word of the links that end there)
    J=0 S=0 E=1 W=hello v=1 a=-1203.5 l=-3.2                      (links)

Features of a link, in natural logarithms whatever the base: ``acoustic`` (a=), ``language`` (l=), ``ngram`` (n=),
``pronunciation`` (r=), ``duration`` (ds=), ``x1`` to ``x9``; ``posterior`` (p=) as it stands, and ``words``. The own score of a
link is that of the header's scales, Σ scale · feature + wdpenalty · words (HTK book, chapter 20).

Where links have acoustic scores and posteriors but no scores of a language model (pocketsphinx), the recogniser's choice does not
follow from them: the score is then ln p(link) - ln p(its start node), so that the best path is the most probable one.

Deviation: as in SRILM, wdpenalty is of the base that the scores are in; HTK takes it for a natural logarithm. Several lattices
may follow each other in a file, each from its VERSION= on.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import e, inf, log
from pathlib import Path
from typing import NamedTuple

from ...core.errors import FormatError, clip
from ...core.files import read_lines
from ...core.text import is_whole, split_words
from ...formats.fields import number
from ...lists.build import ReadOptions
from .graph import Graph, GraphBuilder

NULLS = ("!NULL", "<s>", "</s>", "!SENT_START", "!SENT_END", "<eps>", "<sil>", "sil", "-pau-", "#0")  # no words of the text
FIELD = re.compile(r"""\s*([A-Za-z][A-Za-z0-9_.-]*)=("(?:[^"\\]|\\.)*"(?=\s|$)|'(?:[^'\\]|\\.)*'(?=\s|$)|\S*)\s*""")
LONG = {"START": "S", "END": "E", "WORD": "W", "var": "v", "div": "d", "states": "s", "time": "t",
        "acoustic": "a", "language": "l", "ngram": "n"}  # fmt: skip
SCORES = {"a": "acoustic", "n": "ngram", "l": "language", "r": "pronunciation", "ds": "duration"} | {
    f"x{k}": f"x{k}" for k in range(1, 10)
}
SCALES = {"a": "acscale", "n": "ngscale", "l": "lmscale", "r": "prscale", "ds": "duscale"} | {
    f"x{k}": f"x{k}scale" for k in range(1, 10)
}
BY_DEFAULT = {"acscale": 1.0, "ngscale": 1.0, "lmscale": 1.0, "prscale": 1.0}  # others weigh nothing
UNUSED = ("v", "d", "s", "t")  # pronunciations, alignments, states and times
LOG_ZERO = -1e10  # HTK's logarithm of 0
EXPAND = "have HTK expand them"
FIX = "the lattice is damaged or of another format: write it again"


class Link(NamedTuple):
    where: str
    start: int
    end: int
    word: str | None
    scores: dict[str, float]
    posterior: float | None


@dataclass
class SlfLattice:
    """The lines of one lattice, read."""

    line: int
    header: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)  # numbered by first use
    node_words: dict[int, str] = field(default_factory=dict)
    node_scores: dict[int, dict[str, float]] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)

    def node(self, name: str, where: str) -> int:
        if not is_whole(name):
            raise FormatError(where, expected="the number of a node", found=clip(name), fix=FIX)
        return self.nodes.setdefault(str(int(name)), len(self.nodes))

    def setting(self, name: str, default: float, where: str) -> float:
        return number(self.header[name], where, f"{name}=") if name in self.header else default


def read_graphs(path: str | Path, options: ReadOptions) -> Iterator[tuple[int, int, Graph]]:
    """(first line, sentence, lattice) of every lattice of a file, counted from 0."""
    unknown: dict[str, str] = {}  # fields that nothing is known of, and where the first of each stands
    for sent, lattice in enumerate(_lattices(path, unknown)):
        yield lattice.line, sent, _graph(lattice, f"{path}:{lattice.line}", options)
    if unknown:
        name, where = next(iter(unknown.items()))
        others = f", and {len(unknown) - 1} others" if len(unknown) > 1 else ""
        options.warn(f"{where}: {name}= is not known and left out{others}")


def _lattices(path: str | Path, unknown: dict[str, str]) -> Iterator[SlfLattice]:
    current = None
    for n, line in read_lines(path):
        where, text = f"{path}:{n}", line.strip()
        if not text or text.startswith("#") or text == ".":
            continue
        fields = _fields(text, where)
        first = fields[0][0]
        if current is None or (first in ("VERSION", "V") and (current.links or current.nodes or "VERSION" in current.header)):
            if current is not None:
                yield current
            current = SlfLattice(n)
        if first in ("I", "J"):
            _read_item(current, fields, where, unknown)
        else:
            _read_header(current, fields, where)
    if current is None:
        raise FormatError(str(path), expected="a lattice", found="none", fix="check what wrote it")
    yield current


def _fields(text: str, where: str) -> list[tuple[str, str]]:
    """The name=value fields of a line."""
    out, at = list[tuple[str, str]](), 0
    while at < len(text) and text[at] != "#":
        found = FIELD.match(text, at)
        if not found:
            raise FormatError(where, expected="fields name=value", found=clip(text[at:]), fix=FIX)
        out.append((found[1], _value(found[2], where)))
        at = found.end()
    return out


def _value(text: str, where: str) -> str:
    """Without quotes around it, and with what backslashes stand for: a character, or a byte by its octal number."""
    if len(text) > 1 and text[0] == text[-1] in "\"'":
        text = text[1:-1]
    if "\\" not in text:
        return text

    def meant(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 8) & 255]) if found[1] else found[2]

    raw = re.sub(rb"\\(?:(0[0-7]{3}|[0-7]{3})|(.))", meant, text.encode(), flags=re.DOTALL)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise FormatError(where, expected="bytes of UTF-8", found=clip(text), fix="convert the lattice with iconv") from None


def _read_header(lattice: SlfLattice, fields: list[tuple[str, str]], where: str) -> None:
    for name, value in fields:
        if name == "SUBLAT":
            raise FormatError(where, expected="a lattice of words", found="sub-lattices", fix=EXPAND)
        lattice.header["VERSION" if name == "V" else name] = value


def _read_item(lattice: SlfLattice, fields: list[tuple[str, str]], where: str, unknown: dict[str, str]) -> None:
    """Read a node, whose word and scores are those of links at it, or a link."""
    is_node, base = fields[0][0] == "I", _base(lattice, where)
    word, posterior, scores, ends = None, None, dict[str, float](), dict[str, int]()
    node = lattice.node(fields[0][1], where) if is_node else -1
    for name, value in fields[1:]:
        name = LONG.get(name, name)
        if name == "W":
            word = value
        elif name in SCORES:
            scores[name] = _score(value, base, where, name)
        elif name in ("S", "E") and not is_node:
            ends[name] = lattice.node(value, where)
        elif name == "p":
            posterior = None if is_node else max(0.0, number(value, where, "p="))
        elif name == "L" and is_node:
            raise FormatError(where, expected="a node of a word", found="a sub-lattice", fix=EXPAND)
        elif name not in UNUSED:
            unknown.setdefault(name, where)
    if is_node:
        lattice.node_words |= {} if word is None else {node: word}
        lattice.node_scores.setdefault(node, {}).update(scores)
        return
    if missing := [name for name in ("S", "E") if name not in ends]:
        raise FormatError(where, expected="a link from S= to E=", found=f"no {missing[0]}=", fix=FIX)
    lattice.links.append(Link(where, ends["S"], ends["E"], word, scores, posterior))


def _base(lattice: SlfLattice, where: str) -> float:
    """ln of the base of scores; 0 where they are probabilities, and HTK's 1 is e."""
    base = lattice.setting("base", e, where)
    if base < 0:
        raise FormatError(where, expected="a base= of at least 0", found=f"{base:g}", fix=FIX)
    return -inf if base == 0 else 1.0 if base == 1 else log(base)


def _score(text: str, base: float, where: str, name: str) -> float:
    if text.lower() in ("-inf", "-infinity"):
        return LOG_ZERO
    value = number(text, where, f"{name}=")
    if base > -inf:
        return value * base
    if value < 0:
        raise FormatError(where, expected=f"a probability {name}=, as base=0 says", found=clip(text), fix=FIX)
    return log(value) if value > 0 else LOG_ZERO


# -- the graph --------------------------------------------------------------------------------------------------------


def _graph(lattice: SlfLattice, where: str, options: ReadOptions) -> Graph:
    _check_sizes(lattice, where)
    start, end = _terminals(lattice, where)
    places = [where, *(link.where for link in lattice.links), where]
    builder = GraphBuilder(lambda edge: places[edge])
    backward = lattice.header.get("dir", "f").startswith("b")  # words of nodes are those of the links that leave them
    first = [] if backward else _words(lattice.node_words.get(start))
    builder.edge(start, [], first, score=0.0)
    own = _own_scores(lattice, where, options, backward=backward)
    for link, (score, features) in zip(lattice.links, own, strict=True):
        words = _words(_word_of(lattice, link, backward=backward))
        builder.edge(link.end, [link.start], [0, *words], features, score=score)
    last = _words(lattice.node_words.get(end)) if backward else []
    if not last:
        return builder.finish(len(lattice.nodes), end)
    builder.edge(len(lattice.nodes), [end], [0, *last], score=0.0)
    return builder.finish(len(lattice.nodes) + 1, len(lattice.nodes))


def _words(text: str | None) -> list[str]:
    return [] if text is None or text in NULLS else split_words(text)


def _word_of(lattice: SlfLattice, link: Link, *, backward: bool) -> str | None:
    return link.word if link.word is not None else lattice.node_words.get(link.start if backward else link.end)


def _own_scores(
    lattice: SlfLattice, where: str, options: ReadOptions, *, backward: bool
) -> Iterator[tuple[float, dict[str, float]]]:
    """Compute the lattice's own score of each link, and its features."""
    scales = {name: lattice.setting(scale, BY_DEFAULT.get(scale, 0.0), where) for name, scale in SCALES.items()}
    penalty = lattice.setting("wdpenalty", 0.0, where) * max(_base(lattice, where), 0.0)
    scores = [lattice.node_scores.get(k.start if backward else k.end, {}) | k.scores for k in lattice.links]
    has_lm = any("l" in s or "n" in s for s in scores)
    has_p = all(k.posterior is not None for k in lattice.links)
    by_posterior = bool(lattice.links) and not has_lm and has_p
    if lattice.links and not has_lm and not has_p and any("a" in s for s in scores):
        options.warn(
            f"{where}: no link has a language model's score (l= or n=): the best path is that of the acoustic scores "
            "alone, not the recogniser's"
        )
    out_of: dict[int, float] = defaultdict(float)
    for link in lattice.links:
        out_of[link.start] += link.posterior or 0.0
    for link, given in zip(lattice.links, scores, strict=True):
        words = len(_words(_word_of(lattice, link, backward=backward)))
        features = {SCORES[name]: value for name, value in given.items()} | ({"words": float(words)} if words else {})
        score = sum(scales[name] * value for name, value in given.items()) + penalty * words
        if link.posterior is not None:
            features["posterior"] = link.posterior
        if by_posterior:
            share = (link.posterior or 0.0) / (out_of[link.start] or 1.0)
            score = log(share) if share > 0 else LOG_ZERO
        yield score, features


def _check_sizes(lattice: SlfLattice, where: str) -> None:
    for short, long, found, what in (("N", "NODES", len(lattice.nodes), "nodes"), ("L", "LINKS", len(lattice.links), "links")):
        given = lattice.header.get(short, lattice.header.get(long))
        if given is not None and given != str(found):
            expected = f"{given if given.isdigit() and len(given) < 20 else clip(given)} {what}, as the header says"
            raise FormatError(where, expected=expected, found=str(found), fix=FIX)
    if not lattice.nodes:
        raise FormatError(where, expected="nodes (I=) and links (J=)", found="none", fix=FIX)


def _terminals(lattice: SlfLattice, where: str) -> tuple[int, int]:
    """The node where paths start and the one where they end: as the header says, else the one without links to it, or from it."""
    out = []
    for name, others in (("start", {k.end for k in lattice.links}), ("end", {k.start for k in lattice.links})):
        if name in lattice.header:
            given = lattice.header[name]
            if given not in lattice.nodes:
                raise FormatError(where, expected=f"the number of a node as {name}=", found=clip(given), fix=FIX)
            out.append(lattice.nodes[given])
            continue
        found = [node for node in lattice.nodes.values() if node not in others]
        if len(found) != 1:
            fix = f"write {name}=NODE into the header"
            raise FormatError(where, expected=f"one node where paths {name}", found=str(len(found)), fix=fix)
        out.append(found[0])
    return out[0], out[1]
