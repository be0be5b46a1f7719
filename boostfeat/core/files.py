"""Input that may be compressed or standard input; output that is whole or absent."""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import hashlib
import io
import lzma
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar, cast

from .compression import COMPRESSORS, DECOMPRESSORS, check_growth
from .errors import CANNOT_WRITE, FormatError, InputError, plain
from .overwriting import check_mapped, on_read, on_write, refuse_links

CHUNK_BYTES = 1 << 22
LONGEST_LINE = 1 << 28  # bytes of a first line by which a format is recognised

T = TypeVar("T")

# Called while a file is read: its name, the decompressed bytes so far, and its size on disk (0 for standard input).
on_progress: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("on_progress", default=None)


class _Replay(io.RawIOBase):
    """The first bytes of a pipe, which were read already, then the rest of it (which closing this leaves open)."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest, self.taken = io.BytesIO(head), rest, 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        data = self.head.read(len(room)) or self.rest.read(len(room))
        room[: len(data)] = data
        self.taken += len(data)
        return len(data)


class _Input:
    """A file, or standard input for ``-``, decompressed. Errors name it, and how far it was read."""

    def __init__(self, path: str | Path) -> None:
        self.name, self.at = str(path), 0
        self.seen = io.BytesIO()  # what was read and put back
        on_read(path)
        try:
            self.file: Any = sys.stdin.buffer if self.name == "-" else open(path, "rb")
            head = self.file.read(8)  # not peek: a pipe may give less than a magic number at first
            if self.file.seekable():
                self.file.seek(-len(head), os.SEEK_CUR)
        except OSError as error:
            raise cannot_read(self.name, error) from None
        self.raw: Any = self.file if self.file.seekable() else io.BufferedReader(_Replay(head, self.file), 1 << 16)
        opener = next((opener for magic, opener in DECOMPRESSORS.items() if head.startswith(magic)), None)
        self.stream: Any = opener(self.raw) if opener else self.raw

    def readinto(self, room: memoryview | bytearray) -> int:
        """Read into ``room``; return the byte count, 0 at the end."""
        if n := self.seen.readinto(room):
            return n
        try:
            n = self.stream.readinto(room) or 0
        except (EOFError, lzma.LZMAError, zlib.error) as error:
            raise self._damaged(error) from None
        except OSError as error:  # bz2, gzip and pyarrow's zstd raise a plain OSError for bad data
            raise (self._damaged(error) if error.errno is None else cannot_read(self.name, error)) from None
        self.at += n
        if self.stream is not self.raw:
            size = os.fstat(self.file.fileno()).st_size if self.file is self.raw else self.raw.raw.taken  # what came of a pipe
            check_growth(self.name, self.at, size)
        return n

    def read(self, size: int) -> bytes:
        room = bytearray(size)
        return bytes(memoryview(room)[: self.readinto(room)])

    def close(self) -> None:
        if self.name != "-":
            self.stream.close()
            self.file.close()

    def _damaged(self, error: Exception) -> FormatError:
        return FormatError(
            f"{self.name}: after {self.at} bytes of decompressed data",
            expected="intact compressed data",
            found=f"{type(error).__name__}: {error}",
            fix="the file is truncated or damaged: copy or make it again",
        )


# Pipes that read_head has looked into, with what it saw put back; by name, standard input by itself.
_looked_into: dict[object, _Input] = {}


def _key(path: str | Path) -> object:
    return sys.stdin.buffer if str(path) == "-" else str(path)


def _open(path: str | Path) -> _Input:
    return _looked_into.pop(_key(path), None) or _Input(path)


def cannot_read(name: str, error: OSError) -> InputError:
    if error.errno == errno.ENOENT:
        stem, suffix = os.path.splitext(name)
        same = [name + other for other in COMPRESSORS] + [stem] * (suffix in COMPRESSORS)  # compressed, or not
        near = next(filter(os.path.isfile, same), None)
        return InputError(f"{name}: expected a file, found none; {f'there is {near}' if near else 'check the path'}")
    if error.errno == errno.EISDIR:
        return InputError(f"{name}: expected a file, found a folder; name the files in it")
    return InputError(f"{name}: expected a readable file, found: {_why(error)}; check its permissions")


class Block(NamedTuple):
    """Whole lines: data[:end]."""

    data: bytearray
    end: int

    def text(self, start: int = 0) -> bytes:
        return bytes(memoryview(self.data)[start : self.end])


def last_line(data: bytearray, end: int) -> int:
    """Return the end of the last whole line in data[:end], 0 where none is."""
    return data.rfind(b"\n", 0, end) + 1


def _raw_blocks(path: str | Path, size: int, cut: Callable[[bytearray, int], int]) -> Iterator[Block]:
    """Blocks that end where ``cut`` says (the last one where the file does; it gets its missing newline)."""
    rest = b""  # what follows the end of the block before
    with contextlib.closing(_open(path)) as stream:
        while True:
            n = len(rest)  # where more than half a block is one line, or one sentence, the block has to grow
            data = bytearray(size + 1 if 2 * n < size else 2 * n + size + 2)
            data[:n] = rest
            while n < len(data) - 1 and (more := stream.readinto(memoryview(data)[n:-1])):
                n += more
            if n < len(data) - 1:
                break
            end = cut(data, n)
            rest = bytes(memoryview(data)[end:n])
            if end:
                yield Block(data, end)
        if n:
            data[n] = 10
            yield Block(data, n + (data[n - 1] != 10))


def read_blocks(path: str | Path, size: int, cut: Callable[[bytearray, int], int] = last_line) -> Iterator[Block]:
    """Whole lines in blocks of about ``size`` bytes, decompressed ahead in a thread."""
    report, at = on_progress.get(), 0
    total = os.path.getsize(path) if os.path.isfile(path) else 0
    for block in _ahead(_raw_blocks(path, size, cut)):
        at += block.end
        yield block
        if report:
            report(str(path), at, total)


def read_chunks(path: str | Path, size: int | None = None) -> Iterator[bytes]:
    """Whole lines in chunks of about ``size`` bytes."""
    return (block.text() for block in read_blocks(path, size or CHUNK_BYTES))


def _ahead(blocks: Iterator[T]) -> Iterator[T]:
    """Blocks, each made while the one before is used: decompressors release the GIL. No daemon keeps a command from ending."""
    coming = _started(blocks)
    while (block := coming.result()) is not None:
        coming = _started(blocks)
        yield block


def _started(blocks: Iterator[T]) -> Future[T | None]:
    """The next block, which a thread makes; None at the end."""
    future: Future[T | None] = Future()

    def work() -> None:
        try:
            future.set_result(next(blocks, None))
        except BaseException as error:  # handed to the consumer, which raises it
            future.set_exception(error)

    threading.Thread(target=work, name="boostfeat-read", daemon=True).start()
    return future


def read_head(path: str | Path, size: int = 1 << 16, *, whole_line: bool = False) -> bytes:
    """The first lines of a file, decompressed, at most ``size`` bytes. What is read from a pipe is put back.

    With ``whole_line``, more bytes are read where the first line has more (but not without end).
    """
    stream, head, is_file = _open(path), b"", str(path) != "-" and os.path.isfile(path)
    with contextlib.closing(stream) if is_file else contextlib.nullcontext():
        while len(head) < size and (more := stream.read(size - len(head))):
            head += more
            if whole_line and len(head) == size < LONGEST_LINE and b"\n" not in more and b"\0" not in head[: 1 << 16]:
                size *= 4
    if not is_file:
        stream.seen = io.BytesIO(head)
        _looked_into[_key(path)] = stream
    return head if len(head) < size else head[: head.rfind(b"\n") + 1] or head


def read_bytes(path: str | Path) -> bytes:
    """All of a file, decompressed."""
    with contextlib.closing(_open(path)) as stream:
        return b"".join(iter(lambda: stream.read(CHUNK_BYTES), b""))


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) for every line; text must be UTF-8."""
    number = 0
    for chunk in read_chunks(path):
        for line in _lines(chunk, path, number):
            number += 1
            yield number, line


