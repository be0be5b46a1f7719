"""cdec's k-best lists: ``id ||| text ||| Name=value Name=value ||| score``."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.text import split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .fields import Layout, most_fields, read_list

LAYOUT = Layout("id ||| text ||| Name=value ... ||| score", least=4, most=4)
NAME_VALUE = re.compile(r".+=[^=]+", re.DOTALL)  # no space after the sign, unlike in Moses' lists


def sniff(head: str) -> bool:
    return most_fields(head, is_cdec)


def is_cdec(fields: list[str]) -> bool | None:
    if len(fields) < 4:
        return False
    pairs = split_words(fields[2])
    return all(NAME_VALUE.fullmatch(pair) for pair in pairs) if pairs else None


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
