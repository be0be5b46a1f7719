"""boostfeat import and join of neural lists, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from boostfeat.cli import app
from boostfeat.core.errors import InputError
from boostfeat.lists.store import read_store

LIST = """0 ||| ▁the ▁ho use ||| WordScores= -1 -2 -3 -4 ||| F0= -10 ||| -2
0 ||| ▁a ▁house ||| WordScores= -1 -2 -3 ||| F0= -6 ||| -3
1 ||| ▁yes ||| WordScores= -1 -2 ||| F0= -3 ||| -1
"""


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("list", LIST),
        ("ref.0", "the house\nyes\n"),
        ("ref.1", "a house\nyeah\n"),
        ("lm", "-1\n-2\n-3\n"),
        ("tok", "1 2 3\n4 5 6\n7 8\n"),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_import_and_join(folder: Path) -> None:
    run("import", folder / "list", "-r", folder / "ref.*", "-o", folder / "dev.nbest", "-q")
    nbest = read_store(folder / "dev.nbest")
    assert (len(nbest.refs), nbest.text.to_pylist()) == (4, ["the house", "a house", "yes"])
    what = ("--column", f"lm={folder / 'lm'}", "--tokens", f"t={folder / 'tok'}", "--nbest", f"again={folder / 'list'}")
    out = run("join", folder / "dev.nbest", *what, "-o", folder / "out.nbest", "--json", "-q")
    joined = read_store(folder / "out.nbest")
    assert json.loads(out)["joined"] == [n for n in joined.global_names if n not in nbest.global_names]
    assert joined.global_column("lm").tolist() == [-1, -2, -3]
    assert joined.global_column("t").tolist() == [6, 15, 15]
    assert joined.global_column("again").tolist() == [-2, -3, -1]
    assert joined.global_column("again.WordScores").tolist() == [-10, -6, -3]
    assert (joined.stats == nbest.stats).all()


def test_import_of_a_part_and_of_tokens(folder: Path) -> None:
    run("import", folder / "list", "-r", folder / "ref.0", "--first", 1, "--units", "token", "-o", folder / "dev.nbest", "-q")
    nbest = read_store(folder / "dev.nbest")
    assert (len(nbest), nbest.n_occurrences, nbest.unit_names) == (1, 7, ("WordScores", "Pieces", "Words"))


REFUSED = [
    (["import", "list", "--subwords", "x"], "unknown subwords 'x': expected one of auto, spm"),
    (["import", "list", "--units", "x"], "unknown units 'x': expected one of word, token"),
    (["import", "list", "-r", "no.*"], "expected files of this pattern, found none"),
    (["import", "list", "--system", "a=lm"], "expected lists, or --system files, found both or none"),
    (["import", "lm"], "references: -r"),
    (["join", "dev.nbest"], "expected something to join, found nothing"),
    (["join", "dev.nbest", "--column", "lm"], "expected NAME=FILE"),
    (["join", "dev.nbest", "--column", "F0=lm"], "F0: expected a name that the list does not have"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(folder)
    run("import", "list", "-o", "dev.nbest", "-q")
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        run(*arguments, "-o", "out.nbest")
    assert not (folder / "out.nbest").exists()


def test_join_quality_by_name(folder: Path) -> None:
    """A number a hypothesis from text, a named column of a table, or numerators and denominators; no feature is added."""
    run("import", folder / "list", "-o", folder / "a.nbest")
    (folder / "table.tsv").write_text("id\tjudge\n0\t0.5\n1\t0.25\n2\t1\n")
    (folder / "edits").write_text("1 2\n0 2\n1 1\n")
    columns = ("--quality", f"judge={folder / 'table.tsv'}:judge", "--quality", f"edits={folder / 'edits'}")
    said = json.loads(
        run("join", folder / "a.nbest", *columns, "--lower-is-better", "edits", "-o", folder / "b.nbest", "--json", "-q")
    )
    before, after = read_store(folder / "a.nbest"), read_store(folder / "b.nbest")
    assert (said["joined"], said["quality"]) == ([], ["judge", "edits"])
    assert after.global_names == before.global_names
    assert (after.quality.names, after.quality.lower) == (("judge", "edits"), (False, True))
    assert after.quality.value.T.tolist() == [[0.5, 0.25, 1.0], [1.0, 0.0, 1.0]]
    assert after.quality.weight[:, 1].tolist() == [2.0, 2.0, 1.0]
    assert "judge" in run("info", folder / "b.nbest", "--metric", "judge")
    (folder / "few").write_text("1\n2\n")
    with pytest.raises(InputError, match="expected 3 numbers, one for each hypothesis in the order of the list, found 2"):
        run("join", folder / "a.nbest", "--quality", f"few={folder / 'few'}", "-o", folder / "c.nbest")
