"""Moses' plain n-best lists: ``id ||| text ||| features ||| score [||| segmentation] [||| word alignment]``.

Features are labelled ``d= 0 -1.5`` or, in old lists, ``d: 0 -1.5``. The segmentation is ``0-1=0 2-3=1-2`` (source words =
target words, inclusive) or, in old lists, inline: ``taming |0-1| politicians |2-3|``. Its phrases become units without
features; a word alignment without a segmentation has no unit to go to and is not kept.
"""

from __future__ import annotations

import re
from math import isnan
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow.compute as pc

from ...core.arrays import Array
from ...core.errors import FormatError, InputError, clip, counted
from ...core.kernels import kernel
from ...core.text import split_words
from ...lists.build import HypColumns, HypRecord, ReadOptions, UnitRecord
from ...lists.nbest import NBest, SparseRows, Units
from ..bar_kernel import (
    NONE,
    Source,
    find_unit,
    hash_bytes,
    put_bytes,
    read_digits,
    skip_blanks,
    source_slice,
)
from ..bar_lines import BarLines, NamedValues, read_bar_list, source_tokens, string_column, unit_columns
from ..fields import format_number, group_names, optional_score, read_features, sentence_id, split_fields
from ..sniffers import BLOCK

LAYOUT = "id ||| text ||| features ||| score [||| segmentation] [||| alignment]"
Span = tuple[int, int]
_MARK = re.compile(r"\|([0-9]{1,9})-([0-9]{1,9})\|")
_SEGMENT = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?=([0-9]{1,9})(?:-([0-9]{1,9}))?")
_POINT = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def read(path: str | Path, options: ReadOptions) -> NBest:
    """Read a list, by kernels as far as they understand it."""
    source = source_tokens(list(options.source or ()))
    longest = max((len(sentence.encode()) for sentence in options.source or ()), default=0)
    return read_bar_list(
        path,
        options,
        lambda lines: _columns(lines, options, source, longest),
        parse_line,
    )


def _columns(lines: BarLines, options: ReadOptions, source: Source, longest: int) -> tuple[BarLines, HypColumns]:
    sent = lines.ids()
    wanted = lines.wanted(sent, options)
    lines, sent = lines.take(wanted), sent[wanted]
    lines.odd |= (lines.n_fields < 3) | (lines.n_fields > 6) | lines.has_bars(1)
    features, score = lines.features(lines.field(2)), lines.numbers(lines.field(3))
    text_ptr, text, n_words = lines.words(lines.field(1))
    segments, links = lines.field(4), lines.field(5)
    most = int(np.sum(segments[1] - segments[0])) // 3 + 1  # a segment is like 0=0
    units = lines.room.units(most, 2 * lines.block.end, most * min(longest, 4096))
    n_units = np.zeros(len(lines), np.int64)
    places = [
        lines.room.array(f"places.{k}", most, np.int32) for k in range(3)
    ]  # units, and where they begin in source and target
    given = (lines.n_fields, sent, *segments, *links, text, text_ptr, n_words, source)
    n = _read_units(lines.buf, *given, units, n_units, *places, lines.odd)
    none = NamedValues((), np.zeros(int(units.n[0]), np.int64), np.zeros(0, np.int32), np.zeros(0))
    texts, found = string_column(text_ptr, text), unit_columns(units, none)
    of_units = [place[:n].copy() for place in places]
    return lines, HypColumns._make([sent, texts, score, *features, n_units, *of_units, found])


@kernel
def _read_span(buf, i, end):  # type: ignore[no-untyped-def]
    """(first, last, position after it) of ``2`` or ``2-3``; position -1 if it is none."""
    first, i = read_digits(buf, i, end)
    if i < 0 or i >= end or buf[i] != 45:
        return first, first, i
    last, i = read_digits(buf, i + 1, end)
    return first, last, (i if last >= first else NONE)


