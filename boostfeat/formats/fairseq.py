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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path

import numpy as np

from ..core.errors import FormatError, clip
from ..core.files import read_lines
from ..core.text import BLANKS
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.pieces import scheme_of_lines
from ..lists.tokens import DECODER_SCORE, TokenBuilder, TokenHyp, TokenLists, attention
from .fields import all_numbers, are_ids, number, numbers, sentence_id
from .marian import parse_alignment

FEATURE = "P"
LN2 = log(2)  # ln p = log2 p · ln 2
_ORDERS = ("H", "HP", "HD", "HDP", "HPD")  # of the lines of a hypothesis
_FIELDS = {"H": 2, "D": 2, "P": 1}  # tabs of a line
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
    every = list(read_lines(path))
    if not any(line and not line.isspace() for _, line in every):
        raise FormatError(str(path), expected="an n-best list", found="an empty file", fix="check what wrote it")
    lines = [found for found in every if found[1][1:2] == "-" and found[1][0] in "HDPA"]
    builder, fast = TokenBuilder(options), _in_columns(lines, path, options)
    if fast is not None:
        builder.add_lists(fast)
        return builder.finish()
    hyps = _hyps(lines, path)
    in_pieces = _are_in_pieces([hyp.tokens for hyp in hyps], options)
    for hyp in sorted(hyps, key=lambda hyp: hyp.sent):
        builder.add(_record(hyp, in_pieces=in_pieces))
    return builder.finish()


def _are_in_pieces(tokens: list[str], options: ReadOptions) -> bool:
    return options.subwords != "none" and (options.subwords != "auto" or scheme_of_lines(tokens) != "none")


def _in_columns(lines: Sequence[tuple[int, str]], path: str | Path, options: ReadOptions) -> TokenLists | None:
    """The hypotheses of lines that follow each other as those of the first hypothesis do, without an alignment.

    None for others, and where anything is wrong: they are for ``_record``, line by line.
    """
    tags = "".join([line[0] for _, line in lines])
    order = tags[: tags.find("H", 1)] if "H" in tags[1:] else tags
    if order not in _ORDERS or tags != order * (len(tags) // len(order)):
        return None
    rows = {tag: [line.split("\t", _FIELDS[tag]) for _, line in lines[k :: len(order)]] for k, tag in enumerate(order)}
    if any({*map(len, own)} != {_FIELDS[tag] + 1} for tag, own in rows.items()):
        return None
    sents, *others = ([row[0][2:] for row in own] for own in rows.values())
    found = {tag: all_numbers(" ".join([row[1] for row in own])) for tag, own in rows.items()}
    values = {tag: own for tag, own in found.items() if own is not None}
    if any(other != sents for other in others) or not are_ids(sents) or len(values) < len(rows):
        return None
    tokens, score = [row[2] for row in rows["H"]], LN2 * values["H"]
    if any(len(values[tag]) != len(tokens) for tag in rows if tag != "P"):  # two numbers where one should be
        return None
    scores = {}
    if "P" in rows:
        scores[FEATURE] = np.array([row[1].count(" ") + 1 for row in rows["P"]], np.int64), LN2 * values["P"]
    text = [row[2] for row in rows["D"]] if "D" in rows and _are_in_pieces(tokens, options) else None
    hyps = TokenLists(
        sent=np.array([*map(int, sents)], np.int64),
        where=[f"{path}:{number}" for number, _ in lines[:: len(order)]],
        tokens=tokens,
        score=score,
        features={DECODER_SCORE: score},
        scores=scores,
        text=text,
    )
    return hyps.take(np.argsort(hyps.sent, kind="stable")) if (np.diff(hyps.sent) < 0).any() else hyps


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
