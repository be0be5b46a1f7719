"""Input that may be compressed or standard input; output that is whole or absent."""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import gzip
import hashlib
import io
import lzma
import os
import queue
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from math import inf
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar, cast

from .compression import COMPRESSORS, DECOMPRESSORS, Bounded
from .errors import CANNOT_WRITE, FormatError, InputError, plain
from .overwriting import on_read, on_write

CHUNK_BYTES = 1 << 22
LONGEST_LINE = 1 << 28  # bytes of a first line by which a format is recognised
SMALL_FILE = 1 << 16  # bytes on disk below which a thread to read ahead costs more than it saves

T = TypeVar("T")

# Called while a file is read: its name, the decompressed bytes so far, and its size on disk (0 for standard input).
on_progress: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("on_progress", default=None)


class _Replay(io.RawIOBase):
    """Bytes that were read already, then the rest of the stream they came from (which closing this leaves open)."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest, self.taken = io.BytesIO(head), rest, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.head.read(len(buffer)) or self.rest.read(len(buffer))
        buffer[: len(data)] = data
        self.taken += len(data)
        return len(data)


# Pipes that read_head has looked into, decompressed, with what it saw put back; by name, standard input by itself.
_looked_into: dict[object, tuple[BinaryIO, BinaryIO]] = {}


def _key(path: str | Path) -> object:
    return sys.stdin.buffer if str(path) == "-" else str(path)


def _open(path: str | Path) -> tuple[BinaryIO, BinaryIO]:
    """(decompressed stream, the file under it) of a path, or of standard input for ``-``."""
    if (seen := _looked_into.pop(_key(path), None)) is not None:
        return seen
    on_read(path)
    try:
        file: Any = sys.stdin.buffer if str(path) == "-" else open(path, "rb")
        head = file.read(8)  # not peek: a pipe may give less than a magic number at first
        if file.seekable():
            file.seek(-len(head), os.SEEK_CUR)
    except OSError as error:
        raise cannot_read(str(path), error) from None
    raw = file if file.seekable() else io.BufferedReader(_Replay(head, file), 1 << 16)
    opener = next((opener for magic, (_, opener) in DECOMPRESSORS.items() if head.startswith(magic)), None)
    return raw if opener is None else cast(BinaryIO, Bounded(opener(raw), file, raw, str(path))), file


def cannot_read(name: str, error: OSError) -> InputError:
    if error.errno == errno.ENOENT:
        near = next((path for path in _other_names(name) if os.path.isfile(path)), None)
        return InputError(f"{name}: expected a file, found none; {f'there is {near}' if near else 'check the path'}")
    if error.errno == errno.EISDIR:
        return InputError(f"{name}: expected a file, found a folder; name the files in it")
    return InputError(f"{name}: expected a readable file, found: {_why(error)}; check its permissions")


def _other_names(name: str) -> Iterator[str]:
    """The same file compressed, or not."""
    stem, suffix = os.path.splitext(name)
    yield from [name + other for other in COMPRESSORS] + [stem] * (suffix in COMPRESSORS)


def _decompression_error(name: str, at: int, error: Exception) -> FormatError:
    return FormatError(
        f"{name}: after {at} bytes of decompressed data",
        expected="intact compressed data",
        found=f"{type(error).__name__}: {error}",
        fix="the file is truncated or damaged: copy or make it again",
    )


def _read(stream: BinaryIO, size: int, name: str, at: int) -> bytes:
    """Up to ``size`` more bytes, b"" at the end; ``at`` were read before."""
    with _explained(name, at):
        return stream.read(size)


def _read_into(stream: BinaryIO, room: memoryview, name: str, at: int) -> int:
    """The same into memory; returns how many."""
    with _explained(name, at):
        return cast(Any, stream).readinto(room) or 0


@contextlib.contextmanager
def _explained(name: str, at: int) -> Iterator[None]:
    """Errors of reading after ``at`` bytes as errors of the input."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise _decompression_error(name, at, error) from None
    except OSError as error:
        if error.errno is None:  # bz2, gzip and pyarrow's zstd raise a plain OSError for bad data
            raise _decompression_error(name, at, error) from None
        raise cannot_read(name, error) from None


def _close(path: str | Path, *streams: BinaryIO) -> None:
    for stream in streams if str(path) != "-" else ():
        stream.close()


class Block(NamedTuple):
    """Whole lines: data[:end]. Who is done with them gives the memory back to the reader, as new memory costs page faults."""

    data: bytearray
    end: int

    def text(self, start: int = 0) -> bytes:
        return bytes(memoryview(self.data)[start : self.end])


