"""Work side by side in forks of this process."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..core.errors import InputError

T = TypeVar("T")
U = TypeVar("U")


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
