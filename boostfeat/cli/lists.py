"""Commands on lists: import, info, convert, rerank, score."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.machine import seconds_since
from ..core.text_table import table
from ..features.options import ResourceFiles
from .carried import CARRYING, feature_maker, refuse_files, say_unused
from .common import (
    AllowMissing,
    LowerIsBetter,
    ModelFile,
    Qualities,
    Store,
    check_model,
    emit,
    progress,
    reading,
    say,
    say_written,
)
from .flags import add
from .graphs import MANY, CoreNames, core_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..core.arrays import F64, I64
    from ..lists.nbest import NBest


def register(app: typer.Typer) -> None:
    add(app, import_, "import")
    for command in (info, convert, rerank, score):
        add(app, command)


def import_(
    output: Annotated[str, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="n-best lists or graphs; '-' is standard input.", show_default=False),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            metavar="NAME=FILE",
            help="Instead of lists, the output of one system, a line a sentence; repeatable.",
        ),
    ] = None,
    ref: Annotated[
        list[str] | None,
        typer.Option(
            "-r", "--ref", help="References, one sentence a line; repeat for more than one, or quote a pattern: 'ref.*'."
        ),
    ] = None,
    source: Annotated[str | None, typer.Option("-s", "--source", help="Source sentences, one a line.")] = None,
    format: Annotated[
        str,
        typer.Option("--format", help="auto looks at the content; lines: text, a hypothesis a line, with -n or --counts."),
    ] = "auto",
    n: Annotated[int | None, typer.Option("-n", min=1, help="lines: so many lines a source.")] = None,
    counts: Annotated[
        str | None, typer.Option("--counts", metavar="FILE", help="lines: a file with the number of lines of each source.")
    ] = None,
    scores: Annotated[
        list[str] | None, typer.Option("--scores", metavar="FILE", help="lines: or NAME=FILE; a number a hypothesis; repeatable.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", "--nbest", min=1, help="At most N hypotheses a sentence; for graphs, N-best (default 100)."),
    ] = None,
    first: Annotated[int | None, typer.Option("--first", min=1, help="Only the first N sentences.")] = None,
    subwords: Annotated[
        str,
        typer.Option(
            "--subwords", help="Neural lists: join pieces of words: auto, spm (▁), bpe (@@), wordpiece (##), bytelevel (Ġ), none."
        ),
    ] = "auto",
    units: Annotated[
        str, typer.Option("--units", help="Neural lists: units are words, or the tokens scored: word, token.")
    ] = "word",
    distinct: Annotated[bool, typer.Option("--distinct/--derivations", help="Graphs: N-best strings, or derivations.")] = True,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            "--weights", help="Graphs: what ranks the paths; a model file, or files of 'Name= value' lines; repeatable."
        ),
    ] = None,
    quality: Qualities = None,
    lower: LowerIsBetter = None,
    tokenize: Annotated[
        str, typer.Option("--tokenize", help="For BLEU, as sacrebleu: none, 13a, intl, zh, char and others.")
    ] = "none",
    names: CoreNames = None,
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Keep what units and totals disagree on as a feature of the hypothesis.")
    ] = False,
    *,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read n-best lists or search graphs of any decoder into a store.

    Several FILEs, or those of a folder, are one corpus: parts of one list where their sentences follow each other, else lists of
    the same sentence are accumulated and duplicates removed. A quality column (of text, TSV with a header, JSON, or COMET's
    --to_json) is there for --gain and --metric; lists that have one need no references.

    Features have the decoder's names. Lists of neural decoders also get what their tools print beside features: the decoder's
    score (DecoderScore), and counts of Words and Pieces. A word has, of each model, the sum (NAME), NAME.min, NAME.first and
    NAME.mean of its pieces' log-probabilities; that of the end of the sentence is the unit </s>.

    \b
    Example:
      boostfeat import dev.nbest.gz -s dev.fi -r dev.en -o dev.nbest
      boostfeat import dev.nbest.gz -r dev.en --tokenize 13a \\
        --quality comet=dev.comet.json -o dev.nbest
    """
    from ..core.errors import unknown_name
    from ..core.files import is_writable_target
    from ..formats.importing import Corpus, import_corpus
    from ..lists.build import UNITS, ReadOptions
    from ..lists.pieces import SUBWORDS
    from ..lists.quality import join_qualities
    from ..lists.store import write_store
    from ..metrics.metric import tokenizer

    started = time.monotonic()
    is_writable_target(output)
    tokenizer(tokenize)  # raises where there is none of this name
    for kind, name, known in (("kind of subwords", subwords, SUBWORDS), ("kind of units", units, UNITS)):
        if name not in known:
            raise unknown_name(kind, name, known)
    options = ReadOptions(
        size=size,
        subwords=subwords,
        units=units,
        n=n,
        counts=counts,
        scores=scores or (),
        warn=lambda message: say(message, quiet=quiet),
        distinct=distinct,
        allow_mismatch=allow_mismatch,
        weights=_graph_weights(weights, quiet=quiet) if weights else None,
        names=core_names(names),
        threads=threads,
    )
    with reading("importing", quiet=quiet):
        corpus = Corpus(files or (), ref or (), source, format, first, system or (), tokenize)
        nbest = join_qualities(import_corpus(corpus, options), quality or (), lower or ())
    write_store(nbest, output)
    result = {**_sizes(nbest), "seconds": seconds_since(started), "output": output}
    if as_json and output != "-":
        emit(result, "", as_json=True)
    say(
        f"{counted(len(nbest), 'sentence')}, {counted(nbest.n_hyps, 'hypothesis')}, {counted(nbest.n_occurrences, 'unit')} "
        f"({nbest.n_units:,} distinct), {counted(len(nbest.global_names), 'feature')}"
        + (f" and {len(nbest.sparse_names):,} sparse" if len(nbest.sparse_names) else "")
        + f" -> {output} in {result['seconds']:.1f} s",
        quiet=quiet,
    )


