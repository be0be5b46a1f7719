"""cdec forests in JSON (``-O``): a file a sentence.

    {"rules": [1, "[X] ||| src [X,1] ||| [1] tgt ||| ...", ...], "features": ["Glue", ...],
     "edges": [{"tail": [0], "feats": [0, 1.5], "rule": 1}, ...], "node": {"in_edges": [3], "cat": "X"}, "edges": ...}

The keys ``edges`` and ``node`` repeat: edges are numbered through, a node takes the edges before it that it names, the last node
is the goal. ``[k]`` in a target side is the k-th tail. Features are named by number or by text. There are no scores: searching a
forest takes weights. Forests come without source spans: these follow from the source sides of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from ...core.errors import FormatError, clip, clip_json
from ...core.files import decode, read_bytes
from ...core.strict_json import no_repeats, parsed, typed
from ...core.text import BLANKS, normal, split_words
from ...lists.build import ReadOptions
from .graph import Graph, GraphBuilder
from .moses_hypergraph import sentence_of

FIX = "is this a forest that cdec wrote?"
SLOT = re.compile(r"\[(?:[^\] \t]+,)?([0-9]{1,4})\]")


class Rule(NamedTuple):
    """Both sides of a rule, as texts and as words, and i for the i-th tail."""

    src: str
    tgt: str
    source: list[str | int]
    target: list[str | int]


class Edge(NamedTuple):
    """An edge with its words and features."""

    head: int
    tails: list[int]
    features: dict[str, float]
    rule: Rule


class _EdgeRecord(Struct):
    """An edge as it is written; features and values come in turn."""

    rule: int | str
    tail: list[Annotated[int, Meta(ge=0, lt=2**31)]] | None = None
    feats: list[int | float | str] | None = None


class _CdecNode(Struct):
    in_edges: list[int] | None = None


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object in order, repeated keys and all."""


def read_graphs(path: str | Path, options: ReadOptions) -> Iterator[tuple[int, int, Graph]]:
    """Yield (first line, sentence id, graph) of the file's one forest."""
    text = decode(read_bytes(path), str(path)).strip()
    # a forest is one line, as cdec writes it; in one that was reformatted the number of the edge has to do
    place = str(path) if "\n" in text else f"{path}:1"
    yield 1, sentence_of(path), _graph(_parse(text, str(path)), place)


def _parse(text: str, path: str) -> _Object:
    def pairs(found: list[tuple[str, Any]]) -> Any:
        """Return a forest, which has many nodes under one key, as its pairs; other objects have each key once."""
        return _Object(found) if any(key in ("node", "edges") for key, _ in found) else no_repeats(found)

    data = parsed(text, f"{path}:1", fix=FIX, object_pairs_hook=pairs)
    if not isinstance(data, _Object):
        raise FormatError(f"{path}:1", expected="a JSON object with edges and nodes", found=clip(text), fix=FIX)
    return data


def _graph(data: _Object, place: str) -> Graph:
    rules: dict[int, Rule] = {}
    names: list[str] = []
    drafts: list[tuple[list[int], dict[str, float], Rule]] = []
    heads: dict[int, int] = {}
    n_nodes = 0
    for key, value in data:
        if key == "rules":
            rules.update(_rules(typed(value or [], list[int | str], f"{place}: rules", fix=FIX), place))
        elif key == "features":
            names = typed(value, list[str], f"{place}: features", fix=FIX)
        elif key == "edges":
            for item in typed(value or [], list[Any], f"{place}: edges after edge {len(drafts) - 1}", fix=FIX):
                where = f"{place}: edge {len(drafts)}"
                drafts.append(_edge(typed(item, _EdgeRecord, where, fix=FIX), rules, names, where))
        elif key == "node":
            where = f"{place}: node {n_nodes}"
            for e in typed(value, _CdecNode, where, fix=FIX).in_edges or ():
                if not 0 <= e < len(drafts) or e in heads:
                    raise FormatError(where, expected="in_edges that came before, each in one node", found=str(e), fix=FIX)
                heads[e] = n_nodes
            n_nodes += 1
        elif key != "is_sorted":
            raise FormatError(place, expected="the keys rules, features, edges and node", found=clip(key), fix=FIX)
    if not n_nodes:
        raise FormatError(place, expected="at least one node", found="none", fix=FIX)
    numbers = sorted(heads)  # an edge that no node takes is in no derivation
    edges = [Edge(heads[e], *drafts[e]) for e in numbers]
    builder = GraphBuilder(lambda e: f"{place}: edge {numbers[e]}" if numbers else place)
    for edge, span in zip(edges, _source_spans(edges, n_nodes), strict=True):
        rule = edge.rule
        has_words = any(isinstance(w, str) for w in (*rule.source, *rule.target))
        texts: dict[str, Any] = {"src": rule.src, "tgt": rule.tgt, "is_unit": has_words or bool(edge.features)}
        builder.edge(edge.head, edge.tails, rule.target, edge.features, span=span, **texts)
    return builder.finish(n_nodes, n_nodes - 1)


