"""What workers do, one by one: what takes longest, what a choice is worth, and fits that are kept."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from metric_lists import paired_bootstrap
from toy_trees import stump

from boostfeat.compare import systems
from boostfeat.compare.comparison_options import CompareOptions
from boostfeat.compare.paper_page import KINDS
from boostfeat.compare.systems import Fit, Fitted, System, parse_systems
from boostfeat.compare.table import Rows, tabulate
from boostfeat.compare.tasks import KeptFits, reported, scores_of
from boostfeat.lists.build import Builder, HypRecord, UnitRecord, attach
from boostfeat.lists.choices import Scorer, decoder_choice, oracle_choice
from boostfeat.lists.nbest import NBest
from boostfeat.metrics.significance import (
    approximate_randomisation,
    bootstrap_sums,
    confidence_interval,
    exact_sums,
    stratified_randomisation,
)
from boostfeat.model.model import Model


def system(name: str) -> System:
    return next(s for s in parse_systems(f"decoder,{name}") if s.name == name)


@pytest.mark.parametrize(("metric", "more"), [("bleu", 0), ("bleu", 5), ("ter", 0)])
def test_what_a_choice_is_worth(dev, metric, more):
    """Against sums of statistics: lengths, BLEU = precision · brevity, and the share of the way from the decoder to the oracle.
    With references of so many words more, BLEU has its penalty.
    """
    dev = replace(dev, stats=dev.stats + np.array([0, 0, 0, 0, 0, more], np.int32))
    scorer = Scorer(dev)
    by = scorer.metric(metric)
    decoder, oracle = decoder_choice(dev), oracle_choice(dev, by)
    ends = scorer.score(decoder, by).score, scorer.score(oracle, by).score
    for chosen, gap in ((decoder, 0.0), (oracle, 1.0), (np.where(np.arange(len(dev)) % 2, oracle, decoder), None)):
        found = scores_of(scorer, chosen, CompareOptions(metric=f"{metric},"), ends)
        assert found["chosen"] == (chosen - dev.hyp_ptr[:-1]).tolist()
        scores, stats = found["scores"], dev.stats[chosen]
        hyp, ref = stats[:, 4].sum(), stats[:, 5].sum()
        assert scores["length_ratio"] == hyp / ref
        assert scores["brevity"] == pytest.approx(min(1.0, np.exp(1 - ref / hyp)))
        assert (scores["brevity"] < 1) is bool(more)
        assert scores["precision"] * scores["brevity"] == pytest.approx(scores["bleu"])
        now = scorer.score(chosen, by).score
        assert (scores[metric], scores["bleu"]) == (now, scorer.score(chosen, "bleu").score)
        assert scores["oracle_gap"] == pytest.approx((now - ends[0]) / (ends[1] - ends[0]) if gap is None else gap)
        same = scores_of(scorer, chosen, CompareOptions(metric=metric), (ends[0], ends[0]))["scores"]
        assert same["oracle_gap"] is None  # where the oracle is no better, there is no way to go


def test_what_is_known_of_lists_without_references(dev):
    bare = replace(dev.with_quality("judge", np.arange(dev.n_hyps) + 1.0), stats=dev.stats[:0])
    scorer = Scorer(bare)
    found = scores_of(scorer, np.array(dev.hyp_ptr[:-1]), CompareOptions(metric="judge"), (0.0, 1.0))
    assert sorted(found["scores"]) == ["judge", "length_ratio", "oracle_gap"]
    assert found["scores"]["length_ratio"] is None
    assert [m.name for m in reported(CompareOptions("mbr", metric="judge"), bare)] == ["judge"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (CompareOptions(), ["bleu", "bleu-sbp", "chrf", "ter", "judge"]),
        (CompareOptions(metric="wer"), ["bleu", "bleu-sbp", "wer", "chrf", "ter", "judge"]),
        (CompareOptions(metric=",ter"), ["bleu", "bleu-sbp", "ter"]),
        (CompareOptions(metric="bleu,ter,judge"), ["bleu", "bleu-sbp", "ter", "judge"]),
    ],
)
def test_metrics_that_are_reported(dev, options, names):
    nbest = dev.with_quality("judge", np.ones(dev.n_hyps))
    assert [m.name for m in reported(options, nbest)] == names


def test_fits_are_kept_once_and_taken_over(tmp_path):
    """A file that is of something else, or half of one, is none."""
    first, second = (tmp_path / name for name in ("a", "b"))
    for run in (first, second):
        run.mkdir()
    own, made = KeptFits.of(first), {"fit": 1}
    assert (own.folder, own.beside) == (first / "fits", ())
    other = KeptFits.of(second)
    assert other.beside == (first / "fits",)
    assert other.find(made) is None
    own.keep(made, Fitted(Model({"a": 1.5}), 12.5, 3.25, 100.5))
    found = other.find(made)
    assert (found.model.weights, found.select, found.seconds, found.peak_mb) == ({"a": 1.5}, 12.5, 3.25, 100.5)
    (copy,) = (second / "fits").iterdir()
    (kept,) = (first / "fits").iterdir()
    assert copy.name == kept.name
    assert own.find({"fit": 2}) is None
    kept.rename(kept.with_name(copy.name.replace(copy.name[:32], "0" * 32)))
    assert own.find(made) is None
    copy.write_bytes(copy.read_bytes()[:40])
    assert other.find(made) is None


@pytest.mark.parametrize(
    ("share", "fold", "sizes"),
    [(1.0, -1, (40, 40)), (0.25, -1, (10, 40)), (0.01, -1, (1, 40)), (1.0, 0, (27, 13)), (1.0, 2, (27, 13))],
)
def test_a_fit_on_part_of_dev(dev, select, monkeypatch, share, fold, sizes):
    """So many sentences, in their order; of three folds one is held out, and scored in place of select."""
    seen: list[NBest] = []

    def fit(system, part, held_out, params, options, *, threads, on_graphs):
        seen.append(part)
        assert (options.seed, params, threads, held_out is select) == (7, {"c": 1}, 2, True)
        return Model({"LM0": 1.0})

    monkeypatch.setattr(systems, "fit", fit)
    monkeypatch.setattr(systems, "time", SimpleNamespace(monotonic=lambda: 2.0))
    monkeypatch.setattr("boostfeat.core.processes.time", SimpleNamespace(monotonic=lambda: 9.25))
    options = CompareOptions(metric="bleu", seed=3)
    found = systems.fitted_here(Fit(system("kbmira"), {"c": 1}, 7, share, fold), dev, Scorer(select), options, threads=2)
    (part,) = seen
    assert found.seconds == 7.25
    assert abs(len(part) - sizes[0]) <= 1
    assert part.ids.tolist() == sorted(set(part.ids.tolist()))
    scored = select if fold < 0 else dev.take(np.setdiff1d(np.arange(len(dev)), part.ids))
    assert abs(len(scored) - sizes[1]) <= 1
    assert found.select == Scorer(scored).score(Model({"LM0": 1.0}).predict(scored), "bleu").score


def test_a_row_of_two_runs(dev):
    """Scores are means over runs, whose seeds follow each other; sd is that of the two, the difference over √2."""
    scorer = Scorer(dev)
    metric = scorer.metric("bleu")
    chosen = [dev.hyp_ptr[:-1], dev.hyp_ptr[:-1] + 1]
    rows = {"test": Rows((metric,), {"kbmira": np.stack([exact_sums(scorer.rows(c, metric)) for c in chosen])})}
    runs = [{which: {"bleu": 10.0 * k + d, "oracle_gap": None} for which in ("dev", "test")} for k, d in ((1, 0.0), (2, 1.0))]
    state = {"scores": runs, "features": 5, "trees": 0, "seconds": 1.5, "search_seconds": 2.5, "peak_mb": 7.0, "chosen": {}, "tried": [], "models": [], "choices": ["c"]}  # fmt: skip
    (row,) = tabulate(
        [system("kbmira")], {"kbmira": state}, rows, CompareOptions(metric="bleu", baseline="decoder", trials=20, seed=5)
    )
    assert [run["seed"] for run in row["runs"]] == [5, 6]
    assert (row["test"], row["dev"]["bleu"], row["select"]) == ({"bleu": 15.5, "oracle_gap": None}, 15.5, None)
    assert row["sd"] == {"bleu": pytest.approx(11 / 2**0.5)}
    assert (row["p_value"], row["model"], row["choice"], row["seconds"], row["search_seconds"]) == (None, None, "c", 1.5, 2.5)


def test_units_of_a_hypothesis_that_fits_a_page():
    """Two to eight; of those, the shortest where trees say as much. One of nine would show more, one of one less."""
    sizes = (0, 1, 9, 8, 2)
    builder = Builder()
    for s, n in enumerate(sizes):
        units = [UnitRecord({"f": float(k % 2 and n == 9), "g": 1.0}, (k, k + 1), (k, k + 1)) for k in range(n)]
        builder.add(HypRecord(s, " ".join(f"w{s}{k}" for k in range(n)), f"list:{s}", 0.0, units=units))
    nbest = attach(builder.finish(), source=None, refs=[], name="list")
    trees = (stump("constant", None, feature="f", threshold=0.5, values=(1.0, 3.0)),)
    page = SimpleNamespace(model=lambda label: Model({}, trees), list_of=lambda label, which: nbest)
    header, rows = KINDS["units"](page, SimpleNamespace(rows=["boost"]))
    assert (header[0], len(header), header[-1]) == ("value", 4, "global")
    assert [part.split(" → ")[1] for part in header[1:-1]] == ["w40", "w41"]
    assert rows == [["f", "0", "0", "0"], ["tree.000", "1", "1", "2"]]
    none = SimpleNamespace(model=lambda label: Model({"f": 1.0}), list_of=lambda label, which: nbest)
    assert KINDS["units"](none, SimpleNamespace(rows=["boost"])) == (["value"], [])
    whole = SimpleNamespace(model=lambda label: Model({}, trees, level="global"), list_of=lambda label, which: nbest)
    assert KINDS["units"](whole, SimpleNamespace(rows=["boost"])) == (["value"], [])


def test_p_values_of_two_systems_of_two_runs(dev):
    """Twins: the tests of metrics/significance.py, each by itself, of both metrics."""
    scorer = Scorer(dev)
    metrics = tuple(scorer.metric(name) for name in ("bleu", "ter"))
    rng = np.random.default_rng(2)
    chosen = {name: [dev.hyp_ptr[:-1] + rng.integers(0, 4, len(dev)) for _ in range(2)] for name in ("kbmira", "mbr")}
    alone = {m.name: {name: [exact_sums(scorer.rows(c, m)) for c in runs] for name, runs in chosen.items()} for m in metrics}
    rows = Rows(
        metrics, {name: np.stack([np.hstack([alone[m.name][name][r] for m in metrics]) for r in range(2)]) for name in chosen}
    )
    scores = [{"test": {m.name: 1.0 for m in metrics}}] * 2
    state = {"scores": scores, "features": 5, "trees": 0, "seconds": 1.5, "search_seconds": 2.5, "peak_mb": 7.0, "chosen": {}, "tried": [], "models": [], "choices": ["c"]}  # fmt: skip
    found = tabulate([system("kbmira"), system("mbr")], {"kbmira": state, "mbr": state}, {"test": rows}, CompareOptions(metric="ter", baseline="kbmira", trials=60, seed=5))  # fmt: skip
    for m in metrics:
        one, other = (np.stack(alone[m.name][name]) for name in ("kbmira", "mbr"))
        p = found[1]["p_values"][m.name]
        assert p["randomisation"] == approximate_randomisation(one[0], other[0], metric=m, trials=60)
        assert p["bootstrap"] == paired_bootstrap(one[0], other[0], metric=m, trials=60)
        assert p["stratified"] == stratified_randomisation(one, other, metric=m, trials=60)
        assert found[1]["confidences"][m.name] == list(confidence_interval(bootstrap_sums(other[0], trials=60), m))
    of_ter = found[1]["p_values"]["ter"]
    assert [found[1][name] for name in ("p_value", "p_bootstrap", "p_stratified")] == list(of_ter.values())
    assert found[1]["confidence"] == found[1]["confidences"]["ter"]
    assert (found[0]["p_values"], found[0]["p_value"], found[0]["sd"]) == ({}, None, {"bleu": 0.0, "ter": 0.0})
    assert len({p[name] for p in found[1]["p_values"].values() for name in p}) > 3
