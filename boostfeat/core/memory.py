"""Memory that a stage has freed goes back to the system before the next one asks for more."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """What was freed in pieces, the C library keeps: after templates, as much as the list itself. Only glibc can be asked."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