@kernel
def _read_segments(buf, i, end, n_words, spans):  # type: ignore[no-untyped-def]
    """The segments ``0-1=0 2=1-2`` of buf[i:end] into OUT spans[k] = (source start, end, target start, end).

    Returns their number, -1 where one is irregular. A phrase without words is printed like one with one word, which the next
    one takes.
    """
    n = 0
    while True:
        i = skip_blanks(buf, i, end)
        if i == end:
            break
        a, b, i = _read_span(buf, i, end)
        if i < 0 or i >= end or buf[i] != 61:
            return NONE
        start = i + 1
        c, d, i = _read_span(buf, start, end)
        if i < 0 or (i < end and buf[i] != 32):
            return NONE
        is_one = c == d
        for j in range(start, i):
            is_one = is_one and buf[j] != 45
        spans[n, 0], spans[n, 1], spans[n, 2], spans[n, 3], spans[n, 4] = a, b + 1, c, d + 1, is_one
        n += 1
    for k in range(n):
        following = spans[k + 1, 2] if k + 1 < n else n_words
        if spans[k, 4] and spans[k, 2] == following:
            spans[k, 3] = following
        if spans[k, 3] > n_words:
            return NONE
    return n


@kernel
def _read_points(buf, i, end, spans, n_units, n_words, unit_at, points):  # type: ignore[no-untyped-def]
    """The alignment points ``0-1`` of buf[i:end] into OUT points[k] = (unit, source, target), places within the unit.

    Returns their number, -1 where one is irregular or outside of its segment.
    """
    unit_at[:n_words] = -1
    for u in range(n_units):
        unit_at[spans[u, 2] : spans[u, 3]] = u
    n = 0
    while True:
        i = skip_blanks(buf, i, end)
        if i == end:
            return n
        s, i = read_digits(buf, i, end)
        if i < 0 or i >= end or buf[i] != 45:
            return NONE
        t, i = read_digits(buf, i + 1, end)
        if i < 0 or (i < end and buf[i] != 32):
            return NONE
        if n_units:
            u = unit_at[t] if t < n_words else -1
            if u < 0 or not spans[u, 0] <= s < spans[u, 1]:
                return NONE
            points[n, 0], points[n, 1], points[n, 2] = u, s - spans[u, 0], t - spans[u, 2]
            n += 1


@kernel
def _put_digits(value, out, at):  # type: ignore[no-untyped-def]
    size = 1
    while value >= 10**size:
        size += 1
    for k in range(size):
        out[at + size - 1 - k] = 48 + value % 10
        value //= 10
    return at + size


@kernel
def _put_links(points, n_points, u, out, at):  # type: ignore[no-untyped-def]
    """The links of unit u, ``0-0 1-1``, to OUT out[at:]; returns the position after them."""
    first = at
    for k in range(n_points):
        if points[k, 0] == u:
            if at > first:
                out[at] = 32
                at += 1
            at = _put_digits(points[k, 1], out, at)
            out[at] = 45
            at = _put_digits(points[k, 2], out, at + 1)
    return at


