"""Moses' labels, blocks and numbers, function by function."""

from __future__ import annotations

import pytest

from boostfeat.formats.fields import (
    component,
    format_features,
    format_number,
    group_names,
    score_names,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ([], []),
        (["a"], [("a", [0])]),
        (["a_0"], [("a_0", [0])]),  # a run of one is a name of its own
        (["a_0", "a_1"], [("a", [0, 1])]),
        (["x", "a_0", "a_1", "a_2", "y"], [("x", [0]), ("a", [1, 2, 3]), ("y", [4])]),
        (["a_1", "a_2"], [("a_1", [0]), ("a_2", [1])]),
        (["a_0", "a_2"], [("a_0", [0]), ("a_2", [1])]),
        (["a_0", "b_0", "b_1", "a_1"], [("a_0", [0]), ("b", [1, 2]), ("a_1", [3])]),
        (["a_00", "a_01"], [("a_00", [0]), ("a_01", [1])]),
        ([f"a_{k}" for k in range(11)], [("a", list(range(11)))]),
        (["a_0_0", "a_0_1"], [("a_0", [0, 1])]),
    ],
)
def test_runs_of_numbers_go_under_one_label(names, groups):
    """And read back as the same names, see score_names."""
    assert group_names(names) == groups
    assert [name for label, at in groups for name in score_names(label, len(at))] == names


def test_numbers_and_names():
    numbers = {1.0: "1", -2.5: "-2.5", 1e22: "1e+22", 0.1: "0.1", 100.0: "100", 1e16: "1e+16"}
    assert {value: format_number(value) for value in numbers} == numbers
    assert format_features([("a", [2]), ("b", [0, 1])], [1.0, 0.5, -3.0]) == "a= -3 b= 1 0.5"
    assert [component(name) for name in ("TM0_2", "LM0", "a_01", "a_10", "_3", "a_b_0")] == [
        ("TM0", 2), ("LM0", 0), ("a_01", 0), ("a", 10), ("_3", 0), ("a_b", 0)
    ]  # fmt: skip
    assert [score_names("a", n) for n in (0, 1, 2)] == [(), ("a",), ("a_0", "a_1")]
