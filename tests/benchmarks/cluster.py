"""The Dask engine beside the plain run, end to end by command: overhead of one worker, speed-up of two.

    python cluster.py [--sentences 8000 --hyps 500 --features 20 --rounds 100 --tries 1]

One thread a process; reading the store is part of all. What a cluster costs before any work, measured by itself as a run of no
rounds on a small store less the plain one, is shown beside and not taken off. On a busy machine wall times mean little; CPU
seconds are those of all processes, so they cannot show a speed-up, only what it costs.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from generate import Sizes, generate

KINDS = {"plain": 0, "1 worker": 1, "2 workers": 2}


class Cost(NamedTuple):
    wall: float
    cpu: float  # of the driver and all workers


def induce(store: Path, model: Path, *, rounds: int, workers: int) -> Cost:
    flags = ["--recipe", "paper", "--max-leaves", "2", "--rounds", str(rounds), "--threads", str(max(1, workers)), "-q"]
    if workers:
        flags += ["--engine", "dask", "--scheduler", "local", "--workers", str(workers)]
    command = [sys.executable, "-m", "boostfeat", "induce", str(store), "-o", str(model), *flags]
    before, started = _children(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Cost(time.perf_counter() - started, _children() - before)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(store: Path, folder: Path, *, rounds: int, tries: int) -> dict[str, Cost]:
    """The best of some tries of each, in turn; the models are the same, byte by byte."""
    found: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    for _ in range(tries):
        models = set()
        for kind, workers in KINDS.items():
            found[kind].append(induce(store, folder / "model.json", rounds=rounds, workers=workers))
            models.add((folder / "model.json").read_bytes())
            print(f"{kind:10} {found[kind][-1].wall:7.1f} s wall  {found[kind][-1].cpu:7.1f} s CPU", flush=True)
        assert len(models) == 1
    return {kind: Cost(*map(min, zip(*costs, strict=True))) for kind, costs in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"sentences": 8000, "hyps": 500, "features": 20, "rounds": 100, "tries": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.nbest"), Path(folder, "large.nbest")
        generate(small, Sizes(sentences=150, hyps=20, features=sizes.features), seed=0)
        generate(large, Sizes(sentences=sizes.sentences, hyps=sizes.hyps, features=sizes.features), seed=0)
        measured(small, Path(folder), rounds=2, tries=1)  # compiles
        start = measured(small, Path(folder), rounds=0, tries=1)
        cost = measured(large, Path(folder), rounds=sizes.rounds, tries=sizes.tries)
    plain, one, two = cost.values()
    for kind, its in start.items():
        extra = Cost(*(a - b for a, b in zip(its, start["plain"], strict=True)))
        print(f"starting {kind:16} {extra.wall:.1f} s by wall, {extra.cpu:.1f} s by CPU")
    print(f"overhead of one worker    {one.wall / plain.wall:.2f} x by wall, {one.cpu / plain.cpu:.2f} x by CPU")
    print(f"speed-up of two over one  {one.wall / two.wall:.2f} x by wall, at {two.cpu / one.cpu:.2f} x the CPU")


if __name__ == "__main__":
    main()
