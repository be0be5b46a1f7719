"""What is refused where no other test comes by: options out of range, exports that cannot be, names that collide."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from math import nan
from pathlib import Path

import numpy as np
import pytest
from fuzz.samples import CDEC, ENRICHED, FOREST, WEIGHTS
from hypothesis import given, settings
from strategies import containers, sparsely

from boostfeat.boosting.options import BoostOptions
from boostfeat.cli import common
from boostfeat.cli.compare import _print_rich
from boostfeat.cli.text import described_text
from boostfeat.compare.runner import CompareOptions
from boostfeat.core.digests import digest
from boostfeat.core.errors import InputError
from boostfeat.export import Context, export
from boostfeat.export.c import _identifiers, compiled
from boostfeat.export.moses.writing import table_name
from boostfeat.export.python import score_rows
from boostfeat.export.verify import difference, expected_scores
from boostfeat.formats import read
from boostfeat.lists.build import Builder, HypRecord, ReadOptions
from boostfeat.lists.nbest import NBest
from boostfeat.model.describe import describe
from boostfeat.model.effects import within_list_sd
from boostfeat.model.model import Model
from boostfeat.trees.growing import TreeOptions
from boostfeat.trees.tree import Tree

NOT_NEGATIVE = ("rounds", "l2", "patience", "scale", "resample_pairs", "refit_every", "refit_scale", "refit_l2")
STUMP = Tree(
    "tree.000", 1.0, "constant", None, ("a", "", ""), np.zeros(3), np.array([1, -1, -1]), np.array([2, -1, -1]), np.arange(3.0)
)


def without_units() -> NBest:
    builder = Builder()
    builder.add(HypRecord(0, "a b", "here", 0.0, {"a": 2.0}))
    return builder.finish()


# -- options ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fine", "refused", "expected"),
    [
        *((name, 0, (-1, nan), "0 or more") for name in NOT_NEGATIVE),
        *((name, 1, (0, 1.5, nan), "a number above 0 up to 1") for name in ("shrinkage", "subsample")),
        *((name, 1, (0, nan), "1 or more") for name in ("bags", "anneal")),
    ],
)
def test_limits_of_boosting(name, fine, refused, expected):
    assert getattr(BoostOptions(**{name: fine}), name) == fine
    for value in refused:
        with pytest.raises(InputError, match=f"^{name}: expected {expected}, found {value}"):
            BoostOptions(**{name: value})


def test_a_share_of_columns_is_above_0_up_to_1():
    assert "columns" in {f.name for f in fields(TreeOptions)}
    assert TreeOptions(columns=1.0).columns == 1.0
    for value in (0.0, 1.5, nan):
        with pytest.raises(InputError, match=f"columns: expected a share above 0 up to 1, found {value}"):
            TreeOptions(columns=value)


# -- exports ------------------------------------------------------------------------------------------------------------


def test_verification_needs_a_list_with_rows_of_the_models_level():
    with pytest.raises(ValueError, match="expected a list to verify on, found none"):
        _ = Context().rows
    with pytest.raises(InputError, match="expected a list with units"):
        expected_scores(Model({"a": 1.0}, (STUMP,)), without_units())
    scores, what = expected_scores(Model({"a": 1.5}), without_units())  # a linear one scores hypotheses
    assert (scores.tolist(), what) == ([3.0], "hypotheses")
    with pytest.raises(ValueError, match=r"scores: expected shape \(2,\), found \(1,\)"):
        difference(np.zeros(1), np.zeros(2))
    assert difference(np.array([1.5, -30.0]), np.array([1.0, -20.0])) == 0.5  # absolute up to 1, relative beyond
    assert difference(np.zeros(0), np.zeros(0)) == 0.0


def test_a_folder_of_files_needs_a_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder for --to moses, found a file; name a folder"):
        export(Model({"LM0": 1.0}), "moses", tmp_path / "file")
    with pytest.raises(InputError, match="-o -: expected a folder for --to moses, found a stream"):
        export(Model({"LM0": 1.0}), "moses", "-")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_names_in_c_are_distinct():
    names = _identifiers(("a b", "a_b", "a.b", "x" * 50, "x" * 60))
    assert names == ["$$_X_a_b", "$$_X_a_b_1", "$$_X_a_b_2", "$$_X_" + "x" * 40, "$$_X_" + "x" * 40 + "_4"]
    assert len(set(_identifiers(("a_b_2", "a_b", "a b")))) == 3


def test_a_compiler_that_fails_and_a_module_that_does_not_run_are_said(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(InputError, match=r"false: expected it to compile the header, found: .*; try another CC"):
        compiled("", tmp_path, [])
    (tmp_path / "model.py").write_text("raise SystemExit('no')")
    with pytest.raises(InputError, match=r"--to python: expected a module that runs, found: .*no"):
        score_rows(tmp_path / "model.py", np.zeros((1, 1)))


def test_onnx_needs_an_input(tmp_path: Path):
    pytest.importorskip("onnx")
    with pytest.raises(InputError, match="--to onnx: expected a model with an input feature, found none"):
        export(Model({}), "onnx", tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_the_table_of_a_model_is_one():
    assert table_name(Model({"LM0": 1.0}), None, "pt.gz") == "TranslationModel0"
    assert table_name(Model({"LM0": 1.0, "PhraseDictionaryMemory3_1": 1.0}), None, "pt.gz") == "PhraseDictionaryMemory3"
    with pytest.raises(
        InputError, match="expected one table, found features of TranslationModel0, TranslationModel1; give --ini"
    ):
        table_name(Model({"TranslationModel0_0": 1.0, "TranslationModel1_0": 1.0}), None, "pt.gz")


# -- show ---------------------------------------------------------------------------------------------------------------


def test_weights_beyond_the_first_are_counted():
    text = described_text(describe(Model({f"f{k}": float(k + 1) for k in range(5)}), None), top=2, most_trees=0)
    assert "f4" in text
    assert "f3" in text
    assert "f2" not in text
    assert "... and 3 more (--top N)" in text


def test_trees_beyond_the_largest_are_counted():
    model = Model({"a": 1.0}, tuple(replace(STUMP, name=f"tree.{k:03d}") for k in range(3)))
    text = described_text(describe(model, None), top=2, most_trees=1)
    assert [f"tree.{k:03d}" in text for k in range(3)] == [True, False, False]
    assert text.endswith("... and 2 trees of smaller effect (--trees 0 shows all)")


@settings(max_examples=50, deadline=None)
@given(containers().map(sparsely))
def test_effects_of_sparse_features_are_those_of_their_columns(nbest):
    names = nbest.sparse_names.to_pylist()
    weights = {name: k - 1.5 for k, name in enumerate([*names, *nbest.global_names])}
    columns = within_list_sd(nbest.hyp_ptr, nbest.global_sparse.toarray())
    told = {f["name"]: f for f in describe(Model(weights), nbest)["features"]}
    for k, name in enumerate(names):
        assert told[name]["sparse"]
        assert told[name]["effect"] == told[name]["total_effect"] == pytest.approx(abs(weights[name]) * columns[k], abs=1e-6)


# -- files --------------------------------------------------------------------------------------------------------------


def test_a_named_format_gives_way_to_its_richer_form(tmp_path: Path):
    for name, text in (("enriched", ENRICHED), ("forest", FOREST), ("cdec", CDEC)):
        (tmp_path / name).write_text(text)
    options = ReadOptions(weights=WEIGHTS)
    assert read(tmp_path / "enriched", options, format="moses").n_units == read(tmp_path / "enriched", options).n_units > 0
    assert read(tmp_path / "forest", options, format="cdec").text == read(tmp_path / "forest", options).text
    assert read(tmp_path / "cdec", options, format="cdec").n_hyps == CDEC.count("\n")
    with pytest.raises(InputError, match="unknown format 'soup': expected one of auto, jsonl"):
        read(tmp_path / "cdec", options, format="soup")


def test_the_digest_of_a_folder_is_of_names_and_contents(tmp_path: Path):
    seen = set()
    for folder, name, text in (("a", "x", "1"), ("b", "x", "1"), ("c", "x", "2"), ("d", "y", "1")):
        (tmp_path / folder / "in").mkdir(parents=True)
        (tmp_path / folder / "in" / name).write_text(text)
        seen.add(digest(tmp_path / folder))
    assert len(seen) == 3
    with pytest.raises(InputError, match="none"):
        digest(tmp_path / "none")


# -- commands -----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("option", "low"), [("runs", 1), ("rounds", 0), ("trials", 1), ("seed", 0)])
def test_limits_of_compare(option, low):
    assert getattr(CompareOptions(**{option: low}), option) == low
    with pytest.raises(InputError, match=f"{option}: expected {low} or more, found {low - 1}"):
        CompareOptions(**{option: low - 1})


def test_a_table_on_a_terminal_shows_names_as_they_are(capsys):
    _print_rich(["system", "bleu"], [["[bold]x", "1.5"]])
    out = capsys.readouterr().out
    assert "[bold]x" in out
    assert "1.5" in out


def test_the_demo_needs_a_folder(boostfeat, tmp_path: Path):
    (tmp_path / "file").write_text("")
    code, _, err = boostfeat("demo", "-o", tmp_path / "file" / "x")
    assert code == 2
    assert "expected a folder to write, found: Not a directory; choose another with -o" in err


def test_a_bar_is_shown_on_a_terminal_after_half_a_second(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with common.progress("reading", quiet=False) as bar:
        bar.update(1, 3)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(bar, "_started", bar._started - 1)
        bar.update(2, 3, "nearly")
    assert "reading" in capsys.readouterr().err
    assert common.table([]) == ""
