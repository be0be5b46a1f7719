"""From text to numbers: the words or characters of hypotheses and references, numbered sentence by sentence.

A symbol's number is its place among the distinct symbols of the sentence's references, in order of first
appearance; -1 is one that no reference has. Edit distances and clipped counts need no more, tables stay
small, and sentences can be numbered independently of each other.

    S sentences, H hypotheses, N references, T symbols
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import I32, I64, Array, block_ptr, in_threads
from ..core.kernels import kernel
from ..core.text import Strings, string_buffers

# What a symbol is, (spaces, separated): compiled kernels leave out what None says is not asked for
Kind = tuple[bool | None, bool | None]
WORDS: Kind = None, None  # what str.split gives
SEPARATED: Kind = None, True  # the same, with punctuation at the end or else at the beginning of a word split off (chrF++)
CHARACTERS: Kind = True, None  # code points of the text, white space at both ends left out
LETTERS: Kind = False, None  # code points that are no white space


class Texts(NamedTuple):
    """Hypotheses of sentence s, text[hyp_ptr[s]:hyp_ptr[s+1]], and likewise its references; offsets begin at 0."""

    hyp_ptr: I64  # [S+1]
    text: Strings  # [H]
    ref_ptr: I64  # [S+1]
    refs: Strings  # [N]


class Symbols(NamedTuple):
    """Hypotheses and references of some sentences as numbers."""

    hyp_ptr: I64  # [S+1] hypotheses of sentence s are hyp_ptr[s]:hyp_ptr[s+1]
    ptr: I64  # [H+1] symbols of hypothesis h are ids[ptr[h]:ptr[h+1]]
    ids: I32  # [T] -1: in no reference
    ref_ptr: I64  # [S+1] references of sentence s are ref_ptr[s]:ref_ptr[s+1]
    ref_sym_ptr: I64  # [N+1] symbols of reference r are ref_ids[ref_sym_ptr[r]:ref_sym_ptr[r+1]]
    ref_ids: I32
    n_types: I64  # [S] distinct symbols of the sentence's references


@kernel
def _wide_space(c, d, e):  # type: ignore[no-untyped-def]
    """Bytes of the white space that three bytes begin with, 0 if there is none."""
    if c == 0xC2:
        return 2 if d == 0x85 or d == 0xA0 else 0
    if c == 0xE1:
        return 3 if d == 0x9A and e == 0x80 else 0
    if c == 0xE2:
        if d == 0x80:
            return 3 if (0x80 <= e <= 0x8A) or e == 0xA8 or e == 0xA9 or e == 0xAF else 0
        return 3 if d == 0x81 and e == 0x9F else 0
    if c == 0xE3:
        return 3 if d == 0x80 and e == 0x80 else 0
    return 0


@kernel
def space_width(text, i, end):  # type: ignore[no-untyped-def]
    """Bytes of the white space character at i, 0 if there is none: exactly what ``str.split`` splits on."""
    c = text[i]
    if c < 0xC2:
        return np.int64(c == 32 or 9 <= c <= 13 or 28 <= c <= 31)
    return np.int64(_wide_space(c, text[i + 1] if i + 1 < end else 0, text[i + 2] if i + 2 < end else 0))


@kernel
def split_tokens(text, begin, end, starts, ends, hashes):  # type: ignore[no-untyped-def]
    """Token boundaries and hashes (FNV-1a) of text[begin:end] into OUT starts, ends, hashes; returns their number."""
    n, i = 0, begin
    while i < end:
        width = space_width(text, i, end)
        if width:
            i += width
            continue
        starts[n] = i
        h = np.uint64(14695981039346656037)
        while i < end and not space_width(text, i, end):
            h = (h ^ np.uint64(text[i])) * np.uint64(1099511628211)
            i += 1
        ends[n] = i
        hashes[n] = h
        n += 1
    return n


@kernel
def token_id(text, begin, end, h, ref, table, type_start, type_end):  # type: ignore[no-untyped-def]
    """(id, slot) of a token among the sentence's reference tokens, id -1 if it is none: equal hashes are compared by bytes."""
    mask = np.uint64(len(table) - 1)
    slot = (h ^ (h >> np.uint64(29))) & mask
    while table[slot] >= 0:
        t = table[slot]
        if type_end[t] - type_start[t] == end - begin:
            i, j = begin, type_start[t]
            while i < end and ref[j] == text[i]:
                i += 1
                j += 1
            if i == end:
                return np.int64(t), slot
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1), slot


