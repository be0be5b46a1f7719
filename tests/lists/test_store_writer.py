"""Stores written part by part: the bytes of one that is written at once, and nothing half-done."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import containers, quick
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord
from boostfeat.lists.merging import concat
from boostfeat.lists.nbest import NBest, Notes, SparseRows, Units, strings
from boostfeat.lists.store import StoreWriter, UnitNumbers, in_several_runs, read_store, write_store


def noted(nbest: NBest) -> NBest:
    """With a quality column and notes."""
    value = np.arange(nbest.n_hyps) / 2
    notes = Notes(strings([f'{{"s": {s}}}' for s in range(len(nbest))]), strings(['{"h": 1}'] * nbest.n_hyps))
    return replace(nbest, quality=nbest.quality.with_column("q", value, np.ones(len(value)), hyp_ptr=nbest.hyp_ptr), notes=notes)


@settings(quick, max_examples=10)
@given(containers(min_sentences=2), st.integers(0, 3), st.booleans())
def test_parts_of_a_store_are_what_they_were(
    tmp_path_factory: pytest.TempPathFactory, nbest: NBest, cut: int, more: bool
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    path, nbest = folder / "whole.nbest", noted(nbest) if more else nbest
    with StoreWriter(path) as writer:
        for part in (nbest[:cut], nbest[cut:]):
            writer.append(part)
    whole = read_store(path)
    assert whole[:cut] == nbest[:cut]
    assert whole[cut:] == nbest[cut:]
    assert [p.name for p in folder.iterdir()] == [path.name]
    write_store(whole, folder / "again.nbest")
    assert (folder / "again.nbest").read_bytes() == path.read_bytes()  # columns that were copied file by file, too


@settings(quick, max_examples=10)
@given(containers(min_sentences=2), st.integers(0, 3), st.integers(0, 3))
def test_a_run_of_sentences_is_what_they_are_by_themselves(nbest: NBest, first: int, n: int) -> None:
    last = min(first + n, len(nbest))
    first = min(first, last)
    run, units = nbest.run(first, last)
    assert run == nbest[first:last]
    assert nbest.units.take(units).x.tolist() == run.units.x.tolist()


def test_a_part_may_name_units_of_earlier_parts(tmp_path: Path, data_stores: Path) -> None:
    part = read_store(data_stores / "dev.nbest")[:2]
    with StoreWriter(tmp_path / "twice.nbest") as writer:
        writer.append(part)
        writer.append(part.take_hyps(np.arange(part.n_hyps), part.hyp_ptr)[:0])  # no sentences, no units
        with pytest.raises(ValueError, match="expected 0 indices"):
            writer.append(part[:0], part.unit_idx)
    assert read_store(tmp_path / "twice.nbest") == part


@pytest.mark.parametrize(("worst", "fits"), [(-1, False), (0, True), (1, True), (2, False)])
def test_units_are_those_that_are_there(tmp_path: Path, worst: int, fits: bool) -> None:
    """The second of two parts with one unit each may name the first and its own."""
    builder = Builder(ReadOptions())
    builder.add(HypRecord(0, "a", "list:1", units=[UnitRecord({"f": 1.0}, tgt=(0, 1), tgt_text="a")]))
    part, path = builder.finish(), tmp_path / "two.nbest"
    error = pytest.raises(ValueError, match="append: expected 1 indices below 2, found others")
    with nullcontext() if fits else error, StoreWriter(path) as writer:
        writer.append(part)
        writer.append(replace(part, ids=part.ids + 1), np.array([worst]))
    assert (read_store(path).unit_idx.tolist() if fits else path.exists()) == ([0, worst] if fits else False)


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyError), StoreWriter(tmp_path / "out.nbest"):
        raise KeyError
    with pytest.raises(ValueError, match="at least one"), StoreWriter(tmp_path / "out.nbest"):
        pass
    assert not list(tmp_path.iterdir())


def test_units_of_several_runs() -> None:
    """Five sentences, and the same once more."""
    half = synthetic_nbest(SyntheticOptions(sentences=5, hyps=4, features=2), seed=2)
    nbest = concat([half, half])
    for cuts in ([(0, 3), (3, 4), (4, 10)], [(0, 10)], [(k, k + 1) for k in range(10)], [(2, 5), (5, 5), (6, 9)]):
        runs = [set(nbest.run(*cut)[1].tolist()) for cut in cuts]
        several = {v for v in range(nbest.n_units) if sum(v in run for run in runs) > 1}
        assert bool(several) == (len(cuts) > 1)
        assert set(np.flatnonzero(in_several_runs(nbest, cuts)).tolist()) == several


def test_numbers_are_those_of_a_dictionary() -> None:
    """Few distinct rows over many runs; numbers by first use. A bit of a number, a sparse feature, what a unit was: all count."""
    rng = np.random.default_rng(3)
    numbers, known = UnitNumbers(np.ones(4000, bool)), {}
    for _ in range(6):
        before, x = rng.permutation(4000)[:1500], rng.integers(0, 2, (1500, 3)).astype(np.float64)
        fresh, number = numbers.number(units_of(x), before)
        rows = [(b, k % 2, *row) for k, (b, row) in enumerate(zip(before.tolist(), x.tolist(), strict=True))]
        assert fresh.tolist() == [k for k, row in enumerate(rows) if row not in known]
        for row in rows:
            known.setdefault(row, len(known))
        assert number.tolist() == [known[row] for row in rows]
    assert numbers.n == len(known) > 4000


def test_units_of_one_run_are_not_kept() -> None:
    """They get numbers by first use, and new ones when they come again."""
    numbers = UnitNumbers(np.array([True, False, True]))
    for _ in range(2):
        fresh, number = numbers.number(units_of(np.zeros((3, 1))), np.array([1, 2, 1]))
        assert number.tolist() == ([0, 1, 2] if fresh.tolist() == [0, 1, 2] else [3, 1, 4])
    assert numbers.n == 5


def units_of(x: np.ndarray) -> Units:
    n = len(x)
    text, lengths = strings([""] * n), np.ones(n, np.int32)
    sparse = SparseRows(np.arange(n + 1), np.arange(n, dtype=np.int32) % 2, np.ones(n))  # rows have one or the other feature
    return Units(x, sparse, text, text, text, lengths, lengths, np.zeros(n))
