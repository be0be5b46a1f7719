"""Tests in forks of one process that has collected them: a child begins with its first test at once."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from exchange import ROOT

PATIENCE = 45.0  # seconds after which a test that uses no processor time is taken to wait for ever

LATE = 75  # exit code of a child whose time was up

Test = tuple[str, float]  # node id, CPU seconds
Tell = Callable[[Any], None]
Late = Callable[[int, FrameType | None], None]


def child(job: Callable[[Path, Tell], None], heard: Tell, patience: float = PATIENCE) -> str:
    """Do ``job`` in a fork of this process, which has a folder of its own; what it tells is heard here at once.

    '' or how the child ended before its job was done: it is ended after so many seconds without processor time of its own.
    """
    ours, theirs = os.pipe()
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(ours)
            os.setsid()
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            job(folder, lambda value: _write(theirs, json.dumps(value).encode() + b"\n"))
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(theirs)
    try:
        code = _listen(pid, ours, lambda line: heard(json.loads(line)), patience)
        if code == 1:
            print(f"the meter failed:\n{(folder / 'log').read_text()[-3000:]}", file=sys.__stderr__, flush=True)
            os._exit(1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return "" if code == 0 else "late" if code == LATE else f"died ({code})"


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _listen(pid: int, pipe: int, line: Callable[[bytes], None], patience: float) -> int:
    """Pass on the lines that a child writes; its exit code."""
    data, used, since, ended, status = b"", "", time.monotonic(), 0, 0
    while True:
        if select.select([pipe], [], [], 0.0 if ended else 1.0)[0]:
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            *whole, data = (data + part).split(b"\n")
            for text in whole:
                line(text)
        elif ended:  # the other end may be open still in a sibling that was forked meanwhile
            break
        ended, status = (ended, status) if ended else os.waitpid(pid, os.WNOHANG)
        now = _processor_time(pid)
        if now != used:
            used, since = now, time.monotonic()
        if time.monotonic() - since > patience:
            os.killpg(pid, signal.SIGKILL)
            break
    os.close(pipe)
    if not ended:
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _processor_time(pid: int) -> str:
    """Of a process, its threads, and the processes that have ended in it."""
    try:
        return " ".join(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])
    except OSError:
        return ""


class Session:
    """A plugin that hands the collected tests to ``use`` in place of running them."""

    def __init__(self, use: Callable[[Session], None]) -> None:
        self.use = use
        self.items: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_runtestloop(self, session: Any) -> bool:
        if not session.testsfailed:  # all files could be collected
            self.config, self.items = session.config, {item.nodeid: item for item in session.items}
            self.use(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def run(self, nodes: Sequence[str], folder: Path, limit: Callable[[str], float], late: Late | None = None) -> Iterator[str]:
        """In a child: run these tests, the name of each first. ``late`` is called when its CPU seconds are up, or the process ends."""
        self.config._tmp_path_factory._basetemp = folder
        signal.signal(signal.SIGPROF, lambda number, frame: late(number, frame) if late else os._exit(LATE))
        chosen = [self.items[node] for node in nodes]
        for item, following in zip(chosen, [*chosen[1:], None], strict=False):
            yield item.nodeid
            began, seconds = time.process_time(), limit(item.nodeid)
            used = resource.getrusage(resource.RUSAGE_SELF)
            most = int(used.ru_utime + used.ru_stime + 2 * seconds) + 5  # compiled code does not look at signals
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            signal.setitimer(signal.ITIMER_PROF, seconds)
            self.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.seconds[item.nodeid] = time.process_time() - began


def run_pytest(files: Sequence[str], plugin: Any, *more: str) -> int:
    import pytest

    os.chdir(ROOT)
    # numba wraps around in silence where numpy warns
    options = ["-q", "--tb=no", "--assert=plain", "--capture=sys", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    for warning in ("overflow encountered", "Module already imported"):
        options += ["-W", f"ignore:{warning}"]
    sys.stdout.flush()
    return int(pytest.main([*options, *more, *files], plugins=[plugin]))


def prepare() -> None:
    """Property tests draw the same examples every time, and a failure is enough: it need not be made small."""
    import hypothesis

    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile(
        "mutation", derandomize=True, database=None, phases=phases, print_blob=False, deadline=None, suppress_health_check=slow
    )
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
