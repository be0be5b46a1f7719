"""The data of a worker: some blocks of sentences, their rows as codes, and a LightGBM that is one of a network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import lightgbm as lgb
import numpy as np

from .. import __version__
from ..boosting.boost_options import BoostOptions
from ..core.arrays import F64, I32, I64, Array, block_ptr, first_use_order, in_threads, offsets
from ..core.errors import InputError
from ..core.printed_numbers import Precision
from ..lists.feature_range import learnable
from ..lists.merging import at_columns, stack
from ..lists.nbest import NBest, with_columns
from ..lists.precision import KEY, precision_of, with_precision
from ..lists.store import parts_of, read_store
from ..losses.line_search import minimise_ray
from ..losses.pairwise import add_up, step_penalty
from ..trees.binning import Bins, Borders, value_masses
from ..trees.growing import Grower, Split, on_grid, sums
from ..trees.tree import Tree, leaf_outputs
from .block_range import BlockRange, Place, RayAt, Start

P = ParamSpec("P")
T = TypeVar("T")


def versions() -> dict[str, str]:
    """Return the versions of what has to be the same on all workers for the trees to be."""
    return {"boostfeat": __version__, **{name: version(name) for name in ("lightgbm", "numpy")}}


class Share(NamedTuple):
    """A worker's share of a corpus: a part for each of its threads."""

    number: int  # of the worker
    blocks: list[I64]  # of each of its parts, the offsets of its blocks among the sentences
    first: int  # number of its parts among all
    parts: I64  # offsets of all parts of the workers among the sentences
    threads: int
    places: list[Place] | None = None  # of its parts, where the worker does not see the corpus

    def placed(self, corpus: NBest, host: Array) -> Share:
        """Return the share with what the corpus says of its parts; ``host`` is that of each unit."""
        places = []
        for blocks in self.blocks:
            first_hyp, end = corpus.hyp_ptr[blocks[[0, -1]]].tolist()
            start, stop = corpus.unit_ptr[[first_hyp, end]].tolist()
            units = first_use_order(corpus.unit_idx[start:stop])[0]
            places.append(Place(int(blocks[0]), first_hyp, units, host[units].astype(np.int64)))
        return self._replace(places=places)


