"""The command that learns trees."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..boosting.induce import induce_on
from ..boosting.options import RECIPES, BoostOptions
from ..boosting.options import recipe as options_of
from ..boosting.selection.template_set import Features, chosen_features
from ..boosting.selection.waterfall import lines as waterfall_lines
from ..core.errors import counted
from ..core.machine import seconds_since
from ..core.options import same, typed
from ..core.text_table import table
from ..features.options import ResourceFiles
from ..search.loop.loop_options import GraphOptions
from .carried import Templates, feature_maker, refuse_files, say_unused
from .common import FILES, LEARNING, AllowMissing, Settings, Store, check_lists, emit, progress, say
from .engine import EngineOptions, cluster_of, source_of
from .flags import Given, add
from .graphs import Graphs, RareCoreNames, core_names, induced_on_graphs

if TYPE_CHECKING:
    from ..lists.nbest import NBest
    from ..model.model import Model


def register(app: typer.Typer) -> None:
    add(app, induce, more=_recipes)


def _recipes() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    changes = {name: ", ".join(f"{k} {v}" for k, v in _differences(options)) for name, options in RECIPES.items()}
    yield "Recipes, and where they differ from paper", [(name, text or "[TA13] Figure 3") for name, text in changes.items()]


def _differences(options: Any, paper: Any = RECIPES["paper"]) -> Iterator[tuple[str, Any]]:
    for part, other in ((options, paper), (options.pairs, paper.pairs), (options.tree, paper.tree)):
        yield from ((k, v) for k, v in vars(part).items() if k not in ("pairs", "tree") and v != getattr(other, k))


@dataclass(frozen=True)
class _Graphs(GraphOptions):
    iterations: int = same(GraphOptions, "iterations", 2)


def induce(
    store: Store,
    *,
    output: Annotated[str, typer.Option("-o", "--output", metavar="MODEL", help="The model to write.", rich_help_panel=FILES)],
    select: Annotated[
        str | None,
        typer.Option("--select", metavar="LIST", help="A list to choose by; folds learn from it.", rich_help_panel=FILES),
    ] = None,
    init: Annotated[
        str | None, typer.Option("--init", metavar="MODEL", help="A model to start from.", rich_help_panel=FILES)
    ] = None,
    allow_missing: AllowMissing = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command was interrupted.", rich_help_panel=FILES)
    ] = False,
    recipe: Annotated[
        str, typer.Option("--recipe", help="Or fast, paper: sets all below; flags change it", rich_help_panel=LEARNING)
    ] = "default",
    settings: Settings = None,
    given: Annotated[Mapping[str, Any], Given(BoostOptions, defaults=False)],
    static_only: Annotated[
        bool,
        typer.Option("--static-only", help="Trees look at features of the phrase pair.", rich_help_panel="Trees", hidden=True),
    ] = False,
    templates: Templates = None,
    files: ResourceFiles,
    graphs: Graphs = None,
    taken: _Graphs,
    names: RareCoreNames = None,
    where: EngineOptions,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Learn linear weights, then tree features by gradient boosting. Ctrl-C keeps the rounds so far; --resume goes on.

    \b
    Example:
      boostfeat induce dev.nbest --select select.nbest -o model.json
      boostfeat induce dev.nbest --templates large+sparse -o model.json
    """
    from ..core.errors import InputError
    from ..core.files import is_writable_target
    from ..features.carried import carrying
    from ..lists.learnable import learnable, lost_ranking, range_warnings
    from ..lists.store import read_store
    from ..model.decision import ways_to_decide
    from ..model.model import Model

    started = time.monotonic()
    where.refuse(graphs=graphs, templates=templates)
    if output == "-":
        raise InputError("-o: expected a file name, found '-'; 'boostfeat show' prints a model")
    is_writable_target(output)
    options = options_of(recipe, **{**given, **typed(BoostOptions, settings or ())})
    partial = _partial(output)
    if resume and not partial.exists() and Path(output).exists():
        say(f"{output} is finished already: nothing to resume", quiet=quiet)
        return
    so_far = Model.load(partial) if resume and partial.exists() else None
    start = Model.load(init) if init else None
    dev = read_store(store)
    held_out = read_store(select) if select else None
    check_lists({"LIST": dev, "--select": held_out}, allow_missing=allow_missing, quiet=quiet)
    if templates not in (None, "none") and taken.vocab:
        raise InputError(f"--vocab {taken.vocab}: expected none with --templates, found both; leave one out")
    if templates is None and (graphs or where.is_dask or recipe == "paper") and start is None:
        templates = "none"
    if templates == "none" and start is None:
        refuse_files(files, "--templates that use it")
    with (
        progress("choosing templates", quiet=quiet) as bar,
        feature_maker(files, seed=seed, threads=threads, quiet=quiet) as maker,
    ):
        features = chosen_features(
            dev,
            held_out,
            options,
            templates,
            start or so_far,
            maker,
            static_only=static_only,
            tell=lambda what, done, n: bar.update(done, n, what),
        )
        if features.plan is not None:
            say_unused(maker, features.plan, quiet=quiet)
            if start is not None and (name := maker.taught(features.plan)):
                say(
                    f"warning: references taught {name!r} of --init: by it, the list that they are of looks too good", quiet=quiet
                )
    if why := features.why.get("templates"):
        gain = f"{why['gain']:+.2f} ± {why['error']:.2f} {options.metric} over the list's own features, by {why['by']}"
        say(f"templates: {why['chosen']} ({why['tried']}: {gain})", quiet=quiet)
    dev, held_out, plan = features.dev, features.select, features.plan
    for warning in (*range_warnings(dev).values(), *filter(None, [lost_ranking(dev)])):
        say(f"warning: {warning}", quiet=quiet)
    dev, held_out = learnable(dev), learnable(held_out) if held_out is not None else None
    if static_only or options.tree_features:
        options = replace(options, tree_features=_tree_features(dev, options.tree_features, static_only=static_only))
    if graphs:
        taken = replace(taken, paths=tuple(graphs), names=core_names(names), plan=plan)
        dev = _grown(dev, held_out, options, taken, start, seed=seed, threads=threads, quiet=quiet)
    features = replace(features, dev=dev, select=held_out)
    fit = _Fit(store, features, options, output, where, start, so_far, seed, threads, quiet)
    model = carrying(fit.run(), plan)
    model.save(output)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    try:
        _show(model, dev, held_out, options, output, as_json=as_json)
    except KeyboardInterrupt as error:
        error.args = (f"{output} is whole; what it scores was not shown",)
        raise
    if not model.trees and not any(model.weights.values()):
        say("warning: nothing was learnt: hypotheses of the same list have the same features, or are equally good", quiet=quiet)
    by = "--select" if held_out is not None else "folds"
    if own := model.config.get("kept"):
        say(f"warning: what was learnt is worse on {by} than the list's own ranking: the model is {own} alone", quiet=quiet)
    if penalties := model.config.get("penalties"):
        say(f"sparse-l2 {model.config['sparse_l2']:g}: {penalties['rule']}, by {by}", quiet=quiet)
    if (why := model.config.get("tree_count")) and not model.config.get("kept"):
        best = (
            f"the best, {counted(why['best'], 'tree')}, gain {why['best_gain']:+.2f} ± {why['best_error']:.2f} {options.metric}"
        )
        say(f"{counted(len(model.trees), 'tree')}, by {by}: {why['gain']:+.2f} ± {why['gain_error']:.2f}; {best}", quiet=quiet)
    if ways := ways_to_decide(model.config):
        say(f"{ways} (--set decide=score: the score does)", quiet=quiet)
    say(f"{counted(len(model.trees), 'tree')} -> {output} in {seconds_since(started):.1f} s", quiet=quiet)


