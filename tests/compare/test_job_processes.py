"""Jobs in processes of their own: their results, reports and errors come back, and they end with their caller."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable

import pytest

from boostfeat.compare.job_processes import Job, JobProcesses
from boostfeat.core import processes
from boostfeat.core.errors import InputError
from boostfeat.core.processes import peak_mb, usable_cores

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]


@pytest.fixture(autouse=True)
def _quick_start(monkeypatch):
    """A fork starts at once; what is tested is the same."""
    monkeypatch.setattr(processes, "START", "fork")


def square(x: int, *, report: Callable[[str], None]) -> int:
    report(f"squaring {x}")
    time.sleep(0.02 * x)
    return x * x


def wrong(kind: type[Exception], *, report: Callable[[str], None]) -> None:
    raise kind("for a reason")


def die(number: int, *, report: Callable[[str], None]) -> None:
    os._exit(3) if not number else os.kill(os.getpid(), number)


def ended(code: int, *, report: Callable[[str], None]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


class Calls:
    """Jobs one after another, all known beforehand."""

    def __init__(self, job: Callable[..., object], *calls: tuple[object, ...]) -> None:
        self.todo = [Job(str(k), job.__name__, job, args) for k, args in enumerate(calls)][::-1]
        self.found: dict[str, tuple[object, float]] = {}
        self.running: list[int] = []
        self.n_jobs = len(calls)

    def take(self) -> Job | None:
        self.running.append(self.n_jobs - len(self.todo) - len(self.found))
        return self.todo.pop() if self.todo else None

    def done(self, job: Job, result: object, peak_mb: float) -> None:
        self.found[job.key] = result, peak_mb


def run(calls: Calls, size: int = 1, report: Callable[[str], None] = print) -> Calls:
    with JobProcesses(size) as workers:
        workers.run(calls, report=report)
        workers.run(calls, report=report)  # nothing is left
    assert not running()
    return calls


def running() -> list[object]:
    """Workers, and not Dask's processes."""
    return [child for child in multiprocessing.active_children() if child.name.startswith("ForkProcess-")]


def process(*, report: Callable[[str], None]) -> int:
    return os.getpid()


def test_results_come_with_the_keys_of_jobs():
    notes: list[str] = []
    calls = run(Calls(square, (3,), (1,), (2,)), 2, notes.append)
    assert {key: value for key, (value, _) in calls.found.items()} == {"0": 9, "1": 1, "2": 4}
    assert all(1 < mb < 100_000 for _, mb in calls.found.values())
    assert sorted(notes) == ["squaring 1", "squaring 2", "squaring 3"]
    assert max(calls.running) == 1  # when it is asked for a job, at most one other runs


def test_workers_stay_for_the_next_job():
    calls = run(Calls(process, (), (), ()))
    assert len({pid for pid, _ in calls.found.values()}) == 1
    assert os.getpid() not in {pid for pid, _ in calls.found.values()}


@pytest.mark.parametrize(("kind", "here"), [(InputError, InputError), (KeyError, RuntimeError)])
def test_errors_come_back(kind, here):
    with pytest.raises(here, match="for a reason"):
        run(Calls(wrong, (kind,)))


@pytest.mark.parametrize(
    ("job", "number", "message"),
    [
        (die, 0, "die: ended early, with exit code 3; start it again"),
        (die, signal.SIGKILL, "die: ended by signal 9; is there enough memory?"),
        (ended, 0, "ended: ended early, with exit code 143; start it again"),  # 128 + 15: it unwinds
    ],
)
def test_a_child_that_dies_is_told_of(job, number, message):
    with pytest.raises(InputError) as error:
        run(Calls(job, (number,)))
    assert str(error.value) == message


def test_an_interrupted_caller_ends_its_children():
    def interrupt(note: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(Calls(square, (500,), (500,)), 2, interrupt)
    assert time.monotonic() - began < 4.9  # not the ten seconds that they would take
    assert not running()


def test_memory_is_in_megabytes():
    block = bytearray(64 << 20)
    assert 64 < peak_mb() < 100_000
    assert len(block) == 64 << 20


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert usable_cores() == 3
