"""Workers that do their jobs here: without the seconds that a fresh interpreter takes, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from boostfeat.compare.job_processes import Jobs, Workers

PATCHED = "boostfeat.compare.runner.Workers"
DECODED = "boostfeat.search.loop.decoded_comparison.Workers"


class WorkersHere(Workers):
    """For monkeypatch.setattr(PATCHED, WorkersHere)."""

    functions: ClassVar[list[str]] = []  # of all jobs
    peak_mb: ClassVar[float] = 64.26  # of each

    def run(self, jobs: Jobs, *, report: Callable[[str], None]) -> None:
        while job := jobs.take(0):
            self.functions.append(job.function.__name__)
            jobs.done(job, job.function(*job.args, report=report), self.peak_mb)
