"""Preference pairs: the two samplers against their papers' text, read naively."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from boostfeat.core.arrays import offsets, owners
from boostfeat.core.errors import InputError
from boostfeat.lists.build import Builder, HypRecord, attach
from boostfeat.losses.pairs import SAMPLERS, PairOptions, Pairs, pairs_for, sample_pairs, split_pairs
from boostfeat.metrics.bleu import sentence_bleu

TA13, HM11 = SAMPLERS["ta13"], SAMPLERS["hm11"]


def sample(lists, options, seed=0, threads=1) -> Pairs:
    gains = np.array([g for one in lists for g in one], float)
    return sample_pairs(offsets(np.array([len(one) for one in lists])), gains, options, seed=seed, threads=threads)


def same(a: Pairs, b: Pairs) -> bool:
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("better", "worse", "delta", "sent_ptr"))


# -- distribution -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [TA13, HM11], ids=["ta13", "hm11"])
def test_one_draw_has_the_probability_of_the_paper(options):
    """One draw from each of 200,000 equal lists: an unordered pair has probability 2/n² · P(accept | Δ)."""
    gains = np.array([0.0, 0.04, 0.09, 0.3, 0.7, 1.0])
    n, lists = len(gains), 200_000
    pairs = sample([gains] * lists, replace(options, draws=1))
    got = np.zeros((n, n))
    np.add.at(got, (pairs.better % n, pairs.worse % n), 1)
    d = gains[:, None] - gains[None, :]
    accept = np.where(d > 0.04, d, 0.0) if options.sampler == "ta13" else d >= 0.05
    want = lists * 2 / n**2 * accept
    assert (got[want == 0] == 0).all()
    none = lists - got.sum()
    # the seed is fixed: this either always holds or never
    assert chisquare([none, *got[want > 0]], [lists - want.sum(), *want[want > 0]]).pvalue > 0.01


# -- what holds for every sample ------------------------------------------------------------------------------------------

some_lists = st.lists(st.lists(st.floats(0, 1), max_size=12), max_size=6)
some_options = st.builds(
    PairOptions,
    sampler=st.sampled_from(sorted(SAMPLERS)),
    draws=st.integers(0, 300),
    threshold=st.sampled_from([0.0, 0.04, 0.5]),
    keep=st.integers(1, 40),
    distinct=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(some_lists, some_options, st.integers(0, 2**70))
def test_properties(lists, options, seed):
    pairs = sample(lists, options, seed)
    hyp_ptr = offsets(np.array([len(one) for one in lists], int))
    gains, sent = np.array([g for one in lists for g in one], float), owners(hyp_ptr)
    pair_sent = owners(pairs.sent_ptr)
    assert (sent[pairs.better] == pair_sent).all()
    assert (sent[pairs.worse] == pair_sent).all()
    assert (pairs.delta == gains[pairs.better] - gains[pairs.worse]).all()
    assert (pairs.delta > 0).all()
    assert (pairs.delta > options.threshold if options.sampler == "ta13" else pairs.delta >= options.threshold).all()
    assert (np.diff(pairs.sent_ptr) <= options.keep).all()
    assert (np.diff(pairs.delta)[np.diff(pair_sent) == 0] <= 0).all()
    if options.distinct:
        assert len(set(zip(pairs.better, pairs.worse, strict=True))) == len(pairs)
    # the kept are the first of all that were accepted: nothing larger was dropped
    everything = sample(lists, replace(options, keep=max(1, options.draws)), seed)
    for s in range(len(lists)):
        kept, all_of_it = (p.delta[p.sent_ptr[s] : p.sent_ptr[s + 1]] for p in (pairs, everything))
        assert np.array_equal(kept, all_of_it[: options.keep])
    assert same(pairs, sample(lists, options, seed, threads=3))


def test_streams_belong_to_positions():
    """A sentence's pairs do not depend on the sentences after it, and differ from those of an equal list elsewhere."""
    lists = [list(np.random.default_rng(s % 2).random(20)) for s in range(6)]
    whole, part = sample(lists, TA13), sample(lists[:3], TA13)
    n = len(part)
    assert np.array_equal(whole.better[:n], part.better)
    first, third = (whole.better[whole.sent_ptr[s] : whole.sent_ptr[s + 1]] - 20 * s for s in (0, 2))
    assert not np.array_equal(first, third)
    assert not same(whole, sample(lists, TA13, seed=1))


