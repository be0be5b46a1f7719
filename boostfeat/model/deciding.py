"""How a model decides: by the highest score, or by the least Bayes risk under its own posterior [KB04].

    p(h) = softmax(scale · score(h)) over the list;   E(h) = Σ_{h'} p(h') BLEU+1(h, h')

The score says which hypothesis is likely to be the best; E, which of them has most in common with all that may be. Folds of the
training list choose between the two (boosting.decision), and the model's config holds what they chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..core.text import split_words

if TYPE_CHECKING:
    from ..lists.nbest import NBest

KEY = "decision"  # of a model's config
Config = Mapping[str, Any]
MBR, SCORE = "mbr", "score"
_ORDERS = 4


def posterior_scale(config: Config) -> float | None:
    """The scale of the posterior that a model of this config decides by; None where the highest score decides."""
    told = config.get(KEY)
    if not isinstance(told, Mapping) or told.get("by") != MBR:
        return None
    scale = told.get("scale")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < inf:
        raise InputError(f"model: {KEY}: expected a scale above 0, found {clip(repr(scale))}; make the model again")
    return float(scale)


def ranks(config: Config, nbest: NBest, scores: F64, *, threads: int = 1) -> F64:
    """[H] what a model ranks hypotheses by: their scores [H], or their expected BLEU+1."""
    scale = posterior_scale(config)
    if scale is None:
        return scores
    from ..lists.mbr import mbr_gains

    return mbr_gains(nbest, scores, (scale,), threads=threads)[:, 0]


def ranks_of_few(config: Config, texts: Sequence[str], scores: F64) -> F64:
    """[K] the same for the texts of one list, without what compiled kernels need."""
    scale = posterior_scale(config)
    if scale is None or not len(texts):
        return scores
    p = np.exp(scale * (scores - scores.max()))
    return expected_bleu([split_words(text) for text in texts], p / p.sum())


def expected_bleu(texts: Sequence[Sequence[str]], p: F64) -> F64:
    """[K] Σ_k' p_k' BLEU+1(k, k') of tokenised texts: the plain twin of lists.mbr.expected_gains.

    With B_n [K, keys] the n-grams of each text (the second occurrence of one is a key of its own), B_n B_n' are the matches.
    """
    length = np.array([len(words) for words in texts], np.float64)
    log_matches, log_totals = np.zeros((len(texts), len(texts))), np.zeros(len(texts))
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in range(1, _ORDERS + 1):
            smooth = float(n > 1)
            log_matches += np.log(_matches(texts, n) + smooth)  # -inf where not a word matches: BLEU+1 is 0
            log_totals += np.log(np.maximum(length - (n - 1), 0.0) + smooth)
        brevity = np.minimum(0.0, 1 - length[None, :] / length[:, None])  # [text, reference]
        gain = np.exp((log_matches - log_totals[:, None]) / _ORDERS + brevity)
    return np.asarray(np.einsum("hr,r->h", np.nan_to_num(gain), p))


def _matches(texts: Sequence[Sequence[str]], n: int) -> F64:
    """[K, K] clipped n-gram matches of each two texts."""
    number: dict[tuple[tuple[str, ...], int], int] = {}
    rows = []
    for words in texts:
        seen: dict[tuple[str, ...], int] = {}
        row = []
        for gram in zip(*(words[k:] for k in range(n)), strict=False):
            seen[gram] = seen.get(gram, 0) + 1
            row.append(number.setdefault((gram, seen[gram]), len(number)))
        rows.append(row)
    holds = np.zeros((len(texts), len(number)))
    for k, row in enumerate(rows):
        holds[k, row] = 1.0
    return np.asarray(np.einsum("ag,bg->ab", holds, holds))
