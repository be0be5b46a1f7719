"""Boosting rounds against LightGBM's own tree, linear leaves against constant ones, deduplication, PRO, memory."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command does, before LightGBM is loaded
import lightgbm as lgb
import numpy as np
from harness import REAL, cpu, fi_en, in_process, report
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.boosting.local import Local
from boostfeat.boosting.round_loss import RoundLoss
from boostfeat.core.arrays import scatter_segments
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.losses.pairs import PairOptions, Pairs, pairs_for
from boostfeat.losses.pairwise import PairwiseLogLoss
from boostfeat.model.model import Model
from boostfeat.model.units import UnitSpace
from boostfeat.trees.growing import Grower, TreeOptions
from boostfeat.tuners.linear import linear_problem


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lists = {"generated 2,000 x 500 x 100": generated(Path(folder))}
        if (REAL / "fi-en").is_dir():
            lists = {"fi-en devtrain": fi_en(Path(folder)), **lists}
        for name, path in lists.items():
            print(f"\n{name}")
            bench(read_store(path), path)


def generated(folder: Path) -> Path:
    write_store(synthetic_nbest(SyntheticOptions(sentences=2000, hyps=500, features=100)), folder / "generated.nbest")
    return folder / "generated.nbest"


def bench(nbest: NBest, path: Path) -> None:
    pairs = pairs_for(nbest, PairOptions(), seed=0)
    fit_seconds = cpu(lambda: linear_problem(nbest, pairs).fit(), tries=1)
    report(
        f"PRO, {len(pairs):,} pairs, {len(nbest.global_names)} features",
        f"{fit_seconds:.2f} s",
        "10 s (14 features)",
        fit_seconds < 10,
    )
    scores = Model(linear_problem(nbest, pairs).fit().weights).decision_function(nbest)
    for leaves in (8, 4, 2):
        one_round = rounds(nbest, pairs, scores, leaves)
        constant = cpu(one_round("constant"), tries=7)
        both = cpu(rounds(nbest, pairs, scores, leaves, threads=2)("constant"), tries=7, clock=time.perf_counter)
        theirs = cpu(lightgbm_tree(nbest, pairs, scores, leaves), tries=7)
        report(f"a round of {leaves} constant leaves, CPU of one thread", f"{1000 * constant:.1f} ms", "-")
        report("  two threads, by the clock of an idle machine", f"{1000 * both:.1f} ms", "12 ms (14 features)", both <= 0.012)
        report("  against LightGBM's own tree", f"{constant / theirs:.2f} x", "1.5 x", constant / theirs <= 1.5)
        floor = cpu(lightgbm_part(nbest, pairs, scores, leaves), tries=7)
        report("  of which LightGBM grows the tree: the floor", f"{1000 * floor:.1f} ms", "-")
    linear = cpu(one_round("linear"), tries=3)
    report(
        "a linear-leaf round against a constant one",
        f"{linear / constant:.1f} x",
        "10 x (at 100 features)",
        linear / constant <= 10,
    )
    apart = replace(nbest, units=nbest.units.take(nbest.unit_idx), unit_idx=np.arange(nbest.n_occurrences, dtype=np.int32))
    slow = cpu(rounds(apart, pairs, scores)("constant"), tries=2)
    report("one row per occurrence against distinct units", f"{slow / constant:.1f} x", "5 x", slow / constant >= 5)
    del apart
    code = (
        "from boostfeat.boosting.boost import boost, BoostOptions; from boostfeat.lists.store import read_store\n"
        f"boost(read_store({str(path)!r}), None, BoostOptions(rounds=5))"
    )
    in_process(code)  # fills numba's cache: compilers take memory, too
    found = in_process(code)
    size = os.path.getsize(path) / 1e6
    report(
        "peak memory of induce",
        f"{found['peak']:.0f} MB",
        f"3 x store + 500 = {3 * size + 500:.0f} MB",
        found["peak"] <= 3 * size + 500,
    )


def rounds(nbest: NBest, pairs: Pairs, scores: Any, max_leaves: int = 2, *, threads: int = 1) -> Any:
    """A round of boost(), all of it: gradient, tree, line search, scores, effect, loss and the gain of the dev lists."""

    def of(leaves: Any) -> Any:
        options = BoostOptions(tree=TreeOptions(leaves=leaves, max_leaves=max_leaves))
        engine = Local(nbest, options, seed=0, threads=threads)
        engine.scores, engine.loss = scores.copy(), RoundLoss.of(engine.space, nbest.hyp_ptr, pairs)

        def one() -> None:
            assert engine.grow(1) is not None
            engine.move(engine.line_search(), 1)
            engine.row()

        return one

    return of


def lightgbm_tree(nbest: NBest, pairs: Pairs, scores: Any, max_leaves: int) -> Any:
    """LightGBM alone, with its defaults, on the same matrix: one tree of so many leaves from the same gradient."""
    loss = PairwiseLogLoss(pairs, nbest.n_hyps)
    space = UnitSpace.of(nbest, "local")
    params = {"objective": "none", "num_leaves": max_leaves, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1}
    data = lgb.Dataset(space.table.x, params=params).construct()
    grad, hess = scatter_segments(space.unit_ptr, space.unit_idx, loss.gradient(scores), len(space.table)), space.counts()
    booster = lgb.Booster(params, data)
    return lambda: booster.update(fobj=lambda *_: (grad, hess))


def lightgbm_part(nbest: NBest, pairs: Pairs, scores: Any, max_leaves: int) -> Any:
    """What LightGBM does in a round of ours, on our bins: below it no round can come."""
    space = UnitSpace.of(nbest, "local")
    grower = Grower(space.table, space.counts(), TreeOptions(max_leaves=max_leaves))
    gradient = PairwiseLogLoss(pairs, nbest.n_hyps).gradient(scores)
    grower.grow(-scatter_segments(space.unit_ptr, space.unit_idx, gradient, len(space.table)))
    (booster,) = grower._boosters.values()
    return lambda: booster.update(fobj=lambda *_: (grower._grad, grower._counts))


def logistic_regression(nbest: NBest, pairs: Pairs) -> Any:
    """scikit-learn's fit of the same pairs and penalty. Their standardised differences are made beforehand, in its favour.

    A pair is an example of class 1; every other one is turned round, since it wants two classes: the loss is the same.
    """
    from sklearn.linear_model import LogisticRegression

    diff = nbest.global_features[pairs.better] - nbest.global_features[pairs.worse]
    used = diff != 0
    scale = np.sqrt((diff**2).sum(axis=0) / np.maximum(used.sum(axis=0), 1))
    diff = diff / np.where(scale > 0, scale, 1.0)
    label = np.arange(len(diff)) % 2
    diff[label == 0] *= -1
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-6, max_iter=1000)

    def fit() -> float:
        model.fit(diff, label)
        margin = diff @ model.coef_[0] * (2 * label - 1)
        return float(np.logaddexp(0, -margin).mean())

    return fit


if __name__ == "__main__":
    main()
