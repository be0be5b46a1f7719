"""How the sentences of a corpus are shared out among workers, in fixed blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..core.arrays import I64
from ..core.blocks import block_ptr


def versions() -> dict[str, str]:
    """Of what has to be the same on all workers for the trees to be."""
    from importlib.metadata import version

    return {"boostfeat": __version__, **{name: version(name) for name in ("lightgbm", "numpy")}}


class Share(NamedTuple):
    """What a worker gets of a corpus: a part for each of its threads."""

    blocks: list[I64]  # of each of its parts, the offsets of its blocks among the sentences
    first: int  # part of the workers's
    first_block: int
    parts: I64  # offsets of all parts of the workers among the sentences
    threads: int


def shares_of(n_sentences: int, threads: Sequence[int]) -> list[Share]:
    """Consecutive blocks for workers of so many threads: about as many sentences each."""
    ptr = block_ptr(n_sentences)
    cuts = [(len(ptr) - 1) * k // len(threads) for k in range(len(threads) + 1)]
    blocks: list[list[I64]] = []
    for (a, b), n in zip(pairwise(cuts), threads, strict=True):
        k = max(1, min(n, b - a))
        blocks.append([ptr[a + (b - a) * i // k : a + (b - a) * (i + 1) // k + 1] for i in range(k)])
    starts = np.array([part[0] for parts in blocks for part in parts] + [n_sentences])
    first = np.cumsum([0, *map(len, blocks)]).tolist()
    return [Share(parts, first[k], cuts[k], starts, threads[k]) for k, parts in enumerate(blocks)]
