"""Metrics of one hypothesis per sentence: a row of statistics per segment -> sum -> score, with a signature.

``bleu`` and ``bleu-sbp`` come from the statistics in the store, ``chrf`` and ``ter`` from sacrebleu; segment statistics
are computed once per hypothesis and reused. Scores are on the 0..100 scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import __version__
from ..core.arrays import I32, I64, Array, segment_argmax
from ..core.errors import InputError, unknown_name
from ..metrics.bleu import N_STATS, REF_LEN, corpus_bleu, corpus_rows, sentence_bleu, sum_stats
from .nbest import NBest

METRICS = ("bleu", "bleu-sbp", "chrf", "ter")
GAINS = ("bleu", "bleu-sbp", "chrf")  # better when higher: what rounds, epochs and settings can be chosen by
SENTENCE_METRICS = ("bleu+1", "bleu+alpha")


def check_gain(metric: str) -> None:
    """Raise unless a metric can be chosen by."""
    if metric == "ter":
        raise InputError(
            f"metric: expected one that is better when higher ({', '.join(GAINS)}), found ter; score with it afterwards"
        )
    if metric not in GAINS:
        raise unknown_name("metric", metric, GAINS)


@dataclass(frozen=True)
class Score:
    """A number that says how it came about."""

    score: float
    signature: str


@dataclass
class Scorer:
    """Scores choices of hypotheses of one list; keeps the chrF and TER statistics of what it has seen."""

    nbest: NBest
    _seen: dict[tuple[str, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.nbest.has_stats:
            raise InputError("expected a list with references, found one without; import it with -r")

    def score(self, chosen: I64, metric: str) -> Score:
        """Metric of the chosen hypotheses [S] (-1: no hypothesis, scored as an empty line)."""
        if metric in ("bleu", "bleu-sbp"):
            strict = metric == "bleu-sbp"
            value = float(corpus_bleu(sum_stats(self.stats(chosen)), strict=strict))
            return Score(100 * value, signature(metric, self.n_refs))
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        scorer = _sacrebleu_metric(metric)
        rows = self._segment_rows(chosen, metric, scorer)
        return Score(float(scorer._aggregate_and_compute(rows).score), signature(metric, self.n_refs))

    def stats(self, chosen: I64) -> I32:
        """BLEU statistics [S, 6] of the chosen hypotheses."""
        return chosen_stats(self.nbest, chosen)

    @property
    def n_refs(self) -> int | str:
        counts = set(np.diff(self.nbest.ref_ptr).tolist())
        return counts.pop() if len(counts) == 1 else "var"

    def _segment_rows(self, chosen: I64, metric: str, scorer: Any) -> list[Any]:
        nb = self.nbest
        # an empty list is scored as an empty line; its key is a number no hypothesis has
        keys = [(metric, int(h) if h >= 0 else -1 - s) for s, h in enumerate(chosen)]
        new = [s for s, key in enumerate(keys) if key not in self._seen]
        if new:
            texts = [nb.text[int(chosen[s])].as_py() if chosen[s] >= 0 else "" for s in new]
            # a sentence without any reference is one whose reference is empty, as for BLEU
            refs = [nb.refs.slice(nb.ref_ptr[s], nb.ref_ptr[s + 1] - nb.ref_ptr[s]).to_pylist() or [""] for s in new]
            columns = [[r[k] if k < len(r) else None for r in refs] for k in range(max(map(len, refs)))]
            rows = scorer._extract_corpus_statistics(texts, columns)
            self._seen.update(zip((keys[s] for s in new), rows, strict=True))
        return [self._seen[key] for key in keys]


def chosen_stats(nbest: NBest, chosen: I64) -> I32:
    """BLEU statistics [S, 6] of one hypothesis per sentence; -1 is an empty line against the shortest reference."""
    rows = np.zeros((len(chosen), N_STATS), np.int32)
    some = chosen >= 0
    rows[some] = nbest.stats[chosen[some]]
    for s in np.flatnonzero(~some):
        refs = nbest.refs.slice(nbest.ref_ptr[s], nbest.ref_ptr[s + 1] - nbest.ref_ptr[s]).to_pylist()
        rows[s, REF_LEN] = min((len(r.split()) for r in refs), default=0)
    return rows


def signature(metric: str, n_refs: int | str) -> str:
    """What the number means: sacrebleu's own signature, or ours where the metric is ours."""
    import sacrebleu

    if metric == "bleu-sbp":
        return f"nrefs:{n_refs}|case:mixed|eff:no|tok:none|smooth:exp|bp:strict|version:boostfeat-{__version__}"
    if metric in SENTENCE_METRICS:
        return f"nrefs:{n_refs}|case:mixed|tok:none|smooth:add|orders:2-4|version:boostfeat-{__version__}"
    if metric == "bleu":
        scorer: Any = sacrebleu.BLEU(tokenize="none", force=True)
    else:
        scorer = _sacrebleu_metric(metric)
    scorer.num_refs = n_refs
    return str(scorer.get_signature())


