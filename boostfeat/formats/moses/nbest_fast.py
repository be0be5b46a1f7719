"""The fast reader of plain lists: a numba kernel over bytes, for lists whose lines all list the same features.

It stops at the first line it does not understand, which is then for the plain reader.
"""

from __future__ import annotations

import numpy as np

from ...core.errors import FormatError
from ...core.files import Block
from ...core.kernels import kernel
from ...lists.build import ReadOptions
from ..byte_kernels import NONE, hash_bytes, put_bytes, read_digits, read_number, read_sentence_id, skip_blanks
from ..columns import ColumnReader, Part, Room, filled_part, find_seen, labels_of, marks, put_words, read_features
from ..fields import label_groups, name_values, split_fields
from .labels import feature_groups

_FIELDS = 6


@kernel
def _span(buf, i, end):  # type: ignore[no-untyped-def]
    """(first, last, position after it) of ``2`` or ``2-3``; position -1 if it is none."""
    first, i = read_digits(buf, i, end)
    if i < 0 or i >= end or buf[i] != 45:
        return first, first, i
    last, i = read_digits(buf, i + 1, end)
    return first, last, (i if last >= first else NONE)


@kernel
def _segments(buf, i, end, n_words, spans):  # type: ignore[no-untyped-def]
    """The segments ``0-1=0 2=1-2`` of buf[i:end] into OUT spans[k] = (source start, end, target start, end).

    Returns their number, -1 where one is irregular. A phrase without words is printed like one with one word, which the next
    one takes.
    """
    n = 0
    while True:
        i = skip_blanks(buf, i, end)
        if i == end:
            break
        a, b, i = _span(buf, i, end)
        if i < 0 or i >= end or buf[i] != 61:
            return NONE
        start = i + 1
        c, d, i = _span(buf, start, end)
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
def _points(buf, i, end, spans, n_units, n_words, unit_at, points):  # type: ignore[no-untyped-def]
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
def _scan(buf, ends, bars, limit, until, labels, source, seen, units, lines):  # type: ignore[no-untyped-def]
    """Read lines into OUT seen, units and lines; stops before the first one it does not understand, or of sentence ``until``.

    Returns (position, hypotheses, occurrences, units, whether ``until`` was met); see enriched_fast.
    """
    longest = 2
    for line in range(len(ends)):
        longest = max(longest, ends[line] - (ends[line - 1] if line else 0))
    most = longest // 2 + 2
    starts, unit_at = np.empty(most + 1, np.int64), np.empty(most, np.int64)
    spans, points = np.empty((most, 5), np.int64), np.empty((most, 3), np.int64)
    begin, stop = np.empty(_FIELDS, np.int64), np.empty(_FIELDS, np.int64)  # of the fields
    n_hyps, n_occ, n_seen, bar, pos = 0, 0, 0, 0, 0
    last_id, n_last = np.int64(0), 0
    for line in range(len(ends)):
        end = ends[line]
        if end > pos and buf[end - 1] == 13:
            end -= 1
        i = skip_blanks(buf, pos, end)
        if i == end:
            pos = ends[line] + 1
            continue
        n_fields, fine = 1, True
        begin[0] = i
        while bar < len(bars) and bars[bar] < end:
            if bar + 2 >= len(bars) or bars[bar + 2] != bars[bar] + 2 or n_fields == _FIELDS:
                fine = False
                break
            if bar + 3 < len(bars) and bars[bar + 3] == bars[bar] + 3:
                fine = False  # of four bars the plain reader decides
                break
            stop[n_fields - 1], begin[n_fields] = bars[bar], bars[bar] + 3
            n_fields += 1
            bar += 3
        stop[n_fields - 1] = end
        if not fine or n_fields < 3:
            break
        sent, i = read_sentence_id(buf, i, end)
        if i < 0 or sent < last_id or skip_blanks(buf, i, stop[0]) != stop[0]:
            break
        if sent >= until:
            return pos, n_hyps, n_occ, n_seen, True
        n_of_sent = n_last if sent == last_id else 0
        if n_of_sent >= limit:
            pos = ends[line] + 1
            continue
        if not read_features(buf, begin[2], stop[2], labels, lines.extra[n_hyps]):
            break
        score = np.nan
        if n_fields > 3:
            i = skip_blanks(buf, begin[3], stop[3])
            if i < stop[3]:
                score, i = read_number(buf, i, stop[3])
                if i < 0 or skip_blanks(buf, i, stop[3]) != stop[3]:
                    break
        at = lines.text_ptr[n_hyps]
        n_words = put_words(buf, begin[1], stop[1], lines.text, at, starts)
        n_units, n_points = 0, 0
        if n_fields > 4:
            equals = False
            for j in range(begin[4], stop[4]):
                equals = equals or buf[j] == 61
            if n_fields == 6 or equals:
                n_units = _segments(buf, begin[4], stop[4], n_words, spans)
            if n_units < 0:
                break
            links = n_fields - 1
            if n_fields == 6 or not equals:
                n_points = _points(buf, begin[links], stop[links], spans, n_units, n_words, unit_at, points)
            if n_points < 0:
                break
        known = sent < len(source.ptr) - 1 and source.ptr[sent] < source.ptr[sent + 1]
        n_new = n_seen
        for u in range(n_units):
            first, last, tgt, tgt_end = spans[u, 0], spans[u, 1], spans[u, 2], spans[u, 3]
            src_a = src_b = np.int64(0)
            if known:
                if source.ptr[sent] + last > source.ptr[sent + 1]:
                    fine = False  # beyond the source sentence: the plain reader says so
                    break
                src_a, src_b = source.start[source.ptr[sent] + first], source.end[source.ptr[sent] + last - 1]
            v = n_new
            if units.src_ptr[v] + src_b - src_a > len(units.src):
                fine = False
                break
            a = units.align_ptr[v]
            for k in range(n_points):
                if points[k, 0] == u:
                    if a > units.align_ptr[v]:
                        units.align[a] = 32
                        a += 1
                    a = _put_digits(points[k, 1], units.align, a)
                    units.align[a] = 45
                    a = _put_digits(points[k, 2], units.align, a + 1)
            word_a, word_b = (starts[tgt], starts[tgt_end] - 1) if tgt_end > tgt else (np.int64(0), np.int64(0))
            h1, h2 = hash_bytes(lines.text, word_a, word_b, np.uint64(last - first), np.uint64(tgt_end - tgt))
            h1, h2 = hash_bytes(units.align, units.align_ptr[v], a, h1, h2)
            h1, h2 = hash_bytes(source.text, src_a, src_b, h1, h2)
            slot = find_seen(seen, h1, h2)
            if seen.table[slot] < 0:
                units.align_ptr[v + 1] = a
                units.tgt_ptr[v + 1] = put_bytes(lines.text, word_a, word_b, units.tgt, units.tgt_ptr[v])
                units.src_ptr[v + 1] = put_bytes(source.text, src_a, src_b, units.src, units.src_ptr[v])
                units.src_len[v], units.tgt_len[v], units.score[v] = last - first, tgt_end - tgt, np.nan
                seen.hash[v], seen.hash2[v] = h1, h2
                seen.table[slot] = v
                n_new += 1
            lines.unit[n_occ + u] = seen.table[slot]
            lines.src_start[n_occ + u] = first
            lines.tgt_start[n_occ + u] = tgt
        if not fine:
            break
        lines.sent[n_hyps] = sent
        lines.score[n_hyps] = score
        lines.n_units[n_hyps] = n_units
        n_hyps += 1
        lines.text_ptr[n_hyps] = starts[n_words] - (1 if n_words else 0)
        n_occ += n_units
        n_seen = n_new
        last_id, n_last = sent, n_of_sent + 1
        pos = ends[line] + 1
    return pos, n_hyps, n_occ, n_seen, False


