"""The command that decodes between epochs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.text_table import table
from .common import ALL_CORES, AsJson, Quiet, Seed, Threads, emit, progress, say

if TYPE_CHECKING:
    from ..loop import Corpus, Decoder
    from ..loop.reference import ReferenceDecoder
    from ..model.model import Model


def register(app: typer.Typer) -> None:
    app.command()(loop)


def loop(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Sentences to decode, one a line.", show_default=False)],
    ref: Annotated[list[str], typer.Option("-r", "--ref", help="References; repeat for more than one.", show_default=False)],
    output: Annotated[str, typer.Option("-o", "--output", help="A folder for all iterations.", show_default=False)],
    method: Annotated[str, typer.Option("--method", help="A tuner (see 'boostfeat tune') or induce.")] = "pro",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: an option of the method, as epochs=20; repeatable.")
    ] = None,
    online: Annotated[
        str | None, typer.Option("--online", help="mira or adagrad: learn from each sentence as it is decoded.")
    ] = None,
    recipe: Annotated[
        str, typer.Option("--recipe", help="induce: fast, default or paper; search pays for every tree, so fast has few.")
    ] = "fast",
    reweigh: Annotated[
        bool, typer.Option("--reweigh/--no-reweigh", help="induce: fit all weights anew before trees are added.")
    ] = True,
    groups: Annotated[str | None, typer.Option("--groups", help="A TOML file that freezes or scales weights.")] = None,
    init: Annotated[
        str | None, typer.Option("--init", help="Weights to start from: a model, an ini, or 'name value' lines; default: --ini.")
    ] = None,
    select_input: Annotated[str | None, typer.Option("--select-input", help="Held-out sentences, decoded as well.")] = None,
    select_ref: Annotated[list[str] | None, typer.Option("--select-ref", help="Their references; repeatable.")] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            help="A command with places {weights} (or {ini}, {model}), {input}, {nbest}, {size}, {iteration}, {seed}; run "
            "without a shell. Default: the reference decoder.",
        ),
    ] = None,
    weights_format: Annotated[str, typer.Option("--weights-format", help="Of {weights}: moses, cdec or name-value.")] = "moses",
    ini: Annotated[str | None, typer.Option("--ini", help="A moses.ini: its [weight] section is replaced.")] = None,
    format: Annotated[str, typer.Option("--format", help="Of the command's list; auto looks at the content.")] = "auto",
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds a decoding may take.")] = None,
    phrase_table: Annotated[str | None, typer.Option("--phrase-table", help="Reference decoder: a Moses phrase table.")] = None,
    lm: Annotated[str | None, typer.Option("--lm", help="Reference decoder: an ARPA file.")] = None,
    reordering_table: Annotated[str | None, typer.Option("--reordering-table", help="Reference decoder: an msd table.")] = None,
    stack: Annotated[int | None, typer.Option("--stack", min=0, help="Reference decoder: hypotheses a stack.")] = None,
    beam: Annotated[float | None, typer.Option("--beam", min=0, help="Reference decoder: threshold of a stack.")] = None,
    table_limit: Annotated[int | None, typer.Option("--table-limit", min=0, help="Reference decoder: options a phrase.")] = None,
    distortion_limit: Annotated[int | None, typer.Option("--distortion-limit", help="Reference decoder: longest jump.")] = None,
    extra: Annotated[
        str | None, typer.Option("--extra", help="Reference decoder: more features to list, as count.log,len.tgt.")
    ] = None,
    graphs: Annotated[
        list[str] | None, typer.Option("--graphs", help="Take k-best lists from these search graphs in place of decoding.")
    ] = None,
    select_graphs: Annotated[list[str] | None, typer.Option("--select-graphs", help="Those of --select-input.")] = None,
    names: Annotated[str | None, typer.Option("--names", help="osgx: comma-separated names of the values in core=(...).")] = None,
    nbest_size: Annotated[int, typer.Option("--nbest-size", "--nbest", min=1, help="Hypotheses a sentence.")] = 100,
    max_iterations: Annotated[
        int, typer.Option("--max-iterations", "--maximum-iterations", min=1, help="Of learning and decoding, at most.")
    ] = 10,
    accumulate: Annotated[
        int,
        typer.Option(
            "--accumulate", "--prev-aggregate-nbestlist", min=-1, help="Learn from the newest list and N before it; -1: all."
        ),
    ] = -1,
    min_weight_change: Annotated[
        float,
        typer.Option("--min-weight-change", "--minimum-required-change-in-weights", min=0, help="Less than this ends the loop."),
    ] = 1e-5,
    patience: Annotated[int, typer.Option("--patience", min=1, help="Iterations without a better select metric.")] = 3,
    metric: Annotated[str, typer.Option("--metric", help="What iterations are chosen by: bleu, bleu-sbp or chrf.")] = "bleu-sbp",
    pick: Annotated[str, typer.Option("--pick", help="Which model is given: auto, select, dev or last.")] = "auto",
    rescale: Annotated[
        bool, typer.Option("--rescale/--no-rescale", help="Decode at the scale of the first weights, which pruning is set for.")
    ] = True,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the same command was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in the folder.")] = False,
    seed: Seed = 0,
    threads: Threads = ALL_CORES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tune or induce with a decoder in the loop: learn, decode, accumulate the lists, and again.

    Every row of the table is of real decoding. The folder keeps each iteration; after any interruption --resume goes on to the
    same model.

    \b
    Example:
      boostfeat loop dev.fi -r dev.en --ini moses.ini -o run --method kbmira \\
        --decoder 'moses -f {ini} -i {input} -n-best-list {nbest} {size} distinct'
      boostfeat loop dev.fi -r dev.en --phrase-table pt.gz --lm lm.arpa.gz --init start.json --method induce \\
        --select-input sel.fi --select-ref sel.en -o run
    """
    from dataclasses import replace

    from ..core.errors import InputError
    from ..loop import CommandDecoder, Corpus, DecoderError, GraphDecoder, LoopOptions, run_loop
    from ..loop.driver import table_rows
    from ..loop.weights import read_start

    options = LoopOptions(max_iterations, accumulate, min_weight_change, patience, metric, pick, rescale, seed)
    if (select_input is None) != (not select_ref):
        raise InputError("--select-input, --select-ref: expected both or none, found one; give the other")
    corpora = [Corpus.read("dev", source, ref)]
    if select_input is not None:
        corpora.append(Corpus.read("select", select_input, select_ref or []))
    if (start_file := init or ini) is None:
        raise InputError("--init: expected weights to start from, found none; give --init MODEL or --ini FILE")
    start = read_start(start_file)
    if sum(x is not None for x in (decoder, graphs, phrase_table or lm)) > 1:
        raise InputError("expected one of --decoder, --graphs and --phrase-table with --lm, found more; choose one")
    used: Decoder
    if decoder is not None:
        used = CommandDecoder(decoder, nbest_size, weights_format, ini, format, timeout)
    elif graphs:
        if len(corpora) > 1 and not select_graphs:
            raise InputError("--select-graphs: expected the search graphs of --select-input, found none; give them")
        files = {"dev": tuple(graphs), "select": tuple(select_graphs or ())}
        used = GraphDecoder(
            {c.name: files[c.name] for c in corpora}, nbest_size, tuple(n.strip() for n in names.split(",")) if names else None
        )
    else:
        given = {"stack": stack, "beam": beam, "table_limit": table_limit, "distortion_limit": distortion_limit}
        tables = {"phrase_table": phrase_table, "lm": lm, "reordering_table": reordering_table}
        used = _reference(tables, ini, given, extra, nbest_size, corpora)
        if start_file == ini:  # what Moses takes where an ini does not say it
            start = replace(start, weights={"UnknownWordPenalty0": 1.0, **start.weights})
    learner = _learner(method, settings or [], online, recipe, reweigh, groups, metric, used, corpora[0], start)

    with progress("loop", quiet=quiet) as bar:
        note = ""

        def report(now: str) -> None:
            nonlocal note
            note = now
            bar.update(0, None, note)
            if not sys.stderr.isatty():
                say(note, quiet=quiet)

        def warn(line: str) -> None:
            say(f"warning: {line}", quiet=quiet)

        def tick(done: int, total: int) -> None:
            bar.update(done, total, note)

        try:
            how: dict[str, Any] = {"threads": threads, "resume": resume, "force": force}
            result = run_loop(corpora, used, learner, start, output, options, **how, report=report, warn=warn, tick=tick)
        except DecoderError as error:
            for line in error.tail:
                sys.stderr.write(f"decoder| {line}\n")
            raise
        except KeyboardInterrupt as error:
            error.args = (f"{output} keeps all that is finished; go on with --resume",)
            raise
    if as_json:
        what = {"rows": result.rows, "picked": result.picked, "reason": result.reason, "signature": result.model.signature}
        emit({"output": output, **what}, "", as_json=True)
    else:
        header, rows = table_rows(result.rows, result.picked)
        emit(None, table(rows, header=header), as_json=False)
    say(f"ended: {result.reason}; iteration {result.picked} -> {output}/model.json", quiet=quiet)


