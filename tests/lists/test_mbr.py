"""MBR: all pairs by sacrebleu, by hand, invariances; and as a system of compare."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from search_here import search
from strategies import build
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.compare.comparison_options import CompareOptions
from boostfeat.compare.systems import SYSTEMS, choose, fit
from boostfeat.core.errors import InputError
from boostfeat.formats import read
from boostfeat.lists.build import HypRecord, ReadOptions, attach
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.mbr import expected_gains, mbr_choice, mbr_gains
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.words import words_of
from boostfeat.metrics.bleu import sentence_bleu
from boostfeat.metrics.metric import metric_of
from boostfeat.metrics.ngrams import key_masses, list_keys, posteriors


def lists_of(*lists: list[str]) -> NBest:
    return build([HypRecord(s, text, "h") for s, texts in enumerate(lists) for text in texts])


def naive_gains(texts: list[str], p: np.ndarray) -> np.ndarray:
    """E(h) = Σ_h' p(h') BLEU+1(h, h'), each pair's statistics by sacrebleu."""
    bleu = sacrebleu.BLEU(tokenize="none", effective_order=False)
    out = np.zeros(len(texts))
    for a, hyp in enumerate(texts):
        for b, ref in enumerate(texts):
            length, ref_len, *rest = bleu._extract_corpus_statistics([hyp], [[ref]])[0]
            out[a] += p[b] * sentence_bleu(np.array([*rest[:4], length, ref_len]))
    return out


def test_sentences_of_more_words_than_bits():
    """Keys of an order fill several words of 64 bits; some n-grams all hypotheses have, some one alone."""
    rng = np.random.default_rng(1)
    shared = rng.choice(list("abcdefghij"), 90).tolist()
    texts = [" ".join([*shared, *rng.choice(list("abcdefghijxy"), n).tolist()]) for n in (80, 100, 0, 70)]
    p, words = np.array([0.1, 0.2, 0.3, 0.4]), words_of(strings(texts))
    found = expected_gains(np.array([0, 4]), words, p[:, None])
    np.testing.assert_allclose(found[:, 0], naive_gains(texts, p), rtol=1e-12)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(WORDS, st.floats(-3, 3)), max_size=6), min_size=1, max_size=3))
def test_every_pair_as_sacrebleu_counts_it(lists):
    texts = [text for hyps in lists for text, _ in hyps]
    scores = np.array([score for hyps in lists for _, score in hyps])
    ptr = np.cumsum([0, *map(len, lists)])
    p = posteriors(ptr, scores, scale=0.7)
    words = words_of(strings(texts))
    found = expected_gains(ptr, words, np.stack([p, np.ones(len(p))], axis=1))
    for a, b in pairwise(ptr):
        np.testing.assert_allclose(found[a:b, 0], naive_gains(texts[a:b], p[a:b]), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(found[a:b, 1], naive_gains(texts[a:b], np.ones(b - a)), rtol=1e-12, atol=1e-15)


def test_threads_do_not_change_expected_gains():
    nbest = synthetic_nbest(SyntheticOptions(sentences=200, hyps=5))
    one, three = (mbr_gains(nbest, np.arange(nbest.n_hyps) * 1e-3, (1.0, 2.0), threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_keys_are_ngrams_with_their_repetitions():
    """'a a b' has a once and once more, b, and its bigrams 'a a' and 'a b'; 'a b' shares the first a, b and 'a b'."""
    words = words_of(strings(["a a b", "a b"]))
    keys, n = list_keys(words.ptr, words.ids, 0, 2)
    first, second = ({int(k) for k in keys[i:j].ravel() if k >= 0} for i, j in ((0, 3), (3, 5)))
    assert (len(first), len(second), n) == (6, 3, 6)
    assert second < first
    mass = key_masses(words.ptr, keys, n, 0, 2, np.array([0.25, 0.75]))
    assert [mass[k] for k in keys[:3, 0]] == [1.0, 0.25, 1.0]
    assert mass[keys[2, 1]] == 1.0
    assert keys[0, 1] == keys[1, 2] == -1


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_posteriors(scale):
    ptr, scores = np.array([0, 0, 3, 4]), np.array([1e5, 1e5 - 1, 1e5, -7.0])
    p = posteriors(ptr, scores, scale=scale)
    e = np.exp(-scale)
    np.testing.assert_allclose(p, [1 / (2 + e), e / (2 + e), 1 / (2 + e), 1.0])
    np.testing.assert_allclose(posteriors(ptr, scores + 3.0, scale=scale), p)


def test_the_choice_has_most_in_common():
    """The model's best is alone; the others agree on three words of four."""
    texts = ["q r s t", "a b c d", "a b c e", "a b c f"]
    nbest = lists_of(texts, ["x"])
    scores = np.array([0.5, 0.1, 0.0, 0.0, 0.0])
    assert mbr_choice(nbest, scores).tolist() == [1, 4]
    assert mbr_choice(nbest, scores, scale=100).tolist() == [0, 4]  # a sharp posterior: the model's choice
    empty = lists_of(["", "a"])
    np.testing.assert_array_equal(mbr_gains(empty, np.zeros(2))[:, 0], [0, 0.5])  # nothing matches nothing


def test_permuted_hypotheses_and_threads():
    nbest = synthetic_nbest(SyntheticOptions(sentences=9, hyps=14, features=3), seed=2)
    scores = np.random.default_rng(0).normal(size=nbest.n_hyps)
    gains = mbr_gains(nbest, scores, (0.5, 2.0))
    order = np.lexsort((np.random.default_rng(1).random(nbest.n_hyps), nbest.sent_of_hyp))
    permuted = nbest.take_hyps(order, nbest.hyp_ptr)
    np.testing.assert_allclose(mbr_gains(permuted, scores[order], (0.5, 2.0), threads=2), gains[order], rtol=1e-12)
    assert gains.min() >= 0
    assert gains.max() <= 1 + 1e-12


def test_as_a_system():
    """Its model is PRO's with the weights multiplied by the scale that is best on select; its choice is MBR's."""
    dev, select = (synthetic_nbest(SyntheticOptions(sentences=40, hyps=12, features=5), seed=s) for s in (0, 1))
    system, options = SYSTEMS["mbr"], CompareOptions()
    found = search(system, dev, select, options)
    assert len(found.tried) == 8 + 5  # PRO's grid, then the scales
    best = max(found.tried, key=lambda t: t["select"])
    model = fit(system, dev, select, found.params, options)
    chosen = choose(system, model, select)
    assert Scorer(select).score(chosen, "bleu-sbp").score == best["select"]
    pro = fit(SYSTEMS["base-PRO"], dev, select, {k: v for k, v in found.params.items() if k != "scale"}, options)
    assert model.weights == {name: found.params["scale"] * w for name, w in pro.weights.items()}
    assert model.config["method"] == "mbr"
    scaled = mbr_choice(select, pro.decision_function(select), scale=found.params["scale"])
    np.testing.assert_array_equal(chosen, scaled)


@pytest.mark.slow
def test_real_lists(real):
    """1,000 lists of 200, 20 million pairs: a few seconds. Numbers of this code on devselect, to be noticed when they change."""
    source, refs = ((real / "fi-en" / f"devselect.{x}").read_text().splitlines() for x in ("fi", "en"))
    nbest = read(real / "fi-en" / "devselect.200.enriched.xz", ReadOptions(source=source))
    nbest = attach(nbest, source=source, refs=[refs], name="devselect", threads=2)
    mbr_gains(nbest[:2], nbest.score[: nbest.hyp_ptr[2]])  # compiles
    started = time.monotonic()
    chosen = mbr_choice(nbest, nbest.score, scale=5.0)
    assert time.monotonic() - started < 20
    scorer = Scorer(nbest)
    scores = [scorer.score(choice, "bleu-sbp").score for choice in (best_choice(nbest, nbest.score), chosen)]
    assert scores == pytest.approx([28.24, 28.24], abs=0.005)


@pytest.mark.parametrize("gain", ["chrf", "ter", "wer", "cer"])
def test_any_metric_of_texts(gain, dev):
    """Against the metric's own scores with each hypothesis as the only reference."""
    nbest = dev[:3]
    scores = np.random.default_rng(2).normal(size=nbest.n_hyps)
    p = posteriors(nbest.hyp_ptr, scores, scale=0.7)
    metric, expected = metric_of(gain), np.zeros(nbest.n_hyps)
    for s in range(len(nbest)):
        own = nbest[s : s + 1]
        first = int(nbest.hyp_ptr[s])
        for r in range(own.n_hyps):
            judged = replace(own, refs=own.text.slice(r, 1), ref_ptr=np.array([0, 1]))
            expected[first : first + own.n_hyps] += p[first + r] * metric.gain(judged)
    found = mbr_gains(nbest, scores, (0.7,), gain=gain)[:, 0]
    assert found == pytest.approx(expected, abs=1e-9)
    assert (found == mbr_gains(nbest, scores, (0.7,), gain=gain, threads=3)[:, 0]).all()
    assert (mbr_choice(nbest, scores, scale=0.7, gain=gain) == best_choice(nbest, expected)).all()


def test_a_metric_of_no_texts_is_refused(dev):
    with pytest.raises(InputError, match="by bleu-ter: expected a metric that compares two texts"):
        mbr_gains(dev, np.zeros(dev.n_hyps), gain="bleu-ter")


def test_lists_too_long_for_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the longest they are compared; the message has the numbers."""
    monkeypatch.setattr("boostfeat.lists.mbr.LONGEST", 2)
    for n in (2, 3):
        nbest = build([HypRecord(0, "a", "here", -float(k)) for k in range(n)])
        if n == 2:
            assert mbr_choice(nbest, nbest.score).tolist() == [0]
        else:
            with pytest.raises(InputError, match=r"expected lists of at most 2 hypotheses, .* found one of 3; import fewer"):
                mbr_choice(nbest, nbest.score)
