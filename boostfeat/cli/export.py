"""The command that writes a model for other programs: export."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..export import ExportOptions
from ..features.options import ResourceFiles
from .carried import with_features
from .common import AllowMissing, Force, check_model, emit, progress, say, say_written
from .flags import add

if TYPE_CHECKING:
    from ..export import Check


def register(app: typer.Typer) -> None:
    add(app, export)


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL.json", help="A model file.", show_default=False)],
    *,
    to: Annotated[str, typer.Option("--to", help="c, moses, json, onnx, treelite, python, cdec or nbest.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="The file to write; a folder for moses.", show_default=False)],
    verify: Annotated[
        str | None, typer.Option("--verify", metavar="LIST.nbest", help="A list to score both ways before anything is left.")
    ] = None,
    list_: Annotated[
        str | None,
        typer.Option(
            "--list", metavar="LIST.nbest", help="nbest: the list to write; others: declares kinds. Verified on it, too."
        ),
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not score the list both ways.")] = False,
    allow_missing: AllowMissing = False,
    force: Force = False,
    options: ExportOptions,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a model for other programs, and check that it scores the same there.

    With a list, every distinct unit is scored both ways; the largest difference is printed, relative for scores beyond 1. Above
    1e-6 it is an error and nothing is left.

    \b
    Example:
      boostfeat export model.json --to c -o model.h --verify test.nbest
      boostfeat export model.json --to moses --phrase-table phrase-table.gz \\
        --ini moses.ini -o moses/ --verify test.nbest
    """
    from ..core.errors import InputError
    from ..export import Context, exporter
    from ..export import export as write
    from ..features.carried import carried
    from ..lists.store import read_store
    from ..model.model import Model

    started = time.monotonic()
    exporter(to)  # an unknown target is an error before anything is read
    if verify and list_ and verify != list_:
        raise InputError("--list: expected the list of --verify or none, found another; give one of them")
    if verify and no_verify:
        raise InputError("--no-verify: expected no --verify beside it, found one; name the list with --list")
    loaded = Model.load(model)
    name = verify or list_
    nbest = read_store(name) if name else None
    if nbest is not None and name:
        table = options.phrase_table if loaded.plan else None  # the target reads the table too, templates or not
        nbest = with_features(nbest, loaded, ResourceFiles(phrase_table=table), where=name, quiet=quiet)
        check_model(loaded, nbest, name, allow_missing=allow_missing, quiet=quiet)
    warn = partial(_warn, quiet=quiet)
    with progress(f"export to {to}", quiet=quiet) as bar:
        tell = partial(say, quiet=quiet)
        context = Context(nbest, options, carried(loaded), on_progress=bar.update, warn=warn, tell=tell, force=force)
        files, check = write(loaded, to, output, context, verify=not no_verify)
    found = _found(check)
    if output == "-":
        say(found, quiet=quiet)
        return
    result = {"target": to, "files": files, "signature": loaded.signature, "verified": vars(check) if check else None}
    emit(result, "\n".join([*files, found]), as_json=as_json)
    say_written(f"{loaded.signature.partition('|sha')[0]} for {to}", output, started, quiet=quiet)


def _warn(line: str, *, quiet: bool) -> None:
    say(f"warning: {line}", quiet=quiet)


def _found(check: Check | None) -> str:
    if check is None:
        return "not verified (--verify LIST.nbest does)"
    near = f"{check.near:,} of them as near to a threshold as the list's rounding"
    notes = "".join(f"\n  {note}" for note in (near, *check.note.split("; ")) if note)
    return f"verified on {check.rows:,} {check.what}: largest difference {check.difference:.3g}{notes}"
