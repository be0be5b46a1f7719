"""From the files of a corpus to one container: lists, references and source, cut and checked together; files of ``join``."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from itertools import islice, pairwise
from math import log1p
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from ..core.arrays import F64, I64, in_threads, offsets
from ..core.errors import FormatError, InputError, counted
from ..core.files import new_folder, read_head, read_lines
from ..core.overwriting import HEAD
from ..core.strict_json import typed
from ..core.text import BLANKS
from ..lists.absent import are_few, with_absent
from ..lists.agreement import check_agreement
from ..lists.build import ReadOptions, TableColumns, aligned, with_stats, with_tokenizer
from ..lists.forks import in_forks
from ..lists.joining import TokenNumbers, plain_tokens
from ..lists.nbest import NBest, strings, take_strings
from ..lists.pieces import MARKS, has_marks, scheme_of, scheme_of_lines
from ..lists.quality import join_qualities
from ..lists.store import MAGIC, PART_NAME, ends_of, parts_of, read_store, write_store
from ..lists.tables import read_rows
from ..lists.words import words_of
from ..metrics.metric import tokenizer
from . import GRAPHS, READERS, detect, files_of, read, read_all
from .lines import read_systems
from .neural_lists import Number, objects

PLAIN = ReadOptions()
LINES = tuple(name for name, module in READERS.items() if module == "lines")
TOKENS = tuple(name for name, module in READERS.items() if module.startswith(("neural_lists", "token_lines")))
NEURAL = (*TOKENS, *LINES, "outputs of systems", "table")
OF_SOME: dict[str, tuple[str, tuple[str, ...]]] = {  # of ReadOptions: flag, and the formats that it is for
    "n": ("-n", LINES),
    "counts": ("--counts", LINES),
    "scores": ("--scores", LINES),
    "names": ("--names", ("moses-osgx",)),
    "weights": ("--weights", GRAPHS),
    "distinct": ("--derivations", GRAPHS),
    "subwords": ("--subwords", NEURAL),
    "units": ("--units", NEURAL),
    "columns": ("--group", ("table",)),
}


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus, by name."""

    files: Sequence[str]
    refs: Sequence[str] = ()
    source: str | None = None
    format: str = "auto"
    first: int | None = None  # sentences to keep
    systems: Sequence[str] = ()  # instead of files: NAME=FILE, one a system
    tokenize: str = "none"  # for BLEU, as sacrebleu
    missing: str | None = None  # what becomes of values that few hypotheses lack, see lists.absent

    def absolute(self) -> Corpus:
        """Return the corpus as a process with another working folder opens it: its source and references."""
        refs = [os.path.abspath(path) for path in expand(self.refs)]
        return replace(self, refs=refs, source=self.source and os.path.abspath(self.source))


class Lines(NamedTuple):
    """The source sentences and the references that were given."""

    source: Sequence[str] | None
    refs: Sequence[Sequence[str]]

    @classmethod
    def of(cls, corpus: Corpus) -> Lines:
        """Read the lines of a corpus."""
        source = _lines(corpus.source, corpus.first) if corpus.source else None
        return cls(source, [_lines(path, corpus.first) for path in expand(corpus.refs)])

    def aligned(self, nbest: NBest, name: str, *, start: int = 0, end: int | None = None) -> NBest:
        """Return a list with its lines; it is the sentences from ``start`` to the one before ``end``, or to the last line."""
        source, refs = self.source and self.source[start:end], [file[start:end] for file in self.refs]
        moved = replace(nbest, ids=nbest.ids - start) if start else nbest
        out = aligned(moved, source=source, refs=refs, name=name)
        return replace(out, ids=out.ids + start) if start else out


def import_corpus(corpus: Corpus, options: ReadOptions) -> NBest:
    """The lists of a corpus with source, references and BLEU statistics."""
    lines, options = _given(corpus, options)
    nbest = _read_lists(corpus, options)
    if not len(nbest):
        raise _too_few(corpus.first)
    return _finished(corpus, lines, nbest, options)


def _given(corpus: Corpus, options: ReadOptions) -> tuple[Lines, ReadOptions]:
    """Return source and references, and options that know of them; raise for what does not go together."""
    if [*corpus.files, *corpus.systems, corpus.source, *expand(corpus.refs)].count("-") > 1:
        raise InputError("'-': expected one input from standard input, found more; name files")
    if bool(corpus.files) == bool(corpus.systems):
        raise InputError("import: expected lists, or --system files, found both or none; name one kind")
    _check_used(corpus, options)
    lines = Lines.of(corpus)
    return lines, replace(options, source=lines.source, subwords=_subwords(lines.refs, options), first=corpus.first)


