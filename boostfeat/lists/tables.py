"""Tables in files: columns by name, each with a value or its text a row.

Parquet, Feather     as pandas, polars and Arrow write them
JSON                 an array of objects, an object a line, or {file: [objects]} as COMET's --to_json writes; A.B is B inside A
CSV, TSV             a header of names, then a row a line
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from ..core.errors import FormatError, clip, clip_json, counted, repeated
from ..core.files import decode
from ..core.strict_json import parse_json
from .build import ordered_union

Table = dict[str, list[Any]]
_NOT_ROWS = {"system_score", "mean", "num_samples"}  # keys of COMET's files
_LONGEST_CELL = 1 << 28


def parse_table(raw: bytes, path: str, *, is_quoted: bool = False) -> Table:
    """Return the table that a file holds. Cells of TSV are as they stand unless they are quoted, as those of CSV are."""
    if raw.lstrip()[:1] in (b"[", b"{"):
        return table_of_objects(_json_rows(decode(raw, path), path))
    if raw.startswith((b"PAR1", b"ARROW1", b"FEA1")):
        return _of_arrow(raw, path)
    is_csv = ".csv" in Path(path).suffixes
    return _of_lines(decode(raw, path), path, delimiter="," if is_csv else "\t", is_quoted=is_csv or is_quoted)


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
                raise FormatError(
                    f"{path}:{lines.line_num}",
                    expected=f"{counted(len(rows[0]), 'column')}, as the header has",
                    found=str(len(row)),
                    fix="repair the file",
                )
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
