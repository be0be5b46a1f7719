"""C text of templates of the phrase pair, which the C source and Moses' feature function share (``unit_text.h.in``).

Sparse features are computed from words and links, and looked up by a hash of their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..features import TEMPLATES
from .target import filled

PAIR_TEMPLATES = ("pt", "id", "shape", "al", "del", "wp", "ins", "un")  # in the order of the bits in C
CLASS_TEMPLATES = ("cb", "co", "cc")  # of word classes
CONTEXT_TEMPLATES = ("bi", "lo", "cx", *CLASS_TEMPLATES)

DENSE_TEMPLATES = ("length", "size", "characters", "unaligned", "links", "numbers")  # templates whose features those are


def template_bits(names: Collection[str]) -> int:
    """Return the sparse templates of these names, as bits."""
    found = {name.partition(":")[0] for name in names}
    return sum(1 << k for k, name in enumerate((*PAIR_TEMPLATES, *CONTEXT_TEMPLATES)) if name in found)


def template_of(name: str) -> str | None:
    """Return the sparse template that gave a name."""
    prefix, colon, _ = name.partition(":")
    return prefix if colon and prefix in TEMPLATES else None


# -- the hash ---------------------------------------------------------------------------------------------------------------

_MASK = (1 << 64) - 1


def name_key(name: str) -> int:
    """Return the key of a name, as ``_key(_begin(name))`` in C."""
    h = 14695981039346656037
    for byte in name.encode("utf-8", "surrogatepass"):
        h = (h ^ byte) * 1099511628211 & _MASK
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    h = (h ^ (h >> 27)) * 0x94D049BB133111EB & _MASK
    return h ^ (h >> 31)


@dataclass(frozen=True)
class HashTable:
    """Sorted keys; those with high bits b stand from first[b] on."""

    bits: int
    first: I64
    keys: np.ndarray  # uint64
    weights: F64
    slots: I64

    @classmethod
    def of(cls, weights: Mapping[str, float], slots: Mapping[str, int]) -> HashTable:
        names = list(weights)
        keys = np.array([name_key(name) for name in names], np.uint64)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        if (keys[1:] == keys[:-1]).any():
            k = int(np.argmax(keys[1:] == keys[:-1]))
            a, b = names[order[k]], names[order[k + 1]]
            raise InputError(f"features {a!r} and {b!r}: expected names with different hashes, found one; rename one of them")
        bits = max(1, len(names).bit_length())
        first = np.searchsorted(keys >> np.uint64(64 - bits), np.arange((1 << bits) + 1, dtype=np.uint64)).astype(np.int64)
        values, places = [weights[names[k]] for k in order], [slots.get(names[k], -1) for k in order]
        return cls(bits, first, keys, np.array(values), np.array(places, np.int64))


@cache
def c_text() -> str:
    """Return the C text, with $ for the prefix and $$ for its capitals."""
    bits = ", ".join(f"$$_{name.upper()} = {1 << k}" for k, name in enumerate((*PAIR_TEMPLATES, *CONTEXT_TEMPLATES)))
    return filled("unit_text.h.in", {"TEMPLATES": bits})


TEXT = {name: int(k) for k, name in re.findall(r"case (\d+): return .*; /\* (\S+) \*/", c_text())}  # dense features by number
