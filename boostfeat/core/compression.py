"""Compressed data: known by its first bytes, written by the ending of a name, and bounded in what it may become."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable
from typing import IO, Any, BinaryIO

import pyarrow as pa
import zstandard

from .errors import FormatError, InputError, clip

_PIECE = 1 << 16  # compressed bytes that are read at once


class _Streams(io.RawIOBase):
    """One compressed stream after another, and zero bytes that pad them; what follows and is no stream is an error.

    Python's own files of xz and bzip2 take that for the end of the data.
    """

    def __init__(self, raw: BinaryIO, decompressor: Callable[[], Any]) -> None:
        self.raw, self.decompressor, self.stream = raw, decompressor, decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        data = more = b""
        while not data:
            if self.stream.eof:
                if not (more := self._after_stream()):
                    return 0
                self.stream = self.decompressor()
            elif self.stream.needs_input and not (more := self.raw.read(_PIECE)):
                raise EOFError("the data ends inside a stream")
            data, more = self.stream.decompress(more, len(room)), b""
        room[: len(data)] = data
        return len(data)

    def _after_stream(self) -> bytes:
        """Return the first bytes of the next stream, b"" at the end of the file."""
        more: bytes = self.stream.unused_data or self.raw.read(_PIECE)
        while more and not (begin := more.lstrip(b"\0")):
            more = self.raw.read(_PIECE)
        return begin if more else b""


# The content decides, not the name: a renamed .gz is read as what it is.
DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lambda raw: io.BufferedReader(_Streams(raw, lzma.LZMADecompressor), _PIECE),
    b"BZh": lambda raw: io.BufferedReader(_Streams(raw, bz2.BZ2Decompressor), _PIECE),
    b"\x28\xb5\x2f\xfd": lambda raw: pa.CompressedInputStream(raw, "zstd"),  # zstandard's takes a cut frame for the end
}

# A .gz holds no name and no time: the same content is the same bytes.
COMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda raw: gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0),
    ".xz": lambda raw: lzma.LZMAFile(raw, "wb", preset=3),
    ".bz2": lambda raw: bz2.BZ2File(raw, "wb"),
    ".zst": lambda raw: zstandard.ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False),
}


# A file may be decompressed to so many times its size, and to FREE_BYTES in any case. Real lists, graphs and tables (gzip, xz)
# were 4.5 to 41 times as large when measured; what is made to fill a machine is 1,000 times (gzip) and far more (the others).
MAX_EXPANSION = 250
FREE_BYTES = 1 << 28
EXPANSION_VARIABLE = "BOOSTFEAT_MAX_EXPANSION"


def check_growth(name: str, n: int, size: int) -> None:
    """Raise where n decompressed bytes are too many for ``size`` compressed ones."""
    if n > FREE_BYTES and n > (factor := _max_expansion()) * size:
        raise FormatError(
            f"{name}: after {n} bytes of decompressed data",
            expected=f"at most {factor:g} times the compressed data",
            found=f"more than that from {size} bytes",
            fix=f"if the file is to be trusted, set {EXPANSION_VARIABLE}={factor * 10:g}",
        )


def _max_expansion() -> float:
    text = os.environ.get(EXPANSION_VARIABLE, str(MAX_EXPANSION))
    try:
        if (factor := float(text)) >= 1:
            return factor
    except ValueError:
        pass
    raise InputError(f"{EXPANSION_VARIABLE}: expected a number from 1, found {clip(text)}; unset it for {MAX_EXPANSION}")
