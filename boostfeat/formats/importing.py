"""From the files of a corpus to one container: lists, references and source, cut and checked together; files of ``join``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from ..core.arrays import offsets
from ..core.errors import FormatError, InputError, counted
from ..core.files import read_head, read_lines
from ..core.overwriting import HEAD
from ..core.strict_json import typed
from ..core.text import BLANKS
from ..lists.absent import are_few, with_absent
from ..lists.build import ReadOptions, attach, with_tokenizer
from ..lists.joining import TokenNumbers, plain_tokens
from ..lists.nbest import NBest, strings
from ..lists.number_files import read_rows
from ..lists.pieces import MARKS, has_marks, scheme_of, scheme_of_lines
from ..lists.quality import join_qualities
from ..lists.store import MAGIC, read_store
from ..lists.words import tokenise
from . import GRAPHS, detect, read, read_all
from .lines import read_systems
from .mismatches import FEW, mismatches
from .neural_lists import Number, objects

PLAIN = ReadOptions()
LINES = ("lines", "opennmt", "nemo")
NEURAL = (
    "marian",
    "fairseq",
    "sockeye",
    "vosk",
    "openai",
    "hyporadise",
    "mlm-scoring",
    "espnet",
    *LINES,
    "outputs of systems",
    "table",
)
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


def import_corpus(corpus: Corpus, options: ReadOptions) -> NBest:
    """The lists of a corpus with source, references and BLEU statistics."""
    ref_files = expand(corpus.refs)
    if [*corpus.files, *corpus.systems, corpus.source, *ref_files].count("-") > 1:
        raise InputError("'-': expected one input from standard input, found more; name files")
    if bool(corpus.files) == bool(corpus.systems):
        raise InputError("import: expected lists, or --system files, found both or none; name one kind")
    _check_used(corpus, options)
    source = _lines(corpus.source, corpus.first) if corpus.source else None
    refs = [_lines(path, corpus.first) for path in ref_files]
    options = replace(options, source=source, subwords=_subwords(refs, options), first=corpus.first)
    nbest = read_systems(corpus.systems, options) if corpus.systems else read_all(corpus.files, options, format=corpus.format)
    if corpus.first is not None:
        nbest = nbest.take(nbest.ids < corpus.first)
        if not len(nbest):
            n = corpus.first
            raise InputError(f"--first {n}: expected sentences with ids below {n}, found none; raise it, or sort the list")
    name = ", ".join(corpus.files or ("--system",))
    for path in filter(_is_cut, corpus.files):
        options.warn(f"warning: {path}: its last line has no end; was the file cut?")
    warn_of_shape(nbest, options.warn)
    nbest = with_absent(nbest, corpus.missing, name, options.warn)
    nbest = with_tokenizer(nbest, corpus.tokenize, threads=options.threads)
    nbest = attach(nbest, source=source, refs=refs, name=name, threads=options.threads)
    warn_of_pieces(nbest, options.warn)
    warn_of_references(nbest, options.warn)
    warn_of_names(nbest, options.warn)
    return nbest


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
    quality: Mapping[str, str | Path] | None = None,
    lower_is_better: Sequence[str] = (),
    **options: Any,
) -> NBest:
    """Read lists as ``boostfeat import`` does; ``quality`` has files by name, ``options`` those of ReadOptions, as size=100."""
    lists, references = ([str(own)] if isinstance(own, str | Path) else [*map(str, own)] for own in (files, refs))
    corpus = Corpus(lists, references, None if source is None else str(source), format, first, tokenize=tokenize)
    specs = [f"{name}={path}" for name, path in (quality or {}).items()]
    return join_qualities(import_corpus(corpus, ReadOptions(**options)), specs, lower_is_better)


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
    """Say so where references cannot be those of the lists: empty, the source, or no nearer than those of other sentences."""
    if not len(nbest.refs):
        return
    refs, sources = nbest.refs.to_pylist(), nbest.source.to_pylist()
    if without := sum(a == b for a, b in pairwise(nbest.ref_ptr.tolist())):
        warn(f"warning: sentences without references: {without:,} of {len(nbest):,}; no metric is computed unless all have them")
    if empty := sum(not ref.strip(BLANKS) for ref in refs):
        warn(f"warning: references without words: {empty:,} of {len(refs):,}; nothing can be right there")
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


def warn_of_names(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Say so where a feature has one value in some hypotheses and several in others: these have names of their own."""
    names = set(nbest.global_names)
    if both := next((name for name in nbest.global_names if {f"{name}_0", f"{name}_1"} <= names), None):
        warn(
            f"warning: {both} has one value in some hypotheses, more in others ({both}_0, ...); those that are absent count as 0"
        )


def warn_of_pieces(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Say so where texts are in pieces and the references are not: no metric can compare them."""
    if not len(nbest.refs) or not has_marks(nbest.text):
        return
    text, refs = tokenise(nbest.text, nbest.refs)
    scheme = scheme_of(text)
    if scheme != "none" and scheme_of(refs) == "none":
        share = np.mean(text.per_row(text.matches(MARKS[scheme])) > 0)
        warn(
            f"{share:.0%} of the texts have {MARKS[scheme]!r}: they are in pieces ({scheme}) and the references are not, so that "
            f"scores mean nothing; join the pieces of this list before, or by --subwords {scheme} where its format has that"
        )


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
    if Path(path).is_file() and read_head(path, len(MAGIC)) == MAGIC:
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
