"""Objects of JSON files: an array, an object a line, or one object; and what of them nobody reads, which is said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite, nan
from pathlib import Path
from typing import Any

from ..core.errors import FormatError, clip_json
from ..core.files import decode, read_bytes, read_head, read_lines
from ..core.strict_json import parse_json
from ..core.text import BLANKS, may_be_number
from ..lists.build import ReadOptions

HUGE = 1e300  # numbers are below it


def objects(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of every object of a file: those of an array, or one a line."""
    head = read_head(path, whole_line=True).removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"[":
        found = _parsed(decode(_all(path).strip(), str(path)), str(path))
        rows: Iterable[tuple[str, Any]] = ((f"{path}: [{i}]", row) for i, row in enumerate(found))
    elif head.split(b"\n", 1)[0].strip() == b"{":  # objects on many lines, one after the other
        rows = _one_after_another(decode(_all(path), str(path)), str(path))
    else:
        lines = ((f"{path}:{number}", line) for number, line in read_lines(path) if line.strip())
        rows = ((where, _parsed(line, where)) for where, line in lines)
    empty = True
    for where, row in rows:
        empty = False
        if not isinstance(row, dict):
            raise FormatError(where, expected="an object", found=clip_json(row), fix="repair or remove it")
        yield where, row
    if empty:
        raise FormatError(str(path), expected="an n-best list", found="no objects", fix="check what wrote it")


def _all(path: str | Path) -> bytes:
    return read_bytes(path).removeprefix(b"\xef\xbb\xbf")


def _one_after_another(text: str, path: str) -> Iterator[tuple[str, Any]]:
    decoder, at, n = json.JSONDecoder(), 0, 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        where = f"{path}: object {n}"
        try:
            end = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)  # the reader of this part says what is wrong
        yield where, _parsed(text[at:end], where)
        at, n = end, n + 1


def _parsed(text: str, where: str) -> Any:
    """A value of JSON, by Python's parser: faster ones do not see a key that comes twice."""
    try:
        return parse_json(text, parse_float=float)  # who asks for the number says where it stands
    except ValueError as error:
        raise FormatError(where, expected="JSON", found=str(error), fix="repair or remove it") from None


class Keys:
    """Reads values of objects, and counts the keys that nobody asked for."""

    def __init__(self, options: ReadOptions, known: Iterable[str]) -> None:
        self.warn, self.known, self.unread = options.warn, set(known), Counter[str]()

    def see(self, row: dict[str, Any]) -> None:
        self.unread.update(key for key in row if key not in self.known)

    def tell(self, path: str | Path) -> None:
        """Say what was not read."""
        if self.unread:
            shown = ", ".join(f"{key!r} of {n:,}" for key, n in self.unread.most_common(8))
            self.warn(f"{path}: keys that are not read: {shown} objects")


def get(row: dict[str, Any], key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """The value of a key that must be there and of a kind."""
    if key not in row or not isinstance(row[key], kind) or (isinstance(row[key], bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        shown = " or ".join(_SHOWN.get(k, k.__name__) for k in kinds)
        found = clip_json(row[key]) if key in row else f"the keys {clip_json(list(row))}"
        raise FormatError(where, expected=f"{shown} for {key!r}", found=found, fix="repair or remove it")
    return row[key]


_SHOWN = {str: "a string", list: "a list", dict: "an object", float: "a number", int: "a number"}


def as_number(value: Any, where: str, what: str) -> float:
    """A finite number; also of ``tensor(-3.2)``, as PyTorch prints one."""
    if isinstance(value, str):
        text = value.strip().removeprefix("tensor(").split(",")[0].rstrip(")")
        try:
            value = float(text) if may_be_number(text) else nan
        except ValueError:
            value = nan
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < HUGE
    if not good or not isfinite(value):
        raise FormatError(where, expected=f"a finite number for {what}", found=clip_json(value), fix="repair or remove it")
    return float(value)


def numbers_of(values: Any, where: str, what: str) -> list[float]:
    if not isinstance(values, list):
        raise FormatError(where, expected=f"a list of numbers for {what}", found=clip_json(values), fix="repair or remove it")
    if are_numbers(values) and max(map(abs, values), default=0) < HUGE:
        return list(map(float, values))
    return [as_number(value, where, what) for value in values]


def are_numbers(values: list[Any]) -> bool:
    """Whether all values are numbers of JSON, which truth values are not."""
    return {*map(type, values)} <= {int, float}


def texts_of(values: Any, where: str, what: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise FormatError(where, expected=f"a list of strings for {what}", found=clip_json(values), fix="repair or remove it")
    return values


def key_values(path: str | Path) -> dict[str, str]:
    """``key value`` lines, as Kaldi and ESPnet write; a value may be empty."""
    out: dict[str, str] = {}
    for number, line in read_lines(path):
        key, _, value = line.strip(BLANKS).replace("\t", " ").partition(" ")
        if not key:
            continue
        if key in out:
            raise FormatError(f"{path}:{number}", expected="each utterance once", found=f"{key!r} twice", fix="remove one")
        out[key] = value.strip(BLANKS)
    return out
