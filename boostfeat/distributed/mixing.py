"""Tuners on a cluster: PRO as on one machine, to the last bit; MIRA, RM and AdaGrad by iterative parameter mixing.

Iterative parameter mixing [M10]: every epoch each worker runs the method over its own sentences, from the mixed
weights; the mean of what they find is where the next epoch starts. One worker is the plain method; more are another algorithm,
whose weights depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, sum_in_order
from ..core.errors import InputError
from ..lists.nbest import NBest, SparseRows
from ..metrics.metric import metric_of
from ..metrics.significance import exact_sums
from ..model.model import Model
from ..tuners.adaptive import ROUNDING, Adagrad, Differences, mean_squares, minibatches, typical_sizes
from ..tuners.base import EpochLog, Features, Run, step_factors
from ..tuners.linear import LinearProblem
from ..tuners.margin import KernelLists, Limits, health, start_weights
from ..tuners.mira import (
    Choice,
    Mira,
    RelativeMargin,
    Trace,
    context_scale,
    first_choice,
    learner_pass,
    mix,
    oracle_and_prediction,
    summary,
)
from ..tuners.pro import Pro, no_pairs, seed_of
from .block_range import BlockRange
from .worker_data import Share, Source, WorkerData
from .workers import WorkerLostError, Workers

Say = Callable[[str], None]


def check_tuner(tuner: Any, method: str) -> None:
    """Raise for what cannot be tuned on a cluster."""
    if not isinstance(tuner, Pro | Mira | RelativeMargin | Adagrad):
        raise InputError(f"--engine dask: expected --method pro, mira, rm or adagrad, found {method}; use --engine local")
    if (found := getattr(tuner, "shards", 1)) != 1:
        raise InputError(f"--engine dask: expected no --shards, found {found}; the workers are the shards: give --workers")
    if getattr(tuner, "asynchronous", False):
        raise InputError("--engine dask: expected no --async, found it; use --engine local")


def tune_on(
    workers: Workers, source: Source, tuner: Any, dev: NBest, select: NBest | None, run: Run, *, say: Say = lambda _: None
) -> Model:
    """tuner.fit on workers. When a worker is lost, the epoch under way is begun again by the others."""
    metric_of(run.gain, dev).check_learnable(dev)
    log = _Log(workers, dev, select, run)
    kind = _MixedPro if isinstance(tuner, Pro) else _MixedAdagrad if isinstance(tuner, Adagrad) else _MixedMargin
    learner = kind(workers, source, tuner, log)
    while True:
        try:
            learner.load()
            learner.epochs()
            return learner.model()
        except WorkerLostError as lost:
            workers.heal(lost, f"after epoch {len(log.history)}", say)


class _Log(EpochLog):
    """The 1-best of the tuning list is chosen by the workers, and its metric computed here."""

    def __init__(self, workers: Workers, dev: NBest, select: NBest | None, run: Run) -> None:
        names = dev.feature_names
        super().__init__(Features(names, np.zeros((0, len(dev.global_names))), SparseRows.empty(0)), dev, select, run)
        self.workers = workers

    def dev_choice(self, w: F64) -> I64:
        return np.concatenate(self.workers.each(BlockRange.linear_choice, self.features.named(w)))

    def dev_score(self, w: F64) -> float:
        return self.scorer.score(self.dev_choice(w), self.run.metric).score


class _MixedLearner:
    """Epochs of a method; all that they need of the past is here."""

    def __init__(self, workers: Workers, source: Source, tuner: Any, log: _Log) -> None:
        self.workers, self.source, self.tuner, self.log = workers, source, tuner, log
        self.run, self.features, self.dev = replace(log.run, callback=None), log.features, log.nbest


class _MixedPro(_MixedLearner):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._fits: list[F64] = []

    def load(self) -> None:
        self.workers.load(WorkerData, self.source, len(self.dev), None)

    def epochs(self) -> None:
        tuner, features, log, each = self.tuner, self.features, self.log, self.workers.each
        self.run.groups.check("pro", "l2")
        options = tuner.pair_options()
        done = len(log.history)
        start = self._fits[-1] if done else features.start(self.run.init)
        for r in range(done, tuner.rounds):
            if not sum(each(BlockRange.draw, options, seed_of(self.run.seed, r), self.run.gain)):
                raise no_pairs(options, self.run.gain)
            self.workers.later_each(BlockRange.prepare_linear)
            fit = LinearProblem(self.workers.each_linear, features.names, n_dense=features.n_dense).fit(
                l2=tuner.l2,
                init=features.named(start),
                max_iter=tuner.max_iter,
                tol=tuner.tol,
                l2_factors=self.run.groups.factors(features.names, "l2"),
                frozen=self.run.groups.frozen(features.names),
            )
            start = features.vector(fit.weights)
            total = np.sum([*self._fits, start], axis=0)
            log.record(r, total / (r + 1), loss=fit.loss, pairs=fit.n_pairs, iterations=fit.n_iter, converged=fit.converged)
            self._fits.append(start)

    def model(self) -> Model:
        return self.log.model(self.tuner, "pro")


# ---------------------------------------------------------------------------------------------------------------------
# Iterative parameter mixing
# ---------------------------------------------------------------------------------------------------------------------


class _Sentences(WorkerData):
    """A worker's sentences as online methods take them: one list, in a random order of its own."""

    def __init__(self, source: Source, tuner: Any, run: Run, plain: bool, *, share: Share) -> None:
        super().__init__(source, None, share=share)
        corpus = source.open()
        self.first = int(share.blocks[0][0])
        self.nbest = corpus.run(self.first, int(share.blocks[-1][-1]))[0]
        self.first_hyp = int(corpus.hyp_ptr[self.first])
        self.tuner, self.run, self.plain = tuner, run, plain
        self.features = Features.of(self.nbest)
        self.gains = metric_of(run.gain, self.nbest).gain(self.nbest)

    def generator(self, epoch: int) -> np.random.Generator:
        """The plain method's own for one worker, else one of the worker's and the epoch's."""
        seed = self.run.seed if self.plain else [self.run.seed, self.first, epoch]
        return np.random.default_rng(seed)


