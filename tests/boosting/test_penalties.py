"""The penalty on sparse features that folds choose: planted truth, what the model records, resuming, threads and bytes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions, recipe
from boostfeat.boosting.induce import induce, with_penalty
from boostfeat.boosting.selection import penalty as penalties
from boostfeat.boosting.selection.penalty import GRID, WITHOUT, PenaltyFit, are_worse, chosen_penalty, penalty_fits, thinned
from boostfeat.boosting.selection.template_set import FeaturedLists
from boostfeat.boosting.selection.trials import FOLDS, Trials
from boostfeat.cli import run
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
from boostfeat.losses.pairs import pairs_for
from boostfeat.metrics.metric import metric_of
from boostfeat.model.model import Model

WORDS, SENTENCES, HYPS = 30, 72, 6
OPTIONS = recipe("default", gain="wer", rule="best", rounds=2, min_occurrences=5, draws=200, keep=20)


def planted(path, *, told: bool) -> NBest:
    """Lists of 8-word sentences with 0 to 4 wrong words.

    Words of an odd number are the wrong ones, and every unit has an indicator: of its word, which tells right from wrong in
    unseen sentences too, or (``told`` is False) of a number drawn at random, which tells nothing. A dense feature counts the
    errors with much noise.
    """
    rng = np.random.default_rng(0)
    rows = [{"boostfeat": "nbest/1", "unit_features": ["near"]}]
    for s in range(SENTENCES):
        good = 2 * rng.integers(WORDS, size=8)
        hyps = []
        for h in range(HYPS):
            wrong = np.isin(np.arange(8), rng.permutation(8)[: rng.integers(5)])
            names = (good + wrong) if told else rng.integers(2 * WORDS, size=8)
            x = -1.0 * wrong + rng.normal(size=8) * (4.0 if told else 1.0)
            units = [{"tgt": [k, k + 1], "x": [float(x[k])], "sparse": {f"w:{names[k]}": 1}} for k in range(8)]
            hyps.append({"text": " ".join(f"w{g + w}" for g, w in zip(good, wrong, strict=True)), "score": -h, "units": units})
        rows.append({"id": s, "source": "", "refs": [" ".join(f"w{g}" for g in good)], "hyps": hyps})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read(path, ReadOptions())


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> NBest:
    return planted(tmp_path_factory.mktemp("told") / "told.jsonl", told=True)


@pytest.fixture(scope="module")
def noise(tmp_path_factory) -> NBest:
    return planted(tmp_path_factory.mktemp("noise") / "noise.jsonl", told=False)


def test_planted_words_get_a_weak_penalty_and_noise_a_strong_one(told, noise):
    found = chosen_penalty(Trials(noise), OPTIONS)
    why = found.why["penalties"]
    assert chosen_penalty(Trials(told), OPTIONS).sparse_l2 <= 100
    assert found.sparse_l2 == WITHOUT == GRID[0]
    learnt = boost(noise, None, replace(OPTIONS, sparse_l2=WITHOUT, rounds=0))
    assert max(abs(w) for name, w in learnt.weights.items() if name != "near") < 1e-3 * abs(learnt.weights["near"])
    assert why["sparse_l2"] == list(GRID)
    assert why["wer"][0] < why["wer"][-1]  # lower is better


def test_the_rule_is_the_strongest_within_half_an_error_of_the_best(told):
    found = chosen_penalty(Trials(told), OPTIONS)
    why = found.why["penalties"]
    best = min(why["wer"])
    within = [l2 for l2, score, error in zip(GRID, why["wer"], why["error"], strict=True) if score <= best + error / 2]
    assert found.sparse_l2 == max(within)
    assert why["error"][why["wer"].index(best)] == 0


def test_two_that_are_worse_end_the_search_of_a_fold(told, noise):
    """Rows are errors and words of eight sentences: all wrong is two errors below none wrong, half wrong by chance is not."""
    metric = metric_of("wer", told)
    right, wrong = np.tile([0, 8], (8, 1)), np.tile([8, 8], (8, 1))
    one = np.where((np.arange(8) == 0)[:, None], wrong, right)
    assert are_worse(metric, [right, wrong, wrong])
    assert not are_worse(metric, [right, wrong])
    assert not are_worse(metric, [right, wrong, right, wrong])
    assert not are_worse(metric, [right, one, one])  # one sentence in eight: about one standard error
    assert are_worse(metric, [right, one, wrong])  # the last one clearly, the one before by less than an error
    assert not are_worse(metric, [right, wrong, one])
    assert not are_worse(metric, [wrong, wrong, right])
    of_first_fold = [fits[0].rows for fits in penalty_fits(Trials(noise), OPTIONS, GRID)]
    assert any((a == b).all() for a, b in pairwise(of_first_fold[-3:]))  # some were not fitted


def wer_rows(more: list[int]) -> np.ndarray:
    """Errors and words of eight sentences of eight words, so many errors more than four each: all sums are exact."""
    return np.stack([4 + np.array([*more, *[0] * (8 - len(more))]), np.full(8, 8)], axis=1)


@pytest.mark.parametrize(
    ("more", "worse"),
    [
        ([2, 2, 2, 2, 2, -2], False),  # 8 errors, and √(24 - 8²/8) = 4: two standard errors to the last bit
        ([3, 2, 2, 2, 2, -2], True),  # 9 errors, and √(29 - 9²/8) = 4.3: more than two, less than three
        ([2, 2, 2, 2, 1, -2], False),  # 7 errors, and √(21 - 7²/8) = 3.9
        ([4, 4, 4, 4, 4, 4, 4, 4], True),
    ],
)
def test_worse_is_more_than_two_standard_errors(told, more, worse):
    metric, best, last = metric_of("wer", told), wer_rows([]), wer_rows(more)
    assert are_worse(metric, [best, wer_rows([1]), last]) is worse
    assert are_worse(metric, [wer_rows([1]), best, wer_rows([1]), last]) is worse
    assert not are_worse(metric, [best, wer_rows([]), last])  # the one before is as good as the best
    assert not are_worse(metric, [best, last])  # the one before is the best
    assert not are_worse(metric, [last])
    assert not are_worse(metric, [])


@pytest.mark.parametrize(
    ("strongest", "chosen"),
    [
        ([7, -4, 1], 1),  # 4 errors more; √(66 - 4²/8) = 8: half a standard error to the last bit
        ([7, -4, 1, 1], 2),  # 5 errors more, and half of √(67 - 5²/8) is 4
    ],
)
def test_the_rule_by_hand(told, monkeypatch, strongest, chosen):
    """The first is far off, the third the best; what is recorded are scores and errors in percent."""
    rows = [wer_rows([4] * 8), wer_rows(strongest), wer_rows([]), *[wer_rows([1])] * (len(GRID) - 3)]
    fits = [(PenaltyFit(np.array([k]), r[:4]), PenaltyFit(np.array([-k]), r[4:])) for k, r in enumerate(rows)]
    monkeypatch.setattr(penalties, "penalty_fits", lambda *_, **__: fits)
    found = chosen_penalty(Trials(told), replace(OPTIONS, metric="wer"))
    assert found.sparse_l2 == GRID[chosen]
    assert np.array_equal(found.weights, [[chosen], [-chosen]])
    n, squares = sum(strongest), sum(e * e for e in strongest)
    assert found.why["penalties"] == {
        "rule": "the strongest penalty on sparse features within half a standard error of the best",
        "by": "folds",
        "sparse_l2": list(GRID),
        "wer": [100.0, round(100 * (32 + n) / 64, 4), 50.0, *[51.5625] * (len(GRID) - 3)],
        "error": [
            0.0,
            round(100 / 64 * (squares - n * n / 8) ** 0.5, 4),
            0.0,
            *[round(100 / 64 * (7 / 8) ** 0.5, 4)] * (len(GRID) - 3),
        ],
    }


def test_fits_of_a_fold_start_from_the_last(told, monkeypatch):
    """The dense features alone first, then penalty by penalty; a quarter of the pairs under a quarter of each penalty."""
    calls: list[tuple[int, dict[str, Any]]] = []
    plain = penalties.linear_problem

    class Problem:
        def __init__(self, nbest: NBest, pairs: Any, **how: Any) -> None:
            self.inner, self.width = plain(nbest, pairs, **how), len(nbest.feature_names)

        def fit(self, **how: Any) -> Any:
            found = self.inner.fit(**how)
            calls.append((self.width, {**how, "raw": found.raw}))
            return found

    monkeypatch.setattr(penalties, "linear_problem", Problem)
    monkeypatch.setattr(penalties, "are_worse", lambda *_: False)
    options = replace(OPTIONS, l2=22.0)
    penalty_fits(Trials(told), options, GRID)
    width = len(told.feature_names)
    assert [w for w, _ in calls] == [1, *[width] * len(GRID)] * FOLDS
    for fold in range(FOLDS):
        (_, dense), *others = calls[fold * (len(GRID) + 1) : (fold + 1) * (len(GRID) + 1)]
        assert (dense["l2"], dense["tol"], set(dense)) == (5.5, 3e-4, {"l2", "tol", "raw"})
        near = np.append(dense["raw"], np.zeros(width - 1))
        for l2, (_, how) in zip(GRID, others, strict=True):
            assert (how["init"] == near).all()
            assert how["l2_factors"].tolist() == [5.5, *[l2 / 4] * (width - 1)]
            assert (how["tol"], set(how)) == (3e-4, {"init", "l2_factors", "tol", "raw"})
            near = how["raw"]


def test_every_sentence_is_held_out_once_and_trained_on_otherwise(told):
    heard: list[tuple[int, int]] = []
    trials = Trials(told, tell=lambda what, done, n: heard.append((done, n)))
    fits = penalty_fits(trials, OPTIONS, GRID)
    rows = [np.concatenate([fit.rows for fit in of_trials]) for of_trials in fits]
    assert [len(r) for r in rows] == [len(told)] * len(GRID)
    assert heard == [(k, FOLDS * len(GRID)) for k in range(1, FOLDS * len(GRID) + 1)]
    assert (rows[0][:, -1] == 8).all()  # the words of each sentence's own reference
    pairs = pairs_for(told, OPTIONS.pairs, gain="wer", seed=0)
    some = thinned(pairs, np.arange(30, 60))
    assert not np.diff(some.sent_ptr)[:30].any()
    assert not np.diff(some.sent_ptr)[60:].any()
    assert np.diff(some.sent_ptr)[30:60].tolist() == (-(-np.diff(pairs.sent_ptr)[30:60] // 4)).tolist()
    places = [k for s in range(30, 60) for k in range(pairs.sent_ptr[s], pairs.sent_ptr[s + 1], 4)]
    for column in ("better", "worse", "delta"):
        assert np.array_equal(getattr(some, column), getattr(pairs, column)[places])
    assert some.weight is None
    weighed = thinned(replace(pairs, weight=np.arange(float(len(pairs)))), np.arange(30, 60))
    assert weighed.weight is not None
    assert weighed.weight.tolist() == places


def test_the_model_records_the_choice_and_is_that_of_the_number(told):
    """With two threads or one, told or chosen; and a run goes on with its own number."""
    rounds: list[Model] = []
    how: dict[str, Any] = {"templates": "none"}
    model = induce(told, None, OPTIONS, threads=2, callback=lambda row, at: rounds.append(at), **how)
    same = induce(told, None, replace(OPTIONS, sparse_l2=model.config["sparse_l2"]), **how)
    assert model.config["penalties"]["by"] == "folds"
    assert "penalties" not in same.config
    assert (model.weights, model.trees, model.history) == (same.weights, same.trees, same.history)
    heard: list[tuple[int, int]] = []
    assert induce(told, None, OPTIONS, so_far=rounds[0], tell=lambda *at: heard.append(at), **how) == model
    assert not heard


def test_a_select_list_chooses_and_is_not_learned_from(told):
    """Another select list with the same choice gives the same weights and trees."""
    dev, select = told[:48], told[48:]
    model = induce(dev, select, OPTIONS, templates="none")
    assert model.config["penalties"]["by"] == model.config["chosen_by"] == "select"
    fixed = replace(OPTIONS, sparse_l2=model.config["sparse_l2"])
    alone = boost(dev, None, fixed)
    assert alone.weights == model.weights
    assert alone.trees[: len(model.trees)] == model.trees


def test_a_list_of_sparse_features_alone_has_its_penalty_chosen(told):
    units = replace(told.units, x=told.units.x[:, :0])
    alone = replace(told, unit_names=(), units=units)
    assert chosen_penalty(Trials(alone), OPTIONS).sparse_l2 < WITHOUT


def test_there_is_nothing_to_choose_without_sparse_features_or_from_a_model(told, dev):
    def chosen(nbest, options, start=None):
        return with_penalty(Trials(nbest), FeaturedLists(nbest, None), options, start)

    assert chosen(dev, recipe("default")) == (recipe("default", sparse_l2=1000.0), {}, [])
    assert chosen(told[:5], OPTIONS)[1] == {}
    assert chosen(told, OPTIONS, boost(told, None, BoostOptions(rounds=0)))[1] == {}
    assert chosen(told, replace(OPTIONS, sparse_l2=None))[0].sparse_l2 is None


def test_the_command_says_what_it_chose(told, tmp_path, capsys, monkeypatch):
    write_store(told, tmp_path / "told.nbest")
    flags = ["--gain", "wer", "--rounds", "1", "--min-occurrences", "5", "--set", "draws=200", "--pairs", "20"]

    def induce(*more: str) -> tuple[int, str]:
        words = ["boostfeat", "induce", tmp_path / "told.nbest", *flags, "-o", tmp_path / "m.json", *more]
        monkeypatch.setattr(sys, "argv", list(map(str, words)))
        return run(), capsys.readouterr().err

    code, said = induce()
    chosen = json.loads((tmp_path / "m.json").read_text())["config"]["sparse_l2"]
    assert code == 0
    assert f"sparse-l2 {chosen:g}: the strongest penalty" in said
    code, said = induce("--set", "sparse-l2=1000")
    assert code == 0
    assert "strongest" not in said
    assert "penalties" not in json.loads((tmp_path / "m.json").read_text())["config"]
    code, said = induce("--set", "sparse-l2=some")
    assert code == 2
    assert "--set sparse-l2: expected auto, or 0 or more, found 'some'" in said
