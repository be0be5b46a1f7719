"""chrF and chrF++ statistics and scores: sacrebleu's, on every hypothesis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from metric_lists import List, columns, each, fi_en, four_refs, lists_of, quick, sacrebleu_rows, texts

from boostfeat.metrics.chrf import chrf, chrf_stats

ORDERS = [0, 1, 2]
EDGES: dict[str, List] = {
    "nothing": ([""], [""]),
    "no hypothesis": (["", " \u00a0"], ["abc"]),
    "no reference": (["ab", ""], ["", " \t"]),
    "one empty reference of two": (["abc", ""], ["", "abcd"]),
    "too short for some orders": (["a", "ab c", "abcdefgh"], ["abc"]),
    "equal scores": (["ab"], ["abc", "cab"]),  # the first counts
    "repeats": (["aaaaaaaaaa", "a a a a a"], ["aaaa", "a a aa a"]),
    "punctuation": (['(hi) "x" a. .b -- - ... é. .é ¿x €!'], ['hi) ( x " a . . b - -- .. . é ¿ € !']),
    "across words": (["ab cd"], ["abcd", "a bcd"]),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", EDGES.values(), ids=EDGES)
def test_edge_cases(case: List, order: int) -> None:
    check([case], order)


@pytest.mark.parametrize("order", ORDERS)
@quick
@given(lists_of(texts))
def test_any_text(order: int, lists: list[List]) -> None:
    check(lists, order)


@pytest.mark.parametrize("order", [0, 2])
def test_four_references_and_corpus_score(order: int) -> None:
    lists = four_refs(sentences=40, size=8)
    rows = check(lists, order)
    first = [(hyps[:1], refs) for hyps, refs in lists if hyps]
    oracle = sacrebleu.CHRF(word_order=order)
    score = oracle.corpus_score([h[0] for h, _ in first], [[r[k] for _, r in first] for k in range(4)]).score
    assert 100 * chrf(chrf_stats(columns(first), word_order=order).sum(axis=0)) == score
    assert rows.shape[1] == 18 + 3 * order


@pytest.mark.parametrize("order", [0, 2])
def test_real_lists(real: Path, order: int) -> None:
    check(fi_en(real, sentences=60, size=12), order)


@pytest.mark.slow
@pytest.mark.parametrize("order", [0, 2])
def test_many_real_lists(real: Path, order: int) -> None:
    check(fi_en(real, sentences=100, size=200), order)


def check(lists: list[List], order: int) -> np.ndarray:
    """Rows and the scores of hypotheses equal sacrebleu's, to the last bit."""
    oracle = sacrebleu.CHRF(word_order=order)
    rows = chrf_stats(columns(lists), word_order=order)
    np.testing.assert_array_equal(rows, sacrebleu_rows(oracle, lists).reshape(rows.shape))
    scores = 100 * chrf(rows)
    assert scores.tolist() == [oracle._compute_score_from_stats(row).score for row in rows.tolist()]
    if len(rows):
        hyp, refs = each(lists)[-1]
        assert scores[-1] == oracle.sentence_score(hyp, refs).score
    return rows


def test_fractional_counts_are_allowed() -> None:
    rows = chrf_stats(columns([(["abcd", "abxd"], ["abcd"])]))
    assert chrf(rows).min() < chrf(rows.mean(axis=0)) < chrf(rows).max()
