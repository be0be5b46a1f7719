"""The command that runs the tuners."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.text_table import table
from .common import ALL_CORES, AsJson, Quiet, Seed, Threads, emit, progress, say
from .engine import Engine, Scheduler, Timeout, fleet_of, on_cluster, source_of
from .graphs import GraphIterations, GraphNames, Graphs, GraphSize, GraphVocab, graph_options, tuned_on_graphs
from .induce import Init, Select
from .lists import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from ..lists.nbest import NBest
    from ..model.model import Model
    from ..tuners.base import Run

    Fit: TypeAlias = Callable[..., Model]


def register(app: typer.Typer) -> None:
    app.command()(tune)


def _option(flag: str, kind: Any, help: str, **more: Any) -> Any:
    return Annotated[kind | None, typer.Option(flag, help=help, show_default=False, **more)]


def tune(
    store: Store,
    method: Annotated[str, typer.Option("--method", help="pro, mert, mira, kbmira, rm, adagrad, rampion or arow.")] = "pro",
    output: Annotated[str | None, typer.Option("-o", "--output", help="The model file to write.", show_default=False)] = None,
    select: Select = None,
    init: Init = None,
    metric: Annotated[
        str, typer.Option("--metric", help="What epochs are chosen by (and MERT climbs): bleu, bleu-sbp or chrf.")
    ] = "bleu",
    pick: Annotated[
        str, typer.Option("--pick", help="Epoch: auto (best on --select, else the method's own), select, train or last.")
    ] = "auto",
    groups: Annotated[
        str | None, typer.Option("--groups", help="A TOML file that freezes weights or scales L1, L2, C by name pattern.")
    ] = None,
    runs: Annotated[
        int,
        typer.Option("--runs", min=1, help="Repeat with other seeds: mean and sd; the best on --select, or the first, is kept."),
    ] = 1,
    graphs: Graphs = None,
    graph_iterations: GraphIterations = 5,
    graph_size: GraphSize = 100,
    graph_names: GraphNames = None,
    graph_vocab: GraphVocab = None,
    strategy_grid: Annotated[bool, typer.Option("--strategy-grid", help="mira: all oracles x predictions, with curves.")] = False,
    epochs: _option("--epochs", int, "Passes over the list.", min=1) = None,  # type: ignore[valid-type]
    rounds: _option("--rounds", int, "pro: fits that are averaged; mert: rounds of starts.", min=1) = None,  # type: ignore[valid-type]
    c: _option("--c", float, "mira, rm, kbmira, rampion, arow: largest step, or pull to the start (C).") = None,  # type: ignore[valid-type]
    k: _option("--k", int, "mira, rm: of the model's best that local update looks at (k).", min=1) = None,  # type: ignore[valid-type]
    oracle: _option("--oracle", str, "mira, rm: lu, hope or max-bleu.") = None,  # type: ignore[valid-type]
    prediction: _option("--prediction", str, "mira, rm: pb, mc or fear.") = None,  # type: ignore[valid-type]
    average: Annotated[
        bool | None, typer.Option("--average/--last", help="mira, rm: averaged or last weights.", show_default=False)
    ] = None,
    shards: _option("--shards", int, "mira, rm: learners mixed after each epoch (n).", min=1) = None,  # type: ignore[valid-type]
    context_scale: _option("--context-scale", float, "mira, rm: scale of BLEU in context.") = None,  # type: ignore[valid-type]
    b: _option("--b", float, "rm: bound of the spread (B).") = None,  # type: ignore[valid-type]
    d: _option("--d", float, "rm: largest bound step (D).") = None,  # type: ignore[valid-type]
    solver: _option("--solver", str, "rm: pa or cp.") = None,  # type: ignore[valid-type]
    max_iter: _option("--max-iter", int, "rm: cutting planes (MaxIter); pro: L-BFGS iterations.", min=1) = None,  # type: ignore[valid-type]
    decay: _option("--decay", float, "kbmira: of the background corpus.") = None,  # type: ignore[valid-type]
    background: _option("--background", str, "kbmira: what enters the background, hope or model.") = None,  # type: ignore[valid-type]
    shuffle: Annotated[
        bool | None, typer.Option("--shuffle/--no-shuffle", help="kbmira: a new order each epoch.", show_default=False)
    ] = None,
    passes: _option("--passes", int, "rampion: over the sentences an epoch (T'').", min=1) = None,  # type: ignore[valid-type]
    alpha: _option("--alpha", float, "rampion: scale of the cost; pro: smoothing of sentence BLEU.") = None,  # type: ignore[valid-type]
    eta: _option("--eta", float, "adagrad, arow, rampion: learning rate (eta).") = None,  # type: ignore[valid-type]
    dense_eta: _option("--dense-eta", float, "adagrad, arow: learning rate of dense features.") = None,  # type: ignore[valid-type]
    standardise: Annotated[
        bool | None, typer.Option("--standardise/--raw", help="adagrad, arow: scale dense features.", show_default=False)
    ] = None,
    l1: _option("--l1", float, "adagrad, arow: L1 penalty (lambda).") = None,  # type: ignore[valid-type]
    l2: _option("--l2", float, "pro: L2 penalty.") = None,  # type: ignore[valid-type]
    loss: _option("--loss", str, "adagrad, arow: logistic or hinge.") = None,  # type: ignore[valid-type]
    pairs: _option("--pairs", int, "adagrad, arow: pairs a sentence (s).", min=1) = None,  # type: ignore[valid-type]
    batch: _option("--batch", int, "adagrad, arow: sentences a mini-batch.", min=1) = None,  # type: ignore[valid-type]
    workers: _option("--workers", int, "Of --engine dask; else adagrad, arow: stale gradients of so many.", min=1) = None,  # type: ignore[valid-type]
    asynchronous: Annotated[
        bool | None, typer.Option("--async", help="adagrad, arow: real threads, not reproducible.", show_default=False)
    ] = None,
    variant: _option("--variant", str, "arow: linear or exact.") = None,  # type: ignore[valid-type]
    variance: _option("--variance", float, "arow: of the weights to start with.") = None,  # type: ignore[valid-type]
    r: _option("--r", float, "arow: the higher, the slower variances fall.") = None,  # type: ignore[valid-type]
    sampler: _option("--sampler", str, "pro: ta13 or hm11.") = None,  # type: ignore[valid-type]
    draws: _option("--draws", int, "pro, adagrad, arow: pairs drawn a sentence (Gamma).", min=1) = None,  # type: ignore[valid-type]
    threshold: _option("--threshold", float, "pro, adagrad, arow: least BLEU difference of a pair.") = None,  # type: ignore[valid-type]
    keep: _option("--keep", int, "pro: pairs kept a sentence (Xi).", min=1) = None,  # type: ignore[valid-type]
    restarts: _option("--restarts", int, "mert: random starts.", min=0) = None,  # type: ignore[valid-type]
    shakes: _option("--shakes", int, "mert: starts of each further round.", min=0) = None,  # type: ignore[valid-type]
    shake: _option("--shake", float, "mert: length of their random step.") = None,  # type: ignore[valid-type]
    directions: _option("--directions", int, "mert: random lines tried.", min=0) = None,  # type: ignore[valid-type]
    tol: _option("--tol", float, "mert: least gain; pro: of the gradient.") = None,  # type: ignore[valid-type]
    max_features: _option("--max-features", int, "mert: refuse to tune more.", min=1) = None,  # type: ignore[valid-type]
    engine: Engine = "local",
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tune linear weights with a classic method. An option that the method does not have is an error.

    With --init MODEL that has trees, on a list made by 'augment', the trees' weights are tuned too. With --graphs the list grows
    by fresh k-best lists of search graphs, under the weights so far, as it would by decoding again. With --engine dask pro gives
    the same weights; mira, rm and adagrad mix the weights of the workers after each epoch, which is another algorithm.

    \b
    Example:
      boostfeat tune dev.nbest --method kbmira --select select.nbest -o kbmira.json
    """
    given = {name: value for name, value in locals().items() if name in _METHOD_OPTIONS and value is not None}
    from ..core.errors import InputError
    from ..core.files import is_writable_target
    from ..lists.store import read_store
    from ..model.model import Model
    from ..model.tree_columns import augmented_weights, folded
    from ..tuners.base import Features, Groups, Run, feature_warnings

    cluster = on_cluster(engine, scheduler=scheduler, timeout=timeout, graphs=graphs, strategy_grid=strategy_grid)
    n_workers = given.pop("workers", None) if cluster else None
    tuner = make_tuner(method, given)
    if cluster:
        from ..distributed.tuning import check_tuner

        check_tuner(tuner, method)
        source = source_of(store)
    if output is None and not strategy_grid:
        raise InputError("-o: expected a model file to write, found none; give -o MODEL.json")
    if output is not None:
        is_writable_target(output)
    if pick not in ("auto", "select", "train", "last"):
        raise InputError(f"--pick: expected auto, select, train or last, found {pick!r}")
    if strategy_grid and method != "mira":
        raise InputError(f"--strategy-grid: expected --method mira, found {method}")
    start = Model.load(init) if init else None
    nbest = read_store(store)
    held_out = read_store(select) if select else None
    run = Run(
        seed=seed,
        threads=threads,
        init=augmented_weights(start) if start else None,
        groups=Groups.load(groups) if groups else Groups(),
        metric=metric,
        pick=pick,
    )
    if graphs:
        taken = graph_options(graphs, graph_iterations, graph_size, graph_names, graph_vocab)
        nbest, run = tuned_on_graphs(tuner, nbest, held_out, run, taken, quiet=quiet)
    features = Features.of(nbest if not cluster else nbest[:0])  # the driver of a cluster looks at names only
    zeros_matter = method != "pro"  # its objective is convex: where it starts does not matter
    seen = nbest if not cluster else nbest[:0]
    for warning in feature_warnings(features, seen, features.vector(run.init or {}) if zeros_matter else None):
        say(f"warning: {warning}", quiet=quiet)

    if strategy_grid:
        result, text, model = _grid(tuner, nbest, held_out, run, quiet=quiet)
    else:
        with contextlib.ExitStack() as stack:
            fit = _fit_here
            if cluster:
                from ..distributed.tuning import tune_on

                fleet = stack.enter_context(fleet_of(scheduler, workers=n_workers, timeout=timeout, threads=threads, quiet=quiet))
                fit = partial(tune_on, fleet, source, say=lambda what: say(what, quiet=False))
            models = []
            for n in range(runs):
                again = replace(run, seed=seed + n)
                models.append(_one_run(fit, tuner, method, nbest, held_out, again, quiet=quiet))
                if method == "rm":
                    models[-1] = _beside_mira(fit, models[-1], tuner, nbest, again, quiet=quiet)
        result, text, model = _summary(models, metric)
    if start is not None and start.trees:
        model = replace(folded(model.weights, start), config=model.config, history=model.history)
    if output is not None:
        model.save(output)
    emit({**result, "output": output, "signature": model.signature}, text, as_json=as_json)


