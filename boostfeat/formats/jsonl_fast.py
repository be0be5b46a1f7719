"""The fast reader of JSON lines: a numba kernel over bytes, for lists of dense features as our own writer makes them.

It reads a file to its end or not at all: what it does not understand (other keys, sparse features, quality columns, numbers whose
last bit is not certain) is for the plain reader, which then reads the whole file.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from ..core.arrays import Array, offsets
from ..core.files import Block
from ..core.kernels import kernel
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from .byte_kernels import hash_bytes, is_blank, is_digit, put_bytes, read_digits, read_number, same_bytes
from .columns import (
    ColumnReader,
    Labels,
    Part,
    Room,
    are_links,
    filled_part,
    find_seen,
    marks,
    put_words,
    string_column,
)

_NAMES = (
    "id",
    "source",
    "refs",
    "hyps",
    "text",
    "score",
    "features",
    "units",
    "src",
    "tgt",
    "x",
    "src_text",
    "tgt_text",
    "align",
)
_ID, _SOURCE, _REFS, _HYPS, _TEXT, _SCORE, _FEATURES, _UNITS, _SRC, _TGT, _X, _SRC_TEXT, _TGT_TEXT, _ALIGN = range(len(_NAMES))
_KEYS = np.frombuffer("".join(_NAMES).encode(), np.uint8)
_KEY_PTR = offsets(np.array([len(name) for name in _NAMES]))
_NULL = np.frombuffer(b"null", np.uint8)
_UNKNOWN = np.int64(-1)
_ANY = np.int64(sys.maxsize)  # as many as there are

# Sentences of a block. The source of sentence s is source[source_ptr[s]:source_ptr[s+1]], its references are n_refs[s] of ref.
Sentences = namedtuple("Sentences", "id n_hyps source source_ptr n_refs ref ref_ptr")


@kernel
def _skip(buf, i, end):  # type: ignore[no-untyped-def]
    """Where buf[i:end] has its first byte that is no blank of JSON."""
    while i < end and (is_blank(buf[i]) or buf[i] == 13):
        i += 1
    return i


@kernel
def _sign(buf, i, end, sign):  # type: ignore[no-untyped-def]
    """The position after a sign and the blanks around it, -1 where it does not stand there."""
    if i < 0:
        return _UNKNOWN
    i = _skip(buf, i, end)
    return _skip(buf, i + 1, end) if i < end and buf[i] == sign else _UNKNOWN


@kernel
def _key(buf, i, end):  # type: ignore[no-untyped-def]
    """(which key, position of its value) of ``"key": value``; position -1 where it is none of ours."""
    i = _skip(buf, i, end) if i >= 0 else end
    if i >= end or buf[i] != 34:
        return _UNKNOWN, _UNKNOWN
    i += 1  # blanks after the quote are the key's own
    stop = i
    while stop < end and buf[stop] != 34:
        stop += 1
    for k in range(len(_KEY_PTR) - 1):
        n = _KEY_PTR[k + 1] - _KEY_PTR[k]
        if n == stop - i and same_bytes(buf, i, _KEYS, _KEY_PTR[k], n):
            return np.int64(k), _sign(buf, stop + 1, end, 58)
    return _UNKNOWN, _UNKNOWN


@kernel
def _is_null(buf, i, end):  # type: ignore[no-untyped-def]
    return i + 4 <= end and same_bytes(buf, i, _NULL, 0, 4)


@kernel
def _number(buf, i, end):  # type: ignore[no-untyped-def]
    """(value, position after it): as read_number, but what JSON does not take for a number is none."""
    first = i + 1 if i < end and buf[i] == 45 else i
    if first >= end or not is_digit(buf[first]) or (buf[first] == 48 and first + 1 < end and is_digit(buf[first + 1])):
        return 0.0, _UNKNOWN
    value, stop = read_number(buf, i, end)
    for k in range(first, stop):
        if buf[k] == 46 and (k + 1 >= stop or not is_digit(buf[k + 1])):
            return 0.0, _UNKNOWN
    return value, stop


@kernel
def _whole(buf, i, end):  # type: ignore[no-untyped-def]
    """(whole number from 0, position after it)."""
    if i < 0 or (i + 1 < end and buf[i] == 48 and is_digit(buf[i + 1])):
        return np.int64(0), _UNKNOWN
    value, stop = read_digits(buf, i, end)
    if stop >= 0 and stop < end and (buf[stop] == 46 or buf[stop] == 69 or buf[stop] == 101 or is_digit(buf[stop])):
        return value, _UNKNOWN
    return value, stop


@kernel
def _span(buf, i, end):  # type: ignore[no-untyped-def]
    """(start, end, position after it) of ``[1, 2]``."""
    first, i = _whole(buf, _sign(buf, i, end, 91), end)
    last, i = _whole(buf, _sign(buf, i, end, 44), end)
    i = _sign(buf, i, end, 93)
    return first, last, (i if first <= last else _UNKNOWN)


@kernel
def _hex(buf, i, end):  # type: ignore[no-untyped-def]
    """The value of four hexadecimal digits, -1 where they are none."""
    value = np.int64(0)
    if i + 4 > end:
        return _UNKNOWN
    for k in range(i, i + 4):
        c = np.int64(buf[k])
        digit = c - 48 if is_digit(c) else c - 87 if 97 <= c <= 102 else c - 55 if 65 <= c <= 70 else np.int64(99)
        if digit == 99:
            return _UNKNOWN
        value = value * 16 + digit
    return value


@kernel
def _put_character(code, out, at):  # type: ignore[no-untyped-def]
    """A character in UTF-8."""
    if code < 0x80:
        out[at] = code
        return at + 1
    n = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    for k in range(n - 1, 0, -1):
        out[at + k] = 0x80 | (code & 0x3F)
        code >>= 6
    out[at] = (0xF00 >> n) & 0xFF | code
    return at + n


@kernel
def _string(buf, i, end, out, at):  # type: ignore[no-untyped-def]
    """Copy a string to OUT out[at:]; (position after it, end of the copy). Escapes of control characters are not understood."""
    if i < 0 or i >= end or buf[i] != 34:
        return _UNKNOWN, at
    i += 1
    while i < end and buf[i] != 34:
        c = buf[i]
        if c < 32:
            return _UNKNOWN, at
        if c != 92:
            out[at] = c
            at += 1
            i += 1
            continue
        sign = buf[i + 1] if i + 1 < end else 0
        if sign == 34 or sign == 92 or sign == 47:
            out[at] = sign
            at += 1
            i += 2
            continue
        code = _hex(buf, i + 2, end) if sign == 117 else _UNKNOWN
        i += 6
        if 0xD800 <= code < 0xDC00:  # the first half of a character
            second = _hex(buf, i + 2, end) if i + 1 < end and buf[i] == 92 and buf[i + 1] == 117 else _UNKNOWN
            code = 0x10000 + ((code - 0xD800) << 10) + second - 0xDC00 if 0xDC00 <= second < 0xE000 else _UNKNOWN
            i += 6
        if code < 32 or 0xDC00 <= code < 0xE000:
            return _UNKNOWN, at
        at = _put_character(code, out, at)
    return (_skip(buf, i + 1, end) if i < end else _UNKNOWN), at


@kernel
def _first(buf, i, end):  # type: ignore[no-untyped-def]
    """(position, whether there is an item) after the start of a list, or after an empty one."""
    i = _sign(buf, i, end, 91)
    after = _sign(buf, i, end, 93)
    return (i, True) if after < 0 else (after, False)


@kernel
def _next(buf, i, end, close):  # type: ignore[no-untyped-def]
    """(position, whether more follows) after an item of a list or an object."""
    if i < 0:
        return _UNKNOWN, False
    i = _skip(buf, i, end)
    if i < end and buf[i] == 44:
        return _skip(buf, i + 1, end), True
    return _sign(buf, i, end, close), False


@kernel
def _numbers(buf, i, end, out):  # type: ignore[no-untyped-def]
    """Exactly as many numbers as OUT out has, in a list; returns the position after it."""
    i = _sign(buf, i, end, 91)
    for d in range(len(out)):
        if i >= 0:
            out[d], i = _number(buf, i, end)
        i, more = _next(buf, i, end, 93)
        if i < 0 or more != (d + 1 < len(out)):
            return _UNKNOWN
    return i if len(out) else _sign(buf, i, end, 93)


@kernel
def _named_numbers(buf, i, end, labels, out):  # type: ignore[no-untyped-def]
    """Numbers under exactly these names (in quotes, as in ``labels``), in an object; returns the position after it."""
    i = _sign(buf, i, end, 123)
    for d in range(len(out)):
        n = labels.ptr[d + 1] - labels.ptr[d]
        if i < 0 or i + n > end or not same_bytes(buf, i, labels.text, labels.ptr[d], n):
            return _UNKNOWN
        i = _sign(buf, i + n, end, 58)
        if i >= 0:
            out[d], i = _number(buf, i, end)
        i, more = _next(buf, i, end, 125)
        if i < 0 or more != (d + 1 < len(out)):
            return _UNKNOWN
    return i if len(out) else _sign(buf, i, end, 125)


@kernel
def _unit(buf, i, end, text, starts, n_words, source, source_starts, n_source, scratch, seen, units, v):  # type: ignore[no-untyped-def]
    """One unit: (its number, source start, target start, position after it); it is number v where it is new."""
    src = src_end = tgt = tgt_end = _UNKNOWN
    x = x_end = np.int64(0)
    score = np.nan
    src_a = src_b = tgt_a = tgt_b = align_a = align_b = at = np.int64(0)  # own texts are in scratch
    own_src = own_tgt = False
    i, more = _sign(buf, i, end, 123), True
    had = 0
    while more:
        key, i = _key(buf, i, end)
        if i < 0 or (had >> key) & 1:
            return 0, src, tgt, _UNKNOWN
        had |= 1 << key
        if key == _SRC:
            src, src_end, i = _span(buf, i, end)
        elif key == _TGT:
            tgt, tgt_end, i = _span(buf, i, end)
        elif key == _X:
            x = i
            while i < end and buf[i] != 93:
                i += 1
            i += 1
            x_end = i
        elif key == _SRC_TEXT:
            src_a, own_src = at, True
            i, at = _string(buf, i, end, scratch, at)
            src_b = at
        elif key == _TGT_TEXT:
            tgt_a, own_tgt = at, True
            i, at = _string(buf, i, end, scratch, at)
            tgt_b = at
        elif key == _ALIGN:
            align_a = at
            i, at = _string(buf, i, end, scratch, at)
            align_b = at
        elif key == _SCORE:
            if _is_null(buf, i, end):
                score, i = np.nan, i + 4
            else:
                score, i = _number(buf, i, end)
        else:
            return 0, src, tgt, _UNKNOWN
        i, more = _next(buf, i, end, 125)
        if i < 0:
            return 0, src, tgt, _UNKNOWN
    if tgt_end > n_words or (n_source and src_end > n_source):
        return 0, src, tgt, _UNKNOWN
    n_src, n_tgt = (src_end - src if src >= 0 else _UNKNOWN), (tgt_end - tgt if tgt >= 0 else _UNKNOWN)
    if not are_links(scratch, align_a, align_b, n_src if n_src > 0 else _ANY, n_tgt if n_tgt > 0 else _ANY):
        return 0, src, tgt, _UNKNOWN
    src_text, tgt_text = scratch if own_src else source, scratch if own_tgt else text
    if not own_src and n_src > 0 and n_source:
        src_a, src_b = source_starts[src], source_starts[src_end] - 1
    if not own_tgt and n_tgt > 0:
        tgt_a, tgt_b = starts[tgt], starts[tgt_end] - 1
    h1, h2 = hash_bytes(buf, x, x_end, np.uint64(n_src + 1), np.uint64(n_tgt + 1))
    h1, h2 = hash_bytes(tgt_text, tgt_a, tgt_b, h1, h2)
    h1, h2 = hash_bytes(src_text, src_a, src_b, h1, h2)
    h1, h2 = hash_bytes(scratch, align_a, align_b, h1, h2)
    slot = find_seen(seen, h1, h2)
    if seen.table[slot] < 0:
        row = units.x[v]
        row[:] = 0.0
        if x_end and _numbers(buf, x, x_end, row) < 0:
            return 0, src, tgt, _UNKNOWN
        if units.src_ptr[v] + src_b - src_a > len(units.src):
            return 0, src, tgt, _UNKNOWN
        units.tgt_ptr[v + 1] = put_bytes(tgt_text, tgt_a, tgt_b, units.tgt, units.tgt_ptr[v])
        units.src_ptr[v + 1] = put_bytes(src_text, src_a, src_b, units.src, units.src_ptr[v])
        units.align_ptr[v + 1] = put_bytes(scratch, align_a, align_b, units.align, units.align_ptr[v])
        units.src_len[v], units.tgt_len[v], units.score[v] = n_src, n_tgt, score
        seen.hash[v], seen.hash2[v] = h1, h2
        seen.table[slot] = v
    return np.int64(seen.table[slot]), src, tgt, i


@kernel
def _scan(buf, ends, limit, until, labels, scratch, seen, units, lines, sentences):  # type: ignore[no-untyped-def]
    """Read lines into OUT units, lines and sentences.

    Returns (position, hypotheses, occurrences, units, sentences, references, whether sentence ``until`` was met): the position
    is before the first line that it does not understand.
    """
    longest = 2
    for line in range(len(ends)):
        longest = max(longest, ends[line] - (ends[line - 1] if line else 0))
    starts, source_starts = np.empty(longest // 2 + 3, np.int64), np.empty(longest // 2 + 3, np.int64)
    n_hyps, n_occ, n_seen, n_sents, n_refs, pos = 0, 0, 0, 0, 0, np.int64(0)
    last_id = _UNKNOWN
    for line in range(len(ends)):
        end = ends[line]
        i = _skip(buf, pos, end)
        if i == end:
            pos = end + 1
            continue
        ident, had, more = _UNKNOWN, 0, True
        first_hyp, first_occ, first_seen, first_ref = n_hyps, n_occ, n_seen, n_refs
        n_source = 0
        sentences.source_ptr[n_sents + 1] = sentences.source_ptr[n_sents]
        i = _sign(buf, i, end, 123)
        while more and i >= 0:
            key, i = _key(buf, i, end)
            if i < 0 or (had >> key) & 1 or (key == _SOURCE and (had >> _HYPS) & 1):  # spans are in the source
                i = _UNKNOWN
                break
            had |= 1 << key
            if key == _ID:
                ident, i = _whole(buf, i, end)
            elif key == _SOURCE:
                i, size = _string(buf, i, end, scratch, 0)
                at = sentences.source_ptr[n_sents]
                n_source = put_words(scratch, 0, size, sentences.source, at, source_starts)
                sentences.source_ptr[n_sents + 1] = source_starts[n_source] - (1 if n_source else 0)
            elif key == _REFS:
                i, again = _first(buf, i, end)
                while again:
                    i, size = _string(buf, i, end, scratch, 0)
                    n_words = put_words(scratch, 0, size, sentences.ref, sentences.ref_ptr[n_refs], starts)
                    n_refs += 1
                    sentences.ref_ptr[n_refs] = starts[n_words] - (1 if n_words else 0)
                    i, again = _next(buf, i, end, 93)
            elif key == _HYPS:
                i, again = _first(buf, i, end)
                while again:
                    own, n_units, n_words, n_new, score = 0, 0, 0, n_seen, np.nan
                    lines.text_ptr[n_hyps + 1] = lines.text_ptr[n_hyps]
                    i, inside = _sign(buf, i, end, 123), True
                    while inside and i >= 0:
                        key, i = _key(buf, i, end)
                        if i < 0 or (own >> key) & 1 or (key == _UNITS and not (own >> _TEXT) & 1):  # spans are in the text
                            i = _UNKNOWN
                            break
                        own |= 1 << key
                        if key == _TEXT:
                            i, size = _string(buf, i, end, scratch, 0)
                            n_words = put_words(scratch, 0, size, lines.text, lines.text_ptr[n_hyps], starts)
                            lines.text_ptr[n_hyps + 1] = starts[n_words] - (1 if n_words else 0)
                        elif key == _SCORE:
                            if _is_null(buf, i, end):
                                i += 4
                            else:
                                score, i = _number(buf, i, end)
                        elif key == _FEATURES:
                            i = _named_numbers(buf, i, end, labels, lines.extra[n_hyps])
                        elif key == _UNITS:
                            i, another = _first(buf, i, end)
                            while another:
                                u, src, tgt, i = _unit(
                                    buf, i, end, lines.text, starts, n_words, sentences.source, source_starts, n_source,
                                    scratch, seen, units, n_new,
                                )  # fmt: skip
                                if i < 0:
                                    break
                                lines.unit[n_occ + n_units] = u
                                lines.src_start[n_occ + n_units] = src
                                lines.tgt_start[n_occ + n_units] = tgt
                                n_units += 1
                                n_new += u == n_new
                                i, another = _next(buf, i, end, 93)
                        else:
                            i = _UNKNOWN
                        i, inside = _next(buf, i, end, 125)
                    if i < 0 or not (own >> _TEXT) & 1 or (not (own >> _FEATURES) & 1 and lines.extra.shape[1]):
                        i = _UNKNOWN
                        break
                    if n_hyps - first_hyp < limit:
                        lines.sent[n_hyps] = ident
                        lines.score[n_hyps] = score
                        lines.n_units[n_hyps] = n_units
                        n_hyps += 1
                        n_occ += n_units
                        n_seen = n_new
                    elif n_new > n_seen:
                        i = _UNKNOWN  # units of what is left out would stay in the table
                        break
                    i, again = _next(buf, i, end, 93)
            else:
                i = _UNKNOWN
            i, more = _next(buf, i, end, 125)
        if i != end or ident <= last_id:
            return pos, n_hyps, n_occ, n_seen, n_sents, n_refs, False
        if ident >= until:
            return pos, first_hyp, first_occ, first_seen, n_sents, first_ref, True
        lines.sent[first_hyp:n_hyps] = ident  # the id may come last
        sentences.id[n_sents], sentences.n_hyps[n_sents], sentences.n_refs[n_sents] = (
            ident,
            n_hyps - first_hyp,
            n_refs - first_ref,
        )
        n_sents += 1
        last_id = ident
        pos = end + 1
    return pos, n_hyps, n_occ, n_seen, n_sents, n_refs, False


class FastReader(ColumnReader):
    """Sentences after a header, all of whose hypotheses have these features."""

    def __init__(self, unit_names: Sequence[str], extra_names: Sequence[str], options: ReadOptions) -> None:
        super().__init__(unit_names, extra_names, options)
        text = [msgspec.json.encode(name) for name in self.extra_names]
        sizes = np.array([len(t) for t in text], np.int64)
        self.labels = Labels(np.frombuffer(b"".join(text) or b" ", np.uint8), offsets(sizes), np.ones(len(text), np.int64))
        self.sentences: list[Any] = []

    def parse_block(self, block: Block, room: Room) -> Part:
        buf, ends, _ = marks(block, room)
        most = int(np.count_nonzero(buf == 123)) + 1  # objects, and what they may hold
        units, lines = (
            room.units(most, len(self.unit_names), block.end, 4 * block.end),
            room.lines(most, len(self.extra_names), most, block.end),
        )
        sentences = room.sentences(Sentences, len(ends), block.end)
        given = (self.limit, self.first, self.labels, room.array("scratch", block.end, np.uint8))
        end, n, r, v, s, n_refs, is_last = _scan(buf, ends, *given, room.seen(most), units, lines, sentences)
        part = filled_part(lines, units, ends, end, n, r, v, is_last)
        sizes = {"source": sentences.source_ptr[s], "source_ptr": s + 1, "ref": sentences.ref_ptr[n_refs], "ref_ptr": n_refs + 1}
        part.sentences = Sentences(**{k: c[: sizes.get(k, s)].copy() for k, c in sentences._asdict().items()})
        return part

    def take(self, part: Part) -> int:
        ids = part.sentences.id
        if len(ids) and self.sentences and ids[0] <= self.sentences[-1].id[-1]:
            return 0
        if len(ids):
            self.sentences.append(part.sentences)
        return super().take(part)

    def finish(self) -> NBest:
        texts = {name: _joined_texts(self.sentences, name) for name in ("source", "ref")}
        counts = {
            name: np.concatenate([np.zeros(0, np.int64), *(getattr(p, name) for p in self.sentences)])
            for name in ("id", "n_hyps", "n_refs")
        }
        return replace(
            super().finish(),
            ids=counts["id"],
            hyp_ptr=offsets(counts["n_hyps"]),
            source=texts["source"],
            ref_ptr=offsets(counts["n_refs"]),
            refs=texts["ref"],
        )


def _joined_texts(parts: Sequence[Any], name: str) -> Any:
    sizes: list[Array] = [np.diff(getattr(part, name + "_ptr")) for part in parts]
    data = np.concatenate([np.zeros(0, np.uint8), *(getattr(part, name) for part in parts)])
    return string_column(offsets(np.concatenate([np.zeros(0, np.int64), *sizes])), data)
