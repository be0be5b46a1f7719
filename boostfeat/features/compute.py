"""Templates computed on a run of sentences: each function is called once for every distinct value of what it reads.

S sentences, H hypotheses, R unit occurrences, V distinct units
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice, pairwise, repeat
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, Array, Bool, frozen
from ..core.errors import InputError, clip
from ..core.kernels import kernel
from ..lists.nbest import NBest, SparseRows, strings
from ..lists.words import NONE, Words, checked_links, words_of
from ..metrics.ngrams import posteriors
from .assembling import Met, Part, PartOf, distinct_rows
from .plan import Entry, full_name
from .posterior import list_scores
from .registry import Columns, Counted, Tally, Template, arguments_of, own_options
from .resources import Resources
from .templates.candidates import Candidates, ManyLists
from .templates.helpers import split
from .templates.place import TURNS

CHUNK = 1 << 14  # results of a function that are kept at a time


@dataclass(frozen=True)
class ListView:
    """A list as templates read it. Everything is computed when first asked for."""

    nbest: NBest
    resources: Resources = field(default_factory=Resources)

    # -- units -------------------------------------------------------------------------------------------------------

    @cached_property
    def _texts(self) -> dict[str, tuple[I64, list[str]]]:
        """Texts by column of the units: the number of each unit's text [V], and the distinct texts."""
        units = self.nbest.units
        columns = {"src": units.src, "tgt": units.tgt, "align": units.align}
        encoded = {name: column.dictionary_encode() for name, column in columns.items()}
        return {name: (np.asarray(c.indices).astype(np.int64), c.dictionary.to_pylist()) for name, c in encoded.items()}

    @cached_property
    def source(self) -> list[tuple[str, ...]]:
        """Words of the distinct source phrases."""
        return list(map(split, self._texts["src"][1]))

    @cached_property
    def target(self) -> list[tuple[str, ...]]:
        """Words of the distinct target phrases."""
        return list(map(split, self._texts["tgt"][1]))

    @cached_property
    def links(self) -> list[tuple[tuple[int, int], ...]]:
        """Links of the distinct alignments, which are inside all their phrases."""
        numbers, texts = self._texts["align"]
        out = list(map(checked_links, texts))
        most = [np.array([max((link[side] for link in links), default=-1) for links in out], np.int64) for side in (0, 1)]
        sizes = [np.array([len(words) for words in side], np.int64) for side in (self.source, self.target)]
        (src, _), (tgt, _) = self._texts["src"], self._texts["tgt"]
        outside = (most[0][numbers] >= sizes[0][src]) | (most[1][numbers] >= sizes[1][tgt])
        if outside.any():
            v = int(np.argmax(outside))
            raise InputError(
                f"alignment {clip(texts[numbers[v]])} of {clip(' '.join(self.source[src[v]]))} and "
                f"{clip(' '.join(self.target[tgt[v]]))}: expected links inside the phrases, found one outside; "
                "import the list with the source that was decoded"
            )
        return out

    @cached_property
    def pairs(self) -> tuple[I64, I64]:
        """Distinct phrase pairs: (a unit of each, the pair of each unit [V])."""
        return distinct_rows([self._texts[name][0] for name in ("src", "tgt", "align")])

    @cached_property
    def units_beside(self) -> list[tuple[tuple[str, ...], tuple[str, ...]] | None]:
        """Source and target words of phrase pairs; the last one is that of no unit."""
        src, tgt = (self._texts[name][0][self.pairs[0]].tolist() for name in ("src", "tgt"))
        return [*((self.source[s], self.target[t]) for s, t in zip(src, tgt, strict=True)), None]

    @cached_property
    def last_words(self) -> tuple[I64, list[tuple[str, ...] | None]]:
        """The number of the last two words of each distinct target phrase, and those; the last ones are of no unit."""
        number: dict[tuple[str, ...], int] = {}
        of_target = np.array([number.setdefault(words[-2:], len(number)) for words in self.target], np.int64)
        return of_target, [*number, None]

    def unit_column(self, name: str) -> I64:
        """[V] one column of the units."""
        return np.arange(self.nbest.n_units) if name == "unit" else self._texts[name][0]

    # -- sentences and hypotheses ------------------------------------------------------------------------------------

    @cached_property
    def sentences(self) -> list[tuple[str, ...]]:
        """Words of the source sentences."""
        return list(map(split, self.nbest.source.to_pylist()))

    @cached_property
    def hyps(self) -> Words:
        """[H] texts of hypotheses."""
        return words_of(self.nbest.text)

    def texts(self) -> Iterator[list[str]]:
        """Words of one hypothesis after the other."""
        names, ids = self.hyps.names.to_pylist(), self.hyps.ids
        for a, b in pairwise(self.hyps.ptr.tolist()):
            yield [names[k] for k in ids[a:b].tolist()]

    @cached_property
    def posterior(self) -> F64:
        """[H] p(h) under the model that is given, or the decoder; equal ones where the list has no scores."""
        how, scales = self.resources.posterior, self.resources.scales
        scale = (1.0 if how.scale is None else how.scale) if scales is None else scales[self.nbest.sent_of_hyp]
        return posteriors(self.nbest.hyp_ptr, list_scores(self.nbest, how.model), scale=scale)

    # -- occurrences -------------------------------------------------------------------------------------------------

    @cached_property
    def sent_of_occurrence(self) -> I64:
        """[R]"""
        nb = self.nbest
        return np.repeat(nb.sent_of_hyp, np.diff(nb.unit_ptr))

    @cached_property
    def source_lengths(self) -> I64:
        """[S] words of each source sentence; where it is not given, as far as its units reach."""
        given = np.array([len(words) for words in self.sentences], np.int64)
        reach = np.zeros(len(self.nbest), np.int64)
        np.maximum.at(reach, self.sent_of_occurrence, self.end)
        return np.where(given > 0, given, reach)

    @cached_property
    def end(self) -> I64:
        """[R] where units end in the source."""
        return self.nbest.src_start.astype(np.int64) + self.nbest.units.src_len[self.nbest.unit_idx]

    @cached_property
    def edges(self) -> tuple[Bool, Bool]:
        """[R] which occurrences are the first and the last of their hypotheses."""
        ptr = self.nbest.unit_ptr
        first, last = np.zeros((2, self.nbest.n_occurrences), bool)
        some = np.diff(ptr) > 0
        first[ptr[:-1][some]] = last[ptr[1:][some] - 1] = True
        return first, last

    def column(self, name: str) -> I64:
        """[R] one column of the occurrences."""
        return self.unit_column(name)[self.nbest.unit_idx] if name in OF_UNIT else COLUMNS[name](self)

    def beside(self, column: I64, step: int, at_edge: int | I64) -> I64:
        """[R] a column of the previous unit (step 1) or of the following one (-1)."""
        return np.where(self.edges[0 if step > 0 else 1], at_edge, np.roll(column, step))

    # -- arguments ---------------------------------------------------------------------------------------------------

    def values(self, argument: str, columns: Mapping[str, I64]) -> Iterable[Any]:
        """Give what a function has as an argument in each of some rows."""
        if argument not in ARGUMENT_COLUMNS:
            return repeat(self.resources.given(argument))
        names, make = ARGUMENT_COLUMNS[argument]
        return make(self, *(columns[name] for name in names))

    def feature_values(self, units: I64) -> Iterator[dict[str, float] | None]:
        """Give the features of units by name; None of no unit."""
        names, x = self.nbest.unit_names, self.nbest.X
        for a in range(0, len(units), CHUNK):
            some = units[a : a + CHUNK]
            rows = zip(some.tolist(), x[some].tolist(), strict=True)
            yield from (dict(zip(names, row, strict=True)) if unit >= 0 else None for unit, row in rows)

    def candidates(self) -> Iterator[Candidates]:
        """Give one list that has hypotheses after the other."""
        nb, texts, p = self.nbest, self.texts(), self.posterior.tolist()
        units = self.spans_of_hyps()
        phrases = self._by_hypothesis(self.column("start"), self.column("end"), self.pairs[1][nb.unit_idx])
        for a, b in pairwise(nb.hyp_ptr.tolist()):
            if b > a:
                columns = (list(islice(column, b - a)) for column in (texts, iter(p[a:b]), units, phrases))
                yield Candidates(*columns)

    def spans_of_hyps(self) -> Iterator[list[Any]]:
        """Give where the words of each hypothesis' units begin and end."""
        return self._by_hypothesis(self.column("tgt_start"), self.column("tgt_end"))

    def _by_hypothesis(self, *columns: I64) -> Iterator[list[Any]]:
        rows = iter(_tuples(self, *columns))
        return (list(islice(rows, n)) for n in np.diff(self.nbest.unit_ptr).tolist())


