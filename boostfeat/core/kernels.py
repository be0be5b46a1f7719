"""Kernels: loops that numba compiles, when there is enough to do.

    @kernel
    def _count(idx, out): ...

    @kernel(twin=lambda idx, out: np.add.at(out, idx, 1.0))
    def _count(idx, out): ...

A kernel is compiled for the types that it meets, once for all runs (numba keeps the machine code), and without the lock of the
interpreter, so that threads run side by side. Importing numba takes longer than most work on a short list, and compiling longer
still: a kernel may have a *twin* of plain Python or numpy, which takes the same arguments and gives the same bits. Twins work as
long as numba is not loaded, arrays are small and little time has gone into them. What a command prints does not depend on it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import update_wrapper
from time import thread_time
from types import FunctionType
from typing import Any, overload

SMALL = 1 << 20  # elements of all arrays of a call that a twin takes
KERNELS: list[Kernel] = []  # all of the modules that are imported
_LOCK = threading.RLock()


class Twins:
    """Whether twins still work in this process (BOOSTFEAT_TWINS=0: never), and for how long: the CPU seconds of loading numba."""

    seconds = 0.0 if os.environ.get("BOOSTFEAT_TWINS") == "0" else 1.0
    numba_is_loaded = False
    interpreted = False  # all kernels run as Python


class Kernel:
    """A function of arrays and numbers that numba compiles when it is first called with much to do."""

    def __init__(self, function: FunctionType, twin: Callable[..., Any] | None, options: dict[str, Any]) -> None:
        self.py_func, self.twin, self.options = function, twin, options
        self._compiled: Any = None
        self._interpreted: Callable[..., Any] | None = None
        update_wrapper(self, function)
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        if Twins.interpreted:
            return self.interpreted()(*arguments)
        if self._compiled is not None:
            return self._compiled(*arguments)
        if self.twin is None or is_compiled(*arguments):
            return self.compiled()(*arguments)
        began = thread_time()
        found = self.twin(*arguments)
        Twins.seconds -= thread_time() - began
        return found

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def compiled(self) -> Any:
        """Numba's dispatcher of the function; the kernels that it calls become dispatchers, too."""
        with _LOCK:
            if self._compiled is None:
                from numba import njit

                from .machine_code import CodeCache

                Twins.numba_is_loaded = True
                found = {name: other.compiled() for name, other in self._called().items()}
                function = self._with_globals(found)
                self._compiled = njit(nogil=True, **self.options)(function)
                with suppress(RuntimeError):  # neither beside the module nor in the user's cache may anything be written
                    self._compiled._cache = CodeCache(function)
            return self._compiled

    @property
    def was_compiled(self) -> bool:
        return self._compiled is not None

    def interpreted(self) -> Callable[..., Any]:
        """The function of Python, which calls functions of Python. Numbers wrap around in silence, as compiled ones do."""
        if self._interpreted is None:
            import numpy as np

            function = self._with_globals({name: other.interpreted() for name, other in self._called().items()})
            self._interpreted = np.errstate(all="ignore")(function)
        return self._interpreted

    def _called(self) -> dict[str, Kernel]:
        """The kernels that the function calls, by the names that it has for them."""
        known = self.py_func.__globals__
        found = {name: known[name] for name in self.py_func.__code__.co_names if name in known}
        return {name: value for name, value in found.items() if isinstance(value, Kernel) and value is not self}

    def _with_globals(self, others: dict[str, Any]) -> FunctionType:
        """The function with other values for some of its module's names."""
        old = self.py_func
        new = FunctionType(old.__code__, {**old.__globals__, **others}, old.__name__, old.__defaults__, old.__closure__)
        update_wrapper(new, old)
        return new


def is_compiled(*arguments: Any) -> bool:
    """Whether work on these arrays (or so many elements) is for compiled kernels rather than for twins."""
    if Twins.numba_is_loaded or Twins.seconds <= 0:
        return True
    return sum(x if isinstance(x, int) else getattr(x, "size", 0) for x in arguments) > SMALL


@contextmanager
def interpreted() -> Iterator[None]:
    """All kernels run as Python meanwhile: for a few numbers that is sooner done than compiling."""
    before, Twins.interpreted = Twins.interpreted, True
    try:
        yield
    finally:
        Twins.interpreted = before


@overload
def kernel(function: Callable[..., Any], /) -> Any: ...
@overload
def kernel(
    *, twin: Callable[..., Any] | None = ..., inline: str = ..., fastmath: set[str] = ..., error_model: str = ...
) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, /, *, twin: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function a kernel; other options are numba's. With NUMBA_DISABLE_JIT=1 it stays a function of Python."""

    def made(function: Callable[..., Any]) -> Any:
        if os.environ.get("NUMBA_DISABLE_JIT") == "1":
            return function
        assert isinstance(function, FunctionType)
        return Kernel(function, twin, options)

    return made if function is None else made(function)
