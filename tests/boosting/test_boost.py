"""Boosting: planted truth, the paper's algorithm step by step, what the loop asks of an engine, invariances, real lists."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from engines import Spoken, one_leaf
from scipy import sparse
from synthetic import SyntheticOptions, synthetic_nbest, worth

from boostfeat.boosting.boost import boost, run_rounds
from boostfeat.boosting.boost_options import BoostOptions, recipe
from boostfeat.boosting.local import first_gradient
from boostfeat.boosting.record import Record
from boostfeat.boosting.round_loss import RoundLoss
from boostfeat.core.errors import InputError
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import Scorer, first_choice, oracle_choice
from boostfeat.lists.merging import concat
from boostfeat.lists.nbest import NBest, Units
from boostfeat.losses.pairs import PairOptions, pairs_for
from boostfeat.losses.pairwise import PairwiseLogLoss
from boostfeat.model.model import Model
from boostfeat.model.units import UnitSpace
from boostfeat.trees.growing import Grower, TreeOptions, grid_step
from boostfeat.tuners.linear import linear_problem

FAST = BoostOptions(rounds=4, tree=TreeOptions(min_occurrences=20), pairs=PairOptions(draws=500, keep=50))


def with_gains(nbest: NBest, gains: np.ndarray) -> NBest:
    """The list with statistics whose sentence BLEU is these gains (0..1): all words match, longer n-grams a share of them."""
    length = 1_000_000
    stats = np.full((nbest.n_hyps, 6), length, np.int32)
    stats[:, 1:4] = np.round(gains ** (4 / 3) * length)[:, None]
    return replace(nbest, stats=stats)


def planted(options: SyntheticOptions, seed: int) -> NBest:
    """Gains that follow [TA13] Figure 2 exactly: the sum over units of (2 if count <= 2 else 1) * LexWeight.

    Weights about 0, since a linear leaf has no intercept and the gradient sums to 0; drawn apart from the channel score.
    """
    nbest = synthetic_nbest(options, seed=seed)
    x = nbest.units.x.copy()
    x[:, :2] = np.random.default_rng(seed).standard_normal((len(x), 2))
    total = nbest.sum_units(worth(x * (np.arange(x.shape[1]) != 3)))  # without the language model's share of worth
    nbest = replace(nbest, units=replace(nbest.units, x=x))
    return with_gains(nbest, (total - total.min()) / (total.max() - total.min()))


def test_planted_truth():
    """With F_0 = 0, the first linear tree is Figure 2's: LexWeight, slopes 2 : 1, split where the count is at most 2."""
    nbest = planted(SyntheticOptions(sentences=150, hyps=60, features=10), seed=5)
    options = replace(FAST, rounds=1, tree=TreeOptions(leaves="linear", max_leaves=2))
    tree = boost(nbest, None, options, init=Model({})).trees[0]
    assert (tree.on, tree.feature[0]) == ("LexWeight", "PhraseCount")
    assert 2 < tree.threshold[0] < 3
    rare, frequent = tree.value[tree.left[0]], tree.value[tree.right[0]]
    assert rare / frequent == pytest.approx(2, rel=0.15)  # the gradient at 0 is not quite linear in the gain


