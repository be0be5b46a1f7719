"""The container: sentences -> hypotheses -> units as offset arrays, and a table of distinct units.

    S sentences, H hypotheses, R unit occurrences, V distinct units, D dense and N sparse features

A hypothesis' features are the sums over its units plus its own extras: G = A X + E.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from itertools import pairwise, repeat
from math import nan
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from ..core import arrays
from ..core.arrays import F64, I32, I64, Array, frozen, offsets, owners, segment_positions
from ..core.errors import counted, repeated
from ..core.feature_table import linear_scores
from ..core.html import cell, table, title
from ..core.kernels import kernel
from ..core.text import Strings, string_buffers

T = TypeVar("T")
OF_OTHERS = ("meta", "quality.unit")  # columns that say something of other things than the list's content
SEEDS = np.array([0x243F6A8885A308D3, 0x13198A2E03707344], np.uint64)  # π, of two hashes of 64 bits


def strings(values: Sequence[str | None]) -> Strings:
    return pa.array(values, pa.large_string(), from_pandas=False)


def string_column(ptr: Array, data: Array) -> Strings:
    """Strings data[ptr[k]:ptr[k + 1]], which the column shares."""
    return pa.LargeStringArray.from_buffers(len(ptr) - 1, pa.py_buffer(ptr), pa.py_buffer(data[: int(ptr[-1])]))


def empty_strings(n: int) -> Strings:
    """A column of n empty strings, which take no memory until their offsets are looked at."""
    return string_column(np.zeros(n + 1, np.int64), np.zeros(0, np.uint8))


def take_strings(column: Strings, idx: Array) -> Strings:
    return column.take(pa.array(idx, pa.int64()))


def columns(container: Any, prefix: str = "") -> dict[str, Any]:
    """Return the columns of a container by name; those of its parts have the part's name before theirs: units.sparse.idx."""
    out: dict[str, Any] = {}
    for f in fields(container):
        column = getattr(container, f.name)
        out |= columns(column, f"{prefix}{f.name}.") if is_dataclass(column) else {prefix + f.name: column}
    return out


def with_columns(container: T, new: Mapping[str, Any], prefix: str = "") -> T:
    """Return a container with other columns, by the names that ``columns`` gives."""
    inside: dict[str, Any] = {}
    for name in (f.name for f in fields(container)):  # type: ignore[arg-type]
        column = getattr(container, name)
        inside[name] = with_columns(column, new, f"{prefix}{name}.") if is_dataclass(column) else new.get(prefix + name, column)
    return type(container)(**inside)


class Frozen:
    """A dataclass whose arrays are read-only views, as those of a mapped store are: nothing changes them in place."""

    def __post_init__(self) -> None:
        for name, column in list(vars(self).items()):
            if isinstance(column, np.ndarray) and column.flags.writeable:
                object.__setattr__(self, name, frozen(column))


def _segments(ptr: I64, rows: Array | slice) -> tuple[I64, Array | slice]:
    """Return the offsets of some segments, and the positions of their elements; a slice where the segments are one."""
    counts = ptr[1:][rows] - ptr[:-1][rows]
    if not isinstance(rows, slice):
        return offsets(counts), segment_positions(ptr, rows)
    first, last, _ = rows.indices(len(ptr) - 1)
    return offsets(counts), slice(int(ptr[first]), int(ptr[max(first, last)]))


def _pick(column: Any, rows: Array | slice) -> Any:
    """Return rows of a column: a view of a slice, else a copy. A column of which there is none stays so."""
    if isinstance(column, SparseRows):
        ptr, entries = _segments(column.ptr, rows)
        return SparseRows(ptr, column.idx[entries], column.val[entries])
    if isinstance(column, np.ndarray) or isinstance(rows, slice):
        return column[rows] if len(column) else column
    return take_strings(column, rows) if len(column) else column


