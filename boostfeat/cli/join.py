"""boostfeat join: other models' scores as columns of a list."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.machine import seconds_since
from .common import LowerIsBetter, Qualities, Store, emit, reading, say
from .flags import add

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..lists.nbest import NBest


def register(app: typer.Typer) -> None:
    add(app, join)


def join(
    store: Store,
    output: Annotated[str, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=FILE",
            help="Or NAME=FILE:COLUMN: a number a hypothesis, in order; text, TSV with a header, JSON.",
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            "--tokens", metavar="NAME=FILE", help="Numbers of tokens, a line a hypothesis; JSON lines with tokens and logprobs."
        ),
    ] = None,
    nbest: Annotated[
        list[str] | None,
        typer.Option(
            "--nbest", metavar="NAME=LIST", help="Another list of the same texts, whose scores and features get the NAME."
        ),
    ] = None,
    quality: Qualities = None,
    lower: LowerIsBetter = None,
    *,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Put other models' scores beside those of a list, as features of hypotheses or of their words, or as their quality.

    Options may be repeated. Tokens in other pieces than the list's words are matched by their characters.

    \b
    Example:
      boostfeat join dev.nbest --column lm=dev.lm.txt \\
        --nbest r2l=dev.r2l.marian -o dev.lm.nbest
      boostfeat join dev.nbest --quality comet=dev.comet.json -o dev.comet.nbest
    """
    from ..core.errors import InputError
    from ..core.files import is_writable_target
    from ..formats.join_files import read_other, read_tokens
    from ..lists.joining import join_column, join_list, join_tokens
    from ..lists.number_files import read_numbers, split_spec
    from ..lists.quality import join_qualities
    from ..lists.store import read_store, write_store

    started = time.monotonic()
    is_writable_target(output)
    work: list[tuple[Callable[..., NBest], Callable[..., Any], list[str] | None]] = [
        (join_column, read_numbers, column),
        (join_tokens, read_tokens, tokens),
        (join_list, lambda path: read_other(path, threads=threads, warn=lambda text: say(text, quiet=quiet)), nbest),
    ]
    if not any((column, tokens, nbest, quality)):
        raise InputError("join: expected something to join, found nothing; give --column, --tokens, --nbest or --quality")
    lists = read_store(store)
    before = lists.global_names
    with reading("joining", quiet=quiet):
        for put, read, specs in work:
            for name, spec in map(_named, specs or ()):
                lists = put(lists, name, read(spec), split_spec(spec)[0])
    lists = join_qualities(lists, quality or (), lower or ())
    write_store(lists, output)
    result = {
        "hypotheses": lists.n_hyps,
        "features": len(lists.global_names),
        "joined": [name for name in lists.global_names if name not in before],
        "quality": list(lists.quality.names),
        "seconds": seconds_since(started),
        "output": output,
    }
    if as_json and output != "-":
        emit(result, "", as_json=True)
    say(
        f"{counted(lists.n_hyps, 'hypothesis')}, {counted(len(before), 'feature')} and "
        f"{len(lists.global_names) - len(before)} more -> {output} in "
        f"{result['seconds']:.1f} s",
        quiet=quiet,
    )


def _named(spec: str) -> tuple[str, str]:
    from ..core.errors import InputError

    name, equals, path = spec.partition("=")
    if not (name and equals and path):
        raise InputError(f"{spec!r}: expected NAME=FILE, found no name or no file; give both")
    return name, path
