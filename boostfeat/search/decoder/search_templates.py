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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np

from ...core.arrays import F64, I64, owners
from ...core.errors import InputError
from ...features.feature_maker import FeatureMaker
from ...features.plan import Entry, FeaturePlan, full_name
from ...features.registry import Template
from ...features.resources import Clusters, Resources
from ...features.templates.helpers import split
from ...features.templates.place import TURNS, checked_bins
from ...lists.nbest import SparseRows
from ...lists.words import NONE, checked_links
from .search import Moves
from .search_ngrams import START, Ngrams, joined
from .searchable import BETWEEN, is_placed
from .system import LM, QUANTILES, PhraseSystem

PREV, NEXT, BACK, AHEAD = "prev", "next", ("<0", "<1", "<2"), (">0", ">1", ">2")
PARTS = ("static", PREV, NEXT, *BACK, *AHEAD)
ORIENTATIONS = ("mono", "swap", "right")  # discontinuous moves to the left are as those to the right

Parts = dict[str, SparseRows]
Pair = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[int, int], ...]]  # source words, target words, links


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
    _lock: Any = field(default_factory=RLock)  # features get their numbers one after the other

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
        prefixes = set(self.entries) if self.wanted is None else set()
        names = self.plan.features if self.wanted is None else self.wanted
        mine = {n: w for n, w in weights.items() if w and (n in names or n.partition(":")[0] in prefixes)}
        with self._lock:
            at = [self.id_of(name) for name in mine]
            out = np.zeros(len(self.ids))
        out[at] = list(mine.values())
        return out

    # -- phrase pairs ------------------------------------------------------------------------------------------------

    @cached_property
    def _pairs(self) -> list[Pair]:
        """[P] phrase pairs of the table; row 0, which stands for unknown words, is empty."""
        table = self.system.table
        sources = {r: split(phrase) for phrase, rows in table.rows.items() for r in rows}
        return [(sources.get(r, ()), split(table.tgt[r]), checked_links(table.align[r])) for r in range(len(table))]

    @property
    def table(self) -> Parts:
        """[P] of the phrase table; row 0, which stands for unknown words, has none."""
        with self._lock:
            return self._table

    @cached_property
    def _table(self) -> Parts:
        found = self._parts(self._pairs[1:])
        return {part: SparseRows(np.append(0, rows.ptr), rows.idx, rows.val) for part, rows in found.items()}

    def words(self, words: Sequence[str]) -> Parts:
        """Compute features of unknown words, which are translated as they are."""
        with self._lock:
            return self._parts([_lone(word) for word in words])

    def _parts(self, pairs: Sequence[Pair]) -> Parts:
        """Features of phrase pairs, of what follows or comes before one, and by the moves onto it and after it."""
        out = {part: SparseRows.empty(len(pairs)) for part in PARTS}
        for name, (entry, template) in self.entries.items():
            if template.kind == "static":
                call = self._call(entry, template)
                found = {"static": [call({"source": s, "target": t, "links": a}) for s, t, a in pairs]}
            elif name in ("lo", "ro", "co"):
                found = self._by_move(self._call(entry, template), pairs)
            elif name in ("neighbour_sizes", "around"):
                sides = [template.compute(pair[:2], pair[:2]) for pair in pairs]
                found = {side: [{k: x for k, x in row.items() if side in k.split(".")} for row in sides] for side in (PREV, NEXT)}
            else:
                continue
            for part, rows in found.items():
                out[part] = _beside(out[part], self._rows(entry, rows))
        return out

    def _call(self, entry: Entry, template: Template, **shared: Any) -> Callable[[Mapping[str, Any]], Any]:
        return template.caller(entry.options, {**template.shared_arguments(self.resources), **shared})

    def _by_move(self, call: Callable[[Mapping[str, Any]], Any], pairs: Sequence[Pair]) -> dict[str, list[list[str]]]:
        """Names of lo or co by orientation: those of the move onto a phrase, and those of the move after it."""
        out: dict[str, list[list[str]]] = {part: [] for part in (*BACK, *AHEAD)}
        for back, ahead, move in zip(BACK, AHEAD, ORIENTATIONS, strict=True):
            for source, target, _ in pairs:
                found = call({"source": source, "target": target, "turn_before": move, "turn_after": move})
                out[back].append([text for text in found if text[0] != ">"])
                out[ahead].append([text for text in found if text[0] == ">"])
        return out

    def _rows(self, entry: Entry, found: Sequence[Mapping[str, float]] | Sequence[Sequence[str]]) -> SparseRows:
        """Number what a template's function gave, row by row: values by name, or names, which are counted."""
        names = [name for row in found for name in row]
        numbers = {name: k for k, name in enumerate(dict.fromkeys(names))}
        values, full = np.ones(len(names)), [full_name(entry.name, name, entry.hash_bits) for name in numbers]
        if found and isinstance(found[0], Mapping):
            values, full = np.array([x for row in found for x in row.values()], np.float64), list(numbers)  # type: ignore[union-attr]
        if not np.isfinite(values).all():
            name = names[int(np.argmin(np.isfinite(values)))]
            raise InputError(f"{name}: expected finite numbers, found NaN or infinity; correct the template's function")
        places = entry.places if entry.features is not None else {name: k for k, name in enumerate(dict.fromkeys(full))}
        place = np.array([places.get(name, NONE) for name in full], np.int64)[[numbers[name] for name in names]]
        row, kept = np.repeat(np.arange(len(found)), list(map(len, found))), (place >= 0) & (values != 0)
        rows = SparseRows.of_entries(row[kept], place[kept], values[kept], (len(found), len(places)))
        known: Sequence[str] = entry.features or list(places)
        used = np.unique(rows.idx)
        ids = np.array([self.id_of(known[k]) for k in used.tolist()], np.int32)
        return SparseRows(rows.ptr, ids[np.searchsorted(used, rows.idx)], rows.val)

    # -- options of a sentence ---------------------------------------------------------------------------------------

    @cached_property
    def placed(self) -> list[tuple[Entry, Template]]:
        """Templates that read where in the sentence a phrase stands, and the sentence."""
        return [(entry, template) for entry, template in self.entries.values() if is_placed(template)]

    def at_places(self, tokens: Sequence[str], row: I64, start: I64, end: I64) -> SparseRows:
        """[O] features of options in their sentence."""
        out = SparseRows.empty(len(row))
        places = list(zip(row.tolist(), start.tolist(), end.tolist(), strict=True))
        pairs = [self._pairs[r] if r else _lone(tokens[i]) for r, i, _ in places]
        for entry, template in self.placed:
            call, found = self._call(entry, template, sentence=tuple(tokens)), []
            for (source, target, links), (_, i, j) in zip(pairs, places, strict=True):
                found.append(call({"source": source, "target": target, "links": links, "span": (i, j, len(tokens))}))
            with self._lock:
                out = _beside(out, self._rows(entry, found))
        return out

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


