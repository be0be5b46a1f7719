"""Commands that take several lists refuse those that do not go together, and say what differs (D3 of a reviewer)."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import Model, read_store, write_store

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


def learnt(boostfeat) -> None:
    more = ["--recipe", "paper", "--rounds", "1", "--level", "global", "-o", "more.json"]
    assert boostfeat("induce", "more.nbest", *more, "-q")[0] == 0
    feature = next(name for name in read_store("more.nbest").global_names if name not in read_store("dev.nbest").global_names)
    Model({**Model.load("more.json").weights, feature: 1.0}).save("more.json")


@pytest.mark.parametrize(
    "command",
    [
        "rerank select.nbest -m more.json",
        "score select.nbest -m more.json",
        "explain select.nbest -m more.json",
        "show more.json --on select.nbest",
        "export more.json --to json -o out.json --verify select.nbest",
        "featurize select.nbest --templates mbr --model more.json -o out.nbest",
    ],
)
def test_a_model_is_not_applied_to_a_list_without_its_features(folder: Path, boostfeat, command: str) -> None:
    learnt(boostfeat)
    code, out, err = boostfeat(*command.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "select.nbest: expected the features of the model, found none of " in err
    assert err.endswith(
        "featurize it as the list that the model learned from (--plan), or give --allow-missing: they count as 0 then\n"
    )
    code, _, err = boostfeat(*command.split(), "--allow-missing")
    assert (code, "lacks features of the model, which count as 0: " in err) == (0, True)


def test_files_of_one_corpus_that_differ_are_named(folder: Path, boostfeat) -> None:
    Path("a").write_text("0 ||| x ||| lm= 1 tm= 2 ||| 1\n")
    Path("b").write_text("0 ||| y ||| lm= 1 wp= 3 ||| 1\n")
    code, _, err = boostfeat("import", "a", "b", "-o", "both.nbest")
    assert code == 0
    assert "warning: b lacks tm of a, which count as 0\n" in err
    assert "warning: b has features that a lacks, which are not used: wp\n" in err


@pytest.mark.parametrize("command", ["induce dev.nbest --recipe paper --rounds 1", "tune dev.nbest --method pro"])
def test_sentences_that_learning_and_choosing_share_are_named(folder: Path, boostfeat, command: str) -> None:
    line = "boostfeat: warning: LIST and --select share 12 sentences (100% of --select): what is learned or chosen on them looks"
    for select, found in (("dev.nbest", 1), ("select.nbest", 0)):
        code, _, err = boostfeat(*command.split(), "--select", select, "-o", "model.json")
        assert (code, err.count(line)) == (0, found)
