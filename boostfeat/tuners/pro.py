"""PRO as a tuner: weights by logistic regression on the differences of random pairs [HM11]; see ``boostfeat.tuners.linear``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..lists.feature_range import learnable
from ..lists.nbest import NBest
from ..losses.pairs import PairOptions, pairs_for
from ..model.model import Model
from .base import EpochLog, Features, Run
from .linear import LinearProblem, linear_problem
from .tuner_options import ProOptions


@dataclass(frozen=True)
class Pro(ProOptions):
    """One fit; or several, each on new pairs, whose weights are averaged: the pairs are random, and so is a single fit."""

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        """The mean of the rounds' weights, up to the last round or the one that is best on the held-out list.

        The objective is convex: initial weights only shorten the search, except those of frozen features, which stay.
        """
        nbest = learnable(nbest)

        def problem(options: PairOptions, seed: int) -> LinearProblem:
            pairs = pairs_for(nbest, options, gain=run.gain, seed=seed, threads=run.threads)
            if not len(pairs):
                raise no_pairs(options, run.gain)
            return linear_problem(nbest, pairs, threads=run.threads)

        return self.fit_problems(problem, EpochLog(Features.of(nbest), nbest, select, run))

    def fit_problems(self, problem: Callable[[PairOptions, int], LinearProblem], log: EpochLog) -> Model:
        """Return the model of these rounds' problems, each of the pairs that a seed draws."""
        features, run = log.features, log.run
        run.groups.check("pro", "l2")
        start = features.start(run.init)
        total, options = np.zeros(len(features)), self.pair_options()
        for r in range(self.rounds):
            fit = problem(options, seed_of(run.seed, r)).fit(
                l2=self.l2,
                init=features.named(start),
                max_iter=self.max_iter,
                tol=self.tol,
                l2_factors=run.groups.factors(features.names, "l2"),
                frozen=run.groups.frozen(features.names),
            )
            start = features.vector(fit.weights)
            total += start
            log.record(r, total / (r + 1), loss=fit.loss, pairs=fit.n_pairs, iterations=fit.n_iter, converged=fit.converged)
        return log.model(self, "pro")


def seed_of(seed: int, r: int) -> int:
    """The first round has the run's seed; later ones have seeds that no other run's first round has."""
    return seed if r == 0 else int(np.random.SeedSequence([seed, r]).generate_state(1, np.uint64)[0])


def no_pairs(options: PairOptions, gain: str) -> InputError:
    what = "sentence BLEU" if gain == "bleu" else gain
    return InputError(
        f"pro: expected hypotheses whose {what} differs by more than {options.threshold}, found none; "
        "lower --threshold, raise --draws or give longer lists"
    )
