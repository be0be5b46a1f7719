"""A store of any size written part by part: no more than one part of it is ever in memory."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from boostfeat.core.arrays import I32, Array
from boostfeat.core.files import temporary_folder
from boostfeat.core.strings import Strings, string_buffers
from boostfeat.lists.nbest import NBest, SparseRows, Units
from boostfeat.lists.store import write_store

_PARTS = (
    "units",
    "unit_names",
    "extra_names",
    "sparse_names",
    "quality",
    "notes",
    "meta",
)  # of NBest: what is no column of the corpus


class StoreWriter:
    """``with StoreWriter(path) as writer: writer.append(part)`` for parts of consecutive sentences; the end writes the store.

    Columns grow in files of a temporary folder beside the store and are mapped at the end, so the disk needs twice the store's
    size for a while. Parts have the same feature names. No unit of a part equals one of an earlier part: what occurs again is
    named by ``unit_idx``, positions among the units of all parts so far.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(temporary_folder(self.path.resolve()))
        self._files: dict[str, IO[bytes]] = {}
        self._rows: defaultdict[str, int] = defaultdict(int)  # of each column so far
        self._end: defaultdict[str, int] = defaultdict(int)  # of the offsets so far: where the next part's start
        self._last: NBest | None = None
        self.n_units = 0

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            for file in self._files.values():
                file.close()
            if kind is None:
                if self._last is None:
                    raise ValueError("a store of parts: expected at least one, found none")
                write_store(self._whole(self._last), self.path)
        finally:
            self._stack.close()

    def append(self, part: NBest, unit_idx: I32 | None = None) -> None:
        """Add the next sentences; ``unit_idx`` takes the place of the part's own, which count from its first unit."""
        last = self._last or part
        if (last.unit_names, last.extra_names) != (part.unit_names, part.extra_names):
            raise ValueError("append: expected a part with the features of the first, found others")
        if part.quality.names or part.notes:
            raise ValueError("append: expected a part without quality columns and notes, found some")
        idx = part.unit_idx + np.int32(self.n_units) if unit_idx is None else np.asarray(unit_idx, np.int32)
        self.n_units += part.n_units
        if len(idx) != part.n_occurrences or (len(idx) and not 0 <= idx.min() <= idx.max() < self.n_units):
            raise ValueError(f"append: expected {part.n_occurrences} indices below {self.n_units}, found others")
        for f in fields(NBest):
            if f.name not in _PARTS:
                self._add(f.name, idx if f.name == "unit_idx" else getattr(part, f.name))
        for f in fields(Units):
            self._add("units." + f.name, getattr(part.units, f.name))
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
            np.ascontiguousarray(column).tofile(self._file(name))
        else:
            ptr, data = string_buffers(column)
            self._add(f"{name}.ptr", ptr)
            self._add(f"{name}.data", data[ptr[0] : ptr[-1]])

    def _file(self, name: str) -> IO[bytes]:
        if name not in self._files:
            self._files[name] = open(self._folder / name, "wb")
        return self._files[name]

    def _whole(self, last: NBest) -> NBest:
        """The container of all parts, its arrays mapped."""

        def whole(name: str, like: Any) -> Any:
            if isinstance(like, SparseRows):
                return SparseRows(*(whole(f"{name}.{inner}", getattr(like, inner)) for inner in ("ptr", "idx", "val")))
            if isinstance(like, np.ndarray):
                return self._mapped(name, like)
            return self._strings(name)

        units = Units(**{f.name: whole("units." + f.name, getattr(last.units, f.name)) for f in fields(Units)})
        columns = {f.name: whole(f.name, getattr(last, f.name)) for f in fields(NBest) if f.name not in _PARTS}
        about = {name: getattr(last, name) for name in _PARTS if name != "units"}
        return NBest(units=units, **columns, **about)

    def _mapped(self, name: str, like: Array) -> Array:
        shape = (self._rows[name], *like.shape[1:])
        return np.memmap(self._folder / name, like.dtype, "r", shape=shape) if np.prod(shape) else np.zeros(shape, like.dtype)

    def _strings(self, name: str) -> Strings:
        ptr = self._mapped(f"{name}.ptr", np.zeros(0, np.int64))
        data = self._mapped(f"{name}.data", np.zeros(0, np.uint8))
        return pa.LargeStringArray.from_buffers(len(ptr) - 1, pa.py_buffer(ptr), pa.py_buffer(data))
