"""MIRA against a naive twin of [E12], its invariances, degenerate lists, and a million features."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from time import process_time

import numpy as np
import pytest
from scipy import sparse

from boostfeat.core.arrays import offsets
from boostfeat.core.errors import InputError
from boostfeat.lists.build import Builder, HypRecord
from boostfeat.lists.nbest import NBest, SparseRows, strings
from boostfeat.metrics.bleu import context_bleu, corpus_bleu, corpus_rows, sentence_bleu
from boostfeat.tuners.adaptive import Adagrad
from boostfeat.tuners.base import Features, Groups, Run
from boostfeat.tuners.margin import health
from boostfeat.tuners.mira import ORACLES, PREDICTIONS, Mira

# -- lists to train on --------------------------------------------------------------------------------------------------


def container(counts, dense, stats, sparse_x=None) -> NBest:
    """Lists of these lengths with these features and BLEU statistics; no units and no text."""
    builder = Builder()
    for h in range(len(dense)):
        builder.add(HypRecord(0, f"h{h}", "here"))
    sparse_x = sparse.csr_matrix((len(dense), 0)) if sparse_x is None else sparse_x
    return replace(
        builder.finish(),
        ids=np.arange(len(counts)),
        source=strings([""] * len(counts)),
        ref_ptr=np.arange(len(counts) + 1),
        refs=strings(["a b c d e"] * len(counts)),
        hyp_ptr=offsets(np.array(counts)),
        stats=np.ascontiguousarray(stats, np.int32),
        extra=np.ascontiguousarray(dense, float),
        extra_names=tuple(f"f{j}" for j in range(dense.shape[1])),
        extra_sparse=SparseRows.from_matrix(sparse_x),
        sparse_names=strings([f"s{j}" for j in range(sparse_x.shape[1])]),
    )


def random_stats(rng, n):
    """Possible statistics: each n-gram order matches at most what is left of the one below."""
    rows = np.zeros((n, 6), int)
    rows[:, 4], rows[:, 5] = rng.integers(2, 12, n), rng.integers(3, 12, n)
    rows[:, 0] = rng.integers(0, rows[:, 4] + 1)
    for k in range(1, 4):
        rows[:, k] = rng.integers(0, np.minimum(np.maximum(rows[:, k - 1] - 1, 0), np.maximum(rows[:, 4] - k, 0)) + 1)
    return rows


def random_lists(seed=0, counts=(7, 1, 5, 0, 9, 4, 6, 2), n_dense=3, n_sparse=12) -> NBest:
    rng = np.random.default_rng(seed)
    n = sum(counts)
    return container(
        counts, rng.normal(size=(n, n_dense)), random_stats(rng, n), sparse.random(n, n_sparse, 0.3, "csr", random_state=rng)
    )


def planted_lists(seed=0, n_lists=80, size=15) -> tuple[NBest, np.ndarray]:
    """Each hypothesis' matches are a noisy function of planted weights."""
    rng = np.random.default_rng(seed)
    x, truth = rng.normal(size=(n_lists * size, 4)), np.array([1.0, -0.5, 0.0, 2.0])
    quality = 1 / (1 + np.exp(-(x @ truth) / 2 - 0.3 * rng.normal(size=len(x))))
    matches = np.floor(np.maximum(21 * quality[:, None] - np.array([0, 4, 7, 9]), 0))
    return container([size] * n_lists, x, np.column_stack([matches, np.full((len(x), 2), 20)])), truth


def matrix(nbest: NBest) -> np.ndarray:
    return np.hstack([nbest.global_features, nbest.global_sparse.toarray()])


def vector(nbest: NBest, model) -> np.ndarray:
    return Features.of(nbest).vector(model.weights)


def some_init(nbest: NBest, seed=0) -> dict[str, float]:
    names = Features.of(nbest).names
    return dict(zip(names, np.random.default_rng(seed).normal(scale=0.1, size=len(names)).tolist(), strict=True))


GROUPS = Groups((("f1", {"freeze": True}), ("s*", {"c": 3.0}), ("s1", {"c": 0.5})))


def factors(nbest: NBest, groups: Groups) -> np.ndarray:
    if not groups.rules:
        return np.ones(len(Features.of(nbest)))
    dense = np.array([1.0, 0.0, 1.0])
    return np.concatenate([dense, [0.5 if n == "s1" else 3.0 for n in nbest.sparse_names.to_pylist()]])


