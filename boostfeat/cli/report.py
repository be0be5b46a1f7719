"""The command that makes the page of a comparison."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from ..features.options import ResourceFiles
from .carried import feature_maker
from .common import emit, say_written
from .flags import add


def register(app: typer.Typer) -> None:
    add(app, report)


def report(
    run: Annotated[str, typer.Argument(metavar="RUN/", help="The folder that compare or loop wrote.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="The page to write.")] = "report.html",
    test: Annotated[str | None, typer.Option("--test", help="Where the test list is now, if it was moved.")] = None,
    *,
    files: ResourceFiles,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a comparison or a loop as one HTML page that works offline: results, curves, trees, features, sentences.

    \b
    Example:
      boostfeat report run/ -o report.html
    """
    from ..report import write_report

    started = time.monotonic()
    with feature_maker(files, quiet=quiet) as maker, comparison_of(run) as folder:
        size = write_report(folder, output, test=test, maker=maker)
    if as_json:
        emit({"output": output, "bytes": size}, "", as_json=True)
    say_written(f"a page of {size / 1e6:.1f} MB for any browser", output, started, quiet=quiet)


@contextlib.contextmanager
def comparison_of(run: str) -> Iterator[str]:
    """The folder itself, or a comparison of what a loop decoded, which is gone afterwards."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from ..core.strict_json import read_json

    config = read_json(Path(run) / "config.json") if Path(run).is_dir() else None
    if not str((config or {}).get("boostfeat", "")).startswith("loop/"):
        yield run
        return
    from ..search.loop.decoded_comparison import loop_comparison

    with TemporaryDirectory() as made:
        loop_comparison(run, made)
        yield made
