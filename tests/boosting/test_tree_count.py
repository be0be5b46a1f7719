"""The number of trees that folds choose: planted truth with and without structure, what is held out, what the model records."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.boosting.selection.tree_count import chosen_count, held_out_choices, of_all_trials
from boostfeat.boosting.selection.trials import FOLDS, Trials
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.tokens import RANKINGS
from boostfeat.metrics.metric import metric_of
from boostfeat.metrics.significance import HeldOutRows
from boostfeat.model.model import Model

learn = partial(induce, templates="none")
OPTIONS = recipe("default", rounds=12, shrinkage=1.0, min_occurrences=5, draws=200, keep=30, gain="bleu", metric="bleu")


def planted(*, structure: bool, seed: int = 0, sentences: int = 60) -> NBest:
    """Lists whose gain is a step of each unit's first feature, or (no structure) its sum: what linear weights know already."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=sentences, hyps=20, features=4), seed=seed)
    x = np.random.default_rng(seed).standard_normal((nbest.n_units, len(nbest.unit_names)))
    worth_of_unit = (np.abs(x[:, 0]) < 0.5) * 2.0 if structure else x[:, 0]
    noise = np.random.default_rng(seed + 1).standard_normal(nbest.n_hyps)
    total = nbest.sum_units(worth_of_unit) + noise
    gains = (total - total.min()) / np.ptp(total)
    length = 1_000_000
    stats = np.full((nbest.n_hyps, 6), length, np.int32)
    stats[:, 1:4] = np.round(gains ** (4 / 3) * length)[:, None]
    return replace(nbest, units=replace(nbest.units, x=x), stats=stats)


@pytest.fixture(scope="module")
def steps() -> NBest:
    return planted(structure=True)


@pytest.fixture(scope="module")
def sums() -> NBest:
    return planted(structure=False)


def test_structure_gets_trees_and_none_gets_none(steps, sums):
    model = learn(steps, None, OPTIONS)
    why = model.config["tree_count"]
    assert len(model.trees) >= 3
    assert why["gain"] > why["gain_error"] > 0
    assert len(model.history) == 1 + len(model.trees) == 1 + model.config["rounds"]
    plain = learn(sums, None, OPTIONS)
    assert not plain.trees
    assert plain.config["tree_count"]["gain"] == 0
    assert plain.config["best_round"] == 0


def test_never_far_below_the_linear_weights_on_unseen_lists():
    """On lists without structure trees that the rule keeps by chance do no harm."""
    for seed in range(3):
        dev, test = planted(structure=False, seed=seed), planted(structure=False, seed=seed + 50)
        model, scorer = learn(dev, None, OPTIONS, seed=seed), Scorer(test)
        chosen = (best_choice(test, m.decision_function(test)) for m in (model, model.truncated(0)))
        learnt, linear = (scorer.score(choice, "bleu").score for choice in chosen)
        assert len(model.trees) < OPTIONS.rounds
        assert learnt > linear - 0.1


def wer_rows(fewer: list[int]) -> np.ndarray:
    """Errors and words of eight sentences of eight words, so many errors fewer than four each: all sums are exact."""
    return np.stack([4 - np.array([*fewer, *[0] * (8 - len(fewer))]), np.full(8, 8)], axis=1).astype(float)


@pytest.mark.parametrize(
    ("rows", "rule", "kept"),
    [
        ([[], [3, 2, 1, 1, -1, -1, -1], [1], []], "best", 1),
        ([[], [-1], [-2], [-1, 0, 1]], "best", 0),  # of equal ones the first
        ([[-4] * 8, [], [1, -1], [3, -1, -1]], "best", 3),
        ([[], [3, 2], [1], [-1]], "all", 3),
    ],
)
def test_the_rules_to_the_last_bit(steps, rows, rule, kept):
    """Whole reasons from planted rows of none, one, two and three trees."""
    metric, planted = metric_of("wer", steps), [wer_rows(fewer) for fewer in rows]
    totals = [32 - sum(fewer) for fewer in rows]
    best = int(np.argmin(totals))
    apart = [np.array([*(rows[best] or []), *[0] * 8])[:8] - np.array([*row, *[0] * 8])[:8] for row in rows]
    errors = [round(100 / 64 * float((d @ d - d.sum() ** 2 / 8) ** 0.5), 4) for d in apart]
    first = apart[0] - apart[kept]
    assert chosen_count(metric, planted, [0, 1, 2, 3], rule) == (
        kept,
        {
            "rule": {"best": "the best number of trees", "all": "all trees"}[rule],
            "trees": [0, 1, 2, 3],
            "wer": [round(100 * n / 64, 4) for n in totals],
            "error": errors,
            "gain": round(100 / 64 * (totals[0] - totals[kept]), 4),
            "gain_error": round(100 / 64 * float((first @ first - first.sum() ** 2 / 8) ** 0.5), 4),
            "best": best,
            "best_gain": round(100 / 64 * (totals[0] - totals[best]), 4),
            "best_error": errors[0],
        },
    )


def test_every_sentence_is_chosen_by_a_model_that_has_not_seen_it(steps):
    """By the model of the other folds; with a select list, by that of all sentences."""
    counts, parts = [0, 6, 12], []
    for trial in Trials(steps):
        assert set(steps.take(trial.train).ids.tolist()).isdisjoint(trial.unseen().ids.tolist())
        model = boost(steps.take(trial.train), None, replace(OPTIONS, sparse_l2=1.0))
        parts.append(held_out_choices(model, trial.unseen(), "bleu", counts))
    assert [len(rows) for rows in of_all_trials(parts).rows] == [len(steps)] * 3
    [trial] = Trials(steps[:40], steps[40:])
    assert (len(trial.train), trial.unseen()) == (40, steps[40:])


