"""cdec's k-best lists: ``id ||| text ||| Name=value Name=value ||| score``."""

from __future__ import annotations

import re
from pathlib import Path

from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .fields import Layout, first_fields, read_list

LAYOUT = Layout("id ||| text ||| Name=value ... ||| score", least=4, most=4)
NAME_VALUE = re.compile(r"\S+=[^\s=]+")  # no space after the sign, unlike in Moses' lists


def sniff(head: str) -> bool:
    fields = first_fields(head)
    if fields is None or len(fields) < 4:
        return False
    pairs = fields[2].split()
    return bool(pairs) and all(NAME_VALUE.fullmatch(pair) for pair in pairs)


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
