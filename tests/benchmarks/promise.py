"""What held-out folds promise, and what unseen sentences give: default ``induce`` beside PRO and the list's first choice.

    python tests/benchmarks/promise.py LIST.nbest [LIST.nbest ...] [--gain bleu] [--seed 0] [--promise]

Every third run of 50 neighbouring sentences is held out: those of one document stand together, and new text is of other documents.
PRO has the features that the list came with; ``induce`` takes templates by itself. Errors are standard errors of differences over
sentences, + is better. With ``--promise`` the held-out sentences are not scored. A pool of systems (``import --system``) is also
compared with the system that is best on the sentences to learn from.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.core.arrays import Array
from boostfeat.features.feature_maker import FeatureMaker
from boostfeat.lists.choices import Scorer, decoder_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.metrics.metric import Metric, metric_of
from boostfeat.metrics.significance import HeldOutRows
from boostfeat.model.model import Model
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro

RUN = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", nargs="+")
    parser.add_argument("--gain", default="bleu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--promise", action="store_true", help="do not score the held-out sentences")
    given = parser.parse_args()
    for path in given.lists:
        nbest = read_store(path)
        print(f"{path}: {len(nbest):,} sentences, gain {given.gain}", flush=True)
        kept = (np.arange(len(nbest)) // RUN) % 3 != 2
        compare(
            nbest.take(np.flatnonzero(kept)), nbest.take(np.flatnonzero(~kept)), given.gain, given.seed, truth=not given.promise
        )


def compare(learnt: NBest, unseen: NBest, gain: str, seed: int, *, truth: bool) -> None:
    """Print what folds say of each part of the model, then what it is worth on unseen sentences."""
    started, options = time.process_time(), recipe("default", gain=gain)
    model, metric = induce(learnt, None, options, seed=seed), metric_of(options.metric, learnt)
    chosen = model.config.get("templates", {}).get("chosen", "none")
    print(f"  templates {chosen}, {len(model.trees)} trees, {time.process_time() - started:.0f} CPU s")
    for step in model.config["waterfall"]["steps"]:
        print(f"  by folds: {step['stage']:16} {step['score']:6.2f}  {step['gain']:+.2f} ± {step['error']:.2f}")
    if not truth:
        return
    ours, pro = (
        rows(unseen, model, metric),
        rows(unseen, Model(Pro().fit(learnt, None, Run(gain=gain, seed=seed)).weights), metric),
    )
    others = {"first choice": Scorer(unseen).rows(decoder_choice(unseen), metric), "PRO": pro}
    if systems := [name for name in learnt.extra_names if name.startswith("sys:")]:
        best = max(systems, key=lambda name: Scorer(learnt).gain(Model({name: 1.0}).predict(learnt), options.metric))
        others[best] = rows(unseen, Model({best: 1.0}), metric)
    for name, theirs in others.items():
        held_out = HeldOutRows(metric, [theirs, ours])
        gains, error, scores = held_out.gains, held_out.error(0, 1), held_out.scores
        print(f"  unseen: {name} {scores[0]:.2f}, ours {scores[1]:.2f}: {gains[1] - gains[0]:+.2f} ± {error:.2f}", flush=True)


def rows(nbest: NBest, model: Model, metric: Metric) -> Array:
    """Return the statistics [S, n] of what a model picks from raw lists."""
    return Scorer(nbest).rows(model.predict(FeatureMaker().for_model(nbest, model)), metric)


if __name__ == "__main__":
    main()
