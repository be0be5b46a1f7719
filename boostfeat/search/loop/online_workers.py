"""Workers that do one job after the other: this process, or one of their own."""

from __future__ import annotations

import multiprocessing
import signal
from typing import Any, Protocol

from ...core.errors import InputError


class Worker(Protocol):
    """Does one job at a time: ``start`` it, later take its ``result``."""

    def start(self, *args: Any) -> None: ...
    def result(self) -> Any: ...
    def close(self) -> None: ...


class Here:
    """A worker that is this process."""

    def __init__(self, job: Any) -> None:
        self.job, self.value = job, None

    def start(self, *args: Any) -> None:
        self.value = self.job(*args)

    def result(self) -> Any:
        return self.value

    def close(self) -> None:
        pass


class There:
    """A worker in a process of its own, which ends with ours, however that ends."""

    def __init__(self, job: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, job), daemon=True)
        self.process.start()
        other.close()

    def start(self, *args: Any) -> None:
        try:
            self.pipe.send(args)
        except BrokenPipeError:
            raise self._gone() from None

    def result(self) -> Any:
        try:
            kind, value = self.pipe.recv()
        except EOFError:
            raise self._gone() from None
        if kind != "done":
            raise InputError(value) if kind == "input error" else RuntimeError(value)
        return value

    def _gone(self) -> InputError:
        self.process.join()
        return InputError(
            f"worker: expected a gradient, found its end (exit code {self.process.exitcode}); is there enough memory?"
        )

    def close(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _serve(pipe: Any, job: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the caller ends us
    while True:
        try:
            args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("done", job(*args)))
        except InputError as error:
            pipe.send(("input error", str(error)))
        except Exception:
            import traceback

            pipe.send(("error", traceback.format_exc()))