# -- the twin -----------------------------------------------------------------------------------------------------------


def pa(w, c, factor, loss, df):
    """min(C, loss / |df|²) df in the metric of the factors."""
    squares = (factor * df * df).sum()
    return w + min(c, loss / squares) * factor * df if loss > 0 and squares > 0 else w


def pick(values, ties):
    """The first maximum. A step that ends where margin = cost leaves a tie of y+ and y- for rounding to decide: noted."""
    ties.append((values > values.max() - 1e-9).sum() > 1)
    return values.argmax()


def twin(nbest, tuner, run, *, b=np.inf, d=0.0, by_cost=False):
    """[E12 algorithm 1] and RM-PA with nothing incremental. Yields each epoch's (weights kept, y+, y-, spread, any ties)."""
    f, ptr, stats, n_lists = matrix(nbest), nbest.hyp_ptr, nbest.stats, len(nbest)
    factor = factors(nbest, run.groups)
    (gp, bp), (gm, bm) = ORACLES[tuner.oracle], PREDICTIONS[tuner.prediction]
    w = np.array([(run.init or {}).get(n, 0.0) for n in Features.of(nbest).names])
    scale = tuner.context_scale or np.count_nonzero(np.diff(ptr))
    rng = np.random.default_rng(run.seed)
    parts = np.array_split(rng.permutation(n_lists), tuner.shards)
    best, means = {}, []
    for epoch in range(1, tuner.epochs + 1):
        ends, averages, found, ties = [], [], {}, []
        spread = {}
        for order in [rng.permutation(part) for part in parts]:
            v, seen, visited = w.copy(), dict(best), []
            for s in order:
                hyps = np.arange(ptr[s], ptr[s + 1])
                if len(hyps):
                    score = f[hyps] @ v
                    if epoch == 1:
                        gain = sentence_bleu(stats[hyps])
                    else:
                        others = stats[[h for t, h in seen.items() if t != s]]
                        gain = scale * context_bleu(stats[hyps], corpus_rows(others).sum(axis=0) if len(others) else np.zeros(11))
                    seen[s] = found[s] = hyps[score.argmax()]
                    among = np.arange(len(hyps))
                    if tuner.oracle == "lu":
                        among = np.sort(np.argsort(-score, kind="stable")[: tuner.k])
                    p = among[pick((gp * score + bp * gain)[among], ties)]
                    m = pick(gm * score - bm * gain, ties)
                    if len(hyps) > 1:
                        spread[s] = score[p] - score.min()
                        top, low = hyps[score.argmax()], hyps[score.argmin()]
                        v = pa(v, tuner.c, factor, score[m] - score[p] + gain[p] - gain[m], f[hyps[p]] - f[hyps[m]])
                        up, down = f[low] - f[hyps[p]], f[hyps[p]] - f[top]
                        costs = [max(0.0, gain[p] - gain[h - hyps[0]]) if by_cost else 1.0 for h in (low, top)]
                        over, under = -v @ up - b * costs[0], -v @ down - b * costs[1]
                        v = pa(v, d, factor, over, up) if over >= under else pa(v, d, factor, under, down)
                visited.append(v)
            ends.append(v)
            averages.append(np.mean(visited, axis=0) if visited else v)
        best.update(found)
        w = np.mean(ends, axis=0)
        means.append(np.mean(averages, axis=0))
        kept = np.mean(means, axis=0) if tuner.average else w
        plus, minus = chosen_at(nbest, tuner, f, kept, scale if epoch > 1 else 0.0, ties)
        yield kept, plus, minus, np.array(list(spread.values())), any(ties)


