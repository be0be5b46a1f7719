"""Batch k-best MIRA [CF12] as Moses runs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import F64
from ..core.kernels import kernel
from ..lists.nbest import NBest
from ..metrics.metric import metric_of
from ..metrics.sums import STRICT, Recipe, add_row, context_gain
from ..model.model import Model
from .base import EpochLog, Features, Run, step_factors
from .margin import KernelLists, health, margin_step, room_for_difference, score_of
from .tuner_options import KbmiraOptions


@dataclass(frozen=True)
class Kbmira(KbmiraOptions):
    """Hope and fear by model score ± BLEU of the background corpus plus the hypothesis, a PA-I step between them.

    Like Moses: the background starts as a count of 1 each; BLEU is multiplied by the reference length of the background plus
    the sentence, so costs are in words; where hope and fear differ in BLEU the background decays and takes the hope
    hypothesis in; weights are averaged over the updates; the best epoch is that of the highest BLEU on the tuning list unless
    there is a held-out one. Other gains are multiplied by their own size of a corpus: words, characters, or hypotheses; their
    background starts empty.
    Deviations: double precision; the mean is over the start and n updates, n + 1 weights, where Moses divides by n (the same
    ranking); all hypotheses are kept, where Moses' duplicate test drops most (see the data's README).
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        features = Features.of(nbest)
        log = EpochLog(features, nbest, select, run, train_default=True)
        metric_of(run.gain, nbest).check_learnable(nbest)
        x = KernelLists.of(nbest, features, run.gain)
        run.groups.check("kbmira", "c")
        w, factor = features.start(run.init), step_factors(features, run)
        started, past, background = bool(w.any()), np.zeros(len(w)), first_background(x.recipe)
        rng, order, age = np.random.default_rng(run.seed), np.arange(len(nbest)), 0
        model_background = self.background == "model"
        for epoch in range(1, self.epochs + 1):
            if self.shuffle:
                order = rng.permutation(order)
            steps = _epoch(x, order, self.c, self.decay, model_background, w, past, age, factor, background)
            age += steps
            log.record(epoch, w - past / (age + 1), moves=steps, **health(epoch, w, started=started, moves=steps))
        return log.model(self, "kbmira")


def first_background(recipe: Recipe) -> F64:
    """[n] a count of 1 each for BLEU, which needs some of every order; nothing else."""
    out = np.zeros(recipe.width)
    for kind, start, stop in zip(recipe.kind, recipe.start, recipe.stop, strict=True):
        out[start:stop] = kind <= STRICT
    return out


@kernel
def _epoch(x, order, c, decay, model_background, w, past, age, factor, background):  # type: ignore[no-untyped-def]
    """One pass over the sentences. IN OUT w, past, background [n]. Returns the number of steps."""
    idx, val = room_for_difference(x)
    total, steps, size = np.empty(len(background)), 0, x.recipe.size
    for s in order:
        start, end = x.hyp_ptr[s], x.hyp_ptr[s + 1]
        if end - start < 2:
            continue
        hope = fear = top = start
        best_hope = best_fear = best = -np.inf
        hope_gain = fear_gain = hope_score = fear_score = 0.0
        for h in range(start, end):
            score = score_of(x, w, h)
            gain = context_gain(x.recipe, x.rows[h], background, total) * total[size]
            if score + gain > best_hope:
                hope, best_hope, hope_gain, hope_score = h, score + gain, gain, score
            if score - gain > best_fear:
                fear, best_fear, fear_gain, fear_score = h, score - gain, gain, score
            if score > best:
                top, best = h, score
        if not hope_gain > fear_gain:
            continue
        loss = hope_gain - fear_gain - (hope_score - fear_score)
        steps += margin_step(x, hope, fear, loss, w, past, age + steps + 1, factor, c, idx, val)
        for k in range(len(background)):
            background[k] *= decay
        add_row(x.rows[top if model_background else hope], 1, background)
    return steps
