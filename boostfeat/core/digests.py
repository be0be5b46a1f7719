"""What identifies the inputs of a run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from .files import cannot_read


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