# flags that are fields of some tuner's dataclass; the others are tune's own
_METHOD_OPTIONS = frozenset(
    {
        "epochs",
        "rounds",
        "c",
        "k",
        "oracle",
        "prediction",
        "average",
        "shards",
        "context_scale",
        "b",
        "d",
        "solver",
        "max_iter",
        "decay",
        "background",
        "shuffle",
        "passes",
        "alpha",
        "eta",
        "dense_eta",
        "standardise",
        "l1",
        "l2",
        "loss",
        "pairs",
        "batch",
        "workers",
        "asynchronous",
        "variant",
        "variance",
        "r",
        "sampler",
        "draws",
        "threshold",
        "keep",
        "restarts",
        "shakes",
        "shake",
        "directions",
        "tol",
        "max_features",
    }
)


def make_tuner(method: str, given: Mapping[str, Any]) -> Any:
    """A tuner with the given options; one that it does not have is an error that lists its own."""
    from ..core.errors import InputError
    from ..tuners import tuner_class

    kind = tuner_class(method)
    own = [f.name for f in fields(kind)]
    for name in given:
        if name not in own:
            raise InputError(f"--{_flag(name)}: {method} has no such option; it has {', '.join('--' + _flag(n) for n in own)}")
    return kind(**given)


def _flag(name: str) -> str:
    return {"asynchronous": "async"}.get(name, name.replace("_", "-"))


