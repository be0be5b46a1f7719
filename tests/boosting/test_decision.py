"""Score or minimum Bayes risk: planted truth with and without agreement in the lists, the rule by hand, what the model records."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.boosting.selection.way import LENGTHS, SCALES, WAYS, Decisions, chosen_way, decisions
from boostfeat.lists.build import with_stats
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.mbr import mbr_gains
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.tokens import RANKINGS
from boostfeat.metrics.metric import metric_of
from boostfeat.model.decision import Decision, Length, ranks
from boostfeat.model.effects import within_list_sd
from boostfeat.model.model import Model

boost = partial(induce, templates="none")
OPTIONS = recipe("default", rounds=1, min_occurrences=5, draws=200, keep=30)
HYPS, WORDS = 12, 10


def planted(*, agreement: bool, seed: int = 0, sentences: int = 36) -> NBest:
    """Lists with a feature that hints at quality. Hypotheses are the reference with words replaced, each by chance: what they
    have in common is right. Or (no agreement) all but a few are copies of one wrong text, with a word or two replaced.
    """
    rng = np.random.default_rng(seed)
    nbest = synthetic_nbest(SyntheticOptions(sentences=sentences, hyps=HYPS, features=4, slots=3), seed=seed)
    refs = rng.integers(0, 10**6, (sentences, WORDS))
    around = np.repeat(refs[:, None], HYPS, axis=1)
    if not agreement:
        around[:, 4:] = rng.integers(0, 10**6, (sentences, 1, WORDS))
        around[:, 4:, :3] = refs[:, None, :3]
    texts = np.where(rng.random(around.shape) < (0.35 if agreement else 0.1), rng.integers(0, 10**6, around.shape), around)
    lines = [" ".join(f"w{w}" for w in words) for words in texts.reshape(-1, WORDS).tolist()]
    nbest = replace(nbest, text=strings(lines), refs=strings([" ".join(f"w{w}" for w in words) for words in refs.tolist()]))
    nbest = with_stats(nbest)
    hint = metric_of("bleu", nbest).gain(nbest) + (0.3 if agreement else 0.05) * rng.standard_normal(nbest.n_hyps)
    return replace(nbest, extra=hint[:, None], extra_names=("Hint",))


@pytest.fixture(scope="module")
def agreeing() -> NBest:
    return planted(agreement=True)


@pytest.fixture(scope="module")
def learnt(agreeing) -> Model:
    return boost(agreeing, None, OPTIONS)


def test_lists_that_agree_are_decided_by_mbr_and_others_by_the_score(learnt):
    why = learnt.config["decision"]
    assert why["by"] == "mbr"
    assert why["gain"] > why["gain_error"] > 0
    plain = boost(planted(agreement=False), None, OPTIONS).config["decision"]
    assert plain["by"] == "score"
    assert "scale" not in plain


def test_what_folds_promise_holds_on_unseen_lists(learnt):
    test = planted(agreement=True, seed=7)
    scorer = Scorer(test)
    mbr, score = (
        scorer.score(c, "bleu-sbp").score for c in (learnt.predict(test), best_choice(test, learnt.decision_function(test)))
    )
    assert mbr > score + 1


def test_the_scale_is_that_of_the_folds(agreeing, learnt):
    """In units of the spread of their scores; the whole model's is much the same."""
    why = learnt.config["decision"]
    best = WAYS[int(np.argmax(why["bleu-sbp"]))].scale
    spread = within_list_sd(agreeing.hyp_ptr, learnt.decision_function(agreeing))
    assert why["scale"] * spread == pytest.approx(best, rel=0.5)
    assert Decision.of(learnt.config).scale == why["scale"]


def test_calibration_is_of_what_decides(agreeing, learnt):
    """Margins are differences of expected gains, which are below 1."""
    found = learnt.config["calibration"]
    assert found["lists"] == len(agreeing)
    assert 0 < found["margin"]["0.05"] < found["margin"]["0.95"] < 1


