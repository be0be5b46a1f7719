"""A pytest plugin (-p cpu_limit): a test that takes more than CPU_LIMIT seconds of processor time is skipped; waiting does not count."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

LIMIT = float(os.environ.get("CPU_LIMIT", "30"))


def in_coverage(frame: FrameType | None) -> bool:
    """Whether coverage is at work, which may hold its lock: an exception now would leave it locked for ever."""
    while frame is not None:
        if os.sep + os.path.join("coverage", "collector.py") in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def late(_: int, frame: FrameType | None) -> None:
    if in_coverage(frame):
        signal.setitimer(signal.ITIMER_PROF, 0.01)
        return
    raise pytest.skip.Exception(f"{LIMIT:g} s of processor time are up", _use_item_location=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
