"""Answers of OpenAI-style servers, one an input: ``{"choices": [{"message": {"content": ".."}, "logprobs": ..}]}``.

Token log-probabilities (``logprobs.content[].logprob``, or ``tokens`` and ``token_logprobs`` of completions) are units with the
feature ``logprob``; top_logprobs give ``logprob.margin`` (to the best other token) and ``logprob.entropy`` (of those listed). The
decoder's score is the sum. ``Cut`` is 1 where the answer ended at the longest length. Batches' ``response.body`` is looked into.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice
from math import exp, nan
from pathlib import Path
from typing import Any

from ..core.errors import FormatError, clip_json, counted
from ..core.text import ascii_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .json_objects import as_number, get, numbers_of, objects

LOWEST = -100.0  # servers say -9999 where a token is not among those they keep
_PIECE = dict.fromkeys(map(ord, " \t\n\r\v\f"), "▁")
NAME, MARGIN, ENTROPY, CUT = "logprob", "logprob.margin", "logprob.entropy", "Cut"


def read(path: str | Path, options: ReadOptions) -> NBest:
    builder = TokenBuilder(replace(options, subwords="spm"))
    floored = 0
    for sent, (where, row) in enumerate(islice(objects(path), options.first)):
        choices = get(_body(row), "choices", list, where)
        builder.sentence(sent, where)
        for k, choice in enumerate(choices):
            at = f"{where}: choices[{k}]"
            hyp, low = _hyp(sent, get({"choice": choice}, "choice", dict, at), at)
            floored += low
            builder.add(hyp)
    if floored:
        options.warn(
            f"{path}: {floored} log-probabilities below {LOWEST:g} (servers' -9999 for 'not listed') count as {LOWEST:g}"
        )
    return builder.finish()


def _body(row: dict[str, Any]) -> dict[str, Any]:
    for key in ("response", "body"):
        if "choices" not in row and isinstance(row.get(key), dict):
            row = row[key]
    return row


def _hyp(sent: int, choice: dict[str, Any], where: str) -> tuple[TokenHyp, int]:
    """A hypothesis, and how many of its log-probabilities are too low to mean anything."""
    message = choice.get("message")
    text = get(message, "content", str, where) if isinstance(message, dict) else get(choice, "text", str, where)
    tokens, values, tops = _tokens(choice.get("logprobs"), where)
    low = 0
    if values and min(values) < LOWEST:
        low = sum(v < LOWEST for v in values)
        values = [max(v, LOWEST) for v in values]
    features = {CUT: float(choice.get("finish_reason") == "length")}
    if not tokens:
        return TokenHyp(sent, as_piece(" " + " ".join(ascii_words(text))), where, nan, features), low
    signals = _signals(values, tops) if tops else {}
    pieces = " ".join(map(as_piece, tokens))
    return TokenHyp(sent, pieces, where, sum(values), features, {NAME: values}, signals, text=text), low


@lru_cache(1 << 16)
def as_piece(token: str) -> str:
    """A token of plain text as SentencePiece would write it: blanks are ▁."""
    return token.translate(_PIECE)


def _tokens(found: Any, where: str) -> tuple[list[str], list[float], list[dict[str, float]]]:
    if not found:
        return [], [], []
    if not isinstance(found, dict):
        raise FormatError(where, expected="an object for 'logprobs'", found=clip_json(found), fix="repair or remove it")
    if isinstance(found.get("content"), list):
        rows = [row if isinstance(row, dict) else get({"token": row}, "token", dict, where) for row in found["content"]]
        tokens = [_token(row, where) for row in rows]
        values = numbers_of([row.get("logprob") for row in rows], where, "'logprob'")
        tops = [_top(row.get("top_logprobs"), where) for row in rows]
        if all(tokens) and not any(tops):
            return tokens, values, []
        kept = [k for k, token in enumerate(tokens) if token]  # an end of text has no bytes
        return [tokens[k] for k in kept], [values[k] for k in kept], [tops[k] for k in kept] if all(tops) else []
    tokens, raw = get(found, "tokens", list, where), get(found, "token_logprobs", list, where)
    if len(tokens) != len(raw) or not all(isinstance(token, str) for token in tokens):
        expected = f"{counted(len(tokens), 'number')} in 'token_logprobs'"
        raise FormatError(where, expected=expected, found=str(len(raw)), fix="repair or remove it")
    kept = [k for k, token in enumerate(tokens) if token]
    return [tokens[k] for k in kept], [as_number(raw[k] or 0.0, where, "'token_logprobs'") for k in kept], []


def _token(row: dict[str, Any], where: str) -> str:
    """The text of a token; parts of characters as <0xE2>."""
    token, raw = row.get("token"), row.get("bytes")
    if not isinstance(token, str):
        token = get(row, "token", str, where)
    if not raw or not isinstance(raw, list):
        return token
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if b < 128 else f"<0x{b:02X}>" for b in raw)
    except (TypeError, ValueError):  # no bytes
        return token


def _top(found: Any, where: str) -> dict[str, float]:
    if not found:
        return {}
    rows = found if isinstance(found, list) else []
    return {
        str(row["token"]): as_number(row.get("logprob"), where, "'top_logprobs'")
        for row in rows
        if isinstance(row, dict) and "token" in row
    }


def _signals(values: list[float], tops: list[dict[str, float]]) -> dict[str, list[float]]:
    """Margins and entropies of tokens by the alternatives that the server listed."""
    margins, entropies = [], []
    for value, top in zip(values, tops, strict=True):
        listed = sorted((max(v, LOWEST) for v in top.values()), reverse=True)
        others = listed[1:] if listed[0] <= value else listed[:1]
        margins.append(value - others[0] if others else 0.0)
        entropies.append(-sum(exp(min(v, 0.0)) * v for v in listed))
    return {MARGIN: margins, ENTROPY: entropies}
