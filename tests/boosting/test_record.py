"""What stands beside the rounds: the held-out list and when it ends them, interrupted runs and how they go on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engines import Spoken, one_leaf

from boostfeat.boosting.boost import boost, run_rounds
from boostfeat.boosting.boost_options import BoostOptions, recipe
from boostfeat.boosting.record import STEPS, Record, best_round, check_same, kept_rounds, staged_scores
from boostfeat.core.errors import InputError
from boostfeat.losses.pairs import PairOptions
from boostfeat.model.model import Model
from boostfeat.trees.growing import TreeOptions

pytestmark = pytest.mark.quick

FAST = BoostOptions(rounds=4, tree=TreeOptions(min_occurrences=20), pairs=PairOptions(draws=500, keep=50))


@pytest.mark.parametrize(("patience", "rounds"), [(0, 1), (1, 1), (3, 3), (5, 5), (50, 9)])
def test_rounds_without_a_rise_end_after_patience(select, patience, rounds):
    """Trees of one constant leaf give all hypotheses of this list the same: its gain never moves."""
    assert len(set(np.diff(select.unit_ptr))) == 1
    options = BoostOptions(rounds=9, patience=patience)
    model = run_rounds(Spoken([one_leaf()] * 9), Record(options, select))
    assert len({row["select"] for row in model.history}) == 1
    assert len(model.history) - 1 == len(model.trees) == rounds
    assert not kept_rounds(model).trees


def test_patience_is_counted_from_the_last_rise(select):
    """LexWeight in round 2 is worth more than LM0 alone; the trees around it change nothing."""
    trees = [one_leaf(), one_leaf(on="LexWeight"), *[one_leaf()] * 7]
    model = run_rounds(Spoken(trees), Record(BoostOptions(rounds=9, patience=3), select))
    gains = [row["select"] for row in model.history]
    assert gains[0] == gains[1] < gains[2] == gains[3] == gains[4] == gains[5]
    assert (len(gains), len(kept_rounds(model).trees)) == (6, 2)


def test_without_a_held_out_list_rounds_go_on_to_the_end():
    model = run_rounds(Spoken([one_leaf()] * 9), Record(BoostOptions(rounds=9, patience=1)))
    assert len(model.trees) == len(kept_rounds(model).trees) == 9


def test_stops_by_select_and_keeps_the_best_round(dev, select):
    model = boost(dev, select, replace(FAST, rounds=30, patience=3))
    gains = [row["select"] for row in model.history]
    assert len(model.trees) == int(np.argmax(gains)) == best_round(model.history) == model.config["best_round"]
    assert len(gains) - 1 - int(np.argmax(gains)) == 3


# -- interrupted runs ---------------------------------------------------------------------------------------------------


EVERYTHING = {"context": True, "resample_pairs": 3, "shrinkage": 0.5, "rule": "all",
              "tree": TreeOptions(leaves="affine", max_leaves=3, min_occurrences=20)}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "stop"),
    [
        ({}, 0),
        ({"resample_pairs": 2}, 1),
        ({"resample_pairs": 2}, 2),
        ({"level": "global"}, 3),
        *((EVERYTHING, stop) for stop in (0, 1, 2, 3, 4)),
        ({"tree_features": ("LexWeight", "PhraseCount")}, 2),
    ],
)
def test_interrupted_and_resumed_is_the_same_model(dev, select, options, stop):
    options = replace(FAST, rounds=5, **options)
    whole = boost(dev, select, options, seed=4)
    kept = []

    def interrupt(row, model):
        kept.append(model)
        if row["round"] == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        boost(dev, select, options, seed=4, callback=interrupt)
    half = Model.from_json(kept[-1].to_json(), "half")
    resumed = boost(dev, select, options, seed=4, so_far=half)
    assert resumed.to_json() == whole.to_json()


def test_a_run_goes_on_from_the_trees_it_began_with(dev, select):
    """An initial model's trees, a draw in between, and an interrupt: the trees that were there do not count as rounds."""
    init = boost(dev, None, replace(FAST, rounds=2))
    options, seen = replace(FAST, rounds=3, resample_pairs=2), []
    whole = boost(dev, select, options, init=init, callback=lambda row, model: seen.append(model))
    for so_far in seen:
        assert boost(dev, select, options, init=init, so_far=so_far).to_json() == whole.to_json()


def test_options_of_a_run_that_is_continued():
    """An option that it does not say is another one, as the units of steps in release 0.1."""
    found = {"l2": 1.0, "rounds": 3}
    check_same(found, {"l2": 1.0, "rounds": 5})
    for expected, line in (
        ({"steps": STEPS}, f"the run's own option steps = None, found {STEPS}; give the same options"),
        ({"l2": 2.0}, "the run's own option l2 = 1.0, found 2.0; give the same options"),
        ({"metric": "bleu"}, "the run's own option metric = None, found bleu; give the same options"),
    ):
        with pytest.raises(InputError, match=f"^resume: expected {line}$"):
            check_same(found, expected)


# -- the round that is kept -----------------------------------------------------------------------------------------------


QUICK = {"rounds": 12, "min_occurrences": 20, "draws": 300, "keep": 30}


@pytest.mark.parametrize(
    ("gains", "best"), [([1.0], 0), ([1, 2, 3], 2), ([1, 5, 4, 5], 1), ([3, 3], 0), ([0] * 30 + [5] + [2] * 30, 30)]
)
def test_the_best_round_is_the_first_of_the_highest_gain(gains, best):
    assert best_round([{"round": m, "select": g} for m, g in enumerate(gains)]) == best


@pytest.mark.parametrize("counts", [range(5), range(2, 5), [0, 3, 6, 9]])
def test_staged_scores_are_those_of_the_shorter_models(dev, select, counts):
    """Of four trees; after more than there are, scores stay as they are."""
    model = boost(dev, None, recipe("fast", **{**QUICK, "rounds": 4}, sparse_l2=1.0))
    for m, scores in zip(counts, staged_scores(model, select, counts), strict=True):
        np.testing.assert_allclose(scores, model.truncated(m).decision_function(select), rtol=0, atol=1e-9)
