"""MIRA: 1-best passive-aggressive training with every oracle and prediction of [E12]."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isinf
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I64
from ..core.kernels import kernel
from ..lists.choices import best_choice
from ..lists.nbest import NBest
from ..metrics.sums import add_row, context_gain
from ..metrics.symbols import longest_part
from ..model.model import Model
from .base import EpochLog, Features, Run, step_factors
from .margin import KernelLists, Limits, bound_step, cutting_plane, health, margin_step, room_for_difference, score_of
from .tuner_options import ORACLES, PREDICTIONS, MiraOptions, RelativeMarginOptions

__all__ = ["ORACLES", "PREDICTIONS", "Mira", "train"]


@dataclass(frozen=True)
class Mira(MiraOptions):
    """MIRA [E12].

    cost = 1 - BLEU: smoothed sentence BLEU in epoch 1, then BLEU in the context of the other sentences' current 1-best; and so
    for every other gain.
    Deviation: [E12] does not say how the latter is scaled. One sentence of S moves corpus BLEU by about 1/S of what it moves its
    own, and with costs that small hope and fear are the 1-best and learning ends after epoch 1; so the gain in context is
    multiplied by S (``context_scale``), which makes a sentence of average length count as in epoch 1.
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        return train(self, self.limits(), nbest, select, run, "mira")

    def limits(self) -> Limits:
        return Limits(c=self.c, bound=inf, d=0.0, max_iter=0)


# ---------------------------------------------------------------------------------------------------------------------
# One epoch of one learner
# ---------------------------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """A learner's way to choose hypotheses."""

    gamma_plus: float
    beta_plus: float
    gamma_minus: float
    beta_minus: float
    top: int  # the oracle is one of the model's best ``top``; 0: of the whole list
    scale: float  # of the gain in context; 0: use the gains given (epoch 1)


def first_choice(tuner: Any) -> Choice:
    """The choice of a tuner in epoch 1."""
    return Choice(*ORACLES[tuner.oracle], *PREDICTIONS[tuner.prediction], tuner.k if tuner.oracle == "lu" else 0, 0.0)


class Trace(NamedTuple):
    """Records of an epoch for each sentence [S]."""

    best: I64  # the 1-best when last seen, -1 before; IN OUT
    plus: I64  # y+, -1 for an empty list
    minus: I64  # y-
    spread: F64  # w·(f(y+) - f(y_w)) before the update, NaN for lists of less than two


@kernel
def _argmax(a, scores, b, gains, among):  # type: ignore[no-untyped-def]
    """The first of ``among`` with the largest a·score + b·gain."""
    best, at = -np.inf, among[0]
    for y in among:
        v = a * scores[y] + b * gains[y]
        if v > best:
            best, at = v, y
    return at


@kernel
def learner_pass(x, order, sentence_gains, choice, limits, w, past, factor, sums, trace):  # type: ignore[no-untyped-def]
    """[E12 algorithm 1] over the sentences of ``order``. IN OUT w, past, sums (statistics of trace.best). Returns steps taken."""
    room, total = longest_part(x.hyp_ptr), np.empty(len(sums))
    all_scores, all_gains, everything = np.empty(room), np.empty(room), np.arange(room)
    idx, val = room_for_difference(x)
    moves = 0
    for age in range(len(order)):
        s = order[age]
        start = x.hyp_ptr[s]
        n = x.hyp_ptr[s + 1] - start
        if n == 0:
            continue
        scores, gains, whole = all_scores[:n], all_gains[:n], everything[:n]
        if trace.best[s] >= 0:
            add_row(x.rows[trace.best[s]], -1, sums)
        top = worst = 0
        for y in range(n):
            scores[y] = score_of(x, w, start + y)
            gains[y] = sentence_gains[start + y]
            if choice.scale:
                gains[y] = choice.scale * context_gain(x.recipe, x.rows[start + y], sums, total)
            if scores[y] > scores[top]:
                top = y
            if scores[y] < scores[worst]:
                worst = y
        trace.best[s] = start + top
        add_row(x.rows[start + top], 1, sums)
        among = whole
        if 0 < choice.top < n:
            among = np.sort(np.argsort(-scores, kind="mergesort")[: choice.top])
        plus = _argmax(choice.gamma_plus, scores, choice.beta_plus, gains, among)
        minus = _argmax(choice.gamma_minus, scores, -choice.beta_minus, gains, whole)
        trace.plus[s], trace.minus[s] = start + plus, start + minus
        if n == 1:
            continue
        trace.spread[s] = scores[plus] - scores[worst]
        if limits.max_iter:
            moves += cutting_plane(x, start, plus, gains, scores, w, past, age, factor, limits, idx, val)
            continue
        loss = scores[minus] - scores[plus] + gains[plus] - gains[minus]
        moved = margin_step(x, start + plus, start + minus, loss, w, past, age, factor, limits.c, idx, val)
        if limits.bound < np.inf:
            moved |= bound_step(x, start, plus, worst, top, gains, w, past, age, factor, limits, idx, val)
        moves += moved
    return moves


# ---------------------------------------------------------------------------------------------------------------------
# The loop
# ---------------------------------------------------------------------------------------------------------------------


