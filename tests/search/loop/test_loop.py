"""``boostfeat loop``: equal to tuning on merged lists by hand, every way a decoder can fail, kill -9 at any moment."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions, recipe
from boostfeat.cli.learning_commands import make_tuner
from boostfeat.core.errors import InputError
from boostfeat.formats import write
from boostfeat.lists.choices import Scorer, decoder_choice
from boostfeat.lists.merging import merge
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.losses.pairs import PairOptions
from boostfeat.metrics.significance import approximate_randomisation
from boostfeat.model.model import Model
from boostfeat.search.loop.decoders import CommandDecoder, ParallelText, read_start
from boostfeat.search.loop.driver import (
    Loop,
    LoopFolder,
    LoopOptions,
    decoded_gains,
    pick,
    picked_by,
    stop_reason,
    table_rows,
)
from boostfeat.search.loop.driver import test_lines as lines_of_tests
from boostfeat.search.loop.learners import TreeLearner, TunerLearner, rescaled, scale_to, share_change, tune
from boostfeat.trees.growing import TreeOptions
from boostfeat.trees.tree import Tree
from boostfeat.tuners import TUNERS
from boostfeat.tuners.base import Run

SIZES = SyntheticOptions(sentences=30, hyps=50, features=5)
START = Model({"RelFreq": 0.2, "LexWeight": 0.3, "LM0": 0.5})
TREE = Tree.from_json({"name": "t", "weight": 1.0, "leaf": "constant", "nodes": [{"value": 1.0}]}, "test")

# a decoder that is a fixed pool: it ranks each sentence's hypotheses by the weights it is given and lists the best
FAKE = """
import sys
mode, pool, weights, out, size = sys.argv[1:6]
w = {}
for line in open(weights):
    name, value = line.split()
    w[name.rstrip("=")] = float(value)
lists = {}
for line in open(pool):
    sent, text, features = line.rstrip("\\n").split(" ||| ")[:3]
    words, values, name = features.split(), {}, None
    for word in words:
        if word.endswith("="):
            name = word[:-1]
        else:
            values[name] = float(word)
    score = sum(w.get(n, 0.0) * v for n, v in values.items())
    lists.setdefault(int(sent), []).append((-score, len(lists.get(int(sent), [])), text, features))
stream = sys.stdout if out == "-" else open(out, "w")
for sent in sorted(lists):
    for score, _, text, features in sorted(lists[sent])[: int(size)]:
        stream.write(f"{sent} ||| {text} ||| {features} ||| {-score!r}\\n")
