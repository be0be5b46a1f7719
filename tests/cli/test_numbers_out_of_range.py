"""Every number that a command takes, with values that it does not: one line that names the flag, exit 2, never a traceback."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Any, get_args

import pytest
from synthetic import SyntheticOptions, synthetic_nbest
from typer.main import get_command

from boostfeat import Model, write_store
from boostfeat.cli import app, flags
from boostfeat.core.options import MOST, Option, options_of

GROUP = get_command(app)
COMMANDS = GROUP.commands
INPUTS = {  # what a command needs to come as far as its numbers
    "import": "list -o new.nbest",
    "info": "dev.nbest",
    "convert": "dev.nbest",
    "rerank": "dev.nbest -m model.json",
    "score": "dev.nbest",
    "join": "dev.nbest --column x=numbers -o new.nbest",
    "featurize": "dev.nbest --templates base -o new.nbest",
    "tune": "dev.nbest -o new.json",
    "induce": "dev.nbest -o new.json",
    "augment": "dev.nbest -m model.json -o new.nbest",
    "show": "model.json",
    "explain": "dev.nbest -m model.json",
    "decode": "source --phrase-table table --lm lm -m model.json",
    "loop": "source -r source --phrase-table table --lm lm --init model.json -o run",
    "compare": "dev.nbest --select dev.nbest --test dev.nbest -o run",
    "replicate": "ta13 dev.nbest --select dev.nbest --test dev.nbest -o run",
    "export": "model.json --to c -o new.h",
    "rescore": "graph -m model.json",
    "report": "run -o new.html",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("boostfeat.cli.make_app", lambda name: GROUP)  # typer makes it anew in each call
    write_store(synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2)), "dev.nbest")
    Model({"f0": 1.0}).save("model.json")
    for name in ("list", "numbers", "source", "table", "lm", "graph"):
        Path(name).write_text("1\n")
    return tmp_path


def kinds(annotation: Any) -> set[Any]:
    return {annotation, *get_args(annotation)}


def wrong(kind: str, *, least: float | None, above: float | None, most: float | None) -> Iterator[str]:
    """Values that a number with these bounds does not take."""
    yield from ("x", "", "nan")
    if most != inf:
        yield "inf"
    if kind == "int":
        yield from ("1.5", str(10**30))
        if most is None:
            yield str(MOST + 1)
    if least is not None or above is not None:
        yield f"{least - 1 if least is not None else above:g}"
        yield "-inf"
    if most is not None and isfinite(most):
        yield f"{2 * most + 1:.0f}"


def declared(name: str) -> Iterator[tuple[list[str], str, str]]:
    """(arguments before, flag, value) of the options that dataclasses declare."""
    signature = inspect.signature(COMMANDS[name].callback.__wrapped__, eval_str=True)
    for given in filter(None, (flags._given(p.annotation) for p in signature.parameters.values())):
        for method, cls in given.classes.items():
            for o in options_of(cls):
                if kind := number(o):
                    before = ["--method", method] if method else []
                    for value in wrong(kind, least=o.least, above=o.above, most=o.most):
                        yield before, f"--{o.name.replace('_', '-')}", value


def number(o: Option) -> str:
    found = {kind.strip() for kind in o.kind.split("|")}
    return "int" if "int" in found else "float" if "float" in found else ""


def own(name: str) -> Iterator[tuple[list[str], str, str]]:
    """The same of the numbers that commands declare themselves."""
    parameters = inspect.signature(COMMANDS[name].callback).parameters
    seen = {flag for _, flag, _ in declared(name)}
    for p in COMMANDS[name].params:
        annotation = get_args(parameters[p.name].annotation)
        found = kinds(annotation[0]) if annotation else set()
        flag = next((option for option in p.opts if option.startswith("--")), p.opts[0])
        if flag.startswith("-") and flag not in seen and found & {int, float}:
            for value in wrong("int" if int in found else "float", least=p.min, above=None, most=p.max):
                if flag not in ("--seed", "--threads") or value not in (str(10**30), str(MOST + 1)):  # these may have any size
                    yield [], flag, value


def test_every_command_is_here() -> None:
    assert {*INPUTS, "templates", "demo", "doctor"} == {*COMMANDS}


@pytest.mark.parametrize("name", INPUTS)
def test_numbers_that_are_none_or_out_of_range(name: str, folder: Path, boostfeat) -> None:
    before = sorted(folder.iterdir())
    cases = dict.fromkeys((tuple(more), flag, value) for more, flag, value in (*declared(name), *own(name)))
    assert cases
    found = []
    for more, flag, value in cases:
        code, out, err = boostfeat(name, *INPUTS[name].split(), *more, f"{flag}={value}")
        if (code, out, err.count("\n")) != (2, "", 1) or flag not in err:
            found.append((*more, flag, value, code, out[:50], err[:200]))
    assert not found, "\n".join(map(str, found))
    assert sorted(folder.iterdir()) == before
