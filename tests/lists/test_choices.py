"""Metrics of chosen hypotheses: sacrebleu's numbers and signatures, computed once per hypothesis."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from strategies import build, containers, plain, quick

from boostfeat import __version__
from boostfeat.core.errors import InputError
from boostfeat.lists.build import HypRecord, attach
from boostfeat.lists.choices import Scorer, best_choice, decoder_choice, first_choice, mean_score, oracle_choice
from boostfeat.lists.merging import concat
from boostfeat.lists.nbest import NBest
from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.metrics.metric import METRICS, metric_of, metrics_of

pytestmark = pytest.mark.quick

ORACLES: dict[str, Callable[[], Any]] = {
    "bleu": lambda: sacrebleu.BLEU(tokenize="none", force=True),
    "chrf": sacrebleu.CHRF,
    "ter": sacrebleu.TER,
}


def lists(*sentences: list[str], refs: list[list[str]]) -> NBest:
    hyps = [HypRecord(s, text, "list", score=-float(k)) for s, texts in enumerate(sentences) for k, text in enumerate(texts)]
    return attach(build(hyps), source=None, refs=refs, name="test")


# Sentence 1 has no hypothesis: scored as an empty line.
NB = lists(
    ["the house is small", "a house is little", "the small house"],
    [],
    ["it works well .", "it works", ""],
    refs=[["the house is small", "x y", "it works fine ."], ["the home is small now", "x", "it is working fine ."]],
)
CHOICES = [[0, -1, 3], [1, -1, 4], [2, -1, 5]]


@pytest.mark.parametrize("metric", ORACLES)
@pytest.mark.parametrize("chosen", CHOICES)
def test_scores_and_signatures_are_sacrebleus(metric: str, chosen: list[int]) -> None:
    oracle = ORACLES[metric]()
    texts = [NB.text[h].as_py() if h >= 0 else "" for h in chosen]
    refs = [[plain(NB)[s].refs[k] for s in range(3)] for k in range(2)]
    theirs = oracle.corpus_score(texts, refs)
    mine = Scorer(NB).score(np.array(chosen), metric)
    assert mine.score == pytest.approx(theirs.score, rel=1e-12)
    assert mine.signature == str(oracle.get_signature())


@quick
@given(containers(n_refs=2, min_sentences=1, with_units=False, rare=False), st.data())
def test_scores_of_random_choices(nb: NBest, data: st.DataObject) -> None:
    sentences = plain(nb)
    chosen, texts = [], []
    for s, sent in enumerate(sentences):
        k = data.draw(st.integers(0, len(sent.hyps) - 1)) if sent.hyps else None
        chosen.append(-1 if k is None else int(nb.hyp_ptr[s]) + k)
        texts.append("" if k is None else sent.hyps[k].text)
    scorer = Scorer(nb)
    for metric, oracle in ORACLES.items():
        theirs = oracle().corpus_score(texts, [[s.refs[k] for s in sentences] for k in range(2)])
        assert scorer.score(np.array(chosen), metric).score == pytest.approx(theirs.score, rel=1e-9, abs=1e-9)


def test_different_numbers_of_references() -> None:
    """sacrebleu takes missing references as None; the signature says so."""
    one = lists(["the house is small"], refs=[["the house is big"]])
    two = lists(["it works well now"], refs=[["it works fine now"], ["it is working well"]])
    nb = concat([one, two])
    texts = [h.text for s in plain(nb) for h in s.hyps]
    for metric, make in ORACLES.items():
        oracle = make()
        theirs = oracle.corpus_score(texts, [["the house is big", "it works fine now"], [None, "it is working well"]])
        mine = Scorer(nb).score(first_choice(nb), metric)
        assert mine.score == pytest.approx(theirs.score, rel=1e-12)
        assert mine.signature == str(oracle.get_signature())
        assert mine.signature.startswith("nrefs:var|")


def test_bleu_sbp_signature() -> None:
    score = Scorer(NB).score(np.array([0, -1, 3]), "bleu-sbp")
    assert score.signature == f"nrefs:2|case:mixed|eff:no|tok:none|smooth:exp|bp:strict|version:boostfeat-{__version__}"
    assert 0 < score.score < Scorer(NB).score(np.array([0, -1, 3]), "bleu").score + 1e-9
    mean = f"nrefs:1|case:mixed|tok:none|smooth:add[1]|orders:2-4|version:boostfeat-{__version__}"
    assert metric_of("bleu+1").signature(1) == mean


@pytest.mark.parametrize("metric", ["chrf", "ter", "bleu", "0.5*chrf-ter"])
def test_statistics_are_computed_once_per_hypothesis(monkeypatch: pytest.MonkeyPatch, metric: str) -> None:
    found = metric_of(metric)
    counted, compute = [], type(found).rows

    def count(self: Any, nbest: NBest, hyps: Any = None) -> Any:
        counted.extend(hyps.tolist() if self == found else [])
        return compute(self, nbest, hyps)

    monkeypatch.setattr(type(found), "rows", count)
    scorer = Scorer(NB)
    scores = [scorer.score(np.array(chosen), metric).score for chosen in [*CHOICES, [0, -1, 5], *CHOICES]]
    assert sorted(counted) == list(range(NB.n_hyps))  # each hypothesis once
    assert scores[:3] == scores[4:]
    assert scores == [Scorer(NB).score(np.array(chosen), metric).score for chosen in [*CHOICES, [0, -1, 5], *CHOICES]]


def test_rows_of_hypotheses_that_take_time_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, some = Scorer(NB), np.array([4, 0, 1])
    kept = {name: scorer.rows_of(some, name) for name in ("ter", "chrf", "bleu", "bleu-ter")}
    for name, rows in kept.items():
        np.testing.assert_array_equal(rows, metric_of(name).rows(NB, some))
    monkeypatch.setattr(type(METRICS["ter"]), "rows", None)  # not counted again
    np.testing.assert_array_equal(scorer.rows_of(some, "ter"), kept["ter"])


def test_a_gap_without_any_reference_scores_as_nothing() -> None:
    """A list with references of its own, given only a source: the sentence it skips has neither."""
    own = attach(build([HypRecord(0, "a b c d", "list")]), source=None, refs=[["a b c d"]], name="test")
    two = concat([own, own])
    from dataclasses import replace

    gap = attach(replace(two, ids=np.array([0, 2])), source=["x", "y", "z"], refs=[], name="test")
    for metric, best in (("bleu", 100.0), ("bleu-sbp", 100.0), ("chrf", 100.0), ("ter", 0.0)):
        assert Scorer(gap).score(first_choice(gap), metric).score == pytest.approx(best)


# -- choices ----------------------------------------------------------------------------------------------------------


@quick
@given(containers(n_refs=1, with_units=False, rare=False), st.data())
def test_choices(nb: NBest, data: st.DataObject) -> None:
    scores = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=nb.n_hyps, max_size=nb.n_hyps))

    def naive(values: list[float]) -> list[int]:
        ranges = [range(*nb.hyp_ptr[s : s + 2]) for s in range(len(nb))]
        return [max(r, key=lambda h: (values[h], -h)) if r else -1 for r in ranges]

    assert best_choice(nb, np.array(scores)).tolist() == naive(scores)
    assert oracle_choice(nb).tolist() == naive(sentence_bleu(nb.stats).tolist())
    assert first_choice(nb).tolist() == naive([0.0] * nb.n_hyps)


@quick
@given(containers(n_refs=2, with_units=False, rare=False))
def test_mean_bleu_is_bleu_of_mean_counts(nb: NBest) -> None:
    """Twin: corpus sums of the mean of each list's counts, an empty list as an empty line, then the formula."""
    c, t, hyp_len, ref_len = np.zeros(4), np.zeros(4), 0.0, 0.0
    for sent in plain(nb):
        rows = [h.stats for h in sent.hyps] or [(0, 0, 0, 0, 0, min(len(r.split()) for r in sent.refs))]
        for r in rows:
            assert r is not None
            c += np.array(r[:4]) / len(rows)
            t += np.array([max(0, r[4] - n) for n in range(4)]) / len(rows)
            hyp_len, ref_len = hyp_len + r[4] / len(rows), ref_len + r[5] / len(rows)
    expected = 0.0
    if c.any() and t.all():
        matches = [c[n] or 0.5 ** (1 + sum(c[:n] == 0)) for n in range(4)]
        expected = 100 * np.exp(np.mean(np.log(matches / t)) + min(0, 1 - ref_len / hyp_len))
    assert mean_score(nb) == pytest.approx(expected, rel=1e-9)