stream.flush()
sys.stderr.write("decoded\\n")
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """dev and select as pools, sources and references, and the fake decoder."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "fake.py").write_text(FAKE)
    for seed, name in enumerate(("dev", "select")):
        pool = synthetic_nbest(SIZES, seed=seed)
        with open(folder / f"{name}.pool", "wb") as stream:
            write(pool, stream, format="moses")
        (folder / f"{name}.src").write_text("".join(line + "\n" for line in pool.source.to_pylist()))
        (folder / f"{name}.ref").write_text("".join(line + "\n" for line in pool.refs.to_pylist()))
    START.save(folder / "start.json")
    return folder


def command(world: Path, mode: str = "good", out: str = "{nbest}") -> str:
    words = [sys.executable, "-S", "-E", world / "fake.py", mode, world / "dev.pool", "{weights}", out, "{size}"]
    return shlex.join(map(str, words))


def arguments(world: Path, run: Path, *more: object, decoder: str | None = None) -> list[object]:
    given = [
        *("loop", world / "dev.src", "-r", world / "dev.ref", "--init", world / "start.json", "--set"),
        "weights-format=name-value",
    ]
    return [*given, "--decoder", decoder or command(world), "--nbest", 20, "-o", run, *more]


@dataclass(frozen=True)
class PoolDecoder:
    """The same in this process, for models with trees too."""

    pools: dict[str, NBest]
    size: int = 20

    def check_trees(self, level: str) -> None:
        assert level == "local"

    def made_from(self) -> dict[str, Any]:
        return {"size": self.size}

    def decode(self, model: Model, corpus: ParallelText, place: Any) -> NBest:
        pool = self.pools[corpus.name]
        scores = model.decision_function(pool)
        order = np.lexsort((np.arange(len(scores)), -scores, pool.sent_of_hyp))
        return replace(pool.take_hyps(order, pool.hyp_ptr), score=scores[order]).truncate(self.size)


def corpora_of(pools: dict[str, NBest]) -> list[ParallelText]:
    return [ParallelText(n, tuple(p.source.to_pylist()), (tuple(p.refs.to_pylist()),)) for n, p in pools.items()]


@pytest.fixture(scope="module")
def pools() -> dict[str, NBest]:
    return {name: synthetic_nbest(SIZES, seed=seed) for seed, name in enumerate(("dev", "select"))}


# -- the loop is what one would do by hand ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", TUNERS)
def test_every_tuner_is_the_same_as_by_hand_on_the_merged_lists(pools, tmp_path, method):
    """Twin: decode, merge of all lists at once, fit from the weights before; seeds rise by one an iteration."""
    pools = {"dev": pools["dev"].take(np.arange(10))}
    decoder, corpora = PoolDecoder(pools), corpora_of(pools)
    tuner = make_tuner(method, {} if method in ("pro", "mert") else {"epochs": 2})
    options = LoopOptions(max_iterations=3, rescale=False, min_weight_change=0, seed=5)
    result = Loop(corpora, decoder, TunerLearner(method, tuner), START, tmp_path / "run", options).run()
    model, lists, n = START, [], len(result.rows)
    for k in range(n):
        lists.append(decoder.decode(model, corpora[0], None))
        assert result.rows[k]["dev"] == decoded_gains(lists[-1], "bleu")
        if k + 1 < n:
            merged = merge(lists)
            assert result.rows[k]["hypotheses"] == merged.n_hyps
            run = Run(seed=5 + k + 1, init={n: w for n, w in model.weights.items() if w})
            model = tuner.fit(merged, None, run)
    assert n > 2, result.reason
    assert dict(result.model.weights) == dict(model.weights)


def test_boosting_goes_on_from_its_trees_and_learns_the_planted_one(pools, tmp_path):
    pools, decoder = {"dev": pools["dev"]}, PoolDecoder(pools)
    options = BoostOptions(rounds=2, rule="all", tree=TreeOptions(min_occurrences=20), pairs=PairOptions(draws=500))
    result = Loop(corpora_of(pools), decoder, TreeLearner(options), START, tmp_path / "run", LoopOptions(max_iterations=2)).run()
    first, last = (Model.load(tmp_path / "run" / f"iteration-0{k}" / "model.json") for k in (1, 2))
    by_hand = boost(merge([decoder.decode(START, corpora_of(pools)[0], None)]), None, options, seed=1)
    unscaled = rescaled(first, 1 / first.config["loop"]["scale"])
    assert (unscaled.weights, unscaled.trees) == (by_hand.weights, by_hand.trees)
    assert [row["trees"] for row in result.rows] == [0, 2, 4]
    for old, new in zip(first.trees, last.trees, strict=False):
        assert replace(old, weight=0.0) == replace(new, weight=0.0)  # kept, only weighed anew
    assert "PhraseCount" in set().union(*(tree.features() for tree in last.trees))  # what synthetic.worth branches on
    assert result.rows[2]["dev"]["bleu-sbp"] > result.rows[0]["dev"]["bleu-sbp"]


def test_the_loop_learns_what_the_command_learns(boostfeat, pools, tmp_path):
    """With the decoder's list and the iteration's seed: weights and trees of the default, bit by bit, before they are scaled."""
    learner = TreeLearner(recipe(rounds=3, min_occurrences=20, draws=200, pairs=20))
    decoder = PoolDecoder(pools)
    Loop(corpora_of({"dev": pools["dev"]}), decoder, learner, START, tmp_path / "run", LoopOptions(max_iterations=1)).run()
    looped = Model.load(tmp_path / "run" / "iteration-01" / "model.json")
    settings = ("--rounds", 3, "--set", "min_occurrences=20", "--set", "draws=200", "--pairs", 20, "--seed", 1)
    write_store(merge([read_store(tmp_path / "run" / "iteration-00" / "dev.nbest")]), tmp_path / "dev.nbest")
    assert boostfeat("induce", tmp_path / "dev.nbest", "--templates", "none", *settings, "-o", tmp_path / "m.json", "-q")[0] == 0
    command = Model.load(tmp_path / "m.json")
    unscaled = rescaled(looped, 1 / looped.config["loop"]["scale"])
    assert (unscaled.weights, unscaled.trees) == (command.weights, command.trees)
    assert looped.config["tree_count"] == command.config["tree_count"]


def test_trees_of_the_start_are_weighed_by_a_tuner(pools, tmp_path):
    dev = pools["dev"]
    start = boost(dev, None, BoostOptions(rounds=2, tree=TreeOptions(min_occurrences=20)))
    start = replace(start, weights={**start.weights, "Unlisted": 3.0})
    tuned = tune(make_tuner("pro", {}), dev, None, start, Run(seed=1))
    assert [t.name for t in tuned.trees] == [t.name for t in start.trees]
    assert [t.weight for t in tuned.trees] != [t.weight for t in start.trees]
    assert tuned.weights["Unlisted"] == 3.0  # no list shows it: it stays


@pytest.mark.parametrize(("accumulate", "expected"), [(-1, [0, 1, 2]), (0, [2]), (1, [1, 2])])
def test_lists_that_are_learnt_from(pools, tmp_path, accumulate, expected):
    seen = []

    class Spy(TunerLearner):
        def learn(self, task):
            seen.append(task.dev)
            return super().learn(task)

    options = LoopOptions(max_iterations=3, accumulate=accumulate, min_weight_change=0)
    tuner = make_tuner("pro", {"draws": 500})
    Loop(corpora_of({"dev": pools["dev"]}), PoolDecoder(pools), Spy("pro", tuner), START, tmp_path / "r", options).run()
    lists = [read_store(tmp_path / "r" / f"iteration-0{k}" / "dev.nbest") for k in expected]
    assert seen[2] == merge(lists)


def row(k: int, select: float, change: float = 1.0, new: int = 1) -> dict[str, Any]:
    return {
        "iteration": k,
        "dev": {"bleu": -select},
        "select": {"bleu": select},
        "weight_change": change if k else None,
        "new": new,
    }


STOPS = [
    ([row(0, 1, new=0)], None),  # the start never ends it
    ([row(0, 1), row(1, 2, change=0.0009)], "no weight's share changes by 0.001"),
    ([row(0, 1), row(1, 2, change=0.001)], None),
    ([row(0, 1), row(1, 2, new=0)], "decoding finds no new hypotheses"),
    ([row(0, 9), row(1, 2)], None),
    ([row(0, 9), row(1, 2), row(2, 9)], "2 iterations without a better bleu on select"),  # the first of equals is the best
    ([row(0, 1), row(1, 9), row(2, 2)], None),
    ([row(0, 1), row(1, 2), row(2, 3)], None),
    ([row(0, 1), row(1, 2), row(2, 3), row(3, 4)], "3 iterations"),
]


@pytest.mark.parametrize(("rows", "reason"), STOPS)
def test_when_it_ends(rows, reason):
    options = LoopOptions(max_iterations=3, patience=2, metric="bleu", min_weight_change=0.001)
    assert stop_reason(rows, options) == reason
    without = [{name: value for name, value in row.items() if name != "select"} for row in rows]
    assert stop_reason(without, options) == (None if reason and "better" in reason else reason)


def test_lower_is_better_of_an_error_rate():
    rows = [{**row(k, 0), "select": {"ter": ter}, "dev": {"ter": ter}} for k, ter in enumerate((50.0, 40.0, 40.0, 60.0))]
    assert pick(rows, "select", "ter") == 1
    assert (
        stop_reason(rows, LoopOptions(metric="ter", patience=2, max_iterations=9))
        == "2 iterations without a better ter on select"
    )
    assert stop_reason(rows, LoopOptions(metric="ter", patience=3, max_iterations=9)) is None


def test_the_table_that_people_read():
    rows = [
        {**row(0, 1.0), "dev": {"bleu": 12.345, "ter": 50.0}, "select": {"bleu": 1.0, "ter": 60.0}},
        row(1, 2.0, change=0.0123456),
    ]
    rows[1] |= {"dev": {"bleu": 13.0, "ter": 49.0}, "select": {"bleu": 2.0, "ter": 59.0}}
    for found in rows:
        found |= {"new": 1234, "hypotheses": 12345, "trees": 0, "seconds": {"learn": 0.06, "decode": 12.34}}
    header, cells = table_rows(rows, 1)
    assert header == ["iteration", "dev BLEU", "dev TER", "select BLEU", "select TER", "change", "new", "hypotheses", "trees", "learn s", "decode s", ""]  # fmt: skip
    assert cells == [
        ["0", "12.35", "50.00", "1.00", "60.00", "", "1,234", "12,345", "0", "0.1", "12.3", ""],
        ["1", "13.00", "49.00", "2.00", "59.00", "0.01235", "1,234", "12,345", "0", "0.1", "12.3", "*"],
    ]
    del rows[0]["select"], rows[1]["select"]
    assert table_rows(rows, 0)[0][:4] == ["iteration", "dev BLEU", "dev TER", "change"]
    assert [cells[-1] for cells in table_rows(rows, 0)[1]] == ["*", ""]
    tests = [{"name": "test-1", "start": {"ter": 50.126}, "picked": {"ter": 49.0}, "p_value": 0.01236}]
    assert lines_of_tests(tests, "ter") == ["test-1 TER: 50.13 at the start, 49.00 now, p 0.0124"]


@pytest.mark.parametrize(("how", "expected"), [("select", 1), ("dev", 0), ("last", 2)])
def test_which_model_is_given(how, expected):
    assert pick([row(0, 1), row(1, 3), row(2, 2)], how, "bleu") == expected


@pytest.mark.parametrize(
    ("how", "has_select", "online", "expected"),
    [
        ("auto", True, False, "select"),
        ("auto", True, True, "select"),
        ("auto", False, False, "last"),
        ("auto", False, True, "dev"),
        ("last", False, True, "last"),
    ],
)
def test_what_picks_the_model(how, has_select, online, expected):
    assert picked_by(LoopOptions(pick=how), has_select=has_select, online=online) == expected


def test_change_is_of_shares_and_counts_trees():
    assert share_change(Model({"a": 1, "b": 3}), Model({"a": 10, "b": 30})) == 0
    assert share_change(Model({"a": 1, "b": 3}), Model({"a": 2, "b": 2})) == 0.25
    assert share_change(Model({"a": 1}), Model({"a": 3}, (TREE,))) == 0.25
    assert share_change(Model({"a": 3}, (TREE,)), Model({"a": 1})) == 0.25
    assert share_change(Model({"a": 1}), Model({"b": 1})) == 1
    assert share_change(Model({}), Model({})) == 0
    assert share_change(Model({"a": 1, "UnknownWordPenalty0": 1}), Model({"a": 2, "UnknownWordPenalty0": 5})) == 0


def test_rescaling_is_exact_and_near_the_start():
    model = Model({"a": 0.1, "b": -7.3, "new": 1e9}, (TREE,))
    factor = scale_to(model, Model({"a": 0.3, "b": 0.7}))
    assert np.log2(factor) == round(np.log2(factor))
    total = sum(abs(factor * model.weights[n]) for n in ("a", "b"))
    assert 2**-0.5 <= total <= 2**0.5
    assert rescaled(rescaled(model, factor), 1 / factor) == model
    assert rescaled(model, 4.0).weights == {name: 4 * w for name, w in model.weights.items()}
    assert [tree.weight for tree in rescaled(model, 4.0).trees] == [4 * tree.weight for tree in model.trees]
    assert scale_to(Model({}), model) == 1
    assert scale_to(model, Model({})) == 1
    assert scale_to(model, Model({"a": 0.0, "b": 0.0})) == 1
    assert scale_to(Model({"a": 0.0}), model) == 1
    assert scale_to(Model({"a": -3.0}), Model({"a": 1.0})) == 0.25  # log2 of 1/3 is -1.58
    assert scale_to(Model({"a": 1.0}), Model({"a": 3.0, "b": 3.0})) == 8  # 6 is nearer to 8 than to 4, by its logarithm
    assert scale_to(Model({"a": 1, "UnknownWordPenalty0": 64}), Model({"a": 4, "UnknownWordPenalty0": 1})) == 4


# -- any command --------------------------------------------------------------------------------------------------------


def test_a_command_in_the_loop(boostfeat, world, tmp_path):
    run = tmp_path / "run"
    code, out, err = boostfeat(*arguments(world, run, "--max-iterations", 2, "--method", "mert", "--set", "restarts=2"))
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["iteration", "dev", "BLEU"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2"]
    results = json.loads((run / "results.json").read_text())
    assert max(row["dev"]["bleu"] for row in results["rows"][1:]) > results["rows"][0]["dev"]["bleu"]
    assert (run / "model.json").read_bytes() == (run / "iteration-02" / "model.json").read_bytes()
    assert (run / "iteration-02" / "dev.stderr").read_text() == "decoded\n"
    weights = dict(line.split("= ") for line in (run / "iteration-02" / "weights.txt").read_text().splitlines())
    assert {n: float(w) for n, w in weights.items()} == dict(Model.load(run / "iteration-02" / "model.json").weights)
    code, _, err = boostfeat(*arguments(world, run, "--max-iterations", 2))
    assert code == 2
    assert "--resume" in err
    assert "--force" in err
    code, _, err = boostfeat(*arguments(world, run, "--method", "mert", "--set", "restarts=3", "--resume"))
    assert (code, "learner restarts" in err) == (2, True)
    code, out, err = boostfeat(
        *arguments(world, run, "--method", "mert", "--set", "restarts=2", "--resume", "--max-iterations", 3, "--json")
    )
    assert len(json.loads(out)["rows"]) == 4  # a run may go on for longer
    code, out, err = boostfeat(*arguments(world, run, "--force", "--max-iterations", 1, "--json"))
    assert (code, len(json.loads(out)["rows"])) == (0, 2), err


def test_test_sets_are_decoded_with_the_start_and_the_model_given(boostfeat, world, tmp_path):
    """The fake decoder has one pool, so the test set is dev again: its scores are those of the rows."""
    run, test = tmp_path / "run", ("--test-input", world / "dev.src", "--test-ref", world / "dev.ref")
    code, out, err = boostfeat(*arguments(world, run, "--max-iterations", 2, *test, "--json"))
    assert code == 0, err
    found = json.loads(out)
    (tested,) = found["tests"]
    assert json.loads((run / "results.json").read_text())["tests"] == [tested]
    assert tested["start"] == found["rows"][0]["dev"]
    assert tested["picked"] == found["rows"][found["picked"]]["dev"]
    lists = [read_store(run / f"iteration-{k:02d}" / f"{tested['name']}.nbest") for k in (0, found["picked"])]
    rows = [Scorer(nbest).rows(decoder_choice(nbest), "bleu-sbp") for nbest in lists]
    assert tested["p_value"] == approximate_randomisation(*rows, metric="bleu-sbp")
    kept = (run / f"iteration-00/{tested['name']}.nbest").stat().st_mtime_ns
    code, out, _ = boostfeat(*arguments(world, run, "--max-iterations", 2, *test, "--resume"))
    assert code == 0
    assert f"{tested['name']} BLEU-SBP: {tested['start']['bleu-sbp']:.2f} at the start, " in out
    assert (run / f"iteration-00/{tested['name']}.nbest").stat().st_mtime_ns == kept  # not decoded again
    for more, message in ((test[:2], "found 0 files"), ((*test, "--test-input", world / "dev.src"), "of 2 test sets")):
        code, _, err = boostfeat(*arguments(world, tmp_path / "bad", *more))
        assert code == 2
        assert message in err


def test_a_list_on_standard_output_and_select(boostfeat, world, tmp_path):
    """The fake always lists dev's pool, so dev is its own select here: the two columns must be equal."""
    more = ["--select-input", world / "dev.src", "--select-ref", world / "dev.ref", "--max-iterations", 2, "--json"]
    code, out, err = boostfeat(*arguments(world, tmp_path / "run", *more, decoder=command(world, out="-")))
    assert code == 0, err
    for found in json.loads(out)["rows"]:
        assert found["dev"] == found["select"]
    assert "warning: dev and select share" in err


