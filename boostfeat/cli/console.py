"""Flags of every command, and how commands speak: results, messages, progress."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..core.errors import plain, plain_lines
from ..core.files import on_progress
from ..core.kernels import when_compiling
from ..core.options import check, option
from ..core.processes import seconds_since, usable_cores

FILES, LEARNING, COMMON = "Files", "Learning", "Common"  # headings of --help
ALL_CORES = usable_cores()
PATIENCE = 2.0  # seconds after which a command shows that it is at work


@dataclass(frozen=True, kw_only=True)
class Common:
    """Flags that every command has; a command's own flags are a dataclass that inherits from this one."""

    seed: int = option(0, "Seed of all random choices", least=0, group=COMMON)
    threads: int = option(None, "Threads; results do not depend on it [all cores]", least=1, group=COMMON)
    quiet: bool = option(False, "No progress, no messages", short="q", group=COMMON)
    as_json: bool = option(False, "Results for programs, on standard output", flag="json", group=COMMON)
    settings: tuple[str, ...] = ()  # NAME=VALUE of --set that are options of the method
    started: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "threads", min(self.threads or ALL_CORES, ALL_CORES))  # far more would crash the system's

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return seconds_since(self.started)

    def emit(self, result: Any, text: str = "") -> None:
        """Print results on standard output: text for people, or one JSON object."""
        print_result(result, text, as_json=self.as_json)

    def emit_json(self, result: Any) -> None:
        """Print results for programs, if they are wanted; people read the last message instead."""
        if self.as_json:
            print_result(result, "", as_json=True)

    def say(self, message: str) -> None:
        """Print a message on standard error."""
        if not self.quiet:
            _Ticker.hide()
            sys.stderr.write(plain(f"boostfeat: {message}") + "\n")

    def warn(self, message: str) -> None:
        """Print a warning on standard error."""
        self.say(f"warning: {message}")

    def say_written(self, what: str, output: str) -> None:
        """Print the last line of a command: what it wrote, and how long it took."""
        if output != "-":
            self.say(f"{what} -> {output} in {self.seconds:.1f} s")

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Bar]:
        """Show a progress bar while the block runs."""
        bar = Bar(what, quiet=self.quiet)
        try:
            yield bar
        finally:
            bar.stop()

    @contextlib.contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Show how much of the files is read inside the block."""
        with self.progress(what) as bar:

            def report(name: str, n_bytes: int, size: int) -> None:
                bar.update(n_bytes, None, f"{os.path.basename(name)}: {n_bytes / 1e6:,.0f} MB of text")

            token = on_progress.set(report)
            try:
                yield
            finally:
                on_progress.reset(token)


def print_result(result: Any, text: str, *, as_json: bool) -> None:
    """Print text, or a result as one line of JSON."""
    _Ticker.hide()
    sys.stdout.write((_json_text(result) if as_json else plain_lines(text.rstrip("\n"))) + "\n")


def _json_text(result: Any) -> str:
    """Return JSON with every printable character as it is; others are escaped, also those beyond ASCII that steer terminals."""
    text = json.dumps(result, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class Bar:
    """A progress bar on standard error, shown on a terminal when work takes more than a moment."""

    PATIENCE = 0.5  # seconds of work without one
    shown = 0  # of all bars, those that can be seen

    def __init__(self, what: str, *, quiet: bool) -> None:
        self.what, self.quiet = what, quiet
        self._progress: Any = None
        self._task: Any = None
        self._started = time.monotonic()

    def update(self, done: float, total: float | None, note: str = "") -> None:
        if self.quiet or not sys.stderr.isatty() or time.monotonic() - self._started < self.PATIENCE:
            return
        if self._progress is None:
            _Ticker.hide()
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),  # a file may be called [bold]
            )
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self.what, total=total, note=plain(note))
            self._progress.start()
            Bar.shown += 1
        self._progress.update(self._task, completed=done, total=total, note=plain(note))

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            Bar.shown -= 1
            _Ticker.hide()


class _Ticker:
    """Sign that a command is at work where it has nothing else to show: its name and the time, from PATIENCE seconds on.

    Whatever is written, or has a bar of its own, hides it; it comes again after as long.
    """

    now: _Ticker | None = None  # of the command that runs

    def __init__(self, what: str) -> None:
        self.what, self._lock = what, threading.RLock()
        self._progress: Any = None
        self._began = time.monotonic()
        self._timer = self._wait()

    def _wait(self) -> threading.Timer:
        timer = threading.Timer(PATIENCE, self._show)
        timer.daemon = True
        timer.start()
        return timer

    def _show(self) -> None:
        with self._lock:
            if _Ticker.now is self and not Bar.shown and self._progress is None:
                columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
                self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
                self._progress.add_task(self.what, total=None)
                self._progress.tasks[0].start_time = self._began
                self._progress.start()

    @classmethod
    def hide(cls) -> None:
        if cls.now is not None:
            cls.now._hide(again=True)

    def _hide(self, *, again: bool) -> None:
        with self._lock:
            self._timer.cancel()
            if self._progress is not None:
                self._progress.stop()
                self._progress = None
            if again:
                self._timer = self._wait()


def hide_ticker() -> None:
    """Make room for what shows progress in its own way."""
    _Ticker.hide()


@contextlib.contextmanager
def at_work(what: str, flags: Common, *, on_terminal: bool = False) -> Iterator[None]:
    """Show on a terminal that a command is at work, from PATIENCE seconds on; say so when kernels have to be compiled.

    ``on_terminal``: what the command writes is what the terminal shows.
    """
    with when_compiling(lambda: flags.say("compiling (once)")), _ticking(what, quiet=flags.quiet or on_terminal):
        yield


@contextlib.contextmanager
def _ticking(what: str, *, quiet: bool) -> Iterator[None]:
    if quiet or _Ticker.now is not None or not sys.stderr.isatty():
        yield
        return
    _Ticker.now = ticker = _Ticker(what)
    try:
        yield
    finally:
        _Ticker.now = None
        ticker._hide(again=False)
