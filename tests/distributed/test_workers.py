"""Workers that disagree, are lost or have no scheduler, by clients that only say so: no cluster is started."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.distributed.block_range import BlockRange
from boostfeat.distributed.cluster_grower import ClusterGrower
from boostfeat.distributed.worker_data import RowGrower, Share, WorkerData, free_port
from boostfeat.distributed.workers import WorkerLostError, Workers
from boostfeat.trees.binning import Bins
from boostfeat.trees.growing import Grower, TreeOptions, grid_step, to_grid

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


@pytest.mark.parametrize("leaf", [1.0, 80.0])
def test_a_leaf_of_less_than_a_row_is_found_in_the_network_too(leaf):
    """LightGBM fails there, where it takes rows by their share of the occurrences; of one unit here, among those with 100."""
    rng, options = np.random.default_rng(0), TreeOptions(min_occurrences=1, max_leaves=4)
    x, c, g = np.round(rng.normal(size=(600, 3)), 2), np.full(600, 100.0), rng.normal(size=600) * 100
    x[7, 1], c[7], g[7] = 9.0, leaf, 1e6
    whole, ports = Grower(FeatureTable(("a", "b", "c"), x), c, options), [free_port(), free_port()]
    bins = Bins(x, c, options, sparse=None, threads=1)
    largest, step = np.abs(g).max(), grid_step(np.abs(g).sum() / np.abs(g).max())

    def grown(k: int) -> tuple[bool, object]:
        data, own = object.__new__(WorkerData), slice(300 * k, 300 * k + 300)
        data._network, data.share = None, Share(k, [], k, np.zeros(0), 1)
        how = {"given": bins.borders, "threads": 1, "seed": 0, "machines": 2, "precision": None}
        grower = RowGrower(("a", "b", "c"), np.ascontiguousarray(x[own]), c[own], options, **how)
        data.connect([("127.0.0.1", port) for port in ports], 1)
        splits = [grower.splits(g[own], -1 / largest, step) for _ in range(2)]
        data.disconnect()
        return grower._again is not None, splits

    with ThreadPoolExecutor(2) as pool:
        (failed, splits), (other_failed, others) = pool.map(grown, range(2))
    to_grid(g, -1 / largest, whole._grad)
    assert splits == others == [whole._split_sequence(whole._counts, 1 - 1e-6, 4)] * 2
    assert failed == other_failed == (leaf == 1.0)