def _lines(chunk: bytes, path: str | Path, before: int) -> Iterable[str]:
    """Lines of a chunk that comes after ``before`` others."""
    if not (b"\0" in chunk or b"\r" in chunk or chunk.startswith(b"\xef\xbb\xbf")):
        with contextlib.suppress(UnicodeDecodeError):
            return chunk[:-1].decode("utf-8").split("\n")
    return (decode_line(raw, path, number) for number, raw in enumerate(chunk[:-1].split(b"\n"), before + 1))


def decode_line(raw: bytes, path: str | Path, number: int) -> str:
    """UTF-8 text of a line of a file, without what Windows adds."""
    if number == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")  # a byte order mark is no part of the first word
    return decode(raw.removesuffix(b"\r"), f"{path}:{number}")


def decode(raw: bytes, where: str) -> str:
    """Return the UTF-8 text of a line; raise a FormatError that recognises a store, another binary file or another encoding."""
    try:
        if (column := raw.find(b"\0")) < 0:
            return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = error.start
    if raw.startswith(b"ARROW1"):
        fix = "name another file; 'boostfeat info' describes this one"
        raise FormatError(where, expected="text", found="a store of lists", fix=fix)
    fix = "looks like a binary file or another encoding: convert it with iconv"
    raise FormatError(where, expected="UTF-8 text", found=f"byte 0x{raw[column]:02x} at column {column + 1}", fix=fix)


