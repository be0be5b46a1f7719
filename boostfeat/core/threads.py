"""How many threads there is room for."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores that this process may use: more threads do not help, and far more bring libraries down."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
