"""Damaged input to every reader: no crash, no hang, no traceback; an error with a place, or something whole.

    python tests/fuzz/run.py --jobs 2                         # a million inputs to each of 84 readers: some 4 CPU hours
    python tests/fuzz/run.py --readers moses,store --inputs 20000 --first 500000
    python tests/fuzz/run.py --show moses:1234 > input        # what input 1234 of the reader of Moses lists is
    python tests/fuzz/run.py --bounds-check --inputs 20000    # compiled code stops at an index out of bounds

A child process reads; one that dies (or takes more than a few CPU seconds or a GB for one input) is a finding, named by reader
and number, and the next one goes on behind it. An input with the bytes of an earlier one of the same process is not read again.
Findings are printed as they come; exit code 1 if there were any.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from numba.core import event

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "benchmarks")]

TWINS = 8  # of so many inputs one is read by a plain twin too, one plan searched with, one list written and read back
SECONDS, BYTES = 5.0, 1 << 30  # CPU time and memory of one input, at most
KINDS = ("read", "refused")


class Finding(NamedTuple):
    reader: str
    number: int
    what: str


def outcome(reader: str, data: bytes, folder: str) -> str:
    """'read', 'refused', or what is wrong: a traceback's last lines, or a message that does not help."""
    from fuzz.readers import READERS

    from boostfeat.core.errors import FormatError, InputError

    one = READERS[reader]
    path = os.path.join(folder, one.name)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)  # a third of the time of open()
    os.write(file, data)
    os.close(file)
    try:
        one.check(one.read(path))
    except InputError as error:
        message = str(error)
        if not message.isprintable() or len(message) > 8 * 300:
            return f"a message of {len(message)} characters that is no plain line: {message[:300]!r}"
        if isinstance(error, FormatError) and not error.where.strip():
            return f"an error without a place: {message[:300]}"
        return "refused"
    except MemoryError:
        return "out of memory: " + _place()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]} at {_place()}"
    return "read"


def _place() -> str:
    frames = traceback.extract_tb(sys.exc_info()[2])
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))


class _Unhurried(event.Listener):
    """What is compiled on a machine whose cache is cold is not the reader's time."""

    def __init__(self) -> None:
        self.within = 0

    def on_start(self, event: event.Event) -> None:
        self.within += 1
        signal.setitimer(signal.ITIMER_PROF, 0)

    def on_end(self, event: event.Event) -> None:
        self.within -= 1
        if not self.within:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)


def _child(reader: str, first: int, last: int, until: float, shared: mmap.mmap, folder: str, pipe: int) -> None:
    from fuzz import readers
    from fuzz.mutate import damaged
    from fuzz.readers import READERS, samples_of

    readers.TWINS = TWINS
    event.register("numba:compile", _Unhurried())
    samples, mutations = samples_of(reader), READERS[reader].mutations
    warnings.simplefilter("error")
    for sample in samples:  # imports, compiles
        outcome(reader, sample, folder)
    signal.setitimer(signal.ITIMER_PROF, 0)  # which the last compilation has set
    gc.collect()
    gc.freeze()  # what is loaded stays: nobody has to look at it again
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    counts, seen = Counter[str](), set[int]()
    for n in range(first, last):
        if time.monotonic() > until:
            last = n
            break
        data = damaged(reader, n, samples, mutations)
        if (key := hash(data)) in seen:  # of a short sample up to half of the inputs: read once
            counts["again"] += 1
            continue
        seen.add(key)
        struct.pack_into("qqqq", shared, 0, n + 1, counts["read"], counts["refused"], counts["again"])
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        found = outcome(reader, data, folder)
        counts[found] += 1
        if found not in KINDS:
            os.write(pipe, json.dumps([n, found]).encode() + b"\n")
    struct.pack_into("qqqq", shared, 0, last, counts["read"], counts["refused"], counts["again"])


def fuzz(reader: str, first: int, last: int, seconds: float = math.inf) -> tuple[Counter[str], list[Finding]]:
    """Give a reader the inputs first:last; how many were read and refused in how many microseconds, and what went wrong."""
    import fuzz.readers  # noqa: F401  (once: children have it from the fork)

    counts, findings = Counter[str](), []  # type: tuple[Counter[str], list[Finding]]
    shared = mmap.mmap(-1, 64)
    at, until = first, time.monotonic() + seconds
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    while at < last and time.monotonic() < until:
        begun = at
        struct.pack_into("qqqq", shared, 0, at, 0, 0, 0)
        ours, theirs = os.pipe()
        with tempfile.TemporaryDirectory(dir=memory, prefix="fuzz-") as folder:
            pid = os.fork()
            if not pid:
                code = 1
                try:
                    os.close(ours)
                    _child(reader, at, last, until, shared, folder, theirs)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            os.close(theirs)
            with os.fdopen(ours, "rb") as stream:
                for line in stream:
                    n, what = json.loads(line)
                    findings.append(Finding(reader, n, what))
                    print(f"{reader}:{n}: {what}", flush=True)
            _, end, used = os.wait4(pid, 0)
            status = os.waitstatus_to_exitcode(end)
        at, n_read, n_refused, n_again = struct.unpack_from("qqqq", shared, 0)
        counts.update(read=n_read, refused=n_refused, again=n_again, cpu=round(1e6 * (used.ru_utime + used.ru_stime)))
        if status:
            what = "too slow" if status == -signal.SIGPROF else f"died: {signal.Signals(-status).name if status < 0 else status}"
            findings.append(Finding(reader, at - 1, what))
            print(f"{reader}:{at - 1}: {what}", flush=True)
            if status > 0 or at == begun:  # it did not come to any input
                break
    counts["tried"] = at - first
    return counts, findings


def main() -> int:
    from fuzz.mutate import damaged
    from fuzz.readers import READERS, samples_of

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--readers", default=",".join(READERS), help="names with commas between them; all: %(default)s")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="to each reader (default: a million)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop a reader after so long")
    parser.add_argument("--show", metavar="READER:NUMBER", help="write this input to standard output")
    parser.add_argument("--bounds-check", action="store_true", help="compile with checks of every index (slower)")
    options = parser.parse_args()
    if options.show:
        name, _, number = options.show.partition(":")
        sys.stdout.buffer.write(damaged(name, int(number), samples_of(name), READERS[name].mutations))
        return 0
    if options.bounds_check and os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        # a cache of its own: numba does not tell kernels with checks from those without
        cache = os.path.join(tempfile.gettempdir(), "boostfeat-bounds-check")
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache})
    n_findings, last, names = 0, options.first + options.inputs, options.readers.split(",")
    with ProcessPoolExecutor(options.jobs) as pool:
        found = pool.map(fuzz, names, repeat(options.first), repeat(last), repeat(options.seconds))
        for name, (counts, findings) in zip(names, found, strict=True):
            n_findings += len(findings)
            each = f"{1e6 * counts['tried'] / max(1, counts['cpu']):.0f} a CPU second"
            kinds = ", ".join(f"{counts[kind]} {kind}" for kind in (*KINDS, "again"))
            print(f"{name}: {counts['tried']} inputs, {kinds}, {each}", flush=True)
    return int(n_findings > 0)


if __name__ == "__main__":
    sys.exit(main())