def is_writable_target(path: str | Path) -> None:
    """Raise now, before hours of work, if ``path`` cannot be written later, or would replace what was read."""
    if str(path) == "-":
        return
    on_write(path)
    target = Path(path)
    folder = os.path.dirname(os.path.realpath(target))
    try:
        exists = bool(target.stat())
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


def by_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that orders names by their numbers: u2 before u10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def is_folder_name(path: str) -> bool:
    """Tell whether a name is that of a folder to write: it ends as such names do."""
    return path.endswith(os.sep)


def is_new_folder(path: str) -> None:
    """Raise now, before hours of work, if ``path`` cannot become a folder later: nothing in a folder is replaced."""
    target = path.rstrip(os.sep)
    if os.path.isdir(target) and not os.listdir(target):
        return
    if os.path.lexists(target):
        found = "one with files in it" if os.path.isdir(target) else "a file"
        raise InputError(f"-o {path}: expected a new folder, found {found}; remove it, or choose another output")
    is_writable_target(target)


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[Path]:
    """A folder beside ``path``, for files to be written into, that becomes ``path`` when the block ends without error."""
    is_new_folder(path)
    target = Path(os.path.realpath(path))
    with temporary_folder(target) as staging:
        folder = staging / "parts"
        folder.mkdir()
        yield folder
        os.replace(folder, target)


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
    if is_special(path):
        with _explained(path):
            yield str(path)
        return
    target = Path(os.path.realpath(path))  # what a link points to: the link stays
    with _explained(path), _temporary(target, folder=False) as (temporary, held):
        yield temporary
        os.fsync(held)
        os.chmod(temporary, _mode(target))
        check_mapped()
        os.replace(temporary, target)


@contextlib.contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A folder beside a target, for files that are renamed into place once all is well; it goes with the block."""
    with _explained(target), _temporary(target, folder=True) as (name, _):
        yield Path(name)


@contextlib.contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    """Raise what a system says of no room or no permission as an error of the output."""
    try:
        yield
    except OSError as error:
        if error.errno in CANNOT_WRITE:
            raise _cannot_write(path, error) from None
        raise


def _mode(target: Path) -> int:
    """Who may read what is written: those who may read what it replaces, else as the umask has it."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _around(target: Path) -> tuple[str, str]:
    return f".{target.name[:32]}.", f".tmp{target.suffix[:16]}"  # a name near the limit has room for more


@contextlib.contextmanager
def _temporary(target: Path, *, folder: bool) -> Iterator[tuple[str, int]]:
    """(name, open file) of a file or folder beside a target, which goes with the block.

    It is locked as long as it is open, so that what killed runs left is known: nobody holds it.
    """
    _remove_stale(target)
    name, held = _make_temporary(target, folder=folder)
    try:
        yield name, held
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(name, ignore_errors=True) if folder else os.unlink(name)
        os.close(held)


def _make_temporary(target: Path, *, folder: bool) -> tuple[str, int]:
    make: Any = tempfile.mkdtemp if folder else tempfile.mkstemp
    prefix, suffix = _around(target)
    while True:
        made = make(prefix=prefix, suffix=suffix, dir=target.parent)
        with contextlib.suppress(FileNotFoundError):  # another has just taken it for a stale one
            held, name = (os.open(made, os.O_RDONLY), made) if folder else made
            if _lock(held) is not False and os.path.exists(name):
                return name, held
            os.close(held)


def _remove_stale(target: Path) -> None:
    """Remove what killed runs left of this target: temporary files and folders that nobody holds."""
    prefix, suffix = _around(target)
    for name in os.listdir(target.parent):
        if name.startswith(prefix) and name.endswith(suffix) and len(name) == len(prefix) + 8 + len(suffix):
            stale = target.parent / name
            with contextlib.suppress(OSError):
                held = os.open(stale, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _lock(held):
                        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
                finally:
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
    over. Where files cannot be locked, whoever ``.lock`` names is taken to be at work. A folder with symbolic links in it, as
    a stranger's may have, is refused.
    """
    place = Path(folder) / ".lock"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        refuse_links(os.path.join(parent, name) for parent, *names in os.walk(folder) for name in chain(*names))
        file = _locked(place)
    except OSError as error:
        raise InputError(f"{folder}: expected a folder to write, found: {_why(error)}; choose another -o") from None
    try:
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(place)  # before the lock goes: a new file may be another's already
        os.close(file)


def _locked(place: Path) -> int:
    """The open lock file, ours; one that its last owner removes meanwhile is made anew."""
    while True:
        file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        ours = _lock(file)
        owner = os.pread(file, 200, 0).decode("utf-8", "replace")
        if ours is False or (ours is None and owner):
            os.close(file)
            who = f", process {owner}" if owner else ""
            raise InputError(
                f"{place.parent}: expected a folder that no run writes to, found one at work{who}; wait for it, "
                f"or remove {place} if there is no such process"
            )
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(place)):
                return file
        os.close(file)


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
