"""The command ``induce``: its flags change a recipe, and say what trees may look at."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from boostfeat.boosting.options import recipe
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model

QUICK = {"min_occurrences": 20, "draws": 300, "keep": 30}


@pytest.fixture(scope="module")
def stores(dev, select, tmp_path_factory):
    """As a Moses list would name them: two static features, the others not known to be."""
    folder = tmp_path_factory.mktemp("stores")
    names = ("TranslationModel0_0", "TranslationModel0_1", *dev.unit_names[2:])
    for name, nbest in (("dev", dev), ("select", select)):
        write_store(replace(nbest, unit_names=names), folder / name)
    return folder


def test_flags_override_the_recipe(boostfeat, stores, tmp_path):
    lists = ["induce", stores / "dev", "--select", stores / "select", "-o", tmp_path / "m.json"]
    quick = ["--rounds", 2, "--min-occurrences", 20, "--draws", 300, "--pairs", 30]
    for more, changes in (
        ([], {}),
        (["--recipe", "fast", "--no-context", "--rule", "best"], {"context": False, "rule": "best"}),
        (["--recipe", "paper", "--resample-pairs", 1, "--max-leaves", 3], {"resample_pairs": 1, "max_leaves": 3}),
    ):
        name = more[1] if more else "default"
        code, _, err = boostfeat(*lists, *quick, *more)
        assert code == 0, err
        want = asdict(recipe(name, **QUICK, rounds=2, **changes))
        want["sparse_l2"] = None if name == "paper" else 1000.0  # there are no sparse features for auto to choose by
        found = Model.load(tmp_path / "m.json").config
        assert {key: found[key] for key in want} == json.loads(json.dumps(want))
    code, _, err = boostfeat(*lists, "--recipe", "soup")
    assert (code, err) == (2, "boostfeat: unknown recipe 'soup': expected one of default, fast, paper\n")


def test_static_only_and_leaves_as_features(boostfeat, stores, tmp_path):
    model, wider = tmp_path / "m.json", tmp_path / "wider"
    lists = ["induce", stores / "dev", "-o", model, "--recipe", "paper", "--rounds", 3, "--min-occurrences", 20]
    assert boostfeat(*lists, "--static-only")[0] == 0
    learnt = Model.load(model)
    static = {"TranslationModel0_0", "TranslationModel0_1"}
    assert len(learnt.trees) == 3
    assert set().union(*(tree.features() for tree in learnt.trees)) <= static
    assert set(learnt.weights) > static
    assert boostfeat("augment", stores / "dev", "-m", model, "-o", wider, "--leaves")[0] == 0
    assert read_store(wider).sparse_names.to_pylist() == [f"tree.{m:03d}.{k}" for m in range(3) for k in range(2)]
    assert boostfeat(*lists, "--tree-features", "LM0,PhraseCount")[0] == 0
    assert set().union(*(tree.features() for tree in Model.load(model).trees)) <= {"LM0", "PhraseCount"}
    code, _, err = boostfeat(*lists, "--static-only", "--tree-features", "LM0")
    assert code == 2
    assert "--tree-features: expected features of the list that trees may test, found 'LM0'" in err