@kernel
def power_of_two(n):  # type: ignore[no-untyped-def]
    size = 8
    while size < n:
        size *= 2
    return size


@kernel
def longest_part(ptr):  # type: ignore[no-untyped-def]
    """The length of the longest segment; 0 where there is none."""
    longest = 0
    for k in range(len(ptr) - 1):
        longest = max(longest, ptr[k + 1] - ptr[k])
    return longest


@kernel
def _hash(text, begin, end):  # type: ignore[no-untyped-def]
    """FNV-1a, as split_tokens computes it."""
    h = np.uint64(14695981039346656037)
    for i in range(begin, end):
        h = (h ^ np.uint64(text[i])) * np.uint64(1099511628211)
    return h


@kernel
def _is_punctuation(c):  # type: ignore[no-untyped-def]
    """Whether a byte is one of Python's string.punctuation."""
    return 33 <= c <= 47 or 58 <= c <= 64 or 91 <= c <= 96 or 123 <= c <= 126


@kernel
def _width(c):  # type: ignore[no-untyped-def]
    """Bytes of the UTF-8 character whose first byte is c."""
    return 1 if c < 0x80 else 2 if c < 0xE0 else 3 if c < 0xF0 else 4


@kernel
def _split_characters(text, begin, end, spaces, starts, ends, hashes):  # type: ignore[no-untyped-def]
    """Characters of text[begin:end] into OUT starts, ends, hashes; returns their number.

    With spaces, white space counts between the first and the last character that is none.
    """
    n = kept = 0
    i = begin
    while i < end:
        width = space_width(text, i, end)
        if width and (n == 0 or not spaces):
            i += width
            continue
        starts[n] = i
        ends[n] = i + (width if width else _width(text[i]))
        hashes[n] = _hash(text, i, ends[n])
        i = ends[n]
        n += 1
        if not width:
            kept = n
    return kept


@kernel
def _separation(text, begin, end):  # type: ignore[no-untyped-def]
    """Return where chrF++ divides a word: before its last mark, or else behind its first; 0: nowhere."""
    if begin + _width(text[begin]) >= end:
        return 0  # a word of one character
    if _is_punctuation(text[end - 1]):
        return end - 1
    return begin + 1 if _is_punctuation(text[begin]) else 0


@kernel
def _separate_punctuation(text, n, starts, ends, hashes):  # type: ignore[no-untyped-def]
    """Divide the n words of INOUT starts, ends, hashes at their punctuation; returns their number."""
    at = n
    for i in range(n):
        if _separation(text, starts[i], ends[i]):
            at += 1
    total = at
    for i in range(n - 1, -1, -1):  # from behind: what a word moves to has been moved already
        begin, end = starts[i], ends[i]
        cut = _separation(text, begin, end)
        at -= 1
        starts[at], ends[at], hashes[at] = begin, end, hashes[i]
        if cut:
            starts[at], hashes[at] = cut, _hash(text, cut, end)
            at -= 1
            starts[at], ends[at], hashes[at] = begin, cut, _hash(text, begin, cut)
    return total


@kernel
def _split(text, begin, end, spaces, separated, starts, ends, hashes):  # type: ignore[no-untyped-def]
    """Symbols of text[begin:end] into OUT starts, ends, hashes; returns their number."""
    if spaces is not None:
        return _split_characters(text, begin, end, spaces, starts, ends, hashes)
    n = split_tokens(text, begin, end, starts, ends, hashes)
    if separated is not None:
        return _separate_punctuation(text, n, starts, ends, hashes)
    return n


