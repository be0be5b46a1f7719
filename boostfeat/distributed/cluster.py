"""Boosting on a cluster [TA13 Figure 3]: the driver has the model and adds up sums, workers have the sentences.

All sums are over the fixed blocks of boostfeat.core.arrays, in their order: the model does not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..boosting.boost import run_rounds
from ..boosting.boost_options import BoostOptions
from ..boosting.induce import alone_where_better, has_choices, settled, with_penalty
from ..boosting.record import Callback
from ..boosting.selection.template_set import FeaturedLists
from ..boosting.selection.trials import Tell, Trials
from ..boosting.stopping import kept_rounds
from ..core.arrays import I64, sum_in_order
from ..core.errors import InputError
from ..lists.choices import Scorer
from ..lists.nbest import NBest
from ..metrics.metric import metric_of
from ..model.model import Model
from ..trees.tree import Tree
from ..tuners.linear import LinearProblem
from .block_range import BlockRange, in_order
from .cluster_grower import ClusterGrower, Grown
from .worker_data import Source, WorkerData, search
from .workers import WorkerLostError, Workers, flat


def check_options(options: BoostOptions, nbest: NBest) -> None:
    """Raise for what this engine cannot do, before any work."""
    sparse = set(nbest.sparse_names.to_pylist())
    dense = nbest.global_names if options.level == "global" else nbest.unit_names
    if not (dense or sparse):
        raise InputError(f"--engine dask: expected a list with {options.level} features, found none; use --engine local")
    if sparse & set(options.tree_features) or not (dense or options.tree_features):
        raise InputError(
            "--engine dask: expected trees over dense features only, found sparse ones; name dense ones with --tree-features"
        )


def boost_on(
    workers: Workers,
    source: Source,
    dev: NBest,
    select: NBest | None,
    options: BoostOptions,
    *,
    seed: int = 0,
    init: Model | None = None,
    so_far: Model | None = None,
    callback: Callback | None = None,
    tell: Tell | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Model:
    """boostfeat.boosting.boost on workers. ``dev`` is the store of the source: the driver looks at its sizes and names only,
    unless it has a penalty to choose, which it does by itself.

    A worker that is lost is named, and the rest goes on from the last round, after loading the lost one's blocks too.
    """
    check_options(options, dev)
    trials, n_init = Trials(dev, select), len(init.trees) if init else 0
    options, why, _ = with_penalty(trials, FeaturedLists(dev, select), options, init or so_far, seed=seed, threads=1, tell=tell)
    if select is None and has_choices(trials, options):
        say("a cluster has no folds to choose by: the best rounds on the training list are kept; give --select to choose by")
    latest = [so_far] if so_far else []

    def report(row: Mapping[str, Any], model: Model) -> None:
        latest[:] = [model]
        if callback:
            callback(row, model)

    while True:
        try:
            engine = Cluster(workers, source, dev, options, seed=seed)
            known = latest[0] if latest else None
            model = run_rounds(engine, select, options, seed=seed, why=why, init=init, so_far=known, callback=report)
            model = replace(model, config={**model.config, "best_round": len(model.trees) - n_init})
            if select is None or not has_choices(trials, options):
                return kept_rounds(model, n_init)
            return alone_where_better(dev, settled(trials, model, options, n_init))
        except WorkerLostError as lost:
            done = f"after round {latest[0].history[-1]['round']}" if latest else "from the start"
            workers.heal(lost, done, say)


class Cluster:
    """An engine whose lists are on workers: it asks their shards, and adds up what blocks give."""

    drawn = -1
    _grower: ClusterGrower | None = None
    _grown: Grown  # the tree of the round under way
    _targets: list[Any] | None = None  # of the next round, where they are known already
    _rows: list[tuple[list[float], I64]] | None = None  # after the last move

    def __init__(self, workers: Workers, source: Source, dev: NBest, options: BoostOptions, *, seed: int) -> None:
        self.workers, self.dev, self.options, self.seed = workers, dev, options, seed
        self.scorer = Scorer(dev)
        self.n_pairs = 0
        metric_of(options.gain, dev).check_learnable(dev)
        workers.load(WorkerData, source, len(dev), options)

    def first_weights(self) -> dict[str, float]:
        self.workers.later_each(BlockRange.draw, self.options.pairs, self.seed)
        self.workers.later_each(BlockRange.prepare_linear)
        n, sparse = len(self.dev.global_names), self.dev.sparse_names.to_pylist()
        penalty = np.array(self.options.penalties(n, len(sparse)))
        problem = LinearProblem(self.workers.each_linear, [*self.dev.global_names, *sparse], n_dense=n)
        weights = problem.fit(l2_factors=penalty).weights
        self.workers.later_each(BlockRange.forget_linear)
        return weights

    def load(self, model: Model) -> None:
        self.workers.later_each(BlockRange.start, model)

    def add(self, tree: Tree) -> None:
        self.workers.later_each(BlockRange.add, tree)

    def train(self, m: int) -> None:
        options, each = self.options, self.workers.each
        self.n_pairs = sum(each(BlockRange.draw, options.pairs, self.seed + options.draws_before(m)))
        mean = None
        if options.context:
            mean = in_order(each(BlockRange.weigh, sum_in_order(each(BlockRange.context)))) / max(1, self.n_pairs)
        self.workers.later_each(BlockRange.agree, in_order(each(BlockRange.train, mean)))
        self.drawn, self._targets = m, None

    def grow(self, m: int) -> tuple[Tree, float] | None:
        if self._grower is None:
            self._grower = ClusterGrower(self.workers, self.options.tree, self.options.tree_features, seed=self.seed)
        grown = self._grower.grow(self._targets or self.workers.each(BlockRange.target))
        if grown is None:
            return None
        self._grown = grown
        return grown.tree, grown.gain

    def line_search(self) -> float:
        grown, l2 = self._grown, self.options.l2
        aim = (grown.tree, grown.splits, grown.on)
        if len(self.workers.members) == 1:
            return float(self.workers.shards(WorkerData.line_search, *aim, l2)[0])
        return search(flat(self.workers.shards(WorkerData.aim, *aim)), lambda rho: self.workers.each(BlockRange.ray, rho), l2=l2)

    def move(self, rho: float, m: int) -> tuple[float, list[int]]:
        if m == self.options.rounds or self.options.drawn_after(m) == m:
            moved, self._targets = self.workers.each(BlockRange.move, rho), None
        else:  # the next round is known to begin with these scores
            both = (WorkerData.each, BlockRange.move, rho), (WorkerData.each, BlockRange.target)
            moved, self._targets = map(flat, self.workers.together(*both))
        self._rows = [(losses, chosen) for _, losses, chosen in moved]
        effect = self._sd(in_order(flat([squares for squares, *_ in moved])))
        return effect, self._grown.fires.astype(int).tolist()

    def row(self) -> tuple[float, float]:
        losses, chosen = zip(*(self._rows or self.workers.each(BlockRange.row)), strict=True)
        self._rows = None
        gain = self.scorer.score(np.concatenate(chosen), self.options.metric).score
        return in_order(flat(losses)) / max(1, self.n_pairs), gain

    def effects(self, model: Model) -> dict[str, float]:
        names = self.dev.global_names
        used = [name for name in names if model.weights.get(name)]
        sd = dict(zip(used, map(self._sd, sum_in_order(self.workers.each(BlockRange.spreads, used))), strict=True))
        return {name: abs(model.weights.get(name, 0.0)) * sd.get(name, 0.0) for name in names}

    def _sd(self, squares: float) -> float:
        return float(np.sqrt(squares / max(1, self.dev.n_hyps)))
