"""Relative margin: equal to MIRA without a bound, to a naive twin and a general QP solver with one; the bound bounds."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import inf

import numpy as np
import pytest
from scipy.optimize import minimize
from test_mira import GROUPS, check_against_twin, container, planted_lists, random_lists, random_stats, some_init, vector

from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.model.model import Model
from boostfeat.tuners.base import Run
from boostfeat.tuners.mira import Mira, RelativeMargin

GOOD, FAIR, BAD = [10, 9, 8, 7, 10, 10], [8, 6, 4, 2, 10, 10], [3, 1, 0, 0, 10, 10]


@pytest.mark.parametrize(
    "options", [{}, {"shards": 3}, {"oracle": "lu", "prediction": "mc", "k": 2}, {"average": False, "c": 1.0}]
)
def test_without_a_bound_it_is_mira_to_the_last_bit(options):
    nbest = random_lists(seed=1)
    run = Run(init=some_init(nbest), groups=GROUPS)
    rm, mira = (tuner(epochs=5, **options).fit(nbest, None, run) for tuner in (lambda **k: RelativeMargin(b=inf, **k), Mira))
    assert rm.weights == mira.weights
    assert rm.history == mira.history


@pytest.mark.parametrize(
    "options", [{}, {"shards": 3}, {"b": 0.01, "d": 0.5}, {"b": 0.3, "c": 0.2, "prediction": "pb"}, {"b": 2.0, "by_cost": True}]
)
def test_passive_aggressive_equals_the_twin(options):
    nbest = random_lists(seed=2)
    tuner = RelativeMargin(**{"epochs": 4, "b": 0.1, **options})
    model = check_against_twin(
        nbest, tuner, Run(init=some_init(nbest, 3), groups=GROUPS), b=tuner.b, d=tuner.d, by_cost=tuner.by_cost
    )
    free = replace(tuner, b=inf).fit(nbest, None, Run(init=some_init(nbest, 3), groups=GROUPS))
    assert model.weights != free.weights, "the bound was never active"


# -- the bound ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["pa", "cp"])
@pytest.mark.parametrize("start", [[5.0, 0.0], [-5.0, 0.0], [4.0, -3.0]], ids=["above", "below", "oblique"])
def test_the_spread_falls_to_the_bound(solver, start):
    """Three hypotheses on a line but for the margin; y+ is far above y_w, or (start below) far below the model's best."""
    nbest = container((3,), np.array([[1.0, 0.1], [0.5, -0.1], [-1.0, 0.0]]), [GOOD, FAIR, BAD])
    tuner = RelativeMargin(b=1.0, d=1e3, c=1e-9, solver=solver, oracle="max-bleu", epochs=3, average=False)
    model = tuner.fit(nbest, None, Run(init={"f0": start[0], "f1": start[1]}))
    scores = nbest.extra @ vector(nbest, model)
    before = nbest.extra @ start
    assert np.abs(before[0] - before).max() > 5
    assert np.abs(scores[0] - scores).max() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("solver", ["pa", "cp"])
def test_small_steps_lower_the_spread_epoch_by_epoch(solver):
    nbest = container((2,), np.array([[1.0], [0.0]]), [GOOD, BAD])
    tuner = RelativeMargin(b=1.0, d=0.25, solver=solver, epochs=12, average=False)
    spread = [row["spread_mean"] for row in tuner.fit(nbest, None, Run(init={"f0": 3.0})).history]
    want = np.maximum(3.0 - 0.25 * np.arange(12), 1.0)  # |df| = 1: a step of D lowers ds by D
    assert spread == pytest.approx(want, abs=2e-6)


@pytest.mark.parametrize("solver", ["pa", "cp"])
def test_it_learns_with_a_smaller_spread_than_mira(solver):
    nbest, truth = planted_lists()
    rm = RelativeMargin(solver=solver, b=0.5, d=0.1, epochs=8).fit(nbest)
    mira = Mira(epochs=8).fit(nbest)
    assert rm.history[-1]["spread_mean"] < 0.7 * mira.history[-1]["spread_mean"]
    w = vector(nbest, rm)
    assert w @ truth / np.sqrt(w @ w * (truth @ truth)) > 0.9


