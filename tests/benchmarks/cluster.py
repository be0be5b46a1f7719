"""The Dask engine beside the plain run, end to end by command: 1, 2 and 4 workers, and what goes over the wire in a round.

    python cluster.py [--sentences 8000 --hyps 500 --features 20 --rounds 100 --tries 1 --into examples/sizing.md]

One thread a process; reading the store is part of all. What a cluster costs before any work, measured by itself as a run of no
rounds on a small store less the plain one, is shown beside and not taken off. On a busy machine wall times mean little; CPU
seconds are those of all processes, so they cannot show a speed-up, only what it costs. How many workers help
follows from the seconds of a call of n workers, measured by calls that do nothing: c₀ + c₁ n.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from fits import fit_line
from generate import Sizes, generate
from harness import measured_now, put_block

KINDS = {"plain": 0, "1 worker": 1, "2 workers": 2, "4 workers": 4}
IDLE = 20  # calls that do nothing, to time one


class Traffic(NamedTuple):
    """What an engine sends and gets."""

    calls: float  # a round
    kilobytes: float  # a round, to all workers and back
    before: float  # kilobytes before the first round
    idle: float  # seconds of a call that does nothing
    memory: float  # MB that the largest worker has in the end, beside what it had before it opened its lists


class Cost(NamedTuple):
    wall: float
    cpu: float  # of the driver and all workers
    wire: Traffic | None = None


def induce(store: Path, model: Path, *, rounds: int, workers: int) -> Cost:
    flags = ["--recipe", "paper", "--max-leaves", "2", "--rounds", str(rounds), "--threads", str(max(1, workers)), "-q"]
    flags += ["--set", "rule=all", "--set", "decide=score"]  # one fit, which is spread
    if workers:
        flags += ["--engine", "dask", "--set", f"workers={workers!s}"]
    command = [sys.executable, __file__, "--count", "induce", str(store), "-o", str(model), *flags]
    before, started = _children(), time.perf_counter()
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    wall, wire = time.perf_counter() - started, json.loads(lines[-1])
    _await_orphans()
    cpu = _children() - before
    return Cost(wall - IDLE * wire[3], cpu, Traffic(*wire)) if workers else Cost(wall, cpu)


def _await_orphans() -> None:
    """Wait for what a command has left, the server that forks workers, so that its seconds and theirs count here."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


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
    return {kind: min(costs, key=lambda cost: cost.wall) for kind, costs in found.items()}


# -- what goes over the wire ------------------------------------------------------------------------------------------


def count(words: list[str]) -> None:
    """Run a command here and count what its engine sends; prints Traffic as JSON."""
    from boostfeat.cli import run
    from boostfeat.distributed.block_range import BlockRange
    from boostfeat.distributed.workers import Workers

    total, rounds, idle = [0, 0], [], [0.0]  # calls and bytes so far, and after each round
    call, near, load, close = Workers._run, Workers.near, Workers.load, Workers.close
    resident: list[list[float]] = []  # MB of workers before they open their lists, and in the end

    def looked_at(self: Any) -> None:
        found = self.client.run(_resident_mb, workers=list(self.members))
        resident.append([found[address] for address in self.members])

    def first_looked_at(method: Any) -> Any:
        def asked(self: Any, *arguments: Any, **named: Any) -> Any:
            if not resident:
                looked_at(self)
            return method(self, *arguments, **named)

        return asked

    def closed(self: Any) -> None:
        looked_at(self)
        close(self)

    def counted(self: Any, job: Any, *arguments: Any) -> list[Any]:
        from distributed.protocol.pickle import dumps

        answers = call(self, job, *arguments)
        total[0] += 1
        total[1] += len(dumps((job, arguments))) * len(answers) + len(dumps(answers))
        if len(arguments) == 2 and any(part is BlockRange.move for asked in arguments[1] for part in asked):
            rounds.append(tuple(total))
        if not idle[0]:
            started = time.perf_counter()
            for _ in range(IDLE):
                call(self, _nothing)
            idle[0] = (time.perf_counter() - started) / IDLE
        return answers

    Workers._run, Workers.close = counted, closed  # type: ignore[method-assign]
    Workers.near, Workers.load = map(first_looked_at, (near, load))  # type: ignore[method-assign]
    sys.argv = ["boostfeat", *words]
    assert run() == 0
    n = max(1, len(rounds) - 1)
    first, last = (rounds[0], rounds[-1]) if rounds else ((0, 0), (0, 0))
    calls, sent = ((b - a) / n for a, b in zip(first, last, strict=True))
    grown = max(after - before for before, after in zip(resident[0], resident[-1], strict=True)) if resident else 0.0
    print(json.dumps(Traffic(calls, sent / 1e3, (first[1] - sent) / 1e3, idle[0], grown)))


