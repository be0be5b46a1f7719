"""Aligned columns of text."""

from __future__ import annotations

from .errors import plain


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
