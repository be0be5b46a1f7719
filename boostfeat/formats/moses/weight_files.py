"""Files of weights, a name a line: ``name value`` (cdec, Joshua, Moses' [weight-file]) and ``Name= value ...`` (Moses' tools)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ...core.errors import FormatError, InputError, clip
from ...core.files import open_output, read_lines
from ...core.text import split_words
from ..fields import number
from .labels import format_number

FIX = "repair or remove this line"


def read_weights(paths: Iterable[str | Path]) -> dict[str, float]:
    """Weights from files of ``Name= value`` and ``name value`` lines; lines that begin with # are comments, as in Moses.

    A dense name with several values, on one line or on several, becomes Name_1, Name_2, ... as in Moses' hypergraphs; one with
    a single value stays as it is.
    """
    groups: dict[str, list[float]] = {}
    where_of: dict[str, tuple[int, str]] = {}  # which file, and the last place in it
    for f, path in enumerate(paths):
        for n, line in read_lines(path):
            where, parts = f"{path}:{n}", split_words(line)
            if not parts or parts[0].startswith("#"):
                continue
            name, dense = parts[0].removesuffix("="), parts[0].endswith("=")
            if len(parts) < 2 or not name or (not dense and len(parts) > 2):
                raise FormatError(where, expected="'Name= value' or 'name value'", found=clip(line), fix=FIX)
            if name in groups and (not dense or where_of[name][0] != f):
                raise _again(where, name)
            where_of[name] = f, where
            groups.setdefault(name, []).extend(number(value, where, f"weight {name}") for value in parts[1:])
    weights: dict[str, float] = {}
    for name, values in groups.items():
        for i, value in enumerate(values, 1):
            key = name if len(values) == 1 else f"{name}_{i}"
            if key in weights:
                raise _again(where_of[name][1], key)
            weights[key] = value
    return weights


def _again(where: str, name: str) -> FormatError:
    return FormatError(where, expected="each name once", found=f"{clip(name)} again", fix=FIX)


def weight_lines(
    weights: Mapping[str, float], file: str, *, equals: str = "", style: Callable[[float], str] = format_number
) -> list[str]:
    """``name value`` lines, or ``name= value`` with ``equals``; a name that a line cannot hold is refused."""
    for name in weights:
        if name.split() != [name] or name.startswith("#"):
            raise InputError(f"{file}: expected feature names without spaces or a leading '#', found {clip(name)}; rename it")
    return [f"{name}{equals} {style(weight)}" for name, weight in weights.items()]


def write_lines(lines: Iterable[str], path: str | Path) -> None:
    with open_output(path) as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode())
