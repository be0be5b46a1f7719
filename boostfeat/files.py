"""Input that may be compressed or standard input; output that is whole or absent."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import os
import queue
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, BinaryIO

from .errors import FormatError, InputError

CHUNK_BYTES = 1 << 22


def _open_zstd(raw: BinaryIO) -> BinaryIO:
    import zstandard

    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))


# The content decides, not the name: a renamed .gz is read as what it is.
DECOMPRESSORS: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda raw: gzip.GzipFile(fileobj=raw)),
    b"\xfd7zXZ\x00": ("xz", lambda raw: lzma.LZMAFile(raw)),
    b"BZh": ("bzip2", lambda raw: bz2.BZ2File(raw)),
    b"\x28\xb5\x2f\xfd": ("zstd", _open_zstd),
}

COMPRESSORS: dict[str, Callable[[str], Any]] = {
    ".gz": lambda path: gzip.GzipFile(path, "wb", compresslevel=6, mtime=0),
    ".xz": lambda path: lzma.LZMAFile(path, "wb", preset=3),
    ".bz2": lambda path: bz2.BZ2File(path, "wb"),
    ".zst": lambda path: _zstd_writer(path),
}


def _zstd_writer(path: str) -> IO[bytes]:
    import zstandard

    return zstandard.open(path, "wb")


# Called while a file is read: its name, the decompressed bytes so far, and its size on disk (0 for standard input).
on_progress: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("on_progress", default=None)


def _decompressed(raw: Any) -> Any:
    """The stream itself, or what it holds if it is compressed. Closing the result leaves ``raw`` open."""
    head = raw.peek(8)[:8]
    return next((opener(raw) for magic, (_, opener) in DECOMPRESSORS.items() if head.startswith(magic)), raw)


def _open_raw(path: str | Path) -> Any:
    name = str(path)
    if name == "-":
        raw: Any = sys.stdin.buffer
    else:
        try:
            raw = open(name, "rb")
        except OSError as error:
            raise cannot_read(name, error) from None
    if not hasattr(raw, "peek"):
        raw = io.BufferedReader(raw)
    try:
        raw.peek(8)
    except OSError as error:
        raise cannot_read(name, error) from None
    return raw


def cannot_read(name: str, error: OSError) -> InputError:
    if error.errno == errno.ENOENT:
        return InputError(f"{name}: expected a file, found none; check the path")
    if error.errno == errno.EISDIR:
        return InputError(f"{name}: expected a file, found a folder; name the files in it")
    return InputError(f"{name}: expected a readable file, found: {error.strerror}; check its permissions")


def _decompression_error(name: str, at: int, error: Exception) -> FormatError:
    return FormatError(
        f"{name}: after {at} bytes of decompressed data",
        expected="intact compressed data",
        found=f"{type(error).__name__}: {error}",
        fix="the file is truncated or damaged: copy or make it again",
    )


def _raw_chunks(path: str | Path, size: int) -> Iterator[bytes]:
    """Chunks that end at a line end; the last one gets its missing newline."""
    name, at, rest = str(path), 0, b""
    raw = _open_raw(path)
    stream = _decompressed(raw)
    try:
        while True:
            try:
                block = stream.read(size)
            except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
                raise _decompression_error(name, at, error) from None
            except OSError as error:
                if error.errno is None:  # bz2 and gzip raise a plain OSError for bad data
                    raise _decompression_error(name, at, error) from None
                raise cannot_read(name, error) from None
            except Exception as error:
                if type(error).__name__ == "ZstdError":
                    raise _decompression_error(name, at, error) from None
                raise
            if not block:
                break
            at += len(block)
            cut = block.rfind(b"\n") + 1
            if cut:
                yield rest + block[:cut]
                rest = block[cut:]
            else:
                rest += block
        if rest:
            yield rest + b"\n"
    finally:
        if name != "-":
            stream.close()
            raw.close()


def read_chunks(path: str | Path, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Whole lines in chunks of about ``size`` bytes, decompressed ahead in a thread.

    Decompressors release the GIL, so parsing and decompression overlap.
    """
    ahead: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
    stop = threading.Event()

    def put(item: bytes | BaseException | None) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ahead.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for chunk in _raw_chunks(path, size):
                put(chunk)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:  # handed to the consumer, which raises it
            put(error)

    report, at, total = on_progress.get(), 0, os.path.getsize(path) if os.path.isfile(path) else 0
    thread = threading.Thread(target=work, name="boostfeat-read", daemon=True)
    thread.start()
    try:
        while (item := ahead.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            at += len(item)
            if report:
                report(str(path), at, total)
    finally:
        stop.set()


def read_head(path: str | Path, size: int = 1 << 16) -> bytes:
    """The first decompressed bytes of a file; of standard input what is buffered, without consuming it."""
    if str(path) != "-":
        with contextlib.closing(_raw_chunks(path, size)) as chunks:
            return next(chunks, b"")[:size]
    stdin: Any = sys.stdin.buffer
    peeked = io.BytesIO(stdin.peek(size))
    for magic, (_, opener) in DECOMPRESSORS.items():
        if peeked.getvalue().startswith(magic):
            stream, head = opener(peeked), b""
            with contextlib.suppress(EOFError, OSError, lzma.LZMAError, zlib.error):
                while len(head) < size and (more := stream.read(256)):
                    head += more
            return head
    return peeked.getvalue()


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) for every line; text must be UTF-8."""
    number = 0
    for chunk in read_chunks(path):
        for raw in chunk[:-1].split(b"\n"):
            number += 1
            yield number, decode(raw.removesuffix(b"\r"), f"{path}:{number}")


def decode(raw: bytes, where: str) -> str:
    """UTF-8 text of a line, or a FormatError that recognises a binary file."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            where,
            expected="UTF-8 text",
            found=f"byte 0x{raw[error.start]:02x} at column {error.start + 1}",
            fix="looks like a binary file or another encoding: convert it with iconv",
        ) from None


def is_writable_target(path: str | Path) -> None:
    """Raise now, before hours of work, if ``path`` cannot be written later."""
    if str(path) == "-":
        return
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"{target}: expected an existing folder {str(folder)!r}, found none; make it first")
    if target.is_dir():
        raise InputError(f"{target}: expected a file name to write, found a folder; name a file in it")
    if not os.access(folder, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        raise InputError(f"{target}: expected a writable folder, found one that is not; choose another output")


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[str]:
    """A temporary name beside ``path`` that becomes ``path`` when the block ends without error."""
    is_writable_target(path)
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=f".tmp{target.suffix}", dir=target.parent)
    except OSError as error:
        raise InputError(f"{target}: expected a writable folder, found: {error.strerror}; choose another output") from None
    os.close(handle)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise InputError(f"{target}: cannot write: {error.strerror}; free some space or choose another output") from None
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def open_output(path: str | Path) -> Iterator[IO[bytes]]:
    """Write bytes to ``path`` (compressed by its ending) atomically, or to standard output for ``-``."""
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_path(path) as temporary:
        opener = COMPRESSORS.get(Path(path).suffix)
        with opener(temporary) if opener else open(temporary, "wb") as stream:
            yield stream
