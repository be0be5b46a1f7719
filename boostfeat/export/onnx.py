"""An ONNX graph in doubles: a TreeEnsemble with vector leaves, then the dot product that makes scores.

    score = x w + y[:, 0] + Σ_k y[:, 1 + k] x[:, on_k],    y = TreeEnsemble(x)

The runtime only adds up leaf values, so a leaf gives a vector: column 0 holds the intercept (or the constant), column 1 + k the
slope of the k-th feature that is multiplied, all times the tree's weight. Sparse weights of templates are one input. The second
output is ``linear``, x w alone: what a hypothesis adds for features that no unit carries. A leaf of TreeEnsemble fills one column
only, so an affine tree is there twice: with its intercepts and with its slopes.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError
from ..model.model import Model
from ..trees.tree import Tree
from .inputs import Inputs
from .target import Check, Context, Exporter

OPSET, ML_OPSET, IR_VERSION = 18, 5, 10  # TreeEnsemble takes doubles from version 5 of ai.onnx.ml on
LEQ = 0  # the mode of a node whose test is x <= split


def write(model: Model, out: Path, context: Context) -> list[Path]:
    inputs = Inputs.of(model, context, "onnx")
    out.write_bytes(_proto(inputs).SerializeToString(deterministic=True))
    return [out]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    runtime = package("onnxruntime", target="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(written[0].read_bytes(), options, providers=["CPUExecutionProvider"])

    def score(x: F64, start: int) -> F64:
        return session.run(["score"], {"x": np.ascontiguousarray(x)})[0]

    return Inputs.of(model, context, "onnx").compare(context, score)


EXPORTER = Exporter(write, verify, lambda model, context: Inputs.of(model, context, "onnx").describe())


def leaf_columns(tree: Tree, slopes: Sequence[str]) -> list[tuple[int, F64]]:
    """Return (column, weighted values by node) of each column that the leaves of a tree fill; ``slopes``: features multiplied."""
    if tree.on is None:
        return [(0, tree.weight * tree.value)]
    slope = (1 + slopes.index(tree.on), tree.weight * tree.value)
    return [(0, tree.weight * tree.intercept), slope] if tree.leaf == "affine" else [slope]


def package(name: str, *, target: str) -> Any:
    """Import an optional package, or say in one line how to get it."""
    top = name.partition(".")[0]
    try:
        importlib.import_module(top)
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"--to {target}: expected the package {top}, found none; pip install 'boostfeat[export]'") from None


def _test_rows(tree: Tree, slot: dict[str, int], n_tests: int, n_leaves: int) -> list[tuple[int, float, int, int, int, int]]:
    """Return the tests of a tree: feature, threshold, and of both children the number and 1 where it is a leaf.

    Tests and leaves are numbered apart, after those that are there.
    """
    is_leaf = (tree.left < 0).astype(int)
    number = np.where(is_leaf, n_leaves + np.cumsum(is_leaf), n_tests + np.cumsum(1 - is_leaf)) - 1
    place = list(zip(number.tolist(), is_leaf.tolist(), strict=True))
    inner = np.flatnonzero(is_leaf == 0)
    rows = [(slot[tree.feature[i]], float(tree.threshold[i]), *place[tree.left[i]], *place[tree.right[i]]) for i in inner]
    return rows or [(0, 0.0, n_leaves, 1, n_leaves, 1)]  # a root must be a test: one with the same leaf on both sides


def _proto(inputs: Inputs) -> Any:
    model, names = inputs.model, inputs.names
    onnx = package("onnx", target="onnx")
    helper = onnx.helper
    if not names:
        raise InputError("--to onnx: expected a model with an input feature, found none; there is nothing to score")
    slot = {name: j for j, name in enumerate(names)}
    slopes = [name for name in names if any(tree.on == name for tree in model.trees)]
    weights = np.array([[float(model.weights.get(name, 0.0))] for name in names])
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["products of weights"])]
    constants = {"weights": weights, "columns": np.array([1], np.int64)}
    parts = ["products of weights"]
    if model.trees:
        nodes.append(_ensemble_node(model, slopes, slot))
        constants["first"] = np.array([0], np.int64)
        nodes.append(helper.make_node("Slice", ["trees", "first", "columns", "columns"], ["constant"]))
        parts.append("constant")
    if slopes:
        constants |= {"last": np.array([1 + len(slopes)], np.int64), "on": np.array([slot[name] for name in slopes], np.int64)}
        nodes += [
            helper.make_node("Slice", ["trees", "columns", "last", "columns"], ["slopes"]),
            helper.make_node("Gather", ["x", "on"], ["multiplied"], axis=1),
            helper.make_node("Mul", ["slopes", "multiplied"], ["products"]),
            helper.make_node("ReduceSum", ["products", "columns"], ["sloped"], keepdims=1),
        ]
        parts.append("sloped")
    nodes.append(helper.make_node("Sum", parts, ["sum"]))
    sums = {"score": "sum", "linear": "products of weights"}
    nodes += [helper.make_node("Squeeze", [of, "columns"], [name]) for name, of in sums.items()]
    graph = helper.make_graph(
        nodes,
        "boostfeat",
        [helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, ["rows", len(names)])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["rows"]) for name in sums],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="boostfeat")
    told = {key: value if isinstance(value, str) else json.dumps(value) for key, value in inputs.metadata().items()}
    helper.set_model_props(made, told)
    return made


def _ensemble_node(model: Model, slopes: list[str], slot: dict[str, int]) -> Any:
    onnx = package("onnx", target="onnx")
    helper = onnx.helper
    roots: list[int] = []
    tests: list[tuple[int, float, int, int, int, int]] = []
    targets: list[int] = []
    leaves: list[float] = []
    for tree in model.trees:
        for column, values in leaf_columns(tree, slopes):
            roots.append(len(tests))
            tests += _test_rows(tree, slot, len(tests), len(leaves))
            leaves += values[tree.leaves].tolist()
            targets += [column] * (len(leaves) - len(targets))
    features, splits, yes, yes_leaf, no, no_leaf = map(list, zip(*tests, strict=True))
    n = len(tests)
    return helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["trees"],
        domain="ai.onnx.ml",
        n_targets=1 + len(slopes),
        aggregate_function=1,  # sum
        post_transform=0,  # none
        tree_roots=roots,
        nodes_modes=helper.make_tensor("nodes_modes", onnx.TensorProto.UINT8, (n,), [LEQ] * n),
        nodes_featureids=features,
        nodes_splits=helper.make_tensor("nodes_splits", onnx.TensorProto.DOUBLE, (n,), splits),
        nodes_truenodeids=yes,
        nodes_trueleafs=yes_leaf,
        nodes_falsenodeids=no,
        nodes_falseleafs=no_leaf,
        leaf_targetids=targets,
        leaf_weights=helper.make_tensor("leaf_weights", onnx.TensorProto.DOUBLE, (len(leaves),), leaves),
    )
