"""Joshua's n-best lists, its ``output-format`` being ``%i ||| %s ||| %f ||| %c``, possibly with more fields after these.

Features are ``name=value``; versions before 4 print bare values, which get the names f_0, f_1, ... What may follow the
score (word alignment, source, derivation) says nothing of features and is not read.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..core.text import split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from . import cdec
from .fields import Layout, is_number, most_fields, read_list

LAYOUT = Layout("id ||| text ||| name=value ... ||| score", least=4, most=None)
# ``-moses`` turns the underscores of dense names into hyphens
_JOSHUA_NAME = re.compile(r"(?:^|\s)(?:(?:tm|lm)[-_][^\s=]+|OOV_?Penalty)=")


def sniff(head: str) -> bool:
    return most_fields(head, _is_joshua)


def _is_joshua(fields: list[str]) -> bool | None:
    """A line like cdec's tells neither: none of its names may be one that Joshua gives."""
    if len(fields) < 4 or not is_number(fields[3]):
        return False
    if not fields[2]:
        return None
    if all(is_number(value) for value in split_words(fields[2])):
        return True
    return (_JOSHUA_NAME.search(fields[2]) is not None or None) if cdec.is_cdec(fields) else False


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
