"""Gradient boosting of tree features [TA13 Figure 3], local (units are phrases in context) or global (units are hypotheses)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from ..core.arrays import F64, Bool
from ..core.errors import InputError, unknown_name
from ..lists.choices import Scorer, best_choice, check_gain
from ..lists.learnable import learnable
from ..lists.nbest import NBest
from ..losses import LOSSES, OF_LISTS, Loss, make_loss
from ..losses.corpus_weights import pair_weights
from ..losses.pairs import PairOptions, Pairs, sample_pairs
from ..metrics.bleu import sentence_bleu
from ..model.effects import linear_effects, within_list_sd
from ..model.model import LEVELS, Level, Model
from ..model.units import Space
from ..trees.growing import Grower, Grown, TreeOptions
from ..trees.tree import Tree
from ..tuners.linear import fit_linear
from .refit import REFITS, leaf_values, refit_leaves, refit_weights
from .round_loss import Training
from .stopping import RULES, all_weights, best_round, kept_rounds, scores_of, tree_scores

__all__ = ["BoostOptions", "Callback", "Space", "Training", "best_round", "boost", "gain_of", "kept_rounds", "linear_effects"]


@dataclass(frozen=True)
class BoostOptions:
    """How features are induced; the defaults are Figure 3 of [TA13]. boostfeat.boosting.recipes has better ones."""

    level: Level = "local"
    rounds: int = 25  # M, at most so many trees
    shrinkage: float = 1.0  # factor of every ρ; 1 is the paper's
    l2: float = 1.0  # penalty on the initial weights (standardised), on each ρ, and on leaf values that are refitted
    sparse_l2: float | None = None  # penalty on the initial weights of sparse features; None: l2
    patience: int = 10  # rounds without a better select gain before it stops
    metric: str = "bleu-sbp"  # what the stopping point is chosen by on select
    rule: str = (
        "best"  # round kept: of the best select gain; smooth (mean around it); one-se, last-se: first, last within an error
    )
    loss: str = "log"
    scale: float = 1.0  # of the softmax of the expected gain or BLEU
    anneal: float = 1.0  # factor of that scale every round
    resample_pairs: int = 0  # draw pairs anew every so many rounds; 0: never, as in the paper
    context: bool = False  # weigh pairs by their difference in corpus BLEU, in the context of the 1-best when they are drawn
    subsample: float = 1.0  # share of the sentences that the structure of each tree is fitted to, drawn anew
    refit_leaves: bool = False  # the leaf values of each tree refitted together on the loss itself
    refit: str = "none"  # weights refitted together: none, linear, ensemble (all trees by one factor), trees or leaves
    refit_every: int = 0  # rounds between refits; 0: the linear weights before the first tree only
    refit_loss: str = "expected-bleu"  # or same: the loss that trees are fitted to
    refit_scale: float = 3.0  # of the softmax of expected BLEU
    refit_l2: float = 10.0  # penalty on the step of a refit, in standard deviations within lists
    length: bool = False  # the weight of the output's length tuned on select at the end
    bags: int = 1  # models of as many seeds, whose mean is the model
    tree_features: tuple[str, ...] = ()  # the features that trees may look at; none named: all
    sparse_trees: bool = True  # whether "all" has the sparse ones, where there are dense ones too
    pairs: PairOptions = field(default_factory=PairOptions)
    tree: TreeOptions = field(default_factory=TreeOptions)

    def __post_init__(self) -> None:
        for name, known in (
            ("level", LEVELS),
            ("loss", LOSSES),
            ("rule", RULES),
            ("refit", ("none", *REFITS)),
            ("refit_loss", ("expected-bleu", "same")),
        ):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        check_gain(self.metric)
        for name in ("rounds", "l2", "patience", "scale", "resample_pairs", "refit_every", "refit_scale", "refit_l2"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name}: expected 0 or more, found {getattr(self, name)}")
        if self.sparse_l2 is not None and not self.sparse_l2 >= 0:
            raise InputError(f"sparse_l2: expected 0 or more, found {self.sparse_l2}")
        for name in ("shrinkage", "subsample"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name}: expected a number above 0 up to 1, found {getattr(self, name)}")
        for name, least in (("bags", 1), ("anneal", 1)):
            if not getattr(self, name) >= least:
                raise InputError(f"{name}: expected {least} or more, found {getattr(self, name)}")

    def penalties(self, n_dense: int, n_sparse: int) -> F64:
        """[D + N] the penalty on each initial weight."""
        return np.repeat([self.l2, self.l2 if self.sparse_l2 is None else self.sparse_l2], [n_dense, n_sparse])

    def made_anew(self, m: int) -> bool:
        """Are the pairs and their weights of round m + 1 made anew, at the scores after round m?"""
        return any(every and m % every == 0 for every in (self.resample_pairs, self._refits))

    @property
    def _refits(self) -> int:
        return self.refit_every if self.refit != "none" else 0

    def refits_after(self, m: int) -> bool:
        return self.refit != "none" and (m == 0 or bool(self._refits and m % self._refits == 0))


class HeldOut:
    """Scores and gain of a list that is not trained on, kept up as trees come."""

    def __init__(self, nbest: NBest, model: Model, metric: str) -> None:
        self.nbest, self.metric, self.scorer = nbest, metric, Scorer(nbest)
        self.space = Space.of(nbest, model.level)
        self.restart(model)

    def restart(self, model: Model) -> None:
        self.scores = scores_of(model, self.nbest, self.space)

    def add(self, tree: Tree) -> None:
        self.scores += tree_scores(tree, self.space)

    def gain(self) -> float:
        return gain_of(self.scorer, self.scores, self.metric)


def gain_of(scorer: Scorer, scores: F64, metric: str) -> float:
    """Metric (0..100) of the best hypotheses under these scores [H]."""
    return scorer.score(best_choice(scorer.nbest, scores), metric).score


class _Task:
    """The lists a run learns from, and what its rounds are fitted to."""

    def __init__(self, dev: NBest, options: BoostOptions, *, seed: int, threads: int) -> None:
        self.dev, self.options, self.seed, self.threads = dev, options, seed, threads
        self.space = Space.of(dev, options.level, threads=threads)
        self.gains = sentence_bleu(dev.stats, alpha=options.pairs.alpha)
        self.strict = options.metric != "bleu"
        self.counts = self.space.counts()
        self._drawn: tuple[int, Pairs] | None = None  # the last pairs and their number

    def training(self, m: int, scores: F64) -> Training:
        """What round m + 1 is fitted to, made at the scores after round m."""
        options = self.options
        pairs = self._pairs(m)
        weight = pair_weights(self.dev, pairs, scores, strict=self.strict) if options.context else None
        scaled = replace(options, scale=options.scale * options.anneal**m)
        return Training.of(self.space, self.dev.hyp_ptr, pairs, self.gains, scaled, weight=weight, stats=self.dev.stats)

    def _pairs(self, m: int) -> Pairs:
        """Those of round m + 1."""
        draw = m // self.options.resample_pairs if self.options.resample_pairs else 0
        if self._drawn is None or self._drawn[0] != draw:
            how = {"seed": self.seed + draw, "threads": self.threads}
            self._drawn = draw, sample_pairs(self.dev.hyp_ptr, self.gains, self.options.pairs, **how)
        return self._drawn[1]

    def first_weights(self) -> dict[str, float]:
        """λ = argmin Ψ + l2/2 |λ|²"""
        penalty = self.options.penalties(len(self.dev.global_names), len(self.dev.sparse_names))
        return fit_linear(self.dev, self._pairs(0), l2=1.0, l2_factors=penalty, threads=self.threads).weights

    def refitted(self, model: Model, m: int, scores: F64) -> Model:
        """The model with its weights refitted together; with the linear ones only, before there are trees."""
        options = self.options
        kind: Any = options.refit if model.trees else "linear"
        return refit_weights(model, self.dev, self._refit_loss(m, scores), kind=kind, l2=options.refit_l2, space=self.space)

    def _refit_loss(self, m: int, scores: F64) -> Loss:
        """Over all hypotheses [H]."""
        options, scale = self.options, self.options.refit_scale
        name = "expected-bleu" if options.refit_loss == "expected-bleu" else options.loss
        pairs, weight = None, None
        if name not in OF_LISTS:
            pairs = self._pairs(m)
            weight = pair_weights(self.dev, pairs, scores, strict=self.strict) if options.context else None
        elif options.refit_loss == "same":
            scale = options.scale * options.anneal**m
        return make_loss(
            name,
            pairs=pairs,
            hyp_ptr=self.dev.hyp_ptr,
            gains=self.gains,
            scale=scale,
            weight=weight,
            stats=self.dev.stats,
            strict=self.strict,
        )

    def grower(self) -> Grower:
        options, space = self.options, self.space
        if options.tree_features:
            space = space.only(options.tree_features)
        elif not options.sparse_trees and space.names:
            space = replace(space, sparse=None, sparse_names=())
        return Grower(
            space.names,
            space.x,
            self.counts,
            options.tree,
            sparse=space.sparse,
            sparse_names=space.sparse_names,
            owners=space.owners(self.dev.hyp_ptr) if options.tree.min_sentences else None,
            threads=self.threads,
            seed=self.seed,
        )

    def sample(self, m: int) -> Bool | None:
        """[H] the hypotheses of the sentences that the tree of round m is fitted to; None: all."""
        if self.options.subsample == 1:
            return None
        drawn = np.random.default_rng([self.seed, m]).random(len(self.dev)) < self.options.subsample
        return np.asarray(drawn[self.dev.sent_of_hyp])

    def step(self, grower: Grower, training: Training, scores: F64, m: int) -> tuple[Grown, float] | None:
        """The tree of round m and its ρ; None where none lowers the loss."""
        options = self.options
        curvature = training.curvature(scores) if options.tree.curvature else None
        grown = grower.grow(training.target(scores, self.sample(m)), curvature=curvature, draw=m)
        if grown is None:
            return None  # no split lowers the squared error
        if options.refit_leaves:
            grown, rho = refit_leaves(training, scores, grown, l2=options.l2), 1.0
        else:
            rho = training.line_search(scores, grown.h, l2=options.l2)
        return (grown, options.shrinkage * rho) if rho and grown.h.any() else None


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
    from .bagging import bagged
    from .length import tuned_length

    options = options or BoostOptions()
    dev, select = learnable(dev), None if select is None else learnable(select)
    if options.bags > 1:
        model = bagged(boost_once, dev, select, options, seed=seed, threads=threads, init=init, so_far=so_far, callback=callback)
    else:
        model = boost_once(dev, select, options, seed=seed, threads=threads, init=init, so_far=so_far, callback=callback)
    return tuned_length(model, select, options.metric) if options.length and select is not None else model


def boost_once(
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
    """One run of the rounds: see boost."""
    config = json.loads(json.dumps({**asdict(options), "seed": seed, "init": init.signature if init else None}))
    task, scorer = _Task(dev, options, seed=seed, threads=threads), Scorer(dev)
    n_init = len(init.trees) if init else 0

    def started() -> Model:
        if so_far is not None:
            check_same(so_far.config, config)
            return so_far
        if init is not None:
            check_level(init, options.level)
            return Model(init.weights, init.trees, options.level)
        return Model(task.first_weights(), (), options.level)

    model = replace(started(), config=config)
    history: list[Mapping[str, Any]] = list(model.history)
    if so_far is None and options.refits_after(0):
        model = task.refitted(model, 0, scores_of(model, dev, task.space))

    # the same sums in the same order as when they were learnt, up to where the pairs in use were drawn, and on from there
    done = len(model.trees) - n_init
    drawn = max((m for m in range(done + 1) if options.made_anew(m)), default=0)
    scores = scores_of(replace(model, trees=model.trees[: n_init + drawn]), dev, task.space)
    training = task.training(drawn, scores)
    for tree in model.trees[n_init + drawn :]:
        scores += tree_scores(tree, task.space)
    held_out = HeldOut(select, model, options.metric) if select is not None else None

    def row_of(m: int, **more: Any) -> dict[str, Any]:
        row = {"round": m, "loss": training.mean_loss(scores), **more, "dev": gain_of(scorer, scores, options.metric)}
        return row if held_out is None else {**row, "select": held_out.gain()}

    def ended(row: dict[str, Any]) -> Model:
        history.append(row)
        now = replace(model, history=tuple(history))
        if callback:
            callback(row, now)
        return now

    if so_far is None:
        weights = all_weights(model) if options.refit_every else {}
        model = ended(row_of(0, effects=linear_effects(dev, model.weights, threads=threads), **weights))
    grower = None
    for m in range(done + 1, options.rounds + 1):
        if held_out and m - 1 - best_round(history) >= max(1, options.patience):
            break
        if m > 1 and (options.made_anew(m - 1) or options.anneal > 1) and m - 1 != drawn:
            training, drawn = task.training(m - 1, scores), m - 1
        grower = grower or task.grower()
        step = task.step(grower, training, scores, m)
        if step is None:
            break
        grown, rho = step
        tree = replace(grown.tree, name=f"tree.{len(model.trees):03d}", weight=rho)
        direction = task.space.sum(grown.h)
        scores += rho * direction
        if held_out:
            held_out.add(tree)
        model = replace(model, trees=(*model.trees, tree))
        fires = np.bincount(grown.leaf_of, task.counts, minlength=len(tree.feature))[tree.leaves]
        effect = float(within_list_sd(dev.hyp_ptr, rho * direction)[0])
        about = {"rho": rho, "tree": tree.name, "fit": grown.gain, "effect": effect, "fires": fires.astype(int).tolist()}
        if options.refit_every:
            about["values"] = leaf_values(tree).tolist()
        if options.refits_after(m):
            model = task.refitted(model, m, scores)
            scores = scores_of(model, dev, task.space)
            if held_out:
                held_out.restart(model)
            about |= all_weights(model)
        del step, grown, direction  # numbers for every unit: not beside those of the next round
        model = ended(row_of(m, **about))
    return kept_rounds(model, n_init, select=select, rule=options.rule)


def check_level(init: Model, level: Level) -> None:
    if init.trees and init.level != level:
        raise InputError(
            f"initial model: expected level {level}, found trees of level {init.level}; start from one of the same level"
        )


def check_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for key in expected:
        if key != "rounds" and found.get(key, inf) != expected[key]:
            raise InputError(
                f"resume: expected the run's own option {key} = {found.get(key)}, found {expected[key]}; give the same options"
            )
