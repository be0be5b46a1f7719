"""Exports mean the same everywhere, up to the order of sums; refusals by name."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import containers
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.core.errors import InputError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.core.files import read_chunks
from boostfeat.core.options import options_of
from boostfeat.export import EXPORTERS, Context, ExportOptions, c, compiling, contents, export, exporter
from boostfeat.export.inputs import MAX_INPUTS, inputs_of
from boostfeat.export.json_model import SCHEMA
from boostfeat.export.target import filled
from boostfeat.export.treelite import combined
from boostfeat.export.verify import difference, expected_scores
from boostfeat.features import FeaturePlan
from boostfeat.features.plan import Entry
from boostfeat.formats import read
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
from boostfeat.model.model import Model, tree_scores
from boostfeat.rerank.candidate_lists import lists_of_candidates
from boostfeat.trees.growing import TreeOptions
from boostfeat.trees.tree import Tree

HAS_CC = any(shutil.which(name) for name in (os.environ.get("CC", "cc").split() or ["cc"])[:1])
needs_cc = pytest.mark.skipif(not HAS_CC, reason="no C compiler")
few = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
TARGETS = ("c", "python", "json", "treelite", "onnx")
WHOLE = ("c", "python")  # of hypotheses, choices too

# -- random models ------------------------------------------------------------------------------------------------------------

FEATURES = ["LM0", "TranslationModel0_1", "a b", 'q"u\\ote', "what??/?!", "ä€😀", "$x$$y", "*/ x /*", "line\nbreak", "%s", ""]
TINY = 5e-324
EDGES = [0.0, -0.0, TINY, -TINY, 2.2e-308, 1e-30, 1.0, -1.0, 0.1, 1e30, -1e30, 3.0]
numbers = st.sampled_from(EDGES) | st.floats(-1e6, 1e6) | st.floats(-3, 3)


@st.composite
def tree_json(draw: st.DrawFn, m: int) -> dict[str, object]:
    """1 to 8 leaves; which leaf is split is drawn, so that chains and balanced trees both occur."""
    leaf = draw(st.sampled_from(["constant", "linear", "affine"]))
    nodes: list[dict[str, object]] = [{}]
    open_leaves = [0]
    for _ in range(draw(st.integers(0, 7))):
        at = open_leaves.pop(draw(st.integers(0, len(open_leaves) - 1)))
        left, right = len(nodes), len(nodes) + 1
        nodes[at] = {"feature": draw(st.sampled_from(FEATURES)), "threshold": draw(numbers), "left": left, "right": right}
        nodes += [{}, {}]
        open_leaves += [left, right]
    for at in open_leaves:
        nodes[at] = {"value": draw(numbers), **({"intercept": draw(numbers)} if leaf == "affine" else {})}
    on = {} if leaf == "constant" else {"on": draw(st.sampled_from(FEATURES))}
    return {"name": f"tree.{m:03d}?", "weight": draw(numbers), "leaf": leaf, **on, "nodes": nodes}


@st.composite
def models(draw: st.DrawFn) -> Model:
    trees = [draw(tree_json(m)) for m in range(draw(st.integers(0, 5)))]
    weights = draw(st.dictionaries(st.sampled_from(FEATURES), numbers, max_size=6))
    return Model(weights, tuple(Tree.from_json(tree, "t") for tree in trees), draw(st.sampled_from(["local", "global"])))


def rows_for(model: Model, names: tuple[str, ...], n: int = 300) -> np.ndarray:
    """Rows [n, d] of values that decide: every threshold, its two neighbours among doubles, the edges, and ordinary numbers."""
    rng = np.random.default_rng(0)
    x = np.empty((n, len(names)))
    for j, name in enumerate(names):
        cuts = [t for tree in model.trees for f, t in zip(tree.feature, tree.threshold, strict=True) if f == name]
        near = [np.nextafter(t, side) for t in cuts for side in (-np.inf, np.inf)]
        x[:, j] = rng.choice(np.array([*cuts, *near, *EDGES, *rng.normal(size=8)]), n)
    return x


def twin(model: Model, names: tuple[str, ...], x: np.ndarray) -> np.ndarray:
    """The library's trees, and the linear part summed one weight after the other, as the exports promise."""
    linear = np.zeros(len(x))
    for j, name in enumerate(names):
        linear += model.weights.get(name, 0.0) * x[:, j]
    return linear + tree_scores(model.trees, FeatureTable(names, x))


