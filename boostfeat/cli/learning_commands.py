"""Commands that learn: tune and induce, and what they share: lists that grow from search graphs between fits, clusters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import numpy as np

from ..boosting.boost_options import AUTO, RECIPES, BoostOptions
from ..boosting.boost_options import recipe as recipe_of
from ..boosting.induce import induce as learner
from ..boosting.induce import induce_on, with_gain_of
from ..boosting.record import MADE_FROM, check_made_from, kept_rounds, made_from
from ..boosting.selection.template_set import FeaturedLists, chosen_features
from ..boosting.selection.tree_count import ALL
from ..boosting.selection.trials import Cluster
from ..boosting.selection.waterfall import lines as waterfall_lines
from ..boosting.selection.way import is_to_choose
from ..core.errors import InputError, counted
from ..core.files import digest
from ..core.options import argument, methods, option, options_of, same, typed
from ..core.overwriting import guarded
from ..export.kinds import static_features
from ..features import FeaturePlan
from ..features.feature_maker import FeatureMaker, with_plan
from ..features.groups import fitting_templates
from ..lists.choices import scored
from ..lists.feature_range import learnable, lost_ranking, range_warnings
from ..lists.merging import concat
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..losses.pairs import SAMPLERS
from ..metrics.metric import figure, metric_of
from ..model.decision import CALIBRATION, ways_to_decide
from ..model.model import Model
from ..model.own_order import in_own_order, is_below_own_order
from ..model.tree_columns import augmented_weights, folded
from ..search.graphs.graph_mert import fit_graphs
from ..search.loop.graph_lists import GraphOptions, graphs_of, grown
from ..tuners import tuner_class
from ..tuners.base import Features, Groups, Run, decoder_weights, feature_warnings
from ..tuners.tuner_options import TUNER_OPTIONS
from .checked_inputs import ModelFlags, OutputFlags, check_lists, feature_maker, refuse_files, refuse_unused
from .cluster_flags import ClusterFlags, cluster_of
from .console import FILES, LEARNING, file, output_file, table
from .search_commands import core_names


@dataclass(frozen=True, kw_only=True)
class LearningFlags(ModelFlags, OutputFlags, ClusterFlags):
    """Flags of commands that learn from a list."""

    stores: Sequence[str] = argument("LIST.nbest...", "Imported training lists; several are joined")
    output: str = output_file("Model to write", "MODEL")
    select: str | None = file("Held-out list that chooses the epoch, never learned from", "LIST")
    templates: str | None = option(
        None, "Sets or templates (A+B), or FILE.toml; kept in the model", metavar="NAMES", group=LEARNING, without="graph_plan"
    )
    graphs: GraphOptions = field(default_factory=GraphOptions)

    def made_with(self) -> dict[str, Any]:
        """Return digests of the files that a model is made with, beside its lists."""
        graphs = {"graphs": list(map(digest, self.graphs.paths))}
        settings = {f"graph_{name}": getattr(self.graphs, name) for name in ("iterations", "size", "core_names")}
        return {**self.files.digests(), **(graphs | settings if self.graphs.paths else {})}

    def read_lists(
        self, cluster: Any, start: Model | None, *, is_one_fit: bool, options: BoostOptions | None = None
    ) -> tuple[NBest, NBest | None]:
        """Return all lists to learn from as one, and the held-out one, which go together.

        Workers open them, too, or alone for one fit with the features that they have: what was joined here is sent.
        """
        is_plain = not self.graphs.paths and (start is None or start.plan is None)
        is_near = cluster is not None and is_one_fit and is_plain and self.templates in (None, "none")
        near: dict[str, NBest] = cluster.near(self.stores, options) if is_near else {}
        lists = near or {path: read_store(path) for path in self.stores}
        held_out = read_store(self.select) if self.select else None
        check_lists(self, {**(lists if self.stores[1:] else {"LIST": lists[self.stores[0]]}), "--select": held_out})
        joined = cluster.joined if near else concat
        dev = joined([lists[path] for path in self.stores]) if self.stores[1:] else lists[self.stores[0]]
        if cluster is not None and not near and not self.stores[1:]:
            cluster.opens(self.stores[0], dev)
        if cluster is not None and held_out is not None:
            cluster.opens(self.select, held_out)
        return dev, held_out

    def graphs_with(self, plan: FeaturePlan | None) -> GraphOptions:
        """Return the graphs, with the names of their values and the features of their edges."""
        return replace(self.graphs, names=core_names(self.graphs.core_names), plan=plan)


@contextlib.contextmanager
def maker_for(o: LearningFlags, templates: str | None, start: Model | None, cluster: Any) -> Iterator[FeatureMaker]:
    """Compute templates that are named, that a model to start from carries, or that pay; refuse files that none could read."""
    if templates == "none" and (start is None or start.plan is None):
        refuse_files(o.files, "--templates that use it")
    with feature_maker(o, o.files, seed=o.seed, threads=o.threads, cluster=cluster) as maker:
        yield maker


def check_plan(o: LearningFlags, maker: FeatureMaker, plan: FeaturePlan | None, start: Model | None) -> None:
    """Refuse files that none of the templates reads; warn where references taught those of the model to start from."""
    if plan is not None:
        refuse_unused(maker, plan, teaches=start is None)
        if start is not None and (name := maker.taught(plan)):
            o.warn(f"references taught {name!r} of --init: by it, the list that they are of looks too good")


def say_of_start(o: LearningFlags, start: Model | None, model: Model, dev: NBest, held_out: NBest | None) -> None:
    """Warn of what a model to start from had and this one has not, and where lists that choose have taught it."""
    if start is None:
        return
    had = {"decision": bool(ways_to_decide(start.config)), "calibration": CALIBRATION in start.config}
    if dropped := [name for name, is_there in had.items() if is_there and name not in model.config]:
        o.warn(f"--init has a {' and a '.join(dropped)}, which {o.output} has not")
    lists = start.config.get(MADE_FROM, {}).get("lists")
    if held_out is None and "chosen_by" in model.config and lists == dev.digest:
        o.warn("--init was learned from the same list: folds look too good, as they have taught it; give --select")
    elif held_out is not None and lists == held_out.digest:
        o.warn("--init was learned from --select: what is chosen on it looks too good")


def refuse_useless(given: Iterable[str], gain: str, nbest: NBest) -> None:
    """Raise for settings that do nothing with what is learned, or with the features of a list."""
    useless = {} if "bleu" in gain else {"alpha": f"with --gain {gain}: BLEU is what it smooths"}
    if not len(nbest.sparse_names):
        useless |= dict.fromkeys(("sparse_l2", "eta"), "with a list that has no sparse features")
    for name in given:
        if name in useless:
            raise InputError(f"{name.replace('_', '-')} does nothing {useless[name]}; leave it out")


def tuned_on_graphs(
    o: LearningFlags, tuner: Any, dev: NBest, select: NBest | None, run: Run, graphs: GraphOptions
) -> tuple[NBest, Run]:
    """Return the grown list, and the run that goes on from the weights found on the way."""

    def fit(nbest: NBest, before: Model | None, i: int) -> Any:
        return tuner.fit(nbest, select, replace(run, seed=run.seed + i, init=before.weights if before else run.init))

    dev, model = grown(dev, fit, graphs, threads=run.threads, report=o.say)
    return dev, replace(run, init=model.weights)


def fit_on_graphs(o: LearningFlags, dev: NBest, options: GraphOptions) -> Callable[..., list[Model]]:
    """Return what fits MERT on all derivations of the graphs of a list [K09]."""
    graphs = graphs_of(dev, options)
    missing = len(dev) - len(graphs)
    lacking = f"; {counted(missing, 'sentence')} without any, taken for empty lines" if missing else ""
    o.say(f"envelopes over {counted(len(graphs), 'graph')}, {sum(g.n_edges for g in graphs.values()):,} edges{lacking}")
    return lambda tuner, nbest, held_out, runs: [fit_graphs(tuner, nbest, graphs, held_out, run) for run in runs]


# ---------------------------------------------------------------------------------------------------------------------
# tune
# ---------------------------------------------------------------------------------------------------------------------

Fit: TypeAlias = Callable[..., list[Model]]  # of a tuner, the lists, and runs
LEAST_EXPLAINED = 0.5  # of the decoder's scores, by weights that are taken for its own
SPARSE_RATES = ("pro", "adagrad", "arow")  # methods whose alpha smooths BLEU, or whose eta is of sparse features
PICKS = {"auto": "auto", "select": "select", "dev": "train", "last": "last"}


@dataclass(frozen=True, kw_only=True)
class TuneFlags(LearningFlags):
    """Flags of ``tune``."""

    init: str | None = file("Model to start from, or zero [the decoder's weights]", "MODEL")
    method: str = option("pro", f"Tuner: {', '.join(TUNER_OPTIONS)}", choices=TUNER_OPTIONS, metavar="METHOD", group=LEARNING)
    gain: str = option("bleu", "Metric to learn: bleu, chrf, ter, wer or a quality column", group=LEARNING)
    metric: str | None = option(None, "Metric that chooses the epoch; default: that of --gain", group=LEARNING)
    runs: int = option(1, "Runs with different seeds; the best on --select is kept", least=1, group=LEARNING)
    pick: str = option("auto", "Epoch to keep; auto: by --select, or the method's own", choices=PICKS, rare=True)
    groups: str | None = option(None, "TOML file that freezes weights, or scales L1, L2, C, by patterns of names", rare=True)
    of_method: Mapping[str, Any] = methods(TUNER_OPTIONS, defaults={"pro": SAMPLERS["ta13"]})


def tune(o: TuneFlags) -> None:
    """Tune linear weights with a classic method.

    With --init MODEL that has trees, on a list of 'augment', their weights are tuned too.

    \b
    Example:
      boostfeat tune dev.nbest --method kbmira --select select.nbest -o m.json
      boostfeat tune dev.nbest --method mira --set oracle=max-bleu -o mira.json
    """
    tuner = make_tuner(o.method, o.of_method, o.settings)
    if o.pick == "select" and o.select is None:
        raise InputError("--set pick=select: it needs --select LIST")
    start = Model.load(o.init) if o.init and o.init != "zero" else None
    with cluster_of(o) as cluster:
        raw, chosen_by = o.read_lists(cluster, start, is_one_fit=o.method == "pro")
        models, features, run = _tuned(o, tuner, raw, chosen_by, start, cluster)
        nbest, held_out = features.dev, features.select
        result, text, model = _summary(models, run.metric, metric_of(run.metric, nbest).sign)
        if start is not None and start.trees:
            model = replace(folded(model.weights, start), config=model.config, history=model.history)
        made = {MADE_FROM: made_from(raw, chosen_by, None, init=start, templates=o.templates, **o.made_with())}
        model = replace(model, config={**model.config, **made})
        say_of_start(o, start, model, raw, chosen_by)
        model = with_plan(_never_below_order(o, model, nbest, held_out, run.metric), features.plan)
    model.save(o.output)
    o.emit({**result, "output": o.output, "signature": model.signature}, text)
    o.say_written(o.method, o.output)


def _tuned(
    o: TuneFlags, tuner: Any, raw: NBest, chosen_by: NBest | None, start: Model | None, cluster: Any
) -> tuple[list[Model], FeaturedLists, Run]:
    """Return the models of all runs, the lists with their features, and how the tuner was run."""
    with maker_for(o, o.templates or "none", start, cluster) as maker:
        features = chosen_features(raw, chosen_by, recipe_of(gain=o.gain, try_templates=False), o.templates, start, maker)
        check_plan(o, maker, features.plan, start)
    nbest, held_out, plan = features.dev, features.select, features.plan
    if o.method in SPARSE_RATES:
        refuse_useless((*o.of_method, *(text.partition("=")[0] for text in o.settings)), o.gain, nbest)
    run = _run(o, nbest, start)
    fit: Fit | None = None
    if o.graphs.paths and o.method == "mert":
        fit = fit_on_graphs(o, nbest, o.graphs_with(plan))
    elif o.graphs.paths:
        nbest, run = tuned_on_graphs(o, tuner, nbest, held_out, run, o.graphs_with(plan))
    _warn(o, nbest, run)
    again = [replace(run, seed=o.seed + n) for n in range(o.runs)]
    return _fitted(o, fit or _fit_of(cluster), tuner, nbest, held_out, again), replace(features, dev=nbest), run


def _never_below_order(o: TuneFlags, model: Model, nbest: NBest, held_out: NBest | None, metric: str) -> Model:
    """Return the model, or the list's own order where that is better on the select list, or without one on the list itself."""
    judge = nbest if held_out is None else held_out
    if not is_below_own_order(model, judge, metric):
        return model
    kept = in_own_order(judge, model)
    where = "the list itself" if held_out is None else "--select"
    o.warn(f"what was learned is worse on {where} than the list's own order: the model is {kept.config['kept']} alone")
    return kept


