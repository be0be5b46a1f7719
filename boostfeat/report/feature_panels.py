"""Panels of features: their effect, their response curves, and which features trees use together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..model.model import Model, tree_scores
from ..model.units import UnitSpace
from ..trees.tree import Table
from .run_folder import Run

TOP = 24  # features with a bar
CURVES = 12  # features with a response curve
SAMPLE = 400  # units that a response is averaged over
QUANTILES = 40


def feature_panels(run: Run) -> list[dict[str, Any]]:
    """For each system with a model: features by effect, response curves, pairs used together."""
    panels = []
    for s in run.systems:
        if s.model is None:
            continue
        features = [f for f in s.told["features"] if f["total_effect"] or f["weight"]]
        space = UnitSpace.of(s.nbest, s.model.level if s.nbest.n_occurrences else "global")
        responses = response_curves(s.model, space, [f["name"] for f in features[:CURVES]])
        panels.append(
            {
                "system": s.name,
                "features": [
                    {"name": f["name"], "weight": f["weight"], "linear": f["effect"] or 0.0, "total": f["total_effect"]}
                    for f in features[:TOP]
                ],
                "n_features": len(features),
                "missing": s.model.missing_features(s.nbest),
                "responses": responses,
                "pairs": used_together(s.model),
            }
        )
    return panels


@dataclass(frozen=True)
class _Varied:
    """Rows [n · g] of a sample, once for every value of one feature: what a partial dependence is taken over."""

    rows: dict[str, F64]  # [n] the sample's columns
    name: str
    values: F64  # [g]
    n: int

    def __len__(self) -> int:
        return self.n * len(self.values)

    def column(self, name: str) -> F64:
        if name == self.name:
            return np.repeat(self.values, self.n)
        return np.tile(self.rows[name], len(self.values))


def response_curves(model: Model, space: UnitSpace, names: list[str], *, seed: int = 0) -> list[dict[str, Any]]:
    """Partial dependence of the unit score on each feature, over the quantiles of its real values (by occurrence).

    r(v) = λ v + mean over real units of Σ_m ρ_m h_m(x with the feature set to v), less its mean over the real values.
    Only trees that use the feature vary. Next to every threshold stand two values, so that steps are steps.
    """
    if not len(space.unit_idx):
        return []
    rng = np.random.default_rng(seed)
    units = space.unit_idx[rng.integers(0, len(space.unit_idx), 20_000)]  # by occurrence: enough for quantiles
    table, out = space.table, []
    used = {name for tree in model.trees for name in tree.features()} | set(names)
    columns = {name: table.column(name)[units] for name in used}
    sample = {name: column[:SAMPLE] for name, column in columns.items()}
    for name in names:
        real = np.quantile(columns[name], np.linspace(0.005, 0.995, QUANTILES))
        trees = tuple(tree for tree in model.trees if name in tree.features())
        values = np.unique(np.concatenate([real, _steps(trees, name, real)]))
        weight = model.weights.get(name, 0.0)

        def response(at: F64, name: str = name, weight: float = weight, trees: tuple[Any, ...] = trees) -> tuple[F64, F64]:
            varied: Table = _Varied(sample, name, at, min(SAMPLE, len(units)))
            return weight * at, tree_scores(trees, varied).reshape(len(at), -1).mean(axis=1)

        linear, from_trees = response(values)
        mean_linear, mean_trees = (part.mean() for part in response(real))
        total = linear + from_trees
        out.append(
            {
                "name": name,
                "weight": weight,
                "trees": len(trees),
                "x": [float(f"{v:.6g}") for v in values],
                "total": np.round(total - mean_linear - mean_trees, 5).tolist(),
                "linear": np.round(linear - mean_linear, 5).tolist(),
                "quantiles": [float(f"{v:.6g}") for v in np.unique(real)],
            }
        )
    return out


def _steps(trees: tuple[Any, ...], name: str, real: F64) -> F64:
    """Both sides of every threshold on a feature inside its range."""
    tests = [t.threshold[i] for t in trees for i, f in enumerate(t.feature) if f == name and t.left[i] >= 0]
    inside = np.array([t for t in tests if real.min() <= t <= real.max()])
    return np.concatenate([inside, inside + 1e-6 * max(1e-9, float(np.ptp(real)))])


def used_together(model: Model) -> dict[str, Any]:
    """Count the trees that use each pair of features; on the diagonal, how many use the feature."""
    uses = [sorted(tree.features()) for tree in model.trees]
    counts: dict[str, int] = {}
    for names in uses:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    names = sorted(counts, key=lambda n: (-counts[n], n))[:TOP]
    at = {name: k for k, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)), int)
    for used in uses:
        kept = [at[name] for name in used if name in at]
        for i in kept:
            matrix[i, i] += 1
        for i, j in combinations(kept, 2):
            matrix[i, j] += 1
            matrix[j, i] += 1
    off_diagonal = matrix.sum() - np.trace(matrix)
    return {"names": names, "matrix": matrix.tolist(), "any": bool(off_diagonal)}