def last_line(data: bytearray, end: int) -> int:
    """Where the last line that is whole ends in data[:end], 0 where none is."""
    return data.rfind(b"\n", 0, end) + 1


def _raw_blocks(path: str | Path, size: int, cut: Callable[[bytearray, int], int], spare: list[bytearray]) -> Iterator[Block]:
    """Blocks that end where ``cut`` says (the last one where the file does; it gets its missing newline)."""
    at, rest = 0, memoryview(b"")  # what follows the end of the block before
    stream, file = _open(path)
    if stream is file and os.path.isfile(path):
        size = min(size, os.path.getsize(path) + (1 << 12))  # memory is set to 0: of a short file that took most of the time
    try:
        while True:
            data = spare.pop() if spare else bytearray(size + 1)
            if len(data) < 2 * len(rest) + 2:  # more than a block is one line, or one sentence
                data = bytearray(2 * len(rest) + size + 2)
            n = len(rest)
            data[:n] = rest
            while n < len(data) - 1 and (more := _read_into(stream, memoryview(data)[n:-1], str(path), at)):
                at, n = at + more, n + more
            if n < len(data) - 1:
                break
            end = cut(data, n)
            rest = memoryview(bytes(memoryview(data)[end:n]))
            if end:
                yield Block(data, end)
            else:
                spare.append(data)
        if n:
            data[n] = 10
            yield Block(data, n + (data[n - 1] != 10))
    finally:
        _close(path, stream, file)


def read_blocks(
    path: str | Path, size: int, cut: Callable[[bytearray, int], int] = last_line, spare: list[bytearray] | None = None
) -> Iterator[Block]:
    """Whole lines in blocks of about ``size`` bytes; those of all but small files are decompressed ahead in a thread.

    Decompressors release the GIL, so parsing and decompression overlap. Memory that is put into ``spare`` is used again.
    """
    report, at, known = on_progress.get(), 0, os.path.isfile(path)
    total = os.path.getsize(path) if known else 0
    blocks = _raw_blocks(path, size, cut, [] if spare is None else spare)
    for block in blocks if known and total < SMALL_FILE else _ahead(blocks):
        at += block.end
        yield block
        if report:
            report(str(path), at, total)


