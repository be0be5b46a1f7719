"""String columns of Arrow as offsets and bytes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from .arrays import I64, U8

Strings: TypeAlias = Any  # a pyarrow.LargeStringArray without nulls; pyarrow has no types of its own


def string_buffers(column: Strings) -> tuple[I64, U8]:
    """Offsets [n+1] and UTF-8 bytes of a string column, read-only and without copying. The column has no nulls."""
    _, ptr, data = column.buffers()
    starts = np.frombuffer(ptr, np.int64)[column.offset : column.offset + len(column) + 1] if ptr else np.zeros(1, np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    starts.flags.writeable = text.flags.writeable = False
    return starts, text


def has_text(column: Strings) -> bool:
    """Whether any of the strings has a byte."""
    ptr, _ = string_buffers(column)
    return bool(ptr[-1] > ptr[0])
