"""Moses' moses.ini: the weights, the files of the system and the distortion limit."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import FormatError, clip
from ..core.files import read_lines
from ..formats.fields import number as finite
from .names import DISTORTION, LM, PHRASE_PENALTY, TRANSLATION, UNKNOWN, WORD_PENALTY

HEADER = re.compile(r"\s*\[\s*([^\]]+?)\s*\]\s*$")
REORDERING = "LexicalReordering0"
KNOWN = (UNKNOWN, WORD_PENALTY, PHRASE_PENALTY, TRANSLATION, REORDERING, DISTORTION, LM)


@dataclass(frozen=True)
class Ini:
    """What a moses.ini says."""

    weights: dict[str, float]  # several values become Name_0, Name_1, ...; without an UnknownWordPenalty0 of 1, the default
    phrase_table: str | None = None
    reordering_table: str | None = None
    lm: str | None = None
    distortion_limit: int | None = None

    def check(self, names: Sequence[str], path: str | Path) -> None:
        """Raise unless there are as many weights of each feature as the system has values."""
        given, needed = (Counter(name.partition("_")[0] for name in group) for group in (self.weights, names))
        for name in dict.fromkeys((TRANSLATION, REORDERING, *given)):
            if given[name] != needed[name] and name != UNKNOWN:
                fix = "give the tables that these weights are for"
                raise FormatError(str(path), expected=f"{needed[name]} weights for {name}", found=str(given[name]), fix=fix)


def sections(path: str | Path) -> Iterator[tuple[str, int, str]]:
    """(section, line number, line) of every line; a section starts with its own header."""
    section = ""
    for number, line in read_lines(path):
        if match := HEADER.match(line):
            section = match[1]
        yield section, number, line


def contents(path: str | Path, section: str) -> Iterator[tuple[str, str]]:
    """(where, text) of the lines of a section, without comments."""
    for name, number, line in sections(path):
        text = line.partition("#")[0].strip()
        if name == section and text and not HEADER.match(line):
            yield f"{path}:{number}", text


def read_entries(path: str | Path) -> dict[str, list[float]]:
    """The values of every entry of [weight], in order."""
    entries: dict[str, list[float]] = {}
    for where, text in contents(path, "weight"):
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name or not values.split() or name in entries:
            found = f"{clip(name)} again" if name in entries else clip(text)
            raise FormatError(where, expected="'Name= value ...', each name once", found=found, fix="repair [weight]")
        entries[name] = [finite(value, where, f"weight {name}") for value in values.split()]
    if not entries:
        raise FormatError(str(path), expected="a [weight] section", found="none with weights", fix="give the decoder's ini")
    return entries


def feature_names(name: str, n_values: int) -> list[str]:
    """Names of the features of an entry of [weight], as decoders' lists have them."""
    return [name] if n_values == 1 else [f"{name}_{i}" for i in range(n_values)]


def named_weights(entries: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Weights by feature name."""
    pairs = ((feature_names(name, len(values)), values) for name, values in entries.items())
    return {feature: value for names, values in pairs for feature, value in zip(names, values, strict=True)}


def read_ini(path: str | Path) -> Ini:
    """Read a moses.ini of a system like ours; features that the decoder does not know are refused by name."""
    files: dict[str, str] = {}
    for where, text in contents(path, "feature"):
        kind, *rest = text.split()
        given = dict(item.partition("=")[::2] for item in rest)
        name = given.get("name", f"{kind}0")
        _check_known(name, where)
        if "path" in given:
            files[name] = _found(given["path"], path)
    entries = read_entries(path)
    for name in entries:
        _check_known(name, str(path))
    weights = named_weights(entries)
    if weights.get(UNKNOWN) == 1:
        del weights[UNKNOWN]
    limit = None
    for where, text in contents(path, "distortion-limit"):
        limit = int(finite(text, where, "distortion-limit"))
    return Ini(weights, files.get(TRANSLATION), files.get(REORDERING), files.get(LM), limit)


def _check_known(name: str, where: str) -> None:
    if name not in KNOWN:
        fix = "decode with Moses, or leave the feature out"
        raise FormatError(where, expected=f"the features {', '.join(KNOWN)}", found=clip(name), fix=fix)


def _found(file: str, ini: str | Path) -> str:
    """A path as Moses takes it, from the working folder, or else from the ini's own."""
    beside = Path(ini).parent / file
    return str(beside) if os.path.exists(beside) and not os.path.exists(file) else file
