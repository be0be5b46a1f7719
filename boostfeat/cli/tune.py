"""The command that runs the tuners."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.machine import seconds_since
from ..core.options import describe, named, options_of, typed
from ..core.text_table import table
from ..features.options import ResourceFiles
from ..search.loop.loop_options import GraphOptions
from ..tuners.tuner_options import TUNER_OPTIONS
from .carried import Templates, learn_features
from .common import FILES, LEARNING, AllowMissing, Settings, Store, check_lists, emit, progress, say
from .engine import EngineOptions, cluster_of, source_of
from .flags import Given, add
from .graphs import Graphs, RareCoreNames, core_names, fit_on_graphs, tuned_on_graphs

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..lists.nbest import NBest
    from ..model.model import Model
    from ..tuners.base import Run

    Fit: TypeAlias = Callable[..., Model]

LEAST_EXPLAINED = 0.5  # of the decoder's scores, by weights that are taken for its own
PICKS = {"auto": "auto", "select": "select", "dev": "train", "train": "train", "last": "last"}


def register(app: typer.Typer) -> None:
    add(app, tune, more=methods)


def methods() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for method, options in TUNER_OPTIONS.items():
        yield f"{method} (--set NAME=VALUE, or the name as a flag)", describe(options)


def tune(
    store: Store,
    *,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="MODEL", help="The model to write.", rich_help_panel=FILES)
    ] = None,
    select: Annotated[
        str | None,
        typer.Option("--select", metavar="LIST", help="A held-out list that chooses the epoch.", rich_help_panel=FILES),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option("--init", metavar="MODEL", help="A start [the decoder's weights], or zero", rich_help_panel=FILES),
    ] = None,
    allow_missing: AllowMissing = False,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="TOML",
            help="Freezes weights or scales L1, L2, C by name pattern.",
            rich_help_panel=FILES,
            hidden=True,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="Or mert, mira, kbmira, rm, adagrad, rampion, arow", rich_help_panel=LEARNING)
    ] = "pro",
    settings: Settings = None,
    gain: Annotated[
        str,
        typer.Option("--gain", help="What is learnt, or chrf, ter, wer, a column", rich_help_panel=LEARNING),
    ] = "bleu",
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Chooses epochs; default: that of the gain", rich_help_panel=LEARNING),
    ] = None,
    pick: Annotated[
        str,
        typer.Option("--pick", help="Epoch: auto (select or own), select, dev, last", rich_help_panel=LEARNING),
    ] = "auto",
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="Of other seeds; the best on select is kept", rich_help_panel=LEARNING)
    ] = 1,
    strategy_grid: Annotated[
        bool,
        typer.Option(
            "--strategy-grid", help="mira: all oracles x predictions, with curves.", rich_help_panel=LEARNING, hidden=True
        ),
    ] = False,
    given: Annotated[Mapping[str, Any], Given(TUNER_OPTIONS)],
    templates: Templates = None,
    files: ResourceFiles,
    graphs: Graphs = None,
    taken: GraphOptions,
    names: RareCoreNames = None,
    where: EngineOptions,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Tune linear weights with a classic method.

    With --init MODEL that has trees, on a list of 'augment', their weights are tuned too. On a cluster, workers mix theirs after
    each epoch.

    \b
    Example:
      boostfeat tune dev.nbest --method kbmira --select select.nbest -o m.json
      boostfeat tune dev.nbest --method mira --set oracle=max-bleu -o mira.json
    """
    from ..core.errors import InputError
    from ..features.carried import carrying
    from ..lists.store import read_store
    from ..metrics.metric import metric_of
    from ..model.model import Model
    from ..model.tree_columns import augmented_weights, folded
    from ..tuners.base import Groups, Run

    started = time.monotonic()
    if not where.is_dask and where.workers:  # before --set under_way had its name
        given, where = {**given, "workers": where.workers}, replace(where, workers=None)
    where.refuse(graphs=graphs, strategy_grid=strategy_grid, templates=templates)
    tuner = make_tuner(method, given, settings or ())
    _check(output, pick, method, tuner, where, strategy_grid=strategy_grid)
    source = source_of(store) if where.is_dask else None
    start = Model.load(init) if init and init != "zero" else None
    nbest = read_store(store)
    held_out = read_store(select) if select else None
    check_lists({"LIST": nbest, "--select": held_out}, allow_missing=allow_missing, quiet=quiet)
    if templates not in (None, "none") and taken.vocab:
        raise InputError(f"--vocab {taken.vocab}: expected none with --templates, found both; leave one out")
    how: dict[str, Any] = {"gain": gain, "seed": seed, "threads": threads, "quiet": quiet}
    nbest, held_out, plan = learn_features(nbest, held_out, templates, start, files, **how)
    run = Run(
        seed=seed,
        threads=threads,
        init=augmented_weights(start) if start else None if init or method == "pro" else _decoder_start(nbest, quiet=quiet),
        groups=Groups.load(groups) if groups else Groups(),
        gain=gain,
        metric=metric or gain,
        pick=PICKS[pick],
        allow_missing=True,  # check_lists has looked
    )
    fit_graphs: Fit | None = None
    if graphs:
        taken = replace(taken, paths=tuple(graphs), names=core_names(names), plan=plan)
        if method == "mert":
            fit_graphs = fit_on_graphs(nbest, taken, quiet=quiet)
        else:
            nbest, run = tuned_on_graphs(tuner, nbest, held_out, run, taken, quiet=quiet)
    _warn(nbest if not where.is_dask else nbest[:0], run, method, quiet=quiet)  # the driver of a cluster looks at names only
    if strategy_grid:
        result, text, model = _grid(tuner, nbest, held_out, run, quiet=quiet)
    else:
        with _fitting(source, where, threads=threads, quiet=quiet) as fit:
            again = [replace(run, seed=seed + n) for n in range(runs)]
            models = [_one_run(fit_graphs or fit, tuner, method, nbest, held_out, one, quiet=quiet) for one in again]
        result, text, model = _summary(models, run.metric, metric_of(run.metric, nbest).sign)
    if start is not None and start.trees:
        model = replace(folded(model.weights, start), config=model.config, history=model.history)
    model = carrying(model, plan)
    if output is not None:
        model.save(output)
    emit({**result, "output": output, "signature": model.signature}, text, as_json=as_json)
    say(f"{method} -> {output or 'no file'} in {seconds_since(started):.1f} s", quiet=quiet)


