"""Memory of a stage goes back to the system."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core import memory
from boostfeat.core.memory import Pages, give_back

pytestmark = pytest.mark.quick


def test_the_c_library_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: type("Library", (), {"malloc_trim": asked.append}))
    give_back()
    assert asked == [0]


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back()


def test_the_pages_of_mapped_columns_go_too(monkeypatch):
    """If there is a whole one: of a short list, nothing is worth the look."""
    gone = []
    monkeypatch.setattr(memory, "Pages", lambda column: type("Pages", (), {"let_go": lambda self: gone.append(column)})())
    one, other, short = np.zeros(mmap.PAGESIZE, np.uint8), np.zeros(mmap.PAGESIZE), np.zeros(mmap.PAGESIZE - 1, np.uint8)
    give_back(one, short, other)
    assert [column is wanted for column, wanted in zip(gone, (one, other), strict=True)] == [True, True]


class Library:
    """A C library that keeps what it is asked to let go."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, int, int]] = []

    def madvise(self, start, size, advice):
        self.gone.append((start.value, size.value, advice))


@pytest.mark.skipif(sys.platform != "linux", reason="others cannot be asked")
def test_the_pages_of_a_file_are_let_go_whole(tmp_path: Path, monkeypatch) -> None:
    """All pages of the file that a column lies in, wherever in it; of what is no file, or could be written to, none."""
    path = tmp_path / "file"
    np.arange(3 * mmap.PAGESIZE, dtype=np.uint8).tofile(path)
    column = np.memmap(path, np.uint8, mode="r")
    start, size = column.ctypes.data, 3 * mmap.PAGESIZE
    own, writable = np.ones(1 << 20), np.memmap(path, np.uint8, mode="c")
    library = Library()
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda name: library)
        for view in (column, column[5:9], column[-1:], column[:0], own, own[:0], writable):
            Pages(view).let_go()
    assert library.gone == [(start, size, mmap.MADV_DONTNEED)] * 3
    before = column.copy()
    Pages(column).let_go()
    np.testing.assert_array_equal(column, before)  # they come back
