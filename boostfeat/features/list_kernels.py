"""Kernels for templates of whole lists whose functions take too long for many of them (templates.candidates has the figures)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError
from ..core.kernels import kernel
from ..lists.mbr import expected_gains
from ..lists.nbest import NBest
from ..lists.words import Words
from ..metrics.ngrams import key_masses, list_keys
from .registry import Columns


class ScoredTexts(Protocol):
    """What kernels read of a list (compute.Corpus)."""

    @property
    def nbest(self) -> NBest: ...
    @property
    def hyps(self) -> Words: ...
    @property
    def posterior(self) -> F64: ...


def batch_gains(columns: Callable[..., Columns]) -> Callable[[ScoredTexts], Columns]:
    """Expected BLEU+1 of all hypotheses, and the columns that ``columns(gains, lengths, p)`` gives of each list."""

    def batch(corpus: ScoredTexts) -> Columns:
        words, p = corpus.hyps, corpus.posterior
        gains, lengths = expected_gains(corpus.nbest.hyp_ptr, words, p[:, None])[:, 0].tolist(), words.counts.tolist()
        shares, out = p.tolist(), dict[str, list[float]]()
        for a, b in pairwise(corpus.nbest.hyp_ptr.tolist()):
            for name, values in columns(gains[a:b], lengths[a:b], shares[a:b]).items():
                out.setdefault(name, []).extend(values)
        return dict(out)

    return batch


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


def batch_agreement(corpus: ScoredTexts) -> Columns:
    """Agreement of all units."""
    nbest, words = corpus.nbest, corpus.hyps
    start, length = nbest.tgt_start.astype(np.int64), nbest.units.tgt_len[nbest.unit_idx]  # sums fit
    if (start + length > np.repeat(words.counts, np.diff(nbest.unit_ptr))).any():
        raise InputError("agreement: expected target spans inside the text, found one beyond its end; import the list again")
    total, least = np.zeros((nbest.n_occurrences, 4)), np.ones((nbest.n_occurrences, 4))
    _unit_agreement(nbest.hyp_ptr, words.ptr, words.ids, nbest.unit_ptr, start, length, corpus.posterior, total, least)
    total, least = np.round(64 * total) / 64, np.round(64 * least) / 64
    return {f"agree.{n + 1}": total[:, n] for n in range(4)} | {f"agree.least.{n + 1}": least[:, n] for n in range(2)}
