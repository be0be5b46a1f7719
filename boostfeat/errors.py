"""Errors a user can act on: one line, exit code 2."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one line that says what to do."""


class FormatError(InputError):
    """A file is not what it should be: *where: expected ..., found ...; what to do*."""

    def __init__(self, where: str, *, expected: str, found: str, fix: str) -> None:
        self.where, self.expected, self.found, self.fix = where, expected, found, fix
        super().__init__(f"{where}: expected {expected}, found {found}; {fix}")


def clip(text: str | bytes, limit: int = 60) -> str:
    """Quote a piece of input for an error message: one line, printable, never long."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return repr(text)


def unknown_name(kind: str, name: str, known: object) -> InputError:
    """The error for a name that is not in a registry lists the registry's keys."""
    return InputError(f"unknown {kind} {name!r}: expected one of {', '.join(map(str, known))}")  # type: ignore[call-overload]
