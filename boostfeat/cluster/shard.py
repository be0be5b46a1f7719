"""What a worker holds: some blocks of sentences, their rows as codes, and a LightGBM that is one of a network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import F64, I64, in_threads, offsets
from ..bins import Bins, Borders, Scale, value_masses
from ..blocks import block_ptr
from ..build import first_use_order
from ..errors import InputError
from ..grow import Grower
from ..grow_kernels import divide, on_grid, owners_in
from ..ranges import learnable
from ..store import read_store
from .block import Block
from .fleet import versions

if TYPE_CHECKING:
    from ..boost import BoostOptions
    from ..nbest import NBest

Split = tuple[int, int, int, int]


class Source(NamedTuple):
    """A store that workers open themselves."""

    path: str
    size: int  # of the file, in bytes

    @classmethod
    def of(cls, path: str) -> Source:
        where = os.path.abspath(path)
        return cls(where, os.path.getsize(where))

    def open(self) -> NBest:
        """On a worker."""
        who = f"worker {_address()}"
        if not os.path.isfile(self.path):
            raise InputError(
                f"{self.path}: expected the store on {who} too, found no such file there; put it where all workers see it"
            )
        if (found := os.path.getsize(self.path)) != self.size:
            raise InputError(f"{self.path}: expected {self.size} bytes on {who}, found {found}; give all workers the same store")
        return learnable(read_store(self.path))


class Shard:
    """Consecutive blocks of the corpus. All its methods run in one thread: LightGBM's network belongs to a thread."""

    def __init__(self, source: Source, options: BoostOptions | None, *, blocks: Sequence[tuple[int, int]], threads: int) -> None:
        nbest = source.open()
        self.options, self.threads = options, threads
        self._corpus = nbest
        self.blocks = in_threads(lambda k: Block(nbest, blocks[k][0], blocks[k][1], options), range(len(blocks)), threads)
        self._network: Any = None

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of every block gives."""
        return in_threads(lambda k: getattr(self.blocks[k], method)(*arguments), range(len(self.blocks)), self.threads)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Tell every block which of its units are rows elsewhere: those that an earlier block has."""
        corpus, ptr = self._corpus, block_ptr(len(self._corpus)).tolist()
        numbers = {first: number for number, first in enumerate(ptr[:-1])}
        if self.options is None or self.options.level == "global":
            for block in self.blocks:
                none = np.zeros(len(block.counts), np.int64)
                block.settle(none, none + numbers[block.first], numbers[block.first])
            return
        host = np.full(corpus.n_units, -1, np.int16)
        cuts = corpus.unit_ptr[corpus.hyp_ptr[ptr]]
        for number in reversed(range(numbers[self.blocks[-1].first] + 1)):
            host[corpus.unit_idx[cuts[number] : cuts[number + 1]]] = number
        for block in self.blocks:
            number = numbers[block.first]
            units, _ = first_use_order(corpus.unit_idx[cuts[number] : cuts[number + 1]], corpus.n_units)
            block.settle(units, host[units].astype(np.int64), number)

    def prepare_rows(self, names: Sequence[str]) -> tuple[list[str], int]:
        """Put the rows of all blocks side by side. Returns their features and number."""
        spaces = [block.space.only(names) if names else block.space for block in self.blocks]
        self._names, self._all = spaces[0].names, [space.x for space in spaces]
        self._ptr = offsets(np.array([np.count_nonzero(block.own) for block in self.blocks]))
        x = None if names else self._corpus_rows()
        if x is None:
            x = np.concatenate([own[block.own] for own, block in zip(self._all, self.blocks, strict=True)])
        self._x, self._c = x, np.concatenate([block.c for block in self.blocks])
        return list(self._names), len(self._x)

    def _corpus_rows(self) -> F64 | None:
        """The rows as a part of the store, where they follow each other there: stores number units by their first use."""
        if self.options is None or self.options.level == "global":
            return None
        rows = np.concatenate([block.units[block.own] for block in self.blocks])
        if not len(rows) or rows[-1] - rows[0] + 1 != len(rows) or (np.diff(rows) != 1).any():
            return None
        return self._corpus.X[rows[0] : rows[-1] + 1]

    def masses(self, f: int) -> tuple[F64, F64]:
        """Distinct values of a feature and their occurrences."""
        return value_masses(np.ascontiguousarray(self._x[:, f]), self._c)

    def ranges(self, f: int) -> list[tuple[F64, F64]]:
        """Of each block, the lowest and the highest value of a feature in every sentence that has units."""
        out = []
        for x, block in zip(self._all, self.blocks, strict=True):
            ptr, sentence = block.space.owners(block.nbest.hyp_ptr)
            values = np.repeat(x[:, f], np.diff(ptr))
            lowest, highest = np.full(len(block.nbest), np.inf), np.full(len(block.nbest), -np.inf)
            np.minimum.at(lowest, sentence, values)
            np.maximum.at(highest, sentence, values)
            seen = lowest <= highest
            out.append((lowest[seen], highest[seen]))
        return out

    def code_rows(self, given: Sequence[tuple[Borders, Scale]], seed: int) -> None:
        """Code the rows by the borders of the whole corpus and make LightGBM's dataset, before there is a network."""
        assert self.options is not None
        self._grower = RowGrower(self._names, self._x, self._c, self.options.tree, given=given, threads=self.threads, seed=seed)

    def connect(self, machines: str, ports: dict[str, int], n: int, minutes: int) -> None:
        """Join LightGBM's network; its boosters of this thread then share histograms."""
        import lightgbm as lgb

        self.disconnect()
        if n > 1:
            self._network = lgb.Booster({"verbosity": -1}, lgb.Dataset(np.zeros((1, 1)), params={"verbosity": -1}))
            with _no_output():
                self._network.set_network(machines, local_listen_port=ports[_address()], listen_time_out=minutes, num_machines=n)
        self._grower.machines = n

    def disconnect(self) -> None:
        if self._network is not None:
            self._network.free_network()
            self._network = None

    # -- a tree --------------------------------------------------------------------------------------------------------

    def sequence(
        self, on: int, scale: float, step: float, hess_step: float, least: float, most: int, draw: int
    ) -> tuple[list[Split], F64, I64]:
        """LightGBM's splits on -g (or, for leaves linear in feature ``on``, on -z g), and occurrences and owners below each."""
        g = np.concatenate([block.g for block in self.blocks])
        splits = self._grower.splits(g, on, scale, step, hess_step, least, most, draw)
        if on < 0 and self.options is not None and not self.options.tree.min_sentences:  # LightGBM has seen to it
            return splits, np.full((len(splits), 2), np.inf), np.zeros((len(splits), 2), np.int64)
        return splits, *self._below(splits)

    def energy(self, on: int) -> tuple[F64, F64]:
        """Of each block Σ |z g| and Σ c z²: what the grids of linear leaves are agreed by."""
        z = self._grower.z(on)
        g = np.concatenate([block.g for block in self.blocks])
        parts = [slice(a, b) for a, b in zip(self._ptr[:-1], self._ptr[1:], strict=True)]
        return np.array([np.abs(z[p] * g[p]).sum() for p in parts]), np.array([(self._c[p] * z[p] * z[p]).sum() for p in parts])

    def _below(self, splits: list[Split]) -> tuple[F64, I64]:
        """[k, 2] occurrences, and sentences where they are asked for, to the left and right of each split."""
        counts, sentences = np.zeros((len(splits), 2)), np.zeros((len(splits), 2), np.int64)
        leaf_of = np.zeros(len(self._c), np.int32)
        all_leaves = [np.zeros(len(x), np.int32) for x in self._all]
        node_of = {0: 0}
        for k, (f, code, left, right) in enumerate(splits):
            n = 2 * k + 1
            counts[k] = divide(leaf_of, node_of[k], self._grower.codes[f], code, n, n + 1, self._c)
            if self.options is not None and self.options.tree.min_sentences:  # a guest is in sentences here, too
                border = self._grower.border(f, code)
                for x, leaves, block in zip(self._all, all_leaves, self.blocks, strict=True):
                    divide(leaves, node_of[k], x[:, f], border, n, n + 1, block.counts)
                    ptr, idx = block.space.owners(block.nbest.hyp_ptr)
                    seen = np.full(len(block.nbest), -1, np.int32)
                    sentences[k] += [owners_in(leaves, node, ptr, idx, seen) for node in (n, n + 1)]
            node_of |= {left: n, right: n + 1}
        return counts, sentences

    def shares(self) -> list[tuple[float, float]]:
        """Of each block Σ |g| and Σ c."""
        return [(float(np.abs(block.g).sum()), float(block.c.sum())) for block in self.blocks]

    def sample(self, points: list[F64], g_total: float, c_total: float) -> list[tuple[F64, Any, F64, F64, F64]]:
        """Rows at these points of each block's cumulative share (all, where there are none): x, codes, c, g and share."""
        out = []
        for k, block in enumerate(self.blocks):
            size = np.abs(block.g)
            share = size / (2 * g_total) + block.c / (2 * c_total)
            at = np.arange(len(size))
            here = points[block.number]
            if here is not None:
                at = np.minimum(np.searchsorted(np.cumsum(share), here), len(size) - 1)
            rows = self._ptr[k] + at
            out.append((self._x[rows], self._grower.codes[:, rows], block.c[at], block.g[at], share[at]))
        return out


