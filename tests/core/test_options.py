"""Options as data: one declaration gives the check, the flag, --set, the help, changes of a recipe and the estimator's parameter."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path

import pytest

from boostfeat.cli.option_texts import describe, made, method_options
from boostfeat.core.errors import InputError
from boostfeat.core.options import (
    MOST,
    OptionError,
    changed,
    check,
    methods,
    named,
    option,
    options_of,
    same,
    typed,
)
from boostfeat.tuners.tuner_options import TUNER_OPTIONS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    size: int = option(4, "How large", least=2, most=64)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Toy:
    """What a new option looks like: ``step`` is declared here and nowhere else."""

    step: float = option(0.5, "Length of a step", above=0, most=1, symbol="η", group="Steps")
    keep: int = option(3, "So many", least=1, flag="pairs", group="Steps", rare=True)
    bound: float = option(inf, "Largest", above=0, most=inf)
    shift: float | None = option(None, "Any number")
    kind: str = option("plain", "Of what kind", choices=("plain", "fancy"))
    warm: bool = option(True, "Start warm")
    loud: bool = option(False, "Say it")
    names: tuple[str, ...] = option((), "Of what")
    part: Part = field(default_factory=Part)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Other:
    step: float = same(Toy, "step", 0.25)
    keep: int = option(7, "Pairs of another kind", least=0, flag="others")


# -- check --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": 0.0}, "step: expected a number above 0 up to 1, found 0.0"),
        ({"step": nan}, "step: expected a number above 0 up to 1, found nan"),
        ({"keep": 0}, "keep: expected 1 or more, found 0"),
        ({"keep": MOST + 1}, f"keep: expected {MOST} or less, found {MOST + 1}"),
        ({"bound": 0.0}, "bound: expected a number above 0, found 0.0"),
        ({"shift": inf}, "shift: expected a finite number, found inf"),
        ({"shift": nan}, "shift: expected a finite number, found nan"),
        ({"step": "x"}, "step: expected a number above 0 up to 1, found 'x'"),
        ({"keep": 1.5}, "keep: expected a whole number, found 1.5"),
        ({"kind": "odd"}, "unknown kind 'odd': expected one of plain, fancy"),
    ],
)
def test_values_out_of_bounds_are_refused(given, message):
    with pytest.raises(InputError) as error:
        Toy(**given)
    assert str(error.value) == message


def test_values_at_the_bounds_are_taken_and_parts_check_themselves():
    Toy(step=1.0, keep=MOST, bound=inf, shift=-1e300, kind="fancy")
    with pytest.raises(OptionError, match="size: expected a number from 2 to 64, found 65"):
        Part(65)


def test_what_is_the_same_elsewhere_is_declared_once():
    there, here = named(Toy)["step"], named(Other)["step"]
    assert (here.help, here.above, here.most, here.symbol, here.default) == (there.help, 0, 1, "η", 0.25)
    with pytest.raises(OptionError, match="step: expected a number above 0 up to 1, found 2"):
        check(Other(step=2))


# -- --set, recipes, help ------------------------------------------------------------------------------------------------


def test_settings_by_any_name():
    given = ["step=0.1", "pairs=9", "shift=none", "warm=no", "loud=yes", "names=a, b,", "size=8"]
    expected = {"step": 0.1, "keep": 9, "shift": None, "warm": False, "loud": True, "names": ("a", "b"), "size": 8}
    assert typed(Toy, given) == expected
    assert [typed(Toy, [f"warm={text}"])["warm"] for text in ("true", "yes", "false", "no", "True")] == [
        *(True, True, False, False, True),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "colour=1",
            "--set colour: there is no such setting; choose from step, pairs, bound, shift, kind, warm, loud, names, size",
        ),
        ("step", "--set: expected NAME=VALUE, found 'step'"),
        ("step=", "--set: expected NAME=VALUE, found 'step='"),
        ("pairs=many", "keep: expected 1 or more, found 'many'"),
        ("warm=perhaps", "warm: expected yes or no, found 'perhaps'"),
    ],
)
def test_bad_settings(text, message):
    with pytest.raises(InputError, match=message):
        typed(Toy, [text])


def test_changes_reach_parts_and_are_checked():
    assert changed(Toy(), {"pairs": 5, "size": 8}) == Toy(keep=5, part=Part(8))
    with pytest.raises(OptionError, match="size: expected a number from 2 to 64, found 1"):
        changed(Toy(), {"size": 1})


def test_descriptions():
    told = dict(describe(options_of(Toy)))
    assert told["step"] == "Length of a step (η)  [0.5; a number above 0 up to 1]"
    assert told["pairs"] == "So many  [3; 1 or more]"
    assert told["kind"] == "Of what kind  [plain; plain, fancy]"
    assert [told[name].partition("  ")[2] for name in ("warm", "loud")] == ["[yes]", "[no]"]
    assert list(told) == ["step", "pairs", "bound", "shift", "kind", "warm", "loud", "names", "size"]


# -- the package's own ---------------------------------------------------------------------------------------------------


def test_parts_and_methods_are_made_from_names_that_people_type():
    @dataclass(frozen=True, kw_only=True)
    class Whole:
        toy: Toy = field(default_factory=Toy)
        of_method: dict[str, float] = methods({"toy": Toy, "other": Other})

    found = made(Whole, {"pairs": 5, "size": 8, "others": 2})
    assert (found.toy, found.of_method) == (Toy(keep=5, part=Part(8)), {"pairs": 5, "size": 8, "others": 2})
    helps = {o.name: (o.help, o.rare) for o in method_options(Whole)}
    assert helps["step"] == ("Length of a step (η) [0.5 toy; 0.25 other]", False)
    assert helps["others"] == ("Pairs of another kind [7 other]", False)
    assert helps["pairs"] == ("So many [3 toy]", True)


def test_one_name_means_one_thing_in_all_tuners():
    helps: dict[str, str] = {}
    for o in (o for cls in TUNER_OPTIONS.values() for o in options_of(cls)):
        assert helps.setdefault(o.name, o.help) == o.help, o.name


def test_no_option_is_declared_twice():
    """Every ``option(...)`` in the package has a name of its own within its file; what another class has too is ``same``."""
    for path in sorted((ROOT / "boostfeat").rglob("*.py")):
        declared = [
            node.target.id
            for tree in [ast.parse(path.read_text())]
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.value, ast.Call)
            and getattr(node.value.func, "id", "") == "option"
            and isinstance(node.target, ast.Name)
        ]
        twice = [name for name, n in Counter(declared).items() if n > 1]
        meant = {"c", "alpha", "max_iter", "tol"}  # one letter, two things: their flags differ
        if path.parts[-2:] == ("tuners", "tuner_options.py"):
            assert set(twice) <= meant, path
