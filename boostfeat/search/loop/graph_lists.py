"""Fresh lists from search graphs between fits: what decoding again is to ``boostfeat loop``, without a decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.errors import InputError, counted
from ...core.options import Checked, option
from ...features.plan import FeaturePlan
from ...lists.build import ReadOptions, assemble
from ...lists.merging import at_columns, merge
from ...lists.nbest import NBest, strings
from ...model.model import Model
from ..graphs.edge_features import edge_plan, with_templates
from ..graphs.graph import Graph
from ..graphs.graph_files import read_graphs
from ..graphs.rescoring import kbest_nbest
from .learners import known_names

GRAPHS = "Search graphs"


@dataclass(frozen=True)
class GraphOptions(Checked):
    """Files of graphs, and how often and how much is taken from them."""

    paths: Sequence[str] = option(
        (),
        "Search graphs whose k best are added between fits (mert: all paths)",
        flag="graphs",
        metavar="FILE",
        group=GRAPHS,
        without="engine=dask",
    )
    iterations: int = option(
        5,
        "Rounds of fitting and taking new paths before the last fit",
        least=1,
        flag="graph_iterations",
        rare=True,
        needs="graphs",
        without="method=mert",
    )
    size: int = option(
        100, "Paths taken from each graph", least=1, flag="graph_nbest", rare=True, needs="graphs", without="method=mert"
    )
    core_names: str | None = option(
        None, "osgx: names of the values in core=(...), or a moses.ini", flag="graph_names", rare=True, needs="graphs"
    )
    plan_file: str | None = option(
        None, "Plan that 'featurize' wrote for the list's features", flag="graph_plan", rare=True, needs="graphs"
    )
    names: tuple[str, ...] | None = None  # of the values of core=(...) in osgx files
    plan: FeaturePlan | None = None  # of the templates that gave the list its features, where no file holds it


def grown(
    dev: NBest,
    fit: Callable[[NBest, Model | None, int], Model],
    options: GraphOptions,
    *,
    threads: int = 1,
    report: Callable[[str], None] = lambda note: None,
) -> tuple[NBest, Model]:
    """The list with k-best lists of the graphs added, and the last model that was fitted on the way.

    ``fit(list, model before, iteration)`` gives the model whose k-best are added; it ends early when they add nothing.
    """
    if dev.quality.names:
        raise InputError(
            f"--graphs: expected a list without quality columns, found {', '.join(dev.quality.names)}; "
            "nobody has scored the hypotheses that graphs add"
        )
    dev, model = merge([dev]), fit(dev, None, 0)  # without duplicates, so that what is new can be counted
    for i in range(1, options.iterations + 1):
        fresh = fresh_list(dev, model, options, threads=threads)
        merged = merge([dev, fresh])
        new, dev = merged.n_hyps - dev.n_hyps, merged
        has = f"{len(fresh):,} of {counted(len(dev), 'sentence')} {'has' if len(fresh) == 1 else 'have'} a graph"
        some = "" if len(fresh) == len(dev) else f"; {has}"
        report(f"graphs, iteration {i}: {new:,} new hypotheses, {dev.n_hyps:,} together{some}")
        if not new or i == options.iterations:
            break
        model = fit(dev, model, i)
    return dev, model


def fresh_list(dev: NBest, model: Model, options: GraphOptions, *, threads: int = 1) -> NBest:
    """The graphs' k-best under a model, with the features of the list and no others, so that the two can be merged."""
    plan = _plan(options)
    texts = dict(zip(dev.ids.tolist(), dev.source.to_pylist(), strict=True))
    source = [texts.get(s, "") for s in range(max(texts) + 1)] if plan else None  # templates look at its words
    fresh = kbest_nbest(
        options.paths, model, size=options.size, names=options.names, plan=plan, source=source, whole=False, threads=threads
    )
    if not (has_graph := np.diff(fresh.hyp_ptr) > 0).all():
        fresh = fresh.take(has_graph)
    if strange := set(fresh.ids.tolist()) - set(dev.ids.tolist()):
        raise InputError(
            f"{_where(options)}: expected graphs of the list's sentences, found sentence {min(strange)}; give those of the list"
        )
    _check_names(dev.global_names, known_names(fresh), options)
    return only_features(fresh, known_names(dev))


def graphs_of(dev: NBest, options: GraphOptions) -> dict[int, Graph]:
    """The graphs of a list's sentences, by their position in it; their edges have to have all its features."""
    names, position = dev.feature_names, {int(sent): s for s, sent in enumerate(dev.ids.tolist())}
    whole = _plan(options)
    plan = edge_plan(whole, names) if whole else None
    found: dict[int, Graph] = {}
    known: set[str] = set()
    for item in read_graphs(options.paths, ReadOptions(names=options.names)):
        if item.sent not in position:
            raise InputError(
                f"{item.where}: expected graphs of the list's sentences, found sentence {item.sent}; give those of the list"
            )
        s = position[item.sent]
        graph = with_templates(item.graph, plan, source=dev.source[s].as_py()) if plan else item.graph
        known |= set(graph.names)
        found[s] = graph
    _check_names(names, known, options)
    return found


def _plan(options: GraphOptions) -> FeaturePlan | None:
    """The plan that gave the list its features."""
    return FeaturePlan.load(options.plan_file) if options.plan_file else options.plan


def _where(options: GraphOptions) -> str:
    return options.paths[0] + (", ..." if options.paths[1:] else "")


def _check_names(names: Sequence[str], known: set[str], options: GraphOptions) -> None:
    for name in names:
        if name not in known:
            raise InputError(
                f"{_where(options)}: expected edges with the list's feature {name!r}, found none; name the values of an osgx "
                "with --graph-names, or give the list's templates with --graph-plan"
            )


def only_features(nbest: NBest, names: set[str]) -> NBest:
    """The list without features of other names."""
    unit, extra, rare = (
        tuple(name for name in own if name in names)
        for own in (nbest.unit_names, nbest.extra_names, nbest.sparse_names.to_pylist())
    )
    return assemble(at_columns(nbest, unit, extra, strings(rare)))
