"""Commands on lists: import, info, convert, join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import InputError, counted
from ..core.files import is_folder_name, open_output
from ..core.options import argument, option
from ..features import feature_groups
from ..formats import write
from ..formats.importing import Corpus, PartTold, import_corpus, import_parts, of_table, read_other, read_tokens
from ..formats.moses.ini import read_weights
from ..lists.absent import HELP as ABSENT
from ..lists.absent import WAYS
from ..lists.build import UNITS, ReadOptions
from ..lists.choices import Scorer, first_choice, mean_score, oracle_choice
from ..lists.joining import join_column, join_list, join_tokens
from ..lists.nbest import NBest
from ..lists.pieces import SUBWORDS
from ..lists.quality import default_metric, join_qualities
from ..lists.store import read_store, write_store
from ..lists.tables import name_and_file, read_numbers, split_spec
from ..metrics.metric import figure, shown, tokenizer
from ..model.model import Model
from ..search.graphs.graph_files import is_graph
from ..search.loop.decoders import read_start
from .checked_inputs import LIST, OutputFlags, say_unwritten
from .cluster_flags import ClusterFlags, cluster_of, refuse_cluster
from .console import FILES, Common, file, output_file, table
from .search_commands import MANY, core_names, show_graphs

LINES, TABLES, NEURAL, GRAPHS = (
    "Lists of text lines",
    "Tables (there -s, -r and --quality name columns too)",
    "Lists of neural decoders",
    "Search graphs",
)


@dataclass(frozen=True, kw_only=True)
class QualityFlags(OutputFlags):
    """Flags of commands that give a list quality columns."""

    output: str = output_file("Store to write")
    quality: Sequence[str] = option(
        (), "Quality of each hypothesis, to learn or to measure: a number, or two of a ratio; repeatable", metavar="NAME=FILE"
    )
    lower_is_better: Sequence[str] = option((), "Quality for which lower is better; repeatable", needs="quality", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class ImportFlags(QualityFlags, ClusterFlags):
    """Flags of ``import``."""

    files: Sequence[str] = argument("[FILE]...", "n-best lists or graphs; '-' is standard input", ())
    system: Sequence[str] = file("Output of one system, a line per sentence, instead of lists; repeatable", "NAME=FILE", ())
    ref: Sequence[str] = file("References, one sentence per line; repeatable, or 'ref.*'", default=(), short="r")
    source: str | None = file("Source sentences, one per line", short="s")
    format: str = option("auto", "Format of the lists; auto looks at the content", group=FILES)
    first: int | None = option(None, "Read only the first N sentences", least=1)
    size: int | None = option(None, "Most hypotheses of a sentence; graphs: N best [100]", least=1)
    tokenize: str = option("none", "sacrebleu's tokenizer for metrics: none, 13a, intl, zh, char, ...")
    allow_mismatch: bool = option(False, "Keep differences between totals and sums over units as a feature")
    missing: str | None = option(None, ABSENT, choices=WAYS)
    lines: int | None = option(None, "Lines per source sentence, with --format lines", least=1, short="n", group=LINES)
    counts: str | None = option(
        None, "File with the number of lines of each source sentence", metavar="FILE", group=LINES, without="engine=dask"
    )
    scores: Sequence[str] = option(
        (), "File (or NAME=FILE) of one score per line; repeatable", metavar="FILE", group=LINES, without="engine=dask"
    )
    group: str | None = option(None, "Column that names the list of a hypothesis", metavar="COLUMN", group=TABLES)
    text: str | None = option(None, "Column of the hypotheses' texts", needs="group", metavar="COLUMN", group=TABLES)
    features: str | None = option(None, "Columns of features", needs="group", metavar="A,B,...", group=TABLES)
    subwords: str = option(
        "auto", "Join pieces of words: spm (▁), bpe (@@), wordpiece (##), bytelevel (Ġ), none", choices=SUBWORDS, group=NEURAL
    )
    units: str = option("word", "Units: words, or tokens as the model scored them", choices=UNITS, group=NEURAL)
    distinct: bool = option(True, "Count distinct strings, or derivations", flag="distinct/derivations", group=GRAPHS)
    weights: Sequence[str] = file(
        "Weights that rank paths: a model file, or files of 'Name= value' lines; repeatable", default=(), group=GRAPHS
    )
    names: str | None = option(None, "osgx: names of core=(...), or a moses.ini", metavar="A,B,...", group=GRAPHS)


def import_(o: ImportFlags) -> None:
    """Read n-best lists or search graphs of any decoder into a store.

    Several FILEs, or a folder, are one corpus: parts of one list if their sentence ids follow on, else lists
    of the same sentences, which are merged without duplicates. -o DEV.nbest/ reads parts side by side into a
    folder, which every command takes as a file.

    A table (Parquet, Feather, CSV, TSV, JSON; one row per hypothesis) needs --group. A feature called score
    is the decoder's.

    Features keep the decoder's names. Lists of neural decoders also get its score (DecoderScore) and counts
    of Words and Pieces. A word has the sum (NAME), NAME.min, NAME.first and NAME.mean of its pieces' log-
    probabilities; the unit </s> ends a sentence.

    \b
    Example:
      boostfeat import dev.nbest.gz -s dev.fi -r dev.en -o dev.nbest
      boostfeat import dev.nbest.gz -r dev.en --tokenize 13a \\
        --quality comet=dev.comet.json -o dev.nbest
      boostfeat import answers.parquet --group prompt --text answer \\
        --features lp,length --quality reward -o answers.nbest
    """
    tokenizer(o.tokenize)  # raises where there is none of this name
    named = ("size", "subwords", "units", "counts", "distinct", "allow_mismatch", "threads")
    how: dict[str, Any] = {name: getattr(o, name) for name in named}
    weights = _graph_weights(o, list(o.weights)) if o.weights else None
    corpus = Corpus(o.files, o.ref, o.source, o.format, o.first, o.system, o.tokenize, o.missing)
    corpus, columns, of_files = of_table(corpus, o.group, o.text, o.features or (), o.quality)
    how |= {"weights": weights, "names": core_names(o.names), "columns": columns}
    options = ReadOptions(n=o.lines, scores=tuple(o.scores), warn=o.say, **how)
    with o.reading("importing"):
        if is_folder_name(o.output):
            if of_files:
                raise InputError(
                    f"--quality {of_files[0]}: it is of all parts together; import without it, and 'boostfeat join' it"
                )
            with cluster_of(o) as cluster:
                parts = import_parts(corpus, options, o.output, list(o.lower_is_better), cluster)
            _tell_parts(o, parts)
            return
        refuse_cluster(o, o.output)
        nbest = join_qualities(import_corpus(corpus, options), of_files, list(o.lower_is_better))
    write_store(nbest, o.output)
    sparse = f" and {len(nbest.sparse_names):,} sparse" if len(nbest.sparse_names) else ""
    units = f"{counted(nbest.n_occurrences, 'unit')} ({nbest.n_units:,} distinct)"
    features = f"{counted(len(nbest.global_names), 'feature')}{sparse}"
    what = f"{counted(len(nbest), 'sentence')}, {counted(nbest.n_hyps, 'hypothesis')}, {units}, {features}"
    o.finish(what, o.output, **sizes(nbest))


def _tell_parts(o: ImportFlags, parts: Sequence[PartTold]) -> None:
    """Say how large the parts of a list are together; what is distinct in all of them is not counted."""
    sentences, hypotheses, units = map(sum, zip(*(part.sizes for part in parts), strict=True))
    what = f"{counted(sentences, 'sentence')}, {counted(hypotheses, 'hypothesis')}, {counted(units, 'unit')}"
    about = {"parts": len(parts), "sentences": sentences, "hypotheses": hypotheses, "units": units}
    o.finish(f"{what} in {counted(len(parts), 'part')}", o.output, **about)


def _graph_weights(o: Common, paths: list[str]) -> Mapping[str, float]:
    """Return weights of a model file or an ini, or of text files as Moses' hgdecode takes them."""
    model = Model(read_weights(paths)) if paths[1:] else read_start(paths[0])
    if model.trees:
        o.warn(f"{paths[0]}: its weights rank the paths, its {counted(len(model.trees), 'tree')} not")
    return model.weights


