"""Lists with trees as features for the tuners of others, and cdec's weights: what is written reads back as the same numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote_plus

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import build, quick, records
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import InputError
from boostfeat.export import Context, export
from boostfeat.export.cdec_weights import escaped
from boostfeat.formats.moses import plain_lists as moses
from boostfeat.formats.moses.ini import read_weights
from boostfeat.lists.build import HypRecord, ReadOptions, UnitRecord
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.store import write_store
from boostfeat.model.model import Level, Model
from boostfeat.model.tree_columns import augment, augmented_weights
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick


def stump(name: str, feature: str, weight: float = 2.0, *, on: str | None = None) -> Tree:
    children = np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32)
    leaf = "constant" if on is None else "linear"
    return Tree(name, weight, leaf, on, (feature, "", ""), np.array([0.25, 0, 0]), *children, np.array([0, 0.1, -1 / 3]))  # type: ignore[arg-type]


MODEL = Model({"LM0": 0.5, "RelFreq": 1.0}, (stump("tree.000", "LexWeight"), stump("tree.001", "RelFreq", on="LM0")))


def moses_features(field: str) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Dense and sparse features as Moses' extractor and kbmira tell them: a label with '_' is sparse and has one value."""
    dense: dict[str, list[float]] = {}
    sparse: dict[str, float] = {}
    tokens = iter(field.split())
    label = ""
    for token in tokens:
        if token.endswith("=") and "_" in token:
            sparse[token[:-1]] = float(next(tokens))
        elif token.endswith("="):
            label = token[:-1]
            dense[label] = []
        else:
            dense[label].append(float(token))
    return dense, sparse


@pytest.mark.parametrize("level", ["local", "global"])
def test_an_augmented_list_is_read_as_moses_tools_read_it(level: Level, tmp_path: Path) -> None:
    nbest = synthetic_nbest(SyntheticOptions(sentences=7, hyps=9), seed=1)
    model = replace(MODEL, level=level)
    _, check = export(model, "nbest", tmp_path / "list.gz", Context(nbest))
    assert check is not None
    assert check.difference < 1e-12
    back = moses.read(tmp_path / "list.gz", ReadOptions())
    assert back.ids.tolist() == nbest.ids.tolist()
    assert back.text.equals(nbest.text)
    assert np.array_equal(back.score, nbest.score, equal_nan=True)
    expected = augment(nbest, model)
    assert back.global_names == expected.global_names
    np.testing.assert_array_equal(back.global_features, expected.global_features)  # numbers are written to read back exactly
    weighed = back.sum_units(*back.weigh(augmented_weights(model)))
    np.testing.assert_allclose(weighed, model.decision_function(nbest), rtol=1e-12)


def test_features_of_several_values_and_sparse_ones_keep_moses_labels(tmp_path: Path) -> None:
    units = [UnitRecord({"TM0_0": -1.5, "TM0_1": -0.1, "LM0": -7.0}), UnitRecord({"TM0_0": 0.25, "TM0_1": 1e-7, "LM0": 1e30})]
    hyps = [HypRecord(0, f"text {k}", "here", 1.0, units=units) for k in range(20)]
    hyps[3] = hyps[3]._replace(features={"WT_talo~house": 1.0})
    nbest = build(hyps)
    assert nbest.sparse_names.to_pylist() == ["WT_talo~house"]
    export(Model({}, (stump("tree.000", "TM0_0"),)), "nbest", tmp_path / "list", Context(nbest))
    lines = (tmp_path / "list").read_text().splitlines()
    read = [moses_features(line.split(" ||| ")[2]) for line in lines]
    assert {len(line.split(" ||| ")) for line in lines} == {4}
    # 0.1 for the first unit (-1.5 and 0.25 are both at or below 0.25) and for the second
    assert all(dense == {"TM0": [-1.25, -0.1 + 1e-7], "LM0": [1e30], "tree.000": [0.2]} for dense, _ in read)
    assert [sparse for _, sparse in read] == [{"WT_talo~house": 1.0} if k == 3 else {} for k in range(20)]


@quick
@given(records(min_sentences=1))
def test_any_list_is_written_exactly_or_refused_by_name(hyps: list[HypRecord]) -> None:
    """Names of all kinds: whatever Moses' tools would misread is refused, and all else reads back as the same scores."""
    nbest = build(hyps)
    model = Model({"lm": 1.0}, (stump("tree.000", "lm"),), level="global")
    with tempfile.TemporaryDirectory() as folder:
        try:
            _, check = export(model, "nbest", Path(folder) / "list", Context(nbest))
        except InputError as error:
            said = str(error)
            names = [*nbest.global_names, *nbest.sparse_names.to_pylist()]
            assert any(repr(name) in said for name in names) or "text" in said or "words" in said
            return
    assert check is not None
    assert check.passed


