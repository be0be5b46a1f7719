"""BLEU statistics and scores against sacrebleu, published numbers and naive twins."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_lists import columns
from strategies import quick

from boostfeat.metrics.bleu import (
    bleu_stats,
    context_bleu,
    corpus_bleu,
    corpus_rows,
    ngram_totals,
    sentence_bleu,
    strict_lengths,
)

ORACLE = sacrebleu.BLEU(tokenize="none", force=True)
SPACES = [chr(c) for c in range(sys.maxunicode + 1) if chr(c).isspace()]
# Characters that share bytes with white space in UTF-8, or look like it, and are none.
NEAR = list("\u0086\u00a1\u1681\u180e\u200b\u2010\u2027\u202a\u2030\u205e\u2060\u3001\ufeff\x08\x0e\x1b\x7f")
token = st.sampled_from(["a", "b", "c", "ab", "ä", "😀", *NEAR]) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=2)
text = st.lists(token | st.sampled_from(SPACES), max_size=12).map("".join)
few = st.lists(st.sampled_from("abc"), max_size=9).map(" ".join)  # repeated n-grams, clipped counts
List = tuple[list[str], list[str]]  # hypotheses, references of a sentence


def stats_of(lists: list[List], threads: int = 1) -> np.ndarray:
    return bleu_stats(columns(lists), threads=threads)


def sacrebleu_row(hyp: str, refs: list[str]) -> tuple[list[int], list[int]]:
    """(c1..c4, hyp_len, ref_len) and (t1..t4)."""
    ((hyp_len, ref_len, *counts),) = ORACLE._extract_corpus_statistics([hyp], [[r] for r in refs])
    return [*counts[:4], hyp_len, ref_len], counts[4:]


def lists_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[List]]:
    one = st.tuples(st.lists(texts, max_size=4), st.lists(texts, min_size=1, max_size=4))
    return st.lists(one, max_size=4)


# -- statistics -------------------------------------------------------------------------------------------------------


@quick
@given(lists_of(text) | lists_of(few))
def test_statistics_are_sacrebleus(lists: list[List]) -> None:
    expected = [sacrebleu_row(hyp, refs) for hyps, refs in lists for hyp in hyps]
    stats = stats_of(lists)
    assert stats.tolist() == [row for row, _ in expected]
    assert ngram_totals(stats[:, 4]).tolist() == [totals for _, totals in expected]
    np.testing.assert_array_equal(stats_of(lists, threads=2), stats)


def test_every_white_space_character_separates_and_no_other() -> None:
    lists = [([f"a{c}b", f"{c}a{c}{c}b{c}", c], [f"b{c}a", "a b"]) for c in [*SPACES, *NEAR]]
    assert stats_of(lists).tolist() == [sacrebleu_row(hyp, refs)[0] for hyps, refs in lists for hyp in hyps]
    assert stats_of(lists)[: 3 * len(SPACES) : 3].tolist() == [[2, 1, 0, 0, 2, 2]] * len(SPACES)


@pytest.mark.parametrize(
    ("hyp", "refs", "ref_len"),
    [("a b c", ["a b", "a b c d"], 2), ("a b c", ["a b c d", "a b"], 2), ("", ["a", ""], 0), ("a", ["a b c", "a b c d e"], 3)],
)
def test_closest_reference_length_is_the_shorter_of_two(hyp: str, refs: list[str], ref_len: int) -> None:
    assert stats_of([([hyp], refs)])[0, 5] == ref_len == sacrebleu_row(hyp, refs)[0][5]


def test_long_sentences() -> None:
    """Of more words than 16 bits can number."""
    n = 70_000
    words = [f"w{k}" for k in range(n)]
    full = " ".join(words)
    rows = stats_of([([full, full + " new", " ".join(words[::-1])], [full])])
    assert rows.tolist() == [[n, n - 1, n - 2, n - 3, n, n], [n, n - 1, n - 2, n - 3, n + 1, n], [n, 0, 0, 0, n, n]]


# -- corpus scores ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(few, st.lists(few, min_size=2, max_size=2)), min_size=1, max_size=3))
def test_corpus_bleu_is_sacrebleus(corpus: list[tuple[str, list[str]]]) -> None:
    """Tiny corpora: orders without matches (smoothed), without n-grams, empty lines, brevity."""
    stats = stats_of([([hyp], refs) for hyp, refs in corpus])
    theirs = ORACLE.corpus_score([hyp for hyp, _ in corpus], [[refs[k] for _, refs in corpus] for k in range(2)])
    assert 100 * float(corpus_bleu(corpus_rows(stats).sum(axis=0))) == pytest.approx(theirs.score, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("hyp", "ref", "percent"),  # by hand
    [
        ("a b c d", "a b c d", 100.0),
        ("a b x d e", "a b c d e", 100 * (4 / 5 * 2 / 4 * (1 / 2) / 3 * (1 / 4) / 2) ** 0.25),  # zeros count 1/2, then 1/4
        ("a b c d", "a b c d e", 100 * math.exp(1 - 5 / 4)),
        ("a b c", "a b c", 0.0),  # no 4-gram at all
        ("", "a", 0.0),
        ("x y z w", "a b c d", 0.0),
    ],
)
def test_known_corpora(hyp: str, ref: str, percent: float) -> None:
    stats = stats_of([([hyp], [ref])])
    assert 100 * float(corpus_bleu(corpus_rows(stats).sum(axis=0))) == pytest.approx(percent, rel=1e-12)
    assert ORACLE.corpus_score([hyp], [[ref]]).score == pytest.approx(percent, rel=1e-12)


def test_published_unit_values() -> None:
    """Moses' unit test of its BLEU scorer (real/README.md, moses-tests): 6/6 4/5 2/4 1/3, reference length 7; 4 digits, cut."""
    stats = np.array([6, 4, 2, 1, 6, 7])
    assert float(corpus_bleu(corpus_rows(stats))) == pytest.approx(0.5115, abs=1e-4)
    assert float(sentence_bleu(stats, alpha=0)) == pytest.approx(0.5115, abs=1e-4)
    assert float(sentence_bleu(stats)) == pytest.approx(0.5985, abs=1e-4)
    assert float(sentence_bleu(stats, alpha=0.5)) == pytest.approx(0.5624, abs=1e-4)


