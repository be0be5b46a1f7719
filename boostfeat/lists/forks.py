"""Work side by side in forks of this process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np

from ..core.errors import InputError
from ..core.files import on_progress

T = TypeVar("T")
U = TypeVar("U")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def are_forked(n: int, processes: int) -> bool:
    """Tell whether so many items are computed in forks: other systems than Linux do all of them in this process."""
    return min(processes, n) > 1 and sys.platform == "linux"


def in_forks(task: Callable[[T], U], items: Sequence[T], processes: int, *, beside: Callable[[], Any] | None = None) -> list[U]:
    """Return results of the task in the order of the items, computed here and in forks, which have all that this process has.

    For work that holds the interpreter's lock. It may not start threads, and what it changes is lost, but for its results.
    ``beside`` is done in this process meanwhile, and what it changes stays.
    """
    if not are_forked(len(items), processes):
        all_here = list(map(task, items))
        if beside:
            beside()
        return all_here
    tickets, ends = os.pipe()
    os.write(ends, np.arange(len(items), dtype=np.uint16).tobytes())  # whoever is free takes the next; 32,768 fit
    os.close(ends)

    def work() -> dict[int, U]:
        results = {}
        while ticket := os.read(tickets, 2):
            k = int.from_bytes(ticket, sys.byteorder)
            results[k] = task(items[k])
        return results

    forks = list[tuple[int, Connection]]()
    try:
        for _ in range(min(processes, len(items)) - (beside is None)):
            forks.append(_fork(work))
        if beside:
            beside()
        results = work()
        for _, pipe in forks:
            results |= _result(pipe)
    finally:
        os.close(tickets)
        for pid, pipe in forks:
            pipe.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # it has answered, or nobody wants to know
            os.waitpid(pid, 0)
    return [results[k] for k in range(len(items))]


def _result(pipe: Connection) -> Any:
    """Read the result of a fork, or raise its error."""
    try:
        answer = pipe.recv()
    except EOFError:
        raise InputError("a worker process ended early; is there enough memory?") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _fork(work: Callable[[], Any]) -> tuple[int, Connection]:
    """Start a process that works; return its id, and a pipe to read the result or the error from."""
    ours, theirs = Pipe(duplex=False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # the fork never hears of them: who started it ends it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, whose locks the work does not use
        pid = os.fork()
    if pid:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid, ours
    with contextlib.suppress(BaseException):
        ours.close()  # else it would wait for ever for a reader that was killed
        on_progress.set(None)  # whoever started it shows its own
        try:
            answer = work()
        except InputError as error:
            answer = InputError(str(error))  # its kinds want more arguments than a pipe keeps
        except Exception as error:
            answer = error
        theirs.send(answer)
    os._exit(0)
