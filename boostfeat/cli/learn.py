"""Commands that learn: tune, induce, augment, show."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import ALL_CORES, AsJson, Quiet, Seed, Threads, emit, progress, say, table
from .lists import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import Model

ModelOut = Annotated[str, typer.Option("-o", "--output", help="The model file to write.", show_default=False)]
Select = Annotated[str | None, typer.Option("--select", help="A held-out list that chooses the best round or epoch.")]
Init = Annotated[str | None, typer.Option("--init", help="A model to start from.")]


def register(app: typer.Typer) -> None:
    for command in (induce, augment, show):
        app.command()(command)


def induce(
    store: Store,
    output: ModelOut,
    select: Select = None,
    level: Annotated[str, typer.Option("--level", help="local (phrases in context) or global (whole hypotheses).")] = "local",
    leaves: Annotated[str, typer.Option("--leaves", help="constant, linear (b x) or affine (a + b x).")] = "constant",
    max_leaves: Annotated[int, typer.Option("--max-leaves", min=2, help="Leaves of a tree, at most (N).")] = 2,
    rounds: Annotated[int, typer.Option("--rounds", min=0, help="Trees, at most (M).")] = 25,
    init: Init = None,
    shrinkage: Annotated[float, typer.Option("--shrinkage", help="Factor of every tree's weight.")] = 1.0,
    l2: Annotated[float, typer.Option("--l2", min=0, help="L2 penalty on weights.")] = 1.0,
    patience: Annotated[int, typer.Option("--patience", min=1, help="Rounds without a better select gain before it stops.")] = 10,
    metric: Annotated[str, typer.Option("--metric", help="What rounds are chosen by: bleu, bleu-sbp, chrf or ter.")] = "bleu-sbp",
    loss: Annotated[str, typer.Option("--loss", help="log, expected-gain or lambda.")] = "log",
    scale: Annotated[float, typer.Option("--scale", min=0, help="Scale of the softmax of expected-gain.")] = 1.0,
    sampler: Annotated[str, typer.Option("--sampler", help="Of pairs: ta13 or hm11.")] = "ta13",
    pairs: Annotated[int | None, typer.Option("--pairs", min=1, help="Pairs kept a sentence (K).")] = None,
    draws: Annotated[int | None, typer.Option("--draws", min=1, help="Pairs drawn a sentence (Gamma).")] = None,
    threshold: Annotated[float | None, typer.Option("--threshold", min=0, help="Least BLEU difference of a pair.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", min=0, help="Smoothing of sentence BLEU.")] = 1.0,
    resample_pairs: Annotated[int, typer.Option("--resample-pairs", min=0, help="Draw pairs anew every N rounds; 0: never.")] = 0,
    min_occurrences: Annotated[int, typer.Option("--min-occurrences", min=1, help="Of units, in every leaf.")] = 200,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run of the same command stopped.")] = False,
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn linear weights, then tree features (gradient boosting).

    Ctrl-C keeps the rounds so far; --resume goes on from there.

    \b
    Example:
      boostfeat induce dev.nbest --select select.nbest --max-leaves 4 --rounds 40 -o model.json
    """
    from dataclasses import replace

    from ..boost import BoostOptions, boost, kept_rounds
    from ..errors import InputError, unknown_name
    from ..files import is_writable_target
    from ..grow import TreeOptions
    from ..model import Model
    from ..pairs import SAMPLERS
    from ..store import read_store

    if sampler not in SAMPLERS:
        raise unknown_name("sampler", sampler, SAMPLERS)
    if output == "-":
        raise InputError("-o: expected a file name, found '-'; 'boostfeat show' prints a model")
    is_writable_target(output)
    given: dict[str, Any] = {"keep": pairs, "draws": draws, "threshold": threshold}
    pair_options = replace(SAMPLERS[sampler], alpha=alpha, **{k: v for k, v in given.items() if v is not None})
    options = BoostOptions(
        level=level,  # type: ignore[arg-type]
        rounds=rounds,
        shrinkage=shrinkage,
        l2=l2,
        patience=patience,
        metric=metric,
        loss=loss,
        scale=scale,
        resample_pairs=resample_pairs,
        pairs=pair_options,
        tree=TreeOptions(leaves=leaves, max_leaves=max_leaves, min_occurrences=min_occurrences),  # type: ignore[arg-type]
    )
    partial = Path(output).with_name(Path(output).name + ".partial")
    so_far = None
    if resume:
        if partial.exists():
            so_far = Model.load(partial)
        elif Path(output).exists():
            say(f"{output} is finished already: nothing to resume", quiet=quiet)
            return
    start = Model.load(init) if init else None
    dev = read_store(store)
    held_out = read_store(select) if select else None
    latest: list[Model] = [so_far] if so_far else []

    with progress(f"boosting ({level})", quiet=quiet) as bar:

        def report(row: Mapping[str, Any], model: Model) -> None:
            latest[:] = [model]
            model.save(partial)
            gains = f"loss {row['loss']:.4f}  dev {row['dev']:.2f}" + (f"  select {row['select']:.2f}" if "select" in row else "")
            bar.update(row["round"], rounds, gains)

        try:
            model = boost(dev, held_out, options, seed=seed, threads=threads, init=start, so_far=so_far, callback=report)
        except KeyboardInterrupt:
            if latest:
                kept_rounds(latest[0], len(start.trees) if start else 0).save(output)
                n = latest[0].history[-1]["round"]
                say(f"interrupted after round {n}: {output} holds the best so far; go on with --resume", quiet=quiet)
            raise
    model.save(output)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    first, last = model.history[0], model.history[model.config["best_round"]]
    gains = [[name, *(f"{row[name]:.2f}" for row in (first, last))] for name in ("dev", "select") if name in first]
    if as_json:
        emit(
            {"output": output, "signature": model.signature, "trees": len(model.trees), "history": model.history},
            "",
            as_json=True,
        )
    else:
        losses = ["loss", f"{first['loss']:.4f}", f"{last['loss']:.4f}"]
        header = [f"{metric}, {level}", "linear", f"{len(model.trees)} trees"]
        emit(None, table([losses, *gains], header=header), as_json=False)


