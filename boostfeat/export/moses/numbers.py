"""Numbers of a phrase table as text: beyond Moses' single precision, but not twice as long."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from ...core.arrays import F64
from ...core.kernels import kernel
from ...core.strings import Strings

DIGITS = 10  # nine tell all single-precision numbers apart; one more keeps sums over many trees within 1e-6
_WIDTH = 18  # bytes of a number, at most: sign, digits, point, and zeros or an exponent
_LARGEST = 310  # powers of ten
_LEAST = 10.0**-280  # below it, a number is written as 0
_TENS = np.array([float(f"1e{k}") for k in range(-_LARGEST, _LARGEST + 1)])
_TOO_MANY = np.uint64(10**DIGITS)
_LOG10_2 = math.log10(2)
_PAIRS = np.frombuffer("".join(f"{k:02d}" for k in range(100)).encode(), np.uint8).reshape(100, 2)
_BLANK, _POINT, _ZERO, _MINUS, _PLUS, _E = b" .0-+e"


def number_rows(values: F64) -> Strings:
    """[n] the numbers of each row of values [n, k], a blank between them."""
    if not np.isfinite(values).all():
        raise ValueError("values: expected finite numbers, found others")
    n, k = values.shape
    out, ptr = np.empty(n * k * (_WIDTH + 1), np.uint8), np.zeros(n + 1, np.int64)
    _write_rows(np.ascontiguousarray(values), out, ptr)
    return pa.LargeStringArray.from_buffers(n, pa.py_buffer(ptr), pa.py_buffer(out))


@kernel
def _write_rows(values, out, ptr):  # type: ignore[no-untyped-def]
    """OUT out[ptr[r]:ptr[r + 1]]: row r."""
    o = 0
    for r in range(len(values)):
        for k in range(values.shape[1]):
            if k:
                out[o] = _BLANK
                o += 1
            o = _write_number(values[r, k], out, o)
        ptr[r + 1] = o


@kernel
def _write_number(x, out, o):  # type: ignore[no-untyped-def]
    """OUT out[o:]: x to DIGITS digits as printf's %g writes it; gives the position after it."""
    if x < 0:
        out[o] = _MINUS
        o, x = o + 1, -x
    if not x >= _LEAST:
        out[o] = _ZERO
        return o + 1
    # x = digits * 10^(power + 1 - DIGITS); the power of two tells that of ten, or one less
    power = int(np.floor((math.frexp(x)[1] - 1) * _LOG10_2))
    power += x >= _TENS[_LARGEST + power + 1]
    digits = np.uint64(np.rint(x * _TENS[_LARGEST + DIGITS - 1 - power]))
    if digits >= _TOO_MANY:  # 9.99... is 10
        digits, power = digits // np.uint64(10), power + 1
    if -4 <= power < 0:
        out[o], out[o + 1] = _ZERO, _POINT
        for k in range(2, 1 - power):
            out[o + k] = _ZERO
        return _write_digits(digits, out, o + 1 - power)
    n_whole = power + 1 if 0 <= power < DIGITS else 1
    end = _write_digits(digits, out, o + 1)
    for k in range(n_whole):  # not a slice: that takes longer than all the rest
        out[o + k] = out[o + k + 1]
    out[o + n_whole] = _POINT
    end = max(end, o + n_whole + 1)
    end -= out[end - 1] == _POINT
    return end if 0 <= power < DIGITS else _write_power(power, out, end)


@kernel
def _write_digits(digits, out, o):  # type: ignore[no-untyped-def]
    """OUT out[o:]: DIGITS digits; gives the position after the last that is not 0."""
    for at in range(o + DIGITS - 2, o - 2, -2):
        pair = digits % np.uint64(100)
        out[at], out[at + 1] = _PAIRS[pair, 0], _PAIRS[pair, 1]
        digits //= np.uint64(100)
    end = o + DIGITS
    while end > o and out[end - 1] == _ZERO:
        end -= 1
    return end


@kernel
def _write_power(power, out, o):  # type: ignore[no-untyped-def]
    """OUT out[o:]: e and a power of ten, with a sign and at least two digits; gives the position after it."""
    out[o], out[o + 1] = _E, _MINUS if power < 0 else _PLUS
    o, power = o + 2, abs(power)
    hundreds, rest = divmod(power, 100)
    if hundreds:
        out[o] = _ZERO + hundreds
        o += 1
    out[o], out[o + 1] = _PAIRS[rest, 0], _PAIRS[rest, 1]
    return o + 2