def _beside(a: SparseRows, b: SparseRows) -> SparseRows:
    """Return rows with the entries of both."""
    if not len(b.idx) or not len(a.idx):
        return b if len(b.idx) else a
    row = np.concatenate([owners(a.ptr), owners(b.ptr)])
    order = np.argsort(row, kind="stable")
    return SparseRows(a.ptr + b.ptr, np.concatenate([a.idx, b.idx])[order], np.concatenate([a.val, b.val])[order])


def _lone(word: str) -> Pair:
    """Return the phrase pair of a word that is translated as it is."""
    return (word,), (word,), ((0, 0),)


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

    def sum_of(self, rows: SparseRows) -> F64:
        """[n] what features of rows add; those that got their numbers after the weights weigh nothing."""
        return rows @ np.append(self.vector, np.zeros(len(self.templates.ids) - len(self.vector)))

    @cached_property
    def sums(self) -> dict[str, F64]:
        """[P] what each part adds."""
        return {part: self.sum_of(rows) for part, rows in self.templates.table.items()}

    @cached_property
    def columns(self) -> F64:
        """[P, T] static ones of the table."""
        return self.tested_columns(self.templates.table["static"])

    def tested_columns(self, rows: SparseRows) -> F64:
        """[n, T]"""
        at = [self.templates.id_of(name) for name in self.tested]
        return np.asarray(rows.matrix(len(self.templates.ids))[:, at].toarray(), np.float64)

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

    def options(self, tokens: Sequence[str], row: I64, start: I64) -> tuple[dict[str, F64], F64]:
        """Sum the templates of the options of a sentence by part [O], and give the columns [O, T], wherever they stand in it."""
        sums, columns = {part: x[row] for part, x in self.sums.items()}, self.columns[row]
        if len(unknown := np.flatnonzero(row == 0)):
            words = self.templates.words([tokens[i] for i in start[unknown].tolist()])
            for part, rows in words.items():
                sums[part][unknown] = self.sum_of(rows)
            columns[unknown] = self.tested_columns(words["static"])
        return sums, columns

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

    def moves(self, sums: Mapping[str, F64], end: I64, n: int, symbols: Sequence[tuple[I64, I64]]) -> Moves:
        """Make moves of options with these sums that end at ``end`` [O] of n words.

        ``symbols``: offsets and words of options as each of ngrams has them.
        """
        after = np.array([self.weights.get(f"ori.>{name}", 0.0) for name in TURNS])
        ahead = _by_move([sums[part] for part in AHEAD]) + after
        final = ahead[np.arange(len(end)), np.where(end == n, 0, 2)] - sums[PREV] + self.constant(NEXT)
        initial = self.constant(PREV) - sums[NEXT]
        matrix, rows, columns = np.zeros((1, 1)), np.zeros(len(end) + 1, np.int32), np.zeros(len(end), np.int32)
        parts = []
        for ngrams, words in zip(self.ngrams, symbols, strict=True):
            last, first = ngrams.edges(*words)
            final += ngrams.ending(last)
            parts.append(ngrams.matrix(np.vstack([last, [NONE, ngrams.numbers.get(START, NONE)]]), first))
        if parts:
            matrix, rows, columns = joined(parts)
        distinct, late = np.unique(np.column_stack([ahead, rows[:-1]]), axis=0, return_inverse=True)
        return Moves(
            back=np.ascontiguousarray(_by_move([sums[part] for part in BACK])),
            late=(late.ravel() + 1).astype(np.int32),
            ahead=np.ascontiguousarray(np.vstack([np.zeros((1, 4)), distinct[:, :4]])),
            last=np.append(rows[-1:], distinct[:, 4].astype(np.int32)),
            first=columns,
            bigrams=matrix,
            initial=initial,
            final=final,
        )


def binned(x: F64, quantiles: Mapping[str, list[float]] | None) -> F64:
    """The mean of the bin that each value falls into, or the value itself."""
    return x if quantiles is None else np.array(quantiles["means"])[np.searchsorted(quantiles["cuts"], x)]


def _by_move(orientations: Sequence[F64]) -> F64:
    """[O, 4] of three orientations: discontinuous ones to the right and left are one."""
    mono, swap, other = orientations
    return np.stack([mono, swap, other, other], axis=1)


def no_moves() -> Moves:
    row, i32 = np.zeros(0), np.zeros(0, np.int32)
    return Moves(np.zeros((0, 4)), i32, np.zeros((0, 4)), i32, i32, np.zeros((0, 0)), row, row)
