"""Kernels: loops over arrays that numba compiles when they are first called, once for all runs.

    @kernel
    def _count(idx, out): ...

    @kernel(fastmath={"contract"})
    def _sums(x, out): ...

A kernel is compiled for each combination of argument types that it meets and runs without the lock of the interpreter, so that
threads run side by side. Callers pass arrays of one dtype and layout, read-only where mapped files may come (``arrays.frozen``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function with numba, which keeps the machine code where it can write; the options are numba's."""
    if function is None:
        return partial(kernel, **options)
    try:
        compiled = njit(function, cache=True, nogil=True, **options)
    except RuntimeError:  # neither beside the module nor in the user's cache folder may anything be written
        return njit(function, nogil=True, **options)
    if compiled is not function:  # which it is with NUMBA_DISABLE_JIT=1
        _remove_useless(compiled.stats.cache_path, function.__code__.co_filename)
    return compiled


@cache
def _remove_useless(folder: str, source: str) -> None:
    """Remove files of numba's cache that are cut short, as after a power cut, or older than the module: numba may fail on them.

    All of them are pickles, which end in a full stop. Old ones may name classes that the module no longer has.
    """
    for path in Path(folder).glob(f"{Path(source).stem}.*.nb[ic]"):
        with suppress(OSError):
            if not path.read_bytes().endswith(b".") or path.stat().st_mtime < Path(source).stat().st_mtime:
                path.unlink()


class _Listener(event.Listener):
    """Calls a function when numba compiles something for the first time in this process."""

    was_told = False

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def on_start(self, event: Any) -> None:
        if not _Listener.was_told:
            _Listener.was_told = True
            self._tell()

    def on_end(self, event: Any) -> None:
        pass


if hasattr(os, "register_at_fork"):  # a fork's caller has told, or will
    os.register_at_fork(after_in_child=lambda: setattr(_Listener, "was_told", True))


def when_compiling(tell: Callable[[], None]) -> AbstractContextManager[Any]:
    """Call ``tell`` inside the block when the first kernel is compiled that is not in numba's cache."""
    told: AbstractContextManager[Any] = event.install_listener("numba:compile", _Listener(tell))
    return told
