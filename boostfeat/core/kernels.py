"""Kernels: loops that numba compiles, when they are first called.

    @kernel
    def _count(idx, out): ...

A kernel is compiled for the types that it meets, once for all runs (numba keeps the machine code), and without the lock of the
interpreter, so that threads run side by side. Importing a module with kernels imports no numba.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any, overload

KERNELS: list[Kernel] = []  # all of the modules that are imported
_LOCK = threading.RLock()


class Kernel:
    """A function of arrays and numbers that numba compiles when it is first called."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self.py_func, self.options = function, options
        self._compiled: Callable[..., Any] | None = None
        update_wrapper(self, function)
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compiled())(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def compiled(self) -> Any:
        """Numba's dispatcher of the function; the kernels that it calls become dispatchers, too."""
        with _LOCK:
            if self._compiled is None:
                from numba import njit

                called = {name: value for name, value in self._globals().items() if isinstance(value, Kernel)}
                found = {name: value.compiled() for name, value in called.items() if value is not self}
                self._compiled = njit(cache=True, nogil=True, **self.options)(self._with_globals(found))
            return self._compiled

    @property
    def was_called(self) -> bool:
        return self._compiled is not None

    def _globals(self) -> dict[str, Any]:
        known = self.py_func.__globals__
        return {name: known[name] for name in self.py_func.__code__.co_names if name in known}

    def _with_globals(self, others: dict[str, Any]) -> FunctionType:
        """The function with other values for some of its module's names."""
        old = self.py_func
        new = FunctionType(old.__code__, {**old.__globals__, **others}, old.__name__, old.__defaults__, old.__closure__)
        update_wrapper(new, old)
        return new


@overload
def kernel(function: Callable[..., Any], /) -> Any: ...
@overload
def kernel(*, inline: str = ..., fastmath: set[str] = ...) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a kernel; options are numba's. With NUMBA_DISABLE_JIT=1 it stays a function of Python."""
    if function is None:
        return lambda function: kernel(function, **options)
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return function
    assert isinstance(function, FunctionType)
    return Kernel(function, options)
