"""A pytest plugin (-p save_coverage): coverage is saved when the last test is done, and not when the process ends.

xdist kills a worker that takes over 10 s to end: after tests of Dask, on a busy machine, that was all of the suite's coverage.
"""

from __future__ import annotations

import coverage


def pytest_sessionfinish() -> None:
    if (now := coverage.Coverage.current()) is not None:
        now.stop()
        now.save()