@kernel
def _read_units(  # type: ignore[no-untyped-def]
    buf, n_fields, sent, seg_begin, seg_end, al_begin, al_end, text, text_ptr, n_words, source, units, n_units, unit, src_start,
    tgt_start, odd,
):  # fmt: skip
    """Units of segments and links of lines. OUT units, n_units of each line; unit, src_start, tgt_start of occurrences.

    Returns the number of occurrences.
    """
    most = 2
    for r in range(len(sent)):
        most = max(most, seg_end[r] - seg_begin[r], al_end[r] - al_begin[r], text_ptr[r + 1] - text_ptr[r])
    most = most // 2 + 2
    starts, unit_at = np.empty(most + 1, np.int64), np.empty(most, np.int64)
    spans, points = np.empty((most, 5), np.int64), np.empty((most, 3), np.int64)
    table, hash1, hash2, align, align_ptr = units.table, units.hash, units.hash2, units.align, units.align_ptr
    n_occ, has_source = 0, len(source.start) > 0
    for r in range(len(sent)):
        if odd[r] or n_fields[r] < 5:
            continue
        has_segments = n_fields[r] == 6
        for j in range(seg_begin[r], seg_end[r]):
            has_segments = has_segments or buf[j] == 61
        n = _read_segments(buf, seg_begin[r], seg_end[r], n_words[r], spans) if has_segments else 0
        a, b = (al_begin[r], al_end[r]) if n_fields[r] == 6 else (seg_begin[r], seg_end[r])
        n_points = 0
        if n >= 0 and (n_fields[r] == 6 or not has_segments):
            n_points = _read_points(buf, a, b, spans, n, n_words[r], unit_at, points)
        if n < 0 or n_points < 0:
            odd[r] = True
            continue
        k = 0
        if n_words[r]:
            starts[0], k = text_ptr[r], 1
        for j in range(text_ptr[r], text_ptr[r + 1] if n else text_ptr[r]):
            if text[j] == 32:
                starts[k] = j + 1
                k += 1
        starts[k] = text_ptr[r + 1] + 1
        for u in range(n):
            first, last, tgt, tgt_end = spans[u, 0], spans[u, 1], spans[u, 2], spans[u, 3]
            src_a = src_b = np.int64(0)
            if has_source:
                src_a, src_b = source_slice(source, sent[r], first, last)
            v = units.n[0]
            if src_a < 0 or (src_b and units.src_ptr[v] + src_b - src_a > len(units.src)):
                odd[r] = True
                break
            links_end = _put_links(points, n_points, u, align, align_ptr[v])
            word_a, word_b = (starts[tgt], starts[tgt_end] - 1) if tgt_end > tgt else (np.int64(0), np.int64(0))
            h1, h2 = hash_bytes(text, word_a, word_b, np.uint64(last - first), np.uint64(tgt_end - tgt))
            h1, h2 = hash_bytes(align, align_ptr[v], links_end, h1, h2)
            h1, h2 = hash_bytes(source.text, src_a, src_b, h1, h2)
            slot = find_unit(table, hash1, hash2, h1, h2)
            if table[slot] < 0:
                align_ptr[v + 1] = links_end
                units.tgt_ptr[v + 1] = put_bytes(text, word_a, word_b, units.tgt, units.tgt_ptr[v])
                units.src_ptr[v + 1] = put_bytes(source.text, src_a, src_b, units.src, units.src_ptr[v])
                units.src_len[v], units.tgt_len[v], units.score[v] = last - first, tgt_end - tgt, np.nan
                table[slot], hash1[v], hash2[v] = v, h1, h2
                units.n[0] += 1
            unit[n_occ + u], src_start[n_occ + u], tgt_start[n_occ + u] = table[slot], first, tgt
        if not odd[r]:
            n_units[r] = n
            n_occ += n
    return n_occ


def parse_line(line: str, where: str) -> HypRecord:
    """One hypothesis."""
    parts = split_fields(line, where, least=3, most=6, layout=LAYOUT)
    sent, text, values = sentence_id(parts[0], where), parts[1], read_features(parts[2], where)
    score = optional_score(parts[3], where) if len(parts) > 3 else np.nan
    units: list[UnitRecord] = []
    if "|" in text:
        text, units = inline_segments(text, where)
    if len(parts) > 4:
        units = _segments(parts[4:], units, text, where)
    return HypRecord(sent, text, where, score, values, units)


def inline_segments(text: str, where: str) -> tuple[str, list[UnitRecord]]:
    """Text without its ``|0-1|`` marks, and the phrases these end; Moses escapes bars that are words."""
    if block := BLOCK.search(text):
        fix = "name the format of this list with --format moses-enriched"
        raise FormatError(where, expected="a plain list", found=f"a block of scores, {clip(text[block.start() :])}", fix=fix)
    out: list[str] = []
    units: list[UnitRecord] = []
    begin = 0
    for token in split_words(text):
        mark = _MARK.fullmatch(token)
        if not mark:
            out.append(token)
            continue
        units.append(UnitRecord({}, src=_span(mark[1], mark[2], token, where), tgt=(begin, len(out))))
        begin = len(out)
    if units and begin < len(out):
        raise FormatError(where, expected="a mark like |0-1| after the last phrase", found=clip(out[-1]), fix="repair this line")
    return " ".join(out), units


