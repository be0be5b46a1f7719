"""What ``tune`` and ``induce`` share: options for fresh lists from search graphs between fits; graphs in ``info``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.options import comma_list
from ..core.text_table import table
from ..search.loop.loop_options import GRAPHS
from .common import emit, reading, say

if TYPE_CHECKING:
    from ..lists.nbest import NBest
    from ..model.model import Model
    from ..search.graphs.graph_files import SentenceGraph
    from ..search.loop.loop_options import GraphOptions
    from ..tuners.base import Run

Graphs = Annotated[
    list[str] | None,
    typer.Option(
        "--graphs",
        metavar="FILE",
        help="Add their k-best between fits; mert: search all paths.",
        rich_help_panel=GRAPHS,
    ),
]
_NAMES: dict[str, Any] = {"metavar": "A,B,...", "help": "osgx: what core=(...) holds, or the moses.ini that says it."}
CoreNames = Annotated[str | None, typer.Option("--names", "--graph-names", **_NAMES)]
RareCoreNames = Annotated[str | None, typer.Option("--names", "--graph-names", **_NAMES, rich_help_panel=GRAPHS, hidden=True)]


GraphMetric = Annotated[
    str | None, typer.Option("--metric", help="bleu, or wer, which is the default of speech lattices (PLF, HTK SLF).")
]
METRICS = ("bleu", "wer")


def metric_of(
    items: Iterator[SentenceGraph], given: str | None, known: Sequence[str] = METRICS
) -> tuple[str, Iterator[SentenceGraph]]:
    """The metric of graphs, by their format unless one is given, and the graphs again."""
    from ..core.errors import unknown_name
    from ..formats import COUNTED

    if given is not None and given not in known:
        raise unknown_name("metric of graphs", given, known)
    first = next(items, None)
    rest = items if first is None else chain([first], items)
    return given or ("wer" if first is not None and first.format in COUNTED else "bleu"), rest


def core_names(given: str | None) -> tuple[str, ...] | None:
    """Names of the values of an osgx: a list with commas, or an ini, whose feature functions come in the order of the values."""
    from ..formats.moses.ini import Ini

    if given is None or "," in given or not os.path.isfile(given):
        return None if given is None else comma_list(given)
    return tuple(Ini.read(given).score_names())


def tuned_on_graphs(
    tuner: Any, dev: NBest, select: NBest | None, run: Run, options: GraphOptions, *, quiet: bool
) -> tuple[NBest, Run]:
    """The grown list, and the run that goes on from the weights found on the way."""
    from ..search.loop.graph_lists import grown

    def fit(nbest: NBest, before: Model | None, i: int) -> Model:
        model: Model = tuner.fit(nbest, select, replace(run, seed=run.seed + i, init=before.weights if before else run.init))
        return model

    dev, model = grown(dev, fit, options, threads=run.threads, report=lambda note: say(note, quiet=quiet))
    return dev, replace(run, init=model.weights)


def fit_on_graphs(dev: NBest, options: GraphOptions, *, quiet: bool) -> Callable[..., Model]:
    """What fits MERT on all derivations of the graphs of a list [K09]."""
    from ..search.graphs.graph_mert import fit_graphs
    from ..search.loop.graph_lists import graphs_of

    graphs = graphs_of(dev, options)
    missing = len(dev) - len(graphs)
    lacking = f"; {counted(missing, 'sentence')} without any, taken for empty lines" if missing else ""
    say(
        f"envelopes over {counted(len(graphs), 'graph')}, {sum(g.n_edges for g in graphs.values()):,} edges{lacking}", quiet=quiet
    )

    def fit(tuner: Any, nbest: NBest, held_out: NBest | None, run: Run) -> Model:
        return fit_graphs(tuner, nbest, graphs, held_out, run)

    return fit


def induced_on_graphs(
    boosting: Callable[[NBest, int], Model], dev: NBest, options: GraphOptions, *, threads: int, quiet: bool
) -> NBest:
    """The grown list; ``boosting(list, iteration)`` starts anew each time: no tree stays that only an old list asked for."""
    from ..search.loop.graph_lists import grown

    return grown(dev, lambda nbest, _, i: boosting(nbest, i), options, threads=threads, report=lambda n: say(n, quiet=quiet))[0]


def show_graphs(path: str, *, metric: str | None, oracle: bool, refs: list[str], quiet: bool, as_json: bool) -> None:
    """What search graphs hold: the graph branch of ``info``; with ``oracle``, how near their paths come to references."""
    from ..core.errors import InputError
    from ..lists.build import ReadOptions
    from ..search.graphs.graph import summarise
    from ..search.graphs.graph_files import read_graphs

    if oracle != bool(refs):
        given = "--oracle" if oracle else "-r"
        raise InputError(f"{given}: expected --oracle and references (-r) of the graphs, found one of them; give both")
    options = ReadOptions(warn=lambda message: say(message, quiet=quiet))
    with reading("reading", quiet=quiet):
        found = summarise(item.graph for item in read_graphs([path], options))
        if oracle:
            found |= _graph_oracle(path, metric, refs)
    features = found["features"]
    lines = [[name, f"{found[name]:,}"] for name in ("sentences", "nodes", "edges")]
    for name, what in (("edges a sentence", "edges_per_sentence"), ("log10 of paths", "log10_paths")):
        lines += [[f"{name}, {k}", f"{v:,}" if isinstance(v, int) else f"{v:,.1f}"] for k, v in found[what].items()]
    lines += [
        ["features", f"{len(features):,}"],
        ["decoder's scores", "yes" if found["scores"] else "no: give weights to search"],
    ]
    for name, score in found.get("oracle", {}).items():
        lines.append([f"{found['metric']}, {name}", f"{score:.2f}"])
    most = sorted(features, key=lambda f: -f["nonzero"])[:MANY]
    rows = [[f["name"], f"{f['mean']:.4g}", f"{100 * f['nonzero']:.1f}%"] for f in features if f in most]
    more = f"\n... and {len(features) - MANY:,} more" if len(features) > MANY else ""
    emit(found, table(lines) + "\n\n" + table(rows, header=["feature", "mean an edge", "non-zero"]) + more, as_json=as_json)


def _graph_oracle(path: str, metric: str | None, refs: list[str]) -> dict[str, Any]:
    """Of the best path at the graphs' own scores, and of the path nearest to the references."""
    from ..core.files import read_lines
    from ..formats.importing import expand
    from ..lists.build import ReadOptions
    from ..search.graphs.graph_files import read_graphs
    from ..search.graphs.oracle_path import edit_oracle_lists, oracle_paths
    from ..search.graphs.rescoring import EdgeScorer

    lines = [[line for _, line in read_lines(ref)] for ref in expand(refs)]
    by, items = metric_of(read_graphs([path], ReadOptions(warn=lambda message: None)), metric)
    if by == "wer":
        scores = edit_oracle_lists(items, EdgeScorer(None), lines)[1]
        best, oracle = scores["best path"], scores["oracle path"]
    else:
        found = oracle_paths(items, EdgeScorer(None), lines)
        best, oracle = found.best, found.oracle
    return {"metric": by, "oracle": {"best path": best.score, "oracle path": oracle.score}, "signature": oracle.signature}


MANY = 40  # features: info shows more than these by group
