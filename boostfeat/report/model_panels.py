"""Panels of models: cards of trees, and features with their effect, response curves, and use by trees together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, owners
from ..core.feature_table import FeatureTable
from ..lists.nbest import NBest, take_strings
from ..model.model import Model, tree_scores
from ..model.units import UnitSpace
from ..trees.drawing import leaf_output, leaves_in_order, tree_svg
from ..trees.tree import Remembered, Tree, TreeInput
from .run_folder import FinishedRun, FinishedSystem

TOP = 24  # features with a bar
CURVES = 12  # features with a response curve
SAMPLE = 400  # units that a response is averaged over
QUANTILES = 40
N_EXAMPLES = 3  # phrases of a leaf


def tree_panels(run: FinishedRun) -> list[dict[str, Any]]:
    """For each system with trees, a card a tree."""
    panels = []
    for s in run.boosted:
        assert s.model is not None
        space = UnitSpace.of(s.nbest, s.model.level)
        table, counts = Remembered(space.table), space.counts()
        told = {tree["name"]: tree for tree in s.told["trees"]}
        rng = np.random.default_rng(0)
        cards = [_card(tree, told[tree.name], table, counts, s.nbest, s.model.level, rng) for tree in s.model.trees]
        panels.append({"system": s.name, "level": s.model.level, "cards": cards, "known": _known(run, s)})
    return panels


def _known(run: FinishedRun, system: FinishedSystem) -> dict[str, Any]:
    """Return the share of what trees add that sums of features tell already, and with the trees of a global system."""
    assert system.model is not None
    added = _added(system)
    sums = system.nbest.global_features
    other = next((s for s in run.boosted if s.model is not None and s.model.level == "global" != system.model.level), None)
    out: dict[str, Any] = {"sums": told_share(system.nbest.hyp_ptr, added, sums)}
    if other is not None:
        out |= {"other": other.name, "both": told_share(system.nbest.hyp_ptr, added, np.column_stack([sums, _added(other)]))}
    return out


def _added(system: FinishedSystem) -> F64:
    """[H] what the trees of a system add to the score."""
    assert system.model is not None
    space = UnitSpace.of(system.nbest, system.model.level)
    return space.sum(tree_scores(system.model.trees, space.table))


def told_share(hyp_ptr: I64, values: F64, columns: F64) -> float:
    """R² within lists of values [H] on columns [H, D]: 1 where a linear function of the columns ranks as the values do."""
    lists, n = owners(hyp_ptr), np.maximum(np.diff(hyp_ptr), 1)

    def centred(x: F64) -> F64:
        return x - (np.bincount(lists, x, minlength=len(n)) / n)[lists]

    y, x = centred(values), np.empty(columns.shape)
    for k, column in enumerate(columns.T):
        x[:, k] = centred(column)
    if not (total := float(y @ y)):
        return 1.0
    spread = np.sqrt(np.einsum("hd,hd->d", x, x))
    x = x[:, spread > 0] / spread[spread > 0]
    weights = np.linalg.lstsq(x.T @ x, x.T @ y, rcond=1e-10)[0]
    rest = y - x @ weights
    return 1 - float(rest @ rest) / total


def _card(
    tree: Tree, told: dict[str, Any], table: TreeInput, counts: F64, nbest: NBest, level: str, rng: np.random.Generator
) -> dict[str, Any]:
    leaf_of = tree.leaf_of(table)
    fires = dict(zip(tree.leaves.tolist(), told["fires"], strict=True))
    shares = {node: n / max(1, sum(fires.values())) for node, n in fires.items()}
    names = sorted(tree.features())
    leaves = [
        {
            "node": node,
            "output": leaf_output(tree, node),
            "share": shares[node],
            "fires": fires[node],
            "examples": _examples(np.flatnonzero(leaf_of == node), table, counts, nbest, level, names, rng),
        }
        for node in leaves_in_order(tree)
    ]
    return {"name": tree.name, "weight": tree.weight, "effect": told["effect"], "rules": told["rules"], "leaves": leaves,
            "on": tree.on, "drawing": tree_svg(tree, shares)}  # fmt: skip


def _examples(
    rows: I64, table: TreeInput, counts: F64, nbest: NBest, level: str, names: list[str], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Phrases of a leaf, drawn by how often they occur (Gumbel's trick: the largest of log c + noise), each text once."""
    if not len(rows):
        return []
    with np.errstate(divide="ignore"):
        keys = -np.log(counts[rows]) - rng.gumbel(size=len(rows))
    smallest = np.argpartition(keys, min(8 * N_EXAMPLES, len(rows) - 1))[: 8 * N_EXAMPLES]
    likely = rows[smallest[np.argsort(keys[smallest], kind="stable")]]
    sides = (nbest.units.src, likely), (nbest.units.tgt, likely)
    if level == "global":
        sides = (nbest.source, owners(nbest.hyp_ptr)[likely]), (nbest.text, likely)
    pairs = zip(*(take_strings(texts, of).to_pylist() for texts, of in sides), strict=True)
    seen: dict[tuple[str, str], int] = {}
    for v, pair in zip(likely, pairs, strict=True):
        if len(seen) < N_EXAMPLES:
            seen.setdefault(pair, int(v))
    columns = {name: table.column(name) for name in names}
    return [
        {"src": src, "tgt": tgt, "x": [[name, f"{columns[name][v]:.3g}"] for name in names]} for (src, tgt), v in seen.items()
    ]


