"""Gradient boosting of tree features [TA13 Figure 3], local (units are phrases in context) or global (units are hypotheses)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import F64, I32, I64, add_segment_sums, offsets, scatter_segments, segment_positions
from .augment import within_list_sd
from .bleu import sentence_bleu
from .errors import InputError, unknown_name
from .grow import Grower, TreeOptions
from .linesearch import minimise_ray
from .losses import LOSSES, Loss, make_loss
from .metrics import METRICS, Scorer, best_choice
from .model import LEVELS, Level, Model, hypothesis_table, unit_table
from .nbest import NBest
from .pairs import PairOptions, Pairs, pairs_for
from .pro import fit_linear
from .tree import Table, Tree

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class BoostOptions:
    """How features are induced; the defaults are Figure 3 of [TA13]."""

    level: Level = "local"
    rounds: int = 25  # M, at most so many trees
    shrinkage: float = 1.0  # factor of every ρ; 1 is the paper's
    l2: float = 1.0  # penalty on the initial weights (standardised) and on each ρ
    patience: int = 10  # rounds without a better select gain before it stops
    metric: str = "bleu-sbp"  # what the stopping point is chosen by on select
    loss: str = "log"
    scale: float = 1.0  # of the softmax of the expected gain
    resample_pairs: int = 0  # draw pairs anew every so many rounds; 0: never, as in the paper
    pairs: PairOptions = field(default_factory=PairOptions)
    tree: TreeOptions = field(default_factory=TreeOptions)

    def __post_init__(self) -> None:
        for name, known in (("level", LEVELS), ("metric", METRICS), ("loss", LOSSES)):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        for name in ("rounds", "l2", "patience", "scale", "resample_pairs"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name}: expected 0 or more, found {getattr(self, name)}")
        if not 0 < self.shrinkage <= 1:
            raise InputError(f"shrinkage: expected a number above 0 up to 1, found {self.shrinkage}")


@dataclass(frozen=True)
class Space:
    """The units of a level: their features, and how hypotheses are made of them. Global is local with A = I."""

    unit_ptr: I64  # [H+1]
    unit_idx: I32  # [R]
    names: tuple[str, ...]
    x: F64  # [V, D]
    sparse: csr_matrix | None
    sparse_names: tuple[str, ...]
    table: Table

    @classmethod
    def of(cls, nbest: NBest, level: Level) -> Space:
        n = nbest.n_hyps
        sparse_names = tuple(nbest.sparse_names.to_pylist())
        if level == "global":
            sparse = nbest.global_sparse if sparse_names else None
            ptr, idx = np.arange(n + 1), np.arange(n, dtype=np.int32)
            return cls(ptr, idx, nbest.global_names, nbest.global_features, sparse, sparse_names, hypothesis_table(nbest))
        if n and not nbest.n_occurrences:
            raise InputError(
                "expected a list with units (phrases) for level local, found none; import one that has them, or use level global"
            )
        sparse = nbest.X_sparse if sparse_names else None
        return cls(nbest.unit_ptr, nbest.unit_idx, nbest.unit_names, nbest.X, sparse, sparse_names, unit_table(nbest))

    def sum(self, unit_values: F64) -> F64:
        """A F [H]: hypothesis scores of unit scores [V]."""
        return add_segment_sums(self.unit_ptr, self.unit_idx, unit_values, np.zeros(len(self.unit_ptr) - 1))

    def spread(self, hyp_values: F64) -> F64:
        """A' g [V]: what hypotheses [H] ask of each unit."""
        return scatter_segments(self.unit_ptr, self.unit_idx, hyp_values, len(self.x))

    def part(self, hyps: I64) -> Space:
        """The same units with these hypotheses only."""
        at = segment_positions(self.unit_ptr, hyps)
        return replace(self, unit_ptr=offsets(np.diff(self.unit_ptr)[hyps]), unit_idx=self.unit_idx[at])

    def counts(self) -> F64:
        """c [V]: occurrences of each unit."""
        return np.bincount(self.unit_idx, minlength=len(self.x)).astype(np.float64)


