"""What templates, trees and the decision rule gain by sentences and list length, as folds of ``induce`` say.

    python tests/benchmarks/learning.py LIST.nbest [LIST.nbest ...] [--sentences 500] [--hypotheses 25,50]
    python tests/benchmarks/learning.py TABLE.md [TABLE.md ...] --draw learning.svg

The first sentences, and of each the first hypotheses, are learned from. 30 trees are kept wherever they lead:
a number chosen by the folds that score it would hardly show a loss. Each size takes minutes.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from boostfeat import induce, read_store
from boostfeat.boosting.boost_options import recipe
from boostfeat.lists.merging import concat
from boostfeat.report.plots import STYLE

SENTENCES = (500, 1000, 2000, 3500)
PARTS = ("+ templates", "+ trees", "+ decision")
NOT_TAKEN = {"gain": 0.0, "error": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lists", nargs="+")
    for name, default in (("sentences", SENTENCES), ("hypotheses", (200,))):
        parser.add_argument(f"--{name}", type=lambda text: map(int, text.split(",")), default=default)
    parser.add_argument("--draw", help="a figure of tables that it printed")
    given = parser.parse_args()
    if given.draw:
        draw(given.lists, given.draw)
        return
    whole, sentences = concat([read_store(path) for path in given.lists]), list(given.sentences)
    print("| sentences | hypotheses |", " | ".join(PARTS), "|")
    for hyps in given.hypotheses:
        for n in sentences:
            model = induce(whole[:n].truncate(hyps), None, recipe(rounds=30, rule="all"))
            steps = {step["stage"]: step for step in model.config["waterfall"]["steps"]}
            gains = ["{gain:+.2f} ± {error:.2f}".format(**steps.get(part, NOT_TAKEN)) for part in PARTS]
            print(f"| {n:,} | {hyps} |", " | ".join(gains), "|", flush=True)


def draw(tables: list[str], path: str) -> None:
    """Draw gains with their errors by sentences, a line for each length of lists."""
    lines = [line for table in tables for line in Path(table).read_text().splitlines() if "±" in line]
    numbers = (re.findall(r"[-+.\d]+", line.replace(",", "")) for line in lines)
    rows = np.array(sorted([*map(float, row)] for row in numbers))  # sentences, hypotheses, gain and error of each part
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    for k, axes in enumerate(figure.subplots(1, len(PARTS), sharey=True)):
        for j, hyps in enumerate(np.unique(rows[:, 1])):
            n, _, *gains = rows[rows[:, 1] == hyps].T
            axes.errorbar(n * 1.04**j, gains[2 * k], gains[2 * k + 1], label=f"lists of {hyps:.0f}", fmt=".-", capsize=3)
        axes.axhline(0, color="grey", linewidth=1)
        axes.set(title=PARTS[k], xlabel="sentences", xscale="log")
        axes.set_xticks(SENTENCES, [f"{n:,}" for n in SENTENCES])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("BLEU-SBP")
    figure.axes[1].legend(frameon=False, loc="upper center", ncols=2)
    with rc_context(STYLE):
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
