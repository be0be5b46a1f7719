"""Which linear tuner suits my lists?  python examples/which_tuner.py DEV SELECT

Every tuner with its defaults; the epoch of each is the one that is best on SELECT.
"""

from __future__ import annotations

import sys
import time

from boostfeat import read_store
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Run


def main(*paths: str) -> dict[str, float]:
    dev, select = map(read_store, paths)
    found = {}
    for name in TUNERS:
        started = time.monotonic()
        model = tuner_class(name)().fit(dev, select, Run(metric="bleu-sbp"))
        chosen = next(row for row in model.history if row["epoch"] == model.config["epoch"])
        found[name] = chosen["select"]
        print(f"{name:<8} dev {chosen['dev']:6.2f}   select {chosen['select']:6.2f}   {time.monotonic() - started:5.1f} s")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
