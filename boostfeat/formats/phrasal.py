"""Phrasal's n-best lists: ``id ||| text ||| Name: value Name: value [||| score [||| alignment ...]]``.

Names hold colons, bars and brackets (``TM:lex(f|t)``), values have four decimals and an exponent (``-4.3621E1``). What
follows the score (word alignment, history, state) says nothing of features and is not read.
"""

from __future__ import annotations

from pathlib import Path

from ..core.text import split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .fields import Layout, most_fields, read_list

LAYOUT = Layout("id ||| text ||| Name: value ...", least=3, most=None)


def sniff(head: str) -> bool:
    return most_fields(head, _is_phrasal)


def _is_phrasal(fields: list[str]) -> bool | None:
    """One value after each colon, and a name Moses' old lists (``d: 0 -1.5 lm: -3``) would not have."""
    tokens = split_words(fields[2])
    if not tokens:
        return None
    labels, values = tokens[::2], tokens[1::2]
    if len(labels) != len(values) or not all(n.endswith(":") for n in labels) or any(v.endswith(":") for v in values):
        return False
    return any(name[0].isupper() or ":" in name[:-1] for name in labels)


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
