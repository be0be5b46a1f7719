"""MERT: its line search against exact brute force, invariances, degenerate lists, and what Moses' mert reaches."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticOptions, synthetic_nbest
from test_mira import container, random_lists, random_stats
from toy_graphs import fi_en_weights

from boostfeat.core.arrays import offsets
from boostfeat.core.errors import InputError
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import Scorer
from boostfeat.metrics.bleu import corpus_bleu, corpus_rows
from boostfeat.metrics.metric import metric_of
from boostfeat.metrics.sums import BLEU, STRICT, Recipe
from boostfeat.tuners import tuner_class
from boostfeat.tuners.base import Groups, Run
from boostfeat.tuners.mert import LineSearchLists, Mert, statistics

QUICK = Mert(restarts=2, rounds=2, directions=1)


def corpus_of(counts, stats, *, strict=False) -> LineSearchLists:
    none = np.zeros(0)
    rows, recipe = corpus_rows(stats).astype(np.int32), Recipe.of([(1.0, STRICT if strict else BLEU, 11)], size=9)
    return LineSearchLists(offsets(np.array(counts)), none, none, rows, np.zeros(11, np.int64), recipe)


# -- the line search ----------------------------------------------------------------------------------------------------


@st.composite
def lines(draw):
    """Lists of lines with small whole slopes and intercepts: many are equal, parallel, or meet in one point."""
    counts = draw(st.lists(st.integers(0, 7), min_size=1, max_size=5))
    n, whole = sum(counts), st.integers(-4, 4)
    a, b = (np.array(draw(st.lists(whole, min_size=n, max_size=n)), float) for _ in range(2))
    return counts, a, b, random_stats(np.random.default_rng(draw(st.integers(0, 999))), n), draw(st.booleans())


def winners(counts, a, b, gamma: Fraction):
    """The first of the highest lines of each list at γ, in exact arithmetic."""
    out, start = [], 0
    for count in counts:
        hyps = range(start, start + count)
        if count:
            out.append(max(hyps, key=lambda h: (int(a[h]) + gamma * int(b[h]), -h)))
        start += count
    return out


def brute_force(counts, a, b, stats, strict):
    """BLEU in each interval between any two crossings of lines of a list: the naive twin."""
    ptr = offsets(np.array(counts))
    crossings = {
        Fraction(int(a[i] - a[j]), int(b[j] - b[i]))
        for start, end in pairwise(ptr)
        for i in range(start, end)
        for j in range(start, end)
        if b[i] != b[j]
    }
    cuts = sorted(crossings) or [Fraction(0)]
    points = [cuts[0] - 1, *((x + y) / 2 for x, y in pairwise(cuts)), cuts[-1] + 1]
    return [float(corpus_bleu(corpus_rows(stats[winners(counts, a, b, x)]).sum(axis=0), strict=strict)) for x in points]


@settings(max_examples=150, deadline=None)
@given(lines())
def test_line_search_equals_brute_force_over_all_intervals(case):
    counts, a, b, stats, strict = case
    gamma, value = corpus_of(counts, stats, strict=strict).line_search(a, b)
    assert value == pytest.approx(max(brute_force(*case)), rel=1e-12)
    there = corpus_rows(stats[winners(counts, a, b, Fraction(gamma))]).sum(
        axis=0
    )  # a float is a fraction: γ itself, not a neighbour
    assert value == pytest.approx(float(corpus_bleu(there, strict=strict)), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(lines(), st.randoms(use_true_random=False))
def test_line_search_does_not_see_copies_order_or_a_constant(case, random):
    """Copies come later in the list and have other statistics: the first of identical lines wins, as in ``predict``."""
    counts, a, b, stats, strict = case
    known = corpus_of(counts, stats, strict=strict).line_search(a, b)
    lists = np.repeat(np.arange(len(counts)), counts)
    grown = np.argsort(np.r_[lists, lists], kind="stable")
    twice = np.r_[stats, stats[::-1]][grown]
    assert corpus_of(2 * np.array(counts), twice, strict=strict).line_search(np.r_[a, a][grown], np.r_[b, b][grown]) == known
    assert corpus_of(counts, stats, strict=strict).line_search(a + lists, b - 3 * lists) == known
    _, first = np.unique(np.c_[lists, a, b], axis=0, return_index=True)  # distinct lines may stand in any order
    order = sorted(first, key=lambda h: (lists[h], random.random()))
    shuffled = corpus_of(np.bincount(lists[first], minlength=len(counts)), stats[order], strict=strict)
    assert shuffled.line_search(a[order], b[order]) == known


def test_intervals_of_rounding_are_passed_over():
    stats = np.array([[2, 1, 1, 1, 5, 5], [5, 4, 3, 2, 5, 5], [3, 2, 1, 1, 5, 5]])
    a, b = np.array([0.0, 1e-13, 0.0]), np.array([0.0, 0.5, 1.0])  # the middle line wins between -2e-13 and 2e-13
    corpus = corpus_of([3], stats)
    assert corpus.line_search(a, b)[1] == 1.0
    assert corpus.line_search(a, b, narrow=1e-9)[1] == pytest.approx(corpus_bleu(corpus_rows(stats[2:]).sum(axis=0)))


# -- the tuner ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp"])
@pytest.mark.parametrize("init", [None, {"f0": -1.0, "f1": 0.2}])
def test_two_features_are_solved(metric, init):
    """Rankings by two features depend on an angle only: all angles are tried, and one start with shakes finds the best."""
    rng = np.random.default_rng(8)
    nbest = container([12] * 25, rng.normal(size=(300, 2)) * [1, 1000], random_stats(rng, 300))
    angles = np.linspace(0, 2 * np.pi, 5001)[:, None]
    score = (np.cos(angles) * nbest.extra[:, 0] + np.sin(angles) * nbest.extra[:, 1] / 1000).reshape(5001, 25, 12)
    chosen = score.argmax(axis=2) + nbest.hyp_ptr[:-1]
    best = 100 * corpus_bleu(corpus_rows(nbest.stats)[chosen].sum(axis=1), strict=metric == "bleu-sbp").max()
    model = Mert(restarts=10).fit(nbest, None, Run(metric=metric, init=init))
    assert model.history[-1]["dev"] >= best - 1e-9
    assert Scorer(nbest).score(model.predict(nbest), metric).score == max(row["dev"] for row in model.history)
    assert sum(map(abs, model.weights.values())) == pytest.approx(1.2 if init else 1.0)


def test_history_and_the_same_result_for_any_number_of_threads():
    nbest, held_out = (random_lists(seed=s, counts=(10,) * 20 + (0, 1)) for s in (1, 2))
    runs = [QUICK.fit(nbest, held_out, Run(seed=3, threads=t)) for t in (1, 3, 0)]
    assert runs[0].to_json() == runs[1].to_json() == runs[2].to_json()
    dev = [row["dev"] for row in runs[0].history]
    assert dev == sorted(dev)
    assert len(dev) == QUICK.rounds
    searches = [row["searches"] for row in runs[0].history]
    assert 0 < searches[0] < searches[1]
    held = [row["select"] for row in runs[0].history]
    assert runs[0].config["epoch"] == held.index(max(held))
    assert QUICK.fit(nbest, None, Run(seed=4)).weights != QUICK.fit(nbest, None, Run(seed=3)).weights


def test_frozen_and_constant_features_stay_and_sparse_ones_move():
    nbest = random_lists(seed=1, counts=(10,) * 20, n_dense=3, n_sparse=4)
    extra = nbest.extra.copy()
    extra[:, 1] = np.repeat(np.arange(20), 10)  # the same within lists
    nbest = replace(nbest, extra=extra)
    init = {"f0": 0.3, "f1": 7.0, "s1": -0.25}
    groups = Groups((("f0", {"freeze": True}), ("s[12]", {"freeze": True})))
    model = QUICK.fit(nbest, None, Run(init=init, groups=groups))
    assert [model.weights[n] for n in init] == list(init.values())
    assert "s2" not in model.weights
    assert model.weights["f2"] != 0
    assert {"s0", "s3"} & set(model.weights)
    start = Scorer(nbest).score(replace(model, weights=init).predict(nbest), "bleu").score
    assert model.history[-1]["dev"] > start
    still = QUICK.fit(nbest, None, Run(init=init, groups=Groups((("*", {"freeze": True}),))))
    assert still.weights == {"f2": 0.0, **init}


@pytest.mark.parametrize(
    ("counts", "kind"), [((1, 1, 1), ""), ((0, 3, 0), ""), ((4, 5), "equal"), ((4, 5), "no match"), ((4, 5), "no features")]
)
def test_degenerate_lists(counts, kind):
    rng, n = np.random.default_rng(0), sum(counts)
    stats = random_stats(rng, n)
    stats = {"equal": np.tile([3, 2, 1, 1, 5, 5], (n, 1)), "no match": stats * [0, 0, 0, 0, 1, 1]}.get(kind, stats)
    nbest = container(counts, rng.normal(size=(n, 0 if kind == "no features" else 2)), stats)
    model = QUICK.fit(nbest)
    init = QUICK.fit(nbest, None, Run(init=dict.fromkeys(nbest.extra_names, 0.5)))
    assert np.isfinite(list(model.weights.values())).all()
    if max(counts, default=0) == 1 or kind in ("equal", "no match"):  # nothing to gain: the weights stay as they were
        assert model.weights == {"f0": 0, "f1": 0}
        assert init.weights == {"f0": 0.5, "f1": 0.5}


def test_what_is_refused():
    assert tuner_class("mert") is Mert
    with pytest.raises(InputError, match=r"at most 100 features to tune, found 103; freeze some .*--set max-features"):
        Mert().fit(random_lists(n_sparse=100))
    groups = Groups((("s*", {"freeze": True}),))
    assert set(QUICK.fit(random_lists(n_sparse=100), None, Run(groups=groups)).weights) == {"f0", "f1", "f2"}
    with pytest.raises(InputError, match="unknown metric 'nonsense': expected one of bleu, bleu-sbp"):
        Mert().fit(random_lists(), None, Run(metric="nonsense"))
    with pytest.raises(InputError, match="rounds: expected 1 or more, found 0"):
        Mert(rounds=0)


@pytest.mark.parametrize("tol", [0.0, 1e9])
def test_a_climb_ends_when_no_line_helps(tol):
    """A gain below tol is no help: then each start searches every feature and every random line once."""
    nbest = random_lists(seed=1, counts=(10,) * 20, n_sparse=1)
    tuner = Mert(restarts=2, rounds=3, shakes=4, directions=3, tol=tol)
    searches = [row["searches"] for row in tuner.fit(nbest).history]
    once = [3 * (4 + 3) + r * 4 * (4 + 3) for r in range(3)]  # three starts, then four a round; four features and three lines
    if tol:
        assert searches == once
    else:
        assert all(n > least for n, least in zip(searches, once, strict=True))


def test_features_that_differ_by_rounding_stay_and_the_limit_is_of_those_not_frozen():
    rng = np.random.default_rng(3)
    dense = np.stack([rng.normal(size=40), np.where(np.arange(40) % 2, 0.1 + 0.2, 0.3)], axis=1)
    nbest = container((20, 20), dense, random_stats(rng, 40))
    tuner = replace(QUICK, max_features=2)
    model = tuner.fit(nbest, None, Run(init={"f0": -1.0, "f1": 0.5}))
    assert model.weights["f1"] == 0.5
    with pytest.raises(InputError, match="at most 1 features to tune, found 2"):
        replace(tuner, max_features=1).fit(nbest)
    replace(tuner, max_features=1).fit(nbest, None, Run(groups=Groups((("f1", {"freeze": True}),))))


def test_frozen_weights_set_the_scale():
    """Without them only the ranking counts, and weights come back at the length of the start; with them their size matters."""
    nbest = random_lists(seed=1, counts=(10,) * 20, n_sparse=1)
    free = QUICK.fit(nbest, None, Run(init={"f0": 2.0, "f1": -3.0}))
    assert sum(map(abs, free.weights.values())) == pytest.approx(5.0)
    held = QUICK.fit(nbest, None, Run(init={"f0": 1.0, "f1": 0.5}, groups=Groups((("f0", {"freeze": True}),))))
    assert held.weights["f0"] == 1.0
    best = Scorer(nbest).score(held.predict(nbest), "bleu").score
    assert best == held.history[-1]["dev"]  # at another scale the ranking would be another
    assert sum(abs(w) for n, w in held.weights.items() if n != "f0") != pytest.approx(0.5)


# -- what Moses reaches -------------------------------------------------------------------------------------------------


def test_reaches_what_moses_reaches_on_its_own_test(real):
    """moses-tests/mert-basic/truth.txt: mert with 20 restarts printed a best point of BLEU 0.304339."""

    def blocks(name):
        return [line.split() for line in (real / "moses-tests/mert-basic" / name).read_text().splitlines() if line.strip()]

    features, scores = blocks("features.txt"), blocks("scores.txt")
    counts = [int(row[2]) for row in features if row[0].startswith("FEATURES_TXT_BEGIN")]
    x = np.array([row for row in features if "_" not in row[0]], float)
    m1, t1, m2, t2, m3, t3, m4, t4, ref = np.array([row for row in scores if "_" not in row[0]], int).T
    nbest = container(counts, x, np.stack([m1, m2, m3, m4, t1, ref], axis=1))
    assert (len(counts), x.shape) == (10, (1000, 14))
    assert np.array_equal(corpus_rows(nbest.stats)[:, 4:8], np.stack([t1, t2, t3, t4], axis=1))
    for seed in range(10):  # one seed could be lucky
        assert Mert(restarts=20).fit(nbest, None, Run(seed=seed)).history[-1]["dev"] >= 30.43


@pytest.mark.slow
def test_reaches_what_moses_reaches_on_real_lists(real):
    """real/README: Moses' mert with 5 restarts has BLEU 30.57 on devtrain in 66 to 107 s; asked for are 30.52 and 30 s of CPU."""
    folder = real / "fi-en"
    weights = fi_en_weights(folder / "moses.ini")
    del weights["UnknownWordPenalty0"]  # no feature of lists
    refs = (folder / "devtrain.en").read_text().splitlines()
    nbest = attach(read(folder / "devtrain.200.enriched.xz", ReadOptions()), source=None, refs=[refs], name="devtrain")
    QUICK.fit(random_lists())  # compiled
    begin = process_time()
    model = Mert(restarts=5).fit(nbest, None, Run(init=weights))
    seconds = process_time() - begin
    assert nbest.n_hyps == 496_470
    assert model.history[-1]["dev"] >= 30.52
    assert seconds < 30


