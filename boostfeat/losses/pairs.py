"""Preference pairs: which hypotheses of a list a ranking loss compares.

K pairs, each of one sentence: the better hypothesis, the worse one, and by how much their gains differ
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import F64, I64, in_ranges, offsets
from ..core.kernels import kernel
from ..core.options import Checked, option
from ..lists.nbest import NBest
from ..metrics.metric import metric_of

PAIRS = "Pairs"


@dataclass(frozen=True)
class PairOptions(Checked):
    """Options of drawing pairs. See ``sample_pairs`` for what the two samplers do."""

    sampler: str = option("ta13", "How pairs are drawn: ta13 or hm11", choices=("ta13", "hm11"), group=PAIRS, rare=True)
    draws: int = option(10_000, "Random pairs drawn per sentence", least=0, symbol="Γ", group=PAIRS, rare=True)
    threshold: float = option(0.04, "Minimum difference in gain of a pair", least=0, group=PAIRS, rare=True)
    keep: int = option(100, "Pairs kept per sentence", least=1, symbol="K", flag="pairs", group=PAIRS)
    alpha: float = option(1.0, "Smoothing of sentence BLEU", least=0, group=PAIRS, rare=True)
    distinct: bool = option(
        False, "Keep a pair once, however often it was drawn (the papers do not)", flag="distinct_pairs", group=PAIRS, rare=True
    )


SAMPLERS: dict[str, PairOptions] = {
    "ta13": PairOptions("ta13", draws=10_000, threshold=0.04, keep=100),
    "hm11": PairOptions("hm11", draws=5_000, threshold=0.05, keep=50),
}


@dataclass(frozen=True)
class Pairs:
    """Pairs in the order of sentences, within a sentence by falling difference."""

    better: I64  # [K] hypotheses, counted over the corpus
    worse: I64  # [K]
    delta: F64  # [K] gain of the better minus gain of the worse, > 0
    sent_ptr: I64  # [S+1] pairs of sentence s are sent_ptr[s]:sent_ptr[s+1]
    weight: F64 | None = None  # [K] what a pair counts for; None: all the same

    def __len__(self) -> int:
        return len(self.better)

    def renumbered(self) -> tuple[I64, I64, I64]:
        """The hypotheses in some pair [U], rising, and better and worse [K] as numbers of these."""
        if not len(self):
            return np.zeros(0, np.int64), self.better, self.worse
        first = min(int(self.better.min()), int(self.worse.min()))  # pairs of a block are of neighbours
        last = max(int(self.better.max()), int(self.worse.max()))
        is_used = np.zeros(last + 1 - first, bool)
        is_used[self.better - first] = is_used[self.worse - first] = True
        number = np.cumsum(is_used) - 1
        return first + np.flatnonzero(is_used), number[self.better - first], number[self.worse - first]


# ---------------------------------------------------------------------------------------------------------------------
# A counter-based generator: word t of a stream is a function of the stream's key and t alone (SplitMix64), so that a
# sentence's draws depend on the seed and its position, not on the order or the thread in which sentences are done.
# ---------------------------------------------------------------------------------------------------------------------

_STEP = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_STEPS = 1024  # equal ranges of differences, which are 0..1, in which draws are counted


@kernel(inline="always")
def _word(key, t):  # type: ignore[no-untyped-def]
    z = key + (t + np.uint64(1)) * _STEP
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel(inline="always")
def _uniform(word):  # type: ignore[no-untyped-def]
    """Return a number in [0, 1), from the word's upper 53 bits."""
    return np.float64(word >> np.uint64(11)) * 2.0**-53


@kernel(inline="always")
def _is_same(a, b, i, j):  # type: ignore[no-untyped-def]
    """Whether two draws are of the same pair, in either order."""
    return (i[a] == i[b] and j[a] == j[b]) or (i[a] == j[b] and j[a] == i[b])


