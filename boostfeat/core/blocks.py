"""Fixed blocks of sentences: sums over a corpus are sums over its blocks, in their order.

Blocks depend on the number of sentences alone. Where they are computed, in threads or on the machines of a cluster, does not
change a bit of what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TypeVar

import numpy as np

from .arrays import I64, Array

T = TypeVar("T", float, Array)

MOST = 64
_SENTENCES = 64  # in a block, at least: the work of a block should dwarf the cost of calling it


def block_ptr(n: int) -> I64:
    """Offsets [B+1] of the blocks of n sentences."""
    blocks = max(1, min(MOST, n // _SENTENCES))
    return np.arange(blocks + 1) * n // blocks


def sum_in_order(parts: Iterable[T]) -> T:
    """Their sum, from left to right: from Python 3.12 on, sum() rounds in another way."""
    first, *others = parts
    return reduce(add, others, first)


def sum_blocks(rows: Array) -> Array:
    """Σ of rows [S, n], block by block: to the last bit what blocks give that are elsewhere."""
    ptr = block_ptr(len(rows))
    return sum_in_order(rows[a:b].sum(axis=0) for a, b in pairwise(ptr.tolist()))
