"""PRO behind the tuner protocol: equal to one fit of its pairs, groups, rounds, and what is refused. The fit itself: test_pro.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_mira import matrix, random_lists

from boostfeat.core.errors import InputError
from boostfeat.lists.nbest import NBest
from boostfeat.losses.pairs import SAMPLERS, pairs_for
from boostfeat.tuners import tuner_class
from boostfeat.tuners.base import Features, Groups, Run
from boostfeat.tuners.linear import LinearFit, linear_problem
from boostfeat.tuners.pro import Pro
from boostfeat.tuners.tuner_options import ProOptions

LISTS = random_lists(seed=1, counts=(12,) * 15 + (0, 1))
INIT = {"f0": 0.5, "f2": -1.5, "s3": 0.25}


def fit_pro(nbest: NBest, options: ProOptions, *, seed: int, threads: int = 1, **how: Any) -> LinearFit:
    """Draw pairs and fit once."""
    pairs = pairs_for(nbest, options.pair_options(), seed=seed, threads=threads)
    problem = linear_problem(nbest, pairs, threads=threads)
    return problem.fit(l2=options.l2, max_iter=options.max_iter, tol=options.tol, **how)


def test_one_round_is_one_fit():
    for tuner, options in (
        (Pro(), ProOptions()),
        (Pro(sampler="hm11", l2=3.0), ProOptions(sampler="hm11", l2=3.0)),
        (Pro(keep=7, alpha=0.1, max_iter=4), ProOptions(keep=7, alpha=0.1, max_iter=4)),
    ):
        model = tuner.fit(LISTS, None, Run(seed=5, init=INIT, threads=2))
        fit = fit_pro(LISTS, options, seed=5, init=INIT)
        assert dict(model.weights) == {n: w for n, w in fit.weights.items() if w != 0 or n in LISTS.global_names}
        row = model.history[0]
        assert (row["loss"], row["pairs"], row["iterations"]) == (fit.loss, fit.n_pairs, fit.n_iter)
        assert row["converged"] == (options.max_iter > 4)
    assert tuner_class("pro") is Pro
    assert Pro(sampler="hm11").pair_options() == SAMPLERS["hm11"]


def objective(nbest, pairs, w, penalty):
    """Σ log(1 + exp(-z)) + ½ Σ penalty (scale λ)², as examples/method.md states it: the naive twin, on dense differences."""
    diff = matrix(nbest)[pairs.better] - matrix(nbest)[pairs.worse]
    seen = (diff != 0).sum(axis=0)
    scale = np.sqrt((diff**2).sum(axis=0) / np.maximum(seen, 1))
    return np.logaddexp(0, -diff @ w).sum() + (penalty * (scale * w) ** 2).sum() / 2


def test_groups_freeze_and_weigh_the_penalty():
    groups = Groups((("f0", {"freeze": True}), ("s3", {"freeze": True}), ("s[0-2]", {"l2": 100.0}), ("f2", {"l2": 0})))
    tuner = Pro(l2=2.0, tol=1e-9)
    model = tuner.fit(LISTS, None, Run(init=INIT, groups=groups))
    assert (model.weights["f0"], model.weights["s3"]) == (0.5, 0.25)
    names = Features.of(LISTS).names
    pairs, penalty = pairs_for(LISTS, tuner.pair_options(), seed=0), 2.0 * groups.factors(names, "l2")
    w = np.array([model.weights.get(n, 0.0) for n in names])
    least = objective(LISTS, pairs, w, penalty)
    for j in np.flatnonzero(~groups.frozen(names)):
        slope = [objective(LISTS, pairs, w + h * (np.arange(len(w)) == j), penalty) for h in (-1e-4, 1e-4)]
        assert min(slope) > least  # a minimum in every direction that is free
        assert abs(slope[1] - slope[0]) / 2e-4 < 1e-2
    frozen_only = tuner.fit(LISTS, None, Run(init=INIT, groups=Groups((("*", {"freeze": True}),))))
    assert {n: v for n, v in frozen_only.weights.items() if v} == INIT


def test_rounds_resample_and_average():
    model = Pro(rounds=3, keep=10).fit(LISTS, None, Run(seed=2))
    steps = [Pro(rounds=r, keep=10).fit(LISTS, None, Run(seed=2)) for r in (1, 2)]
    names = LISTS.global_names
    means = np.array([[m.weights[n] for n in names] for m in (*steps, model)])
    fits = np.diff(np.r_[np.zeros((1, len(names))), means * [[1], [2], [3]]], axis=0)
    assert len({tuple(np.round(f, 6)) for f in fits}) == 3  # other pairs, other weights
    assert (np.abs(means[2] - fits.mean(axis=0)) < 1e-12).all()
    assert len(model.history) == 3
    held_out = replace(LISTS, stats=np.ascontiguousarray(LISTS.stats[::-1]))
    picked = Pro(rounds=4, keep=10).fit(LISTS, held_out)
    select = [row["select"] for row in picked.history]
    assert picked.config["epoch"] == select.index(max(select))


def test_what_is_refused():
    equal = replace(LISTS, stats=np.tile(LISTS.stats[:1], (LISTS.n_hyps, 1)))
    with pytest.raises(InputError, match=r"differs by more than 0.04, found none; lower --threshold"):
        Pro().fit(equal)
    with pytest.raises(InputError, match="unknown sampler 'xx': expected one of ta13, hm11"):
        Pro(sampler="xx")
    with pytest.raises(InputError, match="rounds: expected 1 or more, found 0"):
        Pro(rounds=0)
    with pytest.raises(InputError, match="initial weight of 'nowhere'"):
        Pro().fit(LISTS, None, Run(init={"nowhere": 1.0}))