def _read_lists(corpus: Corpus, options: ReadOptions) -> NBest:
    """Read the lists of a corpus; none where all sentences are beyond ``first``."""
    nbest = read_systems(corpus.systems, options) if corpus.systems else read_all(corpus.files, options, format=corpus.format)
    return nbest if corpus.first is None else nbest.take(nbest.ids < corpus.first)


def _too_few(n: int | None) -> InputError:
    return InputError(f"--first {n}: expected sentences with ids below {n}, found none; raise it, or sort the list")


def _finished(corpus: Corpus, lines: Lines, nbest: NBest, options: ReadOptions, *, is_part: bool = False) -> NBest:
    """Return the lists with their lines and statistics; a part of a list has the lines of its own sentences."""
    name = ", ".join(corpus.files or ("--system",))
    for path in filter(_is_cut, corpus.files):
        options.warn(f"warning: {path}: its last line has no line end; was the file cut?")
    warn_of_shape(nbest, options.warn)
    nbest = with_absent(nbest, corpus.missing, name, options.warn)
    nbest = with_tokenizer(nbest, corpus.tokenize, threads=options.threads)
    first, last = int(nbest.ids[0]), int(nbest.ids[-1])
    is_inside = is_part and first <= last < min(map(len, filter(None, (lines.source, *lines.refs))), default=0)
    own = {"start": first, "end": last + 1} if is_inside else {}
    nbest = lines.aligned(nbest, name, **own)
    said = list[str]()
    count = partial(with_stats, nbest, threads=options.threads) if lines.refs else partial(replace, nbest)
    _, nbest = in_threads(lambda job: job(), [partial(warn_of_references, nbest, said.append), count], options.threads)
    for line in said:
        options.warn(line)
    names = set(nbest.global_names)
    if both := next((name for name in nbest.global_names if {f"{name}_0", f"{name}_1"} <= names), None):
        several = f"{both} has one value in some hypotheses, more in others ({both}_0, ...)"
        options.warn(f"warning: {several}; those that are absent count as 0")
    return nbest


# ---------------------------------------------------------------------------------------------------------------------
# Lists in parts
# ---------------------------------------------------------------------------------------------------------------------


class PartTold(NamedTuple):
    """A part that a process has written, and what it says of it."""

    file: Path
    name: str  # of the list that it was
    first: int
    last: int
    sizes: tuple[int, int, int]  # sentences, hypotheses, units
    ends: NBest
    warnings: list[str]


def import_parts(
    corpus: Corpus, options: ReadOptions, folder: str, lower_is_better: Sequence[str] = (), cluster: Any = None
) -> list[PartTold]:
    """Write the lists of a corpus to a folder of stores, a file each, which processes or workers read side by side.

    Sentences of a part follow those of the parts before; a list that is read from the folder is the one that all files give.
    """
    if corpus.systems or "-" in corpus.files:
        raise InputError(f"-o {folder}: a folder of parts has a part for each file, and no --system or '-'; name files")
    if corpus.missing == "worst":
        raise InputError("--missing worst looks at all lists; write one store (-o without '/' at its end)")
    lines, options = _given(corpus, options)
    files = [str(file) for path in corpus.files for file in files_of(path)]
    with new_folder(folder) as place:
        if cluster is None:
            read = partial(_import_part, corpus, options, place, lower_is_better, lines=lines)
            found = in_forks(read, list(enumerate(files)), options.threads)
        else:
            elsewhere = replace(options, source=None, warn=PLAIN.warn)
            read = partial(_import_part, corpus.absolute(), elsewhere, place, lower_is_better)
            found = cluster.side_by_side(read, list(enumerate(map(os.path.abspath, files))))
        told = sorted(filter(None, found), key=lambda part: part.first)
        if not told:
            raise _too_few(corpus.first)
        for line in dict.fromkeys(line for part in told for line in part.warnings):
            options.warn(line)
        _line_up(told, lines, options)
        for k, part in enumerate(told):
            os.replace(part.file, place / PART_NAME.format(k + 1, len(told)))
        for difference in check_agreement({part.name: part.ends for part in told}, allow_missing=True):
            options.warn(f"warning: {difference}")
    return told


