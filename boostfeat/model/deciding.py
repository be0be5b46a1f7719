"""How a model decides: by the highest score, or by the least Bayes risk under its own posterior [KB04].

    p(h) = softmax(scale · score(h)) over the list;   E(h) = Σ_{h'} p(h') BLEU+1(h, h')

The score says which hypothesis is likely to be the best; E, which of them has most in common with all that may be. What a length
costs that references would not have (model.length) may come off the score first. Folds of the training list choose
(boosting.decision), and the model's config holds what they chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..core.text import split_words
from ..lists.mbr import expected_gains, mbr_gains
from ..lists.nbest import NBest, strings
from ..lists.words import words_of
from ..metrics.ngrams import posteriors
from .length import Length, check_sources

KEY, CALIBRATION = "decision", "calibration"  # of a model's config
Config = Mapping[str, Any]
MBR, SCORE = "mbr", "score"


def posterior_scale(config: Config) -> float | None:
    """The scale of the posterior that a model of this config decides by; None where the highest score decides."""
    told = config.get(KEY)
    if not isinstance(told, Mapping) or told.get("by") != MBR:
        return None
    scale = told.get("scale")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < inf:
        raise InputError(f"model: {KEY}: expected a scale above 0, found {clip(repr(scale))}; make the model again")
    return float(scale)


def length_of(config: Config) -> Length | None:
    """What a model of this config knows of lengths; None where it does not weigh them."""
    told = config.get(KEY)
    return Length.of(told["length"]) if isinstance(told, Mapping) and "length" in told else None


def ways_to_decide(config: Config) -> str:
    """What decides beside the highest score; empty where nothing does."""
    ways = ["the length that references teach counts"] if length_of(config) is not None else []
    return " and ".join(ways + ["minimum Bayes risk decides"] * (posterior_scale(config) is not None))


def decisive(config: Config) -> dict[str, Any]:
    """What of a config decides which hypothesis is taken: a model's signature is of it. Empty where the highest score does."""
    told = config.get(KEY)
    told = told if isinstance(told, Mapping) else {}
    kept = {"scale": told.get("scale")} if told.get("by") == MBR else {}
    kept |= {"length": told["length"]} if "length" in told else {}
    kept |= {CALIBRATION: config[CALIBRATION]} if CALIBRATION in config else {}  # rerank --keep-first auto
    return kept | ({"gain": config.get("gain")} if config.get("method") == MBR else {})  # compare's system of that name


def ranks(config: Config, nbest: NBest, scores: F64, *, threads: int = 1) -> F64:
    """[H] what a model ranks hypotheses by: their scores [H], less what their lengths cost, or their expected BLEU+1."""
    scale, length = posterior_scale(config), length_of(config)
    if length is not None:
        scores = scores - length.costs_in(nbest)
    if scale is None:
        return scores
    return mbr_gains(nbest, scores, (scale,), threads=threads)[:, 0]


def ranks_of_few(config: Config, source: str, texts: Sequence[str], scores: F64) -> F64:
    """[K] what a model ranks the texts of one list by."""
    scale, length = posterior_scale(config), length_of(config)
    if length is not None and len(texts):
        check_sources([source])
        scores = scores - length.costs(source, np.array([len(split_words(text)) for text in texts]))
    if scale is None or not len(texts):
        return scores
    whole = np.array([0, len(texts)])
    p = posteriors(whole, scores, scale=scale)
    return expected_gains(whole, words_of(strings(texts)), p[:, None])[:, 0]
