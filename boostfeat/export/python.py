"""A Python module that scores as the library does and imports nothing."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..core.files import open_output, read_bytes
from ..features import TEMPLATES, Resources
from ..lists.nbest import NBest
from ..model.model import Model
from ..trees.tree import Tree
from .c import filled
from .inputs import Inputs, inputs_of
from .target import Check, Context, Exporter
from .unit_text import DENSE_TEMPLATES, NO_TEXTS, PAIR_TEMPLATES, TextFeatures


def write(model: Model, out: Path, context: Context) -> list[Path]:
    inputs = Inputs.beside_texts(model, context, "python")
    with open_output(out) as stream:
        text = module_text(inputs.model, inputs.names, inputs.texts, signature=model.signature)
        stream.write(text.encode("ascii"))
    return [out]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    inputs = Inputs.beside_texts(model, context, "python")
    units = _texts_of(context.rows) if inputs.texts.are_any else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        path.write_bytes(read_bytes(written[0]))

        def score(x: F64, start: int) -> F64:
            if units is None:
                return score_rows(path, x)
            spoilt = np.array(x)
            spoilt[:, inputs.texts.places(inputs.names)] = 1e9
            return score_rows(path, spoilt, units[start : start + len(x)])

        return inputs.compare(context, score)


def carries(model: Model, context: Context) -> str:
    return Inputs.beside_texts(model, context, "python").describe()


def _texts_of(nbest: NBest) -> list[tuple[str, str, str]]:
    return list(zip(*(column.to_pylist() for column in (nbest.units.src, nbest.units.tgt, nbest.units.align)), strict=True))


EXPORTER = Exporter(write, verify, carries)


def module_text(
    model: Model, names: tuple[str, ...] | None = None, texts: TextFeatures = NO_TEXTS, *, signature: str | None = None
) -> str:
    """The module's source, ASCII only."""
    names = inputs_of(model, "python") if names is None else names
    rows = {
        "local": "a unit (a phrase in context); a hypothesis scores the sum over its units,\n"
        "plus linear() of the features that no unit carries",
        "global": "a whole hypothesis",
    }[model.level]
    own = {name: weight for name, weight in model.weights.items() if weight and name not in texts.sparse}
    weights = [(j, own[name]) for j, name in enumerate(names) if name in own]
    data = {
        "SIGNATURE": signature or model.signature,
        "LEVEL": model.level,
        "FEATURES": names,
        "WEIGHTS": tuple(weights),
        "TREES": tuple(_tree(tree, names) for tree in model.trees),
    }
    text = "".join(f"\n{name} = {_literal(value)}\n" for name, value in data.items())
    source = filled("module.py.in", {"ROWS": rows, "IMPORTS": _IMPORTS if texts.are_any else "", "DATA": text})
    return source + (_text_part(names, texts) if texts.are_any else "")


_IMPORTS = "\nfrom __future__ import annotations\n\nimport re\n"  # of the functions of templates


def _text_part(names: tuple[str, ...], texts: TextFeatures) -> str:
    """What the texts of a unit tell: weights of sparse features by name, their places in x, and the templates' own functions."""
    told = {*(name for k, name in enumerate(PAIR_TEMPLATES) if texts.which >> k & 1)}
    told |= {name for name in DENSE_TEMPLATES if not texts.dense.isdisjoint(TEMPLATES[name].names({}, Resources()) or ())}
    templates = [TEMPLATES[name] for name in (*DENSE_TEMPLATES, *PAIR_TEMPLATES) if name in told]
    sources: dict[str, str] = {}
    for template in templates:
        sources |= sources_of(template.compute)
    words = {sign: {name[4:] for name in texts.sparse if name.startswith(f"un:{sign}")} for sign in "+-"}
    options = {"un": f", inserted={sorted(words['+'])!a}, deleted={sorted(words['-'])!a}"}
    calls = "".join(
        f"    {t.name!r}: lambda source, target, links: "
        f"{t.compute.__name__}({', '.join(t.arguments)}{options.get(t.name, '')}),\n"
        for t in templates
    )
    sparse = "".join(f"    {name!a}: {(weight, texts.slots.get(name))!r},\n" for name, weight in texts.sparse.items())
    dense = {name: names.index(name) for name in sorted(texts.dense)}
    parts = {"SPARSE": sparse, "DENSE": repr(dense), "SOURCES": "\n\n\n".join(sources.values()), "CALLS": calls}
    return filled("module_texts.py.in", parts)


def sources_of(function: Callable[..., Any]) -> dict[str, str]:
    """Give the source of a template's function, by name, behind that of all it uses."""
    found: dict[str, str] = {}
    for name in sorted(_names_in(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, re.Pattern):
            found[name] = f"{name} = re.compile({value.pattern!a})"
        elif inspect.isfunction(value):
            found |= sources_of(value)
    source = inspect.getsource(function)
    return {**found, function.__name__: source[source.index("def ") :].rstrip()}


def _names_in(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


def _tree(tree: Tree, names: tuple[str, ...]) -> dict[str, Any]:
    def node(i: int) -> tuple[float, ...]:
        if tree.left[i] >= 0:
            return names.index(tree.feature[i]), float(tree.threshold[i]), int(tree.left[i]), int(tree.right[i])
        a, b = float(tree.intercept[i]), float(tree.value[i])
        return (b, 0.0) if tree.on is None else (a, b)

    on = None if tree.on is None else names.index(tree.on)
    nodes = tuple(map(node, range(len(tree.feature))))
    return {"name": tree.name, "weight": float(tree.weight), "on": on, "nodes": nodes}


def _literal(value: Any) -> str:
    """A literal with the items of a top-level tuple on lines of their own."""
    if not isinstance(value, tuple) or not value:
        return ascii(value)
    return "(\n" + "".join(f"    {item!a},\n" for item in value) + ")"


def score_rows(path: Path, x: F64, units: Sequence[tuple[str, str, str]] = ()) -> F64:
    """The module's scores of rows x [n, d], in a process that sees neither this library nor any other package.

    With units: of their texts (source, target, links), and of those features in x that texts do not tell.
    """
    command = [sys.executable, "-I", "-S", "-B", "-c", filled("score_rows.py.in", {}), str(path), *map(str, x.shape)]
    texts = "".join("\t".join(unit) + "\n" for unit in units).encode("utf-8", "surrogatepass")
    rows = np.ascontiguousarray(x, np.float64).tobytes()
    done = subprocess.run(command, input=rows + texts, capture_output=True, check=False)
    if done.returncode:
        raise InputError(
            f"--to python: expected a module that runs, found: {clip(done.stderr[-200:], 200)}; report this as a bug"
        )
    return np.frombuffer(done.stdout)