class MarginData(_Sentences):
    """Epochs of MIRA or relative margin over a worker's sentences."""

    def epoch(self, epoch: int, w: F64, best: I64, sums: F64, choice: Choice, limits: Limits) -> tuple[int, F64, F64, Trace]:
        """One pass from weights w; best [S] and sums are of the corpus' 1-bests in the epoch before."""
        n = len(self.nbest)
        x = KernelLists.of(self.nbest, self.features, self.run.gain)
        own = self._within(best)
        trace = Trace(best=own, plus=np.full(n, -1), minus=np.full(n, -1), spread=np.full(n, np.nan))
        rng = self.generator(epoch)
        sentences = rng.permutation(n)
        for _ in range(epoch if self.plain else 1):  # the draws of the plain method up to this epoch
            order = rng.permutation(sentences)
        mine, past, own_sums = w.copy(), np.zeros(len(w)), sums.copy()
        factor = step_factors(self.features, self.run)
        moves = learner_pass(x, order, self.gains, choice, limits, mine, past, factor, own_sums, trace, x.longest, x.n_scratch)
        best, plus, minus = map(self._outside, trace[:3])
        return moves, mine, mine - past / max(len(order), 1), Trace(best, plus, minus, trace.spread)

    def ends(self, w: F64, best: I64, sums: F64, choice: Choice) -> tuple[I64, I64]:
        """Oracles and predictions of its sentences under weights w, whose 1-bests are best [S] and their statistics sums."""
        x = KernelLists.of(self.nbest, self.features, self.run.gain)
        plus, minus = oracle_and_prediction(x, self._within(best), self.gains, choice, w, sums.copy())
        return self._outside(plus), self._outside(minus)

    def _within(self, chosen: I64) -> I64:
        """Hypotheses of the corpus as its own."""
        own = chosen[self.first : self.first + len(self.nbest)]
        return np.where(own >= 0, own - self.first_hyp, -1)

    def _outside(self, chosen: I64) -> I64:
        return np.where(chosen >= 0, chosen + self.first_hyp, -1)


class _MixedMargin(_MixedLearner):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.run.groups.check(self._method, "c")
        self.w = start_weights(self.features, self.run)
        self.started, self.mean = bool(self.w.any()), np.zeros(len(self.w))
        self.best = np.full(len(self.dev), -1)

    @property
    def _method(self) -> str:
        return "rm" if isinstance(self.tuner, RelativeMargin) else "mira"

    def load(self) -> None:
        n = self.workers.share(len(self.dev))
        self.workers.load(MarginData, self.source, len(self.dev), self.tuner, self.run, n == 1)

    def epochs(self) -> None:
        tuner, log = self.tuner, self.log
        limits = tuner.limits()
        scale = context_scale(tuner, int(np.count_nonzero(np.diff(self.dev.hyp_ptr))))
        for epoch in range(len(log.history) + 1, tuner.epochs + 1):
            choice = first_choice(tuner)._replace(scale=scale if epoch > 1 else 0.0)
            rows = log.scorer.rows(self.best, self.run.gain)[self.best >= 0]
            sums = exact_sums(rows).sum(axis=0, dtype=np.float64)
            found = self.workers.shards(MarginData.epoch, epoch, self.w, self.best, sums, choice, limits)
            moves, w, epoch_mean = mix(self.w, [part[:3] for part in found])
            mean = self.mean + (epoch_mean - self.mean) / epoch
            trace = Trace(*(np.concatenate(column) for column in zip(*(part[3] for part in found), strict=True)))
            note = health(epoch, w, started=self.started, moves=moves)
            kept = mean if tuner.average else w
            log.record(epoch, kept, **summary(log, trace, self._ends(kept, choice)), moves=moves, **note)
            self.w, self.mean, self.best = w, mean, trace.best

    def _ends(self, w: F64, choice: Choice) -> tuple[I64, I64]:
        """Oracles and predictions under these weights."""
        best = self.log.dev_choice(w)
        sums = exact_sums(self.log.scorer.rows(best, self.run.gain)[best >= 0]).sum(axis=0, dtype=np.float64)
        plus, minus = zip(*self.workers.shards(MarginData.ends, w, best, sums, choice), strict=True)
        return np.concatenate(plus), np.concatenate(minus)

    def model(self) -> Model:
        model = self.log.model(self.tuner, self._method)
        return self.tuner.finished(model) if isinstance(self.tuner, RelativeMargin) else model