@dataclass(frozen=True)
class SparseRows(Frozen):
    """Rows of (name index, value): CSR without a shape. Indices within a row are increasing."""

    ptr: I64  # [n+1]
    idx: I32  # [nnz] into NBest.sparse_names
    val: F64  # [nnz]

    @classmethod
    def empty(cls, n: int) -> SparseRows:
        return cls(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @classmethod
    def of_entries(cls, row: Array, idx: Array, val: F64, shape: tuple[int, int]) -> SparseRows:
        """Rows of entries in any order; those of the same place are added up."""
        n_rows, n_names = shape[0], max(shape[1], 1)
        keys, which = np.unique(row * n_names + idx, return_inverse=True)
        ptr = offsets(np.bincount(keys // n_names, minlength=n_rows))
        return cls(ptr, (keys % n_names).astype(np.int32), np.asarray(np.bincount(which, val, len(keys)), np.float64))

    @property
    def nnz(self) -> int:
        return len(self.idx)

    def __matmul__(self, w: F64) -> F64:
        """[n] Σ val w[idx] of each row, one entry after the other."""
        return np.asarray(self.matrix(len(w)) @ w)

    def codes(self) -> I64:
        """[n] numbers of the rows: equal ones, bit by bit, have the same."""
        words = np.stack([self.idx.astype(np.int64), self.val.view(np.int64)], axis=1)
        buffers = [None, pa.py_buffer(self.ptr * words.itemsize * 2), pa.py_buffer(words)]
        rows = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)
        return np.asarray(rows.dictionary_encode().indices).astype(np.int64)

    def matrix(self, n_names: int) -> sparse.csr_matrix:
        return sparse.csr_matrix((self.val, self.idx, self.ptr), shape=(len(self), n_names))

    def take(self, rows: Array) -> SparseRows:
        taken: SparseRows = _pick(self, rows)
        return taken

    @classmethod
    def from_matrix(cls, m: sparse.csr_matrix) -> SparseRows:
        m = sparse.csr_matrix(m, copy=True)  # the next two lines work in place
        m.sum_duplicates()
        m.eliminate_zeros()
        return cls(m.indptr.astype(np.int64), m.indices.astype(np.int32), m.data.astype(np.float64))


@dataclass(frozen=True)
class Units(Frozen):
    """The distinct units: phrase pairs in context, rules, edges or tokens. No two rows are equal."""

    x: F64  # [V, D] dense features, row-major
    sparse: SparseRows  # [V] sparse features
    src: Strings  # [V] source phrase, "" where unknown
    tgt: Strings  # [V] target phrase
    align: Strings  # [V] phrase-internal word alignment, "0-0 1-1"
    src_len: I32  # [V] source tokens covered, -1 where unknown
    tgt_len: I32  # [V] target tokens, -1 where unknown
    score: F64  # [V] what the decoder's own weights gave it, NaN where unknown

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Array | slice) -> Units:
        return Units(**{f.name: _pick(getattr(self, f.name), rows) for f in fields(self)})


@dataclass(frozen=True)
class Qualities(Frozen):
    """Numbers from elsewhere that say how good hypotheses are. Σ value / Σ weight of chosen ones is their corpus score."""

    names: tuple[str, ...] = ()  # [Q]
    lower: tuple[bool, ...] = ()  # [Q] better when lower
    unit: tuple[float, ...] = ()  # [Q] what gains are measured in, see ``quality_unit``
    value: F64 = field(default_factory=lambda: np.zeros((0, 0)))  # [H, Q]
    weight: F64 = field(default_factory=lambda: np.zeros((0, 0)))  # [H, Q]

    def with_column(self, name: str, value: F64, weight: F64, *, hyp_ptr: I64, lower: bool = False) -> Qualities:
        """Return the columns with one [H] more, or in place of the one of this name; ``hyp_ptr`` [S+1] has the lists."""
        kept = [k for k, other in enumerate(self.names) if other != name]
        return Qualities(
            (*(self.names[k] for k in kept), name),
            (*(self.lower[k] for k in kept), lower),
            (*(self.unit[k] for k in kept), quality_unit(value, weight, hyp_ptr)),
            np.column_stack([*(self.value[:, k] for k in kept), value]),
            np.column_stack([*(self.weight[:, k] for k in kept), weight]),
        )


@dataclass(frozen=True, eq=False)
class Notes:
    """Notes on sentences and hypotheses that boostfeat has no use for: objects in JSON, which travel along."""

    sentences: Strings = field(default_factory=lambda: strings([]))  # [S] "" where it says nothing; [] where it never does
    hyps: Strings = field(default_factory=lambda: strings([]))  # [H] or []

    def __bool__(self) -> bool:
        return len(self.sentences) + len(self.hyps) > 0


def quality_unit(value: F64, weight: F64, hyp_ptr: I64) -> float:
    """Return ten standard deviations of value / weight within lists; 1 where there is no difference, inf beyond numbers.

    Within lists sentence BLEU, chrF and WER have a standard deviation of about 0.1 (0.06 to 0.14 on phrase-based, neural and
    speech lists). In this unit so has a column, whatever its scale, and thresholds of pairs mean what they mean for BLEU.
    """
    with np.errstate(over="ignore"):
        ratio = np.divide(value, weight, out=np.zeros(len(value)), where=weight != 0)
    largest = float(np.abs(ratio).max(initial=0.0))
    if not largest or not np.isfinite(largest):
        return largest or 1.0
    sent, shares = owners(hyp_ptr), ratio / largest
    means = np.bincount(sent, shares, len(hyp_ptr) - 1) / np.maximum(np.diff(hyp_ptr), 1)
    return 10 * largest * float(np.sqrt(np.mean((shares - means[sent]) ** 2))) or 1.0


@dataclass(frozen=True)
class NBest(Frozen):
    """n-best lists of a corpus. Built by ``boostfeat.lists.build``, read by ``boostfeat.lists.store``; never changed in place."""

    ids: I64  # [S] the sentence numbers of the decoder
    source: Strings  # [S], "" where not given
    ref_ptr: I64  # [S+1] references of sentence s are refs[ref_ptr[s]:ref_ptr[s+1]]
    refs: Strings
    hyp_ptr: I64  # [S+1] hypotheses of sentence s are hyp_ptr[s]:hyp_ptr[s+1]
    text: Strings  # [H]
    score: F64  # [H] the decoder's score, NaN where it gave none
    stats: I32  # [H, 6] BLEU statistics (see boostfeat.metrics.bleu); [0, 6] where there are no references
    unit_ptr: I64  # [H+1] units of hypothesis h are unit_ptr[h]:unit_ptr[h+1]
    unit_idx: I32  # [R] into units
    src_start: I32  # [R] first source token covered, -1 where unknown
    tgt_start: I32  # [R] first target token, -1 where unknown
    units: Units
    unit_names: tuple[str, ...]  # [D] dense unit features
    extra: F64  # [H, E] dense features that no unit carries
    extra_names: tuple[str, ...]  # [E]
    extra_sparse: SparseRows  # [H]
    sparse_names: Strings  # [N] names of the sparse features of units and extras
    quality: Qualities = field(default_factory=Qualities)
    notes: Notes = field(default_factory=Notes)
    meta: dict[str, str] = field(default_factory=dict)  # where it came from; not part of equality

    # -- construction ------------------------------------------------------------------------------------------------

    @classmethod
    def bare(cls, hyp_ptr: I64, text: Strings, **given: Any) -> Self:
        """Return lists that have texts [H], and no more than the columns that are given."""
        s, h, no_ints = len(hyp_ptr) - 1, len(text), np.zeros(0, np.int32)
        texts, rows = strings([]), SparseRows.empty(0)
        none: dict[str, Any] = {
            "ids": np.arange(s),
            "source": empty_strings(s),
            "ref_ptr": np.zeros(s + 1, np.int64),
            "refs": texts,
            "score": np.full(h, nan),
            "stats": np.zeros((0, 6), np.int32),
            "unit_ptr": np.zeros(h + 1, np.int64),
            "unit_idx": no_ints,
            "src_start": no_ints,
            "tgt_start": no_ints,
            "units": Units(np.zeros((0, 0)), rows, texts, texts, texts, no_ints, no_ints, np.zeros(0)),
            "unit_names": (),
            "extra": np.zeros((h, 0)),
            "extra_names": (),
            "extra_sparse": SparseRows.empty(h),
            "sparse_names": texts,
        }
        return cls(hyp_ptr=hyp_ptr, text=text, **{**none, **given})

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        group: str,
        text: str,
        features: str | Sequence[str] = (),
        quality: str | Sequence[str] = (),
        source: str | None = None,
        refs: str | Sequence[str] = (),
        lower_is_better: str | Sequence[str] = (),
    ) -> NBest:
        """Return the lists of a frame of pandas, polars or Arrow that has a hypothesis a row; columns are named.

        Rows with the same value of ``group`` are a list. A feature called ``score`` is the decoder's score too. Words of the
        texts are units. Columns that are not named are told in a warning; quality is better when higher unless named again.
        """
        frames = import_module(".frames", __package__)
        several = ([own] if isinstance(own, str) else own for own in (features, quality, refs, lower_is_better))
        feature_names, quality_names, reference_names, lower = several
        columns = frames.TableColumns(group, text, feature_names, quality_names, source, reference_names)
        lists: NBest = frames.lists_of(frame, columns, lower)
        return lists

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], **columns: Any) -> NBest:
        """Return the lists of dictionaries that are a hypothesis each; columns are keys, named as in from_frame."""
        return cls.from_frame(list(map(dict, records)), **columns)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a frame of pandas, polars or pyarrow with a row a hypothesis; sparse features are left out."""
        return import_module(".frames", __package__).frame_of_lists(self, backend)

    def __post_init__(self) -> None:
        """Check every offset, index and length once; all code after this may trust them."""
        super().__post_init__()
        s, h, r, v = len(self.ids), len(self.text), len(self.unit_idx), len(self.units)
        own = columns(self)
        for name, n, end in (
            ("ref_ptr", s, len(self.refs)),
            ("hyp_ptr", s, h),
            ("unit_ptr", h, r),
            ("units.sparse.ptr", v, len(self.units.sparse.idx)),
            ("extra_sparse.ptr", h, len(self.extra_sparse.idx)),
        ):
            _check_ptr(name, own[name], n, end)
        _check_range("unit_idx", self.unit_idx, v)
        for name in ("units.sparse", "extra_sparse"):
            _check_range(f"{name}.idx", own[f"{name}.idx"], len(self.sparse_names))
            _check(f"length of {name}.val", len(own[f"{name}.val"]), len(own[f"{name}.idx"]))
        of_units = [f"units.{f.name}" for f in fields(self.units) if f.name != "sparse"]
        lengths = {"source": s, "score": h, "extra": h, "src_start": r, "tgt_start": r, **dict.fromkeys(of_units, v)}
        at_most = {"notes.sentences": s, "notes.hyps": h, "stats": h}  # or none
        for name, n in {**lengths, **{name: n for name, n in at_most.items() if len(own[name])}}.items():
            _check("length of " + name, len(own[name]), n)
        widths = {"units.x": len(self.unit_names), "extra": len(self.extra_names), "stats": 6}
        if self.quality.names:
            widths |= dict.fromkeys(("quality.value", "quality.weight"), len(self.quality.names))
            _check("length of quality.value", len(self.quality.value), h)
            _check("length of quality.weight", len(self.quality.weight), h)
        for name, n in widths.items():
            _check("columns of " + name, own[name].shape[1], n)
        if len(self.sparse_names):
            both = pc.is_in(self.sparse_names, value_set=strings([*self.unit_names, *self.extra_names]))
            if pc.any(both).as_py():
                name = self.sparse_names.filter(both)[0].as_py()
                raise ValueError(f"features: expected each name among the dense or the sparse ones, found {name!r} in both")
        for name in ("unit_names", "extra_names"):
            if (twice := repeated(own[name])) is not None:
                raise ValueError(f"{name}: expected distinct names, found {twice!r} twice")

    # -- sizes -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int]:
        """(S,), by which scikit-learn knows that sentences are samples."""
        return (len(self),)

    @property
    def n_hyps(self) -> int:
        return len(self.text)

    @property
    def n_occurrences(self) -> int:
        return len(self.unit_idx)

    @property
    def n_units(self) -> int:
        return len(self.units)

    @property
    def has_stats(self) -> bool:
        return len(self.stats) == self.n_hyps and len(self.refs) + self.n_hyps > 0

    @property
    def tokenizer(self) -> str:
        """The tokeniser of sacrebleu that BLEU statistics were counted with."""
        return self.meta.get("tokenize", "none")

    @property
    def has_scores(self) -> bool:
        return not np.isnan(self.score).any()

    @cached_property
    def sent_of_hyp(self) -> I64:
        """[H] the sentence of each hypothesis."""
        return owners(self.hyp_ptr)

    @cached_property
    def largest_values(self) -> tuple[tuple[Sequence[str], F64], ...]:
        """Names and largest absolute values of dense and of sparse columns, of units and of hypotheses. It reads all of X."""
        names = self.feature_names[len(self.global_names) :]
        dense = (self.unit_names, self.X), (self.extra_names, self.extra)
        rows = self.units.sparse, self.extra_sparse
        return (*((own, _column_sizes(x)) for own, x in dense), *((names, _sparse_sizes(own, len(names))) for own in rows))

    # -- the matrices A and X, see the package docstring ---------------------------------------------------------

    @property
    def X(self) -> F64:  # noqa: N802 (the paper's symbol)
        """[V, D] dense unit features; the array itself."""
        return self.units.x

    @cached_property
    def A(self) -> sparse.csr_matrix:  # noqa: N802
        """[H, V] occurrences of units in hypotheses. Shares the store's indices; repeats in a row count twice."""
        return sparse.csr_matrix((np.ones(self.n_occurrences), self.unit_idx, self.unit_ptr), shape=(self.n_hyps, self.n_units))

    @cached_property
    def X_sparse(self) -> sparse.csr_matrix:  # noqa: N802
        """[V, N] sparse unit features."""
        return self.units.sparse.matrix(len(self.sparse_names))

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all features of hypotheses: the dense ones, then the sparse ones."""
        return (*self.global_names, *self.sparse_names.to_pylist())

    @cached_property
    def global_names(self) -> tuple[str, ...]:
        """Names of the columns of global_features: the unit features, then the extras that are not among them."""
        known = set(self.unit_names)
        return self.unit_names + tuple(n for n in self.extra_names if n not in known)

    @cached_property
    def global_features(self) -> F64:
        """[H, len(global_names)] dense features of hypotheses, A X + E."""
        if not self.n_occurrences and self.global_names == self.extra_names:
            return self.extra
        return frozen(self.global_rows(slice(None)))

    def global_rows(self, hyps: I64 | slice) -> F64:
        """Return rows of global_features, a fresh array [n, len(global_names)]."""
        ptr, places = _segments(self.unit_ptr, hyps)
        out = np.zeros((len(ptr) - 1, len(self.global_names)))
        arrays.add_segment_rows(ptr, self.unit_idx[places], self.units.x, out)
        column = {name: j for j, name in enumerate(self.global_names)}
        for e, name in enumerate(self.extra_names):
            out[:, column[name]] += self.extra[hyps, e]
        return out

    def global_column(self, name: str) -> F64:
        """[H] one column of global_features, by name."""
        out = np.zeros(self.n_hyps)
        if name in self.unit_names:
            out = self.sum_units(np.ascontiguousarray(self.units.x[:, self.unit_names.index(name)]))
        return out + self.extra[:, self.extra_names.index(name)] if name in self.extra_names else out

    @cached_property
    def global_sparse(self) -> sparse.csr_matrix:
        """[H, N] sparse features of hypotheses, A X_sparse + E_sparse."""
        own = self.extra_sparse.matrix(len(self.sparse_names))
        if not len(self.units.sparse.idx):
            return own
        of_units = self.A @ self.X_sparse
        return sparse.csr_matrix(of_units + own if own.nnz else of_units)

    def weigh(self, weights: Mapping[str, float] | F64) -> tuple[F64, F64]:
        """Linear scores under weights: of units [V], and of hypotheses' own extras [H].

        They are by name, and unnamed features weigh 0; or of all features, in the order of feature_names.
        """
        n_dense = len(self.global_names)
        if isinstance(weights, np.ndarray):
            named: Mapping[str, float] = dict(zip(self.global_names, weights[:n_dense].tolist(), strict=True))
            sparse = weights[n_dense:]
        else:
            named, sparse = weights, by_name(weights, self.feature_names[n_dense:])
        dense, own = (by_name(named, some) for some in (self.unit_names, self.extra_names))
        return (
            linear_scores(self.X, self.units.sparse, np.concatenate([dense, sparse])),
            linear_scores(self.extra, self.extra_sparse, np.concatenate([own, sparse])),
        )

    def sum_units(self, unit_scores: F64, hyp_scores: F64 | None = None) -> F64:
        """Hypothesis scores [H]: A F (plus the hypotheses' own)."""
        out = np.zeros(self.n_hyps) if hyp_scores is None else np.array(hyp_scores, np.float64)
        return arrays.add_segment_sums(self.unit_ptr, self.unit_idx, unit_scores, out)

    def in_parts(self, task: Callable[[NBest], T], first: int | None = None) -> list[T]:
        """Return results of a task for consecutive sentences: all (here they are one run), or the first so many."""
        return [task(self if first is None else self[:first])]

    # -- other lists -------------------------------------------------------------------------------------------------

    def take(self, sentences: Array | slice, *, all_units: bool = False) -> NBest:
        """The lists of these sentences (positions, not ids; or a mask), in this order; unused units are dropped.

        Columns of a run of neighbours are views: only their units are copied, and nothing is where all units stay.
        """
        some = np.arange(len(self))[sentences if isinstance(sentences, slice) or len(sentences) else []]
        is_run = len(some) and (np.diff(some) == 1).all()
        taken = self._of_sentences(slice(int(some[0]), int(some[-1]) + 1) if is_run else some)
        return taken if all_units else taken.compact()

    def run(self, first: int, last: int) -> tuple[NBest, I64]:
        """Return the lists of sentences first to last - 1, and which units theirs are."""
        part = self._of_sentences(slice(first, last))
        return part.compact(), arrays.first_use_order(part.unit_idx)[0]

    def _of_sentences(self, sentences: Array | slice) -> NBest:
        hyp_ptr, hyps = _segments(self.hyp_ptr, sentences)
        return self.take_hyps(hyps, hyp_ptr, sentences)

    def __getitem__(self, sentences: int | slice | Array | tuple[Any, ...]) -> NBest:
        """Return the lists of these sentences; of a single one, too, it is n-best lists of a corpus."""
        if isinstance(sentences, tuple):  # as scikit-learn indexes samples: [positions, ...]
            return self[sentences[0]]
        if isinstance(sentences, int | np.integer):
            if not -len(self) <= sentences < len(self):
                raise IndexError(f"sentence {sentences}: expected one of {len(self)}, counted from 0; ids are in NBest.ids")
            sentences = np.array([sentences])
        return self.take(sentences)

    def without_references(self) -> NBest:
        """Return the lists without anything that tells which hypothesis is better: references, statistics, quality columns."""
        nothing = {"ref_ptr": np.zeros(len(self) + 1, np.int64), "refs": strings([]), "stats": self.stats[:0]}
        return replace(self, **nothing, quality=Qualities())

    def with_quality(self, name: str, values: Array, weight: Array | None = None, *, lower_is_better: bool = False) -> NBest:
        """Return the lists with a quality column: a number for each hypothesis [H], over a weight [H] where it is a ratio."""
        value = np.asarray(values, np.float64)
        weights = np.ones(self.n_hyps) if weight is None else np.asarray(weight, np.float64)
        columns = self.quality.with_column(name, value, weights, hyp_ptr=self.hyp_ptr, lower=lower_is_better)
        return replace(self, quality=columns)

    def without_sparse(self) -> NBest:
        """Return the lists with their dense features alone."""
        units = replace(self.units, sparse=SparseRows.empty(self.n_units))
        return replace(self, units=units, extra_sparse=SparseRows.empty(self.n_hyps), sparse_names=strings([]))

    def take_hyps(self, hyps: Array | slice, hyp_ptr: I64, sentences: Array | slice = slice(None)) -> NBest:
        """These hypotheses with these list boundaries, of all sentences or of these."""
        ref_ptr, refs = _segments(self.ref_ptr, sentences)
        unit_ptr, places = _segments(self.unit_ptr, hyps)
        rows = {
            **dict.fromkeys(("ids", "source", "notes.sentences"), sentences),
            **dict.fromkeys(("text", "score", "stats", "notes.hyps", "quality.value", "quality.weight", "extra"), hyps),
            **dict.fromkeys(("unit_idx", "src_start", "tgt_start"), places),
            "refs": refs,
        }
        own = columns(self)
        picked = {name: _pick(own[name], some) for name, some in rows.items()}
        picked |= {"ref_ptr": ref_ptr, "hyp_ptr": hyp_ptr, "unit_ptr": unit_ptr}
        picked |= columns(_pick(self.extra_sparse, hyps), "extra_sparse.")
        return with_columns(self, picked)

    def compact(self) -> NBest:
        """Without units that no hypothesis uses; the others in order of first use."""
        used, unit_idx = arrays.first_use_order(self.unit_idx)
        some = slice(len(used)) if np.array_equal(used, np.arange(len(used))) else used  # the first ones are views
        return replace(self, units=self.units.take(some), unit_idx=unit_idx)

    def truncate(self, size: int | I64) -> NBest:
        """At most the first ``size`` hypotheses of each list, one size for all or one a list [S]."""
        counts = np.minimum(np.diff(self.hyp_ptr), size)
        starts = np.repeat(self.hyp_ptr[:-1], counts)
        ptr = offsets(counts)
        hyps = starts + np.arange(ptr[-1]) - np.repeat(ptr[:-1], counts)
        return self.take_hyps(hyps, ptr).compact()

    def split_sentences(self, n_folds: int, *, seed: int = 0) -> list[tuple[I64, I64]]:
        """Return (train, held-out) sentence positions of n_folds random folds; copies of a sentence are in one."""
        return self._folds(n_folds, np.random.default_rng(seed).permutation)

    def blocks_of_sentences(self, n_folds: int) -> list[tuple[I64, I64]]:
        """Return (train, held-out) sentence positions of n_folds runs of neighbouring sentences.

        Neighbours are often of one document and share its words. Folds that tear documents apart see those words in training,
        and take for learned what a new document would not have. For the same reason a sentence that is there again is in the
        fold of its first occurrence: equal sources (or references, where there are no sources) are never on both sides.
        """
        return self._folds(n_folds, np.sort)

    def _folds(self, n_folds: int, order: Callable[[I64], Array]) -> list[tuple[I64, I64]]:
        """Return (train, held-out) sentence positions of folds of distinct sentences, which are dealt in this order."""
        group = self._first_occurrences
        firsts = np.unique(group)
        if len(firsts) < n_folds:  # too few distinct sentences to keep them apart
            group = firsts = np.arange(len(self))
        folds = [np.flatnonzero(np.isin(group, part)) for part in np.array_split(order(firsts), n_folds)]
        return [(np.setdiff1d(np.arange(len(self)), held_out), held_out) for held_out in folds]

    @property
    def n_repeats(self) -> int:
        """Count the sentences that were there before: with the same source, or references where there are no sources."""
        return len(self) - len(np.unique(self._first_occurrences))

    @cached_property
    def _first_occurrences(self) -> I64:
        """[S] the first sentence with the same source, or with the same references where the list has no sources."""
        keys: list[Any] = self.source.to_pylist()
        if not any(keys):
            refs, ptr = self.refs.to_pylist(), self.ref_ptr.tolist()
            keys = [own if any(own) else () for own in (tuple(refs[a:b]) for a, b in pairwise(ptr))]
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(key, s) if key else s for s, key in enumerate(keys)], np.int64)

    def unit_hashes(self, seed: Array = SEEDS[:1]) -> Array:
        """[V] hashes of what tells units apart: features, phrases, alignment, lengths."""
        own, out = self.units, np.repeat(seed, self.n_units)
        of_sparse = _sparse_hashes(own.sparse, self.sparse_names, seed)
        for column in (own.x, of_sparse, own.src, own.tgt, own.align, own.src_len, own.tgt_len):
            _add_column(np.arange(self.n_units + 1), column, out)
        return out

    @cached_property
    def sentence_hashes(self) -> Array:
        """[S] hashes of all that a list has: the same wherever its sentences are, and whatever number its units have."""
        out, unit_ptr = np.repeat(SEEDS[:1], len(self)), self.unit_ptr[self.hyp_ptr]
        sizes = {
            f"n_{name}": np.diff(ptr) for name, ptr in (("refs", self.ref_ptr), ("hyps", self.hyp_ptr), ("units", self.unit_ptr))
        }
        own = {**columns(self), **sizes, "sparse": _sparse_hashes(self.extra_sparse, self.sparse_names, SEEDS[:1])}
        of_hyps = "text score stats n_units extra sparse quality.value quality.weight notes.hyps"
        every = np.arange(len(self) + 1), self.ref_ptr, self.hyp_ptr, unit_ptr
        for ptr, names in zip(
            every, ("source n_refs n_hyps notes.sentences", "refs", of_hyps, "src_start tgt_start"), strict=True
        ):
            for name in names.split():
                _add_column(ptr, own[name], out)
        _add_words(unit_ptr, self.unit_idx, self.unit_hashes() if self.n_units else _NO_TABLE, out)
        return out

    @cached_property
    def digest(self) -> str:
        """Digits of the content, but for units' scores: the same for equal lists, whatever files or parts they come from."""
        names = self.unit_names, self.extra_names, self.sparse_names.to_pylist(), self.quality.names, self.quality.lower
        of_all = json.dumps(names).encode(), np.ascontiguousarray(self.ids).data, self.sentence_hashes.data
        return blake2b(b"".join(of_all), digest_size=8).hexdigest()

    # -- equality ----------------------------------------------------------------------------------------------------

    def differences(self, other: NBest) -> list[str]:
        """Names of the columns in which two containers differ, bit by bit (NaN equals NaN); empty when equal."""
        theirs = columns(other)
        return [name for name, column in columns(self).items() if name not in OF_OTHERS and not _same(column, theirs[name])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NBest) and not self.differences(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"NBest({counted(len(self), 'sentence')}, {counted(self.n_hyps, 'hypothesis')}, "
            f"{counted(self.n_occurrences, 'unit')} ({self.n_units:,} distinct), "
            f"{len(self.global_names)} dense and {counted(len(self.sparse_names), 'sparse feature')})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the sizes, and the head of the first list that has hypotheses."""
        sizes = {
            "sentences": len(self),
            "hypotheses": self.n_hyps,
            "units": self.n_occurrences,
            "distinct units": self.n_units,
            "dense features": len(self.global_names),
            "sparse features": len(self.sparse_names),
            "references": len(self.refs),
        }
        parts = [title("n-best lists"), table(list(sizes), [[f"{n:,}" for n in sizes.values()]])]
        if self.n_hyps:
            parts += self._first_list_html(int(self.sent_of_hyp[0]))
        return cell(*parts)

    def _first_list_html(self, s: int, size: int = 5) -> list[str]:
        """The source, the references and the first hypotheses of a sentence."""
        start, end = int(self.hyp_ptr[s]), int(self.hyp_ptr[s + 1])
        given = [self.source[s].as_py(), *(self.refs[r].as_py() for r in range(self.ref_ptr[s], self.ref_ptr[s + 1]))]
        above = [[name, text] for name, text in zip(["source", *["reference"] * (len(given) - 1)], given, strict=True) if text]
        hyps = [[f"{self.score[h]:.6g}", self.text[h].as_py()] for h in range(start, min(end, start + size))]
        note = f"{len(hyps)} of {end - start} hypotheses with the decoder's scores"
        return [title(f"sentence {self.ids[s]}", note), f'<div class="text">{table([], [*above, *hyps])}</div>']


@kernel
def _add_words(ptr, words, table, out):  # type: ignore[no-untyped-def]
    """INOUT out[s]: a hash that goes on with the words of segment s, or with what the table has of them."""
    for s in range(len(out)):
        for k in range(ptr[s], ptr[s + 1]):
            out[s] = arrays.mix(out[s], table[words[k]] if len(table) else np.uint64(words[k]), arrays.FACTOR)


@kernel
def _add_entries(ptr, idx, bits, names, out):  # type: ignore[no-untyped-def]
    """INOUT out[r] += hashes of the (name, value) of row r."""
    for r in range(len(out)):
        for k in range(ptr[r], ptr[r + 1]):
            out[r] += arrays.mix(names[idx[k]], bits[k], arrays.FACTOR)


def _add_column(ptr: I64, column: Any, out: Array) -> None:
    """INOUT out: hashes of segments of rows go on with a column of numbers or texts."""
    if isinstance(column, np.ndarray):
        words = column.reshape(-1).view(np.uint64) if column.itemsize == 8 else column.reshape(-1)
        _add_words(frozen(ptr * (len(words) // max(1, len(column)))), frozen(words), _NO_TABLE, out)
    elif len(column):
        starts, text = string_buffers(column)
        _add_column(ptr, np.diff(starts), out)
        _add_words(frozen(starts[ptr]), text, _NO_TABLE, out)


_NO_TABLE = frozen(np.zeros(0, np.uint64))


def _sparse_hashes(rows: SparseRows, names: Strings, seed: Array) -> Array:
    """[n] hashes of sparse features, which are the same in any order of names."""
    of_names, out = np.repeat(seed, len(names)), np.zeros(len(rows), np.uint64)
    _add_column(np.arange(len(names) + 1), names, of_names)
    if len(rows.idx):
        _add_entries(frozen(rows.ptr), frozen(rows.idx), frozen(rows.val.view(np.uint64)), of_names, out)
    return out


def _column_sizes(x: F64) -> F64:
    """[D] largest absolute values, without a copy of x."""
    return np.maximum(x.max(axis=0), -x.min(axis=0)) if len(x) else np.zeros(x.shape[1])


def _sparse_sizes(rows: SparseRows, n: int) -> F64:
    """[N] largest absolute values."""
    out = np.zeros(n)
    for entries in (slice(a, a + _ENTRIES) for a in range(0, len(rows.idx), _ENTRIES)):  # not a copy of all values beside them
        np.maximum.at(out, rows.idx[entries], np.abs(rows.val[entries]))
    return out


_ENTRIES = 1 << 20


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a == b) if isinstance(a, tuple) else bool(a.equals(b))


def _check(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{what}: expected {expected}, found {found}")


def _check_ptr(name: str, ptr: I64, n: int, end: int) -> None:
    _check("length of " + name, len(ptr), n + 1)
    if ptr[0] != 0 or ptr[-1] != end or (ptr[1:] < ptr[:-1]).any():  # a difference of int64 can go round and rise
        raise ValueError(f"{name}: expected offsets that rise from 0 to {end}, found {ptr[0]} to {ptr[-1]} or a fall")


def _check_range(name: str, idx: Array, high: int) -> None:
    if len(idx) and (idx.min() < 0 or idx.max() >= high):
        raise ValueError(f"{name}: expected values from 0 to {high - 1}, found {idx.min()} to {idx.max()}")


def by_name(weights: Mapping[str, float], names: Sequence[str]) -> F64:
    """Weights in the order of the names, 0 where there is none."""
    return np.fromiter(map(weights.get, names, repeat(0.0)), np.float64, len(names))