def _sacrebleu_metric(metric: str) -> Any:
    import sacrebleu

    return sacrebleu.CHRF() if metric == "chrf" else sacrebleu.TER()


# ---------------------------------------------------------------------------------------------------------------------
# Choices: which hypothesis of each list
# ---------------------------------------------------------------------------------------------------------------------


def first_choice(nbest: NBest) -> I64:
    """[S] the first hypothesis of each list, -1 where it is empty."""
    return np.where(np.diff(nbest.hyp_ptr) > 0, nbest.hyp_ptr[:-1], -1)


def best_choice(nbest: NBest, scores: Array) -> I64:
    """[S] the hypothesis of the highest score [H], the first among equals."""
    return segment_argmax(nbest.hyp_ptr, np.ascontiguousarray(scores, np.float64))


def oracle_choice(nbest: NBest) -> I64:
    """[S] the hypothesis of the highest BLEU+1: the usual oracle, not the (intractable) corpus-BLEU one."""
    return best_choice(nbest, sentence_bleu(nbest.stats))


def mean_bleu(nbest: NBest) -> float:
    """Corpus BLEU (0..100) of the mean statistics of each list: what a random choice would get in expectation."""
    rows = corpus_rows(nbest.stats).astype(np.float64)
    counts = np.diff(nbest.hyp_ptr)
    weights = np.repeat(1 / np.maximum(counts, 1), counts)
    sums = weights @ rows
    empty = chosen_stats(nbest, np.full(len(nbest), -1))[counts == 0]
    return 100 * float(corpus_bleu(sums + sum_stats(empty)))


def gain_metric(name: str, *, alpha: float = 1.0) -> Callable[[Array], Array]:
    """Sentence-level gain [H] (0..1) of statistics [H, 6]."""
    if name not in SENTENCE_METRICS:
        raise unknown_name("sentence metric", name, SENTENCE_METRICS)
    return lambda stats: sentence_bleu(stats, alpha=1.0 if name == "bleu+1" else alpha)


def parse_metrics(text: str) -> Sequence[str]:
    """Metric names of a comma-separated list."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"expected metric names separated by commas, found none; choose from {', '.join(METRICS)}")
    for name in names:
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
    return names


def decoder_choice(nbest: NBest) -> I64:
    """[S] what the decoder ranks highest; the first of each list where it gave no scores."""
    return best_choice(nbest, nbest.score) if nbest.has_scores else first_choice(nbest)


def texts(nbest: NBest, chosen: I64) -> list[str]:
    """[S] the chosen hypotheses, "" for -1."""
    found = nbest.text.take([int(h) if h >= 0 else None for h in chosen]).to_pylist() if nbest.n_hyps else [None] * len(nbest)
    return [text or "" for text in found]
