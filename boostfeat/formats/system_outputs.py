"""One file a system, a line a sentence: lists with one hypothesis of each system.

    sys:NAME    1 for the hypothesis of that system
    agree:NAME  BLEU+1 of a hypothesis against that system's, 0 for its own
    agreement   the mean of BLEU+1 against all others
    same        how many others have the very same text

Systems give no scores of their own: a model is needed to choose. Words are units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, repeated
from ..core.files import read_lines
from ..core.text import normal
from ..lists.build import ReadOptions
from ..lists.joining import with_features
from ..lists.mbr import expected_gains
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from ..lists.words import words_of


def read_systems(specs: Sequence[str], options: ReadOptions) -> NBest:
    """Lists of the systems ``NAME=FILE``, or ``FILE`` for one that is named like its file."""
    named = [_named(spec) for spec in specs]
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


def _named(spec: str) -> tuple[str, str]:
    name, equals, path = spec.partition("=")
    if not equals or Path(spec).exists():
        return Path(spec).name, spec
    if not name:
        raise InputError(f"--system {spec}: expected NAME=FILE, found no name; give one")
    return name, path


def _features(nbest: NBest, names: Sequence[str], *, threads: int) -> dict[str, F64]:
    """Columns [H] of which system it is and how much systems agree, each list being one hypothesis of each."""
    n, k = len(nbest), len(names)
    which = np.tile(np.eye(k), (n, 1))
    gains = expected_gains(nbest.hyp_ptr, words_of(nbest.text), which, threads=threads)
    gains[which == 1] = 0.0  # against itself
    texts = nbest.text.to_pylist()
    same = [Counter(texts[s * k : (s + 1) * k]) for s in range(n)]
    return {
        **{f"sys:{name}": which[:, j] for j, name in enumerate(names)},
        **{f"agree:{name}": gains[:, j] for j, name in enumerate(names)},
        "agreement": gains.sum(axis=1) / max(k - 1, 1),
        "same": np.array([same[i // k][text] - 1.0 for i, text in enumerate(texts)]),
    }
