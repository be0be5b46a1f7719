"""Making containers: from records a reader yields, from columns, from other containers.

Whatever the way in, equal units are merged exactly (bit by bit, -0.0 as 0.0) over the whole corpus, and the distinct
ones are numbered by first use, so that the same lists give the same container.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I32, I64, Array, first_use_order, offsets, owners, unique_rows
from ..core.errors import FormatError, InputError, counted
from ..core.text import Strings, has_text, normal, split_words, string_buffers
from ..metrics.bleu import bleu_stats
from ..metrics.metric import tokenizer
from ..metrics.symbols import Texts
from .absent import are_few
from .nbest import NBest, SparseRows, Units, string_column, strings

DENSE_SHARE = 0.1  # a feature that a reader has not declared dense is stored densely if this share of rows gives it
MAX_DENSE = 4096  # and if it is among so many that most rows give: a short list with long rows stays sparse
UNITS = ("word", "token")  # of lists of neural decoders
ROUNDING = 1e-5  # decoders print 6 significant digits: relative error 5e-6 of each number that enters a comparison


class UnitRecord(NamedTuple):
    """One unit of one hypothesis, as a reader found it. Spans are half-open token offsets."""

    features: Mapping[str, float]
    src: tuple[int, int] | None = None
    tgt: tuple[int, int] | None = None
    src_text: str | None = None  # None: the words of the source sentence in the span, where both are known
    tgt_text: str | None = None  # None: the words of the hypothesis in the span
    align: str = ""
    score: float = nan


class HypRecord(NamedTuple):
    """One hypothesis, as a reader found it; ``where`` is its place for error messages, ``file:line``."""

    sent: int
    text: str
    where: str
    score: float = nan
    features: Mapping[str, float] = {}  # what no unit carries
    units: Sequence[UnitRecord] = ()
    totals: Mapping[str, float] | None = None  # what the list says the features sum to: compared with the units' sums


class ListRecord(NamedTuple):
    """Hypotheses of one sentence in columns, for sources that share units among them. Units have their text."""

    sent: int
    where: str
    texts: Sequence[str]  # [K] words with single spaces
    score: F64  # [K]
    units: Sequence[UnitRecord]  # distinct ones, in order of first use; the target span is that of one occurrence
    unit_ptr: I64  # [K+1]
    unit_idx: Array  # [R] into units
    tgt_start: Array  # [R]
    features: Sequence[Mapping[str, float]] | None = None  # [K] what no unit carries


class UnitColumns(NamedTuple):
    """Units in columns; equal ones may be among them. Feature k is ``names[feature_idx[k]]``."""

    src: Strings  # [V]
    tgt: Strings
    align: Strings
    src_len: I32
    tgt_len: I32
    score: F64
    names: Sequence[str]
    n_features: I64  # [V]
    feature_idx: I32
    feature_val: F64

    @classmethod
    def none(cls) -> UnitColumns:
        text, length, no_ints = strings([]), np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(text, text, text, length, length, np.zeros(0), (), no_ints, length, np.zeros(0))


class HypColumns(NamedTuple):
    """Hypotheses of many sentences in columns. Texts have single blanks; features are as in UnitColumns."""

    sent: I64  # [K]
    text: Strings
    score: F64
    names: Sequence[str]
    n_features: I64  # [K]
    feature_idx: I32
    feature_val: F64
    n_units: I64  # [K]
    unit_idx: I32  # [R] into units
    src_start: I32
    tgt_start: I32
    units: UnitColumns


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


@dataclass(frozen=True)
class TableColumns:
    """Names of the columns of a table, by what they hold."""

    group: str  # what tells lists apart
    text: str
    features: Sequence[str] = ()
    quality: Sequence[str] = ()
    source: str | None = None
    refs: Sequence[str] = ()


@dataclass(frozen=True)
class ReadOptions:
    """Options of every reader besides the path."""

    source: Sequence[str] | None = None  # source sentences by id, for the words of source phrases
    first: int | None = None  # sentences before this one only: what follows need not be read
    size: int | None = None  # at most so many hypotheses a sentence; for graphs, the k of k-best
    distinct: bool = True  # graphs: k-best distinct strings, not derivations
    allow_mismatch: bool = False  # keep what units and totals disagree on as a feature of the hypothesis
    weights: Mapping[str, float] | None = None  # graphs that carry no scores are searched with these
    names: Sequence[str] | None = None  # names of the values of core=(...) in a Moses search graph, in order
    subwords: str = "auto"  # neural lists: the kind of pieces that texts are in, see lists.pieces
    units: str = "word"  # neural lists: units are words, or the tokens that the decoder scored
    n: int | None = None  # plain text: lines a source
    counts: str | None = None  # plain text: a file with the number of lines of each source
    scores: Sequence[str] = ()  # plain text: files of numbers beside it, FILE or NAME=FILE
    columns: TableColumns | None = None  # tables
    warn: Callable[[str], None] = _warn  # told what a reader could not use, by name
    threads: int = 1


class Builder:
    """Takes hypotheses in the order of a list, one by one or in columns, and makes a container of them.

    Unit features that are ``declared_dense`` are dense whatever their share.
    """

    def __init__(self, options: ReadOptions | None = None, declared_dense: tuple[str, ...] = ()) -> None:
        self.options = options or ReadOptions()
        self.declared_dense = declared_dense
        self._names = {name: k for k, name in enumerate(declared_dense)}
        self._last_names: tuple[str, ...] = ()
        self._last_indices = array("i")
        self._ids: list[int] = []
        self._hyp_counts: list[int] = []
        self._text, self._score, self._extra = TextColumn(), NumberColumn("d"), GrowingRows()
        self._unit_counts = NumberColumn("q")
        self._unit_idx, self._src_start, self._tgt_start = NumberColumn("i"), NumberColumn("i"), NumberColumn("i")
        self._unit_text = TextColumn(), TextColumn(), TextColumn()
        self._unit_len = NumberColumn("i"), NumberColumn("i")
        self._unit_score, self._unit_rows = NumberColumn("d"), GrowingRows()
        self._source_words: list[str] = []  # of the open list
        self._known: dict[tuple[object, ...], int] = {}  # its units; equal ones of other lists are merged in the end

    def take(self, hyps: Iterable[Any]) -> bool:
        """Append hypotheses up to the first sentence that is not wanted: nothing after that is read. False where it was met."""
        first = self.options.first
        for hyp in hyps:
            if first is not None and hyp.sent >= first:
                return False
            self.add(hyp)
        return True

    def sentence(self, sent: int, where: str) -> None:
        """Open the list of a sentence, unless it is the open one; it may stay empty. Sentence ids must not go back."""
        if self._ids and sent == self._ids[-1]:
            return
        last = self._ids[-1] if self._ids else 0
        if sent < last:
            fix = "sort the list by sentence id, or give accumulated lists as separate files"
            raise FormatError(where, expected=f"sentence id {last} or higher", found=str(sent), fix=fix)
        source = self.options.source or ()
        self._source_words = split_words(source[sent]) if sent < len(source) else []
        self._known.clear()
        self._ids.append(sent)
        self._hyp_counts.append(0)

    def _is_full(self) -> bool:
        """Tell whether the open list has as many hypotheses as are wanted."""
        return self.options.size is not None and self._hyp_counts[-1] >= self.options.size

    def _indices(self, features: Iterable[str]) -> array[int]:
        """Return the numbers of features; most hypotheses have the names of the one before."""
        names = tuple(features)
        if names != self._last_names:
            self._last_names, self._last_indices = names, array("i", self._numbers_of(names).tolist())
        return self._last_indices

    def _numbers_of(self, names: Sequence[str]) -> I32:
        return np.array([self._names.setdefault(name, len(self._names)) for name in names], np.int32)

    def add(self, hyp: Any) -> None:
        """Append a HypRecord, unless its list has ``options.size`` hypotheses already."""
        self.sentence(hyp.sent, hyp.where)
        if self._is_full():
            return
        text = normal(hyp.text)
        words = split_words(text) if hyp.units else []
        self._hyp_counts[-1] += 1
        self._text.append(text)
        self._score.few.append(hyp.score)
        for unit in hyp.units:
            self._unit_idx.few.append(self._number(unit, words, hyp.where))
            self._src_start.few.append(unit.src[0] if unit.src else -1)
            self._tgt_start.few.append(unit.tgt[0] if unit.tgt else -1)
        self._unit_counts.few.append(len(hyp.units))
        features = own_features(hyp, allow_mismatch=self.options.allow_mismatch)
        self._extra.add(self._indices(features), features.values())

    def add_list(self, hyps: ListRecord) -> None:
        """Append hypotheses of one sentence in columns: as ``add`` for each, but a unit they share is looked at once."""
        self.sentence(hyps.sent, hyps.where)
        n, first = len(hyps.texts), len(self._unit_score)
        start = np.array([unit.src[0] if unit.src else -1 for unit in hyps.units], np.int32)
        sides = [self._sides(unit, [], hyps.where) for unit in hyps.units]
        for side in (0, 1, 2):
            self._unit_text[side].extend(strings([own[0][side] for own in sides]))
        for side in (0, 1):
            self._unit_len[side].extend([own[1][side] for own in sides])
        for unit in hyps.units:
            self._unit_score.few.append(unit.score)
            self._unit_rows.add(self._indices(unit.features), unit.features.values())
        for features in hyps.features or [{}] * n:
            self._extra.add(self._indices(features), features.values())
        self._hyp_counts[-1] += n
        self._text.extend(strings(hyps.texts))
        self._score.extend(hyps.score)
        self._unit_counts.extend(np.diff(hyps.unit_ptr))
        self._unit_idx.extend(first + hyps.unit_idx)
        self._src_start.extend(start[hyps.unit_idx])
        self._tgt_start.extend(hyps.tgt_start)

    def add_units(self, units: UnitColumns) -> int:
        """Append units; returns the number of the first."""
        first = len(self._unit_score)
        for column, texts in zip(self._unit_text, units[:3], strict=True):
            column.extend(texts)
        for lengths, own in zip(self._unit_len, (units.src_len, units.tgt_len), strict=True):
            lengths.extend(own)
        self._unit_score.extend(units.score)
        self._unit_rows.extend(units.n_features, self._numbers_of(units.names)[units.feature_idx], units.feature_val)
        return first

    def add_hyps(self, hyps: HypColumns, first: int, last: int, base: int, where: Callable[[int], str]) -> None:
        """Append hypotheses first to last - 1, whose units are numbered from ``base``; ``where`` is the place of a row."""
        if first == last:
            return
        sent = hyps.sent[first:last]
        starts = np.flatnonzero(np.diff(sent, prepend=-1))
        for a, b in pairwise([*starts.tolist(), last - first]):
            self.sentence(int(sent[a]), where(first + a))
            self._hyp_counts[-1] += b - a
        features, units = (slice(*offsets(n)[[first, last]].tolist()) for n in (hyps.n_features, hyps.n_units))
        self._text.extend(hyps.text[first:last])
        self._score.extend(hyps.score[first:last])
        idx = self._numbers_of(hyps.names)[hyps.feature_idx[features]]
        self._extra.extend(hyps.n_features[first:last], idx, hyps.feature_val[features])
        self._unit_counts.extend(hyps.n_units[first:last])
        self._unit_idx.extend(hyps.unit_idx[units] + np.int32(base))
        self._src_start.extend(hyps.src_start[units])
        self._tgt_start.extend(hyps.tgt_start[units])

    def _sides(self, unit: UnitRecord, target: list[str], where: str) -> tuple[tuple[str, str, str], tuple[int, int]]:
        """Return source, target and links of a unit, and the lengths of both sides."""
        source = self._source_words
        if source and unit.src and unit.src[1] > len(source):
            expected = f"a source span within the sentence's {counted(len(source), 'word')}"
            fix = "give the source that was decoded"
            raise FormatError(where, expected=expected, found=f"{unit.src[0]}-{unit.src[1] - 1}", fix=fix)
        src = " ".join(source[slice(*unit.src)]) if unit.src_text is None and unit.src else unit.src_text or ""
        tgt = " ".join(target[slice(*unit.tgt)]) if unit.tgt_text is None and unit.tgt else unit.tgt_text or ""
        src_len = unit.src[1] - unit.src[0] if unit.src else -1
        tgt_len = unit.tgt[1] - unit.tgt[0] if unit.tgt else -1
        return (src, tgt, unit.align), (src_len, tgt_len)

    def _number(self, unit: UnitRecord, target: list[str], where: str) -> int:
        """Return the number of a unit; one that the open list has not had gets the next."""
        (texts, sizes), n = self._sides(unit, target, where), len(self._unit_score)
        number = self._known.setdefault((texts, sizes, *unit.features.items()), n)
        if number == n:
            for column, text in zip(self._unit_text, texts, strict=True):
                column.append(text)
            for lengths, length in zip(self._unit_len, sizes, strict=True):
                lengths.few.append(length)
            self._unit_score.few.append(unit.score)
            self._unit_rows.add(self._indices(unit.features), unit.features.values())
        return number

    def finish(self) -> NBest:
        names = list(self._names)
        sparse_names = NameTable(names)
        declared = [self._names[name] for name in self.declared_dense]
        units, unit_idx = self._units()
        extra_rows = self._extra.rows()
        # a name that is dense for units is dense for extras, and the other way round: it has one weight
        dense = np.union1d(*(often(rows, len(names)) for rows in (units.sparse, extra_rows)))
        x, unit_names, unit_sparse = split_rows(units.sparse, sparse_names, declared, dense)
        dense = np.union1d(dense, declared).astype(np.int64)
        extra, extra_names, extra_sparse = split_rows(extra_rows, sparse_names, [], dense, mark_absent=True)
        draft = NBest.bare(
            offsets(np.array(self._hyp_counts, np.int64)),
            self._text.column(),
            ids=np.array(self._ids, np.int64),
            score=self._score.column() + 0.0,  # -0.0 becomes 0.0, here and below
            unit_ptr=offsets(self._unit_counts.column()),
            unit_idx=unit_idx,
            src_start=self._src_start.column(),
            tgt_start=self._tgt_start.column(),
            units=replace(units, x=x, sparse=unit_sparse),
            unit_names=unit_names,
            extra=extra,
            extra_names=extra_names,
            extra_sparse=extra_sparse,
            sparse_names=sparse_names.column(),
        )
        nbest, size = assemble(draft), self.options.size
        return nbest.truncate(size) if size is not None and (np.diff(nbest.hyp_ptr) > size).any() else nbest

    def _units(self) -> tuple[Units, I32]:
        """Return units with all their features as sparse rows, and the units of occurrences [R].

        Where units differ in the names they give, equal and unused ones go first: which names are frequent depends on the others.
        """
        n, unit_idx = len(self._unit_score), self._unit_idx.column()
        src, tgt, align = (column.column() for column in self._unit_text)
        src_len, tgt_len = (own.column() for own in self._unit_len)
        score = self._unit_score.column() + 0.0
        units = Units(np.zeros((n, 0)), self._unit_rows.rows(), src, tgt, align, src_len, tgt_len, score)
        return (units, unit_idx) if not n or is_regular(units.sparse) else _merged(units, unit_idx)


class NumberColumn:
    """A column of numbers that grows at its end; ``few`` takes single ones.

    Large arrays of numpy cost fewer page faults than ``array``, and are copied while other threads run.
    """

    def __init__(self, kind: str) -> None:
        self.few: array[Any] = array(kind)
        self._room, self._n = np.empty(0, kind), 0

    def __len__(self) -> int:
        return self._n + len(self.few)

    def extend(self, values: Array | Sequence[float]) -> None:
        """Append values, as numbers of this kind."""
        for own in (self.few, values):
            start, self._n = self._n, self._n + len(own)
            if self._n > len(self._room):
                room = np.empty(2 * self._n, self._room.dtype)
                room[:start] = self._room[:start]
                self._room = room
            self._room[start : self._n] = own
        del self.few[:]

    def column(self) -> Array:
        self.extend(())
        return self._room[: self._n]


class TextColumn:
    """Texts as they come, one by one or many at a time."""

    def __init__(self) -> None:
        self._sizes, self._bytes = NumberColumn("q"), NumberColumn("B")

    def append(self, text: str) -> None:
        data = text.encode()
        self._sizes.few.append(len(data))
        self._bytes.few.frombytes(data)

    def extend(self, texts: Strings) -> None:
        ptr, data = string_buffers(texts)
        self._sizes.extend(np.diff(ptr))
        self._bytes.extend(data[ptr[0] : ptr[-1]])

    def column(self) -> Strings:
        return string_column(offsets(self._sizes.column()), self._bytes.column())


def ordered_union(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Names of all groups, each once, in order of appearance."""
    return tuple(dict.fromkeys(name for group in groups for name in group))


