"""C text of templates of the phrase pair, which the C source and Moses' feature function share (``unit_text.h.in``).

Sparse features are computed from words and links, and looked up by a hash of their names.
"""

from __future__ import annotations

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

# Dense features of the texts as C expressions of `u`, `src` and `tgt` words
TEXT: dict[str, str] = {
    "len.src": "src",
    "len.tgt": "tgt",
    "len.diff": "tgt - src",
    "len.absdiff": "tgt < src ? src - tgt : tgt - src",
    "len.ratio": "src != 0 ? tgt / src : 0.0",
    **{f"size.{i}x{j}": f"$_at_most_3(u->n_src) == {i} && $_at_most_3(u->n_tgt) == {j}" for i in (1, 2, 3) for j in (1, 2, 3)},
    "chars.src": "$_characters(u->src, u->n_src)",
    "chars.tgt": "$_characters(u->tgt, u->n_tgt)",
    "chars.ratio": "$_characters(u->src, u->n_src) != 0 ? $_characters(u->tgt, u->n_tgt) / $_characters(u->src, u->n_src) : 0.0",
    "un.src": "$_unlinked(u, 0)",
    "un.src.first": "u->n_src && !$_is_linked(u, 0, 0)",
    "un.src.last": "u->n_src && !$_is_linked(u, 0, u->n_src - 1)",
    "un.tgt": "$_unlinked(u, 1)",
    "un.tgt.first": "u->n_tgt && !$_is_linked(u, 1, 0)",
    "un.tgt.last": "u->n_tgt && !$_is_linked(u, 1, u->n_tgt - 1)",
    "al.links": "u->n_links",
    "al.cross": "$_crossings(u)",
    "al.most.src": "$_most_links(u, 0)",
    "al.most.tgt": "$_most_links(u, 1)",
    "num.src": "$_numbers(u, 0, 0)",
    "num.tgt": "$_numbers(u, 1, 0)",
    "num.lost": "$_numbers(u, 0, 1)",
    "num.added": "$_numbers(u, 1, 1)",
}
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
        return cls(
            bits,
            first,
            keys,
            np.array([weights[names[k]] for k in order]),
            np.array([slots.get(names[k], -1) for k in order], np.int64),
        )


@cache
def c_text() -> str:
    """Return the C text, with $ for the prefix and $$ for its capitals."""
    cases = "\n".join(f"    case {k}: return {c}; /* {name} */" for k, (name, c) in enumerate(TEXT.items()))
    bits = ", ".join(f"$$_{name.upper()} = {1 << k}" for k, name in enumerate((*PAIR_TEMPLATES, *CONTEXT_TEMPLATES)))
    return filled("unit_text.h.in", {"TEMPLATES": bits, "CASES": cases})


def c_functions() -> str:
    """Return the C text without its types, for a source that declares them."""
    text = c_text()
    return text[text.index("/* Weights of sparse features by a 64-bit hash") :]


TEXT_NUMBER = {name: k for k, name in enumerate(TEXT)}