def test_other_gains_and_recipes_keep_the_score(agreeing):
    for options in (replace(OPTIONS, decide="score"), replace(OPTIONS, gain="chrf", metric="chrf")):
        assert "decision" not in boost(agreeing, None, options).config


def test_a_ranking_that_is_better_than_what_was_learnt_decides_by_itself(agreeing):
    gains = metric_of("bleu", agreeing).gain(agreeing)
    ranked = replace(agreeing, extra=gains[:, None], extra_names=(RANKINGS[0],))
    kept = boost(ranked, None, replace(OPTIONS, l2=1e9))
    assert kept.config["kept"] == RANKINGS[0]
    assert Decision.of(kept.config).scale is None


def test_the_rule_by_hand(agreeing):
    """A way must gain more than its error over the highest score; the best is taken."""
    metric, n = metric_of("bleu", agreeing), 8
    totals = [20, 19, 18, 17, 20, 20, 20]  # n-grams, then the lengths
    good, bad = np.tile([15, 12, 10, 8, *totals], (n, 1)), np.tile([10, 8, 6, 4, *totals], (n, 1))
    noisy = np.where((np.arange(n) < n // 2 + 1)[:, None], good, bad)
    other = np.where((np.arange(n) >= n // 2)[:, None], good, bad)
    length = Length((0.5, 1.0, 0.0), {"a": 0.25})
    kept, why = chosen_way(metric, Decisions([bad, noisy, good, bad], [], 2.0, []), None)
    assert kept == 2
    assert (why["decision"]["by"], why["decision"]["scale"]) == ("mbr", SCALES[2] / 2)
    assert "length" not in why["decision"]
    kept, why = chosen_way(metric, Decisions([noisy, other, bad, bad], [], 2.0, []), None)
    assert why["decision"]["by"] == "score"  # as good, within the error
    assert "gain" not in why["decision"]
    assert kept == 0
    ways = [bad] * len(WAYS)
    ways[WAYS.index((LENGTHS[3], 0.0))] = good
    kept, why = chosen_way(metric, Decisions(ways, [], 2.0, []), length)
    assert (why["decision"]["by"], "scale" in why["decision"]) == ("score", False)
    assert why["decision"]["length"] == {"shared": (0.5, 1.0, 0.0), "stems": {"a": 0.25}, "weight": 2 * LENGTHS[3]}
    assert why["decision"]["gain"] == pytest.approx(
        100 * float(metric.score(good.sum(axis=0)) - metric.score(bad.sum(axis=0))), abs=1e-4
    )
    assert chosen_way(metric, Decisions(ways, [], 0.0, []), length)[1]["decision"]["by"] == "score"  # nothing is told apart


def test_a_gain_of_one_standard_error_is_not_more_than_that(agreeing):
    """Eight sentences of eight words, four errors each: 4 errors fewer, and √(18 - 4²/8) = 4; then one fewer still, and √(13 - 5²/8) = 3.1."""
    metric = metric_of("wer", agreeing)
    score = np.tile([4, 8], (8, 1))
    less = [3, 1, -1, -1, 0, 0, 0, 0]  # 2 errors fewer, and √(12 - 2²/8) = 3.4
    for fewer, by in (([3, 2, 1, 1, -1, -1, -1, 0], "score"), ([2, 2, 1, 1, 1, -1, -1, 0], "mbr"), (less, "score")):
        way = score - np.stack([fewer, np.zeros(8, int)], axis=1)
        kept, why = chosen_way(metric, Decisions([score, way], [], 0.5, []), None)
        assert kept == (by == "mbr")
        n, squares = sum(fewer), sum(e * e for e in fewer)
        error = round(100 / 64 * (squares - n * n / 8) ** 0.5, 4)
        more = {"gain": round(100 / 64 * n, 4), "gain_error": error, "scale": 2 * WAYS[1].scale} if by == "mbr" else {}
        assert why["decision"] == {
            "by": by,
            "rule": "the best way, where it gains more than a standard error over the highest score",
            "ways": [list(WAYS[0]), list(WAYS[1])],
            "wer": [50.0, round(100 / 64 * (32 - n), 4)],
            "error": [0.0, error],
            **more,
        }


def test_decisions_are_those_of_mbr(agreeing):
    model = Model({"Hint": 2.0})
    found = decisions(model, None, agreeing, "bleu")
    scores = model.decision_function(agreeing)
    assert found.spread == pytest.approx(2 * within_list_sd(agreeing.hyp_ptr, agreeing.extra[:, 0]))
    assert (found.rows[0] == Scorer(agreeing).rows(best_choice(agreeing, scores), "bleu")).all()
    for k, scale in enumerate(SCALES[1:], 1):
        gains = mbr_gains(agreeing, scores, (scale / found.spread,))[:, 0]
        chosen = best_choice(agreeing, gains)
        assert (found.rows[k] == Scorer(agreeing).rows(chosen, "bleu")).all()
        np.testing.assert_array_equal(found.margin[k], gains[chosen] - gains[agreeing.hyp_ptr[:-1]])
        told = {"decision": {"by": "mbr", "scale": scale / found.spread}}
        np.testing.assert_array_equal(ranks(told, agreeing, scores), gains)
        np.testing.assert_array_equal(found.ranked[k], [gains])


def test_decisions_weigh_lengths_in_units_of_the_spread(agreeing):
    """Texts of ten words each, some cut: what is chosen is the highest of score - weight · spread · (words - q)² / q."""
    texts = [" ".join(text.split()[: 4 + k % 7]) for k, text in enumerate(agreeing.text.to_pylist())]
    nbest = with_stats(replace(agreeing, text=strings(texts), source=strings(["x"] * len(agreeing))))
    model, length = Model({"Hint": 2.0}), Length((5.0, 1.0, 0.0), {})  # q = 6
    found, scores = decisions(model, length, nbest, "bleu"), model.decision_function(nbest)
    assert len(found.rows) == len(WAYS)
    words = np.array([len(text.split()) for text in texts])
    for k, way in enumerate(WAYS):
        own = scores - way.length * found.spread * (words - 6.0) ** 2 / 6
        if way.scale:
            own = mbr_gains(nbest, own, (way.scale / found.spread,))[:, 0]
        assert (found.rows[k] == Scorer(nbest).rows(best_choice(nbest, own), "bleu")).all()


def planted_lengths(seed: int = 0, sentences: int = 60) -> NBest:
    """References have two words for each source word 'bb', one for others; hypotheses are their beginnings, of every length, and a
    feature that prefers the wrong ones by chance: which length is right, only the source tells."""
    rng = np.random.default_rng(seed)
    nbest = synthetic_nbest(SyntheticOptions(sentences=sentences, hyps=HYPS, features=4, slots=3), seed=seed)
    sources = [rng.choice(["aa", "bb"], rng.integers(2, 6)).tolist() for _ in range(sentences)]
    lengths = [sum(1 + (word == "bb") for word in words) for words in sources]
    refs = [[f"r{s}.{k}" for k in range(HYPS)] for s in range(sentences)]
    nbest = replace(
        nbest,
        source=strings([" ".join(words) for words in sources]),
        refs=strings([" ".join(words[:n]) for words, n in zip(refs, lengths, strict=True)]),
        text=strings([" ".join(words[: k + 1]) for words in refs for k in range(HYPS)]),
    )
    return replace(with_stats(nbest), extra=rng.standard_normal((nbest.n_hyps, 1)), extra_names=("Noise",))


def test_the_length_that_references_teach_is_found_and_holds_on_unseen_lists():
    model = boost(planted_lengths(), None, OPTIONS)
    why = model.config["decision"]
    assert why["length"]["weight"] > 0
    assert why["gain"] > 3 * why["gain_error"]
    test = planted_lengths(seed=5)
    scorer = Scorer(test)
    chosen, scored = model.predict(test), best_choice(test, model.decision_function(test))
    assert scorer.score(chosen, "bleu-sbp").score > scorer.score(scored, "bleu-sbp").score + 20
