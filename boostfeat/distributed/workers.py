"""The workers of a Dask cluster as one: calls go to all of them, and one that dies is noticed and named."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..core.arrays import block_ptr
from ..core.errors import InputError, counted
from ..lists.nbest import NBest, columns
from ..tuners.linear import LinearPart
from .block_range import BlockRange
from .worker_data import Changed, NearList, Share, Source, WorkerData, call, drop, free_port, load, on_worker, versions

P = ParamSpec("P")
T = TypeVar("T")
_POLL = 1.0  # seconds between looks at who is still there
_ENVIRONMENT = {  # of local workers. Dask's own makes every array fresh pages, which costs more than the sums over it
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1),
    "MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
_QUIET = {  # a local cluster looks at itself a hundred times a second, which costs 7% of a core
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.large-graph-warning-threshold": "1TB",
}
_NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
_RESTART = 30.0  # seconds that workers get, at least, to start again in
_LONGEST = 60  # times the timeout: no call takes longer
_BUSY = "600s"  # that a connection waits for a process that has no time to read; who is gone is seen otherwise
_CODE = ("boostfeat.distributed.cluster_tuning", "boostfeat.boosting.induce")  # that workers run
_LOSSES = 3  # times that workers are lost at the same place


class WorkerLostError(RuntimeError):
    """A worker is gone, or has not been heard of for too long."""


@contextlib.contextmanager
def connected(
    scheduler: str, *, workers: int | None, threads: int, timeout: float = 20.0, dashboard: bool = False
) -> Iterator[Any]:
    """Give a Dask client: of the scheduler at this address, or of a cluster of processes here (``local``), which ends with it.

    A local cluster listens on the loopback address alone and speaks TLS with a key made for this run: whoever can talk to a
    scheduler can run code as its user. It serves no pages, unless the dashboard is asked for.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.utils import get_mp_context

        import_module("cryptography")  # what Dask makes the key with
    except ImportError as error:
        raise InputError(f"--engine dask: the package {error.name} is not installed; pip install 'boostfeat[dask]'") from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(_logs_silent())
        # a local cluster would give up a worker that takes longer to restart, nanny and all
        settings = {
            "distributed.comm.timeouts.connect": timeout,
            "distributed.comm.timeouts.tcp": _BUSY,
            "distributed.deploy.lost-worker-timeout": 600,
            "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
            "distributed.worker.multiprocessing-method": "forkserver",  # of a process that has imported their code once
            **_QUIET,
            **({} if dashboard else _NO_PAGES),
        }
        stack.enter_context(dask.config.set(settings))
        is_local = scheduler == "local"
        if is_local:
            n = workers or threads
            get_mp_context().set_forkserver_preload(["distributed", *_CODE])  # instead of the packages that Dask has set
            with _interrupts_held():
                cluster = LocalCluster(
                    n_workers=n,
                    threads_per_worker=max(1, threads // n),
                    processes=True,
                    memory_limit=0,  # a nanny would end a worker that holds much, and it would only be loaded again
                    host="127.0.0.1",
                    security=True,
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,  # of workers
                )
                scheduler = stack.enter_context(cluster)
                stack.push(lambda kind, *_: _end_now(cluster) if kind else None)
        try:
            # of another cluster the scheduler alone may be in reach
            client = Client(scheduler, timeout=timeout, direct_to_workers=is_local)
        except (OSError, ValueError, MemoryError) as error:  # the last: what another server says, taken for a length
            reason = "another server answers there" if isinstance(error, MemoryError) else str(error).partition("\n")[0][:120]
            raise InputError(
                "--set scheduler: expected the address of a Dask scheduler (tcp://host:8786) or 'local', found "
                f"{scheduler}: {reason}"
            ) from None
        yield stack.enter_context(client)


@contextlib.contextmanager
def _logs_silent() -> Iterator[None]:
    """Silence Dask's logs: what goes wrong is said here, in one line, and a cluster may still send when it has closed."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def _end_now(cluster: Any) -> None:
    """End the processes of a local cluster: asked to, a worker would first finish what it does."""
    for nanny in cluster.workers.values():
        nanny.close_gracefully()  # it will not start another
        with contextlib.suppress(ProcessLookupError, TypeError):  # it has ended, or not started
            os.kill(nanny.pid, signal.SIGKILL)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal. Those started here never hear of it, for we end them; we do afterwards.

    Threads and processes inherit the mask, also those that start later: a nanny's worker after a restart.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # or the first process to start would start it, and unblock Ctrl-C after that
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _scheduler_is_gone() -> InputError:
    return InputError(
        "--set scheduler: expected the scheduler to answer, found it gone; start it again, and then the command "
        "(induce goes on with --resume)"
    )


def flat(answers: Iterable[list[Any]]) -> list[Any]:
    return [item for items in answers for item in items]


class Workers:
    """Workers that make calls of their own, or hold consecutive blocks of a corpus each."""

    def __init__(
        self,
        client: Any,
        *,
        workers: int | None = None,
        timeout: float = 60.0,
        stores: Sequence[tuple[NBest, Source]] = (),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``stores`` has lists that workers open themselves; all others are sent. ``say`` hears of workers that are lost."""
        self.client, self.timeout, self.say = client, timeout, say
        self._key, self._seen = "", {}  # type: tuple[str, dict[str, tuple[float, float]]]
        self._waiting: list[tuple[Any, ...]] = []
        self.stores = list(stores)
        self._sent: list[tuple[NBest, Any]] = []  # lists, and Dask's names of them
        self._pool = ThreadPoolExecutor(8)
        self._lost = "", 0  # what was done when workers were lost, and how often
        self._imported: list[str] = []  # workers that have the code
        self.members = self._wait_for(workers or 1, workers)  # by address, in the order of their blocks
        self.holders: list[str] = []  # those that have a shard of the run

    # -- who is there --------------------------------------------------------------------------------------------------

    def _present(self) -> dict[str, Any]:
        # not client.scheduler_info: what it returns is emptied of workers by a timer of the client
        with self._reached():
            found = self.client.sync(self.client.scheduler.identity, n_workers=-1, callback_timeout=self.timeout)
        return dict(found["workers"])

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """The scheduler, that is. What happens to workers does not raise these."""
        try:
            yield
        except (OSError, CancelledError):  # also where it does not answer in time
            raise _scheduler_is_gone() from None

    @staticmethod
    def _result(future: Any) -> Any:
        """Return what a call has given; Dask cancels all when it loses its scheduler."""
        try:
            return future.result()
        except CancelledError:
            raise _scheduler_is_gone() from None
        except RuntimeError as error:
            if "deserialization of the task graph" not in str(error):
                raise
            raise InputError(
                "--set scheduler: expected a scheduler that knows boostfeat, found one that cannot read what is sent; start it "
                "in the same environment as the workers"
            ) from None

    def _wait_for(
        self,
        least: int,
        most: int | None,
        nannies: Sequence[str] = (),
        *,
        before: Mapping[str, Any] = {},
        patience: float | None = None,
    ) -> dict[str, Any]:
        """Wait for so many workers (of these nannies); with patience for ``most``, or those that came in time.

        Those that have given no sign since ``before`` do not count: the scheduler may remember them for minutes.
        """
        until = time.monotonic() + (patience or self.timeout)
        while True:
            fresh = {a: w for a, w in self._present().items() if w["last_seen"] != before.get(a, {}).get("last_seen")}
            found = {a: w for a, w in sorted(fresh.items()) if not nannies or w.get("nanny") in nannies}
            late = time.monotonic() > until
            if len(found) >= (least if late or not patience else most or least):
                return dict(list(found.items())[:most])
            if late:
                raise InputError(
                    f"--engine dask: expected {counted(least, 'worker')} within {patience or self.timeout:g} s, found "
                    f"{len(found)}; "
                    "start some with 'dask worker'"
                )
            time.sleep(_POLL / 4)

    def _check(self) -> None:
        present, now = self._present(), time.monotonic()
        for address in self.members:
            if address not in present:
                raise WorkerLostError(f"worker {address}: its process or machine is gone")
            sign = float(present[address]["last_seen"])
            if self._seen.get(address, (0.0, 0.0))[0] != sign:
                self._seen[address] = sign, now
            elif now - self._seen[address][1] > self.timeout:
                raise WorkerLostError(f"worker {address}: no sign of it for {self.timeout:g} s")

    def heal(self, lost: WorkerLostError, done: str) -> None:
        """Go on with the workers that are left, each in a fresh process: LightGBM waits for a dead peer for ever."""
        self._lost = done, (self._lost[1] if self._lost[0] == done else 0) + 1
        if self._lost[1] == _LOSSES:
            raise InputError(
                f"--engine dask: {lost}; workers were lost {_LOSSES} times {done}: do they have memory enough? "
                "(induce goes on with --resume)"
            )
        self.say(f"{lost}; workers start again")
        present = self._present()
        left = {a: w for a, w in self.members.items() if a in present}
        if any(not w.get("nanny") for w in left.values()):
            raise InputError(
                "--engine dask: expected workers that a nanny can restart, found some without; start them with --nanny"
            )
        self._pool.shutdown(wait=False)
        self._pool = ThreadPoolExecutor(8)
        patience = max(self.timeout, _RESTART)
        if left:
            with self._reached():
                self.client.restart_workers(list(left), timeout=patience, raise_for_error=False)
        self._seen.clear()
        nannies = [worker["nanny"] for worker in left.values()]
        self.members = self._wait_for(1, max(1, len(left)), nannies, before=present, patience=patience)
        self._sent.clear()
        self.say(f"going on {done} with {counted(len(self.members), 'worker')}")

    # -- calls ---------------------------------------------------------------------------------------------------------

    def handle(self, nbest: NBest, addresses: Sequence[str] = ()) -> Source | Any:
        """Return what a worker's function is given for a list: the store that it opens, or a list that is sent.

        It is sent once, to workers that a call of it may go to, and without what these open themselves.
        """
        if source := self.source_of(nbest) or next((handle for known, handle in self._sent if known is nbest), None):
            return source
        bare: Any = replace(nbest)  # without what it has computed
        own = columns(nbest)
        for store, source in self.stores:
            theirs = columns(store)
            if any(len(own[name]) and own[name] is theirs[name] for name in ("text", "unit_ptr")):
                bare = Changed(source, {name: column for name, column in own.items() if column is not theirs[name]})
        to = list(addresses or self.members)
        self._sent.append((nbest, self._awaited(self.client.scatter, bare, workers=to, hash=False)))
        return self._sent[-1][1]

    def source_of(self, nbest: NBest) -> Source | None:
        """Return the files that workers open the list from; None where it is sent."""
        return nbest.files if isinstance(nbest, NearList) else next((s for known, s in self.stores if known is nbest), None)

    def results(self, calls: Sequence[tuple[Any, ...]], done: Callable[[int], None] = lambda _: None) -> list[Any]:
        """Return results of calls, function and arguments, of any workers; those that a lost worker had are made again.

        Lists among the arguments get there as ``handle`` says; ``done`` hears how many calls have ended.
        """
        results = dict[int, Any]()
        while len(results) < len(calls):
            try:
                self._import()
                left = [k for k in range(len(calls)) if k not in results]
                some = list(self.members)[: len(left)]  # others need no list
                futures = {self._submit(calls[k], some): k for k in left}
                while futures:
                    for future in self._ended(futures):
                        results[futures.pop(future)] = self._result(future)
                        done(len(results))
            except WorkerLostError as lost:
                self.heal(lost, f"with {len(results)} of {counted(len(calls), 'task')} done")
        return [results[k] for k in range(len(calls))]

    def _import(self) -> None:
        """Let workers import their code, in threads: a call's own imports would keep its worker from giving signs of life."""
        if self._imported == list(self.members):
            return
        calls = [(import_module, name) for name in _CODE]
        futures = [self._submit(call, [address]) for address in self.members for call in calls]
        while futures:
            ended = self._ended(futures)
            futures = [future for future in futures if future not in ended]
        self._imported = list(self.members)

    def _submit(self, call: tuple[Any, ...], addresses: list[str]) -> Any:
        function, *arguments = (self.handle(item, addresses) if isinstance(item, NBest) else item for item in call)
        return self.client.submit(on_worker, function, *arguments, workers=addresses, allow_other_workers=False, pure=False)

    def _ended(self, futures: Iterable[Any]) -> list[Any]:
        """Wait for some of these to end, not for long; raise where a worker is lost."""
        from distributed import wait as wait_for

        with self._reached(), contextlib.suppress(TimeoutError):
            wait_for(list(futures), timeout=min(_POLL, self.timeout / 4), return_when="FIRST_COMPLETED")
        self._check()
        return [future for future in futures if future.done()]

    def load(self, make: Any, nbest: NBest, *arguments: Any, most: int | None = None) -> None:
        """Make the shards of workers, or of so many at most: consecutive blocks, about as many sentences each."""
        shares = self._shares(nbest, most)
        self._key, self._waiting, self.n_parts = uuid.uuid4().hex, [], sum(len(share.blocks) for share in shares)
        call = load, self._key, make, nbest, *arguments
        calls = [(address, (*call, share)) for address, share in zip(self.holders, shares, strict=True)]
        for address, theirs in zip(self.holders, self._on(calls), strict=True):
            if theirs != versions():
                raise InputError(
                    f"worker {address}: expected the versions of the driver ({versions()}), found {theirs}; install the same"
                )

    def _shares(self, nbest: NBest, most: int | None = None) -> list[Share]:
        """Share out a list among workers, or so many at most, in the order of the parts that they see."""
        self._import()
        source, members = self.source_of(nbest), list(self.members)
        if source and len(source.files) > 1:
            lacks = dict(zip(members, self._on([(address, (source.lacks,)) for address in members]), strict=True))
            members.sort(key=lacks.__getitem__)
        self.holders = members[: min(most or len(members), len(block_ptr(len(nbest))) - 1)]
        return Share.of(len(nbest), [int(self.members[address]["nthreads"]) for address in self.holders])

    def _on(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Return results of calls, each of its own worker."""
        futures, results = {self._submit(call, [address]): k for k, (address, call) in enumerate(calls)}, dict[int, Any]()
        while futures:
            for future in self._ended(futures):
                results[futures.pop(future)] = self._result(future)
        return [results[k] for k in range(len(calls))]

    def in_shares(self, nbest: NBest, task: Callable[[NBest], T], first: int | None = None) -> list[T]:
        """Return results of a task for consecutive sentences, all or the first so many, each of the worker that is near them."""
        end, source = len(nbest) if first is None else first, self.source_of(nbest)

        def results() -> list[T]:
            own = zip(self._shares(nbest), self.holders, strict=True)
            some = [(address, a, min(b, end)) for (a, b), address in ((share.sentences, at) for share, at in own) if a < end]
            return self._on([(address, (Source.run, source, task, a, b)) for address, a, b in some])

        return self._until_done(results)

    def near(self, source: Source, task: Callable[[str], T]) -> list[T]:
        """Return results of a task for the path of each part, each of a worker that sees it."""

        def results() -> list[T]:
            self._import()
            lacks, calls = self._on([(address, (source.lacks,)) for address in self.members]), []
            for k, (path, *_) in enumerate(source.files):
                some = [address for address, own in zip(self.members, lacks, strict=True) if not own[k]]
                if not some:
                    raise InputError(f"{path}: expected a worker that sees the part, found none; put it where workers see it")
                calls.append((some[k * len(some) // len(source.files)], (task, path)))
            return self._on(calls)

        return self._until_done(results)

    def _until_done(self, work: Callable[[], T]) -> T:
        """Return what a function gives that asks workers, which is called again when one is lost."""
        while True:
            try:
                return work()
            except WorkerLostError as lost:
                self.heal(lost, "with the lists")

    def shards(self, method: Callable[Concatenate[Any, P], T], /, *arguments: P.args, **named: P.kwargs) -> list[T]:
        """Call a method of every worker's data; return what they give, in the order of their blocks."""
        return self.together((partial(method, **named) if named else method, *arguments))[0]

    def each(
        self, method: Callable[Concatenate[BlockRange, P], list[T] | None], /, *arguments: P.args, **named: P.kwargs
    ) -> list[T]:
        """Call a method of every part; return what they give, in their order."""
        return flat(self.shards(WorkerData.each, method, *arguments, **named))

    def each_linear(self, method: Callable[Concatenate[LinearPart, P], T], /, *arguments: P.args, **named: P.kwargs) -> list[T]:
        """Call a method of every block's linear part: EachBlock of LinearProblem."""
        return self.each(BlockRange.linear, partial(method, **named) if named else method, *arguments)

    def together(self, *calls: tuple[Any, ...]) -> list[list[Any]]:
        """Call several methods of every worker's data, one after the other; workers are asked once."""
        before, self._waiting = self._waiting, []
        found = self._run(call, self._key, [*before, *calls])
        return [list(answers) for answers in zip(*found, strict=True)][len(before) :]

    def later(self, method: Callable[Concatenate[Any, P], Any], /, *arguments: P.args, **named: P.kwargs) -> None:
        """Call a method of every worker's data, when the next call is made: nobody waits for what it gives."""
        self._waiting.append((partial(method, **named) if named else method, *arguments))

    def later_each(self, method: Callable[Concatenate[BlockRange, P], Any], /, *arguments: P.args, **named: P.kwargs) -> None:
        """Call a method of every part, when the next call is made."""
        self.later(WorkerData.each, method, *arguments, **named)

    def connect(self) -> None:
        """LightGBM's own network among the workers."""
        from distributed.comm.addressing import get_address_host

        ports = self._run(free_port)
        machines = [(get_address_host(address), port) for address, port in zip(self.holders, ports, strict=True)]
        self.shards(WorkerData.connect, machines, max(1, round(self.timeout / 60)))

    def close(self) -> None:
        """Free what workers hold."""
        self.holders = list(self.members)
        with contextlib.suppress(WorkerLostError, InputError):
            self._run(drop, self._key)
        self._pool.shutdown(wait=False)

    def abandon(self) -> None:
        """Leave a run that has failed or was interrupted: nobody waits until workers have ended what they do."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._key:
            thread = ThreadPoolExecutor(1)
            wait([thread.submit(self.client.run, drop, self._key, wait=False, on_error="return")], timeout=_POLL)
            thread.shutdown(wait=False)

    def _awaited(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Return what a function gives that waits for workers, in a thread of its own, so that a worker's death is seen here."""
        running = self._pool.submit(function, *arguments, **named)
        until = time.monotonic() + _LONGEST * self.timeout
        while not wait([running], timeout=min(_POLL, self.timeout / 4)).done:
            self._check()
            if time.monotonic() > until:
                raise InputError(f"--engine dask: no answer from workers for {_LONGEST * self.timeout:g} s; raise --timeout")
        with self._reached():
            return running.result()

    def _run(self, job: Any, *arguments: Any) -> list[Any]:
        """Return results of a job on all workers that have a shard."""
        answers = self._awaited(self.client.run, job, *arguments, workers=self.holders, on_error="return")
        for address in self.holders:
            if isinstance(answers.get(address, OSError()), OSError):  # the connection broke
                self._await_departure([address])
                raise WorkerLostError(f"worker {address}: its process or machine is gone")
        for address, answer in answers.items():
            if isinstance(answer, InputError):
                raise answer
            if isinstance(answer, Exception):
                self._await_departure(self.holders)  # LightGBM on this worker may have lost another
                self._check()
                raise RuntimeError(f"worker {address}: {type(answer).__name__}: {answer}") from answer
        return [answers[address] for address in self.holders]

    def _await_departure(self, addresses: Sequence[str]) -> None:
        """Wait until one of them is gone for the scheduler, too, which may notice a little later than we do."""
        until = time.monotonic() + 5
        while set(addresses) <= set(self._present()) and time.monotonic() < until:
            time.sleep(_POLL / 4)
