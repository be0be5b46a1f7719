"""Lists of cdec, Joshua, Phrasal and Travatar: ``id ||| text ||| named features ||| score``, each in its own way.

    cdec      id ||| text ||| Name=value Name=value ||| score
    joshua    its ``output-format`` being ``%i ||| %s ||| %f ||| %c``; versions before 4 print bare values, which get the
              names f_0, f_1, ...
    phrasal   id ||| text ||| Name: value Name: value [||| score]; names hold colons, bars and brackets (``TM:lex(f|t)``)
    travatar  id ||| text ||| score ||| name=value name=value

What follows the score (word alignment, source, derivation) says nothing of features and is not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path

import numpy as np

from ..lists.build import HypColumns, HypRecord, ReadOptions, UnitColumns
from ..lists.nbest import NBest
from .bar_lines import BarLines, read_bar_list, string_column
from .fields import optional_score, read_features, sentence_id, split_fields

NAME_VALUE = re.compile(r".+=[^=]+", re.DOTALL)  # no space after the sign, unlike in Moses' lists
# ``-moses`` turns the underscores of dense names into hyphens
_JOSHUA_NAME = re.compile(r"(?:^|\s)(?:(?:tm|lm)[-_][^\s=]+|OOV_?Penalty)=")


@dataclass(frozen=True)
class Layout:
    """A line's layout: which field of ``id ||| text ||| ...`` holds what; ``shown`` is the line as error messages give it."""

    shown: str
    least: int
    most: int | None
    features: int = 2
    score: int = 3


LAYOUTS = {
    "cdec": Layout("id ||| text ||| Name=value ... ||| score", least=4, most=4),
    "joshua": Layout("id ||| text ||| name=value ... ||| score", least=4, most=None),
    "phrasal": Layout("id ||| text ||| Name: value ...", least=3, most=None),
    "travatar": Layout("id ||| text ||| score ||| name=value ...", least=4, most=4, features=3, score=2),
}


def read_labelled(path: str | Path, options: ReadOptions, *, layout: Layout) -> NBest:
    """A list whose hypotheses have features of their own and no units."""

    def record(line: str, where: str) -> HypRecord:
        parts = split_fields(line, where, least=layout.least, most=layout.most, layout=layout.shown)
        return HypRecord(
            sent=sentence_id(parts[0], where),
            text=parts[1],
            where=where,
            score=optional_score(parts[layout.score], where) if layout.score < len(parts) else nan,
            features=read_features(parts[layout.features], where),
        )

    return read_bar_list(path, options, partial(_columns, options=options, layout=layout), record)


def _columns(lines: BarLines, options: ReadOptions, layout: Layout) -> tuple[BarLines, HypColumns]:
    sent = lines.ids()
    wanted = lines.wanted(sent, options)
    lines, sent = lines.take(wanted), sent[wanted]
    lines.odd |= (lines.n_fields < layout.least) | (lines.n_fields > (layout.most or lines.n_fields))
    text_ptr, text, _ = lines.words(lines.field(1))
    features, score = lines.features(lines.field(layout.features)), lines.numbers(lines.field(layout.score))
    none, no_units = np.zeros(0, np.int32), np.zeros(len(lines), np.int64)
    texts = string_column(text_ptr, text)
    return lines, HypColumns(sent, texts, score, *features, no_units, none, none, none, UnitColumns.none())
