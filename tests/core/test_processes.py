"""Jobs in processes of their own: their results, reports and errors come back, and they end with their caller."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable

import pytest

from boostfeat.core import processes
from boostfeat.core.errors import InputError
from boostfeat.core.processes import in_child, in_children, peak_mb

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


def test_results_come_in_the_order_of_calls():
    notes: list[str] = []
    found = in_children(square, [(3,), (1,), (2,)], report=notes.append, at_once=2)
    assert [value for value, _ in found] == [9, 1, 4]
    assert all(mb > 1 for _, mb in found)
    assert sorted(notes) == ["squaring 1", "squaring 2", "squaring 3"]
    value, mb = in_child(square, 5, report=notes.append)
    assert value == 25
    assert 1 < mb < 100_000


@pytest.mark.parametrize(("kind", "here"), [(InputError, InputError), (KeyError, RuntimeError)])
def test_errors_come_back(kind, here):
    with pytest.raises(here, match="for a reason"):
        in_child(wrong, kind, report=print)


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
        in_child(job, number, report=print)
    assert str(error.value) == message


def test_an_interrupted_caller_ends_its_children():
    def interrupt(note: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_children(square, [(500,), (500,)], report=interrupt, at_once=2)
    assert time.monotonic() - began < 4.9  # not the ten seconds that they would take
    assert not multiprocessing.active_children()


def test_memory_is_in_megabytes():
    block = bytearray(64 << 20)
    assert 64 < peak_mb() < 100_000
    assert len(block) == 64 << 20