class NameTable:
    """The sparse names in use, numbered in order of first use."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.used = names, {}  # type: tuple[list[str], dict[int, int]]

    def number(self, idx: Array) -> I32:
        """Sparse numbers of name numbers, given out in order of first use; zeros, which are not kept, do not count."""
        if not len(idx):
            return np.zeros(0, np.int32)
        distinct, first, inverse = np.unique(idx, return_index=True, return_inverse=True)
        new = np.empty(len(distinct), np.int32)
        for k in np.argsort(first):
            new[k] = self.used.setdefault(int(distinct[k]), len(self.used))
        return new[inverse]

    def column(self) -> Strings:
        return strings([self.names[i] for i in self.used])


class GrowingRows:
    """Rows of (name, value) as they come."""

    def __init__(self) -> None:
        self._counts, self._idx, self._val = NumberColumn("q"), NumberColumn("i"), NumberColumn("d")

    def add(self, idx: array[int], values: Iterable[float]) -> None:
        self._counts.few.append(len(idx))
        self._idx.few.extend(idx)
        self._val.few.extend(values)

    def extend(self, counts: I64, idx: I32, values: F64) -> None:
        """Append rows with so many names and values each."""
        self._counts.extend(counts)
        self._idx.extend(idx)
        self._val.extend(values)

    def rows(self) -> SparseRows:
        """Return all rows; names are in the order in which they came, and may be there twice."""
        values = self._val.column()
        values += 0.0  # -0.0 becomes 0.0
        return SparseRows(offsets(self._counts.column()), self._idx.column(), values)


def is_regular(rows: SparseRows) -> bool:
    """Tell whether all rows give the names of the first, in its order."""
    counts = np.diff(rows.ptr)
    return bool((counts == counts[:1]).all() and (rows.idx.reshape(len(rows), -1) == rows.idx[: rows.ptr[1]]).all())


def often(rows: SparseRows, n_names: int) -> I64:
    """Return the names that enough rows give to be stored densely, in order."""
    same = len(rows) if len(rows) and is_regular(rows) else 1  # rows like the first
    given = np.bincount(rows.idx[: rows.ptr[len(rows) // same]], minlength=n_names) * same
    often = np.flatnonzero(given >= max(1, DENSE_SHARE * len(rows)))
    return np.sort(often[np.argsort(-given[often], kind="stable")[:MAX_DENSE]])


def split_rows(
    rows: SparseRows, table: NameTable, declared: list[int], dense: I64, *, mark_absent: bool = False
) -> tuple[F64, tuple[str, ...], SparseRows]:
    """Split rows into columns and sparse rows.

    Columns are those of the declared names, then of the dense ones in the order in which these rows give them. Values that a few
    rows do not give may be marked, see lists.absent.
    """
    n, names, idx = len(rows), table.names, rows.idx
    if not len(idx) and not declared:
        return np.zeros((n, 0)), (), SparseRows.empty(n)
    first = idx[: rows.ptr[1]].tolist() if n else []
    if first and len({*first}) == len(first) and {*declared} <= {*first} <= {*dense.tolist(), *declared} and is_regular(rows):
        order = [*declared, *(k for k in first if k not in declared)]
        x = rows.val.reshape(n, len(first))
        x = x if order == first else np.ascontiguousarray(x[:, [first.index(k) for k in order]])
        return x, tuple(names[k] for k in order), SparseRows.empty(n)
    met = np.full(len(names), -1)
    met[idx[::-1]] = np.arange(len(idx))[::-1]  # where a name is met first: of several values the last one stays
    others = np.setdiff1d(dense, np.array(declared, np.int64))
    others = others[met[others] >= 0]
    order = [*declared, *others[np.argsort(met[others])].tolist()]
    column = np.full(len(names), -1)
    column[order] = np.arange(len(order))
    row, is_dense = owners(rows.ptr), column[idx] >= 0
    x = np.zeros((n, len(order)))
    if mark_absent:
        x[:, are_few(n - np.bincount(idx, minlength=len(names))[order], n)] = -0.0
    x[row[is_dense], column[idx[is_dense]]] = rows.val[is_dense]
    keep = ~is_dense & (rows.val != 0)
    sparse_idx = table.number(idx[keep])
    by_row = np.lexsort((sparse_idx, row[keep]))
    ptr = offsets(np.bincount(row[keep], minlength=n))
    return x, tuple(names[j] for j in order), SparseRows(ptr, sparse_idx[by_row], rows.val[keep][by_row])


def own_features(hyp: HypRecord, *, allow_mismatch: bool) -> Mapping[str, float]:
    """Features of the hypothesis that its units do not carry; totals are compared with the units' sums."""
    if hyp.totals is None:
        return hyp.features
    own = dict(hyp.features)
    sums: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for unit in hyp.units:
        for name, value in unit.features.items():
            sums[name] = sums.get(name, 0.0) + value
            sizes[name] = sizes.get(name, 0.0) + abs(value)
    for name, total in hyp.totals.items():
        if name not in sums:
            own[name] = own.get(name, 0.0) + total
            continue
        if abs(sums[name] - total) > ROUNDING * (sizes[name] + abs(total)) + 1e-6:
            if not allow_mismatch:
                raise mismatch(hyp.where, name, total=total, unit_sum=sums[name])
            own[name] = own.get(name, 0.0) + total - sums[name]
    return own