def make_tuner(method: str, flags: Mapping[str, Any], settings: Iterable[str] = (), also: Iterable[str] = ()) -> Any:
    """Return a tuner with these options by name, and settings NAME=VALUE; one that it does not have is an error."""
    kind = tuner_class(method)
    options = {o.name: o for o in options_of(kind)}
    for name in flags:
        if name not in options:
            has = ", ".join("--" + name.replace("_", "-") for name in options)
            raise InputError(f"--{name.replace('_', '-')}: {method} has no such option; it has {has}")
    return kind(**{**{options[name].field: value for name, value in flags.items()}, **typed(kind, settings, also, given=flags)})


def _run(o: TuneFlags, nbest: NBest, start: Model | None) -> Run:
    """Return how the tuner is run: from which weights, by which metrics, with what frozen."""
    groups = Groups.load(o.groups) if o.groups else Groups()
    for pattern, _ in groups.rules:
        if not any(fnmatchcase(name, pattern) for name in (*nbest.global_names, *nbest.sparse_names)):
            raise InputError(f"{o.groups}: no feature of the list matches {pattern!r}; see 'boostfeat info {o.stores[0]}'")
    return Run(
        seed=o.seed,
        threads=o.threads,
        init=augmented_weights(start) if start else None if o.init or o.method == "pro" else _decoder_start(o, nbest),
        groups=groups,
        gain=o.gain,
        metric=o.metric or o.gain,
        pick=PICKS[o.pick],
        allow_missing=True,  # check_lists has looked
    )


