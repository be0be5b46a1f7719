"""Decisions of a model: by the highest score, or by the least Bayes risk under its own posterior [KB04].

    p(h) = softmax(scale · score(h)) over the list;   E(h) = Σ_{h'} p(h') BLEU+1(h, h')

The score says which hypothesis is likely to be the best; E, which of them has most in common with all that may be. What a length
costs that references would not have may come off the score first:

    q(source) = max(1, b_0 + b_1 · words + b_2 · letters + Σ b_stem over its words),    cost(h) = weight · (words(h) - q)² / q

Where the margin of the choice over the decoder's is small, the decoder's may be kept: a calibration says how small. The model's
config holds all of it; the training lists teach it (boosting.selection).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import msgspec
import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..core.strict_json import typed
from ..core.text import split_words, string_buffers
from ..lists.choices import best_choice, decoder_choice
from ..lists.mbr import mbr_gains
from ..lists.nbest import NBest
from .chance import Chance

KEY, CALIBRATION, RANGES = "decision", "calibration", "ranges"  # of a model's config
Config = Mapping[str, Any]
MBR, SCORE = "mbr", "score"
CUT = 5  # letters of a source word: what follows is mostly inflection
_RUN = 1 << 14  # texts whose words are counted at a time
BLANK = np.uint8(ord(" "))
_FIX = "make the model again"


@dataclass(frozen=True)
class Length:
    """The length that references taught, and the weight of its cost."""

    shared: tuple[float, float, float]  # b_0, b_1, b_2
    stems: Mapping[str, float]
    weight: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def costs_in(self, nbest: NBest) -> F64:
        """Return [H] the costs of the hypotheses of lists."""
        sources = nbest.source.to_pylist()
        if sources and not any(sources):
            raise InputError(
                "the model knows how long the translation of a source sentence is: expected these sentences, found none; import "
                "with -s SOURCE, or learn with --set decide=score"
            )
        expected = np.array([expected_words(split_words(source), self.shared, self.stems) for source in sources])
        q = expected[nbest.sent_of_hyp]
        return self.weight * (word_counts(nbest) - q) ** 2 / q


def expected_words(source: Sequence[str], shared: Sequence[float], of_stems: Mapping[str, float]) -> float:
    """Return q of the words of a source sentence."""
    total = shared[0] + shared[1] * len(source) + shared[2] * letters(source)
    for word in source:
        total += of_stems.get(word[:CUT], 0.0)
    return max(total, 1.0)


def letters(words: Sequence[str]) -> int:
    return sum(map(len, words))


def word_counts(nbest: NBest) -> I64:
    """Return [H] the words of hypotheses: bytes that are no blanks and come after one, or first."""
    all_ptr, text = string_buffers(nbest.text)
    counts = np.empty(len(nbest.text), np.int64)
    for a in range(0, len(counts), _RUN):
        ptr = all_ptr[a : a + _RUN + 1]
        data = np.append(text[ptr[0] : ptr[-1]], BLANK)
        before = np.append(BLANK, data[:-1])
        before[ptr - ptr[0]] = BLANK
        begins = np.flatnonzero((data != BLANK) & (before == BLANK))
        counts[a : a + _RUN] = np.diff(np.searchsorted(begins, ptr - ptr[0]))
    return counts


class Decision(msgspec.Struct):
    """The decision in a model's config."""

    by: str = SCORE
    scale: Annotated[float, msgspec.Meta(gt=0)] | None = None  # of the posterior
    length: Length | None = None

    @classmethod
    def of(cls, config: Config) -> Decision:
        """Read it from a config; another kind of value decides nothing."""
        found = config.get(KEY)
        decision = typed(found, cls, f"model: {KEY}", fix=_FIX) if isinstance(found, Mapping) else cls()
        if (decision.by == MBR) != (decision.scale is not None):
            raise InputError(f"model: {KEY}: only minimum Bayes risk has a scale, and needs one; {_FIX}")
        return decision


