"""Marian's lists: ``id ||| text [||| alignment] [||| WordScores= v v ...] ||| F0= v [F1= v ...] ||| score``, and the like.

Without ``--n-best`` there is no id and a line is a sentence: ``text ||| WordScores= v v ...``. marian-scorer puts what it adds
around the field after the text, which need not be the one with F0:

    id ||| text ||| [alignment |||] [WordScores= of the new model |||] FIELD Name= v ||| ... ||| score

so named features and alignments are read in any field. With ``--word-scores`` tokens have log-probabilities, see lists.tokens:
those of the decoder are WordScores, those of a model that added the feature Name are Name.WordScores. F0, F1, ... are the
sums of the scorers of an ensemble; the last field, which may be normalised by length, is the decoder's score and the feature
DecoderScore. Alignments, hard (``0-0 1-2``) or soft (weights of source tokens, comma-separated, for each target token), give
source spans; see lists.tokens for the features of them.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import NamedTuple

from ..core.errors import FormatError, clip, counted
from ..core.files import read_head, read_lines
from ..core.text import BLANKS, split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.tokens import DECODER_SCORE, TokenBuilder, TokenHyp, attention
from .fields import is_number, label_groups, name_values, numbers, optional_score, sentence_id, split_fields

LAYOUT = "id ||| text ||| F0= v ||| score"
WORD_SCORES = "WordScores"
_HARD = re.compile(r"(?:[0-9]{1,9}-[0-9]{1,9}(?:[ \t]+|$))+")
_SOFT = re.compile(r"(?:[0-9.eE+-]+(?:,[0-9.eE+-]+)*(?:[ \t]+|$))+")
_OF_SCORER = re.compile(r"F[0-9]+")


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _has_ids(head: str) -> bool:
    """Whether most lines start with a number and have fields enough for a list."""
    lines = [line.split("|||") for line in head.split("\n") if line and not line.isspace()]
    with_id = sum(_is_id(parts[0].strip()) and len(parts) >= 4 for parts in lines)
    return 2 * with_id >= len(lines)


class _Fields(NamedTuple):
    """Contents of the fields between a text and its score."""

    features: dict[str, float]
    scores: dict[str, list[float]]
    links: list[tuple[int, int]] | None
    attention: list[list[float]] | None


def read(path: str | Path, options: ReadOptions) -> NBest:
    ids = _has_ids(read_head(path).removeprefix(BOM_UTF8).decode("utf-8", "replace"))
    lines = ((f"{path}:{number}", line) for number, line in read_lines(path) if line and not line.isspace())
    builder = TokenBuilder(options)
    builder.take(_hyp(line, where, None if ids else k) for k, (where, line) in enumerate(lines))
    return builder.finish()


def _hyp(line: str, where: str, sent: int | None) -> TokenHyp:
    """The hypothesis of a line; without an id it is of the sentence ``sent``."""
    if sent is None:
        ident, text, *between, last = split_fields(line, where, least=4, layout=LAYOUT)
        sent, score = sentence_id(ident, where), optional_score(last, where)
    else:
        text, *between = split_fields(line, where, least=1, layout=f"text ||| {WORD_SCORES}= v ...")
        score = optional_score(between.pop() if between and is_number(between[-1]) else "", where)
    found = _fields(between, where)
    links, features = found.links, found.features
    signals: dict[str, list[float]] = {}
    if found.attention is not None:
        links, signals, coverage = attention(found.attention)
        features |= coverage
    if score == score and features.setdefault(DECODER_SCORE, score) != score:
        raise FormatError(where, expected="distinct feature names", found=f"{DECODER_SCORE!r} twice", fix="rename one of them")
    return TokenHyp(sent, text, where, score, features, found.scores, signals, links)


def _fields(fields: list[str], where: str) -> _Fields:
    features: dict[str, float] = {}
    columns: list[tuple[int, list[float]]] = []  # (field, scores)
    added: list[str] = [""] * len(fields)  # by field, the feature that a scorer put at its end
    links, soft = None, None
    for k, field in enumerate(fields):
        aligned, labelled = _split_alignment(field, where)
        if aligned and links is None and soft is None:  # the first is the latest model's
            links, soft = parse_alignment(aligned, where)
        groups = label_groups(labelled, where)
        columns += [(k, numbers(" ".join(v), where, WORD_SCORES)) for name, v in groups if name == WORD_SCORES]
        own = name_values([group for group in groups if group[0] != WORD_SCORES], where)
        if twice := next((name for name in own if name in features), None):
            raise FormatError(where, expected="distinct feature names", found=f"{twice!r} twice", fix="rename one of them")
        features |= own
        added[k] = next((name for name in reversed(own) if not _OF_SCORER.fullmatch(name)), "")
    return _Fields(features, _named(columns, added, where), links, soft)


def _named(columns: list[tuple[int, list[float]]], added: list[str], where: str) -> dict[str, list[float]]:
    """Columns by model, the decoder's first. A scorer's is in a field of its own, before the field that got its feature."""
    scores: dict[str, list[float]] = {}
    for i, (k, values) in enumerate(columns):
        model = added[k + 1] if k + 1 < len(added) else ""
        name = f"{model}.{WORD_SCORES}" if model else WORD_SCORES if i == len(columns) - 1 else f"{i}.{WORD_SCORES}"
        if name in scores:
            raise FormatError(where, expected=f"one {WORD_SCORES} a model", found=f"{name!r} twice", fix="remove one of them")
        scores[name] = values
    return dict(reversed(scores.items()))


def parse_alignment(text: str, where: str) -> tuple[list[tuple[int, int]] | None, list[list[float]] | None]:
    """(links, None) of ``0-0 1-2``, (None, weights [target, source]) of ``0.9,0.1 0.2,0.8``."""
    if _HARD.fullmatch(text):
        return [(int(s), int(t)) for s, _, t in (point.partition("-") for point in split_words(text))], None
    if not _SOFT.fullmatch(text):
        raise FormatError(where, expected="an alignment like 0-0 1-2", found=clip(text), fix="repair or remove this line")
    return None, _rows(text, where)


def _split_alignment(field: str, where: str) -> tuple[str, str]:
    """(alignment, named features) of a field."""
    head = next(iter(split_words(field)), "")
    if not field or "=" in head:
        return "", field
    hard = _HARD.match(field)
    found = hard or _SOFT.match(field)
    if found is None or ("=" not in field[found.end() :] and found.end() < len(field)):
        raise FormatError(
            where,
            expected="an alignment or named features",
            found=clip(field),
            fix="is this a list of Marian's? name another with --format",
        )
    return found[0].strip(BLANKS), field[found.end() :].strip(BLANKS)


def _rows(aligned: str, where: str) -> list[list[float]]:
    rows = [numbers(row.replace(",", " "), where, "an alignment") for row in split_words(aligned)]
    if odd := next((v for row in rows for v in row if not 0 <= v <= 1.01), None):
        raise FormatError(where, expected="weights from 0 to 1", found=str(odd), fix="repair or remove this line")
    if any(len(row) != len(rows[0]) for row in rows):
        raise FormatError(
            where,
            expected=f"{counted(len(rows[0]), 'weight')} for each target token",
            found=str(next(len(row) for row in rows if len(row) != len(rows[0]))),
            fix="repair or remove this line",
        )
    return rows
