"""Parts: the features of one template on a run of sentences; and the run with all of them, as new distinct units."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ..core.arrays import F64, I32, I64, Array, frozen, offsets, owners, unique_rows
from ..core.errors import InputError, repeated
from ..core.kernels import kernel
from ..core.text import Strings, string_buffers
from ..lists.merging import together
from ..lists.nbest import NBest, SparseRows, string_column, strings

PartOf = Literal["unit", "occurrence", "hypothesis"]
Counts = tuple[Strings, I64]  # names, and how many sentences have each


@dataclass(frozen=True)
class Part:
    """The features of one template: distinct rows, dense or sparse, and which one each unit, occurrence or hypothesis has."""

    of: PartOf
    names: tuple[str, ...]
    values: F64 | SparseRows
    row_of: I64 | I32  # 32 bits for occurrences: there are many, and a number of each for every template

    @classmethod
    def made(cls, of: PartOf, names: tuple[str, ...], values: F64 | SparseRows, row_of: I64 | I32) -> Part:
        if of == "occurrence":  # contexts with the same features must not tell units apart
            first, inverse = unique_rows(*_words(values))
            values = values.take(first) if isinstance(values, SparseRows) else values[first]
            row_of = inverse.astype(np.int32)[row_of]
        return cls(of, names, values, row_of)

    @classmethod
    def of_entries(cls, of: PartOf, names: tuple[str, ...], row: I64, place: I64 | I32, val: F64, row_of: I64 | I32) -> Part:
        """Sparse features by row and place among the names; entries without a place, -1, are left out."""
        n_rows, some = len(row_of) if of == "hypothesis" else int(row_of.max(initial=-1)) + 1, place >= 0
        return cls.made(of, names, SparseRows.of_entries(row[some], place[some], val[some], (n_rows, len(names))), row_of)

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.values, SparseRows)

    def without(self, names: set[str]) -> Part:
        """The part without some dense columns."""
        if not names:
            return self
        kept = [j for j, name in enumerate(self.names) if name not in names]
        return replace(self, names=tuple(self.names[j] for j in kept), values=np.asarray(self.values)[:, kept])


def in_one(runs: Sequence[tuple[I64 | None, list[Part]]], n_units: int) -> list[Part]:
    """Return the parts of a list from those of its runs, given which of its units each run has; None: the run is the list."""
    if runs[0][0] is None:
        return runs[0][1]
    units = [own for own, _ in runs if own is not None]
    return [_in_one(units, parts, n_units) for parts in zip(*(parts for _, parts in runs), strict=True)]


def _in_one(units: Sequence[I64], parts: Sequence[Part], n_units: int) -> Part:
    """Return the part of a template from those of runs with these units."""
    first, rows = parts[0], [part.values for part in parts]
    starts = np.cumsum([0, *map(len, rows[:-1])])
    values = together(rows) if first.is_sparse else np.concatenate([np.asarray(own) for own in rows])
    row_of = np.concatenate([part.row_of + start for part, start in zip(parts, starts, strict=True)])
    if first.of == "unit":
        of_unit = np.zeros(n_units, row_of.dtype)
        of_unit[np.concatenate(units)] = row_of  # a unit of several runs has the same features in all
        row_of = of_unit
    return Part.made(first.of, first.names, values, row_of)


@dataclass(frozen=True)
class Scratch:
    """Files of arrays, one a process: ``later = put(column)``, and ``later()`` is the column again, for other processes too.

    Without a path, columns stay in memory.
    """

    path: Path | None = None

    def put(self, column: Array) -> Callable[[], Array]:
        if self.path is None:
            return partial(np.asarray, column)
        name = f"{self.path}-{os.getpid()}"
        with open(name, "ab") as file:
            start = file.tell()
            np.save(file, column)
        return partial(_load, name, start)


def _load(name: str, start: int) -> Array:
    with open(name, "rb") as file:
        file.seek(start)
        return np.asarray(np.load(file, allow_pickle=False))


@dataclass(frozen=True)
class Met:
    """The sparse features of one template before it is known which of them are kept: all that the run has."""

    of: PartOf
    names: Counts  # with the sentences that have each, where they are to be learned
    values: SparseRows
    row_of: I64 | I32

    def kept(self, features: tuple[str, ...], place: I64 | I32) -> Part:
        """Keep the names [n] that have a place among the features; others have -1."""
        rows, at = self.values, place[self.values.idx]
        return Part.of_entries(self.of, features, owners(rows.ptr), at, rows.val, self.row_of)

    def put_aside(self, scratch: Scratch) -> tuple[Callable[[], Counts], Callable[[], Met]]:
        """Return a function that gives the names again, and one that gives all but them."""
        ptr, data = string_buffers(self.names[0])
        about = [scratch.put(column) for column in (ptr, data[: ptr[-1]], self.names[1])]
        rows = [scratch.put(column) for column in (self.values.ptr, self.values.idx, self.values.val, self.row_of)]
        return partial(_names, *about), partial(_met, self.of, *rows)


def _names(ptr: Callable[[], Array], data: Callable[[], Array], counts: Callable[[], Array]) -> Counts:
    return string_column(ptr(), data()), counts()


def _met(of: PartOf, *rows: Callable[[], Array]) -> Met:
    *values, row_of = (column() for column in rows)
    return Met(of, (strings([]), np.zeros(0, np.int64)), SparseRows(*values), row_of)


def _words(values: F64 | SparseRows) -> tuple[F64, I64]:
    """Rows as 8-byte words, to be compared bit by bit."""
    if not isinstance(values, SparseRows):
        return values, np.zeros((len(values), 0), np.int64)
    return np.zeros((len(values), 0)), values.codes().reshape(-1, 1)


def all_sparse_names(nbest: NBest, parts: Sequence[Part]) -> Strings:
    """The list's own and those of the parts; no feature may be there twice."""
    every = [*nbest.feature_names, *(name for part in parts for name in part.names)]
    if len(set(every)) < len(every):
        raise InputError(
            f"feature {repeated(every)!r}: expected a list without it, found it twice; "
            "featurize the imported list, and give plugins names of their own"
        )
    new = [name for part in parts if part.is_sparse for name in part.names]
    return pa.concat_arrays([nbest.sparse_names, strings(new)]) if new else nbest.sparse_names


