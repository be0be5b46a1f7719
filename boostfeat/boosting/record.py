"""The record of the rounds of Figure 3: the model as it grows, its history, the held-out list, resuming."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from .. import __version__
from ..core.arrays import F64
from ..core.errors import InputError
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..lists.quality import choosing_metric
from ..model.model import Model
from ..model.model import tree_scores as unit_scores
from ..model.model_file import Level
from ..model.units import UnitSpace
from ..trees.tree import Tree
from .boost_options import BoostOptions

MADE_FROM = "made_from"  # a key of a model's config
ASKED = ("rounds", "sparse_l2", "tree_features")  # options that choices replace
WORDS = {"lists": "LIST", "version": "release of boostfeat"}  # what people call it, where that is not its flag
STEPS = "standardised"  # what l2 penalises ρ by; release 0.1 did not say, and penalised it in units of gradients

Callback = Callable[[Mapping[str, Any], Model], Any]  # the run ends where it returns True


class Record:
    """The model of a run and the rows of its history, from the start or from where an earlier run was left."""

    model: Model
    held_out: HeldOut | None = None
    is_stopped = False

    def __init__(
        self,
        options: BoostOptions,
        select: NBest | None = None,
        *,
        seed: int = 0,
        why: Mapping[str, Any] = {},
        init: Model | None = None,
        so_far: Model | None = None,
        callback: Callback | None = None,
    ) -> None:
        """Begin a run; ``why`` is what the model says of choices made before."""
        self.options, self.select, self.init, self.so_far, self.callback = options, select, init, so_far, callback
        self.config = as_read({**asdict(options), "seed": seed, "init": init.signature if init else None})
        self.config |= {"steps": STEPS, **why}
        self.n_init = len(init.trees) if init else 0
        if select is not None and choosing_metric(select, options.metric).lower_is_better:
            self.config["lower_is_better"] = True

    def start(self, first_weights: Callable[[], dict[str, float]]) -> None:
        """Begin with the run so far, the initial model, or first weights."""
        if self.so_far is not None:
            check_same(self.so_far.config, self.config)
            model = self.so_far
        elif self.init is not None:
            check_level(self.init, self.options.level)
            model = Model(self.init.weights, self.init.trees, self.options.level)
        else:
            model = Model(first_weights(), (), self.options.level)
        self.model = replace(model, config=self.config)
        if self.select is not None:
            self.held_out = HeldOut(self.select, self.model, self.options.metric)

    @property
    def lower(self) -> bool:
        """Is the metric better when lower?"""
        return bool(self.config.get("lower_is_better"))

    @property
    def done(self) -> int:
        """The rounds that are over."""
        return len(self.model.trees) - self.n_init

    def begin(self, row: tuple[float, float], effects: Mapping[str, float]) -> None:
        """Write the row of the linear weights."""
        self._append({"round": 0, "loss": row[0], "effects": effects, "dev": row[1]})

    def add(self, m: int, tree: Tree, row_of: Callable[[], tuple[float, float]], **about: Any) -> None:
        """Add the tree of round m, which has its weight, and write its row."""
        tree = replace(tree, name=f"tree.{len(self.model.trees):03d}")
        self.model = replace(self.model, trees=(*self.model.trees, tree))
        if self.held_out:
            self.held_out.add(tree)
        loss, score = row_of()
        self._append({"round": m, "loss": loss, "rho": tree.weight, "tree": tree.name, **about, "dev": score})

    def _append(self, row: dict[str, Any]) -> None:
        if self.held_out:
            row["select"] = self.held_out.score()
        self.model = replace(self.model, history=(*self.model.history, row))
        if self.callback:
            self.is_stopped = self.callback(row, self.model) is True

    def exhausted(self) -> bool:
        """Tell whether the callback ends the run, or the select gain has not risen for ``patience`` rounds."""
        if self.is_stopped or self.held_out is None:
            return self.is_stopped
        history = self.model.history
        return bool(history[-1]["round"] - best_round(history, lower=self.lower) >= max(1, self.options.patience))


class HeldOut:
    """Scores of a list that is not trained on, kept up as trees come."""

    def __init__(self, nbest: NBest, model: Model, metric: str) -> None:
        self.nbest, self.metric, self.scorer = nbest, metric, Scorer(nbest)
        self.space = UnitSpace.of(nbest, model.level)
        self.scores = scores_of(model, nbest, self.space)

    def add(self, tree: Tree) -> None:
        self.scores += tree_scores(tree, self.space)

    def score(self) -> float:
        return score_of(self.scorer, self.scores, self.metric)


def score_of(scorer: Scorer, scores: F64, metric: str, *, threads: int = 1) -> float:
    """Metric (0..100) of the best hypotheses under these scores [H]."""
    return scorer.score(best_choice(scorer.nbest, scores, threads=threads), metric).score


def check_level(init: Model, level: Level) -> None:
    """Raise for an initial model whose trees see other units."""
    if init.trees and init.level != level:
        raise InputError(
            f"initial model: expected level {level}, found trees of level {init.level}; start from one of the same level"
        )


def made_from(
    lists: NBest, select: NBest | None, options: BoostOptions | None, *, init: Model | None = None, **more: Any
) -> dict[str, Any]:
    """Return what a model is made from beside its options, and those of them whose place its choices take (ASKED)."""
    of_lists = {"lists": lists.digest, "select": select.digest if select else None}
    return as_read({
        "version": __version__,
        **of_lists,
        "init": init.signature if init else None,
        **{name: value for name, value in more.items() if value},
        **({"asked": {name: getattr(options, name) for name in ASKED}} if options else {}),
    })  # fmt: skip


def check_made_from(config: Mapping[str, Any], made: Mapping[str, Any], options: BoostOptions, seed: int) -> None:
    """Raise unless a model was made from the same, with the same options; name what differs."""
    if not isinstance(was := config.get(MADE_FROM), dict):
        raise InputError("resume: expected a model that says what it was made from, found none; start anew")
    for name in {**made, **was}:
        if name != "asked" and was.get(name) != made.get(name):
            what = WORDS.get(name, f"--{name.replace('_', '-')}")
            began = f"{what} {was.get(name)}, not {made.get(name)}" if name == "templates" else f"another {what}"
            raise InputError(f"resume: the run began with {began}; give the same, or start anew")
    check_same({**config, **was.get("asked", {})}, as_read({**asdict(options), "seed": seed}), also=("rounds",))


def as_read(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file will have of it: tuples become lists."""
    read: dict[str, Any] = json.loads(json.dumps(value))
    return read


def check_same(found: Mapping[str, Any], expected: Mapping[str, Any], also: Sequence[str] = ()) -> None:
    """Raise unless a run was begun with the options it is continued with; rounds may be more, unless they count ``also``."""
    for key in expected:
        if (key != "rounds" or key in also) and found.get(key, inf) != expected[key]:
            raise InputError(
                f"resume: expected the run's own option {key} = {found.get(key)}, found {expected[key]}; give the same options"
            )


# ---------------------------------------------------------------------------------------------------------------------
# The round that is kept, and the scores that rounds stand on
# ---------------------------------------------------------------------------------------------------------------------


def best_round(history: Sequence[Mapping[str, Any]], *, lower: bool = False) -> int:
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
    return with_trees(Model(model.weights).decision_function(nbest), model.trees, space)


def with_trees(scores: F64, trees: Sequence[Tree], space: UnitSpace) -> F64:
    """INOUT scores [H]: those of the trees are added, one after the other."""
    for tree in trees:
        scores += tree_scores(tree, space)
    return scores


def tree_scores(tree: Tree, space: UnitSpace) -> F64:
    """[H] what a tree adds."""
    return tree.weight * space.sum(tree.predict(space.table))
