"""Work that is shared with forks of this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe, get_context

import pytest

from boostfeat.core.errors import InputError
from boostfeat.lists.forks import in_forks

pytestmark = pytest.mark.quick


def test_results_come_in_order_from_several_processes():
    def task(k: int) -> tuple[int, int]:
        time.sleep(0.1)  # until the last fork has started, on a busy machine too
        return k, os.getpid()

    results = in_forks(task, range(12), 3)
    assert [k for k, _ in results] == list(range(12))
    assert len({pid for _, pid in results}) == 3
    assert {pid for _, pid in in_forks(task, range(3), 1)} == {os.getpid()}
    assert in_forks(task, [], 2) == []


@pytest.mark.parametrize("bad", [0, 1])
def test_what_fails_in_a_fork_fails_here(bad):
    """Here or there, whoever takes it."""

    def task(k: int) -> int:
        time.sleep(0.05)
        if k == bad:
            raise InputError("template 'x': no")
        return k

    with pytest.raises(InputError, match="template 'x': no"):
        in_forks(task, range(2), 2)


def test_a_fork_that_is_killed_is_an_error():
    here = os.getpid()

    def task(k: int) -> int:
        time.sleep(0.05)
        if os.getpid() != here:
            os.kill(os.getpid(), 9)
        return k

    with pytest.raises(InputError, match="a worker process ended early; is there enough memory"):
        in_forks(task, range(4), 2)


def test_jobs_of_compare_and_workers_of_dask_fork_too():
    """These are daemons, which may not start processes of multiprocessing."""
    ours, theirs = Pipe(duplex=False)
    job = get_context("fork").Process(
        target=lambda: theirs.send(in_forks(lambda k: (time.sleep(0.05), k)[1], range(4), 2)), daemon=True
    )
    job.start()
    assert ours.poll(30)
    assert ours.recv() == [0, 1, 2, 3]
    job.join()


def test_a_fork_ends_when_nobody_is_left_to_read_its_result():
    """A process that is killed could not end its forks: their output, which is also theirs, would stay open for ever."""
    program = """
import os, signal, time
from boostfeat.lists.forks import in_forks
caller = os.getpid()

def task(k):
    if os.getpid() == caller:
        time.sleep(0.2)  # until the other is taken
        os.kill(caller, signal.SIGKILL)
    time.sleep(0.4)
    return bytes(1 << 20)  # more than a pipe holds

in_forks(task, range(2), 2)
"""
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
