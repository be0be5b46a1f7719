"""cdec forests in JSON (``-O``): a file a sentence.

    {"rules": [1, "[X] ||| src [X,1] ||| [1] tgt ||| ...", ...], "features": ["Glue", ...],
     "edges": [{"tail": [0], "feats": [0, 1.5], "rule": 1}, ...], "node": {"in_edges": [3], "cat": "X"}, "edges": ...}

The keys ``edges`` and ``node`` repeat: edges are numbered through, a node takes the edges before it that it names, the last node
is the goal. ``[k]`` in a target side is the k-th tail. Features are named by number or by text. There are no scores: searching a
forest takes weights. Forests come without source spans: these follow from the source sides of the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ...core.errors import FormatError, clip, clip_json
from ...core.files import decode, read_chunks
from ...core.strict_json import no_repeats, parse_json
from ...core.text import BLANKS, normal, split_words
from ...lists.build import ReadOptions
from ...lists.nbest import NBest
from .graph import Graph, GraphBuilder, kbest_lists
from .moses_hypergraph import sentence_of

FIX = "is this a forest that cdec wrote?"
SLOT = re.compile(r"\[(?:[^\] \t]+,)?([0-9]{1,4})\]")


class Rule(NamedTuple):
    src: str
    tgt: str
    source: list[str | int]  # words, and i for the i-th tail
    target: list[str | int]


class Edge(NamedTuple):
    head: int
    tails: list[int]
    features: dict[str, float]
    rule: Rule


def read(path: str | Path, options: ReadOptions) -> NBest:
    return kbest_lists(read_graphs(path, options), options, str(path))


def read_graphs(path: str | Path, options: ReadOptions) -> Iterator[tuple[int, int, Graph]]:
    """(first line, sentence id, graph) of the file's one forest."""
    text = decode(b"".join(read_chunks(path)), str(path)).strip()
    # a forest is one line, as cdec writes it; in one that was reformatted the number of the edge has to do
    place = str(path) if "\n" in text else f"{path}:1"
    yield 1, sentence_of(path), _graph(_parse(text, str(path)), place)


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object in order, repeated keys and all."""


def _parse(text: str, path: str) -> _Object:
    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a number")

    try:
        data = parse_json(text, object_pairs_hook=_Object, parse_constant=constant, parse_float=float)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at column {error.colno}"
        raise FormatError(
            f"{path}:{error.lineno}", expected="JSON", found=found, fix="the file is cut short or damaged"
        ) from None
    except ValueError as error:
        raise FormatError(f"{path}:1", expected="JSON", found=clip(str(error)), fix=FIX) from None
    if not isinstance(data, _Object):
        raise FormatError(f"{path}:1", expected="a JSON object", found=clip(text), fix=FIX)
    return data


def _graph(data: _Object, place: str) -> Graph:
    rules: dict[int, Rule] = {}
    names: list[str] = []
    drafts: list[tuple[list[int], dict[str, float], Rule]] = []
    heads: dict[int, int] = {}
    n_nodes = 0
    for key, value in data:
        if key == "rules":
            rules.update(_rules(value or [], place))
        elif key == "features":
            names = _list(value, str, f"{place}: features")
        elif key == "edges":
            for item in _list(value, _Object, f"{place}: edges after edge {len(drafts) - 1}"):
                where = f"{place}: edge {len(drafts)}"
                drafts.append(_edge(_distinct(item, where), rules, names, where))
        elif key == "node":
            where = f"{place}: node {n_nodes}"
            if not isinstance(value, _Object):
                raise FormatError(where, expected="an object", found=clip_json(value), fix=FIX)
            for e in _list(_distinct(value, where).get("in_edges"), int, f"{where}: in_edges"):
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
    return _build(builder, edges, n_nodes)


def _distinct(pairs: _Object, where: str) -> dict[str, Any]:
    """An object whose keys are there once: a forest itself has many nodes."""
    try:
        return no_repeats(pairs)
    except ValueError as error:
        raise FormatError(where, expected="each key once", found=str(error), fix=FIX) from None


def _build(builder: GraphBuilder, edges: list[Edge], n_nodes: int) -> Graph:
    spans = _source_spans(edges, n_nodes)
    for edge, span in zip(edges, spans, strict=True):
        rule = edge.rule
        has_words = any(isinstance(w, str) for w in (*rule.source, *rule.target))
        builder.edge(
            edge.head,
            edge.tails,
            rule.target,
            idx=[builder.name(name) for name in edge.features],
            val=list(edge.features.values()),
            span=span,
            src=rule.src,
            tgt=rule.tgt,
            is_unit=has_words or bool(edge.features),
        )
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


def _rules(value: Any, place: str) -> dict[int, Rule]:
    if not isinstance(value, list) or len(value) % 2:
        raise FormatError(f"{place}: rules", expected="numbers and rules in turn", found=clip_json(value), fix=FIX)
    rules: dict[int, Rule] = {}
    for number, text in zip(value[::2], value[1::2], strict=True):
        if type(number) is not int or not isinstance(text, str) or number in rules:
            raise FormatError(
                f"{place}: rules", expected="distinct numbers, each with a rule", found=clip(f"{number}, {text}"), fix=FIX
            )
        rules[number] = _rule(text, f"{place}: rule {number}")
    return rules


def _rule(text: str, where: str) -> Rule:
    fields = [field.strip(BLANKS) for field in text.split("|||")]
    if len(fields) < 3:
        raise FormatError(where, expected="[LHS] ||| source ||| target", found=clip(text), fix=FIX)
    src, tgt = map(normal, fields[1:3])
    source: list[str | int] = []
    n_slots = 0
    for token in split_words(src):
        if SLOT.fullmatch(token):
            source.append(n_slots)
            n_slots += 1
        else:
            source.append(token)
    slots = ((token, SLOT.fullmatch(token)) for token in split_words(tgt))
    target = [int(slot[1]) - 1 if slot else token for token, slot in slots]
    if sorted(w for w in target if isinstance(w, int)) != list(range(n_slots)):
        raise FormatError(where, expected=f"the {n_slots} gaps of the source once in the target", found=clip(tgt), fix=FIX)
    return Rule(src, tgt, source, target)


def _edge(item: dict[str, Any], rules: dict[int, Rule], names: list[str], where: str) -> tuple[list[int], dict[str, float], Rule]:
    tails = _list(item.get("tail"), int, f"{where}: tail")
    if wrong := [tail for tail in tails if not 0 <= tail < 2**31]:
        raise FormatError(f"{where}: tail", expected="numbers of nodes", found=clip_json(wrong[0]), fix=FIX)
    key = item.get("rule")
    rule = _rule(key, where) if isinstance(key, str) else rules.get(key) if type(key) is int else None
    if rule is None:
        fix = "write the forest with its rules: without them there are no words"
        raise FormatError(where, expected="the number of a rule that came before", found=clip_json(key), fix=fix)
    arity = sum(isinstance(w, int) for w in rule.source)
    if arity != len(tails):
        raise FormatError(where, expected=f"{arity} tails, as its rule has gaps", found=str(len(tails)), fix=FIX)
    pairs = item.get("feats") or []
    if not isinstance(pairs, list) or len(pairs) % 2:
        raise FormatError(where, expected="feats: features and values in turn", found=clip_json(pairs), fix=FIX)
    features: dict[str, float] = {}
    for feature, value in zip(pairs[::2], pairs[1::2], strict=True):
        if type(feature) is int and 0 <= feature < len(names):
            feature = names[feature]
        if not isinstance(feature, str) or feature in features:
            raise FormatError(where, expected="features by number or name, each once", found=clip_json(feature), fix=FIX)
        if type(value) not in (int, float) or abs(value) > 1e300:
            raise FormatError(where, expected=f"a finite number for feature {clip(feature)}", found=clip_json(value), fix=FIX)
        features[feature] = float(value)
    return tails, features, rule


def _list(value: Any, kind: type, where: str) -> list[Any]:
    """A list of one kind of thing; null is an empty one."""
    value = [] if value is None else value
    if not isinstance(value, list) or isinstance(value, _Object) or any(type(v) is not kind for v in value):
        raise FormatError(where, expected=f"a list of {kind.__name__.strip('_').lower()}", found=clip_json(value), fix=FIX)
    return value
