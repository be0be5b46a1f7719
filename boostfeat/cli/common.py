"""What every command shares: options, messages, progress, and errors as one line."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import plain, plain_lines
from ..core.machine import seconds_since, usable_cores

if TYPE_CHECKING:
    from ..lists.nbest import NBest
    from ..model.model import Model

_LAST = {"rich_help_panel": "Common", "show_default": False}
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of all random choices [0]", **_LAST)]
Threads = Annotated[
    int,
    typer.Option("--threads", min=1, metavar="N", help="At most all cores, the default; results do not depend on it.", **_LAST),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress, no messages.", **_LAST)]
AsJson = Annotated[bool, typer.Option("--json", help="Results for programs, on standard output.", **_LAST)]

FILES, LEARNING = "Files", "Learning"  # headings of --help
Store = Annotated[str, typer.Argument(metavar="LIST.nbest", help="A list imported with 'boostfeat import'.", show_default=False)]
ModelFile = Annotated[
    str | None, typer.Option("-m", "--model", metavar="MODEL", help="A model file; without it, the decoder's own score.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="An option by name, rare ones too: see --help-all.", rich_help_panel=LEARNING
    ),
]

AllowMissing = Annotated[
    bool,
    typer.Option(
        "--allow-missing", help="Features that another list or the model has count as 0.", rich_help_panel=FILES, hidden=True
    ),
]

AllowEdited = Annotated[
    bool,
    typer.Option(
        "--allow-edited",
        help="Read a model although its signature is not that of its content.",
        rich_help_panel=FILES,
        hidden=True,
    ),
]

Force = Annotated[
    bool,
    typer.Option("--force", help="Replace a file of another kind.", rich_help_panel=FILES, hidden=True),
]

Qualities = Annotated[
    list[str] | None,
    typer.Option(
        "--quality",
        metavar="NAME=FILE",
        help="Or NAME=FILE:COLUMN: how good each hypothesis is, a number each or numerator and denominator, for --gain and "
        "--metric; no feature; repeatable.",
    ),
]
LowerIsBetter = Annotated[
    list[str] | None, typer.Option("--lower-is-better", help="A quality column that is better when lower; repeatable.")
]

ALL_CORES = usable_cores()
PATIENCE = 2.0  # seconds after which a command shows that it is at work


def emit(result: Any, text: str, *, as_json: bool) -> None:
    """Results go to standard output: text for people, or one JSON object."""
    _Ticker.hide()
    sys.stdout.write((_json_text(result) if as_json else plain_lines(text.rstrip("\n"))) + "\n")


def _json_text(result: Any) -> str:
    """JSON with every printable character as it is; others are escaped, also those beyond ASCII that steer terminals."""
    text = json.dumps(result, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def say(message: str, *, quiet: bool) -> None:
    """Messages go to standard error."""
    if not quiet:
        _Ticker.hide()
        sys.stderr.write(plain(f"boostfeat: {message}") + "\n")


def say_written(what: str, output: str, started: float, *, quiet: bool) -> None:
    """The last line of a command: what it wrote, and how long it took since ``started`` (by time.monotonic)."""
    if output != "-":
        say(f"{what} -> {output} in {seconds_since(started):.1f} s", quiet=quiet)


def check_lists(lists: Mapping[str, NBest | None], *, allow_missing: bool, quiet: bool) -> None:
    """Raise where lists that are used together do not go together; say what else differs, and what sentences they share."""
    from ..lists.agreement import check_agreement, shared_sentences

    given = {name: nbest for name, nbest in lists.items() if nbest is not None}
    for line in (*check_agreement(given, allow_missing=allow_missing), *shared_sentences(given)):
        say(f"warning: {line}", quiet=quiet)


def say_scores_alone(model: Model, what: str, *, quiet: bool) -> None:
    """Say so where more than scores decides in a model, and scores are all that ``what`` has."""
    from ..model.decision import ways_to_decide

    if ways := ways_to_decide(model.config):
        say(f"warning: {ways} in this model: {what} has its scores, and not that choice", quiet=quiet)


FEATURIZE = "featurize it as the list that the model learnt from (--vocab)"


@contextlib.contextmanager
def edited_models() -> Iterator[None]:
    """Inside the block, models whose signature is not that of their content are read."""
    from ..model.model import accept_edited

    token = accept_edited.set(True)
    try:
        yield
    finally:
        accept_edited.reset(token)


def check_model(model: Model, nbest: NBest, path: str, *, made: Set[str] = frozenset(), allow_missing: bool, quiet: bool) -> None:
    """Raise where a list lacks features that the model needs; say so where they are sparse, or a person wants it.

    ``made`` are those that are computed where it lacks them.
    """
    from ..lists.agreement import lacking

    missing = model.missing_features(nbest, made)
    wrong = lacking(missing, nbest, seen=made)
    check_missing(os.path.basename(path), missing, wrong, allow_missing=allow_missing, quiet=quiet)


def check_missing(
    who: str, missing: Sequence[str], wrong: Sequence[str], *, fix: str = "", allow_missing: bool, quiet: bool
) -> None:
    """Raise where a list or graph lacks features that it should have; else say what it lacks."""
    from ..core.errors import InputError
    from ..lists.agreement import shown

    if wrong and not allow_missing:
        raise InputError(
            f"{who}: expected the features of the model, found none of {shown(wrong)}; {fix or FEATURIZE}, or give "
            "--allow-missing: they count as 0 then"
        )
    if missing:
        say(f"{who} lacks features of the model, which count as 0: {shown(missing)}", quiet=quiet)


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
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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
    """What shows that a command is at work where it has nothing else to show: its name and the time, from PATIENCE seconds on.

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
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

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
def at_work(what: str, *, quiet: bool) -> Iterator[None]:
    """Show on a terminal that a command is at work, from PATIENCE seconds on; say so when kernels have to be compiled."""
    from ..core.kernels import when_compiling

    with when_compiling(lambda: say("compiling (once)", quiet=quiet)), _ticking(what, quiet=quiet):
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


@contextlib.contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Bar]:
    bar = Bar(what, quiet=quiet)
    try:
        yield bar
    finally:
        bar.stop()


@contextlib.contextmanager
def reading(what: str, *, quiet: bool) -> Iterator[None]:
    """Progress of the files that are read inside the block."""
    from ..core.files import on_progress

    with progress(what, quiet=quiet) as bar:

        def report(name: str, n_bytes: int, size: int) -> None:
            bar.update(n_bytes, None, f"{os.path.basename(name)}: {n_bytes / 1e6:,.0f} MB of text")

        token = on_progress.set(report)
        try:
            yield
        finally:
            on_progress.reset(token)