def _fit_here(tuner: Any, nbest: NBest, held_out: NBest | None, run: Run) -> Model:
    model: Model = tuner.fit(nbest, held_out, run)
    return model


def _one_run(fit: Fit, tuner: Any, method: str, nbest: NBest, held_out: NBest | None, run: Run, *, quiet: bool) -> Model:
    total = getattr(tuner, "epochs", getattr(tuner, "rounds", None))
    with progress(f"tuning ({method})", quiet=quiet) as bar:

        def report(row: Mapping[str, Any]) -> None:
            bar.update(row["epoch"], total, _gains(row))

        model = fit(tuner, nbest, held_out, replace(run, callback=report))
    for row in model.history:
        if "note" in row:
            say(f"warning: epoch {row['epoch']}: {row['note']}", quiet=quiet)
    return model


def _beside_mira(fit: Fit, model: Model, tuner: Any, nbest: NBest, run: Run, *, quiet: bool) -> Model:
    """The model with the spread of MIRA under the same options in its history: what the bound is there to lower [EMR13]."""
    from ..tuners import tuner_class

    mira = tuner_class("mira")
    same = mira(**{f.name: getattr(tuner, f.name) for f in fields(mira)})
    rows = _one_run(fit, same, "mira, for its spread", nbest, None, replace(run, pick="last"), quiet=quiet).history
    beside = {row["epoch"]: {f"mira_{name}": row[name] for name in ("spread_mean", "spread_sd")} for row in rows}
    return replace(model, history=tuple({**row, **beside.get(row["epoch"], {})} for row in model.history))


