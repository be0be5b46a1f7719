"""Tables in files, columns by name, each with a value or its text a row; and files of numbers beside a list.

    Parquet, Feather     as pandas, polars and Arrow write them
    JSON                 an array of objects, an object a line, or {file: [objects]} as COMET's --to_json writes; A.B: B inside A
    CSV, TSV             a header of names, then a row a line
    text                 numbers alone: one a line; or two, a numerator and a denominator

Files may be compressed. Numbers are one a hypothesis, in the order of the list: FILE, or of a table FILE:COLUMN,
FILE:NUMERATOR,DENOMINATOR, FILE:A.B; where it has one column of numbers that need not be named.
"""

from __future__ import annotations

import csv
from array import array
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from ..core.arrays import F64, I64, offsets
from ..core.errors import FormatError, InputError, clip, clip_json, counted, repeated
from ..core.files import decode, read_bytes, read_lines
from ..core.strict_json import parse_json
from ..core.text import Strings
from .build import ordered_union
from .nbest import strings

Table = dict[str, list[Any]]
_NOT_ROWS = {"system_score", "mean", "num_samples"}  # keys of COMET's files
_LONGEST_CELL = 1 << 28


def parse_table(raw: bytes, path: str, *, is_quoted: bool = False) -> Table:
    """Return the table that a file holds. Cells of TSV are as they stand unless they are quoted, as those of CSV are."""
    if raw.lstrip()[:1] in (b"[", b"{"):
        return table_of_objects(_json_rows(decode(raw, path), path))
    if raw.startswith((b"PAR1", b"ARROW1", b"FEA1")):
        return _of_arrow(raw, path)
    text = decode(raw, path)
    is_csv = ".csv" in Path(path).suffixes or (is_quoted and "\t" not in text.partition("\n")[0])
    return _of_lines(text, path, delimiter="," if is_csv else "\t", is_quoted=is_csv or is_quoted)


def _of_arrow(raw: bytes, path: str) -> Table:
    source = pa.BufferReader(raw)
    try:
        table = pa.parquet.read_table(source) if raw.startswith(b"PAR1") else pa.feather.read_table(source)
        while any(pa.types.is_struct(column.type) for column in table.columns):
            table = table.flatten()
        columns: Table = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(
            path, expected="a table in Parquet or Feather", found=str(error).splitlines()[0], fix="write it again"
        ) from None
    return columns


def _of_lines(text: str, path: str, *, delimiter: str, is_quoted: bool) -> Table:
    csv.field_size_limit(_LONGEST_CELL)
    how: dict[str, Any] = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE}
    lines = csv.reader([line + "\n" for line in text.removesuffix("\n").split("\n")], strict=True, **how)
    rows: list[list[str]] = []
    try:
        for row in lines:
            rows.append([cell.removesuffix("\r") for cell in row])
            if len(row) != len(rows[0]):
                where, expected = f"{path}:{lines.line_num}", f"{counted(len(rows[0]), 'column')}, as the header has"
                raise FormatError(where, expected=expected, found=str(len(row)), fix="repair the file")
    except csv.Error as error:
        where = f"{path}:{lines.line_num}"
        raise FormatError(where, expected="cells, in quotes or without", found=str(error), fix="repair the file") from None
    header, *cells = rows
    if repeated(header) is not None:
        shown = clip(delimiter.join(header))
        raise FormatError(f"{path}:1", expected="distinct names of columns", found=shown, fix="rename one of them")
    return {name: [row[k] for row in cells] for k, name in enumerate(header)}


def table_of_objects(rows: list[Any]) -> Table:
    """Return columns of all keys that objects have, A.B for B inside A; rows that are no objects are a column without a name."""
    flat = [_flat(row) if isinstance(row, dict) else {"": row} for row in rows]
    return {name: [row.get(name) for row in flat] for name in ordered_union(flat)}


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        out |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) and prefix.count(".") < 8 else {prefix + key: value}
    return out


def _json_rows(text: str, path: str) -> list[Any]:
    try:
        found = parse_json(text, parse_float=float)  # who needs a number says which one is not finite
    except ValueError as error:
        lines = ((n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip())
        return [_json_line(line, f"{path}:{n}", error if n == 1 else None) for n, line in lines]
    if isinstance(found, list):
        return found
    lists = [rows for key, rows in found.items() if isinstance(rows, list) and key not in _NOT_ROWS]
    if len(lists) > 1 and all(isinstance(row, dict) for rows in lists for row in rows):
        raise FormatError(
            path, expected="one list of hypotheses", found=f"{len(lists)}: {clip_json(list(found))}", fix="keep one of them"
        )
    are_rows = len(lists) == 1 and (len(found.keys() - _NOT_ROWS) == 1 or all(isinstance(row, dict) for row in lists[0]))
    return lists[0] if are_rows else [found]


def _json_line(line: str, where: str, error_of_all: ValueError | None) -> Any:
    try:
        return parse_json(line, parse_float=float)
    except ValueError as error:
        raise FormatError(where, expected="JSON", found=str(error_of_all or error), fix="repair the file") from None


# ---------------------------------------------------------------------------------------------------------------------
# Numbers
# ---------------------------------------------------------------------------------------------------------------------

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


def name_and_file(where: str, spec: str) -> tuple[str, str]:
    """Return the parts of NAME=FILE."""
    name, equals, path = spec.partition("=")
    if not (name and equals and path):
        raise InputError(f"{where}: expected NAME=FILE, found no name or no file; give both")
    return name, path


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
    if isinstance(cell, bool) or not isinstance(cell, int | float | str | Decimal) or (isinstance(cell, str) and "_" in cell):
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
        expected, found = "a number a line, or a numerator and a denominator on each", clip(" ".join(rows[wrong - 1]))
        fix = "repair the file, or name a column of a table with FILE:COLUMN"
        raise FormatError(f"{path}:{wrong}", expected=expected, found=found, fix=fix)
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
