"""Learn how many words a source sentence becomes, from references.

Pairs of hypotheses teach which of two is better; how long the text has to be, references tell more directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, offsets, owners
from ..core.text import split_words
from ..lists.nbest import NBest
from ..model.decision import CUT, Length, letters

MET = 3  # sentences that a stem has to be in for words of its own
SHRUNK = 2.0, 1e-3  # ridge penalties: on what a stem adds, on what all words have in common
SOLVING, EXACT = 1000, 1e-16  # steps at most, and the squared residual that is enough, of the first


def learn_length(nbest: NBest) -> Length | None:
    """Learn from the references of lists; None where there are none, or no source sentences."""
    bitext = pairs_of(nbest)
    return fitted(bitext) if any(source for source, _ in bitext) else None


def pairs_of(nbest: NBest, sentences: I64 | None = None) -> list[tuple[str, str]]:
    """Return (source, reference) of each reference of these sentences, or of all."""
    sources, refs, ptr = nbest.source.to_pylist(), nbest.refs.to_pylist(), nbest.ref_ptr.tolist()
    some = range(len(nbest)) if sentences is None else sentences.tolist()
    return [(sources[s], ref) for s in some for ref in refs[ptr[s] : ptr[s + 1]]]


def learn_lengths(bitext: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Learn options of a template."""
    length = fitted(bitext)
    return {"shared": list(length.shared), "of_stems": dict(length.stems)}


def fitted(bitext: Sequence[tuple[str, str]]) -> Length:
    """Words of the reference less those of the source, by ridge regression on a constant, words, letters and stems.

    Sentences weigh 1 / words of the source: what lengths differ by grows with its root.
    """
    sources = [split_words(source) for source, _ in bitext]
    stems = [[word[:CUT] for word in words] for words in sources]
    met = Counter(stem for own in stems for stem in dict.fromkeys(own))
    place = {stem: k for k, stem in enumerate(stem for stem, n in met.items() if n >= MET)}
    known = [[place[stem] for stem in own if stem in place] for own in stems]
    row, column = owners(offsets(np.array([len(own) for own in known], np.int64))), np.array([*chain(*known)], np.int64)
    words = np.array([len(own) for own in sources], np.float64)
    shared = np.stack([np.ones(len(words)), words, np.array([letters(own) for own in sources], np.float64)], axis=1)
    more = np.array([len(split_words(ref)) for _, ref in bitext], np.float64) - words
    weight, penalty = 1 / np.maximum(words, 1), np.repeat(SHRUNK, (len(place), shared.shape[1]))

    def predicted(b: F64) -> F64:
        return np.bincount(row, b[column], len(words)) + np.einsum("sk,k->s", shared, b[len(place) :])

    def gathered(x: F64) -> F64:
        x = weight * x
        return np.concatenate([np.bincount(column, x[row], len(place)), np.einsum("sk,s->k", shared, x)])

    squares = np.concatenate([np.bincount(column, weight[row], len(place)), np.einsum("sk,sk,s->k", shared, shared, weight)])
    found = _solved(lambda b: gathered(predicted(b)) + penalty * b, gathered(more), squares + penalty)
    constant, a_word, a_letter = (float(f"{x:.4g}") for x in found[len(place) :])
    return Length(
        (constant, 1 + a_word, a_letter), {stem: float(f"{x:.4g}") for stem, x in zip(place, found.tolist(), strict=False)}
    )


def _solved(times: Callable[[F64], F64], wanted: F64, diagonal: F64) -> F64:
    """x with A x = wanted, A symmetric and positive: conjugate gradients, by sums whose order does not depend on threads."""
    x, left = np.zeros(len(wanted)), wanted
    step = near = left / diagonal
    size = float(np.einsum("k,k", left, near))
    enough = size * EXACT
    for _ in range(SOLVING):
        if size <= enough:
            break
        moved = times(step)
        along = size / float(np.einsum("k,k", step, moved))
        x, left = x + along * step, left - along * moved
        near, before = left / diagonal, size
        size = float(np.einsum("k,k", left, near))
        step = near + size / before * step
    return x
