"""Entries of a phrase table augmented a second, gzip in and out, and memory that does not grow with the table."""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

import numpy as np
from harness import in_process, report

GOAL = 100_000  # entries a second
TRIES = 3  # the best counts: machines are noisy

RUN = """
import time
from pathlib import Path
import numpy as np
from boostfeat.export import Context, ExportOptions, export
from boostfeat.model import Model
from boostfeat.trees.tree import Tree
table, out, names, on = {table!r}, {out!r}, {names!r}, {on!r}
rng = np.random.default_rng(0)
side = [np.array(c, np.int32) for c in ([1, -1, -1], [2, -1, -1])]
trees = tuple(
    Tree(f"tree.{{m:03d}}", 10.0, "linear" if on else "constant", on, (names[m % len(names)], "", ""),
         np.array([rng.normal() - 1, 0, 0]), *side, np.array([0.0, *rng.normal(size=2) / 10]))
    for m in range(25)
)
model, context = Model({{"LM0": 1.0}}, trees), Context(None, ExportOptions(phrase_table=table))
times = []
for _ in range(1 + {tries}):  # the first compiles
    cpu, wall = time.process_time(), time.monotonic()
    export(model, "moses", out, context, verify=False)
    times.append((time.process_time() - cpu, time.monotonic() - wall))
own, wall = map(min, zip(*times[1:]))
print(f"own={{own}}")
print(f"wall={{wall}}")
"""
MODELS = {
    "25 constant trees on scores and penalties": (("TranslationModel0_0", "TranslationModel0_2", "WordPenalty0"), None),
    "25 linear trees on scores": (("TranslationModel0_0", "TranslationModel0_2"), "TranslationModel0_3"),
    "25 constant trees on templates too": (("TranslationModel0_0", "len.diff", "count.log", "un.src", "punct.diff"), None),
}


def write_table(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    words = [f"word{k}" for k in range(20_000)]
    with gzip.open(path, "wt", 2) as stream:
        for _ in range(n):
            src, tgt = (" ".join(words[int(k)] for k in rng.integers(0, len(words), size)) for size in rng.integers(1, 5, 2))
            scores = " ".join(f"{p:.6g}" for p in rng.random(4))
            stream.write(f"{src} ||| {tgt} ||| {scores} ||| 0-0 ||| {rng.integers(1, 9)} 9 {rng.integers(1, 5)} ||| |||\n")


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    sizes = (largest // 4, largest)
    with tempfile.TemporaryDirectory() as folder:
        tables = {n: Path(folder) / f"{n}.gz" for n in sizes}
        for n, path in tables.items():
            write_table(path, n)
        for what, (names, on) in MODELS.items():
            found = {
                n: in_process(RUN.format(table=str(path), out=f"{folder}/out", names=names, on=on, tries=TRIES))
                for n, path in tables.items()
            }
            n = largest
            rate = n / found[n]["own"]
            report(what, f"{rate:,.0f} a CPU second, {n / found[n]['wall']:,.0f} a second", f"{GOAL:,}", rate >= GOAL)
            small, large = (found[k]["peak"] for k in sizes)
            report("  peak memory", f"{small:.0f} MB -> {large:.0f} MB", "the same", large < small + 64)


if __name__ == "__main__":
    main()