def ways_to_decide(config: Config) -> str:
    """Say what decides beside the highest score; empty where nothing does."""
    decision = Decision.of(config)
    ways = ["the length that references teach counts"] if decision.length is not None else []
    return " and ".join(ways + ["minimum Bayes risk decides"] * (decision.scale is not None))


def decisive(config: Config) -> dict[str, Any]:
    """Select what of a config decides beside the highest score: a model's signature is of it."""
    told = config.get(KEY)
    told = told if isinstance(told, Mapping) else {}
    kept = {"scale": told.get("scale")} if told.get("by") == MBR else {}
    kept |= {"length": told["length"]} if "length" in told else {}
    kept |= {CALIBRATION: config[CALIBRATION]} if CALIBRATION in config else {}  # rerank --keep-first auto
    return kept | ({"gain": config.get("gain")} if config.get("method") == MBR else {})  # compare's system of that name


def ranks(config: Config, nbest: NBest, scores: F64, *, threads: int = 1) -> F64:
    """Return [H] what a model ranks hypotheses by: scores [H], less what their lengths cost, or their expected BLEU+1."""
    decision = Decision.of(config)
    if decision.length is not None:
        scores = scores - decision.length.costs_in(nbest)
    return scores if decision.scale is None else mbr_gains(nbest, scores, (decision.scale,), threads=threads)[:, 0]


@dataclass(frozen=True)
class Calibration:
    """Tells how good a model's choices are, by lists that it was not learned from."""

    keep_first: float  # margin over the decoder's choice below which that is kept; 0: never
    gain: float  # of keeping it, in points of the metric
    error: float  # of that gain
    lists: int  # that it was learned on, and those of them where the choice is not the decoder's
    changed: int
    chance: Chance | None = None  # None: of an earlier release, which asked how probably a choice beats the decoder's
    margin: Mapping[str, float] | None = None  # quantiles, of choices that are not the decoder's
    probability: Mapping[str, float] | None = None  # quantiles, of all choices

    def probabilities(self, nbest: NBest, ranked: F64, chosen: I64) -> F64:
        """Return [S] the probability of hypotheses [S] to be the best of lists that the model ranks so."""
        if self.chance is None:
            raise InputError("the model, of an earlier release, does not know how probably a choice is the best; learn it again")
        return self.chance.of_choices(nbest, ranked, chosen)

    @classmethod
    def of(cls, config: Config) -> Calibration:
        """Return what a model of this config carries."""
        if CALIBRATION not in config:
            raise InputError("the model was not calibrated on a held-out list; learn it with 'induce --select LIST'")
        return typed(config[CALIBRATION], cls, f"model: {CALIBRATION}", fix=_FIX)


def margins(nbest: NBest, scores: F64) -> tuple[I64, I64, F64]:
    """Return [S] each: the model's choice, the decoder's, and the margin between them; 0 for an empty list."""
    chosen, first = best_choice(nbest, scores), decoder_choice(nbest)
    some = chosen >= 0
    margin = np.zeros(len(chosen))
    margin[some] = scores[chosen[some]] - scores[first[some]]
    return chosen, first, margin


def careful_choice(nbest: NBest, scores: F64, least: float) -> tuple[I64, F64]:
    """Return [S] the model's choice where its margin is ``least`` or more, else the decoder's; and the margin of that."""
    chosen, first, margin = margins(nbest, scores)
    keeps = margin < least
    return np.where(keeps, first, chosen), np.where(keeps, 0.0, margin)


def least_margin(config: Config, keep_first: str) -> float:
    """Return the margin that ``auto`` (the model's own), ``never`` or a number stands for."""
    if keep_first == "auto":
        return Calibration.of(config).keep_first
    if keep_first == "never":
        return 0.0
    try:
        value = float(keep_first)
    except ValueError:
        value = -inf
    if not 0 <= value < inf:
        raise InputError(f"--keep-first: expected auto, never or a margin of 0 or more, found {keep_first!r}")
    return value
