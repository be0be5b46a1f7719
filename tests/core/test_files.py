"""Input that may be compressed, cut, damaged or a pipe; output that is whole or absent."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import re
import socket
import stat
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core import files
from boostfeat.core.errors import FormatError, InputError
from boostfeat.core.files import (
    atomic_path,
    digest,
    is_writable_target,
    on_progress,
    only_writer,
    open_output,
    read_chunks,
    read_head,
    read_lines,
)
from boostfeat.lists.store import write_store
from boostfeat.model.model import Model


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)  # as the zstd command does


COMPRESS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd}
KINDS = [*COMPRESS, "plain"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
# Bytes that do not compress much, so that every format has blocks to cut and damage; ends without a newline.
LINES = [f"{i} ä€😀 {random.Random(i).getrandbits(256):x}" for i in range(3000)]
DATA = "\n".join(LINES).encode()


@cache
def compressed(kind: str, data: bytes) -> bytes:
    return COMPRESS.get(kind, bytes)(data)


def whole(path: Path | str, size: int = 1 << 22) -> bytes:
    return b"".join(read_chunks(path, size))


def leftovers(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["list", "list.gz", "list.txt"])
@pytest.mark.parametrize("kind", KINDS)
def test_content_decides_what_a_file_is(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(compressed(kind, DATA))
    assert whole(path) == DATA + b"\n"
    assert [line for _, line in read_lines(path)] == LINES


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_follow_each_other_are_one_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "list"
    cut = DATA.index("€".encode()) + 1  # inside a character
    path.write_bytes(b"".join(compressed(kind, part) for part in (DATA[:cut], b"", DATA[cut:])))
    assert whole(path) == DATA + b"\n"


def test_zstd_skippable_frames_hold_no_data(tmp_path: Path) -> None:
    path = tmp_path / "list.zst"
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0none"  # RFC 8878, section 3.1.2
    path.write_bytes(zstd(DATA) + skippable + zstd(b"\nlast"))
    assert whole(path) == DATA + b"\nlast\n"


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("kind", COMPRESS)
def test_truncated_data_is_an_error(tmp_path: Path, kind: str, share: float) -> None:
    data = compressed(kind, DATA)
    path = tmp_path / "list"
    path.write_bytes(data[: min(len(data) - 1, max(6, int(share * len(data))))])
    for read in (whole, lambda p: list(read_lines(p))):
        with pytest.raises(FormatError, match=r"list: after \d+ bytes.*expected intact.*truncated or damaged") as caught:
            read(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("size", "at"), [(7, 98), (50, 100), (1 << 22, 0)])
def test_where_damage_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, at: int) -> None:
    """All 100 bytes are there, and then the checksum is wrong: what was read before counts, not the piece that it is read with."""
    monkeypatch.setattr(files, "CHUNK_BYTES", size)
    path, data = tmp_path / "list", bytearray(gzip.compress(b"x" * 99 + b"\n"))
    data[-8] ^= 1
    path.write_bytes(data)
    for read in (files.read_bytes, *((whole, read_head) if not at else ())):
        with pytest.raises(FormatError) as error:
            read(path)
        expected = f"{path}: after {at} bytes of decompressed data: expected intact compressed data, found "
        assert str(error.value).startswith(expected)


@pytest.mark.parametrize("kind", COMPRESS)
def test_no_damage_passes_for_data(tmp_path: Path, kind: str) -> None:
    """Every format carries a checksum: a flipped bit is an error, or (in a header's idle bits) changes nothing."""
    data, rng, errors = compressed(kind, DATA), random.Random(1), 0
    path = tmp_path / "list"
    for _ in range(40):
        at = rng.randrange(6, len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :])
        try:
            assert whole(path) == DATA + b"\n"
        except FormatError:
            errors += 1
    assert errors >= 38


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),  # one carriage return belongs to the line end, not more
        (b"a\rb\n", ["a\rb"]),
        (b"\n\n a \n", ["", "", " a "]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),  # a byte order mark begins a file, not a line
        (b"\xef\xbb\xbf", [""]),
        ("\u2028\u0085\x0b\x0c\n".encode(), ["\u2028\u0085\x0b\x0c"]),  # str.splitlines would split at each of them
    ],
)
def test_lines(tmp_path: Path, raw: bytes, lines: list[str]) -> None:
    path = tmp_path / "list"
    path.write_bytes(raw)
    assert list(read_lines(path)) == list(enumerate(lines, 1))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=9), min_size=1), st.integers(1, 9))
def test_chunks_end_at_line_ends_and_lose_nothing(lines: list[str], size: int) -> None:
    """Any chunk size: cuts fall inside characters, lines are longer than chunks."""
    data = "\n".join(lines).encode()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
    try:
        chunks = list(read_chunks("-", size))
    finally:
        sys.stdin = stdin
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert b"".join(chunks) == data + (b"\n" if data and not data.endswith(b"\n") else b"")


