"""Flags of every command, and how commands speak: results, messages, progress, tables."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from numba.core import event
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..core.errors import plain, plain_lines
from ..core.files import on_progress
from ..core.kernels import UNKEPT
from ..core.options import REQUIRED, check, option
from ..core.processes import seconds_since, usable_cores

FILES, LEARNING, COMMON = "Files", "Learning", "Common"  # headings of --help
ALL_CORES = usable_cores()
PATIENCE = 2.0  # seconds after which a command shows that it is at work


def file(help: str, metavar: str = "FILE", default: Any = None, *, group: str = FILES, **declared: Any) -> Any:
    """Return an option that names a file or a folder."""
    return option(default, help, metavar=metavar, group=group, **declared)


def model_file(help: str, default: Any = None, **declared: Any) -> Any:
    """Return the option -m."""
    return file(help, "MODEL", default, short="m", **declared)


def output_file(help: str, metavar: str = "FILE", default: Any = REQUIRED) -> Any:
    """Return the option -o."""
    return file(help, metavar, default, short="o")


@dataclass(frozen=True, kw_only=True)
class Common:
    """Flags that every command has; a command's own flags are a dataclass that inherits from this one."""

    seed: int = option(0, "Seed of all random choices", least=0, group=COMMON)
    threads: int = option(None, "Number of threads; results do not depend on it [all cores]", least=1, group=COMMON)
    quiet: bool = option(False, "Print no progress and no messages", short="q", group=COMMON)
    as_json: bool = option(False, "Print results as JSON on standard output", flag="json", group=COMMON)
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

    def finish(self, what: str, output: str, **result: Any) -> None:
        """Print the results of a command that writes a file, for programs, and what it wrote, for people."""
        self.emit_json({**result, "output": output, "seconds": self.seconds})
        self.say_written(what, output)

    def emit_json(self, result: Any) -> None:
        """Print results for programs, if they are wanted and what is written goes elsewhere; people read the last message."""
        if self.as_json and getattr(self, "output", "") != "-":
            print_result(result, "", as_json=True)

    def say(self, message: str) -> None:
        """Print a message on standard error."""
        if not self.quiet:
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
    if Bar.screen is not None:
        Bar.screen.stop()
    sys.stdout.write((_json_text(result) if as_json else plain_lines(text.rstrip("\n"))) + "\n")


def _json_text(result: Any) -> str:
    """Return JSON with every printable character as it is; others are escaped, also those beyond ASCII that steer terminals."""
    text = json.dumps(result, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class Bar:
    """A row of progress on standard error, shown on a terminal when work takes more than a moment."""

    PATIENCE = 0.5  # seconds of work without one
    screen: Progress | None = None  # rows of the command that runs; none where nothing is to be shown

    def __init__(self, what: str, *, quiet: bool) -> None:
        self.what, self.quiet = what, quiet
        self._row: TaskID | None = None
        self._started = time.monotonic()

    def update(self, done: float, total: float | None, note: str = "") -> None:
        if self.quiet or self.screen is None or time.monotonic() - self._started < self.PATIENCE:
            return
        if self._row is None:
            self._row = self.screen.add_task(plain(self.what), total=None, note="")
            self.screen.start()
        self.screen.update(self._row, completed=done, total=total, note=plain(note))

    def stop(self) -> None:
        if self._row is not None and self.screen is not None:
            self.screen.remove_task(self._row)
            self._row = None


class Compiling(event.Listener):
    """Says when numba first compiles a kernel in this process."""

    teller: int | None = os.getpid()  # the process that says so once: a fork's caller has, or will

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def on_start(self, event: Any) -> None:
        if Compiling.teller == os.getpid():
            Compiling.teller = None
            self.say(f"compiling (each time: {UNKEPT[0]} has no room)" if UNKEPT else "compiling (once)")

    def on_end(self, event: Any) -> None:
        pass


@contextlib.contextmanager
def at_work(what: str, flags: Common, *, on_terminal: bool = False) -> Iterator[None]:
    """Show on a terminal that a command is at work, from PATIENCE seconds on; say so when kernels have to be compiled.

    ``on_terminal``: what the command writes is what the terminal shows.
    """
    with event.install_listener("numba:compile", Compiling(flags.say)):
        if flags.quiet or on_terminal or Bar.screen is not None or not sys.stderr.isatty():
            yield
            return
        what_is_done, note = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
        columns = (what_is_done, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), note)
        Bar.screen = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        Bar.screen.add_task(what, total=None, note="")
        timer = threading.Timer(PATIENCE, Bar.screen.start)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            Bar.screen.stop()
            Bar.screen = None


# ---------------------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------------------


def table(rows: list[list[str]], *, header: list[str] | None = None, right: tuple[int, ...] | None = None) -> str:
    """Aligned columns: to the right those given (default: all but the first), the others to the left."""
    lines = [[plain(cell) for cell in row] for row in ([header, *rows] if header else rows)]
    if not lines:
        return ""
    widths = [max(len(row[c]) for row in lines if c < len(row)) for c in range(max(map(len, lines)))]
    rightmost = range(1, len(widths)) if right is None else right

    def line(row: list[str]) -> str:
        cells = [cell.rjust(w) if c in rightmost else cell.ljust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=False))]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in lines)


def terminal_width() -> int | None:
    """Return the width of the terminal that output goes to; None where it goes elsewhere."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def laid_out(lines: list[list[str]], width: int | None) -> str:
    """Names and what was found, which goes on in further lines, whole words each, where a terminal is not wide enough."""
    names = max(len(name) for name, _ in lines)
    room = max(1, width - names - 4) if width else sys.maxsize
    rows = []
    for name, found in lines:
        parts = wrap(found, room, break_long_words=False, break_on_hyphens=False)
        rows += [[first, "  " + part] for first, part in zip([name, *[""] * len(parts)], parts, strict=False)]
    return table(rows, right=())
