"""Marian's n-best lists: ``id ||| text [||| alignment] [||| WordScores= v v ...] ||| F0= v [F1= v ...] ||| score``.

With ``--word-scores`` tokens are units: their feature WordScores is the (weighted) log-probability, the last one that of
the end of the sentence. SentencePiece models join their pieces in the text; see token_units for what becomes of these.
F0, F1, ... are the sums of each scorer over the hypothesis, the score is normalised by length. The alignment is in
subwords of the source and is not read.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..lists.build import Builder, HypRecord, ReadOptions
from ..lists.nbest import NBest
from .fields import FeatureParser, first_fields, list_lines, number, optional_score, sentence_id, split_fields, token_units

LAYOUT = "id ||| text ||| F0= v ||| score"
WORD_SCORES = "WordScores"
_SCORERS = re.compile(r"F0=\s*\S+(?:\s+F\d+=\s*\S+)*")
_WORD_SCORES = re.compile(rf"(?:^|\s){WORD_SCORES}=((?:\s+[^\s=]+(?=\s|$))*)")


def sniff(head: str) -> bool:
    fields = first_fields(head)
    if fields is None or len(fields) < 4:
        return False
    return _SCORERS.fullmatch(fields[-2]) is not None or any(_WORD_SCORES.search(field) for field in fields[2:])


def read(path: str | Path, options: ReadOptions) -> NBest:
    builder, features = Builder(options), FeatureParser()
    for where, line in list_lines(path):
        ident, text, *between, scorers, score = split_fields(line, where, least=4, most=6, layout=LAYOUT)
        words = next((found for field in (*between, scorers) if (found := _WORD_SCORES.search(field))), None)
        values = [number(v, where, WORD_SCORES) for v in words[1].split()] if words else []
        builder.add(
            HypRecord(
                sent=sentence_id(ident, where),
                text=text,
                where=where,
                score=optional_score(score, where),
                features=features(_WORD_SCORES.sub("", scorers), where),
                units=token_units(WORD_SCORES, values, text.split(), where) if words else (),
            )
        )
    return builder.finish()
