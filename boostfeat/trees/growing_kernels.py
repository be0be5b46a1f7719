"""The passes over rows that growing a tree is made of."""

from __future__ import annotations

import math

import numpy as np

from ..core.kernels import kernel


@kernel(fastmath={"reassoc"})
def _abs_sum(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for v in range(len(values)):
        total += abs(values[v])
    return total


@kernel
def grid_step(total):  # type: ignore[no-untyped-def]
    """The step of a grid on which numbers of this absolute sum have exact sums in float64: a power of two."""
    return 2.0 ** (math.frexp(total)[1] - 52)


@kernel
def to_grid(values, scale, out):  # type: ignore[no-untyped-def]
    """OUT out[V] (float32) = scale values, on a grid of 2⁻⁵² of their absolute sum.

    Sums of such numbers in float64 are exact, so LightGBM's histograms do not depend on the order its threads add in. Only
    numbers below 2⁻²⁹ of the sum lose anything to the grid that float32 would have kept.
    """
    on_grid(values, scale, grid_step(_abs_sum(values) * abs(scale)), out)


@kernel
def on_grid(values, scale, step, out):  # type: ignore[no-untyped-def]
    """OUT out[V] = scale values, as multiples of step (a power of two)."""
    per_step = scale / step
    for v in range(len(values)):
        out[v] = np.rint(values[v] * per_step) * step


@kernel
def sums(leaf_of, c, g, out):  # type: ignore[no-untyped-def]
    """OUT out[4, n_nodes, 2] = Σ (c, g) over the rows of each leaf; four parts, so that no addition waits for the last."""
    for v in range(len(leaf_of)):
        cell = out[v & 3, leaf_of[v]]
        cell[0] += c[v]
        cell[1] += g[v]


@kernel
def slope_sums(leaf_of, c, g, z, centre, out):  # type: ignore[no-untyped-def]
    """OUT out[n_nodes, 3] = Σ (c z, z g, c z²) over the rows of each leaf, z taken about the leaf's centre."""
    for v in range(len(leaf_of)):
        d = z[v] - centre[leaf_of[v]]
        out[leaf_of[v], 0] += c[v] * d
        out[leaf_of[v], 1] += d * g[v]
        out[leaf_of[v], 2] += c[v] * d * d
