"""What a command may overwrite: never one of its inputs, and a file of another kind (known by its first bytes) only when told to.

Inside ``guarded`` every file that is opened for reading is told to ``on_read``, every file that is about to be replaced to
``on_write``. Files count as one where they are one on disk, whatever names and links lead there. Library calls are not guarded:
a program may write what it has read.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import InputError

STORE, MODEL, PAGE, TEXT, BINARY, VOCAB = "a store", "a model", "a page", "text", "a binary file", "a vocab"
LIST, JSON, EMPTY = "a list", "JSON", "an empty file"
HEAD = 4096  # bytes that tell
_OURS = re.compile(rb'\{\s*"boostfeat":\s*"(model|vocab)/')
_LIST = re.compile(rb'\A\s*\{\s*"boostfeat":\s*"nbest/|^[^\n]*\|\|\|[^\n]*\|\|\|', re.MULTILINE)
_JSON = re.compile(rb"\s*[\[{]\s*\n")  # on many lines, as settings and results are; answers may be objects too


def kind_of(head: bytes) -> str:
    """What a file that begins so is, its compression taken off."""
    if not head:
        return EMPTY
    if head.startswith(b"ARROW1"):
        return STORE
    if found := _OURS.match(head.lstrip()):
        return MODEL if found[1] == b"model" else VOCAB
    if head.lstrip().lower().startswith(b"<!doctype html"):
        return PAGE
    if _LIST.search(head):
        return LIST
    is_text = b"\0" not in head and "\ufffd" not in head.decode("utf-8", "replace").rstrip("\ufffd")
    return BINARY if not is_text else JSON if _JSON.match(head) else TEXT


class _Guard:
    """The files of one command. ``own`` is what it may read and write again: its run folder, or what it saves to resume from."""

    def __init__(self, outputs: Iterable[str]) -> None:
        self.outputs = {found: path for path in outputs if (found := _file(path))}
        self.own = [os.path.realpath(path) for path in outputs]
        self.read: dict[tuple[int, int], str] = {}
        self.inputs: set[tuple[int, int]] = set()  # named by the person: nothing of these is the command's own

    def on_read(self, path: str) -> None:
        if (found := _file(path)) is None:
            return
        if found in self.outputs:
            raise replaced(self.outputs[found], path)
        self.read[found] = path

    def on_write(self, path: str) -> None:
        if (found := _file(path)) in self.read and (found in self.inputs or not self._is_own(path)):
            raise replaced(path, self.read[found])

    def _is_own(self, path: str) -> bool:
        place = os.path.realpath(path)
        return any(place.startswith((own + os.sep, own + ".")) for own in self.own)


_now: _Guard | None = None  # not a context variable: files are read in threads too


@contextlib.contextmanager
def guarded(inputs: Iterable[str], outputs: Iterable[str]) -> Iterator[None]:
    """Inside the block, outputs replace nothing that is read; raises at once where an output is one of the inputs."""
    global _now
    before, guard = _now, _Guard(list(outputs))
    for path in inputs:
        guard.on_read(path)
    guard.inputs = set(guard.read)
    _now = guard
    try:
        yield
    finally:
        _now = before


def on_read(path: str | Path) -> None:
    """Raise where a file that is opened for reading is one that the command will replace."""
    if _now is not None:
        _now.on_read(str(path))


def on_write(path: str | Path) -> None:
    """Raise where a file that is about to be replaced has been read."""
    if _now is not None:
        _now.on_write(str(path))


def replaced(output: str, path: str) -> InputError:
    return InputError(f"-o {output}: expected another file than the inputs, found {path}; choose another output")


def _file(path: str) -> tuple[int, int] | None:
    """What a file is on disk; None for what is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if os.path.isfile(path) else None
