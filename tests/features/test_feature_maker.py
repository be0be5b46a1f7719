"""A model carries its features: two commands give what the long way gives, everywhere a model is used."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from sklearn.base import clone
from strategies import build
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import BoostReranker
from boostfeat.core.errors import InputError
from boostfeat.features import FeaturePlan, feature_maker, featurizing
from boostfeat.features.feature_maker import FeatureMaker, has_features, plan_of, with_plan
from boostfeat.features.resources import ResourceFiles
from boostfeat.lists.build import HypRecord, UnitRecord, with_own_lines
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.model.model_file import pack, unpack

WHAT = "length,orientation,pt,bi"


@pytest.fixture(scope="module")
def stores(data_stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short lists of data/."""
    folder = tmp_path_factory.mktemp("short")
    for name in ("dev", "select", "test"):
        write_store(read_store(data_stores / f"{name}.nbest")[:40], folder / f"{name}.nbest")
    return folder


@pytest.fixture
def model(boostfeat, stores: Path) -> Path:
    path = stores / "model.json"
    if not path.exists():
        how = ("--select", stores / "select.nbest", "--templates", WHAT, "--rounds", 3, "-q")
        assert boostfeat("induce", stores / "dev.nbest", *how, "-o", path)[0] == 0
    return path


@pytest.fixture
def long_way(boostfeat, stores: Path) -> Path:
    """The featurized test list; the model of the featurized lists is beside it."""
    path = stores / "test.f.nbest"
    if not path.exists():
        assert boostfeat("featurize", stores / "dev.nbest", "--templates", WHAT, "-o", stores / "dev.f.nbest", "-q")[0] == 0
        for name in ("select", "test"):
            how = ("--plan", stores / "dev.f.plan.json", "-o", stores / f"{name}.f.nbest", "-q")
            assert boostfeat("featurize", stores / f"{name}.nbest", *how)[0] == 0
        how = ("--select", stores / "select.f.nbest", "--rounds", 3, "-q", "-o", stores / "long.json")
        assert boostfeat("induce", stores / "dev.f.nbest", *how)[0] == 0
    return path


def test_two_commands_are_the_long_way(boostfeat, stores, model, long_way):
    """The same weights, trees and choices, byte by byte; a list that has the features is taken as it is."""
    short, long = Model.load(model), Model.load(stores / "long.json")
    assert (short.weights, short.trees, short.history) == (long.weights, long.trees, long.history)
    texts = [
        boostfeat("rerank", stores / "test.nbest", "-m", model)[1],
        boostfeat("rerank", long_way, "-m", stores / "long.json")[1],
        boostfeat("rerank", long_way, "-m", model)[1],
    ]
    assert texts[0].count("\n") == 40
    assert texts[0] == texts[1] == texts[2]
    for command in ("score", "show"):
        raw = (stores / "test.nbest", "-m", model) if command == "score" else (model, "--on", stores / "test.nbest")
        made = (long_way, "-m", stores / "long.json") if command == "score" else (stores / "long.json", "--on", long_way)
        outputs = [json.loads(boostfeat(command, *words, "--json")[1]) for words in (raw, made)]
        for key in ("signature", "config"):
            outputs = [{k: v for k, v in output.items() if k != key} for output in outputs]
        assert outputs[0] == outputs[1]


def test_what_a_tuner_learns_carries_its_features_too(boostfeat, stores, tmp_path):
    how = ("--method", "kbmira", "--templates", "pt", "-q", "-o", tmp_path / "m.json")
    assert boostfeat("tune", stores / "dev.nbest", *how)[0] == 0
    model = Model.load(tmp_path / "m.json")
    assert any(name.startswith("pt:") for name in model.weights)
    assert boostfeat("rerank", stores / "test.nbest", "-m", tmp_path / "m.json")[2] == ""
    again = ("tune", stores / "dev.nbest", "--init", tmp_path / "m.json", "-q", "-o", tmp_path / "n.json")
    assert boostfeat(*again)[0] == 0
    assert Model.load(tmp_path / "n.json").plan == model.plan
    code, _, err = boostfeat(*again, "--templates", "bi")
    assert (code, "carries templates of its own" in err) == (2, True)


