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


def cpu(work: Callable[[], Any], *, tries: int = 3) -> float:
    """CPU seconds of all threads of this process, the best of some tries; the first, untimed, compiles."""
    work()
    best = float("inf")
    for _ in range(tries):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


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