def make_tuner(method: str, given: Mapping[str, Any], settings: Iterable[str] = ()) -> Any:
    """A tuner with these options by name, and settings NAME=VALUE; one that it does not have is an error that lists its own."""
    from ..core.errors import InputError
    from ..tuners import tuner_class

    kind = tuner_class(method)
    known = named(kind)
    for name in given:
        if name not in known:
            own = ", ".join("--" + o.name.replace("_", "-") for o in options_of(kind))
            raise InputError(f"--{name.replace('_', '-')}: {method} has no such option; it has {own}")
    return kind(**{**{known[name].field: value for name, value in given.items()}, **typed(kind, settings)})


def _check(output: str | None, pick: str, method: str, tuner: Any, where: EngineOptions, *, strategy_grid: bool) -> None:
    """Raise for what does not go together, before anything is read."""
    from ..core.errors import InputError
    from ..core.files import is_writable_target

    if where.is_dask:
        from ..distributed.mixing import check_tuner

        check_tuner(tuner, method)
    if output is None and not strategy_grid:
        raise InputError("-o: expected a model file to write, found none; give -o MODEL.json")
    if output is not None:
        is_writable_target(output)
    if pick not in PICKS:
        raise InputError(f"--pick: expected auto, select, train or last, found {pick!r}")
    if strategy_grid and method != "mira":
        raise InputError(f"--strategy-grid: expected --method mira, found {method}")


