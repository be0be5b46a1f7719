"""A store of any size written part by part: no more than one part of it is ever in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ..core.arrays import I32, I64, Array, Bool, _mix
from ..core.files import temporary_folder
from ..core.kernels import kernel
from ..core.text import Strings, string_buffers
from .nbest import NBest, Notes, Qualities, SparseRows, Units
from .store import write_store

_NAMES = ("unit_names", "extra_names", "sparse_names", "meta")  # of NBest: what all parts have in common
_NESTED = {"units": Units, "quality": Qualities, "notes": Notes}  # columns of these are columns of the corpus


class StoreWriter:
    """``with StoreWriter(path) as writer: writer.append(part)`` for parts of consecutive sentences; the end writes the store.

    Columns grow in files of a temporary folder beside the store, which are put together at the end, so the disk needs twice the
    store's size for a while. Parts have the same feature names; the store has the meta of the last one. No unit of a part equals
    one of an earlier part: what occurs again is named by ``unit_idx``, positions among the units of all parts so far.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stack = ExitStack()
        self.folder = self._stack.enter_context(temporary_folder(self.path.resolve()))
        self._files: dict[str, IO[bytes]] = {}
        self._rows: defaultdict[str, int] = defaultdict(int)  # of each column so far
        self._end: defaultdict[str, int] = defaultdict(int)  # of the offsets so far: where the next part's start
        self._last: NBest | None = None
        self.n_units = 0
        self.beside: Callable[[], None] = lambda: None  # writes what belongs to the store, as it appears

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._stack:  # which says what a full disk means
            for file in self._files.values():
                with suppress(OSError) if error else nullcontext():
                    file.close()
            if error:
                raise error
            if self._last is None:
                raise ValueError("a store of parts: expected at least one, found none")
            at: dict[int, Path] = {}
            write_store(self._whole(self._last, at), self.path, files=at, beside=self.beside)

    def append(self, part: NBest, unit_idx: I32 | None = None, fresh: I64 | None = None) -> None:
        """Add the next sentences; ``unit_idx`` takes the place of the part's own, which count from its first unit.

        Of the part's units, ``fresh`` are those that no earlier part has; None: all of them.
        """
        last = self._last or part
        if (last.unit_names, last.extra_names, last.quality.names) != (part.unit_names, part.extra_names, part.quality.names):
            raise ValueError("append: expected a part with the features of the first, found others")
        idx = part.unit_idx + np.int32(self.n_units) if unit_idx is None else np.asarray(unit_idx, np.int32)
        units = part.units if fresh is None or len(fresh) == part.n_units else part.units.take(fresh)
        self.n_units += len(units)
        if len(idx) != part.n_occurrences or (len(idx) and not 0 <= idx.min() <= idx.max() < self.n_units):
            raise ValueError(f"append: expected {part.n_occurrences} indices below {self.n_units}, found others")
        for name, column in _columns(part, units):
            self._add(name, idx if name == "unit_idx" else column)
        self._last = part

    def _add(self, name: str, column: Any) -> None:
        if isinstance(column, SparseRows):
            for inner in ("ptr", "idx", "val"):
                self._add(f"{name}.{inner}", getattr(column, inner))
        elif isinstance(column, np.ndarray):
            if name.endswith("ptr"):
                column = column - column[0] + self._end[name]
                self._end[name] = int(column[-1])
                column = column[1:] if name in self._files else column
            self._rows[name] += len(column)
            self._file(name).write(np.ascontiguousarray(column).data)
        else:
            ptr, data = string_buffers(column)
            self._add(f"{name}.ptr", ptr)
            self._add(f"{name}.data", data[ptr[0] : ptr[-1]])

    def _file(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = open(self.folder / name, "wb")
        return self._files[name]

    def _whole(self, last: NBest, at: dict[int, Path]) -> NBest:
        """The container of all parts, its arrays mapped; OUT at: the file of each by its address."""

        def whole(name: str, like: Any) -> Any:
            if isinstance(like, SparseRows):
                return SparseRows(*(whole(f"{name}.{inner}", getattr(like, inner)) for inner in ("ptr", "idx", "val")))
            return self._mapped(name, like, at) if isinstance(like, np.ndarray) else self._strings(name, at)

        found = {name: whole(name, column) for name, column in _columns(last, last.units)}
        nested = {
            name: replace(getattr(last, name), **{k.partition(".")[2]: v for k, v in found.items() if k.startswith(name + ".")})
            for name in _NESTED
        }
        return replace(last, **{name: column for name, column in found.items() if "." not in name}, **nested)

    def _mapped(self, name: str, like: Array, at: dict[int, Path]) -> Array:
        shape = (self._rows[name], *like.shape[1:])
        if not np.prod(shape):
            return np.zeros(shape, like.dtype)
        column = np.memmap(self.folder / name, like.dtype, "r", shape=shape)
        at[column.ctypes.data] = self.folder / name
        return column

    def _strings(self, name: str, at: dict[int, Path]) -> Strings:
        ptr = self._mapped(f"{name}.ptr", np.zeros(0, np.int64), at)
        data = self._mapped(f"{name}.data", np.zeros(0, np.uint8), at)
        return pa.LargeStringArray.from_buffers(len(ptr) - 1, pa.py_buffer(ptr), pa.py_buffer(data))


def _columns(part: NBest, units: Units) -> list[tuple[str, Any]]:
    """(name, column) of all that grows with the corpus; "units.x" for a column of the units."""
    own = [(f.name, getattr(part, f.name)) for f in fields(NBest) if f.name not in _NAMES and f.name not in _NESTED]
    for name, kind in _NESTED.items():
        inner = units if name == "units" else getattr(part, name)
        own += [(f"{name}.{f.name}", getattr(inner, f.name)) for f in fields(kind)]
    return [(name, column) for name, column in own if not isinstance(column, tuple)]


# ---------------------------------------------------------------------------------------------------------------------
# Numbers of distinct units over runs of sentences: which of a run's units are new, and which came up runs ago
# ---------------------------------------------------------------------------------------------------------------------

SEEDS = np.array([1469598103934665603, 11400714819323198485], np.uint64)
FULL = 0.6  # share of a table's places that may be taken


def in_several_runs(nbest: NBest, runs: Iterable[tuple[int, int]]) -> Bool:
    """[V] units that more than one run (first, last) of sentences has."""
    last_run, several = np.full(nbest.n_units, -1, np.int32), np.zeros(nbest.n_units, bool)
    for r, (first, last) in enumerate(runs):
        start, end = nbest.unit_ptr[nbest.hyp_ptr[[first, last]]]
        idx = nbest.unit_idx[start:end]
        several[idx[(last_run[idx] >= 0) & (last_run[idx] < r)]] = True
        last_run[idx] = r
    return several


class UnitNumbers:
    """Gives the units of runs, one run after the other, the numbers that they would have in one list: by first use.

    Units that are distinct within a run may equal those of an earlier one, but only where they were one unit before they were
    given more features (``several``: those of more than one run). Of these, hashes of 128 bits are kept and not the features.
    """

    def __init__(self, several: Bool) -> None:
        self.several, self.n = several, 0
        self._table = np.zeros((1 << 10, 3), np.uint64)  # hash, hash, number + 1; 0: an empty place
        self._taken = 0

    def number(self, units: Units, before: I64) -> tuple[I64, I32]:
        """Return which units [n] of the next run are new, and the numbers of all; ``before`` [n] are the units that they were."""
        numbers = np.full(len(units), -1, np.int64)
        again = np.flatnonzero(self.several[before])
        hashes = row_hashes(units, before, again)
        known = np.full(len(again), -1, np.int64)
        _visit(self._table, hashes, known)
        numbers[again] = known
        fresh = np.flatnonzero(numbers < 0)
        numbers[fresh] = self.n + np.arange(len(fresh))
        self.n += len(fresh)
        self._grow(len(again))
        _visit(self._table, hashes, numbers[again])
        self._taken += int((known < 0).sum())
        return fresh, numbers.astype(np.int32)

    def _grow(self, more: int) -> None:
        """Grow the table for so many more units."""
        size = len(self._table)
        while self._taken + more > FULL * size:
            size *= 2
        if size > len(self._table):
            old = self._table[self._table[:, 2] > 0]
            self._table = np.zeros((size, 3), np.uint64)
            _visit(self._table, np.ascontiguousarray(old[:, :2]), old[:, 2].astype(np.int64) - 1)


def row_hashes(units: Units, before: I64, rows: I64) -> Array:
    """[len(rows), 2] of some units: of all their features, and of the units that they were."""
    out = np.empty((len(rows), 2), np.uint64)
    own = units.sparse
    x, val = np.ascontiguousarray(units.x).view(np.uint64), own.val.view(np.uint64)
    _hash_rows(x, own.ptr, own.idx, val, before, rows, SEEDS, out)
    return out


@kernel
def _hash_rows(x, ptr, idx, val, before, rows, seeds, out):  # type: ignore[no-untyped-def]
    """IN x[V, D], val (words of 8 bytes), sparse rows, before[V]; OUT out[n, 2]."""
    for k in range(len(rows)):
        r = rows[k]
        for side in range(2):
            h = _mix(seeds[side], np.uint64(before[r]))
            for j in range(x.shape[1]):
                h = _mix(h, x[r, j])
            for i in range(ptr[r], ptr[r + 1]):
                h = _mix(_mix(h, np.uint64(idx[i])), val[i])
            out[k, side] = h


@kernel
def _visit(table, hashes, numbers):  # type: ignore[no-untyped-def]
    """IN/OUT table[size, 3], numbers[n]: -1 becomes the number that the table has, if it has one; others are put in."""
    mask = np.uint64(len(table) - 1)
    for k in range(len(hashes)):
        at = (hashes[k, 0] ^ (hashes[k, 0] >> np.uint64(32))) & mask
        while table[at, 2] and (table[at, 0] != hashes[k, 0] or table[at, 1] != hashes[k, 1]):
            at = (at + np.uint64(1)) & mask
        if table[at, 2]:
            numbers[k] = np.int64(table[at, 2]) - 1
        elif numbers[k] >= 0:
            table[at, 0], table[at, 1], table[at, 2] = hashes[k, 0], hashes[k, 1], np.uint64(numbers[k] + 1)