def _turns(gap: I64, swap: I64) -> I64:
    """[R] numbers of TURNS, as templates.place.turn has them."""
    return np.where(gap == 0, 0, np.where(swap == 0, 1, np.where(gap > 0, 2, 3)))


OF_UNIT = ("src", "tgt", "align", "unit")  # columns that a distinct unit has

# Columns of an occurrence
COLUMNS: dict[str, Callable[[ListView], I64]] = {
    "sent": lambda v: v.sent_of_occurrence,
    "start": lambda v: v.nbest.src_start.astype(np.int64),
    "end": lambda v: v.end,
    "n_src": lambda v: v.source_lengths[v.sent_of_occurrence],
    "prev": lambda v: v.beside(v.pairs[1][v.nbest.unit_idx], 1, NONE),
    "next": lambda v: v.beside(v.pairs[1][v.nbest.unit_idx], -1, NONE),
    "prev_unit": lambda v: v.beside(v.column("unit"), 1, NONE),
    "next_unit": lambda v: v.beside(v.column("unit"), -1, NONE),
    "before": lambda v: v.beside(v.last_words[0][v.column("tgt")], 1, NONE),
    "last": lambda v: v.edges[1].astype(np.int64),
    "back": lambda v: v.column("start") - v.beside(v.end, 1, 0),  # the first unit follows position 0
    "turn_before": lambda v: _turns(v.column("back"), v.beside(v.column("start"), 1, 0) - v.end),
    "ahead": lambda v: v.beside(v.column("start"), -1, v.column("n_src")) - v.end,  # the end of the sentence follows the last
    "turn_after": lambda v: _turns(v.column("ahead"), v.column("start") - v.beside(v.end, -1, v.column("n_src") + 1)),
    "tgt_start": lambda v: v.nbest.tgt_start.astype(np.int64),
    "tgt_end": lambda v: v.nbest.tgt_start.astype(np.int64) + v.nbest.units.tgt_len[v.nbest.unit_idx],
    "n_tgt": lambda v: np.repeat(v.hyps.counts, np.diff(v.nbest.unit_ptr)),
}


