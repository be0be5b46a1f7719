"""Files that ``join`` reads besides files of numbers: tokens with numbers, and other lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..core.arrays import offsets
from ..core.errors import FormatError, clip_json, counted
from ..core.files import read_head
from ..lists.build import ReadOptions
from ..lists.joining import TokenNumbers, plain_tokens
from ..lists.nbest import NBest, strings
from ..lists.number_files import read_rows
from ..lists.store import MAGIC, read_store
from . import read
from .json_objects import numbers_of, objects, texts_of

VALUES = ("logprobs", "log_probs", "scores", "values")  # keys of the numbers, the first that is there


def read_other(path: str, *, threads: int, warn: Callable[[str], None]) -> NBest:
    """A list of the same texts: a store, or a list in any format."""
    if Path(path).is_file() and read_head(path, len(MAGIC)) == MAGIC:
        return read_store(path)
    return read(path, ReadOptions(threads=threads, warn=warn))


def read_tokens(path: str) -> TokenNumbers:
    """Numbers of tokens, a line a hypothesis; or JSON lines ``{"tokens": [...], "logprobs": [...]}``."""
    if read_head(path).lstrip()[:1] not in (b"{", b"["):
        return TokenNumbers(*read_rows(path))
    texts: list[list[str]] = []
    values: list[list[float]] = []
    for where, row in objects(path):
        key = next((key for key in VALUES if key in row), "")
        if not key or "tokens" not in row:
            raise FormatError(
                where, expected=f"the keys 'tokens' and one of {', '.join(VALUES)}", found=clip_json(list(row)), fix="add them"
            )
        texts.append(texts_of(row["tokens"], where, "'tokens'"))
        values.append(numbers_of(row[key], where, f"{key!r}"))
        if len(values[-1]) not in (len(texts[-1]), len(texts[-1]) + 1):
            raise FormatError(
                where,
                expected=f"a number for each of {counted(len(texts[-1]), 'token')}",
                found=str(len(values[-1])),
                fix="repair or remove it",
            )
    plain = plain_tokens(texts)
    for own, numbers in zip(plain, values, strict=True):
        own += [""] * (len(numbers) - len(own))  # the end of the sentence
    return TokenNumbers(
        offsets(np.array([len(own) for own in values], np.int64)),
        np.array([v for own in values for v in own], np.float64),
        strings([text for own in plain for text in own]),
    )
