"""What decompresses to far more than it should is refused."""

from __future__ import annotations

import gzip

import pytest

from boostfeat.core import compression
from boostfeat.core.errors import FormatError, InputError
from boostfeat.core.files import read_bytes

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("factor", "free", "size", "refused"),
    [
        (None, 1 << 28, 400_000, False),  # what is small is free, whatever it is
        (None, 1000, 400_000, True),  # about 980 times the 410 bytes: more than 250
        ("2000", 1000, 400_000, False),
        ("1", 1000, 1001, True),
        ("1", 1001, 1001, False),  # at the bound
    ],
)
def test_growth_is_bounded(tmp_path, monkeypatch, factor, free, size, refused):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * size, mtime=0))
    monkeypatch.setattr(compression, "FREE_BYTES", free)
    if factor:
        monkeypatch.setenv(compression.EXPANSION_VARIABLE, factor)
    else:
        monkeypatch.delenv(compression.EXPANSION_VARIABLE, raising=False)
    if refused:
        times = factor or "250"
        message = f"expected at most {times} times the compressed data, found more than that from {path.stat().st_size} bytes; .*={times}0"
        with pytest.raises(FormatError, match=message):
            read_bytes(path)
    else:
        assert read_bytes(path) == b"x" * size


def test_incompressible_data_of_any_size_is_read(tmp_path, monkeypatch):
    """The bound is a product: data larger than what is free, but about as large as its file, passes at a factor of 2."""
    import random

    data = random.Random(0).randbytes(50_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(data))
    monkeypatch.setattr(compression, "FREE_BYTES", 10)
    monkeypatch.setenv(compression.EXPANSION_VARIABLE, "2")
    assert read_bytes(path) == data


@pytest.mark.parametrize("text", ["0.5", "many", "", "nan"])
def test_the_bound_is_a_number_from_1(monkeypatch, text):
    monkeypatch.setenv(compression.EXPANSION_VARIABLE, text)
    with pytest.raises(InputError, match="expected a number from 1, found"):
        compression._max_expansion()