# -- naive twins ------------------------------------------------------------------------------------------------------

row = st.tuples(st.integers(0, 12), st.integers(0, 12), st.lists(st.floats(0, 1), min_size=4, max_size=4)).map(
    lambda a: [*(int(share * max(0, min(a[0], a[1]) - n)) for n, share in enumerate(a[2])), a[0], a[1]]
)


def naive_bleu(rows: list[list[int]], *, strict: bool = False) -> float:
    """The definition, sum by sum [C08 for ``strict``]; zero matches are halved once more at each order."""
    c = [sum(r[n] for r in rows) for n in range(4)]
    t = [sum(max(0, r[4] - n) for r in rows) for n in range(4)]
    length = sum(min(r[4], r[5]) if strict else r[4] for r in rows)
    ref_len = sum(r[5] for r in rows)
    if not any(c) or not all(t) or not length:
        return 0.0
    log, smooth = 0.0, 1.0
    for n in range(4):
        if c[n] == 0:
            smooth *= 2
        log += math.log((c[n] or 1 / smooth) / t[n]) / 4
    return math.exp(log + min(0.0, 1 - ref_len / length))


def naive_sentence(r: list[int], alpha: float) -> float:
    if not r[0] or not r[4]:
        return 0.0
    log = math.log(r[0] / r[4])
    for n in (1, 2, 3):
        t = max(0, r[4] - n)
        if not r[n] + alpha:
            return 0.0
        log += math.log((r[n] + alpha) / (t + alpha))
    return math.exp(log / 4 + min(0.0, 1 - r[5] / r[4]))


@quick
@given(st.lists(row, min_size=1, max_size=5), st.booleans())
def test_corpus_scores_against_the_definition(rows: list[list[int]], strict: bool) -> None:
    stats = np.array(rows, np.int32)
    assert float(corpus_bleu(corpus_rows(stats).sum(axis=0), strict=strict)) == pytest.approx(
        naive_bleu(rows, strict=strict), rel=1e-12
    )
    assert strict_lengths(stats).tolist() == [min(r[4], r[5]) for r in rows]


@quick
@given(st.lists(row, min_size=1, max_size=5), st.sampled_from([0.0, 0.01, 0.5, 1.0, 2.0]))
def test_sentence_scores_against_the_definition(rows: list[list[int]], alpha: float) -> None:
    expected = [naive_sentence(r, alpha) for r in rows]
    np.testing.assert_allclose(sentence_bleu(np.array(rows), alpha=alpha), expected, rtol=1e-12)
    np.testing.assert_allclose(sentence_bleu(np.array([rows, rows]), alpha=alpha), [expected, expected], rtol=1e-12)


@quick
@given(st.lists(row, min_size=1, max_size=4), st.lists(row, max_size=3), st.booleans())
def test_context_bleu_is_bleu_of_the_larger_corpus(rows: list[list[int]], others: list[list[int]], strict: bool) -> None:
    background = corpus_rows(np.array(others, np.int32).reshape(-1, 6)).sum(axis=0)
    found = context_bleu(np.array(rows), background, strict=strict)
    np.testing.assert_allclose(found, [naive_bleu([r, *others], strict=strict) for r in rows], rtol=1e-12)


def test_bleu_sbp_does_not_let_a_long_sentence_pay_for_a_short_one() -> None:
    """[C08]: 10 + 10 words for references of 5 + 15 are brief by 5, though the corpus is not."""
    stats = np.array([[5, 4, 3, 2, 10, 5], [10, 9, 8, 7, 10, 15]])
    plain, strict = (float(corpus_bleu(corpus_rows(stats).sum(axis=0), strict=s)) for s in (False, True))
    assert strict == pytest.approx(plain * math.exp(1 - 20 / 15))


def test_shapes_and_empty_corpora() -> None:
    assert float(corpus_bleu(corpus_rows(np.zeros((0, 6), np.int32)).sum(axis=0))) == 0.0
    assert sentence_bleu(np.zeros((0, 6), np.int32)).shape == (0,)
    assert corpus_rows(np.zeros((2, 3, 6), np.int32)).shape == (2, 3, 11)
    big = np.full((3, 6), 2**30, np.int32)
    assert corpus_rows(big).sum(axis=0)[0] == 3 * 2**30  # sums do not wrap


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_fractional_statistics(kind: Any) -> None:
    """Means of lists: half of a perfect corpus twice is the perfect corpus."""
    sums = corpus_rows(np.array([[6, 5, 4, 3, 6, 6]])).sum(axis=0).astype(kind)
    assert float(corpus_bleu(sums / 2 + sums / 2)) == float(corpus_bleu(sums)) == 1.0
