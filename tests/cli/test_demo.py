"""The demo without its work: what it prints, and the commands that it would run."""

from __future__ import annotations

from pathlib import Path

import pytest

from boostfeat.cli import installation_commands as demo

pytestmark = pytest.mark.quick

LINES = """\
import $DATA/dev.nbest.xz -s $DATA/dev.src -r $DATA/dev.ref --size 30 -o dev.nbest
import $DATA/select.nbest.xz -s $DATA/select.src -r $DATA/select.ref --size 30 -o select.nbest
import $DATA/test.nbest.xz -s $DATA/test.src -r $DATA/test.ref --size 30 -o test.nbest
info dev.nbest
compare dev.nbest --select select.nbest --test test.nbest --force -o run
show run/models/base_boost-local.json --trees 1
report run -o report.html
""".splitlines()
PRINTED = """\
$ cd out; DATA=/lists
$ boostfeat import $DATA/dev.nbest.xz -s $DATA/dev.src \\
    -r $DATA/dev.ref --size 30 -o dev.nbest
ran import
$ boostfeat import $DATA/select.nbest.xz -s $DATA/select.src \\
    -r $DATA/select.ref --size 30 -o select.nbest
ran import
$ boostfeat import $DATA/test.nbest.xz -s $DATA/test.src \\
    -r $DATA/test.ref --size 30 -o test.nbest
ran import

$ boostfeat info dev.nbest
ran info

$ boostfeat compare dev.nbest --select select.nbest --test test.nbest \\
    --force -o run
ran compare

$ boostfeat show run/models/base_boost-local.json --trees 1
ran show

$ boostfeat report run -o report.html
ran report
Open out/report.html in any browser.
"""


@pytest.fixture
def ran(tmp_path, monkeypatch) -> list[tuple[list[str], str, bool]]:
    """What the demo would run: words, folder, and whether all is printed."""
    found: list[tuple[list[str], str, bool]] = []

    def run(job: list[str], *, whole: bool) -> None:
        print("ran", job[0], flush=True)
        found.append((job, Path.cwd().name, whole))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run", run)
    monkeypatch.setattr(demo, "data_folder", lambda: Path("/lists"))
    return found


def test_what_it_prints_and_runs(boostfeat, ran):
    assert boostfeat("demo", "-o", "out", "--seed", 3, "--threads", 1) == (0, PRINTED, "")
    assert [job for job, _, _ in ran] == [
        [*line.replace("$DATA", "/lists").split(), "--seed", "3", "--threads", "1", "-q"] for line in LINES
    ]
    assert {place[1:] for place in ran} == {("out", False)}


@pytest.mark.parametrize(("flags", "hushed"), [([], 6), (["--json"], 6), (["-q"], 7)])
def test_on_a_terminal_compare_shows_its_bar(boostfeat, ran, monkeypatch, flags, hushed):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    code, out, _ = boostfeat("demo", "-o", "out", "--threads", 1, *flags)
    assert (code, "$" in out, "Open" in out) == (0, flags != ["-q"], flags != ["-q"])
    assert [job[-1] == "-q" for job, _, _ in ran].count(True) == hushed
    assert [whole for _, _, whole in ran] == [flags == ["--json"]] * 7
    assert all(("--json" in job) == (flags == ["--json"]) for job, _, _ in ran)


def test_without_a_page_no_browser_is_named(boostfeat, ran, monkeypatch):
    monkeypatch.setattr(demo, "can_report", lambda flags: False)
    assert "Open" not in boostfeat("demo", "-o", "out")[1]
    assert len(ran) == 6


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("import", [*range(20)]),
        ("info", [0, 1, 2, 3, "...", 8, 9, 10, "..."]),
        ("show", [*range(2, 5), "...", *range(10, 18), "..."]),
    ],
)
def test_long_outputs_are_printed_in_part(capsys, monkeypatch, command, shown):
    def call(job: list[str]) -> None:
        assert job == [command, "x"]
        print(*range(20), sep="\n")

    monkeypatch.setattr(demo, "call", call)
    for whole in (False, True):
        demo.run([command, "x"], whole=whole)
        found = capsys.readouterr().out
        assert found == "".join(f"{line}\n" for line in (range(20) if whole else shown))
