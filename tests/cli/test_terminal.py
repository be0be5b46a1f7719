"""What reaches a terminal: no control characters, one line where memory is short, progress where there are many trees."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from boostfeat.cli.compare_commands import Board
from boostfeat.cli.console import Bar, Common, at_work
from boostfeat.core.errors import plain
from boostfeat.model.model import Model

NAME = "lm\x1b[31m\nx\x9b"


@pytest.fixture
def folder(tmp_path: Path, boostfeat) -> Path:
    record = {"id": 0, "hyps": [{"text": "a b", "score": 1, "features": {NAME: 1.0}}, {"text": "a", "score": 0}]}
    (tmp_path / "list").write_text('{"boostfeat": "nbest/1"}\n' + json.dumps(record) + "\n")
    assert boostfeat("import", tmp_path / "list", "-o", tmp_path / "list.nbest", "-q")[0] == 0
    Model({NAME: 1.0, f"{NAME}2": 1.0}).save(tmp_path / "m.json")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "list.nbest"],
        ["info", "list.nbest", "--json"],
        ["show", "m.json"],
        ["show", "m.json", "--json"],
        ["show", "m.json", "--on", "list.nbest"],
        ["rerank", "list.nbest", "-m", "m.json"],
        ["rerank", "list.nbest", "-m", "m.json", "--allow-missing"],
        ["import", "list", "-o", "no\x1bfolder/x"],
        ["show", "m.json", f"--{NAME}"],
    ],
)
def test_control_characters_never_reach_a_terminal(folder: Path, boostfeat, monkeypatch, arguments: list[str]) -> None:
    monkeypatch.chdir(folder)
    _, out, err = boostfeat(*arguments)
    assert (out + err).replace("\n", "").isprintable()
    lines = [line for line in err.splitlines() if "without" not in line]  # a hypothesis lacks a feature, and that is told
    assert len(lines) <= 1  # a name does not make two lines of one
    if "--json" in arguments:
        assert NAME in json.dumps(json.loads(out), ensure_ascii=False).replace("\\u001b", "\x1b").replace("\\n", "\n")


def test_an_edited_model_is_accepted_by_name(folder: Path, boostfeat) -> None:
    text = (folder / "m.json").read_text()
    (folder / "m.json").write_text(text.replace("1.0", "2.0"))
    code, _, err = boostfeat("rerank", folder / "list.nbest", "-m", folder / "m.json")
    assert code == 2
    assert "--allow-edited" in err
    code, out, _ = boostfeat("rerank", folder / "list.nbest", "-m", folder / "m.json", "--allow-edited", "--allow-missing")
    assert (code, out) == (0, "a b\n")
    assert boostfeat("info", folder / "list.nbest", "--allow-edited")[0] == 2  # it reads no model
    assert boostfeat("rerank", folder / "list.nbest", "-m", folder / "m.json")[0] == 2  # and it is of one command only


@pytest.mark.parametrize("mega", [300, 800, 2000])
def test_an_address_space_is_large_enough_or_that_is_one_line(folder: Path, mega: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mega << 20, mega << 20))

    def under_limit(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "boostfeat", *args]
        return subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=120)

    found = under_limit("rerank", str(folder / "list.nbest"), "-q")
    line = f"expected an address space of 1000 MB or more to load the libraries, found {mega} MB; raise the limit (ulimit -v)"
    expected = (0, "a b\n", "") if mega == 2000 else (1, "", f"boostfeat: {line}\n")
    assert (found.returncode, found.stdout, found.stderr) == expected
    assert under_limit("--help").returncode == 0  # which loads none of them


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_templates_fit_into_a_terminal(boostfeat, monkeypatch) -> None:
    """What a pipe gets in one line goes on in further ones."""
    piped = boostfeat("templates")[1]
    stream = io.BytesIO()
    monkeypatch.setenv("COLUMNS", "80")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal := Terminal(stream, encoding="utf-8"))
        assert boostfeat("templates")[0] == 0
        terminal.flush()
        terminal.detach()
    shown = stream.getvalue().decode()
    assert max(map(len, shown.split("\n"))) <= 80
    assert shown.split() == piped.split()
    assert "Distance to the previous unit in the source, in words. (contextual; large; state: previous span)" in piped


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["rerank", "words.nbest"], "a \\x1b[31m\\x9b b\n"),
        (["convert", "words.nbest", "--format", "moses"], "0 ||| a \\x1b[31m\\x9b b |||  ||| 1\n"),
    ],
)
def test_texts_do_not_steer_a_terminal(folder: Path, boostfeat, monkeypatch, arguments: list[str], shown: str) -> None:
    monkeypatch.chdir(folder)
    record = {"id": 0, "hyps": [{"text": "a \x1b[31m\x9b b", "score": 1}]}
    Path("words").write_text('{"boostfeat": "nbest/1"}\n' + json.dumps(record) + "\n")
    assert boostfeat("import", "words", "-o", "words.nbest", "-q")[0] == 0
    stream = io.BytesIO()
    terminal = Terminal(stream, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        code = boostfeat(*arguments)[0]
    text = stream.getvalue().decode()
    assert code == 0
    assert text == shown
    assert boostfeat("rerank", "words.nbest")[1] == "a \x1b[31m\x9b b\n"  # a file or a pipe gets the text as it is


@pytest.mark.parametrize("arguments", [["import", "list", "-o", "-"], ["export", "m.json", "--to", "onnx", "-o", "-"]])
def test_what_is_no_text_does_not_go_to_a_terminal(folder: Path, boostfeat, monkeypatch, arguments: list[str]) -> None:
    monkeypatch.chdir(folder)
    stream = io.BytesIO()
    terminal = Terminal(stream, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        code, _, err = boostfeat(*arguments)
    line = "boostfeat: -o -: expected a file or a pipe for what is no text, found a terminal; name a file\n"
    assert (code, err.splitlines(keepends=True)[-1:], b"\0" in stream.getvalue()) == (2, [line], False)


@pytest.mark.parametrize("name", ["a[bold]b", "a[/b]c", "\x1b[31mred\x9b"])
def test_what_progress_shows_is_text_and_not_markup(monkeypatch, name: str) -> None:
    """Files and features may be called what rich takes for markup, or a terminal for a command."""
    stream = io.BytesIO()
    terminal = Terminal(stream, encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(Bar, "PATIENCE", -1.0)
    with at_work("import", Common()):
        with Common().progress("importing") as bar:
            bar.update(1, 2, name)
        board = Board(Common())
        board.watch(name, 0, 1, None)
        board.report(f"{name}: {name} is scored")
    shown = stream.getvalue().decode()
    assert shown.count(plain(name)) >= 3
    assert "\x1b[31m" not in shown


def test_a_board_has_a_row_for_each_system(monkeypatch) -> None:
    """Lines of a system go beside it; others are said."""
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", Terminal(stream, encoding="utf-8", write_through=True))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(Bar, "PATIENCE", -1.0)
    with at_work("compare", Common()):
        board = Board(Common())
        board.report("reading: lists")
        for name, done, total in (("boost", 0, 3), ("boost", 1, 3), ("decoder", 0, 0)):
            board.watch(name, done, total, None)
        board.report("boost: rounds: 3")
        rows = {task.description: (task.completed, task.total, task.fields["note"]) for task in Bar.screen.tasks}
    assert rows == {"compare": (0, None, ""), "boost": (1, 3, "rounds: 3"), "decoder": (0, None, "")}
    assert "boostfeat: reading: lists" in stream.getvalue().decode()


@pytest.mark.parametrize("quiet", [False, True])
def test_elsewhere_a_board_is_lines(capsys, quiet: bool) -> None:
    board = Board(Common(quiet=quiet))
    board.watch("boost", 1, 2, None)
    board.report("boost: done")
    assert capsys.readouterr().err == ("" if quiet else "boostfeat: boost: done\n")
