"""A real Moses in the loop, where there is one; what lists show of a model's own trees is not learned again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import InputError
from boostfeat.core.files import digest
from boostfeat.formats.moses.ini import Ini
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.model.tree_columns import augment
from boostfeat.search.loop.moses_decoder import MosesDecoder, has_function, without_trees
from boostfeat.trees.tree import Tree

DATA = Path(__file__).parents[3] / "data"
N = 25  # sentences

Command = Callable[..., tuple[int, str, str]]


def some_lines(source: Path, place: Path) -> Path:
    place.write_text("".join(source.read_text().splitlines(keepends=True)[:N]))
    return place


@pytest.mark.slow
def test_three_iterations_with_a_stock_moses(
    moses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boostfeat: Command
) -> None:
    """Iteration 0 has no trees, later ones have them in the table; lists have the same 14 features all along."""
    monkeypatch.chdir(tmp_path)  # where none of the ini's paths begins
    files = [some_lines(DATA / f"dev.{side}", tmp_path / side) for side in ("src", "ref")]
    code, out, err = boostfeat(
        *("loop", files[0], "-r", files[1], "--ini", DATA / "system" / "moses.ini", "--method", "induce"),
        *("--decoder", "moses", "--set", f"moses={moses}", "--nbest", 20, "--max-iterations", 3, "-o", "run", "--json"),
        *("--set", "static-only=yes", "--set", "rounds=3", "--set", "min_occurrences=100", "--set", "patience=0"),
    )
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert [row["trees"] > 0 for row in rows] == [False, True, True, True]
    assert rows[-1]["trees"] > rows[1]["trees"]
    lists = [read_store(tmp_path / "run" / f"iteration-{k:02d}" / "dev.nbest") for k in range(4)]
    assert {nbest.unit_names for nbest in lists} == {lists[0].unit_names}
    assert len(lists[0].unit_names) == 14
    assert rows[-1]["hypotheses"] < sum(nbest.n_hyps for nbest in lists)  # equal ones are one
    for k in (1, 2, 3):  # what Moses adds up is what the model gives: its trees are in the totals
        model, nbest = Model.load(tmp_path / "run" / f"iteration-{k:02d}" / "model.json"), lists[k]
        off = nbest.score - model.decision_function(nbest)
        off -= off[nbest.hyp_ptr[:-1]][nbest.sent_of_hyp]  # unknown words: -100, and no tree
        assert np.median(np.abs(off)) < 1e-3
    table = Ini.read(tmp_path / "run" / "iteration-03" / "moses.ini").features()["TranslationModel0"]
    assert table.arguments["tuneable-components"] == "1,1,1,1,0"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--decoder", "moses", "--set", "moses=no/such/moses"),
            "--set moses: expected the program, found none at no/such/moses",
        ),
        (("--set", "moses=moses"), "--set moses does nothing without --decoder moses"),
        (("--method", "pro", "--set", "static-only=yes"), "--set static-only does nothing without --method induce"),
    ],
)
def test_what_cannot_work_is_refused_before_decoding(flags: tuple[str, ...], message: str, boostfeat: Command) -> None:
    files = (DATA / "tune.src", "-r", DATA / "tune.ref", "--ini", DATA / "system" / "moses.ini")
    code, _, err = boostfeat("loop", *files, "-o", "/nonexistent/run", *flags)
    assert code == 2
    assert message in err


def test_a_stock_moses_takes_trees_over_phrase_pairs_only(tmp_path: Path, boostfeat: Command) -> None:
    stock = tmp_path / "moses"
    stock.write_text("#!/bin/sh\necho Available feature functions: Distortion KENLM\n")
    stock.chmod(0o755)
    files = (DATA / "tune.src", "-r", DATA / "tune.ref", "--ini", DATA / "system" / "moses.ini")
    code, _, err = boostfeat(
        "loop", *files, "-o", tmp_path / "run", "--decoder", "moses", "--set", f"moses={stock}", "--method", "induce"
    )
    assert code == 2
    assert "expected a Moses with the feature function BoostfeatTrees for trees over more than phrase pairs, found none" in err
    assert "give --set static-only=yes" in err


@pytest.mark.slow
def test_two_iterations_through_the_feature_function(
    moses_with_function: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boostfeat: Command
) -> None:
    """Trees look at all features, the table stays as it is, and lists show nothing of the model."""
    monkeypatch.chdir(tmp_path)
    files = [some_lines(DATA / f"dev.{side}", tmp_path / side) for side in ("src", "ref")]
    code, out, err = boostfeat(
        *("loop", files[0], "-r", files[1], "--ini", DATA / "system" / "moses.ini", "--method", "induce", "--decoder", "moses"),
        *("--set", f"moses={moses_with_function}", "--nbest", 20, "--max-iterations", 2, "-o", "run", "--json"),
        *("--set", "rounds=3", "--set", "min_occurrences=100", "--set", "patience=0"),
    )
    assert code == 0, err
    assert [row["trees"] > 0 for row in json.loads(out)["rows"]] == [False, True, True]
    lists = [read_store(tmp_path / "run" / f"iteration-{k:02d}" / "dev.nbest") for k in range(3)]
    assert {nbest.unit_names for nbest in lists} == {lists[0].unit_names}
    for k in (1, 2):
        model, nbest = Model.load(tmp_path / "run" / f"iteration-{k:02d}" / "model.json"), lists[k]
        off = nbest.score - model.decision_function(nbest)
        off -= off[nbest.hyp_ptr[:-1]][nbest.sent_of_hyp]  # unknown words: -100
        assert np.abs(off).max() < 2e-3
    features = Ini.read(tmp_path / "run" / "iteration-02" / "moses.ini").features()
    assert features["BoostfeatTrees0"].arguments["tuneable"] == "false"
    assert features["TranslationModel0"].arguments["num-features"] == "4"


TREE = Tree("t", 1.0, "constant", None, ("T0_0", "", ""), np.array([0.5, 0, 0]), np.array([1, -1, -1], np.int32),
            np.array([2, -1, -1], np.int32), np.array([0, 1.0, 2.0]), np.zeros(0))  # fmt: skip


def test_a_models_own_trees_are_not_learnt_again() -> None:
    """As a decoder lists them: more values of its table, a feature function of their own, or by their names."""
    first = synthetic_nbest(SyntheticOptions(sentences=4, hyps=6, features=4), seed=1)
    root = np.array([0.5, 0, 0]), np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32), np.array([0, 1.0, 2.0])
    tree = Tree("tree.000", 1.0, "constant", None, (first.unit_names[0], "", ""), *root, np.zeros(0))
    model = Model({}, (tree,))
    for name in ("tree.000", "BoostfeatTrees0", "BoostfeatTrees0_3", "Other0_tree.000.1"):
        shown = augment(first, Model({}, (Tree(name, *(getattr(tree, f) for f in tree.__dataclass_fields__ if f != "name")),)))
        assert name in shown.unit_names
        assert without_trees(shown, model, first) == first
    assert without_trees(first, model, first) is first


def test_values_that_the_first_lists_have_stay() -> None:
    """Of a function of two values the third is the model's; one that the first lists lack is the decoder's."""
    first = synthetic_nbest(SyntheticOptions(sentences=2, hyps=3, features=3), seed=1)
    first = replace(first, unit_names=("T0_0", "T0_1", "LM0", "P0"))
    more = {
        "T0_2": False,
        "T0_4": False,
        "LM0_1": False,
        "New0": True,
        "New1_0": True,
        "New1_5": True,
        "x_tree.000": True,
        "x_tree.000.0": False,
    }
    made = Model({}, tuple(replace(TREE, name=name) for name in more))
    own = Model({}, (replace(TREE, name="tree.000"),))
    found = without_trees(augment(first, made), own, first)
    assert found.unit_names == (*first.unit_names, *(name for name, stays in more.items() if stays))
    for name in found.unit_names:
        assert found.global_column(name).tolist() == augment(first, made).global_column(name).tolist()


INI = """[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path={table}
KENLM name=LM0 path=lm order=2

[weight]
TranslationModel0= 0.25 0.75
LM0= 0.5
"""


def program(folder: Path, *, with_function: bool) -> str:
    """What says, as Moses does without arguments, which feature functions it has."""
    path = folder / f"moses{with_function}"
    path.write_text(f"#!/bin/sh\necho Available: Distortion {'BoostfeatTrees' if with_function else ''} KENLM\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lm").touch()
    Path("moses.ini").write_text(INI.format(table="pt"))  # Moses takes pt.gz for it
    with gzip.open("pt.gz", "wt") as stream:
        stream.write("a ||| b ||| 0.5 0.5 ||| 0-0 ||| 1 1 1 ||| |||\n")
    return tmp_path


@pytest.mark.parametrize("with_function", [False, True])
@pytest.mark.parametrize("static_only", [False, True])
def test_how_moses_is_called(folder: Path, with_function: bool, static_only: bool) -> None:
    """Trees of more than phrase pairs go through the feature function, which needs no table; all others need its text."""
    path = program(folder, with_function=with_function)
    how = {"size": 7, "threads": 2, "timeout": 5.0, "static_only": static_only}
    found = MosesDecoder.of(path, "moses.ini", None, **how)
    by_function = with_function and not static_only
    assert found.command == (
        f"{path} -threads 2 -f {{ini}} -i {{input}} -n-best-list {{nbest}} {{size}} distinct -report-segmentation-enriched true"
    )
    assert (found.size, found.timeout, found.ini) == (7, 5.0, "moses.ini")
    assert (found.phrase_table, found.has_function) == ("" if by_function else str(folder / "pt.gz"), with_function)
    assert found.static_only is static_only
    by = {"function": "BoostfeatTrees"} if by_function else {"phrase_table": digest(folder / "pt.gz")}
    made_from = found.made_from()
    assert ({name: made_from[name] for name in by}, made_from["command"]) == (by, "moses")
    assert "-threads" not in MosesDecoder.of(path, "moses.ini", None, **{**how, "threads": 1}).command
    other = MosesDecoder.of(path, "moses.ini", "pt.gz", **how)
    assert other.phrase_table == found.phrase_table


@pytest.mark.parametrize(
    ("static_only", "has_function", "fine"), [(True, False, True), (False, False, False), (False, True, True), (True, True, True)]
)
def test_which_models_a_moses_takes(static_only: bool, has_function: bool, fine: bool) -> None:
    decoder = MosesDecoder("moses -f {ini} -i {input}", 1, ini="moses.ini", static_only=static_only, has_function=has_function)
    with pytest.raises(InputError, match="expected trees of level local, found global"):
        decoder.check_trees("global")
    for check, is_fine, what in (
        (
            lambda: decoder.check_trees("local"),
            fine,
            "for trees over more than phrase pairs, found none; give --set static-only=yes",
        ),
        (decoder.check_templates, has_function, "for features of templates, found none; build it in"),
    ):
        if is_fine:
            check()
            continue
        with pytest.raises(InputError, match=f"the feature function BoostfeatTrees {what}"):
            check()


def test_tables_that_are_no_text_and_programs_that_are_none(folder: Path) -> None:
    path = program(folder, with_function=False)
    how = {"size": 1, "threads": 1, "timeout": None}
    with pytest.raises(InputError, match="--set moses: expected the program, found none at nothere; give its path"):
        MosesDecoder.of("nothere", "moses.ini", None, **how)
    with pytest.raises(InputError, match="--decoder moses: expected --ini FILE of the system, found none"):
        MosesDecoder.of(path, None, None, **how)
    for kind in ("PhraseDictionaryCompact", "PhraseDictionaryOnDisk"):
        Path("moses.ini").write_text(INI.format(table="pt").replace("PhraseDictionaryMemory", kind))
        with pytest.raises(InputError, match=f"expected a phrase table that is a text file, found {kind} pt; give the text"):
            MosesDecoder.of(path, "moses.ini", None, **how)
    assert MosesDecoder.of(path, "moses.ini", "pt", **how).phrase_table == str(folder / "pt.gz")
    assert not has_function("nothere")


def test_the_ini_of_a_model(folder: Path) -> None:
    """Weights alone change the ini; a tree is one more score of the table, which lists do not show."""
    decoder = MosesDecoder("moses -f {ini} -i {input}", 1, ini="moses.ini", phrase_table=str(folder / "pt.gz"))
    for name in ("plain", "trees"):
        Path(name).mkdir()
    decoder.write_weights(Model({"TranslationModel0_0": 2.0, "TranslationModel0_1": -1.0, "LM0": 3.0}), folder / "plain")
    found = Ini.read(folder / "plain" / "moses.ini")
    assert found.weights() == {"TranslationModel0": [2.0, -1.0], "LM0": [3.0]}
    assert found.features()["LM0"].arguments["path"] == str(folder / "lm")
    assert not (folder / "plain" / "moses").exists()
    tree = replace(TREE, feature=("TranslationModel0_0", "", ""), weight=0.5)
    decoder.write_weights(Model({"TranslationModel0_0": 2.0, "TranslationModel0_1": -1.0, "LM0": 3.0}, (tree,)), folder / "trees")
    found = Ini.read(folder / "trees" / "moses.ini")
    assert found.weights() == {"TranslationModel0": [2.0, -1.0, 1.0], "LM0": [3.0]}
    table = found.features()["TranslationModel0"].arguments
    assert (table["num-features"], table["tuneable-components"]) == ("3", "1,1,0")
