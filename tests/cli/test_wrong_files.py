"""Every place of every command where a file is named, with files of every other kind: right, or one line and exit 2.

Never a traceback, no input changed, nothing half-written.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from samples import OSGX
from synthetic import SyntheticOptions, synthetic_nbest
from test_outputs import INI
from toy_systems import random_ngrams, random_pairs, stump, write_system

from boostfeat import FeaturePlan, Model, cli, featurize, write_store
from boostfeat.cli.outputs import OUTPUTS

GOOD = {  # commands that come far enough to read each of their files, and end soon
    "import": "list -r text -o new.nbest",
    "info": "dev.nbest",
    "convert": "dev.nbest -o new.txt",
    "rerank": "dev.nbest -m model.json -o new.txt",
    "score": "dev.nbest -m model.json",
    "join": "dev.nbest --column x=numbers -o new.nbest",
    "featurize": "dev.nbest --templates length -o new.nbest",
    "tune": "dev.nbest --epochs 1 --method kbmira -o new.json",
    "induce": "dev.nbest --templates none --recipe paper --rounds 0 -o new.json",
    "augment": "dev.nbest -m trees.json -o new.nbest",
    "show": "trees.json",
    "explain": "dev.nbest -m model.json",
    "decode": "text --ini system/moses.ini -o new.txt",
    "loop": "text -r text --ini system/moses.ini --nbest 2 --max-iterations 1 -o new",
    "compare": "dev.nbest --select other.nbest --test other.nbest --systems decoder --search none --trials 2 --threads 1 --force -o new",
    "replicate": "e12 dev.nbest --select other.nbest --test other.nbest --quick -o new",  # e12 wants units with scores
    "export": "trees.json --to python -o new.py",
    "rescore": "graph --names a,b -o new.txt",
    "report": "run -o new.html",
}
WRONG = (
    *("missing", "new/none/x", "empty", "folder", "junk", "dev.nbest", "model.json", "vocab.json", "text"),
    *("list", "nul", "junk.gz"),
)
WRONG_OUTPUTS = ("new/none/x", "text/x", "junk", "junk.gz")
PLACES = {  # what the help calls a place for a file
    *(
        *("FILE", "FILE FILE", "LIST", "LIST.nbest", "LIST.nbest|GRAPH", "MODEL", "MODEL.json", "NAME=FILE"),
        *("NAME=LIST", "INI", "TOML"),
    ),
    *("FOLDER", "GRAPH...", "[FILE]...", "INPUT", "RUN/", "PROGRAM"),
}
ALSO = {"--tune-on", "--templates", "--graphs", "--names", "--init", "--weights"}  # places that it calls otherwise


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("dev", "other")):
        write_store(synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2), seed=seed), f"{name}.nbest")
    Model({"f0": 1.0}).save("model.json")
    Model({"f0": 1.0}, (stump("f0", 0.5, value=(0.0, 1.0)),)).save("trees.json")
    featurize(synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2)), FeaturePlan.of("length"))[1].save("vocab.json")
    for name in ("folder", "run", "system"):
        Path(name).mkdir()
    rng = np.random.default_rng(0)
    write_system(Path("system"), random_pairs(rng, per_phrase=1), random_ngrams(rng, 2))
    Path("system/moses.ini").write_text(INI)
    Path("list").write_text("0 ||| a b ||| lm= 1 tm= 2 ||| -1\n1 ||| a ||| lm= 1 tm= 1 ||| -2\n")
    Path("text").write_text("a b\na\n")
    Path("graph").write_text(OSGX)
    Path("numbers").write_text("1\n" * 12)
    Path("run/results.json").write_text("[]")
    Path("junk").write_bytes(bytes(range(256)) * 4)
    Path("junk.gz").write_bytes(b"\x1f\x8b" + bytes(range(256)))
    Path("nul").write_bytes(b"a\0b\n")
    Path("empty").touch()
    return tmp_path


def cases(command: str) -> Iterator[list[str]]:
    """The good command with a wrong file in one place: in one that it has, or in one more."""
    words = GOOD[command].split()
    arguments = iter(
        k for k, word in enumerate(words) if not word.startswith("-") and (not k or not words[k - 1].startswith("-"))
    )
    for p in cli.command(command).params:
        is_argument = not p.opts[0].startswith("-")
        at = next(arguments, None) if is_argument else next((words.index(o) + 1 for o in p.opts if o in words), None)
        if (p.metavar or p.name.upper()) not in PLACES and not {*p.opts} & ALSO:
            continue
        for wrong in WRONG_OUTPUTS if p.name in OUTPUTS else WRONG:
            value = f"x={wrong}" if (p.metavar or "").startswith("NAME=") else wrong
            if at is not None:
                yield [*words[:at], value, *words[at + 1 :]]
            else:
                yield [*words, p.opts[0], *[value] * p.nargs]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_command_with_files_is_here() -> None:
    assert {*GOOD, "templates", "demo", "doctor"} == {*cli.COMMANDS}


@pytest.mark.parametrize("command", GOOD)
def test_files_of_other_kinds(command: str, folder: Path, boostfeat) -> None:
    found, n, before = [], 0, contents(folder)
    for words in cases(command):
        n += 1
        code, out, err = boostfeat(command, *words)
        lines = err.split("\n")[:-1]
        last = lines[-1] if lines else ""
        told = code == 0 or (code == 2 and last.startswith("boostfeat") and ("expected" in last or "; " in last))
        new = {path: text for path, text in contents(folder).items() if not path.relative_to(folder).parts[0].startswith("new")}
        if not told or (code and (out or "Error" in err)) or before != new or not err.replace("\n", "").isprintable():
            found.append((" ".join(words), code, out[:50], err[-300:]))
            for path, text in before.items():
                path.write_bytes(text)
        for path in folder.glob("new*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert n >= len(WRONG)
    assert not found, "\n".join(map(str, found))
