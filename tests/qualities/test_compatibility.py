"""Files of every released version stay readable and keep their meaning; those of a newer format are refused with what to do.

``tests/compat/VERSION`` was written by that version with ``tests/compat/make.py``.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.features import FeaturePlan, featurize
from boostfeat.features.feature_maker import FeatureMaker
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.search.loop.driver import LoopFolder

RELEASED = sorted(p for p in (Path(__file__).parents[1] / "compat").iterdir() if p.is_dir() and p.name[0].isdigit())
MODELS = [(folder, name) for folder in RELEASED for name in json.loads((folder / "expected.json").read_text())]
released = pytest.mark.parametrize("folder", RELEASED, ids=lambda p: p.name)


def test_there_are_released_versions():
    assert {"0.1.0", "0.2.0"} <= {folder.name for folder in RELEASED}


@pytest.mark.parametrize(("folder", "name"), MODELS, ids=lambda p: getattr(p, "name", p))
def test_models_score_as_they_did(folder, name):
    expected = json.loads((folder / "expected.json").read_text())[name]
    model = Model.load(folder / f"{name}.json")
    assert model.signature == expected["signature"]
    scores = model.decision_function(FeatureMaker().for_model(read_store(folder / f"{expected['on']}.nbest"), model))
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-12, atol=1e-12)  # sums may come in another order


@pytest.mark.parametrize(("folder", "name"), MODELS, ids=lambda p: getattr(p, "name", p))
def test_models_are_shown_and_scored_with(boostfeat, folder, name):
    """Options that have left since (bags) are recorded in the file, and nothing more."""
    on = folder / f"{json.loads((folder / 'expected.json').read_text())[name]['on']}.nbest"
    code, out, err = boostfeat("show", folder / f"{name}.json", "--on", on, "--trees", 0)
    assert (code, err) == (0, "")
    assert all(tree.name in out for tree in Model.load(folder / f"{name}.json").trees)
    code, out, err = boostfeat("score", on, "-m", folder / f"{name}.json", "--json")
    assert (code, err) == (0, "")
    assert 0 < json.loads(out)["metrics"]["bleu"]["score"] < 100


@released
def test_lists_are_the_same_in_every_format(folder, tmp_path):
    nbest, lines = read_store(folder / "list.nbest"), read(folder / "list.jsonl.gz", ReadOptions())
    np.testing.assert_array_equal(nbest.global_features, lines.global_features)
    assert nbest.text.equals(lines.text)
    write_store(nbest, tmp_path / "again.nbest")
    assert read_store(tmp_path / "again.nbest").text.equals(nbest.text)


@released
def test_a_plan_gives_the_same_columns(folder):
    old = read_store(folder / "more.nbest")
    new, _ = featurize(read_store(folder / "list.nbest"), FeaturePlan.load(folder / "more.vocab.json"))
    assert (new.unit_names, new.sparse_names.to_pylist()) == (old.unit_names, old.sparse_names.to_pylist())
    np.testing.assert_allclose(new.global_features, old.global_features, rtol=1e-12)
    assert abs(new.global_sparse - old.global_sparse).max() == 0


@released
def test_folders_of_runs(boostfeat, folder, tmp_path):
    code, _, err = boostfeat("report", folder / "run", "--test", folder / "list.nbest", "-o", tmp_path / "report.html", "-q")
    assert code == 2  # comparisons of other releases are made again
    assert err.endswith("; make the run again with 'boostfeat compare'\n")
    assert err.count("\n") == 1
    loop = LoopFolder(folder / "loop")
    rows = json.loads((folder / "loop" / "results.json").read_text())["rows"]
    assert [loop.model(k).signature for k in range(len(rows))] == [row["signature"] for row in rows]
    assert [loop.state(k) for k in range(len(rows))] == rows
    assert len(loop.list(0, "dev")) == 3


# -- newer ones -----------------------------------------------------------------------------------------------------------


def newer_store(path: Path) -> None:
    write_store(synthetic_nbest(SyntheticOptions(sentences=2, hyps=3)), path)
    batch = pa.ipc.open_file(path.read_bytes()).get_batch(0)
    metadata = {**batch.schema.metadata, b"boostfeat": b"nbest-store/9"}
    with pa.ipc.new_file(str(path), batch.schema.with_metadata(metadata)) as writer:
        writer.write_batch(batch.replace_schema_metadata(metadata))


def newer_json(path: Path) -> None:
    found = json.loads(path.read_text())
    kind = found["boostfeat"].partition("/")[0]
    path.write_text(json.dumps({**found, "boostfeat": f"{kind}/9", "and more": True}))


def test_newer_formats_are_refused(boostfeat, tmp_path):
    shutil.copytree(RELEASED[-1], tmp_path / "new")
    new = tmp_path / "new"
    nbest, out = new / "list.nbest", tmp_path / "out"
    newer_store(new / "newer.nbest")
    for name in ("tuned.json", "more.vocab.json", "run/config.json", "loop/config.json"):
        newer_json(new / name)
    (new / "newer.jsonl").write_text('{"boostfeat": "nbest/9", "unit_features": []}\n')
    few = [new / "few.src", "-r", new / "few.ref", "--init", new / "constant.json"]
    for words in (
        ["info", new / "newer.nbest"],
        ["rerank", nbest, "-m", new / "tuned.json"],
        ["featurize", nbest, "--plan", new / "more.vocab.json", "-o", out],
        ["import", new / "newer.jsonl", "-o", out],
        ["compare", nbest, "--select", nbest, "--test", nbest, "--systems", "decoder", "--force", "-o", new / "run"],
        ["report", new / "run", "--test", nbest, "-o", out.with_suffix(".html")],
        ["loop", *few, "--decoder", "cat {model}", "--resume", "-o", new / "loop"],
    ):
        code, _, err = boostfeat(*words)
        assert (code, err.count("\n")) == (2, 1), err
        assert re.search(r"expected format version [123] or lower, found '?9'?; upgrade boostfeat\n$", err), err
        assert not out.exists()