def _reference(
    tables: dict[str, str | None],
    ini: str | None,
    given: dict[str, Any],
    extra: str | None,
    size: int,
    corpora: list[Corpus],
) -> ReferenceDecoder:
    """The reference decoder, with what the ini says where no flag does."""
    from ..core.errors import InputError
    from ..decoder import SearchOptions, read_setup
    from ..loop.reference import ReferenceDecoder

    if ini is not None:
        said = read_setup(ini)
        tables = {name: path or getattr(said, name) for name, path in tables.items()}
        if given["distortion_limit"] is None:
            given["distortion_limit"] = said.distortion_limit
    if tables["phrase_table"] is None or tables["lm"] is None:
        raise InputError("expected a decoder, found none; give --decoder COMMAND, --graphs FILE, or --phrase-table and --lm")
    return ReferenceDecoder(
        phrase_table=tables["phrase_table"],
        lm=tables["lm"],
        reordering_table=tables["reordering_table"],
        search=SearchOptions(**{name: value for name, value in given.items() if value is not None}),
        sentences=tuple(line for corpus in corpora for line in corpus.source),
        extra=tuple(n.strip() for n in extra.split(",")) if extra else (),
        size=size,
    )


def _learner(
    method: str,
    settings: list[str],
    online: str | None,
    recipe: str,
    reweigh: bool,
    groups: str | None,
    metric: str,
    decoder: Any,
    corpus: Corpus,
    start: Model,
) -> Any:
    from dataclasses import replace

    from ..core.errors import InputError, unknown_name
    from ..loop import TreeLearner, TunerLearner
    from ..loop.reference import ReferenceDecoder
    from ..loop.settings import typed
    from ..tuners import TUNERS, tuner_class
    from ..tuners.base import Groups

    pairs = [text.partition("=") for text in settings]
    for name, equals, value in pairs:
        if not name or not equals or not value:
            raise InputError(f"--set: expected NAME=VALUE, found {name + equals + value!r}")
    given = {name: value for name, _, value in pairs}
    grouped = Groups.load(groups) if groups else Groups()
    if online is not None:
        from ..loop.online import OnlineLearner

        if online not in ("mira", "adagrad"):
            raise unknown_name("online method", online, ("mira", "adagrad"))
        if not isinstance(decoder, ReferenceDecoder):
            raise InputError("--online: expected the reference decoder, found another; give --phrase-table and --lm")
        if "epochs" in given:
            raise InputError("--set epochs: an iteration is an epoch here; give --max-iterations")
        tuner = tuner_class(online)()
        return OnlineLearner(replace(tuner, **typed(tuner, given)), decoder, corpus, start, grouped)
    if method == "induce":
        if grouped.rules:
            raise InputError("--groups: expected a tuner, found --method induce; it has no groups")
        from ..boosting.options import recipe as options_of
        from ..boosting.options import with_changes

        options = options_of(recipe, metric=metric)
        return TreeLearner(with_changes(options, typed(options, given)), reweigh)
    if method not in TUNERS:
        raise unknown_name("method", method, [*TUNERS, "induce"])
    tuner = tuner_class(method)()
    return TunerLearner(method, replace(tuner, **typed(tuner, given)), grouped, metric)
