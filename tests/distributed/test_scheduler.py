"""An address where no Dask scheduler answers."""

from __future__ import annotations

import contextlib
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
