"""A treelite checkpoint: trees with vector leaves (see onnx.py), and a note beside it that says how they make a score.

The weights of the linear part are slopes, too: a tree of one leaf holds them. (Base scores could, but tl2cgen 1.0
was seen to leave a vector of them out.) Thresholds and leaves are doubles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..model.model import Model
from ..trees.tree import Tree
from .inputs import Inputs
from .onnx import leaf_columns, package
from .target import Check, Context, Exporter


def write(model: Model, out: Path, context: Context) -> list[Path]:
    inputs = Inputs.of(model, context, "treelite")
    out.write_bytes(_built(inputs).serialize_bytes())  # its serialize() takes a full disk for a written file
    beside = out.with_name(out.name + ".json")
    beside.write_text(json.dumps(_note(inputs), indent=1) + "\n")
    return [out, beside]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    """Run the checkpoint by treelite's own interpreter (GTIL); the note alone says how to combine its outputs."""
    treelite = package("treelite", target="treelite")
    forest, note = treelite.Model.deserialize(str(written[0])), json.loads(written[1].read_text())

    def score(x: F64, start: int) -> F64:
        return combined(treelite.gtil.predict(forest, x), x, note)

    return Inputs.of(model, context, "treelite").compare(context, score)


def combined(out: F64, x: F64, note: Mapping[str, Any]) -> F64:
    """Return scores [n] of what treelite gives rows x [n, d], as the note says."""
    out = out.reshape(len(x), -1)
    columns = [note["features"].index(name) for name in note["slope_features"]]
    return out[:, 0] + np.einsum("nk,nk->n", out[:, 1:], x[:, columns])


EXPORTER = Exporter(write, verify, lambda model, context: Inputs.of(model, context, "treelite").describe())


def slope_features(model: Model, names: tuple[str, ...]) -> tuple[str, ...]:
    """The features that the score multiplies: those with a weight and those of linear and affine leaves, in the order of x."""
    on = {tree.on for tree in model.trees}
    return tuple(name for name in names if model.weights.get(name) or name in on)


def _note(inputs: Inputs) -> dict[str, Any]:
    model, names = inputs.model, inputs.names
    return {
        "boostfeat": "treelite/1",
        **inputs.metadata(),
        "slope_features": slope_features(model, names),
        "weights": {name: w for name, w in model.weights.items() if w},  # of features that no unit carries, too
        "score": "out[0] + sum over k of out[1 + k] * x[slope_features[k]]",
    }


def _built(inputs: Inputs) -> Any:
    model, names = inputs.model, inputs.names
    build = package("treelite.model_builder", target="treelite")
    slopes = slope_features(model, names)
    width, n = 1 + len(slopes), 1 + len(model.trees)
    which = [-1 if slopes else 0] * n  # -1: a leaf has values for all outputs
    builder = build.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=build.Metadata(
            num_feature=len(names),
            task_type="kRegressor",
            average_tree_output=False,
            num_target=width,
            num_class=[1] * width,
            leaf_vector_shape=(width, 1),
        ),
        tree_annotation=build.TreeAnnotation(num_tree=n, target_id=which, class_id=which),
        postprocessor=build.PostProcessorFunc(name="identity"),
        base_scores=[0.0] * width,
    )
    builder.start_tree()
    builder.start_node(0)
    _add_leaf(builder, [0.0, *(float(model.weights.get(name, 0.0)) for name in slopes)])
    builder.end_node()
    builder.end_tree()
    for tree in model.trees:
        _add_tree(builder, tree, names, slopes)
    return builder.commit()


def _add_tree(builder: Any, tree: Tree, names: tuple[str, ...], slopes: tuple[str, ...]) -> None:
    columns = leaf_columns(tree, slopes)
    builder.start_tree()
    for i in range(len(tree.feature)):
        builder.start_node(i)
        if tree.left[i] >= 0:
            builder.numerical_test(
                feature_id=names.index(tree.feature[i]),
                threshold=float(tree.threshold[i]),
                default_left=False,
                opname="<=",
                left_child_key=int(tree.left[i]),
                right_child_key=int(tree.right[i]),
            )
        else:
            out = [0.0] * (1 + len(slopes))
            for column, values in columns:
                out[column] = float(values[i])
            _add_leaf(builder, out)
        builder.end_node()
    builder.end_tree()


def _add_leaf(builder: Any, out: list[float]) -> None:
    builder.leaf(out if len(out) > 1 else out[0])  # tl2cgen takes a vector of one for 0