def test_references_of_other_sentences_are_told_with_the_first_lists(boostfeat, world, tmp_path):
    (tmp_path / "ref").write_text("".join((world / "dev.ref").read_text().splitlines(keepends=True)[::-1]))
    words = [tmp_path / "ref" if word == world / "dev.ref" else word for word in arguments(world, tmp_path / "run")]
    code, _, err = boostfeat(*words, "--max-iterations", 1)
    assert (code, err.count("warning: dev: the references: ")) == (0, 1), err


def test_places_are_filled_after_splitting(world, tmp_path):
    """No shell, and a value with spaces, quotes or braces stays one argument."""
    decoder = CommandDecoder("prog 'a b' {weights} x{size}y {{size}} '$HOME; ls' {input}", weights_format="cdec")
    assert decoder.arguments()[1:] == ["a b", "{weights}", "x{size}y", "{{size}}", "$HOME; ls", "{input}"]
    assert decoder.places() == {"weights", "size", "input"}
    from boostfeat.search.loop.decoders import filled

    values = {"weights": "/a b/{size}", "size": 7}
    assert [filled(word, values) for word in ("{weights}", "x{size}y", "{{size}}")] == ["/a b/{size}", "x7y", "{size}"]


SH = "sh -c {!r} sh {{weights}} {{nbest}}"
FAILURES = [
    ("false {weights}", "exit code 1", ""),
    (SH.format("echo going wrong >&2; echo no >&2; exit 3"), "exit code 3", "decoder| no"),
    (SH.format("kill -9 $$"), "signal 9 (SIGKILL)", ""),
    ("/no/such/program {weights}", "No such file", ""),
    (SH.format("true"), "found none; check the path", ""),  # wrote nothing
    (SH.format(": > $2"), "an empty file", ""),
    (SH.format("echo garbage > $2; echo said so"), "garbage", "decoder| said so"),
    (SH.format("echo '0 ||| a ||| f= 1 ||| 1' > $2"), "sentence ids up to 29", ""),
    (SH.format("for i in 0 29; do echo \"$i ||| a ||| f= 1 ||| 1\"; done > $2"), "none of sentence 1 and 27 more", ""),
    (SH.format("echo '0 ||| a ||| f= nan ||| 1' > $2"), "finite number", ""),
    ("prog {wieghts}", "unknown place", ""),
    ("prog {input}", "place for the weights", ""),
    ("prog 'x {weights}", "check its quotes", ""),
]  # fmt: skip