class FastReader(ColumnReader):
    """Reads lists all of whose lines have the features of the first."""

    def __init__(self, groups: list[tuple[str, int]], sign: str, options: ReadOptions) -> None:
        self.labels, names = labels_of(groups, sign)
        super().__init__((), names, options)

    @classmethod
    def for_list(cls, head: bytes, options: ReadOptions) -> FastReader | None:
        """A reader for lists like the first of these lines; None where it, or the last, has other features or another layout."""
        if options.size is not None and options.size < 1:
            return None
        try:
            lines = [line for line in head.decode().split("\n") if line.strip()]
            fields = [split_fields(line, "", least=3, most=_FIELDS, layout="")[2] for line in (lines[0], lines[-1])]
            groups = [[(n, len(v)) for n, v in feature_groups(field, "")] for field in fields]
            as_plain = [(n, len(v)) for n, v in label_groups(fields[0], "")]
            name_values(label_groups(fields[0], ""), "")
        except (FormatError, UnicodeDecodeError, IndexError):
            return None
        signs = {token[-1] for token in fields[0].split() if token[-1] in "=:"}
        if groups[0] != groups[1] or groups[0] != as_plain or len(signs) != 1:
            return None
        return cls(groups[0], signs.pop(), options)

    def parse_block(self, block: Block, room: Room) -> Part:
        buf, ends, bars = marks(block, room)
        most = int(np.count_nonzero(buf == 61)) + 1  # a segment has a sign of equality
        longest = most * min(self.longest_source, 4096)
        units, lines = room.units(most, 0, 2 * block.end, longest), room.lines(len(ends), len(self.extra_names), most, block.end)
        given = (self.limit, self.first, self.labels, self.source)
        return filled_part(lines, units, ends, *_scan(buf, ends, bars, *given, room.seen(most), units, lines))
