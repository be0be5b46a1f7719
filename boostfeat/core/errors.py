"""Errors a user can act on: one line, exit code 2."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable

# What a system says when there is no room or no permission: of the place, not of the program.
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


LONGEST = 300  # characters of a part of a message; the whole has at most eight times as many


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one plain line that says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(plain(message, 8 * LONGEST))


class FormatError(InputError):
    """A file is not what it should be: *where: expected ..., found ...; what to do*."""

    def __init__(self, where: str, *, expected: str, found: str, fix: str = "repair or remove this line") -> None:
        self.where, self.expected, self.found, self.fix = where, expected, found, fix
        expected, found, fix = (plain(part, LONGEST) for part in (expected, found, fix))
        super().__init__(f"{where}: expected {expected}, found {found}; {fix}")


def plain(text: str, limit: int = 1 << 20) -> str:
    """One line, printable and no longer than this, whatever a file had in it: nothing that is shown can steer a terminal."""
    text = _shortened(text, limit)
    if text.isprintable():
        return text
    return _shortened("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text), limit)


def plain_lines(text: str) -> str:
    """Make several lines ``plain``."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}...{text[3 - limit // 2 :]}"


def clip(text: str | bytes, limit: int = 60) -> str:
    """Quote a piece of input for an error message: one line, printable, never long."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return repr(text)


def clip_json(value: object) -> str:
    """Quote a parsed value for an error message; it may be nested deeper than anything can print."""
    try:
        return clip(json.dumps(value, ensure_ascii=False, default=str))
    except RecursionError:
        return "lists or tables nested too deeply"


def counted(n: int, what: str) -> str:
    """A number of things as people say it: 1 sentence, 1,000 hypotheses."""
    head, _, noun = what.rpartition(" ")
    nouns = noun if n == 1 else _PLURALS.get(noun, f"{noun}s")
    return " ".join(filter(None, (f"{n:,}", head, nouns)))


_PLURALS = {"hypothesis": "hypotheses", "leaf": "leaves", "entry": "entries"}


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is that there is no more memory; libraries that do not fit say so in their own way."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        text = str(error).lower() if isinstance(error, ImportError | OSError) else ""
        if "failed to map segment" in text or "cannot allocate memory" in text:
            return True
        error = error.__cause__ or error.__context__
    return False


NO_MEMORY = "boostfeat: not enough memory for this job; use fewer hypotheses (import --size N) or features"
NO_MEMORY_TO_LOAD = "boostfeat: not enough memory to load the libraries; raise the limit (ulimit -v) or end other programs"


def repeated(names: Iterable[str]) -> str | None:
    """The first name that is there already; None where all differ."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def unknown_name(kind: str, name: str, known: object) -> InputError:
    """The error for a name that is not in a registry lists the registry's keys."""
    return InputError(f"unknown {kind} {name!r}: expected one of {', '.join(map(str, known))}")  # type: ignore[call-overload]


def refuse_newer(where: str, tag: object, kind: str, version: int) -> None:
    """Raise for the tag KIND/N of a later format than this version of boostfeat knows: it may mean something else."""
    found, _, number = str(tag).partition("/")
    if found == kind and number.isascii() and number.isdecimal() and (len(number) > 9 or int(number) > version):
        raise FormatError(where, expected=f"format version {version} or lower", found=number, fix="upgrade boostfeat")
