"""Commands on whole searches: decode with the reference decoder, rescore search graphs; graphs in ``info``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ..core.errors import InputError, counted
from ..core.files import open_output, read_lines
from ..core.options import argument, comma_list, methods, option
from ..core.processes import seconds_since
from ..core.text import split_words
from ..features import FeaturePlan
from ..features.feature_maker import plan_of
from ..features.known_words import doubts_about
from ..features.resources import TemplateFiles
from ..formats import COUNTED, write
from ..formats.importing import expand
from ..formats.moses.ini import Ini, read_weights
from ..lists.agreement import lacking
from ..lists.build import ReadOptions, attach
from ..lists.choices import Score, Scorer, first_choice, oracle_choice, texts
from ..lists.nbest import NBest
from ..metrics.metric import shown
from ..model.model import Model
from ..search.decoder.decoder import Decoded, Decoder
from ..search.decoder.output import check_bars, graph_names, write_nbest, write_search_graph
from ..search.decoder.setup import SearchOptions, decoder_setup
from ..search.decoder.system import PhraseSystem
from ..search.graphs.graph import summarise
from ..search.graphs.graph_files import read_graphs
from ..search.graphs.oracle_path import SIZE, corpus_oracle, edit_oracle_lists, oracle_paths
from ..search.graphs.rescoring import EdgeScorer, kbest_lists
from . import checked_inputs as inputs
from .console import FILES, Common, file, model_file, output_file, table

DECODER = "Decoder"
MANY = 40  # features: info shows more than these by group
FORMATS = ("text", "moses", "moses-enriched", "jsonl")


def core_names(names: str | None) -> tuple[str, ...] | None:
    """Return the names of the values of an osgx: a list with commas, or an ini, which has them in the order of the values."""
    if names is None or "," in names or not os.path.isfile(names):
        return None if names is None else comma_list(names)
    return tuple(Ini.read(names).score_names())


# ---------------------------------------------------------------------------------------------------------------------
# decode
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DecodeFlags(inputs.OutputFlags):
    """Flags of ``decode``."""

    source: str = argument("INPUT", "Sentences, one per line; '-' is standard input")
    model: str | None = model_file("Model file with weights, templates, trees of level local")
    ini: str | None = file("A moses.ini with files, weights, distortion limit; flags override it")
    output: str = output_file("File for the best translations; '-' is standard output", default="-")
    allow_edited: bool = option(False, "Accept a model that was edited", group=FILES, needs="model")
    phrase_table: str | None = file("Phrase table in Moses' text format", group=DECODER)
    lm: str | None = file("Language model in ARPA format", group=DECODER)
    reordering_table: str | None = file("Reordering table of type msd-bidirectional-fe", group=DECODER)
    nbest_output: str | None = file("Write an n-best list with scores of every phrase")
    nbest: int = option(100, "Translations per sentence in --nbest-output", least=1, needs="nbest_output")
    distinct: bool = option(True, "Count distinct strings, or derivations", flag="distinct/derivations", needs="nbest_output")
    search_graph: str | None = file("Write search graphs in Moses' osgx format")
    extra: tuple[str, ...] = option((), "Features to list besides the model's: any of count.log,count.0,count.1,len.*")
    search: Mapping[str, Any] = methods({"search": SearchOptions})
    files: TemplateFiles = field(default_factory=TemplateFiles)

    def check_outputs(self) -> list[str]:
        """Return the files to write; raise where two are standard output."""
        outputs = [self.output, *(path for path in (self.nbest_output, self.search_graph) if path is not None)]
        if outputs.count("-") > 1 or (self.as_json and "-" in outputs[1:]):
            raise InputError("'-': expected one output on standard output, found more; name files")
        return outputs


def decode(o: DecodeFlags) -> None:
    """Translate with phrase-based beam search; a model's trees and templates are scored inside search.

    \b
    Example:
      boostfeat decode test.fi --phrase-table pt.gz --reordering-table rt.gz \\
        --lm lm.arpa.gz -m model.json > test.en
      boostfeat decode test.fi --ini moses.ini --nbest 200 \\
        --nbest-output test.nbest.gz -o test.en
    """
    if o.model is None and o.ini is None:
        raise InputError("weights: expected -m MODEL or --ini FILE, found neither; give one")
    SearchOptions(**o.search)  # raises for a number out of range, before anything is read
    outputs = o.check_outputs()
    sentences = [line for _, line in read_lines(o.source)]
    if o.nbest_output or o.search_graph:  # told now, not after hours
        for number, sentence in enumerate(sentences, 1):
            check_bars(split_words(sentence), f"{o.source}:{number}")
    decoder = _decoder(o, sentences)
    started, n_words = time.monotonic(), sum(len(split_words(sentence)) for sentence in sentences)
    translations = _translate(o, decoder, sentences)
    seconds = seconds_since(started)
    if o.as_json:
        summary: dict[str, Any] = {"sentences": len(sentences), "words": n_words, "seconds": seconds, "output": o.output}
        if o.output == "-":
            summary["translations"] = translations
        o.emit({**summary, "features": decoder.names, "graph_features": graph_names(decoder.names)})
    names = f"; the values of {o.search_graph} are named by --names {o.ini or ','.join(graph_names(decoder.names))}"
    written = ", ".join(path for path in outputs if path != "-")
    o.say(
        f"{counted(len(sentences), 'sentence')}, {counted(n_words, 'word')}{f' -> {written}' if written else ''} in "
        f"{seconds:.1f} s{names if o.search_graph else ''}"
    )


def _decoder(o: DecodeFlags, sentences: list[str]) -> Decoder:
    """Return the decoder with its tables, as far as the sentences need them."""
    given = {"phrase_table": o.phrase_table, "lm": o.lm, "reordering_table": o.reordering_table}
    said, tables, options = decoder_setup(o.ini, o.search, **given)
    weights = Model.load(o.model) if o.model else Model(said.weights)
    with o.reading("loading"):
        system = PhraseSystem.load(**tables, only=sentences)
    if not o.model:
        said.check(system.names, str(o.ini))
    maker = inputs.decoder_maker(o, o.files, tables["phrase_table"])
    if (plan := plan_of(weights)) is None:
        inputs.refuse_files(o.files, inputs.CARRYING)
    else:
        maker.check(plan)
        for doubt in doubts_about(plan, source=sentences):
            o.warn(f"{o.source}: {doubt}")
    inputs.say_scores_alone(o, weights, "search")
    unknown_weight = 0.0 if o.model else 1.0  # an ini means what Moses makes of it
    return Decoder(system, weights, options, o.extra, unknown_weight, maker)


def _translate(o: DecodeFlags, decoder: Decoder, sentences: list[str]) -> list[str]:
    """Write translations, lists and graphs; return the translations where they go into the JSON."""
    translations: list[str] = []
    with contextlib.ExitStack() as streams, o.progress("decoding") as bar:
        out = streams.enter_context(open_output(o.output)) if not o.as_json or o.output != "-" else None
        graphs = streams.enter_context(open_output(o.search_graph)) if o.search_graph else None
        lists = streams.enter_context(open_output(o.nbest_output)) if o.nbest_output else None

        def results() -> Iterator[Decoded]:
            for sent, result in enumerate(decoder.decode_all(sentences, o.threads)):
                if out:
                    out.write(f"{result.best.text}\n".encode())
                else:
                    translations.append(result.best.text)
                if graphs:
                    write_search_graph(graphs, result, sent)
                bar.update(sent + 1, len(sentences))
                yield result

        if lists:
            write_nbest(lists, results(), o.nbest, distinct=o.distinct)
        else:
            for _ in results():
                pass
    return translations


# ---------------------------------------------------------------------------------------------------------------------
# rescore
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RescoreFlags(inputs.ListFlags, inputs.OutputFlags):
    """Flags of ``rescore``."""

    graphs: Sequence[str] = argument(
        "GRAPH...", "osgx files, Moses hypergraphs, cdec forests, lattices (PLF, HTK SLF), or folders of them"
    )
    model: str | None = model_file("A model file; without it, the decoder's own scores (osgx, lattices)")
    weights: Sequence[str] = file(
        "File of 'Name= value' or 'name value' lines, instead of -m; repeatable", default=(), without="model"
    )
    nbest: int = option(1, "Number of best paths of each graph", least=1)
    distinct: bool = option(True, "Count distinct strings, or derivations", flag="distinct/derivations")
    format: str | None = option(
        None, "text (the best, a line a graph), moses, moses-enriched or jsonl; default: text, moses for a list", choices=FORMATS
    )
    output: str = output_file("File to write; '-' is standard output", default="-")
    source: str | None = file("Source sentences, one per line", short="s")
    ref: Sequence[str] = file("References, one sentence per line; repeatable", default=(), short="r")
    oracle: bool = option(False, "Find the paths nearest to the references (BLEU approximately, WER exactly)", needs="ref")
    metric: str | None = option(
        None, "Metric of --oracle: bleu, or wer (default for speech lattices)", choices=("bleu", "wer"), needs="ref"
    )
    names: str | None = option(None, "osgx: names of the values in core=(...), or a moses.ini", metavar="A,B,...")
    plan: str | None = option(
        None, "Plan of featurize, to compute the model's template features on edges", metavar="FILE", needs=("model", "weights")
    )
    graph_format: str = option("auto", "Format of the graphs; auto looks at the content")
    allow_edited: bool = option(False, "Accept a model that was edited", group=FILES, needs="model")

    @property
    def written(self) -> str:
        """The format that is written."""
        is_text = self.oracle or (self.nbest == 1 and not self.as_json)
        return self.format or ("text" if is_text else "jsonl" if self.as_json else "moses")

    def check_together(self) -> None:
        """Raise for flags that do not go together, before anything is read."""
        if self.written == "text" and self.nbest > 1 and not self.oracle:
            raise InputError(
                f"--format text: expected --nbest 1, found {self.nbest}; choose moses, moses-enriched or jsonl for a list"
            )
        if [*self.graphs, self.source, *self.ref].count("-") > 1:
            raise InputError("'-': expected one input from standard input, found more; name files")


def rescore(o: RescoreFlags) -> None:
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
    o.check_together()
    sentences = [line for _, line in read_lines(o.source)] if o.source else None
    model = Model.load(o.model) if o.model else Model(read_weights(list(o.weights))) if o.weights else None
    plan = FeaturePlan.load(o.plan) if o.plan else plan_of(model) if model else None
    for doubt in doubts_about(plan, source=sentences or ()):
        o.warn(f"{o.source}: {doubt}")
    if model:
        inputs.say_scores_alone(o, model, "a path")
    scorer = EdgeScorer(model, plan=plan, source=sentences)
    with o.reading("rescoring"):
        by, lists, scores = _paths(o, scorer, sentences)
    missing = scorer.missing()
    seen = scorer.seen | (plan.features if plan else set())
    wrong = lacking(missing, lists, seen=seen) if o.model else ()  # files of weights are of all that a decoder may have
    fix = "name the values of an osgx with --names, or those that featurize made with --plan"
    inputs.check_missing(o, ", ".join(o.graphs), missing, wrong, fix=fix)
    result: dict[str, Any] = {
        "sentences": len(lists),
        "hypotheses": lists.n_hyps,
        by: {name: {"score": s.score, "signature": s.signature} for name, s in scores.items()},
        "seconds": o.seconds,
        "missing": missing,
    }
    _write_paths(o, lists, result)
    for name, score in scores.items():
        o.say(f"{shown(by)} of the {name}: {score.score:.2f} ({score.signature})")
    o.say_written(f"{counted(len(lists), 'sentence')}, {counted(lists.n_hyps, 'path')}, {o.written}", o.output)


def _paths(o: RescoreFlags, scorer: EdgeScorer, sentences: list[str] | None) -> tuple[str, NBest, dict[str, Score]]:
    """Return the metric, the best paths of all graphs, or those nearest to the references, and their scores."""
    references = [[line for _, line in read_lines(path)] for path in expand(list(o.ref))]
    read = ReadOptions(names=core_names(o.names), warn=o.say)
    items = read_graphs(list(o.graphs), read, format=o.graph_format)
    first = next(items, None)
    items = items if first is None else chain([first], items)
    by = o.metric or ("wer" if first is not None and first.format in COUNTED else "bleu")
    if o.oracle and by == "wer":
        return by, *edit_oracle_lists(items, scorer, references, source=sentences, threads=o.threads)
    if o.oracle:
        size = o.nbest if o.nbest > 1 else SIZE
        return by, *oracle_paths(items, scorer, references, size=size, source=sentences, threads=o.threads)
    options = ReadOptions(size=o.nbest, distinct=o.distinct, source=sentences, threads=o.threads)
    lists = kbest_lists(items, scorer, options)
    lists = attach(lists, source=sentences, refs=references, name=", ".join(o.graphs), threads=o.threads)
    if not lists.has_stats:
        return by, lists, {}
    of_lists = Scorer(lists)
    scores = {"best path": of_lists.score(first_choice(lists), by)}
    if o.nbest > 1:
        chosen = oracle_choice(lists, of_lists.metric(by))
        chosen = corpus_oracle(lists, chosen) if by == "bleu" else chosen
        scores[f"oracle of the {o.nbest}-best"] = of_lists.score(chosen, by)
    return by, lists, scores


def _write_paths(o: RescoreFlags, lists: NBest, result: dict[str, Any]) -> None:
    """Write the paths, and the result where it is wanted as JSON."""
    if o.as_json and o.oracle and o.output == "-":
        o.emit({**result, "text": texts(lists, first_choice(lists))})
        return
    with open_output(o.output) as stream:
        if o.written == "text":
            stream.write("".join(text + "\n" for text in texts(lists, first_choice(lists))).encode())
        else:
            inputs.say_unwritten(o, lists, o.written)
            write(lists, stream, format=o.written)
    o.emit_json({**result, "output": o.output})


# ---------------------------------------------------------------------------------------------------------------------
# Graphs in info
# ---------------------------------------------------------------------------------------------------------------------


def show_graphs(o: Common, path: str) -> None:
    """Print what search graphs hold."""
    with o.reading("reading"):
        found = summarise(item.graph for item in read_graphs([path], ReadOptions(warn=o.say)))
    features = found["features"]
    lines = [[name, f"{found[name]:,}"] for name in ("sentences", "nodes", "edges")]
    for name, what in (("edges a sentence", "edges_per_sentence"), ("log10 of paths", "log10_paths")):
        lines += [[f"{name}, {k}", f"{v:,}" if isinstance(v, int) else f"{v:,.1f}"] for k, v in found[what].items()]
    lines += [
        ["features", f"{len(features):,}"],
        ["decoder's scores", "yes" if found["scores"] else "no: give weights to search"],
    ]
    most = sorted(features, key=lambda f: -f["nonzero"])[:MANY]
    rows = [[f["name"], f"{f['mean']:.4g}", f"{100 * f['nonzero']:.1f}%"] for f in features if f in most]
    more = f"\n... and {len(features) - MANY:,} more" if len(features) > MANY else ""
    o.emit(found, table(lines) + "\n\n" + table(rows, header=["feature", "mean an edge", "non-zero"]) + more)
