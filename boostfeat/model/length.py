"""How many words a source sentence becomes, as references taught it, and what it costs a hypothesis to have others.

    q(source) = max(1, b_0 + b_1 · words + b_2 · letters + Σ b_stem over its words),    cost(h) = weight · (words(h) - q)² / q

Pairs of hypotheses teach which of two is better; how long the text has to be, references tell more directly. Source words count
by their first letters, as for Model 1 (features.references): what follows is mostly inflection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import F64, I64, Array, offsets, owners
from ..core.errors import InputError
from ..core.text import split_words

if TYPE_CHECKING:
    from ..lists.nbest import NBest

CUT = 5  # letters of a source word
MET = 3  # sentences that a stem has to be in for words of its own
SHRUNK = 2.0, 1e-3  # ridge penalties: on what a stem adds, on what all words have in common
SOLVING, EXACT = 1000, 1e-16  # steps at most, and the squared residual that is enough, of the first
_RUN = 1 << 18  # texts whose words are counted at a time


@dataclass(frozen=True)
class Length:
    """What references taught, and the weight of its cost."""

    shared: tuple[float, float, float]  # b_0, b_1, b_2
    stems: Mapping[str, float]
    weight: float = 0.0

    @classmethod
    def of(cls, told: Any) -> Length:
        """What a model file says. It may say anything."""
        try:
            shared, stems = tuple(map(_number, told["shared"])), {stem: _number(x) for stem, x in told["stems"].items()}
            weight = _number(told["weight"])
        except (TypeError, KeyError, ValueError, AttributeError):
            shared = ()
        if len(shared) != 3 or weight < 0:
            raise InputError("model: decision: expected a length of three numbers, stems and a weight; make the model again")
        return cls((shared[0], shared[1], shared[2]), stems, weight)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def weighing(self, weight: float) -> Length:
        return replace(self, weight=weight)

    def expected(self, source: str) -> float:
        """q"""
        words = split_words(source)
        constant, a_word, a_letter = self.shared
        total = constant + a_word * len(words) + a_letter * _letters(words)
        for stem in _stems(words):
            total += self.stems.get(stem, 0.0)
        return max(total, 1.0)

    def costs(self, source: str, counts: Array) -> F64:
        """[K] of hypotheses of so many words."""
        q = self.expected(source)
        return self.weight * (counts - q) ** 2 / q

    def costs_in(self, nbest: NBest) -> F64:
        """[H] of the hypotheses of lists."""
        sources, counts, ptr = nbest.source.to_pylist(), word_counts(nbest), nbest.hyp_ptr.tolist()
        check_sources(sources)
        own = (self.costs(source, counts[a:b]) for source, a, b in zip(sources, ptr, ptr[1:], strict=False))
        return np.concatenate([np.zeros(0), *own])


def check_sources(sources: Sequence[str]) -> None:
    if sources and not any(sources):
        raise InputError(
            "the model knows how long the translation of a source sentence is: expected these sentences, found none; import with "
            "-s SOURCE, or learn with --set decide=score"
        )


def word_counts(nbest: NBest) -> I64:
    """[H]"""
    from ..lists.words import words_of

    text = nbest.text
    return np.concatenate([np.zeros(0, np.int64), *(words_of(text[a : a + _RUN]).counts for a in range(0, len(text), _RUN))])


def learn_length(nbest: NBest) -> Length | None:
    """What the references of lists teach; None where there are none, or no source sentences."""
    sources, refs, ptr = nbest.source.to_pylist(), nbest.refs.to_pylist(), nbest.ref_ptr.tolist()
    bitext = [(source, ref) for source, a, b in zip(sources, ptr, ptr[1:], strict=False) for ref in refs[a:b]]
    return fitted(bitext) if any(source for source, _ in bitext) else None


def fitted(bitext: Sequence[tuple[str, str]]) -> Length:
    """Words of the reference less those of the source, by ridge regression on a constant, words, letters and stems.

    Sentences weigh 1 / words of the source: what lengths differ by grows with its root.
    """
    sources = [split_words(source) for source, _ in bitext]
    met = Counter(stem for words in sources for stem in dict.fromkeys(_stems(words)))
    place = {stem: k for k, stem in enumerate(stem for stem, n in met.items() if n >= MET)}
    known = [[place[stem] for stem in _stems(words) if stem in place] for words in sources]
    row, column = owners(offsets(np.array([len(own) for own in known], np.int64))), np.array([*chain(*known)], np.int64)
    words = np.array([len(own) for own in sources], np.float64)
    shared = np.stack([np.ones(len(words)), words, np.array([_letters(own) for own in sources], np.float64)], axis=1)
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


def _stems(words: Sequence[str]) -> list[str]:
    return [word[:CUT] for word in words]


def _letters(words: Sequence[str]) -> int:
    return sum(map(len, words))


def _number(x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, int | float) or not isfinite(x):
        raise ValueError(x)
    return float(x)
