"""Processes: the cores and memory they have, and jobs that run in worker processes; a crash there does not kill the caller."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, NamedTuple, Protocol, TypeVar

from .errors import InputError

T = TypeVar("T")
U = TypeVar("U")
START = "spawn"  # a fork would share, and count, the caller's memory
PATIENCE = 5.0  # seconds that a child gets to tidy up in, when it is told to end


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


def in_forks(task: Callable[[T], U], items: Sequence[T], processes: int) -> list[U]:
    """Return results of the task in the order of the items, computed here and in forks, which have all that this process has.

    For work that holds the interpreter's lock. It may not start threads, and what it changes is lost, but for its results. Other
    systems than Linux do all of it here.
    """
    if min(processes, len(items)) < 2 or sys.platform != "linux":
        return list(map(task, items))
    tickets, ends = os.pipe()
    os.write(ends, bytes(range(len(items))))  # whoever is free takes the next
    os.close(ends)

    def work() -> dict[int, U]:
        results = {}
        while ticket := os.read(tickets, 1):
            results[ticket[0]] = task(items[ticket[0]])
        return results

    forks = list[tuple[int, int]]()
    try:
        for _ in range(min(processes, len(items)) - 1):
            forks.append(_fork(work))
        results = work()
        for _, pipe in forks:
            results |= _result(pipe)
    finally:
        os.close(tickets)
        for pid, pipe in forks:
            os.close(pipe)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # it has answered, or nobody wants to know
            os.waitpid(pid, 0)
    return [results[k] for k in range(len(items))]


def _result(pipe: int) -> Any:
    """Read the result of a fork, or raise its error."""
    try:
        with open(pipe, "rb", closefd=False) as stream:
            answer = pickle.load(stream)
    except (EOFError, pickle.UnpicklingError):
        raise InputError("a process of this one ended early; is there enough memory?") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _fork(work: Callable[[], Any]) -> tuple[int, int]:
    """Start a process that works; return its id, and a pipe to read the result or the error from."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, whose locks the work does not use
        pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    with contextlib.suppress(BaseException):
        try:
            answer = work()
        except Exception as error:
            answer = error
        with open(theirs, "wb") as stream:
            pickle.dump(answer, stream, pickle.HIGHEST_PROTOCOL)
    os._exit(0)


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
    _idle: list[Worker] = field(default_factory=list)
    _busy: dict[Any, tuple[Worker, Job]] = field(default_factory=dict)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker, _ in self._busy.values():
            worker.process.terminate()
        for worker in (*(worker for worker, _ in self._busy.values()), *self._idle):
            worker.close()

    def run(self, jobs: Jobs, *, report: Callable[[str], None]) -> None:
        """All jobs. An InputError there is one here, with the job's name."""
        while True:
            while len(self._busy) < self.size and (job := jobs.take(len(self._busy))):
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
        context: Any = multiprocessing.get_context(START)
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there,), daemon=True)
        self.process.start()
        there.close()  # the worker's end is now its own: when it dies, the pipe ends

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Have function(*args, report=...) called; ``answer`` gives what comes of it."""
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

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
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
