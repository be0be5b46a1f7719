"""Moses' moses.ini: the weights, the files of the system and the distortion limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import FormatError, clip
from ..files import read_lines
from .features import DISTORTION, LM, PHRASE_PENALTY, TRANSLATION, UNKNOWN, WORD_PENALTY

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


def read_ini(path: str | Path) -> Ini:
    """Read a moses.ini of a system like ours; features that the decoder does not know are refused by name."""
    weights: dict[str, float] = {}
    files: dict[str, str] = {}
    limit: int | None = None
    section = ""
    for number, line in read_lines(path):
        where, text = f"{path}:{number}", line.partition("#")[0].strip()
        if text.startswith("["):
            section = text.strip("[]")
        elif text and section == "feature":
            kind, *rest = text.split()
            given = dict(item.partition("=")[::2] for item in rest)
            name = _known(given.get("name", f"{kind}0"), where)
            if "path" in given:
                files[name] = _found(given["path"], path)
        elif text and section == "weight":
            name, _, values = text.partition("=")
            name = _known(name.strip(), where)
            numbers = [_number(value, where) for value in values.split()]
            weights |= {name if len(numbers) == 1 else f"{name}_{i}": value for i, value in enumerate(numbers)}
        elif text and section == "distortion-limit":
            limit = int(_number(text, where))
    if not weights:
        raise FormatError(str(path), expected="weights in a section [weight]", found="none", fix="give a moses.ini")
    if weights.get(UNKNOWN) == 1:
        del weights[UNKNOWN]
    return Ini(weights, files.get(TRANSLATION), files.get(REORDERING), files.get(LM), limit)


def _known(name: str, where: str) -> str:
    if name not in KNOWN:
        fix = "decode with Moses, or leave the feature out"
        raise FormatError(where, expected=f"the features {', '.join(KNOWN)}", found=clip(name), fix=fix)
    return name


def _found(file: str, ini: str | Path) -> str:
    """A path as Moses takes it, from the working folder, or else from the ini's own."""
    beside = Path(ini).parent / file
    return str(beside) if beside.exists() and not Path(file).exists() else file


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FormatError(where, expected="a number", found=clip(text), fix="repair this line") from None