def chosen_at(nbest, tuner, f, w, scale, ties):
    """y+ and y- of all sentences under one weight vector, gains in the context of its own 1-bests."""
    (gp, bp), (gm, bm), ptr, stats = ORACLES[tuner.oracle], PREDICTIONS[tuner.prediction], nbest.hyp_ptr, nbest.stats
    lists = [np.arange(a, b) for a, b in pairwise(ptr)]
    best = [hyps[pick(f[hyps] @ w, ties)] if len(hyps) else -1 for hyps in lists]
    plus, minus = np.full(len(lists), -1), np.full(len(lists), -1)
    for s, hyps in enumerate(lists):
        if len(hyps):
            score = f[hyps] @ w
            others = stats[[h for t, h in enumerate(best) if t != s and h >= 0]]
            gain = scale * context_bleu(stats[hyps], corpus_rows(others).sum(axis=0) if len(others) else np.zeros(11))
            gain = gain if scale else sentence_bleu(stats[hyps])
            among = np.sort(np.argsort(-score, kind="stable")[: tuner.k]) if tuner.oracle == "lu" else np.arange(len(hyps))
            plus[s] = hyps[among[pick((gp * score + bp * gain)[among], ties)]]
            minus[s] = hyps[pick(gm * score - bm * gain, ties)]
    return plus, minus


def check_against_twin(nbest, tuner, run, **bounds):
    model, checked = tuner.fit(nbest, None, run), 0
    epochs = list(twin(nbest, tuner, run, **bounds))
    for row, (_, plus, minus, spread, ties) in zip(model.history, epochs, strict=True):
        if ties:
            continue
        empty = np.array([[0, 0, 0, 0, 0, 5]])  # an empty line against the reference of five words
        for name, chosen in (("oracle", plus), ("prediction", minus)):
            want = 100 * corpus_bleu(corpus_rows(np.where((chosen >= 0)[:, None], nbest.stats[chosen], empty)).sum(axis=0))
            assert row[name] == pytest.approx(want, rel=1e-12), (row["epoch"], name)
        assert (row["spread_mean"], row["spread_sd"]) == pytest.approx((spread.mean(), spread.std()), rel=1e-9, abs=1e-12)
        checked = row["epoch"]
    assert checked
    assert vector(nbest, model) == pytest.approx(epochs[-1][0], rel=1e-12, abs=1e-12)
    return model


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_equals_the_twin(oracle, prediction):
    nbest = random_lists()
    tuner = Mira(oracle=oracle, prediction=prediction, k=3, epochs=4, c=0.01)
    model = check_against_twin(nbest, tuner, Run(init=some_init(nbest)))
    assert all(row["moves"] for row in model.history) == (oracle != prediction)  # of one hypothesis no step is


@pytest.mark.parametrize(
    ("options", "run"),
    [
        ({}, Run()),  # an all-zero start
        ({"average": False}, Run(seed=3)),
        ({"c": 0.5, "prediction": "mc"}, Run(seed=4)),
        ({"shards": 3}, Run(threads=2)),
        ({"shards": 50}, Run(threads=2)),  # more learners than sentences
        ({"context_scale": 2.5}, Run()),
        ({}, Run(groups=GROUPS)),
    ],
    ids=["zero", "last", "large-c", "shards", "many-shards", "scale", "groups"],
)
def test_options_equal_the_twin(options, run):
    nbest = random_lists(seed=1)
    init = None if not options and not run.groups.rules else some_init(nbest, 2)
    model = check_against_twin(nbest, Mira(epochs=5, **options), replace(run, init=init))
    assert any(row["moves"] for row in model.history)


# -- what holds for every list --------------------------------------------------------------------------------------------


def test_only_differences_within_a_list_matter():
    """Constants added to a list's features change no difference; powers of two keep even the rounding small."""
    nbest = random_lists(seed=3)
    shifted = replace(nbest, extra=nbest.extra + np.repeat(2.0 ** np.arange(8), np.diff(nbest.hyp_ptr))[:, None])
    a, b = (Mira(epochs=3).fit(x, None, Run()) for x in (nbest, shifted))
    assert vector(nbest, b) == pytest.approx(vector(nbest, a), rel=1e-9, abs=1e-12)


def test_sparse_and_dense_storage_give_the_same_weights():
    nbest = random_lists(seed=4)
    dense = container(np.diff(nbest.hyp_ptr), matrix(nbest), nbest.stats)
    a, b = (vector(x, Mira(epochs=3).fit(x, None, Run())) for x in (nbest, dense))
    assert b == pytest.approx(a, rel=1e-12, abs=1e-13)


