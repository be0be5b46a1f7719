"""Commands that learn: tune, induce, augment, show."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.text_table import table
from .common import ALL_CORES, AsJson, Quiet, Seed, Threads, emit, progress, say
from .engine import Engine, Scheduler, Timeout, Workers, fleet_of, on_cluster, source_of
from .graphs import GraphIterations, GraphNames, Graphs, GraphSize, GraphVocab, graph_options, induced_on_graphs
from .lists import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..boosting.options import BoostOptions
    from ..lists.nbest import NBest
    from ..model.model import Model

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
    recipe: Annotated[
        str, typer.Option("--recipe", help="default, fast or paper ([TA13] Figure 3): what the flags below change.")
    ] = "default",
    level: Annotated[str | None, typer.Option("--level", help="local (phrases in context) or global (whole hypotheses).")] = None,
    leaves: Annotated[str | None, typer.Option("--leaves", help="constant, linear (b x) or affine (a + b x).")] = None,
    max_leaves: Annotated[int | None, typer.Option("--max-leaves", min=2, help="Leaves of a tree, at most (N).")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=0, help="Trees, at most (M).")] = None,
    init: Init = None,
    shrinkage: Annotated[float | None, typer.Option("--shrinkage", help="Factor of every tree's weight.")] = None,
    l2: Annotated[float | None, typer.Option("--l2", min=0, help="L2 penalty on weights and steps.")] = None,
    sparse_l2: Annotated[float | None, typer.Option("--sparse-l2", min=0, help="The same on those of sparse features.")] = None,
    patience: Annotated[
        int | None, typer.Option("--patience", min=1, help="Rounds without a better select gain before it stops.")
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="What rounds are chosen by: bleu, bleu-sbp or chrf.")] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", help="Round kept: best on select, or the last within an error (last-se).")
    ] = None,
    pairs: Annotated[int | None, typer.Option("--pairs", min=1, help="Pairs kept a sentence (K).")] = None,
    draws: Annotated[int | None, typer.Option("--draws", min=1, help="Pairs drawn a sentence (Gamma).")] = None,
    threshold: Annotated[float | None, typer.Option("--threshold", min=0, help="Least BLEU difference of a pair.")] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", min=0, help="Smoothing of sentence BLEU.")] = None,
    resample_pairs: Annotated[
        int | None, typer.Option("--resample-pairs", min=0, help="Draw pairs anew every N rounds; 0: never.")
    ] = None,
    context: Annotated[
        bool | None, typer.Option("--context/--no-context", help="Weigh pairs by what they change in corpus BLEU.")
    ] = None,
    min_occurrences: Annotated[int | None, typer.Option("--min-occurrences", min=1, help="Of units, in every leaf.")] = None,
    static_only: Annotated[bool, typer.Option("--static-only", help="Trees look at features of the phrase pair alone.")] = False,
    tree_features: Annotated[
        str | None, typer.Option("--tree-features", help="Trees look at these features only, by commas.")
    ] = None,
    graphs: Graphs = None,
    graph_iterations: GraphIterations = 2,
    graph_size: GraphSize = 100,
    graph_names: GraphNames = None,
    graph_vocab: GraphVocab = None,
    engine: Engine = "local",
    scheduler: Scheduler = None,
    workers: Workers = None,
    timeout: Timeout = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run of the same command stopped.")] = False,
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn linear weights, then tree features (gradient boosting).

    A recipe sets all options; flags change single ones. Ctrl-C keeps the rounds so far; --resume goes on from there. With
    --graphs the list first grows by fresh k-best lists of search graphs under the model so far. With --engine dask the sentences
    are spread over the workers of a cluster, which open the store themselves; the model is the same.

    \b
    Example:
      boostfeat induce dev.nbest --select select.nbest -o model.json
      boostfeat induce dev.nbest --select select.nbest --engine dask --scheduler tcp://head:8786 -o model.json
      boostfeat induce dev.nbest --select select.nbest --recipe paper --max-leaves 4 --rounds 40 -o paper.json
    """
    given = dict(locals())
    from ..boosting.boost import boost
    from ..boosting.options import recipe as options_of
    from ..boosting.options import with_changes
    from ..boosting.record import score_of
    from ..boosting.stopping import kept_rounds
    from ..core.errors import InputError
    from ..core.files import Sparing, is_writable_target
    from ..lists.choices import Scorer
    from ..lists.learnable import learnable, range_warnings
    from ..lists.store import read_store
    from ..model.model import Model

    cluster = on_cluster(engine, scheduler=scheduler, timeout=timeout, workers=workers, graphs=graphs)
    if output == "-":
        raise InputError("-o: expected a file name, found '-'; 'boostfeat show' prints a model")
    is_writable_target(output)
    flags = {_OPTIONS.get(name, name): value for name, value in given.items() if name not in _NOT_OPTIONS and value is not None}
    options = options_of(recipe, **flags)
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
    held_out = learnable(read_store(select)) if select else None
    for warning in range_warnings(dev).values():
        say(f"warning: {warning}", quiet=quiet)
    dev = learnable(dev)
    if static_only or tree_features:
        options = with_changes(
            options, {"tree_features": _tree_features(dev, options, static_only=static_only, names=tree_features)}
        )
    if graphs:

        def boosting(nbest: NBest, i: int) -> Model:
            return boost(nbest, held_out, options, seed=seed + i, threads=threads, init=start)

        taken = graph_options(graphs, graph_iterations, graph_size, graph_names, graph_vocab)
        dev = induced_on_graphs(boosting, dev, taken, threads=threads, quiet=quiet)
    latest: list[Model] = [so_far] if so_far else []
    sparing = Sparing()

    with progress(f"boosting ({options.level})", quiet=quiet) as bar:

        def report(row: Mapping[str, Any], model: Model) -> None:
            latest[:] = [model]
            sparing(lambda: model.save(partial))  # millions of weights take seconds
            gains = f"loss {row['loss']:.4f}  dev {row['dev']:.2f}" + (f"  select {row['select']:.2f}" if "select" in row else "")
            bar.update(row["round"], options.rounds, gains)

        try:
            learning: dict[str, Any] = {"seed": seed, "init": start, "so_far": so_far, "callback": report}
            if cluster:
                from ..distributed.boosting import boost_on, check_options

                check_options(options, dev)
                source = source_of(store)
                with fleet_of(scheduler, workers=workers, timeout=timeout, threads=threads, quiet=quiet) as fleet:
                    model = boost_on(fleet, source, dev, held_out, options, **learning, say=lambda what: say(what, quiet=False))
            else:
                model = boost(dev, held_out, options, threads=threads, **learning)
        except KeyboardInterrupt as error:
            if latest:
                latest[0].save(partial)
                kept_rounds(latest[0], len(start.trees) if start else 0, select=held_out, rule=options.rule).save(output)
                n = latest[0].history[-1]["round"]
                error.args = (f"after round {n}, {output} holds the best so far; go on with --resume",)
            raise
    model.save(output)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    first, last = model.history[0], model.history[model.config["best_round"]]
    lists = [("dev", dev), *([("select", held_out)] if held_out is not None else [])]
    final = {name: score_of(Scorer(nbest), model.decision_function(nbest), options.metric) for name, nbest in lists}
    gains = [[name, f"{first[name]:.2f}", f"{gain:.2f}"] for name, gain in final.items()]
    if as_json:
        emit(
            {"output": output, "signature": model.signature, "trees": len(model.trees), **final, "history": model.history},
            "",
            as_json=True,
        )
    else:
        losses = ["loss", f"{first['loss']:.4f}", f"{last['loss']:.4f}"]
        header = [f"{options.metric}, {options.level}", "linear", f"{len(model.trees)} trees"]
        emit(None, table([losses, *gains], header=header), as_json=False)