def _partial(output: str) -> Path:
    """Where the rounds so far are kept."""
    return Path(output).with_name(Path(output).name + ".partial")


def _tree_features(dev: NBest, named: tuple[str, ...], *, static_only: bool) -> tuple[str, ...]:
    """The features that trees may test: those named, or the dense ones; of the phrase pair alone where it is said."""
    from ..core.errors import InputError
    from ..export.kinds import static_features

    features = static_features(dev) if static_only else dev.feature_names
    if unknown := sorted({*named} - {*features}):
        raise InputError(f"--tree-features: expected features of the list that trees may test, found {unknown[0]!r}")
    found = tuple(name for name in features if not named or name in named)
    dense = tuple(name for name in found if name in dev.global_names)
    if not named and dense:
        return dense
    if not found:
        raise InputError("--static-only: expected a list with static features, found none; see 'boostfeat info'")
    return found


def _grown(
    dev: NBest,
    select: NBest | None,
    options: BoostOptions,
    taken: GraphOptions,
    start: Model | None,
    *,
    seed: int,
    threads: int,
    quiet: bool,
) -> NBest:
    """The list with k-best lists of search graphs under models of its own."""

    def boosting(nbest: NBest, i: int) -> Model:
        return induce_on(Features(nbest, select), options, seed=seed + i, threads=threads, init=start)

    return induced_on_graphs(boosting, dev, taken, threads=threads, quiet=quiet)


