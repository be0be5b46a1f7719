"""Files of numbers beside a list: one a hypothesis, in the order of the list, or several a line, one a token.

    text      a number a line; or two, a numerator and a denominator
    TSV       a header of names, then a row a hypothesis: FILE:COLUMN, FILE:NUMERATOR,DENOMINATOR
    JSON      an array of numbers or of objects, an object a line, or {file: [objects]} as COMET's --to_json writes:
              FILE:KEY, FILE:A.B

A file may be compressed. Where a table has one column of numbers it need not be named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..core.arrays import F64, I64, offsets
from ..core.errors import FormatError, InputError, clip, clip_json, counted, repeated
from ..core.files import decode, read_bytes, read_chunks
from ..core.strict_json import parse_json
from ..core.text import Strings
from .nbest import strings

TEXTS = ("mt", "hyp", "hypothesis", "prediction")  # columns with the hypothesis itself
OWN_WORDS = {"system_score", "mean", "num_samples"}  # of COMET's files: not of hypotheses


@dataclass(frozen=True)
class Numbers:
    """A number a hypothesis; with denominators, corpus values are ratios of sums."""

    values: F64  # [n]
    denominators: F64 | None = None  # [n]
    texts: Strings | None = None  # [n] what the file says they are of, where it does

    def __len__(self) -> int:
        return len(self.values)


def split_spec(spec: str) -> tuple[str, str]:
    """(file, column) of ``FILE`` or ``FILE:COLUMN``; a file whose name has a colon is meant where there is one."""
    if Path(spec).exists() or ":" not in spec:
        return spec, ""
    path, _, column = spec.rpartition(":")
    return path, column


def read_numbers(spec: str) -> Numbers:
    """The numbers of ``FILE`` or ``FILE:COLUMN``."""
    path, column = split_spec(spec)
    raw = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    if not raw.strip():
        raise FormatError(path, expected="numbers", found="an empty file", fix="check what wrote it")
    if b"\0" in raw[:4096]:
        raise FormatError(path, expected="numbers", found="a binary file", fix="name a text, TSV or JSON file")
    if raw.lstrip()[:1] in (b"[", b"{"):
        return _of_columns(_json_table(raw, path), column, path)
    lines = raw.removesuffix(b"\n").split(b"\n")
    if column or not _is_number(lines[0].split()[0] if lines[0].split() else b""):
        return _of_columns(_tsv_table(lines, path), column, path)
    return _plain(lines, path)


def read_rows(path: str) -> tuple[I64, F64]:
    """(offsets [n+1], values) of a file with several numbers a line, one for each token; an empty line is a row of none."""
    counts: list[int] = []
    parts: list[F64] = []
    for chunk in read_chunks(path):
        lines = chunk[:-1].split(b"\n")
        first = len(counts)
        counts += [len(line.split()) for line in lines]
        parts.append(_floats(chunk.split(), lambda k, own=lines, at=first: _place_of_token(own, k, at, path)))
    return offsets(np.array(counts, np.int64)), np.concatenate([np.zeros(0), *parts])


# ---------------------------------------------------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------------------------------------------------


def _plain(lines: Sequence[bytes], path: str) -> Numbers:
    widths = {len(line.split()) for line in lines}
    if widths - {1, 2} or len(widths) != 1:
        width = len(lines[0].split())
        k = next((i for i, line in enumerate(lines) if len(line.split()) not in (1, 2) or len(line.split()) != width), 0)
        raise FormatError(
            f"{path}:{k + 1}",
            expected="a number a line, or a numerator and a denominator on each",
            found=clip(lines[k]),
            fix="repair the file, or name a column of a table with FILE:COLUMN",
        )
    flat = b"\n".join(lines).split()
    values = _floats(flat, lambda k: _refuse(f"{path}:{k // len(lines[0].split()) + 1}", flat[k]))
    return _pair(values[::2], values[1::2], path) if widths == {2} else Numbers(values)


def _floats(tokens: Sequence[bytes], refuse: Any) -> F64:
    """Numbers of tokens; ``refuse(k)`` raises for token k."""
    try:
        values = np.array(list(map(float, tokens)))
    except ValueError:
        values = None
    if values is None or not np.isfinite(values).all() or any(b"_" in token for token in tokens):
        refuse(next(k for k, token in enumerate(tokens) if not _is_number(token)))
    return values  # type: ignore[return-value]


def _is_number(token: bytes) -> bool:
    try:
        return isfinite(float(token)) and b"_" not in token
    except ValueError:
        return False


def _refuse(where: str, found: bytes) -> NoReturn:
    raise FormatError(where, expected="a finite number", found=clip(found), fix="repair the file")


def _place_of_token(lines: Sequence[bytes], k: int, first: int, path: str) -> NoReturn:
    for i, line in enumerate(lines):
        words = line.split()
        if k < len(words):
            _refuse(f"{path}:{first + i + 1}", words[k])
        k -= len(words)
    raise AssertionError("a token of these lines")


# ---------------------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------------------

Table = dict[str, list[Any]]  # columns by name, each with a value (or its text) a row


def _tsv_table(lines: Sequence[bytes], path: str) -> Table:
    header = decode(lines[0].removesuffix(b"\r"), f"{path}:1").split("\t")
    if repeated(header) is not None:
        raise FormatError(f"{path}:1", expected="distinct names of columns", found=clip(lines[0]), fix="rename one of them")
    columns: Table = {name: [] for name in header}
    for n, line in enumerate(lines[1:], 2):
        cells = decode(line.removesuffix(b"\r"), f"{path}:{n}").split("\t")
        if len(cells) != len(header):
            raise FormatError(
                f"{path}:{n}",
                expected=f"{counted(len(header), 'column')}, as the header has",
                found=str(len(cells)),
                fix="repair the file",
            )
        for name, cell in zip(header, cells, strict=True):
            columns[name].append(cell)
    return columns


def _json_table(raw: bytes, path: str) -> Table:
    """Columns of all keys that objects have; those inside objects have names like A.B."""
    rows = _json_rows(raw, path)
    columns: Table = {}
    for n, row in enumerate(rows):
        cells = _flat(row) if isinstance(row, dict) else {"": row}
        for name in {**columns, **cells}:  # in the order of the file
            column = columns.setdefault(name, [None] * n)
            column.append(cells.get(name))
    return columns


def _json_rows(raw: bytes, path: str) -> list[Any]:
    try:
        found = parse_json(raw, parse_float=float)
    except UnicodeDecodeError as error:
        raise FormatError(path, expected="UTF-8 text", found=str(error), fix="convert it with iconv") from None
    except ValueError as error:
        return _json_lines(raw, path, error)
    if isinstance(found, list):
        return found
    lists = [rows for key, rows in found.items() if isinstance(rows, list) and key not in OWN_WORDS]
    if len(lists) == 1:
        return lists[0]
    if lists:
        raise FormatError(
            path, expected="one list of hypotheses", found=f"{len(lists)}: {clip_json(list(found))}", fix="keep one of them"
        )
    return [found]


def _json_lines(raw: bytes, path: str, error: ValueError) -> list[Any]:
    rows = []
    for n, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                rows.append(parse_json(line, parse_float=float))
            except ValueError as own:
                found = str(error if n == 1 else own)
                raise FormatError(f"{path}:{n}", expected="JSON", found=found, fix="repair the file") from None
    return rows


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) and prefix.count(".") < 8 else {prefix + key: value}
    return out


def _of_columns(table: Table, column: str, path: str) -> Numbers:
    if not column:
        named = [name for name, cells in table.items() if cells and all(_value(cell) is not None for cell in cells)]
        if len(named) != 1:
            raise InputError(
                f"{path}: expected one column of numbers, found {len(named)} among {clip_json(list(table))}; "
                "name one with FILE:COLUMN"
            )
        return Numbers(_column(table, named[0], path), texts=_texts(table))
    names = [column] if column in table else column.split(",")
    if len(names) > 2:
        raise InputError(
            f"{path}: expected a column, or a numerator and a denominator, found {counted(len(names), 'name')}; name one or two"
        )
    columns = [_column(table, name, path) for name in names]
    return replace(_pair(columns[0], columns[1], path) if len(columns) == 2 else Numbers(columns[0]), texts=_texts(table))


def _texts(table: Table) -> Strings | None:
    found = next((table[name] for name in TEXTS if name in table), None)
    return strings(found) if found is not None and all(isinstance(text, str) for text in found) else None


def _column(table: Table, name: str, path: str) -> F64:
    if name not in table:
        raise InputError(f"{path}: expected a column {name!r}, found {clip_json(list(table))}; name one of these")
    values = [_value(cell) for cell in table[name]]
    if None in values:
        k = values.index(None)
        cell = table[name][k]
        found = clip(cell) if isinstance(cell, str) else clip_json(cell)
        raise FormatError(f"{path}: row {k + 1}", expected=f"a finite number for {name}", found=found, fix="repair the file")
    return np.array(values, np.float64)


def _value(cell: Any) -> float | None:
    """A finite number of a cell, None where it is something else."""
    if isinstance(cell, str):
        return float(cell) if _is_number(cell.encode("utf-8", "replace")) else None
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return None
    return float(cell) if isfinite(cell) else None


def _pair(numerators: F64, denominators: F64, path: str) -> Numbers:
    if (denominators < 0).any():
        k = np.argmax(denominators < 0)  # the first
        raise FormatError(
            f"{path}: row {k + 1}",
            expected="a denominator of 0 or more",
            found=str(denominators[k]),
            fix="repair the file",
        )
    return Numbers(numerators, denominators)
