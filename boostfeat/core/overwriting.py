"""Rules of overwriting: never an input of the command; a file of another kind, known by its first bytes, only when told to.

Inside ``guarded`` every file that is opened for reading is told to ``on_read`` (one that is mapped to ``on_map``),
every file that is about to be replaced to ``on_write``. Files count as one where they are one on disk, whatever names
and links lead there. Library calls are not guarded: a program may write what it has read.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import InputError

STORE, MODEL, PAGE, TEXT, BINARY, PLAN = "a store", "a model", "a page", "text", "a binary file", "a plan"
LIST, JSON, EMPTY = "a list", "JSON", "an empty file"
HEAD = 4096  # bytes that tell
_OURS = re.compile(rb'\{\s*"boostfeat":\s*"(model|vocab)/')
_LIST = re.compile(rb'\A\s*\{\s*"boostfeat":\s*"nbest/|^[^\n]*\|\|\|[^\n]*\|\|\|', re.MULTILINE)
_JSON = re.compile(rb"\s*[\[{]\s*\n")  # on many lines, as settings and results are; answers may be objects too


def kind_of(head: bytes) -> str:
    """Name the kind of a file by its first bytes, its compression taken off."""
    if not head:
        return EMPTY
    if head.startswith(b"ARROW1"):
        return STORE
    if found := _OURS.match(head.lstrip()):
        return MODEL if found[1] == b"model" else PLAN
    if head.lstrip().lower().startswith(b"<!doctype html"):
        return PAGE
    if _LIST.search(head):
        return LIST
    is_text = b"\0" not in head and "\ufffd" not in head.decode("utf-8", "replace").rstrip("\ufffd")
    return BINARY if not is_text else JSON if _JSON.match(head) else TEXT


class _Guard:
    """The files of one command. ``own`` is what it may read and write again: its run folder, or what it saves to resume from."""

    def __init__(self, outputs: list[str]) -> None:
        self.outputs = {file: path for path in outputs if (file := _file(path))}
        self.own = [os.path.realpath(path) for path in outputs]
        self.read: dict[tuple[int, int], str] = {}
        self.inputs: set[tuple[int, int]] = set()  # named by the person: nothing of these is the command's own
        self.mapped: dict[str, tuple[int, ...]] = {}  # what they are on disk
        self.named = {os.path.abspath(path) for path in outputs} | {os.path.dirname(os.path.abspath(path)) for path in outputs}


_now: _Guard | None = None  # not a context variable: files are read in threads too


@contextlib.contextmanager
def guarded(inputs: Iterable[str], outputs: Iterable[str]) -> Iterator[None]:
    """Inside the block, outputs replace nothing that is read; raise at once where an output is one of the inputs.

    At its end, raise where a file was written to while it was mapped, whatever came of that.
    """
    global _now
    before, _now = _now, _Guard(list(outputs))
    try:
        for path in inputs:
            on_read(path)
        _now.inputs = set(_now.read)
        try:
            yield
        finally:
            check_mapped()
    finally:
        _now = before


def on_read(path: str | Path) -> None:
    """Raise where a file that is opened for reading is one that the command will replace."""
    if _now is not None and (file := _file(path)):
        if file in _now.outputs:
            raise _replaced(_now.outputs[file], path)
        _now.read[file] = str(path)


def on_map(path: str | Path) -> None:
    """Remember a mapped file, of which later reads are what the disk has then. Raise where it is another by now."""
    on_read(path)
    if _now is not None:
        where = os.path.abspath(path)
        if not _now.mapped:
            ctypes.CDLL(None).signal(signal.SIGBUS, _END)
        if _now.mapped.setdefault(where, _version(where)) != _version(where):
            raise _changed(where)


def check_mapped() -> None:
    """Raise where a mapped file was written to. One that was replaced by another stays as it was for its reader."""
    for path, (*file, size, time) in _now.mapped.items() if _now is not None else ():
        *now, size_now, time_now = _version(path)
        if now == file and (size_now, time_now) != (size, time):
            raise _changed(path)


def _version(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0, 0
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _changed(path: str) -> InputError:
    found = "found that it was changed while it was read"
    return InputError(f"{path}: expected a file that stays as it is, {found}; run the command again")


def _end(number: int) -> None:
    """End where a mapped file was cut: what reads behind its end cannot go on."""
    try:
        check_mapped()
    except InputError as error:
        os.write(2, f"boostfeat: {error}\n".encode(errors="backslashreplace"))
        os._exit(2)
    os._exit(128 + number)


_END = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end)  # as the system calls it


def on_write(path: str | Path) -> None:
    """Raise where a file that is about to be replaced has been read, or a link leads there that the person did not name."""
    if _now is None:
        return
    inside, place = [], os.path.abspath(path)
    while place not in _now.named and place != os.path.dirname(place):
        inside.append(place)
        place = os.path.dirname(place)
    if place in _now.named:
        refuse_links(inside)
    if (file := _file(path)) not in _now.read:
        return
    is_own = any(os.path.realpath(path).startswith((own + os.sep, own + ".")) for own in _now.own)
    if file in _now.inputs or not is_own:
        raise _replaced(path, _now.read[file])


def refuse_links(paths: Iterable[str]) -> None:
    """Raise for the first of these that is a symbolic link: what is written there would replace a file elsewhere."""
    if link := next(filter(os.path.islink, paths), None):
        raise InputError(f"{link} is a symbolic link, and nothing is written through one that you did not name; remove it")


def _replaced(output: str | Path, path: str | Path) -> InputError:
    return InputError(f"-o {output}: expected another file than the inputs, found {path}; choose another output")


def _file(path: str | Path) -> tuple[int, int] | None:
    """Return what a file is on disk; None for what is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