def test_resumed_and_with_threads_it_is_the_same_model(steps):
    rounds: list[Model] = []
    model = learn(steps, None, OPTIONS, threads=2, callback=lambda row, at: rounds.append(at))
    assert learn(steps, None, OPTIONS) == model
    heard: list[tuple[str, int, int]] = []
    assert learn(steps, None, OPTIONS, so_far=rounds[1], tell=lambda *at: heard.append(at)) == model
    assert not heard
    learn(steps, None, OPTIONS, tell=lambda *at: heard.append(at))
    steps_of_all = FOLDS * (1 + OPTIONS.rounds)  # a row before the first
    assert heard == [("number of trees", k + 1, steps_of_all) for k in range(steps_of_all)]


def test_what_ends_one_trial_ends_those_beside_it(steps, tmp_path):
    """These are in other processes: an interrupt does not wait for fits."""
    here, begun = os.getpid(), tmp_path / "begun"

    def task(trial):
        for k in range(10_000):
            with begun.open("ab") as stream:
                stream.write(b".")
            if k == 5 and os.getpid() == here:
                raise KeyboardInterrupt
            time.sleep(0.001)
            trial.step()

    with pytest.raises(KeyboardInterrupt):
        Trials(steps, threads=2).side_by_side([task] * FOLDS)
    n = begun.stat().st_size
    time.sleep(0.1)
    assert begun.stat().st_size == n < 1000


def test_several_trials_at_once_tell_of_steps_of_all(steps):
    """Forks are watched while this process waits for them."""
    heard: list[tuple[str, int, int]] = []

    def task(trial):
        for _ in range(50):
            time.sleep(0.02)
            trial.step()
        return os.getpid()

    pids = Trials(steps, threads=2, tell=lambda *at: heard.append(at)).side_by_side([task] * FOLDS, "steps", 50)
    assert len({*pids}) == FOLDS
    assert {(what, n) for what, _, n in heard} == {("steps", FOLDS * 50)}
    assert len({done for _, done, _ in heard}) > 1


def test_trees_that_are_added_to_a_model_are_chosen_too(steps):
    """By folds, or by a select list; a few sentences have nothing to choose by, and keep all rounds."""
    few = learn(steps[: 2 * FOLDS - 1], None, OPTIONS)
    assert "tree_count" not in few.config
    start = few.truncated(0)
    for lists in ((steps, None), (steps[:40], steps[40:])):
        again = learn(*lists, OPTIONS, init=start)
        assert again.config["chosen_by"] == ("folds" if lists[1] is None else "select")
        assert len(again.trees) == again.config["best_round"]


def test_the_waterfall_adds_up(steps):
    """From the first choice to what decides, each step's gain is the difference of the scores."""
    found = learn(steps, None, OPTIONS).config["waterfall"]
    assert [step["stage"] for step in found["steps"]] == ["first choice", "list's features", "+ trees", "+ decision"]
    scores = [step["score"] for step in found["steps"]]
    np.testing.assert_allclose(np.diff(scores), [step["gain"] for step in found["steps"][1:]], atol=2e-4)
    assert found["steps"][2]["gain"] > 2 * found["steps"][2]["error"] > 0


def test_errors_are_of_differences(steps):
    """Candidates that choose the same differ by 0 with an error of 0; the delta method against a bootstrap."""
    rng = np.random.default_rng(0)
    metric = metric_of("bleu", steps)
    scorer = Scorer(steps)
    rows = [
        scorer.rows(best_choice(steps, steps.global_features @ w), metric) for w in (np.eye(4)[0], np.eye(4)[0], np.eye(4)[1])
    ]
    held_out = HeldOutRows(metric, rows)
    assert held_out.error(0, 1) == 0
    draws = rng.multinomial(len(steps), np.full(len(steps), 1 / len(steps)), size=2000)
    apart = 100 * (metric.score(draws @ rows[0]) - metric.score(draws @ rows[2]))
    assert held_out.error(0, 2) == pytest.approx(apart.std(), rel=0.1)


def test_a_ranking_that_is_better_than_what_was_learned_is_the_model(steps):
    """Margins are those of models that have not seen the sentence; lists without scores and rankings keep their order."""
    model = learn(steps, None, OPTIONS)
    assert model.config["calibration"]["lists"] == len(steps)
    assert "kept" not in model.config
    gains = metric_of("bleu", steps).gain(steps)
    ranked = replace(steps, extra=gains[:, None], extra_names=(RANKINGS[0],))
    noisy = replace(OPTIONS, l2=1e6)  # nothing can be learned
    for lists in ((ranked, None), (ranked[:40], ranked[40:])):
        kept = learn(*lists, noisy)
        assert (kept.weights, kept.trees, kept.config["kept"]) == ({RANKINGS[0]: 1.0}, (), RANKINGS[0])
    best_first = np.lexsort((-gains, steps.sent_of_hyp))
    ordered = replace(steps.take_hyps(best_first, steps.hyp_ptr), score=np.full(steps.n_hyps, np.nan))
    kept = learn(ordered, None, noisy)
    assert (kept.weights, kept.trees, kept.config["kept"]) == ({}, (), "the order")
    assert kept.predict(ordered).tolist() == ordered.hyp_ptr[:-1].tolist()