def mismatch(where: str, name: str, *, total: float, unit_sum: float) -> FormatError:
    expected = f"units whose {name} sums to the hypothesis' {total:g}"
    fix = "make the list again, or give --allow-mismatch to keep the difference as a feature of the hypothesis"
    return FormatError(where, expected=expected, found=f"{unit_sum:g}", fix=fix)


# ---------------------------------------------------------------------------------------------------------------------
# Columns to container
# ---------------------------------------------------------------------------------------------------------------------


def assemble(draft: NBest) -> NBest:
    """Merge the equal units of a draft over the whole corpus, exactly: examples/method.md, "Equal units".

    Equal means features, phrases, alignment and span lengths; the decoder's own score is its weighted sum of the features
    (printed with other rounding each time) and is kept as first seen. Readers have made -0.0 into 0.0.
    """
    if not len(draft.units):
        return draft
    units, unit_idx = _merged(draft.units, draft.unit_idx)
    return draft if units is draft.units else replace(draft, units=units, unit_idx=unit_idx)


def _merged(units: Units, unit_idx: I32) -> tuple[Units, I32]:
    """Return the distinct units that occur, in order of first use, and the units of occurrences."""
    first, inverse = unique_rows(units.x, _unit_keys(units))
    order, merged_idx = first_use_order(inverse.astype(np.int32)[unit_idx])
    kept = first[order]
    if len(kept) == len(units) and (kept == np.arange(len(kept))).all():
        return units, unit_idx
    return units.take(kept), merged_idx


