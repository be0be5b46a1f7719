"""The command that runs the tuners."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..boosting.options import recipe
from ..core.errors import InputError, counted
from ..core.files import is_writable_target
from ..core.options import REQUIRED, methods, option, options_of, typed
from ..features.feature_maker import with_plan
from ..lists.nbest import NBest
from ..metrics.metric import metric_of
from ..model.model import Model
from ..model.own_order import in_own_order, is_below_own_order
from ..model.tree_columns import augmented_weights, folded
from ..tuners import tuner_class
from ..tuners.base import Features, Groups, Run, decoder_weights, feature_warnings
from ..tuners.tuner_options import TUNER_OPTIONS
from .console import FILES, LEARNING, table
from .learning import LearningFlags, cluster_of, fit_on_graphs, lists_with_features, say_to_all, tuned_on_graphs

Fit: TypeAlias = Callable[..., Model]
LEAST_EXPLAINED = 0.5  # of the decoder's scores, by weights that are taken for its own
PICKS = {"auto": "auto", "select": "select", "dev": "train", "last": "last"}


@dataclass(frozen=True, kw_only=True)
class Tune(LearningFlags):
    """Flags of ``tune``."""

    output: str = option(REQUIRED, "The model to write", short="o", metavar="MODEL", group=FILES)
    init: str | None = option(None, "A start [the decoder's weights], or zero", metavar="MODEL", group=FILES)
    method: str = option(
        "pro", "Or mert, mira, kbmira, rm, adagrad, rampion, arow", choices=TUNER_OPTIONS, metavar="METHOD", group=LEARNING
    )
    gain: str = option("bleu", "What is learnt, or chrf, ter, wer, a column", group=LEARNING)
    metric: str | None = option(None, "Chooses epochs; default: that of the gain", group=LEARNING)
    runs: int = option(1, "Runs with other seeds; the best on select is kept", least=1, group=LEARNING)
    pick: str = option("auto", "Epoch kept: auto (by select, or the method's own), select, dev, last", choices=PICKS, rare=True)
    groups: str | None = option(None, "TOML file that freezes weights or scales L1, L2, C by name pattern", rare=True)
    of_method: Mapping[str, Any] = methods(TUNER_OPTIONS)


def tune(o: Tune) -> None:
    """Tune linear weights with a classic method.

    With --init MODEL that has trees, on a list of 'augment', their weights are tuned too. On a cluster, workers mix theirs after
    each epoch.

    \b
    Example:
      boostfeat tune dev.nbest --method kbmira --select select.nbest -o m.json
      boostfeat tune dev.nbest --method mira --set oracle=max-bleu -o mira.json
    """
    tuner = make_tuner(o.method, o.of_method, o.settings)
    _check(o, tuner)
    start = Model.load(o.init) if o.init and o.init != "zero" else None
    nbest, held_out = o.read_lists()
    features = lists_with_features(o, nbest, held_out, recipe(gain=o.gain), o.templates or "none", start)
    nbest, held_out, plan = features.dev, features.select, features.plan
    run = _run(o, nbest, start)
    fit: Fit | None = None
    if o.graphs.paths and o.method == "mert":
        fit = fit_on_graphs(o, nbest, o.graphs_with(plan))
    elif o.graphs.paths:
        nbest, run = tuned_on_graphs(o, tuner, nbest, held_out, run, o.graphs_with(plan))
    _warn(o, nbest if not o.is_dask else nbest[:0], run)  # the driver of a cluster looks at names only
    with _fitting(o) as fit_here:
        again = [replace(run, seed=o.seed + n) for n in range(o.runs)]
        models = [_fitted(o, fit or fit_here, tuner, nbest, held_out, one) for one in again]
    result, text, model = _summary(models, run.metric, metric_of(run.metric, nbest).sign)
    if start is not None and start.trees:
        model = replace(folded(model.weights, start), config=model.config, history=model.history)
    model = with_plan(_never_below_order(o, model, nbest, held_out, run.metric), plan)
    model.save(o.output)
    o.emit({**result, "output": o.output, "signature": model.signature}, text)
    o.say_written(o.method, o.output)


def _never_below_order(o: Tune, model: Model, nbest: NBest, held_out: NBest | None, metric: str) -> Model:
    """Return the model, or the list's own order where that is better on the select list, or without one on the list itself."""
    judge = nbest if held_out is None else held_out
    if o.is_dask or not is_below_own_order(model, judge, metric):  # the driver of a cluster looks at names only
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
    return kind(**{**{options[name].field: value for name, value in flags.items()}, **typed(kind, settings, also)})