def test_first_round_by_the_formulas(dev):
    """Figure 3 line by line, with the three matrices: y = A' P' σ(-z), h by least squares, ρ by a grid around it."""
    model = boost(dev, None, replace(FAST, rounds=1), seed=3)
    pairs = pairs_for(dev, FAST.pairs, seed=3)
    fit = linear_problem(dev, pairs).fit(l2=FAST.l2)
    assert model.weights == fit.weights
    scores = dev.A @ (dev.X @ np.array([fit.weights[n] for n in dev.unit_names]))
    every = sparse.eye(dev.n_hyps).tocsr()
    p = every[pairs.better] - every[pairs.worse]
    y = dev.A.T @ (p.T @ (1 / (1 + np.exp(p @ scores))))
    tree = model.trees[0]
    space = UnitSpace.of(dev, "local")
    leaf = tree.leaf_of(space.table)
    counts = np.asarray(dev.A.sum(axis=0)).ravel()
    for node in tree.leaves:
        assert tree.value[node] == pytest.approx(y[leaf == node].sum() / counts[leaf == node].sum(), rel=1e-9)
    step = dev.A @ tree.value[leaf]
    apart = p @ step
    scale = np.sqrt(np.mean(apart[np.abs(apart) > 1e-9] ** 2))

    def objective(rho: float) -> float:
        return float(np.logaddexp(0, -(p @ (scores + rho * step))).sum() + FAST.l2 / 2 * (scale * rho) ** 2)

    assert objective(tree.weight) <= min(objective(tree.weight * (1 + e)) for e in (-1e-3, 1e-3)) + 1e-9
    assert model.history[1]["loss"] * len(pairs) == pytest.approx(
        objective(tree.weight) - FAST.l2 / 2 * (scale * tree.weight) ** 2, rel=1e-9
    )


def test_the_target_is_on_the_grid_of_all_that_it_can_sum_to(dev):
    """Sums over any units are then exact: multiples of one step, less than 2^53 of them."""
    pairs = pairs_for(dev, FAST.pairs, seed=3)
    space = UnitSpace.of(dev, "local")
    loss = RoundLoss.of(space, dev.hyp_ptr, pairs)
    y, step = loss.target(loss.at(np.random.default_rng(0).normal(size=dev.n_hyps))), grid_step(loss.reach)
    assert np.array_equal(y / step, np.round(y / step))
    assert np.any(y / (2 * step) != np.round(y / (2 * step)))  # no coarser one
    assert 1 < np.abs(y).sum() <= loss.reach < 2.0**53 * step


def test_a_step_is_penalised_as_a_weight_is(dev):
    """Along the column of a feature, from scores of 0, the line search finds the weight of the linear fit of that feature alone."""
    pairs = pairs_for(dev, FAST.pairs, seed=3)
    space = UnitSpace.of(dev, "local")
    loss = RoundLoss.of(space, dev.hyp_ptr, pairs)
    for j, name in enumerate(dev.unit_names[:3]):
        frozen = np.array([other != name for other in dev.feature_names])
        weight = linear_problem(dev, pairs).fit(l2=300.0, frozen=frozen, tol=1e-10).weights[name]
        assert loss.line_search(loss.at(np.zeros(dev.n_hyps)), space.sum(np.asarray(dev.X[:, j])), l2=300.0) == pytest.approx(
            weight, rel=1e-4
        )


@pytest.mark.parametrize("leaves", ["constant", "linear", "affine"])
@pytest.mark.parametrize("level", ["local", "global"])
def test_loss_falls_every_round_and_scores_are_the_models(dev, level, leaves):
    options = replace(FAST, level=level, tree=TreeOptions(leaves=leaves, max_leaves=4, min_occurrences=20))
    model = boost(dev, None, options)
    losses = [row["loss"] for row in model.history]
    assert len(model.trees) == 4
    assert all(b < a for a, b in pairwise(losses))
    pairs = pairs_for(dev, options.pairs, seed=0)
    scores = model.decision_function(dev)
    assert PairwiseLogLoss(pairs, dev.n_hyps).at(scores).value() / len(pairs) == pytest.approx(losses[-1], rel=1e-12)


# -- what the loop asks of an engine --------------------------------------------------------------------------------------


def round_of(m: int, rho: float) -> list[tuple]:
    return [("grow", m), ("line_search",), ("move", rho, m), ("row",)]


