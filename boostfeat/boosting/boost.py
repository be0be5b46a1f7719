"""Gradient boosting of tree features [TA13 Figure 3], local (units are phrases in context) or global (units are hypotheses)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from ..lists.feature_range import learnable
from ..lists.nbest import NBest
from ..model.model import Model
from ..trees.tree import Tree
from .boost_options import BoostOptions
from .local import Local
from .record import Callback, Record, kept_rounds


class Engine(Protocol):
    """The sentences of a run, and what Figure 3 asks of them: Local has them here, distributed.Cluster on workers."""

    drawn: int  # the round after which the pairs in use were drawn

    def first_weights(self) -> dict[str, float]:
        """λ = argmin Ψ + l2/2 |λ|²"""

    def load(self, model: Model) -> None:
        """F = the scores of this model."""

    def add(self, tree: Tree) -> None:
        """F += a tree that is known already."""

    def train(self, m: int) -> None:
        """Draw the pairs of round m + 1 and weigh them at F, the scores after round m."""

    def grow(self, m: int) -> tuple[Tree, float] | None:
        """h fitted to y = -dΨ/dF, and by how much it lowers the squared error; None where no tree does."""

    def line_search(self) -> float:
        """ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)²"""

    def move(self, rho: float, m: int) -> tuple[float, list[int]]:
        """F += ρ h. Gives its effect (the standard deviation within lists of what it adds), and how often each leaf fires."""

    def row(self) -> tuple[float, float]:
        """Ψ over the number of pairs, and the gain of the best hypotheses of the dev lists."""

    def effects(self, model: Model) -> dict[str, float]:
        """The effect of each linear weight."""


def boost(
    dev: NBest,
    select: NBest | None = None,
    options: BoostOptions | None = None,
    *,
    seed: int = 0,
    threads: int = 1,
    init: Model | None = None,
    so_far: Model | None = None,
    callback: Callback | None = None,
) -> Model:
    """Learn linear weights, then trees, on dev; keep the rounds up to the best gain on select, or all of them without one.

    After each round ``callback`` gets the history row and the model with all trees so far; given back as ``so_far`` with the same
    lists, options and seed, it is continued to the very model an uninterrupted run gives: an interrupt loses nothing but the
    round under way.
    """
    dev, select, options = learnable(dev), None if select is None else learnable(select), options or BoostOptions()
    engine = Local(dev, options, seed=seed, threads=threads)
    record = Record(options, select, seed=seed, init=init, so_far=so_far, callback=callback)
    return kept_rounds(run_rounds(engine, record), record.n_init)


def run_rounds(engine: Engine, record: Record) -> Model:
    """Run Figure 3 of [TA13] on an engine, and keep all rounds.

    1. F_0 = X λ, λ = argmin Ψ + l2/2 |λ|²  (or the weights and trees of the record's ``init``)
    2. for m = 1..M:  y = -dΨ/dF = A' P' σ(-z);  h_m = tree fitted to y;  ρ_m = argmin Ψ(F + ρ h_m) + l2/2 (s ρ)²;  F += ρ_m h_m
    """
    options = record.options
    record.start(engine.first_weights)  # F_0 = X λ
    resume(engine, record.model, record.n_init, options)
    if record.so_far is None:
        record.begin(engine.row(), engine.effects(record.model))
    for m in range(record.done + 1, options.rounds + 1):
        if record.exhausted():
            break  # what is kept changes no more
        if options.drawn_after(m - 1) != engine.drawn:
            engine.train(m - 1)  # fresh pairs, weighed at F
        grown = engine.grow(m)  # y = -dΨ/dF = A' P' σ(-z);  h = a tree fitted to y
        rho = options.shrinkage * engine.line_search() if grown else 0.0  # ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)²
        if not grown or not rho:
            break
        effect, fires = engine.move(rho, m)  # F += ρ h
        tree, fit = grown
        record.add(m, replace(tree, weight=rho), engine.row, fit=fit, effect=effect, fires=fires)
    return record.model


def resume(engine: Engine, model: Model, n_init: int, options: BoostOptions) -> None:
    """Bring an engine to where the model is: the same sums in the same order as when its trees were learned.

    Pairs are drawn and weighed at the scores of the round they were drawn after; the trees since then are added afterwards.
    """
    drawn = n_init + options.drawn_after(len(model.trees) - n_init)
    engine.load(model.truncated(drawn))
    engine.train(drawn - n_init)
    for tree in model.trees[drawn:]:
        engine.add(tree)