def test_a_huge_line_takes_linear_time(tmp_path: Path) -> None:
    """One line of many chunks: 64 MB in chunks of 16 KB were 130 GB of copies when each chunk was appended to the last."""
    path = tmp_path / "line"
    path.write_bytes(b"x" * (64 << 20))
    started = time.perf_counter()
    assert [len(chunk) for chunk in read_chunks(path, 1 << 14)] == [(64 << 20) + 1]
    assert time.perf_counter() - started < 60  # quadratic joining took minutes


@pytest.mark.parametrize(("raw", "found"), [(b"ok\nk\xe4se\n", r"list:2: .*byte 0xe4 at column 2"), (b"\x80", r"list:1: .*0x80")])
def test_other_encodings_are_recognised(tmp_path: Path, raw: bytes, found: str) -> None:
    path = tmp_path / "list"
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=found + ".*iconv"):
        list(read_lines(path))


def test_a_store_is_no_text(tmp_path: Path) -> None:
    write_store(synthetic_nbest(SyntheticOptions(sentences=1, hyps=2)), tmp_path / "dev.nbest")
    with pytest.raises(FormatError, match=r"dev\.nbest: expected text, found a store of lists; .*boostfeat info"):
        Model.load(tmp_path / "dev.nbest")


@pytest.mark.parametrize("read", [whole, read_head, lambda p: list(read_lines(p))])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "expected a file, found none; check the path"),
        ("list", "expected a file, found none; there is {tmp}/list.xz"),
        ("file.gz", "expected a file, found none; there is {tmp}/file"),
        ("file.txt", "expected a file, found none; check the path"),
        (".", "expected a file, found a folder; name the files in it"),
        ("file/below", "expected a readable file, found: Not a directory"),
        ("n" * 300, "expected a readable file, found: File name too long"),
    ],
)
def test_paths_that_cannot_be_read(tmp_path: Path, name: str, message: str, read) -> None:  # type: ignore[no-untyped-def]
    for there in ("file", "list.xz"):
        (tmp_path / there).write_bytes(b"")
    with pytest.raises(InputError, match=re.escape(message.format(tmp=tmp_path))):
        read(tmp_path / name)


def test_a_reader_that_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"line\n" * 100_000)
    chunks = read_chunks(path, 1000)
    next(chunks)
    chunks.close()
    deadline = time.monotonic() + 5
    while any(t.name == "boostfeat-read" for t in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [t for t in threading.enumerate() if t.name == "boostfeat-read"]


def test_progress_counts_decompressed_bytes(tmp_path: Path) -> None:
    path, seen = tmp_path / "list.gz", []
    path.write_bytes(gzip.compress(DATA))
    token = on_progress.set(lambda *call: seen.append(call))
    try:
        whole(path, 50_000)
    finally:
        on_progress.reset(token)
    assert seen[-1] == (str(path), len(DATA) + 1, path.stat().st_size)
    assert [at for _, at, _ in seen] == sorted(at for _, at, _ in seen)


# -- looking at the first lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_head_is_whole_lines(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "list"
    path.write_bytes(compressed(kind, DATA))
    for size in (1000, 1 << 16):
        head = read_head(path, size)
        assert DATA.startswith(head)
        assert head.endswith(b"\n")
        assert size - 200 < len(head) <= size
    assert read_head(path, 10) == DATA[:10]  # a line that is longer


@pytest.mark.parametrize(
    ("data", "size", "head"),
    [
        (b"x\ny", 4, 3),
        (b"x" * 3 + b"\ny\n", 4, 4),
        (b"x" * 4 + b"\ny\n", 4, 7),  # the line is longer: 16 bytes, and there are no more
        (b"x" * 15 + b"\ny\n", 4, 16),
        (b"x" * 16 + b"\ny\n", 4, 19),  # 64
        (b"x" * 63 + b"\ny\n", 4, 64),
        (b"x" * 64 + b"\ny\n", 4, 64),  # the longest: a line without end is cut
        (b"x" * 8 + b"\0" + b"x" * 30, 4, 16),  # what is no text is not looked for the end of a line
        (b"x" * 63 + b"\ny\n", 64, 64),
        (b"x" * 70, 65, 65),
    ],
)
def test_the_head_of_a_long_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, size: int, head: int
) -> None:
    """Four times as much, again and again, until the line ends or is the longest that is looked at, here 64 bytes."""
    monkeypatch.setattr(files, "LONGEST_LINE", 64)
    (tmp_path / "a").write_bytes(data)
    assert read_head(tmp_path / "a", size, whole_line=True) == data[:head]
    assert read_head(tmp_path / "a", size) == data[:size]