@pytest.mark.parametrize(("decoder", "message", "tail"), FAILURES)
def test_a_decoder_that_fails_is_one_clear_line_and_its_last_ones(boostfeat, world, tmp_path, decoder, message, tail):
    code, out, err = boostfeat(*arguments(world, tmp_path / "run", "-q", decoder=decoder))
    *before, last = err.splitlines()
    assert (code, out) == (2, "")
    assert last.startswith("boostfeat: ")
    assert message in last
    assert all(line.startswith("decoder| ") for line in before)
    assert tail in "\n".join(before)


def test_a_decoder_that_hangs_ends_with_all_it_started(boostfeat, world, tmp_path):
    pid = tmp_path / "pid"
    hang = SH.format(f"echo thinking >&2; sleep 60 & echo $! > {pid}; wait")
    began = time.monotonic()
    code, _, err = boostfeat(*arguments(world, tmp_path / "run", "--set", "timeout=0.5", "-q", decoder=hang))
    assert time.monotonic() - began < 50  # its child sleeps for 60
    assert code == 2
    assert err.splitlines()[0] == "decoder| thinking"
    assert "within 0.5 seconds" in err
    assert not _runs(int(pid.read_text()))


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie; its parent may take a moment to collect it."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] == "Z":
                return False
        except FileNotFoundError:
            return False
        time.sleep(0.02)
    return True


