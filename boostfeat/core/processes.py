"""A job in a process of its own: its memory is its own, and what it dies of does not take the caller along."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

from .errors import InputError

START = "spawn"  # a fork would share, and count, the caller's memory
PATIENCE = 5.0  # seconds that a child gets to tidy up in, when it is told to end


def in_child(job: Callable[..., Any], *args: Any, report: Callable[[str], None]) -> tuple[Any, float]:
    """(result, peak memory in MB) of ``job(*args, report=...)`` in a fresh interpreter; its reports come to ours."""
    return in_children(job, [args], report=report)[0]


def in_children(
    job: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, report: Callable[[str], None], at_once: int = 1
) -> list[tuple[Any, float]]:
    """The same for several calls, so many at once.

    An InputError there is one here. When this is left by an exception (Ctrl-C), the children end too.
    """
    context: Any = multiprocessing.get_context(START)
    todo = list(enumerate(calls))[::-1]
    running: dict[Any, tuple[int, Any]] = {}
    results: dict[int, tuple[Any, float]] = {}
    try:
        while todo or running:
            while todo and len(running) < at_once:
                k, args = todo.pop()
                here, there = context.Pipe(duplex=False)
                child = context.Process(target=_work, args=(there, job, args), daemon=True)
                child.start()
                there.close()  # the child's end is now its own: when it dies, the pipe ends
                running[here] = k, child
            ready: list[Any] = wait(list(running))
            for pipe in ready:
                k, child = running[pipe]
                try:
                    kind, value = pipe.recv()
                except EOFError:
                    child.join()
                    what = job.__name__.strip("_")
                    raise InputError(f"{what}: ended {_end_text(child.exitcode)}") from None
                if kind == "report":
                    report(value)
                elif kind == "input error":
                    raise InputError(value)
                elif kind == "error":
                    raise RuntimeError(value)
                else:
                    results[k] = value
                    del running[pipe]
                    _end(pipe, child)
    finally:
        for _, child in running.values():
            child.terminate()
        for pipe, (_, child) in running.items():
            _end(pipe, child)
    return [results[k] for k in range(len(calls))]


def _end_text(code: int) -> str:
    return f"by signal {-code}; is there enough memory?" if code < 0 else f"early, with exit code {code}; start it again"


def _end(pipe: Any, child: Any) -> None:
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
        child.join()
    child.close()
    pipe.close()


def _work(there: Any, job: Callable[..., Any], args: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the caller ends us
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # unwinds, so that temporary files go
    threading.Thread(target=_end_with_parent, daemon=True).start()
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


def peak_mb() -> float:
    """The most memory this process has had resident, in MB (2^20 bytes)."""
    try:
        # not ru_maxrss where there is better: Linux lets it start from the parent's
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
