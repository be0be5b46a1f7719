"""Workers that disagree, are lost or have no scheduler, by clients that only say so: no cluster is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from boostfeat.core.errors import InputError
from boostfeat.distributed.block_range import BlockRange
from boostfeat.distributed.cluster_grower import ClusterGrower
from boostfeat.distributed.worker_data import WorkerData
from boostfeat.distributed.workers import WorkerLostError, Workers
from boostfeat.trees.growing import TreeOptions

pytest.importorskip("distributed")
pytestmark = pytest.mark.quick


def test_workers_that_grow_different_trees_are_named(monkeypatch):
    answers = [([(0, 1, -1, -1)], None), ([(0, 2, -1, -1)], None)]
    grower = object.__new__(ClusterGrower)
    grower.options = TreeOptions()
    grower.workers = SimpleNamespace(holders=["tcp://a", "tcp://b"], shards=lambda *_: answers)
    with pytest.raises(InputError, match=r"found .*\(0, 1.* on tcp://a and .*\(0, 2.* on tcp://b"):
        grower._agreed(-1.0, 0.5)


@pytest.mark.parametrize("gave", [OSError("closed"), 1])  # its connection broke, or it died after it had answered
def test_an_error_in_the_network_is_the_loss_of_the_other(monkeypatch, gave):
    """LightGBM on the worker that is left may say so first."""
    monkeypatch.setattr(Workers, "_wait_for", lambda *_: {"a": {}, "b": {}})
    monkeypatch.setattr(Workers, "_present", lambda _: {"a": {"last_seen": 1.0}})
    fleet = Workers(SimpleNamespace(run=lambda *_, **__: {"a": RuntimeError("socket"), "b": gave}), timeout=5)
    fleet.holders = ["a", "b"]
    with pytest.raises(WorkerLostError, match="worker b: its process or machine is gone"):
        fleet.shards(WorkerData.grow)


@pytest.mark.parametrize("gone", ["run", "sync"])
def test_a_scheduler_that_is_gone_is_one_line(monkeypatch, gone):
    def fails(*_, **how):
        raise OSError if gone == "run" else TimeoutError(how["callback_timeout"])

    monkeypatch.setattr(Workers, "_wait_for", lambda *_: {"a": {}})
    client = SimpleNamespace(run=fails, sync=fails, scheduler=SimpleNamespace(identity=None))
    fleet = Workers(client, timeout=5)
    with pytest.raises(InputError, match="expected the scheduler to answer, found it gone"):
        fleet.shards(WorkerData.each, BlockRange.row) if gone == "run" else fleet._check()
