"""Bagging: the mean of models of several seeds, as one list of trees.

Every model draws its own pairs (and sentences, and columns) and stops at its own best round. The mean of their scores is that of
the model with their mean weights and all their trees at 1/n of their weights: as exportable as any one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..lists.nbest import NBest
from ..model.model import Model
from .stopping import kept_rounds

if TYPE_CHECKING:
    from .boost import BoostOptions, Callback


def merged(models: Sequence[Model], n_init: int = 0) -> Model:
    """The mean of models of one level: scores are the mean of theirs. They share their first n_init trees."""
    n = len(models)
    names = list(dict.fromkeys(name for model in models for name in model.weights))
    weights = {name: sum(model.weights.get(name, 0.0) for model in models) / n for name in names}
    shared = [replace(t, weight=sum(m.trees[k].weight for m in models) / n) for k, t in enumerate(models[0].trees[:n_init])]
    own = [replace(tree, weight=tree.weight / n) for model in models for tree in model.trees[n_init:]]
    trees = [replace(tree, name=f"tree.{k:03d}") for k, tree in enumerate(own, n_init)]
    return Model(weights, (*shared, *trees), models[0].level)


def best_so_far(model: Model, n_init: int = 0, *, select: NBest | None = None, rule: str = "best") -> Model:
    """What an interrupted run has learnt: the best rounds of the model under way, and the bags finished before it."""
    kept = kept_rounds(model, n_init, select=select, rule=rule)
    before = [Model.from_json(done, "bags") for done in model.config.get("finished", ())]
    return replace(merged([*before, kept], n_init), config=kept.config, history=kept.history) if before else kept


def bagged(
    boost_once: Callable[..., Model],
    dev: NBest,
    select: NBest | None,
    options: BoostOptions,
    *,
    seed: int,
    threads: int,
    init: Model | None,
    so_far: Model | None,
    callback: Callback | None,
) -> Model:
    """The mean of ``options.bags`` runs. The callback gets the run under way; its config holds those finished, for resuming."""
    if options.refit in ("leaves", "trees", "ensemble") and init and init.trees:
        raise InputError("bags: expected no trees in the initial model where these are refitted, found some; take refit linear")
    once, n_init = replace(options, bags=1), len(init.trees) if init else 0
    finished = [Model.from_json(done, "bags") for done in so_far.config.get("finished", ())] if so_far else []
    for bag in range(len(finished), options.bags):
        before = [model.to_json() for model in finished]

        def report(row: Mapping[str, Any], model: Model, bag: int = bag, before: list[Any] = before) -> None:
            if callback:
                callback({**row, "bag": bag}, replace(model, config={**model.config, "finished": before}))

        under_way = so_far if so_far is not None and bag == len(so_far.config.get("finished", ())) else None
        model = boost_once(
            dev, select, once, seed=seed + bag * _APART, threads=threads, init=init, so_far=under_way, callback=report
        )
        finished.append(model)
    history = _merged_history(finished, n_init)
    config = {**finished[0].config, **asdict(options), "best_rounds": [model.config["best_round"] for model in finished]}
    return replace(merged(finished, n_init), config={**config, "best_round": finished[0].config["best_round"]}, history=history)


def _merged_history(models: Sequence[Model], n_init: int) -> tuple[dict[str, Any], ...]:
    """The rows of all bags, one after the other, with the names and weights that kept trees have in the merged model."""
    rows, n, number = [], len(models), n_init
    for bag, model in enumerate(models):
        kept = int(model.config["best_round"])
        for row in model.history:
            own = {
                key: value
                for key, value in row.items()
                if key not in ("tree", "weights", "tree_weights", "leaf_values", "values")
            }
            if "tree" in row and row["round"] <= kept:
                own |= {"tree": f"tree.{number:03d}", "rho": row["rho"] / n, "effect": row["effect"] / n}
                number += 1
            rows.append({**own, "bag": bag})
    return tuple(rows)


_APART = 1_000_003  # between the seeds of bags: resampling uses those in between
