"""RAMPION: the structured ramp loss by the concave-convex procedure [GS12]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.kernels import kernel
from ..lists.nbest import NBest
from ..model.model import Model
from .base import EpochLog, Features, Run, step_factors
from .margin import KernelLists, best_of, difference, health, room_for_difference
from .tuner_options import RampionOptions


@dataclass(frozen=True)
class Rampion(RampionOptions):
    """min_w Σ_i [ -max_y (w·f(y) - α cost(y)) + max_y (w·f(y) + α cost(y)) ] + C/2 |w - w0|²,  cost = 1 - gain, BLEU+1   [GS12]

    The first maximum (hope) makes it concave: an epoch fixes the hopes at the epoch's weights and minimises the convex rest by
    ``passes`` rounds of stochastic subgradient steps, with the fear of each sentence under the weights of the moment.
    [GS12]'s outermost loop decodes anew; the lists are fixed here, so ``epochs`` is T T' of the paper.
    Deviation: the pull towards w0, a factor 1 - η C / n a step, is applied once a pass, to the n-th power: no step touches more
    features than it must, and the difference is of the order of η C.
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        features = Features.of(nbest)
        log = EpochLog(features, nbest, select, run)
        x = KernelLists.of(nbest, features)
        run.groups.check("rampion", "c", "l2")
        w0, factor = features.start(run.init), step_factors(features, run)
        n = max(int(np.count_nonzero(np.diff(nbest.hyp_ptr) > 1)), 1)
        pull = self.eta * self.c * run.groups.factors(features.names, "l2") / n
        keep = np.maximum(1 - pull, 0.0) ** n
        gains = self.alpha * run.gains(nbest)
        w, rng = w0.copy(), np.random.default_rng(run.seed)
        fear = np.full(len(nbest), -1)
        for epoch in range(1, self.epochs + 1):
            hope, moves = _hopes(x, w, gains), 0
            for _ in range(self.passes):
                moves += _pass(x, rng.permutation(len(nbest)), hope, gains, self.eta, w, factor, fear)
                w = w0 + keep * (w - w0)
            note = health(epoch, w, started=bool(w0.any()), moves=moves)
            choices = {name: log.scorer.score(c, run.gain).score for name, c in (("oracle", hope), ("prediction", fear))}
            log.record(epoch, w, **choices, moves=moves, **note)
        return log.model(self, "rampion")


@kernel
def _hopes(x, w, gains):  # type: ignore[no-untyped-def]
    """[S] the argmax of w·f + gain of each list."""
    return np.array([best_of(x, w, gains, 1, s) for s in range(len(x.hyp_ptr) - 1)])


@kernel
def _pass(x, order, hope, gains, eta, w, factor, fear):  # type: ignore[no-untyped-def]
    """w += η c∘(f(hope) - f(fear)) for each sentence. IN OUT w; OUT fear[s]. Returns the number of steps."""
    idx, val = room_for_difference(x)
    steps = 0
    for s in order:
        fear[s] = best_of(x, w, gains, -1, s)
        if hope[s] != fear[s]:
            n = difference(x, hope[s], fear[s], idx, val)
            for i in range(n):
                w[idx[i]] += eta * factor[idx[i]] * val[i]
            steps += n > 0
    return steps
