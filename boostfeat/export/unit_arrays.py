"""The texts of a list's units as arrays that C reads: a dictionary of words as bytes, rows of words, and links."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from ..core.arrays import I64, Array
from ..core.strings import Strings
from ..lists.nbest import Units
from ..lists.words import Words, parse_alignments, tokenise


@dataclass(frozen=True)
class UnitArrays:
    """Words of rows: first those of ``more`` (source sentences, say), then the units' sources, then their targets."""

    texts: Array  # bytes of the dictionary
    at: I64  # where each word of the dictionary begins, and the end
    ptr: I64  # of rows
    words: I64
    link_ptr: I64  # of units
    links: Array  # int32: source word, target word, ...; by source, then target

    @classmethod
    def of(cls, units: Units, more: Strings | None = None) -> UnitArrays:
        rows = tokenise(*([] if more is None else [more]), units.src, units.tgt)
        names = [name.encode("utf-8", "surrogatepass") for name in rows[0].names.to_pylist()]
        links = parse_alignments(units.align)
        order = np.lexsort((links.tgt, links.src, links.owner))
        pairs = np.stack([links.src[order], links.tgt[order]], axis=1)
        return cls(
            np.frombuffer(b"".join(names) + b"\0", np.uint8),
            np.concatenate([[0], np.cumsum([len(name) for name in names])]).astype(np.int64),
            *_joined(rows),
            links.ptr.astype(np.int64),
            np.ascontiguousarray(pairs.ravel(), np.int32),
        )

    @property
    def pointers(self) -> list[ctypes.c_void_p]:
        """Arguments of a C function, in the order of the fields; they live as long as this object."""
        return pointers(self.texts, self.at, self.ptr, self.words, self.link_ptr, self.links)


def pointers(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(a.ctypes.data) for a in arrays]


def _joined(parts: list[Words]) -> tuple[I64, I64]:
    shift = np.cumsum([0, *(len(part.ids) for part in parts)])
    ptr = np.concatenate([*(part.ptr[:-1] + shift[k] for k, part in enumerate(parts)), shift[-1:]])
    return ptr.astype(np.int64), np.concatenate([*(part.ids for part in parts), np.zeros(1, np.int64)]).astype(np.int64)
