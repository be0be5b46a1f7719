"""What ``fairseq-generate`` and ``fairseq-interactive`` print.

    S-0  source          T-0  reference
    H-0  score  tokens   D-0  score  detokenised text   P-0  a score for each token, and for the end of the sentence

Fields are separated by tabs; log-probabilities are to base 2 and become natural ones. Tokens are units with the feature P.
Batches are sorted by length: sentences come in any order, and are sorted by id. A hypothesis' text is its H line, for
scores here take tokens as given; if H lines are in subwords (``@@`` or ``▁``), it is the D line, and units have no places
in it. With ``--remove-bpe`` H has fewer tokens than P has scores; see token_units. Other lines (the log, S, T, A, ...) are
not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log
from pathlib import Path

from ..core.errors import FormatError, clip
from ..lists.build import Builder, HypRecord, ReadOptions
from ..lists.nbest import NBest
from .fields import list_lines, number, sentence_id, token_units

FEATURE = "P"
LN2 = log(2)  # ln p = log2 p · ln 2
_TAGGED = re.compile(r"([A-Z])-(\d+)\t(.*)", re.DOTALL)
_SUBWORD = re.compile(r"@@(?:\s|$)|▁")


@dataclass
class _Hyp:
    sent: int
    where: str
    score: float
    tokens: str
    detokenised: str | None = None
    values: list[float] | None = None


def sniff(head: str) -> bool:
    """A log may come first, of any length."""
    return re.search(r"^[SH]-\d+\t", head, re.MULTILINE) is not None and "|||" not in head.split("\n", 1)[0]


def read(path: str | Path, options: ReadOptions) -> NBest:
    hyps: list[_Hyp] = []
    latest: dict[int, _Hyp] = {}
    for where, line in list_lines(path):
        tagged = _TAGGED.fullmatch(line)
        if not tagged or tagged[1] not in "HDP":
            continue
        tag, sent, rest = tagged[1], sentence_id(tagged[2], where), tagged[3]
        if tag == "H":
            latest[sent] = _Hyp(sent, where, *_scored(rest, where))
            hyps.append(latest[sent])
            continue
        hyp = latest.get(sent)
        if hyp is None or (hyp.detokenised if tag == "D" else hyp.values) is not None:
            raise FormatError(where, expected=f"an H-{sent} line before this one", found=clip(line), fix="do not sort the output")
        if tag == "D":
            hyp.detokenised = _scored(rest, where)[1]
        else:
            hyp.values = [number(v, where, "a token's score") * LN2 for v in rest.split()]
    if not hyps:
        raise FormatError(str(path), expected="H- lines", found="none", fix="run fairseq-generate without --quiet")
    subwords = any(_SUBWORD.search(hyp.tokens) for hyp in hyps)
    hyps.sort(key=lambda hyp: hyp.sent)
    builder = Builder(options)
    for hyp in hyps:
        joined = subwords and hyp.detokenised is not None
        units = (
            token_units(FEATURE, hyp.values, hyp.tokens.split(), hyp.where, spans=not joined) if hyp.values is not None else ()
        )
        text = hyp.detokenised if joined and hyp.detokenised is not None else hyp.tokens
        builder.add(HypRecord(hyp.sent, text, hyp.where, hyp.score, units=units))
    return builder.finish()


def _scored(rest: str, where: str) -> tuple[float, str]:
    score, tab, text = rest.partition("\t")
    if not tab:
        raise FormatError(
            where, expected="a score, a tab and the text", found=clip(rest), fix="keep the tabs of fairseq's output"
        )
    return number(score, where, "the score") * LN2, text