# -- strategies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [True, False])
def test_the_prediction_of_prediction_based_updates_is_the_models_best(average):
    """Figures 3 and 5 of [E12] have no error bars going down there; and no prediction beats what the oracle was chosen for."""
    nbest = random_lists(seed=10, counts=(8,) * 20)
    for oracle in ORACLES:
        history = Mira(oracle=oracle, prediction="pb", epochs=4, average=average).fit(nbest, None, Run(metric="bleu-sbp")).history
        assert [row["prediction"] for row in history] == [row["dev"] for row in history]
        assert all(row["oracle"] > row["dev"] for row in history) == (oracle != "pb")


def test_local_update_among_the_whole_list_is_max_bleu():
    nbest = random_lists(seed=9)
    a, b, c = (Mira(oracle=o, k=k, epochs=3).fit(nbest).weights for o, k in (("lu", 9), ("max-bleu", 1), ("lu", 2)))
    assert a == b != c


# -- what goes wrong ------------------------------------------------------------------------------------------------------


def test_lists_that_ask_for_no_step_are_said():
    single = random_lists(counts=(1, 0, 1))
    history = Mira(epochs=2).fit(single, None, Run(init={"f0": 1.0})).history
    assert [row["note"] for row in history] == ["no list asked for a step"] * 2
    assert [(row["spread_mean"], row["spread_sd"], row["moves"]) for row in history] == [(0.0, 0.0, 0)] * 2
    blank = container((3, 3), np.zeros((6, 2)), random_stats(np.random.default_rng(0), 6))
    assert "are still zero" in Mira(epochs=1).fit(blank).history[0]["note"]
    assert Mira(epochs=1).fit(random_lists(counts=(0,) * 3, n_sparse=1), None, Run()).weights == {"f0": 0.0, "f1": 0.0, "f2": 0.0}


def test_weights_that_blow_up_or_collapse_are_said():
    with pytest.raises(InputError, match="epoch 1: expected finite weights, found that they blew up; lower C"):
        Mira(epochs=1).fit(random_lists(), None, Run(init={"f0": 1e101}))
    with pytest.raises(InputError, match="blew up"):
        health(2, np.array([np.nan]), started=True, moves=1)
    for w in (1e100, -1e100, np.inf):
        with pytest.raises(InputError, match=r"epoch 7: .* blew up"):
            health(7, np.array([0.0, w]), started=False, moves=0)
    assert health(7, np.array([0.0, -0.99e100]), started=False, moves=1) == {}
    assert "are still zero" in health(2, np.zeros(3), started=False, moves=1)["note"]
    assert health(2, np.zeros(0), started=False, moves=0)["note"].startswith("all weights are still zero")
    assert "collapsed to zero" in health(2, np.zeros(3), started=True, moves=1)["note"]
    assert health(2, np.ones(3), started=True, moves=1) == {}


@pytest.mark.parametrize("options", [{"average": False}, {"shards": 3}, {"shards": 7, "average": False}])
def test_frozen_weights_keep_every_bit(options):
    nbest = random_lists(seed=10)
    init = some_init(nbest)
    weights = Mira(epochs=3, **options).fit(nbest, None, Run(init=init, groups=GROUPS)).weights
    assert weights["f1"] == init["f1"]
    assert weights["f0"] != init["f0"]


# -- scale ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tuner", "most"), [(Mira(epochs=3), 1000 * 2 * 20 * 3), (Adagrad(epochs=3), 600_000)])
def test_a_million_sparse_features(tuner, most):
    """1,000 lists of 100, 20 indicators each: an epoch in under 5 s. Any work per sentence over all features would take 30 s."""
    rng = np.random.default_rng(0)
    n, n_names, per_hyp = 100_000, 1_000_000, 20
    idx = np.sort(rng.integers(0, n_names, (n, per_hyp)), axis=1).ravel()
    x = sparse.csr_matrix((np.ones(len(idx)), idx, np.arange(0, len(idx) + 1, per_hyp)), shape=(n, n_names))
    nbest = container([100] * 1000, rng.normal(size=(n, 2)), random_stats(rng, n), x)
    tuner.fit(random_lists())  # compiled
    ends: list[float] = []
    model = tuner.fit(nbest, run=Run(callback=lambda row: ends.append(process_time())))
    assert max(np.diff(ends)) < 5
    assert all(1000 < row["nonzero"] < most for row in model.history)
