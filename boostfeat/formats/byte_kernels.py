"""Kernels over UTF-8 bytes that text readers share: numbers, hashes, words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..core.kernels import kernel

_K1, _K2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15)
NONE = np.int64(-1)  # a number or a place that there is not
_1, _8 = np.uint64(1), np.uint64(8)  # positions are unsigned: numba need not look for negative ones
_ONES = np.uint64(0x0101010101010101)
_HIGHS, _LOWS, _NEWLINES, _BARS = (_ONES * np.uint64(byte) for byte in (0x80, 0x7F, 10, 124))
_TENS = np.array([10.0**k for k in range(23)])  # all exact
_MOST = 100  # the largest power of ten in the tables
_POWERS = [Fraction(10) ** k for k in range(-_MOST, _MOST + 1)]
_HIGH = np.array([float(p) for p in _POWERS])
_LOW = np.array([float(p - Fraction(float(p))) for p in _POWERS])  # what _HIGH misses


@kernel
def is_digit(c):  # type: ignore[no-untyped-def]
    return 48 <= c <= 57


@kernel
def is_blank(c):  # type: ignore[no-untyped-def]
    """A space or a tab."""
    return c == 32 or c == 9


@kernel
def read_number(buf, begin, end):  # type: ignore[no-untyped-def]
    """(value, position after it) of a decimal number; position -1 where its last bit is not certain (or it is none)."""
    i, stop = np.uint64(begin), np.uint64(end)
    negative = False
    if i < stop and (buf[i] == 45 or buf[i] == 43):
        negative = buf[i] == 45
        i += _1
    first = i
    mantissa, i = _more_digits(buf, i, stop, np.int64(0))
    digits, scale = i - first, np.int64(0)
    if i < stop and buf[i] == 46 and mantissa >= 0:
        i += _1
        first = i
        mantissa, i = _more_digits(buf, i, stop, mantissa)
        digits += i - first
        scale = -np.int64(i - first)
    if digits == 0 or mantissa < 0:
        return 0.0, NONE
    if i < stop and (buf[i] == 101 or buf[i] == 69):
        i += _1
        below = False
        if i < stop and (buf[i] == 45 or buf[i] == 43):
            below = buf[i] == 45
            i += _1
        if i >= stop or not is_digit(buf[i]):
            return 0.0, NONE
        exponent = np.int64(0)
        while i < stop and is_digit(buf[i]):
            exponent = min(exponent * 10 + np.int64(buf[i]) - 48, np.int64(9999))
            i += _1
        scale += -exponent if below else exponent
    if mantissa == 0:
        return 0.0, np.int64(i)
    value, certain = _scaled(mantissa, scale)
    return (-value if negative else value), (np.int64(i) if certain else NONE)


@kernel
def _more_digits(buf, i, stop, value):  # type: ignore[no-untyped-def]
    """(whole number that continues ``value``, position after its digits); -1 where it, or the nearest float, has over 63 bits."""
    while i < stop and is_digit(buf[i]):
        if value > 922_337_203_685_477_528:
            return NONE, i
        value = value * 10 + np.int64(buf[i]) - 48
        i += _1
    return value, i


@kernel
def _scaled(mantissa, scale):  # type: ignore[no-untyped-def]
    """(mantissa * 10**scale rounded once, whether that is certain)."""
    if mantissa < 1 << 53 and -22 <= scale <= 22:  # both exact: one rounding
        return (mantissa / _TENS[-scale] if scale < 0 else mantissa * _TENS[scale]), True
    if scale < -_MOST or scale > _MOST:
        return 0.0, False
    # in twice the precision, to 2**-100 of the value; certain where the nearest number does not change within that
    a = np.float64(mantissa)
    rest = np.float64(mantissa - np.int64(a))
    high, low = _HIGH[scale + _MOST], _LOW[scale + _MOST]
    product, error = _product(a, high)
    error += a * low + rest * high
    slack = product * 2.0**-100
    return product + error, product + (error - slack) == product + (error + slack)


@kernel
def _product(a, b):  # type: ignore[no-untyped-def]
    """a * b as a sum of two numbers, exactly (Dekker)."""
    p = a * b
    x, y = a * 134_217_729.0, b * 134_217_729.0  # 2**27 + 1: halves of 26 bits
    a1, b1 = x - (x - a), y - (y - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@kernel
def starts_with(buf, begin, end, word, a, b):  # type: ignore[no-untyped-def]
    return begin + b - a <= end and same_bytes(buf, begin, word, a, b - a)


@kernel
def same_bytes(a, i, b, j, n):  # type: ignore[no-untyped-def]
    """Whether a[i:i+n] and b[j:j+n] are equal."""
    k, other, stop = np.uint64(i), np.uint64(j), np.uint64(i + n)
    while k + _8 <= stop:
        if _word(a, k) != _word(b, other):
            return False
        k += _8
        other += _8
    while k < stop:
        if a[k] != b[other]:
            return False
        k += _1
        other += _1
    return True


@kernel
def read_digits(buf, begin, end):  # type: ignore[no-untyped-def]
    """(whole number, position after it); position -1 if there is none of up to nine digits."""
    return _digits(buf, begin, end, 9)


@kernel
def read_sentence_id(buf, begin, end):  # type: ignore[no-untyped-def]
    """The same of up to 18 digits."""
    return _digits(buf, begin, end, 18)


@kernel
def _digits(buf, begin, end, most):  # type: ignore[no-untyped-def]
    value, first, stop = np.int64(0), np.uint64(begin), np.uint64(min(end, begin + most))
    i = first
    while i < stop and is_digit(buf[i]):
        value = value * 10 + np.int64(buf[i]) - 48
        i += _1
    return value, (np.int64(i) if i > first else NONE)


@kernel
def _word(buf, i):  # type: ignore[no-untyped-def]
    """Eight bytes from i as one number: LLVM makes them one load."""
    word = np.uint64(buf[i]) | np.uint64(buf[i + _1]) << np.uint64(8)
    word |= np.uint64(buf[i + np.uint64(2)]) << np.uint64(16) | np.uint64(buf[i + np.uint64(3)]) << np.uint64(24)
    word |= np.uint64(buf[i + np.uint64(4)]) << np.uint64(32) | np.uint64(buf[i + np.uint64(5)]) << np.uint64(40)
    return word | np.uint64(buf[i + np.uint64(6)]) << np.uint64(48) | np.uint64(buf[i + np.uint64(7)]) << np.uint64(56)


@kernel(inline="always")
def mix(h, word, factor):  # type: ignore[no-untyped-def]
    h = (h ^ word) * factor
    return h ^ (h >> np.uint64(32))


@kernel
def hash_bytes(buf, begin, end, h1, h2):  # type: ignore[no-untyped-def]
    """Two hashes of buf[begin:end] and its length, continued from (h1, h2), eight bytes a step."""
    i, stop = np.uint64(begin), np.uint64(end)
    h1 = mix(h1, stop - i, _K1)
    while i + _8 <= stop:
        word = _word(buf, i)
        h1, h2 = mix(h1, word, _K1), mix(h2, word, _K2)
        i += _8
    word = np.uint64(0)
    while i < stop:
        word = (word << _8) | np.uint64(buf[i])
        i += _1
    return mix(h1, word, _K1), mix(h2, word, _K2)


@kernel
def put_bytes(buf, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copy buf[begin:end] to OUT out[at:]; returns the position after it."""
    i, stop, to = np.uint64(begin), np.uint64(end), np.uint64(at)
    while i < stop:
        out[to] = buf[i]
        i += _1
        to += _1
    return np.int64(to)