def _segments(parts: list[str], units: list[UnitRecord], text: str, where: str) -> list[UnitRecord]:
    """Units of the fields after the score: a segmentation, a word alignment, or both in this order."""
    segmentation, alignment = (parts[0], parts[1]) if len(parts) == 2 else (parts[0], "") if "=" in parts[0] else ("", parts[0])
    if segmentation:
        units = _parse_segmentation(segmentation, len(split_words(text)), where)
    points = [_point(token, where) for token in split_words(alignment)]
    return _align(units, points, where) if units and points else units


def _point(token: str, where: str) -> tuple[int, int]:
    found = _match(_POINT, token, where, "an alignment point like 0-1")
    return int(found[1]), int(found[2])


def _parse_segmentation(field: str, n_words: int, where: str) -> list[UnitRecord]:
    tokens = split_words(field)
    segments = [_segment(token, where) for token in tokens]
    starts = [*(tgt[0] for _, tgt, _ in segments), n_words]
    units = []
    for token, (src, tgt, is_one), following in zip(tokens, segments, starts[1:], strict=True):
        if is_one and tgt[0] == following:
            tgt = (following, following)  # a phrase without words is printed like one with one word, which the next one takes
        if tgt[1] > n_words:
            raise FormatError(
                where, expected=f"segments of {counted(n_words, 'word')}", found=clip(token), fix="repair or remove this line"
            )
        units.append(UnitRecord({}, src=src, tgt=tgt))
    return units


def _segment(token: str, where: str) -> tuple[Span, Span, bool]:
    """(source span, target span, whether the second is one number) of ``0-1=0``."""
    found = _match(_SEGMENT, token, where, "a segment like 0-1=0")
    src, tgt = (_span(found[k], found[k + 1] or found[k], token, where) for k in (1, 3))
    return src, tgt, found[4] is None


def _align(units: list[UnitRecord], points: list[tuple[int, int]], where: str) -> list[UnitRecord]:
    """Each unit with the alignment points inside it, counted from its own first words."""
    unit_at: dict[int, int] = {}
    spans = []
    for u, (_, src, tgt, *_) in enumerate(units):
        first, last = tgt or (0, 0)
        unit_at.update((t, u) for t in range(first, last))
        spans.append((*(src or (0, 0)), first))
    inside: list[list[str]] = [[] for _ in units]
    for s, t in points:
        u = unit_at.get(t, -1)
        start, end, first = spans[u]
        if u < 0 or not start <= s < end:
            raise FormatError(
                where, expected="alignment points inside segments", found=f"{s}-{t}", fix="repair or remove this line"
            )
        inside[u].append(f"{s - start}-{t - first}")
    return [UnitRecord(unit.features, unit.src, unit.tgt, align=" ".join(own)) for unit, own in zip(units, inside, strict=True)]


def _match(pattern: re.Pattern[str], token: str, where: str, expected: str) -> re.Match[str]:
    found = pattern.fullmatch(token)
    if not found:
        raise FormatError(where, expected=expected, found=clip(token), fix="repair or remove this line")
    return found


def _span(first: str, last: str, token: str, where: str) -> Span:
    """Inclusive positions as a half-open span."""
    if int(last) < int(first):
        raise FormatError(where, expected="a span that does not end before it starts", found=clip(token), fix="repair this line")
    return int(first), int(last) + 1


# ---------------------------------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------------------------------


def write(nbest: NBest, stream: IO[bytes]) -> None:
    """Global features, dense ones first; segmentation and alignment where all units of a hypothesis have places.

    Numbers read back exactly. What has no place in this format is in ``left_out``.
    """
    dense, sparse_part = nbest.global_features, SparseRows.from_matrix(nbest.global_sparse.copy())
    sparse_names = nbest.sparse_names.to_pylist()
    check_writable(nbest, "|||")
    groups = group_names(nbest.global_names)
    texts, within = nbest.text.to_pylist(), _are_within_words(nbest.units)
    for s, ident in enumerate(nbest.ids.tolist()):
        for h in range(nbest.hyp_ptr[s], nbest.hyp_ptr[s + 1]):
            row = [format_number(value) for value in dense[h].tolist()]
            own = slice(sparse_part.ptr[h], sparse_part.ptr[h + 1])
            labelled = [f"{label}= {' '.join(row[i] for i in at)}" for label, at in groups]
            named = zip(sparse_part.idx[own].tolist(), sparse_part.val[own].tolist(), strict=True)
            labelled += [f"{sparse_names[j]}= {format_number(value)}" for j, value in named]
            score = "" if isnan(nbest.score[h]) else format_number(nbest.score[h])
            places = _places(nbest, h, within)
            parts = [
                str(ident),
                _checked_text(texts[h], ident),
                " ".join(labelled),
                *([score] if score or places else []),
                *places,
            ]
            stream.write((" ||| ".join(parts) + "\n").encode())


