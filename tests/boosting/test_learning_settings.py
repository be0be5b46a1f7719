"""Numbers that learnt models depend on. Who changes one means to, and says so in examples/changes.md."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest
from toy_trees import stump

from boostfeat.boosting import boost, decision, options, penalties, stopping, tree_count
from boostfeat.boosting.estimator import BoostReranker, SentenceKFold
from boostfeat.boosting.options import recipe
from boostfeat.lists.nbest import NBest
from boostfeat.losses import line_search, pair_options, pairs, pairwise
from boostfeat.losses.pair_options import PairOptions
from boostfeat.search.graphs import graph_mert
from boostfeat.trees import binning, drawing, growing, slope_search, tree
from boostfeat.tuners import adaptive, base, linear, margin, mert, tuner_class, tuner_options

pytestmark = pytest.mark.quick

SETTINGS = {
    decision: {"LENGTHS": (0.0, 0.25, 0.5, 1.0, 2.0), "SCALES": (0.0, 5.0, 3.0, 2.0)},
    options: {"NOTHING_TO_CHOOSE": 1000.0},
    penalties: {"WITHOUT": 1e6, "GRID": (1e6, 1e4, 3e3, 1e3, 300.0, 100.0, 30.0, 10.0, 3.0), "FOLDS": 3, "THINNED": 4, "TOLERANCE": 3e-4},
    tree_count: {"FOLDS": 3, "STEPS": 30},
    growing: {"LEAST_ENERGY": 1e-3},
    slope_search: {"_COARSE": 64},
    tree: {"DRAWN": 64, "DEEPEST": 40, "_ZERO": 1e-30},
    drawing: {"NODE": (166, 40), "LEAF": (104, 44), "ROW": 54, "STEP": 218},
    line_search: {"ROUNDING": 1e-14},
    pairwise: {"FLOOR": 1e-12},
    pair_options: {
        "SAMPLERS": {
            "ta13": PairOptions("ta13", draws=10_000, threshold=0.04, keep=100),
            "hm11": PairOptions("hm11", draws=5_000, threshold=0.05, keep=50),
        }
    },
    adaptive: {"ROUNDING": 1e-12},
    base: {"FITTED": 2000},
    graph_mert: {"GRID": 2.0**20},
    margin: {"HUGE": 1e100, "EPSILON": 1e-6},
    mert: {"NARROW": 1e-9, "FLOOR": 1e-12},
    tuner_options: {
        "ORACLES": {"lu": (0.0, 1.0), "hope": (1.0, 1.0), "max-bleu": (0.0, 1.0)},
        "PREDICTIONS": {"pb": (1.0, 0.0), "mc": (0.0, 1.0), "fear": (1.0, 1.0)},
    },
}  # fmt: skip


DEFAULTS: dict[Callable[..., Any], dict[str, Any]] = {  # of numbers; threads change nothing
    boost.boost: {"seed": 0},
    stopping.best_round: {"lower": False},
    stopping.kept_rounds: {"n_init": 0},
    stopping.last_se_round: {"n_init": 0},
    SentenceKFold.__init__: {"n_splits": 5, "random_state": 0},
    BoostReranker.fit: {"allow_missing": False},
    binning.Scale: {"scale": 0.0, "shift": 0.0},
    growing.Grower.__init__: {"seed": 0},
    line_search.minimise_ray: {"start": 0.0, "tol": 1e-9, "max_iter": 100},
    pairs.sample_pairs: {"first": 0},
    pairs.pairs_for: {"first": 0},
    adaptive.Weights.__init__: {"prior": 0.0},
    adaptive.OnlineRanker.learn: {"prior": 0.0, "r": 1.0},
    adaptive.OnlineRanker.weights: {"prior": 0.0, "r": 1.0},
    base.Run: {"seed": 0, "allow_missing": False},
    base.Run.gains: {"alpha": 1.0},
    base.EpochLog.__init__: {"train_default": False},
    graph_mert.GraphCorpus.line_search: {"reach": 1.0, "narrow": 0.0},
    linear.LinearProblem.fit: {"l2": 1.0, "max_iter": 1000, "tol": 1e-6},
    mert.Corpus.line_search: {"reach": 1.0, "narrow": 0.0},
}


def defaults() -> dict[Callable[..., Any], dict[str, Any]]:
    found = {}
    for function in DEFAULTS:
        given = {name: p.default for name, p in signature(function).parameters.items() if name != "threads"}
        found[function] = {name: value for name, value in given.items() if isinstance(value, int | float)}
    return found


def lists() -> NBest:
    return synthetic_nbest(SyntheticOptions(sentences=8, hyps=4, features=3), seed=1)


def test_whole_settings_of_boosting() -> None:
    """Linear leaves, folds, penalties and decisions take part in the run, and its tree is drawn."""
    few = recipe("default", rounds=2, min_occurrences=1, draws=30, keep=5, leaves="linear")
    model = boost.boost(lists(), None, few)
    assert model.config["tree_count"]
    assert stump().card()
    assert penalties.with_penalties(lists(), few, seed=0)[0].sparse_l2 == options.NOTHING_TO_CHOOSE
    assert not penalties.are_worse(None, [])  # type: ignore[arg-type]
    found = {module: {name: getattr(module, name) for name in names} for module, names in SETTINGS.items()}
    assert (found, defaults()) == (SETTINGS, DEFAULTS)


@pytest.mark.parametrize(
    ("name", "how"), [("mert", {"restarts": 0, "rounds": 1}), ("rm", {"epochs": 1}), ("adagrad", {"epochs": 1})]
)
def test_whole_settings_of_tuners(name, how) -> None:
    assert tuner_class(name)(**how).fit(lists(), None, base.Run(seed=0)).weights
    found = {module: {name: getattr(module, name) for name in names} for module, names in SETTINGS.items()}
    assert (found, defaults()) == (SETTINGS, DEFAULTS)


def test_whole_settings_of_graph_tuning() -> None:
    assert graph_mert._crossing(np.array([1.0, 0.0]), np.array([0.0, 2.0]), 0, 1) == 0.5
    assert SETTINGS[graph_mert]["GRID"] == graph_mert.GRID
