"""Templates in the loop: sparse weights are learned from real decoding, batch and online, as new features appear."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.features.feature_maker import FeatureMaker, plan_of, with_plan
from boostfeat.features.plan import Entry, FeaturePlan
from boostfeat.features.templates import SETS
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.search.loop.decoders import DecodingPlace
from boostfeat.search.loop.driver import Loop, LoopOptions
from boostfeat.search.loop.learners import LoopFeatures, TunerLearner
from boostfeat.search.loop.online import OnlineLearner
from boostfeat.tuners.adaptive import Adagrad
from boostfeat.tuners.mira import Mira
from boostfeat.tuners.pro import Pro

WORDS, G13 = 8, "pt,al,del,lo"  # [G13] PT, AL, LO
START = Model({"TranslationModel0_0": 0.2, "TranslationModel0_1": 0.2, "LM0": 0.05, "WordPenalty0": -0.1, "Distortion0": 0.3})


@pytest.fixture(scope="module")
def system(tmp_path_factory) -> Path:
    """8 source words with 3 translations each, whose scores say nothing: only who knows the words can tell the good ones."""
    folder = tmp_path_factory.mktemp("system")
    rng = np.random.default_rng(3)
    good = rng.integers(0, 3, WORDS)
    pairs = itertools.product(range(WORDS), range(3))
    table = (
        f"s{s} ||| t{s}{'abc'[o]} ||| {' '.join(f'{p:.3f}' for p in rng.uniform(0.2, 0.6, 2))} ||| 0-0 ||| 5 5 1 ||| |||\n"
        for s, o in pairs
    )
    (folder / "pt").write_text("".join(table))
    words = [f"t{s}{o}" for s in range(WORDS) for o in "abc"]
    grams = "".join(f"-1.50\t{w}\n" for w in ["<unk>", "</s>", *words])
    (folder / "lm.arpa").write_text(f"\\data\\\nngram 1={len(words) + 3}\n\n\\1-grams:\n-99\t<s>\n{grams}\n\\end\\\n")
    for name, n in (("dev", 10), ("select", 4)):
        sentences = rng.integers(0, WORDS, (n, 5))
        (folder / f"{name}.src").write_text("".join(" ".join(f"s{w}" for w in line) + "\n" for line in sentences))
        (folder / f"{name}.ref").write_text("".join(" ".join(f"t{w}{'abc'[good[w]]}" for w in line) + "\n" for line in sentences))
    START.save(folder / "start.json")
    return folder


def flags(system: Path, run: Path, *more: object) -> list[object]:
    tables = ["--phrase-table", system / "pt", "--lm", system / "lm.arpa", "--set", "distortion-limit=2", "--nbest", 20]
    held_out = ["--select-input", system / "select.src", "--select-ref", system / "select.ref"]
    start = ["--init", system / "start.json"]
    return ["loop", system / "dev.src", "-r", system / "dev.ref", *start, *tables, *held_out, "-o", run, *more]


METHODS = [
    ["--method", "pro"],
    ["--online", "mira", "--set", "c=0.3"],
    ["--online", "rm", "--set", "c=0.3"],
    ["--online", "adagrad", "--set", "eta=0.3", "--set", "batch=4", "--set", "l1=0.01"],
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m[1])
def test_words_are_learnt_by_decoding(boostfeat, system, tmp_path, method):
    """Dense features cannot; with [G13]'s PT, AL and LO held-out sentences are translated as their references are."""
    run = tmp_path / "run"
    code, out, err = boostfeat(*flags(system, run, *method, "--templates", G13, "--max-iterations", 2, "--json", "-q"))
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert rows[0]["select"]["bleu"] < 50
    assert max(row["select"]["bleu"] for row in rows) > 80
    model = Model.load(run / "model.json")
    plan = plan_of(model)
    assert {name.partition(":")[0] for name, w in model.weights.items() if w and ":" in name} >= {"pt", "al"}
    assert {e.name for e in plan.entries} == {"pt", "al", "del", "lo"}
    k = json.loads(out)["picked"]
    listed = read_store(run / f"iteration-{k:02d}" / "dev.nbest")
    assert not len(listed.sparse_names)  # as any decoder's list: who reads it computes the rest
    again = FeatureMaker().for_model(listed, model)
    assert np.abs(model.decision_function(again) - listed.score).max() < 1e-9


