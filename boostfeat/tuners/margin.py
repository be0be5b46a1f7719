"""Shared parts of the margin methods: lists as kernels see them, steps along feature differences, working sets.

What a hypothesis is worth in the context of a corpus is in boostfeat.metrics.sums.

A step is w += δ c∘(f(a) - f(b)), where c [D+N] are the factors of the features' groups (1 by default, 0 where frozen). It is the
step of the same method in the metric Σ (w - w_t)²_j / c_j; so norms are |f|² = Σ c_j f_j², and a frozen weight never moves.
Steps touch the features in which two hypotheses differ and no others, whatever the number of features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.arrays import F64, I32, I64, Array, frozen
from ..core.errors import InputError
from ..core.kernels import kernel
from ..lists.choices import all_rows
from ..lists.nbest import NBest
from ..metrics.metric import metric_of
from ..metrics.sums import Recipe
from ..metrics.symbols import longest_part
from .base import Features

HUGE = 1e100  # weights beyond this are of no use, and their squares are not numbers
EPSILON = 1e-6  # by how much a constraint must be violated to enter a working set [EMR13 algorithm 1]


class KernelLists(NamedTuple):
    """An n-best list as kernels take it. All arrays are read-only, so that one compiled kernel serves every list."""

    hyp_ptr: I64  # [S+1]
    dense: F64  # [H, D]
    sp_ptr: I64  # [H+1]
    sp_idx: I32  # [nnz], increasing in a row; column D + idx of the weights
    sp_val: F64  # [nnz]
    rows: Array  # [H, n] statistics of the gain's metric: of whole numbers, or of 64-bit floats
    recipe: Recipe  # what they are worth

    @classmethod
    def of(cls, nbest: NBest, features: Features, gain: str | None = None) -> KernelLists:
        """Return lists with the statistics of a gain, for learners that look at it in context."""
        sp, metric = features.sparse, metric_of(gain or "bleu", nbest)
        rows = all_rows(nbest, metric) if gain else np.zeros((0, metric.width), np.int32)
        columns: list[Array] = [nbest.hyp_ptr, features.dense, sp.ptr, sp.idx, sp.val, rows]
        return cls._make([*(frozen(np.ascontiguousarray(column)) for column in columns), metric.recipe(nbest)])


def health(epoch: int, w: F64, *, started: bool, moves: int) -> dict[str, str]:
    """A note for the history where the weights have collapsed or cannot move; an error where they have blown up."""
    if not (np.abs(w).max(initial=0.0) < HUGE):  # not >=, which NaN passes
        raise InputError(f"epoch {epoch}: expected finite weights, found that they blew up; lower C or rescale the features")
    if not w.any():
        what = "have collapsed to zero" if started else "are still zero"
        return {"note": f"all weights {what}: every list keeps its order; raise C, or check the features and references"}
    return {"note": "no list asked for a step"} if not moves else {}


# ---------------------------------------------------------------------------------------------------------------------
# Scores, differences and steps
# ---------------------------------------------------------------------------------------------------------------------


@kernel(inline="always")
def score_of(x, w, h):  # type: ignore[no-untyped-def]
    """w·f(h)."""
    d = x.dense.shape[1]
    total = 0.0
    for j in range(d):
        total += w[j] * x.dense[h, j]
    for i in range(x.sp_ptr[h], x.sp_ptr[h + 1]):
        total += w[d + x.sp_idx[i]] * x.sp_val[i]
    return total


@kernel
def room_for_difference(x):  # type: ignore[no-untyped-def]
    """(idx, val) of any two hypotheses."""
    size = x.dense.shape[1] + 2 * longest_part(x.sp_ptr) + 1
    return np.empty(size, np.int64), np.empty(size)


@kernel
def difference(x, a, b, idx, val, n=0):  # type: ignore[no-untyped-def]
    """OUT idx, val from n on: the entries of f(a) - f(b) that are not 0, by rising column. Returns where they end."""
    d = x.dense.shape[1]
    for j in range(d):
        v = x.dense[a, j] - x.dense[b, j]
        if v != 0.0:
            idx[n], val[n] = j, v
            n += 1
    i, i_end, k, k_end = x.sp_ptr[a], x.sp_ptr[a + 1], x.sp_ptr[b], x.sp_ptr[b + 1]
    while i < i_end or k < k_end:
        if k == k_end or (i < i_end and x.sp_idx[i] < x.sp_idx[k]):
            j, v = x.sp_idx[i], x.sp_val[i]
            i += 1
        elif i == i_end or x.sp_idx[k] < x.sp_idx[i]:
            j, v = x.sp_idx[k], -x.sp_val[k]
            k += 1
        else:
            j, v = x.sp_idx[i], x.sp_val[i] - x.sp_val[k]
            i += 1
            k += 1
        if v != 0.0:
            idx[n], val[n] = d + j, v
            n += 1
    return n


@kernel
def best_of(x, w, gains, sign, s):  # type: ignore[no-untyped-def]
    """The first hypothesis of list s with the largest w·f + sign · gain, -1 of an empty list."""
    best, found = -np.inf, -1
    for h in range(x.hyp_ptr[s], x.hyp_ptr[s + 1]):
        value = score_of(x, w, h) + sign * gains[h]
        if value > best or found < 0:
            best, found = value, h
    return found


@kernel
def dot(w, idx, val, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(n):
        total += w[idx[i]] * val[i]
    return total


@kernel
def norm(factor, idx, val, n):  # type: ignore[no-untyped-def]
    """Σ c_j f_j²."""
    total = 0.0
    for i in range(n):
        total += factor[idx[i]] * val[i] * val[i]
    return total


@kernel
def move(w, past, age, factor, step, idx, val, n):  # type: ignore[no-untyped-def]
    """w += step c∘f, and past += age times that: the mean of the weights over time is w - past / time (lazy averaging)."""
    for i in range(n):
        change = step * factor[idx[i]] * val[i]
        w[idx[i]] += change
        past[idx[i]] += age * change


# ---------------------------------------------------------------------------------------------------------------------
# Updates
# ---------------------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """Limits of a relative-margin update; MIRA has no bound."""

    c: float  # of margin steps
    bound: float  # B, of the spread
    d: float  # of bound steps
    max_iter: int  # of the cutting-plane loops; 0: passive-aggressive
    by_cost: bool = False  # B is times the cost of the hypothesis


@kernel
def margin_step(x, plus, minus, loss, w, past, age, factor, c, idx, val):  # type: ignore[no-untyped-def]
    """PA-I: if loss > 0, w += min(C, loss / |df|²) df with df = f(y+) - f(y-) [E12 algorithm 1]. Returns whether w moved."""
    if not loss > 0.0:
        return False
    n = difference(x, plus, minus, idx, val)
    squares = norm(factor, idx, val, n)
    if squares <= 0.0:
        return False  # the same features, or only frozen ones: no step can help
    move(w, past, age, factor, min(c, loss / squares), idx, val, n)
    return True


@kernel
def bound_of(limits, gains, plus, y):  # type: ignore[no-untyped-def]
    """B, or B max(0, cost(y) - cost(y+)) [EMR13 footnote 4]."""
    return limits.bound * max(0.0, gains[plus] - gains[y]) if limits.by_cost else limits.bound


@kernel
def bound_step(x, start, plus, worst, top, gains, w, past, age, factor, limits, idx, val):  # type: ignore[no-untyped-def]
    """RM-PA's second step: for the more violated of ds(y+, y_w) <= B and ds(y+, y_top) >= -B, a step of at most D towards it.

    The candidates are those of the weights that chose y+; ds is of the weights after the margin step [EMR13 section 3.2].
    """
    over = dot(w, idx, val, difference(x, start + plus, start + worst, idx, val)) - bound_of(limits, gains, plus, worst)
    under = dot(w, idx, val, difference(x, start + top, start + plus, idx, val)) - bound_of(limits, gains, plus, top)
    far, near = (plus, worst) if over >= under else (top, plus)
    return margin_step(x, start + near, start + far, max(over, under), w, past, age, factor, limits.d, idx, val)


@kernel
def _violation(kind, y, plus, gains, scores, limits):  # type: ignore[no-untyped-def]
    """H or ±G - B of [EMR13 algorithm 1]; 0 for y+ itself, which stands for the slack."""
    if y == plus:
        return 0.0
    ds = scores[plus] - scores[y]
    if kind == 0:
        return gains[plus] - gains[y] - ds
    return (ds if kind == 1 else -ds) - bound_of(limits, gains, plus, y)


@kernel
def _exchange(x, start, kind, plus, member, mass, gains, scores, w, past, age, factor, limits, idx, val):  # type: ignore[no-untyped-def]
    """One step of algorithm 2 in a working set: mass goes from its least to its most violated member. Returns whether w moved."""
    most = least = plus
    high, low = -np.inf, np.inf
    for y in range(len(member)):
        if member[y]:
            v = _violation(kind, y, plus, gains, scores, limits)
            if v > high:
                high, most = v, y
            if mass[y] > 0.0 and v < low:
                low, least = v, y
    if not high - low > EPSILON:
        return False
    n = difference(x, start + least, start + most, idx, val)
    squares = norm(factor, idx, val, n)
    # no squares: the same features, and all mass belongs to the more violated one
    step = mass[least] if squares <= 0.0 else min(mass[least], (high - low) / squares)
    mass[most] += step
    mass[least] -= step
    move(w, past, age, factor, -step if kind == 1 else step, idx, val, n)
    return True


@kernel
def cutting_plane(x, start, plus, gains, scores, w, past, age, factor, limits, idx, val):  # type: ignore[no-untyped-def]
    """RM-CP: the three working sets of [EMR13 algorithms 1 and 2], margin, upper and lower bound. IN OUT scores, w, past.

    A set's members share a mass (C, or D for a bound) that starts on y+, the slack, and goes to those most violated; a mass of
    m on y is a step of m along f(y+) - f(y) (against it for the upper bound). Each set is a problem solved by pairs (SMO), so
    with members for all constraints this minimises 1/2 |w - w_t|² + C ξ + D τ + D τ*.
    Deviation: algorithm 2 as printed forgets the masses between calls and has no D in its bound steps, so nothing would hold
    the sum of repeated steps to C or D; here masses last for the whole update. The bounds have a slack each.
    """
    n_hyps = len(scores)
    member, mass = np.zeros((3, n_hyps), np.bool_), np.zeros((3, n_hyps))
    member[:, plus] = True
    mass[0, plus], mass[1, plus], mass[2, plus] = limits.c, limits.d, limits.d
    moved = False
    for _ in range(limits.max_iter):
        worst, kind, new = EPSILON, -1, -1
        for k in range(3):
            top, at, slack = -np.inf, -1, 0.0
            for y in range(n_hyps):
                v = _violation(k, y, plus, gains, scores, limits)
                if v > top:
                    top, at = v, y
                if member[k, y] and v > slack:
                    slack = v
            if top - slack > worst:
                worst, kind, new = top - slack, k, at
        if kind < 0:
            break
        member[kind, new] = True
        for _ in range(limits.max_iter):
            changed = False
            for k in range(3):
                if _exchange(x, start, k, plus, member[k], mass[k], gains, scores, w, past, age, factor, limits, idx, val):
                    changed = True
                    for y in range(n_hyps):
                        if member[0, y] or member[1, y] or member[2, y]:
                            scores[y] = score_of(x, w, start + y)
            if not changed:
                break
            moved = True
        for y in range(n_hyps):
            scores[y] = score_of(x, w, start + y)
    return moved
