"""The command decode: translate with the reference decoder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.machine import seconds_since
from ..core.options import comma_list
from ..features.options import TemplateFiles
from ..search.decoder.search_options import SearchOptions
from .carried import decoder_maker, refuse_files
from .common import emit, progress, reading, say, say_scores_alone
from .flags import Given, add

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..search.decoder.decoder import Decoded


def register(app: typer.Typer) -> None:
    add(app, decode)


def decode(
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="Sentences, one a line; '-' is standard input.", show_default=False)
    ],
    *,
    phrase_table: Annotated[str | None, typer.Option("--phrase-table", help="Moses' text format.")] = None,
    lm: Annotated[str | None, typer.Option("--lm", help="An ARPA language model.")] = None,
    reordering_table: Annotated[str | None, typer.Option("--reordering-table", help="Of type msd-bidirectional-fe.")] = None,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="A model file: weights, templates, trees of level local.")
    ] = None,
    ini: Annotated[
        str | None,
        typer.Option("--ini", help="A moses.ini: files, weights, distortion limit; what is given besides overrides it."),
    ] = None,
    nbest: Annotated[int, typer.Option("--nbest", "--size", min=1, help="Translations a sentence in --nbest-output.")] = 100,
    nbest_output: Annotated[str | None, typer.Option("--nbest-output", help="Moses' list with scores of every phrase.")] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct/--derivations", " /--no-distinct", help="n-best: strings, or derivations.")
    ] = True,
    search_graph: Annotated[str | None, typer.Option("--search-graph", help="Moses' osgx format.")] = None,
    extra: Annotated[
        str | None, typer.Option("--extra", help="Features to list besides the model's: any of count.log,count.0,count.1,len.*.")
    ] = None,
    given: Annotated[Mapping[str, Any], Given(SearchOptions)],
    files: TemplateFiles,
    output: Annotated[str, typer.Option("-o", "--output", help="The best translations; '-' is standard output.")] = "-",
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Translate with phrase-based beam search; a model's trees and templates are scored inside search.

    \b
    Example:
      boostfeat decode test.fi --phrase-table pt.gz --reordering-table rt.gz \\
        --lm lm.arpa.gz -m model.json > test.en
      boostfeat decode test.fi --ini moses.ini --nbest 200 \\
        --nbest-output test.nbest.gz -o test.en
    """
    import contextlib

    from ..core.errors import InputError
    from ..core.files import is_writable_target, open_output, read_lines
    from ..core.text import split_words
    from ..features.carried import carried
    from ..features.known_words import doubts_about
    from ..model.model import Model
    from ..search.decoder.decoder import Decoder
    from ..search.decoder.output import check_bars, graph_names, write_nbest, write_search_graph
    from ..search.decoder.setup import Setup, read_setup
    from ..search.decoder.system import System

    if model is None and ini is None:
        raise InputError("weights: expected -m MODEL or --ini FILE, found neither; give one")
    outputs = [output, *(path for path in (nbest_output, search_graph) if path is not None)]
    if outputs.count("-") > 1 or (as_json and "-" in outputs[1:]):
        raise InputError("'-': expected one output on standard output, found more; name files")
    for path in outputs:
        is_writable_target(path)
    said = read_setup(ini) if ini else Setup({})
    weights = Model.load(model) if model else Model(said.weights)
    tables = said.tables(phrase_table=phrase_table, lm=lm, reordering_table=reordering_table)
    phrase_table, lm = tables["phrase_table"], tables["lm"]
    if phrase_table is None or lm is None:
        missing = "--phrase-table" if phrase_table is None else "--lm"
        raise InputError(f"{missing}: expected a file, here or in the --ini, found none; give it")
    limit = {} if said.distortion_limit is None else {"distortion_limit": said.distortion_limit}
    options = SearchOptions(**{**limit, **given})
    sentences = [line for _, line in read_lines(source)]
    if nbest_output or search_graph:  # told now, not after hours
        for number, sentence in enumerate(sentences, 1):
            check_bars(split_words(sentence), f"{source}:{number}")
    with reading("loading", quiet=quiet):
        system = System.load(phrase_table=phrase_table, lm=lm, reordering_table=tables["reordering_table"], only=sentences)
    if not model:
        said.check(system.names, str(ini))
    extras = comma_list(extra)
    unknown_weight = 0.0 if model else 1.0  # an ini means what Moses makes of it
    maker = decoder_maker(files, phrase_table, seed=0, threads=threads, quiet=quiet)
    if (plan := carried(weights)) is None:
        refuse_files(files, "a model that carries templates")
    else:
        maker.check(plan)
        for doubt in doubts_about(plan, source=sentences):
            say(f"warning: {source}: {doubt}", quiet=quiet)
    say_scores_alone(weights, "search", quiet=quiet)
    decoder = Decoder(system, weights, options, extras, unknown_weight, maker)
    translations: list[str] = []  # where they go into the JSON
    started, n_words = time.monotonic(), sum(len(split_words(sentence)) for sentence in sentences)
    with contextlib.ExitStack() as streams, progress("decoding", quiet=quiet) as bar:
        texts = streams.enter_context(open_output(output)) if not as_json or output != "-" else None
        graphs = streams.enter_context(open_output(search_graph)) if search_graph else None
        lists = streams.enter_context(open_output(nbest_output)) if nbest_output else None

        def results() -> Iterator[Decoded]:
            for sent, result in enumerate(decoder.decode_all(sentences, threads)):
                if texts:
                    texts.write(f"{result.best.text}\n".encode())
                else:
                    translations.append(result.best.text)
                if graphs:
                    write_search_graph(graphs, result, sent)
                bar.update(sent + 1, len(sentences))
                yield result

        if lists:
            write_nbest(lists, results(), nbest, distinct=distinct)
        else:
            for _ in results():
                pass
    seconds = seconds_since(started)
    if as_json:
        summary: dict[str, Any] = {"sentences": len(sentences), "words": n_words, "seconds": seconds, "output": output}
        if output == "-":
            summary["translations"] = translations
        emit({**summary, "features": decoder.names, "graph_features": graph_names(decoder.names)}, "", as_json=True)
    names = f"; the values of {search_graph} are named by --names {ini or ','.join(graph_names(decoder.names))}"
    written = ", ".join(path for path in outputs if path != "-")
    wrote = f" -> {written}" if written else ""
    say(
        f"{counted(len(sentences), 'sentence')}, {counted(n_words, 'word')}{wrote} in {seconds:.1f} "
        f"s{names if search_graph else ''}",
        quiet=quiet,
    )
