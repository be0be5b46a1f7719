"""Which round is kept: the best on a held-out list, or the last within a standard error of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engines import one_leaf
from strategies import build

from boostfeat.boosting import stopping
from boostfeat.boosting.boost import boost
from boostfeat.boosting.options import recipe
from boostfeat.boosting.stopping import best_round, kept_rounds, last_se_round, never_below_ranking, staged_scores
from boostfeat.lists.build import HypRecord, attach
from boostfeat.lists.choices import Scorer, best_choice, chosen_stats
from boostfeat.lists.nbest import NBest
from boostfeat.metrics.bleu import corpus_bleu, corpus_rows
from boostfeat.metrics.metric import METRICS, Metric
from boostfeat.model.model import Model

QUICK = {"rounds": 12, "min_occurrences": 20, "draws": 300, "keep": 30}


@pytest.mark.parametrize(
    ("gains", "best"), [([1.0], 0), ([1, 2, 3], 2), ([1, 5, 4, 5], 1), ([3, 3], 0), ([0] * 30 + [5] + [2] * 30, 30)]
)
def test_the_best_round_is_the_first_of_the_highest_gain(gains, best):
    assert best_round([{"round": m, "select": g} for m, g in enumerate(gains)]) == best


def test_without_a_held_out_list_the_last_round_is_kept():
    assert best_round([{"round": 0}, {"round": 1}]) == 1


@pytest.mark.parametrize("counts", [range(5), range(2, 5), [0, 3, 6, 9]])
def test_staged_scores_are_those_of_the_shorter_models(dev, select, counts):
    """Of four trees; after more than there are, scores stay as they are."""
    model = boost(dev, None, recipe("fast", **{**QUICK, "rounds": 4}))
    for m, scores in zip(counts, staged_scores(model, select, counts), strict=True):
        np.testing.assert_allclose(scores, model.truncated(m).decision_function(select), rtol=0, atol=1e-9)


# -- last-se --------------------------------------------------------------------------------------------------------------


def chosen_by_rounds(rounds: list[set[int]], sentences: int = 8) -> tuple[Model, NBest]:
    """A list where a sentence has a right and a wrong hypothesis, and trees after each of which these sentences get the right one.

    Tree m is 10^m times a feature that the hypotheses of its round have: the last tree decides.
    """
    hyps = []
    for s in range(sentences):
        for right in (True, False):
            features = {f"f{m}": float((s in some) == right) for m, some in enumerate(rounds)}
            hyps.append(HypRecord(s, "a b c d e f" if right else "a b c d e x", "here", 0.0, features))
    nbest = attach(build(hyps), source=None, refs=[["a b c d e f"] * sentences], name="here")
    trees = tuple(one_leaf(f"tree.{m:03d}", on=f"f{m}", weight=10.0**m) for m in range(1, len(rounds)))
    return Model({"f0": 1.0}, trees, "global"), nbest


@pytest.mark.parametrize("metric", ["bleu", "bleu-sbp", "chrf", "wer"])
@pytest.mark.parametrize("more", [0, 2])  # trees to start from
def test_last_se_on_a_planted_history(metric, more):
    """Eight sentences, each worth d. With l lost and w won since the best round, a round is l - w times d lower, and the standard
    error is d √(l + w - (l - w)²/8): √3 d - or so - for two lost and one won, which is lower by d; √1.9 d for five lost.
    """
    best = {0, 1, 2, 3, 4}
    rounds = [set(), {0, 1, 2, 3}, best, {0, 1, 2, 3, 5}, {0, 1, 2, 5}, set(), set()]
    model, select = chosen_by_rounds(rounds)
    scorer = Scorer(select)
    gains = [
        scorer.score(best_choice(select, scores), metric).score
        for scores in staged_scores(model, select, range(len(model.trees) + 1))
    ]
    better = METRICS[metric].higher(np.array(gains))
    assert better[0] == better[5] == better[6] < better[1] == better[4] < better[2] == better[3]
    history = tuple({"round": m, "select": g} for m, g in enumerate(gains))
    trees = (*(one_leaf(f"first.{k}") for k in range(more)), *model.trees)
    model = replace(model, trees=trees, history=history, config={"metric": metric, "lower_is_better": metric == "wer"})
    assert kept_rounds(model, more, select=select, rule="best").config["best_round"] == 2
    kept = kept_rounds(model, more, select=select, rule="last-se")
    assert (kept.config["best_round"], len(kept.trees), kept.history) == (4, more + 4, history)
    assert last_se_round(model, select, more, best=5) == 6  # the same choices: no error, and no difference
    assert last_se_round(model, select, more, best=6) == 6


def test_last_se_by_the_bootstrap(dev, select):
    """The last round within one bootstrap standard error of the best one: the delta method gives nearly that error."""
    model = boost(dev, None, recipe("paper", **QUICK))
    rows = [
        corpus_rows(chosen_stats(select, best_choice(select, s)))
        for s in staged_scores(model, select, range(len(model.trees) + 1))
    ]
    gains = np.array([corpus_bleu(r.sum(axis=0), strict=True) for r in rows])
    best = int(gains.argmax())
    draws = np.random.default_rng(0).integers(0, len(select), (500, len(select)))
    errors = [np.std([corpus_bleu(rows[best][d].sum(0), strict=True) - corpus_bleu(r[d].sum(0), strict=True) for d in draws])
              for r in rows]  # fmt: skip
    last = last_se_round(model, select, best=best)
    assert last >= best
    assert gains[last] >= gains[best] - 1.2 * errors[last]  # 500 draws, and a first-order error
    assert all(gains[m] < gains[best] - 0.8 * errors[m] for m in range(last + 1, len(gains)))


def test_the_standard_error_is_of_the_metric_of_the_model(select, monkeypatch):
    """Each metric is asked for its own slope; a metric that is better when lower keeps the round it is lowest in."""
    history = tuple({"round": m, "select": g} for m, g in enumerate([3.0, 1.0, 2.0]))
    trees = tuple(one_leaf(f"tree.{m:03d}") for m in range(2))
    slope, seen = Metric.slope, []
    monkeypatch.setattr(Metric, "slope", lambda self, total: seen.append(self.name) or slope(self, total))
    for name, kept in (("bleu", 0), ("bleu-sbp", 0), ("ter", 1)):
        config = {"metric": name, **({"lower_is_better": True} if METRICS[name].lower_is_better else {})}
        model = Model({"LM0": 1.0}, trees, history=history, config=config)
        assert kept_rounds(model, select=select, rule="best").config["best_round"] == kept
        assert kept_rounds(model, select=select, rule="last-se").config["best_round"] == 2  # the trees change no choice
    assert seen == ["bleu", "bleu-sbp", "ter"]


@pytest.mark.parametrize(
    ("rule", "metric", "has_select", "kept", "asked"),
    [
        ("best", "bleu", True, 2, None),
        ("last-se", "bleu", True, 4, {"best": 2}),
        ("last-se", "bleu-sbp", True, 4, {"best": 2}),
        ("last-se", "bleu", False, 2, None),
        ("last-se", "ter", True, 4, {"best": 2}),
    ],
)
def test_rules(monkeypatch, rule, metric, has_select, kept, asked):
    """Which rule asks whom: round 2 is the best, and 4 what last_se_round is made to say."""
    seen = []
    monkeypatch.setattr(stopping, "last_se_round", lambda model, select, n_init, **how: seen.append((select, n_init, how)) or 4)
    gains = [0, 0, 9, 0, 6, 6, 6, 0, 0]
    history = tuple({"round": m, "select": g} for m, g in enumerate(gains))
    trees = tuple(one_leaf(f"tree.{m:03d}", weight=0.5, value=float(m)) for m in range(len(gains) + 1))
    model = Model({"a": 1.0}, trees, config={"metric": metric, "more": 1}, history=history)
    select = object() if has_select else None
    found = kept_rounds(model, 2, select=select, rule=rule)
    assert found.config == {"metric": metric, "more": 1, "best_round": kept}
    assert found.trees == trees[: 2 + kept]
    assert found.history == history
    assert seen == ([(select, 2, asked)] if asked else [])


def test_a_ranking_that_folds_found_better_is_kept_with_all_but_the_decision():
    """What is known of the run stays; how to decide was learnt for scores that are gone."""
    config = {"a": 1, "decision": {"by": "mbr"}, "metric": "bleu", "tree_count": {"worse_than": "NMT"}}
    model = Model({"f": 2.0}, (one_leaf("t"),), config=config, history=({"round": 0},))
    kept = never_below_ranking(model, None)
    assert (kept.weights, kept.trees, kept.history) == ({"NMT": 1.0}, (), ({"round": 0},))
    assert kept.config == {"a": 1, "metric": "bleu", "tree_count": {"worse_than": "NMT"}, "best_round": 0, "kept": "NMT"}
    assert never_below_ranking(replace(model, config={"metric": "bleu", "tree_count": {}}), None).trees == model.trees