def shares_of(n_sentences: int, threads: Sequence[int]) -> list[Share]:
    """Share out consecutive blocks among workers of so many threads: about as many sentences each."""
    ptr = block_ptr(n_sentences)
    cuts = [(len(ptr) - 1) * k // len(threads) for k in range(len(threads) + 1)]
    blocks: list[list[I64]] = []
    for (a, b), n in zip(pairwise(cuts), threads, strict=True):
        k = max(1, min(n, b - a))
        blocks.append([ptr[a + (b - a) * i // k : a + (b - a) * (i + 1) // k + 1] for i in range(k)])
    starts = np.array([part[0] for parts in blocks for part in parts] + [n_sentences])
    first = np.cumsum([0, *map(len, blocks)]).tolist()
    return [Share(k, parts, first[k], starts, threads[k]) for k, parts in enumerate(blocks)]


def hosts_of(corpus: NBest, parts: I64) -> Array:
    """[V] of each unit the first part that has it; ``parts`` are the offsets of parts among the sentences."""
    host = np.full(corpus.n_units, -1, np.int16)  # there are no more parts than blocks
    cuts = corpus.unit_ptr[corpus.hyp_ptr[parts]].tolist()
    for number in reversed(range(len(parts) - 1)):
        host[corpus.unit_idx[cuts[number] : cuts[number + 1]]] = number
    return host


class StoreFile(NamedTuple):
    """A store that a worker opens itself."""

    path: str
    size: int  # in bytes
    sentences: int

    def open(self) -> NBest:
        """Open it on a worker."""
        if not os.path.isfile(self.path):
            raise InputError(f"{self.path}: expected the store here too, found no such file; put it where all workers see it")
        if (found := os.path.getsize(self.path)) != self.size:
            raise InputError(f"{self.path}: expected {self.size} bytes, found {found}; give all workers the same store")
        return read_store(self.path)


class Source(NamedTuple):
    """A list that workers open themselves: a store, or the parts of one, of which a worker opens those with its sentences."""

    files: tuple[StoreFile, ...]
    like: NBest | None = None  # the list without sentences, where it has several parts: names and what is told of all of them

    @classmethod
    def of(cls, path: str, nbest: NBest) -> Source:
        """Return the list of this name, which is here already."""
        parts = [os.path.abspath(part) for part in parts_of(path)] or [os.path.abspath(path)]
        sizes = [len(nbest)] if len(parts) == 1 else [len(read_store(part)) for part in parts]
        files = tuple(StoreFile(part, os.path.getsize(part), n) for part, n in zip(parts, sizes, strict=True))
        like = nbest[:0] if KEY in nbest.meta else replace(nbest[:0], meta=with_precision(nbest).meta)
        return cls(files, like if len(files) > 1 else None)

    def open(self, sentences: tuple[int, int] | None = None) -> NBest:
        """Open what can be learned from on a worker: a file as a whole, of several these sentences (``read``), or all."""
        lists, start = self.read(sentences)
        if self.like is not None and sentences and sentences != (start, start + len(lists)):
            lists = lists[sentences[0] - start : sentences[1] - start]
        return learnable(lists)

    def read(self, sentences: tuple[int, int] | None = None) -> tuple[NBest, int]:
        """Open a file as a whole, or parts that have the sentences from the first to before the second; and their first one."""
        if self.like is None:
            return self.files[0].open(), 0
        ends = np.cumsum([file.sentences for file in self.files]).tolist()
        first, last = sentences or (0, ends[-1])
        held = [(file, end) for file, end in zip(self.files, ends, strict=True) if end > first and end - file.sentences < last]
        lists, start = stack([file.open() for file, _ in held]), held[0][1] - held[0][0].sentences
        lists = at_columns(lists, self.like.unit_names, self.like.extra_names, self.like.sparse_names)
        return replace(lists, meta=self.like.meta, quality=replace(lists.quality, unit=self.like.quality.unit)), start


class Changed:
    """A list that is sent to workers without the columns of a store that they open themselves."""

    def __init__(self, source: Source, changed: dict[str, Any]) -> None:
        self.source, self.changed = source, changed

    @cached_property
    def whole(self) -> NBest:
        """The list, put together once on each worker."""
        return with_columns(self.source.read()[0], self.changed)


class WorkerData:
    """Consecutive blocks of the corpus. All its methods run in one thread: LightGBM's network belongs to a thread."""

    def __init__(self, nbest: NBest, options: BoostOptions | None, *, share: Share) -> None:
        self.options, self.threads, self.share = options, share.threads, share
        self._lists = nbest  # the corpus, or the sentences of the share
        first = share.blocks[0][0] if share.places else 0

        def part(k: int) -> BlockRange:
            place = share.places[k] if share.places else None
            return BlockRange(nbest, share.blocks[k] - first, share.first + k, options, place)

        self.parts = in_threads(part, range(len(share.blocks)), len(share.blocks))
        self._network: Any = None

    def each(
        self, method: Callable[Concatenate[BlockRange, P], list[T] | None], /, *arguments: P.args, **named: P.kwargs
    ) -> list[T]:
        """Call a method of every part; return what they give, one after the other."""
        return self._in_parts(lambda part: method(part, *arguments, **named))

    def _in_parts(self, job: Callable[[BlockRange], list[T] | None]) -> list[T]:
        return [item for items in in_threads(job, self.parts, len(self.parts)) for item in items or []]

    # -- rows ----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Tell every part which of its units are rows elsewhere: those that an earlier part has."""
        if self.options is None or self.options.level == "global" or len(self.share.parts) == 2:
            self.each(BlockRange.settle, None)
            return
        known = None if self.share.places else hosts_of(self._lists, self.share.parts[: self.parts[-1].number + 2])
        for part in self.parts:
            part.settle(part.host if known is None else known[part.units].astype(np.int64))

    def prepare_rows(self, names: Sequence[str]) -> tuple[list[str], int]:
        """Put the rows of all parts side by side. Returns their features and number."""
        spaces = [part.space.for_trees(names) for part in self.parts]
        x = None if names else self._corpus_rows()
        if x is None:
            x = _joined([part.mine(space.x) for space, part in zip(spaces, self.parts, strict=True)])
        self._x, self._c = x, _joined([part.c for part in self.parts])
        self._ptr = offsets(np.array([len(part.c) for part in self.parts]))
        self._names = spaces[0].names
        return list(self._names), len(self._x)

    def _corpus_rows(self) -> F64 | None:
        """The rows as a part of the store, where they follow each other there: stores number units by their first use."""
        if self.options is None or self.options.level == "global" or self.share.places:
            return None
        rows = _joined([part.mine(part.units) for part in self.parts])
        if not len(rows) or rows[-1] - rows[0] + 1 != len(rows) or (np.diff(rows) != 1).any():
            return None
        return self._lists.X[rows[0] : rows[-1] + 1]

    def masses(self, first: int, last: int) -> list[tuple[F64, F64]]:
        """Distinct values of some features and their occurrences."""
        columns = np.ascontiguousarray(self._x[:, first:last].T)
        return in_threads(lambda k: value_masses(columns[k], self._c)[::2], range(len(columns)), self.threads)

    def precision(self) -> list[Precision]:
        """Return the precision of the rows' features in the whole corpus."""
        return precision_of(self._lists, self._names)

    def code_rows(self, given: Sequence[Borders] | None, seed: int, machines: int) -> list[Borders]:
        """Code the rows by the borders of the whole corpus (found here where these are all) and make LightGBM's dataset.

        Before there is a network. Returns the borders.
        """
        assert self.options is not None
        how: dict[str, Any] = {"given": given, "threads": self.threads, "seed": seed, "machines": machines}
        how["precision"] = self.precision() if given is None else None
        self._grower = RowGrower(self._names, self._x, self._c, self.options.tree, **how)
        return self._grower.borders

    def connect(self, machines: list[tuple[str, int]], minutes: int) -> None:
        """Join LightGBM's network; its boosters of this thread then share histograms."""
        self.disconnect()
        self._network = lgb.Booster({"verbosity": -1}, lgb.Dataset(np.zeros((1, 1)), params={"verbosity": -1}))
        with _no_output():
            self._network.set_network(
                ",".join(f"{host}:{port}" for host, port in machines),
                local_listen_port=machines[self.share.number][1],
                listen_time_out=minutes,
                num_machines=len(machines),
            )

    def disconnect(self) -> None:
        if self._network is not None:
            self._network.free_network()
            self._network = None

    # -- a tree --------------------------------------------------------------------------------------------------------

    def complete(self, target: list[F64]) -> None:
        """Take what units of several parts have in all."""
        self.each(BlockRange.complete, target)
        self._g = _joined([part.g for part in self.parts])

    def grow(self, scale: float, step: float) -> tuple[list[Split], F64]:
        """LightGBM's splits, and [n, 2] Σ (c, g) over each of their leaves; exact, so in any order."""
        splits = self._grower.splits(self._g, scale, step)
        if not splits:
            return splits, np.zeros((0, 2))
        self._leaf_of, parts = self._grower.leaf_of(splits), np.zeros((4, 2 * len(splits) + 1, 2))
        sums(self._leaf_of, self._c, self._g, parts)
        return splits, np.asarray(parts.sum(axis=0))

    def aim(self, tree: Tree) -> list[Start]:
        """Prepare the line search along the tree that was grown last. Gives where it starts."""
        h = leaf_outputs(self._leaf_of, value=tree.value, intercept=tree.intercept, x=None)
        rows = np.split(h, self._ptr[1:-1])
        return self._in_parts(lambda part: part.aim(tree, rows[part.number - self.share.first]))

    def line_search(self, tree: Tree, l2: float) -> float:
        """ρ, where these are all the sentences."""
        return search(self.aim(tree), lambda rho: self.each(BlockRange.ray, rho), l2=l2)


def _joined(arrays: list[Any]) -> Any:
    """Side by side; one alone is left where it is."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def search(start: list[Start], at: Callable[[float], list[RayAt]], *, l2: float) -> float:
    """ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)², the rays and what the scale s is made of being those of blocks."""
    rays, told_apart = zip(*start, strict=True) if start else ((), ())
    return minimise_ray(lambda rho: add_up(at(rho) if rho else rays), l2=step_penalty(l2, told_apart))


class RowGrower(Grower):
    """The part of growing that a worker does: LightGBM on its rows, by borders that all workers share."""

    def __init__(
        self,
        names: Sequence[str],
        x: F64,
        counts: F64,
        options: Any,
        *,
        given: Sequence[Borders] | None,
        threads: int,
        seed: int,
        machines: int,
        precision: Sequence[Precision] | None,
    ) -> None:
        self.options, self.threads, self.seed, self.machines = options, threads, seed, machines
        self._x, self._c = x, counts
        self._bins = Bins(x, counts, options, sparse=None, threads=threads, given=given, precision=precision)
        self._take_rows(several=False)

    def _take_rows(self, *, several: bool) -> None:
        """Give LightGBM the rows, those of many occurrences once or several times: then the copies share them."""
        most = max(1.0, self.options.min_occurrences // 4)  # of a copy
        copies = np.maximum(np.ceil(self._c / most).astype(np.int64) - 1, 0) * several
        self._again = np.repeat(np.arange(len(copies)), copies) if several else None
        with ThreadPoolExecutor(1) as thread:  # which has no network: the dataset is made by each for itself
            self._dataset = thread.submit(self._make_dataset).result() if self._bins.splittable else None
        self._boosters = {}
        self._counts = np.append(self._c - most * copies, np.full(copies.sum(), most)).astype(np.float32)
        self._grad = np.zeros(len(self._counts), np.float32)

    @property
    def borders(self) -> list[Borders]:
        return self._bins.borders

    def leaf_of(self, splits: list[Split]) -> I32:
        return self._descended(splits).leaf_of

    def _params(self, **more: Any) -> dict[str, Any]:
        if self.machines > 1 and more:  # of a booster
            more |= {"tree_learner": "data", "num_machines": self.machines, "pre_partition": True}
            more["min_data_in_leaf"] = int(self._again is not None)
        return super()._params(**more)

    def splits(self, g: F64, scale: float, step: float) -> list[Split]:
        """LightGBM's splits on -g; the copies of rows have no gradient.

        In a network it does not count the rows of a leaf but takes them by their share of the hessian, and fails, on all workers
        alike, where that is none. From then on rows of many occurrences are there several times, and a leaf has one row at least.
        """
        on_grid(g, scale, step, self._grad[: len(self._c)])
        try:
            return self._split_sequence(self._counts, self.options.min_occurrences * (1 - 1e-6), self.options.max_leaves)
        except lgb.basic.LightGBMError as error:
            if self._again is not None or "Check failed" not in str(error):
                raise
        self._take_rows(several=True)
        return self.splits(g, scale, step)


# ---------------------------------------------------------------------------------------------------------------------
# Calls from the driver
# ---------------------------------------------------------------------------------------------------------------------

_IDLE = 3600.0  # seconds after which a run is taken for dead: its driver could not say that it is over
_SHARDS: dict[str, tuple[ThreadPoolExecutor, Any]] = {}  # of each run, with the thread that its methods run in
_USED: dict[str, float] = {}  # when each was last called


def opened(lists: Source | Changed | NBest | None, sentences: tuple[int, int] | None = None) -> Any:
    """Return lists as a worker has them: those of a store are opened, others were sent."""
    return lists.open(sentences) if isinstance(lists, Source) else lists.whole if isinstance(lists, Changed) else lists


def on_worker(function: Callable[..., T], *arguments: Any, **how: Any) -> T:
    """Call a function on a worker, whose name errors about files begin with; their kinds want more than a message keeps."""
    from distributed import get_worker

    try:
        return function(*arguments, **how)
    except InputError as error:
        raise InputError(f"worker {get_worker().address}: {error}") from None


def load(key: str, make: Any, lists: Source | NBest, *arguments: Any, share: Share) -> dict[str, str]:
    """Make the shard of a run on this worker. Returns the versions of what has to be the same everywhere."""
    for old in [old for old, used in _USED.items() if time.monotonic() - used > _IDLE]:
        drop(old)
    own = int(share.blocks[0][0]), int(share.blocks[-1][-1])
    thread, nbest = ThreadPoolExecutor(1, thread_name_prefix="shard"), opened(lists, own)
    _SHARDS[key] = thread, thread.submit(lambda: make(nbest, *arguments, share=share)).result()
    _USED[key] = time.monotonic()
    return versions()


async def call(key: str, calls: list[tuple[Any, ...]]) -> list[Any]:
    """Call methods of the run's shard, in the shard's own thread: the worker goes on giving signs of life."""
    (thread, shard), _USED[key] = _SHARDS[key], time.monotonic()
    return await asyncio.wrap_future(thread.submit(lambda: [method(shard, *arguments) for method, *arguments in calls]))


def drop(key: str) -> None:
    """Forget a run."""
    _USED.pop(key, None)
    if key in _SHARDS:
        thread, shard = _SHARDS.pop(key)
        if isinstance(shard, WorkerData):
            thread.submit(shard.disconnect)
        thread.shutdown(wait=False)


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
    with socket.socket() as s:
        s.bind(("", 0))
        return int(s.getsockname()[1])
