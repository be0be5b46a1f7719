"""Compressed files are read to their end; what decompresses to far more than it should is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from boostfeat.core import compression
from boostfeat.core.errors import FormatError
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


def test_bounds_are_those_of_the_page():
    page = (Path(__file__).parents[2] / "examples" / "faq.md").read_text(encoding="utf-8")
    bounds = f"may expand to {compression.FREE_BYTES >> 20} MB, or to {compression.MAX_EXPANSION} times its size if that is more"
    assert bounds in page.replace("\n", " ")
    assert f"`{compression.EXPANSION_VARIABLE}=N` allows N times" in page


def test_incompressible_data_of_any_size_is_read(tmp_path, monkeypatch):
    """The bound is a product: data larger than what is free, but about as large as its file, passes at a factor of 2."""
    import random

    data = random.Random(0).randbytes(50_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(data))
    monkeypatch.setattr(compression, "FREE_BYTES", 10)
    monkeypatch.setenv(compression.EXPANSION_VARIABLE, "2")
    assert read_bytes(path) == data


COMPRESS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstandard.ZstdCompressor().compress}
TEXTS = b"x" * 300_000, b"", b"a b\n"  # more than a piece of decompressed data, none, a line


@pytest.mark.parametrize("kind", COMPRESS)
def test_streams_that_follow_each_other_are_one_file(tmp_path, kind):
    path, one = tmp_path / "a", [COMPRESS[kind](text) for text in TEXTS]
    path.write_bytes(b"".join(one))
    assert read_bytes(path) == b"".join(TEXTS)
    if kind != "zst":  # whose format has no padding
        for zeros in (4, 1 << 17):
            path.write_bytes(one[0] + bytes(zeros) + one[2] + bytes(zeros))
            assert read_bytes(path) == TEXTS[0] + TEXTS[2]


@pytest.mark.parametrize("rest", ["plain", "other", "cut"])
@pytest.mark.parametrize("kind", COMPRESS)
def test_what_follows_and_is_no_stream_is_not_dropped(tmp_path, kind, rest):
    """Appended with ``cat``, say: text, the format of another tool, or a copy that broke off."""
    compress, path = COMPRESS[kind], tmp_path / "a"
    other = COMPRESS["xz" if kind == "gz" else "gz"]
    path.write_bytes(compress(b"a\n") + {"plain": b"b\n" * 9, "other": other(b"b\n"), "cut": compress(b"b\n" * 99)[:-3]}[rest])
    with pytest.raises(FormatError, match="expected intact compressed data"):
        read_bytes(path)
