"""Pieces of HTML that notebooks and the report share. What comes from data is escaped; nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from .errors import LONGEST, plain


def shown(text: str, limit: int = LONGEST) -> str:
    """A text for HTML, in an element or between quotes: of one line and no longer than this, its control characters spelt out."""
    return escape(plain(text, limit))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table: the first column names its rows; no header, no line for it."""
    columns = "".join(f'<th scope="col">{shown(cell)}</th>' for cell in header)
    top = f"<thead><tr>{columns}</tr></thead>" if header else ""
    lines = "".join(f"<tr>{_cells(*row)}</tr>" for row in rows)
    return f"<table>{top}<tbody>{lines}</tbody></table>"


def _cells(first: str, *rest: str) -> str:
    return f'<th scope="row">{shown(first)}</th>' + "".join(f"<td>{shown(cell)}</td>" for cell in rest)


def title(text: str, note: str = "") -> str:
    return f'<h3>{shown(text)} <span class="quiet">{shown(note)}</span></h3>'


def remark(text: str) -> str:
    return f'<p class="quiet">{shown(text)}</p>' if text else ""


def cell(*parts: str) -> str:
    """Pieces of HTML with the style that they need, as an object shows them in a notebook."""
    return f'<div class="boostfeat cell"><style>{style()}</style>{"".join(parts)}</div>'


@cache
def style() -> str:
    """The style sheet of all drawings; colours are named in it, for light and dark."""
    return files(__package__).joinpath("drawings.css").read_text("utf-8")