def test_binary_files_are_not_read_for_the_end_of_a_line(tmp_path: Path) -> None:
    """By their first 64 KB: a NUL there says so, one behind does not."""
    for nul, found in ((0, 1 << 16), (65535, 1 << 16), (65536, 1 << 18)):
        data = bytearray(b"x" * (1 << 18))
        data[nul] = 0
        (tmp_path / "a").write_bytes(data)
        assert len(read_head(tmp_path / "a", whole_line=True)) == found


def test_what_reads_ahead_keeps_no_command_from_ending() -> None:
    """A command that fails ends at once, though a pipe that says nothing more is still open."""
    code = "from boostfeat.core.files import read_chunks; next(read_chunks('-', 4)); raise SystemExit(3)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdin
        process.stdin.write(b"a\nb\nc\nd\n")
        process.stdin.flush()
        assert process.wait(60) == 3


READ_PIPE = """
import sys
from boostfeat.core.files import read_head, read_lines
heads = [read_head(sys.argv[1], 70_000) for _ in range(3)]
lines = [line for _, line in read_lines(sys.argv[1])]
assert heads[0] == heads[1] == heads[2] and len(heads[0]) > 69_000, [len(h) for h in heads]
assert "\\n".join(lines).encode().startswith(heads[0])
sys.stdout.buffer.write("\\n".join(lines).encode())
"""


def opened(fifo: Path, reader: subprocess.Popen[bytes]) -> int:
    """The writing end, once there is a reader; an error where the reader has ended. A plain open() would wait for ever."""
    while reader.poll() is None:
        with contextlib.suppress(OSError):
            end = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(end, True)
            return end
        time.sleep(0.01)
    raise AssertionError(f"the reader has ended with {reader.returncode}")


@pytest.mark.parametrize("where", ["-", "fifo"])
@pytest.mark.parametrize("kind", KINDS)
def test_pipes_can_be_looked_into(tmp_path: Path, kind: str, where: str) -> None:
    """Standard input and ``<(command)``: what format detection reads must come again, however it arrives.

    The first write is one byte, less than any magic number; bzip2 gives no byte before its first block is complete.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", READ_PIPE, "-" if where == "-" else str(fifo)]
    data = compressed(kind, DATA)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdin
        with process.stdin if where == "-" else os.fdopen(opened(fifo, process), "wb") as pipe:
            pipe.write(data[:1])
            pipe.flush()
            time.sleep(0.02)
            pipe.write(data[1:])
        assert process.stdout
        assert process.stdout.read() == DATA
    assert process.returncode == 0


def test_standard_input_is_read_from_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``{ read line; boostfeat ... -; } < file``; and another standard input does not see the one before."""
    buffer = io.BytesIO(b"taken\nleft\n")
    buffer.readline()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
    assert read_head("-") == b"left\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"other\n")))
    assert whole("-") == b"other\n"


# -- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [*(f".{kind}" for kind in COMPRESS), "", ".nbest"])
def test_output_reads_back_and_is_reproducible(tmp_path: Path, ending: str) -> None:
    """The same content is the same bytes: no name, no time of a temporary file is in them."""
    for name in ("one", "two"):
        with open_output(tmp_path / (name + ending)) as stream:
            stream.write(DATA)
    one, two = ((tmp_path / (name + ending)).read_bytes() for name in ("one", "two"))
    assert one == two
    assert whole(tmp_path / ("one" + ending)) == DATA + b"\n"
    assert (len(one) < 0.9 * len(DATA)) == (ending[1:] in COMPRESS)
    assert leftovers(tmp_path) == {"one" + ending, "two" + ending}


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_an_error_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, ending: str, error: type[BaseException]) -> None:
    path = tmp_path / f"out{ending}"
    path.write_bytes(b"old")
    with pytest.raises(error), open_output(path) as stream:  # noqa: PT012
        stream.write(DATA)
        raise error
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == {path.name}


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    """What replaces it is for those who could read it, whatever the umask."""
    path = tmp_path / "out"
    path.touch(0o600)
    with open_output(path) as stream:
        stream.write(b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/out", "expected an existing folder '.*no/such', found none; make it first"),
        ("file/out", "expected an existing folder '.*file', found none; make it first"),
        ("", "expected a file name to write, found a folder"),
        ("n" * 300, "cannot write: File name too long"),
        ("loop", "cannot write: Too many levels of symbolic links"),
    ],
)
def test_targets_that_cannot_be_written(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    before = leftovers(tmp_path)
    for write in (is_writable_target, atomic_path, open_output):
        with pytest.raises(InputError, match=message), write(tmp_path / name) or contextlib.nullcontext():  # type: ignore[operator]
            pass
    assert leftovers(tmp_path) == before


def test_leftovers_that_are_no_files_are_left_alone(tmp_path: Path) -> None:
    """Neither a pipe, which would wait for a writer, nor a link, whose target is another's, is what a killed run left."""
    (tmp_path / "other").write_bytes(b"mine")
    os.mkfifo(tmp_path / ".out.01234567.tmp")
    (tmp_path / ".out.abcdefgh.tmp").symlink_to("other")
    (tmp_path / ".out.ABCDEFGH.tmp").write_bytes(b"left by a killed run")
    for name in (".out.mine.tmp", ".out.mine-as-well.tmp"):  # of other lengths than ours have
        (tmp_path / name).write_bytes(b"mine")
    with open_output(tmp_path / "out") as stream:
        stream.write(b"x")
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert (tmp_path / ".out.abcdefgh.tmp").is_symlink()
    assert not (tmp_path / ".out.ABCDEFGH.tmp").exists()
    assert (tmp_path / ".out.mine.tmp").exists()
    assert (tmp_path / ".out.mine-as-well.tmp").exists()


def test_a_name_near_the_limit_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 126 + ".gz")  # 255 bytes, the most that file systems take
    with open_output(path) as stream:
        stream.write(b"x")
    assert whole(path) == b"x\n"


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/real")  # dangling at first
    for content in (b"one", b"two"):
        with open_output(tmp_path / "link") as stream:
            stream.write(content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "disk" / "real").read_bytes() == content
    assert leftovers(tmp_path / "disk") == {"real"}


