"""Outputs never replace inputs, whatever the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import read_store, write_store
from boostfeat.model.model import Model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    nbest = synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2))
    write_store(nbest, "dev.nbest")
    Path("list.moses").write_text("0 ||| x y ||| a= 1 b= 2 ||| -1\n")
    Path("ref").write_text("x y\n")
    Path("link.moses").symlink_to("list.moses")
    Path("hard.moses").hardlink_to("list.moses")
    Model({"a": 1.0}).save("model.json")
    Path("run").mkdir()
    Path("run/results.json").write_text("[]")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "import list.moses -o list.moses",
        "import list.moses -o link.moses",
        "import list.moses -o hard.moses",
        "import link.moses -o list.moses",
        "import list.moses -r ref -o ref",
        "import list.moses -r ref -s ref -o ./run/../ref",
        "featurize dev.nbest --templates base -o dev.nbest",
        "convert dev.nbest --format jsonl -o dev.nbest",
        "tune dev.nbest --method pro --init model.json -o model.json",
        "tune dev.nbest --method pro -o dev.nbest",
        "induce dev.nbest --select dev.nbest -o dev.nbest",
        "augment dev.nbest -m model.json -o model.json",
        "rerank dev.nbest -m model.json -o model.json",
        "export model.json --to json -o model.json",
        "report run -o run/results.json",
    ],
)
def test_an_input_is_never_replaced(folder: Path, boostfeat, command: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, out, err = boostfeat(*command.split())
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1
    assert "choose another output" in err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_an_earlier_command_wrote_is_replaced(folder: Path, boostfeat) -> None:
    """An output may stand there already, and be read by other commands."""
    for _ in range(2):
        assert boostfeat("import", "list.moses", "-o", "new.nbest")[0] == 0
    assert len(read_store("new.nbest")) == 1
