"""The search for hyper-parameters against its definition, with scores that are drawn: what is asked for, tried and chosen."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from boostfeat.compare.comparison_options import CompareOptions
from boostfeat.compare.systems import Fit, Fitted, Found, System, parse_systems, search_plan, stages
from boostfeat.model.model import Model

Asked = tuple[str, tuple[tuple[str, Any], ...], int, float, int]  # method, settings, seed, share of dev, fold


def asked(fit: Fit) -> Asked:
    return fit.system.method, tuple(sorted(fit.params.items())), fit.seed, fit.share, fit.fold


def carried_out(system: System, options: CompareOptions, value, *, sign: float, runs: int) -> tuple[list[list[Asked]], Found]:
    """What a plan asks for, one batch after the other, and what it finds; ``value`` scores a fit."""
    plan, batches, fits = search_plan(system, options, sign=sign, runs=runs), list[list[Asked]](), next
    answer: list[Fitted] | None = None
    while True:
        try:
            fits = next(plan) if answer is None else plan.send(answer)
        except StopIteration as end:
            return batches, end.value
        batches.append([asked(fit) for fit in fits])
        answer = [Fitted(Model({repr(one): 1.0}), value(one), value(one) + 1, 100 - value(one)) for one in batches[-1]]


def by_definition(system: System, search: str, value, *, sign: float, seed: int) -> tuple[list[list[Asked]], list[dict], dict]:
    """Batches, what was tried and what is chosen, one point after the other."""
    batches: list[list[Asked]] = []
    tried: list[dict] = []
    known: set[Asked] = set()

    def scores(points: list[dict], method: str, share: float, folds: tuple[int, ...]) -> list[float]:
        batch, out = [], []
        for point in points:
            params = {k: v for k, v in point.items() if method == system.method or k in ("alpha", "keep", "l2")}
            fits = [(method, tuple(sorted(params.items())), seed, share, fold) for fold in folds or (-1,)]
            batch += fits
            out.append(sum(map(value, fits)) / len(fits))
            if fits[0] not in known:
                about = {"folds": 3} if folds else {"dev": share} if share != 1 else {}
                tried.append({"params": params, "select": pytest.approx(out[-1]), **about})
            known.update(fits)
        batches.append(list(dict.fromkeys(batch)))
        return [sign * score for score in out]

    chosen = {name: values[0] for stage in stages(system) for name, values in stage.grid.items()}
    for stage in stages(system) if search != "none" else ():
        method, grid = stage.method or system.method, list(stage.grid.values())
        points = [{**chosen, **dict(zip(stage.grid, point, strict=True))} for point in product(*grid)]
        if search == "halving":
            for share in (0.25, 0.5):
                if len(points) > 2:
                    found = scores(points, method, share, ())
                    order = sorted(range(len(points)), key=lambda k: (-found[k], k))
                    points = [points[k] for k in sorted(order[: (len(points) + 1) // 2])]
        of_pairs = set(stage.grid) <= {"alpha", "keep", "l2"}
        found = scores(points, method, 1.0, (0, 1, 2) if search == "folds" and of_pairs else ())
        chosen = points[found.index(max(found))]
    scores([chosen], system.method, 1.0, ())
    return batches, tried, chosen


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("search", ["grid", "halving", "folds", "none"])
@pytest.mark.parametrize("name", ["base-PRO", "base/rm", "base/mira", "mbr", "boost-local:paper", "boost-local", "base-PRO:l2=2"])
def test_a_search_is_its_definition(name, search, seed):
    """Whole numbers from 0 to 3, so that there are equals: the first of them counts. Lower is better where the sign says so."""
    system, options = (
        parse_systems(name)[0] if "/" not in name else parse_systems(f"decoder,{name}")[1],
        CompareOptions(search=search, seed=7),
    )

    def value(fit: Asked) -> float:
        return float(Random(f"{seed} {fit}").randrange(4))

    for sign in (1.0, -1.0):
        batches, tried, chosen = by_definition(system, search, value, sign=sign, seed=7)
        for runs in (1, 3):
            more = [(system.method, tuple(sorted(chosen.items())), 7 + r, 1.0, -1) for r in range(1, runs)]
            found_batches, found = carried_out(system, options, value, sign=sign, runs=runs)
            assert found_batches == [*batches, *([more] if more else [])]
            assert (found.tried, found.params) == (tried, chosen)
            first = (system.method, tuple(sorted(chosen.items())), 7, 1.0, -1)
            assert [next(iter(fitted.model.weights)) for fitted in found.runs] == [repr(fit) for fit in (first, *more)]
            every = {repr(fit) for batch in found_batches for fit in batch}
            assert sorted(next(iter(fitted.model.weights)) for fitted in found.fits) == sorted(every)
