"""Features by the template that made them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ..core.arrays import F64, I64
from ..lists.nbest import NBest
from ..lists.tokens import RANKINGS

BLOCK = 1 << 15  # units that are looked at at a time
DECODER = "decoder"  # of features that came with the list


def fitting_templates(nbest: NBest, *, static_only: bool = False) -> str | None:
    """Return the set of templates for the units of a raw list: words, or phrases with their texts (what a phrase table can hold).

    Featurized lists have what they were given, and lists without units have none.
    """
    if not nbest.n_occurrences or "templates" in nbest.meta:
        return None
    is_ranked = any(name in RANKINGS for name in nbest.extra_names)  # by a neural model or a recogniser
    pairs = pc.and_(pc.not_equal(nbest.units.src, ""), pc.not_equal(nbest.units.tgt, ""))
    if not is_ranked and pc.any(pairs).as_py():
        return "sparse-static" if static_only else "phrases"
    return "words-basic" if pc.any(pc.not_equal(nbest.units.tgt, "")).as_py() else None


@dataclass(frozen=True)
class Group:
    """Features of one template."""

    name: str
    kind: str  # static, contextual, global, list, or decoder: as the list came
    state: str  # what a decoder must keep to compute them; "" for nothing, or where it is not known
    features: int
    used: int  # that are non-zero somewhere in this list
    nonzero: float  # share of non-zero values over all unit occurrences (hypotheses, for those that no unit has)


def feature_kinds(nbest: NBest) -> dict[str, tuple[str, str]]:
    """(template, kind) of every feature by name, dense and sparse. Exporters read it."""
    kinds = [(g["template"], g["kind"]) if g else (DECODER, DECODER) for g in _declared(nbest)]
    return {name: kinds[k] for name, k in zip(nbest.feature_names, _template_of(nbest).tolist(), strict=True)}


def _declared(nbest: NBest) -> list[dict[str, Any]]:
    """Return the list's record of the templates that made its features; first, an empty one: of those it came with."""
    return [{}, *json.loads(nbest.meta.get("templates", "[]"))]


def _template_of(nbest: NBest) -> I64:
    """[D + N] for each dense and sparse feature a position among those that _declared gives."""
    groups = _declared(nbest)
    made = {name: k for k, g in enumerate(groups) for name in g.get("features", ())}
    prefixes = {g["prefix"]: k for k, g in enumerate(groups) if "prefix" in g}
    out = np.zeros(len(nbest.global_names) + len(nbest.sparse_names), np.int64)
    out[: len(nbest.global_names)] = [made.get(name, 0) for name in nbest.global_names]
    if prefixes or (made and len(nbest.sparse_names)):  # else millions of names would be read for nothing
        names = nbest.sparse_names.to_pylist()
        out[len(nbest.global_names) :] = [made.get(name) or prefixes.get(name.partition(":")[0] + ":", 0) for name in names]
    return out


def feature_groups(nbest: NBest) -> list[Group]:
    """Groups in the order of their first features; a template's dense and sparse features are one group."""
    keys = [(g["template"], g["kind"], ", ".join(g.get("state", ()))) if g else (DECODER, DECODER, "") for g in _declared(nbest)]
    distinct = list(dict.fromkeys(keys))
    group = np.array([distinct.index(key) for key in keys])[_template_of(nbest)]
    in_units, in_hyps = _filled(nbest)
    n_dense = len(nbest.global_names)
    of_hyps = (np.array([kind == "global" for _, kind, _ in distinct])[group]) | ((in_units == 0) & (in_hyps > 0))
    of_hyps[len(nbest.unit_names) : n_dense] = True
    cells = np.where(of_hyps, nbest.n_hyps, nbest.n_occurrences)
    found, first = np.unique(group, return_index=True)
    out = []
    for k in found[np.argsort(first)].tolist():
        (template, kind, state), mine = distinct[k], group == k
        filled, total = (in_units + in_hyps)[mine], int(cells[mine].sum())
        used = int(np.count_nonzero(filled))
        out.append(Group(template, kind, state, len(filled), used, float(filled.sum()) / total if total else 0.0))
    return out


def _filled(nbest: NBest) -> tuple[F64, F64]:
    """([D + N], [D + N]) unit occurrences, and hypotheses, whose own value of each dense and sparse feature is not 0."""
    counts = np.bincount(nbest.unit_idx, minlength=nbest.n_units).astype(np.float64)
    n_dense, n = len(nbest.global_names), len(nbest.sparse_names)
    in_units, in_hyps = np.zeros(n_dense + n), np.zeros(n_dense + n)
    rows = nbest.units.sparse
    for a in range(0, nbest.n_units, BLOCK):  # not a copy of all values beside them
        some = slice(a, min(a + BLOCK, nbest.n_units))
        in_units[: len(nbest.unit_names)] += np.einsum("v,vd->d", counts[some], nbest.X[some] != 0)
        own, n_own = slice(*rows.ptr[[some.start, some.stop]]), np.diff(rows.ptr[some.start : some.stop + 1])
        np.add.at(in_units, n_dense + rows.idx[own], np.repeat(counts[some], n_own))
    in_hyps[[nbest.global_names.index(name) for name in nbest.extra_names]] = np.count_nonzero(nbest.extra, axis=0)
    in_hyps[n_dense:] = np.bincount(nbest.extra_sparse.idx, minlength=n)
    return in_units, in_hyps