def left_out(nbest: NBest) -> list[str]:
    """Name what a list holds and this format has no place for."""
    out = lines_left_out(nbest)
    if nbest.n_occurrences and (nbest.unit_names or len(nbest.units.sparse.idx)):
        out.append("features of single units (their sums are written)")
    if not _have_places(nbest, slice(None)).all():
        out.append("units without places")
    if _are_within_words(nbest.units)[nbest.unit_idx].any():
        out.append("units within words")
    return out


def _have_places(nbest: NBest, at: slice) -> Array:
    """[r] for each of these occurrences of units whether it stands somewhere in source and target."""
    own = nbest.unit_idx[at]
    src_len, tgt_len = nbest.units.src_len[own], nbest.units.tgt_len[own]
    return (nbest.src_start[at] >= 0) & (nbest.tgt_start[at] >= 0) & (src_len >= 1) & (tgt_len >= 0)


def _are_within_words(units: Units) -> Array:
    """[V] whether a unit has text or links and yet begins no word: a piece of one, which segments of words cannot tell."""
    lengths = pc.add(pc.binary_length(units.tgt), pc.binary_length(units.align))
    return (units.tgt_len == 0) & (lengths.to_numpy(zero_copy_only=False) > 0)


def lines_left_out(nbest: NBest) -> list[str]:
    out = ["source sentences"] if pc.max(pc.binary_length(nbest.source)).as_py() else []
    out += ["references"] if len(nbest.refs) else []
    empty = int((np.diff(nbest.hyp_ptr) == 0).sum())
    return [*out, f"{counted(empty, 'sentence')} without hypotheses"] if empty else out


def check_writable(nbest: NBest, bars: str) -> None:
    """Raise for names that would read back as something else; ``bars`` may not be in one."""
    for name in (*nbest.global_names, *nbest.sparse_names.to_pylist()):
        if split_words(name) != [name] or bars in name or "\n" in name or "\r" in name:
            raise InputError(
                f"expected feature names without spaces and {bars!r} for Moses' formats, found {name!r}; write JSON lines instead"
            )


def _checked_text(text: str, ident: int) -> str:
    if "|" in text and ("|||" in text or _MARK.search(text) or BLOCK.search(text)):
        raise InputError(
            f"sentence {ident}: expected a text without '|||' and marks like |0-1| for a Moses list, found {clip(text)}; "
            "write JSON lines instead"
        )
    return text


def _places(nbest: NBest, h: int, within: Array) -> list[str]:
    """The segmentation field, and the alignment field if there is one; none where a unit has no place, or one within a word."""
    at = slice(nbest.unit_ptr[h], nbest.unit_ptr[h + 1])
    units = nbest.unit_idx[at].tolist()
    src_len, tgt_len = nbest.units.src_len[units], nbest.units.tgt_len[units]
    if not units or within[units].any() or not _have_places(nbest, at).all():
        return []
    segments, points = [], []
    spans = zip(nbest.src_start[at].tolist(), src_len.tolist(), nbest.tgt_start[at].tolist(), tgt_len.tolist(), strict=True)
    for unit, (s, n_src, t, n_tgt) in zip(units, spans, strict=True):
        segments.append(f"{_inclusive(s, n_src)}={_inclusive(t, n_tgt)}")
        for point in nbest.units.align[unit].as_py().split():
            a, _, b = point.partition("-")
            points.append(f"{s + int(a)}-{t + int(b)}")
    return [" ".join(segments), *([" ".join(points)] if points else [])]


def _inclusive(start: int, length: int) -> str:
    return f"{start}-{start + length - 1}" if length > 1 else str(start)
