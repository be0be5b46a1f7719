"""Numbers of units over runs: those of a dictionary, whatever the hash table holds."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from interpreting import interpreted
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.merging import concat
from boostfeat.lists.nbest import SparseRows, Units, strings
from boostfeat.lists.store_writer import SEEDS, UnitNumbers, _visit, in_several_runs, row_hashes

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:overflow encountered")]  # of hashes, run as Python


@pytest.fixture(params=[True, False], ids=["compiled", "as Python"])
def _either_way(request):
    """A mutant's kernels are Python, and those that they call have to be as well."""
    with nullcontext() if request.param else interpreted():
        yield


def test_units_of_several_runs() -> None:
    """Five sentences, and the same once more."""
    half = synthetic_nbest(SyntheticOptions(sentences=5, hyps=4, features=2), seed=2)
    nbest = concat([half, half])
    for cuts in ([(0, 3), (3, 4), (4, 10)], [(0, 10)], [(k, k + 1) for k in range(10)], [(2, 5), (5, 5), (6, 9)]):
        runs = [set(nbest.run(*cut)[1].tolist()) for cut in cuts]
        several = {v for v in range(nbest.n_units) if sum(v in run for run in runs) > 1}
        assert bool(several) == (len(cuts) > 1)
        assert set(np.flatnonzero(in_several_runs(nbest, cuts)).tolist()) == several


@pytest.mark.usefixtures("_either_way")
def test_numbers_are_those_of_a_dictionary() -> None:
    """Few distinct rows over many runs, so that the table grows; numbers by first use, in plain Python."""
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
        places = numbers._table[:, 2]
        assert sorted(places[places > 0].tolist()) == list(range(1, len(known) + 1))
        assert numbers._taken == len(known) <= 0.6 * len(places)  # no fuller, and no larger than it has to be:
        assert len(places) == 1 << max(10, int(len(known) / 0.6).bit_length())
    assert numbers.n == len(known) > 4000


@pytest.mark.usefixtures("_either_way")
def test_units_of_one_run_are_not_kept() -> None:
    """They get numbers, by first use, and no place in the table."""
    numbers = UnitNumbers(np.array([True, False, True]))
    for _ in range(2):
        fresh, number = numbers.number(units_of(np.zeros((3, 1))), np.array([1, 2, 1]))
        assert number.tolist() == ([0, 1, 2] if fresh.tolist() == [0, 1, 2] else [3, 1, 4])
    assert (numbers.n, numbers._taken) == (5, 1)


def test_places_of_a_table() -> None:
    """Hashes that fall on one place go to the next free one; from the last, to the first."""
    table, hashes = np.zeros((4, 3), np.uint64), np.array([[3, 1], [3, 2], [7, 1]], np.uint64)
    numbers = np.array([5, -1, 8])
    _visit(table, hashes, numbers)
    assert (table.tolist(), numbers.tolist()) == ([[7, 1, 9], [0, 0, 0], [0, 0, 0], [3, 1, 6]], [5, -1, 8])
    found = np.array([-1, 0, -1, -1])
    _visit(table, np.array([[7, 1], [3, 2], [3, 1], [7, 2]], np.uint64), found)
    assert found.tolist() == [8, 0, 5, -1]
    assert table.tolist() == [[7, 1, 9], [3, 2, 1], [0, 0, 0], [3, 1, 6]]
    table = np.zeros((8, 3), np.uint64)  # the upper half of a hash counts too, and halves may be 0
    _visit(table, np.array([[6 << 32 | 3, 4], [0, 0], [0, 1], [1, 0]], np.uint64), np.array([3, 0, 1, 2]))
    assert table.tolist() == [[0, 0, 1], [0, 1, 2], [1, 0, 3], [0] * 3, [0] * 3, [6 << 32 | 3, 4, 4], [0] * 3, [0] * 3]
    found = np.full(4, -1)
    _visit(table, np.array([[1, 0], [0, 1], [0, 0], [6 << 32 | 3, 4]], np.uint64), found)
    assert found.tolist() == [2, 1, 0, 3]


def units_of(x: np.ndarray) -> Units:
    n = len(x)
    text, lengths = strings([""] * n), np.ones(n, np.int32)
    sparse = SparseRows(np.arange(n + 1), np.arange(n, dtype=np.int32) % 2, np.ones(n))  # rows have one or the other feature
    return Units(x, sparse, text, text, text, lengths, lengths, np.zeros(n))


def test_hashes_tell_rows_apart_and_do_not_depend_on_the_compiler() -> None:
    """Rows that differ in one bit of a number, in a sparse feature, or in what they were."""
    x = np.array([[1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)], [1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    units, before = units_of(x), np.array([0, 0, 1, 0, 0])
    found = row_hashes(units, before, np.arange(5))
    assert len({tuple(row) for row in found.tolist()}) == 4
    assert found[0].tolist() == found[4].tolist()
    assert row_hashes(units_of(x[[0, 0]]), before[:2], np.arange(2))[0].tolist() == found[0].tolist()
    assert row_hashes(units_of(x[[0, 0]]), before[:2], np.arange(2))[1].tolist() != found[0].tolist()  # its sparse feature
    with interpreted():
        np.testing.assert_array_equal(row_hashes(units, before, np.arange(5)), found)


@pytest.mark.usefixtures("_either_way")
def test_hashes_by_hand() -> None:
    """Of what a unit was, its numbers, and its sparse features with theirs; twice, from two seeds."""

    def mix(h: int, word: int) -> int:
        h = (h ^ word) * 0xBF58476D1CE4E5B9 % 2**64
        return h ^ (h >> 29)

    def bits(value: float) -> int:
        return int(np.float64(value).view(np.uint64))

    x = np.array([[1.0, 2.0], [3.0, -4.0]])
    for seed, found in zip(SEEDS.tolist(), row_hashes(units_of(x), np.array([5, 6]), np.array([1]))[0].tolist(), strict=True):
        h = seed
        for word in (6, bits(3.0), bits(-4.0), 1, bits(1.0)):
            h = mix(h, word)
        assert found == h
