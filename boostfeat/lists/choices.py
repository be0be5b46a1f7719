"""Choices: which hypothesis of each list, and how good they are by a metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..core.arrays import I64, Array, segment_argmax
from ..metrics.metric import Metric, metric_of
from ..metrics.significance import exact_sums
from .nbest import NBest, take_strings

_ROWS = 1 << 16  # hypotheses at a time whose statistics are 64-bit numbers


@dataclass(frozen=True)
class Score:
    """A number that says how it came about."""

    score: float
    signature: str


@dataclass
class Scorer:
    """Scores choices of hypotheses of one list; keeps the statistics of what it has seen."""

    nbest: NBest
    _rows: dict[str, tuple[Array, Array]] = field(default_factory=dict)  # of each metric: rows [H + S, n], and which are there

    def metric(self, metric: str | Metric) -> Metric:
        """The metric of this name, which the list has what it takes for."""
        found = metric_of(metric, self.nbest) if isinstance(metric, str) else metric
        found.check(self.nbest)
        return found

    def score(self, chosen: I64, metric: str | Metric) -> Score:
        """Score the chosen hypotheses [S] (-1: no hypothesis, scored as an empty line), in the metric's points."""
        found = self.metric(metric)
        value = found.points * float(found.score(self.rows(chosen, found).sum(axis=0)))
        return Score(value, found.signature(self.n_refs, self.nbest.tokenizer))

    def gain(self, chosen: I64, metric: str | Metric) -> float:
        """Return the score so that higher is better."""
        found = self.metric(metric)
        return found.sign * self.score(chosen, found).score

    def rows(self, chosen: I64, metric: str | Metric) -> Array:
        """Statistics [S, n] of the chosen hypotheses. Those of empty lists are kept behind those of all hypotheses."""
        found = self.metric(metric)
        return self._kept(np.where(chosen >= 0, chosen, self.nbest.n_hyps + np.arange(len(chosen))), found)

    def rows_of(self, hyps: I64, metric: str | Metric) -> Array:
        """Statistics [len(hyps), n] of any hypotheses; those that take time to count are kept."""
        found = self.metric(metric)
        return self._kept(hyps, found) if found.counted else found.rows(self.nbest, hyps)

    def _kept(self, at: I64, found: Metric) -> Array:
        h = self.nbest.n_hyps
        if found.name not in self._rows:
            n, sample = h + len(self.nbest), found.rows(self.nbest, np.zeros(0, np.int64))
            self._rows[found.name] = np.zeros((n, found.width), sample.dtype), np.zeros(n, bool)
        rows, known = self._rows[found.name]
        if len(new := at[~known[at]]):
            new = np.unique(new)
            if len(some := new[new < h]):
                rows[some] = found.rows(self.nbest, some)
            for s in new[new >= h] - h:
                rows[h + s] = found.empty_row(self.nbest, int(s))
            known[new] = True
        return rows[at]

    @property
    def n_refs(self) -> int | str:
        counts = set(np.diff(self.nbest.ref_ptr).tolist())
        return counts.pop() if len(counts) == 1 else "var"


def scored(nbest: NBest, choose: Callable[[NBest], I64], metric: str) -> float:
    """Score what is chosen from lists, in the metric's points, wherever they are."""
    return score_of_rows(nbest.in_parts(partial(rows_to_sum, choose=choose, metric=metric)), metric_of(metric, nbest))


def rows_to_sum(nbest: NBest, choose: Callable[[NBest], I64], metric: str, scorer: Scorer | None = None) -> Array:
    """Return rows of statistics of what is chosen: a single one, their sum, where they are counts, whose sums are exact."""
    rows = (scorer or Scorer(nbest)).rows(choose(nbest), metric)
    return rows.sum(axis=0, keepdims=True) if rows.dtype.kind in "iu" else rows


def score_of_rows(rows: Sequence[Array], metric: Metric) -> float:
    """Return the metric, in its points, of the sum of rows of statistics of consecutive sentences."""
    return metric.points * float(metric.score(np.concatenate(rows).sum(axis=0)))


def all_rows(nbest: NBest, metric: Metric) -> Array:
    """Statistics [H, n] of all hypotheses as kernels take them: counts in 32 bits, other numbers so that sums are exact."""
    whole = metric.rows(nbest, np.zeros(0, np.int64)).dtype.kind in "iu"
    if metric.counted or not whole:
        rows = metric.rows(nbest)
        return rows.astype(np.int32) if whole else exact_sums(rows)
    out = np.empty((nbest.n_hyps, metric.width), np.int32)
    for a in range(0, nbest.n_hyps, _ROWS):
        part = np.arange(a, min(a + _ROWS, nbest.n_hyps))
        out[part] = metric.rows(nbest, part)
    return out


# ---------------------------------------------------------------------------------------------------------------------
# Choices: which hypothesis of each list
# ---------------------------------------------------------------------------------------------------------------------


def first_choice(nbest: NBest) -> I64:
    """[S] the first hypothesis of each list, -1 where it is empty."""
    return np.where(np.diff(nbest.hyp_ptr) > 0, nbest.hyp_ptr[:-1], -1)


def best_choice(nbest: NBest, scores: Array, *, threads: int = 1) -> I64:
    """[S] the hypothesis of the highest score [H], the first among equals."""
    return segment_argmax(nbest.hyp_ptr, np.ascontiguousarray(scores, np.float64), threads=threads)


def oracle_choice(nbest: NBest, metric: str | Metric = "bleu") -> I64:
    """[S] the hypothesis of the highest gain (BLEU+1): the usual oracle, not the (intractable) one of the corpus."""
    found = metric_of(metric, nbest) if isinstance(metric, str) else metric
    return best_choice(nbest, found.gain(nbest))


def mean_score(nbest: NBest, metric: str | Metric = "bleu") -> float:
    """Corpus score of the mean statistics of each list: what a random choice would get in expectation."""
    found = metric_of(metric, nbest) if isinstance(metric, str) else metric
    rows = found.rows(nbest).astype(np.float64)
    counts = np.diff(nbest.hyp_ptr)
    sums = np.repeat(1 / np.maximum(counts, 1), counts) @ rows
    for s in np.flatnonzero(counts == 0):
        sums = sums + found.empty_row(nbest, int(s))
    return found.points * float(found.score(sums))


def decoder_choice(nbest: NBest) -> I64:
    """[S] what the decoder scores highest; the first of a list in which it left out scores."""
    if nbest.has_scores:
        return best_choice(nbest, nbest.score)
    is_unscored = np.isin(nbest.sent_of_hyp, nbest.sent_of_hyp[np.isnan(nbest.score)])
    return best_choice(nbest, np.where(is_unscored, 0.0, nbest.score))


def texts(nbest: NBest, chosen: I64) -> list[str]:
    """[S] the chosen hypotheses, "" for -1."""
    found = iter(take_strings(nbest.text, chosen[chosen >= 0]).to_pylist())
    return [next(found) if h >= 0 else "" for h in chosen]
