"""TER statistics and scores: sacrebleu's, on every hypothesis."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from interpreting import interpreted
from metric_lists import List, columns, fi_en, four_refs, lists_of, quick, sacrebleu_rows, texts

from boostfeat.metrics.ter import (
    MOST_SHIFTS,
    _align,
    _distance,
    _fill_backward,
    _fill_forward,
    _set_beam,
    _shift,
    ter,
    ter_stats,
)

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
    np.testing.assert_array_equal(ter_stats(**columns([case])), sacrebleu_rows(ORACLE, [case]))


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
    np.testing.assert_array_equal(ter_stats(**columns(lists)), sacrebleu_rows(ORACLE, lists).reshape(-1, 2))


@quick
@given(lists_of(texts, most_refs=2))
def test_any_text(lists: list[List]) -> None:
    np.testing.assert_array_equal(ter_stats(**columns(lists)), sacrebleu_rows(ORACLE, lists).reshape(-1, 2))


@pytest.mark.parametrize(("length", "types"), [(30, 12), (66, 66), (270, 300)])  # more than 64, than 256
def test_moved_blocks(length: int, types: int) -> None:
    rng = random.Random(length)
    words = [str(rng.randrange(types)) for _ in range(length)]
    moves = (1, 3) if length < 100 else (1,)
    refs = [many(words), many([*words[5:], "new"])][: len(moves)]
    case = [many(shuffled(words, k, rng)) for k in moves], refs
    np.testing.assert_array_equal(ter_stats(**columns([case])), sacrebleu_rows(ORACLE, [case]))


def test_four_references_and_corpus_score() -> None:
    lists = four_refs(sentences=12, size=8)
    rows, expected = ter_stats(**columns(lists)), sacrebleu_rows(ORACLE, lists)
    np.testing.assert_array_equal(rows, expected)
    # mean lengths are quarters: their sums are exact
    assert 100 * ter(rows.sum(axis=0)) == ORACLE._aggregate_and_compute(expected.tolist()).score
    assert 100 * ter(rows[3]) == ORACLE._compute_score_from_stats(rows[3].tolist()).score


def test_real_lists(real: Path) -> None:
    lists = fi_en(real, sentences=25, size=10)
    np.testing.assert_array_equal(ter_stats(**columns(lists)), sacrebleu_rows(ORACLE, lists))


@pytest.mark.slow
def test_many_real_lists(real: Path) -> None:
    lists = fi_en(real, sentences=100, size=200)
    np.testing.assert_array_equal(ter_stats(**columns(lists)), sacrebleu_rows(ORACLE, lists))


def test_score_of_empty_references() -> None:
    assert ter(np.array([[0, 0], [3, 0], [3, 2]])).tolist() == [0.0, 1.0, 1.5]  # as sacrebleu's


def test_threads_do_not_matter() -> None:
    lists = four_refs(sentences=40, size=5) * 4  # 160 sentences are 2 blocks
    np.testing.assert_array_equal(ter_stats(**columns(lists)), ter_stats(**columns(lists), threads=3))


def test_no_reference_at_all() -> None:
    with pytest.raises(ValueError, match="sentence 1: expected at least one reference, found none"):
        ter_stats(**columns([(["a"], ["a"]), (["a"], [])]))


# ---------------------------------------------------------------------------------------------------------------------
# Kernels on a narrow beam, cell by cell in plain Python
# ---------------------------------------------------------------------------------------------------------------------

Cells = dict[tuple[int, int], int]


def beam(n: int, m: int, width: int) -> list[range]:
    """The cells of rows 0 to n around the diagonal."""
    rows = [range(max(0, i * m // n - width), min(m + 1, i * m // n + width)) for i in range(n + 1)]
    rows[n] = range(rows[n].start, m + 1)
    rows[0] = range(max(0, rows[1].start - 1), rows[1].stop)
    return rows


def from_the_beginning(hyp: list[int], ref: list[int], rows: list[range]) -> Cells:
    found: Cells = {(0, j): j for j in rows[0]}
    for i in range(1, len(hyp) + 1):
        for j in rows[i]:
            steps = [(i - 1, j, 1), (i, j - 1, 1), *([(i - 1, j - 1, int(hyp[i - 1] != ref[j - 1]))] if j else [])]
            found[i, j] = min(found[a, b] + cost for a, b, cost in steps if (a, b) in found)
    return found


def to_the_end(hyp: list[int], ref: list[int], rows: list[range]) -> Cells:
    n, m = len(hyp), len(ref)
    found: Cells = {(n, j): m - j for j in rows[n]}
    for i in range(n - 1, 0, -1):
        for j in reversed(rows[i]):
            steps = [(i + 1, j, 1), (i, j + 1, 1), *([(i + 1, j + 1, int(hyp[i] != ref[j]))] if j < m else [])]
            found[i, j] = min(found[a, b] + cost for a, b, cost in steps if (a, b) in found)
    return found


def aligned(hyp: list[int], ref: list[int], cells: Cells) -> tuple[list[int], list[bool], list[bool]]:
    """Of equally good steps back: both words, then one of the hypothesis, then one of the reference."""
    i, j = len(hyp), len(ref)
    align, hyp_wrong, ref_wrong = [-1] * j, [False] * i, [False] * j
    while i or j:
        value, same = (cells[i, j] if i else j), bool(i and j and hyp[i - 1] == ref[j - 1])
        if i and j and cells.get((i - 1, j - 1), 99) + (not same) == value:
            i, j = i - 1, j - 1
            align[j], hyp_wrong[i], ref_wrong[j] = i, not same, not same
        elif i and cells.get((i - 1, j), 99) + 1 == value:
            i -= 1
            hyp_wrong[i] = True
        else:
            j -= 1
            align[j], ref_wrong[j] = i - 1, True
    return align, hyp_wrong, ref_wrong


def shifted(hyp: list[int], start: int, length: int, target: int) -> list[int]:
    """To a place before, or behind; among the moved words or right behind them, it counts from their end."""
    rest, block = hyp[:start] + hyp[start + length :], hyp[start : start + length]
    at = target if target < start else target - length if target > start + length else min(len(hyp), target + length) - length
    return rest[:at] + block + rest[at:]


def test_cells_paths_and_shifts_within_a_beam() -> None:
    rng = np.random.default_rng(7)
    with interpreted():
        for _ in range(100):
            n, m = (int(k) for k in rng.integers(1, 10, 2))
            hyp, ref = rng.integers(0, 3, n).tolist(), rng.integers(0, 3, m).tolist()
            rows = beam(n, m, int(rng.integers(1, 4)) + -(-m // (2 * n)))
            low, high = (np.array([getattr(row, side) for row in rows]) for side in ("start", "stop"))
            stride = max(map(len, rows))

            def flat(cells: Cells, rows=rows, stride=stride) -> np.ndarray:
                out = np.full(len(rows) * stride, -1, np.int64)
                for (i, j), value in cells.items():
                    out[i * stride + j - rows[i].start] = value
                return out

            forward, backward = from_the_beginning(hyp, ref, rows), to_the_end(hyp, ref, rows)
            first, last = sorted(int(k) for k in rng.integers(1, n + 1, 2))
            kept = flat({cell: value for cell, value in forward.items() if not first <= cell[0] <= last})
            _fill_forward(hyp, ref, first, last, low, high, stride, kept)
            np.testing.assert_array_equal(kept, flat(forward))
            after = flat({cell: value for cell, value in backward.items() if cell[0] > last})
            _fill_backward(hyp, n, ref, m, last, low, high, stride, after)
            np.testing.assert_array_equal(after, flat(backward))
            found = np.full(m, -2), np.zeros(n, bool), np.zeros(m, bool)
            _align(hyp, n, ref, m, low, high, stride, kept, *found)
            assert tuple(column.tolist() for column in found) == aligned(hyp, ref, forward)

            start, target = int(rng.integers(0, n)), int(rng.integers(0, n + 1))
            length = int(rng.integers(1, n - start + 1))
            moved = list(hyp)
            a, b = _shift(hyp, n, start, length, target, moved)
            expected = shifted(hyp, start, length, target)
            assert moved == expected
            assert (moved[:a], moved[b:]) == (hyp[:a], hyp[b:])
            if b:
                cells = np.full(len(kept), -1, np.int64)
                distance = _distance(moved, a, b, ref, low, high, stride, kept, after, cells)
                assert distance == from_the_beginning(expected, ref, rows)[n, m]


@pytest.mark.parametrize(("n", "m", "width"), [(1, 3, 25), (40, 70, 25), (70, 40, 25), (2, 100, 25), (2, 101, 51), (1, 120, 85)])
def test_the_beam(n: int, m: int, width: int) -> None:
    """25 cells, or 25 more than half of the words of the reference for each of the hypothesis, where these are more than 50."""
    low, high = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    with interpreted():
        assert _set_beam(n, m, low, high) == min(m + 1, 2 * width + 2)
    rows = beam(n, m, width)
    assert (low.tolist(), high.tolist()) == ([row.start for row in rows], [row.stop for row in rows])
