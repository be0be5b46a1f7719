"""Lists that choose: a select list that is never learned from, or folds of the training lists.

A fold is a run of neighbouring sentences, which are often of one document. Every choice (templates, penalty, number of trees,
way to decide, calibration) is made by what models pick from lists that they were not trained on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from mmap import mmap
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from ...core.arrays import I64
from ...core.processes import give_back
from ...lists.feature_range import learnable
from ...lists.forks import are_forked, in_forks
from ...lists.nbest import NBest

if TYPE_CHECKING:
    from ...model.model import Model

POLL = 0.2  # seconds between looks at how far forks are
FOLDS = 3  # fits of two thirds of the sentences each: with the last fit, about three times its time

T = TypeVar("T")
Tell = Callable[[str, int, int], None]  # what is chosen, the fits or rounds done, of how many
Why = Mapping[str, Any]  # what a model's config says of choices


@dataclass(frozen=True)
class Trial:
    """Sentences of the training list to learn from, and where the lists are that a model of them has not seen."""

    dev: NBest
    train: I64  # sentences of it
    lists: NBest
    held_out: I64 | None  # sentences of the lists; None: all
    threads: int = 1
    step: Callable[[], None] = lambda: None  # a task calls it after each of its steps

    def unseen(self, *, all_units: bool = False) -> NBest:
        """Return lists that a model of the trial has not seen; they take memory, but where they keep the units of all lists."""
        return self.lists if self.held_out is None else self.lists.take(self.held_out, all_units=all_units)


class Cluster(Protocol):
    """Workers that fits run on, with the functions that this process would run: distributed.cluster.ClusterFits is one."""

    def results(self, trials: Trials, tasks: Sequence[Callable[[Trial], T]], what: str, steps: int) -> list[T]:
        """Return Trials.side_by_side of workers; tasks are functions of a module, or partial ones, and have no lists."""

    def run_rounds(self, dev: NBest, select: NBest | None, options: Any, **how: Any) -> Model:
        """Return boost.run_rounds of an engine that is on workers."""


@dataclass(frozen=True)
class Trials:
    """The select list, or FOLDS folds of the training list, and how fits are run on them."""

    dev: NBest
    select: NBest | None = None
    cluster: Cluster | None = None  # that fits run on; None: this process
    seed: int = 0
    threads: int = 1
    tell: Tell | None = None

    def on(self, dev: NBest, select: NBest | None) -> Trials:
        """Return trials of other lists, of which they take what can be learned from."""
        return replace(self, dev=learnable(dev), select=None if select is None else learnable(select))

    @property
    def by(self) -> str:
        return "folds" if self.select is None else "select"

    def __len__(self) -> int:
        return FOLDS if self.select is None else 1

    def __iter__(self) -> Iterator[Trial]:
        return map(self.trial, range(len(self)))

    def trial(self, k: int, **how: Any) -> Trial:
        """The trial of this number, with these threads and steps."""
        if self.select is not None:
            return Trial(self.dev, np.arange(len(self.dev)), self.select, None, **how)
        train, held_out = self.dev.blocks_of_sentences(FOLDS)[k]
        return Trial(self.dev, train, self.dev, held_out, **how)

    def side_by_side(
        self, tasks: Sequence[Callable[[Trial], T]], what: str = "", steps: int = 0, *, beside: Callable[[], Any] | None = None
    ) -> list[T]:
        """Return results of task(trial), of a task for each trial, in their order.

        With several threads they are done in forks, all at once: the system shares the cores evenly. A task calls ``step`` after
        each of its steps: ``what`` they are, and how many a trial has, is told. ``beside`` is called at the same time, or
        afterwards; not where trials are on a cluster.
        """
        if self.cluster is not None:
            return self.cluster.results(self, tasks, what, steps)
        n, here, ended = len(self), os.getpid(), Event()
        is_forked = are_forked(n, self.threads)
        done = np.frombuffer(mmap(-1, n * 8), np.int64)  # steps of each trial: forks write their own

        def told() -> None:
            if self.tell and steps:
                self.tell(what, int(done.sum()), n * steps)

        def watch() -> None:
            while not ended.wait(POLL):
                told()

        def run(k: int) -> T:
            def step() -> None:
                done[k] += 1
                if here not in (os.getpid(), os.getppid()):
                    raise RuntimeError("nobody waits for this fork any more")
                if not is_forked:
                    told()

            result = tasks[k](self.trial(k, threads=1 if is_forked else self.threads, step=step))
            give_back()
            return result

        watcher = Thread(target=watch, daemon=True)
        if is_forked:
            watcher.start()
        try:
            with threadpool_limits(1, "blas"):  # fits set it too, and put back what they find
                return in_forks(run, range(n), n if self.threads > 1 else 1, beside=beside)
        finally:
            ended.set()
            if is_forked:
                watcher.join()

    @property
    def are_enough(self) -> bool:
        """Whether there are sentences enough to choose by."""
        return len(self.dev) >= 2 * FOLDS if self.select is None else len(self.select) > 0