def _decoder_start(o: TuneFlags, nbest: NBest) -> dict[str, float] | None:
    """Return the decoder's weights, found in its scores: the start matters to all methods but pro, which is convex."""
    found = decoder_weights(nbest)
    if found is None or found[1] < LEAST_EXPLAINED:
        return None
    o.say(f"starts from the decoder's weights, which explain {100 * found[1]:.4g}% of its scores (--init zero: from 0)")
    return found[0]


def _warn(o: TuneFlags, nbest: NBest, run: Run) -> None:
    zeros_matter = o.method != "pro"  # its objective is convex: where it starts does not matter
    for warning in feature_warnings(nbest, Features.of(nbest).start(run.init) if zeros_matter else None):
        o.warn(warning)


def _fit_of(cluster: Any) -> Fit:
    """Return what fits a tuner in several runs: this process, or workers."""
    if cluster is None:
        return lambda tuner, nbest, held_out, runs: [tuner.fit(nbest, held_out, run) for run in runs]
    from ..distributed.cluster_tuning import tune_on

    return partial(tune_on, cluster.workers)


def _fitted(o: TuneFlags, fit: Fit, tuner: Any, nbest: NBest, held_out: NBest | None, runs: Sequence[Run]) -> list[Model]:
    total = getattr(tuner, "epochs", getattr(tuner, "rounds", None))
    with o.progress(f"tuning ({o.method})") as bar:

        def report(row: Mapping[str, Any]) -> None:
            select = f"  select {row['select']:.2f}" if "select" in row else ""
            bar.update(row["epoch"], total, f"dev {row['dev']:.2f}{select}")

        models = fit(tuner, nbest, held_out, [replace(run, callback=report) for run in runs])
    for model in models:
        _say_notes(o, model)
    return models


