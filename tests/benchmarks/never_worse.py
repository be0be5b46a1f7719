"""Default ``induce`` against PRO on random halves of lists, local trees against global ones: learnt on one half, scored on the other.

    python tests/benchmarks/never_worse.py LIST.nbest [LIST.nbest ...] [--halves 10] [--after 0] [--gain bleu]
        [--levels local,global]

A half is made of runs of RUN neighbouring sentences: those of one document stand together, and new text is of other documents.
PRO has the features that the list came with; ``induce`` takes templates by itself. Levels share features, penalties, pairs and
the number of rounds that folds may choose from. Points are of the gain's metric (BLEU-SBP for BLEU), + is better; errors are
standard errors of the difference over sentences.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import recipe
from boostfeat.boosting.selection.penalty import with_penalties
from boostfeat.core.arrays import I64, Array
from boostfeat.features.carried import FeatureMaker
from boostfeat.features.groups import fitting_templates
from boostfeat.lists.choices import Scorer
from boostfeat.lists.learnable import learnable
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.metrics.held_out import HeldOutRows
from boostfeat.metrics.metric import Metric, metric_of
from boostfeat.model.decision import posterior_scale
from boostfeat.model.model import Model
from boostfeat.tuners.linear import fit_pro

RUN = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", nargs="+")
    parser.add_argument("--halves", type=int, default=10)
    parser.add_argument("--after", type=int, default=0, help="go on after so many halves")
    parser.add_argument("--gain", default="bleu")
    parser.add_argument("--levels", default="local,global")
    given = parser.parse_args()
    for path in given.lists:
        nbest = read_store(path)
        print(f"{path}: {len(nbest):,} sentences, gain {given.gain}", flush=True)
        seeds = range(given.after, given.after + given.halves)
        told = [compared(nbest, given.gain, given.levels.split(","), seed) for seed in seeds]
        for what in told[0]:
            points = [row[what] for row in told]
            print(f"  {what}: mean {np.mean(points):+.2f}, worst {min(points):+.2f}, of {len(told)} halves", flush=True)


def halves(n: int, seed: int) -> tuple[I64, I64]:
    """Sentences to learn from and to score, each half of the runs."""
    run = np.arange(n) // RUN
    kept = np.random.default_rng(seed).permutation(run[-1] + 1) < (run[-1] + 1) // 2
    return np.flatnonzero(kept[run]), np.flatnonzero(~kept[run])


def compared(nbest: NBest, gain: str, levels: list[str], seed: int) -> dict[str, float]:
    """Points of the first weights and of each level's model above PRO, and of the first level above the second."""
    started, options = time.process_time(), recipe("default", gain=gain)
    learnt, unseen = (nbest.take(part) for part in halves(len(nbest), seed))
    metric = metric_of(options.metric, unseen)
    rows = {"PRO": _rows(unseen, Model(fit_pro(learnt, gain=gain, seed=seed).weights), metric)}
    if templates := fitting_templates(learnt):
        maker = FeatureMaker()
        learnt, plan = maker.learn(learnt, maker.plan(templates))
        unseen = maker.apply(unseen, plan)
    learnt = learnable(learnt)
    options, _ = with_penalties(learnt, options, seed=seed)
    about = [f"sparse_l2 {options.sparse_l2:g}"]
    for level in levels:
        model = boost(learnt, None, replace(options, level=level), seed=seed)
        rows.setdefault("first weights", _rows(unseen, Model(model.weights), metric))
        rows[f"{level} by score"] = _rows(unseen, replace(model, config={}), metric)
        rows[level] = _rows(unseen, model, metric)
        about.append(f"{level}: {len(model.trees)} trees, {'MBR' if posterior_scale(model.config) else 'score'}")
    names, found = list(rows), HeldOutRows(metric, list(rows.values()))
    apart = [(name, "PRO") for name in names[1:]] + ([(levels[0], levels[1])] if len(levels) > 1 else [])
    told = {f"{a} to {b}": _points(found, names.index(b), names.index(a)) for a, b in apart}
    shown = ", ".join(f"{what} {points:+.2f} ± {error:.2f}" for what, (points, error) in told.items())
    seconds = time.process_time() - started
    print(f"  half {seed}: PRO {100 * found.scores[0]:.2f}, {shown}; {'; '.join(about)}; {seconds:.0f} CPU s", flush=True)
    return {what: points for what, (points, _) in told.items()}


def _points(found: HeldOutRows, base: int, other: int) -> tuple[float, float]:
    return 100 * float(found.gains[other] - found.gains[base]), 100 * found.error(base, other)


def _rows(nbest: NBest, model: Model, metric: Metric) -> Array:
    return Scorer(nbest).rows(model.predict(nbest), metric)


if __name__ == "__main__":
    main()
