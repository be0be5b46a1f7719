"""Plain text, a hypothesis a line: N lines a source (``-n N``), or as many as a file of counts says, or after ``NC=3`` lines.

OpenNMT's ``-n_best``, mbrs, COMET's tools and NeMo write such files. Numbers after a tab (or before it) are scores: the
first is the decoder's, and features are score, score_1, ... Others stand beside the text, ``--scores FILE`` or
``--scores NAME=FILE``: one number a line in the order of the hypotheses, see lists.tables. An empty line is an empty
hypothesis. Words are units.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import nan
from pathlib import Path

import numpy as np

from ..core.arrays import F64, offsets
from ..core.errors import FormatError, InputError, clip, counted, repeated
from ..core.files import read_lines
from ..core.text import normal
from ..lists.build import ReadOptions
from ..lists.joining import with_features
from ..lists.mbr import expected_under
from ..lists.nbest import NBest
from ..lists.tables import read_numbers
from ..lists.tokens import TokenBuilder, TokenHyp
from .fields import is_number, number

_COUNT = re.compile(r"NC=([0-9]{1,9})")
SCORE = "score"


def read(path: str | Path, options: ReadOptions) -> NBest:
    lines = [line for _, line in read_lines(path)]
    places = list(range(1, len(lines) + 1))
    counts = _marked(lines, str(path))
    if counts is not None:
        marks = set(offsets(np.array(counts) + 1)[:-1].tolist())
        places = [n for n in places if n - 1 not in marks]
        lines = [lines[n - 1] for n in places]
    else:
        counts = _counts(len(lines), str(path), options)
    texts, columns = _scores_of(lines, places, str(path))
    for spec in options.scores:
        name, file = _named(spec, "--scores")
        name, values = name if columns or file != spec else SCORE, read_numbers(file).values
        if name in columns:
            raise InputError(f"--scores: expected distinct names, found {name!r} twice; give NAME=FILE")
        if len(values) != len(lines):
            expected = f"{counted(len(lines), 'number')}, one for each hypothesis of {path}"
            raise InputError(f"{file}: expected {expected}, found {len(values)}; give its own scores")
        columns[name] = values.tolist()
    builder, at = TokenBuilder(options), 0
    main = next(iter(columns.values()), [nan] * len(lines))
    for sent, n in enumerate(counts):
        builder.sentence(sent, str(path))
        for k in range(at, at + n):
            features = {name: column[k] for name, column in columns.items()}
            builder.add(TokenHyp(sent, texts[k], f"{path}:{places[k]}", main[k], features))
        at += n
    return builder.finish()


def _marked(lines: Sequence[str], path: str) -> list[int] | None:
    """The counts of NC= lines, None if the file has none."""
    if not _COUNT.fullmatch(lines[0]):
        return None
    counts, k = [], 0
    while k < len(lines):
        mark = _COUNT.fullmatch(lines[k])
        if not mark or k + int(mark[1]) >= len(lines) + (not int(mark[1])):
            found = clip(lines[k]) if not mark else f"{counted(len(lines) - k - 1, 'line')} after it"
            expected = "a line like NC=3" if not mark else f"{counted(int(mark[1]), 'line')} after {mark[0]}"
            raise FormatError(f"{path}:{k + 1}", expected=expected, found=found, fix="check what wrote it")
        counts.append(int(mark[1]))
        k += 1 + int(mark[1])
    return counts


def _counts(n: int, path: str, options: ReadOptions) -> list[int]:
    if (options.n is None) == (options.counts is None):
        raise InputError(f"{path}: expected how many lines a source has, found nothing or both; give -n N, or --counts FILE")
    if options.n is not None:
        if n % options.n:
            raise InputError(
                f"{path}: expected a multiple of {counted(options.n, 'line')} (-n), found {n}; give the N that wrote it"
            )
        return [options.n] * (n // options.n)
    counts = read_numbers(str(options.counts)).values
    if (counts < 0).any() or (counts > 2**53).any() or (counts != np.floor(counts)).any():
        raise InputError(f"{options.counts}: expected whole numbers, found others; one count a source")
    if counts.sum() != n:
        raise InputError(
            f"{path}: expected {counted(int(counts.sum()), 'line')}, the sum of {options.counts}, found {n}; give its own counts"
        )
    return [int(c) for c in counts]


def _scores_of(lines: Sequence[str], places: Sequence[int], path: str) -> tuple[list[str], dict[str, list[float]]]:
    """Texts, and the numbers beside them, if lines have some: where most do, one without would make them words of all texts."""
    parts = [line.split("\t") for line in lines]
    width = Counter(map(len, parts)).most_common(1)[0][0] - 1 if parts else 0
    for text, own in ((0, slice(1, None)), (width, slice(0, width))) if width else ():
        fine = [len(p) == width + 1 and all(map(is_number, p[own])) for p in parts]
        if 2 * sum(fine) <= len(fine):
            continue
        if not all(fine):
            k = fine.index(False)
            expected = f"{counted(width, 'number')} beside the text and a tab, as most lines have"
            raise FormatError(f"{path}:{places[k]}", expected=expected, found=clip(lines[k]), fix="repair this line")
        names = [SCORE, *(f"{SCORE}_{k}" for k in range(1, width))]
        rows = [[number(v, f"{path}:{n}", "the score") for v in p[own]] for n, p in zip(places, parts, strict=True)]
        return [normal(p[text]) for p in parts], {name: [row[k] for row in rows] for k, name in enumerate(names)}
    return [normal(line) for line in lines], {}


# ---------------------------------------------------------------------------------------------------------------------
# Outputs of systems
# ---------------------------------------------------------------------------------------------------------------------


def read_systems(specs: Sequence[str], options: ReadOptions) -> NBest:
    """Lists with one hypothesis of each system ``NAME=FILE``, or ``FILE`` for one that is named like its file.

        sys:NAME    1 for the hypothesis of that system
        agree:NAME  BLEU+1 of a hypothesis against that system's, 0 for its own
        agreement   the mean of BLEU+1 against all others
        same        how many others have the very same text

    Systems give no scores of their own: a model is needed to choose. Words are units.
    """
    named = [_named(spec, "--system") for spec in specs]
    if twice := repeated(name for name, _ in named):
        raise InputError(f"--system: expected distinct names, found {twice!r} twice; give NAME=FILE")
    outputs = [[line for _, line in read_lines(path)] for _, path in named]
    if len({len(lines) for lines in outputs}) > 1:
        sizes = ", ".join(f"{path}: {len(lines)}" for (_, path), lines in zip(named, outputs, strict=True))
        raise InputError(f"--system: expected files with the same number of lines, found {sizes}; align them")
    builder = TokenBuilder(options)
    for s in range(len(outputs[0])):
        for (_, path), lines in zip(named, outputs, strict=True):
            builder.add(TokenHyp(s, normal(lines[s]), f"{path}:{s + 1}"))
    nbest = builder.finish()
    return with_features(nbest, _features(nbest, [name for name, _ in named][: options.size], threads=options.threads))


def _named(spec: str, flag: str) -> tuple[str, str]:
    """Return the name and the file of ``NAME=FILE``, or of ``FILE``, which is named like itself."""
    name, equals, path = spec.partition("=")
    if not equals or Path(spec).exists():
        return Path(spec).name, spec
    if not name:
        raise InputError(f"{flag} {spec}: expected NAME=FILE, found no name; give one")
    return name, path


def _features(nbest: NBest, names: Sequence[str], *, threads: int) -> dict[str, F64]:
    """Columns [H] of which system it is and how much systems agree, each list being one hypothesis of each."""
    n, k = len(nbest), len(names)
    which = np.tile(np.eye(k), (n, 1))
    gains = expected_under(nbest, which, threads=threads)
    gains[which == 1] = 0.0  # against itself
    texts = nbest.text.to_pylist()
    same = [Counter(texts[s * k : (s + 1) * k]) for s in range(n)]
    return {
        **{f"sys:{name}": which[:, j] for j, name in enumerate(names)},
        **{f"agree:{name}": gains[:, j] for j, name in enumerate(names)},
        "agreement": gains.sum(axis=1) / max(k - 1, 1),
        "same": np.array([same[i // k][text] - 1.0 for i, text in enumerate(texts)]),
    }
