"""The record of the rounds of Figure 3: the model as it grows, its history, the held-out list, resuming."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from math import inf
from typing import Any

from ..core.arrays import F64
from ..core.errors import InputError
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..lists.quality import choosing_metric
from ..model.model import Model
from ..model.model_file import Level
from ..model.units import UnitSpace
from ..trees.tree import Tree
from .boost_options import BoostOptions
from .stopping import best_round, scores_of, tree_scores

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
        select: NBest | None,
        *,
        seed: int,
        why: Mapping[str, Any],
        init: Model | None,
        so_far: Model | None,
        callback: Callback | None,
    ) -> None:
        self.options, self.select, self.init, self.so_far, self.callback = options, select, init, so_far, callback
        self.config = json.loads(json.dumps({**asdict(options), "seed": seed, "init": init.signature if init else None}))
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

    def add(
        self,
        m: int,
        tree: Tree,
        fit: float,
        rho: float,
        *,
        effect: float,
        fires: list[int],
        row_of: Callable[[], tuple[float, float]],
    ) -> None:
        """Add the tree of round m with its weight, and write its row."""
        tree = replace(tree, name=f"tree.{len(self.model.trees):03d}", weight=rho)
        self.model = replace(self.model, trees=(*self.model.trees, tree))
        if self.held_out:
            self.held_out.add(tree)
        loss, score = row_of()
        about = {"rho": rho, "tree": tree.name, "fit": fit, "effect": effect, "fires": fires}
        self._append({"round": m, "loss": loss, **about, "dev": score})

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


def check_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise unless a run was begun with the options it is continued with."""
    if found.get("steps") != STEPS:
        raise InputError(
            "resume: expected a run whose l2 penalises standardised steps, found one of release 0.1 (in raw units); start anew"
        )
    for key in expected:
        was = found.get(key, "bleu" if key == "gain" else inf)  # runs of release 0.1 learn BLEU and do not say so
        if key != "rounds" and was != expected[key]:
            raise InputError(
                f"resume: expected the run's own option {key} = {found.get(key)}, found {expected[key]}; give the same options"
            )
