"""The data of a worker: some blocks of sentences, their rows as codes, and a LightGBM that is one of a network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Concatenate, NamedTuple, NoReturn, ParamSpec, TypeVar

import lightgbm as lgb
import numpy as np
from threadpoolctl import threadpool_limits

from .. import __version__
from ..boosting.boost_options import BoostOptions
from ..core.arrays import F64, I32, I64, Array, block_ptr, in_threads, offsets
from ..core.errors import InputError
from ..core.printed_numbers import Precision
from ..lists.build import ordered_union
from ..lists.feature_range import learnable, out_of_range
from ..lists.merging import at_columns, stack, together
from ..lists.nbest import NBest, Notes, columns, strings, with_columns
from ..lists.precision import KEY, precision_of, with_precision
from ..lists.store import parts_of, read_store
from ..losses.line_search import minimise_ray
from ..losses.pairwise import add_up, step_penalty
from ..trees.binning import Bins, Borders, value_masses
from ..trees.growing import Grower, Split, on_grid, sums
from ..trees.tree import Tree, leaf_outputs
from .block_range import BlockRange, RayAt, Start

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
    threads: int
    start: int = 0  # the first sentence that the worker sees
    left_out: tuple[str, ...] = ()  # features of the corpus that cannot be learned from

    @classmethod
    def of(cls, n_sentences: int, threads: Sequence[int]) -> list[Share]:
        """Share out consecutive blocks among workers of so many threads: about as many sentences each."""
        ptr = block_ptr(n_sentences)
        cuts = [(len(ptr) - 1) * k // len(threads) for k in range(len(threads) + 1)]
        blocks: list[list[I64]] = []
        for (a, b), n in zip(pairwise(cuts), threads, strict=True):
            k = max(1, min(n, b - a))
            blocks.append([ptr[a + (b - a) * i // k : a + (b - a) * (i + 1) // k + 1] for i in range(k)])
        first = np.cumsum([0, *map(len, blocks)]).tolist()
        return [cls(k, parts, first[k], threads[k]) for k, parts in enumerate(blocks)]

    @property
    def sentences(self) -> tuple[int, int]:
        """The first one, and the one after the last."""
        return int(self.blocks[0][0]), int(self.blocks[-1][-1])


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
        return _read(self.path, os.stat(self.path).st_mtime_ns)


@lru_cache(64)
def _read(path: str, changed: int) -> NBest:
    """Read a store, of which every page is checked, once for all tasks of a run; bare ones share what it has."""
    return read_store(path)


class Source(NamedTuple):
    """A list that workers open themselves: a store, or the parts of one, of which a worker opens those with its sentences."""

    files: tuple[StoreFile, ...]
    like: NBest | None = None  # the list without sentences: names, and what is told of all of them
    left_out: tuple[str, ...] = ()  # features that cannot be learned from

    @classmethod
    def of(cls, path: str, nbest: NBest) -> Source:
        """Return the list of this name, which is here already."""
        parts = [os.path.abspath(part) for part in parts_of(path)] or [os.path.abspath(path)]
        sizes = [len(nbest)] if len(parts) == 1 else [len(read_store(part)) for part in parts]
        files = tuple(StoreFile(part, os.path.getsize(part), n) for part, n in zip(parts, sizes, strict=True))
        like = nbest[:0] if KEY in nbest.meta or len(parts) == 1 else with_precision(nbest)[:0]
        return cls(files, like, tuple(out_of_range(nbest)))

    def lacks(self) -> list[bool]:
        """Tell which of the parts are not here."""
        return [not os.path.isfile(file.path) for file in self.files]

    def open(self) -> NBest:
        """Open what can be learned from on a worker."""
        return learnable(self.read()[0], self.left_out)

    def read(self, sentences: tuple[int, int] | None = None) -> tuple[NBest, int]:
        """Open the parts that have the sentences from the first to before the second; and their first one."""
        assert self.like is not None
        ends = np.cumsum([file.sentences for file in self.files]).tolist()
        first, last = sentences or (0, ends[-1])
        held = [(file, end) for file, end in zip(self.files, ends, strict=True) if end > first and end - file.sentences < last]
        files, start = tuple(file for file, _ in held), held[0][1] - held[0][0].sentences
        if files not in _STACKED:
            _STACKED.clear()
            _STACKED[files] = stack([file.open() for file in files])
        lists = at_columns(_STACKED[files], self.like.unit_names, self.like.extra_names, self.like.sparse_names)
        return replace(lists, meta=self.like.meta, quality=replace(lists.quality, unit=self.like.quality.unit)), start

    def run(self, task: Callable[[NBest], T], first: int, last: int) -> T:
        """Return the result of a task for some sentences on a worker."""
        lists, start = self.read((first, last))
        with threadpool_limits(1, "blas"):
            return task(learnable(lists.take(slice(first - start, last - start), all_units=True), self.left_out))


class NearPart(NamedTuple):
    """A part as a worker tells of it: its sentences without their hypotheses, and what is summed up over these."""

    file: StoreFile
    lists: NBest
    n_hyps: int
    has_stats: bool
    has_scores: bool
    largest: tuple[tuple[Sequence[str], F64], ...]
    hashes: Array

    @classmethod
    def of(cls, path: str) -> NearPart:
        """Read a part on a worker."""
        size = os.path.getsize(path)
        part, none = StoreFile(path, size, 0).open(), np.zeros(0, np.int64)
        bare = replace(part.take_hyps(none, np.zeros(len(part) + 1, np.int64)), units=part.units.take(none), notes=Notes())
        sums = part.n_hyps, part.has_stats, part.has_scores, part.largest_values, part.sentence_hashes
        return cls(StoreFile(path, size, len(part)), bare, *sums)


@dataclass(frozen=True, eq=False, repr=False)
class NearList(NBest):
    """A list whose hypotheses are near workers: here are its sentences and names, and what workers tell of the rest."""

    files: Source | None = None  # that have them
    told: tuple[NearPart, ...] = ()
    ask: Callable[..., list[Any]] = list  # workers: results of a task for their sentences

    @classmethod
    def of(cls, told: Sequence[NearPart], ask: Callable[..., list[Any]]) -> NearList | None:
        """Return the list of these parts; None where they do not go together so, or say too little of themselves."""
        first, parts = told[0].lists, [part.lists for part in told]
        alike = {(nb.unit_names, nb.extra_names, nb.tokenizer, nb.quality.names) for nb in parts}
        if len(alike) > 1 or first.quality.names or KEY not in first.meta or not all(part.has_stats for part in told):
            return None
        sparse_names = strings(ordered_union(nb.sparse_names.to_pylist() for nb in parts))
        own = columns(together([replace(nb, sparse_names=sparse_names) for nb in parts]))
        lists = with_columns(NearList.bare(np.zeros(1, np.int64), strings([]), told=tuple(told), ask=ask), own)
        like = with_columns(first.take(np.zeros(0, np.int64)), {"sparse_names": sparse_names})
        files = Source(tuple(part.file for part in told), like, tuple(out_of_range(lists)))
        return with_columns(lists, {"files": files})

    n_hyps = property(lambda self: sum(part.n_hyps for part in self.told))
    has_stats = property(lambda self: True)
    has_scores = property(lambda self: all(part.has_scores for part in self.told))
    sentence_hashes = property(lambda self: np.concatenate([part.hashes for part in self.told]))

    @property
    def largest_values(self) -> tuple[tuple[Sequence[str], F64], ...]:
        """Return the largest values of all parts."""
        largest = dict[str, float]()
        for names, sizes in (group for part in self.told for group in part.largest):
            largest |= {name: float(np.maximum(largest.get(name, 0.0), size)) for name, size in zip(names, sizes, strict=True)}
        return ((tuple(largest), np.array([*largest.values()])),)

    def in_parts(self, task: Callable[[NBest], T], first: int | None = None) -> list[T]:
        return self.ask(self, task, first)

    def take_hyps(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("expected a list whose hypotheses are here, found one of workers; use in_parts")

    sum_units = global_rows = take_hyps


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
        self._lists = nbest  # the corpus, or sentences of it

        def part(k: int) -> BlockRange:
            return BlockRange(nbest, share.blocks[k], share.first + k, options, share.start, share.left_out)

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
        if self.options is None or self.options.level == "global" or self.share.left_out:
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
        return precision_of(learnable(self._lists, self.share.left_out), self._names)

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

_STACKED: dict[tuple[StoreFile, ...], NBest] = {}  # the parts that were read last, put together
_IDLE = 3600.0  # seconds after which a run is taken for dead: its driver could not say that it is over
_SHARDS: dict[str, tuple[ThreadPoolExecutor, Any]] = {}  # of each run, with the thread that its methods run in
_USED: dict[str, float] = {}  # when each was last called


def opened(lists: Source | Changed | NBest | None) -> Any:
    """Return lists as a worker has them: those of a store are opened, others were sent."""
    return lists.open() if isinstance(lists, Source) else lists.whole if isinstance(lists, Changed) else lists


def on_worker(function: Callable[..., T], *arguments: Any, **how: Any) -> T:
    """Call a function on a worker, whose name errors about files begin with; their kinds want more than a message keeps."""
    from distributed import get_worker

    try:
        return function(*arguments, **how)
    except InputError as error:
        raise InputError(f"worker {get_worker().address}: {error}") from None


def load(key: str, make: Any, lists: Source | NBest, *rest: Any) -> dict[str, str]:
    """Make the shard of a run on this worker. Returns the versions of what has to be the same everywhere."""
    for old in [old for old, used in _USED.items() if time.monotonic() - used > _IDLE]:
        drop(old)
    *arguments, share = rest
    thread = ThreadPoolExecutor(1, thread_name_prefix="shard")
    nbest, start = lists.read(share.sentences) if isinstance(lists, Source) else (opened(lists), 0)
    share = share._replace(start=start, left_out=lists.left_out if isinstance(lists, Source) else ())
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
    _STACKED.clear()
    _read.cache_clear()
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
