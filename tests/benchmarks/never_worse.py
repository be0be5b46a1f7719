"""Default ``induce`` against PRO on random halves of lists: learnt on one half, scored on the other.

    python tests/benchmarks/never_worse.py LIST.nbest [LIST.nbest ...] [--halves 10] [--gain bleu] [--level local]

A half is made of runs of RUN neighbouring sentences: those of one document stand together, and new text is of other documents.
PRO has the features that the list came with; ``induce`` takes templates by itself. Points are of the gain's metric (BLEU-SBP
for BLEU), + is better; errors are standard errors of the difference over sentences.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import recipe
from boostfeat.core.arrays import I64, Array
from boostfeat.features.carried import FeatureMaker
from boostfeat.features.groups import templates_that_pay
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.metrics.held_out import HeldOutRows
from boostfeat.metrics.metric import metric_of
from boostfeat.model.model import Model
from boostfeat.tuners.linear import fit_pro

RUN = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", nargs="+")
    parser.add_argument("--halves", type=int, default=10)
    parser.add_argument("--gain", default="bleu")
    parser.add_argument("--level", default="local")
    given = parser.parse_args()
    for path in given.lists:
        nbest = read_store(path)
        print(f"{path}: {len(nbest):,} sentences, gain {given.gain}, {given.level}", flush=True)
        told = [compared(nbest, given.gain, given.level, seed) for seed in range(given.halves)]
        for column, what in ((0, "first weights"), (1, "induce")):
            points = [row[column] for row in told]
            print(f"  {what} to PRO: mean {np.mean(points):+.2f}, worst {min(points):+.2f}, of {len(told)} halves", flush=True)


def halves(n: int, seed: int) -> tuple[I64, I64]:
    """Sentences to learn from and to score, each half of the runs."""
    run = np.arange(n) // RUN
    kept = np.random.default_rng(seed).permutation(run[-1] + 1) < (run[-1] + 1) // 2
    return np.flatnonzero(kept[run]), np.flatnonzero(~kept[run])


def compared(nbest: NBest, gain: str, level: str, seed: int) -> tuple[float, float]:
    """Points of the first weights and of the whole model above PRO."""
    started, options = time.process_time(), recipe("default", gain=gain, level=level)
    learnt, unseen = (nbest.take(part) for part in halves(len(nbest), seed))
    metric = metric_of(options.metric, unseen)
    rows = [_rows(unseen, Model(fit_pro(learnt, gain=gain, seed=seed).weights), metric.name)]
    if templates := templates_that_pay(learnt):
        maker = FeatureMaker()
        learnt, plan = maker.learn(learnt, maker.plan(templates))
        unseen = maker.apply(unseen, plan)
    model = boost(learnt, None, options, seed=seed)
    rows += [_rows(unseen, kept, metric.name) for kept in (model.truncated(0), model)]
    found = HeldOutRows(metric, rows)
    start, whole = (100 * float(found.gains[k] - found.gains[0]) for k in (1, 2))
    print(
        f"  half {seed}: PRO {100 * found.scores[0]:.2f}, first weights {start:+.2f} ± {100 * found.error(0, 1):.2f}, "
        f"induce {whole:+.2f} ± {100 * found.error(0, 2):.2f} with {len(model.trees)} trees, "
        f"sparse_l2 {model.config['sparse_l2']:g}, {time.process_time() - started:.0f} CPU s",
        flush=True,
    )
    return start, whole


def _rows(nbest: NBest, model: Model, metric: str) -> Array:
    return Scorer(nbest).rows(best_choice(nbest, model.decision_function(nbest)), metric)


if __name__ == "__main__":
    main()