@dataclass(frozen=True, kw_only=True)
class InfoFlags(Common):
    """Flags of ``info``."""

    store: str = argument("LIST.nbest|GRAPH", "Imported list, or a search graph")
    metric: str | None = option(None, "Metric of first, mean and oracle (default: bleu, or the first quality column)")


def info(o: InfoFlags) -> None:
    """Show what a list holds: sizes, features, and BLEU or another metric of its first, mean and oracle hypotheses.

    Of search graphs and lattices (a file, or a folder of them): nodes, edges, how many paths, features ('boostfeat rescore
    --oracle' scores the best path and the nearest one).

    \b
    Example:
      boostfeat info dev.nbest
      boostfeat info asr.nbest --metric wer
    """
    if is_graph(o.store):
        if o.metric:
            raise InputError(f"--metric: it is for lists, and {o.store} is a search graph; 'boostfeat rescore -r REF' scores it")
        show_graphs(o, o.store)
        return
    nbest = read_store(o.store)
    result: dict[str, Any] = sizes(nbest)
    lines = [[name.replace("_", " "), f"{value:,}"] for name, value in result.items()]
    metric = o.metric or (default_metric(nbest) if nbest.has_stats or nbest.quality.names else None)
    gains, signature = _ends(nbest, metric)
    lines += [[f"{shown(str(metric))}, {name}", figure(metric, value)] for name, value in gains.items() if metric is not None]
    features, groups = _feature_rows(nbest), feature_groups(nbest)
    result |= {**gains, "signature": signature, "features": features, "groups": [vars(g) for g in groups], "meta": nbest.meta}
    if nbest.quality.names:
        result["quality"] = dict(zip(nbest.quality.names, nbest.quality.lower, strict=True))
        columns = (f"{name} (lower is better)" if low else name for name, low in result["quality"].items())
        lines.append(["quality columns", ", ".join(columns)])
    if metric not in (None, "bleu"):
        result["metric"] = metric
    text = table(lines)
    if signature:
        others = "" if o.metric or not nbest.has_stats else "; --metric wer, ter, chrf, ... has others"
        text += f"\n{signature} (oracle: the best {'BLEU+1' if metric == 'bleu' else shown(str(metric))} of each list{others})"
    if len(nbest.global_names) > MANY or len(nbest.sparse_names):
        text += "\n\n" + group_table(groups)
    elif features:
        rows = [[f["name"], f"{f['mean']:.4g}", f"{f['sd']:.4g}", f"{100 * f['nonzero']:.1f}%"] for f in features]
        text += "\n\n" + table(rows, header=["feature", "mean a hypothesis", "sd", "non-zero"])
    o.emit(result, text)