def _graph_weights(paths: list[str], *, quiet: bool) -> Mapping[str, float]:
    """Weights of a model file, or of text files as Moses' hgdecode takes them."""
    from ..core.files import read_head
    from ..formats.moses.weights import read_weights
    from ..model.model import Model

    if len(paths) == 1 and read_head(paths[0]).lstrip().startswith(b"{"):
        model = Model.load(paths[0])
        if model.trees:
            say(f"warning: {paths[0]}: its weights rank the paths, its {counted(len(model.trees), 'tree')} not", quiet=quiet)
        return model.weights
    return read_weights(paths)


def info(
    store: Annotated[
        str, typer.Argument(metavar="LIST.nbest|GRAPH", help="An imported list, or a search graph.", show_default=False)
    ],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Of first, mean and oracle (default: bleu, or the first quality column).")
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Graphs: the paths nearest to references (-r), by --metric bleu or wer.")
    ] = False,
    ref: Annotated[list[str] | None, typer.Option("-r", "--ref", help="Graphs: references, one sentence a line.")] = None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Show what a list holds: sizes, features, and BLEU or another metric of its first, mean and oracle hypotheses.

    Of search graphs and lattices (a file, or a folder of them): nodes, edges, how many paths, features; with --oracle and
    references, the error rate of the best path and of the nearest one.

    \b
    Example:
      boostfeat info dev.nbest
      boostfeat info asr.nbest --metric wer
    """
    from ..core.errors import InputError
    from ..features.groups import feature_groups
    from ..lists.choices import Scorer, first_choice, mean_score, oracle_choice
    from ..lists.quality import default_metric
    from ..lists.store import read_store
    from ..metrics.metric import shown
    from ..search.graphs.graph_files import is_graph

    if is_graph(store):
        from .graphs import show_graphs

        show_graphs(store, metric=metric, oracle=oracle, refs=ref or [], quiet=quiet, as_json=as_json)
        return
    if ref:
        raise InputError("-r: expected with search graphs only, found a list; its references come with import -r")
    nbest = read_store(store)
    result: dict[str, Any] = _sizes(nbest)
    lines = [[name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)] for name, value in result.items()]
    gains: dict[str, Any] = {"first": None, "mean": None, "oracle": None}
    signature = None
    others = "" if metric or not nbest.has_stats else "; --metric wer, ter, chrf, ... has others"
    if metric is None and (nbest.has_stats or nbest.quality.names):
        metric = default_metric(nbest)
    if metric is not None:
        scorer = Scorer(nbest)
        by = scorer.metric(metric)
        first, nearest = (scorer.score(chosen, by) for chosen in (first_choice(nbest), oracle_choice(nbest, by)))
        gains = {"first": first.score, "mean": mean_score(nbest, by), "oracle": nearest.score}
        signature = first.signature
        lines += [[f"{shown(metric)}, {name}", f"{value:.2f}"] for name, value in gains.items()]
    features = _feature_rows(nbest)
    groups = feature_groups(nbest)
    result |= {**gains, "signature": signature, "features": features, "groups": [vars(g) for g in groups], "meta": nbest.meta}
    if nbest.quality.names:
        result["quality"] = dict(zip(nbest.quality.names, nbest.quality.lower, strict=True))
        lines.append(["quality columns", quality_text(nbest)])
    if metric not in (None, "bleu"):
        result["metric"] = metric
    text = table(lines)
    if signature:
        text += f"\n{signature} (oracle: the best {'BLEU+1' if metric == 'bleu' else shown(str(metric))} of each list{others})"
    if len(nbest.global_names) > MANY or len(nbest.sparse_names):
        text += "\n\n" + group_table(groups)
    elif features:
        rows = [[f["name"], f"{f['mean']:.4g}", f"{f['sd']:.4g}", f"{100 * f['nonzero']:.1f}%"] for f in features]
        text += "\n\n" + table(rows, header=["feature", "mean a hypothesis", "sd", "non-zero"])
    emit(result, text, as_json=as_json)


def convert(
    store: Store,
    output: Annotated[
        str, typer.Option("-o", "--output", help="The file to write; .gz .xz .bz2 .zst compress; '-' is standard output.")
    ] = "-",
    format: Annotated[str, typer.Option("--format", help="moses, moses-enriched or jsonl.")] = "jsonl",
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a store as an n-best list in another format.

    \b
    Example:
      boostfeat convert dev.nbest --format moses -o dev.moses.gz
    """
    from ..core.files import open_output
    from ..formats import write
    from ..lists.store import read_store

    started = time.monotonic()
    nbest = read_store(store)
    say_unwritten(nbest, format, quiet=quiet)
    with open_output(output) as stream:
        write(nbest, stream, format=format)
    if as_json and output != "-":
        emit({**_sizes(nbest), "output": output}, "", as_json=True)
    say_written(
        f"{counted(len(nbest), 'sentence')}, {counted(nbest.n_hyps, 'hypothesis')}, {format}", output, started, quiet=quiet
    )


