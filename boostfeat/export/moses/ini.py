"""Moses' ini: which feature functions there are, and their weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.errors import FormatError, InputError, clip
from ...core.files import read_lines
from ...formats.moses.labels import format_number

_SECTION = re.compile(r"\s*\[([^\]]+)\]\s*")
_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]*)")
MEMORY = "PhraseDictionaryMemory"  # the table that Moses loads from text


def component(name: str) -> tuple[str, int]:
    """(feature function, which of its values) of a feature as lists name it: TranslationModel0_2, LM0."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


def score_names(producer: str, n: int) -> tuple[str, ...]:
    """Of a feature function's values, as lists name them: one with a single value keeps its name."""
    return (producer,) if n == 1 else tuple(f"{producer}_{i}" for i in range(n))


@dataclass(frozen=True)
class Ini:
    """The lines of an ini. Changes give a new one; comments and order stay."""

    where: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: str | Path) -> Ini:
        return cls(str(path), tuple(line for _, line in read_lines(path)))

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def section(self, name: str) -> list[int]:
        """Positions of the lines of a section that say something."""
        out, inside = [], False
        for i, line in enumerate(self.lines):
            if found := _SECTION.fullmatch(line):
                inside = found[1] == name
            elif inside and line.strip() and not line.lstrip().startswith("#"):
                out.append(i)
        return out

    def features(self) -> dict[str, int]:
        """Positions of the feature functions' lines by name; one without name= is called by its class and a number."""
        out: dict[str, int] = {}
        seen: dict[str, int] = {}
        for i in self.section("feature"):
            kind, *arguments = self.lines[i].split()
            given = dict(a.split("=", 1) for a in arguments if "=" in a).get("name")
            out[given or f"{kind}{seen.get(kind, 0)}"] = i
            seen[kind] = seen.get(kind, 0) + (given is None)
        return out

    def weights(self) -> dict[str, list[float]]:
        out = {}
        for i in self.section("weight"):
            name, _, values = self.lines[i].partition("=")
            try:
                out[name.strip()] = [float(value) for value in values.split()]
            except ValueError:
                raise FormatError(
                    f"{self.where}:{i + 1}",
                    expected="'Name= number number ...'",
                    found=clip(self.lines[i]),
                    fix="give an ini that Moses reads",
                ) from None
        return out

    def score_names(self) -> list[str]:
        """Of all dense values in the order of the feature functions, as lists name them; those without weights have none."""
        sizes = {name: len(values) for name, values in self.weights().items()}
        return [name for function in self.features() for name in score_names(function, sizes.get(function, 0))]

    # -- changes -----------------------------------------------------------------------------------------------------

    def with_table(self, name: str, *, n_scores: int, path: str) -> Ini:
        """The feature function of a phrase table with so many scores, in a text file at this path."""
        at = self.features()[name]
        _, *arguments = self.lines[at].split()
        new = {"num-features": str(n_scores), "path": path}
        kept = [f"{key}={new.pop(key, value)}" for key, _, value in (a.partition("=") for a in arguments)]
        return self._with_line(at, " ".join([MEMORY, *kept, *(f"{key}={value}" for key, value in new.items())]))

    def with_feature(self, line: str) -> Ini:
        """One more feature function, after all others."""
        at = max(self.section("feature"))
        return replace(self, lines=(*self.lines[: at + 1], line, *self.lines[at + 1 :]))

    def with_weights(self, weights: Mapping[str, Sequence[float]]) -> Ini:
        """These weights in place of those of the same feature functions; new ones come last."""
        ini, places = self, self.section("weight")
        at = {self.lines[i].partition("=")[0].strip(): i for i in places}
        for name, values in weights.items():
            line = weight_line(name, values)
            if name in at:
                ini = ini._with_line(at[name], line)
            else:
                end = max(ini.section("weight")) + 1
                ini = replace(ini, lines=(*ini.lines[:end], line, *ini.lines[end:]))
        return ini

    def with_weight_file(self, path: str) -> Ini:
        if self.section("weight-file"):
            raise InputError(f"{self.where}: expected no [weight-file], found one; add its lines to {Path(path).name} afterwards")
        return replace(self, lines=(*self.lines, "", "[weight-file]", path))

    def _with_line(self, at: int, line: str) -> Ini:
        return replace(self, lines=(*self.lines[:at], line, *self.lines[at + 1 :]))


def weight_line(name: str, values: Sequence[float]) -> str:
    return f"{name}= {' '.join(map(format_number, values))}"


def ini_lines(feature: str | None, weights: Mapping[str, Sequence[float]]) -> Ini:
    """Only the lines that a model says something about, for the user's own ini."""
    new = () if feature is None else ("[feature]", feature, "")
    return Ini("", (*new, "[weight]", *(weight_line(name, values) for name, values in weights.items())))
