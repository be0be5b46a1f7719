"""Travatar's n-best lists: ``id ||| text ||| score ||| name=value name=value``, the score before the features."""

from __future__ import annotations

from pathlib import Path

from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .cdec import NAME_VALUE
from .fields import Layout, first_fields, is_number, read_list

LAYOUT = Layout("id ||| text ||| score ||| name=value ...", least=4, most=4, features=3, score=2)


def sniff(head: str) -> bool:
    fields = first_fields(head)
    if fields is None or len(fields) != 4 or not is_number(fields[2]):
        return False
    pairs = fields[3].split(maxsplit=1)  # the first is enough: a line with many sparse features is longer than the head
    return bool(pairs) and NAME_VALUE.fullmatch(pairs[0]) is not None


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