class AdagradData(_Sentences):
    """Epochs of AdaGrad over a worker's sentences."""

    _drawn: tuple[int, np.random.Generator] | None = None

    def peaks(self) -> F64:
        return Differences.of(self.features).floor / ROUNDING

    def squares(self, floor: F64) -> tuple[F64, F64]:
        """Return what the units of dense features are made by: squares and numbers of non-zero differences."""
        pairs = self.tuner.draw(self.nbest, self.gains, self.generator(0), self.run)
        squares, counts = np.zeros((2, self.features.n_dense))
        mean_squares(self.features.dense, floor, pairs.better, pairs.worse, squares, counts)
        return squares, counts

    def epoch(self, epoch: int, w: F64, squares: F64, floor: F64, unit: F64) -> tuple[F64, F64, float, int, int]:
        """One pass from weights w (in units) and sums of squared gradients: those after it, the loss, pairs and steps."""
        tuner, run = self.tuner, self.run
        rng = self._rng_of(epoch)
        weights = tuner.weights(self.features, w, run, root=True)
        weights.squares[:] = squares
        pairs = tuner.draw(self.nbest, self.gains, rng, run)
        differences = Differences(self.features, floor, unit)
        loss = tuner.one_pass(minibatches(pairs, tuner.batch, rng), differences, weights)
        self._drawn = epoch, rng
        return weights.settled(), weights.squares, loss, len(pairs), weights.t

    def _rng_of(self, epoch: int) -> np.random.Generator:
        """Return the generator before an epoch: of one worker, after the draws of earlier ones, which a new process repeats."""
        if not self.plain:
            return self.generator(epoch)
        if self._drawn and self._drawn[0] == epoch - 1:
            return self._drawn[1]
        rng = self.generator(0)
        if self.tuner.standardise:
            rng.integers(2**63)
        for _ in range(1, epoch):
            list(minibatches(self.tuner.draw(self.nbest, self.gains, rng, self.run), self.tuner.batch, rng))
        return rng


class _MixedAdagrad(_MixedLearner):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.run.groups.check("adagrad", "l1", "c")
        self.w, self.squares = self.features.start(self.run.init), np.zeros(len(self.features))
        self.unit: F64 | None = None
        self.steps = 0

    def load(self) -> None:
        n = self.workers.share(len(self.dev))
        self.workers.load(AdagradData, self.source, len(self.dev), self.tuner, self.run, n == 1)
        if self.unit is None:
            self.floor = ROUNDING * np.max(self.workers.shards(AdagradData.peaks), axis=0)
            self.unit = np.ones(len(self.features))
            if self.tuner.standardise:
                found = zip(*self.workers.shards(AdagradData.squares, self.floor), strict=True)
                squares, counts = (sum_in_order(side) for side in found)
                self.unit[: self.features.n_dense] = typical_sizes(squares, counts)
            self.w = self.w * self.unit

    def epochs(self) -> None:
        tuner, log = self.tuner, self.log
        assert self.unit is not None
        for epoch in range(len(log.history) + 1, tuner.epochs + 1):
            found = self.workers.shards(AdagradData.epoch, epoch, self.w, self.squares, self.floor, self.unit)
            ws, squares, losses, pairs, steps = zip(*found, strict=True)
            w = self.w + sum(v - self.w for v in ws) / len(ws) if len(ws) > 1 else ws[0]
            mixed = sum_in_order(squares) / len(squares)
            if not np.isfinite(mixed).all():
                raise InputError(f"epoch {epoch}: the gradients have blown up; rescale the features")
            log.record(epoch, w / self.unit, loss=sum(losses) / max(sum(pairs), 1), pairs=sum(pairs))
            self.w, self.squares, self.steps = w, mixed, self.steps + sum(steps)

    def model(self) -> Model:
        self.tuner.check_found(self.log, self.steps)
        return self.log.model(self.tuner, "adagrad")
