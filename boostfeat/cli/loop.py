"""The command that decodes between epochs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.options import comma_list, typed
from ..core.text_table import table
from ..features.options import ResourceFiles, TemplateFiles
from ..search.decoder.search_options import SearchOptions
from ..search.loop.loop_options import LoopOptions
from .carried import Templates, decoder_maker, refuse_files
from .common import FILES, LEARNING, AllowMissing, Settings, emit, progress, say, say_written
from .flags import Given, add
from .graphs import RareCoreNames, core_names
from .tune import make_tuner, methods

if TYPE_CHECKING:
    from ..features.carried import FeatureMaker
    from ..model.model import Model
    from ..search.loop.decoders import Corpus, Decoder
    from ..search.loop.driver import Result
    from ..search.loop.learners import Learner
    from ..search.loop.loop_features import LoopFeatures
    from ..search.loop.reference_decoder import ReferenceDecoder

ONLINE = ("mira", "rm", "adagrad")
DECODER = "Decoder: a command, or the reference decoder (default), or graphs"


def register(app: typer.Typer) -> None:
    add(app, loop, more=methods)


def loop(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="Sentences to decode, one a line.", show_default=False)],
    *,
    ref: Annotated[
        list[str],
        typer.Option("-r", "--ref", metavar="FILE", help="References; repeat for more than one.", rich_help_panel=FILES),
    ],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FOLDER", help="Of all iterations.", rich_help_panel=FILES)],
    init: Annotated[
        str | None,
        typer.Option("--init", metavar="FILE", help="Weights: a model, an ini, 'name value' lines.", rich_help_panel=FILES),
    ] = None,
    ini: Annotated[
        str | None,
        typer.Option("--ini", metavar="FILE", help="A moses.ini: weights, and files of the decoder.", rich_help_panel=FILES),
    ] = None,
    select_input: Annotated[
        str | None,
        typer.Option(
            "--select-input", "--select", metavar="FILE", help="Held-out sentences, decoded as well.", rich_help_panel=FILES
        ),
    ] = None,
    select_ref: Annotated[
        list[str] | None,
        typer.Option("--select-ref", metavar="FILE", help="Their references; repeatable.", rich_help_panel=FILES),
    ] = None,
    test_input: Annotated[
        list[str] | None,
        typer.Option(
            "--test-input",
            "--test",
            metavar="FILE",
            help="Decoded at the end, before and after; repeatable.",
            rich_help_panel=FILES,
        ),
    ] = None,
    test_ref: Annotated[
        list[str] | None,
        typer.Option("--test-ref", metavar="FILE", help="Their references, in the same order.", rich_help_panel=FILES),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="A tuner (see 'boostfeat tune') or induce", rich_help_panel=LEARNING)
    ] = "pro",
    settings: Settings = None,
    online: Annotated[
        str | None,
        typer.Option("--online", help="mira, rm or adagrad: learn as sentences are decoded.", rich_help_panel=LEARNING),
    ] = None,
    templates: Templates = None,
    recipe: Annotated[
        str, typer.Option("--recipe", help="Of induce, or default, paper", rich_help_panel=LEARNING, hidden=True)
    ] = "fast",
    reweigh: Annotated[
        bool,
        typer.Option(
            "--reweigh/--no-reweigh",
            help="induce: fit all weights anew before trees are added.",
            rich_help_panel=LEARNING,
            hidden=True,
        ),
    ] = True,
    static_only: Annotated[
        bool,
        typer.Option(
            "--static-only", help="induce: trees look at features of the phrase pair.", rich_help_panel=LEARNING, hidden=True
        ),
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="TOML", help="Freezes or scales weights.", rich_help_panel=LEARNING, hidden=True),
    ] = None,
    limits: LoopOptions,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            metavar="COMMAND",
            help="moses, or with {ini}, {model} or {weights}, {input}, {nbest}, {size}, {iteration}, {seed}; no shell.",
            rich_help_panel=DECODER,
        ),
    ] = None,
    moses: Annotated[
        str | None, typer.Option("--moses", metavar="PROGRAM", help="That of --decoder moses.", rich_help_panel=DECODER)
    ] = None,
    weights_format: Annotated[
        str,
        typer.Option("--weights-format", help="Of {weights}, or cdec, name-value", rich_help_panel=DECODER, hidden=True),
    ] = "moses",
    format: Annotated[str, typer.Option("--format", help="Of the command's list", rich_help_panel=DECODER, hidden=True)] = "auto",
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", help="Seconds a decoding may take.", rich_help_panel=DECODER, hidden=True),
    ] = None,
    phrase_table: Annotated[
        str | None, typer.Option("--phrase-table", metavar="FILE", help="In Moses' format.", rich_help_panel=DECODER)
    ] = None,
    lm: Annotated[str | None, typer.Option("--lm", metavar="FILE", help="In ARPA format.", rich_help_panel=DECODER)] = None,
    reordering_table: Annotated[
        str | None,
        typer.Option(
            "--reordering-table", metavar="FILE", help="Of type msd-bidirectional-fe.", rich_help_panel=DECODER, hidden=True
        ),
    ] = None,
    search: Annotated[Mapping[str, Any], Given(SearchOptions, rare=True)],
    extra: Annotated[
        str | None,
        typer.Option(
            "--extra",
            metavar="A,B,...",
            help="Reference decoder: more features to list, as count.log,len.tgt.",
            rich_help_panel=DECODER,
            hidden=True,
        ),
    ] = None,
    graphs: Annotated[
        list[str] | None,
        typer.Option("--graphs", metavar="FILE", help="Take their k-best in place of decoding.", rich_help_panel=DECODER),
    ] = None,
    select_graphs: Annotated[
        list[str] | None,
        typer.Option("--select-graphs", metavar="FILE", help="Those of --select-input.", rich_help_panel=DECODER, hidden=True),
    ] = None,
    names: RareCoreNames = None,
    nbest: Annotated[
        int,
        typer.Option("--nbest", "--nbest-size", "--size", min=1, help="Hypotheses a sentence", rich_help_panel=DECODER),
    ] = 100,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command stopped.", rich_help_panel=FILES)
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in the folder.", rich_help_panel=FILES)] = False,
    files: TemplateFiles,
    allow_missing: AllowMissing = False,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Learn, decode, accumulate the lists, and again: a decoder in the loop.

    \b
    Example:
      boostfeat loop dev.fi -r dev.en --ini moses.ini --decoder moses -o run
    """
    from ..core.errors import InputError
    from ..lists.agreement import shown
    from ..search.loop.weight_files import kept_weights, read_start

    started = time.monotonic()
    if (select_input is None) != (not select_ref):
        raise InputError("--select-input, --select-ref: expected both or none, found one; give the other")
    if (start_file := init or ini) is None:
        raise InputError("--init: expected weights to start from, found none; give --init MODEL or --ini FILE")
    if moses is not None and decoder != "moses":
        raise InputError("--moses: expected --decoder moses with it, found another; give it, or leave --moses out")
    others = lm if decoder == "moses" else phrase_table or lm
    if sum(x is not None for x in (decoder, graphs, others)) > 1:
        raise InputError("expected one of --decoder, --graphs and --phrase-table with --lm, found more; choose one")
    corpora, tests = text_sets(source, ref, select_input, select_ref or (), test_input or (), test_ref or ())
    start = read_start(start_file)
    if init and ini and (decoder == "moses" or (decoder and weights_format == "moses")) and (kept := kept_weights(start, ini)):
        say(f"{init} has no weights of {shown(kept)}: those of {ini} stay", quiet=quiet)
    maker = decoder_maker(files, phrase_table, seed=seed, threads=threads, quiet=quiet)
    used: Decoder
    if decoder == "moses":
        from ..search.loop.moses_decoder import MosesDecoder

        alone = static_only or method != "induce"  # trees look at phrase pairs, if there are any
        used = MosesDecoder.of(moses, ini, phrase_table, size=nbest, threads=threads, timeout=timeout, static_only=alone)
    elif decoder is not None:
        from ..search.loop.decoders import CommandDecoder

        used = CommandDecoder(decoder, nbest, weights_format, ini, format, timeout)
    elif graphs:
        if tests:
            raise InputError("--test-input: expected a decoder with it, found --graphs; rescore the graphs of the test set")
        used = _graph_decoder(corpora, graphs, select_graphs, nbest, names)
    else:
        tables = {"phrase_table": phrase_table, "lm": lm, "reordering_table": reordering_table}
        used = _reference(tables, ini, search, comma_list(extra), nbest, [*corpora, *tests], maker)
        maker = used.maker
        if start_file == ini:  # what Moses takes where an ini does not say it
            start = replace(start, weights={"UnknownWordPenalty0": 1.0, **start.weights})
    from ..search.loop.loop_features import LoopFeatures

    features = LoopFeatures.of(maker, templates, start, limits.gain)
    if features is None:
        refuse_files(files, "--templates, or an --init that carries some")
    if online is not None:
        learner = _online(online, settings or (), groups, used, corpora[0], start, limits.gain, features)
        features = None  # it makes its own lists
    else:
        learner = _learner(method, settings or (), recipe, groups, limits, reweigh=reweigh, static_only=static_only)
    limits = replace(limits, seed=seed)
    how = {
        "threads": threads,
        "resume": resume,
        "force": force,
        "allow_missing": allow_missing,
        "features": features,
        "tests": tests,
    }
    result = _run(corpora, used, learner, start, output, limits, how, quiet=quiet)
    _show(result, output, started, limits.metric, quiet=quiet, as_json=as_json)


