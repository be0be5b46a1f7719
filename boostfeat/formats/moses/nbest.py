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
from ...core.text import split_words
from ...lists.build import HypRecord, ReadOptions, UnitRecord
from ...lists.nbest import NBest, SparseRows, Units
from ..columns import read_lines_twice
from ..fields import FeatureParser, most_lines, optional_score, sentence_id, split_fields
from .labels import format_number, group_names
from .nbest_fast import FastReader

LAYOUT = "id ||| text ||| features ||| score [||| segmentation] [||| alignment]"
Span = tuple[int, int]
_MARK = re.compile(r"\|([0-9]{1,9})-([0-9]{1,9})\|")
BLOCK = re.compile(r"\|[0-9]+-[0-9]+,")  # how the scores of a phrase begin in an enriched list
_SEGMENT = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?=([0-9]{1,9})(?:-([0-9]{1,9}))?")
MOST_SEEN = 100_000  # tokens that are remembered
_SEEN: dict[str, tuple[Span, Span, bool]] = {}
_POINTS: dict[str, tuple[int, int]] = {}
_POINT = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def sniff(head: str) -> bool:
    """Asked last, and content with anything in three fields: the reader then says what is wrong, and in which line."""
    return most_lines(head, lambda line: line.count("|||") >= 2)


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def read(path: str | Path, options: ReadOptions) -> NBest:
    """Read a list, by a kernel as far as that understands it; see columns.read_lines_twice."""
    features = FeatureParser()
    return read_lines_twice(path, options, FastReader.for_list, lambda line, where: parse_line(line, where, features))


def parse_line(line: str, where: str, features: FeatureParser) -> HypRecord:
    """One hypothesis."""
    parts = split_fields(line, where, least=3, most=6, layout=LAYOUT)
    sent, text, values = sentence_id(parts[0], where), parts[1], features(parts[2], where)
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
    points = [_POINTS.get(token) or _point(token, where) for token in split_words(alignment)]
    return _align(units, points, where) if units and points else units


def _point(token: str, where: str) -> tuple[int, int]:
    found = _match(_POINT, token, where, "an alignment point like 0-1")
    point = int(found[1]), int(found[2])
    if len(_POINTS) < MOST_SEEN:
        _POINTS[token] = point
    return point


def _parse_segmentation(field: str, n_words: int, where: str) -> list[UnitRecord]:
    tokens = split_words(field)
    segments = [_SEEN.get(token) or _segment(token, where) for token in tokens]
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
    """(source span, target span, whether the second is one number) of ``0-1=0``; lists have the same ones in most lines."""
    found = _match(_SEGMENT, token, where, "a segment like 0-1=0")
    src, tgt = (_span(found[k], found[k + 1] or found[k], token, where) for k in (1, 3))
    if len(_SEEN) < MOST_SEEN:
        _SEEN[token] = src, tgt, found[4] is None
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
    """What a list holds and this format has no place for."""
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
