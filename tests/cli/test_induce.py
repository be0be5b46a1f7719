"""The command ``induce``: its flags change a recipe, and say what trees may look at."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from toy_trees import stump

from boostfeat.boosting.boost_options import recipe
from boostfeat.features.templates import SETS, TEMPLATES
from boostfeat.lists.merging import concat
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
    quick = ["--rounds", 2, "--min-occurrences", 20, "--set", "draws=300", "--pairs", 30, "--templates", "none"]
    for more, changes in (
        ([], {}),
        (["--recipe", "fast", "--set", "context=no", "--set", "rule=best"], {"context": False, "rule": "best"}),
        (["--recipe", "paper", "--set", "resample-pairs=1", "--max-leaves", 3], {"resample_pairs": 1, "max_leaves": 3}),
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

    monkeypatch.setattr("boostfeat.cli.learning_commands._show", interrupted)
    model = tmp_path / "m.json"
    code, _, err = boostfeat(
        "induce", stores / "dev", "-o", model, "--recipe", "paper", "--rounds", 1, "--set", "draws=200", "--set", "rule=all", "-q"
    )
    assert (code, err) == (130, f"boostfeat: interrupted: {model} is whole; what it scores was not shown\n")
    assert len(Model.load(model).trees) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


def test_static_only_and_leaves_as_features(boostfeat, stores, tmp_path):
    """Whether templates are tried or not."""
    model, wider = tmp_path / "m.json", tmp_path / "wider"
    quick = ("--rounds", 3, "--min-occurrences", 20, "--set", "rule=all", "--set", "draws=300")
    default = ("induce", stores / "dev", "-o", model, *quick)
    lists = (*default, "--recipe", "paper")
    static = {"TranslationModel0_0", "TranslationModel0_1", "PhraseCount"}
    assert boostfeat(*default, "--set", "static-only=yes")[0] == 0
    learnt = Model.load(model)
    assert learnt.config["templates"]["tried"] == "sparse-static"
    assert set().union(*(tree.features() for tree in learnt.trees)) <= static
    assert boostfeat(*lists, "--set", "static-only=yes")[0] == 0
    learnt = Model.load(model)
    assert len(learnt.trees) == 3
    assert set().union(*(tree.features() for tree in learnt.trees)) <= static
    assert set(learnt.weights) > static
    assert boostfeat("augment", stores / "dev", "-m", model, "-o", wider, "--each-leaf")[0] == 0
    assert read_store(wider).sparse_names.to_pylist() == [f"tree.{m:03d}.{k}" for m in range(3) for k in range(2)]
    assert boostfeat(*lists, "--set", "tree-features=LM0,PhraseCount")[0] == 0
    assert set().union(*(tree.features() for tree in Model.load(model).trees)) <= {"LM0", "PhraseCount"}
    code, _, err = boostfeat(*lists, "--set", "static-only=yes", "--set", "tree-features=LM0")
    assert code == 2
    assert "--set tree-features: expected features of the list that trees may test, found 'LM0'" in err


def test_raw_lists_get_the_fitting_templates(boostfeat, stores, tmp_path):
    """For words on lists as a neural model ranked them, others for phrases; unless lists have some, or none are wanted."""
    from boostfeat.features.groups import fitting_templates

    lines = [
        f"{s} ||| ▁a ▁b{k} ▁c{(s + k) % 3} ||| WordScores= -0.1 -0.{k + 1} -0.2 -0.05 ||| F0= -0.{k + 4}5 ||| {-(k + 1) / 7:.4f}"
        for s in range(12)
        for k in range(3)
    ]
    (tmp_path / "list").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "refs").write_text("".join(f"a b1 c{(s + 1) % 3}\n" for s in range(12)))
    assert boostfeat("import", tmp_path / "list", "-r", tmp_path / "refs", "-o", tmp_path / "a.nbest")[0] == 0
    raw = read_store(tmp_path / "a.nbest")
    assert fitting_templates(replace(raw, meta={"templates": "[]"})) is None
    assert set(SETS["sparse-static"]) == {name for name in SETS["sparse"] if TEMPLATES[name].kind == "static"}
    quick = ["--rounds", 1, "--set", "draws=50", "--pairs", 5, "--min-occurrences", 2, "-o", tmp_path / "m.json"]
    code, _, err = boostfeat("induce", tmp_path / "a.nbest", *quick)
    assert code == 0
    assert re.search(r"templates: (none|words-basic) \(words-basic: [+-]", err)
    assert boostfeat("induce", tmp_path / "a.nbest", *quick, "--templates", "words-basic")[0] == 0
    assert Model.load(tmp_path / "m.json").plan is not None
    assert boostfeat("rerank", tmp_path / "a.nbest", "-m", tmp_path / "m.json")[0] == 0
    assert boostfeat("induce", tmp_path / "a.nbest", *quick, "--templates", "none")[0] == 0
    assert Model.load(tmp_path / "m.json").plan is None


def test_a_model_that_ranks_nothing_is_said(boostfeat, tmp_path):
    """Lists of one hypothesis, or of equal features: the model that is learned is empty, and so is what it chooses."""
    texts = ["a b c d", "a b c e", "e d c b"]
    lines = [f"{s} ||| {text} ||| lm= {s} ||| 0\n" for s in range(4) for text in texts]
    (tmp_path / "list").write_text("".join(lines))
    (tmp_path / "ref").write_text("a b c d\n" * 4)
    assert boostfeat("import", tmp_path / "list", "-r", tmp_path / "ref", "-o", tmp_path / "l.nbest")[0] == 0
    code, _, err = boostfeat("induce", tmp_path / "l.nbest", "--level", "global", "--recipe", "fast", "-o", tmp_path / "m.json")
    assert (code, "warning: nothing was learned: hypotheses of the same list have the same features" in err) == (0, True)
    code, out, err = boostfeat("rerank", tmp_path / "l.nbest", "-m", tmp_path / "m.json")
    assert (code, out) == (0, "a b c d\n" * 4)
    assert "m.json: it has no trees, and no weight but 0: the order of the list stays" in err


COUNT = {
    "trees": [0, 1, 2],
    "bleu-sbp": [20.0, 21.0, 22.5],
    "gain": 2.5,
    "gain_error": 0.126,
    "best": 2,
    "best_gain": 2.5,
    "best_error": 0.2,
}
STEPS = [
    {"stage": "first choice", "score": 20.0, "gain": 0.0, "error": 0.0},
    {"stage": "+ trees", "score": 22.5, "gain": 2.5, "error": 0.126},
]
NOTHING = "warning: nothing was learned: hypotheses of the same list have the same features, or are equally good"
WORSE = "warning: what was learned is worse on {} than the list's own order: the model is LM0 alone"
FEWER = {**COUNT, "gain": 1.0, "gain_error": 0.3}


@pytest.mark.parametrize(
    ("config", "trees", "held_out", "said"),
    [
        ({}, 1, False, []),
        ({}, 0, False, [NOTHING]),
        ({"kept": "LM0", "tree_count": COUNT, "rounds": 1}, 1, False, [WORSE.format("folds")]),
        ({"kept": "LM0"}, 2, True, [WORSE.format("--select")]),
        ({"penalties": {"rule": "best"}, "sparse_l2": 1000.0}, 1, False, ["sparse-l2 1000: best, by folds"]),
        (
            {"tree_count": COUNT, "waterfall": {"metric": "bleu-sbp", "steps": STEPS}},
            2,
            False,
            ["2 trees, by folds: +2.50 ± 0.13 bleu-sbp over none"],
        ),
        (
            {"tree_count": FEWER},
            1,
            False,
            ["1 tree, by folds: +1.00 ± 0.30 bleu-sbp over none; the best number is 2, +2.50 ± 0.20"],
        ),
        ({"decision": {"by": "mbr", "scale": 0.5}}, 1, True, ["minimum Bayes risk decides (--set decide=score: the score does)"]),
    ],
)
def test_what_is_said_of_a_model(boostfeat, stores, tmp_path, monkeypatch, config, trees, held_out, said):
    """Of a fit that is done: a model by hand takes the place of boosting."""
    history = tuple({"round": k, "loss": 1.0 - k / 8, "dev": 20.0 + k, "select": 30.0 + k} for k in range(3))
    made = tuple(replace(stump("constant", None, feature="LM0"), name=name) for name in "tu"[:trees])
    model = Model({}, made, config={"best_round": trees, **config}, history=history)
    monkeypatch.setattr("boostfeat.boosting.induce.induce_on", lambda *lists, **how: model)
    command = ["induce", stores / "dev", "--templates", "none", "--set", "rule=best", "-o", tmp_path / "m.json"]
    code, out, err = boostfeat(*command, *(["--select", stores / "select"] if held_out else []))
    trees_are = "1 tree" if trees == 1 else f"{trees} trees"
    assert code == 0
    assert err.splitlines()[-1 - len(said) : -1] == [f"boostfeat: {line}" for line in said]
    assert err.splitlines()[-1].startswith(f"boostfeat: {trees_are} -> {tmp_path / 'm.json'} in ")
    rows = [re.split("  +", line) for line in out.splitlines()]
    assert rows[:2] == [["bleu-sbp, local", "linear", trees_are], ["loss", "1.0000", f"{1 - trees / 8:.4f}"]]
    assert [row[:2] for row in rows[2:4]][: 1 + held_out] == [["dev", "20.00"], ["select", "30.00"]][: 1 + held_out]
    steps = [["bleu-sbp by folds", "score", "gain"], ["first choice", "20.00", ""], ["+ trees", "22.50", "+2.50 ± 0.13"]]
    assert [[*row, ""][:3] for row in rows[3 + held_out :]] == (steps if "waterfall" in config else [])
    assert Model.load(tmp_path / "m.json").signature == model.signature


@pytest.mark.parametrize("n_init", [0, 2])
def test_an_interrupted_run_keeps_its_best_round(boostfeat, stores, tmp_path, monkeypatch, n_init):
    """Of three rounds the second is the best on select: its tree stays, beside those of --init, and the partial file has all."""
    trees = tuple(replace(stump("constant", None, feature="LM0"), name=f"t{k}") for k in range(n_init + 2))
    Model({"LM0": 1.0}, trees[:n_init]).save(tmp_path / "init.json")
    history = tuple({"round": k, "loss": 1.0, "dev": 1.0, "select": gain} for k, gain in enumerate((1.0, 3.0, 2.0)))

    def interrupted(features, options, *, callback, **how):
        for k in range(3):
            callback(history[k], Model({"LM0": 1.0}, trees[: n_init + k], config={"metric": "bleu"}, history=history[: k + 1]))
        raise KeyboardInterrupt

    monkeypatch.setattr("boostfeat.boosting.induce.induce_on", interrupted)
    init = ["--init", tmp_path / "init.json"] if n_init else []
    model, partial = tmp_path / "m.json", tmp_path / "m.json.partial"
    lists = ["induce", stores / "dev", "--select", stores / "select"]
    command = [*lists, *init, "--recipe", "paper", "--templates", "none", "-o", model, "-q"]
    kept = f"after round 2, {model} holds the best so far; go on with --resume"
    assert boostfeat(*command) == (130, "", f"boostfeat: interrupted: {kept}\n")
    assert [len(Model.load(path).trees) for path in (model, partial)] == [n_init + 1, n_init + 2]
    assert Model.load(model).config["best_round"] == 1


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_that_began_with_something_else_is_not_gone_on_with(boostfeat, stores, tmp_path, monkeypatch, is_finished):
    """Neither from the rounds that an interrupted command kept, nor is a finished file of another command taken for it."""
    monkeypatch.chdir(tmp_path)
    for name in ("dev", "select"):
        Path(name).write_bytes((stores / name).read_bytes())
    Model({"LM0": 1.0}).save("init.json")
    command = "induce dev --recipe paper --rounds 2 --set rule=all --templates none -q -o m.json"
    assert boostfeat(*command.split())[0] == 0
    if not is_finished:
        Path("m.json").rename("m.json.partial")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for there, here, told in (
        ("induce dev", "induce select", "the run began with another LIST"),
        ("induce dev", "induce dev select", "the run began with another LIST"),
        ("-q", "-q --select select", "the run began with another --select"),
        ("-q", "-q --init init.json", "the run began with another --init"),
        ("--templates none", "--templates base", "the run began with --templates none, not base"),
        ("--rounds 2", "--rounds 3", "the run's own option rounds = 2, found 3"),
        ("--rounds 2", "--rounds 2 --set l2=3", "the run's own option l2 = 1.0, found 3.0"),
        ("-q", "-q --seed 2", "the run's own option seed = 0, found 2"),
    ):
        code, out, err = boostfeat(*command.replace(there, here).split(), "--resume")
        assert (code, out, err.count("\n"), told in err) == (2, "", 1, True), err
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("boostfeat.boosting.record.__version__", "0.0.1")
    assert "the run began with another release of boostfeat" in boostfeat(*command.split(), "--resume")[2]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert boostfeat(*command.split(), "--resume")[0] == 0
    assert not Path("m.json.partial").exists()


def test_sentences_that_repeat_are_told(boostfeat, stores, tmp_path):
    """With --select there are no folds that copies could tear apart."""
    twice = ["induce", stores / "dev", stores / "dev", "--recipe", "paper", "--rounds", 1, "-o", tmp_path / "m.json"]
    n = len(read_store(stores / "dev"))
    told = f"boostfeat: {n} sentences of {2 * n} occur more than once: folds keep copies together\n"
    assert [told in boostfeat(*twice, *more)[2] for more in ([], ["--select", stores / "select"])] == [True, False]


def test_what_is_lost_of_a_model_to_start_from_is_told(boostfeat, stores, tmp_path):
    """Its decision and calibration; and that a list which chooses has taught it."""
    init, lists = tmp_path / "init.json", ["induce", stores / "dev", "--init", tmp_path / "init.json", "-o", tmp_path / "m.json"]
    quick = ["--recipe", "paper", "--rounds", 1]
    assert boostfeat("tune", stores / "dev", "-q", "-o", init)[0] == 0
    model = Model.load(init)
    replace(model, config={**model.config, "decision": {"by": "mbr", "scale": 1.0}, "calibration": {"keep_first": 0.5}}).save(
        init
    )
    dropped = f"--init has a decision and a calibration, which {tmp_path / 'm.json'} has not\n"
    assert dropped in boostfeat(*lists, *quick, "--set", "rule=all")[2]
    assert dropped in boostfeat("tune", *lists[1:])[2]
    assert "--init was learned from the same list: folds look too good" in boostfeat(*lists, *quick)[2]
    swapped = [*lists[:1], stores / "select", "--select", stores / "dev", *lists[2:]]
    assert "--init was learned from --select: what is chosen on it looks too good" in boostfeat(*swapped, *quick)[2]


def test_lists_are_learned_from_as_one_and_select_is_not(boostfeat, stores, tmp_path):
    """Two lists give the model of both together; a third with another tokeniser or other features is refused."""
    quick = ["--rounds", 2, "--set", "draws=200", "--pairs", 20, "--set", "min_occurrences=20", "--templates", "none", "-q"]
    both = concat([read_store(stores / "dev"), read_store(stores / "select")])
    write_store(both, tmp_path / "both.nbest")
    models = []
    for lists in ([stores / "dev", stores / "select"], [tmp_path / "both.nbest"]):
        assert boostfeat("induce", *lists, *quick, "-o", tmp_path / "m.json")[0] == 0
        models.append(Model.load(tmp_path / "m.json").to_json())
    assert models[0] == models[1]
    other = replace(read_store(stores / "select"), unit_names=("a", "b", "c", "d", "e", "f"))
    write_store(other, tmp_path / "other.nbest")
    code, _, err = boostfeat("induce", stores / "dev", tmp_path / "other.nbest", *quick, "-o", tmp_path / "m.json")
    assert (code, len(err.splitlines())) == (2, 1)
