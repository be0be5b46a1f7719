"""Boosting on a cluster [TA13 Figure 3]: the driver has the model and adds up sums, workers have the sentences.

All sums are over the fixed blocks of boostfeat.core.blocks, in their order: the model does not depend on the number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..boosting.boost import BoostOptions, Callback, HeldOut, check_level, check_same
from ..boosting.length import tuned_length
from ..boosting.refit import NO_SPREAD
from ..boosting.stopping import all_weights, best_round, kept_rounds
from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..lists.choices import Scorer
from ..lists.nbest import NBest
from ..losses.expected import log_bleu
from ..model.model import Model
from ..tuners.linear import fit_parts
from .block_range import in_order
from .growing import ClusterGrower, Grown
from .worker_data import Shard, Source, search
from .workers import Fleet, WorkerLostError, flat

_CANNOT: dict[str, tuple[Any, ...]] = {  # what is possible of options that are not there on a cluster
    "bags": (1,),
    "refit": ("none", "linear"),
    "refit_leaves": (False,),
    "loss": ("log", "lambda"),
    "refit_loss": ("expected-bleu",),
}


def check_options(options: BoostOptions, nbest: NBest) -> None:
    """Raise for what this engine cannot do, before any work."""
    for name, possible in _CANNOT.items():
        found = getattr(options, name)
        if found not in possible:
            raise InputError(
                f"--engine dask: expected --{name.replace('_', '-')} {' or '.join(map(str, possible))}, found {found}; "
                "use --engine local"
            )
    if options.tree.curvature:
        raise InputError("--engine dask: expected trees without curvature, found --curvature; use --engine local")
    if options.refit_every:
        raise InputError(f"--engine dask: expected --refit-every 0, found {options.refit_every}; use --engine local")
    sparse = set(nbest.sparse_names.to_pylist())
    dense = nbest.global_names if options.level == "global" else nbest.unit_names
    every = options.sparse_trees or not dense  # what trees look at where no features are named
    if sparse & set(options.tree_features) or (sparse and every and not options.tree_features):
        raise InputError(
            "--engine dask: expected trees over dense features only, found a list with sparse ones; "
            "give --no-sparse-trees, or name dense ones with --tree-features"
        )


def boost_on(
    fleet: Fleet,
    source: Source,
    dev: NBest,
    select: NBest | None,
    options: BoostOptions,
    *,
    seed: int = 0,
    init: Model | None = None,
    so_far: Model | None = None,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Model:
    """boostfeat.boosting.boost on a fleet. ``dev`` is the store of the source, of which the driver looks at sizes and names only.

    A worker that is lost is named, and the rest goes on from the last round, after loading the lost one's blocks too.
    """
    check_options(options, dev)
    latest = [so_far] if so_far else []

    def report(row: Mapping[str, Any], model: Model) -> None:
        latest[:] = [model]
        if callback:
            callback(row, model)

    while True:
        try:
            run = _Run(fleet, source, dev, options, seed=seed)
            model = run.rounds(select, init=init, so_far=latest[0] if latest else None, callback=report)
            break
        except WorkerLostError as lost:
            done = f"after round {latest[0].history[-1]['round']}" if latest else "from the start"
            fleet.heal(lost, done, say)
    return tuned_length(model, select, options.metric) if options.length and select is not None else model


class _Run:
    """The shards of a run, and what the driver asks of them."""

    def __init__(self, fleet: Fleet, source: Source, dev: NBest, options: BoostOptions, *, seed: int) -> None:
        self.fleet, self.dev, self.options, self.seed = fleet, dev, options, seed
        self.scorer = Scorer(dev)
        fleet.load(Shard, source, len(dev), options)

    # -- rounds --------------------------------------------------------------------------------------------------------

    def rounds(self, select: NBest | None, *, init: Model | None, so_far: Model | None, callback: Callback) -> Model:
        """As boost_once, with sums where that has arrays."""
        options, each = self.options, self.fleet.each
        config = json.loads(json.dumps({**asdict(options), "seed": self.seed, "init": init.signature if init else None}))
        n_init = len(init.trees) if init else 0
        if so_far is not None:
            check_same(so_far.config, config)
            model = so_far
        elif init is not None:
            check_level(init, options.level)
            model = Model(init.weights, init.trees, options.level)
        else:
            model = Model(self._first_weights(), (), options.level)
        model = replace(model, config=config)
        history: list[Mapping[str, Any]] = list(model.history)
        if so_far is None and options.refits_after(0):
            model = self._refitted(model)
        done = len(model.trees) - n_init
        drawn = max((m for m in range(done + 1) if options.made_anew(m)), default=0)
        self.fleet.later("each", "start", replace(model, trees=model.trees[: n_init + drawn]))
        n_pairs = self._train(drawn)
        for tree in model.trees[n_init + drawn :]:
            self.fleet.later("each", "add", tree)
        held_out = HeldOut(select, model, options.metric) if select is not None else None

        def ended(m: int, rows: list[tuple[list[float], I64]], **more: Any) -> Model:
            losses, chosen = zip(*rows, strict=True)
            gain = self.scorer.score(np.concatenate(chosen), options.metric).score
            row = {"round": m, "loss": in_order(flat(losses)) / max(1, n_pairs), **more, "dev": gain}
            if held_out is not None:
                row["select"] = held_out.gain()
            history.append(row)
            now = replace(model, history=tuple(history))
            callback(row, now)
            return now

        if so_far is None:
            weights = all_weights(model) if options.refit_every else {}
            model = ended(0, each("row"), effects=self._effects(model.weights), **weights)
        grower: ClusterGrower | None = None
        targets: list[Any] | None = None
        for m in range(done + 1, options.rounds + 1):
            if held_out and m - 1 - best_round(history) >= max(1, options.patience):
                break
            if m > 1 and (options.made_anew(m - 1) or options.anneal > 1) and m - 1 != drawn:
                n_pairs, drawn = self._train(m - 1), m - 1
            grower = grower or ClusterGrower(self.fleet, options.tree, options.tree_features, seed=self.seed)
            grown = grower.grow(targets or each(*self._target(m)), draw=m)
            rho = self._line_search(grown) if grown is not None else 0.0
            if grown is None or not rho:
                break
            rho *= options.shrinkage
            tree = replace(grown.tree, name=f"tree.{len(model.trees):03d}", weight=rho)
            if m == options.rounds or options.made_anew(m) or options.anneal > 1:
                moved, targets = each("move", rho), None
            else:  # the next round is known to begin with these scores
                moved, targets = map(flat, self.fleet.together(("each", "move", rho), ("each", *self._target(m + 1))))
            if held_out:
                held_out.add(tree)
            model = replace(model, trees=(*model.trees, tree))
            about = {
                "rho": rho,
                "tree": tree.name,
                "fit": grown.gain,
                "effect": self._sd(in_order(flat([squares for squares, *_ in moved]))),
                "fires": grown.fires.astype(int).tolist(),
            }
            model = ended(m, [row for _, *row in moved], **about)
        return kept_rounds(model, n_init, select=select, rule=options.rule)

    def _target(self, m: int) -> tuple[Any, ...]:
        return "target", self.seed, m, self.options.subsample

    def _sd(self, squares: float) -> float:
        return float(np.sqrt(squares / max(1, self.dev.n_hyps)))

    def _train(self, m: int) -> int:
        """Draw the pairs of round m + 1 and weigh them at the scores after round m. Returns their number."""
        options, each = self.options, self.fleet.each
        number = m // options.resample_pairs if options.resample_pairs else 0
        n_pairs = sum(each("draw", options.pairs, self.seed + number))
        mean = None
        if options.context:
            mean = in_order(each("weigh", sum(each("context")))) / max(1, n_pairs)
        reach = in_order(each("train", options.scale * options.anneal**m, mean))
        self.fleet.later("each", "agree", reach)
        return n_pairs

    def _line_search(self, grown: Grown) -> float:
        """ρ = argmin Ψ(F + ρ h) + l2/2 ρ²"""
        aim, l2 = (grown.tree, grown.splits, grown.on), self.options.l2
        if len(self.fleet.members) == 1:
            return float(self.fleet.shards("line_search", *aim, l2)[0])
        return search(flat(self.fleet.shards("aim", *aim)), lambda rho: self.fleet.each("ray", rho), l2=l2)

    # -- linear weights ------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [*self.dev.global_names, *self.dev.sparse_names.to_pylist()]

    def _first_weights(self) -> dict[str, float]:
        """λ = argmin Ψ + l2/2 |λ|²"""
        each = self.fleet.each
        self.fleet.later("each", "draw", self.options.pairs, self.seed)
        self.fleet.later("each", "prepare_linear")
        n = len(self.dev.global_names)
        penalty = self.options.penalties(n, len(self.dev.sparse_names))
        weights = fit_parts(each, self._names(), n_dense=n, l2=1.0, l2_factors=penalty).weights
        self.fleet.later("each", "forget_linear")
        return weights

    def _effects(self, weights: Mapping[str, float]) -> dict[str, float]:
        used = [name for name in self.dev.global_names if weights.get(name)]
        squares = sum(found for found, _ in self.fleet.each("spreads", used))
        sd = dict(zip(used, map(self._sd, squares), strict=True))
        return {name: abs(weights.get(name, 0.0)) * sd.get(name, 0.0) for name in self.dev.global_names}

    def _refitted(self, model: Model) -> Model:
        """The linear weights refitted on expected BLEU: refit.refit_weights, kind linear."""
        options, each, names = self.options, self.fleet.each, self._names()
        found = each("spreads", list(self.dev.global_names))
        sd = np.sqrt(sum(squares for squares, _ in found) / max(1, self.dev.n_hyps))
        sd[~(sd > NO_SPREAD * np.max([most for _, most in found], axis=0))] = 0.0
        if len(self.dev.sparse_names):
            sd = np.concatenate([sd, np.sqrt(sum(each("sparse_squares")) / max(1, self.dev.n_hyps))])
        moves, n, l2 = sd > 0, max(1, len(self.dev)), options.refit_l2
        if not moves.any():
            return model
        theta = np.array([model.weights.get(name, 0.0) for name in names])
        self.fleet.later("each", "prepare_refit", model, options.refit_scale)

        def at(u: F64) -> F64:
            out = theta.copy()
            out[moves] += u / sd[moves]
            return out

        def objective(u: F64) -> tuple[float, F64]:
            value, slope, _ = log_bleu(sum(each("expect", at(u))))
            gradient: F64 = sum(each("refit_slope", slope))[moves] / sd[moves]
            return (-n * value + l2 / 2 * float(u @ u)) / n, (gradient + l2 * u) / n

        result = minimize(
            objective, np.zeros(int(moves.sum())), jac=True, method="L-BFGS-B", options={"maxiter": 50, "maxfun": 100}
        )
        self.fleet.later("each", "forget_refit")
        known = dict(zip(names, at(result.x).tolist(), strict=True))
        kept = {name: w for name, w in known.items() if w != 0 or name in model.weights or name in self.dev.global_names}
        return replace(model, weights={**model.weights, **kept})