@kernel
def _sample(  # type: ignore[no-untyped-def]
    hyp_ptr, gains, seed_key, number, first, last, draws, threshold, keep, weighted, distinct, better, worse, delta, counts
):
    """IN hyp_ptr[S+1], gains[H]; OUT better, worse, delta [S, keep], counts[S]. Sentences first:last; 0 is ``number``.

    ``weighted`` is the sampler of [TA13]: strictly above the threshold, accepted with probability |Δ|; else [HM11]'s.
    """
    drawn_i, drawn_j, drawn_d = np.empty(draws, np.int64), np.empty(draws, np.int64), np.empty(draws)
    kept, n_near = np.empty(keep, np.int64), np.empty(_STEPS, np.int64)
    for s in range(first, last):
        start, n = hyp_ptr[s], np.uint64(hyp_ptr[s + 1] - hyp_ptr[s])
        counts[s] = 0
        if n < 2:
            continue
        key = _word(seed_key, np.uint64(number + s))
        own, accepted = gains[start : hyp_ptr[s + 1]], 0
        for t in range(draws):  # what is drawn is written and counted without a branch, which would be a guess
            word = _word(key, np.uint64(2 * t))
            i, j = ((word >> np.uint64(32)) * n) >> np.uint64(32), ((word & _LOW) * n) >> np.uint64(32)
            d = abs(own[i] - own[j])
            drawn_i[accepted], drawn_j[accepted], drawn_d[accepted] = i, j, d
            if weighted:
                accepted += (d > threshold) & (_uniform(_word(key, np.uint64(2 * t + 1))) < d)
            else:
                accepted += (d >= threshold) & (d > 0.0)
        least = 0.0
        if accepted > keep and not distinct:  # few are kept of many: the others need no order
            n_near[:] = 0
            for a in range(accepted):
                n_near[min(int(drawn_d[a] * _STEPS), _STEPS - 1)] += 1
            step, more = _STEPS, 0
            while more < keep:
                step -= 1
                more += n_near[step]
            least = step / _STEPS
        n_kept = 0
        for a in range(accepted):
            d = drawn_d[a]
            if d < least or (n_kept == keep and d <= delta[s, keep - 1]):
                continue
            place = n_kept  # of equal differences, the first drawn comes first
            while place > 0 and delta[s, place - 1] < d:
                place -= 1
            if distinct:  # a repeat has the same difference
                k = place - 1
                while k >= 0 and delta[s, k] == d and not _is_same(kept[k], a, drawn_i, drawn_j):
                    k -= 1
                if k >= 0 and delta[s, k] == d:
                    continue
            n_kept += n_kept < keep
            for k in range(n_kept - 1, place, -1):
                kept[k], delta[s, k] = kept[k - 1], delta[s, k - 1]
            kept[place], delta[s, place] = a, d
        for k in range(n_kept):
            i, j = start + drawn_i[kept[k]], start + drawn_j[kept[k]]
            better[s, k], worse[s, k] = (i, j) if gains[i] >= gains[j] else (j, i)
        counts[s] = n_kept


def sample_pairs(hyp_ptr: I64, gains: F64, options: PairOptions, *, seed: int, threads: int = 1, first: int = 0) -> Pairs:
    """Draw preference pairs from every list: hyp_ptr [S+1], gains [H] in 0..1 (sentence BLEU).

    Both: draw (i, j) uniformly ``draws`` times, accept some by Δ = |gain_i - gain_j|, keep the ``keep`` of largest Δ.
    ta13: accept where Δ > threshold, with probability proportional to Δ       [TA13 footnote 1]
    hm11: accept where Δ ≥ threshold                                           [HM11 figure 4]

    What the papers leave open:
    - "Proportional" needs a constant: it is 1, the probability is Δ itself (gains are 0..1). With Δ over the list's largest
      difference more pairs pass, and the kept ones lie nearer to the list's extremes.
    - Draws are with replacement, i and j independent ([HM11] writes {1..J} × {1..J}); i = j has Δ = 0 and is never kept.
    - A pair drawn and accepted twice counts twice: neither paper removes repeats. In short lists the kept pairs are then
      mostly copies of the best against the worst; ``distinct`` keeps each pair once.
    - Among equal Δ the first drawn are kept.
    - Pairs of equal gain are never kept, whatever the threshold.

    Every sentence has a random stream of its own, keyed by the seed and its position: the same pairs for any number of
    threads. Of a part of a corpus, ``first`` is its first sentence's position in the whole: the pairs are those of the whole.
    A list of fewer than two hypotheses, or of equal gains, has no pairs.
    """
    n = len(hyp_ptr) - 1
    if len(gains) != hyp_ptr[-1]:
        raise ValueError(f"gains: expected one for each of {hyp_ptr[-1]} hypotheses, found {len(gains)}")
    keep = min(options.keep, options.draws)
    better, worse = np.empty((n, keep), np.int64), np.empty((n, keep), np.int64)
    delta, counts = np.empty((n, keep)), np.zeros(n, np.int64)
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    how = (options.draws, options.threshold, keep, options.sampler == "ta13", options.distinct)
    out = (better, worse, delta, counts)
    in_ranges(lambda some: _sample(hyp_ptr, gains, key, first, some.start, some.stop, *how, *out), n, threads)
    kept = np.arange(keep) < counts[:, None]
    return Pairs(better[kept], worse[kept], delta[kept], offsets(counts))


def split_pairs(pairs: Pairs, ptr: I64) -> list[Pairs]:
    """The pairs of each block of sentences; hypotheses are still counted over the corpus."""

    def part(first: int, last: int) -> Pairs:
        at = slice(pairs.sent_ptr[first], pairs.sent_ptr[last])
        own = pairs.sent_ptr[first : last + 1] - pairs.sent_ptr[first]
        weight = None if pairs.weight is None else pairs.weight[at]
        return Pairs(pairs.better[at], pairs.worse[at], pairs.delta[at], own, weight)

    return [part(first, last) for first, last in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]


def pairs_for(nbest: NBest, options: PairOptions, *, gain: str = "bleu", seed: int, threads: int = 1, first: int = 0) -> Pairs:
    """Pairs of a container by the gain of a metric: smoothed sentence BLEU, unless told otherwise."""
    gains = metric_of(gain, nbest).learnable_gain(nbest, alpha=options.alpha)
    return sample_pairs(nbest.hyp_ptr, gains, options, seed=seed, threads=threads, first=first)
