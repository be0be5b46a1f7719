"""boost-global against LightGBM's own ranker (lambdarank) on the same hypothesis features: seconds to the same gain on dev."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import lightgbm as lgb
import numpy as np

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.boosting.record import score_of
from boostfeat.lists.choices import Scorer
from boostfeat.lists.nbest import NBest
from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.model.model import Model
from boostfeat.trees.growing import TreeOptions

METRIC = "bleu-sbp"
LEVELS = 16  # of relevance: a list's range of sentence BLEU in equal steps


class Step(NamedTuple):
    seconds: float  # CPU, from the start
    dev: float
    held: float  # on lists that were not trained on


def boosted(dev: NBest, held: NBest, rounds: int) -> list[Step]:
    """Our rounds, linear weights first. The gains on dev are part of its work, those on held are not."""
    seconds: list[float] = []
    started = time.process_time()
    model = boost(
        dev,
        None,
        BoostOptions(level="global", rounds=rounds, metric=METRIC, shrinkage=0.5, tree=TreeOptions(max_leaves=4)),
        callback=lambda *_: seconds.append(time.process_time() - started),
    )
    scorer = Scorer(held)
    later = [
        score_of(scorer, Model(model.weights, model.trees[:m], "global").decision_function(held), METRIC)
        for m in range(len(seconds))
    ]
    return [Step(s, row["dev"], gain) for s, row, gain in zip(seconds, model.history, later, strict=True)]


def lambdarank(dev: NBest, held: NBest, trees: int) -> list[Step]:
    """LGBMRanker's objective with its defaults, on one thread."""
    gains, size = sentence_bleu(dev.stats), np.diff(dev.hyp_ptr)
    low, high = (np.repeat(f.reduceat(gains, dev.hyp_ptr[:-1]), size) for f in (np.minimum, np.maximum))
    relevance = np.floor((gains - low) / np.maximum(high - low, 1e-9) * (LEVELS - 1e-6))
    params = {"objective": "lambdarank", "metric": "none", "num_threads": 1, "verbosity": -1, "deterministic": True}
    params |= {"label_gain": list(range(LEVELS))}  # relevance as it is: its default, 2^relevance, cares for the best alone
    features = dev.global_features
    started, seconds = time.process_time(), []
    booster = lgb.Booster(params, lgb.Dataset(features, relevance, group=size, params=params))
    for _ in range(trees):
        booster.update()
        seconds.append(time.process_time() - started)
    curves = [_gains(booster, nbest, trees) for nbest in (dev, held)]
    return [Step(*row) for row in zip(seconds, *curves, strict=True)]


def _gains(booster: lgb.Booster, nbest: NBest, trees: int) -> list[float]:
    """After each tree."""
    scorer, scores, out = Scorer(nbest), np.zeros(nbest.n_hyps), []
    for m in range(trees):
        scores += booster.predict(nbest.global_features, start_iteration=m, num_iteration=1, raw_score=True, num_threads=1)
        out.append(score_of(scorer, scores, METRIC))
    return out


def reached(curve: Sequence[Step], gain: str, target: float) -> float:
    """Seconds until the gain ("dev" or "held") is first so high; those of the whole curve where it never is."""
    return next((step.seconds for step in curve if getattr(step, gain) >= target), curve[-1].seconds)
