"""The reference decoder in the loop, batch and online, on a tiny system whose best translations are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_systems import START, write_known_system

from boostfeat.core.errors import InputError
from boostfeat.lists.choices import first_choice
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.search.loop.decoders import DecodingPlace
from boostfeat.search.loop.driver import Loop, LoopOptions
from boostfeat.search.loop.online import Fresh, OnlineLearner
from boostfeat.trees.tree import Tree
from boostfeat.tuners.adaptive import Adagrad
from boostfeat.tuners.base import Groups
from boostfeat.tuners.mira import Mira, RelativeMargin


@pytest.fixture(scope="module")
def system(tmp_path_factory) -> Path:
    """12 source words with 3 translations each, a unigram model, and 12 + 6 sentences; option 0 is what references have."""
    return write_known_system(tmp_path_factory.mktemp("system"))


def flags(system: Path, run: Path, *more: object, select: bool = True) -> list[object]:
    tables = ["--phrase-table", system / "pt", "--lm", system / "lm.arpa", "--set", "distortion-limit=2", "--nbest", 20]
    held_out = ["--select-input", system / "select.src", "--select-ref", system / "select.ref"] if select else []
    start = ["--init", system / "start.json"]
    return ["loop", system / "dev.src", "-r", system / "dev.ref", *start, *tables, *held_out, "-o", run, *more]


# -- batch ----------------------------------------------------------------------------------------------------------------


METHODS = [
    ["--method", "pro"],
    ["--method", "kbmira", "--set", "epochs=5"],
    ["--online", "mira", "--set", "c=0.3"],
    ["--online", "adagrad"],
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: " ".join(m[:2]))
def test_the_known_translations_are_found_by_real_decoding(boostfeat, system, tmp_path, method):
    code, out, err = boostfeat(*flags(system, tmp_path / "run", *method, "--max-iterations", 4, "--json", "-q"))
    assert code == 0, err
    rows = json.loads(out)["rows"]
    best = max(row["select"]["bleu"] for row in rows)
    assert rows[0]["select"]["bleu"] < 50
    assert best > 90  # option 0 of every word in order is 100


def test_trees_are_scored_in_search(boostfeat, system, tmp_path):
    more = [
        *("--method", "induce", "--set", "recipe=paper", "--set", "rounds=2", "--set", "min-occurrences=5"),
        *("--set", "rule=all", "--set", "extra=count.log", "-q", "--json"),
    ]
    code, out, err = boostfeat(*flags(system, tmp_path / "run", *more, "--max-iterations", 1, select=False))
    assert code == 0, err
    assert json.loads(out)["rows"][-1]["trees"] > 0
    model = Model.load(tmp_path / "run" / "model.json")
    nbest = read_store(tmp_path / "run" / "iteration-01" / "dev.nbest")
    assert "count.log" in nbest.unit_names
    np.testing.assert_allclose(nbest.score, model.decision_function(nbest), atol=1e-6)  # the tolerance


def test_a_list_of_the_loop_is_what_the_decoder_says(decoder, corpora, tmp_path):
    nbest = decoder.decode(START, corpora[0], DecodingPlace(tmp_path, 0, 0, threads=2))
    texts = nbest.text.to_pylist()
    for s, h in enumerate(first_choice(nbest)):
        assert texts[h] == decoder.decoder.with_model(START).decode(corpora[0].source[s]).best.text
    assert nbest == decoder.decode(START, corpora[0], DecodingPlace(tmp_path, 0, 0, threads=1))


UNKNOWN = "UnknownWordPenalty0"


@pytest.mark.parametrize("how", [["--method", "pro"], ["--online", "mira"]], ids=["batch", "online"])
def test_the_penalty_of_unknown_words_counts_and_is_not_learnt(boostfeat, system, tmp_path, how):
    """s00 is only known before s01: leaving it as it is would score higher, but for the penalty, which tuners do not see."""
    lines = [line for line in (system / "pt").read_text().splitlines(keepends=True) if not line.startswith("s00 ")]
    (tmp_path / "pt").write_text("".join(lines) + "s00 s01 ||| t0a t1a ||| 0.0001 0.0001 ||| 0-0 1-1 ||| 1 1 1 ||| |||\n")
    (tmp_path / "src").write_text("s00 s01 s02\ns03 new s04\n" * 4)
    (tmp_path / "ref").write_text("t0a t1a t2a\nt3a new t4a\n" * 4)
    for name, weights in (("with", {UNKNOWN: 1.0, **START.weights}), ("without", START.weights)):
        Model(weights).save(tmp_path / f"{name}.json")
        flags = ["--phrase-table", tmp_path / "pt", "--lm", system / "lm.arpa", "--init", tmp_path / f"{name}.json", *how, "-q"]
        run = ["-o", tmp_path / name, "--nbest", 9, "--max-iterations", 1]
        code, _, err = boostfeat("loop", tmp_path / "src", "-r", tmp_path / "ref", *flags, *run)
        assert code == 0, err
    first = {name: read_store(tmp_path / name / "iteration-00" / "dev.nbest") for name in ("with", "without")}
    texts = {name: nbest.text[first_choice(nbest)[0]].as_py().split() for name, nbest in first.items()}
    assert ("s00" in texts["with"], "s00" in texts["without"]) == (False, True)
    assert UNKNOWN not in first["with"].unit_names
    learnt = Model.load(tmp_path / "with" / "iteration-01" / "model.json")
    assert learnt.weights[UNKNOWN] == learnt.config["loop"]["scale"]  # 1, as all at the scale of the start
    assert learnt.weights["LM0"] != START.weights["LM0"]


# -- online ---------------------------------------------------------------------------------------------------------------


def run_online(decoder, corpora, folder, tuner, *, epochs=2, threads=1, start=START, resume=False, **more):
    learner = OnlineLearner(tuner, decoder, corpora[0], start)
    options = LoopOptions(max_iterations=epochs, min_weight_change=0, rescale=False, seed=4)
    return Loop(corpora, decoder, learner, start, folder, options, threads=threads, **more).run(resume=resume)


@pytest.mark.parametrize("shards", [1, 5, 14])
def test_mira_is_the_naive_one(decoder, corpora, tmp_path, shards):
    """Twin of [E12] Algorithm 1 for one epoch: decode, hope and fear by BLEU+1, a PA-I step, the mean of all weights, of shards
    the mean of theirs; of 14 shards of 12 sentences two have none and stay where they were.
    """
    result = run_online(decoder, corpora, tmp_path / "run", Mira(c=0.05, shards=shards), epochs=1)
    from boostfeat.metrics.bleu import corpus_bleu, corpus_rows, sentence_bleu

    fresh = Fresh(decoder, corpora[0], START)
    means, lines, spread = [], {"dev": [], "oracle": [], "prediction": []}, []
    for order in np.array_split(np.random.default_rng([5, 1]).permutation(len(corpora[0].source)), shards):
        w, seen = fresh.vector(), []
        for s in order:
            nbest, features = fresh.lists(w, np.array([s]))
            scores, gains = features.dense @ w, sentence_bleu(nbest.stats)
            hope, fear = np.argmax(scores + gains), np.argmax(scores - gains)
            for name, at in (("dev", np.argmax(scores)), ("oracle", hope), ("prediction", fear)):
                lines[name].append(nbest.stats[at])
            spread += [scores[hope] - scores.min()] if nbest.n_hyps > 1 else []
            df = features.dense[hope] - features.dense[fear]
            loss = scores[fear] - scores[hope] + gains[hope] - gains[fear]
            if loss > 0 and df @ df > 0:
                w = w + min(0.05, loss / (df @ df)) * df
            seen.append(w)
        means.append(np.mean(seen, axis=0) if seen else w)
    expected = np.mean(means, axis=0)
    model = Model.load(tmp_path / "run" / "iteration-01" / "model.json")
    np.testing.assert_allclose([model.weights[n] for n in fresh.names], expected, rtol=1e-9)
    assert result.rows[1]["signature"] == model.signature
    (row,) = model.history  # the curves of [E12] and [EMR13], of real decoding
    for name, rows in lines.items():
        assert row[name] == pytest.approx(100 * corpus_bleu(corpus_rows(np.array(rows)).sum(axis=0)))
    assert (row["spread_mean"], row["spread_sd"]) == pytest.approx((np.mean(spread), np.std(spread)))


@pytest.mark.parametrize("tuner", [RelativeMargin(shards=2), Adagrad(batch=3, draws=200)], ids=["rm", "adagrad"])
def test_online_runs_keep_their_curves(decoder, corpora, tmp_path, tuner):
    """Each epoch has the scores of what it decoded: the oracle of a list is not below its prediction in sum."""
    history = run_online(decoder, corpora, tmp_path / "run", tuner).model.history
    assert [row["epoch"] for row in history] == list(range(1, len(history) + 1)) != []
    for row in history:
        assert row["oracle"] >= row["prediction"]
        assert row["spread_mean"] >= 0
        assert row["spread_sd"] >= 0
        assert 0 <= row["dev"] <= 100
        assert not isinstance(tuner, Adagrad) or row["loss"] > 0  # the mean over pairs


class Spoilt(OnlineLearner):
    """Its second epoch turns all weights around."""

    def learn(self, task):
        model = super().learn(task)
        return model if task.iteration == 1 else replace(model, weights={name: -w for name, w in model.weights.items()})


def test_without_select_the_best_iteration_is_kept_and_that_is_said(decoder, corpora, tmp_path):
    told: list[str] = []
    limits = LoopOptions(max_iterations=2, min_weight_change=0, rescale=False, seed=4)
    learner = Spoilt(Mira(c=0.05), decoder, corpora[0], START)
    result = Loop(corpora[:1], decoder, learner, START, tmp_path / "run", limits, warn=told.append).run()
    scores = [row["dev"]["bleu-sbp"] for row in result.rows]
    assert scores[result.picked] == max(scores) > scores[2]
    assert result.model.signature == result.rows[result.picked]["signature"]
    assert told == [
        f"no sentences to select by: iteration {result.picked} is kept, whose bleu-sbp on the sentences learned from is the best; "
        "give --select for a better choice"
    ]


def test_what_online_learning_cannot_do_is_refused(decoder, corpora):
    with pytest.raises(InputError, match="for mira, found l1"):
        OnlineLearner(Mira(), decoder, corpora[0], START, Groups((("*", {"l1": 2.0}),)))


def test_frozen_weights_stay(decoder, corpora, tmp_path):
    groups = Groups((("LM*", {"freeze": True}),))
    learner = OnlineLearner(Mira(c=0.1), decoder, corpora[0], START, groups)
    Loop(corpora, decoder, learner, START, tmp_path / "run", LoopOptions(max_iterations=1, rescale=False)).run()
    weights = Model.load(tmp_path / "run" / "iteration-01" / "model.json").weights
    assert weights["LM0"] == START.weights["LM0"]
    assert weights["TranslationModel0_0"] != START.weights["TranslationModel0_0"]


def with_tree(weight: float, value: float) -> Model:
    """The start with a tree that tells good translations (ln p > -1) from bad ones."""
    nodes = [{"feature": "TranslationModel0_0", "threshold": -1.0, "left": 1, "right": 2}, {"value": -value}, {"value": value}]
    return replace(START, trees=(Tree.from_json({"name": "t", "weight": weight, "leaf": "constant", "nodes": nodes}, "test"),))


def test_trees_are_weighed_online_too(decoder, corpora, tmp_path):
    start = with_tree(0.1, 1.0)
    run_online(decoder, corpora, tmp_path / "run", Mira(c=0.05), epochs=1, start=start)
    model = Model.load(tmp_path / "run" / "iteration-01" / "model.json")
    assert model.trees[0].weight > 0.1
    assert replace(model.trees[0], weight=0.1) == start.trees[0]


@pytest.mark.parametrize("tuner", [Mira(c=0.05), Adagrad(batch=4)], ids=["mira", "adagrad"])
def test_what_is_out_of_range_is_left_out_and_named_once(decoder, corpora, tmp_path, tuner):
    told, start = [], with_tree(0.0, 1e70)
    model = run_online(decoder, corpora, tmp_path / "run", tuner, start=start, warn=told.append).model
    assert told == ["feature t has values up to 1e+70, outside 1e-60 to 1e+60: it is left out, its weight is 0"]
    assert model.trees[0].weight == 0
    assert 0 < abs(model.weights["TranslationModel0_0"] - START.weights["TranslationModel0_0"]) < 10