def with_parts(nbest: NBest, parts: Sequence[Part], sparse_names: Strings) -> tuple[NBest, I32]:
    """New distinct units: an old one with the contextual features it has in its place. Numbered by first use.

    Beside the list, which unit each of them was [V].
    """
    in_context = [part for part in parts if part.of == "occurrence"]
    first, unit_idx = distinct_rows([nbest.unit_idx, *(part.row_of for part in in_context)])
    old = nbest.unit_idx[first]

    def rows_of(part: Part) -> I64 | I32:
        return part.row_of[first if part.of == "occurrence" else old]

    unit_parts = [part for part in parts if part.of != "hypothesis"]
    dense = [part for part in unit_parts if not part.is_sparse]
    x = np.empty((len(old), len(nbest.unit_names) + sum(len(part.names) for part in dense)))
    at = len(nbest.unit_names)
    x[:, :at] = nbest.X[old]
    for part in dense:  # the only array of this size
        x[:, at : at + len(part.names)] = part.values[rows_of(part)]  # type: ignore[index]
        at += len(part.names)
    shift = len(nbest.sparse_names)
    unit_rows: list[_Taken] = [(nbest.units.sparse, old, 0)]
    hyp_rows: list[_Taken] = [(nbest.extra_sparse, np.arange(nbest.n_hyps), 0)]
    for part in parts:
        if isinstance(part.values, SparseRows):
            rows = rows_of(part) if part.of != "hypothesis" else part.row_of
            (hyp_rows if part.of == "hypothesis" else unit_rows).append((part.values, rows, shift))
            shift += len(part.names)
    extras = [part for part in parts if part.of == "hypothesis" and not part.is_sparse]
    units = nbest.units.take(old)
    made = replace(
        nbest,
        unit_idx=unit_idx.astype(np.int32),
        units=replace(units, x=x, sparse=_side_by_side(unit_rows)),
        unit_names=(*nbest.unit_names, *(name for part in dense for name in part.names)),
        extra=np.hstack([nbest.extra, *(np.asarray(part.values) for part in extras)]),
        extra_names=(*nbest.extra_names, *(name for part in extras for name in part.names)),
        extra_sparse=_side_by_side(hyp_rows) if len(hyp_rows) > 1 else nbest.extra_sparse,
        sparse_names=sparse_names,
    )
    return made, old


def distinct_rows(columns: Sequence[Array]) -> tuple[I64, I64]:
    """Give the first place of each distinct row of some columns [n], and which of them each row is [n]."""
    words, sizes = list[I64](), list[int]()  # several columns in a word: a wide table takes memory, and time to compare
    for column in columns:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        if words and sizes[-1] * size < 1 << 62:
            words[-1], sizes[-1] = words[-1] * size + (column - low), sizes[-1] * size
        else:
            words.append(column.astype(np.int64) - low)
            sizes.append(size)
    return unique_rows(np.stack(words, axis=1), np.zeros((len(words[0]), 0), np.int64))


_Taken = tuple[SparseRows, Any, int]  # rows, which of them are taken, and what is added to their indices


def _side_by_side(parts: list[_Taken]) -> SparseRows:
    """Return rows with the entries of all parts; indices of later parts are higher."""
    counts = [np.diff(rows.ptr)[taken] for rows, taken, _ in parts]
    ptr = offsets(np.sum(counts, axis=0))
    idx, val = np.empty(ptr[-1], np.int32), np.empty(ptr[-1])
    start = ptr[:-1].copy()
    for rows, taken, shift in parts:
        _append(frozen(rows.ptr), frozen(rows.idx), frozen(rows.val), frozen(taken.astype(np.int64)), shift, start, idx, val)
    return SparseRows(ptr, idx, val)


@kernel
def _append(ptr, idx, val, taken, shift, start, out_idx, out_val):  # type: ignore[no-untyped-def]
    """OUT the entries of the rows taken, each row's at its start; INOUT start: the end of them."""
    for r in range(len(taken)):
        for k in range(ptr[taken[r]], ptr[taken[r] + 1]):
            out_idx[start[r]], out_val[start[r]] = idx[k] + shift, val[k]
            start[r] += 1
