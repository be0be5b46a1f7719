"""Fits on a cluster: whole ones side by side, or one that is spread over blocks of sentences [TA13 Figure 3].

The driver has the model and what is chosen, workers have the lists. They run the functions that one process would run, so the
model is the same file. Sums of a fit that is spread are over the fixed blocks of boostfeat.core.arrays, in their order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from ..boosting.boost import Engine, run_rounds
from ..boosting.boost_options import AUTO, BoostOptions
from ..boosting.local import Local
from ..boosting.record import Callback, Record
from ..boosting.selection.trials import Trial, Trials
from ..core.arrays import Array, sum_in_order
from ..core.processes import give_back
from ..features.compute import SentenceRun
from ..features.resources import Resources
from ..lists.choices import score_of_rows
from ..lists.feature_range import learnable
from ..lists.nbest import NBest
from ..lists.store import check_parts, parts_of
from ..metrics.metric import metric_of
from ..model.model import Model
from ..trees.tree import Tree
from ..tuners.linear import LinearProblem
from .block_range import BlockRange
from .cluster_grower import ClusterGrower, Grown
from .worker_data import NearList, NearPart, Share, Source, StoreFile, WorkerData, opened, search
from .workers import WorkerLostError, Workers, flat

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")


class ClusterFits:
    """Templates and fits of a run on workers: features.featurizing.TemplateWorkers and boosting.selection.trials.Cluster."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def near(self, paths: Sequence[str], options: BoostOptions | None) -> dict[str, NearList]:
        """Return lists that workers open and this process does not, by path; nothing where a fit of one is not spread.

        With options it is one of boosting, else one of PRO.
        """
        if not all(os.path.isfile(path) or os.path.isdir(path) for path in paths):
            return {}
        lists = dict[str, NearList]()
        for path in paths:
            files = parts_of(path) or [Path(path)]
            told = self.workers.near(Source(tuple(StoreFile(os.path.abspath(f), 0, 0) for f in files)), NearPart.of)
            check_parts(files, [part.lists for part in told])
            nbest = NearList.of(told, self.workers.in_shares)
            if nbest is None or (options and not is_spread(options, nbest)):
                return {}
            lists[path] = nbest
        return lists if self.joined([*lists.values()]) else {}

    def joined(self, lists: Sequence[NearList]) -> NBest | None:
        """Return near lists as one, whose sentences are numbered anew; None where their columns differ."""
        nbest = NearList.of(flat([list(nbest.told) for nbest in lists]), self.workers.in_shares)
        return nbest and replace(nbest, ids=np.arange(len(nbest)))

    def opens(self, path: str, nbest: NBest) -> None:
        """Let workers open a list by its path, where it is a store or a folder of them."""
        if os.path.isfile(path) or os.path.isdir(path):
            self.workers.stores.append((nbest, Source.of(path, nbest)))

    def runs_of(self, nbest: NBest) -> int:
        """Return how many runs of a list workers compute templates on; 0 where they do not open it."""
        return len(self.workers.members) if self.workers.source_of(nbest) else 0

    def on_runs(
        self,
        task: Callable[[SentenceRun], T],
        nbest: NBest,
        runs: Sequence[tuple[int, int, Resources]],
        done: Callable[[int], None],
    ) -> list[T]:
        """Return results of a task for runs of a list, of which a worker opens the parts that have them."""
        return self.workers.results([(on_run, task, *run, nbest) for run in runs], done)

    def side_by_side(self, task: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Return results of a task for each of some items."""
        return self.workers.results([(task, item) for item in items])

    def results(self, trials: Trials, tasks: Sequence[Callable[[Trial], T]], what: str, steps: int) -> list[T]:
        """Return results of a task for each trial, of which every worker runs some as a whole."""
        n = len(trials)
        threads = max(1, sum(int(worker["nthreads"]) for worker in self.workers.members.values()) // n)

        def done(ended: int) -> None:
            if trials.tell and steps:
                trials.tell(what, ended * steps, n * steps)

        calls = [(run_trial, task, k, threads, trials.dev, trials.select) for k, task in enumerate(tasks)]
        return self.workers.results(calls, done)

    def run_rounds(
        self,
        dev: NBest,
        select: NBest | None,
        options: BoostOptions,
        *,
        so_far: Model | None = None,
        callback: Callback | None = None,
        **how: Any,
    ) -> Model:
        """Run Figure 3 on workers: spread over all of them where that gives the very same model, else on one.

        A worker that is lost is named, and the rest goes on from the last round.
        """
        latest = so_far

        def report(row: Mapping[str, Any], model: Model) -> Any:
            nonlocal latest
            latest = model
            return callback(row, model) if callback else None

        kind = SpreadEngine if self.workers.source_of(dev) and is_spread(options, dev) else WholeEngine
        while True:
            try:
                engine: Engine = kind(self.workers, dev, options, seed=how["seed"])
                return run_rounds(engine, Record(options, select, so_far=latest, callback=report, **how))
            except WorkerLostError as lost:
                done = f"after round {latest.history[-1]['round']}" if latest else "from the start"
                self.workers.heal(lost, done)


def on_run(task: Callable[[SentenceRun], T], first: int, last: int, resources: Resources, source: Source) -> T:
    """Run a task for some sentences of a list on a worker."""
    lists, start = source.read((first, last))
    with threadpool_limits(1, "blas"):
        result = task(SentenceRun.of(lists, (first - start, last - start), resources, first))
    give_back()
    return result


def run_trial(task: Callable[[Trial], T], k: int, threads: int, dev: Source | NBest, select: Source | NBest | None) -> T:
    """Run the task of a trial on a worker."""
    with threadpool_limits(1, "blas"):
        result = task(Trials(opened(dev), opened(select)).trial(k, threads=threads))
    give_back()
    return result


def is_spread(options: BoostOptions, nbest: NBest) -> bool:
    """Tell whether blocks of sentences give every bit of the model: with constant leaves, dense features and equal pairs.

    LightGBM's network cannot have linear leaves of few rows. The mean of the pairs' weights in context is no sum over blocks.
    """
    dense = nbest.global_names if options.level == "global" else nbest.unit_names
    are_dense = bool(dense) and set(options.tree_features) <= set(dense)
    chooses_penalty = options.sparse_l2 == AUTO and len(nbest.sparse_names)
    return are_dense and options.tree.leaves == "constant" and not options.context and not chooses_penalty


def local_engine(nbest: NBest, options: BoostOptions, seed: int, *, share: Share) -> Local:
    """Return the engine that one process has, on a worker."""
    return Local(learnable(nbest, share.left_out), options, seed=seed, threads=share.threads)


def _of_whole(method: Callable[Concatenate[Local, P], T]) -> Callable[Concatenate[WholeEngine, P], T]:
    """Return what calls a method of the engine that is on a worker."""

    def ask(self: WholeEngine, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self.workers.shards(method, *arguments, **named)[0]

    return ask


class WholeEngine:
    """An engine on one worker, which has all lists and does what one process would do."""

    drawn = -1

    def __init__(self, workers: Workers, dev: NBest, options: BoostOptions, *, seed: int) -> None:
        self.workers = workers
        workers.load(local_engine, dev, options, seed, most=1)

    def load(self, model: Model) -> None:
        self.workers.later(Local.load, model)

    def add(self, tree: Tree) -> None:
        self.workers.later(Local.add, tree)

    def train(self, m: int) -> None:
        self.workers.later(Local.train, m)
        self.drawn = m

    first_weights = _of_whole(Local.first_weights)
    grow, line_search = _of_whole(Local.grow), _of_whole(Local.line_search)
    move, row, effects = _of_whole(Local.move), _of_whole(Local.row), _of_whole(Local.effects)


class SpreadEngine:
    """An engine whose lists are on workers: it asks their shards, and adds up what blocks give."""

    drawn = -1
    _grower: ClusterGrower | None = None
    _grown: Grown  # the tree of the round under way
    _targets: list[Any] | None = None  # of the next round, where they are known already
    _rows: list[tuple[list[float], Array]] | None = None  # after the last move

    def __init__(self, workers: Workers, dev: NBest, options: BoostOptions, *, seed: int) -> None:
        self.workers, self.dev, self.options, self.seed = workers, dev, options, seed
        self.n_pairs = 0
        metric_of(options.gain, dev).check_learnable(dev)
        workers.load(WorkerData, dev, options)

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
        self.workers.later_each(BlockRange.agree, sum_in_order(each(BlockRange.train)))
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
        tree, l2 = self._grown.tree, self.options.l2
        if len(self.workers.holders) == 1:
            return float(self.workers.shards(WorkerData.line_search, tree, l2)[0])
        return search(flat(self.workers.shards(WorkerData.aim, tree)), lambda rho: self.workers.each(BlockRange.ray, rho), l2=l2)

    def move(self, rho: float, m: int) -> tuple[float, list[int]]:
        if m == self.options.rounds or self.options.drawn_after(m) == m:
            moved, self._targets = self.workers.each(BlockRange.move, rho, self.options.metric), None
        else:  # the next round is known to begin with these scores
            both = (WorkerData.each, BlockRange.move, rho, self.options.metric), (WorkerData.each, BlockRange.target)
            moved, self._targets = map(flat, self.workers.together(*both))
        self._rows = [(losses, chosen) for _, losses, chosen in moved]
        effect = self._sd(sum_in_order(flat([squares for squares, *_ in moved])))
        return effect, self._grown.fires.astype(int).tolist()

    def row(self) -> tuple[float, float]:
        losses, chosen = zip(*(self._rows or self.workers.each(BlockRange.row, self.options.metric)), strict=True)
        self._rows = None
        return sum_in_order(flat(losses)) / max(1, self.n_pairs), score_of_rows(chosen, metric_of(self.options.metric, self.dev))

    def effects(self, model: Model) -> dict[str, float]:
        names = self.dev.global_names
        used = [name for name in names if model.weights.get(name)]
        sd = dict(zip(used, map(self._sd, sum_in_order(self.workers.each(BlockRange.spreads, used))), strict=True))
        return {name: abs(model.weights.get(name, 0.0)) * sd.get(name, 0.0) for name in names}

    def _sd(self, squares: float) -> float:
        return float(np.sqrt(squares / max(1, self.dev.n_hyps)))
