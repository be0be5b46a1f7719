"""JSON from elsewhere: what Python's reader lets through, and nobody can print or write again, is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from .errors import clip, repeated
from .files import open_output

# escapes one after the other: a pair of surrogates is a character, one alone (the group) is not
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # not the text of a backslash and u0000


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """json.loads, which raises ValueError also for half characters (a \\ud800 alone), NUL, too many digits or levels, and a key
    that an object has twice: of two values Python's reader keeps the last one."""
    if not text.strip():
        raise ValueError("no text")
    try:
        value = json.loads(text, **{"parse_int": whole, "object_pairs_hook": no_repeats, **hooks})
    except RecursionError:
        raise ValueError("lists or objects nested too deeply") from None
    plain = text if isinstance(text, str) else text.decode()
    if "\\ud" in plain or "\\uD" in plain:
        half = next((match[1] for match in _ESCAPE.finditer(plain) if match[1]), None)
        if half:
            raise ValueError(f"half of a character, {half}")
    if find_nul(plain) >= 0:
        raise ValueError("\\u0000, which no text has")
    return value


def find_nul(text: str) -> int:
    """Where an escaped NUL stands in JSON, -1 where there is none: text with it looks like a binary file to all tools."""
    found = _NUL.search(text) if "\\u0000" in text else None
    return found.end() - 6 if found else -1


def no_constant(name: str) -> NoReturn:
    """A hook for NaN and Infinity."""
    raise ValueError(f"{name} where a finite number is expected")


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A hook for objects: every key is there once."""
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError(f"key {clip(repeated(name for name, _ in pairs) or '')} twice in one object")
    return out


def whole(text: str) -> int:
    """A hook for whole numbers: what no float holds is none."""
    return int(text) if len(text) < 300 else no_constant(f"a whole number of {len(text)} digits")


def finite(text: str) -> float:
    """A hook for numbers: 1e999 is none."""
    value = float(text)
    return value if isfinite(value) else no_constant(text)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, None where there is none or it is damaged: what ``write_json`` would refuse is damage."""
    try:
        obj = parse_json(path.read_bytes(), parse_constant=no_constant, parse_float=finite)
    except (FileNotFoundError, ValueError):
        return None
    return obj if isinstance(obj, dict) else None


def object_of(obj: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    """The object under a key of what was read; an empty one where there is none."""
    found = (obj or {}).get(key)
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: Any) -> None:
    with open_output(path) as stream:
        stream.write(indented(value).encode() + b"\n")


def indented(value: Any, level: int = 0) -> str:
    """json.dumps with an indent of 1, without NaN: the same text. Python's own is compiled only where there is no indent."""
    if not isinstance(value, dict | list | tuple) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    between = ",\n" + " " * (level + 1)
    items = value.values() if isinstance(value, dict) else value
    if not any(issubclass(kind, dict | list | tuple) for kind in set(map(type, items))):
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(between, ": "))
        inside = text[1:-1]
    elif isinstance(value, dict):
        names = (
            json.dumps({name: None}, ensure_ascii=False)[1:-7] for name in value
        )  # names may be numbers, as json.dumps has it
        inside = between.join(f"{name}: {indented(item, level + 1)}" for name, item in zip(names, items, strict=True))
    else:
        inside = between.join(indented(item, level + 1) for item in items)
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}{between[1:]}{inside}{between[1:-1]}{end}"
