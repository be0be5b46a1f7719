"""The fast reader of enriched lists: a numba kernel over bytes, for lists whose blocks all list the same features.

It parses equal blocks once and stops at the first line it does not understand, which is then for the plain reader.
"""

from __future__ import annotations

import numpy as np

from ...core.errors import FormatError
from ...core.files import Block
from ...core.kernels import kernel
from ...core.text import split_words
from ...lists.build import ROUNDING, ReadOptions
from ..byte_kernels import (
    NONE,
    hash_bytes,
    put_bytes,
    put_tokens,
    read_digits,
    read_number,
    read_sentence_id,
    skip_blanks,
    starts_with,
)
from ..columns import ColumnReader, Part, Room, are_links, filled_part, find_seen, labels_of, marks, read_features
from ..fields import name_values, split_fields
from .labels import block_fields, feature_groups

_TOTAL = np.frombuffer(b"total=", np.uint8)
LAYOUT = "id ||| phrase |span,wa=..,total=.., scores| ... ||| features ||| score"


@kernel
def _block_head(buf, i, end):  # type: ignore[no-untyped-def]
    """(first source token, last, position after the comma) of a block ``0-1,...``; position -1 if it is none."""
    first, i = read_digits(buf, i, end)
    if i < 0 or i >= end or buf[i] != 45:
        return first, first, NONE
    last, i = read_digits(buf, i + 1, end)
    if i < 0 or i >= end or buf[i] != 44 or first > last:
        return first, last, NONE
    return first, last, i + 1


@kernel
def _block_parts(buf, i, end):  # type: ignore[no-untyped-def]
    """(end of the alignment, total, start of the features) of a block after its span; features -1 where it is irregular."""
    align_end = i
    if i + 3 <= end and buf[i] == 119 and buf[i + 1] == 97 and buf[i + 2] == 61:  # wa=
        while i < end and buf[i] != 44:
            i += 1
        align_end = i
        i += 1
    total = np.nan
    if starts_with(buf, i, end, _TOTAL, 0, len(_TOTAL)):
        total, i = read_number(buf, i + 6, end)
        if i < 0 or i >= end or buf[i] != 44:
            return align_end, total, NONE
        i += 1
    return align_end, total, i


