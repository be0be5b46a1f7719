"""Rounds of a boosting run: which one is kept, and the model as it was then.

A refit changes the weights of all trees, so the last model does not hold those of earlier rounds: the history does. The row of
round 0 and of every refit holds all weights, and that of any other round what its tree was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError
from ..lists.choices import best_choice, chosen_stats
from ..lists.nbest import NBest
from ..metrics.bleu import corpus_bleu, corpus_rows
from ..model.model import Model
from ..model.units import Space
from ..trees.tree import Tree
from .refit import leaf_values, with_leaves

RULES = ("best", "smooth", "one-se", "last-se")
WINDOW = 10  # rounds before and after that the rule smooth takes the mean of
Row = Mapping[str, Any]


def all_weights(model: Model) -> dict[str, Any]:
    """What a row of the history holds of a model whose weights were fitted together."""
    return {
        "weights": dict(model.weights),
        "tree_weights": [tree.weight for tree in model.trees],
        "leaf_values": [leaf_values(tree).tolist() for tree in model.trees],
    }


def model_at(model: Model, m: int, n_init: int = 0) -> Model:
    """The model after round m of its history; the history stays whole."""
    rows = [row for row in model.history if row["round"] <= m]
    trees = list(model.trees[: n_init + m])
    fitted = max((k for k, row in enumerate(rows) if "weights" in row), default=None)
    if fitted is None:
        return replace(model, trees=tuple(trees))
    last = rows[fitted]
    given = [*zip(last["tree_weights"], last["leaf_values"], strict=True), *((r["rho"], r["values"]) for r in rows[fitted + 1 :])]
    restored = (with_leaves(replace(t, weight=w), np.array(v)) for t, (w, v) in zip(trees, given, strict=True))
    return replace(model, weights=dict(last["weights"]), trees=tuple(restored))


def best_round(history: Sequence[Row]) -> int:
    """The first round of the highest select gain; the last one where there is no select."""
    if "select" not in history[0]:
        return int(history[-1]["round"])
    return int(history[int(np.argmax([row["select"] for row in history]))]["round"])


def smooth_round(history: Sequence[Row]) -> int:
    """The round of the highest mean select gain of the rounds around it: one round's gain is mostly chance.

    The mean is over WINDOW rounds to each side, but of round m no more than m/2: gains climb fast at first, and no round is to
    live on what comes after it or to suffer from where it began. Without select, the last round.
    """
    if "select" not in history[0]:
        return best_round(history)
    gains = [row["select"] for row in history]
    means = [np.mean(gains[m - min(m // 2, WINDOW) : m + min(m // 2, WINDOW) + 1]) for m in range(len(gains))]
    return int(history[int(np.argmax(means))]["round"])


def kept_rounds(model: Model, n_init: int = 0, *, select: NBest | None = None, rule: str = "best") -> Model:
    """The model up to its best round; its history still shows all rounds."""
    has_error = model.config.get("metric") in ("bleu", "bleu-sbp")  # of others it is not known: last-se is smooth then
    smooth = rule == "smooth" or (rule == "last-se" and not has_error)
    best = smooth_round(model.history) if smooth else best_round(model.history)
    if select is not None and (rule == "one-se" or (rule == "last-se" and has_error)):
        best = one_se_round(model, select, n_init, best=best, last=rule == "last-se")
    return replace(model_at(model, best, n_init), config={**model.config, "best_round": best})


def one_se_round(model: Model, select: NBest, n_init: int = 0, *, best: int, last: bool = False) -> int:
    """The first round, or the last, whose gain on select is within one standard error of the best round's.

    The first is the smallest model that cannot be told from the best. The last suits small steps: curves are flat then, where on
    them the best lies is chance, and more trees average out what each took from chance.

    The error is that of the difference between the two, sentence by sentence: rounds differ in few choices, so it is far
    smaller than the error of either. By the delta method, with r_s the statistics of a sentence and ∇ that of BLEU:
    se² = S Var_s(∇ · (r_s of the best - r_s of the other)).
    """
    metric = str(model.config.get("metric"))
    if metric not in ("bleu", "bleu-sbp"):
        raise InputError(f"rule one-se: expected metric bleu or bleu-sbp, found {metric}; take rule best")
    strict = metric == "bleu-sbp"
    rows = [corpus_rows(chosen_stats(select, best_choice(select, scores))) for scores in staged_scores(model, select, n_init)]
    totals = np.array([r.sum(axis=0) for r in rows], np.float64)
    gains = corpus_bleu(totals, strict=strict)
    slope = _slope(totals[best], strict=strict)
    for m in range(len(rows) - 1, best, -1) if last else range(best):
        apart = (rows[best] - rows[m]) @ slope
        if gains[m] >= gains[best] - np.sqrt(len(select) * apart.var()):
            return m
    return best


def _slope(total: F64, *, strict: bool) -> F64:
    """[11] derivatives of BLEU in corpus statistics, by differences: exact enough for a standard error."""
    step = np.maximum(1.0, 1e-4 * total)
    up, down = (corpus_bleu(total + sign * np.diag(step), strict=strict) for sign in (1, -1))
    return np.asarray((up - down) / (2 * step))


def staged_scores(model: Model, nbest: NBest, n_init: int = 0) -> Iterator[F64]:
    """Scores [H] after round 0, 1, 2, ... of the history that the model has trees of, none computed twice."""
    space = Space.of(nbest, model.level)
    last = len(model.trees) - n_init
    scores = np.zeros(0)
    for row in model.history[: last + 1]:
        m = int(row["round"])
        if m == 0 or "weights" in row:
            scores = scores_of(model_at(model, m, n_init), nbest, space)
        else:
            scores = scores + tree_scores(model_at(model, m, n_init).trees[-1], space)
        yield scores


def scores_of(model: Model, nbest: NBest, space: Space) -> F64:
    """Scores [H] as boosting adds them up: the linear ones, then tree by tree."""
    scores = Model(model.weights).decision_function(nbest)
    for tree in model.trees:
        scores += tree_scores(tree, space)
    return scores


def tree_scores(tree: Tree, space: Space) -> F64:
    """[H] what a tree adds."""
    return tree.weight * space.sum(tree.predict(space.table))
