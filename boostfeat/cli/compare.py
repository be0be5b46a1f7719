"""The command that compares systems."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..compare.options import CompareOptions, DecodedFiles, numbered
from ..core.errors import plain
from ..core.machine import seconds_since
from ..core.options import comma_list
from ..core.text_table import table
from ..features.options import ResourceFiles
from .common import AllowMissing, Bar, Store, emit, hide_ticker, say
from .flags import Given, add

if TYPE_CHECKING:
    from rich.live import Live

    from ..compare.table import Results


def register(app: typer.Typer) -> None:
    add(app, compare)


def compare(
    store: Store,
    *,
    select: Annotated[str, typer.Option("--select", help="The list that chooses hyper-parameters.", show_default=False)],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="For results, models and choices.", show_default=False)
    ],
    test: Annotated[
        list[str] | None,
        typer.Option("--test", help="The list that results are reported on; repeatable; an ablation can do without."),
    ] = None,
    given: Annotated[Mapping[str, Any], Given(CompareOptions)],
    decode: Annotated[
        str | None,
        typer.Option(
            "--decode", metavar="INI", help="Each system decodes for itself, in a loop: LIST, --select and --test are sentences."
        ),
    ] = None,
    texts: DecodedFiles,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace what others left in the folder; take lists of the same sentences."),
    ] = False,
    allow_missing: AllowMissing = False,
    files: ResourceFiles,
    wide: Annotated[bool, typer.Option("--wide", help="All columns of the table, however wide the terminal is.")] = False,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train systems on LIST, choose on --select, report on --test: a table with significance.

    Interrupted and started again, it goes on from what is finished; what a run in a folder beside it has fitted is taken over.

    \b
    Example:
      boostfeat compare dev.nbest --select select.nbest --test test.nbest -o run
      boostfeat compare dev.nbest --select select.nbest --test test.nbest \\
        --systems large/pro --runs 3 -o run3
      boostfeat compare dev.nbest --select select.nbest --test test.nbest \\
        --systems base-MERT:paper,base/mira:lu-mc -o e12
      boostfeat compare dev.nbest --select select.nbest --ablation --runs 3 \\
        -o ablation
      boostfeat compare dev.fi --ref dev.en --select s.fi --select-ref s.en \\
        --test t.fi --test-ref t.en --decode moses.ini -o out
    """
    from ..core.errors import InputError

    started = time.monotonic()
    how: dict[str, Any]
    ablation = {"baseline": "boost-local"} if given.get("ablation") else {}
    options = CompareOptions(**{**ablation, **given, "seed": seed})
    if decode is not None:
        how = {"output": output, "options": options, "files": files, "threads": threads, "force": force, "quiet": quiet}
        results = decoded_comparison(store, select, test or [], decode, texts, **how)
        show_results(results, output, started, wide=wide, quiet=quiet, as_json=as_json)
        return
    if texts != DecodedFiles():
        raise InputError("--ref, --select-ref, --test-ref, --decoder: expected --decode INI with them, found none; give it")
    if not test and not options.ablation:
        raise InputError("--test: expected a list to report on, found none; give one, or --ablation to look at select only")
    paths = {"dev": store, "select": select, **numbered("test", test or ())}
    how = {"files": files, "threads": threads, "force": force, "allow_missing": allow_missing, "quiet": quiet}
    results = compared(paths, output, options, **how)
    show_results(results, output, started, wide=wide, quiet=quiet, as_json=as_json)


def show_results(results: Results, output: str, started: float, *, wide: bool, quiet: bool, as_json: bool) -> None:
    """Print the table, as wide as the terminal is."""
    from ..compare.table import fitting, same_rows, table_rows

    if as_json:
        emit({"output": output, "systems": results}, "", as_json=True)
    else:
        width = 10**6 if wide else get_terminal_size().columns
        header, rows, left_out = fitting(*table_rows(results), width=width)
        emit(None, table(rows, header=header), as_json=False)
        for name, other in same_rows(results):
            say(f"{name} and {other} are one run", quiet=quiet)
        if left_out:
            say(f"the columns {', '.join(left_out)} do not fit here: --wide shows them, {output}/table.md has them", quiet=quiet)
    say(f"results, models and choices -> {output} in {seconds_since(started):.1f} s", quiet=quiet)