def _nothing(dask_worker: Any = None) -> None:
    return None


def _resident_mb() -> float:
    """MB of this worker, pages of mapped files included."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def most_workers(round_seconds: float, calls: float, idle: dict[int, float]) -> str:
    """Say how many workers help: a round takes work / n + calls (c₀ + c₁ n), c from calls that do nothing."""
    c0, c1 = (max(0.0, c) for c in fit_line(list(idle), list(idle.values())))
    best = sqrt(round_seconds / (calls * c1)) if c1 and calls else float("inf")
    told = f"A call takes {1e3 * c0:.2f} ms and {1e3 * c1:.2f} ms a worker (fitted to calls that do nothing)"
    return f"{told}: the most workers that help are {best:.0f}."


def report(cost: dict[str, Cost], start: dict[str, Cost], sizes: Any, megabytes: float) -> str:
    """The block of the page: what was measured, and what follows."""
    job = f"{sizes.sentences} x {sizes.hyps} x {sizes.features}, {sizes.rounds} rounds of 2 leaves"
    rows = [f"{measured_now()}{job}, one thread a process, CPU seconds of all processes:", ""]
    rows += ["| | wall | CPU | of plain | calls a round | KB a round | KB before | MB of a worker (its share) |"]
    rows += ["|---|---|---|---|---|---|---|---|"]
    for kind, its in cost.items():
        wire = " | | |"
        if its.wire:
            wire = f"{its.wire.calls:.1f} | {its.wire.kilobytes:.1f} | {its.wire.before:.0f} | "
            wire += f"{its.wire.memory:.0f} ({megabytes / KINDS[kind]:.0f})"
        rows.append(f"| {kind} | {its.wall:.1f} s | {its.cpu:.1f} s | {its.cpu / cost['plain'].cpu:.2f} | {wire} |")
    work = max(0.0, cost["plain"].cpu - start["plain"].cpu) / sizes.rounds
    wires = {KINDS[kind]: its.wire for kind, its in cost.items() if its.wire}
    told = most_workers(work, max(wire.calls for wire in wires.values()), {n: wire.idle for n, wire in wires.items()})
    return "\n".join([*rows, "", told])


def growth(costs: dict[int, dict[str, Cost]]) -> str:
    """Say what two workers cost at several numbers of sentences."""
    each = [f"{n:,}: {its['2 workers'].cpu:.1f} s, {its['2 workers'].cpu / its['plain'].cpu:.2f}" for n, its in costs.items()]
    return f"CPU of two workers by sentences, in seconds and times that of plain: {'; '.join(each)}."


def main() -> None:
    if sys.argv[1:2] == ["--count"]:
        count(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"sentences": 8000, "hyps": 500, "features": 20, "rounds": 100, "tries": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--into", type=Path, help="a page whose block 'cluster' is written anew")
    sizes = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans become ours
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.nbest"), Path(folder, "large.nbest")
        generate(small, Sizes(sentences=150, hyps=20, features=sizes.features), seed=0)
        for workers in (0, 2):  # compiles
            induce(small, Path(folder, "model.json"), rounds=2, workers=workers)
        start = measured(small, Path(folder), rounds=0, tries=1)
        costs = {}
        for part in (4, 2, 1):
            n = sizes.sentences // part
            generate(large, Sizes(sentences=n, hyps=sizes.hyps, features=sizes.features), seed=0)
            print(f"{n} sentences:", flush=True)
            costs[n] = cost = measured(large, Path(folder), rounds=sizes.rounds, tries=sizes.tries)
        megabytes = large.stat().st_size / (1 << 20)
    plain, one, two, four = cost.values()
    for kind, its in start.items():
        before = start["plain"]
        print(f"starting {kind:16} {its.wall - before.wall:.1f} s by wall, {its.cpu - before.cpu:.1f} s by CPU")
    print(f"overhead of one worker    {one.wall / plain.wall:.2f} x by wall, {one.cpu / plain.cpu:.2f} x by CPU")
    print(f"four workers              {four.cpu / one.cpu:.2f} x the CPU of one")
    print(f"two workers               {two.cpu / plain.cpu:.2f} x the CPU of none (1.3 at most is wanted)")
    print(f"speed-up of two over one  {one.wall / two.wall:.2f} x by wall, at {two.cpu / one.cpu:.2f} x the CPU")
    text = f"{report(cost, start, sizes, megabytes)}\n\n{growth(costs)}"
    print(text)
    if sizes.into:
        put_block(sizes.into, "cluster", text)


if __name__ == "__main__":
    main()
