"""Lists of unusual shape through the commands, in small; tests/fuzz/load.py is the same at full size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.load import SHAPES, Done, check_shape, run_command

SMALL = 0.001  # of the sizes, but at least twenty of what there are more of
REFUSED = {("one hypothesis", "tune pro"): "expected hypotheses whose sentence BLEU differs"}


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("10,000 hypotheses", "a million features")])
def test_small(name: str, tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]]) -> None:
    found: dict[str, Done] = {}

    def run(arguments: list[str]) -> Done:
        code, _, err = boostfeat(*arguments, "--threads", "1")
        return Done(0.0, 0.0, code, err.strip().split("\n")[-1])

    assert not check_shape(SHAPES[name].scaled(SMALL), tmp_path, run, found.__setitem__)
    refused = {(name, command): done.line for command, done in found.items() if done.code}
    assert refused.keys() == {key for key in REFUSED if key[0] == name}
    assert all(REFUSED[key] in line for key, line in refused.items())
    assert len(found) == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_full_size(name: str, tmp_path: Path) -> None:
    assert not check_shape(SHAPES[name], tmp_path, lambda arguments: run_command(arguments, 3600.0))


def test_what_is_killed_is_no_success(tmp_path: Path) -> None:
    """The oracle of the two above: a command that is ended, or that leaves a traceback, is found; what needs its output is left out."""
    for done in (
        Done(1.0, 1.0, -9, ""),
        Done(1.0, 1.0, 1, "KeyError: 3"),
        Done(1.0, 1.0, 2, "Traceback (most recent call last):"),
    ):
        wrong = check_shape(SHAPES["one feature"].scaled(SMALL), tmp_path, lambda arguments, done=done: done)
        assert wrong == [f"import: exit code {done.code}: {done.line}"]