def compared(
    paths: Mapping[str, str],
    output: str,
    options: CompareOptions,
    *,
    files: ResourceFiles,
    threads: int,
    force: bool,
    allow_missing: bool,
    quiet: bool,
) -> Results:
    """The results of a comparison that says how far it is."""
    from ..compare.runner import compare as run_comparison

    with Board(quiet=quiet) as board:
        try:
            how: dict[str, Any] = {"threads": threads, "force": force, "allow_missing": allow_missing, "files": files}
            return run_comparison(paths, output, options, **how, report=board.report, warn=board.warn, watch=board.watch)
        except KeyboardInterrupt as error:
            error.args = (f"{output} keeps what is finished; the same command goes on from there",)
            raise


def decoded_comparison(
    source: str,
    select: str,
    tests: Sequence[str],
    ini: str,
    texts: DecodedFiles,
    *,
    output: str,
    options: CompareOptions,
    files: ResourceFiles,
    threads: int,
    force: bool,
    quiet: bool,
) -> Results:
    """Loops of all systems with the decoder of the ini, or with a command, and the comparison of what they decode."""
    from ..features.carried import FeatureMaker
    from ..search.loop.decoded_comparison import Decoding, compare_decoded
    from ..search.loop.decoders import CommandDecoder, Decoder
    from ..search.loop.loop_options import LoopOptions
    from .loop import reference_decoder, start_weights, text_sets

    ref, select_ref, test_ref = map(_files, (texts.ref, texts.select_ref, texts.test_ref))
    corpora, test_sets = text_sets(source, ref, select, select_ref, tests, test_ref)
    used: Decoder
    if texts.decoder is not None:
        used, maker = CommandDecoder(texts.decoder, texts.nbest, ini=ini), FeatureMaker(files, seed=options.seed)
    else:
        used = reference_decoder(ini, texts.nbest, [*corpora, *test_sets], files, seed=options.seed)
        maker = used.maker
    limits = LoopOptions(max_iterations=texts.max_iterations, gain=options.gain, metric=options.metric, seed=options.seed)
    start = start_weights(ini, reference=texts.decoder is None)
    decoding = Decoding(tuple(corpora), tuple(test_sets), used, start, limits, maker)
    command = [
        source,
        "--select",
        select,
        *(part for path in tests for part in ("--test", path)),
        "--decode",
        ini,
        *texts.flags(),
    ]
    with Board(quiet=quiet) as board:
        try:
            how: dict[str, Any] = {"command": command, "threads": threads, "force": force}
            return compare_decoded(decoding, output, options, **how, report=board.report, watch=board.watch)
        except KeyboardInterrupt as error:
            error.args = (f"{output} keeps what is finished; the same command goes on from there",)
            raise


def _files(given: Sequence[str] | None) -> list[str]:
    """Files that were given one by one, or by commas."""
    return [path for text in given or () for path in ([text] if os.path.exists(text) else comma_list(text))]


class Board:
    """How far a comparison is: on a terminal a table that follows it, elsewhere a line for each system that is trained."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self._rows = quiet, dict[str, list[str]]()
        self._live: Live | None = None
        self._shown = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
            Bar.shown -= 1

    def report(self, note: str) -> None:
        name, colon, text = note.partition(": ")
        if self._shown and colon and name in self._rows:
            self._rows[name][1] = text
        elif self._shown:
            self._rows.setdefault("", ["", ""])[1] = note
        else:
            say(note, quiet=self.quiet)
        self._draw()

    def warn(self, line: str) -> None:
        say(f"warning: {line}", quiet=self.quiet)

    def watch(self, name: str, done: int, total: int, result: object) -> None:
        self._rows.setdefault(name, ["", ""])[0] = f"{done} of {total}" if total else ""
        self._draw()

    def _draw(self) -> None:
        if not self._shown:
            return
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text

        drawn = Table("system", "done", "", box=None, pad_edge=False)
        for name in sorted(self._rows, key=lambda name: name == ""):
            drawn.add_row(*(Text(plain(text)) for text in (name, *self._rows[name])))  # no markup: names may have brackets
        if self._live is None:
            hide_ticker()
            self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=4)
            Bar.shown += 1  # what else shows that a command is at work stays away
            self._live.start()
        self._live.update(drawn)