def test_nothing_is_lost_when_a_later_decoding_fails(boostfeat, world, tmp_path):
    """A decoder that fails once a flag file says so: repaired, the run goes on to the model of one that never failed."""
    script = tmp_path / "flaky.sh"
    script.write_text(f'test "$1" = 2 -a ! -e {tmp_path}/repaired && {{ echo out of luck >&2; exit 1; }}; shift; exec "$@"\n')
    flaky = f"sh {script} {{iteration}} {command(world)}"
    more = ["--max-iterations", 3, "-q"]
    code, _, err = boostfeat(*arguments(world, tmp_path / "run", *more, decoder=flaky))
    assert (code, err.splitlines()[0]) == (2, "decoder| out of luck")
    kept = {p: p.stat().st_mtime_ns for k in (0, 1) for p in (tmp_path / "run" / f"iteration-0{k}").iterdir()}
    (tmp_path / "repaired").touch()
    assert boostfeat(*arguments(world, tmp_path / "run", "--resume", *more, decoder=flaky))[0] == 0
    assert kept == {p: p.stat().st_mtime_ns for p in kept}  # not touched again
    assert boostfeat(*arguments(world, tmp_path / "whole", *more, decoder=flaky))[0] == 0
    assert (tmp_path / "run" / "model.json").read_bytes() == (tmp_path / "whole" / "model.json").read_bytes()