def test_the_loop_asks_for_the_lines_of_figure_3_in_their_order():
    """Pairs are drawn at the start and after every second round; ρ is shrunk before the engine moves by it."""
    engine = Spoken([one_leaf()] * 3)
    model = run_rounds(engine, Record(BoostOptions(rounds=3, resample_pairs=2, shrinkage=0.25)))
    start = [("first_weights",), ("load", 0), ("train", 0), ("row",), ("effects",)]
    assert engine.asked == [*start, *round_of(1, 0.5), *round_of(2, 0.5), ("train", 2), *round_of(3, 0.5)]
    assert [(tree.name, tree.weight) for tree in model.trees] == [(f"tree.{k:03d}", 0.5) for k in range(3)]
    assert model.history[0] == {"round": 0, "loss": 0.5, "effects": {"LM0": 0.125}, "dev": 30.0}
    for m, row in enumerate(model.history[1:], start=1):
        about = {"rho": 0.5, "tree": f"tree.{m - 1:03d}", "fit": 10.0 * m, "effect": 0.25, "fires": [7]}
        assert row == {"round": m, "loss": 0.5, **about, "dev": 30.0}


@pytest.mark.parametrize(("trees", "rho", "last"), [([None], 2.0, ("grow", 1)), ([one_leaf()], 0.0, ("line_search",))])
def test_no_tree_and_no_step_end_the_rounds(trees, rho, last):
    engine = Spoken(trees, rho)
    model = run_rounds(engine, Record(BoostOptions(rounds=9)))
    assert (engine.asked[-1], model.trees, len(model.history)) == (last, (), 1)


@pytest.mark.parametrize(("done", "drawn", "left"), [(0, 0, [1, 2, 3]), (1, 0, [2, 3]), (2, 2, [3]), (3, 2, [])])
def test_a_resumed_engine_draws_where_the_pairs_were_drawn_and_adds_the_trees_since(done, drawn, left):
    """Nothing that is known is asked again: no first weights, no row of the start."""
    options, seen = BoostOptions(rounds=3, resample_pairs=2), []
    record = Record(options, callback=lambda row, model: seen.append(model))
    whole = run_rounds(Spoken([one_leaf()] * 3), record)
    engine = Spoken([one_leaf()] * 3)
    assert run_rounds(engine, Record(options, so_far=seen[done])).to_json() == whole.to_json()
    start = [("load", drawn), ("train", drawn), *(("add", f"tree.{k:03d}") for k in range(drawn, done))]
    assert engine.asked[: len(start)] == start
    draws = [("train", 2)] if done < 2 else []
    assert engine.asked[len(start) :] == [
        call for m in left for call in ((draws if m == 3 else []) + round_of(m, 2.0))
    ]  # fmt: skip


# -- invariances ----------------------------------------------------------------------------------------------------------


def test_duplicated_sentences_give_the_same_trees(dev):
    """Twice the corpus is twice the loss: with pairs doubled, L2 doubled and occurrences doubled nothing else changes."""
    twice = concat([dev, dev])
    pairs = replace(
        FAST.pairs, sampler="hm11", draws=4000, keep=4000, threshold=0.0, distinct=True
    )  # nearly all pairs: seeds hardly matter
    once = boost(dev, None, replace(FAST, rounds=2, pairs=pairs))
    both = boost(twice, None, replace(FAST, rounds=2, pairs=pairs, l2=2.0, tree=replace(FAST.tree, min_occurrences=40)))
    for s, t in zip(once.trees, both.trees, strict=True):
        assert s.feature == t.feature
        np.testing.assert_allclose(s.threshold, t.threshold)


def test_trees_look_only_at_the_features_they_may(dev):
    options = replace(FAST, tree_features=("PhraseCount", "Noise_0"))
    model = boost(dev, None, options)
    assert set().union(*(tree.features() for tree in model.trees)) <= {"PhraseCount", "Noise_0"}
    assert model.weights == boost(dev, None, replace(FAST, rounds=0)).weights  # linear weights keep all features
    linear = boost(dev, None, replace(options, tree=TreeOptions(leaves="linear", min_occurrences=20)))
    assert {tree.on for tree in linear.trees} <= {"PhraseCount", "Noise_0"}
    with pytest.raises(InputError, match="tree features: expected features of the list, found 'Nope'"):
        boost(dev, None, replace(FAST, tree_features=("Nope",)))