def test_the_estimator_carries_them_too(stores):
    dev, test = (read_store(stores / f"{name}.nbest") for name in ("dev", "test"))
    fitted = BoostReranker(templates="length,pt", rounds=2).fit(dev, select=test)
    maker = FeatureMaker()
    made, plan = maker.learn(dev, maker.plan("length,pt"))
    by_hand = BoostReranker(rounds=2).fit(made, select=maker.apply(test, plan))
    assert fitted.model_.weights == by_hand.model_.weights
    assert (fitted.predict(test) == by_hand.predict(maker.apply(test, plan))).all()
    by_score = best_choice(test, fitted.decision_function(test))
    assert list(fitted.staged_score(test))[-1] == Scorer(test).gain(by_score, "bleu-sbp")
    assert clone(fitted).templates == "length,pt"


def test_augment_and_export_compute_them(boostfeat, stores, model, tmp_path):
    assert boostfeat("augment", stores / "test.nbest", "-m", model, "-o", tmp_path / "a.nbest", "-q")[0] == 0
    trees = {tree.name for tree in Model.load(model).trees}
    assert trees <= set(read_store(tmp_path / "a.nbest").feature_names)
    code, out, err = boostfeat("export", model, "--to", "json", "-o", tmp_path / "e.json", "--verify", stores / "test.nbest")
    assert code == 0, err
    assert "largest difference 0" in out


def test_a_list_without_what_templates_need_is_refused_by_name(boostfeat, stores, model, tmp_path):
    names = read_store(stores / "test.nbest").feature_names
    hyp = {"text": "b", "features": dict.fromkeys(names, -1.0)}
    (tmp_path / "plain.jsonl").write_text(
        json.dumps({"boostfeat": "nbest/1", "hyp_features": names})
        + "\n"
        + json.dumps({"id": 0, "source": "a", "hyps": [hyp]})
        + "\n"
    )
    assert boostfeat("import", tmp_path / "plain.jsonl", "-o", tmp_path / "plain.nbest", "-q")[0] == 0
    code, out, err = boostfeat("rerank", tmp_path / "plain.nbest", "-m", model)
    assert (code, out) == (2, "")
    assert "template 'length' needs" in err


def test_a_file_that_nothing_reads_is_refused(boostfeat, stores, tmp_path):
    Model({"LM0": 1.0}).save(tmp_path / "m.json")
    for command in (
        ("rerank", stores / "test.nbest", "-m", tmp_path / "m.json"),
        ("tune", stores / "dev.nbest", "-o", tmp_path / "n.json"),
    ):
        code, _, err = boostfeat(*command, "--phrase-table", tmp_path / "absent.gz")
        assert (code, err.count("\n")) == (2, 1)
        assert "--phrase-table does nothing without" in err
        assert "; leave it out" in err


@pytest.mark.parametrize(("unknown", "share"), [([1, 2], None), ([2, 2], "40%"), ([0, 0], None), ([4, 6], "100%")])
def test_a_language_model_that_does_not_know_the_words(unknown, share):
    """Of ten words in two lists, more than three; the lists themselves go on as they were."""
    said: list[str] = []
    maker = SimpleNamespace(files=SimpleNamespace(lm="my.arpa"), say=said.append)
    parts = [
        build([HypRecord(0, "a b c d", "h", units=[UnitRecord({"lm.unknown": float(unknown[0])})])]),
        build([HypRecord(0, "a b", "h", units=[UnitRecord({"lm.unknown": float(unknown[1])})]), HypRecord(0, "a b c d", "h")]),
    ]
    assert [a is b for a, b in zip(FeatureMaker._with_unknown(maker, iter(parts)), parts, strict=True)] == [True, True]
    told = f"my.arpa does not know {share} of the words: is it of the same language, case and tokenisation?"
    assert said == ([told] if share else [])
    said.clear()
    list(FeatureMaker._with_unknown(maker, [build([HypRecord(0, "a", "h", features={"f": 1.0})])]))
    assert said == ["--lm is not used: name the template lm, or the set words, with --templates"]
    said.clear()
    list(FeatureMaker._with_unknown(SimpleNamespace(files=SimpleNamespace(lm=None), say=said.append), parts))
    assert said == []


def test_which_lists_have_all_features(tmp_path):
    """All of them and more, just them, none; some are an error."""
    nbest = build([HypRecord(0, "a", "here", features={"a": 1.0, "b": 2.0})])
    assert has_features(nbest, {"a"}, "here")
    assert has_features(nbest, {"a", "b"}, "here")
    assert has_features(nbest, set(), "here")
    assert not has_features(nbest, {"c", "d"}, "here")
    assert not has_features(nbest, {"c", "d", "e"}, "here")
    with pytest.raises(
        InputError, match=r"^here: expected a raw list or .* found only some of them \(b\); give the imported list$"
    ):
        has_features(nbest, {"b", "c", "d"}, "here")