def test_trees_need_a_decoder_that_takes_them(boostfeat, world, tmp_path):
    code, _, err = boostfeat(*arguments(world, tmp_path / "run", "--method", "induce"))
    assert (code, "{model}" in err, "--decoder moses" in err) == (2, True, True)
    assert not (tmp_path / "run" / "iteration-00").exists()


MISUSES = [
    (["--method", "nosuch"], "expected one of pro"),
    (["--method", "induce", "--set", "recipe=nosuch"], "unknown recipe"),
    (["--set", "epochs"], "NAME=VALUE"),
    (["--set", "restarts=3"], "--set restarts: there is no such setting; choose from sampler"),
    (["--select-input", "x"], "--select-input does nothing without --select-ref"),
    (["--graphs", "x"], "does not go with"),
    (["--online", "mira"], "reference decoder"),
    (["--set", "pick=select"], "--select-input"),
    (["--metric", "meteor"], "unknown metric 'meteor': expected one of bleu, bleu-sbp, chrf"),
    (["--set", "weights-format=moses"], "--ini FILE"),
]


@pytest.mark.parametrize(("more", "message"), MISUSES)
def test_misuse_is_one_line(boostfeat, world, tmp_path, more, message):
    given = arguments(world, tmp_path / "run", "-q")
    if more[0] in given:  # once
        at = given.index(more[0])
        del given[at : at + 2]
    code, _, err = boostfeat(*given, *more)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err


