"""Moses' moses.ini: sections of lines, among them the feature functions, the files they read, and their weights; weights alone.

As in Moses, a comment goes from any '#' to the end of its line, and a section from its [header] to the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ...core.errors import FormatError, InputError, clip
from ...core.files import open_output, read_lines
from ...core.text import split_words
from ..fields import format_number, number, score_names

HEADER = re.compile(r"\[([^\[\]\s]+)\]")
MEMORY = "PhraseDictionaryMemory"  # the table that Moses loads from text


@dataclass(frozen=True)
class Feature:
    """A feature function: ``KENLM name=LM0 factor=0 path=lm.arpa``."""

    line: int  # position in the ini
    kind: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Ini:
    """The lines of an ini. Changes give a new one; comments and order stay."""

    where: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: str | Path) -> Ini:
        return cls(str(path), tuple(line for _, line in read_lines(path)))

    @classmethod
    def of(cls, sections: Mapping[str, Iterable[str]]) -> Ini:
        """An ini of these sections, with a blank line between them."""
        lines = [line for name, content in sections.items() for line in (f"[{name}]", *content, "")]
        return cls("", tuple(lines[:-1]))

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def write(self, path: str | Path) -> None:
        with open_output(path) as stream:
            stream.write(self.text.encode())

    # -- what it says ------------------------------------------------------------------------------------------------

    def says(self, at: int) -> str:
        """A line without its comment."""
        return self.lines[at].partition("#")[0].strip()

    def place(self, at: int) -> str:
        return f"{self.where}:{at + 1}"

    def _error(self, at: int, *, expected: str, found: str, fix: str = "give an ini that Moses reads") -> FormatError:
        return FormatError(self.place(at), expected=expected, found=found, fix=fix)

    @cached_property
    def _section_of(self) -> tuple[str, ...]:
        """[lines] the section of each line, its header included; "" before the first."""
        out, name = [], ""
        for at in range(len(self.lines)):
            said = self.says(at)
            if said.startswith("["):
                if not (found := HEADER.fullmatch(said)):
                    raise self._error(at, expected="'[section]' alone on its line", found=clip(said))
                name = found[1]
            elif said and not name:
                raise self._error(at, expected="a [section] before the first line", found=clip(said))
            out.append(name)
        return tuple(out)

    def section(self, name: str) -> list[int]:
        """Positions of the lines of a section that say something."""
        own = (at for at, section in enumerate(self._section_of) if section == name)
        return [at for at in own if (said := self.says(at)) and not said.startswith("[")]

    def require(self, *names: str) -> Ini:
        """The ini itself, if each of these sections says something."""
        for name in names:
            if not self.section(name):
                fix = "give the decoder's moses.ini"
                raise FormatError(self.where, expected=f"a [{name}] section", found="none, or nothing in it", fix=fix)
        return self

    def features(self) -> dict[str, Feature]:
        """Feature functions by name; one without name= is called by its class and a number, as Moses does."""
        out: dict[str, Feature] = {}
        unnamed: dict[str, int] = {}
        for at in self.section("feature"):
            kind, *items = split_words(self.says(at))
            pairs = [item.partition("=") for item in items]
            arguments = {key: value for key, _, value in pairs}
            if len(arguments) < len(pairs) or not all(key and equals for key, equals, _ in pairs):
                raise self._error(at, expected="'Class key=value ...', each key once", found=clip(self.says(at)))
            name = arguments.get("name") or f"{kind}{unnamed.get(kind, 0)}"
            unnamed[kind] = unnamed.get(kind, 0) + ("name" not in arguments)
            if name in out:
                raise self._error(at, expected="each feature function once", found=f"{clip(name)} again", fix="rename one")
            out[name] = Feature(at, kind, arguments)
        return out

    def weights(self) -> dict[str, list[float]]:
        """The values of every entry of [weight], in order."""
        return {name: values for name, (_, values) in self._entries().items()}

    def _entries(self) -> dict[str, tuple[int, list[float]]]:
        """(position of the line, values) of the entries of [weight] by name."""
        out: dict[str, tuple[int, list[float]]] = {}
        for at in self.section("weight"):
            name, equals, values = (part.strip() for part in self.says(at).partition("="))
            if not equals or name.split() != [name] or not values or name in out:
                found = f"{clip(name)} again" if name in out else clip(self.says(at))
                raise self._error(at, expected="'Name= value ...', each name once", found=found, fix="repair [weight]")
            out[name] = at, [number(value, self.place(at), f"weight {name}") for value in split_words(values)]
        return out

    def named_weights(self) -> dict[str, float]:
        """Weights by feature, as lists name them: ``TM0= 0.2 0.1`` are those of TM0_0 and TM0_1, ``LM0= 0.5`` that of LM0."""
        out: dict[str, float] = {}
        for entry, values in self.weights().items():
            for name, value in zip(score_names(entry, len(values)), values, strict=True):
                if name in out:
                    raise FormatError(self.where, expected="each weight once", found=f"{clip(name)} again", fix="repair [weight]")
                out[name] = value
        return out

    def score_names(self) -> list[str]:
        """Name all dense values in the order of the feature functions, as lists do; those without weights have none."""
        sizes = {name: len(values) for name, values in self.weights().items()}
        return [name for function in self.features() for name in score_names(function, sizes.get(function, 0))]

    def locate(self, file: str) -> str:
        """A file as Moses finds it, from the working folder; else from the ini's folder.

        From a folder above the ini's it is taken if it leads back into the ini's: data/system/lm of data/system/moses.ini.
        """
        own = Path(self.where).parent
        if os.path.exists(file):
            return file
        if os.path.exists(own / file):
            return str(own / file)
        whole = Path(os.path.abspath(own))
        above = (folder / file for folder in whole.parents)
        return next((str(path) for path in above if path.is_relative_to(whole) and os.path.exists(path)), file)

    # -- changes -----------------------------------------------------------------------------------------------------

    def with_table(self, name: str, *, n_scores: int, path: str, kind: str = MEMORY, hidden: int = 0) -> Ini:
        """The feature function of a phrase table with so many scores at this path; lists do not show the last ``hidden`` ones."""
        feature = self.features()[name]
        arguments = {**feature.arguments, "num-features": str(n_scores), "path": path}
        if hidden and arguments.get("tuneable", "true") not in ("false", "0"):
            shown = arguments.get("tuneable-components", ",".join("1" * (n_scores - hidden)))
            arguments["tuneable-components"] = ",".join([shown, *"0" * hidden])
        return self._with_line(feature.line, " ".join([kind, *(f"{key}={value}" for key, value in arguments.items())]))

    def located(self) -> Ini:
        """Return the ini with the files that there are by their whole paths: it holds in any working folder."""
        ini = self
        for feature in self.features().values():
            path = feature.arguments.get("path", "")
            found = next((at for at in (self.locate(path), self.locate(f"{path}.gz")) if path and os.path.exists(at)), None)
            if found is not None:
                whole = os.path.abspath(found)
                arguments = {**feature.arguments, "path": whole if os.path.exists(self.locate(path)) else whole[: -len(".gz")]}
                words = [feature.kind, *(f"{key}={value}" for key, value in arguments.items())]
                ini = ini._with_line(feature.line, " ".join(words))
        return ini

    def with_feature(self, line: str) -> Ini:
        """One more feature function, after all others."""
        return self._with_line_after(max(self.section("feature")), line)

    def with_weights(self, weights: Mapping[str, Sequence[float]]) -> Ini:
        """These weights in place of those of the same feature functions; new ones come last."""
        ini, entries = self, self._entries()
        for name, values in weights.items():
            line = weight_line(name, values)
            if name in entries:
                ini = ini._with_line(entries[name][0], line)
            else:
                ini = ini._with_line_after(max(ini.section("weight")), line)
        return ini

    def with_section(self, name: str, *lines: str) -> Ini:
        """One more section, after all others."""
        return replace(self, lines=(*self.lines, "", f"[{name}]", *lines))

    def with_weight_file(self, path: str) -> Ini:
        if self.section("weight-file"):
            raise InputError(f"{self.where}: expected no [weight-file], found one; add its lines to {Path(path).name} afterwards")
        return self.with_section("weight-file", path)

    def without(self, *names: str) -> Ini:
        """The ini without these sections, their comments included."""
        rows = zip(self.lines, self._section_of, strict=True)
        return replace(self, lines=tuple(line for line, section in rows if section not in names))

    def _with_line(self, at: int, line: str) -> Ini:
        comment = self.lines[at][len(self.lines[at].partition("#")[0]) :]
        return replace(self, lines=(*self.lines[:at], f"{line}  {comment}".rstrip(), *self.lines[at + 1 :]))

    def _with_line_after(self, at: int, line: str) -> Ini:
        return replace(self, lines=(*self.lines[: at + 1], line, *self.lines[at + 1 :]))


def looks_like_ini(head: str) -> bool:
    """Whether a file that starts so has a section's header."""
    return any(re.fullmatch(r"\s*\[[^\]]*\]\s*(#.*)?", line) for line in head.split("\n"))


