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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..core.errors import FormatError, clip, counted
from ..core.files import read_head
from ..core.text import BLANKS, split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.tokens import DECODER_SCORE, WORDS, TokenBuilder, TokenHyp, attention
from .fields import FeatureParser, is_number, label_groups, name_values, numbers, optional_score, sentence_id, split_fields
from .marian_fast import FastReader, lines_left

LAYOUT = "id ||| text ||| F0= v ||| score"
WORD_SCORES = "WordScores"
_SCORES = f"{WORD_SCORES}= "
_SIGNS = re.compile(rf"(?:^|\s){WORD_SCORES}=|^(?:\S+\s+)*?F0=\s*\S+(?:\s+[^\s=]+=\s*\S+)*$")
_OURS = re.compile(rf"(?:^|\s)(?:{WORDS}|{DECODER_SCORE})=")  # a list of Marian that boostfeat wrote, in Moses' format
_HARD = re.compile(r"(?:[0-9]{1,9}-[0-9]{1,9}(?:[ \t]+|$))+")
_SOFT = re.compile(r"(?:[0-9.eE+-]+(?:,[0-9.eE+-]+)*(?:[ \t]+|$))+")
_OF_SCORER = re.compile(r"F[0-9]+")


def sniff(head: str) -> bool:
    """Whether half of the lines of a head, or more, look like Marian's, with ids or without."""
    lines = [line for line in head.split("\n") if line and not line.isspace()]
    found = sum(_is_marian(line) for line in lines)
    return found > 0 and 2 * found >= len(lines)


def _is_marian(line: str) -> bool:
    parts = [part.strip() for part in line.split("|||")]
    if any(_OURS.search(part) for part in parts[2:]):
        return False
    if _is_id(parts[0]) and len(parts) >= 4:
        return any(_SIGNS.search(part) for part in parts[2:-1])
    return len(parts) >= 2 and any(part.startswith(f"{WORD_SCORES}=") for part in parts[1:])


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _has_ids(head: str) -> bool:
    """Whether most lines start with a number and have fields enough for a list."""
    lines = [line.split("|||") for line in head.split("\n") if line and not line.isspace()]
    with_id = sum(_is_id(parts[0].strip()) and len(parts) >= 4 for parts in lines)
    return 2 * with_id >= len(lines)


class _Fields(NamedTuple):
    """What the fields between a text and its score hold."""

    features: dict[str, float]
    scores: dict[str, list[float]]
    links: list[tuple[int, int]] | None
    attention: list[list[float]] | None


def read(path: str | Path, options: ReadOptions) -> NBest:
    """Read a list by two readers of the same language; see columns.read_lines_twice."""
    builder = TokenBuilder(options)
    head = read_head(path).removeprefix(BOM_UTF8).decode("utf-8", "replace")
    ids = _has_ids(head)
    builder.take(_hyps(lines_left(path, _fast_for(head, options) if ids else None, builder), ids=ids))
    return builder.finish()


def _fast_for(head: str, options: ReadOptions) -> FastReader | None:
    """A reader for lists like the first of these lines; None where it has other fields than a kernel knows."""
    try:
        first = next(line for line in head.split("\n") if line.strip())
        _, _, *between, _ = split_fields(first, "", least=4, layout=LAYOUT)
        found = _fields(between, "")
        groups = [(name, len(values)) for name, values in label_groups(between[-1], "")]
    except (FormatError, StopIteration, ValueError):
        return None
    are_scores = [field.startswith(_SCORES) for field in between]
    plain = found.links is None and found.attention is None and DECODER_SCORE not in found.features
    if not plain or are_scores not in ([False], [True, False]) or len(found.scores) != sum(are_scores):
        return None
    return FastReader(groups, next(iter(found.scores), None), options)


def _hyps(lines: Iterable[tuple[str, str]], *, ids: bool) -> Iterator[TokenHyp]:
    regular = _Regular()
    for n, (where, line) in enumerate(lines):
        if ids:
            ident, text, *between, last = split_fields(line, where, least=4, layout=LAYOUT)
            sent, score = sentence_id(ident, where), optional_score(last, where)
        else:
            text, *between = split_fields(line, where, least=1, layout=f"text ||| {WORD_SCORES}= v ...")
            sent, score = n, optional_score(between.pop() if between and is_number(between[-1]) else "", where)
        found = regular(between, where) or regular.learn(between, _fields(between, where))
        links, features = found.links, found.features
        signals: dict[str, list[float]] = {}
        if found.attention is not None:
            links, signals, coverage = attention(found.attention)
            features |= coverage
        if score == score and features.setdefault(DECODER_SCORE, score) != score:
            raise FormatError(
                where, expected="distinct feature names", found=f"{DECODER_SCORE!r} twice", fix="rename one of them"
            )
        yield TokenHyp(sent, " ".join(text.split(" ")), where, score, features, found.scores, signals, links)


class _Regular:
    """Fields like those of the line before, where one at most has the scores of tokens and the others named features."""

    def __init__(self) -> None:
        self._parsers: list[FeatureParser | None] = []  # None: scores of tokens
        self._scores = ""  # their name

    def __call__(self, fields: list[str], where: str) -> _Fields | None:
        """What the fields hold; None where they are others."""
        if not self._parsers or len(fields) != len(self._parsers):
            return None
        features: dict[str, float] = {}
        scores: dict[str, list[float]] = {}
        for parse, field in zip(self._parsers, fields, strict=True):
            if parse is not None:
                own = parse.again(field)
                if own is None:
                    return None
                features |= own
            elif field.startswith(_SCORES) and "=" not in field[len(_SCORES) :]:
                scores[self._scores] = numbers(field[len(_SCORES) :], where, WORD_SCORES)
            else:
                return None
        return _Fields(features, scores, None, None)

    def learn(self, fields: list[str], found: _Fields) -> _Fields:
        """Remember what these fields hold, if they are regular; returns it."""
        are_scores = [field.startswith(_SCORES) for field in fields]
        labelled = all("=" in next(iter(split_words(field)), "") for field in fields)
        self._parsers = []
        if labelled and found.links is None and found.attention is None and sum(are_scores) == len(found.scores) <= 1:
            self._parsers = [None if own else FeatureParser() for own in are_scores]
            self._scores = next(iter(found.scores), "")
            for parse, field in zip(self._parsers, fields, strict=True):
                if parse is not None:
                    parse(field, "")
        return found


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
