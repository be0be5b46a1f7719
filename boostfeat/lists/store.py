"""The store on disk: one Arrow IPC file, memory-mapped on reading; and a store of any size, written part by part.

One row, a column a table, so that a single file holds tables of different lengths and any Arrow reader opens it (``LAYOUT``).
Nested lists are offset arrays in Arrow, which is what NBest is made of: reading copies nothing. Feature names are in the
schema's metadata. With polars: ``pl.read_ipc("DEV.nbest").select(pl.col("units").explode()).unnest("units")``.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from hashlib import blake2b
from itertools import pairwise
from math import inf
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from ..core.arrays import I32, I64, Array, Bool
from ..core.compression import COMPRESSORS
from ..core.errors import FormatError, InputError, refuse_newer
from ..core.files import by_numbers, cannot_read, is_special, open_output, read_bytes, read_head, temporary_folder
from ..core.overwriting import HEAD, STORE, kind_of, on_map, on_read
from ..core.strict_json import parse_json, typed
from ..core.text import is_whole, string_buffers
from .merging import stack
from .nbest import NBest, Qualities, Units, columns, quality_unit, string_column, strings, with_columns

MAGIC = b"ARROW1"
VERSION = 1
_KIND = "nbest-store"
_FIX = "the file is damaged: import the list again"
T = TypeVar("T")

Layout = str | tuple[str, Any] | dict[str, Any]  # a column; (offsets, what a list holds); {field: what it holds}


def _sparse(rows: str) -> Layout:
    return f"{rows}.ptr", {"name": f"{rows}.idx", "value": f"{rows}.val"}


# The tables of a store, and the columns of the container (see ``columns``) that they are. Each distinct unit is there once.
LAYOUT: dict[str, Layout] = {
    "sentences": {
        "id": "ids",
        "source": "source",
        "notes": "notes.sentences",
        "refs": ("ref_ptr", "refs"),
        "hyps": (
            "hyp_ptr",
            {
                "text": "text",
                "score": "score",
                "stats": "stats",
                "notes": "notes.hyps",
                "quality": "quality",  # values, then weights
                "units": ("unit_ptr", {"unit": "unit_idx", "src": "src_start", "tgt": "tgt_start"}),
                "extra": "extra",
                "sparse": _sparse("extra_sparse"),
            },
        ),
    },
    "units": {
        "x": "units.x",
        "sparse": _sparse("units.sparse"),
        **{name: f"units.{name}" for name in ("src", "tgt", "align", "src_len", "tgt_len", "score")},
    },
    "sparse_names": "sparse_names",
}
_LIKE = columns(NBest.bare(np.zeros(1, np.int64), strings([]))) | {"quality": np.zeros((0, 0))}  # kinds of columns


# ---------------------------------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------------------------------


def write_store(
    nbest: NBest, path: str | Path, *, files: Mapping[int, Path] | None = None, beside: Callable[[], None] = lambda: None
) -> None:
    """Write atomically: ``path`` is the whole store or what it was before. ``beside`` writes what belongs to it, as it appears.

    Columns that are mapped files are copied from ``files`` (by address): written from memory, all their pages would be in use.
    """
    own = columns(nbest)
    own["stats"] = nbest.stats if nbest.has_stats else None
    own["quality"] = np.hstack([nbest.quality.value, nbest.quality.weight]) if nbest.quality.names else None
    own |= {name: None for name in ("notes.sentences", "notes.hyps") if not len(own[name])}
    row = {}
    for name, layout in LAYOUT.items():
        table = _to_arrow(layout, own)
        row[name] = _lists(np.array([0, len(table)]), table)
    metadata = {
        "boostfeat": f"{_KIND}/{VERSION}",
        "unit_names": json.dumps(nbest.unit_names),
        "extra_names": json.dumps(nbest.extra_names),
        "meta": json.dumps(nbest.meta),
    }
    if nbest.quality.names:
        about = {"names": nbest.quality.names, "lower": nbest.quality.lower, "within_lists": nbest.quality.unit}
        metadata["quality"] = json.dumps(about)
    batch = pa.record_batch(row).replace_schema_metadata(metadata)
    with open_output(path) as stream:
        with pa.ipc.new_file(_CountingStream(stream, files or {}), batch.schema) as writer:
            writer.write_batch(batch)
        beside()


def _to_arrow(layout: Layout, own: Mapping[str, Any]) -> Any:
    """Return columns of a container as an Arrow array; None for what there is none of, or a matrix without columns."""
    if isinstance(layout, tuple):
        return _lists(own[layout[0]], _to_arrow(layout[1], own))
    if isinstance(layout, dict):
        inside = {name: array for name, inner in layout.items() if (array := _to_arrow(inner, own)) is not None}
        return pa.StructArray.from_arrays(list(inside.values()), list(inside))
    column = own[layout]
    if not isinstance(column, np.ndarray):
        return column
    flat, width = pa.array(np.ascontiguousarray(column).reshape(-1)), column.shape[1:]
    return None if 0 in width else pa.FixedSizeListArray.from_arrays(flat, *width) if width else flat


def _lists(ptr: Array, values: pa.Array) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(ptr, pa.int64()), values)


class _CountingStream(io.RawIOBase):
    """A stream that knows its position, which Arrow asks for; /dev/null says 0 for ever."""

    def __init__(self, stream: IO[bytes], files: Mapping[int, Path]) -> None:
        self.stream, self.files, self.at = stream, files, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        file = self.files.get(data.address) if isinstance(data, pa.Buffer) else None
        if file is not None and file.stat().st_size == len(data):
            with open(file, "rb") as source:
                shutil.copyfileobj(source, self.stream, 1 << 20)
        else:
            self.stream.write(data)
        self.at += len(data)
        return len(data)

    def tell(self) -> int:
        return self.at


def is_mappable(path: str | Path) -> bool:
    """Whether a store that is written there can be mapped: it is a file, and not compressed."""
    return str(path) != "-" and Path(path).suffix not in COMPRESSORS and not is_special(path)


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def read_store(path: str | Path) -> NBest:
    """Open a store: arrays are views of the mapped file. Every offset is checked before anything uses it.

    A folder of stores is one list, whose sentences are those of one part after the other; it is put together in memory.
    """
    if not os.path.isdir(path):
        return _read_file(path)
    files = parts_of(path)
    if not files:
        raise InputError(f"{path}: expected a store, or a folder with parts of one (*.nbest), found none; import the list first")
    parts = [_read_file(file) for file in files]
    check_parts(files, parts)
    return stack(parts)


PART_NAME = "part-{:05d}-of-{:05d}.nbest"
_OF = re.compile(r"-of-([0-9]+)\.nbest$")


def parts_of(path: str | Path) -> list[Path]:
    """Return the stores in a folder, in the order of the numbers in their names; none where it is a file.

    Where names say how many there are (``PART_NAME``), all have to be there.
    """
    files = sorted(Path(path).glob("*.nbest"), key=lambda file: by_numbers(file.name)) if os.path.isdir(path) else []
    for wanted in (int(of[1]) for file in files if (of := _OF.search(file.name))):
        if wanted != len(files):
            raise InputError(f"{path}: expected {wanted} parts, as their names say, found {len(files)}; copy the folder again")
    return files


def ends_of(part: NBest) -> NBest:
    """Return the first and the last sentence, which show whether parts go together."""
    return part.take(np.unique([0, len(part) - 1]) if len(part) else slice(0))


def check_parts(files: Sequence[Path], parts: Sequence[NBest]) -> None:
    """Raise where no list has these parts: sentences that are there twice, or references that some lack."""
    for (file, part), (other, after) in pairwise(zip(files, parts, strict=True)):
        if len(part) and len(after) and after.ids[0] <= part.ids[-1]:
            raise InputError(
                f"{other}: expected sentences after {part.ids[-1]}, the last of {file.name}, found {after.ids[0]}; parts are "
                "in the order of their names, and no sentence is in two of them"
            )
        if part.has_stats != after.has_stats:
            lacks, has = (file, other) if after.has_stats else (other, file)
            raise InputError(f"{lacks}: expected references, as {has.name} has them, found none; import all parts with -r")


def _read_file(path: str | Path) -> NBest:
    where = str(path)
    try:
        first, *others = pa.ipc.MessageReader.open_stream(_source(where))
        schema = pa.ipc.read_schema(first)
        metadata = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()}
        _check_version(where, metadata.get("boostfeat", ""))
        if [message.type for message in others] != ["record batch"] or _is_compressed(others[0].metadata.to_pybytes()):
            raise ValueError("expected one row in one batch that is not compressed, found others")
        if (batch := pa.ipc.read_record_batch(others[0], schema)).num_rows != 1:
            raise ValueError("expected one row in one batch, found another number")
        batch.validate(full=True)
        return _nbest(batch, metadata, where)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise FormatError(where, expected="an intact store", found=str(error).splitlines()[0][:200], fix=_FIX) from None


def _source(where: str) -> Any:
    """The mapped file; what is compressed or comes through a pipe is read into memory."""
    is_file = where != "-" and os.path.isfile(where)
    (on_map if is_file else on_read)(where)
    try:
        mapped = pa.memory_map(os.fsencode(where)) if is_file else None
    except OSError as error:
        raise cannot_read(where, error) from None
    if mapped is not None and mapped.read(len(MAGIC)) == MAGIC:
        return _at_columns(mapped)
    if (found := kind_of(read_head(where, HEAD))) != STORE:
        raise FormatError(where, expected="a store written by 'boostfeat import'", found=found, fix="import the list first")
    return _at_columns(pa.BufferReader(read_bytes(where)))


def _at_columns(file: Any) -> Any:
    """Return a whole file of Arrow with what it begins with read: a stream of messages follows."""
    file.seek(file.size() - len(MAGIC))
    if file.read() != MAGIC:
        raise ValueError("expected a file that ends as it begins, found one that was cut")
    file.seek(8)
    return file


def _is_compressed(message: bytes) -> bool:
    """Tell by the flatbuffer of a batch's message whether its columns are compressed: nothing bounds what they grow to.

    Field 2 of the message is the batch, field 3 of that its compression (Arrow's format/Message.fbs).
    """

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(message[at : at + size], "little", signed=True)

    def field(table: int, k: int) -> int:
        """Return the place of a field, the table's own where it has none."""
        fields = table - number(table)
        return table + (number(fields + 4 + 2 * k, 2) if number(fields, 2) > 4 + 2 * k else 0)

    header = field(number(0), 2)
    batch = header + number(header)
    return field(batch, 3) != batch


def _check_version(where: str, tag: str) -> None:
    refuse_newer(where, tag, _KIND, VERSION)
    kind, _, version = tag.partition("/")
    if kind != _KIND or not is_whole(version):
        raise FormatError(
            where, expected=f"a boostfeat {_KIND}", found="an Arrow file of another kind", fix="import the list first"
        )


class _About(msgspec.Struct):
    """Quality columns of a store: names, directions and units, which stores of release 0.2 and older do not have."""

    names: tuple[str, ...] = ()
    lower: tuple[bool, ...] = ()
    within_lists: tuple[float, ...] = ()


def _nbest(batch: pa.RecordBatch, metadata: dict[str, str], where: str) -> NBest:
    def told(name: str, shape: type[T], text: str) -> T:
        return typed(parse_json(text), shape, f"{where}: {name}", fix=_FIX)

    own: dict[str, Any] = {"stats": np.zeros((0, 6), np.int32)}
    for name, layout in LAYOUT.items():
        _from_arrow(layout, batch.column(name).values, own)
    for name, rows in (("extra", "score"), ("units.x", "units.score")):
        own.setdefault(name, np.zeros((len(own[rows]), 0)))
    own |= {name: tuple(told(name, list[str], metadata[name])) for name in ("unit_names", "extra_names")}
    about = told("quality", _About, metadata.get("quality", "{}"))
    own |= columns(_quality(about, own.pop("quality", np.zeros((0, 0))), own["hyp_ptr"]), "quality.")
    own["meta"] = told("meta", dict[str, Any], metadata["meta"])
    nbest = with_columns(NBest.bare(np.zeros(1, np.int64), strings([])), own)
    _check_values(nbest)
    return nbest


def _from_arrow(layout: Layout, column: pa.Array, own: dict[str, Any]) -> None:
    """OUT own: the columns of a container that an Arrow array is."""
    if isinstance(layout, tuple):
        own[layout[0]] = _checked(layout[0], column.offsets)
        _from_arrow(layout[1], column.values, own)
    elif isinstance(layout, dict):
        for name, inner in layout.items():
            if column.type.get_field_index(name) >= 0:
                _from_arrow(inner, column.field(name), own)
    elif pa.types.is_fixed_size_list(column.type) and _LIKE[layout].ndim == 2 and not column.null_count:
        own[layout] = _checked(layout, column.flatten()).reshape(-1, column.type.list_size)
    else:
        own[layout] = _checked(layout, column)


def _checked(name: str, column: pa.Array) -> Any:
    like = _LIKE[name]
    is_numbers = isinstance(like, np.ndarray)
    if column.type != (pa.from_numpy_dtype(like.dtype) if is_numbers else pa.large_string()) or column.null_count:
        kind = like.dtype if is_numbers else "strings"
        raise ValueError(f"{name}: expected a column of {kind} without nulls, found {column.type}")
    return column.to_numpy(zero_copy_only=True) if is_numbers else column


def _quality(about: _About, both: Array, hyp_ptr: I64) -> Qualities:
    n = len(about.names)
    if both.shape[1] != 2 * n:
        raise ValueError(f"expected {2 * n} values in each quality, found {both.shape[1]}")
    if not np.isfinite(both).all():
        raise ValueError("expected finite numbers in quality columns, found others")
    value, weight = both[:, :n], both[:, n:]
    units = about.within_lists or tuple(quality_unit(value[:, k], weight[:, k], hyp_ptr) for k in range(n))
    if not n == len(set(about.names)) == len(about.lower) == len(units) or not all(0 < unit < inf for unit in units):
        raise ValueError("expected a name, a direction and a unit of each quality column, found another value")
    return Qualities(about.names, about.lower, units, value, weight)


def _check_values(nbest: NBest) -> None:
    """Check the places and counts that the container takes on trust. Sums of two of them do not overflow."""
    own, most = columns(nbest), 1 << 30
    for name, low, high in (
        ("ids", 0, 1 << 62),
        ("src_start", -1, most),
        ("tgt_start", -1, most),
        ("units.src_len", -1, most),
        ("units.tgt_len", -1, most),
        ("stats", 0, most),
    ):
        least, largest = own[name].min(initial=0), own[name].max(initial=0)
        if least < low or largest >= high:
            raise ValueError(f"{name}: expected numbers from {low} to {high - 1}, found {least if least < low else largest}")
    if (np.diff(nbest.ids) <= 0).any():
        raise ValueError("ids: expected numbers that rise, found some that do not")


# ---------------------------------------------------------------------------------------------------------------------
# Part by part: no more than one part is ever in memory
# ---------------------------------------------------------------------------------------------------------------------


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
            files: dict[int, Path] = {}
            whole = {name: self._whole(name, column, files) for name, column in _growing(columns(self._last)).items()}
            write_store(with_columns(self._last, whole), self.path, files=files, beside=self.beside)

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
        for name, column in _growing({**columns(part), **columns(units, "units."), "unit_idx": idx}).items():
            self._add(name, column)
        self._last = part

    def _add(self, name: str, column: Any) -> None:
        if not isinstance(column, np.ndarray):
            ptr, data = string_buffers(column)
            self._add(f"{name}.ptr", ptr)
            self._add(f"{name}.data", data[ptr[0] : ptr[-1]])
            return
        if name.endswith("ptr"):
            column = column - column[0] + self._end[name]
            self._end[name] = int(column[-1])
            column = column[1:] if name in self._files else column
        self._rows[name] += len(column)
        if name not in self._files:
            self._files[name] = open(self.folder / name, "wb")
        self._files[name].write(np.ascontiguousarray(column).data)

    def _whole(self, name: str, like: Any, files: dict[int, Path]) -> Any:
        """Return a column of all parts, mapped; OUT files: its file by its address."""
        if not isinstance(like, np.ndarray):
            ptr = self._whole(f"{name}.ptr", np.zeros(0, np.int64), files)
            data = self._whole(f"{name}.data", np.zeros(0, np.uint8), files)
            return string_column(ptr, data)
        shape = (self._rows[name], *like.shape[1:])
        if not np.prod(shape):
            return np.zeros(shape, like.dtype)
        column = np.memmap(self.folder / name, like.dtype, "r", shape=shape)
        files[column.ctypes.data] = self.folder / name
        return column


def _growing(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that grow with the corpus; names are the same in all parts."""
    return {name: column for name, column in own.items() if not isinstance(column, tuple | dict) and name != "sparse_names"}


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
        self._known: dict[bytes, int] = {}

    def number(self, units: Units, before: I64) -> tuple[I64, I32]:
        """Return which units [n] of the next run are new, and the numbers of all; ``before`` [n] are the units that they were."""
        again = np.flatnonzero(self.several[before]).tolist()
        hashes = {r: _hash(units, r, int(before[r])) for r in again}
        out = np.full(len(units), -1, np.int64)
        out[again] = [self._known.get(key, -1) for key in hashes.values()]
        fresh = np.flatnonzero(out < 0)
        out[fresh] = self.n + np.arange(len(fresh))
        self._known |= zip(hashes.values(), out[again].tolist(), strict=True)
        self.n += len(fresh)
        return fresh, out.astype(np.int32)


def _hash(units: Units, r: int, before: int) -> bytes:
    """Return 16 bytes for a unit: of all its features, and of the unit that it was."""
    rows = units.sparse
    entries = slice(rows.ptr[r], rows.ptr[r + 1])
    parts = units.x[r].tobytes(), rows.idx[entries].tobytes(), rows.val[entries].tobytes()
    return blake2b(b"".join(parts) + before.to_bytes(8, "little"), digest_size=16).digest()
