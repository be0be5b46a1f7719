"""Kernels over bytes, each against a naive twin of plain Python: numbers, words, comparisons and hashes."""

from __future__ import annotations

import random
from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostfeat.core.text import split_words
from boostfeat.formats.bar_kernel import find_marks, hash_bytes, put_bytes, put_words, read_number, same_bytes

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:overflow encountered")]  # of hashes, run as Python

TEXT = bytes(random.Random(3).choices(range(256), k=40))


def raw(text: bytes | str) -> np.ndarray:
    return np.frombuffer((text.encode() if isinstance(text, str) else text) or b" ", np.uint8).copy()


def test_numbers_of_all_sizes():
    """Python's float, to the last bit; it is certain but where a number lies exactly between two others."""
    rng = random.Random(5)
    for _ in range(1500):
        digits = "".join(rng.choices("0123456789", k=rng.randrange(1, 18)))
        point = rng.randrange(len(digits) + 1)
        text = f"{rng.choice(['', '-'])}{digits[:point]}.{digits[point:]}"
        if rng.random() < 0.6:
            text += f"e{rng.randrange(-75, 80)}"
        value, end = read_number(raw(text), 0, len(text))
        assert (value, end) == (float(text) + 0.0, len(text)), text


@pytest.mark.parametrize("scale", [22, 23, -22, -23, 99, 100, -99, -100, 101, -101])
@pytest.mark.parametrize(
    "mantissa", [1, 3, 7, (1 << 53) - 1, 1 << 53, (1 << 53) + 2, (1 << 60) + 12345, 9_223_372_036_854_775_289]
)
def test_numbers_at_the_ends_of_tables(mantissa, scale):
    """Powers of ten up to 22 are exact, those up to 100 are kept in two numbers; 5^23 has 54 bits, so that 1e23 is midway."""
    text = f"{mantissa}e{scale}"
    exact, near = Fraction(mantissa) * Fraction(10) ** scale, float(text)
    is_midway = any(2 * exact == Fraction(near) + Fraction(nextafter(near, to)) for to in (-inf, inf))
    value, end = read_number(raw(text), 0, len(text))
    is_exact = mantissa < 1 << 53 and abs(scale) <= 22  # one multiplication or division, which rounds to even as Python does
    assert end == (len(text) if abs(scale) <= 100 and (is_exact or not is_midway) else -1)
    assert end < 0 or value == near


@pytest.mark.parametrize(
    ("mantissa", "is_read"), [(9_223_372_036_854_775_289, True), (9_223_372_036_854_775_290, False), (2**63 - 1, False)]
)
def test_the_largest_mantissa(mantissa, is_read):
    """From 2^63 - 512 on the nearest float is 2^63, which is no 64-bit number: machines differ in what they make of it."""
    for text in (f"{mantissa}", f"{mantissa // 10}.{mantissa % 10}e1"):
        assert read_number(raw(text), 0, len(text)) == ((float(text), len(text)) if is_read else (0.0, -1))


@pytest.mark.parametrize("n", range(20))
def test_one_byte_decides(n):
    """Texts of n bytes that begin at different places; a byte before or behind does not count."""
    a, i, j = raw(TEXT), 3, 5
    for k in range(-1, n + 1):
        other = bytearray(b"12345" + TEXT[i : i + n] + b"tail")
        other[j + k] ^= 1 << k % 8
        assert same_bytes(a, i, raw(bytes(other)), j, n) == (not 0 <= k < n)


TEXTS = ["", " ", "a", " a", "a ", "a b", "\ta\t \tb  cd ", "a|b\nc", "\u00a0 \u00e4", "  x  "]


@pytest.mark.parametrize("text", TEXTS)
def test_words_with_single_blanks_between_them(text):
    data, words = text.encode(), split_words(text)
    words = [] if words == [""] else words
    joined = " ".join(words).encode()
    buf = raw(b" z" + data + b"z ")
    out = np.full(40, 7, np.uint8)
    end, n = put_words(buf, 2, 2 + len(data), out, 3)
    assert (end, n, out[3:end].tobytes()) == (3 + len(joined), len(words), joined)
    assert (out[:3] == 7).all()
    assert (out[end:] == 7).all()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=30), st.binary(max_size=30), st.integers(0, 5))
def test_bytes_are_compared_hashed_and_copied(a, b, shift):
    one, two = (np.frombuffer(bytes(shift) + raw + b"tail", np.uint8) for raw in (a, b))
    hashes = [hash_bytes(own, shift, shift + len(raw), np.uint64(1)) for own, raw in ((one, a), (two, b))]
    assert (hashes[0] == hashes[1]) == (a == b)
    if len(a) == len(b):
        assert same_bytes(one, shift, two, shift, len(a)) == (a == b)
    out = np.zeros(40, np.uint8)
    assert put_bytes(one, shift, shift + len(a), out, 3) == 3 + len(a)
    assert out.tobytes()[3 : 3 + len(a)] == a


NUMBERS = ["0", "-0", "+0", "7", "-12", "+3.5", ".5", "5.", "-.25", "1e5", "1E+5", "1e-5", "12.5e-3",
           "922337203685477579", "0.1", "123456789.123456789", "1e22", "1e-22", "1e-23",
           "9007199254740992e22", "1e100", "1e-100", "8.41e21", "2.2250738585072014e-80", "179769313486231570e50"]  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_that_kernels_know(text):
    """Python's own float, to the last bit, also with something behind it; -0 is 0."""
    for behind in ("", " ", "|", ",x", "x"):
        found, end = read_number(raw(f"<{text}{behind}"), 1, 1 + len(text) + len(behind))
        assert (found, end) == (float(text) + 0.0, 1 + len(text))


@pytest.mark.parametrize("text", ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1e-x", "x", "nan", "inf", "92233720368547758070",
                                  "1e101", "9007199254740993", "9223372036854775807", "1e23", "1e-101", "1e400", "1e-99999999999"])  # fmt: skip
def test_numbers_that_are_left_to_python(text):
    assert read_number(raw(text), 0, len(text))[1] == -1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"|", b"\n", b"\x00", b"\x7f", b"\x80", b"\xff", b"abcdefghi", b"{", b"\x0b"]), max_size=12))
def test_marks_are_found_where_they_are(parts):
    """Bytes beside those of marks, and any number of them behind a whole word of eight."""
    data = b"".join(parts)
    ends, bars = np.zeros((2, len(data) + 1), np.int64)
    n_ends, n_bars, is_ascii, has_nul = find_marks(np.frombuffer(data or b"x", np.uint8)[: len(data)].copy(), ends, bars)
    assert ends[:n_ends].tolist() == [i for i, byte in enumerate(data) if byte == 10]
    assert bars[:n_bars].tolist() == [i for i, byte in enumerate(data) if byte == 124]
    assert (is_ascii, has_nul) == (data.isascii(), 0 in data)