@pytest.mark.parametrize(
    ("dense", "sparse", "tree", "message"),
    [
        ("f_x", None, "tree.000", r"feature 'f_x': expected a dense feature's label without '_'"),
        ("f_1", None, "tree.000", r"feature 'f_1': expected a dense feature's label without '_'"),  # no run from f_0
        ("f", "pt:a", "tree.000", r"sparse feature 'pt:a': expected '_' in its name"),
        ("f", None, "tree_0", r"feature 'tree_0': expected a dense feature's label without '_'"),
        ("f", None, "my tree", r"expected feature names without spaces"),
        ("f", None, "f", r"expected a list without a feature 'f'"),
    ],
)
def test_labels_that_moses_tools_misread_are_refused(
    dense: str, sparse: str | None, tree: str, message: str, tmp_path: Path
) -> None:
    nbest = build([HypRecord(0, f"t{k}", "here", features={dense: 1.0}) for k in range(4)])
    if sparse:
        nbest = replace(nbest, sparse_names=strings([sparse]))
    with pytest.raises(InputError, match=message):
        export(Model({}, (stump(tree, dense),), level="global"), "nbest", tmp_path / "list", Context(nbest))
    assert not list(tmp_path.iterdir())


def test_a_list_is_needed() -> None:
    with pytest.raises(InputError, match="--to nbest: expected a list to write, found none"):
        export(MODEL, "nbest", "-")


# ---------------------------------------------------------------------------------------------------------------------
# cdec
# ---------------------------------------------------------------------------------------------------------------------


def test_cdec_has_the_weights_of_features_and_trees(tmp_path: Path) -> None:
    nbest = synthetic_nbest(SyntheticOptions(sentences=5, hyps=6), seed=2)
    _, check = export(MODEL, "cdec", tmp_path / "weights.gz", Context(nbest))
    assert check is not None
    assert check.difference < 1e-12
    assert read_weights([tmp_path / "weights.gz"]) == {"LM0": 0.5, "RelFreq": 1.0, "tree.000": 2.0, "tree.001": 2.0}
    assert (tmp_path / "weights.gz").read_bytes()[:2] == b"\x1f\x8b"
    export(MODEL, "cdec", tmp_path / "weights")
    text = (tmp_path / "weights").read_text()
    assert "tree.000 ... tree.001 (2) are trees: cdec cannot compute them" in text
    assert all(line.startswith("#") or len(line.split(" ")) == 2 for line in text.splitlines())


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), min_size=1))
@example("pt:a b|c=d;e")
@example("# 100%+1")
@example("//x")
def test_names_are_escaped_for_cdec_and_joshua(name: str) -> None:
    """Lines of two words that are no comments, and the same name again by the rule of cdec's UrlDecode."""
    line = escaped(name)
    assert unquote_plus(line) == name
    assert not set(" \t\v\f=;") & set(line)
    assert not line.startswith(("#", "/"))


def test_escaped_names_are_verified(tmp_path: Path) -> None:
    export(Model({"pt:a b|c": 0.5, "LM0": 1.0, "x=y;": 2.0}), "cdec", tmp_path / "w")
    lines = (tmp_path / "w").read_text().splitlines()
    assert lines[1].startswith("# Of names, blanks are written as +")
    assert [line.split()[0] for line in lines[2:]] == ["pt:a+b|c", "LM0", "x%3Dy%3B"]
    with pytest.raises(InputError, match="expected features with names"):
        export(Model({"": 1.0}), "cdec", tmp_path / "none")


def test_a_tree_named_like_a_feature_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found 'LM0' twice"):
        export(Model({"LM0": 1.0}, (stump("LM0", "LM0"),)), "cdec", tmp_path / "w")


# ---------------------------------------------------------------------------------------------------------------------
# The command
# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def given_files(tmp_path: Path) -> tuple[Path, Path, NBest]:
    nbest = synthetic_nbest(SyntheticOptions(sentences=4, hyps=5), seed=3)
    write_store(nbest, tmp_path / "l.nbest")
    MODEL.save(tmp_path / "m.json")
    return tmp_path / "m.json", tmp_path / "l.nbest", nbest


def test_the_command_writes_lists_to_standard_output(
    given_files: tuple[Path, Path, NBest], boostfeat: Callable[..., tuple[int, str, str]]
) -> None:
    model, store, nbest = given_files
    code, _, said = boostfeat("export", model, "--to", "nbest", "--list", store, "-o", model.with_name("out"))
    assert code == 0, said
    assert len(model.with_name("out").read_text().splitlines()) == nbest.n_hyps
    code, _, said = boostfeat(
        "export", model, "--to", "moses", "--list", store, "-o", model.with_name("ff"), "--binary", "probing"
    )
    assert (code, said.count("\n")) == (2, 1)
    assert "--binary: expected --phrase-table FILE with it" in said
