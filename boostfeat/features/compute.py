"""Templates computed on a run of sentences: each function is called once for every distinct value of what it reads.

S sentences, H hypotheses, R unit occurrences, V distinct units
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count, islice, pairwise, repeat
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import F64, I64, Array, Bool, offsets, unique_rows
from ..core.errors import InputError, clip
from ..lists.nbest import NBest, SparseRows, strings
from ..lists.words import NONE, Words, words_of
from ..metrics.ngrams import posteriors
from .assembling import Met, Part, PartOf
from .plan import Entry, full_name
from .posterior import list_scores
from .registry import Columns, Counted, Tally, Template, arguments_of, own_options
from .resources import Resources
from .templates.candidates import Candidates
from .templates.place import TURNS

CHUNK = 1 << 14  # results of a function that are kept at a time

# The columns of a unit, an occurrence or a hypothesis that an argument is made of; others are the same for all
KEYS: dict[str, tuple[str, ...]] = {
    "source": ("src",),
    "target": ("tgt",),
    "links": ("align",),
    "unit_features": ("unit",),
    "span": ("start", "end", "n_src"),
    "previous": ("prev",),
    "following": ("next",),
    "words_before": ("before",),
    "is_last": ("last",),
    "previous_features": ("prev_unit",),
    "following_features": ("next_unit",),
    "jump": ("back",),
    "turn_before": ("turn_before",),
    "turn_after": ("turn_after",),
    "place": ("tgt_start", "tgt_end", "n_tgt"),
    "sentence": ("sent",),
    "hypothesis": ("hyp",),
}


def split(text: str) -> tuple[str, ...]:
    """Split a text of a list, which has single blanks."""
    return tuple([word for word in text.split(" ") if word])


@dataclass(frozen=True)
class Corpus:
    """A list as templates read it. Everything is computed when first asked for."""

    nbest: NBest
    resources: Resources = field(default_factory=Resources)

    # -- units -------------------------------------------------------------------------------------------------------

    @cached_property
    def _texts(self) -> dict[str, tuple[I64, list[str]]]:
        """By column of the units: the number of each unit's text [V], and the distinct texts."""
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
        out = list(map(parsed_links, texts))
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
    def _pairs(self) -> tuple[I64, I64]:
        """Distinct phrase pairs: (a unit of each, the pair of each unit [V])."""
        return distinct_rows([self._texts[name][0] for name in ("src", "tgt", "align")])

    @cached_property
    def _units_beside(self) -> list[tuple[tuple[str, ...], tuple[str, ...]] | None]:
        """Source and target words of phrase pairs; the last one is that of no unit."""
        some = self._pairs[0]
        pairs = zip(self._texts["src"][0][some].tolist(), self._texts["tgt"][0][some].tolist(), strict=True)
        return [*((self.source[s], self.target[t]) for s, t in pairs), None]

    @cached_property
    def _last_words(self) -> tuple[I64, list[tuple[str, ...] | None]]:
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
        for a, b in zip(self.hyps.ptr[:-1].tolist(), self.hyps.ptr[1:].tolist(), strict=True):
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
        np.maximum.at(reach, self.sent_of_occurrence, self._end)
        return np.where(given > 0, given, reach)

    @cached_property
    def _end(self) -> I64:
        return self.nbest.src_start.astype(np.int64) + self.nbest.units.src_len[self.nbest.unit_idx]

    @cached_property
    def _edges(self) -> tuple[Bool, Bool]:
        """[R] which occurrences are the first and the last of their hypotheses."""
        ptr = self.nbest.unit_ptr
        first, last = np.zeros((2, self.nbest.n_occurrences), bool)
        some = np.diff(ptr) > 0
        first[ptr[:-1][some]] = last[ptr[1:][some] - 1] = True
        return first, last

    def column(self, name: str) -> I64:
        """[R] one column of the occurrences."""
        nb = self.nbest
        match name:
            case "unit" | "src" | "tgt" | "align":
                return self.unit_column(name)[nb.unit_idx]
            case "sent":
                return self.sent_of_occurrence
            case "start":
                return nb.src_start.astype(np.int64)
            case "end":
                return self._end
            case "n_src":
                return self.source_lengths[self.sent_of_occurrence]
            case "prev" | "next":
                return self._neighbour(self._pairs[1][nb.unit_idx], name, NONE)
            case "prev_unit" | "next_unit":
                return self._neighbour(self.column("unit"), name[:4], NONE)
            case "before":
                return self._neighbour(self._last_words[0][self.column("tgt")], "prev", NONE)
            case "last":
                return self._edges[1].astype(np.int64)
            case "back":  # the first unit follows position 0
                return self.column("start") - self._neighbour(self._end, "prev", 0)
            case "turn_before":
                return _turns(self.column("back"), self._neighbour(self.column("start"), "prev", 0) - self._end)
            case "turn_after":  # the last unit is followed by the end of the sentence
                n = self.column("n_src")
                gap = self._neighbour(self.column("start"), "next", n) - self._end
                return _turns(gap, self.column("start") - self._neighbour(self._end, "next", n + 1))
            case "tgt_start":
                return nb.tgt_start.astype(np.int64)
            case "tgt_end":
                return nb.tgt_start.astype(np.int64) + nb.units.tgt_len[nb.unit_idx]
            case "n_tgt":
                return np.repeat(self.hyps.counts, np.diff(nb.unit_ptr))
        raise ValueError(f"unknown column {name!r}")

    def _neighbour(self, column: I64, which: str, at_edge: int | I64) -> I64:
        step = 1 if which == "prev" else -1
        return np.where(self._edges[0 if which == "prev" else 1], at_edge, np.roll(column, step))

    # -- arguments ---------------------------------------------------------------------------------------------------

    def values(self, argument: str, columns: Mapping[str, I64]) -> Iterable[Any]:
        """What a function has as an argument in each of some rows."""
        constant = {
            "clusters": self.resources.clusters,
            "phrase_counts": self.resources.phrase_counts or {},
            "language_model": self.resources.lm,
            "lexicon": self.resources.bitext and self.resources.bitext.lexicon if argument == "lexicon" else None,
        }
        if argument in constant:
            return repeat(constant[argument])
        key = [columns[name] for name in KEYS[argument]]
        match argument:
            case "hypothesis":
                return self.texts()
            case "span" | "place":
                return zip(*(column.tolist() for column in key), strict=True)
            case "jump":
                return key[0].tolist()
            case "is_last":
                return key[0].astype(bool).tolist()
            case "unit_features" | "previous_features" | "following_features":
                return self._feature_values(key[0])
        tables: dict[str, Callable[[], Sequence[Any]]] = {
            "source": lambda: self.source,
            "target": lambda: self.target,
            "links": lambda: self.links,
            "previous": lambda: self._units_beside,
            "following": lambda: self._units_beside,
            "words_before": lambda: self._last_words[1],
            "turn_before": lambda: TURNS,
            "turn_after": lambda: TURNS,
            "sentence": lambda: self.sentences,
        }
        table = tables[argument]()
        return [table[k] for k in key[0].tolist()]  # NONE, which is -1, is the last one

    def _feature_values(self, units: I64) -> Iterator[dict[str, float] | None]:
        names, x = self.nbest.unit_names, self.nbest.X
        for a in range(0, len(units), CHUNK):
            some = units[a : a + CHUNK]
            rows = zip(some.tolist(), x[some].tolist(), strict=True)
            yield from (dict(zip(names, row, strict=True)) if unit >= 0 else None for unit, row in rows)

    def candidates(self) -> Iterator[Candidates]:
        """One list after the other."""
        nb, hyps, p = self.nbest, self.hyps, self.posterior
        spans = np.stack([self.column("tgt_start"), self.column("tgt_end")], axis=1)
        sources = np.stack([self.column("start"), self.column("end"), self._pairs[1][nb.unit_idx]], axis=1)
        names = hyps.names.to_pylist()
        for a, b in pairwise(nb.hyp_ptr.tolist()):
            tokens, units = hyps.ptr[a : b + 1], nb.unit_ptr[a : b + 1]
            words, own = Words(tokens - tokens[0], hyps.ids[tokens[0] : tokens[-1]], hyps.names), slice(units[0], units[-1])
            yield Candidates(words, names, p[a:b], units - units[0], spans[own], sources[own])

    def spans_of_hyps(self) -> Iterator[list[Any]]:
        """Where the words of each hypothesis' units begin and end."""
        rows = zip(self.column("tgt_start").tolist(), self.column("tgt_end").tolist(), strict=True)
        return (list(islice(rows, n)) for n in np.diff(self.nbest.unit_ptr).tolist())


