"""Kernels as Python: for tests of what compiled code does not tell, such as an index outside of an array."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba.extending import is_jitted


@contextmanager
def interpreted() -> Iterator[None]:
    """Run the kernels of all loaded modules as Python inside the block; numbers wrap around in silence, as compiled ones do."""
    silent = np.errstate(all="ignore")
    spaces = [vars(module) for name, module in list(sys.modules.items()) if name.partition(".")[0] != "numba"]
    swapped = [(space, name, value) for space in spaces for name, value in list(space.items()) if is_jitted(value)]
    for space, name, value in swapped:
        space[name] = silent(value.py_func)
    try:
        yield
    finally:
        for space, name, value in swapped:
            space[name] = value
