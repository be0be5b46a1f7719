"""Columns that blocks of a list leave: units merged by what they are, whatever their hashes; room that is used again."""

from __future__ import annotations

import numpy as np
import pytest

from boostfeat.core.arrays import offsets
from boostfeat.core.files import Block
from boostfeat.formats.columns import (
    ChunkUnits,
    Room,
    Seen,
    _Known,
    _with_room,
    find_seen,
    labels_of,
    last_sentence,
    marks,
    source_tokens,
    string_column,
    valid_utf8,
)

pytestmark = pytest.mark.quick

# (features, target, source, alignment, source length, target length, score): each but the last differs from the first in one thing
UNITS = [
    ((1.0, 2.0), "a b", "x", "0-0", 1, 2, -1.0),
    ((1.5, 2.0), "a b", "x", "0-0", 1, 2, -2.0),
    ((1.0, 2.5), "a b", "x", "0-0", 1, 2, -3.0),
    ((1.0, 2.0), "a c", "x", "0-0", 1, 2, -4.0),
    ((1.0, 2.0), "a", "x", "0-0", 1, 2, -5.0),
    ((1.0, 2.0), "a b", "y", "0-0", 1, 2, -6.0),
    ((1.0, 2.0), "a b", "", "0-0", 1, 2, -7.0),
    ((1.0, 2.0), "a b", "x", "0-1", 1, 2, -8.0),
    ((1.0, 2.0), "a b", "x", "0-0", 2, 2, -9.0),
    ((1.0, 2.0), "a b", "x", "0-0", 1, 3, -10.0),
    ((1.0, 2.0), "a b", "x", "0-0", 1, 2, -11.0),  # the decoder's own score does not count
]


def chunk(rows: list[tuple]) -> ChunkUnits:
    texts = {name: [row[k].encode() for row in rows] for k, name in ((1, "tgt"), (2, "src"), (3, "align"))}
    columns = {name: np.frombuffer(b"".join(own) or b" ", np.uint8).copy() for name, own in texts.items()}
    columns |= {name + "_ptr": offsets(np.array([len(t) for t in own], np.int64)) for name, own in texts.items()}
    numbers = {name: np.array([row[k] for row in rows], np.int32) for k, name in ((4, "src_len"), (5, "tgt_len"))}
    return ChunkUnits(
        x=np.array([row[0] for row in rows]).reshape(-1, 2), score=np.array([row[6] for row in rows], float), **columns, **numbers
    )


@pytest.mark.parametrize("hashes", [lambda k: 5, lambda k: k % 10 % 3, lambda k: (1 << 63) + 1023])
def test_units_are_merged_by_what_they_are(hashes):
    """All with one hash, with few, and at the end of the table: numbers by first use, over several parts and a table that grows."""
    rng = np.random.default_rng(0)
    known, number, first = _Known(2), {}, {}
    for size in (1, 11, 3, 0, 40, 700):
        rows = [
            UNITS[k] if size < 700 else ((float(j), 0.0), f"w{j}", "x", "", 1, 1, 0.0)
            for j, k in enumerate(rng.integers(0, 11, size))
        ]
        own = np.array([hashes(UNITS.index(row)) if row in UNITS else j for j, row in enumerate(rows)], np.uint64)
        found = known.merge(chunk(rows), own)
        expected = []
        for row in rows:
            expected.append(number.setdefault(row[:6], len(number)))
            first.setdefault(row[:6], row[6])
        assert (found.tolist(), known.n) == (expected, len(number))
    units = known.finish()
    texts = [
        units.tgt.to_pylist(),
        units.src.to_pylist(),
        units.align.to_pylist(),
        units.src_len.tolist(),
        units.tgt_len.tolist(),
    ]
    assert list(zip(map(tuple, units.x.tolist()), *texts, strict=True)) == list(number)
    assert units.score.tolist() == list(first.values())
    assert 2 * known.n <= len(known.table)


def test_slots_of_units_that_were_seen():
    """By both hashes; a taken slot leads to the next, from the last to the first."""
    seen = Seen(np.array([1, -1, -1, 0], np.int32), np.array([3, 7], np.uint64), np.array([1, 1], np.uint64))
    for h1, h2, slot in ((3, 1, 3), (7, 1, 0), (3, 2, 1), (7, 2, 1), (2, 1, 2), (5, 0, 1), (4, 1, 1)):
        assert find_seen(seen, np.uint64(h1), np.uint64(h2)) == slot


