"""Pieces of lines that several formats share, each with an error that names its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite, nan

import numpy as np
import pyarrow as pa

from ..core.arrays import F64
from ..core.errors import FormatError, clip
from ..core.text import BLANKS, Strings, is_whole, may_be_number, split_words

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def value(text: str) -> float:
    """Return a number, NaN where a text is none."""
    try:
        return float(text) if may_be_number(text) else nan
    except ValueError:
        return nan


def floats(texts: Strings) -> F64:
    """[n] numbers, NaN where a text is none; it need not be UTF-8."""
    try:
        return texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.array([value(raw.decode("utf-8", "replace")) for raw in texts.cast(pa.large_binary()).to_pylist()])


def is_number(text: str) -> bool:
    return isfinite(value(text))


def number(text: str, where: str, what: str) -> float:
    """Return a finite number."""
    if not isfinite(found := value(text)):
        raise FormatError(where, expected=f"a finite number for {what}", found=clip(text))
    return found


def numbers(text: str, where: str, what: str) -> list[float]:
    """Return the finite numbers between blanks; ``number`` of each says what is wrong with one."""
    words = split_words(text)
    try:
        values = [float(word) for word in words] if may_be_number("".join(words)) else [nan]
    except ValueError:
        values = [nan]
    return values if isfinite(sum(values)) else [number(word, where, what) for word in words]


def optional_score(text: str, where: str) -> float:
    """Return the decoder's score, NaN where the field is empty."""
    return number(text, where, "the score") if text else nan


def sentence_id(text: str, where: str) -> int:
    """Return a sentence number from 0."""
    text = text.strip(BLANKS)
    if not is_whole(text):
        raise FormatError(where, expected="a sentence id (0, 1, ...)", found=clip(text), fix="is this an n-best list?")
    return int(text)


def split_fields(line: str, where: str, *, least: int, layout: str, most: int | None = None) -> list[str]:
    """Return the fields between ``|||``; the space around the bars is optional (``0|||`` is seen in the wild)."""
    parts = [part.strip(BLANKS) for part in line.split("|||")]
    if len(parts) < least or (most is not None and len(parts) > most):
        count = str(least) if most in (None, least) or len(parts) < least else f"at most {most}"
        expected = f"{count} fields separated by ' ||| ' ({layout})"
        raise FormatError(where, expected=expected, found=str(len(parts)), fix="is this an n-best list?")
    return parts


def name_values(groups: list[tuple[str, list[str]]], where: str) -> dict[str, float]:
    """Return the named features of (label, values): several values become Name_0, Name_1, ...; a repeated name is an error."""
    out: dict[str, float] = {}
    for label, values in groups:
        if not values:
            raise FormatError(where, expected=f"a number after {clip(label)}", found="none")
        names = [label] if len(values) == 1 else [f"{label}_{i}" for i in range(len(values))]
        for name, value in zip(names, values, strict=True):
            if name in out:
                raise twice(name, where)
            out[name] = number(value, where, f"feature {name}")
    return out


def twice(name: str, where: str) -> FormatError:
    return FormatError(where, expected="distinct feature names", found=f"{name!r} twice", fix="rename one of them")


def label_groups(field: str, where: str) -> list[tuple[str, list[str]]]:
    """Return (label, values) of ``d= 0 -1.5 lm= -3``, ``d: 0 -1.5 lm: -3``, ``d=0 lm=-3``; bare numbers are f_0, f_1, ..."""
    groups: list[tuple[str, list[str]]] = []
    labelled = False
    for token in split_words(field):
        name, equals, value = (token[:-1], True, "") if token[-1] in "=:" else token.rpartition("=")
        if equals and not name:
            raise FormatError(where, expected="a feature's name before '='", found=clip(token))
        if equals:
            labelled = True
            groups.append((name, [value] if value else []))
        elif labelled:
            groups[-1][1].append(token)
        elif is_number(token):
            groups.append((f"f_{len(groups)}", [token]))
        else:
            fix = "are there bars '|||' in the text? repair or remove this line"
            raise FormatError(where, expected="features like Name= value", found=clip(token), fix=fix)
    return groups


def read_features(field: str, where: str) -> dict[str, float]:
    """Return the named features of a field, see label_groups."""
    return name_values(label_groups(field, where), where)


def check_links(align: str, where: str, *, n_src: int, n_tgt: int) -> None:
    """Raise where an alignment is not of links between the words of a phrase pair; of 0 words or less nothing is known."""
    for link in split_words(align):
        found = _LINK.fullmatch(link)
        if not found or 0 < n_src <= int(found[1]) or 0 < n_tgt <= int(found[2]):
            sides = [f"{n} {side}" for n, side in ((n_src, "source"), (n_tgt, "target")) if n > 0]
            inside = f" of {' and '.join(sides)} words" if sides else ""
            raise FormatError(where, expected=f"an alignment of links like 0-1{inside}", found=clip(align))


# ---------------------------------------------------------------------------------------------------------------------
# Moses' labelled features, ``LM0= -1.5 TranslationModel0= -0.1 -0.2`` (legacy ``lm: -1.5``), and the blocks that hold them
# ---------------------------------------------------------------------------------------------------------------------

_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]*)")


def block_fields(block: str) -> tuple[str, str, str, str]:
    """Return the span, alignment, total and features of a block, each as text; alignment and total may be missing."""
    span, _, rest = block.partition(",")
    align = total = ""
    rest = rest.lstrip(BLANKS)
    if rest.startswith("wa="):
        align, _, rest = rest[3:].partition(",")
        rest = rest.lstrip(BLANKS)
    if rest.startswith("total="):
        total, _, rest = rest[6:].partition(",")
    return span, align, total, rest


def group_names(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return (label, positions): runs Name_0, Name_1, ... of at least two go under one label; every other name stands alone."""
    groups: list[tuple[str, list[int]]] = []
    i = 0
    while i < len(names):
        found = _NUMBERED.fullmatch(names[i])
        n = 0
        if found and found[2] == "0":
            while i + n < len(names) and names[i + n] == f"{found[1]}_{n}":
                n += 1
        if found and n >= 2:
            groups.append((found[1], list(range(i, i + n))))
            i += n
        else:
            groups.append((names[i], [i]))
            i += 1
    return groups


def format_features(groups: list[tuple[str, list[int]]], values: Sequence[float]) -> str:
    """Return the labelled features of one row; numbers are written so that they read back exactly."""
    return " ".join(f"{label}= " + " ".join(format_number(values[i]) for i in at) for label, at in groups)


def format_number(value: float) -> str:
    """Return the shortest text that reads back as the same number; whole numbers without ``.0``."""
    text = repr(float(value))
    return text.removesuffix(".0")


def component(name: str) -> tuple[str, int]:
    """Return (feature function, which of its values) of a feature as lists name it: TranslationModel0_2, LM0."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


def score_names(producer: str, n: int) -> tuple[str, ...]:
    """Name a feature function's values as lists do: one with a single value keeps its name."""
    return (producer,) if n == 1 else tuple(f"{producer}_{i}" for i in range(n))