def _decoder_start(nbest: NBest, *, quiet: bool) -> dict[str, float] | None:
    """The decoder's weights, found in its scores: where a search begins matters to all methods but pro, which is convex."""
    from ..tuners.base import decoder_weights

    found = decoder_weights(nbest)
    if found is None or found[1] < LEAST_EXPLAINED:
        return None
    say(
        f"starts from the decoder's weights, which explain {100 * found[1]:.4g}% of its scores (--init zero: from 0)", quiet=quiet
    )
    return found[0]


def _warn(nbest: NBest, run: Run, method: str, *, quiet: bool) -> None:
    from ..tuners.base import Features, feature_warnings

    features = Features.of(nbest)
    zeros_matter = method != "pro"  # its objective is convex: where it starts does not matter
    for warning in feature_warnings(features, nbest, features.start(run.init) if zeros_matter else None):
        say(f"warning: {warning}", quiet=quiet)


@contextlib.contextmanager
def _fitting(source: Any, where: EngineOptions, *, threads: int, quiet: bool) -> Iterator[Fit]:
    """What fits a tuner: this process, or a cluster."""
    if source is None:
        yield _fit_here
        return
    from ..distributed.mixing import tune_on

    with cluster_of(where, threads=threads, quiet=quiet) as cluster:
        yield partial(tune_on, cluster, source, say=lambda what: say(what, quiet=False))


def _fit_here(tuner: Any, nbest: NBest, held_out: NBest | None, run: Run) -> Model:
    model: Model = tuner.fit(nbest, held_out, run)
    return model


def _one_run(fit: Fit, tuner: Any, method: str, nbest: NBest, held_out: NBest | None, run: Run, *, quiet: bool) -> Model:
    model = _fitted(fit, tuner, method, nbest, held_out, run, quiet=quiet)
    return _beside_mira(fit, model, tuner, nbest, run, quiet=quiet) if method == "rm" else model


def _fitted(fit: Fit, tuner: Any, method: str, nbest: NBest, held_out: NBest | None, run: Run, *, quiet: bool) -> Model:
    total = getattr(tuner, "epochs", getattr(tuner, "rounds", None))
    with progress(f"tuning ({method})", quiet=quiet) as bar:

        def report(row: Mapping[str, Any]) -> None:
            bar.update(row["epoch"], total, _gains(row))

        model = fit(tuner, nbest, held_out, replace(run, callback=report))
    noted: dict[str, list[int]] = {}  # the epochs of each note: one line for all of them
    for row in model.history:
        if "note" in row:
            noted.setdefault(row["note"], []).append(row["epoch"])
    for note, (first, *more) in noted.items():
        when = f"epoch {first} and {len(more)} more of {len(model.history)}" if more else f"epoch {first}"
        say(f"warning: {when}: {note}", quiet=quiet)
    return model


def _beside_mira(fit: Fit, model: Model, tuner: Any, nbest: NBest, run: Run, *, quiet: bool) -> Model:
    """The model with the spread of MIRA under the same options in its history: what the bound is there to lower [EMR13]."""
    from ..tuners import tuner_class

    mira = tuner_class("mira")
    same = mira(**{o.field: getattr(tuner, o.field) for o in options_of(mira)})
    rows = _fitted(fit, same, "mira, for its spread", nbest, None, replace(run, pick="last"), quiet=quiet).history
    beside = {row["epoch"]: {f"mira_{name}": row[name] for name in ("spread_mean", "spread_sd")} for row in rows}
    return replace(model, history=tuple({**row, **beside.get(row["epoch"], {})} for row in model.history))


def _gains(row: Mapping[str, Any]) -> str:
    return f"dev {row['dev']:.2f}" + (f"  select {row['select']:.2f}" if "select" in row else "")


def _chosen(model: Model) -> Mapping[str, Any]:
    return next(row for row in model.history if row["epoch"] == model.config["epoch"])