def test_resources_are_known_by_their_digests(stores, tmp_path):
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("a b\nb c\n")
        (tmp_path / f"other.{side}").write_text("a\nb\n")
    said: list[str] = []
    raw = read_store(stores / "dev.nbest")
    maker = FeatureMaker(ResourceFiles(bitext=(str(tmp_path / "src"), str(tmp_path / "tgt"))))
    _, plan = maker.learn(raw, maker.plan("lexical_weight"))
    assert set(plan.resources) == {"bitext"}
    plan = FeaturePlan.from_json(json.loads(json.dumps(plan.to_json())), "again")
    other = ResourceFiles(bitext=(str(tmp_path / "other.src"), str(tmp_path / "other.tgt")))
    FeatureMaker(other, say=said.append).apply(raw, plan)
    assert said == ["warning: --bitext: expected the file that the model was trained with, found another"]
    with pytest.raises(InputError, match="'lexical_weight' needs"):
        FeatureMaker().apply(raw, plan)


def test_the_file(tmp_path, model, stores):
    loaded = Model.load(model)
    assert plan_of(loaded) == FeaturePlan.from_json(loaded.plan, "plan")
    assert plan_of(loaded).features & set(loaded.weights)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == model.read_bytes()
    bare = Model(loaded.weights, loaded.trees)
    assert bare.signature != loaded.signature  # what it computes from a raw list is part of what it is
    assert with_plan(bare, None) is bare


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({}, "a plan that featurize wrote"),
        ({"boostfeat": "vocab/9"}, "upgrade boostfeat"),
        ({"boostfeat": "vocab/1", "templates": [1]}, "templates"),
        (
            {"boostfeat": "vocab/1", "templates": [], "clusters": {"src": {"a": "1"}, "tgt": {"b": 1}}, "products": []},
            "expected a",
        ),
        (
            {"boostfeat": "vocab/1", "templates": [], "clusters": {"src": {}, "tgt": {}}, "products": [], "resources": 3},
            "expected a",
        ),
        (
            {
                "boostfeat": "vocab/1",
                "templates": [{"name": "frob", "options": {}, "min_count": 1, "hash": 0, "features": ["f"]}],
                "clusters": {"src": {}, "tgt": {}},
                "products": [],
            },
            "needs --plugin",
        ),
    ],
)
def test_hostile_plans_are_one_line(boostfeat, stores, tmp_path, plan, message):
    Model({"LM0": 1.0}, plan=unpack(pack(plan), "x")).save(tmp_path / "m.json")
    code, out, err = boostfeat("rerank", stores / "test.nbest", "-m", tmp_path / "m.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_files_that_no_template_reads_are_named(boostfeat, tmp_path):
    """A phrase table beside templates that do not count in it would change nothing, without a word."""
    write_store(synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2)), tmp_path / "dev.nbest")
    (tmp_path / "words").write_text("a 1\nb 2\n")
    (tmp_path / "own.py").write_text(
        "from boostfeat import template\n@template('own')\n"
        "def own(target):\n    '''One.'''\n    return {'own.one': sum('a' in word for word in target)}\n"
    )
    files = ["--set", f"clusters-src={tmp_path / 'words'}", "--plugin", tmp_path / "own.py"]
    for templates, flag in (("length", "--clusters-src"), ("length,own", "--clusters-src")):
        given = ["featurize", tmp_path / "dev.nbest", "--templates", templates, *files, "-o", tmp_path / "more.nbest"]
        line = f"boostfeat: {flag}: none of the templates reads it; leave it out\n"
        assert boostfeat(*given) == (2, "", line)