def _import_part(
    corpus: Corpus,
    options: ReadOptions,
    place: Path,
    lower_is_better: Sequence[str],
    numbered: tuple[int, str],
    *,
    lines: Lines | None = None,
) -> PartTold | None:
    """Write a file of a corpus as a part; None where it is beyond ``first``. Without lines, a worker reads them itself."""
    (k, file), said = numbered, list[str]()
    lines = lines or Lines.of(corpus)
    corpus, options = replace(corpus, files=[file]), replace(options, source=lines.source, warn=said.append, threads=1)
    nbest = _read_lists(corpus, options)
    if not len(nbest):
        return None
    nbest = join_qualities(_finished(corpus, lines, nbest, options, is_part=True), [], lower_is_better)
    write_store(nbest, path := place / f"{k}.nbest")
    sizes = len(nbest), nbest.n_hyps, nbest.n_occurrences
    return PartTold(path, file, int(nbest.ids[0]), int(nbest.ids[-1]), sizes, ends_of(nbest), said)


def _line_up(told: Sequence[PartTold], lines: Lines, options: ReadOptions) -> None:
    """Check that parts follow each other, and that all lines have a part; those between two parts are of the second."""
    end, before = 0, ""
    for part in told:
        if part.first < end:
            raise InputError(
                f"{part.name}: expected sentences after {end - 1}, the last of {before}, found {part.first}; no sentence is in "
                "two parts: write one store (-o without '/' at its end), where lists of one sentence are put together"
            )
        if part.first > end and (before or lines.source is not None or lines.refs):
            numbers = f"sentence {end}" if part.first == end + 1 else f"sentences {end} to {part.first - 1}"
            options.warn(f"warning: no file has {numbers}, before those of {part.name}; is one missing?")
        if part.first > end and (lines.source is not None or lines.refs):
            own = lines.aligned(read_store(part.file), part.name, start=end, end=part.last + 1)
            own = with_stats(own, threads=options.threads) if lines.refs else own
            write_store(own, anew := part.file.with_suffix(".new"))
            os.replace(anew, part.file)
        end, before = part.last + 1, part.name
    for kind, given in (("source", lines.source), *(("references", file) for file in lines.refs)):
        if given is not None and len(given) != end:
            raise InputError(
                f"{before}: expected sentence ids up to {len(given) - 1}, as {kind} with {counted(len(given), 'line')} has, "
                f"found ids up to {end - 1}; give the {kind} of these very lists"
            )


