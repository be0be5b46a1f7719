"""An address where no Dask scheduler answers."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from boostfeat.core.errors import InputError
from boostfeat.distributed.workers import connected


def test_another_server_at_the_schedulers_address_is_one_line() -> None:
    """What an HTTP server says is taken for the length of a message, beyond any memory."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.sendall(b"HTTP/1.1 400\r\n\r\n" * 8)
                connection.close()

    threading.Thread(target=answer, daemon=True).start()
    address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    refused = pytest.raises(InputError, match="--set scheduler: expected the address of a Dask scheduler")
    with refused, connected(address, workers=None, threads=1, timeout=3):
        pass
    server.close()


def test_what_a_cluster_logs_when_it_has_closed_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may still be sending to workers that are gone; its own silence has ended by then."""
    said = []

    class Closed(contextlib.AbstractContextManager):  # type: ignore[type-arg]
        def __init__(self, *args: object, **options: object) -> None:
            self.workers: dict[str, object] = {}

        def __exit__(self, *_: object) -> None:
            for name in ("distributed.batched", "tornado.application", "asyncio"):
                logging.getLogger(name).error("Batched Comm Closed")

    monkeypatch.setattr(logging.root.manager, "disable", 0)  # a cluster that other tests share may be silent still
    monkeypatch.setattr(logging.Logger, "handle", lambda self, record: said.append(record.name))
    monkeypatch.setattr("distributed.LocalCluster", Closed)
    monkeypatch.setattr("distributed.Client", Closed)
    with pytest.raises(KeyboardInterrupt), connected("local", workers=1, threads=1):
        raise KeyboardInterrupt
    assert said == []
    logging.getLogger("asyncio").error("afterwards all is as before")
    assert said == ["asyncio"]