def read_chunks(path: str | Path, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The same as bytes."""
    spare: list[bytearray] = []
    for block in read_blocks(path, size, spare=spare):
        chunk = block.text()
        spare.append(block.data)
        yield chunk


def _ahead(chunks: Iterator[T]) -> Iterator[T]:
    """The same, a few chunks made before they are asked for."""
    ahead: queue.Queue[T | BaseException | None] = queue.Queue(maxsize=2)
    stop = threading.Event()

    def put(item: T | BaseException | None) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ahead.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for chunk in chunks:
                put(chunk)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:  # handed to the consumer, which raises it
            put(error)

    thread = threading.Thread(target=work, name="boostfeat-read", daemon=True)
    thread.start()
    try:
        while (item := ahead.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()


def read_head(path: str | Path, size: int = 1 << 16, *, whole_line: bool = False) -> bytes:
    """The first lines of a file, decompressed, at most ``size`` bytes. What is read from a pipe is put back.

    With ``whole_line``, more bytes are read where the first line has more (but not without end).
    """
    stream, file = _open(path)
    head, is_pipe = b"", str(path) == "-" or not os.path.isfile(path)
    try:
        while len(head) < size and (more := _read(stream, size - len(head), str(path), len(head))):
            head += more
            if whole_line and len(head) == size < LONGEST_LINE and b"\n" not in more and b"\0" not in head[: 1 << 16]:
                size *= 4
        if is_pipe:
            _looked_into[_key(path)] = (io.BufferedReader(_Replay(head, stream), 1 << 16), file)
    finally:
        if not is_pipe:
            _close(path, stream, file)
    return head if len(head) < size else head[: head.rfind(b"\n") + 1] or head


def read_bytes(path: str | Path) -> bytes:
    """All of a file, decompressed."""
    at, parts = 0, []
    stream, file = _open(path)
    try:
        while block := _read(stream, CHUNK_BYTES, str(path), at):
            at += len(block)
            parts.append(block)
    finally:
        _close(path, stream, file)
    return b"".join(parts)


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) for every line; text must be UTF-8."""
    number = 0
    for chunk in read_chunks(path):
        if (text := _plain_text(chunk)) is not None:
            for line in text[:-1].split("\n"):
                number += 1
                yield number, line
            continue
        for raw in chunk[:-1].split(b"\n"):
            number += 1
            yield number, decode_line(raw, path, number)


def _plain_text(chunk: bytes) -> str | None:
    """The text of lines that need nothing but decoding; None where one has to be looked at."""
    if b"\0" in chunk or b"\r" in chunk or chunk.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError:
        return None


def decode_line(raw: bytes, path: str | Path, number: int) -> str:
    """UTF-8 text of a line of a file, without what Windows adds."""
    if number == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")  # a byte order mark is no part of the first word
    return decode(raw.removesuffix(b"\r"), f"{path}:{number}")


def decode(raw: bytes, where: str) -> str:
    """UTF-8 text of a line, or a FormatError that recognises a binary file."""
    if (nul := raw.find(b"\0")) >= 0 and not raw.startswith(b"ARROW1"):
        fix = "looks like a binary file or another encoding: convert it with iconv"
        raise FormatError(where, expected="text", found=f"byte 0x00 at column {nul + 1}", fix=fix)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if raw.startswith(b"ARROW1"):
            raise FormatError(
                where, expected="text", found="a store of lists", fix="name another file; 'boostfeat info' describes this one"
            ) from None
        raise FormatError(
            where,
            expected="UTF-8 text",
            found=f"byte 0x{raw[error.start]:02x} at column {error.start + 1}",
            fix="looks like a binary file or another encoding: convert it with iconv",
        ) from None


def is_writable_target(path: str | Path) -> None:
    """Raise now, before hours of work, if ``path`` cannot be written later, or would replace what was read."""
    if str(path) == "-":
        return
    on_write(path)
    target = Path(path)
    folder = os.path.dirname(os.path.realpath(target))
    exists = True
    try:
        target.stat()
    except (FileNotFoundError, NotADirectoryError):
        exists = False
    except OSError as error:
        raise _cannot_write(target, error) from None
    if not os.path.isdir(folder):
        raise InputError(f"{target}: expected an existing folder {folder!r}, found none; make it first")
    if os.path.isdir(target):
        raise InputError(f"{target}: expected a file name to write, found a folder; name a file in it")
    if (exists and not os.access(target, os.W_OK)) or not (is_special(target) or os.access(folder, os.W_OK)):
        raise InputError(f"{target}: expected a writable folder, found one that is not; choose another output")


def _cannot_write(path: str | Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot write: {_why(error)}; free some space or choose another output")


def _why(error: OSError) -> str:
    return os.strerror(error.errno or errno.EIO)  # not error.strerror: Arrow's is a paragraph


def is_special(path: str | Path) -> bool:
    """A device or pipe (/dev/null, >(gzip)): written as it is, since renaming onto it would replace it."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[str]:
    """A temporary name beside ``path`` that becomes ``path`` when the block ends without error."""
    is_writable_target(path)
    target = Path(os.path.realpath(path))  # what a link points to: the link stays
    temporary, held = "", -1
    try:
        if is_special(path):
            yield str(path)
            return
        _remove_stale(target)
        temporary, held = _make_temporary(target)
        yield temporary
        os.fsync(held)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except OSError as error:
        if error.errno in CANNOT_WRITE:
            raise _cannot_write(path, error) from None
        raise
    finally:
        if temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            os.close(held)


def _mode(target: Path) -> int:
    """Who may read what is written: those who may read what it replaces, else as the umask has it."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _around(target: Path) -> tuple[str, str]:
    return f".{target.name[:32]}.", f".tmp{target.suffix[:16]}"  # a name near the limit has room for more


def _make_temporary(target: Path, *, folder: bool = False) -> tuple[str, int]:
    """(name, open file) beside a target. It is locked as long as it is open: who writes is alive."""
    prefix, suffix = _around(target)
    while True:
        if folder:
            name = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=target.parent)
            try:
                held = os.open(name, os.O_RDONLY)
            except FileNotFoundError:  # as below
                continue
        else:
            held, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=target.parent)
        if _lock(held) is not False and os.path.exists(name):  # else another has just taken it for a stale one
            return name, held
        os.close(held)


