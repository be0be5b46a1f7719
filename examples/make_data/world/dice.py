"""Random choices that are the same on every machine and for every version of Python and numpy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """All choices come from ``Random.random``, the one method whose sequence Python promises to keep for a whole-number seed.

    Only the four operations of arithmetic touch the numbers: logarithms and powers may differ in the last digit between machines.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, n: int) -> int:
        """One of 0 .. n-1."""
        return int(self._random.random() * n)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def zipf(self, ranks: Zipf) -> int:
        """A rank from 0; rank r has a probability proportional to 1 / (r + shift)."""
        return bisect_right(ranks.cumulated, self._random.random() * ranks.cumulated[-1], hi=len(ranks.cumulated) - 1)


class Zipf:
    """The cumulated weights of n ranks."""

    def __init__(self, n: int, *, shift: float = 3.0) -> None:
        self.cumulated = list(accumulate(1.0 / (rank + shift) for rank in range(n)))
