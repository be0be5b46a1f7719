"""Phrasal's n-best lists: ``id ||| text ||| Name: value Name: value [||| score [||| alignment ...]]``.

Names hold colons, bars and brackets (``TM:lex(f|t)``), values have four decimals and an exponent (``-4.3621E1``). What
follows the score (word alignment, history, state) says nothing of features and is not read.
"""

from __future__ import annotations

from pathlib import Path

from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .fields import Layout, first_fields, read_list

LAYOUT = Layout("id ||| text ||| Name: value ...", least=3, most=None)


def sniff(head: str) -> bool:
    """One value after each colon, and a name Moses' old lists (``d: 0 -1.5 lm: -3``) would not have."""
    fields = first_fields(head)
    if fields is None:
        return False
    labels, values = fields[2].split()[::2], fields[2].split()[1::2]
    single = len(labels) == len(values) > 0 and all(n.endswith(":") for n in labels) and not any(v.endswith(":") for v in values)
    return single and any(name[0].isupper() or ":" in name[:-1] for name in labels)


def read(path: str | Path, options: ReadOptions) -> NBest:
    return read_list(path, options, LAYOUT)
