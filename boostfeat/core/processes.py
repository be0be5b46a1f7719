"""Jobs in processes of their own: what they die of does not take the caller along, and all cores have work."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, NamedTuple, Protocol

from .errors import InputError

START = "spawn"  # a fork would share, and count, the caller's memory
PATIENCE = 5.0  # seconds that a child gets to tidy up in, when it is told to end


class Job(NamedTuple):
    """A call for another process: function(*args, report=...)."""

    key: str
    name: str  # of what it is for: it stands in front of its errors
    function: Callable[..., Any]
    args: tuple[Any, ...]


class Jobs(Protocol):
    """Where workers get their jobs from, and bring results to."""

    def take(self, running: int) -> Job | None:
        """The next job, while so many run; None: there is none now, but may be when one that runs is done."""

    def done(self, job: Job, result: Any, peak_mb: float) -> None: ...


@dataclass
class Workers:
    """Up to ``size`` processes that take one job after another: what modules keep, such as open lists, is there for the next.

    They start when there is work for them, and end with the block they are used in.
    """

    size: int
    _idle: list[tuple[Any, Any]] = field(default_factory=list)
    _busy: dict[Any, tuple[Any, Job]] = field(default_factory=dict)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for process, _ in self._busy.values():
            process.terminate()
        for pipe, (process, _) in self._busy.items():
            _end(pipe, process)
        for pipe, _ in self._idle:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for pipe, process in self._idle:
            _end(pipe, process)

    def run(self, jobs: Jobs, *, report: Callable[[str], None]) -> None:
        """All jobs. An InputError there is one here, with the job's name."""
        while True:
            while len(self._busy) < self.size and (job := jobs.take(len(self._busy))):
                pipe, process = self._idle.pop() if self._idle else self._started()
                self._busy[pipe] = process, job
                pipe.send((job.function, job.args))
            if not self._busy:
                return
            for pipe in wait(list(self._busy)):
                process, job = self._busy[pipe]
                answer = _answer_of(pipe, process, job.name, report)
                if answer is not None:
                    del self._busy[pipe]
                    self._idle.append((pipe, process))
                    jobs.done(job, *answer)

    def _started(self) -> tuple[Any, Any]:
        context: Any = multiprocessing.get_context(START)
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()  # the worker's end is now its own: when it dies, the pipe ends
        return here, process


def _answer_of(pipe: Any, process: Any, name: str, report: Callable[[str], None]) -> tuple[Any, float] | None:
    """(result, peak memory) if that is what a process sends; a report is passed on, an error raised."""
    try:
        kind, value = pipe.recv()
    except EOFError:
        process.join()
        raise InputError(f"{name}: ended {_end_text(process.exitcode)}") from None
    if kind == "report":
        report(value)
        return None
    if kind == "input error":
        raise InputError(f"{name}: {value}")
    if kind == "error":
        raise RuntimeError(value)
    result: tuple[Any, float] = value
    return result


def _end_text(code: int) -> str:
    return f"by signal {-code}; is there enough memory?" if code < 0 else f"early, with exit code {code}; start it again"


def _end(pipe: Any, child: Any) -> None:
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
        child.join()
    child.close()
    pipe.close()


def _serve(pipe: Any) -> None:
    """Do what comes, until nobody sends any more."""
    _mind_signals()
    while True:
        try:
            call = pipe.recv()
        except EOFError:
            return
        if call is None:
            return
        _forget_peak()
        _answer(pipe, *call)


def _mind_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the caller ends us
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # unwinds, so that temporary files go
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _answer(there: Any, job: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = job(*args, report=lambda note: there.send(("report", note)))
        there.send(("done", (result, peak_mb())))
    except BrokenPipeError:  # the caller is gone: so is the work
        pass
    except InputError as error:
        there.send(("input error", str(error)))
    except Exception:
        import traceback

        there.send(("error", traceback.format_exc()))


def _end_with_parent() -> None:
    """A caller that was killed could not end us."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _forget_peak() -> None:
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
