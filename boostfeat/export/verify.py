"""Compare what an export computes with what this library computes, on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, counted
from ..lists.choices import best_choice
from ..lists.nbest import NBest
from ..lists.precision import precision_of
from ..model.decision import ranks
from ..model.model import Model, hypothesis_table, tree_scores, unit_table
from .target import Check, Context

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BLOCK = 32_768  # rows at a time
TIED = 1e-9  # relative; smaller differences of ranks are rounding
UNITS, HYPS = "distinct units", "hypotheses"  # what the rows are


def compare_scores(model: Model, context: Context, score: Callable[[F64, int], F64], names: Sequence[str]) -> Check:
    """Score every distinct unit (level local) or hypothesis (level global) of the list both ways.

    ``score`` gets rows x [n, len(names)] and the number of the first of them.
    """
    nbest = context.rows
    expected, what = expected_scores(model, nbest)
    largest = 0.0
    for start, x in input_blocks(nbest, names, of_units=what == UNITS):
        found = np.asarray(score(x, start), np.float64)
        largest = np.maximum(largest, difference(found, expected[start : start + len(x)]))  # NaN stays NaN
        context.on_progress(start + len(x), len(expected), "verifying")
    return Check(len(expected), what, float(largest))


def difference(found: F64, expected: F64) -> float:
    """max |found − expected| / max(1, |expected|): absolute, but relative for scores beyond ±1."""
    if found.shape != expected.shape:
        raise ValueError(f"scores: expected shape {expected.shape}, found {found.shape}")
    return float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected)), initial=0.0))


def expected_scores(model: Model, nbest: NBest) -> tuple[F64, str]:
    """Return the scores of rows, and what the rows are. A linear model scores lists without units by hypothesis."""
    if model.level == "global" or (not nbest.n_occurrences and not model.trees):
        return model.decision_function(nbest), HYPS
    if nbest.n_hyps and not nbest.n_occurrences:
        raise InputError(
            "expected a list with units (phrases) to verify a model of level local, found none; name one that has them"
        )
    return nbest.weigh(dict(model.weights))[0] + tree_scores(model.trees, unit_table(nbest)), UNITS


def near_thresholds(model: Model, nbest: NBest) -> int:
    """Count rows with a feature as near to a threshold of a tree as the list's precision: a decoder may differ."""
    table = hypothesis_table(nbest) if model.level == "global" else unit_table(nbest)
    cuts: dict[str, set[float]] = {}
    for tree in model.trees:
        for name, threshold in zip(tree.feature, tree.threshold.tolist(), strict=True):
            if name in table.names:
                cuts.setdefault(name, set()).add(threshold)
    near = np.zeros(len(table), bool)
    for name, precision in zip(cuts, precision_of(nbest, list(cuts)), strict=True):
        x, at = table.column(name), np.array(sorted({-np.inf, np.inf, *cuts[name]}))
        above = np.searchsorted(at[:-1], x, side="left")
        near |= np.minimum(np.abs(x - at[above]), np.abs(x - at[np.maximum(above - 1, 0)])) <= precision.error(x)
    return int(near.sum())


def feature_rows(nbest: NBest, names: Sequence[str], *, of_units: bool) -> F64:
    """Return [V, len(names)] features of units, or [H, len(names)] those that no unit carries; 0 where the list has none."""
    dense, sparse = (nbest.X, nbest.X_sparse) if of_units else (nbest.extra, nbest.extra_sparse.matrix(len(nbest.sparse_names)))
    return _rows(nbest, names, nbest.unit_names if of_units else nbest.extra_names, dense, sparse)


def input_blocks(nbest: NBest, names: Sequence[str], *, of_units: bool) -> Iterator[tuple[int, F64]]:
    """(first row, x [n, len(names)]) of blocks of units or hypotheses; a feature that the list does not have is 0."""
    dense, sparse = (nbest.X, nbest.X_sparse) if of_units else (nbest.global_features, nbest.global_sparse)
    for start in range(0, len(dense), BLOCK):
        part = slice(start, start + BLOCK)
        yield start, _rows(nbest, names, nbest.unit_names if of_units else nbest.global_names, dense[part], sparse[part])


def _rows(nbest: NBest, names: Sequence[str], known: Sequence[str], dense: F64, sparse: csr_matrix) -> F64:
    """[n, len(names)] the named ones of the ``known`` dense features [n, D], and of the list's sparse ones [n, N]."""
    x, at = np.zeros((len(dense), len(names))), {name: j for j, name in enumerate(names)}
    for columns, given in ((known, dense), (nbest.sparse_names.to_pylist(), sparse)):
        found = [(at[name], k) for k, name in enumerate(columns) if name in at]
        if found:
            to, of = map(list, zip(*found, strict=True))
            x[:, to] = given[:, of] if given is dense else sparse[:, of].toarray()
    return x


def checked_choices(model: Model, nbest: NBest, scores: F64, choices: Sequence[int]) -> Check:
    """Compare scores [H] and choices [S] of an export with the library's; equal ranks but for rounding are one."""
    expected = model.decision_function(nbest)
    worst = difference(np.asarray(scores, np.float64), expected)
    order = ranks(model.config, nbest, expected)
    chosen, theirs = best_choice(nbest, order), np.asarray(choices, np.int64)
    some = np.flatnonzero(chosen >= 0)
    behind = order[chosen[some]] - order[nbest.hyp_ptr[some] + theirs[some]]
    if len(some) and not behind.max() <= TIED * max(1.0, float(np.abs(order).max())):
        worst = inf
    same = int((nbest.hyp_ptr[some] + theirs[some] == chosen[some]).sum())
    return Check(nbest.n_hyps, HYPS, worst, note=f"{same:,} of {counted(len(some), 'choice')} as rerank's")
