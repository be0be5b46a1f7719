"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[2] / "shared" / "real"))


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of real n-best lists and public tools' numbers; tests that need it are skipped where it is absent."""
    if not REAL.is_dir():
        pytest.skip("no real data: set BOOSTFEAT_REAL_DATA to the folder that holds it")
    return REAL
