"""Commands on models: augment, show."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ..core.errors import counted
from ..features.options import ResourceFiles
from .carried import refuse_files, with_features
from .common import AllowMissing, Store, check_model, emit, say_written
from .flags import add


def register(app: typer.Typer) -> None:
    for command in (augment, show):
        add(app, command)


def augment(
    store: Store,
    model: Annotated[str, typer.Option("-m", "--model", help="A model with trees.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    leaves: Annotated[
        bool, typer.Option("--each-leaf", "--leaves", help="A feature for every leaf, in place of one for every tree.")
    ] = False,
    allow_missing: AllowMissing = False,
    *,
    files: ResourceFiles,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a list with a model's trees as named features, which any tuner can weigh.

    \b
    Example:
      boostfeat augment dev.nbest -m model.json -o dev+trees.nbest
      boostfeat tune dev+trees.nbest --method pro --init model.json \\
        -o retuned.json
    """
    from dataclasses import replace

    from ..core.files import is_writable_target
    from ..lists.store import read_store, write_store
    from ..model.model import Model
    from ..model.tree_columns import augment as add_trees
    from ..model.tree_columns import leaf_names

    started = time.monotonic()
    is_writable_target(output)
    loaded = Model.load(model)
    nbest = with_features(read_store(store), loaded, files, where=store, quiet=quiet)
    check_model(replace(loaded, weights={}), nbest, store, allow_missing=allow_missing, quiet=quiet)  # its trees are applied
    nbest = add_trees(nbest, loaded, leaves=leaves)
    write_store(nbest, output)
    names = list(leaf_names(loaded)) if leaves else [tree.name for tree in loaded.trees]
    if as_json:
        emit({"output": output, "features": names}, "", as_json=True)
    say_written(f"{counted(len(names), 'leaf' if leaves else 'tree')} as features", output, started, quiet=quiet)


def show(
    model: Annotated[str, typer.Argument(metavar="MODEL.json", help="A model file.", show_default=False)],
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="LIST", help="A list to count leaves and effects on; default: what training saw."),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=0, help="Sparse features to show, those of the largest effect (of the largest weight without --on)."
        ),
    ] = 20,
    trees: Annotated[int, typer.Option("--trees", min=0, help="Trees to show, those of the largest effect; 0: all.")] = 25,
    allow_missing: AllowMissing = False,
    *,
    files: ResourceFiles,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print a model as a person reads it: features by effect, trees as rules, how often each leaf fires.

    The effect of a feature or tree is the standard deviation within lists of what it adds to the score.

    \b
    Example:
      boostfeat show model.json
    """
    from ..lists.store import read_store
    from ..model.describe import describe
    from ..model.model import Model
    from .text import described_text

    loaded = Model.load(model)
    nbest = None
    if on:
        nbest = with_features(read_store(on), loaded, files, where=on, quiet=quiet)
        check_model(loaded, nbest, on, allow_missing=allow_missing, quiet=quiet)
    else:
        refuse_files(files, "--on LIST")
    what = describe(loaded, nbest)
    emit(what, described_text(what, top=top, most_trees=trees), as_json=as_json)