def _looked_up(table: Sequence[Any], numbers: I64) -> list[Any]:
    return [table[k] for k in numbers.tolist()]  # NONE, which is -1, is the last one


def _tuples(view: ListView, *columns: I64) -> Iterable[Any]:
    return zip(*(column.tolist() for column in columns), strict=True)


# Arguments by the columns that they are made of, and what they are; those that are not here are the same for all
ARGUMENT_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[..., Iterable[Any]]]] = {
    "source": (("src",), lambda v, k: _looked_up(v.source, k)),
    "target": (("tgt",), lambda v, k: _looked_up(v.target, k)),
    "links": (("align",), lambda v, k: _looked_up(v.links, k)),
    "unit_features": (("unit",), ListView.feature_values),
    "span": (("start", "end", "n_src"), _tuples),
    "previous": (("prev",), lambda v, k: _looked_up(v.units_beside, k)),
    "following": (("next",), lambda v, k: _looked_up(v.units_beside, k)),
    "words_before": (("before",), lambda v, k: _looked_up(v.last_words[1], k)),
    "is_last": (("last",), lambda v, k: k.astype(bool).tolist()),
    "previous_features": (("prev_unit",), ListView.feature_values),
    "following_features": (("next_unit",), ListView.feature_values),
    "jump": (("back",), lambda v, k: k.tolist()),
    "turn_before": (("turn_before",), lambda v, k: _looked_up(TURNS, k)),
    "turn_after": (("turn_after",), lambda v, k: _looked_up(TURNS, k)),
    "place": (("tgt_start", "tgt_end", "n_tgt"), _tuples),
    "sentence": (("sent",), lambda v, k: _looked_up(v.sentences, k)),
    "hypothesis": (("hyp",), lambda v, k: v.texts()),
}


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistinctRows:
    """The distinct rows of some columns, and which one each unit [V], occurrence [R] or hypothesis [H] has."""

    columns: Mapping[str, I64]  # [n]
    n: int
    row_of: I64
    row_of_occurrence: I64  # [R]; for hypotheses the rows themselves
    sent_of_occurrence: I64

    @cached_property
    def counts(self) -> I64:
        """[n] occurrences of each row."""
        return np.bincount(self.row_of_occurrence, minlength=self.n)


