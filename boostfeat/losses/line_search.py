"""The line search of boosting: ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)²  [TA13 figure 3 line 5, section 2.3]."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, isfinite, sqrt

from ..core.arrays import HUGE

Ray = Callable[[float], tuple[float, float, float]]  # ρ -> (Ψ, Ψ', Ψ'') of Ψ(scores + ρ direction)
ROUNDING = 1e-14  # of a sum of many terms, relative: smaller differences between two values mean nothing


def minimise_ray(ray: Ray, *, l2: float, start: float = 0.0, tol: float = 1e-9, max_iter: int = 100) -> float:
    """argmin_ρ f(ρ) = Ψ(ρ) + l2/2 ρ²: Newton's method, kept inside a bracket.

    ``near`` is the best point so far and its slope points to ``far`` (or, while there is none, outwards); f falls from near
    and has risen or turned at far, so a minimum lies between. A Newton step that leaves the bracket, or that follows one which
    did not halve the slope, is replaced by bisection (by doubling while there is no far). Where f is not convex this finds a
    local minimum with f no higher than at start, up to rounding.
    Ends when the Newton step is below tol · √(|f| / f''), a measure free of the scale of the direction, when the bracket
    is empty, or after max_iter evaluations; always with a finite ρ. With l2 = 0 and separable pairs the infimum is at
    infinity and the last point reached is returned. The last point is not evaluated where steps are short already and the
    Newton step there, f''' / 2f'' times the square of the one that leads there, is bound to be small enough; f''' is told by
    the last two curvatures.
    """

    def f(rho: float) -> tuple[float, float, float]:
        value, slope, curve = ray(rho)
        return value + l2 / 2 * rho * rho, slope + l2 * rho, curve + l2

    near, far = start, float("nan")
    value, slope, curve = f(near)
    step, slow, third = 0.0, False, inf
    for _ in range(max_iter):
        if slope == 0 or not isfinite(slope):
            break
        newton = abs(slope / curve) if curve != 0 else max(1.0, abs(near))
        scale = sqrt(abs(value) / curve) if curve > 0 else -1.0
        if newton <= tol * scale:
            break
        if far != far:  # no bracket yet
            step = max(newton, 2 * step) if slow or curve <= 0 else newton
            trial = near - copysign(step, slope)
        else:
            trial = near - copysign(newton, slope)
            if slow or abs(trial - near) >= abs(far - near):
                trial = near + (far - near) / 2
        trial = min(max(trial, -HUGE), HUGE)
        if trial in (near, far):
            break
        if not slow and newton <= sqrt(tol) * scale and third * newton * newton <= tol * scale * curve:  # half of tol
            return trial
        new_value, new_slope, new_curve = f(trial)
        slow = not abs(new_slope) < abs(slope) / 2
        if not new_value <= value + ROUNDING * abs(value):  # also where it is not a number
            far = trial
            continue
        if (new_slope > 0) != (slope > 0):
            far = near
        third = abs((new_curve - curve) / (trial - near))
        near, value, slope, curve = trial, new_value, new_slope, new_curve
    return near