@pytest.mark.parametrize("more", [{}, {"context": True, "resample_pairs": 3, "shrinkage": 0.5, "level": "global"}])
def test_threads_do_not_matter(dev, select, more):
    one, two = (boost(dev, select, replace(FAST, **more), seed=2, threads=t).to_json() for t in (1, 2))
    assert one == two


def test_init_continues_from_another_model(dev):
    first = boost(dev, None, replace(FAST, rounds=2))
    more = boost(dev, None, replace(FAST, rounds=2), init=first)
    assert [t.name for t in more.trees] == ["tree.000", "tree.001", "tree.002", "tree.003"]
    assert more.history[0]["loss"] == pytest.approx(first.history[-1]["loss"], rel=1e-12)
    with pytest.raises(InputError, match="level"):
        boost(dev, None, replace(FAST, level="global"), init=first)


def test_level_local_needs_units(dev):
    bare = without_units(dev)
    with pytest.raises(InputError, match="level global"):
        boost(bare, None, FAST)
    assert len(boost(bare, None, replace(FAST, level="global")).trees) == 4


def test_a_penalty_that_held_out_lists_choose_is_for_induce(dev):
    with pytest.raises(InputError, match=r"sparse-l2: auto is for induce\(\), .*; boost\(\) takes a number"):
        boost(dev, None, replace(FAST, sparse_l2="auto"))


def without_units(nbest: NBest) -> NBest:
    none = nbest.units.take(np.zeros(0, np.int64))
    return replace(
        nbest,
        units=Units(**{**none.__dict__, "x": np.zeros((0, 0))}),
        unit_names=(),
        unit_idx=nbest.unit_idx[:0],
        src_start=nbest.src_start[:0],
        tgt_start=nbest.tgt_start[:0],
        unit_ptr=np.zeros(nbest.n_hyps + 1, np.int64),
        extra=nbest.global_features,
        extra_names=nbest.unit_names,
    )


def test_lists_with_nothing_to_learn():
    """Lists of one, and lists of equal gains, have no pairs: no trees, weights 0, no error."""
    one = synthetic_nbest(SyntheticOptions(sentences=5, hyps=1))
    same = with_gains(synthetic_nbest(SyntheticOptions(sentences=5, hyps=10)), np.full(50, 0.5))
    for nbest in (one, same):
        model = boost(nbest, nbest, FAST)
        assert model.trees == ()
        assert set(model.weights.values()) == {0.0}


# -- real lists ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_finnish_english(real):
    """Numbers of shared/real/README.md: decoder 29.75, oracle 41.96, PRO's mean training loss 0.4798 on the 14 features.

    The loss depends on the pairs drawn: over five seeds ours is 0.4803 to 0.4820, so 0.003 is the tolerance.
    """
    source, refs = ((real / "fi-en" / f"devtrain.{x}").read_text().splitlines() for x in ("fi", "en"))
    nbest = read(real / "fi-en" / "devtrain.200.enriched.xz", ReadOptions(source=source))
    nbest = attach(nbest, source=source, refs=[refs], name="devtrain", threads=2)
    assert (nbest.n_hyps, nbest.n_occurrences, nbest.n_units) == (496_470, 3_889_688, 368_115)
    scorer = Scorer(nbest)
    assert f"{scorer.score(first_choice(nbest), 'bleu').score:.2f}" == "29.75"
    assert f"{scorer.score(oracle_choice(nbest), 'bleu').score:.2f}" == "41.96"
    model = boost(nbest, None, BoostOptions(rounds=10), threads=2)
    losses = [row["loss"] for row in model.history]
    assert losses[0] == pytest.approx(0.4798, abs=0.003)
    assert len(losses) == 11
    assert all(b < a for a, b in pairwise(losses))


