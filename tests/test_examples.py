"""The scripts in examples/ run and say something true."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from boostfeat.store import write_store
from boostfeat.synthetic import SyntheticOptions, synthetic_nbest
from boostfeat.tuners import TUNERS

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lists(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("lists")
    for seed, name in enumerate(("dev", "select", "test")):
        write_store(synthetic_nbest(SyntheticOptions(sentences=200, hyps=50), seed=seed), folder / name)
    return [str(folder / name) for name in ("dev", "select", "test")]


def test_local_beats_linear_where_the_truth_is_local(lists, capsys):
    """The generated references follow a tree over a phrase's own features: linear weights cannot, local trees can."""
    found = load("local_or_global").main(*lists)
    assert found["boost-local"]["bleu-sbp"] > found["PRO"]["bleu-sbp"] + 0.5
    assert "boost-global" in capsys.readouterr().out


def test_all_tuners_run(lists, capsys):
    found = load("which_tuner").main(*lists[:2])
    assert set(found) == set(TUNERS)
    assert len(capsys.readouterr().out.splitlines()) == len(TUNERS)