@pytest.mark.parametrize("options", [TA13, HM11], ids=["ta13", "hm11"])
def test_short_lists_repeat_their_largest_pair_unless_distinct(options):
    """4 hypotheses, 6 pairs, all drawn often: copies of best against worst as in the papers, or each pair once."""
    gains = np.array([0.9, 0.1, 0.45, 0.6])
    repeated = sample([gains], options)
    assert set(zip(repeated.better, repeated.worse, strict=True)) == {(0, 1)}
    assert len(repeated) == options.keep
    once = sample([gains], replace(options, distinct=True))
    assert list(zip(once.better, once.worse, strict=True)) == [(0, 1), (3, 1), (0, 2), (2, 1), (0, 3), (3, 2)]
    order = np.array([2, 0, 3, 1])
    permuted = sample([gains[order]], replace(options, distinct=True))
    assert np.array_equal(order[permuted.better], once.better)
    assert np.array_equal(order[permuted.worse], once.worse)


@pytest.mark.parametrize("options", [TA13, HM11, PairOptions("hm11", threshold=0.0)], ids=["ta13", "hm11", "hm11-0"])
@pytest.mark.parametrize("lists", [[], [[]], [[0.5]], [[0.5, 0.5]], [[0.3] * 200, [], [1.0]]], ids=str)
def test_lists_without_pairs(lists, options):
    pairs = sample(lists, options, threads=2)
    assert len(pairs) == 0
    assert list(pairs.sent_ptr) == [0] * (len(lists) + 1)


def test_pairs_of_a_container_use_its_bleu():
    builder = Builder()
    for text in ("the house is small", "the house is big", "a a a a"):
        builder.add(HypRecord(0, text, "here"))
    bare = builder.finish()
    nbest = attach(bare, source=None, refs=[["the house is small"]], name="test")
    options = PairOptions(alpha=0.5)
    want = sample_pairs(nbest.hyp_ptr, sentence_bleu(nbest.stats, alpha=0.5), options, seed=3)
    assert same(pairs_for(nbest, options, seed=3, threads=2), want)
    assert set(want.better) == {0}
    with pytest.raises(InputError, match="bleu: expected a list with references, found one without; import it with -r"):
        pairs_for(bare, options, seed=3)


def test_blocks_have_the_pairs_of_their_sentences():
    lists = [[0.0, 0.5, 1.0], [0.2, 0.9], [0.1], [0.0, 0.3, 0.8, 1.0]]
    pairs = sample(lists, replace(HM11, draws=40, keep=6))
    pairs = replace(pairs, weight=np.arange(len(pairs), dtype=float))
    blocks = split_pairs(pairs, np.array([0, 2, 2, 4]))
    assert [np.diff(block.sent_ptr).tolist() for block in blocks] == [[6, 6], [], [0, 6]]
    assert all(block.sent_ptr[0] == 0 for block in blocks)
    for name in ("better", "worse", "delta", "weight"):
        assert np.array_equal(np.concatenate([getattr(block, name) for block in blocks]), getattr(pairs, name))
    assert split_pairs(replace(pairs, weight=None), np.array([0, 4]))[0].weight is None


@pytest.mark.parametrize("n", [2, 4])
def test_every_hypothesis_has_one_gain(n):
    with pytest.raises(ValueError, match=f"expected one for each of 3 hypotheses, found {n}"):
        sample_pairs(np.array([0, 3]), np.zeros(n), TA13, seed=0)