def test_the_decoders_choice_is_what_it_scores_highest() -> None:
    """In a list of which some scores are missing, the first one; other lists do not matter to it."""
    scores = {0: (1.0, 3.0), 1: (1.0, np.nan), 2: (2.0, 1.0)}
    nbest = build([HypRecord(s, "a", "here", score) for s, own in scores.items() for score in own])
    assert decoder_choice(nbest).tolist() == [1, 2, 4]
    assert decoder_choice(nbest.take(np.array([0, 2]))).tolist() == [1, 2]


# -- names ------------------------------------------------------------------------------------------------------------


def test_names() -> None:
    assert [m.name for m in metrics_of(" bleu, ter ,chrf,")] == ["bleu", "ter", "chrf"]
    for name, alpha in (("bleu+1", 1.0), ("bleu+alpha", 0.1), ("bleu", 0.1), ("bleu+0.3", 0.3)):
        np.testing.assert_array_equal(metric_of(name).gain(NB, alpha=0.1), sentence_bleu(NB.stats, alpha=alpha))
        np.testing.assert_array_equal(metric_of(name).fixed(0.1).gain(NB, alpha=0.1), sentence_bleu(NB.stats, alpha=alpha))


@pytest.mark.parametrize("call", [lambda: metrics_of("bleu,Meteor"), lambda: Scorer(NB).score(first_choice(NB), "Meteor")])
def test_unknown_metrics_list_the_known(call: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=re.escape(f"unknown metric 'Meteor': expected one of {', '.join(METRICS)}")):
        call()


def test_no_metrics_is_an_error() -> None:
    with pytest.raises(InputError, match="expected metric names"):
        metrics_of(" , ")


def test_gains_are_better_when_higher() -> None:
    """The best translation has the highest gain and the best score, whichever way a metric is printed."""
    chosen = np.array([0, -1, 3])
    for name in ("bleu", "bleu-sbp", "chrf", "ter", "wer", "bleu-ter"):
        metric = metric_of(name)
        assert np.argmax(metric.gain(NB)[:3]) == 0
        scores = [Scorer(NB).gain(np.array([h, -1, 3]), metric) for h in range(3)]
        assert scores[0] == max(scores) > min(scores)
        assert Scorer(NB).gain(chosen, name) == (-1 if metric.lower_is_better else 1) * Scorer(NB).score(chosen, name).score