def text_sets(
    source: str,
    ref: Sequence[str],
    select: str | None,
    select_ref: Sequence[str],
    tests: Sequence[str],
    test_ref: Sequence[str],
) -> tuple[list[Corpus], list[Corpus]]:
    """The sentences to learn from and to select by, and those of test sets."""
    from ..search.loop.decoders import Corpus

    corpora = [Corpus.read("dev", source, ref)]
    if select is not None:
        corpora.append(Corpus.read("select", select, select_ref))
    return corpora, _tests(tests, test_ref)


def start_weights(ini: str, *, reference: bool) -> Model:
    """The weights of a moses.ini; for the reference decoder with what Moses takes where an ini does not say it."""
    from ..search.loop.weight_files import read_start

    start = read_start(ini)
    return replace(start, weights={"UnknownWordPenalty0": 1.0, **start.weights}) if reference else start


def reference_decoder(ini: str, size: int, corpora: list[Corpus], files: ResourceFiles, *, seed: int) -> ReferenceDecoder:
    """The reference decoder with the files that an ini names; templates count in its phrase table."""
    from ..features.carried import FeatureMaker

    none = dict.fromkeys(("phrase_table", "lm", "reordering_table"))
    return _reference(none, ini, {}, (), size, corpora, FeatureMaker(files, seed=seed))


