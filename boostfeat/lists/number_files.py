"""Files of numbers beside a list: one a hypothesis, in the order of the list, or several a line, one a token.

    text      a number a line; or two, a numerator and a denominator
    a table   a row a hypothesis (see tables): FILE:COLUMN, FILE:NUMERATOR,DENOMINATOR, FILE:A.B

A file may be compressed. Where a table has one column of numbers it need not be named.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, offsets
from ..core.errors import FormatError, InputError, clip, clip_json, counted
from ..core.files import decode, read_bytes, read_lines
from ..core.text import Strings
from .nbest import strings
from .tables import Table, parse_table

TEXTS = ("mt", "hyp", "hypothesis", "prediction")  # columns with the hypothesis itself


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
    if not column and number_of(raw.split(None, 1)[0].decode("ascii", "replace")) is not None:
        table = _plain(decode(raw, path), path)
        return _of_columns(table, list(table), path)
    table = parse_table(raw, path)
    return _of_columns(table, _names(table, column, path), path)


def read_rows(path: str) -> tuple[I64, F64]:
    """(offsets [n+1], values) of a file with several numbers a line, one for each token; an empty line is a row of none."""
    counts, values = array("q"), array("d")
    for n, line in read_lines(path):
        words = line.split()
        try:
            row = [*map(float, words)]
        except ValueError:
            row = [nan]
        if "_" in line or not all(map(isfinite, row)):
            wrong = next(word for word in words if number_of(word) is None)
            raise FormatError(f"{path}:{n}", expected="a finite number", found=clip(wrong), fix="repair the file")
        counts.append(len(row))
        values.extend(row)
    return offsets(np.asarray(counts)), np.asarray(values)


def number_of(cell: Any) -> float | None:
    """Return the finite number of a cell or its text; None where it is something else."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str) or (isinstance(cell, str) and "_" in cell):
        return None
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        return None
    return value if isfinite(value) else None


def _plain(text: str, path: str) -> Table:
    """Return the columns of lines with a number, or a numerator and a denominator, on each."""
    rows = [line.split() for line in text.removesuffix("\n").split("\n")]
    width = len(rows[0])
    if wrong := next((k for k, row in enumerate(rows, 1) if len(row) != width or width > 2), 0):
        raise FormatError(
            f"{path}:{wrong}",
            expected="a number a line, or a numerator and a denominator on each",
            found=clip(" ".join(rows[wrong - 1])),
            fix="repair the file, or name a column of a table with FILE:COLUMN",
        )
    return {name: [row[k] for row in rows] for k, name in enumerate([""] if width == 1 else ["numerator", "denominator"])}


def _names(table: Table, column: str, path: str) -> list[str]:
    """Return the columns that FILE:COLUMN names, or the only one of numbers."""
    if column:
        return [column] if column in table else column.split(",")
    names = [name for name, cells in table.items() if cells and all(number_of(cell) is not None for cell in cells)]
    if len(names) != 1:
        raise InputError(
            f"{path}: expected one column of numbers, found {len(names)} among {clip_json(list(table))}; "
            "name one with FILE:COLUMN"
        )
    return names


def _of_columns(table: Table, names: list[str], path: str) -> Numbers:
    if len(names) > 2:
        raise InputError(
            f"{path}: expected a column, or a numerator and a denominator, found {counted(len(names), 'name')}; name one or two"
        )
    columns = [number_column(table, name, path) for name in names]
    weights = columns[1] if len(columns) == 2 else None
    if weights is not None and (weights < 0).any():
        k = int(np.argmax(weights < 0))  # the first
        found = str(weights[k])
        raise FormatError(f"{path}: row {k + 1}", expected="a denominator of 0 or more", found=found, fix="repair the file")
    texts = next((table[name] for name in TEXTS if name in table), [None])
    return Numbers(columns[0], weights, strings(texts) if all(isinstance(text, str) for text in texts) else None)


def number_column(table: Table, name: str, path: str) -> F64:
    """Return a column of a table, all of whose cells have to be finite numbers."""
    if name not in table:
        raise InputError(f"{path}: expected a column {name!r}, found {clip_json(list(table))}; name one of these")
    values = [number_of(cell) for cell in table[name]]
    if None in values:
        k = values.index(None)
        cell = table[name][k]
        found = clip(cell) if isinstance(cell, str) else clip_json(cell)
        expected = f"a finite number for {name}" if name else "a finite number"
        raise FormatError(f"{path}: row {k + 1}", expected=expected, found=found, fix="repair the file")
    return np.array(values, np.float64)
