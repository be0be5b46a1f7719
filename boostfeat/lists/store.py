"""The store on disk: one Arrow IPC file, memory-mapped on reading.

One row, a column a table, so that a single file holds tables of different lengths and any Arrow reader opens it:

    sentences     list of (id, source, refs, hyps: list of (text, score, stats, units: list of (unit, src, tgt), extra, sparse))
    units         list of (x, sparse, src, tgt, align, src_len, tgt_len, score), each distinct unit once
    sparse_names  list of names

Nested lists are offset arrays in Arrow, which is what NBest is made of: reading copies nothing. Feature names are in the
schema's metadata. With polars: ``pl.read_ipc("DEV.nbest").select(pl.col("units").explode()).unnest("units")``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ..core.arrays import I64, Array
from ..core.compression import COMPRESSORS
from ..core.errors import FormatError, InputError, refuse_newer
from ..core.files import atomic_path, cannot_read, is_special, open_output, read_bytes, read_head
from ..core.overwriting import HEAD, STORE, kind_of, on_read
from ..core.strict_json import parse_json
from ..core.text import Strings, is_whole
from .nbest import NBest, Notes, Qualities, SparseRows, Units, numbers, quality_unit, strings

MAGIC = b"ARROW1"
VERSION = 1
_KIND = "nbest-store"


def write_store(
    nbest: NBest, path: str | Path, *, files: Mapping[int, Path] | None = None, beside: Callable[[], None] = lambda: None
) -> None:
    """Write atomically: ``path`` is the whole store or what it was before. ``beside`` writes what belongs to it, as it appears.

    Columns that are mapped files are copied from ``files`` (by address): written from memory, all their pages would be in use.
    """
    hyps = pa.StructArray.from_arrays(*_columns({
        "text": nbest.text,
        "score": nbest.score,
        "stats": nbest.stats if nbest.has_stats else None,
        "notes": nbest.notes.hyps if len(nbest.notes.hyps) else None,
        "quality": np.hstack([nbest.quality.value, nbest.quality.weight]) if nbest.quality.names else None,
        "units": _lists(nbest.unit_ptr, _struct({"unit": nbest.unit_idx, "src": nbest.src_start, "tgt": nbest.tgt_start})),
        "extra": nbest.extra,
        "sparse": _sparse(nbest.extra_sparse),
    }))  # fmt: skip
    sentences = _struct({
        "id": nbest.ids,
        "source": nbest.source,
        "notes": nbest.notes.sentences if len(nbest.notes.sentences) else None,
        "refs": _lists(nbest.ref_ptr, nbest.refs),
        "hyps": _lists(nbest.hyp_ptr, hyps),
    })  # fmt: skip
    u = nbest.units
    units = _struct({
        "x": u.x,
        "sparse": _sparse(u.sparse),
        "src": u.src,
        "tgt": u.tgt,
        "align": u.align,
        "src_len": u.src_len,
        "tgt_len": u.tgt_len,
        "score": u.score,
    })  # fmt: skip
    row = {
        name: _lists(np.array([0, len(values)]), values)
        for name, values in (("sentences", sentences), ("units", units), ("sparse_names", nbest.sparse_names))
    }
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
    with _sink(path, files or {}) as sink:
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        beside()


class _Counted(io.RawIOBase):
    """A stream that knows its position, which Arrow asks for; /dev/null says 0 for ever."""

    def __init__(self, stream: IO[bytes], files: Mapping[int, Path]) -> None:
        self.stream, self.files, self.at = stream, files, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        file = self.files.get(data.address) if isinstance(data, pa.Buffer) else None
        if file is not None and file.stat().st_size == len(data):
            _copy(file, self.stream)
        else:
            self.stream.write(data)
        self.at += len(data)
        return len(data)

    def tell(self) -> int:
        return self.at


def _copy(path: Path, stream: IO[bytes]) -> None:
    """A file to the end of a stream; where the system can, without a way through this process."""
    with open(path, "rb") as source:
        if sys.platform == "linux" and isinstance(stream, io.BufferedWriter):
            stream.flush()
            while os.sendfile(stream.fileno(), source.fileno(), None, 1 << 30):
                pass
        else:
            shutil.copyfileobj(source, stream, 1 << 20)


def is_mappable(path: str | Path) -> bool:
    """Whether a store that is written there can be mapped: it is a file, and not compressed."""
    return str(path) != "-" and Path(path).suffix not in COMPRESSORS and not is_special(path)


@contextlib.contextmanager
def _sink(path: str | Path, files: Mapping[int, Path]) -> Iterator[Any]:
    if files or not is_mappable(path):
        with open_output(path) as stream:
            yield _Counted(stream, files)
    else:  # Arrow's own file does without a copy of each column
        with atomic_path(path) as temporary, pa.OSFile(os.fsencode(temporary), "wb") as stream:
            yield stream


def read_store(path: str | Path) -> NBest:
    """Open a store: arrays are views of the mapped file. Every offset is checked before anything uses it."""
    where = str(path)
    source = _source(where)
    try:
        reader = pa.ipc.open_file(source)
        metadata = {k.decode(): v.decode() for k, v in (reader.schema.metadata or {}).items()}
        _check_version(where, metadata.get("boostfeat", ""))
        if reader.num_record_batches != 1 or (batch := reader.get_batch(0)).num_rows != 1:
            raise ValueError("expected one row in one batch, found another number")
        batch.validate(full=True)
        return _nbest(batch, metadata)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise FormatError(
            where,
            expected="an intact store",
            found=str(error).splitlines()[0][:200],
            fix="the file is damaged: import the list again",
        ) from None


def _source(where: str) -> Any:
    """The mapped file; what is compressed or comes through a pipe is read into memory."""
    on_read(where)
    try:
        mapped = pa.memory_map(os.fsencode(where)) if where != "-" and os.path.isfile(where) else None
    except OSError as error:
        raise cannot_read(where, error) from None
    if mapped is not None and mapped.read(len(MAGIC)) == MAGIC:
        return mapped
    if (found := kind_of(read_head(where, HEAD))) != STORE:
        raise FormatError(where, expected="a store written by 'boostfeat import'", found=found, fix="import the list first")
    return pa.BufferReader(read_bytes(where))


def _check_version(where: str, tag: str) -> None:
    refuse_newer(where, tag, _KIND, VERSION)
    kind, _, version = tag.partition("/")
    if kind != _KIND or not is_whole(version):
        raise FormatError(
            where, expected=f"a boostfeat {_KIND}", found="an Arrow file of another kind", fix="import the list first"
        )


def _nbest(batch: pa.RecordBatch, metadata: dict[str, str]) -> NBest:
    sentences, units, names = (batch.column(c).values for c in ("sentences", "units", "sparse_names"))
    unit_names, extra_names = (_names(metadata[k]) for k in ("unit_names", "extra_names"))
    meta = parse_json(metadata["meta"])
    if not isinstance(meta, dict):
        raise ValueError("expected an object in meta, found another value")
    hyp_lists, ref_lists = sentences.field("hyps"), sentences.field("refs")
    hyps = hyp_lists.values
    unit_lists = hyps.field("units")
    occurrences = unit_lists.values
    n, v = len(hyps), len(units)
    has_stats = hyps.type.get_field_index("stats") >= 0
    hyp_ptr = _numbers(hyp_lists.offsets, np.int64)
    quality = _quality(hyps, hyp_ptr, metadata["quality"]) if "quality" in metadata else Qualities()
    nbest = NBest(
        ids=_numbers(sentences.field("id"), np.int64),
        source=_text(sentences.field("source")),
        ref_ptr=_numbers(ref_lists.offsets, np.int64),
        refs=_text(ref_lists.values),
        hyp_ptr=hyp_ptr,
        text=_text(hyps.field("text")),
        score=_numbers(hyps.field("score"), np.float64),
        stats=_matrix(hyps, "stats", n if has_stats else 0, 6, np.int32),
        unit_ptr=_numbers(unit_lists.offsets, np.int64),
        unit_idx=_numbers(occurrences.field("unit"), np.int32),
        src_start=_numbers(occurrences.field("src"), np.int32),
        tgt_start=_numbers(occurrences.field("tgt"), np.int32),
        units=Units(
            x=_matrix(units, "x", v, len(unit_names), np.float64),
            sparse=_rows(units.field("sparse")),
            src=_text(units.field("src")),
            tgt=_text(units.field("tgt")),
            align=_text(units.field("align")),
            src_len=_numbers(units.field("src_len"), np.int32),
            tgt_len=_numbers(units.field("tgt_len"), np.int32),
            score=_numbers(units.field("score"), np.float64),
        ),
        unit_names=unit_names,
        extra=_matrix(hyps, "extra", n, len(extra_names), np.float64),
        extra_names=extra_names,
        extra_sparse=_rows(hyps.field("sparse")),
        sparse_names=_text(names),
        quality=quality,
        notes=Notes(
            *(_text(t.field("notes")) if t.type.get_field_index("notes") >= 0 else strings([]) for t in (sentences, hyps))
        ),
        meta=meta,
    )
    _check_values(nbest)
    return nbest


def _check_values(nbest: NBest) -> None:
    """Check the places and counts that the container takes on trust. Sums of two of them do not overflow."""
    u, most = nbest.units, 1 << 30
    for name, column, low, high in (
        ("ids", nbest.ids, 0, 1 << 62),
        ("src_start", nbest.src_start, -1, most),
        ("tgt_start", nbest.tgt_start, -1, most),
        ("src_len", u.src_len, -1, most),
        ("tgt_len", u.tgt_len, -1, most),
        ("stats", nbest.stats, 0, most),
    ):
        least, largest = column.min(initial=0), column.max(initial=0)
        if least < low or largest >= high:
            raise ValueError(f"{name}: expected numbers from {low} to {high - 1}, found {least if least < low else largest}")
    if (np.diff(nbest.ids) <= 0).any():
        raise ValueError("ids: expected numbers that rise, found some that do not")


def _names(text: str) -> tuple[str, ...]:
    names = parse_json(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("expected a list of names, found another value")
    return tuple(names)


def _quality(hyps: pa.StructArray, hyp_ptr: I64, text: str) -> Qualities:
    """Read the quality columns; a store of release 0.2 or older has no units of theirs within lists."""
    about = parse_json(text)
    names, lower = _names(json.dumps(about["names"])), about["lower"]
    both = _matrix(hyps, "quality", len(hyps), 2 * len(names), np.float64)
    if not np.isfinite(both).all():
        raise ValueError("expected finite numbers in quality columns, found others")
    value, weight = both[:, : len(names)], both[:, len(names) :]
    unit = about.get("within_lists") or [quality_unit(value[:, k], weight[:, k], hyp_ptr) for k in range(len(names))]
    fine = all(isinstance(low, bool) for low in lower) and all(isinstance(u, float) and 0 < u < inf for u in unit)
    if not len(lower) == len(unit) == len(names) == len(set(names)) or not fine:
        raise ValueError("expected a name, a direction and a unit of each quality column, found another value")
    return Qualities(names, tuple(lower), tuple(unit), value, weight)


def _columns(columns: dict[str, Any]) -> tuple[list[pa.Array], list[str]]:
    """Arrow columns of numpy or Arrow ones; matrices become fixed-size lists, those without columns are left out."""
    arrays, names = [], []
    for name, column in columns.items():
        if column is None:
            continue
        if isinstance(column, np.ndarray):
            flat, width = numbers(np.ascontiguousarray(column).reshape(-1)), column.shape[1:]
            if 0 in width:
                continue
            column = pa.FixedSizeListArray.from_arrays(flat, *width) if width else flat
        arrays.append(column)
        names.append(name)
    return arrays, names


def _struct(columns: dict[str, Any]) -> pa.StructArray:
    return pa.StructArray.from_arrays(*_columns(columns))


def _lists(ptr: Array, values: pa.Array) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(numbers(np.asarray(ptr, np.int64)), values)


def _sparse(rows: SparseRows) -> pa.LargeListArray:
    return _lists(rows.ptr, _struct({"name": rows.idx, "value": rows.val}))


def _numbers(column: pa.Array, dtype: Any) -> Any:
    if column.type != pa.from_numpy_dtype(dtype) or column.null_count:
        raise ValueError(f"expected a column of {np.dtype(dtype)} without nulls, found {column.type}")
    return column.to_numpy(zero_copy_only=True)


def _matrix(table: pa.StructArray, name: str, n: int, width: int, dtype: Any) -> Any:
    if width == 0 or n == 0:
        return np.zeros((n, width), dtype)
    column = table.field(name)
    if not pa.types.is_fixed_size_list(column.type) or column.type.list_size != width or column.null_count:
        raise ValueError(f"expected {width} values in each {name}, found {column.type}")
    return _numbers(column.values, dtype)[column.offset * width :][: n * width].reshape(n, width)


def _text(column: pa.Array) -> Strings:
    if column.type != pa.large_string() or column.null_count:
        raise ValueError(f"expected a column of strings without nulls, found {column.type}")
    return column


def _rows(column: pa.Array) -> SparseRows:
    pairs = column.values
    return SparseRows(
        _numbers(column.offsets, np.int64), _numbers(pairs.field("name"), np.int32), _numbers(pairs.field("value"), np.float64)
    )
