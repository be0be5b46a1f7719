"""How long something took."""

from __future__ import annotations

import time

import pytest

from boostfeat.core.clock import seconds_since

pytestmark = pytest.mark.quick


def test_seconds_are_of_a_clock_and_have_three_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 107.12345)
    assert (seconds_since(100.0), seconds_since(107.12345)) == (7.123, 0.0)
