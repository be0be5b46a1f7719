"""Same seed, same input: the same bytes for 1 and 2 threads, from one run to the next, and in processes with other hash seeds.

One process runs all commands with one thread, another with two and another PYTHONHASHSEED; the first runs each twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from synthetic import SyntheticOptions, write_lists

from boostfeat.tuners import TUNERS

FEW = ["--rounds", 3, "--set", "draws=300"]
LISTS = ["dev.nbest", "--select", "select.nbest"]
COMMANDS: dict[str, list[Any]] = {
    **{f"induce {recipe}": ["induce", *LISTS, "--recipe", recipe, *FEW] for recipe in ("default", "fast", "paper")},
    "induce folds": ["induce", "dev.nbest", *FEW],
    "induce linear leaves": ["induce", *LISTS, "--recipe", "paper", "--leaves", "linear", *FEW],
    "induce affine leaves": ["induce", *LISTS, "--recipe", "fast", "--leaves", "affine", *FEW],
    "induce global": ["induce", *LISTS, "--level", "global", *FEW],
    **{f"tune {method}": ["tune", *LISTS, "--method", method] for method in TUNERS},
    "featurize large+sparse": ["featurize", "dev.nbest", "--templates", "large+sparse"],
    "featurize consensus": ["featurize", "dev.nbest", "--templates", "consensus"],
}  # fmt: skip
QUICK = {"mert": ["--set", "restarts=2"], "rampion": ["--epochs", 2]} | {m: ["--epochs", 3] for m in TUNERS if m not in ("pro", "mert", "rampion")}  # fmt: skip
for _method, _words in QUICK.items():
    COMMANDS[f"tune {_method}"] += _words
COMPARE = ["compare", *LISTS, "--test", "test.nbest", "--systems", "decoder,kbmira,mbr,base/boost-local:fast", "--search", "none",
           "--rounds", 2, "--trials", 50]  # fmt: skip

PROGRAM = """
import json, sys
from boostfeat.cli import run

for words in json.loads(sys.stdin.read()):
    sys.argv = ["boostfeat", *words]
    assert run() == 0, words
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """Of each run: the bytes of every file by name."""
    folder = tmp_path_factory.mktemp("determinism")
    write_lists(folder, SyntheticOptions(sentences=25, hyps=10, slots=4))
    runs = {"first": ("1", "0"), "again": ("1", "0"), "two threads": ("2", "7")}
    for hash_seed in ("0", "7"):
        todo = []
        for run, (threads, seed) in runs.items():
            if seed == hash_seed:
                (folder / run).mkdir()
                todo += [[*words, "-o", f"{run}/{name}", "--threads", threads, "-q"] for name, words in COMMANDS.items()]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        given = json.dumps([list(map(str, words)) for words in todo])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], input=given, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    return {run: {p.name: p.read_bytes() for p in (folder / run).iterdir()} for run in runs}


@pytest.mark.parametrize("other", ["again", "two threads"])
@pytest.mark.parametrize("name", COMMANDS)
def test_same_bytes(outputs, name, other):
    found = [
        {file: hashlib.sha256(b).hexdigest() for file, b in outputs[run].items() if file.startswith(name)}
        for run in ("first", other)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == (2 if name.startswith("featurize") else 1)  # the plan beside the store


@pytest.mark.slow
def test_comparison(boostfeat, tmp_path, monkeypatch):
    """results.json but for seconds and memory, the models and the choices. (Results alone: every time, in test_compare.py.)"""
    sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
    try:
        from runs import files
    finally:
        sys.path.pop(0)
    monkeypatch.chdir(tmp_path)
    write_lists(tmp_path, SyntheticOptions(sentences=25, hyps=12, slots=4))
    for threads in (1, 2):
        monkeypatch.setenv("PYTHONHASHSEED", str(threads))  # of the processes that the systems run in
        assert boostfeat(*COMPARE, "--threads", threads, "-o", f"run{threads}", "-q")[0] == 0
    one, two = ({k: v for k, v in files(tmp_path / f"run{n}").items() if k != "config.json"} for n in (1, 2))
    assert one == two
    assert {"results.json", "table.md", "models/kbmira.json", "choices/mbr.json"} <= set(one)
