"""Words of a line as decoders count them."""

from __future__ import annotations

import re

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


def ascii_words(text: str) -> list[str]:
    """The words of a text whose ends of lines are blanks too, as in neural decoders' tokens; Unicode's other blanks are not."""
    return _ASCII_WORD.findall(text)
