"""Trees: prediction against a naive walk, the paper's Figure 1, rules, JSON and its errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_trees import naive, small, stump, trees

from boostfeat.core.errors import FormatError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.trees.drawing import tree_svg
from boostfeat.trees.tree import DEEPEST, DRAWN, Tree

pytestmark = pytest.mark.quick


@given(trees())
@settings(max_examples=60, deadline=None)
def test_json_round_trip_is_exact(tree):
    back = Tree.from_json(json.loads(json.dumps(tree.to_json())), "model.json: trees[0]")
    assert back == tree
    for name in ("threshold", "left", "right", "value", "intercept"):
        np.testing.assert_array_equal(getattr(back, name), getattr(tree, name))
    assert back.rules() == tree.rules()


@given(trees(small), st.lists(st.tuples(small, small, small), max_size=6))
@settings(max_examples=60, deadline=None)
def test_prediction_equals_the_naive_walk(tree, rows):
    table = FeatureTable(["a", "b", "c"], np.array(rows).reshape(-1, 3))
    expected = [naive(tree, dict(zip("abc", row, strict=True))) for row in rows]
    np.testing.assert_allclose(tree.predict(table), expected, rtol=1e-15, atol=0)
    assert set(tree.leaf_of(table).tolist()) <= set(tree.leaves.tolist())
    assert tree.n_leaves == len(tree.leaves) == (len(tree.feature) + 1) // 2


def test_figure_1_local_values_sum_to_the_printed_global_ones():
    """[TA13 Figure 1]: P1 and P2, their sums, h1 (the left tree of Figure 2) and h2 (only its two values are printed)."""
    x = np.array([[-1.2, -5.3, 1.0, -7.6], [-0.8, -1.3, 3.0, -10.2]])
    table = FeatureTable(["f0", "f1", "f2", "f3"], x)
    np.testing.assert_allclose(x.sum(axis=0), [-2.0, -6.6, 4.0, -17.8])
    h1 = stump(on="f1", feature="f2").predict(table)
    h2 = stump("constant", None, feature="f2", values=(0.5, 0.8)).predict(table)
    np.testing.assert_allclose(h1, [-10.6, -1.3])
    np.testing.assert_allclose([h1.sum(), h2.sum()], [-11.9, 1.3])


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (stump("constant", None, values=(1.0, -2.0)), "if count <= 2: 1.0 [few] else -2.0 [many], weight 1.0"),
        (stump(), "if count <= 2: 2.0 * lex [few] else 1.0 * lex [many], weight 1.0"),
        (stump("affine", intercepts=(0.5, -1.0)), "if count <= 2: 0.5 + 2.0 * lex [few] else -1.0 + 1.0 * lex [many], weight 1.0"),
        (stump("affine", values=(0.0, 1.0)), "if count <= 2: 0.0 + 0.0 * lex [few] else 0.0 + 1.0 * lex [many], weight 1.0"),
        (stump("constant", None, values=(-0.123456, 1e-9)), "if count <= 2: -0.1235 [few] else 1e-09 [many], weight 1.0"),
        (stump("affine", intercepts=(0.5, 0.0), values=(-2.0, 0.25)), "if count <= 2: 0.5 - 2.0 * lex [few] else 0.0 + 0.25 * lex [many], weight 1.0"),
        (stump(threshold=-1e-31), "if count <= 0: 2.0 * lex [few] else 1.0 * lex [many], weight 1.0"),
        (stump(threshold=-2e-30), "if count <= -2e-30: 2.0 * lex [few] else 1.0 * lex [many], weight 1.0"),
        (stump(feature="", on="a\nb"), "if '' <= 2: 2.0 * 'a\\nb' [few] else 1.0 * 'a\\nb' [many], weight 1.0"),
    ],
)  # fmt: skip
def test_notes_stand_behind_leaves(tree, expected):
    assert tree.rules({1: "few", 2: "many", 0: "never"}) == expected


def test_depth_is_shown_by_indents():
    """A chain to the right, one to the left of it: whatever the depth, a test's branches stand one step further in."""
    left, right = np.array([[1, -1, 3, 5, -1, -1, -1], [2, -1, 4, 6, -1, -1, -1]], np.int32)
    threshold, value = np.zeros((2, 7))
    value[:] = [0, 10, 0, 0, 40, 50, 60]
    tree = Tree("t", 2.0, "constant", None, ("a", "", "b", "c", "", "", ""), threshold, left, right, value)
    assert tree.rules({4: "rare"}).splitlines() == [
        "if a <= 0: 10.0",
        "else:",
        "    if b <= 0:",
        "        if c <= 0: 50.0",
        "        else: 60.0",
        "    else: 40.0 [rare]",
        "weight 2.0",
    ]
    assert tree.leaves.tolist() == [1, 4, 5, 6]