def _say_notes(o: TuneFlags, model: Model) -> None:
    noted: dict[str, list[int]] = {}  # the epochs of each note: one line for all of them
    for row in model.history:
        if "note" in row:
            noted.setdefault(row["note"], []).append(row["epoch"])
    for note, (first, *more) in noted.items():
        when = f"epoch {first} and {len(more)} more of {len(model.history)}" if more else f"epoch {first}"
        o.warn(f"{when}: {note}")


def _summary(models: list[Model], metric: str, sign: float) -> tuple[dict[str, Any], str, Model]:
    """Return results of all runs, as text too, and the model that is kept: the best on select, else on dev."""
    rows = [next(row for row in model.history if row["epoch"] == model.config["epoch"]) for model in models]
    best = int(np.argmax([sign * row.get("select", row["dev"]) for row in rows]))
    gains = {name: [float(row[name]) for row in rows] for name in ("dev", "select") if name in rows[0]}
    model = models[best]
    sd = {name: float(np.std(values, ddof=1)) if values[1:] else None for name, values in gains.items()}
    result: dict[str, Any] = {
        "method": model.config["method"],
        "metric": metric,
        "epoch": model.config["epoch"],
        "gains": gains,
        "mean": {name: float(np.mean(values)) for name, values in gains.items()},
        "sd": sd,
        "kept": best,
        "history": list(model.history),
    }
    text = _curve(model) if model.history[1:] else ""
    for name, values in gains.items():
        text += f"\n{metric}, {name}: {figure(metric, values[best])}"
        if values[1:]:
            spread = f"{figure(metric, float(np.mean(values)))} +- {figure(metric, sd[name])}"
            mean = f"mean {spread} over {counted(len(values), 'run')}"
            text += f" (run {best + 1}, which is kept; {mean})"
    return result, text.strip("\n"), model