@kernel
def _count_sentences(sent, row_of, ptr, idx, out):  # type: ignore[no-untyped-def]
    """OUT out[N]: the sentences that have each feature; IN sent[R], rising, row_of[R], ptr[n+1] and idx: features of the rows."""
    last_of_row, last = np.full(len(ptr) - 1, -1), np.full(len(out), -1)
    for i in range(len(sent)):
        if last_of_row[row_of[i]] != sent[i]:
            last_of_row[row_of[i]] = sent[i]
            for k in range(ptr[row_of[i]], ptr[row_of[i] + 1]):
                if last[idx[k]] != sent[i]:
                    last[idx[k]] = sent[i]
                    out[idx[k]] += 1


@dataclass(frozen=True)
class Crossing:
    """Blocks of sentences, and the entry of a template that each is computed with: what the other blocks teach."""

    block_of: I64  # [S] of the list
    entries: list[Entry]  # [B]


@dataclass
class SentenceRun:
    """A run of sentences on which templates are computed. Its view has no references: no template knows those of a sentence."""

    part: NBest  # the run as it is in the list
    view: ListView
    units: I64 | None = None  # [V] which units of the list those of the run are; None: the run is all of it
    present: bool = False  # of a frozen plan's sparse features, those that occur
    first: int = 0  # which sentence of the list the first of the run is
    _rows: dict[object, DistinctRows] = field(default_factory=dict)

    @classmethod
    def of(cls, nbest: NBest, cut: tuple[int, int], resources: Resources, first: int, *, present: bool = False) -> SentenceRun:
        """Return a run of the sentences of a list; ``first`` is the first of them in the list that templates learn from."""
        part, units = nbest.run(*cut)
        return cls(part, ListView(part.without_references(), resources), units, present, first)

    @property
    def is_whole(self) -> bool:
        return self.units is None

    def of_list(self, units: Array) -> I64:
        """Tell which units of the list some of the run are."""
        return units if self.units is None else self.units[units]

    def _distinct(self, of: PartOf, columns: tuple[str, ...], crossing: Crossing | None = None) -> DistinctRows:
        """Return the distinct rows of these columns; templates that read the same share them."""
        view, nb, key = self.view, self.view.nbest, (of, columns)
        if key in self._rows and crossing is None:
            return self._rows[key]
        sent = nb.sent_of_hyp if of == "hypothesis" else view.sent_of_occurrence
        blocks = {} if crossing is None else {"block": crossing.block_of[self.first + sent]}
        if of == "hypothesis":
            rows = np.arange(nb.n_hyps)
            found = DistinctRows({"hyp": rows, "sent": sent, **blocks}, nb.n_hyps, rows, rows, sent)
        elif not columns and crossing is None:  # each for itself
            rows = np.arange(nb.n_occurrences)
            found = DistinctRows({}, len(rows), rows, rows, sent)
        else:
            column = view.unit_column if of == "unit" else view.column
            table = {name: column(name) for name in columns} | blocks
            first, row_of = distinct_rows(list(table.values()))
            of_occurrence = row_of[nb.unit_idx] if of == "unit" else row_of
            found = DistinctRows({name: c[first] for name, c in table.items()}, len(first), row_of, of_occurrence, sent)
        if crossing is None:
            self._rows[key] = found
        return found

    def forget(self, rows: object) -> None:
        """Let go of rows (``rows_of``) that no template sees any more."""
        self._rows.pop(rows, None)

    # -- learning ----------------------------------------------------------------------------------------------------

    def count(self, template: Template, learn: Counted, entry: Entry) -> dict[str, Tally]:
        """Count what this run adds to what a template learns."""
        arguments, tallies = arguments_of(learn.count), dict[str, Tally]()
        columns = _key_columns(arguments)
        rows = self._distinct("unit" if set(columns) <= {*OF_UNIT} else "occurrence", columns)
        options = own_options(learn.count, entry.options)
        with template.blamed():
            for n, *values in zip(rows.counts.tolist(), *self._values(arguments, rows), strict=False):
                for name, met in learn.count(*values, **options).items():
                    tally = tallies.setdefault(name, Counter())
                    for each in met:
                        tally[each] += n
        return tallies

    def _values(self, arguments: Sequence[str], rows: DistinctRows) -> list[Iterable[Any]]:
        return [self.view.values(argument, rows.columns) for argument in arguments]

    # -- computing ---------------------------------------------------------------------------------------------------

    def compute(self, template: Template, entry: Entry, crossing: Crossing | None = None) -> Part | Met | None:
        """Compute the dense features of a template, or all sparse ones that this run has; None where nothing says which."""
        of: PartOf = template.of if crossing is None or template.of != "unit" else "occurrence"
        names = entry.features if entry.features is not None else template.names(entry.options, self.view.resources)
        calls = [template.bound(each.options) for each in (crossing.entries if crossing else [entry])]
        with template.blamed():
            if template.of_text or template.kind == "list":
                rows, columns = self._distinct(of, ()), self._columns(template, calls, crossing)
                names = tuple(columns) if names is None else names
                x = np.empty((rows.n, len(names)))
                for k, name in enumerate(names):
                    if (column := columns.get(name)) is not None and len(column) != rows.n:
                        where = f"{template.place}template {template.name!r}: {name}"
                        raise InputError(f"{where}: expected {rows.n} values, found {len(column)}; correct the function")
                    x[:, k] = 0.0 if column is None else column
            else:
                rows = self._distinct(of, _key_columns(template.arguments), crossing)
                block = rows.columns["block"].tolist() if crossing else repeat(0, rows.n)
                values = zip(block, *self._values(template.arguments, rows), strict=False)
                results = TemplateEntries.of((calls[b](*arguments) for b, *arguments in values), rows.n)
                if results.are_names or (not rows.n and entry.features and entry.is_sparse):
                    return self._sparse(entry, of, rows, results)
                if not rows.n and names is None:
                    return None
                names, x = results.dense(rows.n, names)
        return Part.made(of, names, _checked(template, names, x), rows.row_of)

    def _columns(self, template: Template, calls: Sequence[Any], crossing: Crossing | None) -> Columns:
        """Columns of a template of texts or lists, one after the other."""
        view, nb = self.view, self.view.nbest
        if template.many is not None:
            spans = np.stack([view.column("tgt_start"), view.column("tgt_end")], axis=1)
            return template.many(ManyLists(nb.hyp_ptr, view.hyps, view.posterior, nb.unit_ptr, spans))
        is_list = template.kind == "list"
        sentences = np.flatnonzero(np.diff(nb.hyp_ptr)) if is_list else nb.sent_of_hyp
        given = {"candidates": view.candidates} if is_list else {"text": view.texts, "units": view.spans_of_hyps}
        block = crossing.block_of[self.first + sentences].tolist() if crossing else repeat(0, len(sentences))
        values = (given[a]() if a in given else view.values(a, {}) for a in template.arguments)
        out: dict[str, list[float]] = {}
        for b, *arguments in zip(block, *values, strict=False):
            for name, column in calls[b](*arguments).items():
                out.setdefault(name, []).extend(column)
        return dict(out)

    def _sparse(self, entry: Entry, of: PartOf, rows: DistinctRows, results: TemplateEntries) -> Part | Met:
        """Select the features that a plan has; where they are to be learned all, and the sentences that have each."""
        names = [full_name(entry.name, name, entry.hash_bits) for name in results.names]  # hashed ones may be equal
        features = entry.features
        places = dict(zip(names, count(), strict=False)) if features is None else entry.places
        if features is not None and self.present:
            features = tuple(features[k] for k in sorted({places[name] for name in names if name in places}))
            places = dict(zip(features, count(), strict=False))
        place = np.array([places.get(name, -1) for name in names], np.int64)[results.name_of]
        if features is not None:
            return Part.of_entries(of, features, results.row, place, results.value, rows.row_of)
        values = SparseRows.of_entries(results.row, place, results.value, (rows.n, len(names)))
        sentences = np.zeros(len(names), np.int64)  # that have each name
        _count_sentences(frozen(rows.sent_of_occurrence), frozen(rows.row_of_occurrence), values.ptr, values.idx, sentences)
        return Met(of, (strings(names), sentences), values, rows.row_of.astype(np.int32))


