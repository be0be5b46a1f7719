"""The commands as a person runs them: results, JSON, messages, exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sacrebleu

from boostfeat.cli import installation_commands as demo
from boostfeat.core.files import read_bytes
from boostfeat.formats.moses.ini import read_weights
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"


@pytest.fixture(scope="module")
def stores(data_stores) -> Path:
    return data_stores


def references(name: str) -> list[str]:
    return (DATA / f"{name}.ref").read_text().splitlines()


def test_info_equals_sacrebleu(boostfeat, stores):
    code, out, _ = boostfeat("info", stores / "dev.nbest", "--json")
    found = json.loads(out)
    nbest = read_store(stores / "dev.nbest")
    first = [nbest.text[int(h)].as_py() for h in nbest.hyp_ptr[:-1]]
    expected = sacrebleu.corpus_bleu(first, [references("dev")], tokenize="none", force=True).score
    assert code == 0
    assert found["first"] == pytest.approx(expected, abs=1e-9)
    assert found["mean"] < found["first"] < found["oracle"]
    lines = read_bytes(DATA / "dev.nbest.xz").decode().splitlines()
    kept = [line for n, line in enumerate(lines) if n < 20 or line.split()[0] != lines[n - 20].split()[0]]
    blocks = sum(len(re.findall(r"\|\d+-\d+,", line)) for line in kept)
    assert (found["sentences"], found["hypotheses"], found["units"], found["unit_features"]) == (600, len(kept), blocks, 15)
    assert found["distinct_units"] == nbest.n_units
    _, text, _ = boostfeat("info", stores / "dev.nbest")
    assert f"{expected:.2f}" in text
    assert "count.log" in text


def test_rerank_and_score_agree_with_sacrebleu(boostfeat, stores, tmp_path):
    Model({"TranslationModel0_1": 1.0, "LM0": 0.5}).save(tmp_path / "m.json")
    _, out, _ = boostfeat("rerank", stores / "test.nbest", "-m", tmp_path / "m.json")
    lines = out.splitlines()
    _, out, _ = boostfeat(
        "score", stores / "test.nbest", "-m", tmp_path / "m.json", "--metric", "bleu,bleu-sbp,chrf,ter", "--json"
    )
    found = json.loads(out)
    refs = [references("test")]
    assert found["sentences"] == len(lines) == 300
    assert found["metrics"]["bleu"]["score"] == pytest.approx(
        sacrebleu.corpus_bleu(lines, refs, tokenize="none", force=True).score, abs=1e-9
    )
    assert found["metrics"]["chrf"]["score"] == pytest.approx(sacrebleu.corpus_chrf(lines, refs).score, abs=1e-9)
    assert found["metrics"]["ter"]["score"] == pytest.approx(sacrebleu.corpus_ter(lines, refs).score, abs=1e-9)
    assert (
        found["metrics"]["bleu"]["signature"] == f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}"
    )


@pytest.mark.parametrize("format", ["moses", "jsonl"])
def test_reranked_lists_come_best_first(boostfeat, stores, tmp_path, format):
    Model({"LM0": 1.0}).save(tmp_path / "m.json")
    assert (
        boostfeat("rerank", stores / "test.nbest", "-m", tmp_path / "m.json", "--format", format, "-o", tmp_path / "out.gz")[0]
        == 0
    )
    assert boostfeat("import", tmp_path / "out.gz", "-r", DATA / "test.ref", "-o", tmp_path / "again.nbest")[0] == 0
    again, nbest = read_store(tmp_path / "again.nbest"), read_store(stores / "test.nbest")
    assert again.n_hyps == nbest.n_hyps
    for a, b in zip(again.hyp_ptr, again.hyp_ptr[1:], strict=False):
        assert (again.score[a:b][:-1] >= again.score[a:b][1:]).all()


def test_induce_show_augment(boostfeat, stores, tmp_path):
    model = tmp_path / "m.json"
    code, out, err = boostfeat(
        *("induce", stores / "dev.nbest", "--select", stores / "select.nbest", "--rounds", 3, "--leaves", "linear", "-o", model),
        *("--set", "rule=best", "--templates", "none"),
    )
    assert code == 0, err
    assert "select" in out
    assert not list(tmp_path.glob("*.partial"))
    learnt = Model.load(model)
    _, shown, _ = boostfeat("show", model)
    for tree in learnt.trees:
        assert tree.name in shown
    _, described, _ = boostfeat("show", model, "--on", stores / "dev.nbest", "--json")
    told = json.loads(described)
    rows = {row["tree"]: row for row in learnt.history if "tree" in row}
    for tree in told["trees"]:  # what training saw is what the list says
        row = rows[tree["name"]]
        assert tree["fires"] == row["fires"]
        assert tree["effect"] == pytest.approx(row["effect"])
    boostfeat("induce", stores / "dev.nbest", "--recipe", "paper", "--rounds", 3, "--set", "rule=all", "-o", tmp_path / "3.json")
    effects = {row["tree"]: row["effect"] for row in Model.load(tmp_path / "3.json").history if "tree" in row}
    _, shown, _ = boostfeat("show", tmp_path / "3.json", "--trees", 1)
    assert [name for name in effects if name in shown] == [max(effects, key=effects.get)]
    assert "... and 2 trees of smaller effect (--trees 0 shows all)" in shown
    assert boostfeat("augment", stores / "dev.nbest", "-m", model, "-o", tmp_path / "more.nbest")[0] == 0
    assert read_store(tmp_path / "more.nbest").unit_names[-len(learnt.trees) :] == tuple(t.name for t in learnt.trees)


def test_interrupted_induce_resumes_to_the_same_file(stores, tmp_path):
    def command(output: Path, *more: str) -> list[str]:
        return [sys.executable, "-m", "boostfeat", "induce", str(stores / "dev.nbest"), "--select", str(stores / "select.nbest"),
                "--recipe", "paper", "--rounds", "60", "--set", "patience=60", "--max-leaves", "5", "--threads", "1",
                "-o", str(output), *more]  # fmt: skip

    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    subprocess.run(command(whole), check=True, capture_output=True)
    running = subprocess.Popen(
        command(part),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    partial = tmp_path / "part.json.partial"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and running.poll() is None and not (partial.exists() and "tree.002" in partial.read_text()):
        time.sleep(0.002)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    if running.returncode == 0:
        pytest.skip("the run was over before it could be interrupted")
    assert running.returncode == 130
    assert "--resume" in err
    assert 3 <= len(Model.load(partial).trees) < 60
    Model.load(part)
    subprocess.run(command(part, "--resume"), check=True, capture_output=True)
    assert part.read_bytes() == whole.read_bytes()
    assert not partial.exists()


def test_demo_runs_and_fits_two_screens(boostfeat, tmp_path, monkeypatch):
    """48 lines of 80 columns, but for the line with the path of the data; the two levels of boosting stand side by side."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = boostfeat("demo", "-o", "demo", "--threads", "1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"$ cd demo; DATA={ROOT / 'data'}"
    assert out.count("$ boostfeat") == 7
    assert len(lines) <= 48
    assert max(map(len, lines[1:])) <= 80
    assert [line.split()[0] for line in lines if line.startswith("boost-")] == ["boost-global", "boost-local"]
    assert (tmp_path / "demo" / "report.html").stat().st_size > 1e6
    assert Path.cwd() == tmp_path


