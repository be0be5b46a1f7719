"""A few candidates under a model, unit by unit: the engine's scores bit by bit, in a hundredth of what its arrays take.

Features are computed by ``features.by_unit``; what a phrase pair has of itself is kept for the next list. Only what the model
weighs or tests is computed, but columns stand where the engine has them, and sums are taken in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I64
from ..core.text import split_words
from ..features.by_list import BY_LIST, ByList, Candidates
from ..features.by_list import bound as bound_of_lists
from ..features.by_unit import BY_UNIT, Pair, Place, bound
from ..features.vocab import FeaturePlan, full_name
from ..model.model import Model
from ..trees.tree import Tree

MOST_PAIRS = 20_000  # phrase pairs that are kept: then all are forgotten


class Unit(NamedTuple):
    """A distinct unit of a list; texts with single blanks between words."""

    src: str
    tgt: str
    align: str
    src_len: int  # -1: unknown
    tgt_len: int
    x: Mapping[str, float]


class FewLists(NamedTuple):
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


class _Known(NamedTuple):
    """What is kept of a phrase pair."""

    pair: Pair
    dense: F64  # [T] of all dense templates' columns; 0 where they need its place
    terms: Sequence[Sequence[float]]  # counts times weights of each sparse template of pairs, in the order of its features
    total: float  # their sum, as far as such templates come first
    tested: Mapping[str, float]  # counts of sparse features that trees look at


class _Made(NamedTuple):
    """A template, ready to be called."""

    name: str
    call: Callable[..., Any]
    at: int  # where its dense columns begin
    places: Mapping[str, int]  # of those of its features that the model looks at
    hash_bits: int


class Few:
    """The model's scores of a few candidates; ``scores`` gives None where the engine has to say what is wrong, or to do it."""

    def __init__(self, model: Model, plan: FeaturePlan) -> None:
        self.model, self.plan = model, plan
        own = model.weights
        self._weights = own if all(own.values()) else {name: weight for name, weight in own.items() if weight}
        self._tested = set().union(*(tree.features() for tree in model.trees))
        self._pairs: dict[tuple[str, str, str], _Known] = {}
        self._layouts: dict[tuple[str, ...], tuple[F64, I64]] = {}
        self.dense_names: list[str] = []
        dense: dict[str, list[_Made]] = {"pair": [], "place": []}
        self._sparse: list[tuple[str, _Made]] = []
        self._reads: set[str] = set()
        self._x: set[str] = set()
        weighed, others = self._weights, {*self._tested, *(name for pair in plan.products or () for name in pair)}
        self._of_lists: list[tuple[ByList, Callable[[Candidates], Mapping[str, F64]], int, Mapping[str, int]]] = []
        self._own_names: list[str] = []
        for entry in plan.entries:
            if entry.name in BY_LIST:
                listed = BY_LIST[entry.name]
                names = self.dense_names if listed.of == "occurrence" else self._own_names
                self._of_lists.append((listed, bound_of_lists(entry.name, entry.options), len(names), entry.places))
                self._reads.update(listed.reads)
                names += entry.features or ()
                continue
            how = BY_UNIT[entry.name]
            self._reads.update(how.reads)
            looked_at = {name: k for k, name in enumerate(entry.features or ()) if name in weighed or name in others}
            made = _Made(
                entry.name, bound(entry.name, entry.options, plan.clusters), len(self.dense_names), looked_at, entry.hash_bits
            )
            self._x.update(entry.options.get("features", ()) if not how.is_sparse else ())
            if not how.is_sparse:
                self.dense_names += entry.features or ()
            if looked_at and how.is_sparse:
                self._sparse.append((how.of, made))
            elif looked_at:
                dense[how.of].append(made)
        self._of_pairs, self._of_places = dense["pair"], dense["place"]
        # sparse templates of pairs that stand before all others: their sum is one number a pair
        self._leading = next((k for k, (of, _) in enumerate(self._sparse) if of != "pair"), len(self._sparse))
        self._in_place = bool(self._of_places or self._leading < len(self._sparse))
        self._products = plan.products or ()
        self._forest = _Forest(model.trees)

    @classmethod
    def of(cls, model: Model, plan: FeaturePlan | None) -> Few | None:
        """None for models that only the engine scores: with templates of whole lists, of files or of plugins, or global."""
        plan = plan or FeaturePlan(products=())
        theirs = plan.posterior is not None and plan.posterior.model is not None  # a model's probabilities
        if model.level != "local" or theirs or not all(e.name in BY_UNIT or e.name in BY_LIST for e in plan.entries):
            return None
        if plan.posterior is None and any("list" in BY_LIST[e.name].reads for e in plan.entries if e.name in BY_LIST):
            return None
        if len(plan.features) < sum(len(entry.features or ()) for entry in plan.entries) + len(plan.products or ()):
            return None  # a feature twice
        try:
            return cls(model, plan)
        except Exception:  # a plan is from a file: anything may stand there
            return None

    def scores(self, few: FewLists) -> F64 | None:
        """[H] the model's score of each candidate."""
        try:
            return self._scores(few)
        except Exception:  # what is wrong with a list or a plan, the engine says
            return None

    def _scores(self, few: FewLists) -> F64 | None:
        if self._lacks(few):
            return None
        known = [self._known(unit) for unit in few.units]
        spans = [unit.src_len for unit in few.units]
        n_src = len(few.source) or max((start + spans[u] for hyp in few.hyps for u, start in hyp), default=0)
        row_of: dict[tuple[int, ...], int] = {}
        unit_of: list[int] = []  # of each row
        sparse: list[float] = []
        cells: tuple[list[int], list[int], list[float]] = ([], [], [])
        tested: list[tuple[int, str, float]] = []
        rows_of_hyps: list[list[int]] = []
        in_place, n = self._in_place, len(few.names)
        for hyp in few.hyps:
            rows: list[int] = []
            last = len(hyp) - 1
            for k, (u, start) in enumerate(hyp):
                before = hyp[k - 1] if k else (-1, 0)
                after = hyp[k + 1] if k < last else (-1, 0)
                key = (u, start, *before, *after) if in_place else (u,)
                row = row_of.get(key)
                if row is None:
                    row = row_of[key] = len(unit_of)
                    unit_of.append(u)
                    if in_place:
                        at = _place(few, known, spans, n_src, u, start, before, after)
                        for made in self._of_places:
                            for name, value in made.call(at).items():
                                if name in made.places:
                                    cells[0].append(row)
                                    cells[1].append(n + made.at + made.places[name])
                                    cells[2].append(value)
                        sparse.append(self._sparse_sum(known[u], at, row, tested))
                    else:
                        sparse.append(known[u].total)
                    tested += [(row, name, count) for name, count in known[u].tested.items()]
                rows.append(row)
            rows_of_hyps.append(rows)
        x = self._matrix(few, known, unit_of, cells)
        own = few.own
        if self._of_lists:  # a row for each occurrence
            rows = [row for of_hyp in rows_of_hyps for row in of_hyp]
            x, sparse = x[rows], [sparse[row] for row in rows]
            again = {row: [k for k, other in enumerate(rows) if other == row] for row, _, _ in tested}
            tested = [(k, name, count) for row, name, count in tested for k in again[row]]
            rows_of_hyps = [list(range(b - len(hyp), b)) for hyp, b in zip(few.hyps, _ends(few.hyps), strict=True)]
            own = np.hstack([own, self._add_lists(few, x)])
        self._multiply(few.names, x)
        weights, columns = self._layout(few.names)
        unit_scores = np.einsum("nd,d->n", x, weights)
        if self._sparse:
            unit_scores = unit_scores + np.array(sparse)
        if self.model.trees:
            table = np.zeros((len(x), len(columns)))
            table[:, columns >= 0] = x[:, columns[columns >= 0]]
            for row, name, count in tested:
                table[row, self._forest.place[name]] = count
            unit_scores = unit_scores + self._forest.scores(table)
        own = np.einsum("nd,d->n", own, np.array([self._weights.get(n, 0.0) for n in (*few.own_names, *self._own_names)]))
        of_row = unit_scores.tolist()
        out = np.array(
            [mine + _sum([of_row[row] for row in rows]) for mine, rows in zip(own.tolist(), rows_of_hyps, strict=True)]
        )
        return out if np.isfinite(out).all() else None

    def _lacks(self, few: FewLists) -> bool:
        """Whether a template reads what the list does not have, or the list has features of templates already."""
        reads, units = self._reads, few.units
        names = set(few.names) | set(few.own_names)
        return bool(
            not names.isdisjoint((*self.dense_names, *self._own_names))
            or any(name.partition(":")[0] in BY_UNIT for name in names if ":" in name)
            or not self._x <= set(few.names)
            or (not units and (reads or self.model.trees))
            or ("source phrase" in reads and not any(unit.src for unit in units))
            or ("target phrase" in reads and not any(unit.tgt for unit in units))
            or ("alignment" in reads and not any(unit.align for unit in units))
            or ("source sentence" in reads and not few.source)
            or ("list" in reads and any(map(isnan, few.score)))
            or ("target span" in reads and (min(few.tgt_start, default=0) < 0 or any(unit.tgt_len < 0 for unit in units)))
            or (
                any("span" in what and what != "target span" for what in reads)
                and (any(unit.src_len < 0 for unit in units) or any(start < 0 for hyp in few.hyps for _, start in hyp))
            )
        )

    def _known(self, unit: Unit) -> _Known:
        key = unit[:3]
        found = self._pairs.get(key)
        if found is None:
            if len(self._pairs) >= MOST_PAIRS:
                self._pairs.clear()
            found = self._pairs[key] = self._learn(*key)
        return found

    def _learn(self, src: str, tgt: str, align: str) -> _Known:
        s, t = ([word for word in text.split(" ") if word] for text in (src, tgt))
        a: list[tuple[int, int]] = []
        if "alignment" in self._reads:
            a = [(int(i), int(j)) for i, j in (link.split("-") for link in align.split())]
            if any(i >= len(s) or j >= len(t) for i, j in a):
                raise ValueError("a link outside")
        dense = np.zeros(len(self.dense_names))
        for made in self._of_pairs:
            for name, value in made.call(s, t, a).items():
                if name in made.places:
                    dense[made.at + made.places[name]] = value
        tested: dict[str, float] = {}
        terms = [self._terms(made, made.call(s, t, a), tested) if of == "pair" else () for of, made in self._sparse]
        total = _sum([term for own in terms[: self._leading] for term in own])
        return _Known(Pair(s, t, a), dense, terms, total, tested)

    def _terms(self, made: _Made, names: Sequence[str], tested: dict[str, float]) -> list[float]:
        """Counts times weights of those features that the model has, in the order of the plan."""
        counts: dict[str, int] = {}
        for text in names:
            name = full_name(made.name, text, made.hash_bits)
            if name in made.places:
                counts[name] = counts.get(name, 0) + 1
        if self._tested:
            tested.update((name, float(count)) for name, count in counts.items() if name in self._tested)
        return [counts[name] * self._weights.get(name, 0.0) for name in sorted(counts, key=made.places.__getitem__)]

    def _sparse_sum(self, known: _Known, at: Place, row: int, tested: list[tuple[int, str, float]]) -> float:
        total = known.total
        seen: dict[str, float] = {}
        for k in range(self._leading, len(self._sparse)):
            of, made = self._sparse[k]
            for term in known.terms[k] if of == "pair" else self._terms(made, made.call(at), seen):
                total += term
        tested += [(row, name, count) for name, count in seen.items()]
        return total

    def _matrix(
        self, few: FewLists, known: Sequence[_Known], unit_of: list[int], cells: tuple[list[int], list[int], list[float]]
    ) -> F64:
        """[rows, D] all dense features, in the engine's order."""
        n, m = len(few.names), len(self.dense_names)
        x = np.zeros((len(unit_of), n + m + len(self._products)))
        if n:
            x[:, :n] = np.array([[unit.x.get(name, 0.0) for name in few.names] for unit in few.units])[unit_of]
        if self._of_pairs:
            x[:, n : n + m] = np.array([of.dense for of in known])[unit_of]
        if cells[0]:
            x[cells[0], cells[1]] = cells[2]
        return x

    def _add_lists(self, few: FewLists, x: F64) -> F64:
        """OUT x: columns of occurrences; the columns of candidates [H, E]."""
        spans = [unit.tgt_len for unit in few.units]
        how = self.plan.posterior
        given = Candidates(
            texts=[split_words(text) if text else [] for text in few.texts],
            score=np.array(few.score, np.float64),
            scale=1.0 if how is None or how.scale is None else how.scale,
            source=few.source,
            first=np.array(few.tgt_start, np.int64),
            length=np.array([spans[u] for hyp in few.hyps for u, _ in hyp], np.int64),
            hyp=np.repeat(np.arange(len(few.hyps)), [len(hyp) for hyp in few.hyps]),
        )
        own = np.zeros((len(few.hyps), len(self._own_names)))
        for listed, call, at, places in self._of_lists:
            out, start = (x, len(few.names) + at) if listed.of == "occurrence" else (own, at)
            for name, column in call(given).items():
                if name in places:
                    out[:, start + places[name]] = column + 0.0
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
            self._layouts = {names: (weights, np.array([column.get(name, -1) for name in self._forest.place], np.int64))}
        return self._layouts[names]