def _source_spans(edges: list[Edge], n_nodes: int) -> list[tuple[int, int]]:
    """The smallest span that holds the source words of each edge; (-1, -1) where it has none or the forest does not tell.

    Widths of nodes follow bottom-up from the rules, starts top-down from the goal, both in the order of the nodes that cdec
    writes, tails before heads. A node whose edges disagree is of unknown width or start.
    """
    unknown = -1
    width: dict[int, int] = {}
    for edge in edges:
        parts = [1 if isinstance(w, str) else width.get(edge.tails[w], unknown) for w in edge.rule.source]
        own = sum(parts) if unknown not in parts else unknown
        width[edge.head] = own if width.get(edge.head, own) == own else unknown
    start = {n_nodes - 1: 0}
    spans: list[tuple[int, int]] = []
    for edge in reversed(edges):
        at = start.get(edge.head, unknown)
        places: list[int] = []
        for w in edge.rule.source if edge.head in start else []:  # else no derivation has it
            size = 1 if isinstance(w, str) else width.get(edge.tails[w], unknown)
            if isinstance(w, str):
                places.append(at)
            else:
                tail = edge.tails[w]
                start[tail] = at if start.get(tail, at) == at else unknown
            at = at + size if unknown not in (at, size) else unknown
        spans.append((places[0], places[-1] + 1) if places and unknown not in places else (-1, -1))
    return spans[::-1]


def _rules(found: list[int | str], place: str) -> dict[int, Rule]:
    """Return the rules by number; numbers and rules come in turn."""
    numbers = [number for number in found[::2] if isinstance(number, int)]
    texts = [text for text in found[1::2] if isinstance(text, str)]
    if 2 * len(set(numbers)) != len(found) or len(numbers) != len(texts):
        raise FormatError(f"{place}: rules", expected="distinct numbers and rules in turn", found=clip_json(found), fix=FIX)
    return {number: _rule(text, f"{place}: rule {number}") for number, text in zip(numbers, texts, strict=True)}


def _rule(text: str, where: str) -> Rule:
    fields = [field.strip(BLANKS) for field in text.split("|||")]
    if len(fields) < 3:
        raise FormatError(where, expected="[LHS] ||| source ||| target", found=clip(text), fix=FIX)
    src, tgt = map(normal, fields[1:3])
    gaps = count()
    source: list[str | int] = [next(gaps) if SLOT.fullmatch(token) else token for token in split_words(src)]
    slots = ((token, SLOT.fullmatch(token)) for token in split_words(tgt))
    target = [int(slot[1]) - 1 if slot else token for token, slot in slots]
    n_slots = next(gaps)
    if sorted(w for w in target if isinstance(w, int)) != list(range(n_slots)):
        raise FormatError(where, expected=f"the {n_slots} gaps of the source once in the target", found=clip(tgt), fix=FIX)
    return Rule(src, tgt, source, target)


def _edge(record: _EdgeRecord, rules: dict[int, Rule], names: list[str], where: str) -> tuple[list[int], dict[str, float], Rule]:
    """Return the tails, features and rule of an edge."""
    tails, pairs, key = record.tail or [], record.feats or [], record.rule
    rule = _rule(key, where) if isinstance(key, str) else rules.get(key)
    if rule is None:
        fix = "write the forest with its rules: without them there are no words"
        raise FormatError(where, expected="the number of a rule that came before", found=clip_json(key), fix=fix)
    arity = sum(isinstance(w, int) for w in rule.source)
    if arity != len(tails):
        raise FormatError(where, expected=f"{arity} tails, as its rule has gaps", found=str(len(tails)), fix=FIX)
    features: dict[str, float] = {}
    for feature, value in zip_longest(pairs[::2], pairs[1::2]):
        name = names[feature] if isinstance(feature, int) and 0 <= feature < len(names) else feature
        if not isinstance(name, str) or name in features or not isinstance(value, int | float) or abs(value) > 1e300:
            expected = "feats: features by number or name, each once, and numbers in turn"
            raise FormatError(where, expected=expected, found=clip_json([feature, value]), fix=FIX)
        features[name] = float(value)
    return tails, features, rule
