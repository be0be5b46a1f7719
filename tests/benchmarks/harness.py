"""Timing in one run, side by side: machines are noisy, ratios less so. Times are CPU seconds, the best of a few tries."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[3] / "shared" / "real"))


Clock = Callable[[], float]


def cpu(work: Callable[[], Any], *, tries: int = 3, clock: Clock = time.process_time) -> float:
    """CPU seconds of all threads of this process (or by a clock), the best of some tries; the first, untimed, compiles."""
    work()
    run = timed(work, clock=clock)
    return min(run() for _ in range(tries))


def timed(work: Callable[[], Any], *, clock: Clock = time.process_time) -> Callable[[], float]:
    """The same work, giving the CPU seconds of all threads of this process (or those of a clock) that it took."""

    def run() -> float:
        started = clock()
        work()
        return clock() - started

    return run


def alternating(*contenders: Callable[[], float], tries: int) -> list[list[float]]:
    """Seconds of each contender, one run of each after the other so often: what slows the machine slows them all."""
    rounds = [[run() for run in contenders] for _ in range(tries)]
    return [list(times) for times in zip(*rounds, strict=True)]


def fi_en(folder: Path, name: str = "devtrain") -> Path:
    """The store of a real list."""
    from boostfeat.formats import read
    from boostfeat.lists.build import ReadOptions, attach
    from boostfeat.lists.store import write_store

    source, refs = ((REAL / "fi-en" / f"{name}.{x}").read_text().splitlines() for x in ("fi", "en"))
    nbest = read(REAL / "fi-en" / f"{name}.200.enriched.xz", ReadOptions(source=source))
    write_store(attach(nbest, source=source, refs=[refs], name=name), folder / f"{name}.nbest")
    return folder / f"{name}.nbest"


def in_process(code: str) -> dict[str, float]:
    """CPU seconds and peak memory (MB) of Python code in a process of its own; what is printed as ``name=value`` is added."""
    # VmHWM, not ru_maxrss, which a child takes over from the process that started it
    tail = """
import re
import resource
usage = resource.getrusage(resource.RUSAGE_SELF)
print(f"cpu={usage.ru_utime + usage.ru_stime}")
print("peak=" + str(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024))
"""
    done = subprocess.run([sys.executable, "-c", code + "\n" + tail], capture_output=True, text=True, check=True)
    return {k: float(v) for k, _, v in (line.partition("=") for line in done.stdout.splitlines()) if k.isidentifier()}


def report(name: str, found: str, goal: str, fine: bool | None = None) -> None:
    mark = "" if fine is None else "  ok" if fine else "  MISSED"
    print(f"{name:<58} {found:>28}   goal: {goal}{mark}", flush=True)


def measured_now() -> str:
    """A line for a page: when, and how busy the machine was with everything, this included."""
    one, _, fifteen = os.getloadavg()
    cores, day = os.cpu_count(), time.strftime("%Y-%m-%d")
    return f"Measured {day} on {cores} cores; load over the last minute {one:.1f}, over the last 15 {fifteen:.1f}.\n\n"


def put_block(path: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->`` in a page; print it where the page has no such place."""
    page = path.read_text(encoding="utf-8")
    first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if first not in page:
        print(text)
        return
    before, rest = page.split(first)
    path.write_text(f"{before}{first}{text.rstrip()}\n{last}{rest.split(last)[1]}", encoding="utf-8")
