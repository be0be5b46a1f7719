"""Rounds of a boosting run: which one is kept, and the scores they stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..lists.nbest import NBest
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


def kept_rounds(model: Model, n_init: int = 0) -> Model:
    """Return the model up to its best round; its history still shows all rounds."""
    best = best_round(model.history, lower=bool(model.config.get("lower_is_better")))
    return replace(model.truncated(n_init + best), config={**model.config, "best_round": best})


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
