"""Tuners on a cluster: PRO spread over blocks of sentences, all others as whole fits; the weights are those of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..lists.choices import score_of_rows
from ..lists.nbest import NBest, SparseRows
from ..losses.pairs import PairOptions
from ..metrics.metric import metric_of
from ..model.model import Model
from ..tuners.base import EpochLog, Features, Run
from ..tuners.linear import LinearProblem
from ..tuners.pro import Pro, no_pairs
from .block_range import BlockRange
from .worker_data import Source, WorkerData, opened
from .workers import WorkerLostError, Workers


def tune_on(workers: Workers, tuner: Any, dev: NBest, select: NBest | None, runs: Sequence[Run]) -> list[Model]:
    """Return tuner.fit of each run, side by side on workers; PRO on a store is spread over all of them, run by run."""
    if isinstance(tuner, Pro) and workers.source_of(dev):
        return [_spread(workers, tuner, dev, select, run) for run in runs]
    models: list[Model] = workers.results([(fit_whole, tuner, replace(run, callback=None), dev, select) for run in runs])
    for run, model in zip(runs, models, strict=True):
        for row in model.history if run.callback else ():
            run.callback(row)  # type: ignore[misc]
    return models


def fit_whole(tuner: Any, run: Run, dev: Source | NBest, select: Source | NBest | None) -> Model:
    """Fit on a worker."""
    model: Model = tuner.fit(opened(dev), opened(select), run)
    return model


def _spread(workers: Workers, tuner: Pro, dev: NBest, select: NBest | None, run: Run) -> Model:
    """Return the fit of PRO over blocks; when a worker is lost, the others begin again."""
    metric_of(run.gain, dev).check_learnable(dev)

    def problem(options: PairOptions, seed: int) -> LinearProblem:
        if not sum(workers.each(BlockRange.draw, options, seed, run.gain)):
            raise no_pairs(options, run.gain)
        workers.later_each(BlockRange.prepare_linear)
        return LinearProblem(workers.each_linear, dev.feature_names, n_dense=len(dev.global_names))

    while True:
        try:
            workers.load(WorkerData, dev, None)
            return tuner.fit_problems(problem, _Log(workers, dev, select, run))
        except WorkerLostError as lost:
            workers.heal(lost, "from the start")


class _Log(EpochLog):
    """A log for which the workers choose from the tuning list; its metric is computed here."""

    def __init__(self, workers: Workers, dev: NBest, select: NBest | None, run: Run) -> None:
        none = Features(dev.feature_names, np.zeros((0, len(dev.global_names))), SparseRows.empty(0))
        super().__init__(none, dev, select, replace(run, threads=1))  # workers are asked one thing at a time
        self.workers = workers

    def dev_score(self, w: F64) -> float:
        return score_of_rows(self.workers.each(BlockRange.linear_rows, self.features.named(w), self.run.metric), self.metric)
