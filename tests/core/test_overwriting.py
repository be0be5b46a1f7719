"""What was read is not replaced, whatever names lead to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from boostfeat.core.errors import InputError
from boostfeat.core.overwriting import guarded, on_read, on_write

pytestmark = pytest.mark.quick


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("run", "run.old", "runs"):
        Path(name).mkdir()
    for name in ("a", "b", "run/state", "run.old/state", "runs/state", "out.partial", "output"):
        Path(name).write_text(name)
    Path("link").symlink_to("a")
    Path("hard").hardlink_to("a")
    Path("same").symlink_to("run")
    os.mkfifo("pipe")
    return tmp_path


def refusal(call, path: str) -> str | None:
    try:
        call(path)
    except InputError as error:
        return str(error)
    return None


def message(output: str, found: str) -> str:
    return f"-o {output}: expected another file than the inputs, found {found}; choose another output"


def through(link: str) -> str:
    return f"{Path(link).absolute()} is a symbolic link, and nothing is written through one that you did not name; remove it"


@pytest.mark.parametrize("path", ["none", "run", "pipe"])
def test_what_is_no_file_is_nobodys(folder: Path, path: str) -> None:
    with guarded([path], [path]):
        for other in (path, "\0"):  # the latter is no name at all
            on_read(other)
            assert refusal(on_write, other) is None


@pytest.mark.parametrize(
    ("output", "path", "own"),
    [
        ("run", "run/state", True),
        ("same", "run/state", True),
        ("run", "run.old/state", True),  # as of out.partial: it begins with the output's name and a point
        ("run", "runs/state", False),
        ("out", "out.partial", True),
        ("out", "output", False),
        ("new", "a", False),
    ],
)
def test_what_a_command_keeps_beside_its_output_is_its_own(folder: Path, output: str, path: str, own: bool) -> None:
    """It is read and written again; but not where a person named it as an input."""
    with guarded([], [output]):
        on_read(path)
        assert refusal(on_write, path) == (None if own else message(path, path))
    with guarded([path], [output]):
        assert refusal(on_write, path) == message(path, path)


@pytest.mark.parametrize("path", ["same/state", "run/link", "run/folder/new"])
def test_nothing_is_written_through_links_that_nobody_named(folder: Path, path: str) -> None:
    Path("run/link").symlink_to("../a")
    Path("run/folder").symlink_to("../runs")
    with guarded([], ["run"]):
        assert refusal(on_write, path) == through(path.removesuffix("/state").removesuffix("/new"))
    with guarded([], ["same"]):
        assert refusal(on_write, "same/state") is None
    assert refusal(on_write, path) is None  # outside of a command