def feature_panels(run: FinishedRun) -> list[dict[str, Any]]:
    """For each system with a model: features by effect, response curves, pairs used together."""
    panels = []
    for s in run.systems:
        if s.model is None:
            continue
        features = [f for f in s.told["features"] if f["total_effect"] or f["weight"]]
        space = UnitSpace.of(s.nbest, s.model.level if s.nbest.n_occurrences else "global")
        responses = response_curves(s.model, space, [f["name"] for f in features[:CURVES]])
        panels.append({
            "system": s.name,
            "features": [
                {"name": f["name"], "weight": f["weight"], "linear": f["effect"] or 0.0, "total": f["total_effect"]}
                for f in features[:TOP]
            ],
            "n_features": len(features),
            "missing": s.model.missing_features(s.nbest),
            "responses": responses,
            "pairs": used_together(s.model),
        })  # fmt: skip
    return panels


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
            read = sorted({name}.union(*(tree.features() for tree in trees)))
            x = [np.repeat(at, len(sample[f])) if f == name else np.tile(sample[f], len(at)) for f in read]
            scores = tree_scores(trees, FeatureTable(read, np.column_stack(x)))
            return weight * at, scores.reshape(len(at), -1).mean(axis=1)

        linear, from_trees = response(values)
        mean_linear, mean_trees = (part.mean() for part in response(real))
        total = linear + from_trees
        out.append({
            "name": name,
            "weight": weight,
            "trees": len(trees),
            "x": [float(f"{v:.6g}") for v in values],
            "total": np.round(total - mean_linear - mean_trees, 5).tolist(),
            "linear": np.round(linear - mean_linear, 5).tolist(),
            "quantiles": [float(f"{v:.6g}") for v in np.unique(real)],
        })  # fmt: skip
    return out


def _steps(trees: tuple[Any, ...], name: str, real: F64) -> F64:
    """Both sides of every threshold on a feature inside its range."""
    tests = [t.threshold[i] for t in trees for i, f in enumerate(t.feature) if f == name and t.left[i] >= 0]
    inside = np.array([t for t in tests if real.min() <= t <= real.max()])
    return np.concatenate([inside, inside + 1e-6 * max(1e-9, float(np.ptp(real)))])


def used_together(model: Model) -> dict[str, Any]:
    """Count the trees that use each pair of features; on the diagonal, how many use the feature."""
    counts = Counter(name for tree in model.trees for name in tree.features())
    names = sorted(counts, key=lambda n: (-counts[n], n))[:TOP]
    uses = np.array([[name in tree.features() for name in names] for tree in model.trees], int)
    matrix = uses.T @ uses if names else np.zeros((0, 0), int)
    return {"names": names, "matrix": matrix.tolist(), "any": bool(matrix.sum() > np.trace(matrix))}