def rerank(
    store: Store,
    model: ModelFile = None,
    format: Annotated[
        str,
        typer.Option("--format", help="text: the best, one line a sentence; the list, best first: moses, moses-enriched, jsonl."),
    ] = "text",
    output: Annotated[str, typer.Option("-o", "--output", help="'-' is standard output.")] = "-",
    stream: Annotated[
        bool, typer.Option("--stream", help="Answer JSON lines of standard input ('-') one by one, before the next is read.")
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option("--confidence", help="Before each text, the probability that it is better than the decoder's, and a tab."),
    ] = False,
    keep_first: Annotated[
        str,
        typer.Option(
            "--keep-first", help="Keep the decoder's choice below this margin; auto: where that paid on --select of induce."
        ),
    ] = "never",
    allow_missing: AllowMissing = False,
    *,
    files: ResourceFiles,
    quiet: bool,
    as_json: bool,
) -> None:
    """Sort each list by a model's score, or the decoder's own.

    \b
    Example:
      boostfeat rerank test.nbest -m model.json > test.out
      boostfeat rerank test.nbest -m model.json --keep-first auto \\
        --confidence > test.tsv
      decoder --json | boostfeat rerank - --stream -m model.json
    """
    from dataclasses import replace

    import numpy as np

    from ..core.errors import InputError, unknown_name
    from ..core.files import open_output
    from ..lists.choices import best_choice, texts
    from ..lists.store import read_store

    started = time.monotonic()
    formats = ("text", "moses", "moses-enriched", "jsonl")
    if format not in formats:
        raise unknown_name("format", format, formats)
    if as_json and format not in ("text", "jsonl"):
        raise InputError(f"--json: expected --format jsonl or none, found {format}; leave one of them out")
    format = "jsonl" if as_json else format
    if stream:
        if output != "-" or format != "text":
            raise InputError(
                "--stream: expected no -o and no --format, found one of them; answers are JSON lines on standard output"
            )
        _answer(store, model, files, confidence=confidence, keep_first=keep_first, quiet=quiet)
        return
    if model is None:
        refuse_files(files, CARRYING)
    careful = confidence or keep_first != "never"
    if careful and (model is None or format != "text"):
        found = "no model" if model is None else f"--format {format}"
        raise InputError(f"--confidence, --keep-first: expected a model and --format text, found {found}; they are of choices")
    nbest = read_store(store)
    scores = model_scores(nbest, model, store, files, allow_missing=allow_missing, quiet=quiet)
    if format == "text":
        lines: Iterable[str] = texts(nbest, best_choice(nbest, scores))
        if careful:
            lines = _careful(nbest, scores, str(model), confidence=confidence, keep_first=keep_first, quiet=quiet)
        with open_output(output) as out:
            out.write("".join(line + "\n" for line in lines).encode())
    else:
        from ..formats import write

        say_unwritten(nbest, format, quiet=quiet)
        order = np.lexsort((np.arange(len(scores)), -scores, nbest.sent_of_hyp))
        with open_output(output) as out:
            write(replace(nbest.take_hyps(order, nbest.hyp_ptr), score=scores[order]).compact(), out, format=format)
    say_written(f"{counted(len(nbest), 'sentence')} reranked, {format}", output, started, quiet=quiet)