# -- killed at any moment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_random", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_kill_9_then_resume_is_the_same_model(boostfeat, world, tmp_path, n_random):
    """Killed by its own decoder, whatever the machine's speed, then at random moments; let go, it comes to the same end."""
    script, was_there = tmp_path / "killer.sh", tmp_path / "was-there"
    script.write_text(f'test "$1" = 1 -a ! -e {was_there} && {{ touch {was_there}; kill -9 $PPID; exit 1; }}; shift; exec "$@"\n')

    def words(folder: str, *more: object) -> list[object]:
        learn = ("--max-iterations", 2, "--method", "mira", "--set", "epochs=2", "-q", *more)
        return arguments(world, tmp_path / folder, *learn, decoder=f"sh {script} {{iteration}} {command(world)}")

    def run() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "boostfeat", *map(str, words("run", "--resume"))])

    def made(folder: str) -> int:
        return sum(len(files) for _, _, files in os.walk(tmp_path / folder))

    was_there.touch()
    assert boostfeat(*words("whole"))[0] == 0
    was_there.unlink()
    assert run().wait() == -signal.SIGKILL
    assert not (tmp_path / "run" / "iteration-01" / "dev.nbest").exists()
    moments = random.Random(os.getpid())
    for _ in range(n_random):
        n = moments.randrange(made("run"), made("whole"))  # files made so far
        process = run()
        while process.poll() is None and made("run") < n:
            time.sleep(0.002)
        process.kill()  # where it has come to its end by now, that is as good
        process.wait()
    assert boostfeat(*words("run", "--resume"))[::2] == (0, "")
    found = [(tmp_path / name / "model.json").read_bytes() for name in ("run", "whole")]
    assert found[0] == found[1]
    states = [[json.loads(p.read_text()) for p in sorted((tmp_path / n).glob("*/state.json"))] for n in ("run", "whole")]
    for a, b in zip(*states, strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}


STAGES = ["learn", "round", "model", "decode", "list", "state", "merge"]


@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_at_every_stage_it_resumes_to_the_same_bytes(tmp_path, monkeypatch, stage):
    """Exhaustive where kill -9 is random: the first, second, ... visit to a stage raises, until the run gets through."""
    from boostfeat.search.loop import driver
    from boostfeat.search.loop import driver as folder

    class Killed(BaseException):
        pass

    pools = {"dev": synthetic_nbest(SyntheticOptions(sentences=6, hyps=40, features=5))}
    visits, limit = 0, 10**9

    def breaking(function, *, after=False):
        def wrapped(*args, **kwargs):
            nonlocal visits
            visits += 1
            if visits == limit and not after:
                raise Killed
            result = function(*args, **kwargs)
            if visits == limit and after:
                raise Killed
            return result

        return wrapped

    def go(name: str, *, resume: bool = False) -> bytes:
        options, start = LoopOptions(max_iterations=2, min_weight_change=0), START
        learner = TunerLearner("mira", make_tuner("mira", {"epochs": 1}))
        if stage == "round":
            few = {"pairs": PairOptions(draws=300), "tree": TreeOptions(min_occurrences=2), "resample_pairs": 1}
            learner = TreeLearner(BoostOptions(rounds=2, **few))
            options, start = replace(options, max_iterations=1), replace(START, trees=(TREE,))  # goes on from trees at once
        Loop(corpora_of(pools), PoolDecoder(pools), learner, start, tmp_path / name, options).run(resume=resume)
        return (tmp_path / name / "model.json").read_bytes()

    whole = go("whole")
    target = {
        "learn": (TunerLearner, "learn"),
        "round": (Model, "save"),  # after each round of boosting too
        "model": (Model, "save"),
        "decode": (PoolDecoder, "decode"),
        "list": (folder.LoopFolder, "keep_list"),
        "state": (folder.LoopFolder, "finish"),
        "merge": (driver.Loop, "accumulate"),
    }[stage]
    monkeypatch.setattr(*target, breaking(getattr(*target), after=stage in ("round", "model", "list")))
    for attempt in range(1, 20):
        visits, limit = 0, attempt
        try:
            assert go(f"run{attempt}") == whole
            break
        except Killed:
            visits, limit = 0, 10**9
            assert go(f"run{attempt}", resume=True) == whole
    assert attempt > 2


