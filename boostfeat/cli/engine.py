"""Options of the commands that can run on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .common import say

if TYPE_CHECKING:
    from ..distributed.worker_data import Source
    from ..distributed.workers import Fleet

Engine = Annotated[str, typer.Option("--engine", help="local, or dask: sentences are spread over the workers of a cluster.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="dask: address of the scheduler, or local: processes here.", show_default=False)
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="dask: so many workers; default: all there are.", show_default=False)
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=1, help="dask: seconds without a sign of a worker before it is given up (60).", show_default=False
    ),
]


def on_cluster(
    engine: str, *, scheduler: str | None, timeout: float | None, workers: int | None = None, **without: object
) -> bool:
    """Is it the Dask engine? Raises for flags that do not go with the engine; ``without`` are those that go with local only."""
    from ..core.errors import InputError, unknown_name

    if engine not in ("local", "dask"):
        raise unknown_name("engine", engine, ("local", "dask"))
    wrong = {"scheduler": scheduler, "timeout": timeout, "workers": workers} if engine == "local" else without
    other = "dask" if engine == "local" else "local"
    for name, value in wrong.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')}: expected --engine {other}, found --engine {engine}; give the other")
    return engine == "dask"


def source_of(store: str) -> Source:
    """A store as workers find it."""
    from ..core.errors import InputError
    from ..distributed.worker_data import Source

    if store == "-":
        raise InputError("--engine dask: expected a store that workers can open, found '-'; name a file")
    return Source.of(store)


@contextlib.contextmanager
def fleet_of(scheduler: str | None, *, workers: int | None, timeout: float | None, threads: int, quiet: bool) -> Iterator[Fleet]:
    """The workers of a cluster; says where its dashboard is."""
    from ..distributed.workers import Fleet, connected

    with connected(scheduler or "local", workers=workers, threads=threads, timeout=min(timeout or 20.0, 20.0)) as client:
        say(f"dask dashboard: {client.dashboard_link}", quiet=quiet)
        fleet = Fleet(client, workers=workers, timeout=timeout or 60.0)
        try:
            yield fleet
        except BaseException:
            fleet.abandon()
            raise
        fleet.close()
