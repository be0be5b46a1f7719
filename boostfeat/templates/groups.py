"""Features by the template that made them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..nbest import NBest

DECODER = "decoder"  # of features that came with the list


@dataclass(frozen=True)
class Group:
    """Features of one template."""

    name: str
    kind: str  # static, contextual, global, list, or decoder: as the list came
    state: str  # what a decoder must keep to compute them; "" for nothing, or where it is not known
    features: int
    used: int  # that are non-zero somewhere in this list
    nonzero: float  # share of non-zero values over all unit occurrences (hypotheses, for global ones)


def feature_kinds(nbest: NBest) -> dict[str, tuple[str, str]]:
    """(template, kind) of every feature by name, dense and sparse. Exporters read it."""
    return {name: (g["template"], g["kind"]) if g else (DECODER, DECODER) for name, g in _declared(nbest).items()}


def feature_states(nbest: NBest) -> dict[str, tuple[str, ...]]:
    """What a decoder must keep (keys of registry.STATES) to compute each feature, as templates declare it. Exporters read it."""
    return {name: tuple(g.get("state", ())) for name, g in _declared(nbest).items()}


def _declared(nbest: NBest) -> dict[str, dict[str, Any]]:
    """Of every feature, what the list says about the template that made it; nothing of those it came with."""
    groups = json.loads(nbest.meta.get("templates", "[]"))
    made = {name: g for g in groups for name in g.get("features", ())}
    prefixes = {g["prefix"]: g for g in groups if "prefix" in g}
    out = {name: made.get(name, {}) for name in nbest.global_names}
    return out | {name: prefixes.get(name.partition(":")[0] + ":", {}) for name in nbest.sparse_names.to_pylist()}


def feature_groups(nbest: NBest) -> list[Group]:
    """Groups in the order of their first features; a template's dense and sparse features are one group."""
    kinds, states = feature_kinds(nbest), feature_states(nbest)
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
    members: dict[tuple[str, str, str], list[str]] = {}
    for name, group in kinds.items():
        members.setdefault((*group, ", ".join(states[name])), []).append(name)
    own = set(nbest.extra_names) - set(nbest.unit_names)
    out = []
    for (template, kind, state), names in members.items():
        cells = sum(nbest.n_hyps if name in own or kind == "global" else nbest.n_occurrences for name in names)
        filled = [nonzero[name] for name in names]
        used = sum(f > 0 for f in filled)
        out.append(Group(template, kind, state, len(names), used, sum(filled) / cells if cells else 0.0))
    return out
