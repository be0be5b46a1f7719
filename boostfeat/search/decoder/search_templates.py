"""The templates that a model carries, inside search: where each feature is known, and what it adds there.

    static    of the phrase pair (pt, al, shapes, counts ...): once a row of the phrase table, once an unknown word
    placed    of the phrase pair in the sentence (position, cx ...): once an option that the table limit leaves
    edge      of the move onto a phrase and its language-model score (jump, orientation, lm_per_word): columns of context
    between   of two neighbours (lo, bi, cb, previous ...): what the earlier phrase hands on is part of a hypothesis' key

The templates' own functions compute all but the edge columns. Of what they read, a whole hypothesis or list is not there while
search goes on: features that need it are refused by name.

    P phrase pairs of the table, O options of a sentence, T columns that trees test
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.arrays import F64, I32, I64, offsets, owners
from ...core.errors import InputError
from ...core.kernels import kernel
from ...core.text import Strings
from ...features.compute import checked_links
from ...features.feature_maker import FeatureMaker
from ...features.featurizing import occurrence_features
from ...features.plan import Entry, FeaturePlan, full_name
from ...features.registry import Template
from ...features.resources import Clusters, Resources
from ...features.templates.helpers import split
from ...features.templates.phrase import al
from ...features.templates.place import checked_bins
from ...lists.nbest import NBest, SparseRows, Units, strings, take_strings
from ...lists.words import NONE
from .search import Moves
from .search_ngrams import START, Ngrams, joined
from .searchable import BETWEEN, is_placed
from .system import LM, QUANTILES, PhraseSystem

BLOCK = 1 << 16  # phrase pairs whose features are computed at a time
PREV, NEXT, BACK, AHEAD = "prev", "next", ("<0", "<1", "<2"), (">0", ">1", ">2")
PARTS = ("static", PREV, NEXT, *BACK, *AHEAD)
ORIENTATIONS = ("mono", "swap", "right")  # discontinuous moves to the left are as those to the right

Parts = dict[str, SparseRows]
Pair = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[int, int], ...]]  # source words, target words, links


@kernel
def _row_sums(ptr, idx, val, w, out):  # type: ignore[no-untyped-def]
    """OUT out[n]: Σ val · w[idx] of every row; a name that w has no place for weighs nothing."""
    for r in range(len(out)):
        total = 0.0
        for i in range(ptr[r], ptr[r + 1]):
            if idx[i] < len(w):
                total += val[i] * w[idx[i]]
        out[r] = total


def row_sums(rows: SparseRows, w: F64) -> F64:
    out = np.empty(len(rows))
    _row_sums(rows.ptr, rows.idx, rows.val, w, out)
    return out


@contextlib.contextmanager
def _learnt_options(entry: Entry) -> Iterator[None]:
    """Refuse options of a template that no dev list taught: a plan is from a file, and anything may stand there."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(
            f"features of the model: template {entry.name!r}: expected the options that its dev list taught, found "
            f"{type(error).__name__}: {str(error)[:100]}; make the model again"
        ) from None