@dataclass(frozen=True)
class _Fit:
    """A run of boosting, here or on a cluster, whose rounds are kept as they come."""

    store: str
    features: Features
    options: BoostOptions
    output: str
    where: EngineOptions
    start: Model | None
    so_far: Model | None
    seed: int
    threads: int
    quiet: bool

    def run(self) -> Model:
        from ..core.files import Sparing

        latest: list[Model] = [self.so_far] if self.so_far else []
        sparing, partial = Sparing(), _partial(self.output)
        with progress(f"boosting ({self.options.level})", quiet=self.quiet) as bar:

            def report(row: Mapping[str, Any], model: Model) -> None:
                latest[:] = [model]
                sparing(lambda: model.save(partial))  # millions of weights take seconds
                select = f"  select {row['select']:.2f}" if "select" in row else ""
                bar.update(row["round"], self.options.rounds, f"loss {row['loss']:.4f}  dev {row['dev']:.2f}{select}")

            def choosing(what: str, done: int, n: int) -> None:
                bar.update(0, self.options.rounds, f"{what}: {done} of {n}")

            try:
                return self._boost(seed=self.seed, init=self.start, so_far=self.so_far, callback=report, tell=choosing)
            except KeyboardInterrupt as error:
                if latest:
                    error.args = (self._keep(latest[0]),)
                raise

    def _boost(self, **how: Any) -> Model:
        if not self.where.is_dask:
            return induce_on(self.features, self.options, threads=self.threads, **how)
        from ..distributed.cluster import boost_on, check_options

        check_options(self.options, self.features.dev)
        source = source_of(self.store)
        with cluster_of(self.where, threads=self.threads, quiet=self.quiet) as cluster:
            return boost_on(
                cluster,
                source,
                self.features.dev,
                self.features.select,
                self.options,
                **how,
                say=lambda what: say(what, quiet=False),
            )

    def _keep(self, model: Model) -> str:
        """Keep what an interrupted run has learnt, and say so."""
        from ..boosting.stopping import kept_rounds
        from ..features.carried import carrying

        model.save(_partial(self.output))
        n_init = len(self.start.trees) if self.start else 0
        carrying(kept_rounds(model, n_init), self.features.plan).save(self.output)
        return f"after round {model.history[-1]['round']}, {self.output} holds the best so far; go on with --resume"


def _show(model: Model, dev: NBest, select: NBest | None, options: BoostOptions, output: str, *, as_json: bool) -> None:
    """Loss and metric of the linear start and of the model."""
    from ..lists.choices import Scorer

    lists = {"dev": dev, **({} if select is None else {"select": select})}
    final = {name: Scorer(nbest).score(model.predict(nbest), options.metric).score for name, nbest in lists.items()}
    if as_json:
        about = {"output": output, "signature": model.signature, "trees": len(model.trees)}
        about |= {"waterfall": model.config["waterfall"]} if "waterfall" in model.config else {}
        emit({**about, **final, "history": model.history}, "", as_json=True)
        return
    first, last = model.history[0], model.history[model.config["best_round"]]
    rows = [["loss", f"{first['loss']:.4f}", f"{last['loss']:.4f}"]]
    rows += [[name, f"{first[name]:.2f}", f"{gain:.2f}"] for name, gain in final.items()]
    emit(
        None,
        table(rows, header=[f"{options.metric}, {options.level}", "linear", counted(len(model.trees), "tree")]),
        as_json=False,
    )
    if steps := waterfall_lines(model.config):
        by = "--select" if select is not None else "folds"
        emit(None, table(steps, header=[f"{options.metric} by {by}", "score", "gain"]), as_json=False)
