"""Lists from tables, and tables from lists: a row a hypothesis. Files, frames of any library and records are read alike."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import narwhals as nw
import numpy as np

from ..core.arrays import I64
from ..core.errors import FormatError, InputError, clip, clip_json, repeated
from ..core.files import read_bytes
from ..core.text import Strings, is_whole, normal
from .build import ReadOptions, TableColumns, ordered_union, with_own_lines
from .nbest import NBest, Notes, strings
from .quality import join_qualities, join_quality
from .tables import Numbers, Table, number_column, number_of, parse_table, table_of_objects
from .tokens import TokenBuilder, TokenHyp

SCORE = "score"  # a feature of this name is the decoder's score, as in JSON lists of speech recognisers


def read(path: str | Path | Sequence[str | Path], options: ReadOptions) -> NBest:
    """Read a table, or files that have parts of one: Parquet, Feather, CSV, TSV or JSON, compressed or not."""
    paths = [path] if isinstance(path, str | Path) else path
    where = ", ".join(map(str, paths))
    if options.columns is None:
        raise InputError(f"{where}: a table needs --group COLUMN and --text COLUMN; name them")
    tables = [parse_table(read_bytes(path).removeprefix(BOM_UTF8), str(path), is_quoted=True) for path in paths]
    if other := next((k for k, table in enumerate(tables) if table.keys() != tables[0].keys()), 0):
        only = sorted(tables[other].keys() ^ tables[0].keys())
        raise InputError(f"{paths[other]}: expected the columns of {paths[0]}, found others: {clip_json(only)} is in one of them")
    table = {name: [cell for own in tables for cell in own[name]] for name in tables[0]}
    return lists_of_table(table, options.columns, options, where)


def lists_of(rows: Any, columns: TableColumns, lower_is_better: Sequence[str]) -> NBest:
    """Return the lists of a frame of pandas, polars or Arrow, or of dictionaries."""
    if isinstance(rows, list):
        table = {name: [*map(_plain, cells)] for name, cells in table_of_objects(rows).items()}
    elif isinstance(frame := nw.from_native(rows, pass_through=True), nw.DataFrame):
        table = frame.to_dict(as_series=False)
    else:
        raise InputError(
            f"frame: expected one of pandas or polars, or an Arrow table, found {type(rows).__name__}; collect() a lazy frame, "
            "from_records takes dictionaries, import_lists files"
        )
    return join_qualities(lists_of_table(table, columns, ReadOptions(), "table"), (), lower_is_better)


def _plain(cell: Any) -> Any:
    """Return a number of numpy, or a tensor of one, as Python has it."""
    return cell.item() if getattr(cell, "shape", None) == () else cell


def lists_of_table(table: Table, columns: TableColumns, options: ReadOptions, where: str) -> NBest:
    """Return the lists of a table: the rows of one group are a list, wherever they stand.

    Groups that are whole numbers are the ids of the lists. Others are counted in the order of the table, and noted. Words are
    units. What was not read is told by name.
    """
    _check_names(table, columns, where)
    texts = table[columns.text]
    _check_texts(table, columns.text, where)
    features = {name: number_column(table, name, where).tolist() for name in columns.features}
    groups, are_ids = _groups(table, columns.group, where)
    builder, kept = TokenBuilder(options), []
    for number, (value, rows) in enumerate(groups.items()):
        sent = int(value) if are_ids else number
        for k in rows[: options.size]:
            own = {name: column[k] for name, column in features.items()}
            builder.add(TokenHyp(sent, normal(texts[k]), f"{where}: row {k + 1}", own.get(SCORE, nan), own))
            kept.append(k)
    nbest = builder.finish()
    refs = [[ref for own in each for ref in own] for each in zip(*_references(table, columns, groups, where), strict=True)]
    source = [""] * len(groups)
    if columns.source:
        _check_texts(table, columns.source, where)
        source = _of_lists(table, columns.source, groups, where)
    nbest = with_own_lines(nbest, source=source, refs=refs or [[]] * len(groups), threads=options.threads)
    for name in columns.quality:
        nbest = join_quality(nbest, name, Numbers(number_column(table, name, where)[kept]), where)
    if not are_ids and columns.group != columns.source:
        notes = [msgspec.json.encode({columns.group: value}).decode() for value in groups]
        nbest = replace(nbest, notes=Notes(strings(notes)))
    _tell_unread(table, columns, options, where)
    return nbest


def _check_names(table: Table, columns: TableColumns, where: str) -> None:
    source = [columns.source] if columns.source else []
    for name in (columns.group, columns.text, *columns.features, *columns.quality, *source, *columns.refs):
        if name not in table:
            raise InputError(f"{where}: expected a column {name!r}, found {clip_json(list(table))}; name one of these")
    if (twice := repeated([columns.text, *columns.features, *columns.quality])) is not None:
        raise InputError(f"{where}: column {twice!r} is named twice; it is the text, a feature or the quality")


def _check_texts(table: Table, name: str, where: str) -> None:
    wrong = next((k for k, cell in enumerate(table[name]) if not isinstance(cell, str)), None)
    if wrong is not None:
        raise _cell_error(table, name, wrong, "a text", where)


def _cell_error(table: Table, name: str, row: int, expected: str, where: str) -> FormatError:
    cell = table[name][row]
    found = clip(cell if isinstance(cell, str) else str(cell))
    return FormatError(f"{where}: row {row + 1}", expected=f"{expected} for {name}", found=found, fix="repair the table")


def _groups(table: Table, name: str, where: str) -> tuple[dict[str | int, list[int]], bool]:
    """Return the rows of each group, and whether groups are whole numbers, by which they are sorted then."""
    groups: dict[str | int, list[int]] = {}
    for k, cell in enumerate(table[name]):
        if isinstance(cell, bool) or not isinstance(cell, str | int):
            raise _cell_error(table, name, k, "a text or a whole number", where)
        groups.setdefault(cell, []).append(k)
    if not groups:
        raise FormatError(where, expected="rows", found="none", fix="check what wrote it")
    are_ids = all(is_whole(str(value)) and str(int(value)) == str(value) for value in groups)
    return (dict(sorted(groups.items(), key=lambda item: int(item[0]))) if are_ids else groups), are_ids


def _of_lists(table: Table, name: str, groups: Mapping[str | int, list[int]], where: str) -> list[Any]:
    """Return the value of a column for each list, whose rows all have it."""
    cells = table[name]
    for rows in groups.values():
        if (other := next((k for k in rows if cells[k] != cells[rows[0]]), None)) is not None:
            raise _cell_error(table, name, other, f"the value of row {rows[0] + 1}, which is of the same list,", where)
    return [cells[rows[0]] for rows in groups.values()]


def _references(table: Table, columns: TableColumns, groups: Mapping[str | int, list[int]], where: str) -> list[list[list[str]]]:
    """Return the references of each list, column by column; a cell is a text, or several."""
    out = []
    for name in columns.refs:
        cells = [[cell] if isinstance(cell, str) else cell for cell in _of_lists(table, name, groups, where)]
        for rows, cell in zip(groups.values(), cells, strict=True):
            if not isinstance(cell, list) or not all(isinstance(ref, str) for ref in cell):
                raise _cell_error(table, name, rows[0], "a text, or a list of texts,", where)
        out.append(cells)
    return out


def _tell_unread(table: Table, columns: TableColumns, options: ReadOptions, where: str) -> None:
    """Name the columns that were not read; those of numbers with the way to read them."""
    read_ones = {columns.group, columns.text, columns.source, *columns.features, *columns.quality, *columns.refs}
    unread = [name for name in table if name not in read_ones]
    numbers = [name for name in unread if all(number_of(cell) is not None for cell in table[name])]
    if numbers:
        how = f"--features {','.join(numbers)} or --quality {numbers[-1]} (in Python features=, quality=) reads them"
        options.warn(f"{where}: columns of numbers that are not read: {', '.join(numbers)}; {how}")
    if others := [name for name in unread if name not in numbers]:
        options.warn(f"{where}: columns that are not read: {', '.join(others)}")


# -- back ---------------------------------------------------------------------------------------------------------------


def frame_of_lists(nbest: NBest, backend: Any) -> Any:
    """Return a frame of lists: a row a hypothesis. Sparse features have no columns."""
    sents = nbest.sent_of_hyp
    columns: list[tuple[str, Any]] = [("id", nbest.ids[sents])]
    columns += _note_columns(nbest.notes.sentences, sents)
    sources, refs, ptr = nbest.source.to_pylist(), nbest.refs.to_pylist(), nbest.ref_ptr.tolist()
    if any(sources):
        columns.append(("source", [sources[s] for s in sents]))
    if refs:
        columns.append(("refs", [refs[ptr[s] : ptr[s + 1]] for s in sents.tolist()]))
    columns.append(("text", nbest.text.to_pylist()))
    columns += _note_columns(nbest.notes.hyps, np.arange(nbest.n_hyps))
    if SCORE not in nbest.global_names and not np.isnan(nbest.score).all():
        columns.append((SCORE, nbest.score))
    columns += zip(nbest.global_names, nbest.global_features.T, strict=True)
    columns += zip(nbest.quality.names, nbest.quality.value.T, strict=True)
    weights = zip(nbest.quality.names, nbest.quality.weight.T, strict=True)
    columns += [(f"{name}.weight", weight) for name, weight in weights if (weight != 1).any()]
    if (twice := repeated([name for name, _ in columns])) is not None:
        raise InputError(f"to_frame: two columns would be called {twice!r}; rename the feature or quality column")
    return nw.from_dict(dict(columns), backend=backend).to_native()


def _note_columns(notes: Strings, rows: I64) -> list[tuple[str, list[Any]]]:
    """Return the keys of notes as columns."""
    objects = [msgspec.json.decode(note) if note else {} for note in notes.to_pylist()]
    return [(name, [objects[k].get(name) for k in rows]) for name in ordered_union(objects)]
