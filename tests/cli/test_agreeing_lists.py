"""Commands that take several lists refuse those that do not go together, and say what differs (D3 of a reviewer)."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import write_store

SMALL = SyntheticOptions(sentences=12, hyps=5, features=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boostfeat) -> Path:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("dev", "select")):
        write_store(synthetic_nbest(SMALL, seed=seed), f"{name}.nbest")
    assert boostfeat("featurize", "dev.nbest", "--templates", "orientation", "-o", "more.nbest", "-q")[0] == 0
    return tmp_path


@pytest.mark.parametrize("command", ["induce more.nbest --recipe paper --rounds 1", "tune more.nbest --method pro"])
def test_a_select_list_without_the_features_is_refused(folder: Path, boostfeat, command: str) -> None:
    learn = [*command.split(), "--select", "select.nbest", "-o", "model.json"]
    code, out, err = boostfeat(*learn)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--select: expected the features of LIST, found none of " in err
    assert not Path("model.json").exists()
    assert boostfeat(*learn, "--allow-missing", "-q")[0] == 0