def _tests(inputs: Sequence[str], refs: Sequence[str]) -> list[Corpus]:
    """Test sets, each with as many of the references; named by what they hold, so that another one is not taken for it."""
    from ..core.errors import InputError
    from ..core.files import digest_lines
    from ..formats.importing import expand
    from ..search.loop.decoders import Corpus

    refs = expand(refs)
    n = len(refs) // max(1, len(inputs))
    if n * len(inputs) != len(refs) or (inputs and not n):
        raise InputError(
            f"--test-ref: expected references of {counted(len(inputs), 'test set')}, the same number of each, found "
            f"{counted(len(refs), 'file')}"
        )
    found = [Corpus.read("test", path, refs[k * n : (k + 1) * n]) for k, path in enumerate(inputs)]
    return [replace(corpus, name=f"test-{digest_lines(corpus.source)[:8]}") for corpus in found]


def _run(
    corpora: list[Corpus],
    decoder: Decoder,
    learner: Learner,
    start: Model,
    output: str,
    limits: LoopOptions,
    how: Mapping[str, Any],
    *,
    quiet: bool,
) -> Result:
    """The loop, with progress; the last lines of a decoder that fails are shown."""
    from ..search.loop.decoders import DecoderError
    from ..search.loop.driver import run_loop

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
            return run_loop(corpora, decoder, learner, start, output, limits, **how, report=report, warn=warn, tick=tick)
        except DecoderError as error:
            for line in error.tail:
                sys.stderr.write(f"decoder| {line}\n")
            raise
        except KeyboardInterrupt as error:
            error.args = (f"{output} keeps all that is finished; go on with --resume",)
            raise


def _show(result: Result, output: str, started: float, metric: str, *, quiet: bool, as_json: bool) -> None:
    from ..search.loop.driver import table_rows, test_lines

    if as_json:
        what = {"rows": result.rows, "picked": result.picked, "reason": result.reason, "signature": result.model.signature}
        emit({"output": output, **what, **({"tests": list(result.tests)} if result.tests else {})}, "", as_json=True)
    else:
        header, rows = table_rows(result.rows, result.picked)
        lines = test_lines(result.tests, metric)
        emit(None, "\n".join([table(rows, header=header), *(["", *lines] if lines else [])]), as_json=False)
    say_written(f"ended: {result.reason}; iteration {result.picked}", f"{output}/model.json", started, quiet=quiet)


