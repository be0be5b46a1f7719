"""The number of trees that folds choose: planted truth with and without structure, what is held out, what the model records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden import check_golden
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting import tree_count
from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import recipe
from boostfeat.boosting.tree_count import (
    FOLDS,
    Folds,
    HeldOutChoices,
    chosen_tree_count,
    counts_to_try,
    held_out_choices,
    staged_choices,
)
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.tokens import RANKINGS
from boostfeat.metrics.held_out import HeldOutRows
from boostfeat.metrics.metric import metric_of
from boostfeat.model.model import Model

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
    model = boost(steps, None, OPTIONS)
    why = model.config["tree_count"]
    assert len(model.trees) >= 3
    assert why["gain"] > why["gain_error"] > 0
    assert len(model.history) == 1 + len(model.trees) == 1 + model.config["rounds"]
    plain = boost(sums, None, OPTIONS)
    assert not plain.trees
    assert plain.config["tree_count"]["gain"] == 0
    assert plain.config["best_round"] == 0


def test_never_far_below_the_linear_weights_on_unseen_lists():
    """On lists without structure trees that the rule keeps by chance do no harm."""
    for seed in range(3):
        dev, test = planted(structure=False, seed=seed), planted(structure=False, seed=seed + 50)
        model, scorer = boost(dev, None, OPTIONS, seed=seed), Scorer(test)
        chosen = (best_choice(test, m.decision_function(test)) for m in (model, model.truncated(0)))
        learnt, linear = (scorer.score(choice, "bleu").score for choice in chosen)
        assert len(model.trees) < OPTIONS.rounds
        assert learnt > linear - 0.1


def test_the_rule_by_hand(steps, monkeypatch):
    """Last number within an error of the best, if the best gains more than its error over none."""
    held_out = []
    monkeypatch.setattr(tree_count, "HeldOutRows", lambda *given: held_out.append(HeldOutRows(*given)) or held_out[-1])
    found, reasons = chosen_tree_count(steps, None, OPTIONS, lambda part, own: boost(part, None, own))
    why = reasons["tree_count"]
    scores, errors, counts = np.array(why["bleu"]), np.array(why["error"]), why["trees"]
    best = int(np.argmax(scores))
    assert (counts[0], counts[-1]) == (0, OPTIONS.rounds)
    assert scores[best] > scores[0] + errors[0]
    assert found.rounds == max(counts[k] for k in range(best, len(counts)) if scores[k] >= scores[best] - errors[k])
    kept = counts.index(found.rounds)
    assert (why["gain"], why["gain_error"]) == pytest.approx(
        (scores[kept] - scores[0], 100 * held_out[0].error(kept, 0)), abs=1e-3
    )
    check_golden({"chosen": found.rounds, **reasons}, Path(__file__).parent / "whole_choices" / "tree_count.json")


def wer_rows(fewer: list[int]) -> np.ndarray:
    """Errors and words of eight sentences of eight words, so many errors fewer than four each: all sums are exact."""
    return np.stack([4 - np.array([*fewer, *[0] * (8 - len(fewer))]), np.full(8, 8)], axis=1).astype(float)


ONE_ERROR = [3, 2, 1, 1, -1, -1, -1]  # 4 errors fewer, and √(18 - 4²/8) = 4


@pytest.mark.parametrize(
    ("rows", "kept", "ranked", "worse"),
    [
        ([[], ONE_ERROR, [1], []], 0, None, False),  # the best gains one standard error, no more
        ([[], [4] * 8, [1], []], 1, [4] * 8, False),  # the ranking is as good
        ([[], [3, 2, 1, 1, -1, -1, -1, -1], [], []], 0, [-4] * 8, False),  # less than one, and the ranking is worse
        ([[-4] * 8, [], [-4] * 8, [-e for e in ONE_ERROR]], 3, [], True),  # the last is one standard error below the best
        ([[-4] * 8, [], [-e for e in ONE_ERROR], [-1, *(-e for e in ONE_ERROR)]], 2, [-1], True),
    ],
)
def test_the_rule_to_the_last_bit(steps, monkeypatch, rows, kept, ranked, worse):
    """Whole reasons from planted rows of three, two and one trees and of none; margins are their own."""
    options = replace(OPTIONS, rounds=3, metric="wer", gain="wer")
    margins = [np.full(8, float(k)) for k in range(4)]
    planted = [wer_rows(fewer) for fewer in rows]
    own = None if ranked is None else wer_rows(ranked)
    choices = HeldOutChoices(planted, margins, wer_rows([2]), own)
    seen = []
    monkeypatch.setattr(tree_count, "held_out_choices", lambda folds, metric, counts: seen.append((metric, counts)) or choices)
    monkeypatch.setattr(tree_count, "calibration", lambda metric, **given: seen.append(given))
    monkeypatch.setattr(tree_count, "ranking_of", lambda nbest: "own")
    found, reasons = chosen_tree_count(steps[:8], None, options, lambda part, own: Model({}))
    totals = [32 - sum(fewer) for fewer in rows]
    best = int(np.argmin(totals))
    apart = [np.array([*(rows[best] or []), *[0] * 8])[:8] - np.array([*row, *[0] * 8])[:8] for row in rows]
    errors = [round(100 / 64 * float((d @ d - d.sum() ** 2 / 8) ** 0.5), 4) for d in apart]
    first = apart[0] - apart[kept]
    assert found == replace(options, rounds=kept)
    assert reasons == {
        "tree_count": {
            "rule": "the last number of trees within a standard error of the best; none, where the best gains less than that",
            "folds": 3,
            "trees": [0, 1, 2, 3],
            "wer": [round(100 * n / 64, 4) for n in totals],
            "error": errors,
            "gain": round(100 / 64 * (totals[0] - totals[kept]), 4),
            "gain_error": round(100 / 64 * float((first @ first - first.sum() ** 2 / 8) ** 0.5), 4),
            **({"worse_than": "own"} if worse else {}),
        }
    }
    assert seen[0] == ("wer", [0, 1, 2, 3])
    assert (seen[1]["ours"] == planted[kept]).all()
    assert (seen[1]["theirs"] == wer_rows([2])).all()
    assert (seen[1]["margin"] == kept).all()
    chosen_tree_count(steps[:8], steps[:2], options, lambda part, own: Model({}))
    assert len(seen) == 3  # with select nothing is calibrated


@pytest.mark.parametrize("more", [0, 2])
def test_columns_of_folds_are_put_together_by_sentences(steps, more):
    """Those of dev are in one fold each; those of select are in all, and a third of each counts."""
    held_out = [np.array([0, 3]), np.array([1]), np.array([2, 4])]
    select = steps[:more] if more else None
    folds = Folds([Model({})] * 3, [None] * 3, held_out, steps[:5], select)
    rng = np.random.default_rng(0)
    for shape in ((), (3,)):
        columns, expected = [], np.zeros((5 + more, *shape))
        for own in held_out:
            columns.append(rng.integers(0, 9, (len(own), *shape)))
            expected[own] = columns[-1]
            if more:
                columns.append(rng.integers(0, 9, (more, *shape)))
                expected[5:] += columns[-1] / 3
        np.testing.assert_allclose(folds.together(columns), expected, rtol=1e-15)


def test_folds_are_of_six_sentences_at_least(steps, monkeypatch):
    seen: list[int] = []
    monkeypatch.setattr(
        "boostfeat.boosting.boost.chosen_tree_count", lambda dev, select, own, fit: seen.append(len(dev)) or (own, {})
    )
    for n in (5, 6, 7):
        boost(steps[:n], None, replace(OPTIONS, rounds=1))
    assert seen == [6, 7]


def test_every_sentence_is_chosen_by_a_model_that_has_not_seen_it(steps):
    """Of dev by that of the other folds, of select by the mean of all."""
    dev, select, fitted = steps[:40], steps[40:], []

    def fit(part: NBest, own) -> Model:
        fitted.append((set(part.ids.tolist()), boost(part, None, own)))
        return fitted[-1][1]

    counts = [0, 6, 12]
    rows = held_out_choices(Folds.of(dev, select, OPTIONS, fit), "bleu", counts).rows
    assert [len(r) for r in rows] == [60] * 3
    assert len(fitted) == FOLDS
    for seen, model in fitted:
        unseen = [s for s, i in enumerate(dev.ids.tolist()) if i not in seen]
        own = staged_choices(model, dev.take(np.array(unseen)), "bleu", counts).rows
        assert all((rows[k][unseen] == own[k]).all() for k in range(3))
    of_select = np.mean([staged_choices(model, select, "bleu", counts).rows for _, model in fitted], axis=0)
    assert np.allclose(np.stack(rows)[:, 40:], of_select)


def test_a_model_that_ended_early_stays_as_it_is(steps):
    model = boost(steps, None, replace(OPTIONS, rule="best", rounds=2))
    rows = staged_choices(model, steps, "bleu", [0, 1, 5, 12]).rows
    chosen = best_choice(steps, model.decision_function(steps))
    assert (rows[2] == rows[3]).all()
    assert (rows[2] == Scorer(steps).rows(chosen, metric_of("bleu", steps))).all()


def test_resumed_and_with_threads_it_is_the_same_model(steps):
    rounds: list[Model] = []
    model = boost(steps, None, OPTIONS, threads=2, callback=lambda row, at: rounds.append(at))
    assert boost(steps, None, OPTIONS) == model
    heard: list[tuple[str, int, int]] = []
    assert boost(steps, None, OPTIONS, so_far=rounds[1], tell=lambda *at: heard.append(at)) == model
    assert not heard
    boost(steps, None, OPTIONS, tell=lambda *at: heard.append(at))
    assert heard == [("number of trees", min(k, 36), 36) for k in range(FOLDS * (1 + OPTIONS.rounds))]  # a row before the first


def test_there_are_no_folds_from_a_model_or_of_a_few_sentences(steps):
    few = boost(steps[: 2 * FOLDS - 1], None, OPTIONS)
    assert "tree_count" not in few.config
    again = boost(steps, steps, OPTIONS, init=few.truncated(0))
    assert "tree_count" not in again.config
    assert again.trees


def test_numbers_of_trees_that_are_tried():
    assert [counts_to_try(n) for n in (0, 1, 5, 30)] == [[0], [0, 1], [0, 1, 2, 3, 4, 5], [*range(31)]]
    assert counts_to_try(60) == [*range(0, 61, 2)]
    assert counts_to_try(150) == [*range(0, 151, 5)]


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
    apart = metric.score(draws @ rows[0]) - metric.score(draws @ rows[2])
    assert held_out.error(0, 2) == pytest.approx(apart.std(), rel=0.1)


def test_without_a_select_list_folds_calibrate_and_compare_with_the_ranking(steps):
    """Margins are those of models that have not seen the sentence; a ranking that is better than them all is the model."""
    model = boost(steps, None, OPTIONS)
    assert model.config["calibration"]["lists"] == len(steps)
    assert "worse_than" not in model.config["tree_count"]
    gains = metric_of("bleu", steps).gain(steps)
    ranked = replace(steps, extra=gains[:, None], extra_names=(RANKINGS[0],))
    noisy = replace(OPTIONS, l2=1e6)  # nothing can be learnt
    kept = boost(ranked, None, noisy)
    assert kept.config["kept"] == kept.config["tree_count"]["worse_than"] == RANKINGS[0]
    assert (kept.weights, kept.trees) == ({RANKINGS[0]: 1.0}, ())
