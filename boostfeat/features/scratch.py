"""Arrays put aside in a file until they are asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Array


class Scratch:
    """``later = scratch.put(column)``; ``later()`` is the column again. Without a path, columns stay in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = open(path, "w+b") if path else None

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._file:
            with contextlib.suppress(OSError):  # of a full disk: what was put aside is not needed any more
                self._file.close()

    def put(self, column: Array) -> Callable[[], Array]:
        file, shape, kind = self._file, column.shape, column.dtype
        if file is None:
            return lambda: column
        start = file.seek(0, 2)
        size = file.write(np.ascontiguousarray(column).data)

        def later() -> Array:
            file.seek(start)
            return np.frombuffer(file.read(size), kind).reshape(shape)

        return later
