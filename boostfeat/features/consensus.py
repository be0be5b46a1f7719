"""What the list knows: how much of a model's probability agrees with a unit or a hypothesis.

    p(h) = softmax(scale · score) over the list;   P(k) = Σ_{h has k} p(h) for an n-gram key k (see ``boostfeat.metrics.ngrams``)

Σ P(k) over a hypothesis' keys of order n is its expected number of n-gram matches with a translation drawn from p, clipped as
BLEU does; linear models of these are the linearised MBR of [T08]. They depend on the whole list: no decoder can
compute them while it searches, and a model that uses them can only rerank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.arrays import F64, I64, unique_rows
from ..core.errors import InputError
from ..core.kernels import kernel
from ..lists.choices import Scorer, best_choice
from ..lists.mbr import expected_gains, mbr_gains
from ..lists.nbest import NBest
from ..lists.quality import default_metric
from ..metrics.metric import Metric, metric_of
from ..metrics.ngrams import key_masses, list_keys
from .context import Corpus, Rows, list_scores
from .registry import Dense, template
from .resources import Posterior

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
STEP = 1 / 64  # what a unit's features are rounded to: nearly equal probabilities must not tell units apart


def learn_posterior(nbest: NBest, given: Posterior, blocks: Sequence[I64], *, threads: int = 1) -> tuple[Posterior, F64 | None]:
    """Return the posterior with the scale at which MBR's choice has the highest BLEU (or quality), unless one is given.

    References teach it. So beside the scale that all of them teach there is one a sentence [S], for the features of the list
    itself: each block of sentences has the scale that the other blocks teach. Not BLEU-SBP, by which sharp posteriors, that say
    no more than the model's own order, are hardly worse. Without scores all hypotheses are equally probable at any scale.
    """
    if given.scale is not None:
        return given, None
    if given.model is None and not nbest.has_scores:
        return replace(given, scale=1.0), None
    if not nbest.has_stats and not nbest.quality.names:
        raise InputError("consensus: expected a list with references to choose the scale by, found none; give one with --scale")
    gains, scorer = mbr_gains(nbest, list_scores(nbest, given.model), SCALES, threads=threads), Scorer(nbest)
    metric = metric_of(default_metric(nbest), nbest)
    rows = np.stack([scorer.rows(best_choice(nbest, g), metric) for g in gains.T]).astype(np.float64)  # [K, S, n]
    total, scales = rows.sum(axis=1), np.zeros(len(nbest))
    for block in blocks:
        scales[block] = _best_scale(metric, total - rows[:, block].sum(axis=1) if len(block) < len(nbest) else total)
    return replace(given, scale=_best_scale(metric, total)), scales


def _best_scale(metric: Metric, totals: F64) -> float:
    """Return the scale whose choices have the best metric of their sums [K, n]."""
    return SCALES[int(np.argmax(metric.higher(metric.score(totals))))]


# -- n-grams ----------------------------------------------------------------------------------------------------------


@kernel
def _unit_agreement(  # type: ignore[no-untyped-def]
    hyp_ptr, token_ptr, tokens, unit_ptr, tgt_start, tgt_len, p, total, least
):
    """OUT total[R, 4] Σ P(k), least[R, 4] min P(k) over the n-grams that end in each unit's words; 1 where there are none."""
    for s in range(len(hyp_ptr) - 1):
        first, last = hyp_ptr[s], hyp_ptr[s + 1]
        if first == last:
            continue
        keys, n_keys = list_keys(token_ptr, tokens, first, last)
        mass = key_masses(token_ptr, keys, n_keys, first, last, p)
        for h in range(first, last):
            begin = token_ptr[h] - token_ptr[first]
            for r in range(unit_ptr[h], unit_ptr[h + 1]):
                for i in range(begin + tgt_start[r], begin + tgt_start[r] + tgt_len[r]):
                    for n in range(4):
                        if keys[i, n] >= 0:
                            total[r, n] += mass[keys[i, n]]
                            least[r, n] = min(least[r, n], mass[keys[i, n]])


def _rounded(x: F64) -> F64:
    return np.round(x / STEP) * STEP


@template("agreement", kind="list", reads=("target span", "list"))
def agreement(rows: Rows) -> Dense:
    """Expected matches of the n-grams that end in a unit (with the words before it), and the least probable one."""
    nbest, words = rows.corpus.nbest, rows.corpus.hyps
    start, length = nbest.tgt_start.astype(np.int64), nbest.units.tgt_len[nbest.unit_idx]  # sums fit
    lengths = np.repeat(words.counts, np.diff(nbest.unit_ptr))
    if (start + length > lengths).any():
        raise InputError("agreement: expected target spans inside the text, found one beyond its end; import the list again")
    total, least = np.zeros((len(rows), 4)), np.ones((len(rows), 4))
    _unit_agreement(nbest.hyp_ptr, words.ptr, words.ids, nbest.unit_ptr, start, length, rows.corpus.posterior, total, least)
    out = {f"agree.{n}": _rounded(total[:, n - 1]) for n in range(1, 5)}
    return out | {f"agree.least.{n}": _rounded(least[:, n - 1]) for n in (1, 2)}


# -- units ------------------------------------------------------------------------------------------------------------


def _mass(corpus: Corpus, *columns: str) -> F64:
    """[R] Σ p(h) over the hypotheses of the sentence that have a unit with the same values of context columns."""
    hyp = np.repeat(np.arange(corpus.nbest.n_hyps), np.diff(corpus.nbest.unit_ptr))
    table = np.stack([corpus.column(name) for name in ("sent", *columns)], axis=1)
    first, key = unique_rows(table, np.zeros((len(table), 0), np.int64))
    # occurrences of a key stand in the order of hypotheses: one that follows another of its hypothesis adds nothing
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), bool)
    again[order[1:]] = (key[order[1:]] == key[order[:-1]]) & (hyp[order[1:]] == hyp[order[:-1]])
    mass: F64 = np.bincount(key[~again], corpus.posterior[hyp[~again]], minlength=len(first)).astype(np.float64)
    return mass[key]


@template("support", kind="list", reads=("source phrase", "target phrase", "span", "list"))
def support(rows: Rows) -> Dense:
    """Probability of translations that have this phrase pair in this place, and that cut the source there."""
    pair, span = _mass(rows.corpus, "start", "pair"), _mass(rows.corpus, "start", "end")
    ratio = np.divide(pair, span, out=np.zeros(len(pair)), where=span > 0)
    return {"support.pair": _rounded(pair), "support.span": _rounded(span), "support.ratio": _rounded(ratio)}


# -- hypotheses -------------------------------------------------------------------------------------------------------


@template("mbr", kind="list", reads=("hypothesis", "list"))
def mbr(rows: Rows) -> Dense:
    """Of a hypothesis: expected BLEU+1, its logarithm, times its words; words beyond or below the expected number."""
    nbest, words, lists = rows.corpus.nbest, rows.corpus.hyps, rows["sent"]
    p = rows.corpus.posterior
    gain = expected_gains(nbest.hyp_ptr, words, p[:, None])[:, 0]
    n = words.counts.astype(np.float64)
    expected = np.bincount(lists, p * n, minlength=len(nbest))[lists]
    return {
        "mbr.gain": gain,
        "mbr.log": np.log(np.maximum(gain, 1e-3)),
        "mbr.words": gain * n,
        "list.longer": np.maximum(n - expected, 0.0),
        "list.shorter": np.maximum(expected - n, 0.0),
    }
