"""The command that learns trees."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from ..boosting.induce import induce_on
from ..boosting.options import RECIPES, BoostOptions
from ..boosting.options import recipe as recipe_of
from ..boosting.selection.template_set import Features
from ..boosting.selection.waterfall import lines as waterfall_lines
from ..boosting.stopping import kept_rounds
from ..core.errors import InputError, counted
from ..core.files import is_writable_target
from ..core.options import REQUIRED, methods, option, same
from ..export.kinds import static_features
from ..features import FeaturePlan
from ..features.feature_maker import with_plan
from ..features.groups import fitting_templates
from ..lists.choices import Scorer
from ..lists.feature_range import learnable, lost_ranking, range_warnings
from ..lists.nbest import NBest
from ..model.decision import ways_to_decide
from ..model.model import Model
from ..search.loop.graph_lists import GraphOptions, grown
from .console import FILES, LEARNING, table
from .learning import LearningFlags, cluster_of, lists_with_features, say_to_all


@dataclass(frozen=True)
class InduceGraphs(GraphOptions):
    """Graphs of ``induce``, whose fits take longer."""

    iterations: int = same(GraphOptions, "iterations", 2)


@dataclass(frozen=True, kw_only=True)
class Induce(LearningFlags):
    """Flags of ``induce``."""

    output: str = option(REQUIRED, "The model to write", short="o", metavar="MODEL", group=FILES)
    select: str | None = option(None, "A list to choose by, never learned from; else folds", metavar="LIST", group=FILES)
    init: str | None = option(None, "A model to start from", metavar="MODEL", group=FILES)
    resume: bool = option(False, "Go on where the same command was interrupted", group=FILES)
    recipe: str = option("default", "Preset: default, fast or paper; flags override it", choices=RECIPES, group=LEARNING)
    static_only: bool = option(False, "Trees look at features of the phrase pair", group=LEARNING)
    of_boosting: Mapping[str, Any] = methods({"boosting": BoostOptions}, defaults=RECIPES["default"])
    graphs: GraphOptions = field(default_factory=InduceGraphs)

    def boost_options(self) -> BoostOptions:
        """Return the recipe with what flags and settings change."""
        options = recipe_of(self.recipe, **self.of_boosting)
        if "patience" in self.of_boosting and options.rule == "all" and not self.select:
            raise InputError("--set patience does nothing without --select where --set rule=all keeps all trees; leave it out")
        return options


def induce(o: Induce) -> None:
    """Learn linear weights, then tree features by gradient boosting. Ctrl-C keeps the rounds so far; --resume goes on.

    \b
    Example:
      boostfeat induce dev.nbest more.nbest -o model.json
      boostfeat induce dev.nbest --select select.nbest -o model.json
      boostfeat induce dev.nbest --templates large+sparse -o model.json
    """
    o.check_together()
    if o.output == "-":
        raise InputError("-o: expected a file name, found '-'; 'boostfeat show' prints a model")
    is_writable_target(o.output)
    options = o.boost_options()
    partial = _partial(o.output)
    if o.resume and not partial.exists() and Path(o.output).exists():
        o.say(f"{o.output} is finished already: nothing to resume")
        return
    so_far = Model.load(partial) if o.resume and partial.exists() else None
    start = Model.load(o.init) if o.init else None
    dev, held_out = o.read_lists()
    features = _features(o, dev, held_out, options, start, so_far)
    dev, held_out, plan = features.dev, features.select, features.plan
    for warning in (*range_warnings(dev).values(), *filter(None, [lost_ranking(dev)])):
        o.warn(warning)
    dev, held_out = learnable(dev), learnable(held_out) if held_out is not None else None
    if o.static_only or options.tree_features:
        options = replace(options, tree_features=_tree_features(dev, options.tree_features, static_only=o.static_only))
    if o.graphs.paths:
        dev = _grown(o, dev, held_out, options, plan, start)
    features = replace(features, dev=dev, select=held_out)
    model = with_plan(_learned(o, features, options, start, so_far), plan)
    model.save(o.output)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    _tell(o, model, dev, held_out, options)


def _features(
    o: Induce, dev: NBest, held_out: NBest | None, options: BoostOptions, start: Model | None, so_far: Model | None
) -> Features:
    """Return the lists with the templates that are asked for, or that pay."""
    templates = o.templates
    if templates is None and (o.graphs.paths or o.is_dask or o.recipe == "paper") and start is None:
        templates = "none"
        if o.recipe != "paper" and (fitting := fitting_templates(dev)):
            o.say(f"templates: none, where one machine and lists alone would try {fitting}; featurize the list beforehand")
    with o.progress("choosing templates") as bar:
        how: dict[str, Any] = {"static_only": o.static_only, "tell": lambda what, done, n: bar.update(done, n, what)}
        features = lists_with_features(o, dev, held_out, options, templates, start, so_far, **how)
    if why := features.why.get("templates"):
        gain = f"{why['gain']:+.2f} ± {why['error']:.2f} {options.metric} over the list's own features, by {why['by']}"
        o.say(f"templates: {why['chosen']} ({why['tried']}: {gain})")
    return features


def _tell(o: Induce, model: Model, dev: NBest, held_out: NBest | None, options: BoostOptions) -> None:
    """Print what the model scores, and say what was chosen and why."""
    try:
        _show(o, model, dev, held_out, options)
    except KeyboardInterrupt as error:
        error.args = (f"{o.output} is whole; what it scores was not shown",)
        raise
    if not model.trees and not any(model.weights.values()):
        o.warn("nothing was learnt: hypotheses of the same list have the same features, or are equally good")
    by = "--select" if held_out is not None else "folds"
    if kept := model.config.get("kept"):
        o.warn(f"what was learned is worse on {by} than the list's own order: the model is {kept} alone")
    if penalties := model.config.get("penalties"):
        o.say(f"sparse-l2 {model.config['sparse_l2']:g}: {penalties['rule']}, by {by}")
    if (why := model.config.get("tree_count")) and not model.config.get("kept"):
        gain = f"{why['gain']:+.2f} ± {why['gain_error']:.2f} {options.metric} over none"
        best = f"; the best number is {why['best']}, {why['best_gain']:+.2f} ± {why['best_error']:.2f}"
        o.say(f"{counted(len(model.trees), 'tree')}, by {by}: {gain}{best if why['gain'] < why['best_gain'] else ''}")
    if ways := ways_to_decide(model.config):
        o.say(f"{ways} (--set decide=score: the score does)")
    o.say(f"{counted(len(model.trees), 'tree')} -> {o.output} in {o.seconds:.1f} s")


def _partial(output: str) -> Path:
    """Return where the rounds so far are kept."""
    return Path(output).with_name(Path(output).name + ".partial")


def _tree_features(dev: NBest, named: tuple[str, ...], *, static_only: bool) -> tuple[str, ...]:
    """Return the features that trees may test: those named, or the dense ones; of the phrase pair alone where it is said."""
    features = static_features(dev) if static_only else dev.feature_names
    if unknown := sorted({*named} - {*features}):
        raise InputError(f"--set tree-features: expected features of the list that trees may test, found {unknown[0]!r}")
    allowed = tuple(name for name in features if not named or name in named)
    dense = tuple(name for name in allowed if name in dev.global_names)
    if not named and dense:
        return dense
    if not allowed:
        raise InputError("--static-only: expected a list with static features, found none; see 'boostfeat info'")
    return allowed


def _grown(
    o: Induce, dev: NBest, select: NBest | None, options: BoostOptions, plan: FeaturePlan | None, start: Model | None
) -> NBest:
    """Return the list with k-best lists of search graphs under models of its own; each starts anew, so that no tree stays
    that only an old list asked for.
    """

    def boosting(nbest: NBest, before: Model | None, i: int) -> Model:
        return induce_on(Features(nbest, select), options, seed=o.seed + i, threads=o.threads, init=start)

    return grown(dev, boosting, o.graphs_with(plan), threads=o.threads, report=o.say)[0]


def _learned(o: Induce, features: Features, options: BoostOptions, start: Model | None, so_far: Model | None) -> Model:
    """Return the model of boosting here or on a cluster. Rounds are kept as they come; where it is interrupted, that is said."""
    latest: list[Model] = [so_far] if so_far else []
    partial, not_before = _partial(o.output), -inf
    with o.progress(f"boosting ({options.level})") as bar:

        def report(row: Mapping[str, Any], model: Model) -> None:
            nonlocal not_before
            latest[:] = [model]
            if (began := monotonic()) >= not_before:  # saving takes a tenth of the time, at most
                model.save(partial)
                not_before = monotonic() + 10 * (monotonic() - began)
            select = f"  select {row['select']:.2f}" if "select" in row else ""
            bar.update(row["round"], options.rounds, f"loss {row['loss']:.4f}  dev {row['dev']:.2f}{select}")

        def choosing(what: str, done: int, n: int) -> None:
            bar.update(0, options.rounds, f"{what}: {done} of {n}")

        try:
            return _boosted(o, features, options, init=start, so_far=so_far, callback=report, tell=choosing)
        except KeyboardInterrupt as error:
            for model in latest:
                model.save(partial)
                with_plan(kept_rounds(model, len(start.trees) if start else 0), features.plan).save(o.output)
                done = model.history[-1]["round"]
                error.args = (f"after round {done}, {o.output} holds the best so far; go on with --resume",)
            raise


def _boosted(o: Induce, features: Features, options: BoostOptions, **how: Any) -> Model:
    if not o.is_dask:
        return induce_on(features, options, seed=o.seed, threads=o.threads, **how)
    from ..distributed.cluster import boost_on, check_options
    from ..distributed.worker_data import Source

    check_options(options, features.dev)
    with cluster_of(o) as cluster:
        lists = Source.of(o.stores[0]), features.dev, features.select
        return boost_on(cluster, *lists, options, seed=o.seed, **how, say=say_to_all(o))


def _show(o: Induce, model: Model, dev: NBest, select: NBest | None, options: BoostOptions) -> None:
    """Print loss and metric of the linear start and of the model."""
    lists = {"dev": dev, **({} if select is None else {"select": select})}
    final = {name: Scorer(nbest).score(model.predict(nbest), options.metric).score for name, nbest in lists.items()}
    if o.as_json:
        about = {"output": o.output, "signature": model.signature, "trees": len(model.trees)}
        about |= {"waterfall": model.config["waterfall"]} if "waterfall" in model.config else {}
        o.emit({**about, **final, "history": model.history})
        return
    first, last = model.history[0], model.history[model.config["best_round"]]
    rows = [["loss", f"{first['loss']:.4f}", f"{last['loss']:.4f}"]]
    rows += [[name, f"{first[name]:.2f}", f"{gain:.2f}"] for name, gain in final.items()]
    o.emit(None, table(rows, header=[f"{options.metric}, {options.level}", "linear", counted(len(model.trees), "tree")]))
    if steps := waterfall_lines(model.config):
        by = "--select" if select is not None else "folds"
        o.emit(None, table(steps, header=[f"{options.metric} by {by}", "score", "gain"]))
