"""Outputs never replace inputs, whatever the command."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest
from toy_systems import random_ngrams, random_pairs, stump, write_system

from boostfeat import write_store
from boostfeat.core.overwriting import kind_of
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
    Path("ref.0").write_text("x y\n")
    Path("ref.1").write_text("x\n")
    Path("numbers.tsv").write_text("x\ty\n" + "1\t2\n" * 12)
    Path("system").mkdir()
    rng = np.random.default_rng(0)
    write_system(Path("system"), random_pairs(rng, per_phrase=1), random_ngrams(rng, 2))
    Path("system/moses.ini").write_text(INI)
    Model({}, (stump("TranslationModel0_3", -1.0, value=(0.0, 1.0)),)).save("trees.json")
    Path("moses").mkdir()
    Path("moses/phrase-table.gz").write_bytes(Path("system/pt.gz").read_bytes())
    return tmp_path


INI = """[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=system/pt.gz
KENLM name=LM0 path=system/lm.arpa order=2
WordPenalty
PhrasePenalty
Distortion
[weight]
TranslationModel0= 1 1 1 1
LM0= 1
WordPenalty0= 1
PhrasePenalty0= 1
Distortion0= 1
"""


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
        # what is read by a pattern, a column's name, or another file, and what is written beside
        "import list.moses -r ref.* -o ref.1 --force",
        "join dev.nbest --column z=numbers.tsv:x -o numbers.tsv --force",
        "decode ref --ini system/moses.ini -o system/lm.arpa",
        "decode ref --ini system/moses.ini -o new --nbest-output system/pt.gz",
        "decode ref --ini system/moses.ini -o new --nbest-output ./new",
        "export trees.json --to moses --phrase-table moses/phrase-table.gz --ini system/moses.ini -o moses",
    ],
)
def test_an_input_is_never_replaced(folder: Path, boostfeat, command: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, out, err = boostfeat(*command.split())
    assert (code, out) == (2, ""), err
    assert "choose another output" in err.splitlines()[-1]
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


KINDS = {
    "text": "ref",
    "a store": "dev.nbest",
    "a model": "model.json",
    "a plan": "vocab.json",
    "a page": "page.html",
    "a binary file": "binary",
    "a list": "list.moses",
    "JSON": "config.json",
}
WRITERS = {
    "import list.moses -o {out}": "a store",
    "featurize dev.nbest --templates base -o {out}": "a store",
    "augment dev.nbest -m model.json -o {out}": "a store",
    "tune dev.nbest -o {out}": "a model",
    "induce dev.nbest -o {out}": "a model",
    "export model.json --to json -o {out}": "a model",
    "export model.json --to onnx -o {out}": "a binary file",
    "report run -o {out}": "a page",
    "rerank dev.nbest -o {out}": "text",
    "rerank dev.nbest --format jsonl -o {out}": "a list",
    "rerank dev.nbest --json -o {out}": "a list",
    "convert dev.nbest -o {out}": "a list",
    "rescore list.moses -o {out}": "text",
    "rescore list.moses --nbest 2 -o {out}": "a list",
    "rescore list.moses --json -o {out}": "a list",
    "rescore list.moses -r list.moses --json --oracle -o {out}": "text",
    "decode ref --nbest-output {out}": "a list",
    "decode ref --search-graph {out}": "text",
}


@pytest.mark.parametrize("command", WRITERS)
def test_a_file_of_another_kind_is_replaced_by_force_only(folder: Path, boostfeat, command: str) -> None:
    Path("vocab.json").write_text('{\n "boostfeat": "vocab/1"}')
    Path("page.html").write_text("<!DOCTYPE html><p>")
    Path("binary").write_bytes(b"\x7fELF\0\0")
    Path("config.json").write_text('[\n {\n  "name": "decoder"\n }\n]\n')
    for kind, file in KINDS.items():
        Path("out").write_bytes(Path(file).read_bytes())
        code, out, err = boostfeat(*command.format(out="out").split())
        if kind == WRITERS[command]:
            assert "choose another output, or give --force" not in err
        else:
            found = (
                f"-o out: expected no file or {WRITERS[command]} to replace, found {kind}; choose another output, or give --force"
            )
            assert (code, out, err) == (2, "", f"boostfeat: {found}\n")
            assert Path("out").read_bytes() == Path(file).read_bytes()
            assert "give --force" not in boostfeat(*command.format(out="out").split(), "--force")[2]


def test_lists_and_texts_by_their_first_lines(folder: Path) -> None:
    Path("list.jsonl").write_text('{"boostfeat": "nbest/1"}\n')
    Path("empty.moses").write_text("0 |||  ||| a= 1 ||| -1\n")
    Path("answers").write_text('{"answer": 1}\n{"answer": 2}\n')  # what a language model said, reranked
    Path("speech").write_text("[ noise ] yes\n")
    found = [kind_of(Path(name).read_bytes()) for name in ("list.jsonl", "empty.moses", "answers", "speech", "ref")]
    assert found == ["a list", "a list", "text", "text", "text"]


def test_the_vocab_beside_a_store_replaces_no_model(folder: Path, boostfeat) -> None:
    Model({"a": 1.0}).save("more.plan.json")
    command = ["featurize", "dev.nbest", "--templates", "base", "-o", "more.nbest"]
    code, _, err = boostfeat(*command)
    assert (code, "more.plan.json: expected no file or a plan to replace, found a model" in err) == (2, True)
    assert boostfeat(*command, "--force")[0] == 0
    assert boostfeat(*command)[0] == 0  # over its own


def test_a_run_of_another_kind_is_left_alone(folder: Path, boostfeat) -> None:
    Path("run/config.json").write_text('{"boostfeat": "loop/1"}')
    code, _, err = boostfeat("compare", "dev.nbest", "--select", "dev.nbest", "--test", "dev.nbest", "-o", "run")
    assert (code, "-o run: expected a new folder or one of compare, found a run of loop" in err) == (2, True)


NO_TEXT = os.fsdecode(b"\xff")


@pytest.mark.parametrize(
    "command",
    [
        f"info {NO_TEXT}/dev.nbest --json",
        f"tune {NO_TEXT}/dev.nbest --method pro -o {NO_TEXT}/pro.json",
        f"featurize {NO_TEXT}/dev.nbest --templates orientation --json -o {NO_TEXT}/more.nbest",
        f"import list.moses -r {NO_TEXT}/ref -o {NO_TEXT}/list.nbest",
    ],
)
def test_names_need_not_be_text(folder: Path, boostfeat, command: str) -> None:
    Path(NO_TEXT).mkdir()
    for name in ("dev.nbest", "ref"):
        Path(name).rename(f"{NO_TEXT}/{name}")
    assert boostfeat(*command.split(), "-q")[::2] == (0, "")


@pytest.mark.parametrize("inside", [False, True])
def test_a_run_keeps_names_that_are_text(folder: Path, boostfeat, monkeypatch, inside: bool) -> None:
    """They go into its JSON; a folder above counts too."""
    Path(NO_TEXT).mkdir()
    Path("dev.nbest").rename(f"{NO_TEXT}/dev.nbest")
    if inside:
        monkeypatch.chdir(NO_TEXT)
    dev = "dev.nbest" if inside else f"{NO_TEXT}/dev.nbest"
    code, _, err = boostfeat("compare", dev, "--select", dev, "--test", dev, "--force", "-o", "new")
    assert (code, err.count("\n")) == (2, 1)
    assert "expected a name in UTF-8, which a run can keep, found other bytes; rename it" in err
    assert not Path("new").exists()


def test_empty_and_compressed_files(folder: Path, boostfeat) -> None:
    Path("new.nbest").touch()
    assert boostfeat("import", "list.moses", "-o", "new.nbest")[0] == 0
    for _ in range(2):
        assert boostfeat("convert", "dev.nbest", "-o", "list.gz")[0] == 0
    Path("list.gz").write_bytes(gzip.compress(b""))  # nothing, compressed
    assert boostfeat("convert", "dev.nbest", "-o", "list.gz")[0] == 0
    Path("list.gz").write_bytes(Path("list.gz").read_bytes()[:20])  # damaged: nobody knows what it was
    assert boostfeat("convert", "dev.nbest", "-o", "list.gz")[0] == 2


def test_a_device_gets_no_vocab_beside_it(folder: Path, boostfeat) -> None:
    Path("null").symlink_to("/dev/null")
    code, _, err = boostfeat("featurize", "dev.nbest", "--templates", "base", "-o", "null")
    assert (code, err.rstrip().endswith(" s"), Path("null.plan.json").exists()) == (0, True, False)
