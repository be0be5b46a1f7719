"""Options of search, and what a moses.ini says to the decoder: weights, files of the system and the distortion limit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import FormatError, InputError, clip
from ...core.options import Checked, option
from ...formats.fields import component
from ...formats.moses.ini import Ini
from .system import DISTORTION, LM, PHRASE_PENALTY, TRANSLATION, UNKNOWN, WORD_PENALTY

WINDOW = 60  # the longest jump
SEARCH = "Search"


@dataclass(frozen=True)
class SearchOptions(Checked):
    """Pruning, with Moses' defaults. 0 means no limit, for distortion -1."""

    stack: int = option(200, "Maximum hypotheses in a stack; 0: no limit", least=0, group=SEARCH)
    beam: float = option(1e-5, "Minimum ratio to the stack's best; 0: no limit", least=0, most=1, group=SEARCH)
    table_limit: int = option(20, "Maximum translations of a phrase; 0: no limit", least=0, group=SEARCH)
    distortion_limit: int = option(6, "Maximum words to jump; -1: no limit", least=-1, most=WINDOW, group=SEARCH)


REORDERING = "LexicalReordering0"
KNOWN = (UNKNOWN, WORD_PENALTY, PHRASE_PENALTY, TRANSLATION, REORDERING, DISTORTION, LM)


@dataclass(frozen=True)
class Setup:
    """Weights, files and limit of a system."""

    weights: dict[str, float]  # several values become Name_0, Name_1, ...; without an UnknownWordPenalty0 of 1, the default
    phrase_table: str | None = None
    reordering_table: str | None = None
    lm: str | None = None
    distortion_limit: int | None = None
    where: str = ""

    def tables(self, **given: str | None) -> dict[str, str | None]:
        """Files by their names here: those given, else those of the ini, which have to be there."""
        return {name: path or self._own(name) for name, path in given.items()}

    def _own(self, name: str) -> str | None:
        path: str | None = getattr(self, name)
        if path and not os.path.exists(path):
            flag = f"--{name.replace('_', '-')}"
            raise FormatError(self.where, expected=f"a file at {path}", found="none", fix=f"say where it is with {flag}")
        return path

    def check(self, names: Sequence[str], path: str | Path) -> None:
        """Raise unless there are as many weights of each feature as the system has values."""
        given, needed = (Counter(component(name)[0] for name in group) for group in (self.weights, names))
        for name in dict.fromkeys((TRANSLATION, REORDERING, *given)):
            if given[name] != needed[name] and name != UNKNOWN:
                fix = "give the tables that these weights are for"
                raise FormatError(str(path), expected=f"{needed[name]} weights for {name}", found=str(given[name]), fix=fix)


def decoder_setup(
    ini: str | None, search: Mapping[str, Any], **tables: str | None
) -> tuple[Setup, dict[str, Any], SearchOptions]:
    """Return what an ini says, the files of the decoder and its options of search; what is given takes the place of the ini's."""
    said = read_setup(ini) if ini else Setup({})
    files = said.tables(**tables)
    for name in ("phrase_table", "lm"):
        if files[name] is None:
            raise InputError(f"--{name.replace('_', '-')}: expected a file, here or in the --ini, found none; give it")
    limit = {} if said.distortion_limit is None else {"distortion_limit": said.distortion_limit}
    return said, files, SearchOptions(**{**limit, **search})


def read_setup(path: str | Path) -> Setup:
    """Read a moses.ini of a system like ours; features that the decoder does not know are refused by name."""
    ini = Ini.read(path)
    files: dict[str, str] = {}
    features = ini.features()
    for name, feature in features.items():
        _check_known(name, ini.place(feature.line))
        if file := feature.arguments.get("path"):  # Moses, too, takes it without its .gz
            files[name] = next((at for at in map(ini.locate, (file, f"{file}.gz")) if os.path.exists(at)), file)
    entries = ini.require("weight").weights()
    for name, values in entries.items():
        _check_known(name, ini.where)
        size = features[name].arguments.get("num-features") if name in features else None
        if size is not None and size != str(len(values)):
            where, fix = ini.place(features[name].line), "give as many weights as the feature function has values"
            raise FormatError(where, expected=f"num-features={len(values)}, as {name} has weights", found=clip(size), fix=fix)
    if ini.section("weight-file"):
        where, fix = ini.place(ini.section("weight-file")[0]), "decode with Moses, or remove the section"
        raise FormatError(where, expected="no sparse features, which this decoder does not have", found="[weight-file]", fix=fix)
    weights = ini.named_weights()
    if weights.get(UNKNOWN) == 1:
        del weights[UNKNOWN]
    return Setup(weights, files.get(TRANSLATION), files.get(REORDERING), files.get(LM), _limit(ini), ini.where)


def _check_known(name: str, where: str) -> None:
    if name not in KNOWN:
        fix = "decode with Moses, or leave the feature out"
        raise FormatError(where, expected=f"the features {', '.join(KNOWN)}", found=clip(name), fix=fix)


def _limit(ini: Ini) -> int | None:
    """The distortion limit, -1 for none."""
    lines = ini.section("distortion-limit")
    if not lines:
        return None
    text = ini.says(lines[0])
    if len(lines) > 1 or not (text.isascii() and text.removeprefix("-").isdecimal()) or not -1 <= int(text[:9]) <= WINDOW:
        found = f"{len(lines)} lines" if len(lines) > 1 else clip(text)
        where, fix = ini.place(lines[0]), "repair [distortion-limit]"
        raise FormatError(where, expected=f"a whole number of words from -1 to {WINDOW}", found=found, fix=fix)
    return int(text)