def _unit_keys(units: Units) -> I64:
    """[V, up to 6] everything but the dense features that tells units apart, as integers."""
    rows = replace(units.sparse, val=units.sparse.val + 0.0)
    texts = [column for column in (units.src, units.tgt, units.align) if has_text(column)]  # often not all
    codes = [np.asarray(column.dictionary_encode().indices) for column in texts]
    return np.column_stack([*codes, *([rows.codes()] if len(rows.idx) else []), units.src_len, units.tgt_len]).astype(np.int64)


def attach(nbest: NBest, *, source: Sequence[str] | None, refs: Sequence[Sequence[str]], name: str, threads: int = 1) -> NBest:
    """Give a list its source sentences and references, see ``aligned``, and compute BLEU statistics."""
    out = aligned(nbest, source=source, refs=refs, name=name)
    return with_stats(out, threads=threads) if refs else out


def aligned(nbest: NBest, *, source: Sequence[str] | None, refs: Sequence[Sequence[str]], name: str) -> NBest:
    """Give a list its source sentences and references by id.

    ``refs`` holds one sequence of lines per reference file. A sentence the list skips gets an empty list, so that line
    numbers stay those of the references; a list shorter or longer than the references is an error.
    """
    files = [*(("references", r) for r in refs), *([("source", source)] if source is not None else [])]
    if not files:
        return nbest
    lines = {len(f) for _, f in files}
    if len(lines) > 1:
        sizes = ", ".join(f"{kind}: {len(f)}" for kind, f in files)
        raise InputError(f"{name}: expected source and references with the same number of lines, found {sizes}; align them")
    n = lines.pop()
    last = int(nbest.ids[-1]) if len(nbest) else -1
    if last != n - 1:
        kinds = " and ".join(dict.fromkeys(kind for kind, _ in files))
        expected = f"sentence ids up to {n - 1}, as {kinds} with {counted(n, 'line')} have" if n else f"{kinds} with lines"
        found = f"ids up to {last}" if n else "an empty file"
        raise InputError(f"{name}: expected {expected}, found {found}; give the {kinds} of this very list")
    if (nbest.ids[1:] <= nbest.ids[:-1]).any() or (nbest.ids[:1] < 0).any():
        raise InputError(f"{name}: expected sentence ids that rise, found some that do not; sort the list by sentence id")

    def at_ids(ptr: I64) -> I64:
        counts = np.zeros(n, np.int64)
        counts[nbest.ids] = np.diff(ptr)
        return offsets(counts)

    def spread(texts: Strings) -> Strings:
        own = dict(zip(nbest.ids.tolist(), texts.to_pylist(), strict=True)) if len(texts) else {}
        return strings([own.get(s, "") for s in range(n)] if own else [])

    if source is None:  # what the list itself says, if anything
        own = dict(zip(nbest.ids.tolist(), nbest.source.to_pylist(), strict=True))
        source = [own.get(s, "") for s in range(n)]
    out = replace(
        nbest,
        ids=np.arange(n, dtype=np.int64),
        notes=replace(nbest.notes, sentences=spread(nbest.notes.sentences)),
        source=strings([normal(line) for line in source]),
        ref_ptr=at_ids(nbest.ref_ptr),
        hyp_ptr=at_ids(nbest.hyp_ptr),
    )
    if not refs:
        return out
    sentence_refs = [normal(file[s]) for s in range(n) for file in refs]
    return replace(out, ref_ptr=np.arange(n + 1, dtype=np.int64) * len(refs), refs=strings(sentence_refs))