def test_demo_says_first_what_its_page_lacks(boostfeat, tmp_path, monkeypatch):
    """A run of minutes does not end in an error: without jinja2 there is no page, and what to install is the first line."""
    monkeypatch.setattr("boostfeat.report.page.find_spec", lambda name: None)
    monkeypatch.setattr(demo, "run", lambda job, whole: None)
    code, out, err = boostfeat("demo", "-o", tmp_path / "demo")
    assert code == 0
    assert err == (
        "boostfeat: report: expected the package jinja2, found none; pip install 'boostfeat[report]'; "
        "the demo goes on without its page\n"
    )
    assert "$ boostfeat report" not in out


# -- what goes wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["induc", "{stores}/dev.nbest"], "there is no command 'induc'; did you mean induce?"),
        (["info"], "Missing argument"),
        (["info", "{stores}/dev.nbest", "--colour"], "No such option: --colour"),
        (["info", "{tmp}/none.nbest"], "none.nbest: expected a file, found none; check the path"),
        (["info", "{data}/dev.src"], "dev.src: expected a store written by 'boostfeat import', found text; import the list first"),
        (["import", "{tmp}/none", "-o", "{tmp}/x"], "none: expected a file, found none"),
        (["import", "{data}/dev.nbest.xz", "-o", "{tmp}/no/x"], "expected an existing folder"),
        (["import", "{data}/dev.nbest.xz", "-o", "{tmp}"], "expected a file name to write, found a folder"),
        (["import", "{data}/dev.nbest.xz", "-r", "{data}/test.ref", "-o", "{tmp}/x"], "as references with 300 lines have, found ids up to 599"),
        (["import", "{data}/dev.nbest.xz", "-s", "{data}/test.src", "-o", "{tmp}/x"], "expected a source span within the sentence's"),
        (["import", "{data}/dev.src", "-o", "{tmp}/x"], "expected an n-best list in a known format"),
        (["import", "{stores}/dev.nbest", "-o", "{tmp}/x"], "found a store, which is imported already"),
        (["import", "{data}/dev.nbest.xz", "--format", "klingon", "-o", "{tmp}/x"], "unknown format 'klingon': expected one of auto, jsonl"),
        (["import", "{data}/dev.nbest.xz", "--format", "marian", "-o", "{tmp}/x"], "expected a list in the format marian, found Moses' phrases"),
        (["import", "{data}", "-o", "{tmp}/x"], "README.md: expected an n-best list in a known format"),
        (["import", "{data}/dev.nbest.xz", "-r", "{data}", "-o", "{tmp}/x"], "expected a file, found a folder"),
        (["score", "{stores}/dev.nbest", "--metric", "bleu,comet"], "unknown metric 'comet': expected one of bleu, bleu-sbp, chrf, chrf++, ter, wer"),
        (["score", "{stores}/dev.nbest", "--metric", "rewrd"], "; the list has no quality column"),
        (["score", "{stores}/dev.nbest", "-m", "{data}/dev.src"], "dev.src: expected a model file in JSON"),
        (["rerank", "{stores}/dev.nbest", "--format", "xml"], "unknown format 'xml': expected one of text, moses, moses-enriched, jsonl"),
        (["induce", "{stores}/dev.nbest", "--level", "galactic", "-o", "{tmp}/m"], "unknown level 'galactic': expected one of local, global"),
        (["induce", "{stores}/dev.nbest", "--set", "shrinkage=2", "-o", "{tmp}/m"], "shrinkage: expected a number above 0 up to 1, found 2.0"),
        (["induce", "{stores}/dev.nbest", "--max-leaves", "1", "-o", "{tmp}/m"], "--max-leaves"),
        (["show", "{stores}/dev.nbest"], "dev.nbest: expected"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(boostfeat, stores, tmp_path, arguments, message):
    places = {"stores": stores, "tmp": tmp_path, "data": DATA}
    code, out, err = boostfeat(*(a.format(**places) for a in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_a_list_without_scores_needs_a_model(boostfeat, tmp_path):
    (tmp_path / "l").write_text("0 ||| a b ||| LM0= 1\n0 ||| b ||| LM0= 2\n")
    (tmp_path / "r").write_text("b\n")
    assert boostfeat("import", tmp_path / "l", "-r", tmp_path / "r", "-o", tmp_path / "l.nbest")[0] == 0
    code, _, err = boostfeat("rerank", tmp_path / "l.nbest")
    assert (code, "give a model with -m" in err) == (2, True)
    Model({"LM0": 1.0, "other": 1.0}).save(tmp_path / "m.json")
    code, out, err = boostfeat("rerank", tmp_path / "l.nbest", "-m", tmp_path / "m.json", "--allow-missing")
    assert (code, out) == (0, "b\n")
    assert "lacks features of the model, which count as 0: other" in err


def test_standard_input(stores, tmp_path):
    with open(DATA / "dev.nbest.xz", "rb") as stream:
        command = [
            *(sys.executable, "-m", "boostfeat", "import", "-", "-s", DATA / "dev.src", "-r"),
            *(DATA / "dev.ref", "-o", tmp_path / "x", "-q"),
            *("--size", "20"),
        ]
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    assert read_store(tmp_path / "x").differences(read_store(stores / "dev.nbest")) == []


def test_graphs_are_searched_with_weights_from_text_or_model(boostfeat, real, tmp_path):
    """Moses' own test: the best path of its hypergraph under dense and sparse weights, as its hgdecode printed it."""
    folder = real / "moses-tests" / "hgdecode-sparse"
    truth = (folder / "truth.txt").read_text().splitlines()[0].removeprefix("STDOUT_1=<s> ").removesuffix(" </s> ")
    weights = ["--weights", folder / "dense.weights", "--weights", folder / "sparse.weights"]
    assert boostfeat("import", folder / "hg.gz", *weights, "--size", 1, "-o", tmp_path / "x")[0] == 0
    assert boostfeat("rerank", tmp_path / "x")[1] == truth + "\n"
    Model(read_weights([folder / "dense.weights", folder / "sparse.weights"])).save(tmp_path / "m.json")
    assert boostfeat("import", folder / "hg.gz", "--weights", tmp_path / "m.json", "--size", 1, "-o", tmp_path / "y")[0] == 0
    assert read_store(tmp_path / "y").differences(read_store(tmp_path / "x")) == []


def test_one_input_at_most_comes_from_standard_input(boostfeat, tmp_path: Path):
    code, out, err = boostfeat("import", "-", "-s", "-", "-o", tmp_path / "x.nbest")
    assert (code, out) == (2, "")
    assert err == "boostfeat: '-': expected one input from standard input, found more; name files\n"


def test_lists_without_references_hypotheses_or_with_sparse_features(boostfeat, tmp_path: Path):
    """import, info and convert, each told in JSON and to a person."""
    header = '{"boostfeat": "nbest/1", "unit_features": ["tm"]}\n'
    sentence = '{"id": 0, "hyps": [{"text": "a", "features": {"own": 2.0}, "units": [{"src": [0, 1], "tgt": [0, 1], "x": [1], "sparse": {"pt:x|a": 1}}]}]}\n'
    for name, text, hyps in (("some", header + sentence, 1), ("none", header + '{"id": 0, "hyps": []}\n', 0)):
        (tmp_path / f"{name}.jsonl").write_text(text)
        store = tmp_path / f"{name}.nbest"
        code, out, err = boostfeat("import", tmp_path / f"{name}.jsonl", "-o", store, "--json")
        assert code == 0, err
        made = json.loads(out)
        assert (made["sentences"], made["hypotheses"], made["output"]) == (1, hyps, str(store))
        _, out, _ = boostfeat("info", store, "--json")
        told = json.loads(out)
        assert (told["first"], told["mean"], told["oracle"], told["signature"]) == (None, None, None, None)
        assert told["features"] == ([{"name": "tm", "mean": 1.0, "sd": 0.0, "nonzero": 1.0}, {"name": "own", "mean": 2.0, "sd": 0.0, "nonzero": 1.0}] if hyps else [])  # fmt: skip
        _, text, _ = boostfeat("info", store)
        assert "BLEU" not in text
        assert ("decoder state" in text) == bool(hyps)  # features by group, where there are sparse ones
        code, out, _ = boostfeat("convert", store, "--format", "jsonl", "-o", tmp_path / "again.jsonl", "--json")
        assert (code, json.loads(out)["hypotheses"]) == (0, hyps)


def test_the_demo_needs_a_folder(boostfeat, tmp_path: Path):
    (tmp_path / "file").write_text("")
    code, _, err = boostfeat("demo", "-o", tmp_path / "file" / "x")
    assert code == 2
    assert "expected a folder to write, found: Not a directory; choose another with -o" in err