def greedy_gain(x: np.ndarray, c: np.ndarray, g: np.ndarray, n_leaves: int) -> float:
    """Σ 2 g h - c h² of exhaustive greedy growth with constant leaves: every feature, every value, no floor of leaves."""

    def best_split(rows: np.ndarray) -> tuple[float, np.ndarray | None]:
        best: tuple[float, np.ndarray | None] = (0.0, None)
        for values in x[rows].T:
            order = np.argsort(values, kind="stable")
            left_g, left_c = np.cumsum(g[rows[order]]), np.cumsum(c[rows[order]])
            ends = np.flatnonzero(np.diff(values[order]))
            if len(ends):
                right_g, right_c = left_g[-1] - left_g[ends], left_c[-1] - left_c[ends]
                gains = left_g[ends] ** 2 / left_c[ends] + right_g**2 / right_c - left_g[-1] ** 2 / left_c[-1]
                at = int(gains.argmax())
                best = max(best, (float(gains[at]), order[: ends[at] + 1]), key=lambda split: split[0])
        return best

    leaves = [(np.arange(len(x)), *best_split(np.arange(len(x))))]
    while len(leaves) < n_leaves:
        rows, _, left = leaves.pop(max(range(len(leaves)), key=lambda k: leaves[k][1]))
        if left is None:
            break
        sides = rows[left], np.delete(rows, left)
        leaves += [(side, *best_split(side)) for side in sides]
    return float(sum(g[rows].sum() ** 2 / c[rows].sum() for rows, _, _ in leaves))


@pytest.mark.parametrize("n_leaves", [2, 4, 8])
@pytest.mark.parametrize("lists", ["data", "planted"])
def test_the_papers_trees_are_those_of_exhaustive_greedy_growth(dev, lists, n_leaves, monkeypatch):
    """In every round: the gain of the tree is that of greedy growth on the same gradient. Features have 200 values, a bin each."""
    nbest = dev if lists == "data" else planted(SyntheticOptions(sentences=60, hyps=20, features=6), seed=2)
    coded = [np.searchsorted(np.unique(np.quantile(column, np.linspace(0, 1, 200))), column) for column in nbest.units.x.T]
    nbest = replace(nbest, units=replace(nbest.units, x=np.array(coded, float).T.copy()))
    space, rounds, grow = UnitSpace.of(nbest, "local"), [], Grower.grow

    def watched(self, g):
        grown = grow(self, g)
        rounds.append((g.copy(), grown.h))
        return grown

    monkeypatch.setattr(Grower, "grow", watched)
    boost(nbest, None, recipe("paper", rounds=12, max_leaves=n_leaves, rule="all"))
    assert len(rounds) == 12
    x, c = np.asarray(space.table.x), space.counts()
    for g, h in rounds:
        assert float((2 * g * h - c * h * h).sum()) == pytest.approx(greedy_gain(x, c, g, n_leaves), rel=1e-5)


# -- the gradient at the PRO solution -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", [None, "bleu", "ter"])
def test_it_is_the_definition(gain):
    """g = A' P' σ(-z), by sparse matrices; BLEU where nothing is said. It does not depend on threads."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=4))
    pairs = pairs_for(nbest, BoostOptions().pairs, gain=gain or "bleu", seed=3)
    scores = Model(linear_problem(nbest, pairs).fit(l2=BoostOptions().l2).weights).decision_function(nbest)
    z = scores[pairs.better] - scores[pairs.worse]
    by_hyp = np.zeros(nbest.n_hyps)
    np.add.at(by_hyp, pairs.better, 1 / (1 + np.exp(z)))
    np.add.at(by_hyp, pairs.worse, -1 / (1 + np.exp(z)))
    found, counts = first_gradient(nbest, gain=gain, seed=3)
    assert found == pytest.approx(nbest.A.T @ by_hyp, abs=1e-9)
    assert counts.tolist() == np.bincount(nbest.unit_idx, minlength=nbest.n_units).tolist()
    again, _ = first_gradient(nbest, gain=gain, seed=3, threads=2)
    assert np.array_equal(found, again)
