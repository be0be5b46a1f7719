"""What workers do, one by one: what takes longest, what a choice is worth, and fits that are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.compare.decoded import LoopTask, StartTask
from boostfeat.compare.fits import KeptFits
from boostfeat.compare.options import CompareOptions
from boostfeat.compare.systems import Fit, Fitted, System, parse_systems
from boostfeat.compare.tasks import FitTask, ScoreTask, fit_options, reported, scores_of
from boostfeat.lists.choices import Scorer, decoder_choice, oracle_choice
from boostfeat.lists.nbest import Qualities
from boostfeat.model.model import Model

NOWHERE = KeptFits(Path("nowhere"))


def system(name: str) -> System:
    return next(s for s in parse_systems(f"decoder,{name}") if s.name == name)


@pytest.mark.parametrize(
    ("name", "cost"),
    [("base-PRO", 3.0), ("base-MERT", 2.0), ("kbmira", 0.5), ("boost-local", 4.0), ("boost-local:fast", 1.0), ("boost-global:rule=best", 1.0)],
)  # fmt: skip
def test_what_takes_longest_and_what_others_wait_for_comes_first(name, cost):
    options = CompareOptions(name)
    task = FitTask(Fit(system(name), {}, 0), {}, {}, fit_options(options), NOWHERE)
    assert task.cost == cost
    assert StartTask(Path("x"), None, 0).cost == 100.0
    loop = LoopTask(system(name), 0, Path("x"), Path("y"), None, options)
    assert loop.cost == (2.0 if "boost" in name else 1.0)


def test_mbr_takes_twice_as_long_to_score():
    for name, cost in (("mbr", 14.0), ("kbmira", 7.0)):
        task = ScoreTask(system(name), "test", "a", "b", [], CompareOptions(name), 7)
        assert (task.cost, task.key, task.known()) == (cost, f"{name} on test", None)


@pytest.mark.parametrize("metric", ["bleu", "ter"])
def test_what_a_choice_is_worth(dev, metric):
    """Against sums of statistics: lengths, BLEU = precision · brevity, and the share of the way from the decoder to the oracle."""
    scorer = Scorer(dev)
    by = scorer.metric(metric)
    decoder, oracle = decoder_choice(dev), oracle_choice(dev, by)
    ends = scorer.score(decoder, by).score, scorer.score(oracle, by).score
    for chosen, gap in ((decoder, 0.0), (oracle, 1.0), (np.where(np.arange(len(dev)) % 2, oracle, decoder), None)):
        found = scores_of(scorer, chosen, [scorer.metric("bleu"), by], by, ends)
        assert found["chosen"] == (chosen - dev.hyp_ptr[:-1]).tolist()
        scores, stats = found["scores"], dev.stats[chosen]
        hyp, ref = stats[:, 4].sum(), stats[:, 5].sum()
        assert scores["length_ratio"] == hyp / ref
        assert scores["brevity"] == pytest.approx(min(1.0, np.exp(1 - ref / hyp)))
        assert scores["precision"] * scores["brevity"] == pytest.approx(scores["bleu"])
        now = scorer.score(chosen, by).score
        assert (scores[metric], scores["bleu"]) == (now, scorer.score(chosen, "bleu").score)
        assert scores["oracle_gap"] == pytest.approx((now - ends[0]) / (ends[1] - ends[0]) if gap is None else gap)
        same = scores_of(scorer, chosen, [by], by, (ends[0], ends[0]))["scores"]
        assert same["oracle_gap"] is None  # where the oracle is no better, there is no way to go


def test_what_is_known_of_lists_without_references(dev):
    bare = replace(
        dev, stats=dev.stats[:0], quality=Qualities().with_column("judge", np.arange(dev.n_hyps) + 1.0, np.ones(dev.n_hyps))
    )
    scorer = Scorer(bare)
    by = scorer.metric("judge")
    chosen = np.array(dev.hyp_ptr[:-1])
    chosen[0] = -1
    found = scores_of(scorer, np.array(dev.hyp_ptr[:-1]), [by], by, (0.0, 1.0))
    assert sorted(found["scores"]) == ["judge", "length_ratio", "oracle_gap"]
    assert found["scores"]["length_ratio"] is None
    assert [m.name for m in reported(CompareOptions("mbr", metric="judge"), bare)] == ["judge"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (CompareOptions(), ["bleu", "bleu-sbp", "chrf", "ter", "judge"]),
        (CompareOptions(metric="wer"), ["bleu", "bleu-sbp", "wer", "chrf", "ter", "judge"]),
        (CompareOptions(metrics="ter"), ["bleu", "bleu-sbp", "ter"]),
        (CompareOptions(metrics="ter,judge", metric="bleu"), ["bleu", "bleu-sbp", "ter", "judge"]),
    ],
)
def test_metrics_that_are_reported(dev, options, names):
    nbest = replace(dev, quality=Qualities().with_column("judge", np.ones(dev.n_hyps), np.ones(dev.n_hyps)))
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