@kernel
def _scan(buf, ends, bars, limit, until, block_labels, total_labels, to_column, source, seen, units, lines):  # type: ignore[no-untyped-def]
    """Read lines into OUT seen, units and lines; stops before the first one it does not understand, or of sentence ``until``.

    Line l ends at ``ends[l]``; ``bars`` are the positions of all ``|``. ``to_column[t]`` is the unit feature that total t is
    the sum of, or -1 - e for extra feature e. At most ``limit`` hypotheses a sentence. Returns (position, hypotheses,
    occurrences, units, whether ``until`` was met).
    """
    n_features = units.x.shape[1]
    totals = np.empty(len(to_column))
    sums, sizes = np.empty(n_features), np.empty(n_features)
    n_hyps, n_occ, n_seen, bar, pos = 0, 0, 0, 0, 0
    last_id, n_last = np.int64(0), 0  # the sentence of the line before, and its hypotheses so far
    for line in range(len(ends)):
        stop = ends[line]
        if stop > pos and buf[stop - 1] == 13:  # what Windows adds
            stop -= 1
        first_bar = bar
        while bar < len(bars) and bars[bar] < stop:
            bar += 1
        n_bars = bar - first_bar
        b = bars[first_bar:bar]
        i = skip_blanks(buf, pos, stop)
        if i == stop:  # a blank line
            pos = ends[line] + 1
            continue
        sent, i = read_sentence_id(buf, i, stop)
        if i < 0 or sent < last_id:
            break
        i = skip_blanks(buf, i, stop)
        if n_bars < 9 or i != b[0] or b[2] != i + 2:
            break
        if sent >= until:
            return pos, n_hyps, n_occ, n_seen, True
        n_of_sent = n_last if sent == last_id else 0
        if n_of_sent >= limit:
            pos = ends[line] + 1
            continue
        i += 3
        k = 3
        at = lines.text_ptr[n_hyps]
        n_tokens, n_units, n_new, fine = 0, 0, n_seen, True
        sums[:] = 0.0
        sizes[:] = 0.0
        known = sent < len(source.ptr) - 1
        while True:  # phrase, block, phrase, block, ..., the three bars that end the field
            i = skip_blanks(buf, i, b[k])
            if k + 2 >= n_bars:
                fine = False
                break
            if b[k + 1] == b[k] + 1:
                fine = i == b[k] and b[k + 2] == b[k] + 2 and buf[b[k] - 1] != 124  # of four bars the plain reader decides
                break
            phrase, phrase_end, block_end = i, b[k], b[k + 1]
            first, last, align = _block_head(buf, phrase_end + 1, block_end)
            if align < 0:
                fine = False
                break
            align_end, total, features = _block_parts(buf, align, block_end)
            src_a = src_b = np.int64(0)
            if known:
                if source.ptr[sent] + last >= source.ptr[sent + 1]:
                    fine = False  # beyond the source sentence: the plain reader says so
                    break
                src_a, src_b = source.start[source.ptr[sent] + first], source.end[source.ptr[sent] + last]
            if features < 0:
                fine = False
                break
            n_src = last - first + 1
            h1, h2 = hash_bytes(buf, phrase, phrase_end, np.uint64(n_src), np.uint64(0))
            h1, h2 = hash_bytes(buf, align, align_end, h1, h2)
            h1, h2 = hash_bytes(buf, features, block_end, h1, h2)
            h1, h2 = hash_bytes(source.text, src_a, src_b, h1, h2)
            slot = find_seen(seen, h1, h2)
            u = np.int64(seen.table[slot])
            if u < 0:
                u = np.int64(n_new)
                if units.src_ptr[u] + src_b - src_a > len(units.src):
                    fine = False  # no room for such long phrases: the plain reader has it
                    break
                if not read_features(buf, features, block_end, block_labels, units.x[u]):
                    fine = False
                    break
                units.tgt_ptr[u + 1], units.tgt_len[u] = put_tokens(buf, phrase, phrase_end, units.tgt, units.tgt_ptr[u])
                links = min(align + 3, align_end) if units.tgt_len[u] else align_end  # none of a phrase without words
                if not are_links(buf, links, align_end, n_src, units.tgt_len[u]):
                    fine = False
                    break
                units.src_ptr[u + 1], _ = put_tokens(source.text, src_a, src_b, units.src, units.src_ptr[u])
                units.align_ptr[u + 1], _ = put_tokens(buf, links, align_end, units.align, units.align_ptr[u])
                units.src_len[u], units.score[u] = n_src, total
                seen.hash[u], seen.hash2[u] = h1, h2
                seen.table[slot] = u
                n_new += 1
            if n_tokens and units.tgt_len[u]:
                lines.text[at] = 32
                at += 1
            at = put_bytes(units.tgt, units.tgt_ptr[u], units.tgt_ptr[u + 1], lines.text, at)
            lines.unit[n_occ + n_units] = u
            lines.src_start[n_occ + n_units] = first
            lines.tgt_start[n_occ + n_units] = n_tokens
            n_tokens += units.tgt_len[u]
            n_units += 1
            row = units.x[u]
            for d in range(n_features):
                sums[d] += row[d]
                sizes[d] += abs(row[d])
            i = block_end + 1
            k += 2
        if not fine or k + 5 >= n_bars or b[k + 5] != b[k + 3] + 2:
            break
        if not read_features(buf, b[k + 2] + 1, b[k + 3], total_labels, totals):
            break
        score, i = read_number(buf, skip_blanks(buf, b[k + 5] + 1, stop), stop)
        if i < 0 or (i < stop and buf[i] != 32):
            break
        for t in range(len(to_column)):
            d = to_column[t]
            if d < 0:
                lines.extra[n_hyps, -1 - d] = totals[t]
            elif abs(sums[d] - totals[t]) > ROUNDING * (sizes[d] + abs(totals[t])) + 1e-6:
                fine = False
        if not fine:
            break
        lines.sent[n_hyps] = sent
        lines.score[n_hyps] = score
        lines.n_units[n_hyps] = n_units
        n_hyps += 1
        lines.text_ptr[n_hyps] = at
        n_occ += n_units
        n_seen = n_new
        last_id, n_last = sent, n_of_sent + 1
        pos = ends[line] + 1
    return pos, n_hyps, n_occ, n_seen, False


class FastReader(ColumnReader):
    """Reads lists all of whose lines have the labels of the first."""

    def __init__(self, block: list[tuple[str, int]], total: list[tuple[str, int]], options: ReadOptions) -> None:
        self.block_labels, unit_names = labels_of(block)
        self.total_labels, total_names = labels_of(total)
        column = {name: d for d, name in enumerate(unit_names)}
        extra_names = tuple(name for name in total_names if name not in column)
        extra = {name: -1 - e for e, name in enumerate(extra_names)}
        self.to_column = np.array([column.get(name, extra.get(name, 0)) for name in total_names], np.int64)
        super().__init__(unit_names, extra_names, options)

    @classmethod
    def for_list(cls, head: bytes, options: ReadOptions) -> FastReader | None:
        """A reader for lists like the first of these lines; None where its features are not regular."""
        if options.size is not None and options.size < 1:
            return None
        try:
            first = next(line for line in head.decode().split("\n") if line.strip())
            parts = split_fields(first, "", least=3, layout=LAYOUT)
            blocks = [block_fields(block)[3] for block in parts[1].split("|")[1::2]]
            groups = [[(n, len(v)) for n, v in feature_groups(text, "")] for text in (*blocks, parts[2])]
            for text in (*blocks, parts[2]):
                name_values(feature_groups(text, ""), "")  # repeated names and the like are the plain reader's to report
        except (FormatError, UnicodeDecodeError, StopIteration):
            return None
        if not blocks or any(g != groups[0] for g in groups[:-1]) or ":" in "".join(split_words(parts[2])[:1]):
            return None
        return cls(groups[0], groups[-1], options)

    def parse_block(self, block: Block, room: Room) -> Part:
        buf, ends, bars = marks(block, room)
        most = len(bars) // 2 + 1
        units = room.units(most, len(self.unit_names), block.end, most * min(self.longest_source, 4096))
        lines = room.lines(len(ends), len(self.extra_names), most, block.end)
        given = (self.limit, self.first, self.block_labels, self.total_labels, self.to_column, self.source)
        return filled_part(lines, units, ends, *_scan(buf, ends, bars, *given, room.seen(most), units, lines))
