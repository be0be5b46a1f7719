"""The command that compares systems."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.text_table import table
from .common import ALL_CORES, AsJson, Quiet, Seed, Threads, emit, progress, say
from .lists import Store

if TYPE_CHECKING:
    from collections.abc import Sequence


def register(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    store: Store,
    select: Annotated[str, typer.Option("--select", help="The list that chooses hyper-parameters.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="A folder for results, models and choices.", show_default=False)],
    test: Annotated[
        str | None, typer.Option("--test", help="The list that results are reported on; an ablation can do without.")
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(
            "--systems",
            help="Of decoder, base-MERT, base-PRO, kbmira, mbr, boost-global, boost-local, boost-local:paper (default: all). "
            "Names like large/pro, large+neighbours/boost-local or large/boost-local:linear (features/method[:leaves or recipe]) "
            "go with these; given alone, they are added to all.",
        ),
    ] = None,
    ablation: Annotated[
        bool,
        typer.Option(
            "--ablation",
            help="Rows of the default recipe with one ingredient changed at a time, and of the paper's. Without --test they are "
            "reported on select; p-values are against boost-local.",
        ),
    ] = False,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Repeat with other seeds: mean, sd and the stratified test.")] = 1,
    search: Annotated[str, typer.Option("--search", help="Of hyper-parameters: grid, halving or none.")] = "grid",
    gain: Annotated[str, typer.Option("--gain", help="What is learnt: bleu, chrf, ter, wer, ..., a quality column.")] = "bleu",
    metric: Annotated[
        str, typer.Option("--metric", help="What they are chosen and tested by (default: bleu-sbp, or what is learnt).")
    ] = "",
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Others to report, by commas (default: chrf,ter and quality columns).")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=0, help="Trees of boosting, at most (default: as the recipe says).")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Of the significance tests.")] = 10_000,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="The system that p-values are against (default: base-PRO).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what other lists or options left in the folder.")] = False,
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train systems on LIST, choose on --select, report on --test: a table with significance.

    Interrupted and started again, it goes on from the systems that are finished.

    \b
    Example:
      boostfeat compare dev.nbest --select select.nbest --test test.nbest -o run
      boostfeat compare dev.nbest --select select.nbest --test test.nbest --systems large/pro --runs 3 -o run3
      boostfeat compare dev.nbest --select select.nbest --ablation --runs 3 -o ablation
    """
    from ..compare.runner import CompareOptions
    from ..compare.runner import compare as run_comparison
    from ..compare.table import table_rows
    from ..core.errors import InputError

    if test is None and not ablation:
        raise InputError("--test: expected a list to report on, found none; give one, or --ablation to look at select only")
    against = baseline or ("boost-local" if ablation else CompareOptions.baseline)
    options = CompareOptions(systems, runs, search, metric, rounds, trials, against, seed, ablation, gain, metrics)
    paths = {"dev": store, "select": select, **({} if test is None else {"test": test})}
    with progress("comparing", quiet=quiet) as bar:
        steps = 0

        def report(note: str) -> None:
            nonlocal steps
            steps += 1
            bar.update(steps, None, note)
            if not sys.stderr.isatty():
                say(note, quiet=quiet)

        def warn(line: str) -> None:
            say(f"warning: {line}", quiet=quiet)

        try:
            results = run_comparison(paths, output, options, threads=threads, force=force, report=report, warn=warn)
        except KeyboardInterrupt as error:
            error.args = (f"{output} keeps the finished systems; the same command goes on from there",)
            raise
    if as_json:
        emit({"output": output, "systems": results}, "", as_json=True)
    elif sys.stdout.isatty():
        _print_rich(*table_rows(results))
    else:
        header, rows = table_rows(results)
        emit(None, table(rows, header=header), as_json=False)
    say(f"results, models and choices -> {output}", quiet=quiet)


def _print_rich(header: list[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for k, name in enumerate(header):
        drawn.add_column(name, justify="right" if k else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))  # not markup: a name may have brackets
    Console().print(drawn)