def _graph_decoder(
    corpora: list[Corpus], graphs: list[str], select_graphs: list[str] | None, size: int, names: str | None
) -> Decoder:
    """Search graphs in place of a decoder."""
    from ..core.errors import InputError
    from ..search.loop.decoders import GraphDecoder

    if corpora[1:] and not select_graphs:
        raise InputError("--select-graphs: expected the search graphs of --select-input, found none; give them")
    files = {"dev": tuple(graphs), "select": tuple(select_graphs or ())}
    return GraphDecoder({c.name: files[c.name] for c in corpora}, size, core_names(names))


def _reference(
    tables: Mapping[str, str | None],
    ini: str | None,
    search: Mapping[str, Any],
    extra: tuple[str, ...],
    size: int,
    corpora: list[Corpus],
    maker: FeatureMaker,
) -> ReferenceDecoder:
    """The reference decoder, with what the ini says where no flag does; templates count in its phrase table."""
    from ..core.errors import InputError
    from ..search.decoder.setup import read_setup
    from ..search.loop.reference_decoder import ReferenceDecoder

    if ini is not None:
        said = read_setup(ini)
        tables = said.tables(**tables)
        if said.distortion_limit is not None:
            search = {"distortion_limit": said.distortion_limit, **search}
    if tables["phrase_table"] is None or tables["lm"] is None:
        raise InputError("expected a decoder, found none; give --decoder COMMAND, --graphs FILE, or --phrase-table and --lm")
    return ReferenceDecoder(
        phrase_table=tables["phrase_table"],
        lm=tables["lm"],
        reordering_table=tables["reordering_table"],
        search=SearchOptions(**search),
        sentences=tuple(line for corpus in corpora for line in corpus.source),
        extra=extra,
        size=size,
        maker=replace(maker, files=replace(maker.files, phrase_table=tables["phrase_table"])),
    )


def _online(
    name: str,
    settings: Sequence[str],
    groups: str | None,
    decoder: Decoder,
    corpus: Corpus,
    start: Model,
    gain: str,
    features: LoopFeatures | None,
) -> Learner:
    """What learns from each sentence as it is decoded."""
    from ..core.errors import InputError, unknown_name
    from ..search.loop.online import OnlineLearner
    from ..search.loop.reference_decoder import ReferenceDecoder
    from ..tuners.base import Groups

    if name not in ONLINE:
        raise unknown_name("online method", name, ONLINE)
    if not isinstance(decoder, ReferenceDecoder):
        raise InputError("--online: expected the reference decoder, found another; give --phrase-table and --lm")
    if any(text.partition("=")[0] == "epochs" for text in settings):
        raise InputError("--set epochs: an iteration is an epoch here; give --max-iterations")
    grouped = Groups.load(groups) if groups else Groups()
    return OnlineLearner(make_tuner(name, {}, settings), decoder, corpus, start, grouped, gain, features)


def _learner(
    method: str,
    settings: Sequence[str],
    recipe: str,
    groups: str | None,
    limits: LoopOptions,
    *,
    reweigh: bool,
    static_only: bool,
) -> Learner:
    """What learns from the lists so far: boosting or a tuner."""
    from ..core.errors import InputError, unknown_name
    from ..search.loop.learners import TreeLearner, TunerLearner
    from ..tuners import TUNERS
    from ..tuners.base import Groups

    grouped = Groups.load(groups) if groups else Groups()
    if method == "induce":
        if grouped.rules:
            raise InputError("--groups: expected a tuner, found --method induce; it has no groups")
        from ..boosting.options import recipe as options_of
        from ..boosting.options import with_changes

        options = options_of(recipe, gain=limits.gain, metric=limits.metric)
        return TreeLearner(with_changes(options, typed(type(options), settings)), reweigh, static_only)
    if static_only:
        raise InputError("--static-only: expected --method induce, found a tuner; leave it out")
    if method not in TUNERS:
        raise unknown_name("method", method, [*TUNERS, "induce"])
    return TunerLearner(method, make_tuner(method, {}, settings), grouped, limits.metric, limits.gain)
