"""Precision of printed numbers: copies of one number must not be taken for several.

A decoder prints a phrase's score with some digits, and Moses takes it as the difference of two sums in single precision. So one
number has several copies in a list, and a rule that tells them apart would be another one inside the decoder.
"""

from __future__ import annotations

from math import floor, inf, log10
from typing import NamedTuple

import numpy as np

from .arrays import F64


class Precision(NamedTuple):
    """Precision of a feature's numbers: printed to a fixed step, or to significant digits of a difference of sums."""

    step: float = 0.0  # what is printed are multiples of it; with digits: the rounding of the sums
    digits: int = 0  # significant digits; 0: a fixed step

    def near(self, x: F64) -> F64:
        """[n] how near to x [n] another number may be a copy of it; 0: nowhere."""
        return 1.01 * (self._printed(x) + self.step) if self.digits else np.full(len(x), 0.99 * self.step)

    def error(self, x: F64) -> F64:
        """[n] how far from x [n] the number may be that was printed as x."""
        return self._printed(x) / 2 + self.step if self.digits else np.full(len(x), 0.499 * self.step)

    def coarsest(self, x: F64) -> Precision:
        """Return the precision of quotients of x [n] by whole numbers: nearer than copies of any x are."""
        return Precision(float(self.near(x).max(initial=0.0))) if self.digits else self

    def below(self, x: F64, at: float) -> float:
        """A number below ``at``, one of x [n], and its copies, and above all smaller x."""
        low = np.sort(x)[: np.searchsorted(np.sort(x), at, side="right")]
        gaps = np.flatnonzero(np.diff(low) > self.near(low[1:]))
        if not len(gaps):
            return float(np.nextafter(low[0] - self.near(low[:1])[0], -inf))
        return self.between(float(low[gaps[-1]]), float(low[gaps[-1] + 1]))

    def _printed(self, x: F64) -> F64:
        """The step of the last printed digit."""
        some = x != 0
        exponent = np.floor(np.log10(np.where(some, np.abs(x), 1.0)))
        return np.where(some, 10.0 ** (exponent + 1 - self.digits), 0.0)

    def between(self, low: float, high: float) -> float:
        """A number about midway: the shortest decimal in the middle half, and half a printed step above where that fits.

        No list of this precision holds a number of half a step: what is printed is on the same side as what was computed.
        """
        middle, margin = low / 2 + high / 2, high / 4 - low / 4
        for digits in range(1, 17):
            found = float(f"{middle:.{digits}g}")
            if low < found < high and abs(found - middle) <= margin:
                return self._beside(found, middle, margin)
        return middle if low < middle < high else low

    def _beside(self, x: float, middle: float, margin: float) -> float:
        decimals = self.digits - 1 - floor(log10(abs(x))) if self.digits and x else -floor(log10(self.step)) if self.step else 0
        if not 0 < decimals < 15:
            return x
        for half in (0.5, -0.5):
            found = round(x + half * 10.0**-decimals, decimals + 1)
            if abs(found - middle) <= margin * (1 + 1e-9):  # two steps apart, both halves are at the margin itself
                return found
        return x


EXACT = Precision()