@kernel
def _number(  # type: ignore[no-untyped-def]
    hyp_ptr, text_ptr, text, ref_ptr, ref_text_ptr, ref, spaces, separated, ptr, ids, ref_sym_ptr, ref_ids, n_types
):
    """IN hyp_ptr[S+1], text_ptr[H+1], text, ref_ptr[S+1], ref_text_ptr[N+1], ref; OUT the rest of Symbols.

    hyp_ptr and ref_ptr begin at 0, text_ptr and ref_text_ptr anywhere in text and ref.
    """
    longest = max(longest_part(text_ptr), longest_part(ref_text_ptr))
    starts, ends = np.empty(longest, np.int64), np.empty(longest, np.int64)
    hashes = np.empty(longest, np.uint64)
    ptr[0] = ref_sym_ptr[0] = 0
    for s in range(len(hyp_ptr) - 1):
        most = ref_text_ptr[ref_ptr[s + 1]] - ref_text_ptr[ref_ptr[s]]  # a symbol has a byte at least
        table = np.full(power_of_two(2 * most), -1, np.int32)
        type_start, type_end = np.empty(most, np.int64), np.empty(most, np.int64)
        types = table, type_start, type_end
        n_known = 0
        for r in range(ref_ptr[s], ref_ptr[s + 1]):
            place = ref_sym_ptr[r]
            n = _split(ref, ref_text_ptr[r], ref_text_ptr[r + 1], spaces, separated, starts, ends, hashes)
            for i in range(n):
                t, slot = token_id(ref, starts[i], ends[i], hashes[i], ref, *types)
                if t < 0:
                    t = np.int64(n_known)
                    table[slot] = t
                    type_start[t], type_end[t] = starts[i], ends[i]
                    n_known += 1
                ref_ids[place + i] = t
            ref_sym_ptr[r + 1] = place + n
        n_types[s] = n_known
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            n = _split(text, text_ptr[h], text_ptr[h + 1], spaces, separated, starts, ends, hashes)
            for i in range(n):
                ids[ptr[h] + i] = token_id(text, starts[i], ends[i], hashes[i], ref, *types)[0]
            ptr[h + 1] = ptr[h] + n


def number_symbols(texts: Texts, kind: Kind) -> Symbols:
    """Symbols of hypotheses and references."""
    hyp_ptr, ref_ptr = np.array(texts.hyp_ptr), np.array(texts.ref_ptr)  # read-only ones would be compiled for once more
    text_ptr, hyp_bytes = string_buffers(texts.text)
    ref_text_ptr, ref_bytes = string_buffers(texts.refs)
    symbols = Symbols(
        hyp_ptr=hyp_ptr,
        ptr=np.empty(len(texts.text) + 1, np.int64),
        ids=np.empty(text_ptr[-1] - text_ptr[0], np.int32),
        ref_ptr=ref_ptr,
        ref_sym_ptr=np.empty(len(texts.refs) + 1, np.int64),
        ref_ids=np.empty(ref_text_ptr[-1] - ref_text_ptr[0], np.int32),
        n_types=np.empty(len(hyp_ptr) - 1, np.int64),
    )
    _number(
        *(hyp_ptr, text_ptr, hyp_bytes, ref_ptr, ref_text_ptr, ref_bytes, *kind),
        *(symbols.ptr, symbols.ids, symbols.ref_sym_ptr, symbols.ref_ids, symbols.n_types),
    )
    return symbols


def fill_rows(fill: Callable[..., None], out: Array, texts: Texts, kinds: Sequence[Kind], threads: int = 1) -> Array:
    """OUT out[H, ...], by fill(rows of some hypotheses, Symbols of each kind) on fixed blocks of sentences.

    Kernels run in threads; the result does not depend on their number.
    """
    if (np.diff(texts.ref_ptr) < 1).any():
        s = int(np.argmin(np.diff(texts.ref_ptr)))
        raise ValueError(f"sentence {s}: expected at least one reference, found none")
    cuts = block_ptr(len(texts.hyp_ptr) - 1)

    def work(k: int) -> None:
        some = slice(cuts[k], cuts[k + 1] + 1)
        hyp_ptr, ref_ptr = texts.hyp_ptr[some], texts.ref_ptr[some]
        (h0, h1), (r0, r1) = hyp_ptr[[0, -1]], ref_ptr[[0, -1]]
        block = Texts(hyp_ptr - h0, texts.text.slice(h0, h1 - h0), ref_ptr - r0, texts.refs.slice(r0, r1 - r0))
        fill(out[h0:h1], *(number_symbols(block, kind) for kind in kinds))

    in_threads(work, range(len(cuts) - 1), threads)
    return out


def lower(column: Strings) -> Strings:
    """The texts as str.lower gives them. Beyond ASCII, pyarrow differs: of İ, and of Σ at a word's end."""
    ptr, text = string_buffers(column)
    if text[ptr[0] : ptr[-1]].max(initial=0) < 0x80:
        return pc.ascii_lower(column)
    return pa.array([line.lower() for line in column.to_pylist()], pa.large_string())
