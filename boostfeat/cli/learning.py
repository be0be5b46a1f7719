"""Parts that ``tune`` and ``induce`` share: flags, lists that grow from search graphs between fits, clusters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import InputError, counted
from ..core.options import argument, option
from ..features import FeaturePlan
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..model.model import Model
from ..search.graphs.graph_mert import fit_graphs
from ..search.loop.graph_lists import GRAPHS, GraphOptions, graphs_of, grown
from ..tuners.base import Run
from .console import FILES, LEARNING, Common
from .decoding import core_names
from .inputs import LIST, ModelFlags, OutputFlags, check_lists


@dataclass(frozen=True, kw_only=True)
class LearningFlags(ModelFlags, OutputFlags):
    """Flags of commands that learn from a list."""

    store: str = argument(*LIST)
    select: str | None = option(None, "A held-out list to choose by", metavar="LIST", group=FILES)
    templates: str | None = option(None, "Sets or templates, or FILE.toml; the model keeps them", metavar="NAMES", group=LEARNING)
    graphs: GraphOptions = field(default_factory=GraphOptions)
    engine: str = option("local", "Or dask: spread sentences over a cluster", choices=("local", "dask"), group=GRAPHS)
    scheduler: str | None = option(
        None, "Address of Dask's scheduler; local: processes here", group=GRAPHS, needs="engine=dask", metavar="ADDRESS"
    )
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
        for flag, value in (("--graphs", self.graphs.paths), ("--templates", self.templates)):
            if value and self.is_dask:
                raise InputError(f"{flag}: --engine dask does not take it; leave it out, or learn with --engine local")
        if self.is_dask and self.store == "-":
            raise InputError("--engine dask: expected a store that workers can open, found '-'; name a file")
        if self.templates not in (None, "none") and self.graphs.vocab:
            raise InputError("--set graph-vocab: --templates say what features the graphs get; leave one of them out")

    def read_lists(self) -> tuple[NBest, NBest | None]:
        """Return the list to learn from and the held-out one, which go together."""
        dev = read_store(self.store)
        held_out = read_store(self.select) if self.select else None
        check_lists(self, {"LIST": dev, "--select": held_out})
        return dev, held_out

    def graphs_with(self, plan: FeaturePlan | None) -> GraphOptions:
        """Return the graphs, with the names of their values and the features of their edges."""
        return replace(self.graphs, names=core_names(self.graphs.core_names), plan=plan)


@contextlib.contextmanager
def cluster_of(o: LearningFlags) -> Iterator[Any]:
    """Connect to the workers of a cluster; say where its dashboard is."""
    from ..distributed.workers import Workers, connected

    where = o.scheduler or "local"
    with connected(where, workers=o.workers, threads=o.threads, timeout=min(o.timeout, 20.0)) as client:
        if where != "local":  # the cluster made here has none
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