# -- other metrics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ter", "wer", "cer", "chrf", "bleu+1", "bleu-ter", "comet", "errors"])
@pytest.mark.parametrize("seed", range(3))
def test_the_line_search_is_exact_for_every_metric(name, seed):
    """Against the metric itself of the winners between any two crossings of lines of a list, in exact arithmetic."""
    rng = np.random.default_rng(seed)
    nbest = synthetic_nbest(SyntheticOptions(sentences=4, hyps=6, features=3), seed=seed)
    nbest = nbest.with_quality("comet", rng.normal(size=24))
    nbest = nbest.with_quality("errors", 9 * rng.random(24), rng.integers(1, 9, 24) / 3, lower_is_better=True)
    metric = metric_of(name, nbest)
    a, b = rng.integers(-9, 10, (2, 24)).astype(float)
    none = np.zeros(0)
    corpus = LineSearchLists(hyp_ptr=nbest.hyp_ptr, x=none, base=none, **statistics(nbest, metric))
    gamma, value = corpus.line_search(a, b)
    counts, ptr = [6] * 4, nbest.hyp_ptr
    crossings = {
        Fraction(int(a[i] - a[j]), int(b[j] - b[i]))
        for s in range(4)
        for i in range(ptr[s], ptr[s + 1])
        for j in range(i)
        if b[i] != b[j]
    }
    rows, at = metric.rows(nbest), sorted(crossings)
    points = [at[0] - 1, *((x + y) / 2 for x, y in pairwise(at)), at[-1] + 1]
    every = [rows[winners(counts, a, b, x)].sum(axis=0) for x in points]
    scores = [float(metric.higher(metric.score(sums))) / metric.unit(nbest) for sums in every]
    assert value == pytest.approx(max(scores), rel=1e-9)
    there = rows[winners(counts, a, b, Fraction(gamma))].sum(axis=0)
    assert float(metric.higher(metric.score(there))) / metric.unit(nbest) == pytest.approx(value, rel=1e-9)
