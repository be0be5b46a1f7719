"""Travatar's n-best lists: ``id ||| text ||| score ||| name=value name=value``, the score before the features."""

from __future__ import annotations

from pathlib import Path

from ..core.text import split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .cdec import NAME_VALUE
from .fields import Layout, is_number, most_fields, read_list

LAYOUT = Layout("id ||| text ||| score ||| name=value ...", least=4, most=4, features=3, score=2)


def sniff(head: str) -> bool:
    return most_fields(head, _is_travatar)


def _is_travatar(fields: list[str]) -> bool | None:
    if len(fields) != 4 or not is_number(fields[2]):
        return False
    pairs = split_words(fields[3])
    return NAME_VALUE.fullmatch(pairs[0]) is not None if pairs else None


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
