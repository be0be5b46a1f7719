"""Scores both ways: rows in blocks, what a difference is, and rows near a threshold, by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from test_export_moses import stump

from boostfeat.core.errors import InputError
from boostfeat.export import Context, ExportOptions, inputs, verify
from boostfeat.export.compiling import C, compiler_command
from boostfeat.export.inputs import inputs_of
from boostfeat.export.moses.writing import MosesJob
from boostfeat.export.verify import compare_scores, expected_scores, near_thresholds
from boostfeat.lists.precision import precision_of
from boostfeat.model.model import Model


def test_inputs_are_what_a_model_looks_at(monkeypatch):
    """Weights in the order of the file, without those of 0; then the features of trees, in that of the alphabet."""
    model = Model(
        {"z": 1.0, "none": 0.0, "a": -1.0, "pt:x|y": 2.0}, (stump(0, "m", 0.0, 1.0, 2.0, on="b"), stump(1, "a", 0.0, 1.0, 2.0))
    )
    monkeypatch.setattr(inputs, "MAX_INPUTS", 5)
    assert inputs_of(model, "c") == ("z", "a", "pt:x|y", "b", "m")
    monkeypatch.setattr(inputs, "MAX_INPUTS", 4)
    with pytest.raises(
        InputError, match=r"--to c: expected at most 4 input features, found 5, as 'pt:x\|y'; use --to python or json"
    ):
        inputs_of(model, "c")
    with pytest.raises(InputError, match="found 5, as 'e'"):
        inputs_of(Model(dict.fromkeys("abcde", 1.0)), "c")


@pytest.mark.parametrize(("level", "what"), [("local", "distinct units"), ("global", "hypotheses")])
def test_every_row_is_compared(dev, monkeypatch, level, what):
    nbest = dev[:2]
    monkeypatch.setattr(verify, "BLOCK", 5)
    name = nbest.unit_names[0]
    model = Model({name: 2.0}, (stump(0, name, -1.0, 0.5, 1.5),), level)
    expected, found = expected_scores(model, nbest)
    n = len(expected)
    assert (found, n) == (what, nbest.n_units if level == "local" else nbest.n_hyps)
    told: list[tuple[int, int, str]] = []
    context = Context(nbest, on_progress=lambda *what: told.append(what))

    def scores(x: np.ndarray, start: int) -> np.ndarray:
        out = 2.0 * x[:, 0] + 2.0 * np.where(x[:, 0] <= -1.0, 0.5, 1.5)
        out[: max(0, n - start)][-1:] += 0.25 * (start + len(x) == n)  # the last row of all is wrong
        return out

    check = compare_scores(model, context, scores, [name])
    assert (check.rows, check.what, check.tolerance) == (n, what, 1e-6)
    assert check.difference == pytest.approx(0.25 / max(1.0, abs(expected[-1])))
    assert told == [(min(k + 5, n), n, "verifying") for k in range(0, n, 5)]


@pytest.mark.parametrize("step", [0.0, 0.25])
def test_rows_near_a_threshold(dev, step):
    """Those with a value that the list's rounding could put on the other side of a test, on either side of it, once each."""
    name, other, *_ = dev.unit_names
    nbest = replace(dev[:3], meta={**dev.meta, "precision": json.dumps({name: [step, 17]})})
    cuts = np.unique(nbest.X[:, 0])[[3, 5]].tolist()
    trees = (*(stump(k, name, cut, 1.0, 2.0) for k, cut in enumerate(cuts)), stump(2, other, 1e9, 1.0, 2.0))
    for level, x in (("local", nbest.X[:, 0]), ("global", nbest.global_features[:, 0])):
        near = [np.abs(x - cut) <= precision_of(nbest, [name])[0].error(x) for cut in cuts]
        assert near_thresholds(Model({}, trees, level), nbest) == (near[0] | near[1]).sum()
    assert near_thresholds(Model({}, trees), nbest) >= 2
    assert near_thresholds(Model({}, (stump(0, "absent", 0.0, 1.0, 2.0),)), nbest) == 0


def test_the_functions_of_an_ini_are_those_it_names_anywhere(tmp_path):
    """A feature function needs no weight, and a weight may be of one that comes with the decoder."""
    (tmp_path / "ini").write_text("[feature]\nOwn name=Own0\nKENLM name=LM0\n\n[weight]\nLM0= 1\nOther0= 2\n")
    found = MosesJob(Model({}), Context(options=ExportOptions(ini=str(tmp_path / "ini"), static=("a",)))).known
    assert (found.functions, found.static) == ({"Own0", "LM0", "Other0"}, ("a",))
    assert MosesJob(Model({}), Context(options=ExportOptions())).known.functions == frozenset()


def test_the_compiler_that_a_user_names_may_have_arguments(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: name if name in ("gcc", "clang", "mine") else None)
    monkeypatch.delenv("CC", raising=False)
    assert compiler_command(C, "c") == ["gcc"]
    monkeypatch.setenv("CC", "mine -m64")
    assert compiler_command(C, "c") == ["mine", "-m64"]
    monkeypatch.setenv("CC", "other gcc")
    with pytest.raises(
        InputError, match="--to c: expected a C compiler to verify with, found CC=other; set CC, or give --no-verify"
    ):
        compiler_command(C, "c")
