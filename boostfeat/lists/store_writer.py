"""A store of any size written part by part: no more than one part of it is ever in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ..core.arrays import I32, I64, Array
from ..core.files import temporary_folder
from ..core.strings import Strings, string_buffers
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
