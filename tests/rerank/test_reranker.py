"""The model called from a program chooses as the command line does."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from boostfeat import Reranker, from_ctranslate2
from boostfeat.core.errors import InputError
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.resources import Posterior, ResourceFiles
from boostfeat.formats.jsonl import write
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro


@pytest.fixture(scope="module")
def setup(data_stores: Path, tmp_path_factory: pytest.TempPathFactory):
    """(model file, raw lists, their lines as JSON)."""
    maker = FeatureMaker()
    dev, plan = maker.learn(read_store(data_stores / "dev.nbest")[:60], maker.plan("length,pt,bi"))
    model = with_plan(Model(Pro().fit(dev, None, Run(seed=0)).weights), plan)
    path = tmp_path_factory.mktemp("model") / "m.json"
    model.save(path)
    test = read_store(data_stores / "test.nbest")[:12]
    stream = io.BytesIO()
    write(test, stream)
    return path, test, stream.getvalue()


def candidates(line: dict, names: list[str]) -> list[dict]:
    """The sentence of a JSON line as a program would give it."""
    for hyp in line["hyps"]:
        for unit in hyp.get("units", []):
            unit["features"] = {**dict(zip(names, unit.pop("x", []), strict=False)), **unit.pop("sparse", {})}
    return line["hyps"]


def test_programs_get_the_choices_of_the_command_line(setup):
    path, test, text = setup
    header, *lines = map(json.loads, text.splitlines())
    reranker = Reranker.load(path)
    expected = reranker.features.for_model(test, reranker.model)
    wanted = reranker.model.decision_function(expected)
    chosen = reranker.model.predict(expected) - test.hyp_ptr[:-1]
    for s, line in enumerate(lines):
        given = candidates(line, header["unit_features"])
        found = reranker.scores(given, source=line["source"])
        assert found == pytest.approx(wanted[test.hyp_ptr[s] : test.hyp_ptr[s + 1]], abs=1e-9)
        assert reranker.choose(given, source=line["source"]) == chosen[s]
    assert reranker.choose(test[:1]) == chosen[0]


def test_streams_are_answered_line_by_line(setup, boostfeat, monkeypatch):
    path, test, text = setup
    lines = text.splitlines(keepends=True)

    order: list[str] = []

    class Source(io.BytesIO):
        def readline(self, *args):
            order.append("read")
            return super().readline(*args)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Source(text)))
    flush = sys.stdout.flush
    monkeypatch.setattr(sys.stdout, "flush", lambda: (order.append("answered"), flush()))
    code, out, err = boostfeat("rerank", "-", "--stream", "-m", path)
    assert (code, err) == (0, "")
    answers = list(map(json.loads, out.splitlines()))
    assert [a["id"] for a in answers] == [json.loads(line)["id"] for line in lines[1:]]
    reranker = Reranker.load(path)
    chosen = reranker.model.predict(reranker.features.for_model(test, reranker.model)) - test.hyp_ptr[:-1]
    assert [a["choice"] for a in answers] == chosen.tolist()
    assert all(len(a["scores"]) == n for a, n in zip(answers, test.hyp_ptr[1:] - test.hyp_ptr[:-1], strict=True))
    assert order[:6] == ["read", "read", "answered", "read", "answered", "read"]


@pytest.mark.parametrize(("n_lines", "found"), [(0, "no lines"), (1, "no sentences")])
def test_a_stream_without_lists_says_so(setup, boostfeat, monkeypatch, n_lines, found):
    path, _, data = setup
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(data.splitlines(keepends=True)[:n_lines]))))
    code, out, err = boostfeat("rerank", "-", "--stream", "-m", path)
    assert (code, out) == (2, "")
    assert err == f"boostfeat: stdin: expected a header and a list a line, found {found}; check what wrote it\n"


def test_a_bad_line_ends_the_stream_after_the_answers_before_it(setup, boostfeat, monkeypatch):
    path, _, text = setup
    head = b"".join(text.splitlines(keepends=True)[:3])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(head + b'{"id": 1, "hyps": 3}\n')))
    code, out, err = boostfeat("rerank", "-", "--stream", "-m", path)
    assert (code, out.count("\n")) == (2, 2)
    assert "stdin:4" in err


def test_a_pipe_is_answered_before_the_next_line_and_holds_no_more_memory(setup):
    """The reader of the answers writes the next line only when it has the answer to the last: a lag would be a deadlock."""
    path, _, text = setup
    lines = text.splitlines(keepends=True)
    command = [sys.executable, "-m", "boostfeat", "rerank", "-", "--stream", "-m", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(lines[0])
        sizes = []
        for k in range(60):
            line = {**json.loads(lines[1 + k % (len(lines) - 1)]), "id": k}
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == k
            if k in (20, 59) and Path(f"/proc/{process.pid}/statm").exists():
                sizes.append(int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        nothing = json.dumps({"id": 60, "source": "x", "hyps": [{"text": "a", "units": []}]}).encode() + b"\n"
        out, err = process.communicate(nothing)
    assert (process.returncode, out) == (2, b"")
    assert err.decode().startswith("boostfeat: stdin: sentence 60: ")
    assert err.count(b"\n") == 1
    assert not sizes or sizes[1] - sizes[0] < 8 << 20  # bytes; the second half meets the same lists again


def test_misuse(setup, boostfeat):
    code, _, err = boostfeat("rerank", "x.nbest", "--stream", "-m", setup[0])
    assert code == 2
    assert "--stream: expected '-'" in err
    for more in (("-o", "x.txt"), ("--format", "moses")):
        code, _, err = boostfeat("rerank", "-", "--stream", "-m", setup[0], *more)
        assert code == 2
        assert "--stream does not go with" in err
    with pytest.raises(InputError, match="expected one list"):
        Reranker.load(setup[0]).choose(setup[1])


def test_a_program_that_chooses_loads_nothing_heavy(setup, tmp_path):
    """Start-up is a promise: what takes long to import is imported where it is needed."""
    path, _, text = setup
    header, line = map(json.loads, text.splitlines()[:2])
    given, first = tmp_path / "given.json", candidates(line, header["unit_features"])[:10]
    given.write_text(json.dumps([first, line["source"]]))
    code = (
        "import json, sys; from boostfeat import Reranker\n"
        f"candidates, source = json.load(open({str(given)!r}))\n"
        f"best = Reranker.load({str(path)!r}).choose(candidates, source=source)\n"
        "print(best, *sorted({'sklearn', 'lightgbm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(Reranker.load(path).choose(first, source=line["source"]))]


def test_phrases_may_come_without_their_words(setup):
    """They are words of the source and of the text."""
    path, _, text = setup
    header, line = map(json.loads, text.splitlines()[:2])
    given = candidates(line, header["unit_features"])
    reranker = Reranker.load(path)
    wanted = reranker.scores(given, source=line["source"])
    for unit in (unit for hyp in given for unit in hyp["units"]):
        unit.pop("src_text", None)
        unit.pop("tgt_text", None)
    assert np.array_equal(reranker.scores(given, source=line["source"]), wanted)


def test_lists_of_bridges_are_chosen_from():
    """Tokens with log-probabilities, as ctranslate2 gives them, under templates of words: a list has the scores that it has among others."""
    rng = np.random.default_rng(4)
    vocabulary = ["▁the", "▁a", "▁ho", "use", "s", "▁Äiti", "▁,", "▁12"]
    results, scores = [], []
    for _ in range(4):
        hypotheses = [["▁the", *rng.choice(vocabulary, int(rng.integers(1, 8))).tolist()] for _ in range(10)]
        results.append(SimpleNamespace(hypotheses=hypotheses, scores=rng.normal(size=10).tolist(), attention=None))
        scores += [SimpleNamespace(tokens=[], log_probs=rng.normal(size=len(h) + 1).tolist()) for h in hypotheses]
    lists = from_ctranslate2(results, scores=scores, sources=["x"] * 4)
    maker = FeatureMaker()
    made, plan = maker.learn(lists, maker.plan("words-basic", min_count=1), posterior=Posterior(scale=2.0))
    reranker = Reranker(with_plan(Model({name: float(rng.normal()) for name in sorted(made.feature_names)}), plan))
    wanted = reranker.scores(lists)
    for s in range(4):
        one = lists[s : s + 1]
        found = reranker.scores(one)
        assert np.array_equal(found, wanted[lists.hyp_ptr[s] : lists.hyp_ptr[s + 1]])
        assert reranker.choose(one) == int(np.argmax(found))


def test_a_template_of_the_user_needs_no_more_than_its_function(data_stores: Path, tmp_path: Path) -> None:
    """Dense and sparse, of a phrase and of a place: learned on a list, and computed for candidates as featurize does."""
    (tmp_path / "own.py").write_text(
        "from boostfeat import template\n"
        "@template('vowels')\ndef vowels(target):\n    return {'vowels': sum(word[0] in 'aeiou' for word in target)}\n"
        "@template('after')\ndef after(target, words_before):\n"
        "    return [f'{words_before[-1]}|{len(target)}'] if words_before else []\n"
    )
    maker = FeatureMaker(ResourceFiles(plugin=[str(tmp_path / "own.py")]))
    dev, test = (read_store(data_stores / f"{name}.nbest") for name in ("dev", "test"))
    made, plan = maker.learn(dev[:25], maker.plan("vowels,after,length", min_count=1))
    rng = np.random.default_rng(1)
    model = with_plan(Model({name: float(rng.normal()) for name in sorted(made.feature_names)}), plan)
    assert {"vowels", "len.src"} <= set(made.unit_names)
    wanted = model.decision_function(maker.for_model(test[:10], model))
    found = [Reranker(model, maker).scores(test[s : s + 1]) for s in range(10)]
    assert np.concatenate(found) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("model", ["list.nbest", Path("model.json"), None, {"lm": 1.0}])
def test_what_is_no_model_is_said_at_once(model):
    with pytest.raises(InputError, match=r"Reranker: expected a model, found .*; Reranker.load\(PATH\) reads a file"):
        Reranker(model)