def _careful(nbest: NBest, scores: F64, model: str, *, confidence: bool, keep_first: str, quiet: bool) -> Iterator[str]:
    """The texts that are chosen where decoders' choices may be kept, with their confidence."""
    from ..lists.choices import texts
    from ..model.calibration import Calibration, careful_choice, least_margin
    from ..model.model import Model

    loaded = Model.load(model)
    chosen, margin = careful_choice(nbest, scores, least_margin(loaded.config, keep_first))
    say(f"{int((margin > 0).sum()):,} of {len(nbest):,} choices are not the decoder's", quiet=quiet)
    lines = texts(nbest, chosen)
    if not confidence:
        yield from lines
        return
    for sure, line in zip(Calibration.of(loaded.config).confidence(margin).tolist(), lines, strict=True):
        yield f"{sure:.4f}\t{line}"


def _answer(store: str, model: str | None, files: ResourceFiles, *, confidence: bool, keep_first: str, quiet: bool) -> None:
    """For each list that comes in, {"id", "choice", "text", "scores"}: a line that goes out before the next one is read."""
    import sys

    from ..core.errors import InputError
    from ..features.carried import FeatureMaker, carried
    from ..features.known_words import KnownWords
    from ..features.vocab import FeaturePlan
    from ..formats.jsonl import stream as sentences
    from ..lists.build import ReadOptions
    from ..model.calibration import Calibration, careful_choice, least_margin
    from ..model.model import Model
    from ..rerank.reranker import Reranker

    if store != "-" or model is None:
        found = f"{store} and {'no model' if model is None else 'a model'}"
        raise InputError(f"--stream: expected '-' (standard input) and a model, found {found}; give - and -m MODEL")
    reranker = Reranker(Model.load(model), FeatureMaker(files, say=lambda line: say(line, quiet=quiet)))
    options = ReadOptions(warn=lambda line: say(line, quiet=quiet))
    least = least_margin(reranker.model.config, keep_first)
    calibration = Calibration.of(reranker.model.config) if confidence else None
    words = KnownWords(carried(reranker.model) or FeaturePlan())
    for nbest in sentences(iter(sys.stdin.buffer.readline, b""), options):
        (sent,) = nbest.ids.tolist()
        try:
            scores = reranker.scores(nbest)
            ranked = reranker.ranks(nbest, scores)
        except InputError as error:
            raise InputError(f"stdin: sentence {sent}: {error}") from None
        words.meet(source=nbest.source.to_pylist(), target=nbest.text[:1].to_pylist())
        for doubt in words.doubts():
            say(f"warning: stdin: {doubt}", quiet=quiet)
        chosen, margin = careful_choice(nbest, ranked, least)
        best = int(chosen[0]) if len(scores) else None
        text = None if best is None else nbest.text[best].as_py()
        answer: dict[str, Any] = {"id": sent, "choice": best, "text": text, "scores": scores.tolist()}
        if calibration is not None:
            answer["confidence"] = float(calibration.confidence(margin)[0])
        emit(answer, "", as_json=True)
        sys.stdout.flush()


