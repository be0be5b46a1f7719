"""JSON from elsewhere: strictly parsed, typed by msgspec structs, and written the same way each time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from .errors import FormatError, clip, repeated
from .files import decode, open_output, read_bytes

T = TypeVar("T")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # not the text of a backslash and u0000
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Parse as json.loads, but raise ValueError also for what nobody can print or write again.

    That is NaN, infinity and 1e999, half a character (a \\ud800 alone), NUL, too many digits or levels, and a key that an object
    has twice: of two values Python's reader keeps the last one.
    """
    if not text.strip():
        raise ValueError("no text")
    strict = {"parse_constant": _refuse, "parse_float": _finite, "parse_int": _whole, "object_pairs_hook": no_repeats}
    try:
        value = json.loads(text, **{**strict, **hooks})
    except RecursionError:
        raise ValueError("lists or objects nested too deeply") from None
    plain = text if isinstance(text, str) else text.decode()
    if "\\ud" in plain or "\\uD" in plain:
        try:
            msgspec.json.decode(plain)
        except msgspec.DecodeError:
            raise ValueError("half of a character (one surrogate alone)") from None
    if "\\u0000" in plain and _NUL.search(plain):  # text with it looks like a binary file to all tools
        raise ValueError("\\u0000, which no text has")
    return value


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number} where a finite number is expected")


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse(text)


def _whole(text: str) -> int:
    return int(text) if len(text) < 300 else _refuse(f"a whole number of {len(text)} digits")  # no float holds it


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, or raise where a key is in it twice."""
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError(f"key {clip(repeated(name for name, _ in pairs) or '')} twice in one object")
    return out


def typed(obj: Any, shape: type[T], where: str, *, fix: str) -> T:
    """Convert parsed JSON to a struct or another type; what does not fit is one line that names its place."""
    try:
        return msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        place, expected, found = in_words(error)
        raise FormatError(f"{where}: {place}" if place else where, expected=expected, found=found, fix=fix) from None


def in_words(error: msgspec.MsgspecError) -> tuple[str, str, str]:
    """Return the place of an error of msgspec ("" for the whole), what was expected there and what was found."""
    what, _, place = str(error).partition(" - at `$")
    place = place.strip("`").removeprefix(".")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return place, f"the key {missing[1]!r}", "none"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        return place, "only keys that boostfeat knows", repr(unknown[1])
    if other := re.fullmatch(r"Expected `([^`]*)`(.*?)(?:, got `?([^`]*)`?)?", what):  # "Expected `int` >= 1" finds nothing
        kinds = " or ".join(_KINDS.get(kind, kind) for kind in other[1].split(" | "))
        return place, kinds + other[2], _KINDS.get(other[3], other[3] or "another")
    return place, "what boostfeat writes there", what[:1].lower() + what[1:]


def parsed(text: str | bytes, where: str, *, fix: str, expected: str = "JSON", **hooks: Any) -> Any:
    """Parse the JSON of a file; what is wrong with it is one line that names its place."""
    try:
        return parse_json(text, **hooks)
    except ValueError as error:
        found = str(error)
        if isinstance(error, json.JSONDecodeError):
            line = f"line {error.lineno} " if error.lineno > 1 else ""
            found = f"{error.msg}: {line}column {error.colno}"
        raise FormatError(where, expected=expected, found=found, fix=fix) from None


def load_json(path: str | Path, shape: type[T], *, expected: str, fix: str) -> T:
    """Read a JSON file as a struct or another type; a file without any, or of another shape, is one line."""
    obj = parsed(decode(read_bytes(path), str(path)), str(path), fix=fix, expected=expected)
    return typed(obj, shape, str(path), fix=fix)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, None where there is none or it is damaged: what ``write_json`` would refuse is damage."""
    try:
        obj = parse_json(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return obj if isinstance(obj, dict) else None


def object_of(obj: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    """Return the object under a key of what was read; an empty one where there is none."""
    found = (obj or {}).get(key)
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: Any) -> None:
    with open_output(path) as stream:
        stream.write(indented(value).encode() + b"\n")


def indented(value: Any) -> str:
    """Return the text of json.dumps with an indent of 1, without NaN. Python's own is compiled only where there is no indent."""
    return msgspec.json.format(json.dumps(value, ensure_ascii=False, allow_nan=False), indent=1)
