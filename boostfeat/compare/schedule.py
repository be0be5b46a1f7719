"""Plans of several systems carried out together: what any of them asks for is done once, as soon as a worker is free.

A plan is a generator that yields a list of tasks and is sent their results, in the same order; what it returns is its result.
So results do not depend on how many workers there are, nor on who is done first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..core.processes import Job


class Task(Protocol):
    """Something to do in a worker, known by its key."""

    @property
    def key(self) -> str: ...

    @property
    def cost(self) -> float:
        """How long it and what waits for it may take, beside others: what takes longest starts first."""

    def job(self, name: str, threads: int) -> Job: ...

    def known(self) -> Any:
        """Its result, where it is there already; else None."""

    def finish(self, result: Any, peak_mb: float) -> Any:
        """What the plan is sent, from what the worker gave; keeps it."""


AnyPlan = Generator[Sequence[Any], list[Any], Any]
Watch = Callable[[str, int, int, Any], None]  # a plan's name, tasks done and asked for, the last result or None


@dataclass
class _Asked:
    """A plan and what it waits for."""

    plan: AnyPlan
    order: int
    waiting: dict[int, str] = field(default_factory=dict)  # place of a task -> its key
    results: list[Any] = field(default_factory=list)
    done: int = 0
    total: int = 0


@dataclass
class Schedule:
    """The jobs of plans by name, for ``Workers.run``; ``found`` has what plans returned."""

    plans: Mapping[str, AnyPlan]
    threads: int
    watch: Watch = lambda name, done, total, result: None
    found: dict[str, Any] = field(default_factory=dict)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _ready: dict[str, tuple[Task, str]] = field(default_factory=dict)  # key -> the task, and the plan that asked first
    _running: dict[str, Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for order, (name, plan) in enumerate(self.plans.items()):
            self._asked[name] = _Asked(plan, order)
            self._send(name, None)

    def take(self, running: int) -> Job | None:
        """The job that may take longest. Threads that no other task has use for are its own."""
        if not self._ready:
            return None
        key = max(self._ready, key=lambda key: self._ready[key][0].cost)  # of equals, what was asked for first
        threads = max(1, self.threads // (running + len(self._ready)))
        task, name = self._ready.pop(key)
        self._running[key] = task
        return task.job(name, threads)

    def done(self, job: Job, result: Any, peak_mb: float) -> None:
        finished = self._running.pop(job.key).finish(result, peak_mb)
        for name in list(self._asked):
            if name not in self.found:
                self._hand_over(name, job.key, finished)

    def _hand_over(self, name: str, key: str, result: Any) -> None:
        asked = self._asked[name]
        places = [place for place, wanted in asked.waiting.items() if wanted == key]
        for place in places:
            del asked.waiting[place]
            asked.results[place] = result
            asked.done += 1
            self.watch(name, asked.done, asked.total, result)
        if places and not asked.waiting:
            self._send(name, asked.results)

    def _send(self, name: str, results: list[Any] | None) -> None:
        """Let a plan go on, as far as it can with what is known."""
        asked = self._asked[name]
        while True:
            try:
                tasks = next(asked.plan) if results is None else asked.plan.send(results)
            except StopIteration as end:
                self.found[name] = end.value
                return
            asked.results, asked.total = [None] * len(tasks), asked.total + len(tasks)
            for place, task in enumerate(tasks):
                if task.key in self._running or task.key in self._ready:
                    asked.waiting[place] = task.key
                elif (known := task.known()) is not None:
                    asked.results[place] = known
                    asked.done += 1
                else:
                    asked.waiting[place] = task.key
                    self._ready[task.key] = task, name
            self.watch(name, asked.done, asked.total, None)
            if asked.waiting:
                return
            results = asked.results