def train(tuner: Any, limits: Limits, nbest: NBest, select: NBest | None, run: Run, method: str) -> Model:
    """Iterative parameter mixing [M10] over the tuner's shards (one is plain MIRA), a row of history an epoch.

    Each learner starts an epoch from the mixed weights and from everyone's 1-bests of the epoch before, and sees only its own
    changes to them; so the result depends on the number of shards and not of threads.
    """
    features = Features.of(nbest)
    log = EpochLog(features, nbest, select, run)
    gains = run.gains(nbest)
    x = KernelLists.of(nbest, features, run.gain)
    run.groups.check(method, "c")
    w, factor = features.start(run.init), step_factors(features, run)
    started, mean = bool(w.any()), np.zeros(len(w))
    nobody = np.full(len(nbest), -1)
    trace = Trace(best=nobody.copy(), plus=nobody.copy(), minus=nobody.copy(), spread=np.full(len(nbest), np.nan))
    choice = first_choice(tuner)
    scale = context_scale(tuner, int(np.count_nonzero(np.diff(nbest.hyp_ptr))))
    rng = np.random.default_rng(run.seed)
    parts = np.array_split(rng.permutation(len(nbest)), tuner.shards)

    def learn(order: I64) -> tuple[int, F64, F64]:
        mine, past, own_sums = w.copy(), np.zeros(len(w)), sums.copy()
        moves = learner_pass(x, order, gains, choice, limits, mine, past, factor, own_sums, trace)
        return moves, mine, mine - past / max(len(order), 1)

    with ThreadPoolExecutor(max(1, min(run.threads, tuner.shards))) as pool:
        for epoch in range(1, tuner.epochs + 1):
            sums = x.rows[trace.best[trace.best >= 0]].sum(axis=0, dtype=np.float64)
            moves, w, epoch_mean = mix(w, list(pool.map(learn, [rng.permutation(part) for part in parts])))
            mean += (epoch_mean - mean) / epoch
            kept = mean if tuner.average else w
            note = health(epoch, w, started=started, moves=moves)
            spread = trace.spread[~np.isnan(trace.spread)]
            log.record(epoch, kept, partial(summary, log, x, gains, choice, kept.copy(), spread), moves=moves, **note)
            choice = choice._replace(scale=scale)
    return log.model(tuner, method)


def context_scale(tuner: Any, n_lists: int) -> float:
    """The factor of gains in context after epoch 1: a number, the lists of all, or those that a learner sees."""
    if tuner.context_scale == "shard":
        return max(1.0, n_lists / tuner.shards)
    return float(tuner.context_scale or n_lists or 1)


def mix(w: F64, learned: list[tuple[int, F64, F64]]) -> tuple[int, F64, F64]:
    """The sum of the steps, and the means of the learners' weights and of their mean weights.

    Means are of the changes to w, so that a weight nobody moved keeps every bit.
    """
    moves, last, mean = zip(*learned, strict=True)
    return sum(moves), w + sum(v - w for v in last) / len(last), w + sum(v - w for v in mean) / len(mean)


def summary(log: EpochLog, x: KernelLists, gains: F64, choice: Choice, w: F64, spread: F64) -> dict[str, float]:
    """The metric of oracles and predictions under the weights of the epoch's row, and the spread of its pass [EMR13 section 6].

    They are y+ and y- of a pass whose steps are 0, with gains in the context of the best hypotheses under these weights.
    Deviation: [E12] draws those of the weights as they move. Here dev, oracle and prediction are of one weight vector, so that
    prediction-based updates (pb) have the model's best for prediction, as in its Figures 3 and 5.
    """
    best, score = best_choice(log.nbest, log.features.scores(w)), partial(log.scorer.score, metric=log.run.metric)
    n, sums = len(best), x.rows[best[best >= 0]].sum(axis=0, dtype=np.float64)
    trace = Trace(best=best, plus=np.full(n, -1), minus=np.full(n, -1), spread=np.full(n, np.nan))
    still, factor = Limits(c=0.0, bound=inf, d=0.0, max_iter=0), np.ones(len(w))
    learner_pass(x, np.arange(n), gains, choice, still, w, np.zeros(len(w)), factor, sums, trace)
    return {
        "oracle": score(trace.plus).score,
        "prediction": score(trace.minus).score,
        "spread_mean": float(spread.mean()) if len(spread) else 0.0,
        "spread_sd": float(spread.std()) if len(spread) else 0.0,
    }


@dataclass(frozen=True)
class RelativeMargin(RelativeMarginOptions):
    """min 1/2 |w - w_t|² + C ξ + D τ  s.t.  ds(y+, y-) >= cost(y-) - cost(y+) - ξ,  |ds(y+, y_w)| <= B + τ   [EMR13 eq. 4]

    y_w is the hypothesis that the model likes least. With B = inf and solver ``pa``, this is MIRA to the last bit.
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        model = train(self, self.limits(), nbest, select, run, "rm")
        return replace(model, config={**model.config, "b": "inf"}) if isinf(self.b) else model  # JSON has no infinity

    def limits(self) -> Limits:
        return Limits(self.c, self.b, self.d, self.max_iter if self.solver == "cp" else 0, self.by_cost)
