"""A list with the features of templates: what they learn from it first, then what they compute.

A list is one run of sentences, or many that are written one after the other: then memory is that of a run, and what comes out is
the same, byte by byte.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow.compute as pc

from ..core.arrays import I32, I64
from ..core.errors import InputError, unknown_name
from ..core.processes import give_back
from ..lists.agreement import sentence_digest, sentence_digests
from ..lists.build import ordered_union
from ..lists.forks import in_forks
from ..lists.nbest import NBest, take_strings
from ..lists.precision import with_derived
from ..lists.store import StoreWriter, UnitNumbers, in_several_runs, is_mappable, read_store, write_store
from ..lists.words import distinct, words_of
from .assembling import Counts, Met, Part, Scratch, all_sparse_names, in_one, with_parts
from .clusters import learn_clusters
from .compute import Crossing, ListView, SentenceRun, rows_of
from .expected_length import pairs_of
from .plan import Entry, FeaturePlan, product_name
from .posterior import learn_posterior
from .products import Gradient, add_products, choose_products
from .registry import KINDS, Counted, FromPairs, Tally, Template, own_options
from .resources import Clusters, Resources
from .teach import derived_precision
from .templates import TEMPLATES

ROUNDED = 1e-4  # lists have four decimals
CROSSED = 6  # blocks of sentences, of which five teach the sixth
MOST_LINES = 50_000  # of a bitext that a plan remembers to know lists of them again, in 0.3 MB of a model
RUN = 1 << 18  # occurrences of units in a run: more take more memory and no less time

# of a run: a dense template's features, and which of them the list has already; the names of a sparse one, and all but them
Seen = tuple[Any, Any] | None
Report = Callable[[str, int, int], None]  # template or pass, done, of how many
T = TypeVar("T")
U = TypeVar("U")


class TemplateWorkers(Protocol):
    """Workers that templates are taught and computed on: distributed.cluster.ClusterFits is one."""

    def runs_of(self, nbest: NBest) -> int:
        """Return how many runs of a list workers read, each at the same time; 0 where they do not open it themselves."""

    def on_runs(
        self,
        task: Callable[[SentenceRun], T],
        nbest: NBest,
        runs: Sequence[tuple[int, int, Resources]],
        done: Callable[[int], None],
    ) -> list[T]:
        """Return results of a task for runs of a list: from a sentence to before another, and what templates read beside it."""

    def side_by_side(self, task: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Return results of a task for each of some items."""


@dataclass(frozen=True)
class Computing:
    """Settings of computing: the templates, what they read beside a list, and who is told.

    Products of features are chosen by the gradient that ``gradient_of`` gives (boosting.first_gradient). Of a set, templates that
    read what the list does not carry are left out, and ``left_out`` gets a line for each thing that it lacks.
    """

    registry: Mapping[str, Template] = field(default_factory=lambda: TEMPLATES)
    resources: Resources = field(default_factory=Resources)
    seed: int = 0
    threads: int = 1
    report: Report | None = None
    gradient_of: Gradient | None = None
    left_out: Callable[[str], None] = lambda line: None
    cluster: TemplateWorkers | None = None  # that computes a list that its workers open; None: this process
    crossings: Mapping[str, Crossing] = field(default_factory=dict)  # of templates that the list's own references teach

    def for_list(self, nbest: NBest) -> Computing:
        """Return the settings for a list: without the cluster where its workers lack the list, or a file that templates read."""
        files = self.resources.lm, self.resources.bitext, self.resources.phrase_counts
        here = self.cluster is None or any(file is not None for file in files) or not self.cluster.runs_of(nbest)
        return replace(self, cluster=None) if here else self

    def side_by_side(self, task: Callable[[T], U], items: Sequence[T], beside: Callable[[], Any]) -> list[U]:
        """Return results of a task for each of some items, in forks or on workers; ``beside`` is done here."""
        if self.cluster is None:
            return in_forks(task, items, self.threads, beside=beside)
        beside()
        return self.cluster.side_by_side(task, items)


