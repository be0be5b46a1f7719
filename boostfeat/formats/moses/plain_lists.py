"""Moses' plain n-best lists: ``id ||| text ||| features ||| score [||| segmentation] [||| word alignment]``.

Features are labelled ``d= 0 -1.5`` or, in old lists, ``d: 0 -1.5``. The segmentation is ``0-1=0 2-3=1-2`` (source words =
target words, inclusive) or, in old lists, inline: ``taming |0-1| politicians |2-3|``. Its phrases become units without
features; a word alignment without a segmentation has no unit to go to and is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow.compute as pc

from ...core.arrays import F64, I64, Array
from ...core.errors import FormatError, InputError, clip, counted
from ...core.text import split_words
from ...lists.build import HypColumns, HypRecord, ReadOptions, UnitRecord
from ...lists.nbest import NBest, SparseRows, Units, string_column
from .. import fields
from ..bar_kernel import SourceTokens, read_units, room_for_units
from ..bar_lines import BarLines, NamedValues, read_bar_list, source_tokens
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
    return read_bar_list(path, options, partial(_columns, source=source_tokens(options.source)), parse_line)


def _columns(lines: BarLines, sent: I64, source: SourceTokens) -> HypColumns:
    lines.odd |= (lines.n_fields < 3) | (lines.n_fields > 6) | (lines.bars[lines.first_bars(1)] < lines.field(1)[1])
    features, score = lines.features(lines.field(2), lines.odd), lines.numbers(lines.field(3))
    text_ptr, text, n_words = lines.words(lines.field(1))
    segments, links = lines.field(4), lines.field(5)
    most = int(np.sum(segments[1] - segments[0])) // 3 + 1  # a segment is like 0=0
    units, made = room_for_units(lines.room, most), lines.room.array("made links", 2 * lines.block.end, np.uint8)
    n_units = np.empty(len(lines), np.int64)
    places = lines.room.arrays("place", 3, most, np.int32)  # units, starts in source and target
    given = (lines.n_fields, sent, *segments, *links, text, text_ptr, n_words, source)
    n, n_distinct = read_units(lines.buf, *given, units, made, n_units, *places, lines.odd)
    none = NamedValues((), np.zeros(n_distinct, np.int64), np.zeros(0, np.int32), np.zeros(0))
    columns = lines.units(units, n_distinct, none, source.text, text=text, links=made)
    texts = string_column(text_ptr, text)
    return HypColumns._make([sent, texts, score, *features, n_units, *(own[:n] for own in places), columns])


def parse_line(line: str, where: str) -> HypRecord:
    """Read one hypothesis."""
    parts = fields.split_fields(line, where, least=3, most=6, layout=LAYOUT)
    sent, features = fields.sentence_id(parts[0], where), fields.read_features(parts[2], where)
    score = fields.optional_score(parts[3], where) if len(parts) > 3 else nan
    text, units = _inline_segments(parts[1], where) if "|" in parts[1] else (parts[1], [])
    return HypRecord(sent, text, where, score, features, _segments(parts[4:], units, text, where))


def _inline_segments(text: str, where: str) -> tuple[str, list[UnitRecord]]:
    """Return a text without its ``|0-1|`` marks, and the phrases these end; Moses escapes bars that are words."""
    if block := BLOCK.search(text):
        fix = "name the format of this list with --format moses-enriched"
        raise FormatError(where, expected="a plain list", found=f"a block of scores, {clip(text[block.start() :])}", fix=fix)
    out: list[str] = []
    units: list[UnitRecord] = []
    begin = 0
    for token in split_words(text):
        if mark := _MARK.fullmatch(token):
            units.append(UnitRecord({}, src=_span(mark[1], mark[2], token, where), tgt=(begin, len(out))))
            begin = len(out)
        else:
            out.append(token)
    if units and begin < len(out):
        raise FormatError(where, expected="a mark like |0-1| after the last phrase", found=clip(out[-1]))
    return " ".join(out), units


def _segments(parts: list[str], units: list[UnitRecord], text: str, where: str) -> list[UnitRecord]:
    """Return the units of the fields after the score: a segmentation, a word alignment, or both in this order."""
    segmentation, alignment = (
        parts if len(parts) == 2 else ("", *parts) if parts and "=" not in parts[0] else (*parts, "", "")[:2]
    )
    n_words = len(split_words(text))
    if tokens := split_words(segmentation):
        found = [_match(_SEGMENT, token, where, "a segment like 0-1=0") for token in tokens]
        spans = [[_span(m[k], m[k + 1] or m[k], m[0], where) for k in (1, 3)] for m in found]
        units = []
        for (src, tgt), following in zip(spans, [*(tgt[0] for _, tgt in spans[1:]), n_words], strict=True):
            if tgt == (following, following + 1):
                tgt = (following, following)  # a phrase without words is printed like one with a word, which the next one takes
            units.append(UnitRecord({}, src=src, tgt=tgt))
            if tgt[1] > n_words:
                expected = f"segments of {counted(n_words, 'word')}"
                raise FormatError(where, expected=expected, found=clip(tokens[len(units) - 1]))
    points = [_match(_POINT, token, where, "an alignment point like 0-1") for token in split_words(alignment)]
    return _aligned(units, [(int(point[1]), int(point[2])) for point in points], where) if units and points else units


def _aligned(units: list[UnitRecord], points: list[tuple[int, int]], where: str) -> list[UnitRecord]:
    """Return each unit with the alignment points inside it, counted from its own first words."""
    spans = [(unit.src or (0, 0), unit.tgt or (0, 0)) for unit in units]
    unit_at = {t: u for u, (_, tgt) in enumerate(spans) for t in range(*tgt)}
    inside: list[list[str]] = [[] for _ in units]
    for s, t in points:
        u = unit_at.get(t, -1)
        (start, end), (first, _) = spans[u]
        if u < 0 or not start <= s < end:
            raise FormatError(where, expected="alignment points inside segments", found=f"{s}-{t}")
        inside[u].append(f"{s - start}-{t - first}")
    return [unit._replace(align=" ".join(own)) for unit, own in zip(units, inside, strict=True)]


def _match(pattern: re.Pattern[str], token: str, where: str, expected: str) -> re.Match[str]:
    if not (found := pattern.fullmatch(token)):
        raise FormatError(where, expected=expected, found=clip(token))
    return found


def _span(first: str, last: str, token: str, where: str) -> Span:
    """Return inclusive positions as a half-open span."""
    if int(last) < int(first):
        raise FormatError(where, expected="a span that does not end before it starts", found=clip(token))
    return int(first), int(last) + 1


# ---------------------------------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------------------------------


def write(nbest: NBest, stream: IO[bytes]) -> None:
    """Write global features, dense ones first; segmentation and alignment where all units of a hypothesis have places.

    Numbers read back exactly. What has no place in this format is in ``left_out``.
    """
    check_writable(nbest, "|||")
    texts, within = nbest.text.to_pylist(), _are_within_words(nbest.units)
    for h, (ident, features, score) in enumerate(labelled_rows(nbest, nbest.global_features)):
        text, places = texts[h], _places(nbest, h, within)
        if "|" in text and ("|||" in text or _MARK.search(text) or BLOCK.search(text)):
            expected = "a text without '|||' and marks like |0-1| for a Moses list"
            raise InputError(f"sentence {ident}: expected {expected}, found {clip(text)}; write JSON lines instead")
        parts = [str(ident), text, features, *([score] if score or places else []), *places]
        stream.write((" ||| ".join(parts) + "\n").encode())


def labelled_rows(nbest: NBest, dense: F64) -> Iterator[tuple[int, str, str]]:
    """Yield sentence, features and score of each hypothesis; ``dense`` [H, D] are the values of its global features."""
    groups, sparse = fields.group_names(nbest.global_names), SparseRows.from_matrix(nbest.global_sparse)
    sparse_names, ids = nbest.sparse_names.to_pylist(), nbest.ids.tolist()
    for h, s in enumerate(nbest.sent_of_hyp.tolist()):
        values = (dense[h] + 0.0).tolist()  # what is absent is -0.0
        own = slice(sparse.ptr[h], sparse.ptr[h + 1])
        named = zip(sparse.idx[own].tolist(), sparse.val[own].tolist(), strict=True)
        labelled = [fields.format_features(groups, values), *(f"{sparse_names[j]}= {fields.format_number(v)}" for j, v in named)]
        yield ids[s], " ".join(filter(None, labelled)), "" if isnan(nbest.score[h]) else fields.format_number(nbest.score[h])


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
    lengths = (nbest.units.src_len[own] >= 1) & (nbest.units.tgt_len[own] >= 0)
    return (nbest.src_start[at] >= 0) & (nbest.tgt_start[at] >= 0) & lengths


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
            expected = f"feature names without spaces and {bars!r} for Moses' formats"
            raise InputError(f"expected {expected}, found {name!r}; write JSON lines instead")


def _places(nbest: NBest, h: int, within: Array) -> list[str]:
    """Return segmentation and, if there is one, alignment; nothing where a unit has no place or is within a word."""
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
