"""Lists of speech recognisers, of sockeye and of OpenAI-style servers, each in the way of its tool. Words are units.

Most are JSON: an array of objects, an object a line, or objects one after the other. What a tool has to say is a struct here;
keys beside that are named in one warning.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from math import exp, nan
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from ..core.errors import FormatError, counted
from ..core.files import decode, read_bytes, read_head, read_lines
from ..core.strict_json import parsed, typed
from ..core.text import BLANKS, ascii_words, normal, split_words
from ..lists.build import ReadOptions, with_own_lines
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .fields import number

FIX = "repair or remove it"
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]  # a few of them have a finite sum

# ---------------------------------------------------------------------------------------------------------------------
# Objects
# ---------------------------------------------------------------------------------------------------------------------


def objects(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, object) of every object of a file."""
    first_line = read_head(path, whole_line=True).removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].strip()
    if first_line.startswith(b"[") or first_line == b"{":
        rows = _values(decode(read_bytes(path).removeprefix(b"\xef\xbb\xbf"), str(path)), str(path))
    else:
        lines = ((f"{path}:{n}", line) for n, line in read_lines(path) if line.strip())
        rows = ((where, parsed(line, where, fix=FIX)) for where, line in lines)
    empty = True
    for where, row in rows:
        empty = False
        yield where, typed(row, dict[str, Any], where, fix=FIX)
    if empty:
        raise FormatError(str(path), expected="an n-best list", found="no objects", fix="check what wrote it")


