"""The command ``induce``: its flags change a recipe, and say what trees may look at."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from boostfeat.boosting.options import recipe
from boostfeat.features.sets import SETS, TEMPLATES
from boostfeat.lists.nbest import strings
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
    quick = ["--rounds", 2, "--min-occurrences", 20, "--draws", 300, "--pairs", 30, "--templates", "none"]
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
        if name == "default":
            assert found["tree_count"]["trees"] == [0, 1, 2]
            want["rounds"] = found["rounds"]  # that folds chose
        assert {key: found[key] for key in want} == json.loads(json.dumps(want))
    code, _, err = boostfeat(*lists, "--recipe", "soup")
    assert (code, err) == (2, "boostfeat: unknown recipe 'soup': expected one of default, fast, paper\n")


def test_an_interruption_after_the_last_round_says_that_the_model_is_whole(boostfeat, stores, tmp_path, monkeypatch):
    def interrupted(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr("boostfeat.cli.induce._show", interrupted)
    model = tmp_path / "m.json"
    code, _, err = boostfeat("induce", stores / "dev", "-o", model, "--recipe", "paper", "--rounds", 1, "--draws", 200, "-q")
    assert (code, err) == (130, f"boostfeat: interrupted: {model} is whole; what it scores was not shown\n")
    assert len(Model.load(model).trees) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


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


def test_raw_lists_get_the_templates_that_pay(boostfeat, stores, tmp_path):
    """For words on lists as a neural model ranked them, others for phrases; unless lists have some, or none are wanted."""
    from boostfeat.features.groups import templates_that_pay

    lines = [
        f"{s} ||| ▁a ▁b{k} ▁c{(s + k) % 3} ||| WordScores= -0.1 -0.{k + 1} -0.2 -0.05 ||| F0= -0.{k + 4}5 ||| {-(k + 1) / 7:.4f}"
        for s in range(12)
        for k in range(3)
    ]
    (tmp_path / "list").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "refs").write_text("".join(f"a b1 c{(s + 1) % 3}\n" for s in range(12)))
    assert boostfeat("import", tmp_path / "list", "-r", tmp_path / "refs", "-o", tmp_path / "a.nbest")[0] == 0
    raw = read_store(tmp_path / "a.nbest")
    assert templates_that_pay(raw) == "words-basic"
    assert templates_that_pay(replace(raw, meta={"templates": "[]"})) is None
    phrases = read_store(stores / "dev")
    assert templates_that_pay(phrases) == "phrases"
    assert templates_that_pay(phrases, static_only=True) == "sparse-static"
    assert set(SETS["sparse-static"]) == {name for name in SETS["sparse"] if TEMPLATES[name].kind == "static"}
    assert templates_that_pay(replace(phrases, units=replace(phrases.units, src=strings([""] * phrases.n_units)))) is None
    quick = ["--rounds", 1, "--draws", 50, "--pairs", 5, "--min-occurrences", 2, "-o", tmp_path / "m.json"]
    code, _, err = boostfeat("induce", tmp_path / "a.nbest", *quick)
    assert code == 0
    assert "templates: words-basic (--templates none" in err
    assert Model.load(tmp_path / "m.json").plan is not None
    assert boostfeat("rerank", tmp_path / "a.nbest", "-m", tmp_path / "m.json")[0] == 0
    assert boostfeat("induce", tmp_path / "a.nbest", *quick, "--templates", "none")[0] == 0
    assert Model.load(tmp_path / "m.json").plan is None


def test_a_model_that_ranks_nothing_is_said(boostfeat, tmp_path):
    """Lists of one hypothesis, or of equal features: the model that is learnt is empty, and so is what it chooses."""
    texts = ["a b c d", "a b c e", "e d c b"]
    lines = [f"{s} ||| {text} ||| lm= {s} ||| 0\n" for s in range(4) for text in texts]
    (tmp_path / "list").write_text("".join(lines))
    (tmp_path / "ref").write_text("a b c d\n" * 4)
    assert boostfeat("import", tmp_path / "list", "-r", tmp_path / "ref", "-o", tmp_path / "l.nbest")[0] == 0
    code, _, err = boostfeat("induce", tmp_path / "l.nbest", "--level", "global", "--recipe", "fast", "-o", tmp_path / "m.json")
    assert (code, "warning: nothing was learnt: hypotheses of the same list have the same features" in err) == (0, True)
    code, out, err = boostfeat("rerank", tmp_path / "l.nbest", "-m", tmp_path / "m.json")
    assert (code, out) == (0, "a b c d\n" * 4)
    assert "m.json: it has no trees, and no weight but 0: the order of the list stays" in err