def _check(o: Tune, tuner: Any) -> None:
    """Raise for what does not go together, before anything is read."""
    o.check_together()
    if o.is_dask:
        from ..distributed.mixing import check_tuner

        check_tuner(tuner, o.method)
    is_writable_target(o.output)
    if o.pick == "select" and o.select is None:
        raise InputError("--set pick=select: it needs --select LIST")


def _run(o: Tune, nbest: NBest, start: Model | None) -> Run:
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


def _decoder_start(o: Tune, nbest: NBest) -> dict[str, float] | None:
    """Return the decoder's weights, found in its scores: the start matters to all methods but pro, which is convex."""
    found = decoder_weights(nbest)
    if found is None or found[1] < LEAST_EXPLAINED:
        return None
    o.say(f"starts from the decoder's weights, which explain {100 * found[1]:.4g}% of its scores (--init zero: from 0)")
    return found[0]


def _warn(o: Tune, nbest: NBest, run: Run) -> None:
    features = Features.of(nbest)
    zeros_matter = o.method != "pro"  # its objective is convex: where it starts does not matter
    for warning in feature_warnings(features, nbest, features.start(run.init) if zeros_matter else None):
        o.warn(warning)


@contextlib.contextmanager
def _fitting(o: Tune) -> Iterator[Fit]:
    """Give what fits a tuner: this process, or a cluster."""
    if not o.is_dask:
        yield lambda tuner, nbest, held_out, run: tuner.fit(nbest, held_out, run)
        return
    from ..distributed.mixing import tune_on
    from ..distributed.worker_data import Source

    source = Source.of(o.stores[0])
    with cluster_of(o) as cluster:
        yield partial(tune_on, cluster, source, say=say_to_all(o))


def _fitted(o: Tune, fit: Fit, tuner: Any, nbest: NBest, held_out: NBest | None, run: Run) -> Model:
    total = getattr(tuner, "epochs", getattr(tuner, "rounds", None))
    with o.progress(f"tuning ({o.method})") as bar:

        def report(row: Mapping[str, Any]) -> None:
            bar.update(row["epoch"], total, _gains(row))

        model = fit(tuner, nbest, held_out, replace(run, callback=report))
    noted: dict[str, list[int]] = {}  # the epochs of each note: one line for all of them
    for row in model.history:
        if "note" in row:
            noted.setdefault(row["note"], []).append(row["epoch"])
    for note, (first, *more) in noted.items():
        when = f"epoch {first} and {len(more)} more of {len(model.history)}" if more else f"epoch {first}"
        o.warn(f"{when}: {note}")
    return model


def _gains(row: Mapping[str, Any]) -> str:
    return f"dev {row['dev']:.2f}" + (f"  select {row['select']:.2f}" if "select" in row else "")


def _chosen(model: Model) -> Mapping[str, Any]:
    return next(row for row in model.history if row["epoch"] == model.config["epoch"])


def _summary(models: list[Model], metric: str, sign: float) -> tuple[dict[str, Any], str, Model]:
    """Return results of all runs, as text too, and the model that is kept: the best on select, else on dev."""
    rows = [_chosen(model) for model in models]
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
        text += f"\n{metric}, {name}: {values[best]:.2f}"
        if values[1:]:
            mean = f"mean {np.mean(values):.2f} +- {sd[name]:.2f} over {counted(len(values), 'run')}"
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
