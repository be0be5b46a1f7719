"""Machine code of kernels from numba's cache, without what only compiling needs.

Before numba looks into its cache it loads all that it knows of Python's and numpy's functions, with scipy.linalg: more than half
of what a kernel that was compiled before costs a command. Machine code needs none of it, and who compiles loads it then.
"""

from __future__ import annotations

from typing import Any

from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys


class CodeCache(FunctionCache):
    """Numba's cache of a function, in the same files."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types of arguments, None where there is none."""
        rtsys.initialize(target_context)  # counts who uses the arrays that kernels make
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