def score(
    store: Store,
    model: ModelFile = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            help="Any of bleu, bleu-sbp, chrf, chrf++, ter, wer, cer, quality columns, and combinations such as bleu-ter, by "
            "commas (default: bleu,bleu-sbp, and all quality columns).",
        ),
    ] = None,
    allow_missing: AllowMissing = False,
    *,
    files: ResourceFiles,
    quiet: bool,
    as_json: bool,
) -> None:
    """Score the reranked 1-best against the references, or by its quality columns, with 95% bootstrap intervals.

    \b
    Example:
      boostfeat score test.nbest -m model.json --metrics bleu,bleu-sbp,chrf,ter
    """
    from ..lists.choices import Scorer
    from ..lists.store import read_store
    from ..metrics.metric import metrics_of
    from ..metrics.significance import bootstrap_sums, confidence_interval, exact_sums

    if model is None:
        refuse_files(files, CARRYING)
    nbest = read_store(store)
    wanted = metrics_of(metrics if metrics is not None else default_metrics(nbest), nbest)
    chosen = _chosen(nbest, model, store, files, allow_missing=allow_missing, quiet=quiet)
    scorer = Scorer(nbest)
    results: dict[str, dict[str, Any]] = {}
    for metric in wanted:
        found = scorer.score(chosen, metric)
        sums = bootstrap_sums(exact_sums(scorer.rows(chosen, metric)), trials=1000) if len(nbest) else None
        interval = list(confidence_interval(sums, metric)) if sums is not None else None
        results[metric.name] = {"score": found.score, "signature": found.signature, "confidence": interval}
    rows = [[name, f"{r['score']:.2f}", _interval(r["confidence"]), r["signature"]] for name, r in results.items()]
    emit({"metrics": results, "sentences": len(nbest)}, table(rows, right=(1,)), as_json=as_json)


def _chosen(nbest: NBest, model: str | None, store: str, files: ResourceFiles, *, allow_missing: bool, quiet: bool) -> I64:
    """[S] the best of each list. The output of one system leaves no choice: it needs neither scores nor a model."""
    from ..lists.choices import best_choice, first_choice

    if model is None and not nbest.has_scores and (nbest.hyp_ptr[1:] - nbest.hyp_ptr[:-1] <= 1).all():
        return first_choice(nbest)
    return best_choice(nbest, model_scores(nbest, model, store, files, allow_missing=allow_missing, quiet=quiet))