def _turns(gap: I64, swap: I64) -> I64:
    """[R] numbers of TURNS, as templates.place.turn has them."""
    return np.where(gap == 0, 0, np.where(swap == 0, 1, np.where(gap > 0, 2, 3)))


def parsed_links(align: str) -> tuple[tuple[int, int], ...]:
    """Links of an alignment like '0-0 1-2'."""
    try:
        links = tuple([(int(i), int(j)) for i, j in (link.split("-") for link in align.split())])
        if all(i < 2**31 and j < 2**31 for i, j in links):
            return links
    except ValueError:
        pass
    raise InputError(f"alignment {clip(align)}: expected links like '0-0 1-2', found others; import the list again")


def distinct_rows(columns: Sequence[I64]) -> tuple[I64, I64]:
    """The first place of each distinct row of some columns [n], and which of them each row is [n]."""
    table = np.stack(columns, axis=1)
    return unique_rows(table, np.zeros((len(table), 0), np.int64))


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keys:
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

    @cached_property
    def by_sentence(self) -> sparse.csr_matrix:
        """[S, n] which rows a sentence's lists have."""
        n, s = max(self.n, 1), int(self.sent_of_occurrence.max(initial=-1)) + 1
        keys = np.unique(self.sent_of_occurrence * n + self.row_of_occurrence)
        ptr = offsets(np.bincount(keys // n, minlength=s))
        return sparse.csr_matrix((np.ones(len(keys)), keys % n, ptr), shape=(s, self.n))


@dataclass(frozen=True)
class Crossing:
    """Blocks of sentences, and the entry of a template that each is computed with: what the other blocks teach."""

    block_of: I64  # [S] of the list
    entries: list[Entry]  # [B]


@dataclass
class Engine:
    """Computes templates on a run of sentences. The corpus has no references: no template knows those of its own sentence."""

    part: NBest  # the run as it is in the list
    corpus: Corpus
    units: I64 | None = None  # [V] which units of the list those of the run are; None: the run is all of it
    present: bool = False  # of a frozen plan's sparse features, those that occur
    first: int = 0  # which sentence of the list the first of the run is
    _keys: dict[object, Keys] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return self.units is None

    def of_list(self, units: Array) -> I64:
        """Which units of the list some of the run are."""
        return units if self.units is None else self.units[units]

    def _rows(self, of: PartOf, columns: tuple[str, ...], crossing: Crossing | None = None) -> Keys:
        """The distinct rows of these columns; templates that read the same share them."""
        corpus, nb, key = self.corpus, self.corpus.nbest, (of, columns)
        if key in self._keys and crossing is None:
            return self._keys[key]
        sent = nb.sent_of_hyp if of == "hypothesis" else corpus.sent_of_occurrence
        if of == "hypothesis":
            rows = np.arange(nb.n_hyps)
            found = Keys({"hyp": rows, "sent": sent, **self._blocks(sent, crossing)}, nb.n_hyps, rows, rows, sent)
        elif not columns and crossing is None:  # each for itself
            rows = np.arange(nb.n_occurrences)
            found = Keys({}, len(rows), rows, rows, sent)
        else:
            column = corpus.unit_column if of == "unit" else corpus.column
            table = {**{name: column(name) for name in columns}, **self._blocks(sent, crossing)}
            first, row_of = distinct_rows(list(table.values()))
            of_occurrence = row_of[nb.unit_idx] if of == "unit" else row_of
            found = Keys({name: c[first] for name, c in table.items()}, len(first), row_of, of_occurrence, sent)
        if crossing is None:
            self._keys[key] = found
        return found

    def _blocks(self, sentences: I64, crossing: Crossing | None) -> dict[str, I64]:
        return {} if crossing is None else {"block": crossing.block_of[self.first + sentences]}

    def forget(self, template: Template, later: Iterable[Template]) -> None:
        """Let go of the rows that a template saw, unless one of those to come sees them, too."""
        if _rows_of(template) not in map(_rows_of, later):
            self._keys.pop(_rows_of(template), None)

    # -- learning ----------------------------------------------------------------------------------------------------

    def count(self, template: Template, learn: Counted, entry: Entry) -> dict[str, Tally]:
        """What this run adds to what a template learns."""
        arguments, tallies = arguments_of(learn.count), dict[str, Tally]()
        columns = _key_columns(arguments)
        keys = self._rows("unit" if set(columns) <= {"src", "tgt", "align", "unit"} else "occurrence", columns)
        options = own_options(learn.count, entry.options)
        with template.blamed():
            for n, *values in zip(keys.counts.tolist(), *self._values(arguments, keys), strict=False):
                for name, met in learn.count(*values, **options).items():
                    tally = tallies.get(name)
                    if tally is None:
                        tally = tallies[name] = Counter()
                    for each in met:
                        tally[each] += n
        return tallies

    def _values(self, arguments: Sequence[str], keys: Keys) -> list[Iterable[Any]]:
        return [self.corpus.values(argument, keys.columns) for argument in arguments]

    # -- computing ---------------------------------------------------------------------------------------------------

    def compute(self, template: Template, entry: Entry, crossing: Crossing | None = None) -> Part | Met | None:
        """Features of the template: dense ones, or all sparse ones that this run has; None where nothing says which."""
        of: PartOf = template.of if crossing is None or template.of != "unit" else "occurrence"
        names = entry.features if entry.features is not None else template.names(entry.options, self.corpus.resources)
        if template.of_text or template.kind == "list":
            keys = self._rows(of, ())
            with template.blamed():
                columns = self._columns(template, entry, crossing)
            return Part.made(of, *self._stacked(template, columns, keys.n, names), keys.row_of)
        keys = self._rows(of, _key_columns(template.arguments), crossing)
        with template.blamed():
            results = self._results(template, entry, keys, crossing)
            first = next(results, None)
            results = chain([first], results) if first is not None else results
            if isinstance(first, list | tuple) or (first is None and entry.features and entry.is_sparse):
                return self._sparse(entry, of, keys, results)
            if first is None and names is None:
                return None
            names, x = _dense(template, results, keys.n, names)
        return Part.made(of, names, _checked(template, names, x), keys.row_of)

    def _results(self, template: Template, entry: Entry, keys: Keys, crossing: Crossing | None) -> Iterator[Any]:
        """What the function gives for one row after the other."""
        rows = zip(range(keys.n), *self._values(template.arguments, keys), strict=False)
        if crossing is None:
            call = template.bound(entry.options)
            return (call(*values) for _, *values in rows)
        calls, block = [template.bound(each.options) for each in crossing.entries], keys.columns["block"].tolist()
        return (calls[block[k]](*values) for k, *values in rows)

    def _columns(self, template: Template, entry: Entry, crossing: Crossing | None) -> Columns:
        """Columns of a template of texts or lists, one after the other."""
        corpus, nb = self.corpus, self.corpus.nbest
        if template.kind == "list":
            sentences = np.arange(len(nb))
            given: dict[str, Iterator[Any]] = {"candidates": corpus.candidates()}
        else:
            sentences, given = nb.sent_of_hyp, {"text": corpus.texts(), "units": corpus.spans_of_hyps()}
        entries = [entry] if crossing is None else crossing.entries
        calls = [template.bound(each.options) for each in entries]
        block = np.zeros(len(sentences), np.int64) if crossing is None else crossing.block_of[self.first + sentences]
        rows = zip(block.tolist(), *(given[a] if a in given else corpus.values(a, {}) for a in template.arguments), strict=False)
        out: dict[str, list[float]] = {}
        for b, *values in rows:
            if isinstance(values[0], Candidates) and not len(values[0].p):
                continue
            for name, column in calls[b](*values).items():
                out.setdefault(name, []).extend(column)
        return dict(out)

    def _stacked(
        self, template: Template, columns: Columns, n: int, names: tuple[str, ...] | None
    ) -> tuple[tuple[str, ...], F64]:
        names = tuple(columns) if names is None else names
        x = np.zeros((n, len(names)))
        for k, name in enumerate(names):
            if len(columns.get(name, ())) not in (0, n):
                raise InputError(
                    f"{template.place}template {template.name!r}: {name}: expected {n} values, found {len(columns[name])}; "
                    "correct the function"
                )
            if name in columns and n:
                x[:, k] = columns[name]
        return names, _checked(template, names, x)

    def features_of(self, template: Template, entry: Entry, crossing: Crossing | None = None) -> Part:
        """Features of a template whose names are known."""
        found = self.compute(template, entry, crossing)
        assert isinstance(found, Part)
        return found

    def _sparse(self, entry: Entry, of: PartOf, keys: Keys, results: Iterator[Any]) -> Part | Met:
        """Those features that a plan has; where they are to be learnt all, and the sentences that have each."""
        ids: dict[str, int] = {}
        sizes, idx = np.zeros(keys.n, np.int64), [np.zeros(0, np.int64)]
        for a in range(0, keys.n, CHUNK):
            chunk = list(islice(results, CHUNK))
            sizes[a : a + len(chunk)] = list(map(len, chunk))
            idx.append(np.array([ids.setdefault(name, len(ids)) for names in chunk for name in names], np.int64))
        if strange := next((name for name in ids if not isinstance(name, str)), None):
            raise TypeError(f"expected a list of names, found {clip(repr(strange))}")
        names = [full_name(entry.name, name, entry.hash_bits) for name in ids]  # hashed ones may be equal
        row, name_of = np.repeat(np.arange(keys.n), sizes), np.concatenate(idx)
        features = entry.features
        places = dict(zip(names, count(), strict=False)) if features is None else entry.places
        if features is not None and self.present:
            features = tuple(features[k] for k in sorted({places[name] for name in names if name in places}))
            places = dict(zip(features, count(), strict=False))
        place = np.array([places.get(name, -1) for name in names], np.int64)
        if features is not None:
            return Part.of_entries(of, features, row, place[name_of], np.ones(len(row)), keys.row_of)
        rows = SparseRows.of_entries(row, place[name_of], np.ones(len(row)), (keys.n, len(names)))
        sentences = np.bincount((keys.by_sentence @ rows.matrix(len(names))).indices, minlength=len(names))
        return Met(of, (strings(names), sentences), rows, keys.row_of.astype(np.int32))


def _key_columns(arguments: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for argument in arguments for column in KEYS.get(argument, ())))


def _rows_of(template: Template) -> object:
    """Templates of one kind see the same rows."""
    return template.of, _key_columns(template.arguments)


def _dense(template: Template, results: Iterator[Any], n: int, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], F64]:
    """Columns of dicts; where nothing says which there are, in the order of their names."""
    known = {name: k for k, name in enumerate(names or ())}
    rows, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for a in range(0, n, CHUNK):
        chunk = list(islice(results, CHUNK))
        if kinds := {type(found) for found in chunk} - {dict}:
            raise TypeError(f"expected a dict of numbers for all or a list of names for all, found {kinds.pop().__name__}")
        if names is None:
            for found in chunk:
                known.update((name, len(known)) for name in found if name not in known)
        column = np.array([known.get(name, -1) for found in chunk for name in found], np.int64)
        value = [x for found in chunk for x in found.values()]
        if strange := [kind for kind in set(map(type, value)) if not issubclass(kind, int | float | np.number)]:
            raise TypeError(f"expected numbers, found {strange[0].__name__}")
        rows.append(a + np.repeat(np.arange(len(chunk)), list(map(len, chunk)))[column >= 0])
        columns.append(column[column >= 0])
        values.append(np.array(value, np.float64)[column >= 0])
    x = np.zeros((n, len(known)))
    x[np.concatenate(rows), np.concatenate(columns)] = np.concatenate(values)
    if names is None:
        names = tuple(sorted(known))
        x = x[:, [known[name] for name in names]]
    return names, x


def _checked(template: Template, names: tuple[str, ...], x: F64) -> F64:
    if not np.isfinite(x).all():
        name = names[int(np.argmin(np.isfinite(x).all(axis=0)))]
        raise InputError(
            f"{template.place}template {template.name!r}: {name}: expected finite numbers, found NaN or infinity; "
            "correct the function or the list"
        )
    return x + 0.0  # -0.0 becomes 0.0
