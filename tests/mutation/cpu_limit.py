"""A pytest plugin (-p cpu_limit): a test that takes more than CPU_LIMIT seconds of processor time fails; waiting does not count."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

LIMIT = float(os.environ.get("CPU_LIMIT", "30"))


def late(*_: object) -> None:
    raise TimeoutError(f"{LIMIT:g} s of processor time are up")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
