"""What is wrong with a line of JSON lines, and where: a key that is there twice, or a value of another kind.

Fast decoders keep the last of two equal keys, and their messages do not name the part of the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from sys import float_info
from typing import Any, NoReturn

import msgspec
import numpy as np

from ..core.errors import FormatError, clip, clip_json, repeated

# What a value must be: "text", "whole", "number", "span", [kind] a list, {"*": kind} an object with any keys, {key: kind} one
# with these; "key!" must be there, "kind?" may be null.
_UNIT = {"src": "span?", "tgt": "span?", "x": ["number"], "sparse": {"*": "number"}, "src_text": "text?", "tgt_text": "text?",
         "align": "text", "score": "number?"}  # fmt: skip
_HYP = {"text!": "text", "score": "number?", "features": {"*": "number"}, "units": [_UNIT], "quality": {"*": "quality"}}
SENTENCE = {"id!": "whole", "source": "text", "refs": ["text"], "hyps": [_HYP]}
HEADER = {"boostfeat!": "text", "unit_features": ["text"], "hyp_features": ["text"], "sparse_features": ["text"],
           "lower_is_better": ["text"], "quality_units": {"*": "number"}, "meta": {"*": "text"}}  # fmt: skip
_SHOWN = {"text": "a string", "whole": "a whole number", "number": "a finite number", "span": "[start, end]",
          "quality": "a finite number, or [numerator, denominator]"}  # fmt: skip

_raw_list, _objects_of = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def check_keys(line: str, where: str) -> None:
    """Refuse a header or a sentence, which the line is, with a key twice; units are looked at where they are read."""
    (parts,) = distinct([line.encode()], line, where)
    hyps = _raw_list.decode(parts["hyps"]) if "hyps" in parts else []
    qualities = [hyp["quality"] for hyp in distinct(hyps, line, where) if "quality" in hyp]
    distinct(qualities, line, where)


def distinct(objects: Sequence[bytes | msgspec.Raw], line: str, where: str) -> list[dict[str, msgspec.Raw]]:
    """The objects, whose keys are there once. Parsers keep the last of two, so count quotes: two a key, and those of values."""
    raw = b"[%b]" % b",".join(objects)
    found = _objects_of.decode(raw)
    if _quotes(raw) != 2 * sum(map(len, found)) + _quotes(b"".join(value for parts in found for value in parts.values())):
        _refuse_repeats(json.loads(line, object_pairs_hook=_Pairs), where, "")
    return found


def _quotes(raw: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(raw, np.uint8) == ord('"')))  # bytes.count() is slow where there are many


class _Pairs(list[tuple[str, Any]]):
    """Keys and values of an object, repeated ones and all."""


def _refuse_repeats(value: Any, where: str, at: str) -> None:
    """Name the first object that has a key twice, if one has."""
    if isinstance(value, _Pairs):
        if (twice := repeated(key for key, _ in value)) is not None:
            place = f"{where}: {at}" if at else where
            raise FormatError(place, expected="each key once", found=f"{clip(twice)} twice", fix="remove one of them")
        for key, item in value:
            _refuse_repeats(item, where, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _refuse_repeats(item, where, f"{at}[{i}]")


def explain(error: Exception, line: str, where: str, kind: Mapping[str, Any]) -> NoReturn:
    """Raise what the fast decoder could not say: which part of the line is wrong."""
    try:
        parsed = json.loads(line)  # accepts NaN, Infinity and 1e999, and so can tell where they are
    except json.JSONDecodeError as malformed:
        found = f"{malformed.msg} at column {malformed.colno}"
    except (ValueError, RecursionError):
        found = str(error)
    else:
        _check(parsed, kind, where, "")
        found = str(error)
    raise FormatError(where, expected="a JSON object", found=found, fix="repair or remove this line") from None


def _check(value: Any, kind: Any, where: str, at: str) -> None:
    """Raise a FormatError for the first part of a parsed value that is not of its kind; ``at`` is the path to it."""
    place = f"{where}: {at}" if at else where
    if isinstance(kind, list) and isinstance(value, list):
        for i, item in enumerate(value):
            _check(item, kind[0], where, f"{at}[{i}]")
    elif isinstance(kind, dict) and isinstance(value, dict):
        known = {key.rstrip("!"): own for key, own in kind.items()}
        for key in kind:
            if key.endswith("!") and key[:-1] not in value:
                raise FormatError(place, expected=f"the key {key[:-1]!r}", found=_shown(value), fix="add it")
        for key, item in value.items():
            if key in known or "*" in known:
                _check(item, known.get("*", known.get(key)), where, f"{at}.{key}" if at else key)
    elif not (isinstance(kind, str) and _fits(value, kind)):
        expected = "a list" if isinstance(kind, list) else "an object" if isinstance(kind, dict) else _SHOWN[kind.rstrip("?")]
        raise FormatError(place, expected=expected, found=_shown(value), fix="repair or remove this line")


def _fits(value: Any, kind: str) -> bool:
    if kind.endswith("?") and value is None:
        return True
    match kind.rstrip("?"):
        case "text":
            return isinstance(value, str)
        case "whole":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max
        case "quality":
            several = isinstance(value, list) and len(value) == 2
            return all(_fits(v, "number") for v in value) if several else _fits(value, "number")
        case _:
            return isinstance(value, list) and len(value) == 2 and all(_fits(v, "whole") for v in value)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, float) else clip_json(value)
