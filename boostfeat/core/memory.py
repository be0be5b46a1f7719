"""Memory that a stage has freed goes back to the system before the next one asks for more."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Ask the C library (glibc alone can be asked) to return what was freed in pieces: as much as the list after templates."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
