"""Rounds of a boosting run: which one is kept, and the scores they stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..lists.tokens import RANKINGS
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import metric_of
from ..model.decision import KEY as DECISION
from ..model.model import Model
from ..model.model import tree_scores as unit_scores
from ..model.units import UnitSpace
from ..trees.tree import Tree

Row = Mapping[str, Any]


def best_round(history: Sequence[Row], *, lower: bool = False) -> int:
    """The first round of the best select score; the last one where there is no select."""
    if "select" not in history[0]:
        return int(history[-1]["round"])
    scores = np.array([row["select"] for row in history])
    return int(history[int(np.argmin(scores) if lower else np.argmax(scores))]["round"])


def kept_rounds(model: Model, n_init: int = 0, *, select: NBest | None = None, rule: str = "best") -> Model:
    """The model up to its best round; its history still shows all rounds."""
    best = best_round(model.history, lower=bool(model.config.get("lower_is_better")))
    if "tree_count" in model.config:  # folds have chosen: all of them
        best = int(model.history[-1]["round"])
    elif select is not None and rule != "best":
        best = last_se_round(model, select, n_init, best=best)
    return replace(model.truncated(n_init + best), config={**model.config, "best_round": best})


def never_below_ranking(model: Model, select: NBest | None) -> Model:
    """The model; or the list's own ranking, where that is a feature and better on select than the round kept.

    Without select, folds have compared them.
    """
    if select is None:
        worse_than = model.config.get("tree_count", {}).get("worse_than")
        return model if worse_than is None else _ranking_alone(model, worse_than)
    own = ranking_of(select)
    if own is None:
        return model
    scorer, metric = Scorer(select), str(model.config["metric"])
    listed = scorer.gain(best_choice(select, select.global_column(own)), metric)
    return model if scorer.gain(model.predict(select), metric) >= listed else _ranking_alone(model, own)


def ranking_of(nbest: NBest) -> str | None:
    """The feature that is the list's own ranking."""
    return next((name for name in RANKINGS if name in nbest.global_names), None)


def _ranking_alone(model: Model, own: str) -> Model:
    config = {**model.config, "best_round": 0, "kept": own}
    config.pop(DECISION, None)  # which was of what was learnt
    return replace(model, weights={own: 1.0}, trees=(), config=config)


def last_se_round(model: Model, select: NBest, n_init: int = 0, *, best: int) -> int:
    """The last round whose score on select is within one standard error of the best round's.

    It suits small steps: curves are flat then, where on them the best lies is chance, and more trees average out what each took
    from chance.
    """
    scorer, metric = Scorer(select), metric_of(str(model.config["metric"]), select)
    staged = staged_scores(model, select, range(n_init, len(model.trees) + 1))
    rounds = HeldOutRows(metric, [scorer.rows(best_choice(select, scores), metric) for scores in staged])
    return rounds.last_within_error(best)


def staged_scores(model: Model, nbest: NBest, counts: Sequence[int]) -> Iterator[F64]:
    """Scores [H] after each of these rising numbers of trees; a model that has fewer stays as it is. None is computed twice."""
    space = UnitSpace.of(nbest, model.level)
    scores = scores_of(model.truncated(counts[0]), nbest, space)
    yield scores
    for done, n in pairwise(counts):
        if new := model.trees[done:n]:
            scores = scores + space.sum(unit_scores(new, space.table))
        yield scores


def scores_of(model: Model, nbest: NBest, space: UnitSpace) -> F64:
    """Scores [H] as boosting adds them up: the linear ones, then tree by tree."""
    scores = Model(model.weights).decision_function(nbest)
    for tree in model.trees:
        scores += tree_scores(tree, space)
    return scores


def tree_scores(tree: Tree, space: UnitSpace) -> F64:
    """[H] what a tree adds."""
    return tree.weight * space.sum(tree.predict(space.table))
