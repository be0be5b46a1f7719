"""Jobs that run in worker processes; a crash there does not kill the caller."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, NamedTuple, Protocol

from ..core import processes
from ..core.errors import InputError
from ..core.processes import forget_peak, peak_mb

STOPS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 5.0  # seconds that a child gets to tidy up in, when it is told to end


class Job(NamedTuple):
    """A call for another process: function(*args, report=...)."""

    key: str
    name: str  # of what it is for: it stands in front of its errors
    function: Callable[..., Any]
    args: tuple[Any, ...]


class Jobs(Protocol):
    """The source of workers' jobs, which takes their results."""

    def take(self) -> Job | None:
        """The next job; None: there is none now, but may be when one that runs is done."""

    def done(self, job: Job, result: Any, peak_mb: float) -> None: ...


@dataclass
class JobProcesses:
    """Up to ``size`` processes that take one job after another: what modules keep, such as open lists, is there for the next.

    They start when there is work for them, and end with the block they are used in.
    """

    size: int
    _idle: list[Worker] = field(default_factory=list)
    _busy: dict[Any, tuple[Worker, Job]] = field(default_factory=dict)

    def __enter__(self) -> JobProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        busy = [worker for worker, _ in self._busy.values()]
        for worker in busy:
            worker.process.terminate()
        for worker in (*busy, *self._idle):
            worker.end()
        for worker in (*busy, *self._idle):
            worker.close()

    def run(self, jobs: Jobs, *, report: Callable[[str], None]) -> None:
        """All jobs. An InputError there is one here, with the job's name."""
        while True:
            while len(self._busy) < self.size and (job := jobs.take()):
                worker = self._idle.pop() if self._idle else Worker()
                self._busy[worker.pipe] = worker, job
                worker.start(job.function, *job.args)
            if not self._busy:
                return
            for pipe in wait(list(self._busy)):
                worker, job = self._busy[pipe]
                answer = worker.answer(job.name, report)
                if answer is not None:
                    del self._busy[pipe]
                    self._idle.append(worker)
                    jobs.done(job, *answer)


class Worker:
    """A process that makes one call after another, and ends with this one, however that ends."""

    def __init__(self) -> None:
        context: Any = multiprocessing.get_context(processes.START)
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there,), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until the process has its own handlers
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forks have none of our threads: they show progress, no more
                self.process.start()
        finally:  # a process that cannot start must leave Ctrl-C to the caller
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        there.close()  # the worker's end is now its own: when it dies, the pipe ends

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Ask for function(*args, report=...); ``answer`` returns its result."""
        with contextlib.suppress(BrokenPipeError):  # it is gone: the answer says so
            self.pipe.send((function, args))

    def answer(self, name: str, report: Callable[[str], None] = lambda note: None) -> tuple[Any, float] | None:
        """(result, peak memory) if that is what the process sends; a report is passed on, an error raised."""
        try:
            kind, value = self.pipe.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            how = f"by signal {-code}; is there enough memory?" if code < 0 else f"early, with exit code {code}; start it again"
            raise InputError(f"{name}: ended {how}") from None
        if kind == "report":
            report(value)
            return None
        if kind == "input error":
            raise InputError(f"{name}: {value}")
        if kind == "error":
            raise RuntimeError(value)
        result: tuple[Any, float] = value
        return result

    def end(self) -> None:
        """Ask the process to end, which takes a moment where it holds much."""
        with contextlib.suppress(OSError):
            self.pipe.send(None)

    def close(self) -> None:
        self.process.join(PATIENCE)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.process.close()
        self.pipe.close()


def _serve(pipe: Any) -> None:
    """Do what comes, until nobody sends any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the caller ends us
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # unwinds, so that temporary files go
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError):
        while (call := pipe.recv()) is not None:
            forget_peak()
            _answer(pipe, *call)


def _answer(there: Any, job: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = job(*args, report=lambda note: there.send(("report", note)))
        there.send(("done", (result, peak_mb())))
    except BrokenPipeError:  # the caller is gone: so is the work
        pass
    except InputError as error:
        there.send(("input error", str(error)))
    except Exception:
        there.send(("error", traceback.format_exc()))


def _end_with_parent() -> None:
    """A caller that was killed could not end us."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