def model_scores(nbest: NBest, model: str | None, store: str, files: ResourceFiles, *, allow_missing: bool, quiet: bool) -> F64:
    """[H] what a model file ranks by, its features computed where the list lacks them; or the decoder's own scores.

    Features that the list lacks and the model does not carry are an error.
    """
    import numpy as np

    from ..core.errors import InputError

    if model is None:
        if not nbest.has_scores:
            found = "none" if np.isnan(nbest.score).all() else "some without"
            raise InputError(
                f"{store}: expected hypotheses with a decoder score, found {found}; give a model with -m ('boostfeat info' "
                "scores the first of each list)"
            )
        return nbest.score
    from ..features.carried import carried
    from ..model.decision import ranks
    from ..model.model import Model, on_trees

    loaded = Model.load(model)
    if not loaded.trees and not any(loaded.weights.values()):
        say(f"warning: {model}: it has no trees, and no weight but 0: the order of the list stays", quiet=quiet)
    if plan := carried(loaded):
        with feature_maker(files, quiet=quiet) as maker:
            say_unused(maker, plan, quiet=quiet)
            lists = maker.runs_for_model(nbest, loaded, where=store)
            check_model(loaded, nbest, store, made=plan.features, allow_missing=allow_missing, quiet=quiet)
            return ranks(loaded.config, nbest, np.concatenate([loaded.decision_function(part) for part in lists]))
    refuse_files(files, CARRYING)
    check_model(loaded, nbest, store, allow_missing=allow_missing, quiet=quiet)
    with progress("scoring", quiet=quiet) as bar:
        token = on_trees.set(lambda done, n: bar.update(done, n, counted(n, "tree")))
        try:
            return ranks(loaded.config, nbest, loaded.decision_function(nbest))
        finally:
            on_trees.reset(token)


def _interval(low_high: list[float] | None) -> str:
    if low_high is None:
        return ""
    return f"{low_high[0]:.1f}{'-' if low_high[0] >= 0 else ' to '}{low_high[1]:.1f}"


def default_metrics(nbest: NBest) -> list[str]:
    """What a list is scored by where nothing is said."""
    from ..lists.quality import default_metric

    default_metric(nbest)  # raises where there is nothing
    return [*(("bleu", "bleu-sbp") if nbest.has_stats else ()), *nbest.quality.names]


def quality_text(nbest: NBest) -> str:
    own = nbest.quality
    return ", ".join(f"{name} (lower is better)" if low else name for name, low in zip(own.names, own.lower, strict=True))


def say_unwritten(nbest: NBest, format: str, *, quiet: bool) -> None:
    """Warn of what a format has no place for."""
    from ..formats import left_out

    if nbest.quality.names and format != "jsonl":
        columns = ", ".join(nbest.quality.names)
        say(f"warning: quality columns are not written ({columns}): {format} has no place for them, jsonl has", quiet=quiet)
    if nbest.tokenizer != "none" and format != "jsonl":
        say(f"warning: import the list again with --tokenize {nbest.tokenizer}: {format} does not say so", quiet=quiet)
    if missing := left_out(nbest, format=format):
        say(f"--format {format} has no place for: {', '.join(missing)}", quiet=quiet)


def group_table(groups: list[Any]) -> str:
    """Features by the template that made them; 'non-zero' is the share of values over all units."""
    rows = [[g.name, g.kind, f"{g.features:,}", f"{g.used:,}", f"{100 * g.nonzero:.3g}%", g.state] for g in groups]
    return table(rows, header=["template", "kind", "features", "in use", "non-zero", "decoder state"], right=(2, 3, 4))


def _sizes(nbest: NBest) -> dict[str, int]:
    return {
        "sentences": len(nbest),
        "hypotheses": nbest.n_hyps,
        "units": nbest.n_occurrences,
        "distinct_units": nbest.n_units,
        "unit_features": len(nbest.unit_names),
        "hypothesis_features": len(nbest.extra_names),
        "sparse_features": len(nbest.sparse_names),
        "references": len(nbest.refs) // max(1, len(nbest)),
    }


def _feature_rows(nbest: NBest) -> list[dict[str, Any]]:
    features = nbest.global_features
    if not len(features):
        return []
    nonzero = (features != 0).mean(axis=0)
    columns = zip(nbest.global_names, features.mean(axis=0), features.std(axis=0), nonzero, strict=True)
    return [{"name": name, "mean": float(m), "sd": float(sd), "nonzero": float(z)} for name, m, sd, z in columns]