def augment(
    store: Store,
    model: Annotated[str, typer.Option("-m", "--model", help="A model with trees.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the list with a model's trees as named features that any tuner can weigh.

    \b
    Example:
      boostfeat augment dev.nbest -m model.json -o dev+trees.nbest
      boostfeat tune dev+trees.nbest --method pro --init model.json -o retuned.json
    """
    from ..augment import augment as add_trees
    from ..files import is_writable_target
    from ..model import Model
    from ..store import read_store, write_store

    is_writable_target(output)
    loaded = Model.load(model)
    nbest = add_trees(read_store(store), loaded)
    write_store(nbest, output)
    if as_json:
        emit({"output": output, "features": [tree.name for tree in loaded.trees]}, "", as_json=True)
    say(f"{len(loaded.trees)} tree features -> {output}", quiet=quiet)


def show(
    model: Annotated[str, typer.Argument(metavar="MODEL.json", help="A model file.", show_default=False)],
    on: Annotated[
        str | None, typer.Option("--on", help="A list to count leaves and effects on; default: what training saw.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Sparse weights to show, the largest first.")] = 20,
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Print a model as a person reads it: features by effect, trees as rules, how often each leaf fires.

    The effect of a feature or tree is the standard deviation within lists of what it adds to the score.

    \b
    Example:
      boostfeat show model.json
    """
    from ..model import Model
    from ..show import describe, described_text
    from ..store import read_store

    loaded = Model.load(model)
    what = describe(loaded, read_store(on) if on else None)
    emit(what, described_text(what, top=top), as_json=as_json)