_CURVE = ("epoch", "graphs", "dev", "select", "oracle", "prediction", "spread_mean", "spread_sd", "nonzero", "loss")


def _curve(model: Model, most: int = 30) -> str:
    """Return the history as a table, thinned to at most so many epochs; the chosen one is marked."""
    columns = [name for name in _CURVE if any(name in row for row in model.history)]
    step = max(1, -(-len(model.history) // most))
    kept = [
        row
        for k, row in enumerate(model.history)
        if k % step == 0 or row["epoch"] == model.config["epoch"] or k + 1 == len(model.history)
    ]

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
        return "" if value is None else str(value)

    rows = [[*(cell(row.get(name)) for name in columns), "*" if row["epoch"] == model.config["epoch"] else ""] for row in kept]
    return table(rows, header=[*columns, ""], right=tuple(range(len(columns))))


# ---------------------------------------------------------------------------------------------------------------------
# induce
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InduceGraphs(GraphOptions):
    """Graphs of ``induce``, whose fits take longer."""

    iterations: int = same(GraphOptions, "iterations", 2)


@dataclass(frozen=True, kw_only=True)
class InduceFlags(LearningFlags):
    """Flags of ``induce``."""

    select: str | None = file("Held-out list that chooses; default: cross-validation", "LIST")
    init: str | None = file("Model to start from", "MODEL")
    resume: bool = option(False, "Continue the same command after an interruption", group=FILES)
    recipe: str = option("default", "Preset: default, fast or paper; flags override it", choices=RECIPES, group=LEARNING)
    static_only: bool = option(False, "For an unchanged Moses: --for-decoder, and trees test phrase pairs only", rare=True)
    of_boosting: Mapping[str, Any] = methods({"boosting": BoostOptions}, defaults={"boosting": RECIPES["default"]})
    graphs: GraphOptions = field(default_factory=InduceGraphs)

    def boost_options(self) -> BoostOptions:
        """Return the recipe with what flags and settings change."""
        static = {"for_decoder": True} if self.static_only else {}  # a phrase table has neither lengths nor lists
        return recipe_of(self.recipe, **static, **self.of_boosting)


def induce(o: InduceFlags) -> None:
    """Learn linear weights, then tree features by gradient boosting. Ctrl-C keeps the rounds so far; --resume goes on.

    \b
    Example:
      boostfeat induce dev.nbest more.nbest -o model.json
      boostfeat induce dev.nbest --select select.nbest -o model.json
      boostfeat induce dev.nbest --templates large+sparse -o model.json
    """
    if o.output == "-":
        raise InputError("-o: expected a file name, found '-'; 'boostfeat show' prints a model")
    options = o.boost_options()
    start = Model.load(o.init) if o.init else None
    with cluster_of(o) as cluster:
        _induce(o, options, start, cluster)


def _induce(o: InduceFlags, options: BoostOptions, start: Model | None, cluster: Any) -> None:
    """Learn here or on a cluster, and write the model."""
    partial = _partial(o.output)
    chooses = o.select is None and (options.rule != ALL or is_to_choose(options))
    is_one_fit = not chooses and not (options.try_templates and o.templates is None and start is None)
    dev, held_out = o.read_lists(cluster, start, is_one_fit=is_one_fit, options=options)
    if "gain" not in o.of_boosting and with_gain_of(dev, options) != options:
        options = with_gain_of(dev, options)
        o.say(f"the lists have no references: learning from the quality column {options.gain}")
    so_far = Model.load(partial) if o.resume and partial.exists() else None
    if o.resume and so_far is None and Path(o.output).exists():
        how = {"templates": _templates(o, dev, options, start), "static_only": o.static_only, **o.made_with()}
        made = made_from(dev, held_out, options, init=start, **how)
        with guarded([], []):  # the output is read here, and not replaced
            finished = Model.load(o.output)
        check_made_from(finished.config, made, options, o.seed)
        o.say(f"{o.output} is finished already: nothing to resume")
        return
    if held_out is None and dev.n_repeats:
        o.say(f"{counted(dev.n_repeats, 'sentence')} of {len(dev):,} occur more than once: folds keep copies together")
    model, features = _learned(o, dev, held_out, options, start, so_far, cluster)
    model.save(o.output)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    say_of_start(o, start, model, dev, held_out)
    _tell(o, model, features.dev, features.select, options)


def _say_features(o: InduceFlags, features: FeaturedLists, options: BoostOptions) -> None:
    """Say which templates were chosen, and warn of features that cannot be learned with."""
    if why := features.why.get("templates"):
        gain = f"{_gain(options, why['gain'], why['error'])} {options.metric} in a quick comparison, by {why['by']}"
        o.say(f"templates: {why['chosen']} ({why['tried']}: {gain})")
    for warning in (*range_warnings(features.dev).values(), *filter(None, [lost_ranking(features.dev)])):
        o.warn(warning)


def _gain(options: BoostOptions, gain: float, error: float) -> str:
    return f"{figure(options.metric, gain, '+')} ± {figure(options.metric, error)}"


def _tell(o: InduceFlags, model: Model, dev: NBest, held_out: NBest | None, options: BoostOptions) -> None:
    """Print what the model scores, and say what was chosen and why."""
    try:
        _show(o, model, dev, held_out, options)
    except KeyboardInterrupt as error:
        error.args = (f"{o.output} is whole; what it scores was not shown",)
        raise
    if not model.trees and not any(model.weights.values()):
        o.warn("nothing was learned: hypotheses of the same list have the same features, or are equally good")
    by = "--select" if held_out is not None else "folds"
    if kept := model.config.get("kept"):
        o.warn(f"what was learned is worse on {by} than the list's own order: the model is {kept} alone")
    if penalties := model.config.get("penalties"):
        o.say(f"sparse-l2 {model.config['sparse_l2']:g}: {penalties['rule']}, by {by}")
    if (why := model.config.get("tree_count")) and not model.config.get("kept"):
        gain = f"{_gain(options, why['gain'], why['gain_error'])} {options.metric} over none"
        best = f"; the best number is {why['best']}, {_gain(options, why['best_gain'], why['best_error'])}"
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
        raise InputError("--set static-only: expected a list with static features, found none; see 'boostfeat info'")
    return allowed


def _grown(o: InduceFlags, features: FeaturedLists, options: BoostOptions, start: Model | None) -> NBest:
    """Return the list with k-best lists of search graphs under models of its own; each starts anew, so that no tree stays
    that only an old list asked for.
    """

    def boosting(nbest: NBest, before: Model | None, i: int) -> Model:
        return induce_on(FeaturedLists(nbest, features.select), options, seed=o.seed + i, threads=o.threads, init=start)

    return grown(features.dev, boosting, o.graphs_with(features.plan), threads=o.threads, report=o.say)[0]


def _learned(
    o: InduceFlags,
    dev: NBest,
    held_out: NBest | None,
    options: BoostOptions,
    start: Model | None,
    so_far: Model | None,
    cluster: Cluster | None,
) -> tuple[Model, FeaturedLists]:
    """Return the model, and the lists with its features. Rounds are kept as they come; where it is interrupted, that is said."""
    latest: list[Model] = [so_far] if so_far else []
    partial, not_before = _partial(o.output), -inf
    features: FeaturedLists | None = None
    templates = _templates(o, dev, options, start)
    with maker_for(o, templates, start, cluster) as maker, o.progress(f"boosting ({options.level})") as bar:

        def featured(lists: FeaturedLists, options: BoostOptions) -> tuple[FeaturedLists, BoostOptions]:
            nonlocal features
            check_plan(o, maker, lists.plan, start)
            refuse_useless((name for name, value in o.of_boosting.items() if value != AUTO), options.gain, lists.dev)
            _say_features(o, lists, options)
            features = replace(lists, dev=learnable(lists.dev), select=lists.select and learnable(lists.select))
            if o.static_only or options.tree_features:
                names = _tree_features(features.dev, options.tree_features, static_only=o.static_only)
                options = replace(options, tree_features=names)
            if o.graphs.paths:
                features = replace(features, dev=_grown(o, features, options, start))
            return features, options

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
            how: dict[str, Any] = {"callback": report, "tell": choosing, "featured": featured, "cluster": cluster}
            how |= {"seed": o.seed, "threads": o.threads, "static_only": o.static_only, "maker": maker}
            how |= {"made_with": o.made_with()}
            model = learner(dev, held_out, options, templates=templates, init=start, so_far=so_far, **how)
        except KeyboardInterrupt as error:
            if features is not None and latest:
                latest[0].save(partial)
                with_plan(kept_rounds(latest[0], len(start.trees) if start else 0), features.plan).save(o.output)
                done = latest[0].history[-1]["round"]
                error.args = (f"after round {done}, {o.output} holds the best so far; go on with --resume",)
            raise
        except InputError:
            if latest:  # the cluster is gone: not all rounds were saved
                latest[0].save(partial)
            raise
    assert features is not None
    return model, features


def _templates(o: InduceFlags, dev: NBest, options: BoostOptions, start: Model | None) -> str | None:
    """Return the templates that are asked for; graphs have none that lists alone would try."""
    if o.templates is not None or not (o.graphs.paths or start) or (start and start.plan):
        return o.templates
    if options.try_templates and (fitting := fitting_templates(dev)):
        how = "name them with --templates" if start else "featurize the list beforehand"
        o.say(f"templates: none, where lists alone would try {fitting}; {how}")
    return "none"


def _show(o: InduceFlags, model: Model, dev: NBest, select: NBest | None, options: BoostOptions) -> None:
    """Print loss and metric of the linear start and of the model."""
    lists = {"dev": dev, **({} if select is None else {"select": select})}
    predict = partial(model.predict, threads=o.threads)
    final = {name: scored(nbest, predict, options.metric) for name, nbest in lists.items()}
    if o.as_json:
        about = {"output": o.output, "signature": model.signature, "trees": len(model.trees)}
        about |= {"waterfall": model.config["waterfall"]} if "waterfall" in model.config else {}
        o.emit({**about, **final, "history": model.history})
        return
    first, last = model.history[0], model.history[model.config["best_round"]]
    rows = [["loss", f"{first['loss']:.4f}", f"{last['loss']:.4f}"]]
    rows += [[name, figure(options.metric, first[name]), figure(options.metric, gain)] for name, gain in final.items()]
    o.emit(None, table(rows, header=[f"{options.metric}, {options.level}", "linear", counted(len(model.trees), "tree")]))
    if steps := waterfall_lines(model.config):
        by = "--select" if select is not None else "folds"
        o.emit(None, table(steps, header=[f"{options.metric} by {by}", "score", "gain"]))
