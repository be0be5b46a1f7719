"""Small trees: stumps, random ones of any shape, and the definition that predictions are compared with."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from boostfeat.trees.tree import Tree


def stump(leaf="linear", on="lex", *, feature="count", threshold=2.0, values=(2.0, 1.0), intercepts=(0.0, 0.0), weight=1.0):
    return Tree(
        name="tree.000",
        weight=weight,
        leaf=leaf,
        on=on,
        feature=(feature, "", ""),
        threshold=np.array([threshold, 0.0, 0.0]),
        left=np.array([1, -1, -1], np.int32),
        right=np.array([2, -1, -1], np.int32),
        value=np.array([0.0, *values]),
        intercept=np.array([0.0, *intercepts]),
    )


def naive(tree: Tree, row: dict[str, float]) -> float:
    """One row through the JSON of the model file, by its definition in examples/formats.md."""
    obj = tree.to_json()
    node = obj["nodes"][0]
    while "feature" in node:
        node = obj["nodes"][node["left"] if row.get(node["feature"], 0.0) <= node["threshold"] else node["right"]]
    x = row.get(obj["on"], 0.0) if "on" in obj else 1.0
    return node.get("intercept", 0.0) + node["value"] * x


numbers = st.floats(allow_nan=False, allow_infinity=False)
small = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), st.floats(-10, 10))
names = st.one_of(st.sampled_from(["a", "b", "c"]), st.text(max_size=5))


@st.composite
def trees(draw, values=numbers):
    """Any shape of up to 9 leaves: again and again a random leaf is split, children numbered after their parents."""
    left, right, leaves = [-1], [-1], [0]
    for _ in range(draw(st.integers(0, 8))):
        node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        left[node], right[node] = len(left), len(left) + 1
        leaves += [len(left), len(left) + 1]
        left += [-1, -1]
        right += [-1, -1]
    n, leaf = len(left), draw(st.sampled_from(["constant", "linear", "affine"]))
    inner = np.array(left) >= 0
    column = lambda: np.array(draw(st.lists(values, min_size=n, max_size=n)))  # noqa: E731
    return Tree(
        name=draw(names),
        weight=draw(values),
        leaf=leaf,
        on=None if leaf == "constant" else draw(names),
        feature=tuple(draw(names) if i else "" for i in inner),
        threshold=column() * inner,
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
        value=column() * ~inner,
        intercept=column() * ~inner * (leaf == "affine"),
    )