def test_devices_and_pipes_are_written_not_replaced(tmp_path: Path) -> None:
    """``-o /dev/null`` run by root must not put a file in place of the device."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as cat:
        with open_output(fifo) as stream:
            stream.write(b"through")
        assert cat.stdout
        assert cat.stdout.read() == b"through"
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    with open_output(null) as stream:
        stream.write(b"x")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert leftovers(tmp_path) == {"fifo", "null"}


def test_standard_output_is_flushed_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(buffer)))  # type: ignore[arg-type]
    is_writable_target("-")
    with open_output("-") as stream:
        stream.write(b"x")
    assert buffer.getvalue() == b"x"
    assert files.COMPRESSORS.keys() == {f".{kind}" for kind in COMPRESS}


class _Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would steer it is spelt out, characters may come in halves; a pipe gets all bytes as they are."""
    steering = "ä\x1b[31m\tb\n\x07".encode()
    for kind, expected in ((_Screen, "ä\\x1b[31m\tb\n\\x07".encode()), (io.TextIOWrapper, steering)):
        buffer = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", kind(buffer))
        with open_output("-") as stream:
            assert [stream.write(steering[:1]), stream.write(steering[1:])] == [1, len(steering) - 1]
        assert buffer.getvalue() == expected


# -- one folder, one writer ---------------------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_is_at_work(tmp_path: Path) -> None:
    who = f"process {os.getpid()} on {socket.gethostname()}"
    expected = f"run: expected a folder that no run writes to, found one at work, {who}; wait"
    with only_writer(tmp_path / "run"), pytest.raises(InputError, match=expected), only_writer(tmp_path / "run"):
        pass
    assert os.listdir(tmp_path / "run") == []
    with only_writer(tmp_path / "run"):
        pass


def test_the_lock_of_a_killed_run_is_taken_over(tmp_path: Path) -> None:
    code = "import os, signal; from boostfeat.core.files import only_writer\nwith only_writer('run'): os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT).returncode == -9
    assert (tmp_path / "run" / ".lock").exists()
    with only_writer(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").read_text().startswith(f"{os.getpid()} on ")


@pytest.mark.parametrize(("owner", "refused"), [("1 on elsewhere", True), ("", False)])
def test_where_files_cannot_be_locked_the_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, refused: bool
) -> None:
    monkeypatch.setattr(files.fcntl, "flock", lambda file, how: os.fstat(-1))  # raises OSError
    (tmp_path / ".lock").write_text(owner)
    with pytest.raises(InputError, match="at work") if refused else contextlib.nullcontext(), only_writer(tmp_path):
        pass


# -- digests --------------------------------------------------------------------------------------------------------------


def test_the_digest_of_a_folder_is_of_names_and_contents(tmp_path: Path):
    seen = set()
    for folder, name, text in (("a", "x", "1"), ("b", "x", "1"), ("c", "x", "2"), ("d", "y", "1")):
        (tmp_path / folder / "in").mkdir(parents=True)
        (tmp_path / folder / "in" / name).write_text(text)
        seen.add(digest(tmp_path / folder))
    assert len(seen) == 3
    with pytest.raises(InputError, match="none"):
        digest(tmp_path / "none")
