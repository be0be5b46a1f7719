"""A cluster that all tests of this folder share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def client():
    """A local cluster, whose key other clients of this process have, too: those of commands with its address."""
    dask = pytest.importorskip("dask")
    from boostfeat.distributed.workers import connected

    with connected("local", workers=5, threads=5) as client:
        key = client.security
        tls = {"ca-file": key.tls_ca_file, "client.cert": key.tls_client_cert, "client.key": key.tls_client_key}
        with dask.config.set({f"distributed.comm.tls.{name}": text for name, text in tls.items()}):
            yield client
