"""From the files of a corpus to one container: lists, references and source, cut and checked together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import glob
from itertools import islice
from pathlib import Path

from ..core.errors import InputError
from ..core.files import read_lines
from ..lists.build import ReadOptions, attach, with_tokenizer
from ..lists.nbest import NBest
from ..lists.pieces import MARKS, scheme_of_lines
from . import GRAPHS, detect, read_all
from .import_warnings import warn_of_names, warn_of_pieces, warn_of_references
from .system_outputs import read_systems

PLAIN = ReadOptions()
LINES = ("lines", "opennmt", "nemo")
NEURAL = ("marian", "fairseq", "sockeye", "vosk", "openai", "hyporadise", "mlm-scoring", "espnet", *LINES, "outputs of systems")
OF_SOME: dict[str, tuple[str, tuple[str, ...]]] = {  # of ReadOptions: flag, and the formats that it is for
    "n": ("-n", LINES),
    "counts": ("--counts", LINES),
    "scores": ("--scores", LINES),
    "names": ("--names", ("moses-osgx",)),
    "weights": ("--weights", GRAPHS),
    "distinct": ("--derivations", GRAPHS),
    "subwords": ("--subwords", NEURAL),
    "units": ("--units", NEURAL),
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
    nbest = with_tokenizer(nbest, corpus.tokenize, threads=options.threads)
    nbest = attach(nbest, source=source, refs=refs, name=", ".join(corpus.files or ("--system",)), threads=options.threads)
    warn_of_pieces(nbest, options.warn)
    warn_of_references(nbest, options.warn)
    warn_of_names(nbest, options.warn)
    return nbest


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
