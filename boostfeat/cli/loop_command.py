"""The command that decodes between epochs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..boosting.boost_options import RECIPES, BoostOptions, with_changes
from ..boosting.boost_options import recipe as recipe_of
from ..core.errors import InputError, counted
from ..core.files import digest_lines
from ..core.options import REQUIRED, argument, methods, option, same, typed
from ..features.feature_maker import FeatureMaker
from ..features.resources import TemplateFiles
from ..formats.importing import expand
from ..lists.agreement import shared_sentences, shown
from ..losses.pairs import SAMPLERS
from ..model.model import Model
from ..search.decoder.setup import SearchOptions, decoder_setup
from ..search.loop import decoders
from ..search.loop.decoders import LoopDecoder, ParallelText, ReferenceDecoder
from ..search.loop.driver import Loop, LoopOptions, Result, table_rows, test_lines
from ..search.loop.learners import Learner, LoopFeatures, TreeLearner, TunerLearner
from ..search.loop.moses_decoder import MosesDecoder
from ..search.loop.online import OnlineLearner
from ..tuners.base import Groups
from ..tuners.tuner_options import TUNER_OPTIONS
from .checked_inputs import ListFlags, decoder_maker, refuse_files
from .console import FILES, LEARNING, Common, file, output_file, table
from .learning_commands import LearningFlags, TuneFlags, make_tuner
from .search_commands import DecodeFlags, core_names

ONLINE = ("mira", "rm", "adagrad")
DECODER = "Decoder: a command, or the reference decoder (default), or graphs"
LEARNERS: dict[str, type] = {**TUNER_OPTIONS, "induce": BoostOptions}
SEARCH = ("stack", "beam", "table_limit", "distortion_limit")  # options of the reference decoder
OTHERS = ("decoder", "graphs")  # what takes its place


@dataclass(frozen=True, kw_only=True)
class LoopFlags(ListFlags):
    """Flags of ``loop``."""

    source: str = argument("INPUT", "Sentences to decode, one per line")
    ref: Sequence[str] = file("References, one sentence per line; repeatable", default=REQUIRED, short="r")
    output: str = output_file("Folder for all iterations", "FOLDER")
    init: str | None = file("Weights to start from: a model, ini, or 'name value' lines")
    ini: str | None = file("A moses.ini with weights and the decoder's files")
    select_input: str | None = file("Held-out sentences, which choose the iteration", needs="select_ref")
    select_ref: Sequence[str] = file("References of these; repeatable", default=(), needs="select_input")
    test_input: Sequence[str] = file(
        "Test sentences, decoded with the first and the last weights; repeatable", default=(), without="graphs"
    )
    test_ref: Sequence[str] = file("References of these, in the same order", default=(), needs="test_input")
    resume: bool = option(False, "Continue the same command where it stopped", group=FILES)
    force: bool = option(False, "Replace an earlier run in the folder", group=FILES)
    allow_edited: bool = option(False, "Accept a model that was edited", group=FILES, needs="init")
    method: str = option(
        "pro", "A tuner (see 'boostfeat tune') or induce", choices=LEARNERS, metavar="METHOD", group=LEARNING, without="online"
    )
    online: str | None = option(
        None, "Learn from each sentence as it is decoded: mira, rm or adagrad", choices=ONLINE, metavar="METHOD", group=LEARNING
    )
    templates: str | None = same(LearningFlags, "templates", without=())
    limits: LoopOptions = field(default_factory=LoopOptions)
    decoder: str | None = file(
        "moses, or with {ini}, {model}, {weights}, {input}, {nbest}, {size}, {iteration}, {seed}", "COMMAND", group=DECODER
    )
    phrase_table: str | None = same(DecodeFlags, "phrase_table", group=DECODER, without=("graphs",))
    lm: str | None = same(DecodeFlags, "lm", group=DECODER, without=OTHERS)
    graphs: Sequence[str] = file(
        "Search graphs whose k best replace decoding; repeatable", default=(), group=DECODER, without="decoder"
    )
    nbest: int = option(100, "Hypotheses per sentence", least=1, group=DECODER)
    files: TemplateFiles = field(default_factory=TemplateFiles)

    recipe: str = option("fast", "Preset of induce", choices=RECIPES, rare=True, needs="method=induce")
    static_only: bool = option(False, "induce: trees test features of the phrase pair only", rare=True, needs="method=induce")
    reweigh: bool = option(True, "induce: fit all weights again before adding trees", rare=True, needs="method=induce")
    groups: str | None = same(TuneFlags, "groups", without=("method=induce",))
    moses: str | None = option(None, "The Moses program for --decoder moses", rare=True, needs="decoder=moses")
    weights_format: str = option("moses", "Format of {weights}: moses, cdec or name-value", rare=True, needs="decoder")
    list_format: str = option("auto", "Format of the list that the decoder writes", rare=True, needs="decoder")
    timeout: float | None = option(None, "Maximum seconds for one decoding; default: no limit", rare=True, needs="decoder")
    reordering_table: str | None = same(DecodeFlags, "reordering_table", rare=True, without=OTHERS)
    extra: tuple[str, ...] = same(DecodeFlags, "extra", rare=True, without=OTHERS)
    stack: int | None = same(SearchOptions, "stack", None, rare=True, without=OTHERS)
    beam: float | None = same(SearchOptions, "beam", None, rare=True, without=OTHERS)
    table_limit: int | None = same(SearchOptions, "table_limit", None, rare=True, without=OTHERS)
    distortion_limit: int | None = same(SearchOptions, "distortion_limit", None, rare=True, without=OTHERS)
    select_graphs: Sequence[str] = option((), "Search graphs of --select-input; repeatable", rare=True, needs="graphs")
    graph_names: str | None = option(None, "osgx: names of the values in core=(...), or a moses.ini", rare=True, needs="graphs")
    of_method: Mapping[str, Any] = methods(
        LEARNERS, are_flags=False, defaults={"induce": recipe_of("fast", for_decoder=True), "pro": SAMPLERS["ta13"]}
    )

    def check_together(self) -> None:
        """Raise for flags that do not go together, before anything is read."""
        if (self.init or self.ini) is None:
            raise InputError("--init: expected weights to start from, found none; give --init MODEL or --ini FILE")
        if self.phrase_table and self.decoder not in (None, "moses"):
            raise InputError("--phrase-table: a command knows its own files; leave it out, or the --decoder")

    def read_groups(self) -> Groups:
        return Groups.load(self.groups) if self.groups else Groups()

    @property
    def search(self) -> dict[str, Any]:
        """Options of search that were given."""
        options = {name: getattr(self, name) for name in SEARCH}
        return {name: value for name, value in options.items() if value is not None}


def loop(o: LoopFlags) -> None:
    """Learn, decode, accumulate the lists, and again: a decoder in the loop.

    \b
    Example:
      boostfeat loop dev.fi -r dev.en --ini moses.ini --decoder moses -o run
    """
    o.check_together()
    corpora, tests = text_sets(o, (o.source, o.ref), (o.select_input, o.select_ref), (o.test_input, o.test_ref))
    start = decoders.read_start(o.init or o.ini or "")
    takes_ini = o.decoder == "moses" or (o.decoder and o.weights_format == "moses")
    if o.init and o.ini and takes_ini and (kept := decoders.kept_weights(start, o.ini)):
        o.say(f"{o.init} has no weights of {shown(kept)}: those of {o.ini} stay")
    maker = decoder_maker(o, o.files, o.phrase_table)
    decoder = _decoder(o, [*corpora, *tests], maker)
    if isinstance(decoder, ReferenceDecoder):
        maker = decoder.maker
        start = start if o.init else with_unknown_words(start)
    features = LoopFeatures.of(maker, o.templates, start, o.limits.gain)
    if features is None:
        refuse_files(o.files, "--templates, or an --init that carries some")
    if o.online is not None:
        learner = _online(o, o.online, decoder, corpora[0], start, features)
        features = None  # it makes its own lists
    else:
        learner = _learner(o)
    how: dict[str, Any] = {"threads": o.threads, "allow_missing": o.allow_missing, "features": features, "tests": tests}
    _show(o, _run(o, Loop(corpora, decoder, learner, start, o.output, o.limits, **how, warn=o.warn)))


def text_sets(
    o: Common,
    dev: tuple[str, Sequence[str]],
    select: tuple[str | None, Sequence[str]],
    tests: tuple[Sequence[str], Sequence[str]],
) -> tuple[list[ParallelText], list[ParallelText]]:
    """Return the sentences to learn from and to select by, and those of test sets, each given with its references; say which of
    them are the same.
    """
    corpora, tested = [ParallelText.read("dev", *dev)], _tests(*tests)
    if select[0] is not None:
        corpora.append(ParallelText.read("select", select[0], select[1]))
    for two in shared_sentences({corpus.name: corpus.without_lists() for corpus in (*corpora, *tested)}):
        o.warn(str(two))
    return corpora, tested


def with_unknown_words(start: Model) -> Model:
    """Return weights of a moses.ini for the reference decoder: with what Moses takes where an ini does not say it."""
    return replace(start, weights={"UnknownWordPenalty0": 1.0, **start.weights})


def reference_decoder(
    ini: str | None, size: int, corpora: list[ParallelText], maker: FeatureMaker, o: LoopFlags | None = None
) -> ReferenceDecoder:
    """Return the reference decoder, with what the ini says where no flag does; templates count in its phrase table."""
    tables = {name: getattr(o, name, None) for name in ("phrase_table", "lm", "reordering_table")}
    _, files, options = decoder_setup(ini, o.search if o else {}, **tables)
    sentences = tuple(line for corpus in corpora for line in corpus.source)
    maker = replace(maker, files=replace(maker.files, phrase_table=files["phrase_table"]))
    extra = o.extra if o else ()
    return ReferenceDecoder(**files, search=options, sentences=sentences, extra=extra, size=size, maker=maker)


def _tests(inputs: Sequence[str], refs: Sequence[str]) -> list[ParallelText]:
    """Return test sets, each with as many of the references; named by what they hold, so that another is not taken for it."""
    refs = expand(refs)
    n = len(refs) // max(1, len(inputs))
    if n * len(inputs) != len(refs) or (inputs and not n):
        raise InputError(
            f"--test-ref: expected references of {counted(len(inputs), 'test set')}, the same number of each, found "
            f"{counted(len(refs), 'file')}"
        )
    found = [ParallelText.read("test", path, refs[k * n : (k + 1) * n]) for k, path in enumerate(inputs)]
    texts = [[line for lines in (corpus.source, *corpus.refs) for line in lines] for corpus in found]
    return [replace(c, name=f"test-{digest_lines(lines)[:8]}") for c, lines in zip(found, texts, strict=True)]


def _run(o: LoopFlags, loop: Loop) -> Result:
    """Run the loop, with progress; show the last lines of a decoder that fails."""
    with o.progress("loop") as bar:
        note = ""

        def report(now: str) -> None:
            nonlocal note
            note = now
            bar.update(0, None, note)
            if not sys.stderr.isatty():
                o.say(note)

        def tick(done: int, total: int) -> None:
            bar.update(done, total, note)

        loop.report, loop.tick = report, tick
        try:
            return loop.run(resume=o.resume, force=o.force)
        except decoders.DecoderError as error:
            for line in error.tail:
                sys.stderr.write(f"decoder| {line}\n")
            raise
        except KeyboardInterrupt as error:
            error.args = (f"{o.output} keeps all that is finished; go on with --resume",)
            raise


def _show(o: LoopFlags, result: Result) -> None:
    header, rows = table_rows(result.rows, result.picked)
    lines = test_lines(result.tests, o.limits.metric)
    what = {"rows": result.rows, "picked": result.picked, "reason": result.reason, "signature": result.model.signature}
    tests = {"tests": list(result.tests)} if result.tests else {}
    text = "\n".join([table(rows, header=header), *(["", *lines] if lines else [])])
    o.emit({"output": o.output, **what, **tests}, text)
    o.say_written(f"ended: {result.reason}; iteration {result.picked}", f"{o.output}/model.json")


def _decoder(o: LoopFlags, corpora: list[ParallelText], maker: FeatureMaker) -> LoopDecoder:
    """Return what decodes: a command, search graphs, or the reference decoder."""
    if o.decoder == "moses":
        alone = o.static_only or o.method != "induce"  # trees look at phrase pairs, if there are any
        how: dict[str, Any] = {"size": o.nbest, "threads": o.threads, "timeout": o.timeout, "static_only": alone}
        return MosesDecoder.of(o.moses, o.ini, o.phrase_table, **how)
    if o.decoder is not None:
        return decoders.CommandDecoder(o.decoder, o.nbest, o.weights_format, o.ini, o.list_format, o.timeout)
    if o.graphs:
        if corpora[1:] and not o.select_graphs:
            raise InputError("--set select-graphs: expected the search graphs of --select-input, found none; give them")
        files = {"dev": tuple(o.graphs), "select": tuple(o.select_graphs)}
        return decoders.GraphDecoder({c.name: files[c.name] for c in corpora}, o.nbest, core_names(o.graph_names))
    return reference_decoder(o.ini, o.nbest, corpora, maker, o)


def _online(
    o: LoopFlags, name: str, decoder: LoopDecoder, corpus: ParallelText, start: Model, features: LoopFeatures | None
) -> Learner:
    """Return what learns from each sentence as it is decoded."""
    if not isinstance(decoder, ReferenceDecoder):
        raise InputError("--online: expected the reference decoder, found another; give --phrase-table and --lm")
    if any(text.partition("=")[0] == "epochs" for text in o.settings):
        raise InputError("--set epochs: an iteration is an epoch here; give --max-iterations")
    return OnlineLearner(make_tuner(name, {}, o.settings), decoder, corpus, start, o.read_groups(), o.limits.gain, features)


def _learner(o: LoopFlags) -> Learner:
    """Return what learns from the lists so far: boosting or a tuner."""
    if o.method == "induce":
        options = recipe_of(o.recipe, for_decoder=True, gain=o.limits.gain, metric=o.limits.metric)
        return TreeLearner(with_changes(options, typed(BoostOptions, o.settings)), o.reweigh, o.static_only)
    return TunerLearner(o.method, make_tuner(o.method, {}, o.settings), o.read_groups(), o.limits.metric, o.limits.gain)
