"""Weights as decoders read them: the [weight] section of a Moses ini, cdec's ``name value`` lines, ``name= value`` lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..errors import FormatError, InputError, clip
from ..files import open_output, read_head, read_lines
from ..formats.fields import number
from ..formats.moses_hypergraph import read_weights
from ..model import Model

SECTION = re.compile(r"\s*\[\s*([^\]]+?)\s*\]\s*$")
NAMED = re.compile(r"\bname=(\S+)")


def read_start(path: str | Path) -> Model:
    """The model to start from: a model file, a Moses ini, or lines of ``name value`` or ``Name= value``."""
    head = read_head(path).decode("utf-8", "replace")
    if head.lstrip().startswith("{"):
        return Model.load(path)
    is_ini = any(SECTION.match(line) for line in head.splitlines())
    return Model(ini_weights(path) if is_ini else read_weights([path]))


# ---------------------------------------------------------------------------------------------------------------------
# Moses ini: ``TranslationModel0= 0.2 0.1`` are the weights of TranslationModel0_0 and _1, ``LM0= 0.5`` that of LM0
# ---------------------------------------------------------------------------------------------------------------------


def feature_names(name: str, n_values: int) -> list[str]:
    """Names of the features of an entry of [weight], as decoders' lists have them."""
    return [name] if n_values == 1 else [f"{name}_{i}" for i in range(n_values)]


def _sections(path: str | Path) -> Iterator[tuple[str, int, str]]:
    """(section, line number, line) of every line; a section starts with its own header."""
    section = ""
    for n, line in read_lines(path):
        if match := SECTION.match(line):
            section = match[1]
        yield section, n, line


def ini_entries(path: str | Path) -> dict[str, list[float]]:
    """The values of every entry of [weight], in order."""
    entries: dict[str, list[float]] = {}
    for section, n, line in _sections(path):
        where, text = f"{path}:{n}", line.split("#")[0].strip()
        if section != "weight" or not text or SECTION.match(line):
            continue
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name or not values.split() or name in entries:
            found = f"{clip(name)} again" if name in entries else clip(line)
            raise FormatError(where, expected="'Name= value ...', each name once", found=found, fix="repair [weight]")
        entries[name] = [number(value, where, f"weight {name}") for value in values.split()]
    if not entries:
        raise FormatError(str(path), expected="a [weight] section", found="none with weights", fix="give the decoder's ini")
    return entries


def ini_weights(path: str | Path) -> dict[str, float]:
    """Weights of a Moses ini by feature name."""
    return {
        feature: value
        for name, values in ini_entries(path).items()
        for feature, value in zip(feature_names(name, len(values)), values, strict=True)
    }


def write_ini(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """The ini ``base`` with these weights in [weight]; those of sparse features go to a file that [weight-file] names.

    A feature that the weights do not name keeps the weight it has in the base.
    """
    if base is None:
        raise InputError("--weights-format moses: expected --ini FILE whose [weight] section is replaced, found none; give it")
    entries, left = ini_entries(base), {name: w for name, w in weights.items() if w != 0}
    lines = ["[weight]"]
    for name, values in entries.items():
        features = feature_names(name, len(values))
        lines.append(f"{name}= " + " ".join(repr(weights.get(f, v)) for f, v in zip(features, values, strict=True)))
        for feature in features:
            left.pop(feature, None)
    named = {match[1] for section, _, line in _sections(base) if section == "feature" for match in NAMED.finditer(line)}
    for name in left:  # sparse features are named Function_anything; a number would be a dense one that the ini lacks
        rest = next((name[len(f) + 1 :] for f in (*entries, *named) if name.startswith(f + "_")), "")
        if not rest or rest.isdigit():
            raise InputError(
                f"{base}: expected a weight for the model's feature {clip(name)}, found none; add it to [weight] and [feature]"
            )
    replaced = {"weight"}
    if left:
        sparse = path.with_name("sparse-weights.txt")
        write_cdec(left, sparse, None)
        lines += ["", "[weight-file]", str(sparse)]
        replaced.add("weight-file")
    kept = [line for section, _, line in _sections(base) if section not in replaced]
    _write_lines([*kept, "", *lines], path)


# ---------------------------------------------------------------------------------------------------------------------
# A line a weight
# ---------------------------------------------------------------------------------------------------------------------


def write_cdec(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """``name value`` lines, as cdec and Joshua read them."""
    _write_lines([f"{_word(name, path)} {w!r}" for name, w in weights.items()], path)


def write_name_value(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """``name= value`` lines, as Moses' own tools read them."""
    _write_lines([f"{_word(name, path)}= {w!r}" for name, w in weights.items()], path)


def _word(name: str, path: Path) -> str:
    if name.split() != [name] or name.startswith("#"):
        raise InputError(f"{path.name}: expected feature names without spaces or a leading '#', found {clip(name)}; rename it")
    return name


def _write_lines(lines: list[str], path: Path) -> None:
    with open_output(path) as stream:
        stream.write("".join(line + "\n" for line in lines).encode())


# name of the format: (name of the file, writer)
WEIGHT_FORMATS: dict[str, tuple[str, Callable[[Mapping[str, float], Path, str | Path | None], None]]] = {
    "moses": ("moses.ini", write_ini),
    "cdec": ("weights.cdec", write_cdec),
    "name-value": ("weights.txt", write_name_value),
}
