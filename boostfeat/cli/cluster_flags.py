"""Flags of commands that workers of a cluster can run, and the connection to these."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InputError
from ..core.options import option
from .console import COMMON, Common


@dataclass(frozen=True, kw_only=True)
class ClusterFlags(Common):
    """Flags of commands that run here or on a cluster."""

    engine: str = option("local", "Where it runs: local, or dask for a cluster", choices=("local", "dask"), group=COMMON)
    scheduler: str = option("local", "Address of Dask's scheduler; local: start processes here", rare=True, needs="engine=dask")
    workers: int | None = option(
        None, "Number of workers to use; default: all", least=1, most=2**16, rare=True, needs="engine=dask"
    )
    timeout: float = option(60.0, "Seconds of silence after which a worker is given up", least=1, rare=True, needs="engine=dask")


@contextlib.contextmanager
def cluster_of(o: ClusterFlags) -> Iterator[Any]:
    """Connect to the workers of a cluster, if one is asked for; say where its dashboard is."""
    if o.engine != "dask":
        yield None
        return
    from ..distributed.cluster import ClusterFits
    from ..distributed.workers import Workers, connected

    with connected(o.scheduler, workers=o.workers, threads=o.threads, timeout=min(o.timeout, 20.0)) as client:
        if o.scheduler != "local":  # the cluster made here has none
            o.say(f"dask dashboard: {client.dashboard_link}")
        # workers that are lost are named to the quiet too: their run would seem to hang
        workers = Workers(client, workers=o.workers, timeout=o.timeout, say=replace(o, quiet=False).say)
        try:
            yield ClusterFits(workers)
        except BaseException:
            workers.abandon()
            raise
        workers.close()


def refuse_cluster(o: ClusterFlags, output: str) -> None:
    """Raise where workers are asked for, and there is one file to write."""
    if o.engine == "dask":
        raise InputError(f"--engine dask: workers write parts, and -o {output} is one file; give a folder, {output}/")
