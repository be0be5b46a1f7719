"""The feature that the leaves of a tree are linear in: a bounded search over all of them [TA13 section 2.1].

For every pair (j, f) of dense features: the gain of one split on f with leaves b x_j (or a + b x_j), from histograms of
Σ x_j g and Σ c x_j² over the bins of f. That is D² numbers a row, so a sample of rows has to do.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I64, in_threads
from ..core.kernels import kernel
from .binning import Bins

_COARSE = 64  # bins of a feature here
_CHUNK = 8  # features of one task: their histograms stay in the cache


class SlopeSearch:
    """Ranks the features j for leaves linear (or affine) in x_j. Estimates are exact up to ``sample`` rows: all are taken."""

    def __init__(self, x: F64, counts: F64, bins: Bins, *, affine: bool, threads: int, seed: int) -> None:
        self._x, self._c, self._bins = x, counts, bins
        self._affine, self._threads = affine, threads
        self._offset = np.random.default_rng(seed).random()
        self.features: I64 = np.flatnonzero([s.scale > 0 for s in bins.scales])  # that can carry a slope
        sizes = np.array([[len(b.low) + 1] for b in bins.borders[: len(bins.codes)]], np.int64).reshape(-1, 1)
        self._coarse = (np.minimum(np.arange(256), sizes - 1) * np.minimum(sizes, _COARSE) // sizes).astype(np.uint8)  # of codes
        # rows that are searched: it then costs about as much as growing two or three trees
        self.sample = min(2**16, max(2**14, 8 * len(x) // max(1, x.shape[1])))

    def rank(self, g: F64, n: int) -> I64:
        """The n most promising features j, the best first."""
        if len(self.features) <= n:
            return self.features
        gains = self.gains(g)
        order = np.argsort(-gains, kind="stable")
        ranked = gains[order]
        # equal gains are one feature in two scales (word penalty and target length, say): growing both gains nothing
        fresh = np.concatenate([[True], ranked[1:] < ranked[:-1] * (1 - 1e-5)])
        return self.features[order[fresh][:n]]

    def gains(self, g: F64) -> F64:
        """For each of ``features`` the gain of its best single split, in units of max |g|².

        Half the draws of the sample go by |g| and half by c, systematically, weighted to be unbiased: neither Σ x g nor Σ c x²
        then hangs on a few rows. (Uniform draws need about ten times as many on real gradients.)
        """
        at, weight = np.arange(len(g)), np.ones(len(g))
        if len(g) > self.sample:
            size = np.abs(g)
            share = size / (2 * size.sum()) + self._c / (2 * self._c.sum())
            up_to = np.cumsum(share)
            points = (np.arange(self.sample) + self._offset) * (up_to[-1] / self.sample)
            at = np.minimum(np.searchsorted(up_to, points), len(g) - 1)
            weight = 1 / (self.sample * share[at])
        d = len(self.features)
        scale, shift = np.array([self._bins.scales[j] for j in self.features.tolist()]).T
        rows = np.empty((len(at), 3 * d + 2 if self._affine else 2 * d), np.float32)
        _sample_rows(self._x, at, self.features, scale, shift, self._c, g, 1 / np.abs(g).max(), weight, self._affine, rows)
        codes, coarse = self._bins.codes, self._coarse

        def search(first: int) -> F64:
            best, part = np.zeros(d), slice(first, first + _CHUNK)
            _best_root_gain(rows, at, codes[part], coarse[part], self._affine, best)
            return best

        return np.asarray(np.max(in_threads(search, range(0, len(codes), _CHUNK), self._threads), axis=0))


@kernel
def _sample_rows(x, at, features, scale, shift, c, g, unit, weight, affine, out):  # type: ignore[no-untyped-def]
    """OUT out[n, 2D or, affine, 3D+2]: z g, c z² (and c z, g, c) of rows x[at], times weight[n]; g times unit."""
    d = len(features)
    for r in range(len(at)):
        wc, wg = weight[r] * c[at[r]], weight[r] * g[at[r]] * unit
        row = out[r]
        for k in range(d):
            z = x[at[r], features[k]] / scale[k] - shift[k]
            row[k] = z * wg
            row[d + k] = z * z * wc
            if affine:
                row[2 * d + k] = z * wc
        if affine:
            row[3 * d], row[3 * d + 1] = wg, wc


@kernel
def _best_root_gain(rows, at, codes, coarse, affine, best):  # type: ignore[no-untyped-def]
    """OUT best[D]: for each j the largest gain of one split on any of these features with leaves in x_j.

    IN rows[n, 2D or 3D+2]: x g, c x² (and c x, g, c); at[n]: their places in codes[k, V]; coarse[k, 256]: code to coarse bin.
    """
    width = rows.shape[1]
    n_features = len(codes)
    d = len(best)
    sums = np.zeros((n_features, _COARSE, width), rows.dtype)
    for r in range(len(rows)):
        for f in range(n_features):
            cell = sums[f, coarse[f, codes[f, at[r]]]]
            for k in range(width):
                cell[k] += rows[r, k]
    for f in range(n_features):
        total = np.zeros(width)
        for b in range(_COARSE):
            for k in range(width):
                total[k] += sums[f, b, k]
        left = np.zeros(width)
        for b in range(_COARSE - 1):
            for k in range(width):
                left[k] += sums[f, b, k]
            for j in range(d):
                gain = 0.0
                for right in (False, True):
                    xg = total[j] - left[j] if right else left[j]
                    xx = total[d + j] - left[d + j] if right else left[d + j]
                    least = 1e-6 * total[d + j]
                    if affine:
                        x = total[2 * d + j] - left[2 * d + j] if right else left[2 * d + j]
                        g = total[3 * d] - left[3 * d] if right else left[3 * d]
                        c = total[3 * d + 1] - left[3 * d + 1] if right else left[3 * d + 1]
                        if c <= 0.0:
                            continue
                        gain += g * g / c
                        xg -= x * g / c
                        xx -= x * x / c
                    if xx > least:
                        gain += xg * xg / xx
                best[j] = max(best[j], gain)