def _summary(models: list[Model], metric: str, sign: float) -> tuple[dict[str, Any], str, Model]:
    """Results of all runs; the model kept is the best on select, else the first."""
    import numpy as np

    rows = [_chosen(model) for model in models]
    best = int(np.argmax([sign * row.get("select", 0.0) for row in rows]))
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
        "history": list(model.history),
    }
    text = _curve(model) if model.history[1:] else ""
    for name, values in gains.items():
        text += f"\n{metric}, {name}: {np.mean(values):.2f}" + (
            f" +- {sd[name]:.2f} over {counted(len(values), 'run')}" if sd[name] is not None else ""
        )
    return result, text.strip("\n"), model


_SPREADS = ("spread_mean", "spread_sd", "mira_spread_mean", "mira_spread_sd")
_CURVE = ("epoch", "graphs", "dev", "select", "oracle", "prediction", *_SPREADS, "nonzero", "loss")


def _curve(model: Model, most: int = 30) -> str:
    """The history as a table, thinned to at most so many epochs; the chosen one is marked."""
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


def _grid(tuner: Any, nbest: NBest, held_out: NBest | None, run: Run, *, quiet: bool) -> tuple[dict[str, Any], str, Model]:
    """[E12] Tables 3-4 and Figures 1-6 in our own numbers: every oracle with every prediction, BLEU per epoch."""
    from ..metrics.metric import metric_of
    from ..tuners.mira import strategy_grid

    with progress("strategies", quiet=quiet) as bar:
        seen: list[str] = []

        def report(row: Mapping[str, Any]) -> None:
            if row.get("strategy") not in seen:
                seen.append(str(row.get("strategy")))
            bar.update(len(seen) - 1 + row["epoch"] / tuner.epochs, 9, f"{row.get('strategy')}  {_gains(row)}")

        strategies = strategy_grid(nbest, held_out, tuner, replace(run, callback=report))
    key = "select" if held_out is not None else "dev"
    predictions = list(dict.fromkeys(s.prediction for s in strategies))
    found = {(s.oracle, s.prediction): s.model for s in strategies}
    rows = []
    for oracle in dict.fromkeys(s.oracle for s in strategies):
        models = [found[oracle, p] for p in predictions]
        rows.append([oracle, *(f"{_chosen(m)[key]:.2f} / {m.history[-1][key]:.2f}" for m in models)])
    lines = [f"{run.metric} on {key}, chosen epoch / last epoch", table(rows, header=["oracle \\ prediction", *predictions]), ""]
    first: dict[tuple[tuple[str, float], ...], str] = {}
    for s in strategies:
        name = f"{s.oracle}/{s.prediction}"
        if (other := first.setdefault(tuple(s.model.weights.items()), name)) != name:
            lines.append(f"{name} and {other} are one run: no list has more than k hypotheses")
    lines.append("curves: dev per epoch, between the prediction's and the oracle's, all under the weights of that epoch")
    for s in strategies:
        lines += ["", f"{s.oracle} / {s.prediction}   {sparkline([row['dev'] for row in s.model.history])}"]
        for name in ("oracle", "dev", "prediction", *(["select"] if held_out is not None else [])):
            lines.append(f"  {name:<10} " + " ".join(f"{row[name]:6.2f}" for row in s.model.history))
    sign = metric_of(run.metric, nbest).sign
    best = max(strategies, key=lambda s: sign * float(_chosen(s.model)[key]))
    result = {
        "strategies": [{"oracle": s.oracle, "prediction": s.prediction, "history": list(s.model.history)} for s in strategies]
    }
    return result, "\n".join(lines), best.model


def sparkline(values: list[float]) -> str:
    """A curve in one line of text."""
    low, high = min(values), max(values)
    marks = "▁▂▃▄▅▆▇█"
    return "".join(marks[int((v - low) / (high - low) * 7)] if high > low else marks[0] for v in values)