def featurize(nbest: NBest, plan: FeaturePlan, *, present: bool = False, **how: Any) -> tuple[NBest, FeaturePlan]:
    """Return the list with the features of the plan's templates after its own, and the plan with all that this list taught.

    A frozen plan learns nothing: lists featurized with it have the same columns in the same order. With ``present``, the list is
    to be scored and forgotten: it has those sparse features of a frozen plan that occur, in their order, and no record of
    how they were made. ``how``: see Computing.
    """
    plan, computing = _prepared(nbest, plan, Computing(**how))
    n_runs = computing.cluster.runs_of(nbest) if computing.cluster else 1
    runs = Runs(nbest, computing, max(1, -(-len(nbest) // n_runs)), present=present)
    plan, lists = _learn_and_compute(runs, plan, Scratch())
    parts = in_one([(run.units, own) for run, own in lists], nbest.n_units)
    del runs, lists
    give_back()
    out, _ = with_parts(nbest, parts, all_sparse_names(nbest, parts))
    if plan.products is None and plan.n_products:
        if computing.gradient_of is None:
            raise InputError("products: expected a gradient to choose them by, found none; give gradient_of")
        plan = _with_products(plan, choose_products(out, plan.n_products, computing.gradient_of))
    out = add_products(out, plan.products or ())
    if present:
        return out, plan
    plan = _with_products(plan, plan.products or ())
    out = replace(out, meta=_meta(nbest, plan, parts, computing.registry))
    del parts
    give_back()
    return out, plan


def featurize_to(
    path: str | Path,
    nbest: NBest,
    plan: FeaturePlan,
    *,
    run: int | None = None,
    keep: Callable[[FeaturePlan], None] = lambda plan: None,
    **how: Any,
) -> tuple[NBest, FeaturePlan]:
    """Write the list with the plan's features to a store, and map it. About RUN occurrences, or ``run`` sentences, are in memory.

    ``keep`` gets the plan when the store is written and about to appear. A list of one run, an output that cannot be mapped, and
    products that are to be chosen, by all features at once, are done in memory.
    """
    every = run or _well_used(nbest)
    if every >= len(nbest) or not is_mappable(path) or (plan.n_products and not plan.is_frozen):
        out, plan = featurize(nbest, plan, **how)
        write_store(out, path, beside=lambda: keep(plan))
        return out, plan
    plan, computing = _prepared(nbest, plan, Computing(**how))
    give_back()
    plan = _write(path, Runs(nbest, computing, every), plan, keep)
    give_back()
    return read_store(path), plan


def _write(path: str | Path, runs: Runs, plan: FeaturePlan, keep: Callable[[FeaturePlan], None]) -> FeaturePlan:
    """Write run after run, units numbered as in one list; return the plan with what was learned."""
    nbest = runs.nbest
    numbers = UnitNumbers(in_several_runs(nbest, runs.cuts))
    with StoreWriter(path) as writer:
        plan, lists = _learn_and_compute(runs, plan, Scratch(writer.folder / "met"))
        plan = _with_products(plan, plan.products or ())
        sparse_names, meta = None, {}
        for run, parts in lists:
            if sparse_names is None:  # they are those of all runs
                sparse_names, meta = all_sparse_names(nbest, parts), _meta(nbest, plan, parts, runs.how.registry)
            out, old = with_parts(run.part, parts, sparse_names)
            out = replace(add_products(out, plan.products or ()), meta=meta)
            fresh, number = numbers.number(out.units, run.of_list(old))
            writer.append(out, number[out.unit_idx], fresh)
        writer.beside = lambda: keep(plan)
    return plan


def featurize_runs(nbest: NBest, plan: FeaturePlan, *, run: int | None = None, **how: Any) -> Iterator[NBest]:
    """Give run after run of a list with the features of a frozen plan, to be scored and forgotten (``present`` of featurize)."""
    plan, computing = _prepared(nbest, plan, Computing(**how))
    runs = Runs(nbest, computing, run or _well_used(nbest), present=True)
    lists = ((each.part, parts) for each, parts in _learn_and_compute(runs, plan, Scratch())[1])
    made = (with_parts(part, parts, all_sparse_names(part, parts))[0] for part, parts in lists)
    return (add_products(out, plan.products or ()) for out in made)


def runs_of(nbest: NBest) -> Iterator[NBest]:
    """Yield a list in runs of sentences that memory is well used by."""
    runs = Runs(nbest, Computing(), _well_used(nbest))
    return (runs.at(r, "").part for r in range(len(runs.cuts)))


def _well_used(nbest: NBest) -> int:
    """Count the sentences that have about RUN occurrences of units, or hypotheses."""
    return max(1, RUN * len(nbest) // max(1, nbest.n_occurrences + nbest.n_hyps))


def _with_products(plan: FeaturePlan, products: tuple[tuple[str, str], ...]) -> FeaturePlan:
    return replace(plan, products=products, n_products=len(products))


# -- the passes -------------------------------------------------------------------------------------------------------


class Runs:
    """A list as runs of sentences. A single run stays from pass to pass, others are made anew."""

    def __init__(self, nbest: NBest, how: Computing, n: int, *, present: bool = False) -> None:
        self.nbest, self.how, self.present = nbest, how, present
        self.cuts = [(a, min(a + n, len(nbest))) for a in range(0, max(1, len(nbest)), n)]
        self.whole = SentenceRun(nbest, ListView(nbest.without_references(), how.resources), None, present)
        self.is_one = len(self.cuts) == 1 and how.cluster is None
        self._process = os.getpid()

    def at(self, r: int, doing: str) -> SentenceRun:
        """Return a run, and report what is being done."""
        if self.is_one:
            return self.whole
        self._report(doing, r)
        first, last = self.cuts[r]
        return SentenceRun.of(self.nbest, (first, last), self._resources(first, last), first, present=self.present)

    def on_each(self, task: Callable[[SentenceRun], T], doing: str) -> list[T]:
        """Return results of a task for all runs, in forks or on workers."""
        if self.how.cluster is None:
            return in_forks(lambda r: task(self.at(r, doing)), range(len(self.cuts)), self.how.threads)
        runs = [(first, last, self._resources(first, last)) for first, last in self.cuts]
        return self.how.cluster.on_runs(task, self.nbest, runs, partial(self._report, doing))

    def _report(self, doing: str, done: int) -> None:
        if self.how.report and os.getpid() == self._process:
            self.how.report(doing, done, len(self.cuts))

    def _resources(self, first: int, last: int) -> Resources:
        resources = self.how.resources
        return resources if resources.scales is None else replace(resources, scales=resources.scales[first:last])


def _learn_and_compute(
    runs: Runs, plan: FeaturePlan, scratch: Scratch
) -> tuple[FeaturePlan, Iterator[tuple[SentenceRun, list[Part]]]]:
    """Return the plan with what the list taught, and the features of one run after the other.

    Every pass is over all runs. First templates count what they have to know before they compute anything. Then those whose names
    are to be learned compute all features that there are; sparse ones are put aside. At last all give the features of the plan.
    """
    crossings, learners = runs.how.crossings, [template for _, template in _untaught(runs.how, plan)]
    has_lines = any(template.bitext_teaches for template in (*learners, *map(runs.how.registry.__getitem__, crossings)))
    plan = _learn_options(runs, plan)
    if crossings or has_lines:
        lines = _given_pairs(runs.how) if has_lines else []
        digests = {*(sentence_digests(runs.nbest) if crossings else ())}
        digests.update(map(sentence_digest, lines if len(lines) <= MOST_LINES else ()))
        plan = replace(plan, taught_by=tuple(sorted(digests)))
    columns = _TemplateColumns(runs, scratch, crossings)
    if runs.is_one:
        plan, parts = _compute_at_once(runs, plan, columns)
        return plan, iter([(runs.whole, parts)])
    plan = _learn_names(runs, plan, columns)
    every = ((r, runs.at(r, "writing")) for r in range(len(runs.cuts)))
    return plan, ((run, [columns.part(r, run, entry) for entry in plan.entries]) for r, run in every)


def _untaught(how: Computing, plan: FeaturePlan) -> list[tuple[Entry, Template]]:
    """Select the entries that the list has to teach."""
    templates = [(e, how.registry[e.name]) for e in plan.entries]
    return [(e, template) for e, template in templates if e.features is None and not template.is_taught(e.options)]


def _crossings(
    nbest: NBest, plan: FeaturePlan, how: Computing, beside: Callable[[], Any]
) -> tuple[list[Entry], dict[str, Crossing]]:
    """Return the entries that the list's own references teach, and, by template, what its blocks are computed with."""
    crossed = [(e, template) for e, template in _untaught(how, plan) if template.crossed]
    blocks, block_of = _crossed_blocks(nbest) if crossed else [], np.zeros(len(nbest), np.int64)
    for b, (_, block) in enumerate(blocks):
        block_of[block] = b
    given = _given_pairs(how)

    def taught_by(pairs: list[tuple[str, str]]) -> list[Entry]:
        return [_taught(template, e, pairs + given if template.bitext_teaches else pairs) for e, template in crossed]

    lessons = [pairs_of(nbest), *(pairs_of(nbest, others) for others, _ in blocks)] if crossed else []
    by_all, *by_others = how.side_by_side(taught_by, lessons, beside) or [[]]
    return by_all, {e.name: Crossing(block_of, [taught[k] for taught in by_others]) for k, (e, _) in enumerate(crossed)}


def _crossed_blocks(nbest: NBest) -> list[tuple[I64, I64]]:
    """Return (the others, own sentences) of each block: what references teach reaches the features of other blocks alone."""
    return nbest.blocks_of_sentences(max(1, min(CROSSED, len(nbest))))


def _taught(template: Template, entry: Entry, *lesson: Any) -> Entry:
    """Return the entry with the options that a lesson teaches."""
    learn = template.learn
    teach = learn.learn if isinstance(learn, FromPairs) else learn.choose if isinstance(learn, Counted) else learn
    if teach is None:
        lacking = [name for name in template.learnt if name not in entry.options]
        raise InputError(f"template {template.name!r}: expected option {lacking[0]!r}, found none; give it in a TOML file")
    with template.blamed():
        return replace(entry, options={**entry.options, **teach(*lesson, **own_options(teach, entry.options))})


def _given_pairs(how: Computing) -> list[tuple[str, str]]:
    """Return the pairs of a given bitext, which is without the list's own."""
    given = how.resources.bitext
    return [] if given is None else list(given.pairs)


def _learn_options(runs: Runs, plan: FeaturePlan) -> FeaturePlan:
    """Return the plan with options that the list teaches: frequent words, thresholds."""
    untaught = _untaught(runs.how, plan)
    counted = [(e, template, learn) for e, template in untaught if isinstance(learn := template.learn, Counted)]

    def count(run: SentenceRun) -> list[dict[str, Tally]]:
        return [run.count(template, learn, entry) for entry, template, learn in counted]

    tallies = zip(*runs.on_each(count, "counting"), strict=True) if counted else ()
    met = {e.name: of_runs for (e, _, _), of_runs in zip(counted, tallies, strict=True)}
    for entry, template in untaught:
        lesson: tuple[Any, ...] = (runs.whole.view.nbest, runs.how.resources)
        if template.bitext_teaches:
            lesson = (_given_pairs(runs.how),)
        elif entry.name in met:
            lesson = (*lesson, _added_up(met.pop(entry.name)))
        plan = plan.with_entry(_taught(template, entry, *lesson))
    return plan


def _added_up(runs: Sequence[Mapping[str, Tally]]) -> dict[str, Tally]:
    """Add up the tallies of all runs."""
    out: dict[str, Tally] = {}
    for tallies in runs:
        for name, tally in tallies.items():
            out.setdefault(name, Counter()).update(tally)
    return out


def _learn_names(runs: Runs, plan: FeaturePlan, columns: _TemplateColumns) -> FeaturePlan:
    """Return the plan with the names of all features."""
    if runs.how.cluster is not None:
        work = [(columns.registry[entry.name], entry, columns.crossings.get(entry.name)) for entry in plan.entries]

        def compute(run: SentenceRun) -> dict[str, Part | Met | None]:
            return {entry.name: run.compute(template, entry, crossing) for template, entry, crossing in work}

        columns.computed = runs.on_each(compute, "computing")

    def look(r: int) -> list[tuple[str, Seen]]:
        run = runs.at(r, "naming")
        return [(entry.name, columns.look(r, run, entry)) for entry in plan.entries if columns.asks(entry)]

    first, *others = range(len(runs.cuts))
    for some in ([first], others):  # what the first one tells need not be asked again
        every = in_forks(look, some if any(map(columns.asks, plan.entries)) else (), 1 if runs.how.cluster else runs.how.threads)
        for r, seen in zip(some, every, strict=False):
            for name, found in seen:
                columns.note(r, name, found)
    give_back()
    return replace(plan, entries=tuple(map(columns.named, plan.entries)))


def _compute_at_once(runs: Runs, plan: FeaturePlan, columns: _TemplateColumns) -> tuple[FeaturePlan, list[Part]]:
    """Return the plan with the names of all features, and those of the only run. Processes share the templates."""
    entries, report, run, here = plan.entries, runs.how.report, runs.whole, os.getpid()
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(rows_of(columns.registry[entry.name]), []).append(entry)

    def compute(group: list[Entry]) -> list[tuple[Entry, Part]]:
        """Compute templates that read the same rows; features that are not kept take memory in between only."""
        out = []
        for entry in group:
            if report and os.getpid() == here:
                report(entry.name, entries.index(entry), len(entries))
            if columns.asks(entry):
                columns.note(0, entry.name, columns.look(0, run, entry))
            named = columns.named(entry)
            out.append((named, columns.part(0, run, named)))
        run.forget(rows_of(columns.registry[group[0].name]))
        give_back()
        return out

    longest_first = sorted(groups.values(), key=lambda group: columns.registry[group[0].name].of == "unit")
    every = {entry.name: (entry, part) for out in in_forks(compute, longest_first, runs.how.threads) for entry, part in out}
    named, parts = zip(*(every[entry.name] for entry in entries), strict=True) if entries else ((), ())
    return replace(plan, entries=named), list(parts)


class _TemplateColumns:
    """The features that templates have, found out run by run; and what was computed meanwhile."""

    def __init__(self, runs: Runs, scratch: Scratch, crossings: Mapping[str, Crossing]) -> None:
        self.registry, self.scratch, self.crossings = runs.how.registry, scratch, crossings
        self.theirs, self.stays = set(runs.nbest.unit_names), runs.is_one or runs.how.cluster is not None
        self.dense: dict[str, tuple[str, ...]] = {}  # names of dense templates so far
        self.tallies: dict[str, list[Callable[[], Counts]]] = {}  # names of sparse ones, of each run
        self.same: dict[str, set[str]] = {}  # of a template, features that the list has already
        self.aside: dict[tuple[int, str], Callable[[], Met | Part]] = {}  # by run and template
        self.places: dict[tuple[int, str], I32] = {}  # of the names of a run among the features
        self.computed: list[dict[str, Part | Met | None]] = []  # of each run, by workers

    def asks(self, entry: Entry) -> bool:
        """Whether the next run is looked at.

        Dense templates have the same names on all runs, but those of the user may depend on what there is. And what a list has
        under the name of a feature may be the same thing on one run and another on the next.
        """
        if self.computed:
            return True
        if entry.features is not None:
            return any(name in entry.places for name in self.theirs)
        known = self.dense.get(entry.name)
        return known is None or not self.registry[entry.name].is_ours or not self.theirs.isdisjoint(known)

    def look(self, r: int, run: SentenceRun, entry: Entry) -> Seen:
        """Return what a run has of a template, for ``note``; a fork may look."""
        template, crossing = self.registry[entry.name], self.crossings.get(entry.name)
        found = self.computed[r].pop(entry.name) if self.computed else run.compute(template, entry, crossing)
        if isinstance(found, Part):
            return found, _same_as_theirs(run.part, found)
        return None if found is None or entry.features is not None else found.put_aside(self.scratch)

    def note(self, r: int, name: str, seen: Seen) -> None:
        if seen and isinstance(found := seen[0], Part):
            self.dense[name] = ordered_union([self.dense.get(name, ()), found.names])
            self.same[name] = self.same.get(name, seen[1]) & seen[1]
            if self.stays:
                self.aside[r, name] = lambda: found
        elif seen:
            self.tallies.setdefault(name, []).append(seen[0])
            self.aside[r, name] = seen[1]

    def names_of(self, entry: Entry) -> tuple[str, ...]:
        """All dense names; of sparse ones, those that enough sentences have, in their order."""
        if entry.name in self.dense:
            names, template = self.dense[entry.name], self.registry[entry.name]
            return tuple(sorted(names)) if template.sorts_names else names
        tallies = [tally() for tally in self.tallies.pop(entry.name, ())]
        if not tallies:
            return ()  # no run has a row
        known, which = distinct([names for names, _ in tallies])
        sentences = np.bincount(which, np.concatenate([n for _, n in tallies]), minlength=len(known))
        some = np.flatnonzero(sentences >= entry.min_count)
        kept = some[pc.array_sort_indices(take_strings(known, some)).to_numpy(zero_copy_only=False).astype(np.int64)]
        place = np.full(len(known), -1, np.int32)
        place[kept] = np.arange(len(kept))
        of_run = np.split(place[which], np.cumsum([len(n) for _, n in tallies])[:-1])
        self.places |= {(r, entry.name): own for r, own in enumerate(of_run)}
        return tuple(take_strings(known, kept).to_pylist())

    def named(self, entry: Entry) -> Entry:
        """Return the entry with the names of its features."""
        return entry if entry.features is not None else replace(entry, features=self.names_of(entry))

    def part(self, r: int, run: SentenceRun, entry: Entry) -> Part:
        """The features of a template whose names are known."""
        again = self.aside.pop((r, entry.name), None)
        crossing = self.crossings.get(entry.name)
        found = None if again is None else again()
        if found is None or (isinstance(found, Part) and found.names != entry.features):  # a run may lack names of others
            found = run.compute(self.registry[entry.name], entry, crossing)
        if isinstance(found, Met):
            found = found.kept(entry.features or (), self.places.pop((r, entry.name)))
        assert found is not None  # its names are known
        return found.without(self.same.get(entry.name, set()))


def _same_as_theirs(nbest: NBest, part: Part) -> set[str]:
    """Features that came with the list, of the same name and, but for rounding, with the same values."""
    twice = set(part.names) & set(nbest.unit_names)
    if not twice or part.of != "unit" or part.is_sparse:
        return set()
    values = np.asarray(part.values)[part.row_of]
    made = {name for group in json.loads(nbest.meta.get("templates", "[]")) for name in group.get("features", ())}
    return {
        name
        for j, name in enumerate(part.names)
        if name in twice - made and np.allclose(values[:, j], nbest.X[:, nbest.unit_names.index(name)], rtol=0, atol=ROUNDED)
    }


# -- before any of them -----------------------------------------------------------------------------------------------


def _prepared(nbest: NBest, plan: FeaturePlan, how: Computing) -> tuple[FeaturePlan, Computing]:
    """Return the plan without what the list cannot have, and what templates read beside a list, learned from all of it."""
    needed = {"nbest": (nbest, NBest, "read_store(path)"), "plan": (plan, FeaturePlan, "FeaturePlan.of(names)")}
    for name, (value, kind, fix) in needed.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name}: expected a {kind.__name__}, found {type(value).__name__}; {fix} gives one")
    registry, resources = how.registry, how.resources
    if resources.bitext is not None and not plan.is_frozen:  # a list's own references must not teach it
        resources = replace(resources, bitext=resources.bitext.without(set(pairs_of(nbest))))
    if plan.posterior is not None:
        resources = replace(resources, posterior=plan.posterior)
    how = replace(how, resources=resources)
    plan = _without_lacking(nbest, plan, how)
    _check(nbest, plan, how)
    reads = {what: e.name for e in reversed(plan.entries) for what in registry[e.name].reads}
    how = how.for_list(nbest)
    if plan.posterior is None and "list" in reads:
        if plan.is_frozen:  # the list that is ranked must not teach it
            raise InputError(
                f"template {reads['list']!r}: expected a plan with the scale of posteriors, found none; learn it again"
            )
        blocks = [block for _, block in _crossed_blocks(nbest)]
        posterior, scales = learn_posterior(nbest, resources.posterior, blocks, threads=how.threads)
        plan, resources = replace(plan, posterior=posterior), replace(resources, posterior=posterior, scales=scales)

    def cluster() -> None:
        nonlocal plan
        if "clusters" in reads:
            plan = replace(plan, clusters=_clusters(nbest, plan, how))

    taught, crossings = _crossings(nbest, plan, replace(how, resources=resources), cluster)
    for entry in taught:
        plan = plan.with_entry(entry)
    if "clusters" in reads:
        resources = replace(resources, clusters=plan.clusters or Clusters())
    if not plan.is_frozen:
        plan = replace(plan, resources={what: sha for what, sha in plan.resources.items() if what in reads})
    return replace(plan, clusters=plan.clusters or Clusters()), replace(how, resources=resources, crossings=crossings)


def _without_lacking(nbest: NBest, plan: FeaturePlan, how: Computing) -> FeaturePlan:
    """Leave out members of sets that the list cannot have; where it can have none, all stay and the error names the first."""
    optional = [e for e in plan.entries if e.optional and e.features is None and e.name in how.registry]
    needs = {e.name: how.registry[e.name].lacks(nbest, how.resources, e.options) for e in optional}
    lacking = {name: what for name, what in needs.items() if what}
    if len(lacking) == len(plan.entries):
        return plan
    for what in dict.fromkeys(lacking.values()):
        names = [name for name in lacking if lacking[name] == what]
        several = f"templates {', '.join(names)} are left out: they need {what}"
        how.left_out(several if len(names) > 1 else f"template {names[0]!r} is left out: it needs {what}")
    return replace(plan, entries=tuple(e for e in plan.entries if e.name not in lacking))


def _check(nbest: NBest, plan: FeaturePlan, how: Computing) -> None:
    """Raise before any work for a template that is unknown or reads what the list does not carry."""
    for entry in plan.entries:
        if entry.name not in how.registry:
            error = unknown_name("template", entry.name, how.registry)
            raise InputError(f"{error}; a template of a user's file needs --plugin FILE.py")
        if lacking := how.registry[entry.name].lacks(nbest, how.resources, entry.options):
            works = [name for name, t in how.registry.items() if not t.lacks(nbest, how.resources, {})]
            raise InputError(
                f"template {entry.name!r} needs {lacking}; templates that work on this list: {', '.join(works) or 'none'}"
            )


def _clusters(nbest: NBest, plan: FeaturePlan, how: Computing) -> Clusters:
    """Return the frozen ones, those of files, or those that sources and first hypotheses teach; references must not."""
    if plan.clusters is not None:
        return plan.clusters
    given = how.resources.clusters
    first = take_strings(nbest.text, nbest.hyp_ptr[:-1][np.diff(nbest.hyp_ptr) > 0])  # all 200 of a list say hardly more
    texts = {"src": nbest.source, "tgt": first}
    asked = (words_of(texts[side]) for side in texts if not getattr(given, side))
    learnt = (learn_clusters(words, size=plan.cluster_size, seed=how.seed) for words in asked)
    return Clusters(given.src or next(learnt), given.tgt or next(learnt))


def _meta(nbest: NBest, plan: FeaturePlan, parts: Sequence[Part], registry: Mapping[str, Template]) -> dict[str, str]:
    """Record which template made which features, and of what kind they are: exporters and ``info`` read it."""
    groups: list[dict[str, Any]] = json.loads(nbest.meta.get("templates", "[]"))
    for entry, part in zip(plan.entries, parts, strict=True):
        template = registry[entry.name]
        own = {"prefix": f"{entry.name}:"} if part.is_sparse else {"features": list(part.names)}
        about = {"template": entry.name, "kind": template.kind, "reads": list(template.reads), "state": list(template.state)}
        groups.append(about | own)
    made = {name: group for group in groups for name in group.get("features", ())}
    by_need: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for product in plan.products or ():  # a product can live where both its factors can; decoders' features are contextual
        factors = [made.get(name, {"kind": "contextual"}) for name in product]
        kind = max((f["kind"] for f in factors), key=KINDS.index)
        state = tuple(dict.fromkeys(what for f in factors for what in f.get("state", ())))
        by_need.setdefault((kind, state), []).append(product_name(product))
    for (kind, state), names in by_need.items():
        groups.append({"template": "products", "kind": kind, "reads": ["features"], "state": list(state), "features": names})
    known = with_derived(nbest, derived_precision(nbest, tuple(made)))
    return {**known, "templates": json.dumps(groups, ensure_ascii=False), "vocab": plan.signature}