_NOT_OPTIONS = (  # parameters of induce that are not options of boosting
    *(
        "store",
        "output",
        "select",
        "recipe",
        "init",
        "static_only",
        "tree_features",
        "resume",
        "seed",
        "threads",
        "quiet",
    ),
    *("as_json", "graphs", "graph_iterations", "graph_size", "graph_names", "graph_vocab"),
    *("engine", "scheduler", "workers", "timeout"),
)
_OPTIONS = {"pairs": "keep"}  # those whose flag has another name


def _tree_features(dev: NBest, options: BoostOptions, *, static_only: bool, names: str | None) -> tuple[str, ...]:
    from ..core.errors import InputError
    from ..export.kinds import static_features

    named = {name.strip() for name in names.split(",") if name.strip()} if names is not None else None
    features = static_features(dev) if static_only else dev.feature_names
    if named is not None and (unknown := sorted(named - set(features))):
        raise InputError(f"--tree-features: expected features of the list that trees may test, found {unknown[0]!r}")
    found = tuple(name for name in features if named is None or name in named)
    dense = tuple(name for name in found if name in dev.global_names)
    if named is None and dense:
        return dense
    if not found:
        raise InputError("--static-only: expected a list with static features, found none; see 'boostfeat info'")
    return found


def augment(
    store: Store,
    model: Annotated[str, typer.Option("-m", "--model", help="A model with trees.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    leaves: Annotated[bool, typer.Option("--leaves", help="A feature for every leaf, in place of one for every tree.")] = False,
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
    from ..core.files import is_writable_target
    from ..lists.store import read_store, write_store
    from ..model.model import Model
    from ..model.tree_columns import augment as add_trees
    from ..model.tree_columns import leaf_names

    is_writable_target(output)
    loaded = Model.load(model)
    nbest = add_trees(read_store(store), loaded, leaves=leaves)
    write_store(nbest, output)
    names = list(leaf_names(loaded)) if leaves else [tree.name for tree in loaded.trees]
    if as_json:
        emit({"output": output, "features": names}, "", as_json=True)
    say(f"{len(names)} tree features -> {output}", quiet=quiet)


def show(
    model: Annotated[str, typer.Argument(metavar="MODEL.json", help="A model file.", show_default=False)],
    on: Annotated[
        str | None, typer.Option("--on", help="A list to count leaves and effects on; default: what training saw.")
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=0, help="Sparse features to show, those of the largest effect (of the largest weight without --on)."
        ),
    ] = 20,
    trees: Annotated[int, typer.Option("--trees", min=0, help="Trees to show, those of the largest effect; 0: all.")] = 25,
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
    from ..lists.store import read_store
    from ..model.describe import describe
    from ..model.model import Model
    from .text import described_text

    loaded = Model.load(model)
    what = describe(loaded, read_store(on) if on else None)
    emit(what, described_text(what, top=top, most_trees=trees), as_json=as_json)