def _values(text: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of the items of an array, or of values that follow each other over any number of lines."""
    decoder, at, n = json.JSONDecoder(), 0, 0
    while begin := re.compile(r"\S").search(text, at):
        at, where = begin.start(), path if begin[0] == "[" else f"{path}: object {n}"
        try:
            end = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)  # the strict parser says what is wrong
        value = parsed(text[at:end], where, fix=FIX)
        yield from ((f"{path}: [{k}]", item) for k, item in enumerate(value)) if isinstance(value, list) else ((where, value),)
        at, n = end, n + 1


class _List(NamedTuple):
    """Hypotheses of one object, and what else it says of the sentence."""

    hyps: Iterable[TokenHyp]
    source: str = ""
    ref: str | None = None


Unread = Counter[str]  # keys that no struct has, and how many objects have them


def _read(
    list_of: Callable[[int, str, dict[str, Any], Unread], _List],
    path: str | Path,
    options: ReadOptions,
    *,
    rows: Iterable[tuple[str, dict[str, Any]]] | None = None,
    ranked: bool = True,
) -> NBest:
    """Read a file by a function that makes a list of (sentence, place, object); tell which keys were not read."""
    builder, sources, refs, unread = TokenBuilder(options, ranked=ranked), list[str](), list[list[str]](), Unread()
    for sent, (where, row) in enumerate(islice(rows or objects(path), options.first)):
        builder.sentence(sent, where)
        found = list_of(sent, where, row, unread)
        for hyp in found.hyps:
            builder.add(hyp)
        sources.append(found.source)
        refs.append([] if found.ref is None else [found.ref])
    if unread:
        shown = ", ".join(f"{key!r} of {n:,}" for key, n in unread.most_common(8))
        options.warn(f"{path}: keys that are not read: {shown} objects")
    return with_own_lines(builder.finish(), source=sources, refs=refs, threads=options.threads)


def _note(unread: Unread, row: dict[str, Any], *known: Container[str]) -> None:
    unread.update(key for key in row if not any(key in names for names in known))


def _columns(row: dict[str, Any], n: int, known: Container[str], where: str) -> dict[str, list[float]]:
    """Return the lists of an object that have a number for each of n texts, unless they are known by name."""
    found = {k: v for k, v in row.items() if k not in known and isinstance(v, list) and len(v) == n > 0 and _are_numbers(v)}
    return typed(found, dict[str, list[Number]], where, fix=FIX)


def _are_numbers(values: Iterable[Any]) -> bool:
    """Tell whether all values are numbers of JSON, which truth values are not."""
    return {*map(type, values)} <= {int, float}


# ---------------------------------------------------------------------------------------------------------------------
# HyPoradise
# ---------------------------------------------------------------------------------------------------------------------


class _HyPoradise(Struct):
    input: list[str]
    output: str | None = None
    id: Any = None


def _hyporadise(sent: int, where: str, row: dict[str, Any], unread: Unread) -> _List:
    """Make a list of HyPoradise's ``{"input": [texts], "output": reference, "am_score": [numbers]}``.

    Every key with a number for each text is a feature; am_score, else score, is the decoder's. The texts are best first: Rank and
    First. Sentences are numbered in the order of the file; ``id`` is not kept.
    """
    found = typed(row, _HyPoradise, where, fix=FIX)
    columns = _columns(row, len(found.input), (), where)
    _note(unread, row, columns, _HyPoradise.__struct_fields__)
    features = [{name: column[k] for name, column in columns.items()} for k in range(len(found.input))]
    scores = [own.get("am_score", own.get("score", nan)) for own in features]
    texts = zip(map(normal, found.input), scores, features, strict=True)
    return _List([TokenHyp(sent, text, where, score, own) for text, score, own in texts], ref=found.output)


# ---------------------------------------------------------------------------------------------------------------------
# mlm-scoring and HypR
# ---------------------------------------------------------------------------------------------------------------------

_HYP = re.compile(r"hyp_([0-9]{1,9})")


class _Utterance(Struct):
    ref: str | None = None


class _Text(Struct):
    text: str


def read_mlm_scoring(path: str | Path, options: ReadOptions) -> NBest:
    rows = ((f"{where}: {utt}", found) for where, row in objects(path) for utt, found in row.items())
    nbest = _read(_mlm_scoring, path, replace(options, first=None), rows=rows)
    if not nbest.n_hyps:
        found = "utterances without hypotheses"
        raise FormatError(str(path), expected='utterances with "hyp_1", "hyp_2", ...', found=found, fix="check what wrote it")
    return nbest


def _mlm_scoring(sent: int, where: str, row: Any, unread: Unread) -> _List:
    """Make a list of an utterance ``{"hyp_1": {"score": -1.2, "text": "..."}, ..., "ref": "..."}``, as HypR has them too.

    Every number beside a text is a feature; ``score`` is the decoder's. Hypotheses are in the order of their numbers, best
    first: Rank and First. Sentences are numbered in the order of the file.
    """
    found = typed(row, _Utterance, where, fix=FIX)
    named = sorted((int(match[1]), key) for key in row if (match := _HYP.fullmatch(key)))
    _note(unread, row, _Utterance.__struct_fields__, {key for _, key in named})
    hyps = []
    for _, key in named:
        text = typed(row[key], _Text, f"{where}: {key}", fix=FIX).text
        numbers = {name: value for name, value in row[key].items() if _are_numbers([value])}
        _note(unread, row[key], numbers, _Text.__struct_fields__)
        features = typed(numbers, dict[str, Number], f"{where}: {key}", fix=FIX)
        hyps.append(TokenHyp(sent, normal(text), where, features.get("score", nan), features))
    return _List(hyps, ref=found.ref)


# ---------------------------------------------------------------------------------------------------------------------
# Vosk
# ---------------------------------------------------------------------------------------------------------------------


class _VoskWord(Struct):
    word: str | None = None
    start: Number | None = None
    end: Number | None = None
    conf: Number | None = None


class _VoskText(Struct):
    text: str
    confidence: Number | None = None
    result: list[_VoskWord] = []


class _Vosk(Struct):
    alternatives: list[_VoskText]


_VOSK = {name for kind in (_Vosk, _VoskText, _VoskWord) for name in kind.__struct_fields__}


def _vosk(sent: int, where: str, row: dict[str, Any], unread: Unread) -> _List:
    """Make a list of Vosk's ``{"alternatives": [{"confidence": 297.05, "text": "..", "result": [...]}]}``.

    ``confidence`` is a feature and the decoder's score; alternatives are best first: Rank and First. Words are units with the
    numbers that ``result`` (``[{"start", "end", "word"}]``) gives them: ``conf`` where there is one, and ``seconds``. A result
    without alternatives is a list of one.
    """
    rows, hyps = row if "alternatives" in row else {"alternatives": [row]}, []
    for found in typed(rows, _Vosk, where, fix=FIX).alternatives:
        text, score = normal(found.text), nan if found.confidence is None else found.confidence
        features = {} if found.confidence is None else {"confidence": score}
        words, is_whole = found.result, [word.word for word in found.result] == split_words(text)
        numbers = {
            "conf": [word.conf for word in words if word.conf is not None],
            "seconds": [word.end - word.start for word in words if word.start is not None and word.end is not None],
        }
        signals = {name: values for name, values in numbers.items() if is_whole and len(values) == len(words)}
        hyps.append(TokenHyp(sent, text, where, score, features, signals=signals))
    words = [word for one in rows["alternatives"] for word in one.get("result", ())]
    for own in (rows, *rows["alternatives"], *words):
        _note(unread, own, _VOSK)
    return _List(hyps)


# ---------------------------------------------------------------------------------------------------------------------
# sockeye
# ---------------------------------------------------------------------------------------------------------------------


class _Sockeye(Struct):
    translation: str | None = None
    translations: list[str] | None = None
    score: Number | list[Number] | None = None
    scores: list[Number | list[Number]] | None = None
    text: str = ""
    reference: str | None = None
    sentence_id: Any = None


def _sockeye(sent: int, where: str, row: dict[str, Any], unread: Unread) -> _List:
    """Make a list of sockeye's ``--output-type json``: ``sentence_id, translation(s), score(s)`` and what the input had.

    Scores are negative log-probabilities, the lower the better; the feature ``score`` and the decoder's score are their
    negatives, those of target factors score_1, score_2, ... Keys of the input that have a number for each translation are
    features, ``text`` is the source and ``reference`` the reference. A line is a sentence, in the order of the file.
    """
    found, known = typed(row, _Sockeye, where, fix=FIX), _Sockeye.__struct_fields__
    texts = found.translations if found.translation is None or found.translations is not None else [found.translation]
    if texts is None:
        raise FormatError(where, expected="the key 'translations' or 'translation'", found="none", fix=FIX)
    columns = _columns(row, len(texts), known, where)
    _note(unread, row, columns, known)
    scores: Sequence[float | list[float]] = [[]] * len(texts) if found.score is None else [found.score]
    scores = scores if found.scores is None else found.scores
    if len(scores) != len(texts):
        raise FormatError(where, expected=f"scores of {counted(len(texts), 'translation')}", found=str(len(scores)), fix=FIX)
    hyps = []
    for k, text in enumerate(texts):
        factors = own if isinstance(own := scores[k], list) else [own]
        features = {("score" if f == 0 else f"score_{f}"): -value for f, value in enumerate(factors)}
        features |= {name: column[k] for name, column in columns.items()}
        hyps.append(TokenHyp(sent, normal(text), where, features.get("score", nan), features))
    return _List(hyps, found.text, found.reference)


# ---------------------------------------------------------------------------------------------------------------------
# OpenAI-style servers
# ---------------------------------------------------------------------------------------------------------------------

LOWEST = -100.0  # servers say -9999 where a token is not among those they keep
NAME, MARGIN, ENTROPY, CUT = "logprob", "logprob.margin", "logprob.entropy", "Cut"
_PIECE = dict.fromkeys(map(ord, " \t\n\r\v\f"), "▁")


class _Top(Struct, gc=False):
    token: str
    logprob: Number


class _Token(Struct, gc=False):
    token: str
    logprob: Number
    bytes: list[Annotated[int, Meta(ge=0, lt=256)]] | None = None
    top_logprobs: list[_Top] | None = None


class _Logprobs(Struct):
    content: list[_Token] | None = None
    tokens: list[str] = []
    token_logprobs: list[Number | None] = []


class _Message(Struct):
    content: str


class _ReplyChoice(Struct):
    message: _Message | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Answer(Struct):
    choices: list[_ReplyChoice]


def read_openai(path: str | Path, options: ReadOptions, *, rows: Iterable[tuple[str, dict[str, Any]]] | None = None) -> NBest:
    """Read answers of OpenAI-style servers, one an input: ``{"choices": [{"message": {"content": ".."}, "logprobs": ..}]}``.

    Token log-probabilities (``logprobs.content[].logprob``, or ``tokens`` and ``token_logprobs`` of completions) are units with
    the feature ``logprob``; top_logprobs give ``logprob.margin`` (to the best other token) and ``logprob.entropy`` (of those
    listed). The decoder's score is the sum. ``Cut`` is 1 where the answer ended at the longest length. Batches' ``response.body``
    is looked into.
    """
    n_low = 0

    def answers(sent: int, where: str, row: dict[str, Any], unread: Unread) -> _List:
        nonlocal n_low
        for key in ("response", "body"):
            row = row[key] if "choices" not in row and isinstance(row.get(key), dict) else row
        hyps = []
        for k, choice in enumerate(typed(row, _Answer, where, fix=FIX).choices):
            hyp, low = _answer(sent, choice, f"{where}: choices[{k}]")
            hyps.append(hyp)
            n_low += low
        return _List(hyps)

    nbest = _read(answers, path, replace(options, subwords="spm"), rows=rows, ranked=False)
    if n_low:
        options.warn(f"{path}: {n_low} log-probabilities below {LOWEST:g} (servers' -9999 for 'not listed') count as {LOWEST:g}")
    return nbest


def _answer(sent: int, choice: _ReplyChoice, where: str) -> tuple[TokenHyp, int]:
    """Return a hypothesis, and how many of its log-probabilities are too low to mean anything."""
    text = choice.message.content if choice.message else choice.text
    if text is None:
        raise FormatError(where, expected="a message or a text", found="none", fix=FIX)
    tokens = _tokens(choice.logprobs or _Logprobs(), where)
    texts = [*map(_token_text, tokens)]
    kept = [k for k, token in enumerate(texts) if token]  # an end of text has no bytes
    features = {CUT: float(choice.finish_reason == "length")}
    if not kept:
        return TokenHyp(sent, as_piece(" " + " ".join(ascii_words(text))), where, nan, features), 0
    values = [max(tokens[k].logprob, LOWEST) for k in kept]
    tops = [[*{top.token: top.logprob for top in tokens[k].top_logprobs or ()}.values()] for k in kept]
    signals = signals_of(values, tops) if all(t.top_logprobs for t in tokens) else {}
    pieces = " ".join(as_piece(texts[k]) for k in kept)
    hyp = TokenHyp(sent, pieces, where, sum(values), features, {NAME: values}, signals, text=text)
    return hyp, sum(tokens[k].logprob < LOWEST for k in kept)


@lru_cache(1 << 16)
def as_piece(token: str) -> str:
    """Return a token of plain text as SentencePiece would write it: blanks are ▁."""
    return token.translate(_PIECE)


def _tokens(found: _Logprobs, where: str) -> list[_Token]:
    if found.content is not None:
        return found.content
    if len(found.tokens) != len(found.token_logprobs):
        expected = f"{counted(len(found.tokens), 'number')} in 'token_logprobs'"
        raise FormatError(where, expected=expected, found=str(len(found.token_logprobs)), fix=FIX)
    return [_Token(token, value or 0.0) for token, value in zip(found.tokens, found.token_logprobs, strict=True)]


def _token_text(row: _Token) -> str:
    """Return the text of a token; parts of characters as <0xE2>."""
    try:
        return bytes(row.bytes or ()).decode() or row.token
    except UnicodeDecodeError:
        return "".join(chr(b) if b < 128 else f"<0x{b:02X}>" for b in row.bytes or ())


def signals_of(values: list[float], tops: list[list[float]]) -> dict[str, list[float]]:
    """Return margins and entropies of tokens by the alternatives that a server listed for each."""
    margins, entropies = [], []
    for value, top in zip(values, tops, strict=True):
        listed = sorted((max(v, LOWEST) for v in top), reverse=True)
        others = listed[1:] if listed[0] <= value else listed[:1]
        margins.append(value - others[0] if others else 0.0)
        entropies.append(-sum(exp(min(v, 0.0)) * v for v in listed))
    return {MARGIN: margins, ENTROPY: entropies}


# ---------------------------------------------------------------------------------------------------------------------
# ESPnet
# ---------------------------------------------------------------------------------------------------------------------

_FOLDER = re.compile(r"([0-9]{1,6})best_recog")


def is_folder(path: str | Path) -> bool:
    return (Path(path) / "1best_recog" / "text").is_file()


def read_espnet(path: str | Path, options: ReadOptions) -> NBest:
    """Read a folder that ESPnet's recognition wrote: ``1best_recog/{text,score}``, ``2best_recog/...``, with ``utt value`` lines.

    Sentences are the utterances in the order of ``1best_recog/text``; hypotheses are best first: Rank and First. ``score`` (often
    ``tensor(-3.2)``) is a feature and the decoder's score.
    """
    folders = sorted((int(m[1]), f) for f in Path(path).glob("*best_recog") if (m := _FOLDER.fullmatch(f.name)))
    if not is_folder(path):
        raise FormatError(str(path), expected="a folder with 1best_recog/text", found="none", fix="name ESPnet's output folder")
    texts = [_key_values(folder / "text") for _, folder in folders]
    scores = [_key_values(folder / "score") if (folder / "score").is_file() else {} for _, folder in folders]
    unknown = sorted({utt for own in texts for utt in own} - texts[0].keys())
    if unknown:
        options.warn(f"{path}: {len(unknown)} utterances that 1best_recog/text lacks are not read, {unknown[0]!r} the first")
    unscored = [utt for own, score in zip(texts, scores, strict=True) for utt in own if utt in texts[0] and utt not in score]
    if unscored and any(scores):
        n = counted(len(unscored), "hypothesis")
        options.warn(f"{path}: {n} without a score, which counts as 0, {unscored[0]!r} the first")
    builder = TokenBuilder(options, ranked=True)
    places = [(f"{folder / 'text'}: ", f"{folder / 'score'}: ") for _, folder in folders]  # paths take longer to join than lines
    for sent, utt in enumerate(texts[0]):
        for (in_text, in_score), own, score in zip(places, texts, scores, strict=True):
            if utt in own:
                bare = score.get(utt, "").removeprefix("tensor(").split(",")[0].rstrip(")")  # as PyTorch prints one
                value = number(bare, in_score + utt, "the score") if utt in score else nan
                features = {"score": value} if value == value else {}
                builder.add(TokenHyp(sent, normal(own[utt]), in_text + utt, value, features))
    return builder.finish()


def _key_values(path: str | Path) -> dict[str, str]:
    """Read ``key value`` lines, as Kaldi and ESPnet write; a value may be empty."""
    out: dict[str, str] = {}
    for n, line in read_lines(path):
        key, _, value = line.strip(BLANKS).replace("\t", " ").partition(" ")
        if key in out:
            raise FormatError(f"{path}:{n}", expected="each utterance once", found=f"{key!r} twice", fix="remove one")
        if key:
            out[key] = value.strip(BLANKS)
    return out


read_hyporadise = partial(_read, _hyporadise)
read_vosk = partial(_read, _vosk)
read_sockeye = partial(_read, _sockeye, ranked=False)