def splitmix(key: int, t: int) -> int:
    """Word t of SplitMix64 in whole numbers of Python."""
    z = (key + (t + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def exactly(lists, options: PairOptions, *, seed: int, first: int) -> list[tuple[int, int, float]]:
    """The sampler as its docstring says it, on the same random stream: (better, worse, difference) of all sentences."""
    key, out, start = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]), [], 0
    for s, gains in enumerate(lists):
        accepted = []
        own = splitmix(key, first + s)
        for t in range(options.draws if len(gains) > 1 else 0):
            word = splitmix(own, 2 * t)
            i, j = (word >> 32) * len(gains) >> 32, (word % 2**32) * len(gains) >> 32
            d = abs(gains[i] - gains[j])
            chance = (splitmix(own, 2 * t + 1) >> 11) * 2.0**-53
            is_in = d > options.threshold and chance < d if options.sampler == "ta13" else 0 < d >= options.threshold
            if is_in:
                pair = (i, j) if gains[i] > gains[j] else (j, i)
                accepted.append((start + pair[0], start + pair[1], d))
        accepted.sort(key=lambda pair: -pair[2])  # stable: of equal ones the first drawn comes first
        out += (list(dict.fromkeys(accepted)) if options.distinct else accepted)[: options.keep]
        start += len(gains)
    return out


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("options", [TA13, HM11], ids=["ta13", "hm11"])
@pytest.mark.parametrize(("draws", "keep"), [(1, 1), (60, 7), (60, 100), (0, 5)])
def test_pairs_are_those_of_a_naive_twin_on_the_same_stream(options, distinct, draws, keep):
    """To the last bit, whatever the number of threads; gains of few different values make ties."""
    rng = np.random.default_rng(5)
    lists = [rng.integers(0, 6, n).astype(float) / 5 for n in (7, 1, 0, 2, 12)] + [rng.random(n) for n in (3, 9)]
    lists[0][0] = lists[0][1] + options.threshold  # a difference at the threshold, as far as floats have it
    options = replace(options, draws=draws, keep=keep, distinct=distinct)
    wanted = exactly(lists, options, seed=11, first=3)
    gains, ptr = np.concatenate(lists), offsets(np.array([len(one) for one in lists]))
    for threads in (1, 3):
        found = sample_pairs(ptr, gains, options, seed=11, threads=threads, first=3)
        assert list(zip(found.better.tolist(), found.worse.tolist(), found.delta.tolist(), strict=True)) == wanted
        counts = np.bincount(owners(ptr)[[better for better, _, _ in wanted]].astype(np.int64), minlength=len(lists))
        assert found.sent_ptr.tolist() == offsets(counts).tolist()


def test_a_corpus_begins_with_its_first_sentence():
    """Without a word on where a part begins, it is the whole: also for pairs of a container."""
    lists = [np.arange(n) / n for n in (4, 7)]
    options = replace(HM11, draws=9, keep=5)
    found = sample(lists, options, seed=2)
    wanted = exactly(lists, options, seed=2, first=0)
    assert list(zip(found.better.tolist(), found.worse.tolist(), found.delta.tolist(), strict=True)) == wanted
    builder = Builder()
    for s, texts in enumerate((["a b c d", "a b", "c"], ["a", "b c d e", "x y"])):
        for text in texts:
            builder.add(HypRecord(s, text, "here"))
    nbest = attach(builder.finish(), source=None, refs=[["a b c d", "b c d e"]], name="test")
    gains = sentence_bleu(nbest.stats)
    for first in ({}, {"first": 0}, {"first": 5}):
        assert same(pairs_for(nbest, options, seed=2, **first), sample_pairs(nbest.hyp_ptr, gains, options, seed=2, **first))
    assert not same(pairs_for(nbest, options, seed=2), pairs_for(nbest, options, seed=2, first=5))
