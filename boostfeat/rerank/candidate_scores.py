"""Scores of a few candidates under a model, without a list of arrays around them: in a tenth of the time.

Features are those of the templates' own functions; what a phrase pair has of itself is kept for the next list. Only what the
model weighs or tests is computed, but columns stand where lists have them, and sums are taken in their order: scores are the
same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError, clip
from ..core.text import split_words
from ..features.compute import is_sparse, parsed_links
from ..features.plan import FeaturePlan, full_name
from ..features.registry import GIVEN, Template
from ..features.resources import Clusters
from ..features.sets import TEMPLATES
from ..features.templates.candidates import Candidates
from ..features.templates.place import turn
from ..metrics.ngrams import posteriors
from ..model.model import Model
from ..trees.forest import forest, forest_scores

MOST_PAIRS = 20_000  # phrase pairs that are kept: then all are forgotten


class Unit(NamedTuple):
    """A distinct unit of a list; texts with single blanks between words."""

    src: str
    tgt: str
    align: str
    src_len: int  # -1: unknown
    tgt_len: int
    x: Mapping[str, float]


class OneList(NamedTuple):
    """Candidates of one sentence, as plain Python has them."""

    source: Sequence[str]
    names: tuple[str, ...]  # of the units' features, in the list's order
    units: Sequence[Unit]
    hyps: Sequence[Sequence[tuple[int, int]]]  # (unit, where its source begins) of each occurrence
    tgt_start: Sequence[int]  # of all occurrences
    texts: Sequence[str]
    score: Sequence[float]  # the decoder's, NaN where unknown
    own_names: tuple[str, ...]
    own: F64  # [H, len(own_names)] what no unit carries


class _Pair(NamedTuple):
    """What is kept of a phrase pair."""

    source: Sequence[str]
    target: Sequence[str]
    links: Sequence[tuple[int, int]]
    clusters: Clusters
    dense: F64  # [T] of all dense templates' columns; 0 where they need its place
    terms: Sequence[Sequence[float]]  # counts times weights of each sparse template of pairs, in the order of its features
    total: float  # their sum, as far as such templates come first
    tested: Mapping[str, float]  # counts of sparse features that trees look at


@dataclass
class _Occurrence:
    """A unit in its place: what templates have as arguments, by name."""

    listed: OneList
    pairs: Sequence[_Pair]
    n_src: int
    unit: int
    start: int
    before: tuple[int, int]  # the previous unit and its start, (-1, 0) for none
    after: tuple[int, int]
    place: tuple[int, int, int]
    clusters: Clusters

    def _end(self, unit: int, start: int) -> int:
        return start + self.listed.units[unit].src_len

    @property
    def source(self) -> Sequence[str]:
        return self.pairs[self.unit].source

    @property
    def target(self) -> Sequence[str]:
        return self.pairs[self.unit].target

    @property
    def links(self) -> Sequence[tuple[int, int]]:
        return self.pairs[self.unit].links

    @property
    def sentence(self) -> Sequence[str]:
        return self.listed.source

    @property
    def unit_features(self) -> Mapping[str, float]:
        return self.listed.units[self.unit].x

    @property
    def previous_features(self) -> Mapping[str, float] | None:
        return None if self.before[0] < 0 else self.listed.units[self.before[0]].x

    @property
    def following_features(self) -> Mapping[str, float] | None:
        return None if self.after[0] < 0 else self.listed.units[self.after[0]].x

    @property
    def previous(self) -> tuple[Sequence[str], Sequence[str]] | None:
        return None if self.before[0] < 0 else self.pairs[self.before[0]][:2]

    @property
    def following(self) -> tuple[Sequence[str], Sequence[str]] | None:
        return None if self.after[0] < 0 else self.pairs[self.after[0]][:2]

    @property
    def words_before(self) -> Sequence[str] | None:
        return None if self.before[0] < 0 else self.pairs[self.before[0]].target[-2:]

    @property
    def is_last(self) -> bool:
        return self.after[0] < 0

    @property
    def span(self) -> tuple[int, int, int]:
        return self.start, self._end(self.unit, self.start), self.n_src

    @property
    def jump(self) -> int:
        return self.start - (0 if self.before[0] < 0 else self._end(*self.before))

    @property
    def turn_before(self) -> str:
        return turn(self.jump, self.before[1] - self._end(self.unit, self.start))

    @property
    def turn_after(self) -> str:
        end, n = self._end(self.unit, self.start), self.n_src
        if self.after[0] < 0:
            return turn(n - end, self.start - n - 1)
        return turn(self.after[1] - end, self.start - self._end(*self.after))


class _Call(NamedTuple):
    """A template, ready to be called."""

    name: str
    of: Callable[[Any], Any]  # a pair, an occurrence, a text or a list
    at: int  # where its dense columns begin
    places: Mapping[str, int]  # of those of its features that the model looks at
    hash_bits: int

    def columns(self, of: Any) -> dict[str, float]:
        """Return its dense features; raises where a plan, which may be damaged, takes a sparse template for a dense one."""
        values = self.of(of)
        if not isinstance(values, dict):
            raise InputError(f"template {self.name!r}: the plan has dense features of it, and it gives sparse ones")
        return values


def _caller(template: Template, options: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Give the function of something that has its arguments as attributes."""
    call, arguments = template.bound(options), template.arguments
    get = attrgetter(*arguments)

    def called(of: Any) -> Any:
        try:
            return call(get(of)) if len(arguments) == 1 else call(*get(of))
        except Exception as error:
            raise template.failure(error) from error

    return called


