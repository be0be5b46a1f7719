"""Weights as decoders read them: the [weight] section of a Moses ini, cdec's ``name value`` lines, ``name= value`` lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...core.errors import FormatError, InputError, clip
from ...core.files import read_head
from ...core.text import is_whole
from ...formats.moses.ini import Ini, looks_like_ini, weight_line
from ...formats.moses.labels import score_names
from ...formats.moses.weight_files import read_weights, weight_lines, write_lines
from ...model.model import Model


def read_start(path: str | Path) -> Model:
    """The model to start from: a model file, a Moses ini, or lines of ``name value`` or ``Name= value``."""
    head = read_head(path).decode("utf-8", "replace")
    if head.lstrip().startswith("{"):
        return Model.load(path)
    weights = _all_weights(Ini.read(path)) if looks_like_ini(head) else read_weights([path])
    if not weights:
        raise InputError(f"{path}: expected weights to start from, found none; give a model, an ini, or 'name value' lines")
    return Model(weights)


def kept_weights(start: Model, ini: str | Path) -> list[str]:
    """Features of an ini that a start has no weight for: theirs stay as the ini has them until a list shows the features."""
    return [name for name, w in _all_weights(Ini.read(ini)).items() if w and name not in start.weights]


def _all_weights(ini: Ini) -> dict[str, float]:
    """Those of [weight], and of sparse features in the file that [weight-file] names."""
    dense, sparse = ini.require("weight").named_weights(), _sparse_weights(ini)
    if twice := dense.keys() & sparse.keys():
        fix = "remove it from the file of [weight-file]"
        raise FormatError(ini.where, expected="each weight once", found=f"{clip(min(twice))} again", fix=fix)
    return dense | sparse


def _sparse_weights(ini: Ini) -> dict[str, float]:
    files = {at: ini.locate(ini.says(at)) for at in ini.section("weight-file")}
    for at, file in files.items():
        if not Path(file).exists():
            raise FormatError(
                ini.place(at), expected="a file of weights", found=f"none called {clip(file)}", fix="correct its path"
            )
    return read_weights(files.values())


def write_ini(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """The ini ``base`` with these weights in [weight]; those of sparse features go to a file that [weight-file] names.

    A feature that the weights do not name keeps the weight it has in the base.
    """
    if base is None:
        raise InputError("--weights-format moses: expected --ini FILE whose [weight] section is replaced, found none; give it")
    ini = Ini.read(base).require("weight")
    entries, left = ini.weights(), dict(weights)
    lines = []
    for name, values in entries.items():
        features = score_names(name, len(values))
        new = (weights.get(feature, value) for feature, value in zip(features, values, strict=True))
        lines.append(weight_line(name, new, style=repr))
        for feature in features:
            left.pop(feature, None)
    _check_sparse([name for name, w in left.items() if w != 0], (*entries, *ini.features()), base)
    sparse = {name: w for name, w in (_sparse_weights(ini) | left).items() if w != 0}
    ini = ini.without("weight", "weight-file").with_section("weight", *lines)
    if sparse:
        file = path.with_name("sparse-weights.txt")
        write_cdec(sparse, file, None)
        ini = ini.with_section("weight-file", str(file))
    ini.write(path)


def _check_sparse(names: Sequence[str], functions: Sequence[str], base: str | Path) -> None:
    """Sparse features are named Function_anything; a number would be a dense one that the ini lacks."""
    for name in names:
        rest = next((name[len(f) + 1 :] for f in functions if name.startswith(f + "_")), "")
        if not rest or is_whole(rest):
            raise InputError(
                f"{base}: expected a weight for the model's feature {clip(name)}, found none; add it to [weight] and [feature]"
            )


def write_cdec(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """``name value`` lines, as cdec and Joshua read them."""
    write_lines(weight_lines(weights, path.name, style=repr), path)


def write_name_value(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """``name= value`` lines, as Moses' own tools read them."""
    write_lines(weight_lines(weights, path.name, equals="=", style=repr), path)


# name of the format: (name of the file, writer)
WEIGHT_FORMATS: dict[str, tuple[str, Callable[[Mapping[str, float], Path, str | Path | None], None]]] = {
    "moses": ("moses.ini", write_ini),
    "cdec": ("weights.cdec", write_cdec),
    "name-value": ("weights.txt", write_name_value),
}