def _ends(nbest: NBest, metric: str | None) -> tuple[dict[str, float | None], str | None]:
    """Return the metric of the first, the mean and the oracle hypotheses, and its signature."""
    if metric is None:
        return {"first": None, "mean": None, "oracle": None}, None
    scorer = Scorer(nbest)
    by = scorer.metric(metric)
    first, nearest = (scorer.score(chosen, by) for chosen in (first_choice(nbest), oracle_choice(nbest, by)))
    return {"first": first.score, "mean": mean_score(nbest, by), "oracle": nearest.score}, first.signature


@dataclass(frozen=True, kw_only=True)
class ConvertFlags(OutputFlags):
    """Flags of ``convert``."""

    store: str = argument(*LIST)
    output: str = output_file("The file to write; .gz .xz .bz2 .zst compress; '-' is standard output", default="-")
    format: str = option("jsonl", "Output format: jsonl, moses or moses-enriched")


def convert(o: ConvertFlags) -> None:
    """Write a store as an n-best list in another format.

    \b
    Example:
      boostfeat convert dev.nbest --format moses -o dev.moses.gz
    """
    nbest = read_store(o.store)
    say_unwritten(o, nbest, o.format)
    with open_output(o.output) as stream:
        write(nbest, stream, format=o.format)
    what = f"{counted(len(nbest), 'sentence')}, {counted(nbest.n_hyps, 'hypothesis')}, {o.format}"
    o.finish(what, o.output, **sizes(nbest))


@dataclass(frozen=True, kw_only=True)
class JoinFlags(QualityFlags):
    """Flags of ``join``."""

    store: str = argument(*LIST)
    column: Sequence[str] = option(
        (), "One number per hypothesis, in order: text, TSV with a header (NAME=FILE:COLUMN) or JSON", metavar="NAME=FILE"
    )
    tokens: Sequence[str] = option(
        (), "Numbers per token: one line per hypothesis, or JSON lines with tokens and logprobs", metavar="NAME=FILE"
    )
    nbest: Sequence[str] = option(
        (), "Another list of the same texts; its scores and features are prefixed by NAME", metavar="NAME=LIST"
    )


def join(o: JoinFlags) -> None:
    """Put other models' scores beside those of a list, as features of hypotheses or of their words, or as their quality.

    Options may be repeated. Tokens in other pieces than the list's words are matched by their characters.

    \b
    Example:
      boostfeat join dev.nbest --column lm=dev.lm.txt \\
        --nbest r2l=dev.r2l.marian -o dev.lm.nbest
      boostfeat join dev.nbest --quality comet=dev.comet.json -o dev.comet.nbest
    """
    work: list[tuple[Callable[..., NBest], Callable[..., Any], Sequence[str]]] = [
        (join_column, read_numbers, o.column),
        (join_tokens, read_tokens, o.tokens),
        (join_list, lambda path: read_other(path, threads=o.threads, warn=o.say), o.nbest),
    ]
    if not any((o.column, o.tokens, o.nbest, o.quality)):
        raise InputError("join: expected something to join, found nothing; give --column, --tokens, --nbest or --quality")
    lists = read_store(o.store)
    before = lists.global_names
    with o.reading("joining"):
        for put, read, specs in work:
            for name, spec in (name_and_file(repr(spec), spec) for spec in specs):
                lists = put(lists, name, read(spec), split_spec(spec)[0])
    lists = join_qualities(lists, list(o.quality), list(o.lower_is_better))
    write_store(lists, o.output)
    joined = [name for name in lists.global_names if name not in before]
    result = {"features": len(lists.global_names), "joined": joined, "quality": list(lists.quality.names)}
    what = f"{counted(lists.n_hyps, 'hypothesis')}, {counted(len(before), 'feature')} and {len(joined)} more"
    o.finish(what, o.output, hypotheses=lists.n_hyps, **result)


def group_table(groups: list[Any]) -> str:
    """Return a table of features by the template that made them; 'non-zero' is the share of values over all units."""
    rows = [[g.name, g.kind, f"{g.features:,}", f"{g.used:,}", f"{100 * g.nonzero:.3g}%", g.state] for g in groups]
    return table(rows, header=["template", "kind", "features", "in use", "non-zero", "decoder state"], right=(2, 3, 4))


def sizes(nbest: NBest) -> dict[str, int]:
    """Return what there is how often in a list."""
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