def _is_cut(path: str) -> bool:
    """Tell whether a plain file of ``|||`` lines does not end as lines do; decoders end the last one too."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as stream:
        head = stream.read(HEAD)
        stream.seek(-1, os.SEEK_END)
        return b"|||" in head and stream.read() != b"\n"


def import_lists(
    files: str | Path | Sequence[str | Path],
    *,
    refs: str | Path | Sequence[str | Path] = (),
    source: str | Path | None = None,
    format: str = "auto",
    first: int | None = None,
    tokenize: str = "none",
    quality: Mapping[str, str | Path] | str | Sequence[str] = (),
    lower_is_better: Sequence[str] = (),
    group: str | None = None,
    text: str | None = None,
    features: str | Sequence[str] = (),
    missing: str | None = None,
    **options: Any,
) -> NBest:
    """Read lists as ``boostfeat import`` does; ``options`` are those of ReadOptions, as size=100.

    ``quality`` has files by name. Of a table, ``group``, ``text``, ``features`` and ``quality`` name columns, and so do
    ``source`` and ``refs`` where there is no such file.
    """
    lists, references = ([str(own)] if isinstance(own, str | Path) else [*map(str, own)] for own in (files, refs))
    corpus = Corpus(lists, references, None if source is None else str(source), format, first, tokenize=tokenize, missing=missing)
    named = [f"{name}={path}" for name, path in quality.items()] if isinstance(quality, Mapping) else quality
    specs = [named] if isinstance(named, str) else [*named]
    corpus, columns, of_files = of_table(corpus, group, text, features, specs)
    return join_qualities(import_corpus(corpus, ReadOptions(columns=columns, **options)), of_files, lower_is_better)


def of_table(
    corpus: Corpus, group: str | None, text: str | None, features: str | Sequence[str], quality: Sequence[str]
) -> tuple[Corpus, TableColumns | None, Sequence[str]]:
    """Return a corpus without what its table has, the table's columns by what they hold, and the quality that is in files.

    Sources and references may be in files as well.
    """
    if group is None:
        return corpus, None, quality
    if text is None:
        raise InputError("--group: a table needs --text COLUMN too; name it")
    source = corpus.source if corpus.source and not Path(corpus.source).exists() else None
    refs = [ref for ref in corpus.refs if not Path(ref).exists() and not glob(ref)]
    names = features.split(",") if isinstance(features, str) else features
    columns = TableColumns(group, text, names, [name for name in quality if "=" not in name], source, refs)
    format, files = "table" if corpus.format == "auto" else corpus.format, [ref for ref in corpus.refs if ref not in refs]
    corpus = replace(corpus, refs=files, source=None if source else corpus.source, format=format)
    return corpus, columns, [spec for spec in quality if "=" in spec]


def _check_used(corpus: Corpus, options: ReadOptions) -> None:
    """Raise for an option that the format of the lists has no use for: what it says would not happen."""
    given = [(flag, formats) for name, (flag, formats) in OF_SOME.items() if getattr(options, name) != getattr(PLAIN, name)]
    for path in (corpus.files or ("--system",)) if given else ():
        found = "outputs of systems" if corpus.systems else detect(path) if corpus.format == "auto" else corpus.format
        for flag, formats in given:
            if found not in formats:
                raise InputError(f"{path}: {flag}: expected one of the formats {', '.join(formats)}, found {found}; leave it out")


def expand(patterns: Sequence[str]) -> list[str]:
    """The files that names and patterns like ``ref.*`` stand for; a file of that very name comes first."""
    out: list[str] = []
    for pattern in patterns:
        found = [pattern] if pattern == "-" or Path(pattern).exists() else sorted(glob(pattern))
        if not found and any(c in pattern for c in "*?["):
            raise InputError(f"{pattern}: expected files of this pattern, found none; check the path")
        out += found or [pattern]
    return out


def _lines(path: str, first: int | None) -> list[str]:
    return [line for _, line in islice(read_lines(path), first)]


def _subwords(refs: Sequence[Sequence[str]], options: ReadOptions) -> str:
    """Return the kind of pieces that is told; texts stay in pieces where the references are in pieces."""
    if options.subwords != "auto" or not refs:
        return options.subwords
    scheme = scheme_of_lines([line for file in refs for line in file])
    if scheme == "none":
        return "auto"
    options.warn(
        f"the references are in pieces ({scheme}, {MARKS[scheme]!r}): texts are kept in pieces, and scores are of pieces; "
        f"--subwords {scheme} and references in words give those of words"
    )
    return "none"


# ---------------------------------------------------------------------------------------------------------------------
# Warnings: lists and references that can be read, and whose scores would mean little
# ---------------------------------------------------------------------------------------------------------------------


def warn_of_references(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Say so where references cannot be those of the lists: empty, the source, or no nearer than those of other sentences.

    And where texts are in pieces and references are not: no metric can compare them.
    """
    if not len(nbest.refs):
        return
    if (
        has_marks(nbest.text)
        and (scheme := scheme_of(text := words_of(nbest.text))) != "none"
        and scheme_of(words_of(nbest.refs)) == "none"
    ):
        share = np.mean(text.per_row(text.matches(MARKS[scheme])) > 0)
        warn(
            f"{share:.0%} of the texts have {MARKS[scheme]!r}: they are in pieces ({scheme}) and the references are not, so that "
            f"scores mean nothing; join the pieces of this list before, or by --subwords {scheme} where its format has that"
        )
    refs, sources = nbest.refs.to_pylist(), nbest.source.to_pylist()
    if without := sum(a == b for a, b in pairwise(nbest.ref_ptr.tolist())):
        warn(f"warning: sentences without references: {without:,} of {len(nbest):,}; no metric is computed unless all have them")
    if empty := sum(not ref.strip(BLANKS) for ref in refs):
        warn(f"warning: {empty:,} of {len(refs):,} references are empty; their hypotheses cannot score")
    if any(sources) and all(
        source in refs[a:b] for source, (a, b) in zip(sources, pairwise(nbest.ref_ptr.tolist()), strict=True)
    ):
        warn("warning: the references are the source sentences; give the translations with -r")
    for line in mismatches(nbest):
        warn(f"warning: {line}")