def _remove_stale(target: Path) -> None:
    """What killed runs left of this target: temporary files and folders that nobody holds."""
    prefix, suffix = _around(target)
    for name in os.listdir(target.parent):
        if name.startswith(prefix) and name.endswith(suffix) and len(name) == len(prefix) + 8 + len(suffix):
            stale = target.parent / name
            with contextlib.suppress(OSError):
                found = os.open(stale, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _lock(found):
                        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
                finally:
                    os.close(found)


@contextlib.contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A folder beside a target, for files that are renamed into place once all is well; it goes with the block."""
    name = ""
    try:
        _remove_stale(target)
        name, held = _make_temporary(target, folder=True)
        yield Path(name)
    except OSError as error:
        if error.errno in CANNOT_WRITE:
            raise _cannot_write(target, error) from None
        raise
    finally:
        if name:
            shutil.rmtree(name, ignore_errors=True)
            os.close(held)


def _lock(file: int) -> bool | None:
    """Whether the file is ours now; None where files cannot be locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None


@contextlib.contextmanager
def only_writer(folder: str | Path) -> Iterator[None]:
    """Make a run's folder where there is none; inside the block nobody else writes there.

    ``.lock`` says who does. The system's lock on it ends with its process, however that ends: what a dead run left is taken
    over. Where files cannot be locked, its process is looked for.
    """
    place = Path(folder) / ".lock"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(place)
    except OSError as error:
        raise InputError(f"{folder}: expected a folder to write, found: {_why(error)}; choose another -o") from None
    try:
        os.ftruncate(file, 0)
        os.write(file, _me().encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(place)  # before the lock goes: a new file may be another's already
        os.close(file)


def _locked(place: Path) -> int:
    """The open lock file, ours; one that its last owner removes meanwhile is made anew."""
    while True:
        file = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        ours = _lock(file)
        with contextlib.suppress(FileNotFoundError):
            owner = os.pread(file, 200, 0).decode("utf-8", "replace")
            if ours is False or (ours is None and _is_at_work(owner)):
                os.close(file)
                who = f", process {owner}" if owner else ""
                raise InputError(f"{place.parent}: expected a folder that no run writes to, found one at work{who}; wait for it")
            if os.path.samestat(os.fstat(file), os.stat(place)):
                return file
        os.close(file)


def _me() -> str:
    return f"{os.getpid()} on {socket.gethostname()}"


def _is_at_work(owner: str) -> bool:
    """Whether the process that a lock names may be alive: another machine's cannot be asked."""
    pid, _, host = owner.partition(" on ")
    if not pid.isdecimal() or owner == _me():
        return False
    return host != socket.gethostname() or os.path.exists(f"/proc/{pid}")


class _Terminal(io.RawIOBase):
    """A terminal that gets text and tabs only: what would steer it is escaped, what is no text is refused."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.decoder = stream, codecs.getincrementaldecoder("utf-8")()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            text = self.decoder.decode(bytes(data))
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise InputError("-o -: expected a file or a pipe for what is no text, found a terminal; name a file")
        cells = ("\t".join(map(plain, line.split("\t"))) for line in text.split("\n"))
        self.stream.write("\n".join(cells).encode())
        return len(data)


@contextlib.contextmanager
def open_output(path: str | Path) -> Iterator[IO[bytes]]:
    """Write bytes to ``path`` (compressed by its ending) atomically, or to standard output for ``-``."""
    if str(path) == "-":
        yield cast(IO[bytes], _Terminal(sys.stdout.buffer)) if sys.stdout.isatty() else sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    compressor = COMPRESSORS.get(Path(path).suffix)
    with atomic_path(path) as temporary, open(temporary, "wb") as raw:
        if compressor is None:
            yield raw
        else:
            with compressor(raw) as stream:
                yield stream


class Sparing:
    """Saves what a run has so far, and then not before ten times what that took has passed: a tenth of the time, at most."""

    def __init__(self) -> None:
        self._not_before = -inf

    def __call__(self, save: Callable[[], None]) -> None:
        began = time.monotonic()
        if began >= self._not_before:
            save()
            ended = time.monotonic()
            self._not_before = ended + 10 * (ended - began)


def digest(path: str | Path) -> str:
    """SHA-256 of a file; of a folder, that of its files' names and contents."""
    try:
        if os.path.isdir(path):
            inside = sorted(p for p in Path(path).rglob("*") if p.is_file())
            return digest_lines(f"{p.relative_to(path)} {digest(p)}" for p in inside)
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(str(path), error) from None


def digest_lines(lines: Iterable[str]) -> str:
    """SHA-256 of lines of text."""
    out = hashlib.sha256()
    for line in lines:
        out.update(line.encode() + b"\n")
    return out.hexdigest()