class RowGrower(Grower):
    """The part of growing that a worker does: LightGBM on its rows, by borders that all workers share."""

    def __init__(
        self,
        names: Sequence[str],
        x: F64,
        counts: F64,
        options: Any,
        *,
        given: Sequence[tuple[Borders, Scale]],
        threads: int,
        seed: int,
    ) -> None:
        self.options, self.threads, self.seed, self.machines = options, threads, seed, 1
        self._x, self._c = x, counts
        how = {"max_bin": options.max_bin, "least": options.min_occurrences, "centred": options.leaves == "affine"}
        self._bins = Bins(x, counts, **how, sparse=None, threads=threads, given=given)
        # LightGBM's network takes the rows of a leaf by their share of the hessian, and refuses splits that leave less than one.
        # So rows of many occurrences are there several times, and the least that a leaf may hold is always several rows
        most = max(1.0, options.min_occurrences // 4)
        copies = np.maximum(np.ceil(counts / most).astype(np.int64) - 1, 0)
        self._again = np.repeat(np.arange(len(counts)), copies)
        self._dataset = self._make_dataset() if self._bins.splittable else None
        self._boosters, self._draw = {}, 0
        self._grad, self._hess, self._counts = np.zeros((3, len(x) + len(self._again)), np.float32)
        self._counts[: len(x)] = counts - most * copies
        self._counts[len(x) :] = most

    @property
    def codes(self) -> Any:
        return self._bins.codes

    def border(self, f: int, code: int) -> float:
        """The largest value of a feature up to a code."""
        return float(self._bins.borders[f].low[code])

    def z(self, j: int) -> F64:
        scale, shift = self._bins.scales[j]
        return self._x[:, j] / scale - shift

    def _params(self, **more: Any) -> dict[str, Any]:
        if self.machines > 1:
            # there LightGBM does not count rows but takes them by their share of the hessian, and fails where that is none
            more |= {"tree_learner": "data", "num_machines": self.machines, "pre_partition": True, "min_data_in_leaf": 1}
        return super()._params(**more)

    def splits(
        self, g: F64, on: int, scale: float, step: float, hess_step: float, least: float, most: int, draw: int
    ) -> list[Split]:
        self._draw = draw
        n = len(self._c)  # the copies have no gradient
        if on < 0:
            on_grid(g, scale, step, self._grad[:n])
            return self._split_sequence(self._counts, least, most)
        z = self.z(on)
        on_grid(z * g, scale, step, self._grad[:n])
        on_grid(self._c * z * z, 1.0, hess_step, self._hess[:n])
        return self._split_sequence(self._hess, least, most)


# ---------------------------------------------------------------------------------------------------------------------
# Calls from the driver
# ---------------------------------------------------------------------------------------------------------------------

_IDLE = 3600.0  # seconds after which a run is taken for dead: its driver could not say that it is over
_SHARDS: dict[str, Any] = {}
_USED: dict[str, float] = {}  # when each was last called
_ME: dict[str, str] = {}


async def load(key: str, make: Any, source: Source, shares: dict[str, Any], *arguments: Any, dask_worker: Any) -> dict[str, str]:
    """Make the shard of a run on this worker. Returns the versions of what has to be the same everywhere."""
    for old in [old for old, used in _USED.items() if time.monotonic() - used > _IDLE]:
        await drop(old)
    _ME["address"] = who = str(dask_worker.address)
    thread = ThreadPoolExecutor(1, thread_name_prefix="shard")
    shard = await asyncio.wrap_future(thread.submit(make, source, *arguments, **shares[who]))
    shard.thread = thread
    _SHARDS[key], _USED[key] = shard, time.monotonic()
    return versions()


async def call(key: str, method: str, *arguments: Any) -> Any:
    """Call a method of the run's shard, in the shard's own thread: the worker goes on giving signs of life."""
    shard, _USED[key] = _SHARDS[key], time.monotonic()
    return await asyncio.wrap_future(shard.thread.submit(getattr(shard, method), *arguments))


async def drop(key: str) -> None:
    """Forget a run."""
    _USED.pop(key, None)
    if (shard := _SHARDS.pop(key, None)) is not None:
        await asyncio.wrap_future(shard.thread.submit(shard.disconnect))
        shard.thread.shutdown()


def _address() -> str:
    """Of this worker."""
    return _ME["address"]


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    """LightGBM greets from a thread that no logger reaches; on a local cluster our standard output is the user's."""
    saved, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(nowhere)


def free_port() -> int:
    """A port that nobody listens on."""
    import socket

    with socket.socket() as s:
        s.bind(("", 0))
        return int(s.getsockname()[1])