@dataclass(frozen=True)
class SearchTemplates:
    """A plan on the phrase pairs of a system; no weights yet. ``wanted`` are the features to compute, None: all there can be."""

    system: PhraseSystem
    plan: FeaturePlan
    maker: FeatureMaker = field(default_factory=FeatureMaker)
    wanted: frozenset[str] | None = None
    ids: dict[str, int] = field(default_factory=dict)  # feature -> column, in the order in which they come
    _words: dict[str, Parts] = field(default_factory=dict)  # of unknown words
    _columns: dict[str, I32] = field(default_factory=dict)  # of a template's features
    _linking: dict[int | str, Pair | None] = field(default_factory=dict)  # rows and unknown words that cx may see
    _lock: Any = field(default_factory=RLock)  # features get their numbers one after the other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())

    @cached_property
    def entries(self) -> dict[str, tuple[Entry, Template]]:
        """Entries that are wanted, by the template's name."""
        out = {}
        for entry in self.plan.entries:
            if entry.name not in self.maker.registry:
                raise InputError(
                    f"template {entry.name!r} of the model: expected a known one, found none; give its --plugin FILE.py"
                )
            template = self.maker.registry[entry.name]
            if self.wanted is not None:
                entry = replace(entry, features=tuple(name for name in entry.features or () if name in self.wanted))
                if not entry.features:
                    continue
            elif lacking := [name for name in template.learnt if name not in entry.options]:
                raise InputError(f"features of the model: template {entry.name!r}: expected option {lacking[0]!r}, found none")
            else:
                entry = replace(entry, features=None, min_count=1)
            out[entry.name] = entry, template
        return out

    def option(self, name: str) -> Entry | None:
        """The entry of one of our own templates, if it is wanted."""
        found = self.entries.get(name)
        return found[0] if found else None

    @cached_property
    def resources(self) -> Resources:
        """Files that templates read beside phrase pairs; counts are those of the system's own table."""
        table, given = self.system.table, replace(self.maker.shared, clusters=self.plan.clusters or Clusters())
        if not any("phrase table" in template.reads for _, template in self.entries.values()):
            return given
        counts = {(src, table.tgt[r]): float(table.count[r]) for src, rows in table.rows.items() for r in rows}
        return replace(given, phrase_counts=counts)

    def id_of(self, name: str) -> int:
        return self.ids.setdefault(name, len(self.ids))

    def vector(self, weights: Mapping[str, float]) -> F64:
        """Weights by name as a vector over ids: those of features of these templates."""
        with self._lock:
            if self.wanted is not None:
                mine = {name: w for name, w in weights.items() if w and name in self.wanted}
            else:
                known = set(self.entries)
                mine = {n: w for n, w in weights.items() if w and (n in self.ids or n.partition(":")[0] in known)}
            new = [name for name in mine if name not in self.ids]
            self.ids.update(zip(new, range(len(self.ids), len(self.ids) + len(new)), strict=True))
            out = np.zeros(len(self.ids))
            out[[self.ids[name] for name in mine]] = list(mine.values())
        return out

    # -- phrase pairs ------------------------------------------------------------------------------------------------

    @cached_property
    def _texts(self) -> Texts:
        """[P] of the phrase table."""
        table = self.system.table
        src = [""] * len(table)
        for phrase, rows in table.rows.items():
            src[rows.start : rows.stop] = [phrase] * len(rows)
        return Texts(strings(src), strings(table.tgt), strings(table.align), np.diff(table.word_ptr))

    @property
    def table(self) -> Parts:
        """[P] of the phrase table; row 0, which stands for unknown words, has none."""
        with self._lock:
            return self._table

    @cached_property
    def _table(self) -> Parts:
        n = len(self.system.table)
        rows = [np.arange(a, min(a + BLOCK, n)) for a in range(1, n, BLOCK)]
        blocks = [{part: SparseRows.empty(1) for part in PARTS}, *(self._parts(self._texts.take(some)) for some in rows)]
        return {part: _stacked([block[part] for block in blocks]) for part in PARTS}

    def words(self, words: Iterable[str]) -> list[Parts]:
        """Compute features of unknown words, which are translated as they are, once each."""
        words = list(words)
        with self._lock:
            if new := [word for word in dict.fromkeys(words) if word not in self._words]:
                made = self._parts(Texts.of_words(new))
                for k, word in enumerate(new):
                    self._words[word] = {part: rows.take(np.array([k])) for part, rows in made.items()}
            return [self._words[word] for word in words]

    def _parts(self, texts: Texts) -> Parts:
        """Features of phrase pairs, of what follows or comes before one, and by the moves onto it and after it."""
        # one more, since templates refuse a list without any alignment, which a few pairs may well lack
        nbest = _lone_units(texts.and_words(["a"]))
        n = len(texts.src)
        out = {part: SparseRows.empty(n) for part in PARTS}
        static = [(entry, template) for entry, template in self.entries.values() if template.kind == "static"]
        if static:
            out["static"] = self._computed(nbest, [entry for entry, _ in static]).take(np.arange(n))
        units = [(split(src), split(tgt)) for src, tgt in zip(texts.src.to_pylist(), texts.tgt.to_pylist(), strict=True)]
        for name in ("lo", "co"):
            if name in self.entries:
                self._add_moves(out, name, units)
        for name in ("neighbour_sizes", "around"):
            if name in self.entries:
                call = self.entries[name][1].compute
                rows = [call(unit, unit) for unit in units]
                for part in (PREV, NEXT):
                    own = [{k: x for k, x in row.items() if x and part in k.split(".")} for row in rows]
                    out[part] = _beside(out[part], self._rows(own))
        return out

    def _rows(self, counts: Sequence[Mapping[str, float]]) -> SparseRows:
        """Rows of values by name; of names that are not wanted there are none."""
        kept = [[(self.id_of(name), x) for name, x in own.items() if self.is_wanted(name)] for own in counts]
        ptr = offsets(np.array([len(own) for own in kept], np.int64))
        idx, val = [k for own in kept for k, _ in own], [x for own in kept for _, x in own]
        return SparseRows(ptr, np.array(idx, np.int32), np.array(val, np.float64))

    def is_wanted(self, name: str) -> bool:
        return self.wanted is None or name in self.wanted

    def _computed(self, nbest: NBest, entries: Sequence[Entry]) -> SparseRows:
        """Features of a list's units, each a hypothesis of its own."""
        out = SparseRows.empty(nbest.n_hyps)
        made = occurrence_features(nbest, entries, registry=self.maker.registry, resources=self.resources)
        for entry, (names, values) in zip(entries, made, strict=True):
            if not isinstance(values, SparseRows):
                values = self._dense_rows(dict(zip(names, values.T, strict=True)), nbest.n_hyps)
            elif len(values.idx):
                values = SparseRows(values.ptr, self._ids_of(entry, names)[values.idx], values.val)
            out = _beside(out, values)
        return out

    def _ids_of(self, entry: Entry, names: Sequence[str]) -> I32:
        """[names] columns of a template's features; those of a frozen plan are looked up once."""
        if entry.features is None or entry.name not in self._columns:
            self._columns[entry.name] = np.array([self.id_of(name) for name in names], np.int32)
        return self._columns[entry.name]

    def _dense_rows(self, columns: Mapping[str, F64], n: int) -> SparseRows:
        if self.wanted is not None:
            columns = {name: x for name, x in columns.items() if name in self.wanted}
        if not columns:
            return SparseRows.empty(n)
        ids = np.array([self.id_of(name) for name in columns], np.int32)
        x = np.stack(list(columns.values()), axis=1)
        row, at = np.nonzero(x)
        return SparseRows(offsets(np.bincount(row, minlength=n)), ids[at], x[row, at])

    def _add_moves(self, out: Parts, name: str, units: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """OUT out: the features of lo or co by orientation; those of the move onto a phrase, and those of the move after it."""
        entry, template = self.entries[name]
        shared = (self.resources.clusters,) if "clusters" in template.arguments else ()
        order = entry.places if entry.features is not None else {}
        for k, move in enumerate(ORIENTATIONS):
            back: list[dict[str, float]] = []
            ahead: list[dict[str, float]] = []
            for src, tgt in units:
                found = template.compute(src, tgt, move, move, *shared)
                for part, is_mine in ((back, False), (ahead, True)):
                    names = (full_name(name, text, entry.hash_bits) for text in found if text.startswith(">") is is_mine)
                    counts = Counter(text for text in names if not order or text in order)
                    part.append({text: float(n) for text, n in sorted(counts.items(), key=lambda item: order.get(item[0], 0))})
            out[BACK[k]] = _beside(out[BACK[k]], self._rows(back))
            out[AHEAD[k]] = _beside(out[AHEAD[k]], self._rows(ahead))

    # -- options of a sentence ---------------------------------------------------------------------------------------

    @cached_property
    def placed(self) -> list[Entry]:
        """Templates that read where in the sentence a phrase stands, and the sentence."""
        return [entry for entry, template in self.entries.values() if is_placed(template)]

    def at_places(self, tokens: Sequence[str], row: I64, start: I64, end: I64) -> SparseRows:
        """[O] features of options in their sentence."""
        with self._lock:
            out = self._contexts(tokens, row, start) if self.option("cx") else SparseRows.empty(len(row))
        others = [entry for entry in self.placed if entry.name != "cx"]
        if not others:
            return out
        words = [tokens[i] for i in start[row == 0].tolist()]
        place = row.copy()
        place[row == 0] = np.arange(len(self.system.table), len(self.system.table) + len(words))
        texts = self._texts.and_words(words).take(place)
        nbest = _lone_units(texts, start=start, length=end - start, source=" ".join(tokens))
        with self._lock:
            return _beside(out, self._computed(nbest, others))

    def _contexts(self, tokens: Sequence[str], row: I64, start: I64) -> SparseRows:
        """[O] features of cx. Few phrase pairs have a frequent pair of words: arrays of all would take ten times as long."""
        entry, template = self.entries["cx"]
        counts: list[dict[str, float]] = []
        with _learnt_options(entry):
            call, pairs, n = template.bound(entry.options), frozenset(entry.options["pairs"]), len(tokens)
            for r, i in zip(row.tolist(), start.tolist(), strict=True):
                pair = self._frequent(r, tokens[i], pairs)
                found = call(*pair, (i, i + len(pair[0]), n), tokens) if pair is not None else ()
                counts.append(dict(Counter(full_name("cx", text, entry.hash_bits) for text in found)))
        return self._rows(counts)

    def _frequent(self, r: int, word: str, pairs: Set[str]) -> Pair | None:
        """The phrase pair of a row of the table (0: an unknown word), if it links words that are frequent together."""
        key = r or word
        if key not in self._linking:
            texts = self._texts
            src, tgt, align = (str(c[r]) for c in (texts.src, texts.tgt, texts.align)) if r else (word, word, "0-0")
            pair = tuple(src.split(" ")), tuple(tgt.split(" ")), checked_links(align)
            self._linking[key] = pair if not pairs.isdisjoint(al.compute(*pair)) else None
        return self._linking[key]

    @cached_property
    def constants(self) -> dict[str, dict[str, float]]:
        """Features of a phrase that has no previous one (PREV) and no following one (NEXT)."""
        out: dict[str, dict[str, float]] = {PREV: {}, NEXT: {}}
        for name in ("neighbour_sizes", "around"):
            if name in self.entries:
                values = self.entries[name][1].compute(None, None)
                for part, found in out.items():
                    found |= {k: x for k, x in values.items() if part in k.split(".")}
        return out

    @cached_property
    def quantiles(self) -> F64:
        """[4] of the language-model score per word, or none if no feature asks for it."""
        entry = self.option("lm_per_word")
        if entry is None:
            return np.zeros(0)
        with _learnt_options(entry):
            thresholds = entry.options["thresholds"][LM]
            return np.array([float(thresholds[q]) for q in QUANTILES])


@dataclass(frozen=True)
class Texts:
    """Phrase pairs [n] with their alignments and target words."""

    src: Strings
    tgt: Strings
    align: Strings
    n_tgt: I64

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Texts:
        """Words that are translated as they are."""
        same = strings(words)
        return cls(same, same, strings(["0-0"] * len(words)), np.ones(len(words), np.int64))

    def and_words(self, words: Sequence[str]) -> Texts:
        more = Texts.of_words(words)
        pairs = ((self.src, more.src), (self.tgt, more.tgt), (self.align, more.align))
        src, tgt, align = (pa.concat_arrays(pair) for pair in pairs)
        return Texts(src, tgt, align, np.append(self.n_tgt, more.n_tgt)) if words else self

    def take(self, rows: I64) -> Texts:
        src, tgt, align = (take_strings(column, rows) for column in (self.src, self.tgt, self.align))
        return Texts(src, tgt, align, self.n_tgt[rows])


def _lone_units(texts: Texts, *, start: I64 | None = None, length: I64 | None = None, source: str = "") -> NBest:
    """A list of one sentence in which each phrase pair is a hypothesis of its own."""
    n = len(texts.n_tgt)
    unknown = np.full(n, -1, np.int32)
    return NBest(
        ids=np.zeros(1, np.int64),
        source=strings([source]),
        ref_ptr=np.zeros(2, np.int64),
        refs=strings([]),
        hyp_ptr=np.array([0, n]),
        text=texts.tgt,
        score=np.full(n, np.nan),
        stats=np.zeros((0, 6), np.int32),
        unit_ptr=np.arange(n + 1),
        unit_idx=np.arange(n, dtype=np.int32),
        src_start=unknown if start is None else start.astype(np.int32),
        tgt_start=np.zeros(n, np.int32),
        units=Units(
            x=np.zeros((n, 0)),
            sparse=SparseRows.empty(n),
            src=texts.src,
            tgt=texts.tgt,
            align=texts.align,
            src_len=unknown if length is None else length.astype(np.int32),
            tgt_len=texts.n_tgt.astype(np.int32),
            score=np.full(n, np.nan),
        ),
        unit_names=(),
        extra=np.zeros((n, 0)),
        extra_names=(),
        extra_sparse=SparseRows.empty(n),
        sparse_names=strings([]),
    )


def _stacked(blocks: Sequence[SparseRows]) -> SparseRows:
    """Rows one after the other."""
    ptr = offsets(np.concatenate([np.diff(block.ptr) for block in blocks]))
    return SparseRows(ptr, np.concatenate([b.idx for b in blocks]), np.concatenate([b.val for b in blocks]))


def _beside(a: SparseRows, b: SparseRows) -> SparseRows:
    """Rows with the entries of both."""
    if not len(b.idx) or not len(a.idx):
        return b if len(b.idx) else a
    row = np.concatenate([owners(a.ptr), owners(b.ptr)])
    order = np.argsort(row, kind="stable")
    return SparseRows(a.ptr + b.ptr, np.concatenate([a.idx, b.idx])[order], np.concatenate([a.val, b.val])[order])


# -- under a model ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weighed:
    """Templates under a model's weights."""

    templates: SearchTemplates
    weights: Mapping[str, float]
    tested: tuple[str, ...]  # [T] static and placed features that trees test or products multiply

    @cached_property
    def vector(self) -> F64:
        return self.templates.vector(self.weights)

    @cached_property
    def sums(self) -> dict[str, F64]:
        """[P] what each part adds."""
        return {part: row_sums(rows, self.vector) for part, rows in self.templates.table.items()}

    @cached_property
    def columns(self) -> F64:
        """[P, T] static ones of the table."""
        return self.tested_columns(self.templates.table["static"])

    def tested_columns(self, rows: SparseRows) -> F64:
        """[n, T]"""
        out = np.zeros((len(rows), len(self.tested)))
        if self.tested and len(rows.idx):
            place = np.full(int(rows.idx.max()) + 1, -1)
            for t, name in enumerate(self.tested):
                if (k := self.templates.ids.get(name, len(place))) < len(place):
                    place[k] = t
            at = place[rows.idx]
            out[owners(rows.ptr)[at >= 0], at[at >= 0]] = rows.val[at >= 0]
        return out

    @cached_property
    def ngrams(self) -> list[Ngrams]:
        """N-grams of words and of classes, where there are any."""
        entries = [entry for entry in map(self.templates.option, ("bi", "cb")) if entry]
        if hashed := [entry.name for entry in entries if entry.hash_bits]:
            raise InputError(
                f"template {hashed[0]!r}: expected names of words in search, found hashed ones; rerank, or learn without hash"
            )
        vocab, classes = self.templates.system.table.vocab, self.templates.resources.clusters.tgt
        return [
            Ngrams.of_words(self.weights, vocab) if entry.name == "bi" else Ngrams.of_classes(self.weights, vocab, classes)
            for entry in entries
        ]

    @cached_property
    def has_moves(self) -> bool:
        return any(name in self.templates.entries for name in BETWEEN)

    def options(self, tokens: Sequence[str], row: I64, start: I64) -> OptionSums:
        """Sum the templates of the options of a sentence, wherever they stand in it."""
        unknown = np.flatnonzero(row == 0)
        sums = {part: self.sums[part][row] for part in PARTS}
        columns = self.columns[row]
        for o, parts in zip(unknown.tolist(), self.templates.words(tokens[start[o]] for o in unknown), strict=True):
            for part in PARTS:
                sums[part][o] = row_sums(parts[part], self.vector)[0]
            columns[o] = self.tested_columns(parts["static"])[0]
        return OptionSums(self, sums, columns, {PREV: np.zeros(len(row)), NEXT: np.zeros(len(row))})

    def constant(self, part: str) -> float:
        return sum(self.weights[name] * value for name, value in self.templates.constants[part].items() if name in self.weights)

    def neighbours(self, template: str, side: str) -> dict[str, tuple[float, Mapping[str, list[float]] | None]]:
        """Weight and quantiles, if any, of the features of neighbours that previous or following reads."""
        entry = self.templates.option(template)
        if entry is None:
            return {}
        with _learnt_options(entry):
            quantiles = entry.options["quantiles"]
            checked_bins(features=entry.options["features"], quantiles=quantiles)
            weighed = {str(name): self.weights.get(f"{side}.{name}", 0.0) for name in entry.options["features"]}
            return {name: (w, quantiles.get(name)) for name, w in weighed.items() if w}


def binned(x: F64, quantiles: Mapping[str, list[float]] | None) -> F64:
    """The mean of the bin that each value falls into, or the value itself."""
    return x if quantiles is None else np.array(quantiles["means"])[np.searchsorted(quantiles["cuts"], x)]


@dataclass(frozen=True)
class OptionSums:
    """Sums and columns of templates for the options of a sentence."""

    weighed: Weighed
    sums: Mapping[str, F64]  # [O] by part
    columns: F64  # [O, T]
    beside: Mapping[str, F64]  # [O] what the decoder's features add as those of a previous (PREV) or following phrase (NEXT)

    def take(self, rows: I64) -> OptionSums:
        sums, beside = ({part: x[rows] for part, x in of.items()} for of in (self.sums, self.beside))
        return replace(self, sums=sums, beside=beside, columns=self.columns[rows])

    def placed(self, tokens: Sequence[str], row: I64, start: I64, end: I64) -> OptionSums:
        """Add what depends on where in the sentence options stand."""
        found = self.weighed.templates.at_places(tokens, row, start, end)
        sums = {**self.sums, "static": self.sums["static"] + row_sums(found, self.weighed.vector)}
        return replace(self, sums=sums, columns=self.columns + self.weighed.tested_columns(found))

    def neighbour(self, part: str) -> F64:
        """[O] what a phrase adds as the previous or the following one of another."""
        return self.sums[part] + self.beside[part]

    def score(self) -> F64:
        """[O] of a phrase that has neighbours on both sides."""
        return self.sums["static"] + self.neighbour(PREV) + self.neighbour(NEXT)

    def back(self) -> F64:
        """[O, 4] by the move onto a phrase."""
        return _by_move([self.sums[part] for part in BACK])

    def moves(self, end: I64, n: int, symbols: Sequence[tuple[I64, I64]]) -> Moves:
        """Make moves of options that end at ``end`` [O]; ``symbols``: offsets and words of options as each of ngrams has them."""
        w = self.weighed.weights
        after = np.array([w.get(f"ori.>{name}", 0.0) for name in ("mono", "swap", "right", "left")])
        ahead = _by_move([self.sums[part] for part in AHEAD]) + after
        final = ahead[np.arange(len(end)), np.where(end == n, 0, 2)] - self.neighbour(PREV) + self.weighed.constant(NEXT)
        initial = self.weighed.constant(PREV) - self.neighbour(NEXT)
        matrix, rows, columns = np.zeros((1, 1)), np.zeros(len(end) + 1, np.int32), np.zeros(len(end), np.int32)
        parts = []
        for ngrams, words in zip(self.weighed.ngrams, symbols, strict=True):
            last, first = ngrams.edges(*words)
            final += ngrams.ending(last)
            parts.append(ngrams.matrix(np.vstack([last, [NONE, ngrams.numbers.get(START, NONE)]]), first))
        if parts:
            matrix, rows, columns = joined(parts)
        distinct, late = np.unique(np.column_stack([ahead, rows[:-1]]), axis=0, return_inverse=True)
        return Moves(
            back=np.ascontiguousarray(self.back()),
            late=(late.ravel() + 1).astype(np.int32),
            ahead=np.ascontiguousarray(np.vstack([np.zeros((1, 4)), distinct[:, :4]])),
            last=np.append(rows[-1:], distinct[:, 4].astype(np.int32)),
            first=columns,
            bigrams=matrix,
            initial=initial,
            final=final,
        )


def _by_move(orientations: Sequence[F64]) -> F64:
    """[O, 4] of three orientations: discontinuous ones to the right and left are one."""
    mono, swap, other = orientations
    return np.stack([mono, swap, other, other], axis=1)


def no_moves() -> Moves:
    row, i32 = np.zeros(0), np.zeros(0, np.int32)
    return Moves(np.zeros((0, 4)), i32, np.zeros((0, 4)), i32, i32, np.zeros((0, 0)), row, row)


# -- what search can have ---------------------------------------------------------------------------------------------
