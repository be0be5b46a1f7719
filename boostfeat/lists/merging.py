"""Containers from containers: lists one after the other, parts of a list, accumulated lists of the same sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from ..core.arrays import I64, Array, offsets, owners, segment_positions
from ..core.errors import InputError
from ..core.text import Strings, string_buffers
from .build import DENSE_SHARE, assemble, ordered_union, with_stats
from .nbest import NBest, Notes, Qualities, SparseRows, quality_unit, strings, take_strings
from .words import positions


def stack(lists: Sequence[NBest]) -> NBest:
    """All sentences of all lists one after the other, features matched by name."""
    if not lists:
        raise ValueError("expected at least one list, found none")
    if len(lists) == 1:
        return lists[0]
    unit_names = _dense_names([(nb.unit_names, nb.n_units) for nb in lists])
    extra_names = _dense_names([(nb.extra_names, nb.n_hyps) for nb in lists])
    by_units, by_hyps = ({name for names in given for name in names} for given in zip(*map(names_given, lists), strict=True))
    unit_names, extra_names = (  # a name that is dense is dense for units and extras
        _as_met([nb.unit_names for nb in lists], {*unit_names, *(by_units & {*extra_names})}, extra_names),
        _as_met([nb.extra_names for nb in lists], {*extra_names, *(by_hyps & {*unit_names})}, unit_names),
    )
    dense = {*unit_names, *extra_names}
    known = ordered_union((*nb.sparse_names.to_pylist(), *nb.unit_names, *nb.extra_names) for nb in lists)
    sparse_names = strings([name for name in known if name not in dense])
    spread = [at_columns(nb, unit_names, extra_names, sparse_names) for nb in lists]
    shift = np.cumsum([0, *(len(nb.units) for nb in spread)])
    has_stats = all(nb.has_stats or not nb.n_hyps for nb in lists)

    return assemble(
        together(
            spread,
            stats=np.concatenate([nb.stats for nb in lists]) if has_stats else np.zeros((0, 6), np.int32),
            unit_idx=np.concatenate([nb.unit_idx + np.int32(shift[k]) for k, nb in enumerate(spread)]),
            sparse_names=sparse_names,
            quality=_joined_quality(spread),
            notes=Notes(*(_joined_notes(spread, side) for side in ("sentences", "hyps"))),
        )
    )


def together(parts: Sequence[Any], **given: Any) -> Any:
    """Columns of containers one after the other, names and meta as the first has them; ``given`` as they are."""
    columns = dict(given)
    for name in (f.name for f in fields(parts[0]) if f.name not in given):
        own = [getattr(part, name) for part in parts]
        if is_dataclass(own[0]):
            columns[name] = together(own)
        elif isinstance(own[0], np.ndarray):
            pointers = name.endswith("ptr")
            columns[name] = offsets(np.concatenate([np.diff(c) for c in own])) if pointers else np.concatenate(own)
        else:
            texts = isinstance(own[0], pa.LargeStringArray)
            columns[name] = pa.chunked_array(own, pa.large_string()).combine_chunks() if texts else own[0]
    return type(parts[0])(**columns)


def _joined_notes(lists: Sequence[NBest], side: str) -> Strings:
    """Notes of all lists, where some list has any."""
    if not any(len(getattr(nb.notes, side)) for nb in lists):
        return strings([])
    sizes = [len(nb) if side == "sentences" else nb.n_hyps for nb in lists]
    own = [getattr(nb.notes, side) for nb in lists]
    return pa.concat_arrays([notes if len(notes) else strings([""] * n) for notes, n in zip(own, sizes, strict=True)])


def _joined_quality(lists: Sequence[NBest]) -> Qualities:
    """The quality columns of all lists, which have to have the same ones."""
    first = lists[0].quality
    for nb in lists:
        if nb.quality.names != first.names or nb.quality.lower != first.lower:
            names = [", ".join(own.names) or "none" for own in (first, nb.quality)]
            raise InputError(
                f"quality columns: expected {names[0]} in all lists, found {names[1]} in another; give --quality at import of all"
            )
        if nb.tokenizer != lists[0].tokenizer:
            raise InputError(f"tokeniser: expected {lists[0].tokenizer} in all lists, found {nb.tokenizer}; import them alike")
    if not first.names:
        return first
    value, weight = (np.concatenate([getattr(nb.quality, side) for nb in lists]) for side in ("value", "weight"))
    hyp_ptr = offsets(np.concatenate([np.diff(nb.hyp_ptr) for nb in lists]))
    unit = tuple(quality_unit(value[:, k], weight[:, k], hyp_ptr) for k in range(len(first.names)))
    return Qualities(first.names, first.lower, unit, value, weight)


def _dense_names(parts: Sequence[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """Names to store densely: where lists disagree, those that DENSE_SHARE of all rows store so.

    A short list, all of whose features are frequent in it, must not make dense columns in a long one.
    """
    rows = Counter[str]()
    for names, n in parts:
        rows.update(dict.fromkeys(names, n))
    least = DENSE_SHARE * sum(n for _, n in parts)
    return tuple(name for name, n in rows.items() if n >= least)


def _as_met(lists: Sequence[tuple[str, ...]], wanted: set[str], others: Sequence[str]) -> tuple[str, ...]:
    """The wanted names in the order in which the lists have them, those that none has behind them, as among the others."""
    return tuple(name for name in ordered_union([*lists, others]) if name in wanted)


def names_given(nb: NBest) -> tuple[set[str], set[str]]:
    """Return the names of the features that units have, and that hypotheses have beside them."""
    sparse_names = nb.sparse_names.to_pylist()
    of_units, of_hyps = ({sparse_names[j] for j in np.unique(rows.idx)} for rows in (nb.units.sparse, nb.extra_sparse))
    return {*nb.unit_names, *of_units}, {*nb.extra_names, *of_hyps}


def at_columns(nb: NBest, unit_names: tuple[str, ...], extra_names: tuple[str, ...], sparse_names: Strings) -> NBest:
    """Return the list with its features at the given columns; those that have none are left out."""
    if (nb.unit_names, nb.extra_names) == (unit_names, extra_names) and nb.sparse_names.equals(sparse_names):
        return nb
    to_sparse = positions(nb.sparse_names, sparse_names)

    def part(rows: SparseRows, dense: Array, names: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[Array, SparseRows]:
        """Columns that are dense here and there are copied; the others pass through (row, column, value)."""
        n, column = len(dense), positions(strings(names), strings(wanted))
        x = np.zeros((n, len(wanted)))
        x[:, column[column >= 0]] = dense[:, column >= 0]
        leaves = sparse.coo_matrix(np.where(column < 0, dense, 0.0) if (column < 0).any() else dense.shape)
        left = positions(strings(names), sparse_names)[leaves.col]
        row, goes = owners(rows.ptr), positions(nb.sparse_names, strings(wanted))[rows.idx]
        comes, stays = goes >= 0, goes < 0
        x[row[comes], goes[comes]] += rows.val[comes]
        at, to = np.concatenate([row[stays], leaves.row]), np.concatenate([to_sparse[rows.idx[stays]], left])
        values, some = np.concatenate([rows.val[stays], leaves.data]), to >= 0
        moved = sparse.csr_matrix((values[some], (at[some], to[some])), shape=(n, len(sparse_names)))
        return x, SparseRows.from_matrix(moved)

    x, unit_sparse = part(nb.units.sparse, nb.units.x, nb.unit_names, unit_names)
    extra, extra_sparse = part(nb.extra_sparse, nb.extra, nb.extra_names, extra_names)
    return replace(
        nb,
        units=replace(nb.units, x=x, sparse=unit_sparse),
        unit_names=unit_names,
        extra=extra,
        extra_names=extra_names,
        extra_sparse=extra_sparse,
        sparse_names=sparse_names,
    )


def concat(lists: Sequence[NBest]) -> NBest:
    """Lists of different sentences, one corpus after the other; sentences are numbered anew from 0."""
    stacked = stack(lists)
    return replace(stacked, ids=np.arange(len(stacked), dtype=np.int64))


def merge(lists: Sequence[NBest]) -> NBest:
    """Accumulated n-best lists: hypotheses of the same sentence id together, duplicates removed, the first one kept.

    Duplicates have the same text, the same units in the same places and the same extras; their decoder scores may differ,
    since accumulated lists come from runs with different weights.
    """
    stacked = stack(lists)
    ids, first, group = np.unique(stacked.ids, return_index=True, return_inverse=True)
    lists_in_order = np.argsort(group, kind="stable")
    hyps = segment_positions(stacked.hyp_ptr, lists_in_order)
    counts = np.bincount(group, weights=np.diff(stacked.hyp_ptr), minlength=len(ids)).astype(np.int64)
    sent_of = np.repeat(np.arange(len(ids)), counts)
    kept = _without_duplicates(stacked, hyps, sent_of)
    merged = stacked.take_hyps(hyps[kept], offsets(np.bincount(sent_of[kept], minlength=len(ids))), first)
    refs = _common_refs(stacked, group)
    merged = replace(
        merged,
        source=take_strings(stacked.source, _first_given(np.diff(string_buffers(stacked.source)[0]), group)),
        ref_ptr=offsets(np.diff(stacked.ref_ptr)[refs]),
        refs=take_strings(stacked.refs, segment_positions(stacked.ref_ptr, refs)),
    ).compact()
    lacks_stats = not merged.has_stats and len(merged) and (np.diff(merged.ref_ptr) > 0).all()
    return with_stats(merged) if lacks_stats else merged


def _first_given(counts: Array, group: I64) -> I64:
    """For each merged sentence the first of its lists that has any (of what is counted), else the first."""
    order = np.lexsort((np.arange(len(group)), counts == 0, group))
    return order[np.unique(group[order], return_index=True)[1]]


def _common_refs(stacked: NBest, group: I64) -> I64:
    """For each merged sentence the list whose references it takes; lists that disagree are an error."""
    chosen = _first_given(np.diff(stacked.ref_ptr), group)
    texts, ptr = stacked.refs.to_pylist(), stacked.ref_ptr
    for s, c in enumerate(chosen[group]):
        if ptr[s] < ptr[s + 1] and texts[ptr[s] : ptr[s + 1]] != texts[ptr[c] : ptr[c + 1]]:
            raise InputError(
                f"sentence {stacked.ids[s]}: expected the same references in all lists to merge, found others; "
                "merge lists of one corpus"
            )
    return chosen


def _without_duplicates(nb: NBest, hyps: I64, sent_of: I64) -> Array:
    text = np.asarray(nb.text.dictionary_encode().indices)
    rows = nb.extra_sparse
    seen: set[tuple[object, ...]] = set()
    keep = np.zeros(len(hyps), bool)
    for k, (h, s) in enumerate(zip(hyps, sent_of, strict=True)):
        units, own = slice(nb.unit_ptr[h], nb.unit_ptr[h + 1]), slice(rows.ptr[h], rows.ptr[h + 1])
        parts = nb.unit_idx[units], nb.src_start[units], nb.tgt_start[units], nb.extra[h] + 0.0, rows.idx[own], rows.val[own]
        key = s, text[h], *(part.tobytes() for part in parts)
        keep[k] = key not in seen
        seen.add(key)
    return keep
