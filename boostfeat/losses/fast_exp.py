"""exp and log of many numbers at once: losses are sums of them. numba's are not vectorised, numpy's only with AVX-512."""

from __future__ import annotations

from math import factorial

import numpy as np

from ..core.kernels import kernel

_LOG2_E = 1.4426950408889634
_LN_2_HIGH, _LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2 in two parts: n * high is exact
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number, which then stands in the low bits
_LEAST = -700.0  # below it the result is 1e-304: as good as 0 in any sum with 1
_C = tuple(1 / factorial(k) for k in range(14))


@kernel(fastmath={"contract"})
def _reduced(x, whole):  # type: ignore[no-untyped-def]
    """x = n ln 2 + r with |r| <= ln 2 / 2. INOUT x: exp(r) by its series; OUT whole: n + _ROUND."""
    for k in range(len(x)):
        v = x[k] if x[k] > _LEAST else _LEAST
        s = v * _LOG2_E + _ROUND
        whole[k] = s
        n = s - _ROUND
        r = (v - n * _LN_2_HIGH) - n * _LN_2_LOW
        p = _C[13]
        for j in range(12, -1, -1):
            p = _C[j] + r * p
        x[k] = p


@kernel
def _powers_of_two(whole):  # type: ignore[no-untyped-def]
    """INOUT whole (as integers): the bits of n + _ROUND become those of 2^n."""
    for k in range(len(whole)):
        whole[k] = (whole[k] + 1023) << 52


@kernel
def _scale(x, powers):  # type: ignore[no-untyped-def]
    for k in range(len(x)):
        x[k] *= powers[k]


@kernel
def exp_nonpositive(x, room):  # type: ignore[no-untyped-def]
    """INOUT x[n]: exp(x) for x <= 0, to one unit in the last place (exp(-700) below -700). ``room`` is for n numbers."""
    _reduced(x, room)
    _powers_of_two(room.view(np.int64))
    _scale(x, room)


_ODD = tuple(2 / (2 * k + 1) for k in range(17))


@kernel(fastmath={"contract"}, error_model="numpy")  # with a look for 0 before each division it would not be vectorised
def log1p_unit(x, out):  # type: ignore[no-untyped-def]
    """OUT out[n] = log(1 + x) for 0 <= x <= 1, to three units in the last place: 2 artanh(s), s = x / (2 + x), by its series."""
    for k in range(len(x)):
        s = x[k] / (2.0 + x[k])
        t = s * s
        p = 0.0
        for j in range(15, 0, -2):  # two terms a step: LLVM unrolls no more steps than these
            p = _ODD[j] + t * (_ODD[j + 1] + t * p)
        out[k] = s * (_ODD[0] + t * p)
