"""Texts: words of a line as decoders count them, what of them may be numbers, and columns of Arrow."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np

from .arrays import I64, U8

Strings: TypeAlias = Any  # a pyarrow.LargeStringArray without nulls; pyarrow has no types of its own
BLANKS = " \t"  # what Moses and its kin split at; a no-break space or another Unicode blank is part of a word
_ASCII_WORD = re.compile(r"[^ \t\n\r\v\f]+")


def split_words(text: str) -> list[str]:
    """The words of a text: what stands between blanks and tabs. str.split would also split at Unicode's other blanks."""
    parts = (text.replace("\t", " ") if "\t" in text else text).split(" ")
    return [part for part in parts if part] if "" in parts else parts


def normal(text: str) -> str:
    """The words of a text with single blanks between them. Ends of lines, which only texts from JSON can hold, are blanks."""
    if not ("  " in text or "\t" in text or "\n" in text or text[:1] == " " or text[-1:] == " "):
        return text
    if "\n" in text:
        text = text.replace("\r\n", " ").replace("\n", " ")
    return " ".join(split_words(text))


def is_whole(text: str, *, digits: int = 18) -> bool:
    """Whether this is a whole number in so many ASCII digits at most. str.isdigit also takes ² and Arabic digits."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def may_be_number(text: str) -> bool:
    """Whether nothing is in it that only Python takes for a part of numbers: 1_000, full-width digits, white space."""
    return text.isascii() and text.isprintable() and "_" not in text


def ascii_words(text: str) -> list[str]:
    """The words of a text whose ends of lines are blanks too, as in neural decoders' tokens; Unicode's other blanks are not."""
    return _ASCII_WORD.findall(text)


def string_buffers(column: Strings) -> tuple[I64, U8]:
    """Offsets [n+1] and UTF-8 bytes of a string column, read-only and without copying. The column has no nulls."""
    _, ptr, data = column.buffers()
    starts = np.frombuffer(ptr, np.int64)[column.offset : column.offset + len(column) + 1] if ptr else np.zeros(1, np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    starts.flags.writeable = text.flags.writeable = False
    return starts, text


def has_text(column: Strings) -> bool:
    """Whether any of the strings has a byte."""
    ptr, _ = string_buffers(column)
    return bool(ptr[-1] > ptr[0])
