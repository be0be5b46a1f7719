"""RAMPION against a naive twin of [GS12], its regulariser, and its degenerate cases."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from test_mira import GROUPS, factors, matrix, random_lists, some_init, vector

from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.tuners.base import Features, Groups, Run
from boostfeat.tuners.rampion import Rampion


def twin(nbest, tuner, run, l2=1.0):
    f, ptr = matrix(nbest), nbest.hyp_ptr
    w0 = np.array([(run.init or {}).get(n, 0.0) for n in Features.of(nbest).names])
    w, factor, cost = w0, factors(nbest, run.groups), tuner.alpha * (1 - sentence_bleu(nbest.stats))
    n = np.count_nonzero(np.diff(ptr) > 1)
    rng = np.random.default_rng(run.seed)
    lists = [np.arange(p, q) for p, q in pairwise(ptr)]
    for _ in range(tuner.epochs):
        hope = [h[(f[h] @ w - cost[h]).argmax()] if len(h) else -1 for h in lists]
        for _ in range(tuner.passes):
            for s in rng.permutation(len(lists)):
                if len(h := lists[s]):
                    fear = h[(f[h] @ w + cost[h]).argmax()]
                    w = w + tuner.eta * factor * (f[hope[s]] - f[fear])
            for _ in range(n):
                w = w - tuner.eta * tuner.c * l2 / n * (w - w0)
    return w


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({}, Groups()),
        ({"eta": 0.01, "c": 20.0}, Groups()),
        ({"eta": 0.01, "alpha": 0.5, "passes": 2}, Groups()),
        ({"eta": 0.01}, GROUPS),
    ],
    ids=["default", "strong-pull", "small-cost", "groups"],
)
@pytest.mark.parametrize("start", ["zero", "weights"])
def test_equals_the_twin(options, groups, start):
    nbest = random_lists(seed=1)
    run = Run(seed=2, init=some_init(nbest) if start == "weights" else None, groups=groups)
    tuner = Rampion(epochs=4, **options)
    model = tuner.fit(nbest, None, run)
    assert vector(nbest, model) == pytest.approx(twin(nbest, tuner, run), rel=1e-12, abs=1e-12)
    assert all(row["moves"] for row in model.history)


def test_the_pull_once_a_pass_is_the_pull_at_each_step_to_the_order_of_eta_c():
    """The deviation that the docstring states: [GS12]'s own update, with the pull at each step, differs by far less than η C."""
    nbest = random_lists(seed=3)
    tuner, run = Rampion(epochs=3), Run(init=some_init(nbest))
    f, ptr, w0 = matrix(nbest), nbest.hyp_ptr, np.array(list(run.init.values()))
    lists = [np.arange(p, q) for p, q in pairwise(ptr)]
    gain, n, w, rng = tuner.alpha * sentence_bleu(nbest.stats), len(lists), w0, np.random.default_rng(0)
    for _ in range(tuner.epochs):
        hope = [h[(f[h] @ w + gain[h]).argmax()] if len(h) else -1 for h in lists]
        for _ in range(tuner.passes):
            for s in rng.permutation(n):
                h = lists[s]
                step = f[hope[s]] - f[h[(f[h] @ w - gain[h]).argmax()]] if len(h) else 0.0
                w = w - tuner.eta * tuner.c / n * (w - w0) + tuner.eta * step
    moved = np.abs(w - w0).max()
    assert np.abs(vector(nbest, tuner.fit(nbest, None, run)) - w).max() < tuner.eta * tuner.c * moved


def test_the_factors_of_l2_are_those_of_the_pull():
    nbest = random_lists(seed=4)
    tuner, run = Rampion(epochs=3, eta=0.01, c=5.0), Run(init=some_init(nbest))
    all_of = replace(run, groups=Groups((("*", {"l2": 4.0}),)))
    want = replace(tuner, c=20.0).fit(nbest, None, run).weights
    assert tuner.fit(nbest, None, all_of).weights == want


def test_no_cost_and_an_overwhelming_pull_leave_the_start_as_it_is():
    nbest = random_lists(seed=5)
    run = Run(init=some_init(nbest))
    free = Rampion(epochs=2, alpha=0.0).fit(nbest, None, run)
    assert free.weights == run.init
    assert free.history[0]["note"] == "no list asked for a step"
    assert Rampion(epochs=2, c=1e9).fit(nbest, None, run).weights == run.init
