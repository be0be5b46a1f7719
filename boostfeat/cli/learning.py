"""Parts that ``tune`` and ``induce`` share: flags, lists that grow from search graphs between fits, clusters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..boosting.options import BoostOptions
from ..boosting.selection.template_set import Features, chosen_features
from ..core.errors import InputError, counted
from ..core.options import argument, option
from ..features import FeaturePlan
from ..lists.merging import concat
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..model.model import Model
from ..search.graphs.graph_mert import fit_graphs
from ..search.loop.graph_lists import GRAPHS, GraphOptions, graphs_of, grown
from ..tuners.base import Run
from .console import FILES, LEARNING, Common
from .decoding import core_names
from .inputs import ModelFlags, OutputFlags, check_lists, feature_maker, refuse_files, refuse_unused


@dataclass(frozen=True, kw_only=True)
class LearningFlags(ModelFlags, OutputFlags):
    """Flags of commands that learn from a list."""

    stores: Sequence[str] = argument("LIST.nbest...", "Imported lists; several are learned from as one")
    select: str | None = option(None, "A held-out list to choose by", metavar="LIST", group=FILES)
    templates: str | None = option(
        None,
        "Sets or templates, or FILE.toml; the model keeps them",
        metavar="NAMES",
        group=LEARNING,
        without=("engine=dask", "graph_vocab"),
    )
    graphs: GraphOptions = field(default_factory=GraphOptions)
    engine: str = option("local", "Or dask: spread sentences over a cluster", choices=("local", "dask"), group=GRAPHS)
    scheduler: str = option("local", "Address of Dask's scheduler; local: processes here", rare=True, needs="engine=dask")
    workers: int | None = option(
        None, "Workers of the cluster to use; default: all", least=1, most=2**16, rare=True, needs="engine=dask"
    )
    timeout: float = option(
        60.0, "Seconds without a sign of a worker before it is given up", least=1, rare=True, needs="engine=dask"
    )

    @property
    def is_dask(self) -> bool:
        return self.engine == "dask"

    def check_together(self) -> None:
        """Raise for flags that do not go together, before anything is read."""
        if self.is_dask and (self.stores[1:] or self.stores[0] == "-"):
            raise InputError(f"{self.stores[-1]}: --engine dask learns from one file that workers can open; name one")

    def read_lists(self) -> tuple[NBest, NBest | None]:
        """Return all lists to learn from as one, and the held-out one, which go together."""
        lists = {path: read_store(path) for path in self.stores}
        held_out = read_store(self.select) if self.select else None
        check_lists(self, {**(lists if self.stores[1:] else {"LIST": lists[self.stores[0]]}), "--select": held_out})
        return concat([lists[path] for path in self.stores]) if self.stores[1:] else lists[self.stores[0]], held_out

    def graphs_with(self, plan: FeaturePlan | None) -> GraphOptions:
        """Return the graphs, with the names of their values and the features of their edges."""
        return replace(self.graphs, names=core_names(self.graphs.core_names), plan=plan)


def lists_with_features(
    o: LearningFlags,
    dev: NBest,
    select: NBest | None,
    options: BoostOptions,
    templates: str | None,
    start: Model | None,
    so_far: Model | None = None,
    **how: Any,
) -> Features:
    """Return both lists with the templates that are named, that a model to start or go on from carries, or that pay."""
    if o.templates is not None and start is not None and start.plan is not None:
        raise InputError(f"--templates {o.templates}: the model of --init carries templates of its own; leave one of them out")
    if templates == "none" and (start is None or start.plan is None):
        refuse_files(o.files, "--templates that use it")
    with feature_maker(o, o.files, seed=o.seed, threads=o.threads) as maker:
        features = chosen_features(dev, select, options, templates, start or so_far, maker, **how)
        if features.plan is not None:
            refuse_unused(maker, features.plan)
            if start is not None and (name := maker.taught(features.plan)):
                o.warn(f"references taught {name!r} of --init: by it, the list that they are of looks too good")
    return features


@contextlib.contextmanager
def cluster_of(o: LearningFlags) -> Iterator[Any]:
    """Connect to the workers of a cluster; say where its dashboard is."""
    from ..distributed.workers import Workers, connected

    with connected(o.scheduler, workers=o.workers, threads=o.threads, timeout=min(o.timeout, 20.0)) as client:
        if o.scheduler != "local":  # the cluster made here has none
            o.say(f"dask dashboard: {client.dashboard_link}")
        cluster = Workers(client, workers=o.workers, timeout=o.timeout)
        try:
            yield cluster
        except BaseException:
            cluster.abandon()
            raise
        cluster.close()


def say_to_all(o: Common) -> Callable[[str], None]:
    """Return what says that workers are lost, to the quiet too: their run would seem to hang."""
    return replace(o, quiet=False).say


def tuned_on_graphs(
    o: LearningFlags, tuner: Any, dev: NBest, select: NBest | None, run: Run, graphs: GraphOptions
) -> tuple[NBest, Run]:
    """Return the grown list, and the run that goes on from the weights found on the way."""

    def fit(nbest: NBest, before: Model | None, i: int) -> Model:
        model: Model = tuner.fit(nbest, select, replace(run, seed=run.seed + i, init=before.weights if before else run.init))
        return model

    dev, model = grown(dev, fit, graphs, threads=run.threads, report=o.say)
    return dev, replace(run, init=model.weights)


def fit_on_graphs(o: LearningFlags, dev: NBest, options: GraphOptions) -> Callable[..., Model]:
    """Return what fits MERT on all derivations of the graphs of a list [K09]."""
    graphs = graphs_of(dev, options)
    missing = len(dev) - len(graphs)
    lacking = f"; {counted(missing, 'sentence')} without any, taken for empty lines" if missing else ""
    o.say(f"envelopes over {counted(len(graphs), 'graph')}, {sum(g.n_edges for g in graphs.values()):,} edges{lacking}")

    def fit(tuner: Any, nbest: NBest, held_out: NBest | None, run: Run) -> Model:
        return fit_graphs(tuner, nbest, graphs, held_out, run)

    return fit
