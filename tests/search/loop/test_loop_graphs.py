"""Fresh k-best lists from search graphs: in ``tune``, in ``induce`` and as the decoder of the loop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.features import FeaturePlan, featurize
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.choices import Scorer
from boostfeat.lists.merging import merge
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.search.graphs.rescoring import kbest_nbest
from boostfeat.search.loop.graph_lists import GraphOptions, fresh_list, graphs_of, grown, only_features
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro

SENTENCES, SLOTS, CHOICES = 6, 4, 3
NAMES = ("Good", "Count", "Penalty")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """Graphs with 3^4 paths a sentence as hypergraph files, a list of three of them, and references: option 0 of every slot.

    Values are eighths, so that scores are exact; Penalty is on the edges and not in the list, as Moses' unknown-word penalty.
    """
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "hg").mkdir()
    rng = np.random.default_rng(2)
    x = rng.integers(-16, 0, (SENTENCES, SLOTS, CHOICES, 2)) / 8
    x[..., 0, 0] += 1.5  # the good translation tends to have the higher first value
    builder = Builder(ReadOptions())
    for s in range(SENTENCES):
        lines = ["# target ||| features ||| source-covered", f"{SLOTS + 1} {SLOTS * CHOICES + 1}", "# node 0", "1", " |||  ||| 0"]
        for p in range(SLOTS):
            lines += [f"# node {p + 1}", str(CHOICES)]
            for o in range(CHOICES):
                values = " ".join(f"{n}={v!r}" for n, v in zip(NAMES, (*x[s, p, o].tolist(), -1.0), strict=True))
                lines.append(f"[{p}] w{p}.{o} ||| {values} ||| {p + 1}")
        (folder / "hg" / f"{s}.txt").write_text("\n".join(lines) + "\n")
        for taken in ((1, 1, 1, 1), (2, 2, 2, 2), (0, 1, 2, 1)):
            units = [
                UnitRecord({"Good": x[s, p, o, 0], "Count": x[s, p, o, 1]}, tgt=(p, p + 1), tgt_text=f"w{p}.{o}")
                for p, o in enumerate(taken)
            ]
            builder.add(HypRecord(s, " ".join(u.tgt_text or "" for u in units), f"list:{s}", 0.0, {}, units))
    refs = [" ".join(f"w{p}.0" for p in range(SLOTS))] * SENTENCES
    write_store(attach(builder.finish(), source=None, refs=[refs], name="list"), folder / "dev.nbest")
    (folder / "ref").write_text("".join(line + "\n" for line in refs))
    (folder / "src").write_text("x x x x\n" * SENTENCES)
    Model({"Good": -1.0, "Count": 0.5}).save(folder / "start.json")
    return folder


def options_of(world: Path, **more) -> GraphOptions:
    return GraphOptions(tuple(str(world / "hg" / f"{s}.txt") for s in range(SENTENCES)), **more)


def test_a_fresh_list_has_the_features_of_the_list_and_no_others(world):
    dev, model = read_store(world / "dev.nbest"), Model({"Good": 1.0, "Count": 0.25})
    fresh = fresh_list(dev, model, options_of(world, size=81))
    assert set(fresh.global_names) == {"Good", "Count"}
    assert np.diff(fresh.hyp_ptr).tolist() == [81] * SENTENCES  # every path: 3^4
    np.testing.assert_array_equal(fresh.score, model.decision_function(fresh))
    merged = merge([dev, fresh])
    assert merged.n_hyps == 81 * SENTENCES  # those of the list are among them
    assert merged.has_stats


def test_growing_is_what_one_would_do_by_hand(world):
    dev, how = read_store(world / "dev.nbest"), options_of(world, iterations=2, size=5)
    tuner, seen = Pro(draws=300), []

    def fit(nbest: NBest, before: Model | None, i: int) -> Model:
        seen.append(nbest)
        return tuner.fit(nbest, None, Run(seed=i, init=before.weights if before else {"Good": -1.0}))

    grew, model = grown(dev, fit, how)
    first = tuner.fit(dev, None, Run(seed=0, init={"Good": -1.0}))
    one = merge([dev, fresh_list(dev, first, how)])
    second = tuner.fit(one, None, Run(seed=1, init=first.weights))
    two = merge([one, fresh_list(dev, second, how)])
    assert dict(model.weights) == dict(second.weights)
    assert grew == two
    assert len(seen) == 2


def test_it_ends_when_the_graphs_have_nothing_new(world):
    notes = []
    dev, model = read_store(world / "dev.nbest"), Model({"Good": 1.0})
    grew, _ = grown(dev, lambda *_: model, options_of(world, iterations=9, size=81), report=notes.append)
    assert len(notes) == 2
    assert " 0 new" in notes[1]
    assert grew.n_hyps >= 81 * SENTENCES
    few = options_of(world, iterations=1, size=81)
    grown(dev, lambda *_: model, replace(few, paths=few.paths[:2]), report=notes.append)
    assert notes[2].endswith(" together; 2 of 6 sentences have a graph")
    assert "have a graph" not in "".join(notes[:2])


def test_what_does_not_fit_together_is_refused(world):
    dev, model = read_store(world / "dev.nbest"), Model({"Good": 1.0})
    with pytest.raises(InputError, match="found sentence 3"):
        fresh_list(dev.take(np.arange(3)), model, options_of(world))
    for names, first in ((("Good", "Other"), "Other"), (("Some", "Other"), "Some")):
        renamed = replace(dev, unit_names=names)
        with pytest.raises(InputError, match=f"feature '{first}'"):
            fresh_list(renamed, model, options_of(world))
        with pytest.raises(InputError, match=f"feature '{first}'"):
            graphs_of(renamed, options_of(world))


@pytest.mark.parametrize("sentences", [[0, 1, 2, 3, 4, 5], [1, 2, 4, 5]], ids=["all", "some"])
@pytest.mark.parametrize("graphs", [[1, 2, 4, 5], [1, 2], [4]], ids=str)
def test_sentences_without_a_graph(world, sentences, graphs):
    """With templates, which look at source sentences: these are found by id, whatever the list and the graphs have."""
    sources = [" ".join(f"w{p}.{s % CHOICES}" for p in range(SLOTS)) for s in range(SENTENCES)]
    dev = replace(read_store(world / "dev.nbest"), source=strings(sources)).take(sentences)
    more, plan = featurize(dev, FeaturePlan.of("source_words"))
    options = options_of(world, size=3, plan=plan)
    fresh = fresh_list(more, Model({"Good": 1.0}), replace(options, paths=tuple(options.paths[s] for s in graphs)))
    assert fresh.ids.tolist() == graphs
    assert fresh.source.to_pylist() == [sources[s] for s in graphs]
    of_hyp = [sources[fresh.ids[s]].split() for s in fresh.sent_of_hyp]
    copied = [sum(word in words for word in text.split()) for text, words in zip(fresh.text.to_pylist(), of_hyp, strict=True)]
    assert fresh.global_column("source.copy").tolist() == copied
    assert any(copied)
    assert merge([more, fresh]).ids.tolist() == sentences


def test_only_features_merges_units_that_are_now_equal(world):
    full = kbest_nbest(options_of(world).paths, Model({"Good": 1.0}), size=9)
    part = only_features(full, {"Penalty"})
    assert part.global_names == ("Penalty",)
    np.testing.assert_array_equal(part.global_column("Penalty"), full.global_column("Penalty"))
    assert part.n_units == len({(t, n) for t, n in zip(part.units.tgt.to_pylist(), part.units.tgt_len.tolist(), strict=True)})


def graph_flags(world: Path) -> list[str]:
    return [flag for path in options_of(world).paths for flag in ("--graphs", path)]


@pytest.mark.parametrize("command", ["tune", "induce"])
def test_the_commands_take_graphs(boostfeat, world, tmp_path, command):
    """The list has option 0 of one slot only; the graphs have it of all, and the model learns to like it."""
    flags = ["-o", tmp_path / "m.json", "--set", "graph-iterations=3", "--set", "graph-nbest=30", *graph_flags(world)]
    flags += ["--min-occurrences", 2, "--rounds", 1] if command == "induce" else ["--method", "pro"]
    code, _, err = boostfeat(command, world / "dev.nbest", *flags)
    assert code == 0, err
    assert err.count("graphs, iteration") >= 2
    model = Model.load(tmp_path / "m.json")
    best = kbest_nbest(options_of(world).paths, model, size=1)
    hits = [text.split().count(f"w{p}.0") for text in best.text.to_pylist() for p in range(SLOTS)]
    assert np.mean(hits) > 0.6  # chance is 1/3


def test_graphs_as_the_decoder_of_the_loop(boostfeat, world, tmp_path):
    run = tmp_path / "run"
    flags = [
        *("-r", world / "ref", "--init", world / "start.json", "--nbest", 20, "--max-iterations", 3, "-o"),
        *(run, "--json", "-q"),
    ]
    code, out, err = boostfeat("loop", world / "src", *flags, *graph_flags(world))
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert rows[-1]["dev"]["bleu"] > rows[0]["dev"]["bleu"]
    code, _, err = boostfeat("loop", world / "src", *flags, *graph_flags(world)[:-2], "--resume")
    assert (code, "decoder graphs" in err) == (2, True)


def test_mert_searches_all_paths_of_the_graphs(boostfeat, world, tmp_path):
    """The same BLEU as on a list of every path, from a list that has three of them a sentence."""
    tune = ("--method", "mert", "--init", world / "start.json", "--set", "restarts=1", "--set", "epochs=2", "--json")
    code, out, err = boostfeat("tune", world / "dev.nbest", *tune, *graph_flags(world), "-o", tmp_path / "g.json")
    assert code == 0, err
    assert f"envelopes over {SENTENCES} graphs, {SENTENCES * (SLOTS * CHOICES + 1)} edges\n" in err
    found = json.loads(out)["history"][-1]["graphs"]
    dev = read_store(world / "dev.nbest")
    every = merge([dev, fresh_list(dev, Model({"Good": 1.0, "Count": 0.0}), options_of(world, size=81))])
    write_store(every, tmp_path / "every.nbest")
    code, out, _ = boostfeat("tune", tmp_path / "every.nbest", *tune, "-o", tmp_path / "l.json")
    assert code == 0
    assert found == pytest.approx(json.loads(out)["history"][-1]["dev"], abs=1e-9)
    model = Model.load(tmp_path / "g.json")
    assert Scorer(every).score(model.predict(every), "bleu").score == pytest.approx(found)
    write_store(replace(dev, score=Model({"Good": -1.0, "Count": 0.5}).decision_function(dev)), tmp_path / "dev.nbest")
    lists = (tmp_path / "dev.nbest", "--select", world / "dev.nbest", "--test", tmp_path / "every.nbest", "--force", "-q")
    code, out, err = boostfeat("replicate", "e12", *lists, "--quick", *graph_flags(world), "-o", tmp_path / "run", "--json")
    assert code == 0, err
    assert "on lists, not on hypergraphs" not in out
    [file] = (tmp_path / "run/models").glob("base-MERT*")
    model = Model.load(file)
    assert Scorer(every).score(model.predict(every), "bleu").score == pytest.approx(model.history[-1]["graphs"])
    code, _, err = boostfeat("replicate", "e12", *lists, *graph_flags(world)[:-2], "-o", tmp_path / "x")
    assert code == 2
    assert f"--graphs: expected one for each sentence of the list, found {SENTENCES - 1} of {SENTENCES} sentences" in err
    strange = tmp_path / "7.txt"
    strange.write_text((world / "hg/0.txt").read_text())
    code, _, err = boostfeat("tune", world / "dev.nbest", *tune, "--graphs", strange, "-o", tmp_path / "x.json")
    assert code == 2
    assert "expected graphs of the list's sentences, found sentence 7" in err