def magnitude(model: Model, names: tuple[str, ...], x: np.ndarray) -> np.ndarray:
    """Σ |terms| of each row: what rounding errors of sums in any order are relative to."""
    table = FeatureTable(names, x)
    total = sum((abs(model.weights.get(name, 0.0) * x[:, j]) for j, name in enumerate(names)), np.zeros(len(x)))
    for tree in model.trees:
        at = tree.leaf_of(table)
        on = 1.0 if tree.on is None else abs(table.column(tree.on))
        total += abs(tree.weight) * (abs(tree.intercept[at]) + abs(tree.value[at]) * on)
    return total


# -- C and Python -----------------------------------------------------------------------------------------------------------


def list_of_rows(names: tuple[str, ...], x: np.ndarray, n: int = 10) -> NBest:
    """Lists of n hypotheses, each of one unit with a row of features."""
    builder = Builder(declared_dense=names)
    for k, row in enumerate(x.tolist()):
        unit = UnitRecord(dict(zip(names, row, strict=True)), (0, 1), (0, 1), "a", "b", "0-0")
        builder.add(HypRecord(k // n, "b", "here", 0.0, {}, [unit]))
    return builder.finish()


@needs_cc
@pytest.mark.parametrize("target", ["c", "python"])
@given(model=models())
@settings(few, max_examples=6)
def test_scores_at_thresholds_beside_them_and_at_the_edges(tmp_path_factory, target, model):
    """Differences are of rounding: relative to the sum of all terms."""
    names = inputs_of(model, target)
    x = rows_for(model, names, 60)
    nbest = list_of_rows(names, x)
    expected, place = twin(model, names, x), tmp_path_factory.mktemp("m") / ("m.h" if target == "c" else "m.py")
    export(model, target, place, Context(), verify=False)
    if target == "c":
        found = compiled_lists(place, nbest, c.CSource.of(model, Context()).inputs)[0]
    else:
        lists, module = lists_of_candidates(nbest, set(), set(names)), imported(place)
        found = np.array([score for source, candidates in lists for score in module.scores(candidates, source)])
    assert (np.abs(found - expected) <= 1e-14 * magnitude(model, names, x) + 1e-300).all()


def compiled_lists(header: Path, nbest: NBest, names: tuple[str, ...], prefix: str = "boostfeat"):
    code = header.with_suffix(".c").read_text() + filled("run_lists.c.in", {}, prefix)
    library = compiling.compiled(code, header.parent, compiling.C, target="c", what="source", flags=("-lm",))
    return c.run_lists(library, nbest, names)


def imported(path: Path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = sys.modules["exported"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def odd_model() -> Model:
    split = {"feature": "what??/?!", "threshold": 0.5, "left": 1, "right": 2}
    tree = {"name": '*/ \\\n"t"', "weight": 2, "leaf": "linear", "on": "ä€😀", "nodes": [split, {"value": 1}, {"value": -3}]}
    alone = {"name": "alone", "weight": 1.0, "leaf": "constant", "nodes": [{"value": 7}]}
    return Model(dict.fromkeys(FEATURES, 1.5), (Tree.from_json(tree, "t"), Tree.from_json(alone, "t")))


STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wtrigraphs", "-c")


@pytest.mark.parametrize("command", [("gcc", "-std=c99"), ("gcc", "-std=c17"), ("clang", "-std=c99")], ids=" ".join)
def test_sources_compile_without_a_warning(tmp_path, command):
    """Odd names, no model at all, weights alone, one leaf; their headers together in one file of C++, twice."""
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]}")
    cases = {"boostfeat": odd_model(), "none": Model({}), "linear": Model({"a": 1.0}), "leaf": Model({}, odd_model().trees[1:])}
    for prefix, model in cases.items():
        export(model, "c", tmp_path / f"{prefix}.h", Context(options=ExportOptions(prefix=prefix)))
        done = subprocess.run([*command, *STRICT, f"{prefix}.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "main.cpp").write_text(2 * "".join(f'#include "{prefix}.h"\n' for prefix in cases) + "int used;\n")
    for standard in ("c++98", "c++17") if command[0] == "gcc" else ():
        line = ["g++", f"-std={standard}", *STRICT, "main.cpp"]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@needs_cc
def test_a_header_names_features_and_their_places(tmp_path):
    """Names come back from C as the bytes they were; a feature's place is a constant of the header."""
    export(odd_model(), "c", tmp_path / "odd.h", Context(options=ExportOptions(prefix="odd")))
    text = (tmp_path / "odd.c").read_text()
    assert text.isascii()
    text += "int place(void) { return 100 * ODD_X_TranslationModel0_1 + ODD_N_FEATURES; }\n"
    library = compiling.compiled(text, tmp_path, compiling.C, target="c", what="source", flags=("-lm",))
    library.odd_feature_name.restype = ctypes.c_char_p
    names = sorted(FEATURES)
    assert [library.odd_feature_name(i).decode() for i in range(len(names))] == names
    assert library.odd_feature_name(len(names)) is None
    assert library.place() == 100 * names.index("TranslationModel0_1") + len(names)


@needs_cc
def test_deep_chains(tmp_path):
    """300 leaves on a chain: neither the exporters nor the compiler recurse into it."""
    n = 300
    nodes: list[dict[str, object]] = []
    for k in range(n - 1):
        nodes += [{"feature": "f", "threshold": float(k), "left": 2 * k + 1, "right": 2 * k + 2}, {"value": float(k)}]
    nodes.append({"value": float(n)})
    model = Model({}, (Tree.from_json({"name": "t", "weight": 1.0, "leaf": "constant", "nodes": nodes}, "t"),))
    nbest = list_of_rows(("f",), np.array([[-1.0], [0.0], [0.5], [200.0], [1e9]]))
    assert model.decision_function(nbest).tolist() == [0.0, 0.0, 1.0, 200.0, n]  # the first k with x <= k
    for target, name in (("c", "m.h"), ("python", "m.py")):
        _, check = export(model, target, tmp_path / name, Context(nbest))
        assert check is not None
        assert check.difference == 0.0


def test_a_python_module_alone(tmp_path):
    """It needs neither site packages nor this library, and says what candidates lack."""
    export(odd_model(), "python", tmp_path / "exported.py")
    given = {"text": "a", "features": dict.fromkeys(FEATURES, 0.0) | {"LM0": 2.0}, "units": []}
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import exported as e\n"
        f"print(e.score({given!r}), e.choose([{given!r}]), e.decide([{given!r}]).margin)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('boostfeat', 'numpy')])\n"
        "try: e.score('a')\nexcept ValueError as error: print(error)\n"
    )
    command = [sys.executable, "-I", "-S", "-B", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wrong = "candidates: the trees of the model look at units (phrases, or words); give them"
    assert done.stdout.splitlines() == ["3.0 0 0.0", "[]", wrong]
    size = f"{(tmp_path / 'exported.py').stat().st_size:,} bytes"
    assert size in (tmp_path / "exported.py").read_text().splitlines()[0]


# -- treelite and ONNX --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["treelite", "onnx"])
@given(model=models())
@settings(few, max_examples=15)
def test_vector_leaves_equal_linear_ones(tmp_path_factory, target, model):
    """Only the order of sums differs: 1e-13 of the sum of absolute terms (some 50 roundings of 1e-16). Routing is exact.

    1e-280 is for denormal leaves, whose product with the weight rounds by whole units of 5e-324.
    """
    pytest.importorskip(target)
    if target == "onnx":
        pytest.importorskip("onnxruntime")
    names = inputs_of(model, target)
    if not names:
        return  # no inputs: see the refusals
    x = rows_for(model, names)
    found = exported_scores(target, model, tmp_path_factory.mktemp(target) / "model", x)
    assert np.all(abs(found - twin(model, names, x)) <= 1e-13 * magnitude(model, names, x) + 1e-280)


def exported_scores(target: str, model: Model, out, x: np.ndarray) -> np.ndarray:
    """What the written files give rows x, read as their users would."""
    written = exporter(target).write(model, out, Context())
    if target == "onnx":
        import onnx
        import onnxruntime

        onnx.checker.check_model(onnx.load(str(written[0])), full_check=True)
        session = onnxruntime.InferenceSession(str(written[0]), providers=["CPUExecutionProvider"])
        score, linear = session.run(None, {session.get_inputs()[0].name: x})
        weights = np.array([model.weights.get(name, 0.0) for name in inputs_of(model, target)])
        np.testing.assert_allclose(linear, x @ weights, rtol=1e-9, atol=1e-13 * np.max(abs(x) @ abs(weights), initial=0.0))
        return score
    import treelite

    note = json.loads(written[1].read_text())
    assert note["weights"] == {name: w for name, w in model.weights.items() if w != 0}
    y = treelite.gtil.predict(treelite.Model.deserialize(str(written[0])), x).reshape(len(x), -1)
    columns = [note["features"].index(name) for name in note["slope_features"]]
    return y[:, 0] + (y[:, 1:] * x[:, columns]).sum(axis=1)


@needs_cc
@pytest.mark.parametrize("leaf", ["constant", "linear"])
@pytest.mark.parametrize("weights", [{}, {"LM0": 1.5, "f": -2.0}], ids=["alone", "weights"])
def test_treelites_compiler_reads_the_checkpoint(tmp_path, leaf, weights):
    """tl2cgen takes leaves for 0 that the interpreter reads well (vectors of one), so the interpreter alone proves too little.

    Values whose low 32 bits are all ones are left out: tl2cgen 1.0 keeps its mark for missing values, -1, in those bits.
    """
    tl2cgen, treelite = pytest.importorskip("tl2cgen"), pytest.importorskip("treelite")
    nodes = [{"feature": "LM0", "threshold": 0.5, "left": 1, "right": 2}, {"value": 2.0}, {"value": -3.0}]
    on = {"on": "f"} if leaf == "linear" else {}
    trees = [
        Tree.from_json({"name": f"t{m}", "weight": w, "leaf": leaf, **on, "nodes": nodes}, "t") for m, w in enumerate((0.5, 4.0))
    ]
    model = Model(weights, tuple(trees))
    names = inputs_of(model, "treelite")
    x = rows_for(model, names, 100)
    x = x[(x.view(np.uint64) & 0xFFFFFFFF != 0xFFFFFFFF).all(axis=1)]
    assert 0.5 in x
    checkpoint, note = exporter("treelite").write(model, tmp_path / "m.tl", Context())
    library = str(tmp_path / "m.so")
    tl2cgen.export_lib(treelite.Model.deserialize(str(checkpoint)), toolchain="gcc", libpath=library, params={})
    out = tl2cgen.Predictor(library, nthread=1).predict(tl2cgen.DMatrix(x, dtype="float64"))
    found = combined(out, x, json.loads(note.read_text()))
    assert np.all(abs(found - twin(model, names, x)) <= 1e-13 * magnitude(model, names, x) + 1e-280)
    assert len(np.unique(found)) > 1


# -- JSON -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema():
    """The schema's validator."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    text = json.loads(SCHEMA.read_text())
    validator.check_schema(text)
    return validator(text)


@given(model=models())
@settings(few, max_examples=25)
def test_schema_accepts_every_model(schema, model):
    schema.validate(json.loads(json.dumps(model.to_json())))


def _broken(**change: object) -> dict[str, object]:
    model = json.loads(json.dumps(odd_model().to_json()))
    model["trees"][0] |= change
    return model


@pytest.mark.parametrize(
    "model",
    [
        [],
        {},
        {"boostfeat": "model/4"},
        {"boostfeat": "model/2", "features": 3},
        {"boostfeat": "nbest/1"},
        {"boostfeat": "model/1", "colour": 1},
        {"boostfeat": "model/1", "level": "universal"},
        {"boostfeat": "model/1", "weights": {"a": "1"}},
        {"boostfeat": "model/1", "weights": {"a": True}},
        {"boostfeat": "model/1", "trees": {}},
        {"boostfeat": "model/1", "history": [1]},
        _broken(leaf="quadratic"),
        _broken(leaf="constant"),  # has an "on"
        _broken(leaf="affine"),  # has no intercepts
        _broken(weight="1"),
        _broken(nodes=[]),
        _broken(nodes=[{"value": 1, "intercept": 1}]),
        _broken(nodes=[{"feature": "a", "threshold": 1, "left": 0, "right": 1}]),
        _broken(nodes=[{"feature": "a", "threshold": 1, "left": 1}]),
        _broken(colour=1),
    ],
)
def test_schema_refuses_what_the_library_refuses(schema, model):
    with pytest.raises(InputError):
        Model.from_json(model, "m")
    assert not schema.is_valid(model)


# -- whole lists and the command ----------------------------------------------------------------------------------------------


def list_model(nbest, level="local", leaves="affine") -> Model:
    """A learned model: thresholds lie among the list's values."""
    tree = TreeOptions(leaves=leaves, max_leaves=4, min_occurrences=5)
    return boost(nbest, None, BoostOptions(level=level, rounds=6, tree=tree), seed=0)


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """(folder, list): the folder has the list's store and learned models local.json and global.json."""
    folder, nbest = tmp_path_factory.mktemp("lists"), synthetic_nbest(SyntheticOptions(sentences=40, hyps=20, features=6))
    write_store(nbest, folder / "test.nbest")
    for level in ("local", "global"):
        list_model(nbest, level).save(folder / f"{level}.json")
    return folder, nbest


@pytest.mark.parametrize("level", ["local", "global"])
@pytest.mark.parametrize("target", TARGETS)
def test_command_verifies(boostfeat, lists, tmp_path, target, level):
    need(target)
    folder, nbest = lists
    arguments = ("export", folder / f"{level}.json", "--to", target, "--verify", folder / "test.nbest")
    output = tmp_path / ("model.h" if target == "c" else "model.out")
    code, out, err = boostfeat(*arguments, "-o", output, "--json", "-q")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert sorted(result["files"]) == sorted(map(str, tmp_path.iterdir()))
    rows = (nbest.n_units, "distinct units") if level == "local" and target not in WHOLE else (nbest.n_hyps, "hypotheses")
    assert (result["verified"]["rows"], result["verified"]["what"]) == rows
    assert result["verified"]["difference"] <= 1e-12  # doubles throughout, with some cancellation; the promise is 1e-6
    if level == "global":
        return
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, _ = boostfeat(*arguments, "-o", output)
    assert "largest difference" in out
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first  # the same bytes again


def need(target: str) -> None:
    if target == "c" and not HAS_CC:
        pytest.skip("no C compiler")
    for package in {"treelite": ["treelite"], "onnx": ["onnx", "onnxruntime"]}.get(target, []):
        pytest.importorskip(package)


@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_export_is_an_error_and_leaves_nothing(monkeypatch, lists, tmp_path, target):
    """What is written is another model, off by one unit in 100,000 of one leaf; what was there before stays as it was."""
    need(target)
    folder, nbest = lists
    model = Model.load(folder / "local.json")
    tree = model.trees[0]
    wrong = replace(
        model, trees=(replace(tree, intercept=np.where(tree.left < 0, tree.intercept + 1e-5 / tree.weight, 0)), *model.trees[1:])
    )
    real = exporter(target)
    sabotaged = replace(real, write=lambda m, out, context: real.write(wrong, out, context))
    monkeypatch.setattr("boostfeat.export.exporter", lambda name: sabotaged)
    output = tmp_path / "model.h"
    output.write_text("before")
    with pytest.raises(InputError, match=r"expected the same scores within 1e-06, found a difference of \d(\.\d+)?e-05"):
        export(model, target, output, Context(nbest))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
    export(model, target, output, Context(nbest), verify=False)
    assert output.read_bytes() != b"before"


@given(
    nbest=containers(min_sentences=1),
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(TARGETS),
    level=st.sampled_from(["local", "global"]),
)
@settings(few, max_examples=15)
def test_any_list_verifies(tmp_path_factory, nbest, seed, target, level):
    """Sparse features are inputs like the others, features that the list lacks are 0, lists without units have hypotheses."""
    need(target)
    rng = random.Random(seed)
    names = [*nbest.global_names, *nbest.sparse_names.to_pylist(), "absent"]
    nodes = [
        {"feature": rng.choice(names), "threshold": rng.randint(-8, 8) / 4, "left": 1, "right": 2},
        {"value": 1.0},
        {"value": -2.5},
    ]
    tree = Tree.from_json({"name": "t", "weight": 0.5, "leaf": "linear", "on": rng.choice(names), "nodes": nodes}, "t")
    has_units = level == "global" or nbest.n_occurrences
    model = Model({name: rng.uniform(-1, 1) for name in names}, (tree,) if has_units else (), level)
    _, check = export(model, target, tmp_path_factory.mktemp("any") / "model.h", Context(nbest))
    assert check is not None
    of_units = level == "local" and nbest.n_occurrences and target not in WHOLE
    assert check.rows == (nbest.n_units if of_units else nbest.n_hyps)
    assert check.difference <= 1e-12


@needs_cc
def test_streams_and_compression(boostfeat, lists, tmp_path):
    folder, _ = lists
    made = ("export", folder / "local.json", "--to", "python", "--verify", folder / "test.nbest")
    code, text, err = boostfeat(*made, "-o", "-")
    assert (code, text.splitlines()[0][:14]) == (0, '"""A boostfeat')
    assert "verified on" in err
    boostfeat(*made, "-o", tmp_path / "m.py.gz", "-q")
    assert b"".join(read_chunks(tmp_path / "m.py.gz")).decode() == text
    code, _, err = boostfeat("export", folder / "local.json", "--to", "c", "-o", tmp_path / "m.h.gz")
    assert code == 2
    assert "-o m.h.gz: --to c writes a header and a source; give a name that ends in .h or .c" in err
    code, _, err = boostfeat("export", folder / "local.json", "--to", "treelite", "-o", "-")
    assert code == 2
    assert "model.treelite.json; name one" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "fortran"], "unknown target 'fortran': expected one of c, moses, json, onnx, treelite, python, cdec, nbest"),
        (["--to", "c", "--prefix", "9m"], "--prefix: expected small letters"),
        (["--to", "c", "--no-verify", "--verify", "x"], "--no-verify does nothing without --list"),
        (["--to", "c", "--verify", "missing.nbest"], "missing.nbest"),
        (["--to", "c", "--verify", "a", "--list", "b"], "--list: expected the list of --verify"),
    ],
)
def test_usage_errors_are_one_line(boostfeat, lists, tmp_path, arguments, message):
    code, out, err = boostfeat("export", lists[0] / "local.json", "-o", tmp_path / "out.h", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", EXPORTERS)
def test_every_option_counts_or_is_refused(tmp_path, target):
    """The help names the targets of each option before its colon."""
    for o in options_of(ExportOptions):
        assert (target in o.help.partition(":")[0].split(", ")) == (o.field in exporter(target).uses), o.name
        if o.field not in exporter(target).uses:
            value = True if o.kind == "bool" else ("x",) if o.kind.startswith("tuple") else "x"
            with pytest.raises(InputError, match=f"^{o.typed_name}: expected a target that uses it, found --to {target}"):
                export(Model({}), target, tmp_path / "out", Context(options=ExportOptions(**{o.field: value})))


@pytest.mark.parametrize("target", ["treelite", "onnx"])
def test_too_many_inputs_are_refused_by_name(tmp_path, target):
    """Weights of 0 do not count."""
    need(target)
    fits = {**{f"s{k}": 1.0 for k in range(MAX_INPUTS)}, "zero": 0.0}
    assert len(inputs_of(Model(fits), target)) == MAX_INPUTS
    with pytest.raises(InputError, match=r"at most 4,096 input features, found 4,097, as 'pt:das\|the'; use --to python or json"):
        export(Model({**fits, "pt:das|the": 1.0}), target, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_names_that_c_cannot_hold(tmp_path):
    with pytest.raises(InputError, match=r"a C string cannot hold the name 'a\\x00b'"):
        export(Model({"a\0b": 1.0}), "c", tmp_path / "out.h")


@pytest.mark.parametrize(("target", "package"), [("treelite", "treelite"), ("onnx", "onnx")])
def test_missing_packages_are_named(monkeypatch, tmp_path, target, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"the package {package}, found none; pip install 'boostfeat\[export\]'"):
        export(odd_model(), target, tmp_path / "out")


def test_no_compiler_is_said(monkeypatch, lists, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    folder, nbest = lists
    with pytest.raises(
        InputError, match="expected a C compiler to verify with, found CC=no-such-compiler; set CC, or give --no-verify"
    ):
        export(Model.load(folder / "local.json"), "c", tmp_path / "m.h", Context(nbest))
    assert not list(tmp_path.iterdir())


def test_every_target_uses_options_that_exist():
    for name in EXPORTERS:
        assert set(exporter(name).uses) <= set(vars(ExportOptions())), name


def test_real_units(real, tmp_path):
    """Learnt trees on real phrases: the first 20 lists of fi-en's held-out part."""
    source, refs = ((real / "fi-en" / f"devselect.{x}").read_text().splitlines()[:20] for x in ("fi", "en"))
    lines = next(read_chunks(real / "fi-en" / "devselect.200.enriched.xz", 1 << 23)).splitlines(keepends=True)
    (tmp_path / "head").write_bytes(b"".join(line for line in lines if int(line.split(b" ", 1)[0]) < 20))
    nbest = attach(read(tmp_path / "head", ReadOptions(source=source)), source=source, refs=[refs], name="head")
    model = list_model(nbest)
    assert len(nbest) == 20
    for target in TARGETS:
        need(target)
        _, check = export(model, target, tmp_path / f"{target}.h", Context(nbest))
        assert check is not None
        assert check.rows == (nbest.n_hyps if target in WHOLE else nbest.n_units) > 1000
        assert check.difference <= 1e-13


# -- refusals ---------------------------------------------------------------------------------------------------------------

STUMP = Tree(
    "tree.000", 1.0, "constant", None, ("a", "", ""), np.zeros(3), np.array([1, -1, -1]), np.array([2, -1, -1]), np.arange(3.0)
)


def without_units() -> NBest:
    builder = Builder()
    builder.add(HypRecord(0, "a b", "here", 0.0, {"a": 2.0}))
    return builder.finish()


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
    assert np.isnan(difference(np.array([np.nan, 1.0]), np.ones(2)))


def test_a_folder_of_files_needs_a_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder for --to moses, found a file; name a folder"):
        export(Model({"LM0": 1.0}), "moses", tmp_path / "file")
    with pytest.raises(InputError, match="-o -: expected a folder for --to moses, found a stream"):
        export(Model({"LM0": 1.0}), "moses", "-")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_names_in_c_are_distinct():
    names = c.places(("a b", "a_b", "a.b", "x" * 50, "x" * 60))
    found = [line.split()[0] for line in names.splitlines() if "=" in line]
    assert found == ["$$_X_a_b", "$$_X_a_b_1", "$$_X_a_b_2", "$$_X_" + "x" * 40, "$$_X_" + "x" * 40 + "_4"]


def test_a_compiler_that_fails_and_a_module_that_does_not_run_are_said(lists, tmp_path: Path, monkeypatch):
    folder, nbest = lists
    model = Model.load(folder / "local.json")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(InputError, match=r"false: expected it to compile the source, found: .*; try another CC"):
        export(model, "c", tmp_path / "m.h", Context(nbest))
    real = exporter("python")
    (tmp_path / "model.py").write_text("raise SystemExit('no')")
    with pytest.raises(InputError, match=r"--to python: expected a module that runs, found: .*no"):
        real.verify(model, [tmp_path / "model.py"], Context(nbest))


def test_onnx_needs_an_input(tmp_path: Path):
    pytest.importorskip("onnx")
    with pytest.raises(InputError, match="--to onnx: expected a model with an input feature, found none"):
        export(Model({}), "onnx", tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("target", "beside"),
    [
        ("json", "boostfeat-model.schema.json"),
        ("treelite", "out.json"),
        ("moses", "out/README.txt"),
        ("moses", "out/moses.ini.lines"),
    ],
)
def test_a_file_beside_the_main_one_replaces_no_file_of_others(tmp_path: Path, target: str, beside: str) -> None:
    if target == "treelite":
        pytest.importorskip("treelite")
    model, place = Model({"LM0": 1.0}), tmp_path / beside
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine\n")
    with pytest.raises(InputError, match="this file is not of boostfeat; choose another output, or give --force"):
        export(model, target, tmp_path / "out")
    assert place.read_text() == "mine\n"
    export(model, target, tmp_path / "out", Context(force=True))
    assert place.read_text() != "mine\n"
    export(model, target, tmp_path / "out")  # its own may be replaced


@pytest.mark.parametrize(
    ("target", "plan", "line"),
    [
        ("json", True, "--to json has all of the model: nothing is left out"),
        (
            "onnx",
            True,
            "--to onnx has 2 weights and 0 trees; the caller fills 3 inputs: 1 of the decoder, 1 of templates (length), as 'boostfeat "
            "featurize' computes them, sparse.sum, the sum of 2 weights of the model over a row's sparse features (pt)",
        ),
        ("python", False, "--to python has all of the model (4 weights, 0 trees, 0 templates); candidates bring 4 features"),
        ("c", False, "--to c has all of the model (4 weights, 0 trees, 0 templates); the decoder gives 4 features"),
        ("cdec", False, "--to cdec has 4 weights"),
        (
            "cdec",
            True,
            "--to cdec has 4 weights; the lists have to carry the values of 3 features of templates, which cdec cannot compute",
        ),
    ],
)
def test_a_target_says_what_of_the_model_it_has(target: str, plan: bool, line: str) -> None:
    weights = {"LM0": 1.0, "len.src": 0.5, "pt:a|b": 0.5, "pt:c|d": 0.25}
    entries = Entry("length", features=("len.src",)), Entry("pt", features=("pt:a|b", "pt:c|d"))
    context = Context(plan=FeaturePlan(entries, products=()) if plan else None)
    has = {"c": "search has the score", "python": "", "json": ""}.get(target, "it has scores")
    hint = "('induce --for-decoder' learns a model without that)"
    ending = has and f"; {has} alone, where in the model minimum Bayes risk decides {hint}"
    assert contents(Model(weights, config={"decision": {"by": "mbr", "scale": 1.0}}), target, context) == line + ending
