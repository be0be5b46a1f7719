"""Does boost-local beat boost-global, and do both beat PRO, on my lists?  python examples/local_or_global.py DEV SELECT TEST

The lists are stores made by 'boostfeat import'. Rounds are chosen on SELECT; TEST is scored once for each system.
"""

from __future__ import annotations

import sys

from boostfeat import BoostReranker, read_store
from boostfeat.lists.choices import Scorer


def main(*paths: str) -> dict[str, dict[str, float]]:
    dev, select, test = map(read_store, paths)
    scorer = Scorer(test)
    systems = {
        "PRO": BoostReranker("paper", rounds=0),
        "boost-global": BoostReranker("fast", level="global"),
        "boost-local": BoostReranker("fast", level="local"),
    }
    results = {}
    for name, system in systems.items():
        chosen = system.fit(dev, select=select).model_.predict(test)
        results[name] = {metric: scorer.score(chosen, metric).score for metric in ("bleu", "bleu-sbp")}
        print(
            f"{name:<14} {system.n_trees_:>3} trees   BLEU {results[name]['bleu']:.2f}   BLEU-SBP {results[name]['bleu-sbp']:.2f}"
        )
    return results


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
