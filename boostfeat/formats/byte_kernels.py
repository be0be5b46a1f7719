"""Kernels over UTF-8 bytes that text readers share: numbers, hashes, words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..core.kernels import kernel

_K1, _K2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15)
_TENS = np.array([10.0**k for k in range(23)])  # all exact
_MOST = 100  # the largest power of ten in the tables
_POWERS = [Fraction(10) ** k for k in range(-_MOST, _MOST + 1)]
_HIGH = np.array([float(p) for p in _POWERS])
_LOW = np.array([float(p - Fraction(float(p))) for p in _POWERS])  # what _HIGH misses


@kernel
def read_number(buf, i, end):  # type: ignore[no-untyped-def]
    """(value, position after it) of a decimal number; position -1 where its last bit is not certain (or it is none)."""
    negative = False
    if i < end and (buf[i] == 45 or buf[i] == 43):
        negative = buf[i] == 45
        i += 1
    mantissa, digits, scale, fraction = np.int64(0), 0, 0, False
    while i < end:
        if 48 <= buf[i] <= 57:
            if mantissa > 922_337_203_685_477_579:  # one digit more does not fit into 63 bits
                return 0.0, -1
            mantissa = mantissa * 10 + (buf[i] - 48)
            digits += 1
            scale -= fraction
        elif buf[i] == 46 and not fraction:
            fraction = True
        else:
            break
        i += 1
    if digits == 0:
        return 0.0, -1
    if i < end and (buf[i] == 101 or buf[i] == 69):
        i += 1
        below = False
        if i < end and (buf[i] == 45 or buf[i] == 43):
            below = buf[i] == 45
            i += 1
        if i >= end or not 48 <= buf[i] <= 57:
            return 0.0, -1
        exponent = 0
        while i < end and 48 <= buf[i] <= 57:
            exponent = min(exponent * 10 + (buf[i] - 48), 9999)
            i += 1
        scale += -exponent if below else exponent
    if mantissa == 0:
        return 0.0, i
    value, certain = _scaled(mantissa, scale)
    return (-value if negative else value), (i if certain else -1)


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
def starts_with(buf, i, end, word, a, b):  # type: ignore[no-untyped-def]
    if i + b - a > end:
        return False
    for k in range(b - a):
        if buf[i + k] != word[a + k]:
            return False
    return True


@kernel
def read_digits(buf, i, end):  # type: ignore[no-untyped-def]
    """(whole number, position after it); position -1 if there is none of up to nine digits."""
    value, start = np.int64(0), i
    while i < end and 48 <= buf[i] <= 57 and i - start < 9:
        value = value * 10 + (buf[i] - 48)
        i += 1
    return value, (i if i > start else -1)


@kernel(inline="always")
def _mix(h, word, factor):  # type: ignore[no-untyped-def]
    h = (h ^ word) * factor
    return h ^ (h >> np.uint64(32))


@kernel
def hash_bytes(buf, i, end, h1, h2):  # type: ignore[no-untyped-def]
    """Two hashes of buf[i:end] and its length, continued from (h1, h2). Eight bytes a step: LLVM makes them one load."""
    h1 = _mix(h1, np.uint64(end - i), _K1)
    while i + 8 <= end:
        word = np.uint64(0)
        for k in range(8):
            word |= np.uint64(buf[i + k]) << np.uint64(8 * k)
        h1, h2 = _mix(h1, word, _K1), _mix(h2, word, _K2)
        i += 8
    word = np.uint64(0)
    while i < end:
        word = (word << np.uint64(8)) | np.uint64(buf[i])
        i += 1
    return _mix(h1, word, _K1), _mix(h2, word, _K2)


@kernel
def put_tokens(buf, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copy the words of buf[begin:end] to OUT out[at:] with single spaces; (position after them, number of words).

    Words as in core.text: between blanks and tabs.
    """
    n, i = 0, begin
    while i < end:
        if buf[i] == 32 or buf[i] == 9:
            i += 1
            continue
        if n:
            out[at] = 32
            at += 1
        while i < end and buf[i] != 32 and buf[i] != 9:
            out[at] = buf[i]
            at += 1
            i += 1
        n += 1
    return at, n
