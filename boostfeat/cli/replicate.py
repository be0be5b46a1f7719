"""The command that runs a paper's experiment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..compare.options import numbered
from ..core.machine import seconds_since
from ..core.text_table import table
from ..features.options import ResourceFiles
from .common import AllowMissing, Store, emit, say
from .compare import compared
from .flags import add


def register(app: typer.Typer) -> None:
    add(app, replicate)


def replicate(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="ta13, e12, g13 or emr13.", show_default=False)],
    store: Store,
    *,
    select: Annotated[str, typer.Option("--select", help="The list that chooses hyper-parameters.", show_default=False)],
    test: Annotated[
        list[str], typer.Option("--test", help="A list that results are reported on; repeatable.", show_default=False)
    ],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FOLDER", help="For results, models, choices and the page.", show_default=False),
    ],
    tune_on: Annotated[
        list[str] | None,
        typer.Option("--tune-on", help="g13: lists of bitext to tune on besides, as in its Tables 4 and 5; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less to try, fewer epochs, one run: a first look.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what others left in the folder; take lists of the same sentences.")
    ] = False,
    allow_missing: AllowMissing = False,
    files: ResourceFiles,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the experiment of a paper on lists of yours: its rows, settings, tables and figures.

    It is a 'compare' whose rows and settings are the paper's; interrupted and started again, it goes on. RUN/paper.md has the
    paper's tables with what it found and what differs here, 'boostfeat report RUN' a page with all curves.

    \b
    Example:
      boostfeat replicate ta13 dev.nbest --select select.nbest \\
        --test test.nbest -o ta13
      boostfeat replicate emr13 dev.nbest --select select.nbest \\
        --test test.nbest --test more.nbest --quick -o emr13
    """
    from ..compare.paper_page import write_page
    from ..compare.papers import bitext_options, paper_of, paper_options
    from ..compare.runner import Folder
    from ..core.errors import InputError

    started = time.monotonic()
    job = paper_of(paper, quick=quick)
    options = paper_options(job, seed=seed)
    if tune_on and not job.bitext:
        raise InputError(f"--tune-on: expected the paper g13 with it, found {paper}; leave it out")
    paths = {"dev": store, "select": select, **numbered("test", test)}
    how: dict[str, Any] = {"files": files, "threads": threads, "force": force, "allow_missing": allow_missing, "quiet": quiet}
    results = compared(paths, output, options, **how)
    more = {}
    for name, path in numbered("bitext", tune_on or ()).items():
        own = f"{output}/{name}"
        more[name] = Folder(Path(own)), compared({**paths, "dev": path}, own, bitext_options(job, options), **how)
    page = write_page(Folder(Path(output)), job, results, more)
    text = "\n\n".join(f"{t['title']}\n{table(t['rows'], header=t['header'])}" for t in page["tables"])
    emit({"output": output, **page}, text, as_json=as_json)
    say(f"{output}/paper.md in {seconds_since(started):.1f} s; 'boostfeat report {output}' draws it", quiet=quiet)