def weight_line(name: str, values: Iterable[float]) -> str:
    return f"{name}= {' '.join(map(format_number, values))}"


# ---------------------------------------------------------------------------------------------------------------------
# Files of weights, a name a line: ``name value`` (cdec, Joshua, [weight-file]) and ``Name= value ...`` (Moses' tools)
# ---------------------------------------------------------------------------------------------------------------------

FIX = "repair or remove this line"


def read_weights(paths: Iterable[str | Path]) -> dict[str, float]:
    """Weights from files of ``Name= value`` and ``name value`` lines; lines that begin with # are comments, as in Moses.

    A dense name with several values, on one line or on several, becomes Name_1, Name_2, ... as in Moses' hypergraphs; one with
    a single value stays as it is.
    """
    groups: dict[str, list[float]] = {}
    where_of: dict[str, tuple[int, str]] = {}  # which file, and the last place in it
    for f, path in enumerate(paths):
        for n, line in read_lines(path):
            where, parts = f"{path}:{n}", split_words(line)
            if not parts or parts[0].startswith("#"):
                continue
            name, dense = parts[0].removesuffix("="), parts[0].endswith("=")
            if len(parts) < 2 or not name or (not dense and len(parts) > 2):
                raise FormatError(where, expected="'Name= value' or 'name value'", found=clip(line), fix=FIX)
            if name in groups and (not dense or where_of[name][0] != f):
                raise _again(where, name)
            where_of[name] = f, where
            groups.setdefault(name, []).extend(number(value, where, f"weight {name}") for value in parts[1:])
    weights: dict[str, float] = {}
    for name, values in groups.items():
        for i, value in enumerate(values, 1):
            key = name if len(values) == 1 else f"{name}_{i}"
            if key in weights:
                raise _again(where_of[name][1], key)
            weights[key] = value
    return weights


def _again(where: str, name: str) -> FormatError:
    return FormatError(where, expected="each name once", found=f"{clip(name)} again", fix=FIX)


def weight_lines(weights: Mapping[str, float], file: str, *, equals: str = "") -> list[str]:
    """``name value`` lines, or ``name= value`` with ``equals``; a name that a line cannot hold is refused."""
    for name in weights:
        if name.split() != [name] or name.startswith("#"):
            raise InputError(f"{file}: expected feature names without spaces or a leading '#', found {clip(name)}; rename it")
    return [f"{name}{equals} {format_number(weight)}" for name, weight in weights.items()]


def write_lines(lines: Iterable[str], path: str | Path) -> None:
    with open_output(path) as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode())
