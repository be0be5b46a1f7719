"""Fixed blocks of sentences: sums over a corpus are sums over its blocks, in their order.

Blocks depend on the number of sentences alone. Where they are computed, in threads or on the machines of a cluster, does not
change a bit of what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .arrays import I64

MOST = 64
_SENTENCES = 64  # in a block, at least: the work of a block should dwarf the cost of calling it

Each: TypeAlias = Callable[..., list[Any]]
"""each(method, *arguments): what that method of every block gives, in the order of blocks."""


def block_ptr(n: int) -> I64:
    """Offsets [B+1] of the blocks of n sentences."""
    blocks = max(1, min(MOST, n // _SENTENCES))
    return np.arange(blocks + 1) * n // blocks
