"""Commands on comparisons: compare, replicate, report."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import Any

from ..compare.comparison_options import DECODE, CompareOptions, DecodedFiles, as_words, numbered
from ..compare.paper_page import FINDINGS, finding_rows, write_page
from ..compare.papers import bitext_options, paper_of, paper_options
from ..compare.runner import Folder, all_systems
from ..compare.runner import compare as run_comparison
from ..compare.systems import LINEAR, OnGraphs
from ..compare.table import Results, fitting, same_rows, table_rows
from ..core.errors import InputError, counted
from ..core.files import digest, is_special
from ..core.options import REQUIRED, argument, comma_list, methods, option
from ..core.strict_json import read_json
from ..features.feature_maker import FeatureMaker
from ..features.resources import ResourceFiles
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..model.model import Model
from ..report import write_figures, write_report, write_table
from ..search.graphs.graph_mert import fit_graphs
from ..search.loop.decoded_comparison import Decoding, compare_decoded, loop_comparison
from ..search.loop.decoders import CommandDecoder, LoopDecoder, read_start
from ..search.loop.driver import LoopOptions
from ..search.loop.graph_lists import GraphOptions, graphs_of
from ..tuners.base import Run
from .checked_inputs import LIST, ListFlags, OutputFlags, feature_maker, refuse_files
from .console import FILES, Bar, Common, file, output_file, table
from .loop_command import reference_decoder, text_sets, with_unknown_words
from .search_commands import core_names


@dataclass(frozen=True, kw_only=True)
class ComparisonFlags(ListFlags):
    """Flags of commands that compare systems."""

    select: str = file("Held-out list that chooses hyper-parameters", "LIST", default=REQUIRED)
    output: str = output_file("Folder for results, models and choices", "FOLDER")
    force: bool = option(False, "Replace another run in the folder; accept lists that share sentences", group=FILES)
    files: ResourceFiles = field(default_factory=ResourceFiles)

    def compared(self, paths: Mapping[str, str], output: str, options: CompareOptions, **more: Any) -> Results:
        """Return the results of a comparison that says how far it is."""
        how: dict[str, Any] = {"threads": self.threads, "force": self.force, "allow_missing": self.allow_missing}
        with told(self, output) as talk:
            return run_comparison(paths, output, options, files=self.files, warn=self.warn, **how, **talk, **more)


@contextlib.contextmanager
def told(o: Common, output: str) -> Iterator[dict[str, Any]]:
    """Give what hears how far a comparison is; say of an interrupted one that the same command goes on."""
    board = Board(o)
    try:
        yield {"report": board.report, "watch": board.watch}
    except KeyboardInterrupt as error:
        error.args = (f"{output} keeps what is finished; the same command goes on from there",)
        raise


@dataclass(frozen=True, kw_only=True)
class CompareFlags(ComparisonFlags):
    """Flags of ``compare``."""

    store: str = argument(*LIST)
    test: Sequence[str] = file("List to report results on; repeatable; optional with --ablation", "LIST", default=())
    options: Mapping[str, Any] = methods({"comparison": CompareOptions})
    decode: str | None = file("A moses.ini: systems decode in loops; LIST, --select, --test are sentences", "INI", group=DECODE)
    texts: DecodedFiles = field(default_factory=DecodedFiles)
    wide: bool = option(False, "Print all columns, however wide the terminal is")


def compare(o: CompareFlags) -> None:
    """Train systems on LIST, choose on --select, report on --test: a table with significance.

    Interrupted and started again, it goes on from what is finished; what a run in a folder beside it has fitted is taken over.

    \b
    Example:
      boostfeat compare dev.nbest --select select.nbest --test test.nbest -o run
      boostfeat compare dev.nbest --select select.nbest --test test.nbest \\
        --systems large/pro --runs 3 -o run3
      boostfeat compare dev.nbest --select select.nbest --test test.nbest \\
        --systems base-MERT:paper,base/mira:lu-mc -o e12
      boostfeat compare dev.nbest --select select.nbest --ablation --runs 3 \\
        -o ablation
      boostfeat compare dev.fi --ref dev.en --select s.fi --select-ref s.en \\
        --test t.fi --test-ref t.en --decode moses.ini -o out
    """
    ablation = {"baseline": "boost-local"} if o.options.get("ablation") else {}
    options = CompareOptions(**{**ablation, **o.options, "seed": o.seed})
    if o.decode is not None:
        results = decoded_comparison(o, o.decode, options)
    else:
        if not o.test and not options.ablation:
            raise InputError("--test: expected a list to report on, found none; give one, or --ablation to look at select only")
        _refuse_idle(o, options)
        results = o.compared({"dev": o.store, "select": o.select, **numbered("test", o.test)}, o.output, options)
    if not o.as_json:
        width = 10**6 if o.wide else get_terminal_size().columns
        header, rows, left_out = fitting(*table_rows(results), width=width)
        o.emit(None, table(rows, header=header))
        for name, other in same_rows(results):
            o.say(f"{name} and {other} are one run")
        if left_out:
            o.say(f"the columns {', '.join(left_out)} do not fit here: --wide shows them, {o.output}/table.md has them")
    o.emit_json({"output": o.output, "systems": results})
    o.say(f"results, models and choices -> {o.output} in {o.seconds:.1f} s")


def _refuse_idle(o: CompareFlags, options: CompareOptions) -> None:
    """Raise for options that none of the systems has a use for."""
    systems = all_systems(options, FeatureMaker(o.files).registry)
    if options.rounds is not None and all(system.level is None or system.method == LINEAR for system in systems):
        raise InputError("--rounds does nothing without a system that is boosted, as boost-local; leave it out")
    if options.min_count is not None and not any(system.is_featurized for system in systems):
        raise InputError("--min-count does nothing without a system with features, as sparse/pro; leave it out")


def decoded_comparison(o: CompareFlags, ini: str, options: CompareOptions) -> Results:
    """Run loops of all systems with the decoder of the ini, or with a command, and compare what they decode."""
    texts = o.texts
    ref, select_ref, test_ref = map(_files, (texts.ref, texts.select_ref, texts.test_ref))
    corpora, tests = text_sets(o, (o.store, ref), (o.select, select_ref), (o.test, test_ref))
    start = read_start(ini)
    if texts.decoder is not None:
        used: LoopDecoder = CommandDecoder(texts.decoder, texts.nbest, ini=ini)
        maker = FeatureMaker(o.files, seed=o.seed)
    else:
        reference = reference_decoder(ini, texts.nbest, [*corpora, *tests], FeatureMaker(o.files, seed=o.seed))
        used, maker, start = reference, reference.maker, with_unknown_words(start)
    limits = LoopOptions(max_iterations=texts.max_iterations, gain=options.gain, metric=options.main_metric, seed=o.seed)
    decoding = Decoding(tuple(corpora), tuple(tests), used, start, limits, maker)
    command = [o.store, "--select", o.select, *(word for path in o.test for word in ("--test", path)), "--decode", ini]
    how: dict[str, Any] = {"command": [*command, *as_words(texts)], "threads": o.threads, "force": o.force}
    with told(o, o.output) as talk:
        return compare_decoded(decoding, o.output, options, **how, **talk)


def _files(paths: Sequence[str] | None) -> list[str]:
    """Return files that were given one by one, or by commas."""
    return [path for text in paths or () for path in ([text] if os.path.exists(text) else comma_list(text))]


class Board:
    """Progress of a comparison: on a terminal a row for each system, elsewhere a line for each that is trained."""

    def __init__(self, flags: Common) -> None:
        self.flags, self._rows = flags, dict[str, tuple[Bar, int, int]]()

    def report(self, note: str) -> None:
        name, _, text = note.partition(": ")
        if Bar.screen is not None and name in self._rows:
            bar, done, total = self._rows[name]
            bar.update(done, total or None, text)
        else:
            self.flags.say(note)

    def watch(self, name: str, done: int, total: int, result: object) -> None:
        bar = self._rows[name][0] if name in self._rows else Bar(name, quiet=self.flags.quiet)
        self._rows[name] = bar, done, total
        bar.update(done, total or None)


@dataclass(frozen=True, kw_only=True)
class ReplicateFlags(ComparisonFlags):
    """Flags of ``replicate``."""

    paper: str = argument("PAPER", "The paper: ta13, e12, g13 or emr13")
    store: str = argument(*LIST)
    test: Sequence[str] = file("List to report results on; repeatable", "LIST", default=REQUIRED)
    tune_on: Sequence[str] = file("g13: more lists to tune on, of a bitext (its Tables 4 and 5); repeatable", "LIST", default=())
    graphs: Sequence[str] = file("e12, emr13: search graphs of LIST, for MERT on hypergraphs; repeatable", default=())
    graph_names: str | None = option(None, "osgx: names of the values in core=(...), or a moses.ini", rare=True, needs="graphs")
    quick: bool = option(False, "A short run for a first look: smaller grids, fewer epochs, one seed")


def replicate(o: ReplicateFlags) -> None:
    """Run the experiment of a paper on lists of yours: its rows, settings, tables and figures.

    It is a 'compare' whose rows and settings are the paper's; interrupted and started again, it goes on. RUN/paper.md has the
    paper's tables with what it found and what differs here, 'boostfeat report RUN' a page with all curves.

    \b
    Example:
      boostfeat replicate ta13 dev.nbest --select select.nbest \\
        --test test.nbest -o ta13
      boostfeat replicate emr13 dev.nbest --select select.nbest \\
        --test test.nbest --test more.nbest --quick -o emr13
    """
    digests = "".join(sorted(map(digest, o.graphs)))
    job = paper_of(o.paper.lower(), quick=o.quick, graphs=digests and sha256(digests.encode()).hexdigest()[:12])
    options, on_graphs = paper_options(job, seed=o.seed), mert_on_graphs(o) if o.graphs else None
    if o.tune_on and not job.bitext:
        raise InputError(f"--tune-on: expected the paper g13 with it, found {o.paper}; leave it out")
    paths = {"dev": o.store, "select": o.select, **numbered("test", o.test)}
    results = o.compared(paths, o.output, options, on_graphs=on_graphs)
    more = {}
    for name, path in numbered("bitext", o.tune_on).items():
        folder = f"{o.output}/{name}"
        more[name] = Folder(Path(folder)), o.compared({**paths, "dev": path}, folder, bitext_options(job, options))
    page = write_page(Folder(Path(o.output)), job, results, more)
    findings = table(finding_rows(page["findings"]), header=FINDINGS, right=())
    tables = (f"{t['title']}\n{table(t['rows'], header=t['header'])}" for t in page["tables"])
    o.emit({"output": o.output, **page}, "\n\n".join([page["question"] + "\n" + findings, *tables]))
    o.say(f"{o.output}/paper.md in {o.seconds:.1f} s; 'boostfeat report {o.output}' draws it")


def mert_on_graphs(o: ReplicateFlags) -> OnGraphs:
    """Return what fits MERT on all derivations of the graphs, which have to be of all sentences of the list."""
    nbest = read_store(o.store)
    graphs = graphs_of(nbest, GraphOptions(o.graphs, names=core_names(o.graph_names)))
    if len(graphs) < len(nbest):
        found = f"{len(graphs):,} of {counted(len(nbest), 'sentence')}"
        raise InputError(f"--graphs: expected one for each sentence of the list, found {found}; give all, or a shorter list")

    def fit(tuner: Any, dev: NBest, run: Run) -> Model:
        return fit_graphs(tuner, dev, graphs, None, replace(run, pick="last"))  # the best on the graphs

    return fit


@dataclass(frozen=True, kw_only=True)
class ReportFlags(OutputFlags):
    """Flags of ``report``."""

    run: str = argument("RUN/", "Folder that compare or loop wrote")
    output: str | None = output_file("The page (report.html, unless --figures or --tex is given)", "FILE.html", default=None)
    figures: str | None = file("Write the figures of an article as PDF and SVG into this folder", "DIR")
    tex: str | None = file("Write the table of results for LaTeX", "FILE.tex")
    columns: str | None = file("Columns of --tex, separated by commas", "NAMES")
    test: str | None = file("The test list, if it is no longer where compare read it", "LIST")
    files: ResourceFiles = field(default_factory=ResourceFiles)


def report(o: ReportFlags) -> None:
    """Write a comparison or a loop as one HTML page that works offline: results, curves, trees, features, sentences.

    For an article, --figures writes what compares systems, and curves, effects and trees of one of them, for one column and for
    two (it takes 'boostfeat[plot]'); --tex writes the table with the best in bold and marks of significance.

    \b
    Example:
      boostfeat report run/ -o report.html
      boostfeat report run/ --figures figures --tex table.tex
    """
    page = o.output or (None if o.figures or o.tex else "report.html")
    if page and page != "-" and not is_special(page) and Path(page).suffix not in (".html", ".htm"):
        raise InputError(f"-o {page}: the page is HTML; name a file that ends in .html, or print it from a browser")
    if o.columns and not o.tex:
        raise InputError("--columns does nothing without --tex FILE; give both")
    written: dict[str, Any] = {"output": page}
    with feature_maker(o, o.files) as maker, comparison_of(o.run) as folder:
        if not page and not o.figures:
            refuse_files(o.files, "a page or --figures")
        if page:
            written["bytes"] = write_report(folder, page, test=o.test, maker=maker)
            o.say_written(f"a page of {written['bytes'] / 1e6:.1f} MB for any browser", page)
        if o.figures:
            written |= {"folder": o.figures, "figures": write_figures(folder, o.figures, test=o.test, maker=maker)}
            o.say_written(f"{counted(written['figures'], 'figure')} as PDF and SVG (the page has more)", o.figures)
        if o.tex:
            written["tex"] = o.tex
            write_table(folder, o.tex, comma_list(o.columns))
            o.say_written("a table for LaTeX", o.tex)
    o.emit_json(written)


@contextlib.contextmanager
def comparison_of(run: str) -> Iterator[str]:
    """Give the folder itself, or a comparison of what a loop decoded, which is gone afterwards."""
    config = read_json(Path(run) / "config.json") if Path(run).is_dir() else None
    if not str((config or {}).get("boostfeat", "")).startswith("loop/"):
        yield run
        return
    with TemporaryDirectory() as made:
        loop_comparison(run, made)
        yield made
