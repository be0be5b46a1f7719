"""Copies of one printed number are one number, and thresholds lie where no copy is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostfeat.core.printed_numbers import EXACT, Precision
from boostfeat.lists.precision import printed_precision

RNG = np.random.default_rng(0)
LOGS = -RNG.gamma(1.0, 3.0, 2000)


def printed(x: np.ndarray, text: str) -> np.ndarray:
    return np.array([float(format(v, text)) for v in x])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (printed(LOGS, ".6g"), Precision(float(np.spacing(np.float32(40.0))), 6)),
        (printed(LOGS, ".4f"), Precision(1e-4)),
        (printed(LOGS, ".3f"), Precision(1e-3)),
        (LOGS, EXACT),
        (LOGS.astype(np.float32).astype(float), EXACT),
        (-RNG.integers(0, 9, 100).astype(float), EXACT),
        (RNG.integers(0, 2, 100).astype(float), EXACT),
        (np.zeros(5), EXACT),
        (np.zeros(0), EXACT),
    ],
)
def test_what_was_printed_is_found(values: np.ndarray, expected: Precision) -> None:
    found = printed_precision(values, lambda: 40.0)
    assert found.digits == expected.digits
    assert found.step == pytest.approx(expected.step, rel=1e-12)


def test_copies_of_one_number_are_near() -> None:
    """As Moses lists them: differences of single-precision sums, to six digits."""
    before = RNG.uniform(-90, 0, 500).astype(np.float32)
    copies = printed((before + np.float32(-0.0233635) - before).astype(float), ".6g")
    precision = Precision(float(np.spacing(np.float32(90))), 6)
    assert len(np.unique(copies)) > 2
    assert (np.diff(np.unique(copies)) <= precision.near(np.unique(copies)[1:])).all()
    assert (np.abs(copies + 0.0233635) <= precision.error(copies)).all()


def test_what_was_computed_lies_within_half_a_step() -> None:
    values = RNG.uniform(-50, 50, 500)
    off = np.abs(np.round(values, 4) - values)
    error = Precision(1e-4).error(values)
    assert (off[off < 0.499e-4] <= error[off < 0.499e-4]).all()
    assert error == pytest.approx(0.499e-4)  # less than half a step: nothing is on both sides


@given(st.floats(-50, 50), st.floats(1e-3, 10), st.sampled_from([EXACT, Precision(1e-4), Precision(4e-6, 6)]))
def test_a_threshold_lies_about_midway(low: float, gap: float, precision: Precision) -> None:
    high = low + gap
    found = precision.between(low, high)
    assert low + gap / 5 <= found <= high - gap / 5


@given(st.floats(-30, 30), st.integers(1, 300))
def test_rounding_puts_no_number_on_another_side(x: float, cells: int) -> None:
    """Of a list of four decimals: half a cell is the border of what is printed as one or the other."""
    low = round(x, 4)
    threshold = Precision(1e-4).between(low, round(low + cells * 1e-4, 4))
    values = threshold + RNG.uniform(-3e-4, 3e-4, 50)
    assert ((values <= threshold) == (np.round(values, 4) <= threshold)).all()


def test_a_quantile_lies_below_all_copies_of_it() -> None:
    x = np.array([-12.3918, -12.3917, -12.3917, -10.0, -3.0])
    precision = Precision(3e-5, 6)
    assert -12.3917 < precision.below(x, -10.0) < -10.0
    assert precision.below(x, -12.3917) < -12.3918 - precision.error(x[:1])[0]
    assert EXACT.below(x, -3.0) == -6.0


@pytest.mark.parametrize(
    "low", [1.0, float(np.nextafter(1.0, 2.0)), float(np.nextafter(2.0, 0.0)), -1.0, float(np.nextafter(-2.0, -3.0))]
)
def test_between_neighbours_there_is_nothing(low: float) -> None:
    """The lower one is then the threshold: it is on its own side, and the higher one on the other."""
    assert EXACT.between(low, float(np.nextafter(low, np.inf))) == low


def test_below_the_smallest_and_between_others() -> None:
    x = np.array([5.0, 1.0, 3.0, 3.0])
    assert [EXACT.below(x, at) for at in (3.0, 5.0)] == [2.0, 4.0]
    assert EXACT.below(x, 1.0) == np.nextafter(1.0, -np.inf)
    assert Precision(1.5).below(x, 5.0) == pytest.approx(4.0, abs=0.6)
    assert Precision(3.0).below(x, 5.0) == pytest.approx(1 - 0.99 * 3.0)  # all are copies


@pytest.mark.parametrize(
    ("text", "digits", "step"),
    [(".4g", 0, 0.0), (".5g", 5, 0.0), (".8g", 8, 0.0), (".9g", 0, 0.0), (".1f", 0, 0.0), (".2f", 0, 1e-2), (".7f", 0, 1e-7), (".8f", 0, 0.0)],
)  # fmt: skip
def test_from_how_many_digits_on_numbers_are_printed_ones(text: str, digits: int, step: float) -> None:
    """Five to eight significant digits, two to seven decimals: fewer may be chance, more are all there are."""
    found = printed_precision(printed(LOGS, text), lambda: 40.0)
    assert found == (pytest.approx(step), 0) if not digits else (float(np.spacing(np.float32(40.0))), digits)
    assert printed_precision(printed(LOGS, text), lambda: 1e39) == (pytest.approx(step), 0)  # sums beyond single precision