def _place(
    few: FewLists,
    known: Sequence[_Known],
    spans: Sequence[int],
    n_src: int,
    u: int,
    start: int,
    before: tuple[int, int],
    after: tuple[int, int],
) -> Place:
    """The occurrence of unit u at a place, between two others or the edges."""
    end = start + spans[u]
    (p, p_start), (f, f_start) = before, after
    is_first, is_last = p < 0, f < 0
    p_end = 0 if is_first else p_start + spans[p]
    return Place(
        known[u].pair,
        few.units[u].x,
        start,
        end,
        None if is_first else known[p].pair,
        None if is_last else known[f].pair,
        None if is_first else few.units[p].x,
        None if is_last else few.units[f].x,
        start - p_end,
        (0 if is_first else p_start) - end,
        (n_src if is_last else f_start) - end,
        start - (n_src + 1 if is_last else f_start + spans[f]),
        few.source,
        n_src,
    )


def _ends(hyps: Sequence[Sequence[Any]]) -> Iterator[int]:
    """Where the occurrences of each hypothesis end."""
    return accumulate(len(hyp) for hyp in hyps)


def _sum(terms: Sequence[float]) -> float:
    """One after the other, as kernels do; sum() of newer Pythons is more exact."""
    total = 0.0
    for term in terms:
        total += term
    return total


