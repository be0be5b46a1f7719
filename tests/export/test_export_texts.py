"""Models that carry their templates, in programs of others: what the texts of a unit tell is computed there."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_export import needs_cc
from test_export_moses import decoded, stump

from boostfeat.core.errors import InputError
from boostfeat.export import Context, export
from boostfeat.export.inputs import Inputs
from boostfeat.export.python import sources_of
from boostfeat.export.unit_text import (
    CONTEXT_TEMPLATES,
    DENSE_TEMPLATES,
    PAIR_TEMPLATES,
    TEXT,
    HashTable,
    c_text,
    name_key,
    text_names,
)
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.features.feature_maker import plan_of, with_plan
from boostfeat.lists.nbest import NBest, strings
from boostfeat.model.model import Model, unit_table

PLAN = "length,size,characters,unaligned,links,numbers,punctuation,sparse"
WORDS = ("talo", "1", "3 000", "[X]", "[", "]", "[a]b]", "ä€😀", "|", "a|b", "-", "x1y", "$", "?")


@pytest.fixture(scope="module")
def made() -> tuple[NBest, Model]:
    """A list of odd words with all features, and a model that carries its templates: weights and trees over all of them."""
    nbest = decoded(seed=3, sentences=9)
    rng = np.random.default_rng(3)
    odd = [w for word in WORDS for w in word.split()]

    def renamed(text: str) -> str:
        return " ".join(odd[int(word[-1]) % len(odd)] for word in text.split())

    units = nbest.units
    links = [
        " ".join(f"{i}-{j}" for i in reversed(range(len(s.split()))) for j in range(len(t.split())) if rng.random() < 0.4)
        for s, t in zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True)
    ]
    src, tgt = ([renamed(text) for text in column.to_pylist()] for column in (units.src, units.tgt))
    tgt[0], links[0] = "", ""  # a dropped word
    units = replace(units, src=strings(src), tgt=strings(tgt), align=strings(links))
    nbest = replace(nbest, units=units, source=strings([renamed(text) for text in nbest.source.to_pylist()]))
    listed, plan = featurize(nbest, FeaturePlan.of(PLAN, TEMPLATES, min_count=1))
    table = unit_table(listed)
    names = [*listed.unit_names, *listed.sparse_names.to_pylist()[::9]]
    trees = [
        stump(m, name, float(np.median(np.unique(table.column(name)))), *rng.standard_normal(2)) for m, name in enumerate(names)
    ]
    weights = {name: float(rng.standard_normal()) for name in listed.feature_names}
    return listed, with_plan(Model(weights, tuple(trees)), plan)


@needs_cc
@pytest.mark.parametrize("target", ["c", "python", "onnx", "treelite"])
def test_scores_of_texts_are_the_same_everywhere(target: str, made: tuple[NBest, Model], tmp_path: Path) -> None:
    """``--verify`` spoils the inputs that texts tell, so that they must be computed."""
    listed, model = made
    if target in ("onnx", "treelite"):
        pytest.importorskip(target)
        pytest.importorskip("onnxruntime" if target == "onnx" else target)
    _, check = export(model, target, tmp_path / "model", Context(listed, plan=plan_of(model)))
    assert check is not None
    assert check.rows == listed.n_units
    assert check.difference < 1e-9


def test_the_names_that_texts_tell(made: tuple[NBest, Model]) -> None:
    """All dense ones that are in the table, and all sparse ones of the phrase pair: no template is forgotten."""
    _, model = made
    dense, sparse = text_names(model, plan_of(model))
    assert dense == set(TEXT)
    assert {name.partition(":")[0] for name in sparse} == set(PAIR_TEMPLATES)
    assert {
        t.name for t in TEMPLATES.values() if t.kind == "static" and t.name in FeaturePlan.of("sparse", TEMPLATES).to_json()
    } <= set(PAIR_TEMPLATES)
    inputs = Inputs.beside_texts(model, Context(plan=plan_of(model)), "c")
    assert "punct.src" in inputs.names  # is an input: C has no tables of punctuation
    assert not any(name.startswith("pt:") and name not in inputs.texts.slots for name in inputs.names)


@needs_cc
def test_a_unit_is_scored_in_c_and_python_alone(made: tuple[NBest, Model], tmp_path: Path) -> None:
    """As a user would: words and links in, the score out. Headers give no warning."""
    listed, model = made
    plan = plan_of(model)
    export(model, "c", tmp_path / "m.h", Context(plan=plan))
    export(model, "python", tmp_path / "m.py", Context(plan=plan))
    code = '#include "m.h"\nint main(void) { return BOOSTFEAT_N_TREES == 0; }\n'
    (tmp_path / "main.c").write_text(code)
    for command in (["cc", "-std=c99"], ["c++", "-x", "c++", "-std=c++11"]):
        done = subprocess.run(
            [*command, "-Wall", "-Wextra", "-Werror", "-c", "main.c", "-o", "m.o"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[:500]
    module: dict[str, object] = {}
    exec((tmp_path / "m.py").read_text(), module)
    u = 5
    features = dict(zip(listed.unit_names, listed.X[u].tolist(), strict=True)) | {
        name: float(value) for name, value in zip(listed.sparse_names.to_pylist(), listed.X_sparse[u].toarray()[0], strict=True)
    }
    given = {
        name: value
        for name, value in features.items()
        if name not in TEXT and not name.startswith(tuple(f"{t}:" for t in PAIR_TEMPLATES))
    }
    texts = (listed.units.src[u].as_py(), listed.units.tgt[u].as_py(), listed.units.align[u].as_py())
    expected = listed.weigh(dict(model.weights))[0][u] + sum(
        tree.weight * tree.predict(unit_table(listed))[u] for tree in model.trees
    )
    assert module["score_unit"](*texts, given) == pytest.approx(expected)  # type: ignore[operator]


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=12), st.floats(-9, 9), min_size=1, max_size=60))
def test_a_name_is_found_by_its_hash(weights: dict[str, float]) -> None:
    table = HashTable.of(weights, {})
    assert len(table.first) == (1 << table.bits) + 1
    for name, weight in weights.items():
        key = name_key(name)
        begin, end = table.first[key >> (64 - table.bits)], table.first[(key >> (64 - table.bits)) + 1]
        (k,) = [k for k in range(begin, end) if int(table.keys[k]) == key]
        assert table.weights[k] == weight


def test_names_of_one_hash_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boostfeat.export.unit_text.name_key", lambda name: 7)
    with pytest.raises(InputError, match="expected names with different hashes"):
        HashTable.of({"a": 1.0, "b": 1.0}, {})


@needs_cc
@pytest.mark.parametrize("target", ["c", "python"])
def test_thousands_of_contextual_weights_are_one_input(target: str, made: tuple[NBest, Model], tmp_path: Path) -> None:
    """Those of trees too: they are inputs of their own, whose weights are in the sum."""
    listed, model = made
    many = replace(model, weights={**model.weights, **{f"bi:a|{k}": 1.0 for k in range(5000)}})
    said: list[str] = []
    _, check = export(many, target, tmp_path / "out", Context(listed, plan=plan_of(model), tell=said.append))
    assert check is not None
    assert (check.rows, check.passed) == (listed.n_units, True)
    assert check.difference < 1e-9
    assert "sparse.sum" in (tmp_path / "out").read_text()
    assert many.signature in (tmp_path / "out").read_text()
    n = sum(name.partition(":")[0] in ("bi", "lo", "cx") for name, weight in many.weights.items() if weight)
    assert f"; sparse.sum is an input that the caller fills: the sum of {n:,} weights (bi" in said[0]


def test_templates_have_one_python_function_and_one_c_text() -> None:
    """Those that have a C text, by their names; the Python module holds the functions themselves."""
    assert {*PAIR_TEMPLATES, *DENSE_TEMPLATES, *CONTEXT_TEMPLATES} <= set(TEMPLATES)
    assert {name for template in DENSE_TEMPLATES for name in TEMPLATES[template].columns} == set(TEXT)
    assert all(f"$$_{name.upper()} = " in c_text() for name in (*PAIR_TEMPLATES, *CONTEXT_TEMPLATES))
    for name in (*PAIR_TEMPLATES, *DENSE_TEMPLATES):
        sources = sources_of(TEMPLATES[name].compute)
        module = {"re": re}
        exec("from __future__ import annotations\n" + "\n".join(sources.values()), module)
        own = module[TEMPLATES[name].compute.__name__]
        assert own.__code__.co_code == TEMPLATES[name].compute.__code__.co_code