def _gains(row: Mapping[str, Any]) -> str:
    return f"dev {row['dev']:.2f}" + (f"  select {row['select']:.2f}" if "select" in row else "")


def _chosen(model: Model) -> Mapping[str, Any]:
    return next(row for row in model.history if row["epoch"] == model.config["epoch"])


def _summary(models: list[Model], metric: str) -> tuple[dict[str, Any], str, Model]:
    """Results of all runs; the model kept is the best on select, else the first."""
    import numpy as np

    rows = [_chosen(model) for model in models]
    best = int(np.argmax([row.get("select", 0.0) for row in rows]))
    gains = {name: [float(row[name]) for row in rows] for name in ("dev", "select") if name in rows[0]}
    model = models[best]
    sd = {name: float(np.std(values, ddof=1)) if len(values) > 1 else None for name, values in gains.items()}
    result: dict[str, Any] = {
        "method": model.config["method"],
        "metric": metric,
        "epoch": model.config["epoch"],
        "gains": gains,
        "mean": {name: float(np.mean(values)) for name, values in gains.items()},
        "sd": sd,
        "history": list(model.history),
    }
    text = _curve(model) if len(model.history) > 1 else ""
    for name, values in gains.items():
        text += f"\n{metric}, {name}: {np.mean(values):.2f}" + (
            f" +- {sd[name]:.2f} over {len(values)} runs" if sd[name] is not None else ""
        )
    return result, text.strip("\n"), model


_SPREADS = ("spread_mean", "spread_sd", "mira_spread_mean", "mira_spread_sd")
_CURVE = ("epoch", "dev", "select", "oracle", "prediction", *_SPREADS, "nonzero", "loss")


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
        return (
            ""
            if value is None
            else f"{value:.3g}"
            if isinstance(value, float) and abs(value) < 1
            else f"{value:.2f}"
            if isinstance(value, float)
            else str(value)
        )

    rows = [[*(cell(row.get(name)) for name in columns), "*" if row["epoch"] == model.config["epoch"] else ""] for row in kept]
    return table(rows, header=[*columns, ""], right=tuple(range(len(columns))))


def _grid(tuner: Any, nbest: NBest, held_out: NBest | None, run: Run, *, quiet: bool) -> tuple[dict[str, Any], str, Model]:
    """[E12] Tables 3-4 and Figures 1-6 in our own numbers: every oracle with every prediction, BLEU per epoch."""
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
    lines.append("curves: dev per epoch, between the prediction's and the oracle's")
    for s in strategies:
        lines += ["", f"{s.oracle} / {s.prediction}   {sparkline([row['dev'] for row in s.model.history])}"]
        for name in ("oracle", "dev", "prediction", *(["select"] if held_out is not None else [])):
            lines.append(f"  {name:<10} " + " ".join(f"{row[name]:6.2f}" for row in s.model.history))
    best = max(strategies, key=lambda s: float(_chosen(s.model)[key]))
    result = {
        "strategies": [{"oracle": s.oracle, "prediction": s.prediction, "history": list(s.model.history)} for s in strategies]
    }
    return result, "\n".join(lines), best.model


def sparkline(values: list[float]) -> str:
    """A curve in one line of text."""
    low, high = min(values), max(values)
    marks = "▁▂▃▄▅▆▇█"
    return "".join(marks[int((v - low) / (high - low) * 7)] if high > low else marks[0] for v in values)