def test_weights_that_the_start_lacks_stay_and_are_named(boostfeat, tmp_path):
    """Moses needs the penalty of unknown words, which no list has."""
    ini = tmp_path / "base.ini"
    ini.write_text("[feature]\nWordPenalty\n\n[weight]\nWordPenalty0= -1\nTM0= 0.25 0.5\nUnknownWordPenalty0= 1\n")
    for name, lines in (("src", "a\n"), ("ref", "b\n"), ("start", "WordPenalty0 0.5\nTM0_0 1\n")):
        (tmp_path / name).write_text(lines)
    words = ["loop", tmp_path / "src", "-r", tmp_path / "ref", "--decoder", "false {weights}", "-o", tmp_path / "run"]
    for more, told in ((["--init", tmp_path / "start"], True), ([], False)):
        code, _, err = boostfeat(*words, "--ini", ini, *more)
        assert code == 2
        line = f"boostfeat: {tmp_path / 'start'} has no weights of TM0_1, UnknownWordPenalty0: those of {ini} stay"
        assert (err.splitlines()[0] == line) is told
        (written,) = tmp_path.glob("run/iteration-00/moses.ini")
        weights = read_start(written).weights
        assert (weights["TM0_1"], weights["UnknownWordPenalty0"]) == (0.5, 1)
        shutil.rmtree(tmp_path / "run")


def test_a_run_goes_on_whatever_its_start_decides_beside_the_score(pools, tmp_path):
    """Search goes by scores. Folders of 0.2.0 name the start by what it computes alone."""

    def go(start: Model, n_iterations: int) -> int:
        learner, options = TunerLearner("mira", make_tuner("mira", {"epochs": 1})), LoopOptions(max_iterations=n_iterations)
        Loop(corpora_of(pools), PoolDecoder(pools), learner, start, tmp_path / "run", options).run(resume=True)
        return len(json.loads((tmp_path / "run" / "results.json").read_text())["rows"])

    assert go(START, 1) == 2
    assert go(replace(START, config={"calibration": {"keep_first": 0.5}}), 2) == 3


def test_a_folder_at_work_is_left_alone(pools, tmp_path):
    from boostfeat.core.files import only_writer

    learner = TunerLearner("pro", make_tuner("pro", {}))
    with only_writer(tmp_path / "run"), pytest.raises(InputError, match="at work"):
        Loop(corpora_of(pools), PoolDecoder(pools), learner, START, tmp_path / "run").run()


def test_what_an_earlier_run_left_goes_with_force(tmp_path):
    """Its iterations, results and model, and nothing that others put there; the folder of another command is left alone."""
    folder = LoopFolder(tmp_path / "run")
    (tmp_path / "run").mkdir()
    folder.open({"a": 1}, resume=False, force=False)
    for k in (0, 12):
        folder.iteration(k).mkdir()
        folder.finish(k, {"iteration": k})
    for name in ("results.json", "model.json", "notes.txt"):
        (tmp_path / "run" / name).touch()
    assert folder.state(12) == {"iteration": 12}
    with pytest.raises(InputError, match="expected a new folder, found an earlier run; --resume goes on, --force replaces it"):
        folder.open({"a": 1}, resume=False, force=False)
    with pytest.raises(InputError, match="expected the run's own a '1', found '2'; give the same, or choose another -o"):
        folder.open({"a": 2}, resume=True, force=False)
    folder.open({"a": 1}, resume=True, force=False)
    assert folder.state(12) is not None
    folder.open({"a": 2}, resume=False, force=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.json", "notes.txt"]
    folder.iteration(0).mkdir()
    (tmp_path / "run" / "config.json").write_text('{"boostfeat": "compare/1"}')
    with pytest.raises(InputError, match="expected an earlier run of 'boostfeat loop' to replace, found another folder"):
        LoopFolder(tmp_path / "run")._clear({"boostfeat": "compare/1"})