def with_tokenizer(nbest: NBest, name: str, *, threads: int = 1) -> NBest:
    """Return the lists with BLEU statistics that are counted after a tokeniser of sacrebleu."""
    tokenizer(name)  # raises where there is none
    if name == nbest.tokenizer:
        return nbest
    out = replace(nbest, meta={**nbest.meta, "tokenize": name})
    return with_stats(out, threads=threads) if nbest.has_stats else out


def with_stats(nbest: NBest, *, threads: int = 1) -> NBest:
    """Return the lists with BLEU statistics against their references."""
    split = tokenizer(nbest.tokenizer)

    def tokenised(texts: Strings) -> Strings:
        """Split texts, each distinct one once."""
        if nbest.tokenizer == "none":
            return texts
        codes = texts.dictionary_encode()
        return strings([split(text) for text in codes.dictionary.to_pylist()]).take(codes.indices)

    texts = Texts(nbest.hyp_ptr, tokenised(nbest.text), nbest.ref_ptr, tokenised(nbest.refs))
    return replace(nbest, stats=bleu_stats(texts, threads=threads))


def with_own_lines(nbest: NBest, *, source: Sequence[str], refs: Sequence[Sequence[str]], threads: int = 1) -> NBest:
    """A list with the source and the references of each sentence that its own file holds."""
    nbest = replace(
        nbest,
        source=strings([normal(line) for line in source]),
        ref_ptr=offsets(np.array([len(own) for own in refs], np.int64)),
        refs=strings([normal(ref) for own in refs for ref in own]),
    )
    return with_stats(nbest, threads=threads) if refs and all(refs) else nbest
