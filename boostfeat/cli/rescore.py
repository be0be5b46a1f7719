"""The command on search graphs: rescore."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.machine import seconds_since
from .common import AllowMissing, check_missing, emit, reading, say, say_scores_alone, say_written
from .flags import add
from .graphs import CoreNames, GraphMetric, core_names, metric_of
from .lists import say_unwritten

if TYPE_CHECKING:
    from ..model.model import Model

FORMATS = ("text", "moses", "moses-enriched", "jsonl")


def register(app: typer.Typer) -> None:
    add(app, rescore)


def rescore(
    graphs: Annotated[
        list[str],
        typer.Argument(
            metavar="GRAPH",
            help="osgx files, Moses hypergraphs, cdec forests, lattices (PLF, HTK SLF), or folders of them.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="A model file; without it, the decoder's own scores (osgx, lattices).")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option("--weights", help="In place of -m: a file of 'Name= value' or 'name value' lines; repeatable."),
    ] = None,
    nbest: Annotated[int, typer.Option("--nbest", "--size", min=1, help="The N best of each graph, exactly.")] = 1,
    distinct: Annotated[bool, typer.Option("--distinct/--derivations", help="N best strings, or derivations.")] = True,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="text (the best, a line a graph), moses, moses-enriched or jsonl; default: text, moses for a list."
        ),
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="'-' is standard output.")] = "-",
    source: Annotated[str | None, typer.Option("-s", "--source", help="Source sentences, one a line.")] = None,
    ref: Annotated[
        list[str] | None, typer.Option("-r", "--ref", help="References, one sentence a line; repeat for more than one.")
    ] = None,
    oracle: Annotated[
        bool,
        typer.Option("--oracle", help="The paths nearest to the references instead (BLEU approximately, WER exactly)."),
    ] = False,
    metric: GraphMetric = None,
    names: CoreNames = None,
    vocab: Annotated[
        str | None,
        typer.Option(
            "--vocab", "--graph-vocab", help="What featurize learnt: makes the template features of the model on edges."
        ),
    ] = None,
    graph_format: Annotated[str, typer.Option("--graph-format", help="auto looks at the content.")] = "auto",
    allow_missing: AllowMissing = False,
    *,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find the best paths of whole search graphs under a model: weights and local trees decompose over edges.

    With -r, BLEU of what is found is reported, or WER of speech lattices. The oracle by BLEU starts from the 100-best (or
    --nbest) and is never below its oracle.

    \b
    Example:
      boostfeat rescore test.osgx.gz -m model.json --names moses.ini > test.out
      boostfeat rescore hypergraphs/ --weights hypergraphs/weights --nbest 100 \\
        -o test.100best.gz
      boostfeat rescore test.plf.xz -r test.ref --oracle > nearest.txt
    """
    from ..core.errors import InputError, unknown_name
    from ..core.files import is_writable_target, open_output, read_lines
    from ..features import FeaturePlan
    from ..features.carried import carried
    from ..features.known_words import doubts_about
    from ..formats import write
    from ..formats.importing import expand
    from ..lists.agreement import lacking
    from ..lists.build import ReadOptions
    from ..lists.choices import Score, Scorer, first_choice, oracle_choice, texts
    from ..metrics.metric import shown
    from ..search.graphs.graph_files import read_graphs
    from ..search.graphs.oracle_path import OracleOptions, corpus_oracle, edit_oracle_lists, oracle_paths
    from ..search.graphs.rescoring import EdgeScorer, RescoreOptions, rescored_lists

    started = time.monotonic()
    is_writable_target(output)
    if format is None:
        format = "text" if oracle or (nbest == 1 and not as_json) else "jsonl" if as_json else "moses"
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if format == "text" and nbest > 1 and not oracle:
        raise InputError(f"--format text: expected --nbest 1, found {nbest}; choose moses, moses-enriched or jsonl for a list")
    if oracle and not ref:
        raise InputError("--oracle: expected references to find paths near to, found none; give them with -r")
    if [*graphs, source, *(ref or [])].count("-") > 1:
        raise InputError("'-': expected one input from standard input, found more; name files")
    sentences = [line for _, line in read_lines(source)] if source else None
    references = [[line for _, line in read_lines(path)] for path in expand(ref or [])]
    loaded = _model(model, weights)
    plan = FeaturePlan.load(vocab) if vocab else carried(loaded) if loaded else None
    for doubt in doubts_about(plan, source=sentences or ()):
        say(f"warning: {source}: {doubt}", quiet=quiet)
    if loaded:
        say_scores_alone(loaded, "a path", quiet=quiet)
    scorer = EdgeScorer(loaded, vocab=plan, source=sentences)
    read = ReadOptions(names=core_names(names), warn=lambda message: say(message, quiet=quiet))
    scores: dict[str, Score] = {}
    with reading("rescoring", quiet=quiet):
        by, items = metric_of(read_graphs(graphs, read, format=graph_format), metric)
        if oracle and by == "wer":
            lists, scores = edit_oracle_lists(items, scorer, references, source=sentences, threads=threads)
        elif oracle:
            size = nbest if nbest > 1 else OracleOptions.size
            found = oracle_paths(items, scorer, references, OracleOptions(size=size), source=sentences, threads=threads)
            lists = found.nbest
            scores = {"best path": found.best, f"oracle of the {size}-best": found.kbest, "oracle path": found.oracle}
        else:
            options = RescoreOptions(nbest, distinct, threads)
            lists = rescored_lists(items, scorer, options, source=sentences, refs=references, name=", ".join(graphs))
            if lists.has_stats:
                of_lists = Scorer(lists)
                scores = {"best path": of_lists.score(first_choice(lists), by)}
                if nbest > 1:
                    chosen = oracle_choice(lists, of_lists.metric(by))
                    chosen = corpus_oracle(lists, chosen) if by == "bleu" else chosen
                    scores[f"oracle of the {nbest}-best"] = of_lists.score(chosen, by)
    missing = scorer.missing()
    fix = "name the values of an osgx with --names, or those that featurize made with --vocab"
    seen = scorer.seen | (plan.features if plan else set())
    wrong = lacking(missing, lists, seen=seen) if model else ()  # files of weights are of all that a decoder may have
    check_missing(", ".join(graphs), missing, wrong, fix=fix, allow_missing=allow_missing, quiet=quiet)
    result: dict[str, Any] = {
        "sentences": len(lists),
        "hypotheses": lists.n_hyps,
        by: {name: {"score": s.score, "signature": s.signature} for name, s in scores.items()},
        "seconds": seconds_since(started),
        "missing": missing,
    }
    if as_json and oracle and output == "-":
        emit({**result, "text": texts(lists, first_choice(lists))}, "", as_json=True)
    else:
        with open_output(output) as stream:
            if format == "text":
                stream.write("".join(text + "\n" for text in texts(lists, first_choice(lists))).encode())
            else:
                say_unwritten(lists, format, quiet=quiet)
                write(lists, stream, format=format)
        if as_json and output != "-":
            emit({**result, "output": output}, "", as_json=True)
    for name, score in scores.items():
        say(f"{shown(by)} of the {name}: {score.score:.2f} ({score.signature})", quiet=quiet)
    say_written(f"{counted(len(lists), 'sentence')}, {counted(lists.n_hyps, 'path')}, {format}", output, started, quiet=quiet)


def _model(model: str | None, weights: list[str] | None) -> Model | None:
    from ..core.errors import InputError
    from ..formats.moses.weights import read_weights
    from ..model.model import Model

    if model and weights:
        raise InputError("--weights: expected -m or --weights, found both; leave one out")
    return Model.load(model) if model else Model(read_weights(weights)) if weights else None
