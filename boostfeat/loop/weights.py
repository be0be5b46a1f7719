"""Weights as decoders read them: the [weight] section of a Moses ini, cdec's ``name value`` lines, ``name= value`` lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ..core.errors import InputError, clip
from ..core.files import open_output, read_head
from ..decoder.ini import HEADER, feature_names, named_weights, read_entries, sections
from ..formats.moses.hypergraph import read_weights
from ..model.model import Model

NAMED = re.compile(r"\bname=(\S+)")


def read_start(path: str | Path) -> Model:
    """The model to start from: a model file, a Moses ini, or lines of ``name value`` or ``Name= value``."""
    head = read_head(path).decode("utf-8", "replace")
    if head.lstrip().startswith("{"):
        return Model.load(path)
    is_ini = any(HEADER.match(line) for line in head.splitlines())
    return Model(named_weights(read_entries(path)) if is_ini else read_weights([path]))


# ---------------------------------------------------------------------------------------------------------------------
# Moses ini: ``TranslationModel0= 0.2 0.1`` are the weights of TranslationModel0_0 and _1, ``LM0= 0.5`` that of LM0
# ---------------------------------------------------------------------------------------------------------------------


def write_ini(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """The ini ``base`` with these weights in [weight]; those of sparse features go to a file that [weight-file] names.

    A feature that the weights do not name keeps the weight it has in the base.
    """
    if base is None:
        raise InputError("--weights-format moses: expected --ini FILE whose [weight] section is replaced, found none; give it")
    entries, left = read_entries(base), {name: w for name, w in weights.items() if w != 0}
    lines = ["[weight]"]
    for name, values in entries.items():
        features = feature_names(name, len(values))
        lines.append(f"{name}= " + " ".join(repr(weights.get(f, v)) for f, v in zip(features, values, strict=True)))
        for feature in features:
            left.pop(feature, None)
    named = {match[1] for section, _, line in sections(base) if section == "feature" for match in NAMED.finditer(line)}
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
    kept = [line for section, _, line in sections(base) if section not in replaced]
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
