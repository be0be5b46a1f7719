"""A Python module that scores as the library does and imports nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..core.files import open_output, read_bytes
from ..lists.nbest import NBest
from ..model.model import Model
from ..trees.tree import Tree
from .c import filled
from .inputs import Inputs, inputs_of
from .target import Check, Context, Exporter
from .unit_text import NO_TEXTS, PAIR_TEMPLATES, TEXT, TextFeatures


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
    source = filled("module.py.in", {"ROWS": rows, "DATA": text})
    return source + (_text_part(names, texts) if texts.are_any else "")


def _text_part(names: tuple[str, ...], texts: TextFeatures) -> str:
    """What the texts of a unit tell: weights of sparse features by name, with their places in x, and the functions."""
    sparse = {name: (weight, texts.slots.get(name)) for name, weight in texts.sparse.items()}
    computed = "".join(f"    x[{names.index(name)}] = float({TEXT[name][1]})  # {name}\n" for name in sorted(texts.dense))
    table = "SPARSE = {\n" + "".join(f"    {name!a}: {value!r},\n" for name, value in sparse.items()) + "}\n"
    templates = tuple(name for k, name in enumerate(PAIR_TEMPLATES) if texts.which >> k & 1)
    return f"\n\n{table}\nTEMPLATES = {templates!r}\n{_TEXT_FUNCTIONS}" + _FILL.replace("{computed}", computed)


_TEXT_FUNCTIONS = '''

def score_unit(source, target, links, features):
    """The model's score of a unit: words (a string or a list), links like "0-0 1-2", and features that these do not tell."""
    x = _values(features)
    total = fill(source, target, links, x)
    return score(x) + total


def sparse_names(s, t, a):
    """The sparse features of a phrase pair: lists of words, and sorted pairs of their positions."""
    pair = " ".join(s) + "|" + " ".join(t)
    unlinked_s, unlinked_t = _unlinked(s, a, 0), _unlinked(t, a, 1)
    added = [w for w, gone in zip(t, unlinked_t) if gone]
    gone = [w for w, is_gone in zip(s, unlinked_s) if is_gone]
    made = {
        "pt": lambda: [pair],
        "id": lambda: [pair + "|" + " ".join("%d-%d" % link for link in a)],
        "shape": lambda: [_runs(s) + "|" + _runs(t)],
        "al": lambda: [s[i] + "|" + t[j] for i, j in a],
        "del": lambda: gone,
        "wp": lambda: [u + "|" + v for v in t for u in s],
        "ins": lambda: [u + "|" + v for v in added for u in s],
        "un": lambda: ["+" + w for w in added] + ["-" + w for w in gone],
    }
    return [template + ":" + name for template in TEMPLATES for name in made[template]()]


def _runs(words):
    runs, n = [], 0
    for word in words:
        inner = word[1:-1]
        if len(word) > 2 and word[0] == "[" and word[-1] == "]" and "[" not in inner and "]" not in inner:
            runs += ([str(n)] if n else []) + ["X"]
            n = 0
        else:
            n += 1
    return " ".join(runs + ([str(n)] if n else []))


def _unlinked(words, links, side):
    linked = {link[side] for link in links}
    return [i not in linked for i in range(len(words))]


def _characters(words):
    return sum(len(word) for word in words)


def _numbers(words):
    return [word for word in words if any(c in "0123456789" for c in word)]
'''

_FILL = '''

def fill(source, target, links, x):
    """Write the features into x that the texts tell; gives the sum of the weights of sparse features."""
    s, t = (side.split(" ") if hasattr(side, "split") else list(side) for side in (source, target))
    s, t = [w for w in s if w], [w for w in t if w]
    if hasattr(links, "split"):
        links = [link.split("-") for link in links.split()]
    a = sorted((int(i), int(j)) for i, j in links)
    total = 0.0
    for _, slot in SPARSE.values():
        if slot is not None:
            x[slot] = 0.0
    for name in sparse_names(s, t, a):
        if name in SPARSE:
            weight, slot = SPARSE[name]
            total += weight
            if slot is not None:
                x[slot] += 1.0
{computed}    return total
'''


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
