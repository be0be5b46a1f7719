"""Pieces of lines that several formats share, each with an error that names its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, nan
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..core.errors import FormatError, clip
from ..core.files import read_lines
from ..lists.build import Builder, HypRecord, ReadOptions
from ..lists.nbest import NBest


def number(text: str, where: str, what: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value) or "_" in text:
        raise FormatError(where, expected=f"a finite number for {what}", found=clip(text), fix="repair or remove this line")
    return value


def optional_score(text: str, where: str) -> float:
    """The decoder's score, NaN where the field is empty."""
    return number(text, where, "the score") if text else nan


def sentence_id(text: str, where: str) -> int:
    """A sentence number from 0."""
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise FormatError(where, expected="a sentence id (0, 1, ...)", found=clip(text), fix="is this an n-best list?")
    return int(text)


def split_fields(line: str, where: str, *, least: int, layout: str, most: int | None = None) -> list[str]:
    """Fields between ``|||``; the space around the bars is optional (``0|||`` is seen in the wild)."""
    parts = [part.strip() for part in line.split("|||")]
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
    for token in field.split():
        name, equals, value = (token[:-1], True, "") if token[-1] in "=:" else token.rpartition("=")
        if equals and not name:
            raise FormatError(where, expected="a feature's name before '='", found=clip(token), fix="repair or remove this line")
        if equals:
            labelled = True
            groups.append((name, [value] if value else []))
        elif labelled:
            groups[-1][1].append(token)
        else:
            groups.append((f"f_{len(groups)}", [token]))
    return groups


class FeatureParser:
    """Named features of a field, see label_groups. Most lines repeat the labels of the one before: then only numbers are read."""

    def __init__(self) -> None:
        self._labels: tuple[str, ...] = ()
        self._n_tokens = -1
        self._names: tuple[str, ...] = ()
        self._pick_labels: Any = None
        self._pick_values: Any = None

    def __call__(self, field: str, where: str) -> dict[str, float]:
        tokens = field.split()
        if len(tokens) == self._n_tokens and self._pick_labels(tokens) == self._labels:
            texts = self._pick_values(tokens)
            try:
                values = [float(text) for text in texts]
            except ValueError:
                return name_values(label_groups(field, where), where)
            if isfinite(sum(values)) and "_" not in "".join(texts):
                return dict(zip(self._names, values, strict=True))
        features = name_values(label_groups(field, where), where)
        self._learn(tokens, tuple(features))
        return features

    def _learn(self, tokens: list[str], names: tuple[str, ...]) -> None:
        """Remember where labels and values stand. Only worth it, and only possible with itemgetter, for two of each or more."""
        labels = [i for i, token in enumerate(tokens) if token[-1] in "=:"]
        is_label = set(labels)
        values = [i for i in range(len(tokens)) if i not in is_label]
        if len(labels) >= 2 and labels[0] == 0 and len(values) == len(names):
            self._n_tokens, self._names = len(tokens), names
            self._pick_labels, self._pick_values = itemgetter(*labels), itemgetter(*values)
            self._labels = self._pick_labels(tokens)


def list_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """(``file:line``, line) for every line that is not blank; a file without any is an error."""
    empty = True
    for number, line in read_lines(path):
        if line and not line.isspace():
            empty = False
            yield f"{path}:{number}", line
    if empty:
        raise FormatError(str(path), expected="an n-best list", found="an empty file", fix="check what wrote it")


def first_fields(head: str) -> list[str] | None:
    """Fields of the first line that is not blank, None where it is not ``number ||| text ||| ...``; for sniffing."""
    line = next((line for line in head.split("\n") if line and not line.isspace()), "")
    parts = [part.strip() for part in line.split("|||")]
    return parts if len(parts) >= 3 and parts[0].isascii() and parts[0].isdigit() else None


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Layout:
    """Which field of ``id ||| text ||| ...`` holds what; ``shown`` is the line as error messages give it."""

    shown: str
    least: int
    most: int | None
    features: int = 2
    score: int = 3


def read_list(path: str | Path, options: ReadOptions, layout: Layout) -> NBest:
    """A list whose hypotheses have features of their own and no units."""
    builder, features = Builder(options), FeatureParser()
    for where, line in list_lines(path):
        parts = split_fields(line, where, least=layout.least, most=layout.most, layout=layout.shown)
        builder.add(
            HypRecord(
                sent=sentence_id(parts[0], where),
                text=parts[1],
                where=where,
                score=optional_score(parts[layout.score], where) if layout.score < len(parts) else nan,
                features=features(parts[layout.features], where),
            )
        )
    return builder.finish()
