"""Worker processes that do their jobs here: without the seconds that a fresh interpreter takes, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from boostfeat.compare.job_processes import JobProcesses, Jobs

PATCHED = "boostfeat.compare.runner.JobProcesses"
DECODED = "boostfeat.search.loop.decoded_comparison.JobProcesses"


class WorkersHere(JobProcesses):
    """For monkeypatch.setattr(PATCHED, WorkersHere)."""

    functions: ClassVar[list[str]] = []  # of all jobs
    peak_mb: ClassVar[float] = 64.26  # of each

    def run(self, jobs: Jobs, *, report: Callable[[str], None]) -> None:
        while job := jobs.take():
            self.functions.append(job.function.__name__)
            jobs.done(job, job.function(*job.args, report=report), self.peak_mb)
