"""Lengths that references teach: against ridge regression by hand, what a length costs, what lists and programs rank by."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import Reranker
from boostfeat.core.errors import InputError
from boostfeat.features.expected_length import fitted, learn_length
from boostfeat.lists.nbest import NBest, strings
from boostfeat.model.decision import Decision, Length, ranks, ways_to_decide, word_counts
from boostfeat.model.explain import LENGTH, with_length
from boostfeat.model.model import Model

TAUGHT = Length((0.5, 0.5, 0.125), {"talot": 0.25, "se": 0.25, "no": 9.0}, weight=2.0)
CONFIG = {"decision": {"by": "score", "length": asdict(TAUGHT)}}
WEIGHTS = {"RelFreq": 0.3, "LexWeight": 0.5, "LM0": 0.4}


def lists(*, source: str = "se on iso talotar .") -> NBest:
    """Three sentences, the second without hypotheses."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=2, hyps=3), seed=1)
    texts = ["a b c d e f", "a b c", "", "x", "x y", "x y z"]
    nbest = replace(nbest, text=strings(texts), source=strings([source, "talotto"]))
    return nbest


def test_what_a_length_costs_by_hand():
    """'se on iso talotar .' has 5 words and 15 letters: 0.5 + 2.5 + 1.875 + 0.25 + 0.25 = 5.375; at least a word is expected."""
    np.testing.assert_allclose(TAUGHT.costs_in(lists())[:3], 2 * np.array([0.625, 2.375, 5.375]) ** 2 / 5.375)
    few = replace(TAUGHT, shared=(-50.0, 1.0, 1.0))
    np.testing.assert_allclose(few.costs_in(lists())[3:], [0.0, 2.0, 8.0])
    assert word_counts(lists()).tolist() == [6, 3, 0, 1, 2, 3]


def test_expected_lengths_are_those_of_ridge_regression():
    """Against the normal equations, solved; stems of fewer than three sentences have no words of their own."""
    rng = np.random.default_rng(3)
    sources = [[f"sana{k}{'n' * (k % 3)}" for k in rng.integers(0, 12, rng.integers(1, 9))] for _ in range(60)]
    sources[7].append("harvinainen")
    lengths = [sum(1 + (word[4] in "13") for word in words) for words in sources]
    learnt = fitted([(" ".join(f), " ".join(["w"] * n)) for f, n in zip(sources, lengths, strict=True)])
    stems = sorted({word[:5] for words in sources for word in words} - {"harvi"})
    assert sorted(learnt.stems) == stems
    x = np.array([[w[:5] for w in f].count(stem) for f in sources for stem in stems], np.float64).reshape(len(sources), -1)
    words = np.array([len(f) for f in sources], np.float64)
    x = np.column_stack([x, np.ones(len(x)), words, [sum(map(len, f)) for f in sources]])
    penalty = np.diag([2.0] * len(stems) + [1e-3] * 3)
    expected = np.linalg.solve(x.T @ (x / words[:, None]) + penalty, x.T @ ((np.array(lengths) - words) / words))
    np.testing.assert_allclose([learnt.stems[stem] for stem in stems], expected[:-3], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(learnt.shared, expected[-3:] + np.array([0, 1, 0]), rtol=1e-3, atol=1e-6)


def test_stems_are_in_the_order_in_which_they_are_met():
    """In that of a set, two runs would have other bytes."""
    words = [f"{chr(ord('a') + k)}{k}" for k in range(26)]
    assert list(fitted([(" ".join(words), "w")] * 3).stems) == words


def test_every_reference_teaches_and_without_sources_none_does():
    nbest = replace(lists(), refs=strings(["a b", "a b c", "d"]), ref_ptr=np.array([0, 2, 3]))
    pairs = [("se on iso talotar .", "a b"), ("se on iso talotar .", "a b c"), ("talotto", "d")]
    assert learn_length(nbest) == fitted(pairs)
    assert learn_length(replace(nbest, source=strings(["", ""]))) is None
    assert learn_length(replace(nbest, refs=strings([]), ref_ptr=np.zeros(3, np.int64))) is None


def test_lists_and_programs_rank_by_the_same_numbers():
    nbest, model = lists(), Model(WEIGHTS, config=CONFIG)
    scores = model.decision_function(nbest)
    found = ranks(CONFIG, nbest, scores)
    q = np.repeat([5.375, 2.125], 3)
    np.testing.assert_allclose(found, scores - 2 * (np.array([6, 3, 0, 1, 2, 3]) - q) ** 2 / q)
    for s in range(len(nbest)):
        some = slice(3 * s, 3 * s + 3)
        own = nbest.take(np.array([s]))
        assert Reranker(model).choose(own) == int(np.argmax(found[some]))
        np.testing.assert_array_equal(Reranker(model).ranks(own, scores[some]), found[some])


def test_what_a_choice_is_made_of_adds_up():
    nbest, model = lists(), Model(WEIGHTS, config=CONFIG)
    more, columns = with_length(model, nbest)
    assert LENGTH in columns.global_names
    np.testing.assert_allclose(more.decision_function(columns), ranks(CONFIG, nbest, model.decision_function(nbest)))
    assert with_length(Model(WEIGHTS), nbest) == (Model(WEIGHTS), nbest)


def test_lists_without_sources_are_refused_and_blank_ones_among_others_are_not():
    nbest, scores = lists(source=""), np.zeros(6)
    assert len(ranks(CONFIG, nbest, scores)) == 6
    with pytest.raises(
        InputError, match=r"expected these sentences, found none; import with -s SOURCE, or learn with --set decide=score"
    ):
        ranks(CONFIG, replace(nbest, source=strings(["", ""])), scores)


@pytest.mark.parametrize(
    "told",
    [
        3, {}, [], {"shared": [1, 2], "stems": {}, "weight": 1.0}, {"shared": [1, 2, 3], "stems": [], "weight": 1.0},
        {"shared": [1, 2, 3], "stems": {"a": "b"}, "weight": 1.0},
        {"shared": [1, 2, 3], "stems": {}, "weight": -1.0}, {"shared": [1, 2, 3], "stems": {}, "weight": True},
    ],
)  # fmt: skip
def test_what_is_no_length_is_refused(told):
    with pytest.raises(InputError, match=r"^model: decision: length.*; make the model again$"):
        Decision.of({"decision": {"length": told}})


def test_models_say_what_decides():
    assert ways_to_decide({}) == ""
    assert ways_to_decide(CONFIG) == "the length that references teach counts"
    both = {"decision": {**CONFIG["decision"], "by": "mbr", "scale": 2.0}}
    assert ways_to_decide(both) == "the length that references teach counts and minimum Bayes risk decides"
    assert Decision.of(both).length == TAUGHT
