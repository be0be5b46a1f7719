"""Lists of Marian and fairseq: texts in tokens, with the log-probabilities of their tokens in lines of their own way.

Log-probabilities of tokens give units, see lists.tokens; the decoder's score, which may be normalised by length, is also the
feature DecoderScore. Alignments, hard (``0-0 1-2``) or soft (weights of source tokens, comma-separated, for each target token),
give source spans and the features that lists.tokens has of them.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from ..core.errors import FormatError, clip, counted
from ..core.files import read_head, read_lines
from ..core.text import BLANKS, is_whole, split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.pieces import scheme_of_lines
from ..lists.tokens import DECODER_SCORE, TokenBuilder, TokenHyp, attention
from .fields import is_number, label_groups, name_values, number, numbers, optional_score, sentence_id, split_fields, twice
from .sniffers import most_lines

_HARD = re.compile(r"(?:[0-9]{1,9}-[0-9]{1,9}(?:[ \t]+|$))+")
_SOFT = re.compile(r"(?:[0-9.eE+-]+(?:,[0-9.eE+-]+)*(?:[ \t]+|$))+")
Aligned = tuple[list[tuple[int, int]] | None, dict[str, list[float]], dict[str, float]]  # links, signals, features


def _aligned(text: str, where: str) -> Aligned:
    """Return what ``0-0 1-2``, or weights [target, source] such as ``0.9,0.1 0.2,0.8``, say of a hypothesis."""
    if _HARD.fullmatch(text):
        return [(int(s), int(t)) for s, _, t in (point.partition("-") for point in split_words(text))], {}, {}
    if not _SOFT.fullmatch(text):
        raise FormatError(where, expected="an alignment like 0-0 1-2", found=clip(text))
    rows = [numbers(row.replace(",", " "), where, "an alignment") for row in split_words(text)]
    if odd := next((v for row in rows for v in row if not 0 <= v <= 1.01), None):
        raise FormatError(where, expected="weights from 0 to 1", found=str(odd))
    if odd_row := next((row for row in rows if len(row) != len(rows[0])), None):
        expected = f"{counted(len(rows[0]), 'weight')} for each target token"
        raise FormatError(where, expected=expected, found=str(len(odd_row)))
    return attention(rows)


# ---------------------------------------------------------------------------------------------------------------------
# Marian
# ---------------------------------------------------------------------------------------------------------------------

LAYOUT = "id ||| text ||| F0= v ||| score"
WORD_SCORES = "WordScores"
_OF_SCORER = re.compile(r"F[0-9]+")


def read_marian(path: str | Path, options: ReadOptions) -> NBest:
    """Read ``id ||| text [||| alignment] [||| WordScores= v v ...] ||| F0= v [F1= v ...] ||| score``, and the like.

    Without ``--n-best`` there is no id and a line is a sentence: ``text ||| WordScores= v v ...``. marian-scorer puts what it
    adds around the field after the text, which need not be the one with F0:

        id ||| text ||| [alignment |||] [WordScores= of the new model |||] FIELD Name= v ||| ... ||| score

    so named features and alignments are read in any field. Scores of tokens of the decoder are WordScores, those of a model that
    added the feature Name are Name.WordScores. F0, F1, ... are the sums of the scorers of an ensemble.
    """
    head = read_head(path).removeprefix(BOM_UTF8).decode("utf-8", "replace")
    has_ids = not most_lines(head, lambda line: line.count("|||") < 3 or not is_whole(line.split("|||")[0].strip()))
    lines = ((f"{path}:{n}", line) for n, line in read_lines(path) if line and not line.isspace())
    builder = TokenBuilder(options)
    builder.take(_of_marian(line, where, None if has_ids else k) for k, (where, line) in enumerate(lines))
    return builder.finish()


def _of_marian(line: str, where: str, sent: int | None) -> TokenHyp:
    """Return the hypothesis of a line; without an id it is of the sentence ``sent``."""
    if sent is None:
        ident, text, *fields, last = split_fields(line, where, least=4, layout=LAYOUT)
        sent, score = sentence_id(ident, where), optional_score(last, where)
    else:
        text, *fields = split_fields(line, where, least=1, layout=f"text ||| {WORD_SCORES}= v ...")
        score = optional_score(fields.pop() if fields and is_number(fields[-1]) else "", where)
    aligned: Aligned | None = None
    columns: list[tuple[int, list[float]]] = []  # (field, scores of tokens)
    added: list[str] = [""] * len(fields)  # by field, the feature that a scorer put at its end
    features: dict[str, float] = {}
    for k, content in enumerate(fields):
        alignment, labelled = _split_alignment(content, where)
        if alignment and aligned is None:  # the first is the latest model's
            aligned = _aligned(alignment, where)
        groups = label_groups(labelled, where)
        columns += [(k, numbers(" ".join(v), where, WORD_SCORES)) for name, v in groups if name == WORD_SCORES]
        own = name_values([group for group in groups if group[0] != WORD_SCORES], where)
        if not features.keys().isdisjoint(own):
            raise twice(next(name for name in own if name in features), where)
        features |= own
        added[k] = next((name for name in reversed(own) if not _OF_SCORER.fullmatch(name)), "")
    links, signals, coverage = aligned or (None, {}, {})
    features |= coverage
    if score == score and features.setdefault(DECODER_SCORE, score) != score:
        raise twice(DECODER_SCORE, where)
    return TokenHyp(sent, text, where, score, features, _by_model(columns, added, where), signals, links)


def _by_model(columns: list[tuple[int, list[float]]], added: list[str], where: str) -> dict[str, list[float]]:
    """Return columns by model, the decoder's first. A scorer's is in a field of its own, before the one that got its feature."""
    scores: dict[str, list[float]] = {}
    for i, (k, values) in enumerate(columns):
        model = added[k + 1] if k + 1 < len(added) else ""
        name = f"{model}.{WORD_SCORES}" if model else WORD_SCORES if i == len(columns) - 1 else f"{i}.{WORD_SCORES}"
        if name in scores:
            raise FormatError(where, expected=f"one {WORD_SCORES} a model", found=f"{name!r} twice", fix="remove one of them")
        scores[name] = values
    return dict(reversed(scores.items()))


def _split_alignment(content: str, where: str) -> tuple[str, str]:
    """Return (alignment, named features) of a field."""
    if not content or "=" in split_words(content)[0]:
        return "", content
    found = _HARD.match(content) or _SOFT.match(content)
    if found is None or ("=" not in content[found.end() :] and found.end() < len(content)):
        fix = "is this a list of Marian's? name another with --format"
        raise FormatError(where, expected="an alignment or named features", found=clip(content), fix=fix)
    return found[0].strip(BLANKS), content[found.end() :].strip(BLANKS)


# ---------------------------------------------------------------------------------------------------------------------
# fairseq
# ---------------------------------------------------------------------------------------------------------------------

FEATURE = "P"
LN2 = log(2)  # ln p = log2 p · ln 2
_TAGGED = re.compile(r"([HDPA])-(\d+)\t(.*)", re.DOTALL)


@dataclass
class _FairseqHyp:
    sent: int
    where: str
    score: float
    tokens: str
    lines: dict[str, tuple[str, str]] = field(default_factory=dict)  # by tag: what the lines of D, P and A say, and where


def read_fairseq(path: str | Path, options: ReadOptions) -> NBest:
    """Read what ``fairseq-generate`` and ``fairseq-interactive`` print.

        S-0  source          T-0  reference
        H-0  score  tokens   D-0  score  detokenised text   P-0  a score for each token, and for the end of the sentence
        A-0  alignment, 0-0 1-2 or soft

    Fields are separated by tabs; log-probabilities are to base 2 and become natural ones. Batches are sorted by length: sentences
    come in any order, and are sorted by id. A hypothesis' text is its H line, for scores here take tokens as given; if H lines
    are in pieces (``@@`` or ``▁``), it is the D line, and without one its pieces are joined. Words of a D line get their tokens
    by characters. With ``--remove-bpe`` H has fewer tokens than P has scores, and nobody can tell which belong to which. Other
    lines are not read.
    """
    hyps: list[_FairseqHyp] = []
    latest: dict[int, _FairseqHyp] = {}
    for n, line in read_lines(path):
        if line[1:2] != "-" or not (tagged := _TAGGED.fullmatch(line)):
            continue
        where = f"{path}:{n}"
        tag, sent, rest = tagged[1], sentence_id(tagged[2], where), tagged[3]
        if tag == "H":
            latest[sent] = _FairseqHyp(sent, where, *_scored(rest, where))
            hyps.append(latest[sent])
        elif sent not in latest or tag in latest[sent].lines:
            raise FormatError(where, expected=f"an H-{sent} line before this one", found=clip(line), fix="do not sort the output")
        else:
            latest[sent].lines[tag] = rest, where
    if not hyps:
        raise FormatError(str(path), expected="H- lines", found="none", fix="run fairseq-generate without --quiet")
    in_pieces = options.subwords not in ("auto", "none")
    in_pieces |= options.subwords == "auto" and scheme_of_lines([hyp.tokens for hyp in hyps]) != "none"
    builder = TokenBuilder(options)
    builder.take(_of_fairseq(hyp, in_pieces=in_pieces) for hyp in sorted(hyps, key=lambda hyp: hyp.sent))
    return builder.finish()


def _of_fairseq(hyp: _FairseqHyp, *, in_pieces: bool) -> TokenHyp:
    shown = _scored(*hyp.lines["D"])[1] if "D" in hyp.lines else None
    scores = {FEATURE: [v * LN2 for v in numbers(*hyp.lines["P"], "a token's score")]} if "P" in hyp.lines else {}
    alignment, where = hyp.lines.get("A", ("", ""))
    links, signals, coverage = _aligned(alignment.strip(BLANKS), where) if alignment.strip(BLANKS) else (None, {}, {})
    features = {DECODER_SCORE: hyp.score, **coverage}
    text = shown if in_pieces else None
    return TokenHyp(hyp.sent, hyp.tokens, hyp.where, hyp.score, features, scores, signals, links, text)


def _scored(rest: str, where: str) -> tuple[float, str]:
    score, tab, text = rest.partition("\t")
    if not tab:
        fix = "keep the tabs of fairseq's output"
        raise FormatError(where, expected="a score, a tab and the text", found=clip(rest), fix=fix)
    return number(score, where, "the score") * LN2, text