@kernel
def put_tokens(buf, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copy the words of buf[begin:end] to OUT out[at:] with single spaces; (position after them, number of words).

    Words as in core.text: between blanks and tabs.
    """
    n, i, stop, to = 0, np.uint64(begin), np.uint64(end), np.uint64(at)
    while i < stop:
        if is_blank(buf[i]):
            i += _1
            continue
        if n:
            out[to] = 32
            to += _1
        while i < stop and not is_blank(buf[i]):
            out[to] = buf[i]
            to += _1
            i += _1
        n += 1
    return np.int64(to), n


@kernel
def skip_blanks(buf, begin, end):  # type: ignore[no-untyped-def]
    """Where buf[begin:end] has its first byte that is no space."""
    i, stop = np.uint64(begin), np.uint64(end)
    while i < stop and buf[i] == 32:
        i += _1
    return np.int64(i)


@kernel
def _flags(word, sign):  # type: ignore[no-untyped-def]
    """80 in each byte of a word that is as in ``sign``, 00 in the others."""
    x = word ^ sign
    return ~(((x & _LOWS) + _LOWS) | x | _LOWS)


@kernel
def find_marks(buf, words, ends, bars):  # type: ignore[no-untyped-def]
    """Where a text has ends of lines (into OUT ends) and bars (into OUT bars); ``words`` are its bytes, eight together.

    Returns how many there are of both, the place of the first NUL (else -1), and whether all bytes are ASCII.
    """
    n_ends, n_bars, nul, high = 0, 0, NONE, np.uint64(0)
    for k in range(len(words)):
        word = words[np.uint64(k)]
        high |= word
        found = _flags(word, _NEWLINES) | _flags(word, _BARS)
        while found:
            lowest = found & (~found + _1)
            found ^= lowest
            i = 8 * k + np.int64(((lowest - _1) & _ONES) * _ONES >> np.uint64(56)) - 1  # the bytes below it, and itself
            if buf[np.uint64(i)] == 10:
                ends[n_ends] = i
                n_ends += 1
            else:
                bars[n_bars] = i
                n_bars += 1
        if nul < 0 and (word - _ONES) & ~word & _HIGHS:
            for j in range(8 * k + 7, 8 * k - 1, -1):
                nul = np.int64(j) if buf[j] == 0 else nul
    for j in range(8 * len(words), len(buf)):
        c = buf[j]
        if c == 10:
            ends[n_ends] = j
            n_ends += 1
        elif c == 124:
            bars[n_bars] = j
            n_bars += 1
        elif c == 0 and nul < 0:
            nul = np.int64(j)
        high |= np.uint64(c)
    return n_ends, n_bars, nul, high & _HIGHS == np.uint64(0)