@dataclass(frozen=True)
class TemplateEntries:
    """Entries that a template's function gave, row by row: names that count 1, or names with numbers."""

    names: list[str]
    row: I64
    name_of: I64  # into names
    value: F64
    are_names: bool

    @classmethod
    def of(cls, results: Iterator[Any], n: int) -> TemplateEntries:
        """Collect the results of n rows, a chunk at a time."""
        number: dict[str, int] = {}
        kinds: set[type] = set()
        sizes, name_of, value = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        while chunk := list(islice(results, CHUNK)):
            kinds |= {type(found) for found in chunk}
            if not kinds <= {dict} and not kinds <= {list, tuple}:
                strange = min(kind.__name__ for kind in kinds - {dict})
                raise TypeError(f"expected a dict of numbers for all or a list of names for all, found {strange}")
            sizes.append(np.array(list(map(len, chunk)), np.int64))
            name_of.append(np.array([number.setdefault(name, len(number)) for found in chunk for name in found], np.int64))
            numbers = [x for found in chunk for x in found.values()] if kinds == {dict} else []
            if odd := [kind for kind in set(map(type, numbers)) if not issubclass(kind, int | float | np.number)]:
                raise TypeError(f"expected numbers, found {odd[0].__name__}")
            value.append(np.array(numbers, np.float64) if kinds == {dict} else np.ones(len(name_of[-1])))
        if unnamed := next((name for name in number if not isinstance(name, str)), None):
            raise TypeError(f"expected a list of names, found {clip(repr(unnamed))}")
        row = np.repeat(np.arange(n), np.concatenate(sizes))
        return cls(list(number), row, np.concatenate(name_of), np.concatenate(value), bool(kinds - {dict}))

    def dense(self, n: int, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], F64]:
        """Return columns [n, D] of these names; where nothing says which there are, all in the order of the alphabet."""
        names = tuple(sorted(self.names)) if names is None else names
        place = dict(zip(names, count(), strict=False))
        column = np.array([place.get(name, -1) for name in self.names], np.int64)[self.name_of]
        x = np.zeros((n, len(names)))
        x[self.row[column >= 0], column[column >= 0]] = self.value[column >= 0]
        return names, x


def _key_columns(arguments: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for argument in arguments for column in ARGUMENT_COLUMNS.get(argument, ((),))[0]))


def rows_of(template: Template) -> object:
    """Name the rows that a template sees; those that read the same columns see the same."""
    return template.of, _key_columns(template.arguments)


def _checked(template: Template, names: tuple[str, ...], x: F64) -> F64:
    if not np.isfinite(x).all():
        name = names[int(np.argmin(np.isfinite(x).all(axis=0)))]
        raise InputError(
            f"{template.place}template {template.name!r}: {name}: expected finite numbers, found NaN or infinity; "
            "correct the function or the list"
        )
    return x + 0.0  # -0.0 becomes 0.0
