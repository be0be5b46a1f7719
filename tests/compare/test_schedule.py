"""Plans together: every task once, the longest first, results in the order of asking, whoever is done first."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from boostfeat.compare.job_processes import Job
from boostfeat.compare.tasks import AnyPlan, Schedule, Task

pytestmark = pytest.mark.quick


def square(x: int, kept: dict[int, int], cost: float) -> Task:
    def keep(result: int, peak_mb: float) -> int:
        kept[x] = result
        return result

    return Task(str(x), pow, (x, 2), cost, lambda: kept.get(x), keep)


def plan(kept: dict[int, int], *batches: list[int], costs: dict[int, float] | None = None) -> AnyPlan:
    """Gives the squares of all batches, each asked for when the one before is there."""
    found: list[int] = []
    for batch in batches:
        found += yield [square(x, kept, (costs or {}).get(x, 1.0)) for x in batch]
    return found


def carry_out(schedule: Schedule, at_once: int = 1, seed: int = 0) -> list[tuple[str, int]]:
    """(key, threads) of jobs in the order of their start; so many run at once, and end in a random order."""
    rng, running, started = Random(seed), list[Job](), []
    while True:
        while len(running) < at_once and (job := schedule.take()):
            running.append(job)
            started.append((job.key, job.args[2]))
        if not running:
            return started
        job = running.pop(rng.randrange(len(running)))
        schedule.done(job, int(job.args[0]) ** 2, 0.0)


@pytest.mark.parametrize("at_once", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_results_do_not_depend_on_who_is_done_first(at_once, seed):
    kept: dict[int, int] = {}
    plans = {"a": plan(kept, [3, 1, 2], [5]), "b": plan(kept, [2, 7], [1, 1], []), "none": plan(kept)}
    schedule = Schedule(plans, at_once)
    started = carry_out(schedule, at_once, seed)
    assert schedule.found == {"a": [9, 1, 4, 25], "b": [4, 49, 1, 1], "none": []}
    assert sorted(key for key, _ in started) == ["1", "2", "3", "5", "7"]  # what both ask for is done once


def test_what_is_known_is_not_done_and_what_takes_longest_comes_first():
    kept = {4: 16}
    schedule = Schedule({"a": plan(kept, [4, 1, 2, 3], costs={1: 1.0, 2: 9.0, 3: 5.0})}, 1)
    assert [key for key, _ in carry_out(schedule)] == ["2", "3", "1"]
    again = Schedule({"a": plan(kept, [4, 1, 2, 3], [2])}, 1)
    assert again.take() is None
    assert again.found == {"a": [16, 1, 4, 9, 4]}


def test_threads_that_no_other_task_needs_are_used():
    schedule = Schedule({"a": plan({}, [1, 2], [3])}, 4)
    assert carry_out(schedule, 4) == [("1", 2), ("2", 2), ("3", 4)]
    schedule = Schedule({"a": plan({}, [1, 2, 3], costs={1: 1.0, 2: 9.0})}, 4)  # the longest has all: others end before it
    assert carry_out(schedule, 4) == [("2", 4), ("1", 1), ("3", 1)]


def test_watchers_hear_how_many_are_done():
    heard: list[tuple[Any, ...]] = []
    carry_out(Schedule({"a": plan({1: 1}, [1, 2], [3])}, 1, lambda *event: heard.append(event)))
    assert heard == [("a", 1, 2, None), ("a", 2, 2, 4), ("a", 2, 3, None), ("a", 3, 3, 9)]
