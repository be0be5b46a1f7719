"""The scripts in examples/ run and say something true."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from synthetic import SyntheticOptions, write_lists
from world import World

from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.store import write_store
from boostfeat.tuners import TUNERS

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lists(tmp_path_factory) -> list[str]:
    return list(write_lists(tmp_path_factory.mktemp("lists"), SyntheticOptions(sentences=200, hyps=50)).values())


def test_local_beats_linear_where_the_truth_is_local(lists, capsys):
    """The generated references follow a tree over a phrase's own features: linear weights cannot, local trees can."""
    found = load("local_or_global").main(*lists)
    assert found["boost-local"]["bleu-sbp"] > found["PRO"]["bleu-sbp"] + 0.5
    assert "boost-global" in capsys.readouterr().out


def test_all_tuners_run(lists, capsys):
    found = load("which_tuner").main(*lists[:2])
    assert set(found) == set(TUNERS)
    assert len(capsys.readouterr().out.splitlines()) == len(TUNERS)


@pytest.mark.parametrize("name", ["answers_with_rewards", "speech_lists", "grid_search"])
def test_programs_are_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 25


def test_rewards_are_learnt(tmp_path, capsys):
    """The reward is that of a word: a model finds it, a choice at random does not."""
    rng = np.random.default_rng(0)
    rows = [
        {"prompt": f"q{q}", "answer": " ".join(rng.choice([*"abcde"], 4)), "logprob": -rng.random()}
        for q in range(80)
        for _ in "1234"
    ]
    pd.DataFrame([row | {"reward": float(row["answer"].count("a"))} for row in rows]).to_json(
        tmp_path / "x", orient="records", lines=True
    )
    assert load("answers_with_rewards").main(str(tmp_path / "x"), str(tmp_path / "m.json")) > 1.2  # 0.8 at random
    assert "candidate" in capsys.readouterr().out


def test_errors_of_speech_shrink(tmp_path, capsys):
    """The second hypothesis is right and its score says so."""
    rows = [{"input": [f"a b {k} x", f"a b {k}"], "am_score": [-2.0, -1.0 - k % 2], "output": f"a b {k}"} for k in range(40)]
    for name, part in (("train", rows[:20]), ("test", rows[20:])):
        (tmp_path / name).write_text(json.dumps(part))
    assert load("speech_lists").main(str(tmp_path / "train"), str(tmp_path / "test")) == (pytest.approx(100 / 3), 0)


def test_a_grid_is_searched(dev, select, tmp_path, capsys):
    for name, own in (("dev", dev), ("select", select)):
        write_store(own, tmp_path / name)
    found = load("grid_search").main(str(tmp_path / "dev"), str(tmp_path / "select"))
    assert found.keys() == {"max_leaves", "rounds"}


def test_a_bitext_becomes_a_system(tmp_path, capsys):
    """Trained on generated text, it translates sentences of that text into mostly the right words, and its lists are lists."""
    pytest.importorskip("thot", reason="sil-thot is not installed")
    source, target = World().bitext(600, seed=4)
    for name, lines in (("src", source), ("tgt", target), ("input", source[:20])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    best = load("train_system").main(*(str(tmp_path / name) for name in ("src", "tgt", "input", "system")))
    assert (tmp_path / "system" / "input.out").read_text(encoding="utf-8").splitlines() == best
    words = [(word, line.split()) for out, line in zip(best, target, strict=False) for word in out.split()]
    assert sum(word in line for word, line in words) > 0.6 * len(words)
    assert len(read(tmp_path / "system" / "input.nbest.xz", ReadOptions())) == 20


def test_without_the_word_aligner_a_system_ends_in_one_line(tmp_path):
    for name in ("src", "tgt", "input"):
        (tmp_path / name).write_text("a b\n")
    (tmp_path / "thot.py").write_text("raise ImportError")  # found before an installed one
    script = Path(__file__).parents[2] / "examples" / "train_system.py"
    paths = [str(tmp_path / name) for name in ("src", "tgt", "input", "system")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])}
    found = subprocess.run([sys.executable, script, *paths], capture_output=True, text=True, env=environment, timeout=120)
    assert found.returncode == 1
    assert found.stderr.startswith("train_system: word alignment: expected the library thot, found none")
    assert found.stderr.count("\n") == 1
