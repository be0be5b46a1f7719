"""Compiling kernels ahead of their first use, for the types of arguments that commands call them with.

``signatures.json`` has these types, by kernel: {"boostfeat.core.arrays:_count": [["array uint32 1 C r", "array float64 1 C"]]}.
``tests/signatures.py`` makes it from numba's cache after commands have run.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .kernels import Kernel

FILE = Path(__file__).with_name("signatures.json")


def kernels_to_warm() -> list[tuple[Kernel, list[list[Any]]]]:
    """Kernels with the arguments' types that they are compiled for, as written in the file."""
    return [(_find(name), signatures) for name, signatures in json.loads(FILE.read_text()).items()]


def warm() -> Iterator[tuple[str, int]]:
    """Compile or load each kernel; yields its name and how many of its variants had to be compiled."""
    from numba.core.errors import NumbaError

    for kernel, signatures in kernels_to_warm():
        compiled = kernel.compiled()
        before = sum(compiled.stats.cache_misses.values())
        for signature in signatures:
            with suppress(NumbaError):  # the file is of an older commit: what changed is compiled when it is called
                compiled.compile(tuple(map(decode, signature)))
        yield kernel.py_func.__name__, sum(compiled.stats.cache_misses.values()) - before


def encode(kind: Any) -> Any:
    """A type of numba's as JSON: a name, "array DTYPE DIMENSIONS LAYOUT [r]", or [CLASS or "", *types] of a tuple."""
    from numba import types

    if isinstance(kind, types.Array):
        return f"array {kind.dtype} {kind.ndim} {kind.layout}{'' if kind.mutable else ' r'}"
    if isinstance(kind, types.BaseNamedTuple):
        cls = kind.instance_class
        return [f"{cls.__module__}:{cls.__qualname__}", *map(encode, kind.types)]
    if isinstance(kind, types.BaseTuple):
        return ["", *map(encode, kind.types)]
    if getattr(types, str(kind), None) != kind:
        raise ValueError(f"{kind}: no plain type")
    return str(kind)


def decode(text: Any) -> Any:
    """The inverse of encode."""
    from numba import types

    if isinstance(text, list):
        parts = [decode(part) for part in text[1:]]
        return types.Tuple(parts) if not text[0] else types.NamedTuple(parts, _find(text[0]))
    if text.startswith("array "):
        dtype, ndim, layout, *readonly = text.split(" ")[1:]
        return types.Array(getattr(types, dtype), int(ndim), layout, readonly=bool(readonly))
    return getattr(types, text)


def _find(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