class CandidateScorer:
    """The model's scores of a few candidates; ``scores`` gives None for what a list has to be made of."""

    def __init__(self, model: Model, plan: FeaturePlan, registry: Mapping[str, Template] = TEMPLATES) -> None:
        self.model, self.plan, self.registry = model, plan, registry
        self._weights = {name: weight for name, weight in model.weights.items() if weight}
        self._tested = set().union(*(tree.features() for tree in model.trees))
        self._pairs: dict[tuple[str, str, str], _Pair] = {}
        self._layouts: dict[tuple[str, ...], tuple[F64, I64]] = {}
        self._clusters = plan.clusters or Clusters()
        self.dense_names: list[str] = []
        self._own_names: list[str] = []
        self._of_pairs: list[_Call] = []
        self._of_places: list[_Call] = []
        self._of_texts: list[_Call] = []
        self._of_lists: list[tuple[Template, _Call]] = []
        self._sparse: list[tuple[bool, _Call]] = []  # whether it is of the pair alone
        self._reads: set[str] = set()
        self._x: set[str] = set()
        looked_at = {*self._weights, *self._tested, *(name for pair in plan.products or () for name in pair)}
        for entry in plan.entries:
            template = registry[entry.name]
            self._reads.update(template.reads)
            if any(what.endswith("features") for what in template.reads):
                self._x.update(entry.options.get("features", ()))
            places = {name: k for k, name in enumerate(entry.features or ()) if name in looked_at}
            names = self._own_names if template.of == "hypothesis" else self.dense_names
            call = _Call(entry.name, _caller(template, entry.options), len(names), places, entry.hash_bits)
            if is_sparse(entry) and entry.features:
                self._sparse += [(template.kind == "static", call)] if places else []
                continue
            names += entry.features or ()
            if template.kind in ("list", "global"):
                self._of_lists.append((template, call))
            elif places:
                by_kind = self._of_texts if template.of_text else self._of_places
                (self._of_pairs if template.kind == "static" else by_kind).append(call)
        # sparse templates of pairs that stand before all others: their sum is one number a pair
        self._leading = next((k for k, (of_pair, _) in enumerate(self._sparse) if not of_pair), len(self._sparse))
        self._in_place = bool(self._of_places or self._leading < len(self._sparse))
        self._by_place = "words around" in self._reads
        self._in_text = bool({"target span", "words before", "words around"} & self._reads)
        self._products = plan.products or ()
        self._forest, tested = forest(model.trees)
        self._place = {name: k for k, name in enumerate(tested)}

    @classmethod
    def of(cls, model: Model, plan: FeaturePlan | None, registry: Mapping[str, Template] = TEMPLATES) -> CandidateScorer | None:
        """None for models that score lists only: global ones, and those with templates of files."""
        plan = plan or FeaturePlan(products=())
        theirs = plan.posterior is not None and plan.posterior.model is not None  # a model's probabilities
        if model.level != "local" or theirs or not all(entry.name in registry for entry in plan.entries):
            return None
        templates = [registry[entry.name] for entry in plan.entries]
        reads = {what for template in templates for what in template.reads}
        if reads & set(GIVEN) or (plan.posterior is None and "list" in reads):
            return None
        both = zip(templates, plan.entries, strict=True)
        if any(t.of == "hypothesis" and entry.features and is_sparse(entry) for t, entry in both):
            return None
        if len(plan.features) < sum(len(entry.features or ()) for entry in plan.entries) + len(plan.products or ()):
            return None  # a feature twice
        return cls(model, plan, registry)

    def scores(self, listed: OneList) -> F64 | None:
        """[H] the model's score of each candidate."""
        if self._lacks(listed):
            return None
        pairs = [self._pair(unit) for unit in listed.units]
        spans = [unit.src_len for unit in listed.units]
        n_src = len(listed.source) or max((start + spans[u] for hyp in listed.hyps for u, start in hyp), default=0)
        texts = [split_words(text) if text else [] for text in listed.texts]
        row_of: dict[tuple[int, ...], int] = {}
        unit_of: list[int] = []  # of each row
        sparse: list[float] = []
        cells: tuple[list[int], list[int], list[float]] = ([], [], [])
        tested: list[tuple[int, str, float]] = []
        rows_of_hyps: list[list[int]] = []
        starts = iter(listed.tgt_start)
        for hyp, words in zip(listed.hyps, texts, strict=True):
            rows: list[int] = []
            length = len(words) if self._by_place else 0
            for k, (u, start) in enumerate(hyp):
                first = next(starts)
                if self._in_text and first + listed.units[u].tgt_len > len(words):
                    return None
                first = first if self._by_place else 0
                before = hyp[k - 1] if k else (-1, 0)
                after = hyp[k + 1] if k < len(hyp) - 1 else (-1, 0)
                key = (u, start, *before, *after, first, length) if self._in_place else (u,)
                row = row_of.get(key)
                if row is None:
                    row = row_of[key] = len(unit_of)
                    unit_of.append(u)
                    place = (first, first + listed.units[u].tgt_len, length)
                    at = _Occurrence(listed, pairs, n_src, u, start, before, after, place, self._clusters)
                    for call in self._of_places:
                        for name, value in call.columns(at).items():
                            if name in call.places:
                                cells[0].append(row)
                                cells[1].append(len(listed.names) + call.at + call.places[name])
                                cells[2].append(value)
                    sparse.append(self._sparse_sum(pairs[u], at, row, tested))
                    tested += [(row, name, count) for name, count in pairs[u].tested.items()]
                rows.append(row)
            rows_of_hyps.append(rows)
        x = self._matrix(listed, pairs, unit_of, cells)
        own = listed.own
        if self._of_lists or self._of_texts:  # a row for each occurrence
            every = [row for rows in rows_of_hyps for row in rows]
            x, sparse = x[every], [sparse[row] for row in every]
            again = {row: [k for k, other in enumerate(every) if other == row] for row, _, _ in tested}
            tested = [(k, name, count) for row, name, count in tested for k in again[row]]
            ends = np.cumsum([len(hyp) for hyp in listed.hyps]).tolist()
            rows_of_hyps = [list(range(b - len(hyp), b)) for hyp, b in zip(listed.hyps, ends, strict=True)]
            own = np.hstack([own, self._add_lists(listed, texts, x)])
        self._multiply(listed.names, x)
        weights, columns = self._layout(listed.names)
        unit_scores = np.einsum("nd,d->n", x, weights)
        if self._sparse:
            unit_scores = unit_scores + np.array(sparse)
        if self.model.trees:
            table = np.zeros((len(x), len(columns)))
            table[:, columns >= 0] = x[:, columns[columns >= 0]]
            for row, name, count in tested:
                table[row, self._place[name]] = count
            unit_scores = unit_scores + forest_scores(self._forest, table)
        own = np.einsum("nd,d->n", own, np.array([self._weights.get(n, 0.0) for n in (*listed.own_names, *self._own_names)]))
        of_row = unit_scores.tolist()
        out = np.array(
            [mine + _sum([of_row[row] for row in rows]) for mine, rows in zip(own.tolist(), rows_of_hyps, strict=True)]
        )
        return out if np.isfinite(out).all() else None

    def _lacks(self, listed: OneList) -> bool:
        """Whether a template reads what the list does not have, or the list has features of templates already."""
        reads, units = self._reads, listed.units
        names = set(listed.names) | set(listed.own_names)
        return bool(
            not names.isdisjoint((*self.dense_names, *self._own_names))
            or any(name.partition(":")[0] in self.registry for name in names if ":" in name)
            or not self._x <= set(listed.names)
            or (not units and (reads or self.model.trees))
            or ("source phrase" in reads and not any(unit.src for unit in units))
            or ("target phrase" in reads and not any(unit.tgt for unit in units))
            or ("alignment" in reads and not any(unit.align for unit in units))
            or ("source sentence" in reads and not listed.source)
            or (self._in_text and (min(listed.tgt_start, default=0) < 0 or any(unit.tgt_len < 0 for unit in units)))
            or (
                any("span" in what and what != "target span" for what in reads)
                and (any(unit.src_len < 0 for unit in units) or any(start < 0 for hyp in listed.hyps for _, start in hyp))
            )
        )

    def _pair(self, unit: Unit) -> _Pair:
        key = unit[:3]
        found = self._pairs.get(key)
        if found is None:
            if len(self._pairs) >= MOST_PAIRS:
                self._pairs.clear()
            found = self._pairs[key] = self._computed(*key)
        return found

    def _computed(self, src: str, tgt: str, align: str) -> _Pair:
        source, target = ([word for word in text.split(" ") if word] for text in (src, tgt))
        links = parsed_links(align) if "alignment" in self._reads else ()
        if any(i >= len(source) or j >= len(target) for i, j in links):
            raise InputError(
                f"alignment {clip(align)} of {clip(src)} and {clip(tgt)}: expected links inside the phrases, found one outside"
            )
        bare = _Pair(source, target, links, self._clusters, np.zeros(len(self.dense_names)), (), 0.0, {})
        for call in self._of_pairs:
            for name, value in call.columns(bare).items():
                if name in call.places:
                    bare.dense[call.at + call.places[name]] = value
        tested: dict[str, float] = {}
        terms = [self._terms(call, call.of(bare), tested) if of_pair else () for of_pair, call in self._sparse]
        total = _sum([term for own in terms[: self._leading] for term in own])
        return bare._replace(terms=terms, total=total, tested=tested)

    def _terms(self, call: _Call, names: Sequence[str], tested: dict[str, float]) -> list[float]:
        """Counts times weights of those features that the model has, in the order of the plan."""
        counts: dict[str, int] = {}
        for text in names:
            name = full_name(call.name, text, call.hash_bits)
            if name in call.places:
                counts[name] = counts.get(name, 0) + 1
        if self._tested:
            tested.update((name, float(count)) for name, count in counts.items() if name in self._tested)
        return [counts[name] * self._weights.get(name, 0.0) for name in sorted(counts, key=call.places.__getitem__)]

    def _sparse_sum(self, pair: _Pair, at: _Occurrence, row: int, tested: list[tuple[int, str, float]]) -> float:
        total = pair.total
        seen: dict[str, float] = {}
        for k in range(self._leading, len(self._sparse)):
            of_pair, call = self._sparse[k]
            for term in pair.terms[k] if of_pair else self._terms(call, call.of(at), seen):
                total += term
        tested += [(row, name, count) for name, count in seen.items()]
        return total

    def _matrix(
        self, listed: OneList, pairs: Sequence[_Pair], unit_of: list[int], cells: tuple[list[int], list[int], list[float]]
    ) -> F64:
        """[rows, D] all dense features, in the order that a list has."""
        n, m = len(listed.names), len(self.dense_names)
        x = np.zeros((len(unit_of), n + m + len(self._products)))
        if n:
            x[:, :n] = np.array([[unit.x.get(name, 0.0) for name in listed.names] for unit in listed.units])[unit_of]
        if self._of_pairs:
            x[:, n : n + m] = np.array([of.dense for of in pairs])[unit_of]
        if cells[0]:
            x[cells[0], cells[1]] = cells[2]
        return x

    def _add_lists(self, listed: OneList, texts: Sequence[list[str]], x: F64) -> F64:
        """OUT x: columns of occurrences; returns the columns of candidates [H, E]."""
        how = self.plan.posterior
        spans = ((first, listed.units[u].tgt_len) for (u, _), first in zip(chain(*listed.hyps), listed.tgt_start, strict=True))
        places = iter([(first, first + n) for first, n in spans])
        units = [list(islice(places, len(hyp))) for hyp in listed.hyps]
        number = {unit[:3]: k for k, unit in enumerate(listed.units)}  # of phrase pairs
        phrases = [
            [(start, start + listed.units[u].src_len, number[listed.units[u][:3]]) for u, start in hyp] for hyp in listed.hyps
        ]
        scale = 1.0 if how is None or how.scale is None else how.scale
        score = np.array(listed.score, np.float64)
        score = np.zeros(len(score)) if np.isnan(score).any() else score  # without scores all are equally probable
        p = posteriors(np.array([0, len(texts)]), score, scale=scale).tolist()
        own = np.zeros((len(texts), len(self._own_names)))
        for template, call in self._of_lists:
            if template.kind == "list":
                columns = call.of(_Whole(Candidates(texts, p, units, phrases)))
            else:
                found = [call.of(_Hypothesis(words, listed.source, self._clusters)) for words in texts]
                columns = {name: [each.get(name, 0.0) for each in found] for name in call.places}
            out, start = (own, call.at) if template.of == "hypothesis" else (x, len(listed.names) + call.at)
            for name, column in columns.items():
                if name in call.places:
                    out[:, start + call.places[name]] = np.asarray(column) + 0.0
        for call in self._of_texts:
            made = [call.of(_Text(words, spans)) for words, spans in zip(texts, units, strict=True)]
            for name, k in call.places.items():
                x[:, len(listed.names) + call.at + k] = [value for columns in made for value in columns[name]]
        return own

    def _multiply(self, names: tuple[str, ...], x: F64) -> None:
        """INOUT x: with products of its columns."""
        if self._products:
            column = {name: j for j, name in enumerate((*names, *self.dense_names))}
            for k, (a, b) in enumerate(self._products):
                x[:, len(column) + k] = x[:, column[a]] * x[:, column[b]]
        x += 0.0  # -0.0 becomes 0.0

    def _layout(self, names: tuple[str, ...]) -> tuple[F64, I64]:
        """([D] weights, [F] the column of each feature that trees look at, -1 for none) of lists with these features."""
        if names not in self._layouts:
            every = (*names, *self.dense_names, *("*".join(pair) for pair in self._products))
            column = {name: j for j, name in enumerate(every)}
            weights = np.array([self._weights.get(name, 0.0) for name in every], np.float64)
            self._layouts = {names: (weights, np.array([column.get(name, -1) for name in self._place], np.int64))}
        return self._layouts[names]


class _Whole(NamedTuple):
    candidates: Candidates


class _Hypothesis(NamedTuple):
    hypothesis: Sequence[str]
    sentence: Sequence[str]
    clusters: Clusters


class _Text(NamedTuple):
    text: Sequence[str]
    units: Sequence[tuple[int, int]]


def _sum(terms: Sequence[float]) -> float:
    """One after the other, as kernels do; sum() of newer Pythons is more exact."""
    total = 0.0
    for term in terms:
        total += term
    return total