# -- the cutting plane ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_cutting_plane_solves_the_quadratic_program(seed):
    """[EMR13 eq. 4] with a constraint for every hypothesis and a slack for each bound, solved by scipy."""
    rng = np.random.default_rng(seed)
    n, dim = 6, 4
    x, stats, w0 = rng.normal(size=(n, dim)), random_stats(rng, n), rng.normal(size=dim)
    c, b, d = ((0.01, 1.0, 0.01), (0.3, 0.5, 0.2), (5.0, 0.3, 5.0))[seed % 3]
    gain = sentence_bleu(stats)
    plus = int((x @ w0 + gain).argmax())
    others = np.delete(np.arange(n), plus)
    df, cost = x[plus] - x[others], gain[plus] - gain[others]

    def violations(w):
        ds = df @ w
        return cost - ds, ds - b, -ds - b

    def objective(w):
        slacks = np.array([max(0.0, v.max()) for v in violations(w)])
        return ((w - w0) ** 2).sum() / 2 + np.array([c, d, d]) @ slacks

    found = minimize(
        lambda u: ((u[:dim] - w0) ** 2).sum() / 2 + np.array([c, d, d]) @ u[dim:],
        np.concatenate([w0, np.full(3, 10.0)]),
        bounds=[(None, None)] * dim + [(0, None)] * 3,
        constraints=[{"type": "ineq", "fun": lambda u, k=k: u[dim + k] - violations(u[:dim])[k]} for k in range(3)],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    tuner = RelativeMargin(c=c, b=b, d=d, solver="cp", epochs=1, average=False, max_iter=10_000)
    nbest = container((n,), x, stats)
    model = tuner.fit(nbest, None, Run(init=dict(zip(("f0", "f1", "f2", "f3"), w0.tolist(), strict=True))))
    best = objective(found.x[:dim])
    assert best < objective(w0), "the start is the solution already"
    assert vector(nbest, model) == pytest.approx(found.x[:dim], abs=2e-4)
    assert objective(vector(nbest, model)) < best + 1e-5  # working sets stop at violations of 1e-6, times C and D


def cutting_plane_by_hand(x, plus, gain, w, *, c, b, d, max_iter):
    """[EMR13 algorithms 1 and 2] as one reads them: every violation straight from the weights of the moment."""

    def violation(k, y):
        ds = (x[plus] - x[y]) @ w
        return 0.0 if y == plus else gain[plus] - gain[y] - ds if k == 0 else (ds, -ds)[k - 1] - b

    masses = [{plus: c}, {plus: d}, {plus: d}]
    for _ in range(max_iter):
        worst, new = 1e-6, None
        for k, mass in enumerate(masses):
            top = max(range(len(x)), key=lambda y, k=k: violation(k, y))
            ahead = violation(k, top) - max(0.0, *(violation(k, y) for y in [plus, *mass]))
            if ahead > worst:
                worst, new = ahead, (k, top)
        if new is None:
            break
        masses[new[0]].setdefault(new[1], 0.0)
        for _ in range(max_iter):
            changed = False
            for k, mass in enumerate(masses):
                most = max(sorted(mass), key=lambda y, k=k: violation(k, y))
                least = min((y for y in sorted(mass) if mass[y] > 0), key=lambda y, k=k: violation(k, y))
                apart = violation(k, most) - violation(k, least)
                if apart > 1e-6:
                    df = x[least] - x[most]
                    step = min(mass[least], apart / (df @ df))
                    mass[most], mass[least] = mass[most] + step, mass[least] - step
                    w = w + (-step if k == 1 else step) * df
                    changed = True
            if not changed:
                break
    return w


@pytest.mark.parametrize("max_iter", [1, 2, 3])
@pytest.mark.parametrize("seed", [20, 21, 22, 24])  # with 23 a tie is decided by rounding
def test_the_cutting_plane_goes_the_way_of_the_paper(seed, max_iter):
    """Stopped at any step, and among more hypotheses than the first constraints name. With small masses steps are as large as
    these: after a step of any other size two violations are equal but for rounding, which would decide the next one.
    """
    rng = np.random.default_rng(seed)
    x, stats, w0 = rng.normal(size=(12, 4)), random_stats(rng, 12), rng.normal(size=4)
    limits = {"c": 0.1, "b": 0.3, "d": 0.1}
    nbest, gain = container((12,), x, stats), sentence_bleu(stats)
    tuner = RelativeMargin(**limits, solver="cp", epochs=1, average=False, max_iter=max_iter)
    found = vector(nbest, tuner.fit(nbest, None, Run(init=dict(zip(("f0", "f1", "f2", "f3"), w0.tolist(), strict=True)))))
    wanted = cutting_plane_by_hand(x, int((x @ w0 + gain).argmax()), gain, w0, **limits, max_iter=max_iter)
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert not np.allclose(found, w0)


def test_two_hypotheses_and_no_bound_make_the_cutting_plane_one_step():
    nbest = random_lists(seed=4, counts=(2,) * 12)
    run = Run(init=some_init(nbest), groups=GROUPS)
    pa, cp = (RelativeMargin(b=inf, solver=s, epochs=1, c=0.05).fit(nbest, None, run) for s in ("pa", "cp"))
    assert vector(nbest, cp) == pytest.approx(vector(nbest, pa), rel=1e-12, abs=2e-6)  # the tolerance of the working sets
    assert pa.history[0]["moves"] > 2


def test_equal_features_with_unequal_gains_end():
    """No weights can tell the hypotheses apart: the solver must stop, not divide by 0."""
    nbest = container((3, 3), np.array([[1.0], [1.0], [0.0]] * 2), [BAD, GOOD, FAIR] * 2)
    model = RelativeMargin(solver="cp", epochs=2).fit(nbest)
    assert np.isfinite(list(model.weights.values())).all()


# -- the record -----------------------------------------------------------------------------------------------------------


def test_a_model_without_a_bound_can_be_saved(tmp_path):
    model = RelativeMargin(b=inf, epochs=1).fit(random_lists())
    model.save(tmp_path / "m.json")
    assert Model.load(tmp_path / "m.json").config["b"] == "inf"
    assert set(asdict(RelativeMargin())) <= set(RelativeMargin(epochs=1).fit(random_lists()).config)