def test_equal_trees_have_equal_json():
    assert stump() == stump()
    assert stump() != stump(weight=2.0)
    assert stump() != stump().to_json()
    assert stump().features() == {"count", "lex"}
    with pytest.raises(TypeError, match="unhashable"):
        hash(stump())
    assert stump("affine", intercepts=(0.5, 0.0)).to_json() == {
        "name": "tree.000", "weight": 1.0, "leaf": "affine", "on": "lex",
        "nodes": [{"feature": "count", "threshold": 2.0, "left": 1, "right": 2}, {"intercept": 0.5, "value": 2.0}, {"intercept": 0.0, "value": 1.0}],
    }  # fmt: skip


def test_a_single_leaf_multiplies_its_feature():
    tree = Tree("t", 0.5, "linear", "a", ("",), np.zeros(1), np.array([-1]), np.array([-1]), np.array([3.0]))
    np.testing.assert_array_equal(tree.predict(FeatureTable(["a"], np.array([[2.0], [0.0]]))), [6.0, 0.0])
    assert tree.rules() == "3.0 * a, weight 0.5"


def with_(obj, path, value):
    """A deep copy of the JSON object with one place changed; ``None`` as value deletes the key."""
    obj = json.loads(json.dumps(obj))
    at = obj
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return obj


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (["name"], 3, "trees[3]: name: expected a string, found a whole number"),
        (["weight"], True, "trees[3]: weight: expected a number, found true or false"),
        (["weight"], float("nan"), "trees[3]: expected a tree, found weight: expected a finite number, found nan"),
        (["weight"], 10**400, "trees[3]: weight: expected what boostfeat writes there, found number out of range"),
        (["weight"], None, "trees[3]: expected the key 'weight', found none"),
        (["depth"], 1, "trees[3]: expected only keys that boostfeat knows, found 'depth'"),
        (["leaf"], "quadratic", "trees[3]: leaf: expected what boostfeat writes there, found invalid enum value 'quadratic'"),
        (["leaf"], "constant", "trees[3]: expected a tree, found on: expected a feature for linear and affine leaves only"),
        (["leaf"], "affine", "trees[3].nodes[1]: expected the keys intercept, value or feature, left, right, threshold, found v"),
        (["nodes"], [], "trees[3]: nodes: expected"),
        (["nodes", 1], 7, "trees[3]: nodes[1]: expected an object, found a whole number"),
        (["nodes", 1, "value"], None, "trees[3].nodes[1]: expected the keys value or feature, left, right, threshold, found none"),
        (["nodes", 1, "intercept"], 1.0, "trees[3].nodes[1]: expected the keys value or "),
        (["nodes", 0, "threshold"], float("inf"), "trees[3]: expected a tree, found threshold: expected finite numbers"),
        (["nodes", 0, "feature"], None, "trees[3].nodes[0]: expected the keys"),
        (["nodes", 0, "left"], 3, "trees[3]: expected a tree, found node 0: expected two children from 1 to 2, found 3 and 2"),
        (["nodes", 0, "left"], 0, "trees[3]: nodes[0].left: expected"),
        (["nodes", 0, "left"], 1.5, "trees[3]: nodes[0].left: expected a whole number, found a number"),
        (["nodes", 0, "right"], 2**40, "trees[3]: nodes[0].right: expected"),
        (["nodes", 0, "right"], 1, "trees[3]: expected a tree, found node 1: expected one parent, found 2"),
    ],
)  # fmt: skip
def test_malformed_json_names_its_place(path, value, what):
    obj = with_(stump().to_json(), path, value)
    with pytest.raises(FormatError) as error:
        Tree.from_json(obj, "model.json: trees[3]")
    assert str(error.value).startswith(f"model.json: {what}")
    assert "\n" not in str(error.value)


def test_numbers_up_to_the_largest_are_taken():
    obj = with_(stump().to_json(), ["weight"], -1.7976931348623157e308)
    assert Tree.from_json(with_(obj, ["nodes", 1, "value"], 3), "m").weight == -1.7976931348623157e308


