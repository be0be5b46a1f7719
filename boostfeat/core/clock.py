"""How long something took."""

from __future__ import annotations

import time


def seconds_since(began: float) -> float:
    """From ``began``, a time of time.monotonic, until now, to the millisecond."""
    return round(time.monotonic() - began, 3)
