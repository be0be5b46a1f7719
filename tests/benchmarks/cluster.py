"""The Dask engine beside the plain run, end to end by command: 1, 2 and 4 workers, and what goes over the wire in a round.

    python cluster.py [--sentences 8000 --hyps 500 --features 20 --rounds 100 --tries 1 --into examples/sizing.md]

One thread a process; reading the store is part of all. What a cluster costs before any work, measured by itself as a run of no
rounds on a small store less the plain one, is shown beside and not taken off. On a busy machine wall times mean little; CPU
seconds are those of all processes, so they cannot show a speed-up, only what it costs. Where the curve would end on more workers
follows from the seconds of a call of n workers, measured by calls that do nothing: c₀ + c₁ n.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from generate import Sizes, generate
from harness import put_block

KINDS = {"plain": 0, "1 worker": 1, "2 workers": 2, "4 workers": 4}
ROUNDS = (2, 12)  # of the runs whose difference is what a round sends
MANY = (1, 4, 16, 64)  # workers that the paper curve is of


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


# -- what goes over the wire ------------------------------------------------------------------------------------------


def traffic(store: Path, model: Path, *, workers: int) -> dict[str, float]:
    """Calls and bytes of a round (to all workers and back), bytes before the first, and the seconds of a call that does nothing."""
    lines = []
    for rounds in ROUNDS:
        command = [sys.executable, __file__, "--count", str(store), str(model), str(rounds), str(workers)]
        lines.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))
    few, many = lines
    n = ROUNDS[1] - ROUNDS[0]
    per_round = {name: (many[name] - few[name]) / n for name in ("calls", "sent", "received")}
    return {**per_round, "before": few["sent"] + few["received"] - ROUNDS[0] * (per_round["sent"] + per_round["received"]),
            "idle": many["idle"]}  # fmt: skip


def count(store: str, model: str, rounds: str, workers: str) -> None:
    """Run induce here and count; prints JSON."""
    from distributed.protocol.pickle import dumps

    from boostfeat.cli import run
    from boostfeat.distributed.workers import Workers

    found = {"calls": 0.0, "sent": 0.0, "received": 0.0, "idle": 0.0}
    call = Workers._run

    def counted(self: Any, job: Any, *arguments: Any) -> list[Any]:
        answers = call(self, job, *arguments)
        found["calls"] += 1
        found["sent"] += len(dumps((job, arguments))) * len(answers)
        found["received"] += len(dumps(answers))
        if not found["idle"]:
            started = time.perf_counter()
            for _ in range(20):
                call(self, _nothing)
            found["idle"] = (time.perf_counter() - started) / 20
        return answers

    Workers._run = counted  # type: ignore[method-assign]
    flags = ["--recipe", "paper", "--max-leaves", "2", "--rounds", rounds, "--threads", workers, "-q"]
    sys.argv = [
        "boostfeat",
        "induce",
        store,
        "-o",
        model,
        *flags,
        "--engine",
        "dask",
        "--scheduler",
        "local",
        "--workers",
        workers,
    ]
    assert run() == 0
    print(json.dumps(found))


def _nothing(dask_worker: Any = None) -> None:
    return None


def paper_curve(round_seconds: float, calls: float, idle: dict[int, float]) -> str:
    """A table of rounds a second on more workers: work / n + calls (c₀ + c₁ n), c from calls that do nothing."""
    sizes = sorted(idle)
    c1 = max(0.0, (idle[sizes[-1]] - idle[sizes[0]]) / (sizes[-1] - sizes[0]))
    c0 = max(0.0, idle[sizes[0]] - c1 * sizes[0])
    rows = ["| workers | work of a round | calls of a round | times as fast as one |", "|---|---|---|---|"]
    one = round_seconds + calls * (c0 + c1)
    for n in MANY:
        work, talk = round_seconds / n, calls * (c0 + c1 * n)
        rows.append(f"| {n} | {1e3 * work:.1f} ms | {1e3 * talk:.1f} ms | {one / (work + talk):.1f} |")
    best = sqrt(round_seconds / (calls * c1)) if c1 and calls else float("inf")
    return "\n".join(
        [*rows, "", f"A call takes {1e3 * c0:.2f} ms and {1e3 * c1:.2f} ms a worker; the most workers that help are {best:.0f}."]
    )


def main() -> None:
    if sys.argv[1:2] == ["--count"]:
        count(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"sentences": 8000, "hyps": 500, "features": 20, "rounds": 100, "tries": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--into", type=Path, help="a page whose block 'cluster' is written anew")
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.nbest"), Path(folder, "large.nbest")
        generate(small, Sizes(sentences=150, hyps=20, features=sizes.features), seed=0)
        generate(large, Sizes(sentences=sizes.sentences, hyps=sizes.hyps, features=sizes.features), seed=0)
        measured(small, Path(folder), rounds=2, tries=1)  # compiles
        start = measured(small, Path(folder), rounds=0, tries=1)
        cost = measured(large, Path(folder), rounds=sizes.rounds, tries=sizes.tries)
        wire = {n: traffic(large, Path(folder, "model.json"), workers=n) for n in KINDS.values() if n}
    plain, one, two, four = cost.values()
    for kind, its in start.items():
        extra = Cost(*(a - b for a, b in zip(its, start["plain"], strict=True)))
        print(f"starting {kind:16} {extra.wall:.1f} s by wall, {extra.cpu:.1f} s by CPU")
    print(f"overhead of one worker    {one.wall / plain.wall:.2f} x by wall, {one.cpu / plain.cpu:.2f} x by CPU")
    print(f"four workers              {four.cpu / one.cpu:.2f} x the CPU of one")
    print(f"speed-up of two over one  {one.wall / two.wall:.2f} x by wall, at {two.cpu / one.cpu:.2f} x the CPU")
    job = f"{sizes.sentences} x {sizes.hyps} x {sizes.features}, {sizes.rounds} rounds of 2 leaves"
    rows = [f"{job}, one thread a process, CPU seconds of all processes:", ""]
    rows += ["| | wall | CPU | calls a round | KB a round, all workers | KB before the first |", "|---|---|---|---|---|---|"]
    for kind, n in KINDS.items():
        w = wire.get(n, {})
        sent = f"{w['calls']:.1f} | {(w['sent'] + w['received']) / 1e3:.1f} | {w['before'] / 1e3:.0f}" if w else " | | "
        rows.append(f"| {kind} | {cost[kind].wall:.1f} s | {cost[kind].cpu:.1f} s | {sent} |")
    work = max(0.0, plain.cpu - start["plain"].cpu) / sizes.rounds
    text = "\n".join(
        [*rows, "", paper_curve(work, max(w["calls"] for w in wire.values()), {n: w["idle"] for n, w in wire.items()})]
    )
    print(text)
    if sizes.into:
        put_block(sizes.into, "cluster", text)


if __name__ == "__main__":
    main()
