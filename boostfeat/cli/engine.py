"""Options of the commands that can run on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.options import check, option
from .common import say

if TYPE_CHECKING:
    from ..distributed.worker_data import Source
    from ..distributed.workers import Workers

_GROUP = "Graphs and clusters"


@dataclass(frozen=True)
class EngineOptions:
    """Where a command learns."""

    engine: str = option("local", "Or dask: spread sentences over a cluster", choices=("local", "dask"), group=_GROUP)
    scheduler: str | None = option(None, "Address of Dask's scheduler; local: processes here", group=_GROUP)
    workers: int | None = option(None, "So many of its workers; default: all", least=1, most=2**16, group=_GROUP, rare=True)
    timeout: float | None = option(
        None, "Seconds without a sign of a worker before it is given up (60)", least=1, group=_GROUP, rare=True
    )

    def __post_init__(self) -> None:
        check(self)

    @property
    def is_dask(self) -> bool:
        return self.engine == "dask"

    def refuse(self, **without: object) -> None:
        """Raise for flags that do not go with the engine; ``without`` are those that go with local only."""
        from ..core.errors import InputError

        own = {"scheduler": self.scheduler, "timeout": self.timeout, "workers": self.workers}
        other = "local" if self.is_dask else "dask"
        for name, value in (without if self.is_dask else own).items():
            if value:
                flag = name.replace("_", "-")
                raise InputError(f"--{flag}: expected --engine {other}, found --engine {self.engine}; give the other")


def source_of(store: str) -> Source:
    """A store as workers find it."""
    from ..core.errors import InputError
    from ..distributed.worker_data import Source

    if store == "-":
        raise InputError("--engine dask: expected a store that workers can open, found '-'; name a file")
    return Source.of(store)


@contextlib.contextmanager
def cluster_of(options: EngineOptions, *, threads: int, quiet: bool) -> Iterator[Workers]:
    """The workers of a cluster; says where its dashboard is."""
    from ..distributed.workers import Workers, connected

    timeout = options.timeout or 60.0
    where = options.scheduler or "local"
    with connected(where, workers=options.workers, threads=threads, timeout=min(timeout, 20.0)) as client:
        if where != "local":  # the cluster made here has none
            say(f"dask dashboard: {client.dashboard_link}", quiet=quiet)
        cluster = Workers(client, workers=options.workers, timeout=timeout)
        try:
            yield cluster
        except BaseException:
            cluster.abandon()
            raise
        cluster.close()