@dataclass(frozen=True)
class Training:
    """The loss of a round and the hypotheses it depends on: those in some pair. The others have gradient 0 and are left out."""

    loss: Loss
    hyps: I64  # [L] the hypotheses that the loss compares, as it numbers them
    space: Space  # of these
    n: int  # pairs, or lists: what the mean loss is over

    @classmethod
    def of(cls, space: Space, hyp_ptr: I64, pairs: Pairs, gains: F64, options: BoostOptions) -> Training:
        if options.loss == "expected-gain":
            loss = make_loss(options.loss, pairs=pairs, hyp_ptr=hyp_ptr, gains=gains, scale=options.scale)
            return cls(loss, np.arange(len(gains)), space, max(1, len(hyp_ptr) - 1))
        used, number = np.unique(np.stack([pairs.better, pairs.worse]), return_inverse=True)
        better, worse = number.reshape(2, len(pairs))
        renumbered = replace(pairs, better=better, worse=worse)
        loss = make_loss(options.loss, pairs=renumbered, hyp_ptr=hyp_ptr, gains=gains[used], scale=options.scale)
        return cls(loss, used, space.part(used), max(1, len(pairs)))

    def mean_loss(self, scores: F64) -> float:
        """Ψ / n at the scores [H] of all hypotheses."""
        return self.loss.value(scores[self.hyps]) / self.n

    def target(self, scores: F64) -> F64:
        """y = -dΨ/dF = A' P' σ(-z) [V]   [TA13 appendix A]"""
        return self.space.spread(-self.loss.gradient(scores[self.hyps]))

    def line_search(self, scores: F64, h: F64, *, l2: float) -> float:
        """ρ = argmin Ψ(F + ρ h) + l2/2 ρ²"""
        return minimise_ray(self.loss.ray(scores[self.hyps], self.space.sum(h)), l2=l2)


class _HeldOut:
    """Scores and gain of a list that is not trained on, kept up as trees come."""

    def __init__(self, nbest: NBest, level: Level, weights: Mapping[str, float], metric: str) -> None:
        self.nbest, self.metric, self.scorer = nbest, metric, Scorer(nbest)
        self.space = Space.of(nbest, level)
        self.scores = Model(weights).decision_function(nbest)

    def add(self, tree: Tree) -> None:
        self.scores += tree.weight * self.space.sum(tree.predict(self.space.table))

    def gain(self) -> float:
        return gain_of(self.scorer, self.scores, self.metric)


def gain_of(scorer: Scorer, scores: F64, metric: str) -> float:
    """Metric (0..100) of the best hypotheses under these scores [H]."""
    return scorer.score(best_choice(scorer.nbest, scores), metric).score