def test_a_list_that_taught_model_1_is_told_of(data_stores: Path) -> None:
    """By name and number where most sentences are those whose references taught it; boilerplate is no cause."""
    nbest = read_store(data_stores / "dev.nbest")
    said: list[str] = []
    maker = FeatureMaker(say=said.append)
    learnt, plan = maker.learn(nbest[:12], maker.plan("model1"))
    model = with_plan(Model({"m1.tgt": 1.0}), plan)
    assert plan == FeaturePlan.from_json(plan.to_json(), "plan")
    assert said == []
    assert maker.for_model(learnt, model) is learnt  # its features are of other blocks' references
    for some, known in ((slice(0, 12), 12), (slice(5, 18), 7), (slice(6, 18), None), (slice(12, 30), None)):
        said.clear()
        maker.for_model(nbest[some], model, where="x.nbest")
        list(maker.runs_for_model(nbest[some], model, where="x.nbest"))
        n = some.stop - some.start
        line = f"warning: x.nbest: the references of {known} of its {n} sentences taught template 'model1': the model's scores"
        assert said == ([f"{line} look too good there"] * 2 if known else []), some
    old = {key: value for key, value in plan.to_json().items() if key != "taught_by"}
    said.clear()
    maker.apply(nbest[:12], FeaturePlan.from_json(old, "plan"))  # a plan of 0.2.0 does not know
    assert said == []


def test_score_says_that_the_list_taught_the_model(boostfeat, stores: Path, tmp_path: Path) -> None:
    maker, path = FeatureMaker(), tmp_path / "m1.json"
    _, plan = maker.learn(read_store(stores / "dev.nbest"), maker.plan("model1"))
    with_plan(Model({"m1.tgt": 1.0}), plan).save(path)
    for name, told in (("dev", True), ("test", False)):
        code, _, err = boostfeat("score", stores / f"{name}.nbest", "-m", path)
        assert code == 0
        assert ("the references of 40 of its 40 sentences taught template 'model1'" in err) is told


def test_a_bitext_with_sentences_of_the_list_is_told_of(
    data_stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbest = read_store(data_stores / "dev.nbest")[:12]
    sides = tmp_path / "b.src", tmp_path / "b.ref"
    for path, lines in zip(sides, (nbest.source.to_pylist(), nbest.refs.to_pylist()), strict=True):
        path.write_text("".join(f"{line}\n" for line in ["more", *lines[:3]]), encoding="utf-8")
    said: list[str] = []
    maker = FeatureMaker(ResourceFiles(bitext=(str(sides[0]), str(sides[1]))), say=said.append)
    plan = maker.plan("model1_bitext,lexical_weight")
    maker.learn(nbest, plan)
    lines = "warning: --bitext: 3 lines of it are sentences of the list"
    assert said == [f"{lines}: template 'model1_bitext' learns without them"]
    said.clear()
    model = with_plan(Model({"m1.tgt": 1.0}), maker.learn(nbest[6:], maker.plan("lexical_weight"))[1])
    for some, told in ((slice(0, 6), 3), (slice(2, 4), 1), (slice(3, 6), 0)):
        maker.for_model(nbest[some], model, where="x.nbest")
        list(maker.runs_for_model(nbest[some], model, where="x.nbest"))
        one = "1 line of it is a sentence" if told == 1 else f"{told} lines of it are sentences"
        line = f"warning: --bitext: {one} of x.nbest: by template 'lexical_weight' the model's scores look too good there"
        assert said == [line] * 2 * bool(told)
        said.clear()
    test = read_store(data_stores / "dev.nbest")[3:40]
    for path, lines_of in zip(sides, (test.source.to_pylist(), test.refs.to_pylist()), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines_of[9:]), encoding="utf-8")
    for most in (50_000, 27):
        said.clear()
        monkeypatch.setattr(featurizing, "MOST_LINES", most)
        monkeypatch.setattr(feature_maker, "MOST_LINES", most)
        maker = FeatureMaker(maker.files, say=said.append)
        _, learnt = maker.learn(nbest, maker.plan("model1_bitext"))
        maker.for_model(test[9:], with_plan(Model({"m1.bitext": 1.0}), learnt), where="x.nbest")
        told = "warning: x.nbest: the references of 28 of its 28 sentences taught template 'model1_bitext': the model's scores look too good there"
        short = "--bitext: the model cannot tell test sentences that are in it: of over 27 lines it keeps no trace"
        assert said == [told if most > 28 else short]
        said.clear()
        sources, refs = test.source.to_pylist(), test.refs.to_pylist()
        several = with_own_lines(test, source=sources, refs=[[ref, f"another {ref}"] for ref in refs])
        maker.for_model(several[9:], with_plan(Model({"m1.tgt": 1.0}), learnt), where="x.nbest")
        assert said == [told] * (most > 28)
    assert maker.unused(maker.plan("model1_bitext")) == []
    assert maker.unused(maker.plan("model1")) == ["--bitext"]
    assert maker.unused(maker.learn(nbest, maker.plan("model1_bitext"))[1]) == ["--bitext"]  # what it taught is in the model
