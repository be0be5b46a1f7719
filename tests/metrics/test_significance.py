"""Significance tests: sacrebleu's own numbers, naive twins, and what must hold whatever the draws."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import sacrebleu
from metric_lists import paired_bootstrap
from sacrebleu.significance import PairedTest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.metrics import significance
from boostfeat.metrics.metric import metric_of
from boostfeat.metrics.significance import (
    approximate_randomisation,
    bootstrap_sums,
    confidence_interval,
    exact_sums,
    p_value,
    shuffle_sums,
    stratified_randomisation,
    stratified_sums,
)

NBEST = synthetic_nbest(SyntheticOptions(sentences=80, hyps=10), seed=3)
SCORER = Scorer(NBEST)


def chosen(seed: int) -> np.ndarray:
    """Outputs of a pseudo-system: good on the whole, with errors of its own."""
    noise = np.random.default_rng(seed).normal(size=NBEST.n_hyps)
    return best_choice(NBEST, NBEST.global_features @ [0.2, 0.5, 0.0, 0.5, 0, 0, 0, 0] + seed % 7 * noise)


def rows(seed: int, metric: str = "bleu") -> np.ndarray:
    return SCORER.rows(chosen(seed), metric)


def texts(seed: int) -> list[str]:
    return [NBEST.text[int(h)].as_py() for h in chosen(seed)]


ORACLES = {"bleu": sacrebleu.BLEU(tokenize="none", force=True), "chrf": sacrebleu.CHRF()}


@pytest.mark.parametrize(("name", "pair"), [*(("bleu", pair) for pair in [(0, 1), (0, 3), (1, 2), (5, 4)]), ("chrf", (0, 1))])
@pytest.mark.parametrize(("kind", "ours"), [("bs", paired_bootstrap), ("ar", approximate_randomisation)])
def test_p_values_are_those_of_sacrebleu(monkeypatch, kind, ours, name, pair):
    """Not nearly: with the same seed the draws are the same ones, in batches or at once.

    TER is not among them: edits are few and whole, so that many trials differ by just as much as the systems do, and these
    count here (see ``p_value``). Its p-values are those of naive loops, below.
    """
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    monkeypatch.setattr(significance, "BATCH", 64 * len(NBEST))  # 1000 trials are 16 batches
    named = [(str(seed), texts(seed)) for seed in pair]
    _, found = PairedTest(named, {name: ORACLES[name]}, [NBEST.refs.to_pylist()], kind, n_samples=1000)()
    *_, (base, system) = found.values()  # behind the names of systems
    a, b = (rows(seed, name) for seed in pair)
    assert ours(a, b, metric=name, trials=1000) == system.p_value
    if kind == "bs":  # sacrebleu gives the centre's mean and half the width of the interval
        for result, own in ((base, a), (system, b)):
            low, high = confidence_interval(bootstrap_sums(own, trials=1000), name)
            assert (high - low) / 2 == pytest.approx(result.ci, abs=1e-5)  # it sums in float32
            assert low < result.score < high


def score(sums: np.ndarray, metric: str) -> float:
    return float(metric_of(metric).score(sums))


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp", "chrf", "ter", "wer", "bleu-ter"])
def test_sums_are_those_of_naive_loops(metric):
    a, b = rows(1, metric), rows(2, metric)
    rng = np.random.default_rng(7)
    for found in bootstrap_sums(a, trials=20, seed=7):
        assert (found == a[rng.choice(len(a), size=len(a))].sum(axis=0)).all()
    rng = np.random.default_rng(7)
    coins = rng.integers(2, size=(20, len(a)), dtype=bool)
    differences = []
    for mine, other, coin in zip(*shuffle_sums(a, b, trials=20, seed=7), coins, strict=True):
        assert (mine == np.where(coin[:, None], a, b).sum(axis=0)).all()
        assert (other == np.where(coin[:, None], b, a).sum(axis=0)).all()
        differences.append(abs(score(mine, metric) - score(other, metric)))
    observed = abs(score(a.sum(axis=0), metric) - score(b.sum(axis=0), metric))
    expected = (1 + sum(d >= observed - significance.ROUNDING for d in differences)) / 21
    assert approximate_randomisation(a, b, metric=metric, trials=20, seed=7) == expected


def test_stratified_shuffles_are_all_subsets_equally_often():
    """Two runs against one on two sentences: 3 x 3 equally likely deals, found from the sums by giving rows unique values."""
    a = np.zeros((2, 2, 11), np.int64)
    b = np.zeros((1, 2, 11), np.int64)
    a[0, :, 0], a[1, :, 0], b[0, :, 0] = (1, 10), (2, 20), (4, 40)
    one, other = stratified_sums(a, b, trials=9000, seed=0)
    assert (one + other == a.sum(axis=(0, 1)) + b.sum(axis=(0, 1))).all()
    found, counts = np.unique(one[:, 0], return_counts=True)
    assert sorted(found) == sorted(x + y for x, y in itertools.product((3, 5, 6), (30, 50, 60)))
    assert (np.abs(counts - 1000) < 150).all()  # binomial, sd 30


def test_stratified_with_one_run_each_is_approximate_randomisation():
    a, b = rows(0), rows(3)
    stratified = stratified_randomisation(a[None], b[None], trials=4000)
    plain = approximate_randomisation(a, b, trials=4000)
    assert stratified == pytest.approx(plain, abs=4 * np.sqrt(2 * plain * (1 - plain) / 4000) + 1e-3)


def test_optimiser_variance_takes_significance_away():
    """Systems that differ only by seed: the best run against the worst looks real, all runs together do not."""
    runs = [rows(seed) for seed in (3, 10, 17, 24, 31, 38, 45, 52, 59, 66)]  # the same amount of noise, other draws
    runs.sort(key=lambda r: score(r.sum(axis=0), "bleu-sbp"))
    lucky = approximate_randomisation(runs[-1], runs[0], trials=2000)
    mixed = stratified_randomisation(np.stack(runs[::2]), np.stack(runs[1::2]), trials=2000)
    assert lucky < 0.2 < mixed


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp"])
def test_identical_systems_have_p_1(metric):
    a = rows(1)
    for test in (paired_bootstrap, approximate_randomisation):
        assert test(a, a, metric=metric, trials=500) == 1.0
    assert stratified_randomisation(np.stack([a, a]), np.stack([a, a]), metric=metric, trials=500) == 1.0


def test_systems_that_differ_in_one_sentence():
    """Every shuffle is the true pair or its mirror image: all are as extreme."""
    a, b = rows(1), rows(1).copy()
    b[5, :4] += 1
    assert approximate_randomisation(a, b, trials=300) == 1.0


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_symmetry_and_calibration(test):
    a, b = rows(1), rows(4)
    for metric in ["bleu", "bleu-sbp"]:
        assert test(a, b, metric=metric, trials=500) == test(b, a, metric=metric, trials=500)
    better = a.copy()
    better[:, :4] = a[:, 4:8]  # every n-gram matches
    assert test(a, better, trials=500) == 1 / 501


def test_p_value_counts_ties():
    assert p_value(np.array([0.1, 0.2, 0.3]), 0.2) == 3 / 4
    assert p_value(np.zeros(9), 0.0) == 1.0
    assert p_value(np.array([0.2 - 1e-13, 0.2 - 1e-11]), 0.2) == 2 / 3


@pytest.mark.parametrize(
    ("trials", "level", "cut"), [(40, 0.95, 1), (39, 0.95, 0), (20, 0.9, 1), (100, 0.9, 5), (1, 0.95, 0), (7, 0.0, 3)]
)
def test_confidence_interval_cuts_both_ends(trials, level, cut):
    """Corpora whose references are longer and longer: scores 100 exp(1 - ref / len), in any order."""
    rng = np.random.default_rng(0)
    sums = np.tile(np.array([10, 9, 8, 7, 10, 9, 8, 7, 10, 0, 10.0]), (trials, 1))
    sums[:, 9] = rng.permutation(np.arange(11, 11 + trials))
    scores = 100 * np.exp(1 - np.arange(11, 11 + trials) / 10)[::-1]
    for metric in ["bleu", "bleu-sbp"]:
        found = confidence_interval(sums, metric, level=level)
        assert found == pytest.approx((scores[cut], scores[trials - cut - 1]), rel=1e-12)
    if level == 0.95:
        assert confidence_interval(sums) == confidence_interval(sums, "bleu-sbp", level=0.95)


def test_seeds_and_batches(monkeypatch):
    a, b = rows(1), rows(2)
    whole = [bootstrap_sums(a, trials=100, seed=1), *shuffle_sums(a, b, trials=100, seed=1)]
    monkeypatch.setattr(significance, "BATCH", 1)
    for x, y in zip(whole, [bootstrap_sums(a, trials=100, seed=1), *shuffle_sums(a, b, trials=100, seed=1)], strict=True):
        assert (x == y).all()
    assert not (bootstrap_sums(a, trials=100, seed=2) == whole[0]).all()


def test_rows_of_other_sentences_are_refused():
    with pytest.raises(ValueError, match="the same sentences"):
        approximate_randomisation(rows(1), rows(1)[:-1])
    with pytest.raises(ValueError, match="at least one"):
        approximate_randomisation(rows(1)[:0], rows(1)[:0])
    with pytest.raises(ValueError, match="the same sentences"):
        stratified_randomisation(rows(1)[None], rows(1)[None, :-1])


def test_ten_thousand_trials_take_seconds():
    a, b = (np.tile(rows(seed), (25, 1)) for seed in (1, 2))  # 2000 sentences
    started = time.process_time()
    paired_bootstrap(a, b, trials=10_000)
    approximate_randomisation(a, b, trials=10_000)
    assert time.process_time() - started < 15  # 1.5 s of one core


def test_sums_on_a_grid_are_exact_in_any_order():
    rows = np.random.default_rng(0).normal(size=(500, 2))
    found = exact_sums(rows)
    assert np.abs(found - rows).max() < 500 * np.abs(rows).max() * 2.0**-52
    assert np.array_equal(found.sum(axis=0), found[::-1].sum(axis=0))
    assert np.array_equal(found.cumsum(axis=0)[-1], found.sum(axis=0))
    whole = np.arange(6).reshape(3, 2)
    assert exact_sums(whole) is whole
