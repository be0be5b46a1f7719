"""A Python module that scores as the library does and imports nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..core.files import open_output, read_bytes
from ..model.model import Model
from ..trees.tree import Tree
from . import Check, Context, Exporter
from .verify import compare_scores, inputs_of


def write(model: Model, out: Path, context: Context) -> list[Path]:
    with open_output(out) as stream:
        stream.write(module_text(model).encode("ascii"))
    return [out]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        path.write_bytes(read_bytes(written[0]))
        return compare_scores(model, context, lambda x: score_rows(path, x), target="python", tolerance=1e-6)


EXPORTER = Exporter(write, verify)


def module_text(model: Model) -> str:
    """The module's source, ASCII only."""
    names = inputs_of(model, "python")
    rows = {
        "local": "a unit (a phrase in context); a hypothesis scores the sum over its units,\n"
        "plus linear() of the features that no unit carries",
        "global": "a whole hypothesis",
    }[model.level]
    weights = [(names.index(name), model.weights[name]) for name in names if model.weights.get(name, 0.0) != 0]
    data = {
        "SIGNATURE": model.signature,
        "LEVEL": model.level,
        "FEATURES": names,
        "WEIGHTS": tuple(weights),
        "TREES": tuple(_tree(tree, names) for tree in model.trees),
    }
    return (
        _SOURCE.replace("{rows}", rows) + "".join(f"\n{name} = {_literal(value)}\n" for name, value in data.items()) + _FUNCTIONS
    )


_SOURCE = '''"""A boostfeat model as plain Python, made by 'boostfeat export --to python'. Not meant to be edited.

The features given are those of {rows}.
"""
'''

_FUNCTIONS = '''

def score(features):
    """The model's score of features: a dict by name (absent is 0, others are ignored) or values in the order of FEATURES."""
    x = _values(features)
    total = 0.0
    for tree in TREES:
        total += tree["weight"] * _tree_value(tree, x)
    return linear(x) + total


def linear(features):
    """The linear part of the score: weights times features."""
    x = _values(features)
    total = 0.0
    for j, weight in WEIGHTS:
        total += weight * x[j]
    return total


def trees(features):
    """The values of all trees by name, without their weights."""
    x = _values(features)
    return {tree["name"]: _tree_value(tree, x) for tree in TREES}


def _values(features):
    if hasattr(features, "keys"):
        return [float(features.get(name, 0.0)) for name in FEATURES]
    if len(features) != len(FEATURES):
        raise ValueError("features: expected %d values, found %d" % (len(FEATURES), len(features)))
    return features


def _tree_value(tree, x):
    """A node is (feature, threshold, left, right), a leaf (intercept, slope): value = intercept + slope * x[on]."""
    node = tree["nodes"][0]
    while len(node) == 4:
        feature, threshold, left, right = node
        node = tree["nodes"][left if x[feature] <= threshold else right]
    intercept, slope = node
    return intercept if tree["on"] is None else intercept + slope * x[tree["on"]]
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


# Doubles in, doubles out: text would take longer than the scoring.
_RUN = """
import array, importlib.util, sys
spec = importlib.util.spec_from_file_location("model", sys.argv[1])
model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model)
n, d = int(sys.argv[2]), int(sys.argv[3])
x = array.array("d", sys.stdin.buffer.read()).tolist()
sys.stdout.buffer.write(array.array("d", [model.score(x[i * d : i * d + d]) for i in range(n)]).tobytes())
"""


def score_rows(path: Path, x: F64) -> F64:
    """The module's scores of rows x [n, d], in a process that sees neither this library nor any other package."""
    command = [sys.executable, "-I", "-S", "-B", "-c", _RUN, str(path), *map(str, x.shape)]
    done = subprocess.run(command, input=np.ascontiguousarray(x, np.float64).tobytes(), capture_output=True, check=False)
    if done.returncode:
        raise InputError(
            f"--to python: expected a module that runs, found: {clip(done.stderr[-200:], 200)}; report this as a bug"
        )
    return np.frombuffer(done.stdout)
