"""Values of flags that are read without pydantic: what is plain, and what is left to typer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from boostfeat.cli.plain_values import _number, _PlainValue, take_plain_values

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("kind", "value", "least", "most", "found"),
    [
        (int, "12", None, None, 12),
        (int, "-3", None, None, -3),
        (int, "9" * 15, None, None, 10**15 - 1),
        (int, "9" * 16, None, None, None),
        (int, "1.0", None, None, None),
        (int, "", None, None, None),
        (int, " 1", None, None, None),
        (int, "1x", None, None, None),
        (int, "0", 1, None, None),
        (int, "1", 1, None, 1),
        (int, "2", 1, 2, 2),
        (int, "3", 1, 2, None),
        (int, "3", None, 2, None),
        (int, 7, 1, 9, 7),
        (int, 10, 1, 9, None),
        (int, True, None, None, None),
        (int, 1.0, None, None, None),
        (float, "2", None, None, 2.0),
        (float, "-0.5", None, None, -0.5),
        (float, f"{'1' * 15}.{'1' * 15}", None, None, 111111111111111.11),
        (float, f"1.{'1' * 16}", None, None, None),
        (float, f"{'1' * 16}.1", None, None, None),
        (float, ".5", None, None, None),
        (float, "1.", None, None, None),
        (float, "1e3", None, None, None),
        (float, "nan", None, None, None),
        (float, "0.5", 0.5, 0.5, 0.5),
        (float, "0.25", 0.5, None, None),
        (float, 0.75, None, None, 0.75),
        (float, 1, None, None, None),
    ],
)
def test_numbers(kind, value, least, most, found):
    number = _number(kind, value, least, most)
    assert (number, type(number)) == (found, type(found))


def parameter(kind: Any, *, multiple: bool = False, nargs: int = 1, **info: Any) -> Any:
    """A parameter as typer has it, whose own conversion says that it was asked."""
    made = SimpleNamespace(multiple=multiple, nargs=nargs, _runtime_param="plain")
    about = SimpleNamespace(**{"min": None, "max": None, **info})
    made.type_descriptor = SimpleNamespace(annotation=kind, parameter_info=about)
    made.get_runtime_param = lambda: SimpleNamespace(coerce=lambda value, param, ctx: ("typer", value, param is made, ctx))
    return made


@pytest.mark.parametrize(
    ("own", "value", "found"),
    [
        (parameter(str), None, None),
        (parameter(list[str], multiple=True), None, ()),
        (parameter(list[str], nargs=-1), None, ()),
        (parameter(str), "a", "a"),
        (parameter(int), "3", 3),
        (parameter(int, min=3), "3", 3),
        (parameter(float), "3", 3.0),
        (parameter(list[str], multiple=True), ("a", "b"), ["a", "b"]),
        (parameter(list[str], nargs=-1), ["a"], ["a"]),
        (parameter(list[str], nargs=-1), [], []),
    ],
)  # fmt: skip
def test_plain_ones_are_read_here(own, value, found):
    assert _PlainValue().coerce(value, own, "ctx") == found
    assert own._runtime_param == "plain"


@pytest.mark.parametrize(
    ("own", "value"),
    [
        (parameter(int), "x"),
        (parameter(int, min=4), "3"),
        (parameter(int, max=2), "3"),
        (parameter(bool), True),
        (parameter(str), 3),
        (parameter(tuple[str, str], nargs=2), ("a", "b")),
        (parameter(list[str], multiple=True), "ab"),
        (parameter(list[str], multiple=True), ["a", 1]),
        (parameter(list[int], multiple=True), ["1"]),
        (parameter(list[str]), ["a"]),
        (parameter(str, multiple=True), "a"),
        (parameter(int, nargs=-1), "1"),
        (parameter(str, parser=str.upper), "a"),
        (parameter(str, click_type="kind"), "a"),
    ],
)
def test_all_else_is_typers(own, value):
    assert _PlainValue().coerce(value, own, "ctx") == ("typer", value, True, "ctx")
    assert own._runtime_param is None


def test_a_typer_that_does_otherwise_is_left_alone():
    new = SimpleNamespace(_runtime_param=None, type_descriptor=1)
    others = [SimpleNamespace(), SimpleNamespace(_runtime_param=None), SimpleNamespace(_runtime_param=2, type_descriptor=1)]
    before = [dict(vars(one)) for one in others]
    assert take_plain_values([new, *others]) == [new, *others]
    assert isinstance(new._runtime_param, _PlainValue)
    assert [vars(one) for one in others] == before
