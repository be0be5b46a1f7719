"""The first weights once more, on the gain to expect under their own posterior, where folds of the training list gain by it.

Pairs of a list ask which of two hypotheses is better, wherever they stand. What counts is the one that is chosen: the expected
gain of p = softmax(c/s · score) looks at hypotheses that may be. It is not convex, so it starts from the weights λ_0 of pairs,
stays near them and stops early:

    λ = argmax Σ_s n_s Σ_h p(h) g(h) - share/2 Σ_j l2_j (λ_j - λ_0j)²

n are the words of references, g sentence BLEU, s the standard deviation of λ_0's scores within lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from ..core.arrays import F64
from ..lists.choices import Scorer
from ..lists.nbest import NBest
from ..losses.corpus_weights import weighed_by_size
from ..losses.expected import ExpectedGain
from ..losses.pairs import pairs_for
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import metric_of
from ..model.effects import within_list_sd
from ..model.model import Model
from ..tuners.linear import linear_problem, objective
from ..tuners.sparse_sums import SparseSums
from .options import ALWAYS, AUTO, BY_FOLDS, NEVER, BoostOptions
from .penalties import FOLDS, NO_REASONS, THINNED, TOLERANCE, Tell, Why, kept_reasons, thinned

KEY = "expected_gain"  # of the config
SCALE = 3.0  # of the posterior, over the standard deviation of scores within lists
SHARE = 0.03  # of the penalties of the first fit
STEPS = 15  # of L-BFGS


def refitted(nbest: NBest, weights: Mapping[str, float], options: BoostOptions, feature_scale: F64) -> dict[str, float]:
    """The weights after STEPS; ``feature_scale`` [D + N] standardises features, 0 for those that stay as they are."""
    d, names = len(nbest.global_names), nbest.feature_names
    sums = SparseSums(nbest, np.arange(nbest.n_hyps))
    columns = np.concatenate([np.arange(d), d + sums.columns])
    own = feature_scale[columns]
    divisor = np.where(own > 0, own, np.inf)
    start = np.array([weights.get(names[j], 0.0) for j in columns.tolist()]) * own
    penalty = SHARE * np.array(options.penalties(d, len(nbest.sparse_names)))[columns]
    dense = nbest.global_features / divisor[:d]
    loss = expected_gain(nbest, Model(weights).decision_function(nbest), options)

    def at(w: F64) -> tuple[float, F64]:
        value, slope = objective(w, dense, sums, divisor[d:], loss)
        moved = w - start
        return value + float((penalty * moved) @ moved) / 2, slope + penalty * moved

    with threadpool_limits(1, "blas"):
        found = minimize(at, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "gtol": 1e-3})
    changed = zip(columns[own > 0].tolist(), (found.x / divisor)[own > 0].tolist(), strict=True)
    return {**weights, **{names[j]: w for j, w in changed}}


def expected_gain(nbest: NBest, scores: F64, options: BoostOptions) -> ExpectedGain:
    """The loss at the posterior of these scores [H]; sentences weigh as in the corpus, 1 in the mean."""
    metric = metric_of(options.context_metric, nbest).fixed(options.pairs.alpha)
    first = np.minimum(nbest.hyp_ptr[:-1], max(0, nbest.n_hyps - 1))  # of an empty list, another's: it has no hypothesis to weigh
    size = np.abs(metric.rows(nbest, first)[:, metric.size]).astype(np.float64)
    gains = metric_of(options.gain, nbest).learnable_gain(nbest, alpha=options.pairs.alpha)
    spread = float(within_list_sd(nbest.hyp_ptr, scores)[0])
    return ExpectedGain(nbest.hyp_ptr, gains, size / (size.mean() or 1.0), scale=SCALE / (spread or 1.0))


def with_expected(
    dev: NBest,
    options: BoostOptions,
    *,
    seed: int,
    threads: int = 1,
    init: Model | None = None,
    so_far: Model | None = None,
    tell: Tell | None = None,
) -> tuple[BoostOptions, Why]:
    """The options of a run with ``auto`` resolved, and why: always, where refitted weights gain more than a standard error."""
    if options.expected != AUTO:
        return options, NO_REASONS
    if so_far is not None:
        return replace(options, expected=so_far.config.get("expected", NEVER)), kept_reasons(so_far, KEY)
    if options.rule != BY_FOLDS or init is not None or options.gain != "bleu" or not dev.n_hyps or len(dev) < 2 * FOLDS:
        return replace(options, expected=NEVER), NO_REASONS
    metric = metric_of(options.metric, dev)
    pairs = pairs_for(dev, options.pairs, gain=options.gain, seed=seed, threads=threads)
    if options.context:
        pairs = weighed_by_size(pairs, dev, metric_of(options.context_metric, dev).fixed(options.pairs.alpha))
    penalty = np.array(options.penalties(len(dev.global_names), len(dev.sparse_names)))
    rows: list[list[Any]] = [[], []]
    for fold, (train, held_out) in enumerate(dev.blocks_of_sentences(FOLDS)):
        problem = linear_problem(dev, thinned(pairs, train), threads=threads)
        weights = problem.fit(l2_factors=penalty / THINNED, tol=TOLERANCE).weights
        unseen = dev.take(held_out)
        scorer = Scorer(unseen)
        for own, each in zip(rows, (weights, refitted(dev.take(train), weights, options, problem.scale)), strict=True):
            own.append(scorer.rows(Model(each).predict(unseen), metric))
        if tell:
            tell("expected gain", fold + 1, FOLDS)
    found = HeldOutRows(metric, [np.concatenate(own) for own in rows])
    error = found.error(0, 1)
    pays = bool(found.gains[1] > found.gains[0] + error)
    why = {
        "rule": "first weights are refitted on expected gain where that gains more than a standard error",
        "folds": FOLDS,
        options.metric: [round(100 * float(score), 4) for score in found.scores],
        "error": round(100 * error, 4),
    }
    return replace(options, expected=ALWAYS if pays else NEVER), {KEY: why}