Callback = Callable[[Mapping[str, Any], Model], None]


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
    """Learn linear weights, then trees, on dev; keep the rounds up to the best gain on select.

    1. F_0 = X λ, λ = argmin Ψ + l2/2 |λ|²  (or the weights and trees of ``init``)
    2. for m = 1..M:  y = -dΨ/dF = A' P' σ(-z);  h_m = tree fitted to y;  ρ_m = argmin Ψ(F + ρ h_m) + l2/2 ρ²;  F += ρ_m h_m

    Without select, all rounds are kept. After each round ``callback`` gets the history row and the model with all trees so far;
    given back as ``so_far`` with the same lists, options and seed, it is continued to the very model an uninterrupted run gives:
    an interrupt loses nothing but the round under way.
    """
    options = options or BoostOptions()
    config = {**asdict(options), "seed": seed, "init": init.signature if init else None}
    scorer = Scorer(dev)
    gains = sentence_bleu(dev.stats, alpha=options.pairs.alpha)
    space = Space.of(dev, options.level)

    def training_of_round(m: int) -> Training:
        draw = m // options.resample_pairs if options.resample_pairs else 0
        pairs = pairs_for(dev, options.pairs, seed=seed + draw, threads=threads)
        return Training.of(space, dev.hyp_ptr, pairs, gains, options)

    training = training_of_round(0)
    if so_far is not None:
        _check_same(so_far.config, config)
        weights, old = dict(so_far.weights), so_far.trees
    elif init is not None:
        _check_level(init, options.level)
        weights, old = dict(init.weights), init.trees
    else:
        pairs = pairs_for(dev, options.pairs, seed=seed, threads=threads)
        weights, old = fit_linear(dev, pairs, l2=options.l2).weights, ()
    n_init = len(init.trees) if init else 0

    scores = Model(weights).decision_function(dev)
    held_out = _HeldOut(select, options.level, weights, options.metric) if select is not None else None
    for tree in old:  # the same sums in the same order as when they were learnt
        scores += tree.weight * space.sum(tree.predict(space.table))
        if held_out:
            held_out.add(tree)

    def row_of(m: int, **more: Any) -> dict[str, Any]:
        row = {"round": m, "loss": training.mean_loss(scores), **more, "dev": gain_of(scorer, scores, options.metric)}
        return row if held_out is None else {**row, "select": held_out.gain()}

    history = [dict(row) for row in so_far.history] if so_far else [row_of(0, effects=linear_effects(dev, weights))]
    trees = list(old)

    def model() -> Model:
        return Model(weights, tuple(trees), options.level, config, tuple(history))

    if callback and not so_far:
        callback(history[0], model())
    grower = None
    for m in range(len(trees) - n_init + 1, options.rounds + 1):
        if held_out and m - 1 - best_round(history) >= max(1, options.patience):
            break
        if options.resample_pairs and m > 1 and ((m - 1) % options.resample_pairs == 0 or grower is None):
            training = training_of_round(m - 1)
        if grower is None:
            counts = space.counts()
            grower = Grower(
                space.names,
                space.x,
                counts,
                options.tree,
                sparse=space.sparse,
                sparse_names=space.sparse_names,
                threads=threads,
                seed=seed,
            )
        grown = grower.grow(training.target(scores))
        if grown is None:
            break  # no split lowers the squared error
        rho = options.shrinkage * training.line_search(scores, grown.h, l2=options.l2)
        if rho == 0:
            break
        tree = replace(grown.tree, name=f"tree.{len(trees):03d}", weight=rho)
        direction = space.sum(grown.h)
        scores += rho * direction
        if held_out:
            held_out.add(tree)
        trees.append(tree)
        fires = np.bincount(grown.leaf_of, counts, minlength=len(tree.feature))[tree.leaves]
        effect = float(within_list_sd(dev.hyp_ptr, rho * direction)[0])
        history.append(row_of(m, rho=rho, tree=tree.name, fit=grown.gain, effect=effect, fires=fires.astype(int).tolist()))
        if callback:
            callback(history[-1], model())
    return kept_rounds(model(), n_init)


def linear_effects(nbest: NBest, weights: Mapping[str, float]) -> dict[str, float]:
    """For each dense feature how much its weighted value varies within lists (standard deviation)."""
    used = [name for name in nbest.global_names if weights.get(name)]  # a column at a time: all of them may be gigabytes
    sd = {name: float(within_list_sd(nbest.hyp_ptr, nbest.global_column(name))[0]) for name in used}
    return {name: abs(weights.get(name, 0.0)) * sd.get(name, 0.0) for name in nbest.global_names}


def best_round(history: list[dict[str, Any]]) -> int:
    """The first round of the highest select gain; the last one where there is no select."""
    if "select" not in history[0]:
        return int(history[-1]["round"])
    gains = [row["select"] for row in history]
    return int(history[int(np.argmax(gains))]["round"])


def kept_rounds(model: Model, n_init: int = 0) -> Model:
    """The model up to its best round; its history still shows all rounds."""
    best = best_round([dict(row) for row in model.history])
    return replace(model.truncated(n_init + best), config={**model.config, "best_round": best})


def _check_level(init: Model, level: Level) -> None:
    if init.trees and init.level != level:
        raise InputError(
            f"initial model: expected level {level}, found trees of level {init.level}; start from one of the same level"
        )


def _check_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for key in expected:
        if key != "rounds" and found.get(key, inf) != expected[key]:
            raise InputError(
                f"resume: expected the run's own option {key} = {found.get(key)}, found {expected[key]}; give the same options"
            )
