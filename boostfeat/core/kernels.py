"""Kernels: loops over arrays that numba compiles when they are first called, once for all runs.

    @kernel
    def _count(idx, out): ...

    @kernel(fastmath={"contract"})
    def _sums(x, out): ...

A kernel is compiled for each combination of argument types that it meets and runs without the lock of the interpreter, so that
threads run side by side. Callers pass arrays of one dtype and layout, read-only where mapped files may come (``arrays.frozen``).
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

from numba import njit

SEAL = b"sums"  # what the checksum of a cache file begins with, behind the pickle that numba reads
ROOM = 1 << 24  # bytes that the machine code of a command takes, and more
BEGAN = time.time()
UNKEPT: list[str] = []  # folders without room, where nothing is kept


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function with numba, which keeps the machine code where it can write; the options are numba's."""
    if function is None:
        return partial(kernel, **options)
    try:
        compiled = njit(function, cache=True, nogil=True, **options)
    except RuntimeError:  # neither beside the module nor in the user's cache folder may anything be written
        return njit(function, nogil=True, **options)
    if compiled is function or _is_kept(compiled.stats.cache_path, function.__code__.co_filename):
        return compiled  # the function itself with NUMBA_DISABLE_JIT=1
    UNKEPT.append(compiled.stats.cache_path)
    return njit(function, nogil=True, **options)


@cache
def _is_kept(folder: str, source: str) -> bool:
    """Tell whether machine code of a module is kept, or may be: where there is no room, numba would end the command.

    What is kept is checked, now and at the end: what this process compiles has its checksums then.
    """
    with suppress(OSError):
        changed = Path(source).stat().st_mtime

        def check(since: float = 0.0) -> bool:
            files = list(Path(folder).glob(f"{Path(source).stem}.*.nb[ic]"))
            for path in files:
                with suppress(OSError):
                    if path.stat().st_mtime >= since:
                        _check_file(path, changed)
            return bool(files)

        atexit.register(check, BEGAN)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]  # -1: none
        return check() or (shutil.disk_usage(folder).free > ROOM and not 0 <= limit < ROOM)
    return True


def _check_file(path: Path, changed: float) -> None:
    """Remove a file of numba's cache that is damaged, as after a power cut, or older than the module.

    All of them are pickles, which end in a full stop; what comes after it is not read. A checksum is put there: machine
    code with other bytes would end the process. Old files may name classes that the module no longer has.
    """
    is_new = path.stat().st_mtime >= changed
    with open(path, "r+b" if os.access(path, os.W_OK) else "rb") as file:
        data = file.read()
        if data[-8:].startswith(SEAL):
            is_whole = data[-8:] == _seal(data[:-8])
        elif is_whole := is_new and data.endswith(b"."):
            os.pwrite(file.fileno(), _seal(data), len(data))  # others who check now write the same bytes
    if not (is_new and is_whole):
        path.unlink()


def _seal(content: bytes) -> bytes:
    return SEAL + crc32(content).to_bytes(4, "little")
