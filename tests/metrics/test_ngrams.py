"""n-grams of lists as numbers, against sets of tuples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from boostfeat.metrics.ngrams import key_masses, list_keys, posteriors

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:overflow encountered")]  # of hashes, run as Python

RNG = np.random.default_rng(0)
HYPS = [
    [],
    [3],
    [3, 3, 3, 3, 3],
    *(RNG.integers(0, 4, n).tolist() for n in (1, 2, 3, 4, 5, 12)),
    [7, 8],
    RNG.integers(0, 9, 30).tolist(),
]


def naive_keys(hyp: list[int]) -> list[list[tuple[tuple[int, ...], int] | None]]:
    """[i][n-1]: the n-gram that ends in word i, and which of its occurrences it is; None where the hypothesis begins later."""
    seen: Counter[tuple[int, ...]] = Counter()
    rows = []
    for i in range(len(hyp)):
        grams = [tuple(hyp[i + 1 - n : i + 1]) if n <= i + 1 else None for n in (1, 2, 3, 4)]
        rows.append([None if gram is None else (gram, seen[gram]) for gram in grams])
        seen.update(gram for gram in grams if gram)
    return rows


@pytest.mark.parametrize(("first", "last"), [(0, len(HYPS)), (2, 9), (5, 6), (0, 1), (4, 4)])
def test_keys_are_ngrams_and_their_occurrences(first, last):
    """One number for a key, whichever hypothesis has it; numbers are counted from 0 without gaps."""
    token_ptr = np.cumsum([0, *map(len, HYPS)])
    tokens = np.array([word for hyp in HYPS for word in hyp], np.int64)
    keys, n_keys = list_keys(token_ptr, tokens, first, last)
    expected = [row for hyp in HYPS[first:last] for row in naive_keys(hyp)]
    assert keys.shape == (len(expected), 4)
    number: dict[object, int] = {}
    for found, wanted in zip(keys.tolist(), expected, strict=True):
        for key, what in zip(found, wanted, strict=True):
            assert (key == -1) == (what is None)
            if what is not None:
                assert number.setdefault(what, key) == key
    assert len(set(number.values())) == len(number)
    assert set(number.values()) <= set(range(n_keys))
    posterior = RNG.random(len(HYPS))
    masses = key_masses(token_ptr, keys, n_keys, first, last, posterior)
    assert len(masses) == n_keys
    for what, key in number.items():
        having = [h for h in range(first, last) if any(what in row for row in naive_keys(HYPS[h]))]
        assert masses[key] == pytest.approx(posterior[having].sum())
    assert masses.sum() == pytest.approx(sum(masses[key] for key in number.values()))


def test_posteriors_are_shares_of_exponentials():
    """Of each list by itself, also of one of none; scores that would overflow do not."""
    ptr, scores = np.array([0, 3, 3, 4, 6]), np.array([0.0, 1.0, -2.0, 5.0, 1000.0, 999.0])
    for scale in (1.0, 0.5):
        own = [np.exp(scale * (s - s.max())) for s in (scores[:3], scores[3:4], scores[4:])]
        expected = np.concatenate([e / e.sum() for e in own])
        found = posteriors(ptr, scores, scale=scale)
        assert found == pytest.approx(expected, rel=1e-14)
    assert posteriors(ptr, scores) == pytest.approx(posteriors(ptr, scores, scale=1.0), abs=0)
    assert posteriors(ptr, np.array([0.0, np.inf, -np.inf, 0.0, 0.0, 0.0]))[:3].tolist() == [0.0, 1.0, 0.0]
