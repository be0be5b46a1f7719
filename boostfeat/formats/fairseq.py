"""Lists as ``fairseq-generate`` and ``fairseq-interactive`` print them.

    S-0  source          T-0  reference
    H-0  score  tokens   D-0  score  detokenised text   P-0  a score for each token, and for the end of the sentence
    A-0  alignment, 0-0 1-2 or soft

Fields are separated by tabs; log-probabilities are to base 2 and become natural ones. P gives the units, see lists.tokens; the
score of H, normalised by length, is the decoder's and the feature DecoderScore. Batches are sorted by length: sentences come in
any order, and are sorted by id. A hypothesis' text is its H line, for scores here take tokens as given; if H lines are in pieces
(``@@`` or ``▁``), it is the D line, and without one its pieces are joined. Words of a D line get their tokens by characters. With
``--remove-bpe`` H has fewer tokens than P has scores, and nobody can tell which belong to which. Other lines are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from ..core.errors import FormatError, clip
from ..core.files import read_lines
from ..core.text import BLANKS
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.pieces import scheme_of_lines
from ..lists.tokens import DECODER_SCORE, TokenBuilder, TokenHyp, attention
from .fields import number, numbers, sentence_id
from .marian import parse_alignment

FEATURE = "P"
LN2 = log(2)  # ln p = log2 p · ln 2
_TAGGED = re.compile(r"([A-Z])-(\d+)\t(.*)", re.DOTALL)


@dataclass
class _Hyp:
    sent: int
    where: str
    score: float
    tokens: str
    lines: dict[str, str] = field(default_factory=dict)  # by tag: what the lines of D, P and A say, and where
    places: dict[str, str] = field(default_factory=dict)


def read(path: str | Path, options: ReadOptions) -> NBest:
    hyps = _hyps(((n, line) for n, line in read_lines(path) if line[1:2] == "-" and line[0] in "HDPA"), path)
    in_pieces = _are_in_pieces([hyp.tokens for hyp in hyps], options)
    builder = TokenBuilder(options)
    builder.take(_record(hyp, in_pieces=in_pieces) for hyp in sorted(hyps, key=lambda hyp: hyp.sent))
    return builder.finish()


def _are_in_pieces(tokens: list[str], options: ReadOptions) -> bool:
    return options.subwords != "none" and (options.subwords != "auto" or scheme_of_lines(tokens) != "none")


def _hyps(lines: Iterable[tuple[int, str]], path: str | Path) -> list[_Hyp]:
    hyps: list[_Hyp] = []
    latest: dict[int, _Hyp] = {}
    for n, line in lines:
        where = f"{path}:{n}"
        tagged = _TAGGED.fullmatch(line)
        if not tagged:
            continue
        tag, sent, rest = tagged[1], sentence_id(tagged[2], where), tagged[3]
        if tag == "H":
            latest[sent] = _Hyp(sent, where, *_scored(rest, where))
            hyps.append(latest[sent])
            continue
        hyp = latest.get(sent)
        if hyp is None or tag in hyp.lines:
            raise FormatError(where, expected=f"an H-{sent} line before this one", found=clip(line), fix="do not sort the output")
        hyp.lines[tag], hyp.places[tag] = rest, where
    if not hyps:
        raise FormatError(str(path), expected="H- lines", found="none", fix="run fairseq-generate without --quiet")
    return hyps


def _record(hyp: _Hyp, *, in_pieces: bool) -> TokenHyp:
    detokenised = _scored(hyp.lines["D"], hyp.places["D"])[1] if "D" in hyp.lines else None
    scores = {}
    if "P" in hyp.lines:
        scores[FEATURE] = [v * LN2 for v in numbers(hyp.lines["P"], hyp.places["P"], "a token's score")]
    links, features = None, {DECODER_SCORE: hyp.score}
    signals: dict[str, list[float]] = {}
    if hyp.lines.get("A", "").strip(BLANKS):
        links, soft = parse_alignment(hyp.lines["A"].strip(BLANKS), hyp.places["A"])
        if soft is not None:
            links, signals, coverage = attention(soft)
            features |= coverage
    text = detokenised if in_pieces else None
    return TokenHyp(hyp.sent, hyp.tokens, hyp.where, hyp.score, features, scores, signals, links, text)


def _scored(rest: str, where: str) -> tuple[float, str]:
    score, tab, text = rest.partition("\t")
    if not tab:
        raise FormatError(
            where, expected="a score, a tab and the text", found=clip(rest), fix="keep the tabs of fairseq's output"
        )
    return number(score, where, "the score") * LN2, text
