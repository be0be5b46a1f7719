"""What templates, trees and the decision rule gain by sentences and list length, as folds of ``induce`` say.

    python tests/benchmarks/learning.py LIST.nbest [LIST.nbest ...] [--sentences 500] [--hypotheses 25,50]

The first sentences, and of each the first hypotheses, are learned from. 30 trees are kept wherever they lead:
a number chosen by the folds that score it would hardly show a loss. Each size takes minutes.
"""

from __future__ import annotations

import argparse

from boostfeat import induce, read_store
from boostfeat.boosting.boost_options import recipe
from boostfeat.lists.merging import concat

SENTENCES = (500, 1000, 2000, 3500)
PARTS = ("+ templates", "+ trees", "+ decision")
NOT_TAKEN = {"gain": 0.0, "error": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lists", nargs="+")
    for name, default in (("sentences", SENTENCES), ("hypotheses", (200,))):
        parser.add_argument(f"--{name}", type=lambda text: map(int, text.split(",")), default=default)
    given = parser.parse_args()
    whole, sentences = concat([read_store(path) for path in given.lists]), list(given.sentences)
    print("| sentences | hypotheses |", " | ".join(PARTS), "|")
    for hyps in given.hypotheses:
        for n in sentences:
            model = induce(whole[:n].truncate(hyps), None, recipe(rounds=30, rule="all"))
            steps = {step["stage"]: step for step in model.config["waterfall"]["steps"]}
            gains = ["{gain:+.2f} ± {error:.2f}".format(**steps.get(part, NOT_TAKEN)) for part in PARTS]
            print(f"| {n:,} | {hyps} |", " | ".join(gains), "|", flush=True)


if __name__ == "__main__":
    main()
