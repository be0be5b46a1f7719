"""Features by the template that made them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from ..nbest import NBest

DECODER = "decoder"  # of features that came with the list


@dataclass(frozen=True)
class Group:
    """Features of one template."""

    name: str
    kind: str  # static, contextual, global, or decoder: as the list came
    features: int
    used: int  # that are non-zero somewhere in this list
    nonzero: float  # share of non-zero values over all unit occurrences (hypotheses, for global ones)


def feature_kinds(nbest: NBest) -> dict[str, tuple[str, str]]:
    """(template, kind) of every feature by name, dense and sparse. Exporters read it."""
    groups = json.loads(nbest.meta.get("templates", "[]"))
    made = {name: (g["template"], g["kind"]) for g in groups for name in g.get("features", ())}
    prefixes = {g["prefix"]: (g["template"], g["kind"]) for g in groups if "prefix" in g}
    out = {name: made.get(name, (DECODER, DECODER)) for name in nbest.global_names}
    for name in nbest.sparse_names.to_pylist():
        out[name] = prefixes.get(name.partition(":")[0] + ":", (DECODER, DECODER))
    return out


def feature_groups(nbest: NBest) -> list[Group]:
    """Groups in the order of their first features; a template's dense and sparse features are one group."""
    kinds = feature_kinds(nbest)
    counts = np.bincount(nbest.unit_idx, minlength=nbest.n_units).astype(np.float64)
    nonzero: dict[str, float] = dict.fromkeys(kinds, 0.0)  # occurrences (and hypotheses) whose value is not 0
    for name, total in zip(nbest.unit_names, np.einsum("v,vd->d", counts, nbest.X != 0), strict=True):
        nonzero[name] += float(total)
    for name, total in zip(nbest.extra_names, np.count_nonzero(nbest.extra, axis=0), strict=True):
        nonzero[name] += float(total)
    rows = nbest.units.sparse
    n = len(nbest.sparse_names)
    sparse = np.bincount(rows.idx, np.repeat(counts, np.diff(rows.ptr)), minlength=n)
    sparse += np.bincount(nbest.extra_sparse.idx, minlength=n)
    for name, total in zip(nbest.sparse_names.to_pylist(), sparse, strict=True):
        nonzero[name] += float(total)
    members: dict[tuple[str, str], list[str]] = {}
    for name, group in kinds.items():
        members.setdefault(group, []).append(name)
    own = set(nbest.extra_names) - set(nbest.unit_names)
    out = []
    for (template, kind), names in members.items():
        cells = sum(nbest.n_hyps if name in own or kind == "global" else nbest.n_occurrences for name in names)
        filled = [nonzero[name] for name in names]
        out.append(Group(template, kind, len(names), sum(f > 0 for f in filled), sum(filled) / cells if cells else 0.0))
    return out
