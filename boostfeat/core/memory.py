"""Memory that a stage has freed goes back to the system before the next one asks for more."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

from .arrays import Array


def give_back(*mapped: Array) -> None:
    """What was freed in pieces, the C library keeps: after templates, as much as the list itself. Only glibc can be asked.

    With it go the pages of the files that these columns are views of.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
    for column in mapped:
        if column.nbytes >= mmap.PAGESIZE:  # to look for the file of fewer takes longer than to rank the list
            Pages(column).let_go()


class Pages:
    """The pages of the mapped file that a column is a view of; none, if it is an array of the process itself."""

    def __init__(self, column: Array) -> None:
        self._where: tuple[int, int] | None = None
        if sys.platform != "linux" or not column.size:  # others cannot be asked
            return
        address = column.ctypes.data
        for line in Path("/proc/self/maps").read_bytes().split(b"\n")[:-1]:  # bytes, as names of files are
            where, rights, _, _, file = line.split(maxsplit=5)[:5]
            start, end = (int(address, 16) for address in where.split(b"-"))
            if start <= address < end and file != b"0" and rights.startswith(b"r-"):  # of a file, and read only
                self._where = start, end - start

    def let_go(self) -> None:
        """They stay in the system's cache, but count no longer as this process's. They come back when they are read again."""
        if self._where is not None:
            start, size = self._where
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)