def test_json_that_is_no_object():
    with pytest.raises(FormatError, match=r"model.json: trees\[0\]: expected an object"):
        Tree.from_json([1], "model.json: trees[0]")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"left": np.array([1, 0, -1])}, "node 1: expected two children"),
        ({"left": np.array([5, -1, -1])}, "node 0: expected two children from 1 to 2, found 5 and 2"),
        ({"right": np.array([1, -1, -1])}, "node 1: expected one parent, found 2"),
        ({"left": np.array([-1, -1, -1])}, "node 0: expected two children"),
        ({"left": np.array([-2, -1, -1])}, "node 0: expected two children from 1 to 2, found -2 and 2"),
        ({"value": np.array([0, np.nan, 1])}, "value: expected finite numbers, found nan"),
        ({"threshold": np.array([np.inf, 0, 0])}, "threshold: expected finite numbers"),
        ({"value": np.zeros(2)}, "value: expected 3 nodes, found 2"),
        ({"threshold": np.zeros(4)}, "threshold: expected 3 nodes, found 4"),
        ({"weight": float("inf")}, "weight: expected a finite number"),
        ({"on": None}, "on: expected a feature"),
        ({"leaf": "cubic"}, "leaf: expected one of constant, linear, affine"),
        ({"intercept": np.array([0.0, -2.0, 3.0])}, "intercept: expected 0 for linear leaves, found -2.0$"),
        (
            {"feature": (), **dict.fromkeys(["threshold", "left", "right", "value", "intercept"], np.zeros(0))},
            "^node 0: expected at least one node, found none",
        ),
    ],
)
def test_a_tree_checks_itself(change, match):
    good = stump()
    with pytest.raises(ValueError, match=match):
        Tree(**{name: change.get(name, getattr(good, name)) for name in Tree.__dataclass_fields__})


def test_rules_of_a_deep_tree_are_indented_up_to_a_depth_and_numbered_below():
    """A chain: node 2k tests, 2k + 1 is a leaf. The leaf of test k stands at depth k."""
    n = DEEPEST + 3
    nodes = [
        node
        for k in range(n)
        for node in ({"feature": "x", "threshold": float(k), "left": 2 * k + 1, "right": 2 * k + 2}, {"value": float(k)})
    ]
    tree = Tree.from_json({"name": "t", "weight": 1.0, "leaf": "constant", "nodes": [*nodes, {"value": -1.0}]}, "t")
    lines = tree.rules().split("\n")
    leaves = [next(line for line in lines if line.endswith(f"if x <= {k}: {k}.0")) for k in range(n)]
    depths = [len(line) - len(line.lstrip(" ")) for line in leaves]
    first = depths[0]
    assert [(depth - first) // 4 for depth in depths] == [min(k, DEEPEST) for k in range(n)]
    assert [line.strip().startswith("(") for line in leaves] == [k > DEEPEST for k in range(n)]
    assert leaves[-1].strip().startswith(f"({n - 1}) if")


@pytest.mark.parametrize(
    ("tree", "note"),
    [
        (stump(on="lex", weight=0.8), "weight 0.8 · x is lex"),
        (stump("affine", on="a < b", weight=-2.0), "weight -2.0 · x is a &lt; b"),
        (stump("constant", None), "weight 1.0"),
    ],
)
def test_a_card_has_name_weight_and_drawing(tree, note):
    shares = {1: 0.25, 2: 0.75}
    assert tree.card() == f'<h3>{tree.name} <span class="quiet">{note}</span></h3>' + tree_svg(tree, None)
    assert tree.card(shares, " · more") == f'<h3>{tree.name} <span class="quiet">{note} · more</span></h3>' + tree_svg(
        tree, shares
    )


@pytest.mark.parametrize("splits", [DRAWN - 1, DRAWN, DRAWN + 1])
def test_a_card_of_a_large_tree_has_its_first_rules(splits):
    """A chain of splits, each with a leaf on its left: n splits are n + 1 leaves."""
    n = 2 * splits + 1
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    tree = Tree("deep", 1.0, "constant", None, tuple("f" if i else "" for i in inner), np.where(inner, np.arange(n), 0.0),
                np.where(inner, np.arange(n) + 1, -1).astype(np.int32), np.where(inner, np.arange(n) + 2, -1).astype(np.int32),
                np.arange(float(n)), np.zeros(n))  # fmt: skip
    head = '<h3>deep <span class="quiet">weight 1.0</span></h3>'
    if splits < DRAWN:
        assert tree.card() == head + tree_svg(tree, None)
    else:
        lines = [line.replace("<", "&lt;") for line in tree.rules().split("\n")]
        rules = "\n".join(lines[:DRAWN])
        assert tree.card() == f"{head}<pre>{rules}\n… {len(lines) - DRAWN:,} more lines</pre>"