def test_the_plan_grows_as_features_appear(decoder, corpora, tmp_path):
    features = LoopFeatures(FeatureMaker(), "pt,bi")
    options = LoopOptions(max_iterations=2, min_weight_change=0, seed=4)
    Loop(corpora, decoder, TunerLearner("pro", Pro()), START, tmp_path / "run", options, features=features).run()
    plans = [plan_of(Model.load(tmp_path / "run" / f"iteration-{k:02d}" / "model.json")) for k in (1, 2)]
    names = [{e.name: set(e.features) for e in plan.entries} for plan in plans]
    assert all(names[0][t] <= names[1][t] for t in ("pt", "bi"))
    assert names[0] != names[1]


def test_trees_look_at_what_search_knows_of_a_phrase(decoder, corpora, tmp_path):
    """Lengths are known with the phrase, and whether it is the first; what the phrase before is like is not."""
    features = LoopFeatures(FeatureMaker(), "length,previous")
    listed = decoder.decode(START, corpora[0], DecodingPlace(tmp_path, 0, 0, 1))
    made, plan = features.plan(listed, START, seed=0, threads=1)
    found = features.tree_features(made, plan)
    assert "len.src" in found
    assert set(listed.unit_names) <= set(found)
    assert [name for name in found if name.startswith("prev.")] == ["prev.none"]
    assert len([name for name in made.unit_names if name.startswith("prev.")]) > 1


def run_online(decoder, corpora, folder, tuner, *, start=START, what=G13, epochs=2, threads=1, resume=False, **more):
    features = LoopFeatures.of(FeatureMaker(), what, start)
    learner = OnlineLearner(tuner, decoder, corpora[0], start, features=features)
    options = LoopOptions(max_iterations=epochs, min_weight_change=0, rescale=False, seed=4)
    return Loop(corpora, decoder, learner, start, folder, options, threads=threads, **more).run(resume=resume)


@pytest.mark.parametrize(
    "tuner", [Mira(shards=2, c=0.2), Adagrad(batch=4, draws=200, eta=0.3, workers=2)], ids=["mira", "adagrad"]
)
def test_threads_and_interruptions_do_not_matter(decoder, corpora, tmp_path, tuner):
    run_online(decoder, corpora, tmp_path / "a", tuner, what="pt,bi,length")
    run_online(decoder, corpora, tmp_path / "b", tuner, what="pt,bi,length", threads=2, epochs=1)
    run_online(decoder, corpora, tmp_path / "b", tuner, what="pt,bi,length", threads=2, resume=True)
    assert (tmp_path / "a" / "model.json").read_bytes() == (tmp_path / "b" / "model.json").read_bytes()
    assert len(Model.load(tmp_path / "a" / "model.json").weights) > 30


def test_a_start_that_carries_templates_goes_on_with_them(decoder, corpora, tmp_path):
    first = run_online(decoder, corpora, tmp_path / "a", Mira(c=0.2), what="pt", epochs=1).model
    assert plan_of(first).entries[0].features
    second = run_online(decoder, corpora, tmp_path / "b", Mira(c=0.2), what=None, start=first, epochs=1).model
    assert {e.name for e in plan_of(second).entries} == {"pt"}
    assert {name for name in first.weights if ":" in name} <= {name for name in second.weights if ":" in name}
    with pytest.raises(InputError, match="carries its own"):
        LoopFeatures.of(FeatureMaker(), "pt", first)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--templates", "mbr"], "template 'mbr': search cannot use it, because it needs the whole list"),
        (["--templates", "nosuch"], "nosuch"),
        (["--online", "pro", "--templates", "pt"], "mira, rm, adagrad"),
        (["--bitext", "a", "b"], "--bitext does nothing without --templates"),
    ],
)
def test_misuse_is_one_line(boostfeat, system, tmp_path, more, message):
    code, _, err = boostfeat(*flags(system, tmp_path / "run", *more, "-q"))
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err


def test_what_references_of_dev_teach_stays_out_of_a_loop() -> None:
    """Its table has seen the references of the lists to come: a set goes without it, a model with it is no start."""
    said: list[str] = []
    maker = FeatureMaker(say=said.append)
    found = [entry.name for entry in LoopFeatures(maker, "phrases").first.entries]
    assert found == [*SETS["sparse"], "cb", "co", "cc"]
    assert (
        "templates left out, which search cannot use: model1 (the references that teach it would be those of the next lists)"
        in said
    )
    with pytest.raises(InputError, match=r"template 'model1': .* the references that teach it"):
        LoopFeatures(maker, "model1")
    plan = FeaturePlan((Entry("model1", {"cut": 5, "table": {}}, features=("m1.tgt",)),), products=())
    start = with_plan(Model({"m1.tgt": 1.0}), plan)
    with pytest.raises(InputError, match=r"--init: .* found 'model1'.*--templates classes"):
        LoopFeatures.of(maker, None, start)
