"""Pieces of lines that several formats share, each with an error that names its place."""

from __future__ import annotations

import re
from math import isfinite, nan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64
from ..core.errors import FormatError, clip
from ..core.text import BLANKS, is_whole, may_be_number, split_words

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def number(text: str, where: str, what: str) -> float:
    """A finite number."""
    try:
        value = float(text) if may_be_number(text) else nan
    except ValueError:
        value = nan
    if not isfinite(value):
        raise FormatError(where, expected=f"a finite number for {what}", found=clip(text), fix="repair or remove this line")
    return value


def numbers(text: str, where: str, what: str) -> list[float]:
    """The finite numbers between blanks; ``number`` of each says what is wrong with one."""
    words = split_words(text)
    try:
        values = [float(word) for word in words] if may_be_number("".join(words)) else [nan]
    except ValueError:
        values = [nan]
    return values if isfinite(sum(values)) else [number(word, where, what) for word in words]


def all_numbers(text: str) -> F64 | None:
    """The finite numbers of a text with single blanks between them; None where ``number`` may have something to say of one."""
    if not may_be_number(text):
        return None
    words = pc.split_pattern(pa.array([text], pa.large_string()), " ").flatten()
    try:
        values = words.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def optional_score(text: str, where: str) -> float:
    """The decoder's score, NaN where the field is empty."""
    return number(text, where, "the score") if text else nan


def sentence_id(text: str, where: str) -> int:
    """A sentence number from 0."""
    text = text.strip(BLANKS)
    if not is_whole(text):
        raise FormatError(where, expected="a sentence id (0, 1, ...)", found=clip(text), fix="is this an n-best list?")
    return int(text)


def are_ids(texts: list[str]) -> bool:
    """Whether ``sentence_id`` takes all of these as they are."""
    joined = "".join(texts)
    return joined.isascii() and joined.isdigit() and all(texts) and max(map(len, texts)) <= 18


def split_fields(line: str, where: str, *, least: int, layout: str, most: int | None = None) -> list[str]:
    """Fields between ``|||``; the space around the bars is optional (``0|||`` is seen in the wild)."""
    parts = [part.strip(BLANKS) for part in line.split("|||")]
    if len(parts) < least or (most is not None and len(parts) > most):
        count = str(least) if most in (None, least) or len(parts) < least else f"at most {most}"
        raise FormatError(
            where,
            expected=f"{count} fields separated by ' ||| ' ({layout})",
            found=str(len(parts)),
            fix="is this an n-best list?",
        )
    return parts


def name_values(groups: list[tuple[str, list[str]]], where: str) -> dict[str, float]:
    """Named features of (label, values): several values become Name_0, Name_1, ...; a repeated name is an error."""
    out: dict[str, float] = {}
    for label, values in groups:
        if not values:
            raise FormatError(where, expected=f"a number after {clip(label)}", found="none", fix="repair or remove this line")
        names = [label] if len(values) == 1 else [f"{label}_{i}" for i in range(len(values))]
        for name, value in zip(names, values, strict=True):
            if name in out:
                raise FormatError(where, expected="distinct feature names", found=f"{name!r} twice", fix="rename one of them")
            out[name] = number(value, where, f"feature {name}")
    return out


def label_groups(field: str, where: str) -> list[tuple[str, list[str]]]:
    """(label, values) of ``d= 0 -1.5 lm= -3``, ``d: 0 -1.5 lm: -3``, ``d=0 lm=-3``; bare numbers are f_0, f_1, ..."""
    groups: list[tuple[str, list[str]]] = []
    labelled = False
    for token in split_words(field):
        name, equals, value = (token[:-1], True, "") if token[-1] in "=:" else token.rpartition("=")
        if equals and not name:
            raise FormatError(where, expected="a feature's name before '='", found=clip(token), fix="repair or remove this line")
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
    """Named features of a field, see label_groups."""
    return name_values(label_groups(field, where), where)


def check_links(align: str, where: str, *, n_src: int, n_tgt: int) -> None:
    """Raise where an alignment is not of links between the words of a phrase pair; of 0 words or less nothing is known."""
    for link in split_words(align):
        found = _LINK.fullmatch(link)
        if not found or 0 < n_src <= int(found[1]) or 0 < n_tgt <= int(found[2]):
            sides = [f"{n} {side}" for n, side in ((n_src, "source"), (n_tgt, "target")) if n > 0]
            inside = f" of {' and '.join(sides)} words" if sides else ""
            fix = "repair or remove this line"
            raise FormatError(where, expected=f"an alignment of links like 0-1{inside}", found=clip(align), fix=fix)


def is_number(text: str) -> bool:
    try:
        number(text, "", "")
    except FormatError:
        return False
    return True
