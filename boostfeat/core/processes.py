"""This process: the cores it may use, its time and its memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import time

# How worker processes start. A fork is ready at once, but hangs where threads of this process hold locks or LightGBM has used
# some, and its memory counts that of this process: only our command line knows that it has done nothing yet
START = "spawn"


def usable_cores() -> int:
    """Return how many cores this process may use: more threads do not help, and far more bring libraries down."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seconds_since(began: float) -> float:
    """Return the seconds from ``began``, a time of time.monotonic, until now, to the millisecond."""
    return round(time.monotonic() - began, 3)


def give_back() -> None:
    """Ask the C library (glibc alone can be asked) to return what was freed in pieces: as much as the list after templates."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def forget_peak() -> None:
    """Let ``peak_mb`` begin anew, where the system can."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as stream:
        stream.write("5")


def peak_mb() -> float:
    """The most memory this process has had resident, in MB (2^20 bytes)."""
    try:
        # not ru_maxrss where there is better: Linux lets it start from the parent's
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
