"""TER statistics and scores: sacrebleu's, on every hypothesis."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from metric_lists import List, columns, fi_en, four_refs, lists_of, quick, sacrebleu_rows, texts

from boostfeat.metrics.ter import MOST_SHIFTS, ter, ter_stats

ORACLE = sacrebleu.TER()
# Few words, many repeats; words that only one side has
repeats = st.lists(st.sampled_from(["a", "b", "c", "x"]), max_size=12).map(" ".join)
many = " ".join


def shuffled(words: list[str], moves: int, rng: random.Random) -> list[str]:
    """The same words with a few blocks moved."""
    words = list(words)
    for _ in range(moves):
        a = rng.randrange(len(words))
        block = words[a : a + rng.randint(1, 12)]
        del words[a : a + len(block)]
        at = rng.randint(0, len(words))
        words[at:at] = block
    return words


NUMBERS = [str(k) for k in range(130)]
EDGES: dict[str, List] = {
    "nothing": ([""], [""]),
    "no hypothesis": (["", " \u00a0"], ["a b c"]),
    "no reference": (["a b", ""], ["", " \t"]),
    "one empty reference of two": (["a b c", ""], ["", "a b c d"]),
    "case": (["A b ΑΣ İ ẞ"], ["a B ας i̇ ß"]),
    "one word, many": (["a"], [many("b" for _ in range(120)) + " a"]),
    "many, one word": ([many("ab" * 60)], ["a"]),
    "a beam of more than 25": (["a b", "b a"], [many("cab" * 40)]),  # 120 > 2 · 50
    "exactly 50 a word": (["a b"], [many("ab" * 50)]),
    "longer than a shift may be": ([many(NUMBERS[20:40] + NUMBERS[:20])], [many(NUMBERS[:40])]),
    "farther than a shift may go": ([many(NUMBERS[1:70] + NUMBERS[:1])], [many(NUMBERS[:70])]),
    **{
        f"a word {far} to the {way}": ([many(hyp)], [many(ref)])
        for far in (49, 50, 51)
        for way, hyp, ref in (
            ("left", NUMBERS[1 : far + 1] + NUMBERS[:1], NUMBERS[: far + 1]),
            ("right", NUMBERS[far : far + 1] + NUMBERS[:far], NUMBERS[: far + 1]),
        )
    },
    "out of the beam": ([many(NUMBERS[60:] + NUMBERS[:60])], [many(NUMBERS)]),
    "more candidates than are tried": ([many("baabbaabbbaabbbbabbaaaxyz")], [many("xyzbbbababbabbaaaaaabaaaa")]),
}


@pytest.mark.parametrize("case", EDGES.values(), ids=EDGES)
def test_edge_cases(case: List) -> None:
    np.testing.assert_array_equal(ter_stats(columns([case])), sacrebleu_rows(ORACLE, [case]))


def test_the_case_of_too_many_candidates_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.metrics import lib_ter

    hyps, refs = EDGES["more candidates than are tried"]
    with_limit = sacrebleu_rows(ORACLE, [(hyps, refs)])
    assert lib_ter._MAX_SHIFT_CANDIDATES == MOST_SHIFTS
    monkeypatch.setattr(lib_ter, "_MAX_SHIFT_CANDIDATES", 10**9)
    assert (sacrebleu_rows(ORACLE, [(hyps, refs)]) != with_limit).any()


@quick
@given(lists_of(repeats))
def test_repeated_words(lists: list[List]) -> None:
    np.testing.assert_array_equal(ter_stats(columns(lists)), sacrebleu_rows(ORACLE, lists).reshape(-1, 2))


@quick
@given(lists_of(texts, most_refs=2))
def test_any_text(lists: list[List]) -> None:
    np.testing.assert_array_equal(ter_stats(columns(lists)), sacrebleu_rows(ORACLE, lists).reshape(-1, 2))


@pytest.mark.parametrize(("length", "types"), [(30, 12), (66, 66), (270, 300)])  # more than 64, than 256
def test_moved_blocks(length: int, types: int) -> None:
    rng = random.Random(length)
    words = [str(rng.randrange(types)) for _ in range(length)]
    moves = (1, 3) if length < 100 else (1,)
    refs = [many(words), many([*words[5:], "new"])][: len(moves)]
    case = [many(shuffled(words, k, rng)) for k in moves], refs
    np.testing.assert_array_equal(ter_stats(columns([case])), sacrebleu_rows(ORACLE, [case]))


def test_four_references_and_corpus_score() -> None:
    lists = four_refs(sentences=12, size=8)
    rows, expected = ter_stats(columns(lists)), sacrebleu_rows(ORACLE, lists)
    np.testing.assert_array_equal(rows, expected)
    # mean lengths are quarters: their sums are exact
    assert 100 * ter(rows.sum(axis=0)) == ORACLE._aggregate_and_compute(expected.tolist()).score
    assert 100 * ter(rows[3]) == ORACLE._compute_score_from_stats(rows[3].tolist()).score


def test_real_lists(real: Path) -> None:
    lists = fi_en(real, sentences=25, size=10)
    np.testing.assert_array_equal(ter_stats(columns(lists)), sacrebleu_rows(ORACLE, lists))


@pytest.mark.slow
def test_many_real_lists(real: Path) -> None:
    lists = fi_en(real, sentences=100, size=200)
    np.testing.assert_array_equal(ter_stats(columns(lists)), sacrebleu_rows(ORACLE, lists))


def test_score_of_empty_references() -> None:
    assert ter(np.array([[0, 0], [3, 0], [3, 2]])).tolist() == [0.0, 1.0, 1.5]  # as sacrebleu's
