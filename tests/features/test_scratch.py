"""Arrays that were put aside come back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boostfeat.features.assembling import Scratch

pytestmark = pytest.mark.quick

COLUMNS = [np.arange(5), np.zeros((0, 3)), np.arange(12.0).reshape(3, 4)[:, ::2], np.zeros(0, np.int32), np.array([7], np.uint8)]


@pytest.mark.parametrize("in_file", [False, True])
def test_what_is_put_aside_comes_back(tmp_path: Path, in_file: bool) -> None:
    """In any order, as often as it is asked for, and with others put aside in between."""
    path = tmp_path / "scratch"
    with Scratch(path if in_file else None) as scratch:
        later = []
        for column in COLUMNS:
            later.append(scratch.put(column))
            for again, expected in [*zip(later, COLUMNS, strict=False)][::-1]:
                np.testing.assert_array_equal(again(), expected)
                assert again().dtype == expected.dtype
    assert path.exists() == in_file
    if in_file:
        assert path.stat().st_size == sum(column.nbytes for column in COLUMNS)
        with pytest.raises(ValueError, match="closed"):
            later[0]()
