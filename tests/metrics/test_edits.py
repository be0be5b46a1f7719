"""Word and character edits: jiwer's rates, and a naive twin."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreting import interpreted
from metric_lists import List, columns, each, lists_of, quick, texts

from boostfeat.metrics.edits import edit_distance, edit_stats, error_rate, symbol_places

# WER of the first and of the best of each list: shared/real/README.md
PUBLISHED = {"train_atis": (7.66, 5.06), "test_ls_other": (3.67, 2.27), "test_swbd": (15.86, 12.57)}
UNITS = [pytest.param(False, id="words"), pytest.param(True, id="characters")]
# As long as one, two and three words of 64 bits, and one more or less
long_texts = st.sampled_from([63, 64, 65, 127, 128, 129, 192]).flatmap(
    lambda n: st.lists(st.sampled_from("ab c"), min_size=n, max_size=n).map("".join)
)


def symbols(text: str, characters: bool) -> list[str]:
    return list(text.strip()) if characters else text.split()


def naive_distance(a: Sequence[object], b: Sequence[object]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def naive_row(hyp: str, refs: list[str], characters: bool) -> tuple[int, int]:
    words = symbols(hyp, characters)
    rows = [(naive_distance(words, symbols(r, characters)), len(symbols(r, characters))) for r in refs]
    return min(rows, key=lambda row: Fraction(row[0], max(1, row[1])))  # the first among equals


@pytest.mark.parametrize("characters", UNITS)
@quick
@given(lists_of(texts))
def test_any_text(characters: bool, lists: list[List]) -> None:
    rows = edit_stats(columns(lists), characters=characters)
    assert list(map(tuple, rows.tolist())) == [naive_row(h, refs, characters) for h, refs in each(lists)]


@pytest.mark.parametrize("characters", UNITS)
@quick
@given(long_texts, long_texts)
def test_long_texts(characters: bool, hyp: str, ref: str) -> None:
    hyp, ref = (text if characters else " ".join(text.replace(" ", "d")) for text in (hyp, ref))
    rows = edit_stats(columns([([hyp], [ref])]), characters=characters)
    assert tuple(rows[0].tolist()) == naive_row(hyp, [ref], characters)


@pytest.mark.parametrize(
    ("hyp", "refs", "row"),
    [
        ("", [""], [0, 0]),
        ("a b", [""], [2, 0]),
        ("", ["a b"], [2, 2]),
        ("a b", ["a b c", "a b"], [0, 2]),
        ("a x", ["a b", "a x c d"], [1, 2]),  # 1 of 2 is as much as 2 of 4
        ("a", ["", "b c d"], [1, 0]),  # an edit of an empty reference is a rate of 1, so is 3 of 3
        ("a b", ["", "a c"], [1, 2]),
        ("A", ["a"], [1, 1]),
    ],
)
def test_reference_of_the_lowest_rate(hyp: str, refs: list[str], row: list[int]) -> None:
    assert edit_stats(columns([([hyp], refs)])).tolist() == [row]


def test_rates_of_empty_references_are_jiwers() -> None:
    jiwer = pytest.importorskip("jiwer")
    cases = [("", ""), ("", "a b"), ("a", ""), ("a b", "a b c d e")]
    rows = np.concatenate([edit_stats(columns([([hyp], [ref])])) for ref, hyp in cases])
    assert error_rate(rows).tolist() == [jiwer.wer(ref, hyp) for ref, hyp in cases]


@pytest.mark.parametrize("name", PUBLISHED)
def test_speech_lists(real: Path, name: str) -> None:
    lists = speech(real, name)
    wer = edit_stats(columns(lists))
    first = columns(lists).hyp_ptr[:-1]
    best = [a + int(np.argmin(wer[a:b, 0])) for a, b in zip(first, [*first[1:], len(wer)], strict=True)]
    found = [100 * float(error_rate(wer[chosen].sum(axis=0))) for chosen in (first, best)]
    assert found == pytest.approx(PUBLISHED[name], abs=0.005)  # printed with two digits
    jiwer = pytest.importorskip("jiwer")
    refs, hyps = [r for _, (r,) in lists], [hyps[0] for hyps, _ in lists]
    assert error_rate(wer[first].sum(axis=0)) == jiwer.wer(refs, hyps)
    cer = edit_stats(columns(lists), characters=True)
    assert error_rate(cer[first].sum(axis=0)) == jiwer.cer(refs, hyps)
    some = slice(None, None, 25)
    pairs = each(lists)[some]
    assert error_rate(wer[some]).tolist() == [jiwer.wer(r, h) for h, (r,) in pairs]
    assert error_rate(cer[some]).tolist() == [jiwer.cer(r, h) for h, (r,) in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_hypothesis_of_speech_lists(real: Path, name: str) -> None:
    jiwer = pytest.importorskip("jiwer")
    lists = speech(real, name)
    for characters, rate in ((False, jiwer.wer), (True, jiwer.cer)):
        rows = edit_stats(columns(lists), characters=characters)
        assert error_rate(rows).tolist() == [rate(r, h) for h, (r,) in each(lists)]


def speech(real: Path, name: str) -> list[List]:
    with lzma.open(real / "asr" / f"{name}.json.xz", "rt", encoding="utf-8") as file:
        return [(entry["input"], [entry["output"]]) for entry in json.load(file)]


@pytest.mark.parametrize("m", [1, 2, 63, 64, 65, 127, 128, 129])
def test_distances_over_words_of_bits(m):
    """Against the textbook's table, where references fill one to three words of 64 bits; -1 is a symbol that they lack."""
    rng = np.random.default_rng(m)
    ref = rng.integers(0, 3, m).astype(np.int32)
    with interpreted():
        equal, work = symbol_places(np.append(9, ref).astype(np.int32), 1, m, 3), np.empty((2, 4), np.uint64)
        for n in (0, 1, m - 1, m, m + 5):
            hyp = np.where(rng.random(n) < 0.8, np.resize(ref, n), rng.integers(-1, 3, n)).astype(np.int32)
            found = edit_distance(np.concatenate([[1], hyp, [1]]).astype(np.int32), 1, 1 + n, m, equal, *work)
            assert found == naive_distance(hyp.tolist(), ref.tolist())
