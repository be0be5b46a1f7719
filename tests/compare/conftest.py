"""Comparisons of these tests work in their own process, where nothing else is said: quicker, and what workers do is seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from workers_here import DECODED, PATCHED, WorkersHere

from boostfeat.compare.job_processes import JobProcesses


@pytest.fixture(autouse=True, scope="module")
def _workers_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in (PATCHED, DECODED):
            patch.setattr(name, WorkersHere)
        yield


@pytest.fixture
def _workers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of their own, as users have them."""
    for name in (PATCHED, DECODED):
        monkeypatch.setattr(name, JobProcesses)