def test_columns_grow_by_half_or_more():
    column = np.arange(4)
    assert _with_room(column, 4, 4) is column
    grown = _with_room(column, 3, 5)
    assert (len(grown), grown[:3].tolist(), grown.dtype) == (8, [0, 1, 2], column.dtype)
    assert _with_room(np.zeros((2, 3)), 2, 9).shape == (9, 3)


def test_room_is_used_again():
    room = Room()
    one = room.array("a", 8, np.int64)
    one[:] = 7
    assert (room.array("a", 10, np.int64).tolist()[:8], len(room.array("a", 10, np.int64))) == (
        [7] * 8,
        10,
    )  # a quarter more was made
    assert room.array("a", 3, np.int64).base is one.base
    assert room.array("a", 11, np.int64).base is not one.base
    assert room.array("b", 0).shape == (0,)
    assert room.array("c", 4, width=3).shape == (4, 3)
    for n, size in ((1, 1 << 14), (1 << 13, 1 << 14), ((1 << 13) + 1, 1 << 15)):  # at most half full
        table, *hashes = room.seen(n)
        assert (len(table), set(table.tolist()), [len(h) for h in hashes]) == (size, {-1}, [n, n])
        table[:] = 3


def block(data: bytes) -> Block:
    return Block(bytearray(data + b"rest|\n\0\xff"), len(data))


@pytest.mark.parametrize(
    ("data", "n_lines"),
    [
        (b"a|b\nc\n", 2), (b"a\n\xc3\xa4|\nb\n", 3), (b"a\nb\xff|\n|c\n", 1), (b"a\n|b\0c\nd\n", 1), (b"\xff\n", 0), (b"\0\n", 0), (b"a\n\0\n\xff\n", 1),
        (b"a\n\xff\n\0\n", 1), (b"\xc3\n\xa4\n", 0), (b"", 0),
    ],
)  # fmt: skip
def test_marks_up_to_the_first_line_that_is_no_text(data, n_lines):
    buf, ends, bars = marks(block(data), Room())
    whole = b"\n".join(data.split(b"\n")[:n_lines]) + b"\n" if n_lines else b""
    assert buf.tobytes() == data
    assert ends.tolist() == [i for i, c in enumerate(whole) if c == 10]
    assert bars.tolist() == [i for i, c in enumerate(whole) if c == 124]


@pytest.mark.parametrize(("data", "valid"), [(b"a\xc3\xa4b", 4), (b"", 0), (b"a\xffb", 1), (b"ab\xc3", 2), (b"\xed\xa0\x80", 0)])
def test_where_text_ends(data, valid):
    assert valid_utf8(block(data)) == valid


@pytest.mark.parametrize(
    ("data", "start"),
    [
        ("0 a\n0 b\n1 c\n1 d\n", 8), ("0 a\n0 b\n", 0), ("0 a\n1 b\n1 c", 4), ("0 a\n", 0), ("", 0), ("0 a\n10 b\n0 c\n", 9), ("1 a\n11 b\n1 c\n", 9),
        ("0 a\n1|b\n1|b\n", 8), ("0 a\n\n", 4), ("0 a\n1 b\n1 c\n1 d\n", 4),
    ],
)  # fmt: skip
def test_where_the_last_sentence_begins(data, start):
    """That of the last whole line; all lines before it that begin with its first word belong to it."""
    raw = bytearray(data.encode() + b"0 behind\n")
    assert last_sentence(raw, len(data)) == start


def test_labels_and_sources():
    labels, names = labels_of([("LM0", 1), ("TM0", 2), ("d", 0)], ":")
    assert (labels.text.tobytes(), labels.ptr.tolist(), labels.n_values.tolist()) == (b"LM0:TM0:d:", [0, 4, 8, 10], [1, 2, 0])
    assert names == ("LM0", "TM0_0", "TM0_1")
    empty, names = labels_of([])
    assert (len(empty.text), empty.ptr.tolist(), len(empty.n_values), names) == (1, [0], 0, ())
    source = source_tokens(["ein  \u00e4\thaus", "", "x"])
    words = [source.text[a:b].tobytes().decode() for a, b in zip(source.start, source.end, strict=True)]
    assert (words, source.ptr.tolist()) == (["ein", "\u00e4", "haus", "x"], [0, 3, 3, 4])
    nothing = source_tokens([])
    assert (nothing.ptr.tolist(), len(nothing.start), len(nothing.end)) == ([0], 0, 0)
    assert string_column(np.array([0, 2, 2, 3]), np.frombuffer(b"abcd", np.uint8)).to_pylist() == ["ab", "", "c"]
