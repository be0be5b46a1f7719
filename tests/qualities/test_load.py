"""Lists of unusual shape through the commands, in small; tests/fuzz/load.py is the same at full size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.load import SHAPES, Done, Shape, check_shape, run_command, write_shape

from boostfeat.core.errors import FormatError
from boostfeat.lists import mbr
from boostfeat.model.model import Model

SMALL = 0.001  # of the sizes, but at least twenty of what there are more of
REFUSED = {
    ("one hypothesis", "tune pro"): "expected hypotheses whose sentence BLEU differs",
    ("5 million features", "tune mert"): "expected at most 100 features to tune, found",
}


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
    assert len(found) == 18


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_full_size(name: str, tmp_path: Path) -> None:
    assert not check_shape(SHAPES[name], tmp_path, lambda arguments: run_command(arguments, 3600.0))


def test_the_share_of_sparse_features_is_of_what_carries_them(
    tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]]
) -> None:
    """Of a plain list that is its hypotheses: each of 10 has 4 dense features and 2 of 20 sparse ones."""
    commands = write_shape(Shape(sentences=2, hyps=5, sparse=20), tmp_path)
    assert boostfeat(*commands["import"])[0] == 0
    (group,) = json.loads(boostfeat(*commands["info"], "--json")[1])["groups"]
    assert (group["features"], group["used"], group["nonzero"]) == (24, 24, (10 * 4 + 20) / (10 * 24))


def test_lists_too_long_for_all_pairs(
    tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minimum Bayes risk is refused with its limit; at that limit it takes minutes."""
    commands = write_shape(Shape(hyps=30, units=3), tmp_path)
    assert boostfeat(*commands["import"])[0] == 0
    words = [
        *("featurize", tmp_path / "dev.nbest", "--templates", "support+mbr", "--scale", 1, "--threads", 1),
        *("-o", tmp_path / "more.nbest"),
    ]
    monkeypatch.setattr(mbr, "LONGEST", 30)
    assert boostfeat(*words)[0] == 0
    monkeypatch.setattr(mbr, "LONGEST", 29)
    code, _, err = boostfeat(*words)
    assert code == 2
    assert "expected lists of at most 29 hypotheses, since all pairs are compared, found one of 30" in err, err
    assert boostfeat(*words[:3], "support", *words[4:])[0] == 0


def test_a_repeated_name_among_many_is_found_at_once(tmp_path: Path) -> None:
    weights = ", ".join(f'"f{k}": 1' for k in [*range(100_000), 99_999])
    (tmp_path / "m.json").write_text(f'{{"boostfeat": "model/1", "level": "local", "weights": {{{weights}}}, "trees": []}}')
    before = time.process_time()
    with pytest.raises(FormatError, match="key 'f99999' twice"):
        Model.load(tmp_path / "m.json")
    assert time.process_time() - before < 5  # looking through all names for each takes minutes