def warn_of_shape(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Tell of sentences that lack between others, of few hypotheses without a score, and of the one list that is shorter."""
    ids, counts = nbest.ids, np.diff(nbest.hyp_ptr)
    if len(gaps := np.flatnonzero(np.diff(ids) > 1)):
        lacking, first = int((np.diff(ids) - 1).sum()), ids[gaps[0]] + 1
        of = counted(lacking, "sentence")
        warn(f"warning: {of} between others without a list, first {first}; is a part of the file missing?")
    without = np.flatnonzero(np.isnan(nbest.score))
    if are_few(np.array(len(without)), nbest.n_hyps):
        first = ids[nbest.sent_of_hyp[without[0]]]
        of = f"{counted(len(without), 'hypothesis')} of {nbest.n_hyps:,}"
        warn(f"warning: {of} without the decoder's score, first in sentence {first}; was a line cut?")
    most = counts.max(initial=0)
    if len(counts) >= FEW and np.count_nonzero(counts < most) == 1:
        s = int(np.argmin(counts))
        few = counted(int(counts[s]), "hypothesis")
        warn(f"warning: the list of sentence {ids[s]} has {few}, all others {most:,}; was it cut?")


# ---------------------------------------------------------------------------------------------------------------------
# References and sources that do not match: found by the words that texts share with their own and with other lines
# ---------------------------------------------------------------------------------------------------------------------

FEW, MOST = 20, 5_000  # sentences that tell something; beyond these, some of the whole list are looked at
NEARER, SURE, CLEAR = 1.1, 3.0, 3.0  # times as much shared, and standard errors: not by chance; times: plainly not
OTHER, APART = 1.15, 0.05  # times as much, and so much more, where texts are read in another way
FORMS: dict[str, tuple[Callable[[str], str], str]] = {  # by what differs: how to read both alike, and what to do
    "in other case": (str.lower, "bring both into one case"),
    "in another Unicode form": (lambda text: normalize("NFC", text), "bring both into NFC (uconv -x any-nfc)"),
    "tokenised otherwise": (lambda text: " ".join(re.findall(r"\w+", text)), "tokenise both alike, or give --tokenize"),
}

WordSets = Sequence[set[str]]


def mismatches(nbest: NBest) -> Iterator[str]:
    """Yield a line for what the references of a list look like, other than its own; each of several references is looked at."""
    counts = np.diff(nbest.ref_ptr)
    n_files = int(min(counts, default=0))
    some = np.flatnonzero(np.diff(nbest.hyp_ptr))
    some = some[np.unique(np.linspace(0, len(some) - 1, min(len(some), MOST)).astype(np.int64))]
    texts = take_strings(nbest.text, nbest.hyp_ptr[some]).to_pylist()
    if len(texts) < FEW or 2 * len({*texts}) < len(texts):
        return
    near = {*some.tolist(), *(some - 1).tolist(), *(some + 1).tolist()}
    source = [line if k in near else "" for k, line in enumerate(nbest.source.to_pylist())]
    found: dict[str, list[int]] = {}
    for k in range(n_files):
        lines = [line if s in near else "" for s, line in enumerate(nbest.refs.take(nbest.ref_ptr[:-1] + k).to_pylist())]
        if line := _mismatch(texts, some, lines, source, tokenizer(nbest.tokenizer)):
            found.setdefault(line, []).append(k)
    for line, files in found.items():
        who = "the references" if len(files) == n_files else ", ".join(f"reference {k + 1} of {n_files}" for k in files)
        yield f"{who}: {line}"


def _mismatch(texts: list[str], some: I64, lines: list[str], source: list[str], split: Callable[[str], str]) -> str | None:
    """Say what lines look like, of which ``lines[some]`` should be references of the texts; None: like references."""
    hyps = _words(texts, split)
    shares = _shares(hyps, _words(lines, split))
    own = shares(some)
    mean = float(own.mean())
    for what, (form, fix) in FORMS.items():
        both = [form(text) for text in texts], [form(line) for line in lines]
        alike = mean if both == (texts, lines) else _shares(*(_words(own, split) for own in both))(some).mean()
        if alike > max(OTHER * mean, mean + APART):
            return f"they look {what}: texts share {mean:.0%} of their words with them, {alike:.0%} read alike; {fix}"
    if any(source) and (nearer := _shares(hyps, _words(source, split))(some).mean()) > max(OTHER * mean, mean + APART):
        return f"texts share {mean:.0%} of their words with them, {nearer:.0%} with the source; are -s and -r swapped?"
    for shift, which in ((1, "after"), (-1, "before")):
        moved = shares(some + shift)
        first, last = _best_run(moved - own)
        before, after = own[first:last].mean() if last > first else 0.0, moved[first:last].mean() if last > first else 0.0
        if last - first >= FEW and after > max(NEARER * before, before + APART):
            place = f"from line {some[first] + 1} to {some[last - 1] + 1}"
            return (
                f"they look shifted by a line {place}: texts share {before:.0%} of their words with their own, {after:.0%} with "
                f"the line {which}; is one missing or there twice?"
            )
    other = np.mean([shares(np.roll(some, len(some) // k)) for k in (2, 3, 5)], axis=0)
    gain, chance = own - other, float(other.mean())
    if mean > max(NEARER * chance, chance + SURE * float(gain.std()) / len(gain) ** 0.5):
        first, last = _best_run((mean + chance) / 2 - own)  # where they are the worst
        part = own[first:last].mean() if last > first else mean
        if last - first < FEW or mean < CLEAR * chance or part > NEARER * chance:
            return None
        place, mean = f" from line {some[first] + 1} to {some[last - 1] + 1}", float(part)
    else:
        place = ""
    return (
        f"texts share {mean:.0%} of their words with them{place}, and {chance:.0%} with those of other sentences; are these of "
        "the same sentences, in the same order and language?"
    )


def _words(texts: Sequence[str], split: Callable[[str], str]) -> WordSets:
    return [set(split(text).split()) for text in texts]


def _shares(hyps: WordSets, refs: WordSets) -> Callable[[I64], F64]:
    """Return a function of places: [n] the share of each text's words that are in the line at its place; 0 beyond the lines.

    Rare words count for more.
    """
    met = Counter(word for line in refs for word in line)
    weight = {word: log1p(len(refs) / (1 + met[word])) for word in set().union(*hyps)}
    total = [sum(weight[word] for word in hyp) for hyp in hyps]

    def shares(places: I64) -> F64:
        out = np.zeros(len(hyps))
        for k, (hyp, place) in enumerate(zip(hyps, places.tolist(), strict=True)):
            if hyp and 0 <= place < len(refs):
                out[k] = sum(weight[word] for word in hyp & refs[place]) / total[k]
        return out

    return shares


def _best_run(values: F64) -> tuple[int, int]:
    """Return (first, end) of the run of values with the largest sum (Kadane's algorithm)."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    low = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - low))
    return int(np.argmin(sums[: end + 1])), end


# ---------------------------------------------------------------------------------------------------------------------
# Files that ``join`` reads besides files of numbers: tokens with numbers, and other lists
# ---------------------------------------------------------------------------------------------------------------------


class _Tokens(Struct):
    tokens: list[str]
    logprobs: list[Number] | None = None
    log_probs: list[Number] | None = None
    scores: list[Number] | None = None
    values: list[Number] | None = None


def read_other(path: str, *, threads: int, warn: Callable[[str], None]) -> NBest:
    """A list of the same texts: a store, or a list in any format."""
    if parts_of(path) or (Path(path).is_file() and read_head(path, len(MAGIC)) == MAGIC):
        return read_store(path)
    return read(path, ReadOptions(threads=threads, warn=warn))


def read_tokens(path: str) -> TokenNumbers:
    """Numbers of tokens, a line a hypothesis; or JSON lines ``{"tokens": [...], "logprobs": [...]}``."""
    if read_head(path).lstrip()[:1] not in (b"{", b"["):
        return TokenNumbers(*read_rows(path))
    texts: list[list[str]] = []
    values: list[list[float]] = []
    for where, row in objects(path):
        tokens, *columns = astuple(typed(row, _Tokens, where, fix="repair or remove it"))
        numbers: list[float] | None = next((column for column in columns if column is not None), None)
        if numbers is None or len(numbers) not in (len(tokens), len(tokens) + 1):
            keys = ", ".join(_Tokens.__struct_fields__[1:])
            expected = f"a number for each of {counted(len(tokens), 'token')} under one of {keys}"
            raise FormatError(where, expected=expected, found=str(len(numbers or ())), fix="repair or remove it")
        texts.append(tokens)
        values.append(numbers)
    plain = plain_tokens(texts)
    for own, numbers in zip(plain, values, strict=True):
        own += [""] * (len(numbers) - len(own))  # the end of the sentence
    return TokenNumbers(
        offsets(np.array([len(own) for own in values], np.int64)),
        np.array([v for own in values for v in own], np.float64),
        strings([text for own in plain for text in own]),
    )
