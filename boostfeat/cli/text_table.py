"""Aligned columns of text."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from textwrap import wrap

from ..core.errors import plain


def table(rows: list[list[str]], *, header: list[str] | None = None, right: tuple[int, ...] | None = None) -> str:
    """Aligned columns: to the right those given (default: all but the first), the others to the left."""
    lines = [[plain(cell) for cell in row] for row in ([header, *rows] if header else rows)]
    if not lines:
        return ""
    widths = [max(len(row[c]) for row in lines if c < len(row)) for c in range(max(map(len, lines)))]
    rightmost = range(1, len(widths)) if right is None else right

    def line(row: list[str]) -> str:
        cells = [cell.rjust(w) if c in rightmost else cell.ljust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=False))]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in lines)


def terminal_width() -> int | None:
    """Of the terminal that output goes to; None where it goes elsewhere."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def laid_out(lines: list[list[str]], width: int | None) -> str:
    """Names and what was found, which goes on in further lines, whole words each, where a terminal is not wide enough."""
    names = max(len(name) for name, _ in lines)
    room = max(1, width - names - 4) if width else sys.maxsize
    rows = []
    for name, found in lines:
        parts = wrap(found, room, break_long_words=False, break_on_hyphens=False)
        rows += [[first, "  " + part] for first, part in zip([name, *[""] * len(parts)], parts, strict=False)]
    return table(rows, right=())