class _Forest:
    """All trees at once, level by level: Σ_m ρ_m h_m(x)."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        names = sorted(set().union(*(tree.features() for tree in trees)))
        self.place = {name: j for j, name in enumerate(names)}
        self.depth, at = 0, 0
        roots, parts = [], []
        for tree in trees:
            n = len(tree.feature)
            inner = tree.left >= 0
            here = np.arange(n)
            feature = np.array(
                [self.place[f] if is_inner else 0 for f, is_inner in zip(tree.feature, inner, strict=True)], np.int64
            )
            left, right = np.where(inner, tree.left, here) + at, np.where(inner, tree.right, here) + at
            parts.append((feature, np.where(inner, tree.threshold, np.inf), left, right, tree.value, tree.intercept))
            roots.append(at)
            self.depth = max(self.depth, _depth(tree))
            at += n
        if trees:
            self._feature, self._threshold, left, right, self._value, self._intercept = (
                np.concatenate(columns) for columns in zip(*parts, strict=True)
            )
            self._children = np.stack([left, right], axis=1).ravel()
        self._root = np.array(roots, np.int64)
        self._weight = np.array([tree.weight for tree in trees])
        self._on = np.array([-1 if tree.on is None else self.place[tree.on] for tree in trees], np.int64)
        self._affine = np.array([tree.leaf == "affine" for tree in trees], bool)

    def scores(self, table: F64) -> F64:
        """[n] of rows table [n, F], trees added one after the other."""
        columns = np.ascontiguousarray(table.T)  # [F, n]
        n = len(table)
        flat, rows, begin = columns.ravel(), np.arange(n), self._feature * n
        node = np.repeat(self._root[:, None], n, axis=1)  # [M, n]
        for _ in range(self.depth):
            goes_right = flat.take(begin.take(node) + rows) > self._threshold.take(node)
            node = self._children.take(2 * node + goes_right)
        value = self._value.take(node)
        if (on := self._on >= 0).any():
            value[on] *= columns[self._on[on]]
            value[self._affine] += self._intercept[node[self._affine]]
        return np.add.accumulate(self._weight[:, None] * value, axis=0)[-1]  # reduce would add in pairs where n is 1


def _depth(tree: Tree) -> int:
    depth = np.zeros(len(tree.left), np.int64)
    for i in range(len(tree.left)):  # children stand after their parents
        if tree.left[i] >= 0:
            depth[[tree.left[i], tree.right[i]]] = depth[i] + 1
    return int(depth.max(initial=0))
